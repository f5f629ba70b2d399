"""The job that makes a better encoder of a collection's labels.

It writes the collection's texts and labels into its folder, less the labels that it holds out, has
an encoder trained there by another process, and lets it and the encoder in use search for the
documents held out. Where the gate passes, the new encoder joins the data folder. A person then
confirms, which begins a reindexing; or the job was told to go on by itself, and reindexes, which
moves the alias. Each step leaves a file and is not done again by a later attempt; the reindexing
has its own point of no return (:mod:`service.jobs.reindex`).
"""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from encoder.artifact import load_encoder
from encoder.encoder import Encoder
from encoder.spd_features import SpdFeatures
from evaluation.labelling.suggesting import known_labels
from evaluation.labelling.trial import Trial, compare_encoders, hold_out_labels
from evaluation.relevance import Labelled
from foundation.errors import InputError
from foundation.files import replace_file
from index.annotations.annotation_records import agreed_labels
from index.collection import Collection
from index.data_folder import DataFolder
from index.records import StoredDocument
from service.jobs.reindex import reindex
from service.jobs.training_process import (
    DATA_FILE,
    ENCODER_FOLDER,
    LOCK_FILE,
    TRAINING_FILE,
    train_in,
)
from service.jobs.work import Progress
from service.write_gate import WriteGate

SPLIT_FILE = "split.json"
TRIAL_FILE = "trial.json"
# What a new encoder takes over of the one in use, where that was trained in the same way.
KEPT_SETTINGS = (
    "analyzer",
    "hidden",
    "max_terms",
    "content_share",
    "word_dropout",
    "epochs",
    "least_batches",
)
METHOD = "ssb-vae"


def retrain(
    folder: DataFolder, gate: WriteGate, progress: Progress, *, elsewhere: bool
) -> dict[str, Any]:
    """Do the job, or what an earlier attempt left of it, and return its result."""
    spec = progress.job.spec
    if (progress.recorded or {}).get("target") is None:
        collection = folder.collection(spec["source"])
        assert isinstance(collection, Collection)  # noqa: S101 - the route has checked it
        artifact = progress.folder / ENCODER_FOLDER
        if not (progress.folder / TRIAL_FILE).exists():
            _train_and_try(folder, collection, progress, elsewhere=elsewhere)
        # No trainer begins again while the files are deleted.
        (progress.folder / TRAINING_FILE).unlink(missing_ok=True)
        if not _read_trial(progress)["passed"]:
            return {**_result(progress), "encoder": None, "state": "refused"}
        progress.step = "installing"
        progress.advance()
        _install(folder, artifact, spec["encoder"])
        if not spec["auto"]:
            return {**_result(progress), "state": "waiting for confirmation"}
    done = reindex(folder, gate, progress)
    return {**_result(progress), **done, "state": "live"}


def _train_and_try(
    folder: DataFolder, collection: Collection, progress: Progress, *, elsewhere: bool
) -> None:
    """Have an encoder trained and judged; the trial is in the job's folder after."""
    if not (progress.folder / TRAINING_FILE).exists():
        progress.step = "reading"
        write_training(folder, collection, progress)
    progress.step = "training"
    progress.advance()
    artifact = train_in(progress, elsewhere=elsewhere)
    progress.step = "evaluating"
    progress.advance()
    _write_trial(collection, artifact, progress)


def check_retrainable(collection: Collection) -> Encoder:
    """Return the encoder of a collection that can be retrained.

    Raises:
        InputError: if it has none, or one of matrices.
    """
    encoder = collection.encoder
    if encoder is None:
        message = f"collection {collection.name!a} has no encoder; its documents bring codes"
        raise InputError("collection", message)
    if isinstance(encoder.features, SpdFeatures):
        raise InputError("collection", "an encoder of matrices is trained by train metric only")
    return encoder


def write_training(folder: DataFolder, collection: Collection, progress: Progress) -> None:
    """Write the texts or vectors and the labels to train on, and how, into the job's folder.

    Raises:
        EvaluationError: if the labels are too few.
        InputError: if the label field holds something that is no label in some document.
    """
    spec, encoder = progress.job.spec, check_retrainable(collection)
    progress.advance(total=len(collection))
    documents = collection.all_documents()
    given = agreed_labels(collection.annotations.labels())
    known = known_labels(documents, given, spec["label_field"])
    shown = folder.encoders.labelled_ids(str(collection.encoder_name))
    held = hold_out_labels(known, shown, spec["held_out"], spec["seed"])
    with (progress.folder / DATA_FILE).open("w", encoding="utf-8") as file:
        hidden = set(held)
        for document in documents:
            labels = () if document.id in hidden else known.get(document.id, ())
            file.write(json.dumps(_record(document, labels), ensure_ascii=False) + "\n")
    split = {
        "held_out": held,
        "labels": {id_: list(labels) for id_, labels in known.items() if labels},
        "seen": len(set(held) & set(shown)),
    }
    replace_file(progress.folder / SPLIT_FILE, json.dumps(split, ensure_ascii=False))
    (progress.folder / LOCK_FILE).touch()
    replace_file(progress.folder / TRAINING_FILE, json.dumps(_arguments(encoder, spec)))


def _record(document: StoredDocument, labels: tuple[str, ...]) -> dict[str, Any]:
    content: dict[str, Any] = {"id": document.id, "text": document.text}
    if document.vector is not None:
        content = {"id": document.id, "vector": document.vector.tolist()}
    return {**content, "labels": list(labels)} if labels else content


def _arguments(encoder: Encoder, spec: dict[str, Any]) -> list[str]:
    """Return the arguments of ``hummingbit train``: as the encoder in use was trained."""
    recipe = encoder.metadata.get("recipe", {})
    same = isinstance(recipe, dict) and recipe.get("method") == METHOD
    inherited = {name: recipe[name] for name in KEPT_SETTINGS if same and name in recipe}
    if spec["epochs"] is not None:
        # Fewer passes are wanted than small corpora get by default.
        inherited |= {"epochs": spec["epochs"], "least_batches": 0}
    settings = {
        **inherited,
        "bits": spec["n_bits"] or encoder.n_bits,
        "seed": spec["seed"],
        "supervision": 1.0,
        "validation_share": 0.0,
    }
    arguments = [METHOD]
    for name, value in settings.items():
        arguments += ["--" + name.replace("_", "-"), str(value)]
    return arguments


def _write_trial(collection: Collection, artifact: Path, progress: Progress) -> None:
    split = json.loads((progress.folder / SPLIT_FILE).read_bytes())
    labels: dict[str, list[str]] = split["labels"]
    held = set(split["held_out"])
    queries: list[StoredDocument] = []
    database: list[StoredDocument] = []
    for document in collection.all_documents():
        if document.id in labels:
            (queries if document.id in held else database).append(document)
    trial = compare_encoders(
        check_retrainable(collection),
        load_encoder(artifact),
        _labelled(database, labels),
        _labelled(queries, labels),
        progress.job.spec["min_gain"],
    )
    replace_file(progress.folder / TRIAL_FILE, json.dumps(_trial_to_json(trial, split["seen"])))


def _labelled(documents: list[StoredDocument], labels: dict[str, list[str]]) -> Labelled:
    names = [tuple(labels[one.id]) for one in documents]
    if all(one.text is not None for one in documents):
        return Labelled([str(one.text) for one in documents], names)
    return Labelled(np.stack([one.vector for one in documents if one.vector is not None]), names)


def _trial_to_json(trial: Trial, seen: int) -> dict[str, Any]:
    return {
        **asdict(trial),
        "gain": trial.gain,
        "passed": trial.passed,
        "seen_by_current": seen,
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


def _install(folder: DataFolder, artifact: Path, name: str) -> None:
    """Copy the encoder into the data folder, unless an earlier attempt did."""
    fingerprint = load_encoder(artifact).fingerprint
    if name not in folder.encoders.with_fingerprint(fingerprint):
        folder.encoders.install(artifact, name)
