"""The calls of a service: the method, path and body of each."""

from __future__ import annotations

import hashlib
import json
import os
import secrets
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypedDict

import httpx

from hummingbit.clients import responses
from hummingbit.clients.responses import CodeFormat
from hummingbit.clients.transport import (
    Call,
    ServiceError,
    collection_path,
    document_path,
    encoder_path,
    json_value,
    path_segment,
    query_string,
    sha256_of,
    without_none,
)

# ----------------------------------------------------------------------------
# Calls for collections, documents, searches and encoders: the method, path and body of each.


class RankingOptions(TypedDict, total=False):
    """Which documents a search finds, and in which order; ``docs/service.md`` explains them."""

    limit: int | None
    radius: int | None
    ranking: str | None
    filter: Mapping[str, Any] | None
    offset: int | None
    rerank: bool | None
    hybrid: Mapping[str, float] | None
    rescore: str | Mapping[str, Any] | None
    highlight: bool | None


class SearchOptions(RankingOptions, total=False):
    """The options of a search at a service."""

    cursor: str | None
    with_cursor: bool | None
    with_payload: bool | None
    with_text: bool | None
    with_code: bool | None
    explain: bool | None
    encoder_fingerprint: str | None


def ready() -> Call[responses.Ready]:
    """Check that every collection and encoder is open."""
    return Call("GET", "/readyz")


def collections() -> Call[responses.Collections]:
    """List the collections."""
    return Call("GET", "/v1/collections")


def collection(name: str) -> Call[responses.CollectionDetail]:
    """Describe a collection."""
    return Call("GET", collection_path(name))


def stats(name: str) -> Call[responses.CollectionStats]:
    """Get a collection's statistics."""
    return Call("GET", f"{collection_path(name)}/stats")


def create_collection(
    name: str,
    encoder: str | None,
    n_bits: int | None,
    engine: str | None,
    indexed_fields: Sequence[str] | None,
    *,
    keep_vectors: str | None,
) -> Call[responses.CollectionSummary]:
    """Create a collection; one with the same settings may already exist."""
    fields = None if indexed_fields is None else [*indexed_fields]
    body = without_none(
        encoder=encoder,
        n_bits=n_bits,
        engine=engine,
        indexed_fields=fields,
        keep_vectors=keep_vectors,
    )
    return Call("PUT", collection_path(name), body)


def update_collection(name: str, ranking: str) -> Call[responses.CollectionSummary]:
    """Change a collection's default ranking."""
    return Call("PATCH", collection_path(name), {"ranking": ranking})


def delete_collection(name: str) -> Call[None]:
    """Delete a collection."""
    return Call("DELETE", collection_path(name))


def upsert(
    name: str,
    documents: Sequence[Mapping[str, Any]],
    encoder_fingerprint: str | None,
    *,
    create_only: bool,
) -> Call[responses.Upserted]:
    """Insert documents; replace those with the same ids, unless `create_only`."""
    records = [
        {field: json_value(value) for field, value in document.items()} for document in documents
    ]
    body = without_none(documents=records, encoder_fingerprint=encoder_fingerprint)
    headers = {"If-None-Match": "*"} if create_only else {}
    path = f"{collection_path(name)}/documents"
    return Call("PUT", path, body, repeatable=not create_only, headers=headers)


def get(name: str, document_id: str) -> Call[responses.StoredDocument]:
    """Get a document."""
    return Call("GET", document_path(name, document_id))


def delete(name: str, document_id: str) -> Call[None]:
    """Delete a document."""
    return Call("DELETE", document_path(name, document_id))


def search(name: str, fields: Mapping[str, Any]) -> Call[responses.SearchResponse]:
    """Search; the body is `fields` without those that are None.

    Raises:
        TypeError: if a search has no such field.
    """
    unknown = (
        fields.keys() - {"text", "vector", "code", "id"} - SearchOptions.__annotations__.keys()
    )
    if unknown:
        raise TypeError(f"search() has no argument {min(unknown)!r}")
    body = without_none(**fields)
    if isinstance(rescore := body.get("rescore"), str):
        body["rescore"] = {"by": rescore}
    return Call("POST", f"{collection_path(name)}/search", body)


def search_batch(
    name: str,
    searches: Sequence[Mapping[str, Any]],
    ranking: str | None,
    filter_: Mapping[str, Any] | None,
    encoder_fingerprint: str | None,
    *,
    rescore: Mapping[str, Any] | None,
) -> Call[dict[str, list[responses.SearchResponse]]]:
    """Search many times in one generation."""
    body = without_none(
        searches=[without_none(**search_) for search_ in searches],
        ranking=ranking,
        rescore=rescore,
        filter=filter_,
        encoder_fingerprint=encoder_fingerprint,
    )
    return Call("POST", f"{collection_path(name)}/search/batch", body)


def encoders() -> Call[responses.Encoders]:
    """List the encoders."""
    return Call("GET", "/v1/encoders")


def encoder(name: str) -> Call[responses.EncoderDetail]:
    """Describe an encoder."""
    return Call("GET", encoder_path(name))


def encode(
    name: str,
    texts: Sequence[str] | None,
    vectors: Sequence[Any] | None,
    form: CodeFormat,
) -> Call[responses.EncodedInputs]:
    """Encode texts or vectors.

    Raises:
        ValueError: unless exactly one of the two is given.
    """
    if (texts is None) == (vectors is None):
        raise ValueError("exactly one of texts and vectors must be given")
    inputs = [{"text": text} for text in texts or ()]
    inputs += [{"vector": json_value(vector)} for vector in vectors or ()]
    body = {"inputs": inputs, "format": form}
    return Call("POST", f"{encoder_path(name)}/encode", body)


def evaluate(name: str, body: Mapping[str, Any]) -> Call[responses.EvaluationStatus]:
    """Start an evaluation in the background."""
    headers = {"Prefer": "respond-async"}
    path = f"{collection_path(name)}/evaluate"
    return Call("POST", path, dict(body), repeatable=False, headers=headers)


def evaluation(evaluation_id: str) -> Call[responses.EvaluationStatus]:
    """Get the status of an evaluation."""
    return Call("GET", f"/v1/evaluations/{path_segment(evaluation_id)}")


def trec_run(evaluation_id: str) -> Call[str]:
    """Get an evaluation's run in TREC's format."""
    return Call("GET", f"/v1/evaluations/{path_segment(evaluation_id)}?format=trec")


# ----------------------------------------------------------------------------
# Calls for many documents at a time; see :mod:`hummingbit.clients.calls`.


NDJSON = "application/x-ndjson"


def scroll(
    name: str, limit: int | None, cursor: str | None, filter_: Mapping[str, Any] | None
) -> Call[responses.DocumentPage]:
    """Get a page of documents."""
    body = without_none(limit=limit, cursor=cursor, filter=filter_)
    return Call("POST", f"{collection_path(name)}/documents:scroll", body)


def get_many(name: str, ids: Sequence[str]) -> Call[responses.FoundDocuments]:
    """Get documents by their ids."""
    return Call("POST", f"{collection_path(name)}/documents:get", {"ids": _as_list(ids)})


def count(name: str, filter_: Mapping[str, Any] | None) -> Call[responses.Count]:
    """Count documents."""
    return Call("POST", f"{collection_path(name)}/documents:count", without_none(filter=filter_))


def delete_many(
    name: str, ids: Sequence[str] | None, filter_: Mapping[str, Any] | None
) -> Call[responses.Deleted]:
    """Delete documents. A retry finds fewer to delete, so its count can be too low."""
    id_list = None if ids is None else _as_list(ids)
    body = without_none(ids=id_list, filter=filter_)
    return Call("POST", f"{collection_path(name)}/documents:delete", body)


def bulk(
    name: str,
    documents: Iterable[Mapping[str, Any]],
    encoder_fingerprint: str | None,
    *,
    create_only: bool,
    skip_unchanged: bool,
) -> Call[responses.BulkAnswer]:
    """Upsert documents as JSON lines."""
    path = _bulk_path(name, encoder_fingerprint, skip_unchanged=skip_unchanged)
    headers = _bulk_headers(create_only=create_only)
    # A repeated creation would be refused, because the documents exist already.
    return Call(
        "POST",
        path,
        content=json_lines(documents),
        headers=headers,
        repeatable=not create_only,
    )


def bulk_job(
    name: str,
    documents: Iterable[Mapping[str, Any]],
    encoder_fingerprint: str | None,
    idempotency_key: str | None,
    *,
    create_only: bool,
    skip_unchanged: bool,
) -> Call[responses.Job]:
    """Start :func:`bulk` in the background; the key keeps a retry from starting a second job."""
    headers = {
        **_bulk_headers(create_only=create_only),
        "Prefer": "respond-async",
        "Idempotency-Key": idempotency_key or secrets.token_hex(16),
    }
    path = _bulk_path(name, encoder_fingerprint, skip_unchanged=skip_unchanged)
    return Call("POST", path, content=json_lines(documents), headers=headers)


def json_lines(documents: Iterable[Mapping[str, Any]]) -> bytes:
    """Return documents as JSON lines, in UTF-8."""
    lines = (
        json.dumps(
            {field: json_value(value) for field, value in document.items()}, ensure_ascii=False
        )
        for document in documents
    )
    return "".join(f"{line}\n" for line in lines).encode("utf-8", "surrogatepass")


def _as_list(ids: Sequence[str]) -> Sequence[str]:
    """Return `ids` as a list; a string stays a string, which the service refuses."""
    return ids if isinstance(ids, str) else list(ids)


def _bulk_path(name: str, encoder_fingerprint: str | None, *, skip_unchanged: bool) -> str:
    skip = "true" if skip_unchanged else None
    query = query_string(encoder_fingerprint=encoder_fingerprint, skip_unchanged=skip)
    return f"{collection_path(name)}/documents:bulk{query}"


def _bulk_headers(*, create_only: bool) -> dict[str, str]:
    headers = {"Content-Type": NDJSON}
    return {**headers, "If-None-Match": "*"} if create_only else headers


# ----------------------------------------------------------------------------
# Calls for aliases, snapshots and jobs; see :mod:`hummingbit.clients.calls`.


IN_BACKGROUND = {"Prefer": "respond-async"}
FIRST_POLL = 0.05
LONGEST_POLL = 2.0


def aliases() -> Call[responses.Aliases]:
    """List the aliases."""
    return Call("GET", "/v1/aliases")


def change_aliases(actions: Sequence[Mapping[str, Any]]) -> Call[responses.Aliases]:
    """Apply all actions or none. Removing an alias a second time is an error."""
    repeatable = all("remove" not in action for action in actions)
    body = {"actions": [dict(action) for action in actions]}
    return Call("POST", "/v1/aliases", body, repeatable=repeatable)


def reindex(
    name: str, encoder: str, into: str, alias: str | None, engine: str | None
) -> Call[responses.Job]:
    """Re-encode a collection into another one."""
    body = without_none(encoder=encoder, into=into, alias=alias, engine=engine)
    return Call("POST", f"{collection_path(name)}/reindex", body, repeatable=False)


def verify(name: str) -> Call[responses.Verification]:
    """Check a collection, and wait for the result."""
    return Call("POST", f"{collection_path(name)}/verify")


def verify_job(name: str) -> Call[responses.Job]:
    """Check a collection in the background."""
    return Call("POST", f"{collection_path(name)}/verify", headers=IN_BACKGROUND, repeatable=False)


def compact(name: str) -> Call[responses.Compaction]:
    """Compact a collection, and wait for the result."""
    return Call("POST", f"{collection_path(name)}/compact")


def compact_job(name: str) -> Call[responses.Job]:
    """Compact a collection in the background."""
    return Call("POST", f"{collection_path(name)}/compact", headers=IN_BACKGROUND, repeatable=False)


def index_fields(name: str, fields: Sequence[str]) -> Call[responses.IndexedFields]:
    """Index fields of a collection's payloads, and wait for the result."""
    return Call("POST", f"{collection_path(name)}/index-fields", {"indexed_fields": [*fields]})


def index_fields_job(name: str, fields: Sequence[str]) -> Call[responses.Job]:
    """Index fields of a collection's payloads in the background."""
    path, body = f"{collection_path(name)}/index-fields", {"indexed_fields": [*fields]}
    return Call("POST", path, body, headers=IN_BACKGROUND, repeatable=False)


def snapshots(collection: str | None) -> Call[responses.Snapshots]:
    """List snapshots."""
    return Call("GET", f"/v1/snapshots{query_string(collection=collection)}")


def snapshot(snapshot_id: str) -> Call[responses.Snapshot]:
    """Describe a snapshot."""
    return Call("GET", snapshot_path(snapshot_id))


def create_snapshot(name: str) -> Call[responses.Snapshot]:
    """Create a snapshot, and wait for it."""
    return Call("POST", f"{collection_path(name)}/snapshots", repeatable=False)


def snapshot_job(name: str) -> Call[responses.Job]:
    """Create a snapshot in the background."""
    path = f"{collection_path(name)}/snapshots"
    return Call("POST", path, headers=IN_BACKGROUND, repeatable=False)


def upload_snapshot(path: Path, headers: Mapping[str, str]) -> Call[Any]:
    """Upload the file of a snapshot; repeating this has no further effect.

    Raises:
        OSError: if the file cannot be read.
    """
    size = path.stat().st_size
    all_headers = {"Content-Type": "application/x-tar", "Content-Length": str(size), **headers}
    address = f"/v1/snapshots:upload{query_string(sha256=sha256_of(path))}"
    return Call("POST", address, file=path, headers=all_headers)


def delete_snapshot(snapshot_id: str) -> Call[None]:
    """Delete a snapshot."""
    return Call("DELETE", snapshot_path(snapshot_id))


def restore_snapshot(snapshot_id: str, collection: str) -> Call[responses.Job]:
    """Restore a snapshot to a collection."""
    path = f"{snapshot_path(snapshot_id)}/restore"
    return Call("POST", path, {"collection": collection}, repeatable=False)


def jobs(limit: int | None, state: responses.JobState | None) -> Call[responses.Jobs]:
    """List jobs."""
    return Call("GET", f"/v1/jobs{query_string(limit=limit, state=state)}")


def job(job_id: str) -> Call[responses.Job]:
    """Describe a job."""
    return Call("GET", job_path(job_id))


def cancel_job(job_id: str) -> Call[responses.Job]:
    """Cancel a job. Not repeatable, because the job may have finished by then."""
    return Call("POST", f"{job_path(job_id)}/cancel", repeatable=False)


def is_finished(url: str, job: responses.Job) -> bool:
    """Return whether a job is done.

    Raises:
        ServiceError: if it failed or was cancelled.
    """
    error = job["error"]
    if error is not None:
        message = f"{url}: job {job['id']} failed: {error['detail']}"
        raise ServiceError(message, None, error["code"], error["errors"])
    if job["state"] == "cancelled":
        raise ServiceError(f"{url}: job {job['id']} was cancelled", None, "cancelled")
    return job["state"] == "done"


def next_poll(seconds: float, left: float, url: str, job_id: str) -> float:
    """Return how many seconds to wait before the next look at a job.

    Raises:
        ServiceError: if no time is left.
    """
    if left <= 0:
        raise ServiceError(f"{url}: job {job_id} is not finished yet", None, "job_unfinished")
    return min(seconds * 1.5, LONGEST_POLL, left)


def snapshot_path(snapshot_id: str) -> str:
    """Return the path of a snapshot."""
    return f"/v1/snapshots/{path_segment(snapshot_id)}"


def job_path(job_id: str) -> str:
    """Return the path of a job."""
    return f"/v1/jobs/{path_segment(job_id)}"


# ----------------------------------------------------------------------------
# Calls for labels, judgements and retraining; see :mod:`hummingbit.clients.calls`.


def labels(name: str, **query: Any) -> Call[responses.LabelPage]:
    """List a page of labels."""
    return Call("GET", _path(name, "labels", **query))


def set_labels(
    name: str, labels: Sequence[Mapping[str, Any]]
) -> Call[responses.AnnotationsWritten]:
    """Set or remove labels."""
    return Call("PUT", _path(name, "labels"), {"labels": [dict(label) for label in labels]})


def suggest_labels(name: str, **query: Any) -> Call[responses.SuggestedLabels]:
    """Suggest documents to label."""
    return Call("GET", _path(name, "labels/suggest", **query))


def label_stats(name: str, label_field: str | None) -> Call[responses.LabelStats]:
    """Count labels and measure agreement."""
    return Call("GET", _path(name, "labels/stats", label_field=label_field))


def judgements(name: str, **query: Any) -> Call[responses.JudgementPage]:
    """List a page of judgements."""
    return Call("GET", _path(name, "judgements", **query))


def set_judgements(
    name: str, judgements: Sequence[Mapping[str, Any]]
) -> Call[responses.AnnotationsWritten]:
    """Set or remove judgements."""
    body = {"judgements": [dict(judgement) for judgement in judgements]}
    return Call("PUT", _path(name, "judgements"), body)


def judgement_pool(name: str, query: str, **options: Any) -> Call[responses.JudgementPool]:
    """Get answers to judge."""
    return Call("GET", _path(name, "judgements/pool", query=query, **options))


def import_labels(
    name: str, content: bytes, form: str, who: str | None
) -> Call[responses.Imported]:
    """Import labels and judgements from JSON lines or qrels."""
    path = _path(name, "labels/import", format=form, who=who)
    return Call("POST", path, content=content, headers={"Content-Type": NDJSON})


def retrain(name: str, options: Mapping[str, Any]) -> Call[responses.Job]:
    """Start training a new encoder on the labels."""
    return Call("POST", _path(name, "retrain"), without_none(**options), repeatable=False)


def confirm(job: str) -> Call[responses.Job]:
    """Go live with the encoder of a retraining."""
    return Call("POST", f"{job_path(job)}/confirm")


def take_back(job: str) -> Call[responses.Alias]:
    """Move the alias back to the old collection."""
    return Call("POST", f"{job_path(job)}/take-back", repeatable=False)


def _path(name: str, resource: str, **query: Any) -> str:
    return f"{collection_path(name)}/{resource}{query_string(**query)}"


# ----------------------------------------------------------------------------
# Writes a downloaded snapshot to a file.


@dataclass(frozen=True, slots=True)
class SnapshotFile:
    """A snapshot of the service at `url`, to be written to `path`."""

    url: str
    snapshot: responses.Snapshot
    path: Path

    @property
    def address(self) -> str:
        """The path of the file at the service."""
        return f"{snapshot_path(self.snapshot['id'])}/file"

    @contextmanager
    def writing(self, response: httpx.Response) -> Iterator[Callable[[bytes], None]]:
        """Yield a function that writes chunks of `response`; the file appears once it is complete.

        Raises:
            ServiceError: if the checksum is not that of the snapshot.
            OSError: if the file cannot be written.
        """
        digest = hashlib.sha256()
        partial = self.path.with_name(f"{self.path.name}.partial")
        try:
            with partial.open("wb") as file:

                def write_chunk(chunk: bytes) -> None:
                    digest.update(chunk)
                    file.write(chunk)

                yield write_chunk
                file.flush()
                os.fsync(file.fileno())
            if digest.hexdigest() != self.snapshot["sha256"]:
                message = f"the file of snapshot {self.snapshot['id']} has another SHA-256"
                hint = "download it again"
                raise ServiceError(f"{self.url}: {message}; {hint}", response.status_code)
            partial.replace(self.path)
        finally:
            partial.unlink(missing_ok=True)
