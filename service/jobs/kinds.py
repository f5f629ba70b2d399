"""The kinds of jobs, and which of their errors are explained to the client."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict, fields
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, Literal

from hummingbit.corpus.document import Document
from hummingbit.evaluation.rankings import RelevanceSettings
from hummingbit.evaluation.report import read_training_labels, run_job, write_report
from hummingbit.foundation.errors import HummingbitError
from hummingbit.foundation.files import replace_file, replacing
from hummingbit.index.backend import CollectionBackend
from hummingbit.index.data_folder import DataFolder
from hummingbit.index.duplicates import DuplicateCriteria, find_duplicates
from hummingbit.index.errors import (
    InvalidSnapshot,
    SnapshotError,
    StoreClosed,
    StoreFull,
    UnknownSnapshot,
)
from hummingbit.index.search import with_warnings
from hummingbit.index.snapshots import Snapshot
from hummingbit.service.concurrency import WriteGate
from hummingbit.service.http.bodies import parse_json, validate
from hummingbit.service.http.problems import ProblemError, entry_of, invalid_field, without_path
from hummingbit.service.jobs.bulk import INPUT, BulkOptions, BulkWriter, Resume, write_file
from hummingbit.service.jobs.map import MAP_FILE, POINTS_FILE, draw_map
from hummingbit.service.jobs.reindex import reindex
from hummingbit.service.jobs.retrain import retrain
from hummingbit.service.jobs.train import train
from hummingbit.service.jobs.training_process import LOG_FILE
from hummingbit.service.jobs.work import Kind, Progress
from hummingbit.service.schemas.common import parse_item
from hummingbit.service.schemas.jobs import EvaluateRequest
from hummingbit.service.settings import Settings

CLUSTERS_FILE = "clusters.jsonl"
FURTHER_FILE = "further.jsonl"
MAX_LISTED = 1000
"""The most ids of a cluster in :data:`CLUSTERS_FILE`, oldest first; all others are in
:data:`FURTHER_FILE`."""
DELETED_AT_ONCE = 1000
Keep = Literal["oldest", "newest"]


def write_clusters(folder: DataFolder, progress: Progress) -> dict[str, Any]:
    """Find the clusters and write them into the job's folder, one line each.

    Raises:
        InputError: if the criteria do not suit the collection.
    """
    collection = folder.collection(progress.job.collection)
    progress.show_percent("reading", 0, 1)
    last_row = collection.last_row
    n_clusters = n_newer = 0
    with (
        replacing(progress.folder / CLUSTERS_FILE) as path,
        replacing(progress.folder / FURTHER_FILE) as further_path,
        path.open("w", encoding="utf-8") as file,
        further_path.open("w", encoding="utf-8") as further,
    ):
        criteria = DuplicateCriteria(**progress.job.spec)
        for ids in find_duplicates(collection, criteria, progress.show_percent):
            cluster = {"size": len(ids), "ids": ids[:MAX_LISTED], "newest": ids[-1]}
            file.write(json.dumps(cluster, ensure_ascii=False) + "\n")
            if len(ids) > MAX_LISTED:
                left = json.dumps([n_clusters, ids[MAX_LISTED:]], ensure_ascii=False)
                further.write(left + "\n")
            n_clusters += 1
            n_newer += len(ids) - 1
            progress.advance()
    progress.show_percent("comparing", 1, 1)
    return {
        "clusters": n_clusters,
        "documents_with_an_older_duplicate": n_newer,
        "last_row": last_row,
        "duplicates": f"/v1/duplicates/{progress.job.id}",
    }


def read_clusters(folder: Path, offset: int, limit: int) -> Iterator[dict[str, Any]]:
    """Yield at most `limit` clusters from a finished job's folder, after the first `offset`."""
    with (folder / CLUSTERS_FILE).open(encoding="utf-8") as file:
        for line in islice(file, offset, offset + limit):
            yield json.loads(line)


def delete_duplicates(folder: DataFolder, gate: WriteGate, progress: Progress) -> dict[str, Any]:
    """Delete all documents but one of each cluster in the job's folder, a batch at a time.

    The oldest or the newest is kept, as the job says, of those that are still stored as they were
    found. Documents that were written since are left, and so are those that a cancelled job did not
    reach. A repeated attempt deletes what is left.
    """
    spec = progress.job.spec
    keep: Keep = spec["keep"]
    progress.step = "deleting"
    progress.advance(total=spec["documents"])
    counts = {"deleted": 0, "changed": 0, **(progress.recorded or {})}
    kept: dict[int, str] = {}
    members = _members(progress.folder, newest_first=keep == "newest")
    while batch := [*islice(members, DELETED_AT_ONCE)]:
        # No writer may come between the check that a document is as it was found and its deletion.
        with gate.closed():
            collection = folder.collection(progress.job.collection)
            # The batch may begin within a cluster, whose kept document must still be there.
            ids = [*kept.values(), *(id_ for _, id_ in batch)]
            rows = {
                document.id: document.row
                for document in collection.get_many(ids)
                if document is not None
            }
            kept = {
                n: id_ for n, id_ in kept.items() if rows.get(id_, sys.maxsize) <= spec["last_row"]
            }
            deleted: list[str] = []
            for cluster, id_ in batch:
                row = rows.get(id_)
                if row is None:
                    continue
                if row > spec["last_row"]:
                    counts["changed"] += 1
                elif kept.setdefault(cluster, id_) != id_:
                    deleted.append(id_)
            if deleted:
                counts["deleted"] += collection.delete(deleted).deleted
        last = batch[-1][0]
        kept = {last: kept[last]} if last in kept else {}
        progress.record({"deleted": counts["deleted"]})
        progress.advance(len(batch))
    return {**counts, "kept": keep, "documents": len(folder.collection(progress.job.collection))}


def _members(folder: Path, *, newest_first: bool) -> Iterator[tuple[int, str]]:
    """Yield the number of each cluster with each of its ids, the one to keep first."""
    with (
        (folder / CLUSTERS_FILE).open(encoding="utf-8") as file,
        (folder / FURTHER_FILE).open(encoding="utf-8") as further,
    ):
        for number, line in enumerate(file):
            cluster = json.loads(line)
            ids = cluster["ids"]
            if cluster["size"] > len(ids):
                _, left = json.loads(next(further))
                ids += left
            for id_ in reversed(ids) if newest_first else ids:
                yield number, id_


REQUEST_FILE = "request.json"
REPORT_FILE = "report.json"
RUN_FILE = "run.trec"


def evaluate(folder: DataFolder, limits: Settings, progress: Progress) -> dict[str, Any]:
    """Evaluate by the request in the job's folder, and write the report there."""
    raw = (progress.folder / REQUEST_FILE).read_bytes()
    body = validate(EvaluateRequest, parse_json(raw), limits.max_entries)
    progress.step = "reading"
    progress.advance(total=len(body.queries))
    queries, settings = parse_evaluation(body, limits, progress.advance)
    progress.step, progress.done = "searching", 0
    progress.advance()
    collection = folder.collection(progress.job.collection)
    evaluated = run_job(
        collection,
        queries,
        body.metrics,
        settings,
        read_training_labels(folder, collection),
        rankings=body.rankings,
        oversample=body.oversample,
        codes_weights=body.codes_weights or (),
    )
    if evaluated.run is not None:
        replace_file(progress.folder / RUN_FILE, evaluated.run())
    replace_file(progress.folder / REPORT_FILE, write_report(evaluated.report))
    progress.advance(len(queries))
    return {"report": f"/v1/evaluations/{progress.job.id}"}


def parse_evaluation(
    body: EvaluateRequest, limits: Settings, read: Callable[[int], object] = lambda _: None
) -> tuple[list[Document], RelevanceSettings]:
    """Return the queries and the relevance settings of a request; `read` counts the queries.

    Raises:
        ProblemError: pointing to the query that is invalid.
    """
    queries = []
    for position, item in enumerate(body.queries):
        queries.append(parse_item(item, limits, "queries", position, id=item.id or str(position)))
        read(1)
    for position, query in enumerate(queries):
        if not query.labels and body.qrels is None and body.nearest is None:
            message = "must have a label or labels, unless the request has qrels or nearest"
            raise invalid_field(message, "queries", position)
    names = [field.name for field in fields(RelevanceSettings)]
    return queries, RelevanceSettings(**{name: getattr(body, name) for name in names})


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
    entry = entry_of(error) if isinstance(error, HummingbitError) else None
    if entry is None or entry.status >= 500:
        return None
    return ProblemError(entry.status, entry.code, str(error))


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
            partial(evaluate, folder, limits),
            own_queue="evaluation",
            kept_files=frozenset({REPORT_FILE, REQUEST_FILE, RUN_FILE}),
            anywhere=True,
        ),
        "map": Kind(
            partial(draw_map, folder),
            own_queue="analysis",
            kept_files=frozenset({MAP_FILE, POINTS_FILE}),
            anywhere=True,
        ),
        "duplicates": Kind(
            partial(write_clusters, folder),
            own_queue="analysis",
            kept_files=frozenset({CLUSTERS_FILE, FURTHER_FILE}),
            anywhere=True,
        ),
        "delete_duplicates": Kind(partial(delete_duplicates, folder, gate), continues=True),
        "reindex": Kind(partial(reindex, folder, gate)),
        **{
            name: Kind(
                partial(work, folder, gate, elsewhere=limits.training == "elsewhere"),
                counted=False,
                own_queue="training",
                kept_files=frozenset({LOG_FILE}),
            )
            for name, work in (("retrain", retrain), ("train", train))
        },
        "snapshot": Kind(partial(_snapshot, folder)),
        "upload": Kind(partial(_upload, folder), counted=False),
        "restore": Kind(partial(_restore, folder)),
        "verify": Kind(
            partial(_run_uninterrupted, folder, "checking", partial(verify, folder=folder)),
            short_bytes=ALL_SHORT,
            anywhere=True,
        ),
        "compact": Kind(partial(_run_uninterrupted, folder, "compacting", compact)),
        "index_fields": Kind(partial(_index_fields, folder)),
    }


def snapshot_record(snapshot: Snapshot) -> dict[str, Any]:
    """Return the response about a snapshot, :class:`SnapshotInfo`."""
    contents = asdict(snapshot.contents)
    del contents["store_sha256"], contents["format_version"]
    return {"id": snapshot.id, **contents, "bytes": snapshot.bytes, "sha256": snapshot.sha256}


def verify(collection: CollectionBackend, folder: DataFolder) -> dict[str, Any]:
    """Verify a collection and return the response, :class:`VerificationInfo`."""
    verification = collection.verify()
    problems = [without_path(problem, folder) for problem in verification.problems]
    return {"documents": verification.documents, "problems": problems}


def compact(collection: CollectionBackend) -> dict[str, Any]:
    """Compact a collection and return the response, :class:`CompactionInfo`."""
    before = collection.bytes_on_disk()
    collection.compact()
    return {"bytes_before": before, "bytes_after": collection.bytes_on_disk()}


def index_fields(
    collection: CollectionBackend,
    fields: Sequence[str],
    progress: Callable[[], object] | None = None,
) -> dict[str, Any]:
    """Index the fields and return the response, :class:`IndexedFieldsInfo`."""
    warnings = collection.set_indexed_fields(fields, progress)
    return with_warnings({"indexed_fields": [*collection.indexed_fields]}, warnings)


def _index_fields(folder: DataFolder, progress: Progress) -> dict[str, Any]:
    progress.step = "indexing"
    collection = folder.collection(progress.job.collection)
    return index_fields(collection, progress.job.spec["fields"], progress.advance)


def _run_uninterrupted(
    folder: DataFolder,
    step: str,
    work: Callable[[CollectionBackend], dict[str, Any]],
    progress: Progress,
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
    snapshot = folder.create_snapshot(
        progress.job.collection, lambda id_: progress.pass_no_return({"snapshot": id_})
    )
    return snapshot_record(snapshot)


def _upload(folder: DataFolder, progress: Progress) -> dict[str, Any]:
    progress.step = "checking"
    # A link, so that the job keeps its file for another attempt until it is done.
    return snapshot_record(folder.snapshots.add(progress.folder / UPLOAD, link=True))


def _restore(folder: DataFolder, progress: Progress) -> dict[str, Any]:
    id_ = (progress.recorded or {}).get("collection")
    restored = None if id_ is None else folder.published_draft(id_)
    if restored is None:
        progress.step = "checking"
        restored = folder.restore_snapshot(
            folder.snapshots.file(progress.job.spec["snapshot"]),
            progress.job.collection,
            lambda id_: progress.pass_no_return({"collection": id_}),
        )
    return {"collection": restored.name, "documents": len(restored)}
