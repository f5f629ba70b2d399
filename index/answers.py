"""The responses to searches, and stored documents, as JSON values.

Their fields are those of ``SearchResponse`` and ``StoredDocument`` of the clients.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import fields
from functools import partial
from operator import attrgetter
from typing import Any

import numpy as np
import orjson

from hummingbit.encoder.codes import Codes, code_from_hex, unpack_codes
from hummingbit.encoder.encoder import Encoder, explain_text
from hummingbit.index.backend import CollectionBackend
from hummingbit.index.options import SearchOptions
from hummingbit.index.payloads import PayloadSelection, select_fields
from hummingbit.index.query_syntax import both
from hummingbit.index.questions import Question
from hummingbit.index.records import StoredDocument, StoredPayload
from hummingbit.index.search import (
    Hit,
    QueryResult,
    SearchResult,
    explain_no_groups,
    explain_no_values,
    with_warnings,
)

_WRITTEN_APART = frozenset(
    "generation ranking recognized_terms next_cursor query_code groups facets facets_over".split()
)
_ID = re.compile(r"[^\s\"]{0,64}\d[^\s\"]{0,64}")
"""Words with digits, as ids are that people search for."""
OPTIONAL_FIELDS = [field.name for field in fields(QueryResult) if field.name not in _WRITTEN_APART]
"""The fields of a response that are written as :class:`QueryResult` has them, unless empty."""
OPTIONAL_HIT_FIELDS = [
    name
    for name in Hit._field_defaults
    if name not in {"payload", "text", "code", "highlight", "passage"}
]
"""The fields of hits that are written as :class:`Hit` has them, unless they are None."""


def answer_to(
    collection: CollectionBackend, options: SearchOptions, search: Callable[[], SearchResult]
) -> dict[str, Any]:
    """Search for one query; return the response as :func:`explained_answer` does."""
    began = time.perf_counter()
    result = search()
    return explained_answer(collection, result, 0, options, time.perf_counter() - began)


def explained_answer(
    collection: CollectionBackend,
    result: SearchResult,
    position: int,
    options: SearchOptions,
    seconds: float,
) -> dict[str, Any]:
    """Return the response that :func:`search_answer` does, with why parts of it are empty."""
    answer = search_answer(collection, result, position, options, seconds)
    facets = () if result.facets is None else result.facets[position]
    said = explain_no_values(collection, facets) + _tell_id(collection, result, position)
    answer = with_warnings(answer, said)
    groups = answer.get("groups")
    if answer["hits"] or groups or options.cursor is not None or options.offset:
        return answer
    conditions = result.queries[position : position + 1].conditions
    warnings = collection.explain_no_hits(both(options.filter, *conditions))
    return with_warnings(answer, warnings + explain_no_groups(collection, options.group_by, groups))


def _tell_id(collection: CollectionBackend, result: SearchResult, position: int) -> list[str]:
    """Return a sentence if the whole query is the id of a document that is not the first hit."""
    question, hits = result.queries.questions[position], result.hits[position]
    text = question.text if question is not None and question.syntax.is_plain else ""
    if hits and text.isdigit():  # a number means more than an id
        return []
    if not _ID.fullmatch(text) or (hits and hits[0].id == text) or collection.get(text) is None:
        return []
    return [f"{text!r} is the id of a document, and ids are not searched; id:{text} finds it"]


def search_answer(
    collection: CollectionBackend,
    result: SearchResult,
    position: int,
    options: SearchOptions,
    seconds: float,
) -> dict[str, Any]:
    """Return the response to a search as JSON values, for the query at a `position` of a batch.

    `options` are those of the query. Hits beyond their limit and radius, which other queries of the
    batch requested, are left out. `seconds` is the time of the whole batch.
    """
    all_hits = result.hits[position]
    hits = all_hits[: options.k]
    radius = options.radius
    if radius is not None:
        hits = [hit for hit in hits if (hit.distance or 0) <= radius]
    name, fingerprint = collection.encoder_name, collection.encoder_fingerprint
    told = result.of_query(position, with_code=bool(options.with_code))
    answer: dict[str, Any] = {
        "hits": _write_hits(result, hits, position, options),
        "n_bits": collection.n_bits,
        "encoder": None if name is None else {"name": name, "fingerprint": fingerprint},
        "generation": told.generation,
        "engine": result.engine,
        "ranking": result.rankings[position],
        "ties_cut": _ties_cut(all_hits, len(hits), cut=result.ties_cut[position]),
        "took_ms": round(seconds * 1000, 3),
    }
    question, encoder = result.queries.questions[position], collection.encoder
    if question is not None:
        answer["corrected"] = told.corrected
    answer |= _told(told)
    if result.reranked:
        answer["reranked"] = True
    if result.rescored_by is not None:
        answer["rescored_by"] = result.rescored_by
        answer["candidates"] = result.candidates
    if options.with_cursor or options.cursor is not None:
        answer["next_cursor"] = told.next_cursor
    if options.with_code:
        answer["query_code"] = told.query_code
    answer |= _groups_and_facets(result, position, options)
    if options.explain and question is not None and encoder is not None:
        answer["query_terms"] = _explain(encoder, question)
    return answer


def _told(told: QueryResult) -> dict[str, Any]:
    """Return what is told of a query, as far as there is anything."""
    written: dict[str, Any] = {}
    if told.recognized_terms is not None:
        written["recognized_terms"] = told.recognized_terms
    for field in OPTIONAL_FIELDS:
        if value := getattr(told, field):
            written[field] = value
    return written


def _explain(encoder: Encoder, question: Question) -> list[dict[str, Any]]:
    """Return the terms of a question that weigh most in its code."""
    terms = explain_text(encoder, question.encoded, correct=False)
    return [term._asdict() for term in terms]


def _groups_and_facets(
    result: SearchResult, position: int, options: SearchOptions
) -> dict[str, Any]:
    """Return the groups and the facets of a query, as far as they were requested."""
    written: dict[str, Any] = {}
    if result.groups is not None:
        written["groups"] = [
            {"id": group.id, "hits": _write_hits(result, group.hits, position, options)}
            for group in result.groups[position]
        ]
    if result.facets is not None:
        written["facets"] = [facet._asdict() for facet in result.facets[position]]
        written["facets_over"] = result.facets_over[position]
    return written


def _write_hits(
    result: SearchResult, hits: Sequence[Hit], position: int, options: SearchOptions
) -> list[dict[str, Any]]:
    written: list[dict[str, Any]] = [
        {"id": hit.id, "distance": hit.distance, "score": hit.score} for hit in hits
    ]
    for name, values in _other_fields(result, hits, position, options).items():
        for entry, value in zip(written, values, strict=True):
            entry[name] = value
    return written


def _other_fields(
    result: SearchResult, hits: Sequence[Hit], position: int, options: SearchOptions
) -> dict[str, Iterable[Any]]:
    """Return each further field of the hits, in their order."""
    columns: dict[str, Iterable[Any]] = {}
    if options.with_payload:
        columns["payload"] = _selected([hit.payload for hit in hits], options.with_payload)
    if options.with_text:
        columns["text"] = map(attrgetter("text"), hits)
    if result.highlighted:
        columns["highlight"] = (hit.highlight and hit.highlight._asdict() for hit in hits)
    if options.with_passage:
        columns["passage"] = map(_passage, hits)
    for field in OPTIONAL_HIT_FIELDS:
        if hits and getattr(hits[0], field) is not None:
            columns[field] = map(attrgetter(field), hits)
    if options.with_code:
        columns["code"] = map(attrgetter("code"), hits)
    if options.explain:
        columns["differing_bits"] = map(
            partial(_differing_bits, result.queries.codes[position]), hits
        )
    return columns


def _passage(hit: Hit) -> dict[str, Any] | None:
    if hit.text is None:
        return None
    start, end = hit.passage or (0, len(hit.text))
    return {"text": hit.text[start:end], "start": start}


def _differing_bits(query_code: Codes, hit: Hit) -> list[int]:
    """Return the bits in which the code of a hit differs from the query's."""
    code = code_from_hex(hit.code or "", len(query_code) * 8)
    of_hit, of_query = unpack_codes(np.stack([code, query_code]))
    bits: list[int] = np.flatnonzero(of_hit != of_query).tolist()
    return bits


def document_to_json(
    stored: StoredDocument, with_payload: PayloadSelection = True
) -> dict[str, Any]:
    """Return a stored document as JSON values."""
    return {
        "id": stored.id,
        "code": stored.code,
        "text": stored.text,
        "vector": None if stored.vector is None else stored.vector.tolist(),
        "payload": _selected([stored.payload], with_payload)[0],
    }


def _selected(
    payloads: Sequence[Mapping[str, Any] | None], selection: PayloadSelection
) -> list[dict[str, Any] | orjson.Fragment]:
    """Return the requested part of each payload; it is empty if none is."""
    if not selection:
        return [{} for _ in payloads]
    if isinstance(selection, tuple):
        return [select_fields(payload or {}, selection) for payload in payloads]
    return [
        # orjson copies a payload that is not parsed. isinstance() of an abstract class is slow.
        orjson.Fragment(payload.json) if type(payload) is StoredPayload else dict(payload or {})
        for payload in payloads
    ]


def _ties_cut(hits: Sequence[Hit], n_kept: int, *, cut: bool) -> bool:
    """Tell whether documents with the score of the last of the first `n_kept` hits are left out."""
    if n_kept == len(hits):
        return cut
    return n_kept > 0 and hits[n_kept].score == hits[n_kept - 1].score
