"""What is done in the background: each kind of job, and which errors are whose fault."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict
from typing import Any

from evaluation.metrics.names import MetricError
from evaluation.result import EvaluationError
from index.aliases import AddAlias
from index.backend import CollectionBackend
from index.collection import Collection
from index.data_folder import DataFolder
from index.errors import (
    CollectionExists,
    EncoderMismatch,
    InputError,
    InvalidSnapshot,
    SnapshotError,
    UnknownCollection,
    UnknownEncoder,
    UnknownSnapshot,
)
from index.reindex import copy_following, delete_missing
from index.snapshots import Snapshot
from service.http.problems import ProblemError
from service.jobs.bulk import INPUT, BulkOptions, BulkWriter, write_file
from service.jobs.evaluation import evaluate
from service.jobs.runner import Progress, Work
from service.settings import Settings
from service.write_gate import WriteGate

UPLOAD = "snapshot.tar"

_CODES: Mapping[type[Exception], tuple[int, str]] = {
    UnknownCollection: (404, "unknown_collection"),
    UnknownEncoder: (422, "unknown_encoder"),
    UnknownSnapshot: (404, "unknown_snapshot"),
    CollectionExists: (409, "collection_exists"),
    EncoderMismatch: (409, "encoder_mismatch"),
    InvalidSnapshot: (422, "invalid_snapshot"),
    SnapshotError: (422, "snapshot_failed"),
    EvaluationError: (422, "cannot_evaluate"),
    MetricError: (422, "invalid_request"),
    InputError: (422, "invalid_request"),
}


def explain(error: Exception) -> ProblemError | None:
    """Return the problem of a job whose request cannot be done; None of any other error."""
    for kind, (status, code) in _CODES.items():
        if isinstance(error, kind):
            return ProblemError(status, code, str(error))
    return None


def kinds_of_work(folder: DataFolder, gate: WriteGate, limits: Settings) -> dict[str, Work]:
    """Return what does the jobs that this service takes."""

    def bulk(progress: Progress) -> dict[str, Any]:
        job = progress.job
        writer = BulkWriter(folder, gate, job.collection, limits, BulkOptions(**job.spec))
        return write_file(progress.folder / INPUT, writer, progress)

    return {
        "bulk": bulk,
        "evaluation": lambda progress: evaluate(folder, limits, progress),
        "reindex": lambda progress: _reindex(folder, gate, progress),
        "snapshot": lambda progress: _snapshot(folder, progress),
        "upload": lambda progress: _upload(folder, progress),
        "restore": lambda progress: _restore(folder, progress),
        "verify": lambda progress: _at_once(folder, progress, "checking", verify),
        "compact": lambda progress: _at_once(folder, progress, "compacting", compact),
    }


def snapshot_record(snapshot: Snapshot) -> dict[str, Any]:
    """Return what is told of a snapshot."""
    contents = asdict(snapshot.contents)
    del contents["store_sha256"], contents["format_version"]
    return {"id": snapshot.id, **contents, "bytes": snapshot.bytes, "sha256": snapshot.sha256}


def verify(collection: CollectionBackend) -> dict[str, Any]:
    """Return what :class:`service.schemas.jobs.VerificationInfo` describes."""
    return asdict(collection.verify())


def compact(collection: CollectionBackend) -> dict[str, Any]:
    """Compact, and return what :class:`service.schemas.jobs.CompactionInfo` describes."""
    before = collection.bytes_on_disk()
    collection.compact()
    return {"bytes_before": before, "bytes_after": collection.bytes_on_disk()}


def _at_once(
    folder: DataFolder,
    progress: Progress,
    step: str,
    work: Callable[[CollectionBackend], dict[str, Any]],
) -> dict[str, Any]:
    """Do what cannot be stopped once it is begun."""
    progress.step = step
    collection = folder.collection(progress.job.collection)
    progress.advance(total=len(collection))
    done = work(collection)
    progress.done = progress.total = len(collection)
    return done


def _reindex(folder: DataFolder, gate: WriteGate, progress: Progress) -> dict[str, Any]:
    spec = progress.job.spec
    source = folder.collection(spec["source"])
    if progress.job.attempts == 1 and spec["into"] in folder.collections():
        raise CollectionExists(f"collection {spec['into']!a} exists already")
    target = folder.create_collection(spec["into"], encoder=spec["encoder"], engine=spec["engine"])
    try:
        progress.step = "encoding"
        progress.advance(total=len(source))
        row = copy_following(source, target, 0, progress.advance)
        progress.step = "catching up"
        # What is written during one round is copied in the next, which is shorter.
        while source.following(row, 1000)[999:]:
            row = copy_following(source, target, row, progress.advance)
        with gate.closed():
            copy_following(source, target, row)
            delete_missing(source, target)
            if spec["alias"] is not None:
                folder.change_aliases([AddAlias(spec["alias"], spec["into"])])
    except Exception:
        if not progress.ending.is_set():
            folder.drop_collection(spec["into"])
        raise
    progress.done = progress.total = len(target)
    return {"collection": target.name, "documents": len(target), "alias": spec["alias"]}


def _snapshot(folder: DataFolder, progress: Progress) -> dict[str, Any]:
    progress.step = "copying"
    return snapshot_record(folder.create_snapshot(progress.job.collection))


def _upload(folder: DataFolder, progress: Progress) -> dict[str, Any]:
    progress.step = "checking"
    # The job keeps its file until it is done, so that it can be done again.
    return snapshot_record(folder.snapshots().add(progress.folder / UPLOAD, link=True))


def _restore(folder: DataFolder, progress: Progress) -> dict[str, Any]:
    name = progress.job.collection
    if progress.job.attempts > 1 and name in folder.collections():
        # The service ended between the last step and the record of it.
        return {"collection": name, "documents": len(folder.collection(name))}
    progress.step = "checking"
    tar = folder.snapshots().file(progress.job.spec["snapshot"])
    restored = folder.restore_snapshot(tar, name)
    return {"collection": restored.name, "documents": len(restored)}


def local(collection: CollectionBackend) -> Collection:
    """Return a collection that lies in the data folder.

    Raises:
        InputError: if it lies elsewhere.
    """
    if not isinstance(collection, Collection):
        message = f"collection {collection.name!a} does not lie in the service's data folder"
        raise InputError("collection", message)
    return collection
