"""Search results as JSON, written straight from the hits: no model is made for each."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import orjson

from encoder.codes import code_from_hex, code_to_hex, unpack_codes
from index.backend import CollectionBackend
from index.records import Hit, SearchResult, StoredDocument
from index.slices import checkpoint

HITS_AT_ONCE = 500


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
    """Return a :class:`service.schemas.search.SearchResponse` for query `place` of `result`.

    Hits beyond `limit` and `radius`, which others of the same batch asked for, are left out.
    """
    found = result.hits[place]
    hits = found[:limit]
    if radius is not None:
        hits = [hit for hit in hits if hit.distance <= radius]
    written: list[dict[str, Any]] = [
        {"id": hit.id, "distance": hit.distance, "score": hit.score} for hit in hits
    ]
    if with_payload:
        for one, hit in zip(written, hits, strict=True):
            one["payload"] = dict(hit.payload or {})
    if with_text:
        for one, hit in zip(written, hits, strict=True):
            one["text"] = hit.text
    if result.reranked:
        for one, hit in zip(written, hits, strict=True):
            one["rerank_score"] = hit.rerank_score
    name, fingerprint = collection.encoder_name, collection.encoder_fingerprint
    return {
        "hits": written,
        "n_bits": collection.n_bits,
        "encoder": None if name is None else {"name": name, "fingerprint": fingerprint},
        "generation": result.generation,
        "engine": result.engine,
        "ranking": result.rankings[place],
        "ties_cut": _ties_cut(found, len(hits), cut=result.ties_cut[place]),
        "took_ms": round(seconds * 1000, 3),
    }


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


def stored_document(stored: StoredDocument) -> dict[str, Any]:
    """Return a document as :class:`service.schemas.documents.StoredDocument` describes it."""
    return {
        "id": stored.id,
        "code": stored.code,
        "text": stored.text,
        "vector": None if stored.vector is None else stored.vector.tolist(),
        "payload": dict(stored.payload),
    }


def search_to_json(answer: Mapping[str, Any]) -> bytes:
    """Write the answer of one search, some hits at a time."""
    hits = answer["hits"]
    if len(hits) <= HITS_AT_ONCE:
        return to_json(answer)
    pieces = []
    for start in range(0, len(hits), HITS_AT_ONCE):
        checkpoint()
        pieces.append(to_json(hits[start : start + HITS_AT_ONCE])[1:-1])
    rest = to_json({name: value for name, value in answer.items() if name != "hits"})
    return b'{"hits":[' + b",".join(pieces) + b"]," + rest[1:]


def to_json(answer: Mapping[str, Any] | Sequence[Any]) -> bytes:
    """Write an answer."""
    try:
        return orjson.dumps(answer)
    except TypeError:
        # A payload may hold whole numbers of more than 64 bits, and what a client sent may be
        # quoted, a lone surrogate in it.
        return json.dumps(answer, ensure_ascii=False).encode("utf-8", "replace")


def _ties_cut(found: Sequence[Hit], kept: int, *, cut: bool) -> bool:
    """Tell whether documents with the score of the last hit that is kept were left out."""
    if kept == len(found):
        return cut
    return kept > 0 and found[kept].score == found[kept - 1].score
