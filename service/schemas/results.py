"""Writes search results as JSON straight from the hits, without a model for each."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import orjson
from starlette.responses import Response
from starlette.types import Message, Receive, Scope, Send

from encoder.codes import code_from_hex, code_to_hex, unpack_codes
from foundation.slices import checkpoint
from index.backend import CollectionBackend
from index.records import Hit, SearchResult, StoredDocument, StoredPayload
from service.http.problems import ProblemError

LONG_LISTS = ("hits", "documents", "results", "data", "queries")
# Entries that are written between two checkpoints, fewer if they are large.
ENTRIES_AT_ONCE = 16
# Bytes of a response that are sent at a time.
SENT_AT_ONCE = 64 << 10


def search_answer(
    collection: CollectionBackend,
    result: SearchResult,
    place: int,
    limit: int,
    radius: int | None,
    *,
    with_payload: bool,
    with_text: bool,
    seconds: float,
) -> dict[str, Any]:
    """Return a :class:`service.schemas.search.SearchResponse` as a dict, for one query of a batch.

    `place` is the query's position in `result`. Hits beyond `limit` and `radius`, which other
    queries of the batch requested, are left out. `seconds` is the time of the whole batch.
    """
    all_hits = result.hits[place]
    hits = all_hits[:limit]
    if radius is not None:
        hits = [hit for hit in hits if hit.distance <= radius]
    name, fingerprint = collection.encoder_name, collection.encoder_fingerprint
    terms = result.queries.terms[place]
    answer: dict[str, Any] = {
        "hits": _write_hits(result, hits, with_payload=with_payload, with_text=with_text),
        "n_bits": collection.n_bits,
        "encoder": None if name is None else {"name": name, "fingerprint": fingerprint},
        "generation": result.generation,
        "engine": result.engine,
        "ranking": result.rankings[place],
        "ties_cut": _ties_cut(all_hits, len(hits), cut=result.ties_cut[place]),
        "took_ms": round(seconds * 1000, 3),
    }
    if terms is not None:
        answer["recognized_terms"] = terms.recognized_terms
        answer["corrected"] = terms.corrected
    if result.reranked:
        answer["reranked"] = True
    if result.rescored_by is not None:
        answer["rescored_by"] = result.rescored_by
        answer["candidates"] = result.candidates
    return answer


def _write_hits(
    result: SearchResult, hits: Sequence[Hit], *, with_payload: bool, with_text: bool
) -> list[dict[str, Any]]:
    written: list[dict[str, Any]] = [
        {"id": hit.id, "distance": hit.distance, "score": hit.score} for hit in hits
    ]
    if with_payload:
        for entry, hit in zip(written, hits, strict=True):
            entry["payload"] = {} if hit.payload is None else _payload(hit.payload)
    if with_text:
        for entry, hit in zip(written, hits, strict=True):
            entry["text"] = hit.text
    if result.highlighted:
        for entry, hit in zip(written, hits, strict=True):
            entry["highlight"] = None if hit.highlight is None else hit.highlight._asdict()
    if result.reranked:
        for entry, hit in zip(written, hits, strict=True):
            entry["rerank_score"] = hit.rerank_score
    return written


def add_codes(answer: dict[str, Any], result: SearchResult, place: int) -> None:
    """Add the codes of query `place` and of its hits to its answer."""
    answer["query_code"] = code_to_hex(result.queries.codes[place])
    for written, hit in zip(answer["hits"], result.hits[place], strict=True):
        written["code"] = hit.code


def add_differing_bits(answer: dict[str, Any], result: SearchResult, place: int) -> None:
    """Add to each hit the bits in which its code and the code of query `place` differ."""
    n_bits = answer["n_bits"]
    query_code = result.queries.codes[place]
    for written, hit in zip(answer["hits"], result.hits[place], strict=True):
        both = np.stack([code_from_hex(hit.code or "", n_bits), query_code])
        of_hit, of_query = unpack_codes(both)
        written["differing_bits"] = np.flatnonzero(of_hit != of_query).tolist()


def document_to_json(stored: StoredDocument) -> dict[str, Any]:
    """Return a :class:`service.schemas.collections.documents.StoredDocument` as a dict."""
    return {
        "id": stored.id,
        "code": stored.code,
        "text": stored.text,
        "vector": None if stored.vector is None else stored.vector.tolist(),
        "payload": _payload(stored.payload),
    }


def _payload(payload: Mapping[str, Any]) -> dict[str, Any] | orjson.Fragment:
    """Return a payload for :func:`to_json`, which copies one that is not parsed."""
    return orjson.Fragment(payload.json) if isinstance(payload, StoredPayload) else dict(payload)


class LongAnswer(Response):
    """A response that is sent in chunks, each once the client has read enough before it."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:  # noqa: ARG002
        """Send the response.

        Raises:
            ProblemError: 503 if it is long, and too many long ones are being sent to the client.
        """
        headers = self.raw_headers
        start = {"type": "http.response.start", "status": self.status_code, "headers": headers}
        await _send(scope, send, start, bytes(self.body))


class JSONAnswer(LongAnswer):
    """A JSON response that may be long."""

    media_type = "application/json"


async def send_json(scope: Scope, send: Send, body: bytes) -> None:
    """Send a JSON response as :class:`JSONAnswer` does, with status 200."""
    length = (b"content-length", b"%d" % len(body))
    headers = [length, (b"content-type", b"application/json")]
    await _send(
        scope, send, {"type": "http.response.start", "status": 200, "headers": headers}, body
    )


async def _send(scope: Scope, send: Send, start: Message, body: bytes) -> None:
    if len(body) <= SENT_AT_ONCE:
        await send(start)
        await send({"type": "http.response.body", "body": body})
        return
    address = scope["client"][0] if scope.get("client") else ""
    with scope["app"].state.unsent_responses.holding(address, len(body)):
        await send(start)
        whole = memoryview(body)
        for begin in range(0, len(body), SENT_AT_ONCE):
            end = begin + SENT_AT_ONCE
            part = bytes(whole[begin:end])
            await send({"type": "http.response.body", "body": part, "more_body": end < len(body)})


def answer_to_json(answer: Mapping[str, Any], max_bytes: int) -> bytes:
    """Write an answer as JSON, some entries of its long lists at a time.

    Raises:
        ProblemError: 422 if it has more than `max_bytes` bytes.
    """
    hits = answer.get("hits")
    if hits is not None and len(hits) <= ENTRIES_AT_ONCE and "documents" not in answer:
        written = to_json(answer)
        if len(written) <= max_bytes:
            return written
    pieces, size = [], 0
    for piece in _pieces(answer):
        size += len(piece)
        if size > max_bytes:
            raise answer_too_large(max_bytes)
        pieces.append(piece)
    return b"".join(pieces)


def answer_too_large(max_bytes: int) -> ProblemError:
    """Return the problem, 422, of an answer that has more than `max_bytes` bytes."""
    message = f"the response has more than {max_bytes:,} bytes, the limit; request less at a time"
    return ProblemError(422, "answer_too_large", message)


def _pieces(answer: Mapping[str, Any]) -> Iterator[bytes]:
    # A field that is a list in one answer may be a number in another.
    lists = [name for name in LONG_LISTS if isinstance(answer.get(name), list)]
    if all(len(answer[name]) <= ENTRIES_AT_ONCE for name in lists) and "results" not in answer:
        yield to_json(answer)
        return
    rest = to_json({name: value for name, value in answer.items() if name not in lists})
    yield rest[:-1]
    for place, name in enumerate(lists):
        yield (b"," if place or len(rest) > 2 else b"") + b'"' + name.encode() + b'":['
        entries = answer[name]
        size = 1 if name == "results" else ENTRIES_AT_ONCE
        for start in range(0, len(entries), size):
            checkpoint()
            if start:
                yield b","
            if name == "results":
                yield from _pieces(entries[start])
            else:
                yield to_json(entries[start : start + size])[1:-1]
        yield b"]"
    yield b"}"


def to_json(answer: Any) -> bytes:
    """Write an answer, or a part of one, as JSON."""
    try:
        return orjson.dumps(answer)
    except TypeError:
        # A payload may hold whole numbers of more than 64 bits, and a quoted part of a request
        # may hold a lone surrogate. Only these are written by Python, and the rest by orjson.
        if isinstance(answer, Mapping):
            parts = (to_json(name) + b":" + to_json(value) for name, value in answer.items())
            return b"{" + b",".join(parts) + b"}"
        if isinstance(answer, list | tuple):
            return b"[" + b",".join(map(to_json, answer)) + b"]"
        return json.dumps(answer, ensure_ascii=False).encode("utf-8", "replace")


def _ties_cut(hits: Sequence[Hit], n_kept: int, *, cut: bool) -> bool:
    """Tell whether documents with the score of the last of the first `n_kept` hits are left out."""
    if n_kept == len(hits):
        return cut
    return n_kept > 0 and hits[n_kept].score == hits[n_kept - 1].score
