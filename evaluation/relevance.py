"""Which documents are relevant to a query, and to what grade: by labels or by judgements."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy  # its modules are imported when they are used: scipy.sparse takes long

from hummingbit.corpus.document import Document
from hummingbit.corpus.qrels import check_qrels
from hummingbit.encoder.encoder import Inputs
from hummingbit.evaluation.result import EvaluationError, row_blocks
from hummingbit.evaluation.trec import from_trec_id
from hummingbit.foundation.cancellation import check_cancelled
from hummingbit.foundation.errors import counted
from hummingbit.index.records import labels_of

# Which documents are relevant to a query, and to what grade: by labels or by their hierarchy.


MAX_LEVELS = 100
"""The most levels of a hierarchy. A level takes as long as labels without a hierarchy."""

SEPARATOR = "."
"""What separates the levels of a label."""

LabelSet = tuple[str, ...]
"""The tags of one query or document: one in a single-label corpus, none if it has no label."""

Ids = npt.NDArray[np.int64]

SparseTable = Any
"""scipy.sparse.csr_array. Its stubs do not say that a comparison returns another csr_array."""


@dataclass(frozen=True, slots=True, eq=False)
class Labelled:
    """Texts, or ``float32[N, D]`` vectors, with the label set of each.

    Raises:
        EvaluationError: if the numbers of inputs and label sets differ.
    """

    inputs: Inputs
    labels: Sequence[LabelSet]

    def __post_init__(self) -> None:
        if len(self.inputs) != len(self.labels):
            found = f"{len(self.inputs):,} inputs and {len(self.labels):,} label sets"
            raise EvaluationError(f"there are {found}; the numbers must be equal")

    def __len__(self) -> int:
        return len(self.labels)

    def take(self, rows: Sequence[int]) -> Labelled:
        """Return the inputs and labels of `rows`."""
        inputs = self.inputs
        taken = inputs[rows] if isinstance(inputs, np.ndarray) else [inputs[row] for row in rows]
        return Labelled(taken, [self.labels[row] for row in rows])


class Relevance:
    """The grade of every document for every query, 0 where it is not relevant.

    A corpus has few distinct label sets, so grades are stored for pairs of *sets*. `query_sets`
    (int64[Q]) and `document_sets` (int64[N]) number the set of each query and document from 0, and
    a grade applies to all members of both sets. :func:`relevance_by_label`,
    :func:`relevance_by_hierarchy` and :func:`hummingbit.evaluation.relevance.relevance_by_qrels`
    create instances.

    `levels` (int64[G]) are the grades above 0 that can occur, ascending. A metric with gains (nDCG)
    uses grades as they are. For all others a document is relevant if its grade is `relevant_from`
    or more.
    """

    def __init__(
        self,
        query_sets: Ids,
        document_sets: Ids,
        grades_of: Callable[[Ids], SparseTable],
        levels: Ids,
        relevant_from: int = 1,
    ) -> None:
        """Store the numbering and `grades_of`, which returns rows of the table of grades.

        Called with query sets, int64[n], `grades_of` returns int64[n, document sets].

        Raises:
            EvaluationError: if `relevant_from` is below 1.
        """
        if relevant_from < 1:
            raise EvaluationError(f"relevant_from is {relevant_from}; it must be at least 1")
        self.query_sets, self.document_sets = query_sets, document_sets
        self.set_sizes: Ids = np.bincount(document_sets)
        self.n_document_sets = len(self.set_sizes)
        self.levels, self.relevant_from = levels, relevant_from
        self._grades_of = grades_of

    def grades(self, query_sets: Ids) -> SparseTable:
        """Return the rows of the table of grades for `query_sets`, int64[len(query_sets), S].

        S is the number of document sets, `n_document_sets`. A set may occur more than once.
        """
        distinct, positions = np.unique(query_sets, return_inverse=True)
        return self._grades_of(distinct)[positions]

    def rows(self, query_sets: Ids) -> npt.NDArray[np.bool_]:
        """Return which document sets are relevant to `query_sets`, bool[len(query_sets), S]."""
        relevant: npt.NDArray[np.bool_] = self.grades(query_sets).toarray() >= self.relevant_from
        return relevant

    def grade_lists(self, query_sets: Ids, rows: Ids) -> Ids:
        """Return the grades of the documents of ranked lists, int64[Q, k].

        `query_sets` (int64[Q]) holds the set of each query, and `rows` (int64[Q, k]) the rows of
        the documents of its list.
        """
        table: Ids = self.grades(query_sets).toarray()
        return np.take_along_axis(table, self.document_sets[rows], axis=1)

    def grade_pairs(self, query_sets: Ids, rows: Ids) -> Ids:
        """Return the grade of one document for each query, int64[Q]; `rows` (int64[Q]) names it."""
        grades = np.empty(len(rows), dtype=np.int64)
        for block in row_blocks(len(rows), self.n_document_sets):
            grades[block] = self.grade_lists(query_sets[block], rows[block, None])[:, 0]
        return grades

    def totals(self, query_sets: Ids) -> Ids:
        """Count the documents of each grade in the whole database, int64[Q, G]."""
        grades = self.grades(query_sets)
        counts = [(grades == level).astype(np.int64) @ self.set_sizes for level in self.levels]
        return np.stack(counts, axis=1)

    def relevant(self, query_sets: Ids, rows: Ids) -> npt.NDArray[np.bool_]:
        """Return which documents of ranked lists are relevant, bool[Q, k]; see `grade_lists`."""
        return self.grade_lists(query_sets, rows) >= self.relevant_from


def relevance_by_label(
    query_labels: Sequence[LabelSet],
    document_labels: Sequence[LabelSet],
    *,
    hierarchy: bool = False,
    relevant_from: int = 1,
) -> Relevance:
    """Grade a document 1 for a query if their label sets share a tag, else 0.

    Single labels must be equal. A document without a label is relevant to no query. With
    `hierarchy`, grades are those of :func:`relevance_by_hierarchy`.

    Raises:
        EvaluationError: if the labels of a query or document are not a tuple, or `relevant_from` is
            not 1 without `hierarchy`.
    """
    if hierarchy:
        return relevance_by_hierarchy(query_labels, document_labels, relevant_from)
    if relevant_from != 1:
        raise EvaluationError(f"relevant_from is {relevant_from}; without a hierarchy it must be 1")
    return _relevance_by_prefix(query_labels, document_labels, 1, 1, separator=None)


def relevance_by_hierarchy(
    query_labels: Sequence[LabelSet],
    document_labels: Sequence[LabelSet],
    relevant_from: int = 1,
) -> Relevance:
    """Grade a document by how many levels of a hierarchy its label shares with the query's.

    Labels are paths from the root. The grade is the depth of the longest common prefix: for a query
    of ``rec.sport.hockey``, 3 for the same label, 2 for ``rec.sport.baseball``, 1 for ``rec.autos``
    and 0 for ``sci.space``. With several tags the best pair counts.

    Raises:
        EvaluationError: if the labels of a query or document are not a tuple, both queries and
            documents have labels of more than :data:`MAX_LEVELS` levels, or `relevant_from` is
            below 1.
    """
    # No two labels share more levels than the deepest of either side has.
    depth = min(_most_levels(side) for side in (query_labels, document_labels))
    if depth > MAX_LEVELS:
        message = f"queries and documents have labels of {depth:,} levels; at most {MAX_LEVELS}"
        raise EvaluationError(f"{message} can be graded")
    return _relevance_by_prefix(
        query_labels, document_labels, depth, relevant_from, separator=SEPARATOR
    )


def _most_levels(label_sets: Sequence[LabelSet]) -> int:
    return max((tag.count(SEPARATOR) + 1 for tags in label_sets for tag in tags), default=1)


def _relevance_by_prefix(
    query_labels: Sequence[LabelSet],
    document_labels: Sequence[LabelSet],
    depth: int,
    relevant_from: int,
    *,
    separator: str | None,
) -> Relevance:
    """Grade by the number of levels, 1 to `depth`, at which two tags have the same prefix."""
    query_sets, query_tuples = _number_label_sets(query_labels, "query")
    document_sets, document_tuples = _number_label_sets(document_labels, "document")
    layers = []
    for level in range(1, depth + 1):
        check_cancelled()
        tags: dict[str, int] = {}
        sides = [
            _incidence([_prefixes(label_set, level, separator) for label_set in tuples], tags)
            for tuples in (query_tuples, document_tuples)
        ]
        # The documents come second, and may have added tags.
        sides[0].resize((sides[0].shape[0], len(tags)))
        layers.append((sides[0], sides[1].T.tocsr()))

    def grades_of(query_sets: Ids) -> SparseTable:
        # Tags that share a prefix share all shorter ones, so the sum is the depth.
        return sum(
            ((query_side[query_sets] @ document_side) > 0).astype(np.int64)
            for query_side, document_side in layers
        )

    levels = np.arange(1, depth + 1, dtype=np.int64)
    return Relevance(query_sets, document_sets, grades_of, levels, relevant_from)


def _prefixes(tags: LabelSet, level: int, separator: str | None) -> LabelSet:
    """Return the distinct prefixes of `level` parts of the tags."""
    if separator is None:
        return tags
    # What lies below the level is not split: a client's label may have a million levels.
    paths = (tag.split(separator, level) for tag in tags)
    return tuple({separator.join(path[:level]): None for path in paths if len(path) >= level})


def check_labels(query_labels: Sequence[LabelSet], document_labels: Sequence[LabelSet]) -> None:
    """Check that there are queries and documents to measure.

    Raises:
        EvaluationError: if there is no query, a query has no label (the message names the first),
            there is no document, or no document has a label.
    """
    if not len(query_labels):
        raise EvaluationError("there are no queries; at least one is needed")
    unlabelled = [row for row, labels in enumerate(query_labels) if not labels]
    if unlabelled:
        raise EvaluationError(
            f"{len(unlabelled):,} of {len(query_labels):,} queries have no label, the first of them"
            f" query {unlabelled[0]} (counting from 0); every query needs at least one"
        )
    if not len(document_labels):
        raise EvaluationError("the database is empty; it needs at least one document with a label")
    if not any(document_labels):
        raise EvaluationError(
            f"the database has {counted(len(document_labels), 'document')}, and none has a label;"
            " there is nothing to compare the labels of the queries with"
        )


def query_labels(queries: Sequence[Document], label_field: str = "label") -> list[LabelSet]:
    """Return the labels of each query: its own or, if it has none, its payload's.

    Raises:
        InputError: if the `label_field` of a payload holds something other than labels.
    """
    return [query.labels or labels_of(query.payload, label_field) for query in queries]


def _number_label_sets(labels: Sequence[LabelSet], whose: str) -> tuple[Ids, list[LabelSet]]:
    numbers: dict[LabelSet, int] = {}
    # The position at which each set occurs first identifies it; this needs no loop in Python.
    firsts = np.fromiter(map(numbers.setdefault, labels, count()), np.int64, len(labels))
    ids = np.searchsorted(np.fromiter(numbers.values(), np.int64, len(numbers)), firsts)
    for label_set in numbers:
        # A string is also a sequence of strings, and its letters would count as tags.
        if not isinstance(label_set, tuple):
            message = f"labels of a {whose} are {label_set!r}; they must be a tuple of strings"
            raise EvaluationError(message)
    return ids, list(numbers)


def _incidence(label_sets: list[LabelSet], tags: dict[str, int]) -> SparseTable:
    """Return int32[sets, tags], above 0 where a set holds a tag.

    `tags` numbers the tags. Tags that it lacks are added.
    """
    columns = [tags.setdefault(tag, len(tags)) for label_set in label_sets for tag in label_set]
    ends = np.cumsum([0, *(len(label_set) for label_set in label_sets)])
    ones = np.ones(len(columns), dtype=np.int32)
    return scipy.sparse.csr_array((ones, columns, ends), shape=(len(label_sets), len(tags)))


# Relevance by judgement: qrels applied to the evaluated queries and the stored documents.


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
        InputError: if a grade is invalid (:func:`hummingbit.corpus.grades.check_grade`).
    """
    query_rows = _number_ids(query_ids, "query")
    document_rows = _number_ids(document_ids, "document")
    if not any(qrels.values()):
        raise EvaluationError("the qrels are empty; at least one judgement is needed")
    qrels = check_qrels(qrels)
    qrels = find_encoded_ids(qrels, query_rows, document_rows)
    judgements = {
        (query, document): grade
        for query, graded in qrels.items()
        for document, grade in graded.items()
        if query in query_rows and document in document_rows
    }
    if not judgements:
        raise EvaluationError(_explain_no_judgement(qrels, query_rows, document_rows))
    if max(judgements.values()) < relevant_from:
        message = f"no judgement has a grade of {relevant_from} or more; nothing is relevant"
        raise EvaluationError(message)
    relevance = _make_relevance(judgements, query_rows, document_rows, relevant_from)
    return relevance, _oddities(qrels, query_rows, document_rows)


def _explain_no_judgement(
    qrels: Mapping[str, Mapping[str, int]],
    queries: Mapping[str, int],
    documents: Mapping[str, int],
) -> str:
    """Return why the qrels judge no pair of `queries` and `documents`: which ids are others."""
    message = "the qrels judge no stored document for any of the queries; they name"
    judged = [id_ for query, graded in qrels.items() if query in queries for id_ in graded]
    if not judged:
        theirs, ours = name_some([*qrels]), name_some([*queries])
        return f"{message} queries such as {theirs}, and the queries to evaluate are {ours}"
    theirs, ours = name_some([*dict.fromkeys(judged)]), name_some([*documents])
    return f"{message} documents such as {theirs}, and those of the collection are {ours}"


def find_encoded_ids(
    qrels: Mapping[str, Mapping[str, int]], queries: Container[str], documents: Container[str]
) -> Mapping[str, Mapping[str, int]]:
    """Return `qrels` by the ids of `queries` and `documents` that they stand for.

    Ids count as percent-encoded (:func:`hummingbit.evaluation.trec.to_trec_id`) if all of them can
    be, and one is known only when it is decoded. Otherwise they are taken as they stand. This is
    decided for queries and for documents.
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
    table = scipy.sparse.csr_array((grades, (rows, columns)), shape=shape)

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
        raise EvaluationError(f"there are no {plural}; at least one is needed")
    repeated = duplicates(ids)
    if repeated:
        raise EvaluationError(
            f"{len(repeated):,} {kind} ids occur more than once: {name_some(repeated)};"
            " with qrels, every id must be unique"
        )
    return {id_: row for row, id_ in enumerate(ids)}
