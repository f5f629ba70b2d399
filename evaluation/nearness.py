"""Relevance by nearness: the documents nearest to a query by its words or its vector."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt

from hummingbit.corpus.document import Document
from hummingbit.corpus.qrels import Qrels
from hummingbit.encoder.encoder import Inputs
from hummingbit.evaluation.baselines import cosine_blocks, tfidf_scores
from hummingbit.evaluation.relevance import Ids
from hummingbit.evaluation.result import EvaluationError
from hummingbit.index.records import StoredDocument


def nearest_rows(
    documents: Inputs, queries: Inputs, count: int, self_rows: Ids | None = None
) -> list[Ids]:
    """Return the rows of the `count` documents nearest to each query, nearest first.

    Nearness is the cosine: of TF-IDF vectors for texts (:func:`tfidf_scores`), or of the vectors
    themselves, float32[N, D]. Of equal cosines the lower row comes first. A document with a cosine
    of 0 or less is not near, so a list may be shorter. The document at the row that `self_rows`
    has for a query is left out; -1 leaves out none.

    Raises:
        EvaluationError: if `count` is below 1, one side is texts and the other vectors, vectors
            differ in length, or no text of the documents has a word.
    """
    if count < 1:
        raise EvaluationError(f"nearest is {count}; it must be 1 or more")
    nearest: list[Ids] = []
    for block in _cosines(documents, queries):
        for cosines in block:
            if self_rows is not None and self_rows[len(nearest)] >= 0:
                cosines[self_rows[len(nearest)]] = 0
            nearest.append(_largest(cosines, count))
    return nearest


def nearest_qrels(
    documents: Sequence[StoredDocument],
    queries: Sequence[Document],
    count: int,
    self_rows: Ids | None = None,
) -> Qrels:
    """Return judgements by which the :func:`nearest_rows` of each query have grade 1.

    If all documents and queries have vectors, these are compared, and otherwise their texts.

    Raises:
        EvaluationError: as :func:`nearest_rows`; if a document or a query has no text, and not all
            have vectors; or if a query id occurs twice.
    """
    if len({query.id for query in queries}) < len(queries):
        raise EvaluationError("query ids occur more than once; with nearest, each must be unique")
    rows = nearest_rows(*_comparable(documents, queries), count, self_rows)
    return {
        query.id: {documents[row].id: 1 for row in near}
        for query, near in zip(queries, rows, strict=True)
    }


def _comparable(
    documents: Sequence[StoredDocument], queries: Sequence[Document]
) -> tuple[Inputs, Inputs]:
    both: list[Inputs] = []
    for items in (documents, queries):
        vectors = [item.vector for item in items if item.vector is not None]
        if not items or len(vectors) < len(items) or len({len(vector) for vector in vectors}) > 1:
            break
        both.append(np.stack(vectors))
    else:
        return both[0], both[1]
    for kind, each in (("document", documents), ("query", queries)):
        without = [item.id for item in each if item.text is None]
        if without:
            raise EvaluationError(
                f"{kind} {without[0]!r} has no text; nearest compares documents and queries that"
                " all have texts, or all have vectors of one length"
            )
    return [str(document.text) for document in documents], [str(query.text) for query in queries]


def _cosines(documents: Inputs, queries: Inputs) -> Iterator[npt.NDArray[np.float32]]:
    """Yield float32[q, N] for a block of queries at a time."""
    if not isinstance(documents, np.ndarray) or not isinstance(queries, np.ndarray):
        yield from tfidf_scores(documents, queries)
        return
    if documents.shape[1:] != queries.shape[1:]:
        found = f"documents have vectors of {documents.shape[1]} numbers, queries of"
        raise EvaluationError(f"{found} {queries.shape[1]}; nearest compares vectors of one length")
    yield from cosine_blocks(queries, documents)


def _largest(cosines: npt.NDArray[np.float32], count: int) -> Ids:
    rows = np.flatnonzero(cosines > 0)
    if len(rows) > count:
        edge = np.partition(cosines[rows], len(rows) - count)[len(rows) - count]
        rows = rows[cosines[rows] >= edge]
    order = np.argsort(-cosines[rows], kind="stable")
    return np.asarray(rows[order[:count]], dtype=np.int64)
