"""Which documents are relevant to a query: those that share a tag with it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy import sparse

from encoder.encoder import Inputs
from evaluation.blocks import row_blocks
from evaluation.result import EvaluationError

LabelSet = tuple[str, ...]
"""The tags of one query or document; one for a single-label corpus, none where it has no label."""

Ids = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class Labelled:
    """Texts, or ``float32[N, D]`` vectors, with the label set of each.

    Raises:
        EvaluationError: if there are not as many inputs as label sets.
    """

    inputs: Inputs
    labels: Sequence[LabelSet]

    def __post_init__(self) -> None:
        if len(self.inputs) != len(self.labels):
            given = f"{len(self.inputs):,} inputs and {len(self.labels):,} label sets"
            message = f"{given} were given; there must be as many"
            raise EvaluationError(message)

    def __len__(self) -> int:
        return len(self.labels)


class Relevance:
    """Relevance of every document to every query, by label.

    A query and a document are relevant to each other when their label sets share a tag; where
    each has a single label, when it is the same. What has no label is relevant to nothing.

    Corpora have few distinct label sets, so everything is kept by label set: `query_sets`
    (int64[Q]) and `document_sets` (int64[N]) number the label set of each query and document from
    0, and relevance is a table of query sets by document sets. :meth:`rows` gives rows of it; the
    whole would be too large where every document has a label of its own.

    Raises:
        EvaluationError: if the labels of a query or document are a string instead of a tuple.
    """

    def __init__(
        self, query_labels: Sequence[LabelSet], document_labels: Sequence[LabelSet]
    ) -> None:
        self.query_sets, query_tuples = _number_label_sets(query_labels, "query")
        self.document_sets, document_tuples = _number_label_sets(document_labels, "document")
        tags: dict[str, int] = {}
        for label_set in (*query_tuples, *document_tuples):
            for tag in label_set:
                tags.setdefault(tag, len(tags))
        self.n_document_sets = len(document_tuples)
        self._query_tags = _incidence(query_tuples, tags)
        self._document_tags = _incidence(document_tuples, tags)

    def rows(self, query_sets: Ids) -> npt.NDArray[np.bool_]:
        """Return the rows of the relevance table for `query_sets`, bool[len(query_sets), S].

        S is the number of document sets, `n_document_sets`. A set may occur more than once.
        """
        wanted, place = np.unique(query_sets, return_inverse=True)
        shared = self._query_tags[wanted] @ self._document_tags.T
        rows: npt.NDArray[np.bool_] = shared.toarray() > 0
        return rows[place]

    def relevant(self, query_sets: Ids, rows: Ids) -> npt.NDArray[np.bool_]:
        """Tell which documents of ranked lists are relevant to their queries.

        `query_sets` (int64[Q]) holds the label set of each query, `rows` (int64[Q, k]) its list:
        documents by their position. Returns bool[Q, k].
        """
        return np.take_along_axis(self.rows(query_sets), self.document_sets[rows], axis=1)

    def count_queries_without_relevant(self) -> int:
        """Count the queries that no document is relevant to."""
        queries_of_set = np.bincount(self.query_sets)
        lost = 0
        for block in row_blocks(len(queries_of_set), self.n_document_sets):
            found = self.rows(np.arange(block.start, block.stop)).any(axis=1)
            lost += int(queries_of_set[block][~found].sum())
        return lost


def check_labels(query_labels: Sequence[LabelSet], document_labels: Sequence[LabelSet]) -> None:
    """Check that there is something to measure.

    Raises:
        EvaluationError: if there is no query, a query has no label (the first is named), there is
            no document, or no document has a label.
    """
    if not len(query_labels):
        message = "there are no queries; at least one is needed"
        raise EvaluationError(message)
    bare = [place for place, labels in enumerate(query_labels) if not labels]
    if bare:
        message = (
            f"{len(bare):,} of {len(query_labels):,} queries have no label, the first of them query"
            f" {bare[0]} (counting from 0); every query needs at least one"
        )
        raise EvaluationError(message)
    if not len(document_labels):
        message = "the database is empty; it needs at least one document with a label"
        raise EvaluationError(message)
    if not any(document_labels):
        message = (
            f"none of the {len(document_labels):,} documents of the database has a label;"
            " there is nothing to compare the labels of the queries with"
        )
        raise EvaluationError(message)


def _number_label_sets(labels: Sequence[LabelSet], whose: str) -> tuple[Ids, list[LabelSet]]:
    numbers: dict[LabelSet, int] = {}
    ids = np.fromiter(
        (numbers.setdefault(label_set, len(numbers)) for label_set in labels),
        dtype=np.int64,
        count=len(labels),
    )
    for label_set in numbers:
        # A string is a sequence of strings too: its letters would pass for tags.
        if not isinstance(label_set, tuple):
            message = f"labels of a {whose} are {label_set!a}; they must be a tuple of strings"
            raise EvaluationError(message)
    return ids, list(numbers)


def _incidence(label_sets: list[LabelSet], tags: dict[str, int]) -> sparse.csr_array:
    """Return int32[sets, tags], above 0 where a set holds a tag."""
    columns = [tags[tag] for label_set in label_sets for tag in label_set]
    ends = np.cumsum([0, *(len(label_set) for label_set in label_sets)])
    ones = np.ones(len(columns), dtype=np.int32)
    return sparse.csr_array((ones, columns, ends), shape=(len(label_sets), len(tags)))
