"""The job that trains an encoder on a collection's texts or vectors, and on labels if it has any.

It is for collections that have no encoder yet, or one that learned from other documents; a trained
encoder is improved by labels in a retraining (:mod:`hummingbit.service.jobs.retrain`). Another
process trains, and the encoder is installed in the data folder. If the job names a collection to
create, it then reindexes into it, and moves the alias (:mod:`hummingbit.service.jobs.reindex`).

With `compare`, a sample of the documents is learned from, and some of them are held out. Another
process lets both encoders search for these (:mod:`hummingbit.evaluation.search_trial`), and if that
does not show that the new one finds more, the job ends and changes nothing.
"""

from __future__ import annotations

import json
import math
import random
from collections.abc import Mapping
from dataclasses import asdict, fields, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from hummingbit.encoder.recipes import (
    DOCUMENT_METHODS,
    RECIPES,
    SSB_VAE,
    RecipeError,
    train_arguments,
)
from hummingbit.evaluation.labelling.suggestions import known_labels
from hummingbit.evaluation.search_trial import HELD_OUT_FILE, LEARNED_FILE, TRIAL_FILE
from hummingbit.evaluation.search_trial import REQUEST_FILE as TRIAL_REQUEST_FILE
from hummingbit.foundation.errors import InputError
from hummingbit.foundation.files import replace_file
from hummingbit.index.backend import CollectionBackend
from hummingbit.index.data_folder import DataFolder
from hummingbit.index.passages import passage_texts
from hummingbit.index.records import StoredDocument
from hummingbit.index.store.annotations import agreed_labels
from hummingbit.service.concurrency import WriteGate
from hummingbit.service.jobs.reindex import reindex
from hummingbit.service.jobs.training_process import (
    LOG_FILE,
    TRAINING_FILE,
    Learned,
    do_training,
    hold_lock,
    install,
    run_beside,
    wait_for_process,
    write_documents,
    write_training_files,
)
from hummingbit.service.jobs.work import Progress

MOST = {"epochs": 1000}
"""What a job may ask for at most, beside the bounds of the settings."""
COMMON = ("n_bits", "seed", "max_terms", "analyzer")
"""The settings that every method has, for a training that names none."""
BATCH = 1000
MAX_LEARNED, MAX_CHARACTERS, LONG_DOCUMENTS = 10_000, 4_000_000, 2000
"""The largest sample, in documents and characters; of long ones, so many whatever their length."""
HELD_OUT_SHARE, MAX_HELD_OUT = 0.1, 300
"""What a comparison holds out."""


def settable(method: str | None) -> list[str]:
    """Return the names of the settings of a method; without one, of those that all methods have."""
    if method is None:
        return [*COMMON]
    return [field.name for field in fields(RECIPES[method]) if field.name != "method"]


def check_settings(method: str | None, settings: Mapping[str, Any]) -> None:
    """Check the settings of a training.

    Raises:
        InputError: if the method is unknown, or does not have such a setting or value.
    """
    if method is not None and method not in DOCUMENT_METHODS:
        known_methods = ", ".join(DOCUMENT_METHODS)
        raise InputError("method", f"is {method!r}; it must be one of {known_methods}")
    known = settable(method)
    for name in settings:
        if name not in known:
            of = "all methods (name one for its others)" if method is None else method
            message = f"have no {name!r}; those of {of}: {', '.join(known)}"
            raise InputError("settings", message)
    try:
        RECIPES[method or SSB_VAE](**{"method": method or SSB_VAE, **settings})
    except RecipeError as error:
        raise InputError("settings", str(error)) from None
    for name, most in MOST.items():
        if settings.get(name, 0) > most:
            message = f"have {name} {settings[name]:,}; a job may have {most:,} at most"
            raise InputError("settings", message)


def train(
    folder: DataFolder, gate: WriteGate, progress: Progress, *, elsewhere: bool
) -> dict[str, Any]:
    """Do the job, or the rest of it after an earlier attempt, and return its result."""
    spec = progress.job.spec
    compared: dict[str, Any] = {}
    if (progress.recorded or {}).get("target") is None:
        do_training(progress, partial(_write_training, folder, progress), elsewhere=elsewhere)
        if spec.get("compare"):
            trial = _compare(progress)
            if not trial["passed"]:
                (progress.folder / TRAINING_FILE).unlink(missing_ok=True)
                progress.done = progress.total = trial["documents"]
                return {"encoder": None, "state": "refused", "trial": trial}
        install(folder, progress)
    if spec.get("compare"):
        compared = {"state": "live", "trial": _read_trial(progress)}
    result = _result(folder, spec["encoder"]) | compared
    if spec["into"] is not None:
        result |= reindex(folder, gate, progress)
    elif (source := folder.collections().get(spec["source"])) is not None:
        progress.done = progress.total = len(source)
    # Without this file, no trainer starts again while the job's files are being deleted.
    (progress.folder / TRAINING_FILE).unlink(missing_ok=True)
    return result


def _compare(progress: Progress) -> dict[str, Any]:
    """Let both encoders search for the documents held out, unless an earlier attempt did."""
    progress.step = "comparing"
    progress.advance()
    while not (progress.folder / TRIAL_FILE).exists():
        with hold_lock(progress.folder) as lock:
            if lock is None:  # the process of an attempt before a crash still runs
                wait_for_process(progress)
                continue
            command = ["hummingbit.evaluation.search_trial", str(progress.folder)]
            status = run_beside(command, progress.folder, lock, progress)
        if status != 0:
            log = (progress.folder / LOG_FILE).read_text(encoding="utf-8", errors="replace")
            raise RuntimeError(f"the comparison ended with status {status}: {log[-2000:]}")
    return _read_trial(progress)


def _read_trial(progress: Progress) -> dict[str, Any]:
    trial: dict[str, Any] = json.loads((progress.folder / TRIAL_FILE).read_bytes())
    return trial


def _write_training(folder: DataFolder, progress: Progress) -> None:
    """Write the texts or vectors, the labels and the arguments of training to the job's folder.

    Raises:
        InputError: if no document has a text or a vector, or if the label field of a document holds
            something that is not a label.
    """
    spec = progress.job.spec
    collection = folder.collection(spec["source"])
    if spec.get("compare"):
        documents = sample_of(collection)
    else:
        documents = [
            document
            for document in collection.all_documents()
            if document.text is not None or document.vector is not None
        ]
    if not documents:
        message = f"{collection.name!r} has no text or vector to train on"
        raise InputError("collection", message)
    given = agreed_labels(collection.annotations.labels())
    labels_by_id = known_labels(documents, given, spec["label_field"])
    labelled: list[Learned] = [
        (document, labels_by_id.get(document.id, ())) for document in documents
    ]
    if spec.get("compare"):
        labelled = _hold_out(folder, collection, labelled, progress.folder)
    write_training_files(progress.folder, labelled, _arguments(spec))


def _arguments(spec: Mapping[str, Any]) -> list[str]:
    """Return the arguments of ``hummingbit train``."""
    method, settings = spec["method"], spec["settings"]
    arguments = train_arguments(RECIPES[method or SSB_VAE], settings)
    if method is not None:
        return [method, *arguments]
    # Only commands on this machine give further arguments, which may name files.
    for_search = ["--for-search"] if spec.get("for_search") else []
    return [*arguments, *for_search, *spec.get("arguments", [])]


def sample_of(collection: CollectionBackend) -> list[StoredDocument]:
    """Return at most :data:`MAX_LEARNED` documents with text, each as likely as any other.

    Long documents are fewer, so that training takes about as long. The same documents give the same
    sample.
    """
    rng = random.Random(0)  # noqa: S311 - no secret
    sample: list[StoredDocument] = []
    count = row = 0
    while batch := collection.documents_after(row, BATCH):
        row = batch[-1].row
        for document in batch:
            if not (document.text or "").strip():
                continue
            count += 1
            if len(sample) < MAX_LEARNED:
                sample.append(document)
            elif (position := rng.randrange(count)) < MAX_LEARNED:
                sample[position] = document
    sample.sort(key=lambda document: document.row)
    total = sum(len(document.text or "") for document in sample)
    step = min(total / MAX_CHARACTERS, len(sample) / LONG_DOCUMENTS)
    if step <= 1:
        return sample
    return [sample[int(position)] for position in np.arange(0, len(sample), step)]


def _hold_out(
    folder: DataFolder, collection: CollectionBackend, labelled: list[Learned], path: Path
) -> list[Learned]:
    """Write what a comparison needs, and return what is learned from: documents or passages."""
    n_held_out = min(MAX_HELD_OUT, int(len(labelled) * HELD_OUT_SHARE))
    held_out = {*np.random.default_rng(0).permutation(len(labelled))[:n_held_out].tolist()}
    learned = [labelled[at] for at in range(len(labelled)) if at not in held_out]
    write_documents(path / LEARNED_FILE, learned)
    write_documents(path / HELD_OUT_FILE, [labelled[at] for at in sorted(held_out)])
    name = collection.encoder_name
    request = {
        "current": None if name is None else str(folder.encoders.folder(name).absolute()),
        "passages": None if collection.passages is None else asdict(collection.passages),
        "language": collection.language,
    }
    replace_file(path / TRIAL_REQUEST_FILE, json.dumps(request))
    if collection.passages is None:
        return learned
    passages = [
        (replace(document, text=text), labels)
        for document, labels in learned
        for text in passage_texts(
            document.text or "", collection.passages.split(document.text or "")
        )
    ]
    return passages[:: math.ceil(len(passages) / MAX_LEARNED)]


def _result(folder: DataFolder, name: str) -> dict[str, Any]:
    """Return what the job says of the encoder: `figures` are those of held-out documents."""
    encoder = folder.encoders.load(name)
    return {
        "encoder": name,
        "fingerprint": encoder.fingerprint,
        "method": encoder.metadata.get("method"),
        "n_bits": encoder.n_bits,
        "figures": folder.encoders.figures(name).get("validation") or {},
    }
