"""Relevance by judgement: qrels applied to the evaluated queries and the stored documents."""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Iterable, Mapping, Sequence

import numpy as np
from scipy import sparse

from evaluation.relevance import Ids, Relevance, SparseTable
from evaluation.result import EvaluationError
from evaluation.trec import from_trec_id
from foundation.errors import counted

MAX_NAMED_IDS = 5


def relevance_by_qrels(
    qrels: Mapping[str, Mapping[str, int]],
    query_ids: Sequence[str],
    document_ids: Sequence[str],
    relevant_from: int = 1,
) -> tuple[Relevance, list[str]]:
    """Grade documents as `qrels` judge them; without a judgement above 0 the grade is 0.

    Ids that were percent-encoded for TREC's format are found, too (:func:`find_encoded_ids`).

    Returns the relevance, and a sentence for each oddity that does not stop an evaluation: ignored
    judgements, whose query is not in `query_ids` or whose document is not in `document_ids`, and
    queries without a judgement, which score 0.

    Raises:
        EvaluationError: if an id occurs twice, there are no queries or documents, the qrels are
            empty, no judgement has both its query and its document among the ids, none of those
            that have both has a grade of `relevant_from` or more, or `relevant_from` is below 1.
    """
    query_rows = _number_ids(query_ids, "query")
    document_rows = _number_ids(document_ids, "document")
    if not any(qrels.values()):
        message = "the qrels are empty; at least one judgement is needed"
        raise EvaluationError(message)
    qrels = find_encoded_ids(qrels, query_rows, document_rows)
    judgements = {
        (query, document): grade
        for query, graded in qrels.items()
        for document, grade in graded.items()
        if query in query_rows and document in document_rows
    }
    if not judgements:
        message = (
            "the qrels judge no stored document for any of the queries; they name queries such as"
            f" {name_some(list(qrels))}, and the queries to evaluate are {name_some(query_ids)}"
        )
        raise EvaluationError(message)
    if max(judgements.values()) < relevant_from:
        message = f"no judgement has a grade of {relevant_from} or more; nothing is relevant"
        raise EvaluationError(message)
    relevance = _make_relevance(judgements, query_rows, document_rows, relevant_from)
    return relevance, _oddities(qrels, query_rows, document_rows)


def find_encoded_ids(
    qrels: Mapping[str, Mapping[str, int]], queries: Container[str], documents: Container[str]
) -> Mapping[str, Mapping[str, int]]:
    """Return `qrels` by the ids of `queries` and `documents` that they stand for.

    Ids count as percent-encoded (:func:`evaluation.trec.to_trec_id`) if all of them can be, and one
    is known only when it is decoded. Otherwise they are taken as they stand. This is decided for
    queries and for documents.
    """
    query_ids = _decoded(qrels, queries)
    ids = dict.fromkeys(document for graded in qrels.values() for document in graded)
    document_ids = _decoded(ids, documents)
    if not query_ids and not document_ids:
        return qrels
    return {
        query_ids.get(query, query): {
            document_ids.get(document, document): grade for document, grade in graded.items()
        }
        for query, graded in qrels.items()
    }


def _decoded(ids: Iterable[str], known: Container[str]) -> dict[str, str]:
    """Return the decoded ids by the encoded ones; none if `ids` are to be taken as they stand."""
    decoded = {}
    for id_ in ids:
        if "%" in id_:
            decoded[id_] = from_trec_id(id_)
            if decoded[id_] == id_:
                return {}
    found = any(id_ not in known and text in known for id_, text in decoded.items())
    return decoded if found and all(id_.split() == [id_] for id_ in ids) else {}


def duplicates(ids: Sequence[str]) -> list[str]:
    """Return the ids that occur more than once."""
    return [id_ for id_, n in Counter(ids).items() if n > 1]


def name_some(ids: Sequence[str]) -> str:
    """Return the first few of `ids` as text for a sentence."""
    names = ", ".join(repr(id_)[1:-1][:60] for id_ in ids[:MAX_NAMED_IDS])
    return names if len(ids) <= MAX_NAMED_IDS else f"{names}, …"


def _make_relevance(
    judgements: Mapping[tuple[str, str], int],
    query_rows: Mapping[str, int],
    document_rows: Mapping[str, int],
    relevant_from: int,
) -> Relevance:
    """Put every document that is relevant to a query in a set of its own, and the rest in set 0."""
    positive = {pair: grade for pair, grade in judgements.items() if grade > 0}
    numbers: dict[str, int] = {}
    for _, document in positive:
        numbers.setdefault(document, len(numbers) + 1)
    document_sets = np.zeros(len(document_rows), dtype=np.int64)
    for document, number in numbers.items():
        document_sets[document_rows[document]] = number
    rows = [query_rows[query] for query, _ in positive]
    columns = [numbers[document] for _, document in positive]
    grades = np.array(list(positive.values()), dtype=np.int64)
    shape = (len(query_rows), len(numbers) + 1)
    table = sparse.csr_array((grades, (rows, columns)), shape=shape)

    def grades_of(query_sets: Ids) -> SparseTable:
        return table[query_sets]

    query_sets = np.arange(len(query_rows), dtype=np.int64)
    return Relevance(query_sets, document_sets, grades_of, np.unique(grades), relevant_from)


def _oddities(
    qrels: Mapping[str, Mapping[str, int]],
    query_rows: Mapping[str, int],
    document_rows: Mapping[str, int],
) -> list[str]:
    unknown_queries = [query for query in qrels if query not in query_rows]
    documents = dict.fromkeys(document for graded in qrels.values() for document in graded)
    unknown_documents = [document for document in documents if document not in document_rows]
    unjudged = [query for query in query_rows if not qrels.get(query)]
    unknown = counted(len(unknown_queries), "query", "queries")
    not_stored = counted(len(unknown_documents), "document")
    without = counted(len(unjudged), "query", "queries")
    sentences = {
        f"{unknown} of the qrels not among the queries, ignored": unknown_queries,
        f"{not_stored} of the qrels not stored, ignored": unknown_documents,
        f"{without} without a judgement in the qrels, scored as 0": unjudged,
    }
    return [f"{sentence}: {name_some(ids)}" for sentence, ids in sentences.items() if ids]


def _number_ids(ids: Sequence[str], kind: str) -> dict[str, int]:
    if not len(ids):
        plural = "queries" if kind == "query" else "documents"
        message = f"there are no {plural}; at least one is needed"
        raise EvaluationError(message)
    repeated = duplicates(ids)
    if repeated:
        message = (
            f"{len(repeated):,} {kind} ids occur more than once: {name_some(repeated)};"
            " with qrels, every id must be unique"
        )
        raise EvaluationError(message)
    return {id_: row for row, id_ in enumerate(ids)}
