"""Search results as JSON, written straight from the hits: no model is made for each."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import orjson

from encoder.codes import code_from_hex, unpack_codes
from index.backend import CollectionBackend
from index.records import Hit, SearchResult, StoredDocument


def search_answer(
    collection: CollectionBackend,
    result: SearchResult,
    place: int,
    limit: int,
    radius: int | None,
    *,
    with_payload: bool,
    seconds: float,
) -> dict[str, Any]:
    """Return a :class:`service.schemas.search.SearchResponse` for query `place` of `result`.

    Hits beyond `limit` and `radius`, which others of the same batch asked for, are left out.
    """
    n_bits = collection.n_bits
    found = result.hits[place]
    hits = found[:limit]
    if radius is not None:
        hits = [hit for hit in hits if hit.distance <= radius]
    name, fingerprint = collection.encoder_name, collection.encoder_fingerprint
    return {
        "hits": [_hit(hit, n_bits, with_payload=with_payload) for hit in hits],
        "n_bits": n_bits,
        "encoder": None if name is None else {"name": name, "fingerprint": fingerprint},
        "generation": result.generation,
        "engine": result.engine,
        "ties_cut": _ties_cut(found, len(hits), cut=result.ties_cut[place]),
        "took_ms": round(seconds * 1000, 3),
    }


def add_codes(answer: dict[str, Any], hits: Sequence[Hit], query_code: str) -> None:
    """Add the codes of the query and of its hits to its answer."""
    answer["query_code"] = query_code
    for written, hit in zip(answer["hits"], hits, strict=True):
        written["code"] = hit.code


def add_differing_bits(answer: dict[str, Any], hits: Sequence[Hit], query_code: str) -> None:
    """Add to each hit the bits in which its code and the query's differ."""
    for written, hit in zip(answer["hits"], hits, strict=True):
        both = [code_from_hex(code, answer["n_bits"]) for code in (hit.code or "", query_code)]
        of_hit, of_query = unpack_codes(np.stack(both))
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


def to_json(answer: Mapping[str, Any]) -> bytes:
    """Write an answer."""
    try:
        return orjson.dumps(answer)
    except TypeError:
        # A payload may hold whole numbers of more than 64 bits, and what a client sent may be
        # quoted, a lone surrogate in it.
        return json.dumps(answer, ensure_ascii=False).encode("utf-8", "replace")


def _hit(hit: Hit, n_bits: int, *, with_payload: bool) -> dict[str, Any]:
    written = {"id": hit.id, "distance": hit.distance, "score": 1 - hit.distance / n_bits}
    if with_payload:
        written["payload"] = dict(hit.payload or {})
    if hit.score is not None:
        written["rerank_score"] = hit.score
    return written


def _ties_cut(found: Sequence[Hit], kept: int, *, cut: bool) -> bool:
    """Tell whether documents as far as the last of the hits that are kept were left out."""
    if kept == len(found):
        return cut
    return kept > 0 and found[kept].distance == found[kept - 1].distance
