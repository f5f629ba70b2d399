"""What the clients' requests and responses take more than a line for.

The method, path and body of every other request are in the method of
:class:`hummingbit.Client` that sends it.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypedDict

from hummingbit.clients.requests import (
    Call,
    ServiceError,
    collection_path,
    json_fields,
    plain_value,
    query_string,
    sha256_of,
    snapshot_path,
    without_none,
)

if TYPE_CHECKING:
    import httpx

    from hummingbit.service.schemas import responses


class CodeArray(Protocol):
    """A one-dimensional array of numpy, of uint8 or int8."""

    @property
    def dtype(self) -> Any:
        """The type of its numbers."""

    def tolist(self) -> Any:
        """Return its numbers."""


Code = str | bytes | CodeArray | Mapping[str, Sequence[int]]
"""A packed code: hexadecimal digits, bytes, an array of bytes, or an object with a format."""

NDJSON = {"Content-Type": "application/x-ndjson"}
IN_BACKGROUND = {"Prefer": "respond-async"}
CREATE_ONLY = {"If-None-Match": "*"}
IDEMPOTENCY_KEY = "Idempotency-Key"
FIRST_POLL = 0.05
LONGEST_POLL = 2.0


class Unset(Enum):
    """The value of an argument that was not given, where None means something else."""

    UNSET = "unset"


UNSET = Unset.UNSET


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
    collapse_duplicates: int | None
    diversity: float | None
    score_threshold: float | None
    syntax: str | None
    expand: bool | None
    with_payload: bool | Sequence[str] | None
    group_by: str | None
    group_size: int | None
    facets: Sequence[str | Mapping[str, Any]] | str | None
    facet_depth: int | None


class RecommendationOptions(TypedDict, total=False):
    """The options of a recommendation, in process or at a service."""

    limit: int | None
    filter: Mapping[str, Any] | None
    offset: int | None
    collapse_duplicates: int | None
    diversity: float | None
    with_code: bool | None


class ServedRecommendationOptions(RecommendationOptions, total=False):
    """The options of a recommendation at a service."""

    with_payload: bool | None
    with_text: bool | None
    with_passage: bool | None


class SearchOptions(RankingOptions, total=False):
    """The options of a search at a service."""

    cursor: str | None
    with_cursor: bool | None
    with_text: bool | None
    with_passage: bool | None
    with_code: bool | None
    with_confidence: bool | None
    explain: bool | None
    encoder_fingerprint: str | None


def search_body(**fields: Any) -> dict[str, Any]:
    """Return the body of a search: the fields that are not None.

    Raises:
        TypeError: if a search has no such field.
    """
    known = {"text", "vector", "code", "id", *SearchOptions.__annotations__}
    if unknown := fields.keys() - known:
        raise TypeError(f"search() has no argument {min(unknown)!r}")
    body = without_none(**fields)
    if isinstance(rescore := body.get("rescore"), str):
        body["rescore"] = {"by": rescore}
    if "facets" in body:
        body["facets"] = facet_list(body["facets"])
    if "with_payload" in body:
        body["with_payload"] = payload_fields(body["with_payload"])
    return body


def facet_list(facets: Sequence[str | Mapping[str, Any]] | str) -> list[Any]:
    """Return facets as a request has them; a name stands for its field."""
    given = [facets] if isinstance(facets, str | Mapping) else facets
    return [{"field": facet} if isinstance(facet, str) else dict(facet) for facet in given]


def sort_fields(sort: Sequence[str | Mapping[str, Any]] | str | None) -> list[Any] | None:
    """Return the fields to sort by as a request has them; ``name:desc`` is descending."""
    if sort is None:
        return None
    fields: list[Any] = []
    for field in [sort] if isinstance(sort, str | Mapping) else sort:
        if not isinstance(field, str):
            fields.append(dict(field))
            continue
        name, colon, order = field.rpartition(":")
        is_order = colon and order in {"asc", "desc"}
        fields.append({"field": name, "order": order} if is_order else {"field": field})
    return fields


def payload_fields(selection: bool | Sequence[str] | None) -> bool | list[str] | None:
    """Return which fields of payloads a request wants."""
    return selection if selection is None or isinstance(selection, bool) else [*selection]


def bulk(
    name: str,
    documents: Iterable[Mapping[str, Any]],
    headers: Mapping[str, str],
    *,
    create_only: bool,
    skip_unchanged: bool,
    encoder_fingerprint: str | None,
) -> Call[Any]:
    """Upsert documents as JSON lines.

    A repeated creation would be refused, unless the `headers` have an idempotency key.
    """
    skip = "true" if skip_unchanged else None
    path = collection_path(
        name, "documents:bulk", encoder_fingerprint=encoder_fingerprint, skip_unchanged=skip
    )
    return Call(
        "POST",
        path,
        content=json_lines(documents),
        headers={**NDJSON, **(CREATE_ONLY if create_only else {}), **headers},
        repeatable=not create_only or IDEMPOTENCY_KEY in headers,
    )


def json_lines(documents: Iterable[Mapping[str, Any]]) -> bytes:
    """Return documents as JSON lines, in UTF-8."""
    lines = (
        json.dumps(json_fields(document), default=plain_value, ensure_ascii=False)
        for document in documents
    )
    return "".join(f"{line}\n" for line in lines).encode("utf-8", "surrogatepass")


def in_background(path: str, body: Any = None) -> Call[responses.JobInfo]:
    """Start a job."""
    return Call("POST", path, body, headers=IN_BACKGROUND, repeatable=False)


def upload_snapshot(path: Path, headers: Mapping[str, str]) -> Call[Any]:
    """Upload the file of a snapshot; repeating this has no further effect.

    Raises:
        OSError: if the file cannot be read.
    """
    size = path.stat().st_size
    all_headers = {"Content-Type": "application/x-tar", "Content-Length": str(size), **headers}
    address = f"/v1/snapshots:upload{query_string(sha256=sha256_of(path))}"
    return Call("POST", address, file=path, headers=all_headers)


def change_aliases(actions: Sequence[Mapping[str, Any]]) -> Call[responses.Aliases]:
    """Apply actions on aliases, all or none; removing an alias a second time is an error."""
    repeatable = all("remove" not in action for action in actions)
    body = {"actions": [dict(action) for action in actions]}
    return Call("POST", "/v1/aliases", body, repeatable=repeatable)


def collections_of_aliases(response: responses.Aliases) -> dict[str, str]:
    """Return the collection of each alias."""
    return {alias["alias"]: alias["collection"] for alias in response["aliases"]}


def numbers_of_embeddings(response: responses.Embeddings) -> list[list[float]]:
    """Return the embeddings in the order of the texts."""
    return [[float(number) for number in entry["embedding"]] for entry in response["data"]]


def is_finished(url: str, job: responses.JobInfo) -> bool:
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


@dataclass(frozen=True, slots=True)
class SnapshotFile:
    """A snapshot of the service at `url`, to be written to `path`."""

    url: str
    snapshot: responses.SnapshotInfo
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
