"""The job that trains an encoder on a collection's texts or vectors, and on labels if it has any.

It is for collections that have no encoder yet, or one that learned from other documents; a trained
encoder is improved by labels in a retraining (:mod:`hummingbit.service.jobs.retrain`). Another
process trains, and the encoder is installed in the data folder. If the job names a collection to
create, it then reindexes into it, and moves the alias (:mod:`hummingbit.service.jobs.reindex`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from functools import partial
from typing import Any

from hummingbit.encoder.recipes import (
    DOCUMENT_METHODS,
    RECIPES,
    SSB_VAE,
    RecipeError,
    train_arguments,
)
from hummingbit.evaluation.labelling.suggestions import known_labels
from hummingbit.foundation.errors import InputError
from hummingbit.index.data_folder import DataFolder
from hummingbit.index.store.annotations import agreed_labels
from hummingbit.service.concurrency import WriteGate
from hummingbit.service.jobs.reindex import reindex
from hummingbit.service.jobs.training_process import (
    TRAINING_FILE,
    do_training,
    install,
    write_training_files,
)
from hummingbit.service.jobs.work import Progress

COMMON = ("n_bits", "seed", "max_terms", "analyzer")
"""The settings that every method has, for a training that names none."""


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


def train(
    folder: DataFolder, gate: WriteGate, progress: Progress, *, elsewhere: bool
) -> dict[str, Any]:
    """Do the job, or the rest of it after an earlier attempt, and return its result."""
    spec = progress.job.spec
    if (progress.recorded or {}).get("target") is None:
        write = partial(_write_training, folder, progress)
        do_training(progress, write, elsewhere=elsewhere)
        install(folder, progress)
    result = _result(folder, spec["encoder"])
    if spec["into"] is not None:
        result |= reindex(folder, gate, progress)
    elif (source := folder.collections().get(spec["source"])) is not None:
        progress.done = progress.total = len(source)
    # Without this file, no trainer starts again while the job's files are being deleted.
    (progress.folder / TRAINING_FILE).unlink(missing_ok=True)
    return result


def _write_training(folder: DataFolder, progress: Progress) -> None:
    """Write the texts or vectors, the labels and the arguments of training to the job's folder.

    Raises:
        InputError: if no document has a text or a vector, or if the label field of a document holds
            something that is not a label.
    """
    spec = progress.job.spec
    collection = folder.collection(spec["source"])
    documents = [
        document
        for document in collection.all_documents()
        if document.text is not None or document.vector is not None
    ]
    if not documents:
        message = f"{collection.name!r} has no text or vector to train on"
        raise InputError("collection", message)
    given = {} if collection.annotations is None else agreed_labels(collection.annotations.labels())
    labels_by_id = known_labels(documents, given, spec["label_field"])
    method, settings = spec["method"], spec["settings"]
    arguments = train_arguments(RECIPES[method or SSB_VAE], settings)
    if method is not None:
        arguments.insert(0, method)
    labelled = ((document, labels_by_id.get(document.id, ())) for document in documents)
    write_training_files(progress.folder, labelled, arguments)


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
