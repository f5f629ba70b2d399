"""Search results as JSON, written straight from the hits: no model is made for each."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import orjson

from index.backend import CollectionBackend
from index.records import Hit, SearchResult


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
    """Return what :class:`service.schemas.SearchResponse` describes, for query `place` of `result`.

    Hits beyond `limit` and `radius`, which others of the same batch asked for, are left out.
    """
    n_bits = collection.n_bits
    hits = result.hits[place][:limit]
    if radius is not None:
        hits = [hit for hit in hits if hit.distance <= radius]
    name, fingerprint = collection.encoder_name, collection.encoder_fingerprint
    return {
        "hits": [_hit(hit, n_bits, with_payload=with_payload) for hit in hits],
        "n_bits": n_bits,
        "encoder": None if name is None else {"name": name, "fingerprint": fingerprint},
        "generation": result.generation,
        "took_ms": round(seconds * 1000, 3),
    }


def to_json(answer: Mapping[str, Any]) -> bytes:
    """Write an answer."""
    try:
        return orjson.dumps(answer)
    except TypeError:  # a payload may hold whole numbers of more than 64 bits
        return json.dumps(answer, ensure_ascii=False).encode()


def _hit(hit: Hit, n_bits: int, *, with_payload: bool) -> dict[str, Any]:
    written = {"id": hit.id, "distance": hit.distance, "score": 1 - hit.distance / n_bits}
    if with_payload:
        written["payload"] = dict(hit.payload or {})
    return written
