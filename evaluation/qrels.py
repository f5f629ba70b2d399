"""Relevance by judgement: qrels applied to the queries asked and the documents stored."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

import numpy as np
from scipy import sparse

from evaluation.relevance import Ids, Relevance, SparseTable
from evaluation.result import EvaluationError

SHOWN_IDS = 5


def relevance_by_qrels(
    qrels: Mapping[str, Mapping[str, int]],
    query_ids: Sequence[str],
    document_ids: Sequence[str],
    relevant_from: int = 1,
) -> tuple[Relevance, list[str]]:
    """Grade documents as `qrels` judge them; what is not judged, or below 1, has grade 0.

    Returns the relevance and a sentence for each oddity that does not stop an evaluation:
    judgements of documents that are not stored or queries that are not asked, which count for
    nothing, and queries without a judgement, which score 0.

    Raises:
        EvaluationError: if an id of a query or document comes twice, there are no queries or
            documents, the qrels are empty, no judgement is of a query that is asked and a document
            that is stored, none of these has a grade from `relevant_from` on, or `relevant_from`
            is below 1.
    """
    query_place = _number(query_ids, "queries")
    document_place = _number(document_ids, "documents")
    if not any(qrels.values()):
        message = "the qrels are empty; at least one judgement is needed"
        raise EvaluationError(message)
    known = {
        (query, document): grade
        for query, judged in qrels.items()
        for document, grade in judged.items()
        if query in query_place and document in document_place
    }
    if not known:
        message = (
            "no judgement of the qrels is of a query that is asked and a document that is stored;"
            f" judged are queries such as {name_some(list(qrels))}, asked {name_some(query_ids)}"
        )
        raise EvaluationError(message)
    if max(known.values()) < relevant_from:
        message = f"no judgement has a grade of {relevant_from} or more; nothing is relevant"
        raise EvaluationError(message)
    relevance = _make(known, query_place, document_place, relevant_from)
    return relevance, _oddities(qrels, query_place, document_place)


def duplicates(ids: Sequence[str]) -> list[str]:
    """Return the ids that come more than once."""
    return [id_ for id_, n in Counter(ids).items() if n > 1]


def name_some(ids: Sequence[str]) -> str:
    """Write the first few of `ids` for a sentence."""
    shown = ", ".join(ascii(id_)[1:-1][:60] for id_ in ids[:SHOWN_IDS])
    return shown if len(ids) <= SHOWN_IDS else f"{shown}, …"


def _make(
    known: Mapping[tuple[str, str], int],
    query_place: Mapping[str, int],
    document_place: Mapping[str, int],
    relevant_from: int,
) -> Relevance:
    """Number every judged document as a set of its own; set 0 is what nobody judged relevant."""
    positive = {pair: grade for pair, grade in known.items() if grade > 0}
    numbers: dict[str, int] = {}
    for _, document in positive:
        numbers.setdefault(document, len(numbers) + 1)
    document_sets = np.zeros(len(document_place), dtype=np.int64)
    for document, number in numbers.items():
        document_sets[document_place[document]] = number
    rows = [query_place[query] for query, _ in positive]
    columns = [numbers[document] for _, document in positive]
    grades = np.array(list(positive.values()), dtype=np.int64)
    shape = (len(query_place), len(numbers) + 1)
    table = sparse.csr_array((grades, (rows, columns)), shape=shape)

    def grades_of(query_sets: Ids) -> SparseTable:
        return table[query_sets]

    query_sets = np.arange(len(query_place), dtype=np.int64)
    return Relevance(query_sets, document_sets, grades_of, np.unique(grades), relevant_from)


def _oddities(
    qrels: Mapping[str, Mapping[str, int]],
    query_place: Mapping[str, int],
    document_place: Mapping[str, int],
) -> list[str]:
    not_asked = [query for query in qrels if query not in query_place]
    judged = dict.fromkeys(document for one in qrels.values() for document in one)
    not_stored = [document for document in judged if document not in document_place]
    unjudged = [query for query in query_place if not qrels.get(query)]
    sentences = {
        "of the qrels are not asked and left out": ("queries", not_asked),
        "of the qrels are not stored and left out": ("documents", not_stored),
        "have no judgement in the qrels and score 0": ("queries", unjudged),
    }
    return [
        f"{len(ids):,} {what} {sentence}: {name_some(ids)}"
        for sentence, (what, ids) in sentences.items()
        if ids
    ]


def _number(ids: Sequence[str], whose: str) -> dict[str, int]:
    if not len(ids):
        message = f"there are no {whose}; at least one is needed"
        raise EvaluationError(message)
    twice = duplicates(ids)
    if twice:
        message = (
            f"{len(twice):,} ids of {whose} come more than once: {name_some(twice)}; qrels need"
        )
        raise EvaluationError(f"{message} every id to be one of its own")
    return {id_: place for place, id_ in enumerate(ids)}
