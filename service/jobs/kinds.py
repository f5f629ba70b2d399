"""The kinds of jobs, and which of their errors are explained to the client."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import asdict, replace
from functools import partial
from typing import Any

from foundation.errors import HummingbitError, InputError
from index.backend import CollectionBackend
from index.collection import Collection
from index.data_folder import DataFolder
from index.errors import (
    InvalidSnapshot,
    SnapshotError,
    StoreClosed,
    StoreFull,
    UnknownSnapshot,
)
from index.search.empty_results import absent_fields, with_warnings
from index.snapshots.snapshot_files import Snapshot
from service.http.error_table import status_and_code
from service.http.problems import ProblemError, without_path
from service.jobs.bulk.bulk_progress import Resume
from service.jobs.bulk.bulk_writer import INPUT, BulkOptions, BulkWriter, write_file
from service.jobs.duplicates import CLUSTERS_FILE, write_clusters
from service.jobs.evaluation import REPORT_FILE, REQUEST_FILE, RUN_FILE, evaluate
from service.jobs.map import MAP_FILE, POINTS_FILE, draw_map
from service.jobs.reindex import reindex
from service.jobs.retrain import retrain
from service.jobs.work import Kind, Progress
from service.settings import Settings
from service.write_gate import WriteGate

UPLOAD = "snapshot.tar"
# Jobs of a few seconds do not wait for those of hours.
SHORT_BULK_BYTES = 1 << 20
ALL_SHORT = 1 << 62


def explain(error: Exception) -> ProblemError | None:
    """Return the problem that made a job fail, or None if it is an internal error."""
    if isinstance(error, StoreClosed):
        return ProblemError(404, "unknown_collection", "the collection was deleted meanwhile")
    if isinstance(error, SnapshotError) and not isinstance(error, InvalidSnapshot):
        return ProblemError(422, "snapshot_failed", str(error))
    if isinstance(error, StoreFull):
        message = "the disk is full; free some space and start the job again"
        return ProblemError(503, "storage_failed", message)
    entry = status_and_code(error) if isinstance(error, HummingbitError) else None
    if entry is None or entry[0] >= 500:
        return None
    return ProblemError(*entry, str(error))


def kinds_of_jobs(folder: DataFolder, gate: WriteGate, limits: Settings) -> dict[str, Kind]:
    """Return the kinds of jobs that this service runs, by name."""

    def bulk(progress: Progress) -> dict[str, Any]:
        job, resume = progress.job, Resume(folder, progress)
        options = BulkOptions(**job.spec)
        writer = BulkWriter(folder, gate, job.collection, limits, options, resume=resume)
        write_file(progress.folder / INPUT, writer, progress)
        resume.end()
        return writer.result.to_dict()

    return {
        "bulk": Kind(bulk, short_bytes=SHORT_BULK_BYTES, continues=True),
        "evaluation": Kind(
            lambda progress: evaluate(folder, limits, progress),
            only_lane="evaluation",
            kept_files=frozenset({REPORT_FILE, REQUEST_FILE, RUN_FILE}),
            in_slices=True,
        ),
        "map": Kind(
            lambda progress: draw_map(folder, progress),
            only_lane="analysis",
            kept_files=frozenset({MAP_FILE, POINTS_FILE}),
            in_slices=True,
        ),
        "duplicates": Kind(
            lambda progress: write_clusters(folder, progress),
            only_lane="analysis",
            kept_files=frozenset({CLUSTERS_FILE}),
            in_slices=True,
        ),
        "reindex": Kind(lambda progress: reindex(folder, gate, progress)),
        "retrain": Kind(
            lambda progress: retrain(
                folder, gate, progress, elsewhere=limits.training == "elsewhere"
            ),
            counted=False,
            only_lane="training",
        ),
        "snapshot": Kind(lambda progress: _snapshot(folder, progress)),
        "upload": Kind(lambda progress: _upload(folder, progress), counted=False),
        "restore": Kind(lambda progress: _restore(folder, progress)),
        "verify": Kind(
            lambda progress: _run_uninterrupted(
                folder, progress, "checking", partial(verify, folder=folder)
            ),
            short_bytes=ALL_SHORT,
            in_slices=True,
        ),
        "compact": Kind(
            lambda progress: _run_uninterrupted(folder, progress, "compacting", compact)
        ),
        "index_fields": Kind(lambda progress: _index_fields(folder, progress)),
    }


def snapshot_record(snapshot: Snapshot) -> dict[str, Any]:
    """Return what :class:`service.schemas.collections.snapshots.SnapshotInfo` describes."""
    contents = asdict(snapshot.contents)
    del contents["store_sha256"], contents["format_version"]
    return {"id": snapshot.id, **contents, "bytes": snapshot.bytes, "sha256": snapshot.sha256}


def verify(collection: CollectionBackend, folder: DataFolder) -> dict[str, Any]:
    """Verify, and return what :class:`service.schemas.jobs.jobs.VerificationInfo` describes."""
    verification = collection.verify()
    problems = [without_path(problem, folder) for problem in verification.problems]
    return asdict(replace(verification, problems=problems))


def compact(collection: CollectionBackend) -> dict[str, Any]:
    """Compact, and return what :class:`service.schemas.jobs.jobs.CompactionInfo` describes."""
    before = collection.bytes_on_disk()
    collection.compact()
    return {"bytes_before": before, "bytes_after": collection.bytes_on_disk()}


def index_fields(
    collection: CollectionBackend,
    fields: Sequence[str],
    progress: Callable[[], object] | None = None,
) -> dict[str, Any]:
    """Index the fields, and return what IndexedFieldsInfo in :mod:`service.schemas` describes."""
    collection.set_indexed_fields(fields, progress)
    result: dict[str, Any] = {"indexed_fields": [*collection.indexed_fields]}
    return with_warnings(result, absent_fields(collection, fields))


def _index_fields(folder: DataFolder, progress: Progress) -> dict[str, Any]:
    progress.step = "indexing"
    collection = folder.collection(progress.job.collection)
    return index_fields(collection, progress.job.spec["fields"], progress.advance)


def _run_uninterrupted(
    folder: DataFolder,
    progress: Progress,
    step: str,
    work: Callable[[CollectionBackend], dict[str, Any]],
) -> dict[str, Any]:
    """Do work that cannot be stopped once it has begun."""
    progress.step = step
    collection = folder.collection(progress.job.collection)
    progress.advance(total=len(collection))
    result = work(collection)
    progress.done = progress.total = len(collection)
    return result


def _snapshot(folder: DataFolder, progress: Progress) -> dict[str, Any]:
    id_ = (progress.recorded or {}).get("snapshot")
    if id_ is not None:
        with suppress(UnknownSnapshot):
            return snapshot_record(folder.snapshots.get(id_))
    progress.step = "copying"

    def record(id_: str) -> None:
        progress.pass_no_return({"snapshot": id_})

    return snapshot_record(folder.create_snapshot(progress.job.collection, record))


def _upload(folder: DataFolder, progress: Progress) -> dict[str, Any]:
    progress.step = "checking"
    # A link, so that the job keeps its file for another attempt until it is done.
    return snapshot_record(folder.snapshots.add(progress.folder / UPLOAD, link=True))


def _restore(folder: DataFolder, progress: Progress) -> dict[str, Any]:
    id_ = (progress.recorded or {}).get("collection")
    restored = None if id_ is None else folder.published_draft(id_)
    if restored is None:

        def record(id_: str) -> None:
            progress.pass_no_return({"collection": id_})

        progress.step = "checking"
        tar = folder.snapshots.file(progress.job.spec["snapshot"])
        restored = folder.restore_snapshot(tar, progress.job.collection, record)
    return {"collection": restored.name, "documents": len(restored)}


def local_collection(collection: CollectionBackend) -> Collection:
    """Return the collection if it is stored in the data folder.

    Raises:
        InputError: if it is stored elsewhere.
    """
    if not isinstance(collection, Collection):
        message = f"collection {collection.name!r} is not in the service's data folder"
        raise InputError("collection", message)
    return collection
