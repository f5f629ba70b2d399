"""The job that trains a better encoder from a collection's labels.

It writes the collection's texts and labels into its folder, except the labels that it holds out.
Another process trains an encoder there, and the new encoder and the one in use are compared on the
held-out documents. If the gate passes, the new encoder is installed in the data folder. A person
then confirms, which starts a reindexing; with `auto`, the job itself reindexes and moves the alias.
Each step leaves a file, so that a later attempt does not repeat it; the reindexing has its own
point of no return (:mod:`hummingbit.service.jobs.reindex`).
"""

from __future__ import annotations

import json
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from hummingbit.encoder.artifact import install_artifact, learned_from, load_encoder
from hummingbit.encoder.encoder import Encoder, LanguageModel
from hummingbit.encoder.recipes import (
    CLASS_CODES,
    FORMER_METHODS,
    METRIC,
    MODEL,
    PAIRS,
    RECIPES,
    SSB_VAE,
    WORD_VECTOR_CLASSIFIERS,
    lost_settings,
    retraining_settings,
    train_arguments,
)
from hummingbit.encoder.text_features import TextFeatures
from hummingbit.encoder.text_model import TextModel
from hummingbit.encoder.vector_features import SpdFeatures
from hummingbit.evaluation.labelling.suggestions import known_labels
from hummingbit.evaluation.labelling.trial import Trial, compare_encoders, hold_out_labels
from hummingbit.evaluation.relevance import Labelled
from hummingbit.evaluation.result import EvaluationError
from hummingbit.foundation.errors import InputError
from hummingbit.foundation.files import replace_file
from hummingbit.index.collection import Collection
from hummingbit.index.data_folder import DataFolder
from hummingbit.index.records import StoredDocument
from hummingbit.index.store.annotations import agreed_labels
from hummingbit.service.concurrency import WriteGate
from hummingbit.service.jobs.reindex import reindex
from hummingbit.service.jobs.training_process import (
    MODEL_FOLDER,
    TRAINING_FILE,
    do_training,
    install,
    write_training_files,
)
from hummingbit.service.jobs.work import Progress

LABEL = "label"
"""The payload field to which imports of documents copy their label."""
SPLIT_FILE = "split.json"
TRIAL_FILE = "trial.json"


def retrain(
    folder: DataFolder, gate: WriteGate, progress: Progress, *, elsewhere: bool
) -> dict[str, Any]:
    """Do the job, or the rest of it after an earlier attempt, and return its result."""
    spec = progress.job.spec
    if (progress.recorded or {}).get("target") is None:
        collection = folder.collection(spec["source"])
        if not (progress.folder / TRIAL_FILE).exists():
            write = partial(write_training, folder, collection, progress)
            artifact = do_training(progress, write, elsewhere=elsewhere)
            progress.step = "evaluating"
            progress.advance()
            _write_trial(collection, artifact, progress)
        # Without this file, no trainer starts again while the job's files are being deleted.
        (progress.folder / TRAINING_FILE).unlink(missing_ok=True)
        if not _read_trial(progress)["passed"]:
            progress.done = progress.total = len(collection)
            return {**_result(progress), "encoder": None, "state": "refused"}
        install(folder, progress)
        if not spec["auto"]:
            progress.done = progress.total = len(collection)
            return {**_result(progress), "state": "waiting for confirmation"}
    result = reindex(folder, gate, progress)
    return {**_result(progress), **result, "state": "live"}


def check_retrainable(collection: Collection) -> Encoder:
    """Return the collection's encoder, which can be retrained.

    Raises:
        InputError: if the collection has no encoder, or one of matrices or of a language model.
    """
    encoder = collection.encoder
    if encoder is None:
        message = f"collection {collection.name!r} has no encoder: its documents come with codes"
        raise InputError("collection", message)
    if isinstance(encoder.features, SpdFeatures):
        message = "an encoder of matrices cannot be retrained here; use hummingbit train metric"
        raise InputError("collection", message)
    if isinstance(encoder.features, LanguageModel) and encoder.class_code is None:
        message = (
            f"encoder {collection.encoder_name!r} is a language model's (method {MODEL}), whose"
            " head learns nothing from labels; train another with hummingbit train model --head"
            " class-codes, and reindex"
        )
        raise InputError("collection", message)
    return encoder


def write_training(folder: DataFolder, collection: Collection, progress: Progress) -> None:
    """Write the texts or vectors, the labels and the arguments of training to the job's folder.

    Raises:
        EvaluationError: if the labels are too few.
        InputError: if the label field of a document holds something that is not a label.
    """
    spec, encoder = progress.job.spec, check_retrainable(collection)
    documents = collection.all_documents()
    agreed = agreed_labels(collection.annotations.labels())
    labels_by_id = known_labels(documents, agreed, spec["label_field"])
    # The labels that the encoder in use was trained on.
    trained_ids = folder.encoders.labelled_ids(str(collection.encoder_name))
    try:
        held_out = hold_out_labels(labels_by_id, trained_ids, spec["held_out"], spec["seed"])
    except EvaluationError as error:
        if spec["label_field"] is None and any(LABEL in document.payload for document in documents):
            message = f"{error}; those of the payload field {LABEL!r} count if label_field names it"
            raise EvaluationError(message) from error
        raise
    split = {
        "held_out": held_out,
        "labels": {id_: list(labels) for id_, labels in labels_by_id.items() if labels},
        "seen": len(set(held_out) & set(trained_ids)),
    }
    replace_file(progress.folder / SPLIT_FILE, json.dumps(split, ensure_ascii=False))
    several = any(len(labels) > 1 for labels in labels_by_id.values())
    arguments = _arguments(encoder, spec, several_labels=several)
    model = progress.folder / MODEL_FOLDER
    if arguments[0] == MODEL and isinstance(encoder.features, TextModel) and not model.exists():
        install_artifact(folder.encoders.folder(str(collection.encoder_name)), model)
    hidden = set(held_out)
    shown = {id_: labels for id_, labels in labels_by_id.items() if id_ not in hidden}
    labelled = ((document, shown.get(document.id, ())) for document in documents)
    write_training_files(progress.folder, labelled, arguments)


def _arguments(encoder: Encoder, spec: dict[str, Any], *, several_labels: bool) -> list[str]:
    """Return the arguments of ``hummingbit train``, with the settings of the encoder in use."""
    recorded = encoder.metadata.get("recipe")
    kept = recorded if isinstance(recorded, dict) else {}
    is_text = isinstance(encoder.features, TextFeatures)
    if kept.get("method") == MODEL and isinstance(encoder.features, TextModel):
        # The job's folder has the model, and the encoder says only its name.
        kept = {name: value for name, value in kept.items() if name != "model"}
    method = _method(kept, can_have_class_codes=is_text or not several_labels)
    settings = retraining_settings(kept, method)
    if settings.get("query_classifier") in WORD_VECTOR_CLASSIFIERS:
        del settings["query_classifier"]
    if spec["epochs"] is not None and method not in (CLASS_CODES, MODEL):
        settings |= {"epochs": spec["epochs"]}
    settings |= {
        "n_bits": spec["n_bits"] or encoder.n_bits,
        "seed": spec["seed"],
        "label_fraction": 1.0,
        "validation_share": 0.0,
    }
    return [method, *train_arguments(RECIPES[method], settings)]


def _method(recipe: dict[str, Any], *, can_have_class_codes: bool) -> str:
    """Return the method that trained the encoder in use if labels alone suffice for it.

    Otherwise, as for encoders that were trained without labels, it is ssb-vae.
    """
    method = str(recipe.get("method"))
    if method in (CLASS_CODES, MODEL):
        is_kept = can_have_class_codes
    elif method == METRIC:
        is_kept = recipe.get("similarity") != PAIRS and "similarity_sha256" not in recipe
    else:
        is_kept = method == SSB_VAE
    return method if is_kept else SSB_VAE


def _write_trial(collection: Collection, artifact: Path, progress: Progress) -> None:
    """Compare the trained encoder with the one in use; write the trial to the job's folder."""
    split = json.loads((progress.folder / SPLIT_FILE).read_bytes())
    labels: dict[str, list[str]] = split["labels"]
    held_out = set(split["held_out"])
    queries: list[StoredDocument] = []
    database: list[StoredDocument] = []
    for document in collection.all_documents():
        if document.id in labels:
            (queries if document.id in held_out else database).append(document)
    current = check_retrainable(collection)
    trial = compare_encoders(
        current,
        load_encoder(artifact),
        _labelled(database, labels),
        _labelled(queries, labels),
        progress.job.spec["min_gain"],
        seen=split["seen"],
        # A job of an earlier version has no such setting.
        accept_uncertain=progress.job.spec.get("accept_uncertain", False),
    )
    warnings = [
        f"the encoder in use learned from the {source}, which retraining does not have"
        for source in learned_from(current.metadata)
    ]
    warnings += _lost(current.metadata.get("recipe"))
    result = _trial_to_json(trial, warnings)
    replace_file(progress.folder / TRIAL_FILE, json.dumps(result))


def _lost(recorded: Any) -> list[str]:
    """Return a sentence about what the encoder in use was trained with and no training has now."""
    if not isinstance(recorded, dict):
        return []
    method = str(recorded.get("method"))
    if method in FORMER_METHODS:
        return [f"the encoder in use was trained by {method}, and the new one by {SSB_VAE}"]
    lost = lost_settings(RECIPES[method], recorded) if method in RECIPES else {}
    if not lost:
        return []
    found = ", ".join(f"{name} {value}" for name, value in lost.items())
    return [f"the encoder in use was trained with settings that training no longer has: {found}"]


def _labelled(documents: list[StoredDocument], labels: dict[str, list[str]]) -> Labelled:
    names = [tuple(labels[document.id]) for document in documents]
    if all(document.text is not None for document in documents):
        return Labelled([str(document.text) for document in documents], names)
    vectors = [document.vector for document in documents if document.vector is not None]
    return Labelled(np.stack(vectors), names)


def _trial_to_json(trial: Trial, warnings: list[str]) -> dict[str, Any]:
    fields = asdict(trial)
    return {
        "uncertainty": trial.uncertainty,
        **fields,
        "gain": trial.gain,
        "passed": trial.passed,
        "seen_by_current": fields.pop("seen"),
        "warnings": warnings,
    }


def _read_trial(progress: Progress) -> dict[str, Any]:
    trial: dict[str, Any] = json.loads((progress.folder / TRIAL_FILE).read_bytes())
    return trial


def _result(progress: Progress) -> dict[str, Any]:
    spec = progress.job.spec
    return {
        "encoder": spec["encoder"],
        "trial": _read_trial(progress),
        "source": spec["source"],
        "into": spec["into"],
        "alias": spec["alias"],
    }
