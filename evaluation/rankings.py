"""Evaluates rankings of a collection on the same queries."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from hummingbit.corpus.document import Document
from hummingbit.encoder.codes import Codes, codes_from_hex
from hummingbit.encoder.encoder import Content
from hummingbit.encoder.limits import (
    MAX_HYBRID_WEIGHT,
    MIN_HYBRID_WEIGHT,
)
from hummingbit.evaluation.evaluate import (
    CodedDocuments,
    Learned,
    Scores,
    evaluate_by_score,
    evaluate_ranking,
    split_learned,
)
from hummingbit.evaluation.metrics import DEFAULT_METRICS, parse_metrics
from hummingbit.evaluation.nearness import nearest_qrels
from hummingbit.evaluation.relevance import (
    Ids,
    LabelSet,
    Relevance,
    check_labels,
    duplicates,
    name_some,
    query_labels,
    relevance_by_label,
    relevance_by_qrels,
)
from hummingbit.evaluation.result import Evaluation, EvaluationError
from hummingbit.evaluation.trec import format_run
from hummingbit.foundation.arrays import sorted_distinct
from hummingbit.foundation.errors import InputError, counted
from hummingbit.foundation.slices import begin_stage
from hummingbit.index.backend import CollectionBackend
from hummingbit.index.encoding import WITHOUT_CODES
from hummingbit.index.engines.weighted import weighted_distances
from hummingbit.index.filters import Exists, Filter, Or
from hummingbit.index.names import (
    ASYMMETRIC,
    HAMMING,
    HYBRID,
    MAX_K,
    PLAIN,
)
from hummingbit.index.options import (
    DEFAULT_OVERSAMPLE,
    Hybrid,
    Rescore,
    SearchOptions,
    check_ranking,
)
from hummingbit.index.rankings import (
    BY_WORDS,
    quantize_weights,
    ranking_without_text,
)
from hummingbit.index.records import EncodedQueries, Query, StoredDocument, labels_of
from hummingbit.index.search import choose_ranking

SERVED = "served"
"""In place of a ranking: that of a search that names none."""
QUERIES_AT_ONCE, HAMMING_QUERIES_AT_ONCE = 16, 1024
DEPTH = 1000
"""The number of hits of a search that are evaluated."""

Floats = npt.NDArray[np.float64]

# The documents of a collection, and the queries that its encoder did not learn from.


# Parsing codes holds the interpreter lock until it is done.
CODES_AT_ONCE = 10_000


class StoredDocuments(NamedTuple):
    """Codes, labels and ids of a collection by row."""

    codes: Codes
    labels: list[LabelSet]
    ids: list[str]


def to_stored_documents(
    documents: Sequence[StoredDocument], n_bits: int, label_field: str
) -> StoredDocuments:
    """Return codes, labels and ids of a collection's documents.

    Raises:
        InputError: if the `label_field` of a document holds something other than labels.
    """
    codes = np.empty((len(documents), n_bits // 8), dtype=np.uint8)
    for start in range(0, len(documents), CODES_AT_ONCE):
        some = documents[start : start + CODES_AT_ONCE]
        codes[start : start + len(some)] = codes_from_hex(
            [document.code for document in some], n_bits
        )
    labels = [labels_of(document.payload, label_field) for document in documents]
    return StoredDocuments(codes, labels, [document.id for document in documents])


def unseen_queries(
    collection: CollectionBackend,
    queries: Sequence[Document],
    documents: Sequence[StoredDocument] | None = None,
) -> tuple[list[Document], Learned]:
    """Return the queries that the collection's encoder did not learn from.

    All of them are returned if it learned from all; see :func:`split_learned`. `documents` are
    those of the collection, if they were read before. A query that is only a code is taken for one
    that it did not learn from.
    """
    encoder = collection.encoder
    if encoder is None or not encoder.learned or not queries:
        return list(queries), Learned()

    def content(document: Document | StoredDocument) -> Content | None:
        return document.text if encoder.kind == "text" else document.vector

    stored: list[tuple[str, Content | None]] = []
    if encoder.kind == "vector" or not len(encoder.learned.hashes):
        if documents is None:
            ids = collection.existing_ids(sorted(encoder.learned.labelled_ids))
            documents = [document for id_ in ids if (document := collection.get(id_)) is not None]
        stored = [(document.id, content(document)) for document in documents]
    is_learned = encoder.learned.contain(map(content, queries), stored)
    rows, learned = split_learned(is_learned)
    return [queries[row] for row in rows], learned


def encode_queries(collection: CollectionBackend, queries: Sequence[Document]) -> EncodedQueries:
    """Encode the text, vector or code of each query as a search of the collection does.

    Raises:
        InputError: if the collection's encoder does not accept a query.
    """
    encoded = [Query(text=query.text, vector=query.vector, code=query.code) for query in queries]
    return collection.encode_queries(encoded, SearchOptions(1, syntax=PLAIN))


def rows_of(query_ids: Sequence[str], stored_ids: Sequence[str]) -> Ids:
    """Return the row of the stored document with the id of each query, -1 if there is none."""
    rows = {id_: row for row, id_ in enumerate(stored_ids)}
    return np.array([rows.get(id_, -1) for id_ in query_ids], dtype=np.int64)


# Which documents are relevant.


@dataclass(frozen=True, slots=True)
class RelevanceSettings:
    """Which documents count as relevant.

    Without `qrels` (grades by query id and document id), documents are relevant by label as in
    :func:`hummingbit.evaluation.evaluate.evaluate_codes`. The labels of a stored document are in
    the `label_field` of its payload. The labels of a query are its own or, if it has none, those in
    the same field of its payload. With `exclude_self`, a query does not find the stored document
    that has its id. With `nearest`, the documents nearest to a query are relevant
    (:mod:`hummingbit.evaluation.nearness`), that many for each query. With `only_labelled`, only
    documents with a label are searched.
    """

    label_field: str = "label"
    qrels: Mapping[str, Mapping[str, int]] | None = None
    hierarchy: bool = False
    relevant_from: int = 1
    exclude_self: bool = False
    nearest: int | None = None
    only_labelled: bool = False

    @property
    def by_label_only(self) -> bool:
        """Whether a shared label alone makes a document relevant, the query itself included."""
        by_label = self.qrels is None and self.nearest is None and not self.hierarchy
        return by_label and not self.exclude_self

    def apply(
        self, stored: StoredDocuments, queries: Sequence[Document]
    ) -> tuple[Relevance, list[str]]:
        """Return the relevance of `stored` documents, and a sentence for each oddity.

        Raises:
            EvaluationError: if there are no queries or documents; by label, a query has no label or
                no document has one; by qrels, as
                :func:`hummingbit.evaluation.relevance.relevance_by_qrels`; or both are set.
            InputError: if the `label_field` of a query holds something other than labels.
        """
        query_ids = [query.id for query in queries]
        if self.qrels is None:
            labels = query_labels(queries, self.label_field)
            check_labels(labels, stored.labels)
            relevance = relevance_by_label(
                labels, stored.labels, hierarchy=self.hierarchy, relevant_from=self.relevant_from
            )
            return relevance, [*_notes_of_ids(query_ids), *_notes_of_labels(stored.labels)]
        if self.hierarchy:
            message = "hierarchy and qrels are both set; relevance is by one of the two"
            raise EvaluationError(message)
        return relevance_by_qrels(self.qrels, query_ids, stored.ids, self.relevant_from)

    def describe(self) -> str:
        """Return a phrase that says which documents count as relevant."""
        if self.nearest is not None:
            kind = f"one of the {self.nearest} nearest by words or vectors"
        elif self.qrels is not None:
            kind = f"judged in the qrels with {self.relevant_from} or more"
        elif self.hierarchy:
            kind = f"{self.relevant_from} or more levels of {self.label_field!r} in common"
        else:
            kind = f"a shared {self.label_field!r}"
        if self.only_labelled:
            kind += ", among labelled documents"
        return f"{kind}, the query itself left out" if self.exclude_self else kind


def _labelled_queries(
    queries: Sequence[Document], settings: RelevanceSettings
) -> tuple[Sequence[Document], list[str]]:
    """Return the queries that can be measured by their labels, and how many are left out.

    All are returned if relevance is not by label, or if none has a label.
    """
    if settings.qrels is not None or settings.nearest is not None:
        return queries, []
    labels = query_labels(queries, settings.label_field)
    labelled = [query for query, found in zip(queries, labels, strict=True) if found]
    if not labelled or len(labelled) == len(queries):
        return queries, []
    left_out = counted(len(queries) - len(labelled), "query", "queries")
    return labelled, [f"left out {left_out} of {len(queries):,} without a label"]


def _notes_of_ids(query_ids: Sequence[str]) -> list[str]:
    repeated = duplicates(query_ids)
    note = f"{len(repeated):,} query ids occur more than once: {name_some(repeated)}"
    return [note] if repeated else []


def _notes_of_labels(labels: Sequence[LabelSet]) -> list[str]:
    n_unlabelled = sum(not label_set for label_set in labels)
    note = (
        f"{n_unlabelled:,} of {len(labels):,} documents have no label, so they count as relevant to"
        " no query, and values are lower than if they had their labels"
    )
    return [note] if n_unlabelled else []


# A collection and its queries, read once for all parts of a report.


FIRST_PASSAGES = (
    "hamming is measured by the codes of first passages; the other rankings are measured as they"
    " search, by the best passages"
)


class CollectionChangedError(EvaluationError):
    """The collection was written to while it was evaluated."""


class EvaluationInput:
    """The stored documents and the queries of an evaluation, read and encoded once.

    `codes` (uint8[N, C]), `labels` and `documents` have an entry for each document that is
    searched, in the order of rows. `queries` are those that the encoder did not learn from
    (:func:`unseen_queries`), and `query_labels`, `query_ids`,
    `texts` and `encoded` have an entry for each of them. `self_rows` is as in
    :func:`hummingbit.evaluation.evaluate.evaluate_ranking`. `notes` has a sentence for each oddity,
    `warning` one if the values are of training data. `n_unlabelled` counts the documents without a
    label.
    """

    def __init__(
        self,
        collection: CollectionBackend,
        queries: Sequence[Document],
        settings: RelevanceSettings,
    ) -> None:
        """Read the documents and encode the queries.

        Raises:
            EvaluationError: as :meth:`RelevanceSettings.apply` and
                :func:`hummingbit.evaluation.nearness.nearest_qrels`, or if `settings` has
                `nearest` and `qrels` or `hierarchy`.
            InputError: if the collection's encoder does not accept a query, or the `label_field` of
                a document holds something other than labels.
        """
        self.collection, self.generation = collection, collection.generation
        self.settings = settings
        self.documents = collection.all_documents()
        queries, notes_of_queries = _labelled_queries(queries, settings)
        self.queries, learned = unseen_queries(collection, queries, self.documents)
        self.warning = learned.warning
        stored = to_stored_documents(self.documents, collection.n_bits, settings.label_field)
        self.n_unlabelled = sum(not labels for labels in stored.labels)
        self.filter: Filter | None = None
        if settings.only_labelled and self.n_unlabelled:
            self.filter, stored = self._keep_labelled(stored, settings.label_field)
        self.coded = CodedDocuments(stored.codes)
        self.labels = stored.labels
        self.query_labels = query_labels(self.queries, settings.label_field)
        self.query_ids = [query.id for query in self.queries]
        self.texts = [query.text for query in self.queries]
        self.self_rows: Ids | None = (
            rows_of(self.query_ids, stored.ids) if settings.exclude_self else None
        )
        if settings.nearest is not None:
            if settings.qrels is not None or settings.hierarchy:
                raise EvaluationError(
                    "nearest is set with qrels or hierarchy; relevance is by one of them"
                )
            begin_stage("finding the nearest documents")
            near = nearest_qrels(self.documents, self.queries, settings.nearest, self.self_rows)
            settings = replace(settings, qrels=near)
        self.relevance, notes = settings.apply(stored, self.queries)
        self.notes = [*notes_of_queries, *learned.notes, *notes]
        if self.filter is not None:
            self.notes.append(f"left out {self.n_unlabelled:,} documents without a label")
        if collection.passages is not None:
            self.notes.append(FIRST_PASSAGES)
        self.encoded = encode_queries(collection, self.queries)
        self._kept: dict[str, list[tuple[Ids, Floats]]] = {}
        self._kept_depth = 0

    def _keep_labelled(
        self, stored: StoredDocuments, label_field: str
    ) -> tuple[Filter, StoredDocuments]:
        """Leave out the documents without a label; return the filter of a search, and the rest."""
        rows = [row for row, labels in enumerate(stored.labels) if labels]
        self.documents = [self.documents[row] for row in rows]
        fields = (label_field, "labels") if label_field == "label" else (label_field,)
        kept = StoredDocuments(
            stored.codes[rows],
            [stored.labels[row] for row in rows],
            [stored.ids[row] for row in rows],
        )
        return Or(tuple(map(Exists, fields))), kept

    @property
    def served_ranking(self) -> str:
        """The ranking of a search for these queries that names none."""
        default = self.collection.ranking
        if default in BY_WORDS and any(text is None for text in self.texts):
            default = ranking_without_text(default)
        return choose_ranking(default, self.encoded, SearchOptions(k=1))

    @property
    def codes(self) -> Codes:
        """The code of each document, uint8[N, C]."""
        return self.coded.codes

    def evaluate(
        self,
        metrics: Iterable[str],
        ranking: str = HAMMING,
        *,
        oversample: float = DEFAULT_OVERSAMPLE,
        codes_weight: float | None = None,
    ) -> Evaluation:
        """Measure a ranking, or of a ``RANKING+SCORE`` the rescored candidates.

        The `codes_weight` of ``hybrid`` is that of the collection if it is None. With 0,
        words alone give the score, and the codes order documents of equal score.

        Raises:
            MetricError: if a name in `metrics` is not that of a metric, or the metric needs Hamming
                distances and the ranking has none.
            EvaluationError: if there are no documents, or the collection was written to.
            InputError: if there is no such ranking, or it does not accept a query.
        """
        if not self.documents:
            raise EvaluationError("the database is empty; there must be at least one document")
        names = list(metrics)
        if ranking == HAMMING:
            evaluation = evaluate_ranking(
                self.encoded.codes,
                self.coded,
                self.relevance,
                names,
                self_rows=self.self_rows,
                query_ids=self.query_ids,
            )
        else:
            scores = self._scores(ranking, list_length(names), oversample, codes_weight)
            evaluation = self.evaluate_scores(scores, names)
        return replace(
            evaluation,
            query_ids=tuple(self.query_ids),
            notes=(*self.notes, *evaluation.notes),
            warning=self.warning,
        )

    def evaluate_all(
        self,
        metrics: Sequence[str],
        rankings: Sequence[str] | None = None,
        *,
        oversample: float = DEFAULT_OVERSAMPLE,
        hamming_metrics: Iterable[str] = (),
        keep: int = 0,
    ) -> dict[str, Evaluation]:
        """Measure each ranking; by default, Hamming and that of a search that names none.

        A metric that needs Hamming distances is measured by Hamming only, unless there is no other,
        and so are the further `hamming_metrics`. The first `keep` hits of a search that names no
        ranking, up to :data:`DEPTH`, are kept for :meth:`hits`, so that it need not search again.

        Raises:
            MetricError, EvaluationError, InputError: as :meth:`evaluate`.
        """
        served = self.served_ranking
        self._kept, self._kept_depth = ({served: []}, keep) if keep <= DEPTH else ({}, 0)
        has_codes = self.collection.n_bits > 0
        named = rankings or ([HAMMING, SERVED] if has_codes else [SERVED])
        names = dict.fromkeys(served if name == SERVED else name for name in named)
        if HAMMING in names and not has_codes:
            raise InputError("rankings", f"has {HAMMING!r}, which needs codes; {WITHOUT_CODES}")
        others = [metric.name for metric in parse_metrics(metrics) if not metric.needs_codes]
        return {
            name: self.evaluate([*metrics, *hamming_metrics])
            if name == HAMMING
            # If there is no other metric, the error names this one.
            else self.evaluate(others or metrics, name, oversample=oversample)
            for name in names
        }

    def evaluate_weights(
        self, metrics: Sequence[str], weights: Iterable[float]
    ) -> dict[float, Evaluation]:
        """Measure ``hybrid`` with each weight of codes, the lowest first.

        Metrics that need Hamming distances are left out, unless there is no other.

        Raises:
            MetricError, EvaluationError, InputError: as :meth:`evaluate`.
        """
        others = [metric.name for metric in parse_metrics(metrics) if not metric.needs_codes]
        return {
            weight: self.evaluate(others or metrics, HYBRID, codes_weight=weight)
            for weight in sorted(set(weights))
        }

    def evaluate_others(
        self, query_codes: Codes, codes: Codes, metrics: Iterable[str]
    ) -> Evaluation:
        """Measure other codes of the same queries and documents by the same relevance."""
        return evaluate_ranking(
            query_codes, codes, self.relevance, metrics, self_rows=self.self_rows
        )

    def evaluate_scores(self, blocks: Iterable[Scores], metrics: Iterable[str]) -> Evaluation:
        """Measure scores of all documents, float[q, N] a block, by the same relevance."""
        return evaluate_by_score(blocks, self.relevance, metrics, self_rows=self.self_rows)

    def _scores(
        self, name: str, length: int, oversample: float, codes_weight: float | None
    ) -> Iterator[Floats]:
        """Yield the scores of all documents, ``float64[q, N]``, a few queries at a time."""
        begin_stage(f"searching {self.collection.name} by {name}")
        _, rescore = parse_ranking(name, oversample)
        depth = DEPTH if rescore is None else length
        for start in range(0, len(self.encoded), QUERIES_AT_ONCE):
            encoded = self.encoded[start : start + QUERIES_AT_ONCE]
            if name == ASYMMETRIC and self.collection.passages is None:
                weights, _ = quantize_weights(encoded.weights)
                yield -np.stack(
                    [weighted_distances(self.codes, of_query) for of_query in weights]
                ).astype(float)
                continue
            table = np.full((len(encoded), len(self.documents)), -np.inf)
            hits = self.search(encoded, name, depth, oversample, codes_weight)
            for line, (columns, scores) in zip(table, hits, strict=True):
                line[columns] = scores
            if name in self._kept and rescore is None and codes_weight is None:
                n_kept = self._kept_depth + (self.self_rows is not None)
                self._kept[name] += [
                    (rows[:n_kept].copy(), scores[:n_kept].copy()) for rows, scores in hits
                ]
            yield table

    def search(
        self,
        queries: EncodedQueries,
        name: str,
        k: int,
        oversample: float = DEFAULT_OVERSAMPLE,
        codes_weight: float | None = None,
    ) -> list[tuple[Ids, Floats]]:
        """Return positions and scores of the `k` best documents, and of the query itself if it is
        left out of the lists.

        Raises:
            EvaluationError: if the collection was written to since the documents were read.
        """
        ranking, rescore = parse_ranking(name, oversample)
        results = self.collection.search(
            queries,
            min(MAX_K, k + (self.self_rows is not None)),
            ranking=ranking,
            rescore=rescore,
            filter=self.filter,
            hybrid=None
            if codes_weight is None or ranking != HYBRID
            else Hybrid(max(codes_weight, MIN_HYBRID_WEIGHT)),
        )
        # A document that was written since has no position.
        self.check_generation(results.generation)
        found = []
        for hits in results.hits:
            rows = np.array([hit.row for hit in hits], dtype=np.int64)
            scores = np.array([hit.score for hit in hits], dtype=np.float64)
            positions = np.searchsorted(self._rows, rows)
            # A filter keeps an empty list of labels.
            is_known = np.append(self._rows, -1)[positions] == rows
            found.append((positions[is_known], scores[is_known]))
        return found

    def hits(
        self, ranking: str, depth: int, queries: Sequence[int] | None = None
    ) -> Iterator[tuple[Ids, Floats]]:
        """Yield positions and scores of the `depth` first hits of each query, without itself.

        `queries` are some of the queries, by default all. The score by ``hamming`` is minus the
        distance.
        """
        step = HAMMING_QUERIES_AT_ONCE if ranking == HAMMING else QUERIES_AT_ONCE
        starts = range(0, len(self.encoded), step) if queries is None else queries
        for start in starts:
            encoded = self.encoded[start : start + (step if queries is None else 1)]
            if depth <= self._kept_depth and len(kept := self._kept.get(ranking, [])) > start:
                found = kept[start : start + len(encoded)]
            elif ranking == HAMMING:
                nearest = self.coded.index.search(
                    encoded.codes, depth + (self.self_rows is not None)
                )
                found = [
                    (neighbours.rows, -neighbours.distances.astype(np.float64))
                    for neighbours in nearest
                ]
            else:
                found = self.search(encoded, ranking, depth)
            for position, (rows, scores) in enumerate(found, start):
                is_other = rows != (-1 if self.self_rows is None else self.self_rows[position])
                yield rows[is_other][:depth], scores[is_other][:depth]

    @cached_property
    def _rows(self) -> Ids:
        return np.array([document.row for document in self.documents], dtype=np.int64)

    def codes_of(self, query: int) -> Codes:
        """Return the code of a query, uint8[C]."""
        code: Codes = self.encoded.codes[query]
        return code

    def relevant_grades(self, query: int) -> dict[int, int]:
        """Return the grades of the relevant documents of a query by their positions.

        The document that is the query itself is left out.
        """
        sets = self.relevance.query_sets[[query]]
        positions = np.arange(len(self.documents))[None, :]
        grades = self.relevance.grade_lists(sets, positions)[0]
        relevant = np.flatnonzero(grades >= self.relevance.relevant_from)
        if self.self_rows is not None:
            relevant = relevant[relevant != self.self_rows[query]]
        return dict(zip(relevant.tolist(), grades[relevant].tolist(), strict=True))

    @property
    def codes_weight(self) -> float:
        """The weight of codes in the hybrid ranking of a search that names none."""
        return self.collection.hybrid_weight

    def check_generation(self, generation: int) -> None:
        """Raise CollectionChangedError if `generation` is not the one whose documents were read."""
        if generation != self.generation:
            raise CollectionChangedError(
                f"collection {self.collection.name!r} was written to while it was evaluated; try"
                " again"
            )


class Hits:
    """The first hits of every query of an evaluation by one ranking, best first."""

    def __init__(self, data: EvaluationInput, ranking: str, depth: int) -> None:
        """Search for the `depth` first hits of each query."""
        self._data, self.ranking = data, ranking
        hits = list(data.hits(ranking, depth))
        self._rows = [rows.astype(np.int32) for rows, _ in hits]
        self._scores = [scores for _, scores in hits]

    def first(self, query: int, count: int) -> list[tuple[int, float, bool]]:
        """Return row, score and relevance of the first hits of a query."""
        rows = self._rows[query][:count].astype(np.int64)
        sets = self._data.relevance.query_sets[[query]]
        relevant = self._data.relevance.relevant(sets, rows[None, :])[0]
        hits = zip(rows, self._scores[query], relevant, strict=False)
        return [(int(row), float(score), bool(is_relevant)) for row, score, is_relevant in hits]

    def run_writer(self) -> Callable[[], str]:
        """Return a function that writes the run in TREC's format, with a line for each hit.

        The function holds the ids of the hits, but not the documents.
        """
        query_ids, hit_rows, hit_scores = self._data.query_ids, self._rows, self._scores
        distinct_rows = sorted_distinct(np.concatenate(hit_rows)).tolist()
        ids = {row: self._data.documents[row].id for row in distinct_rows}

        def write() -> str:
            results = {
                query: [
                    (ids[row], score)
                    for row, score in zip(rows.tolist(), scores.tolist(), strict=True)
                ]
                for query, rows, scores in zip(query_ids, hit_rows, hit_scores, strict=True)
            }
            return "".join(f"{line}\n" for line in format_run(results))

        return write

    def trec_problems(self) -> list[str]:
        """Return a sentence that says why there is no TREC run; an empty list if there is one."""
        ids = (*self._data.query_ids, *(document.id for document in self._data.documents))
        spaced = [id_ for id_ in ids if id_.split() != [id_]]
        if spaced:
            return [f"there is no TREC run: ids contain white space: {name_some(spaced)}"]
        if len(set(self._data.query_ids)) < len(self._data.query_ids):
            return ["there is no TREC run: query ids occur more than once"]
        return []


# Evaluate several rankings of a collection on the same queries.


def evaluate_rankings(
    collection: CollectionBackend,
    queries: Sequence[Document],
    rankings: Iterable[str],
    metrics: Iterable[str] = DEFAULT_METRICS,
    settings: RelevanceSettings | None = None,
    *,
    oversample: float = DEFAULT_OVERSAMPLE,
) -> dict[str, Evaluation]:
    """Measure what each of `rankings` finds for `queries`, as served and tie-averaged.

    A ranking is a name of :data:`hummingbit.index.rankings.RANKINGS`, such as ``hamming``, alone or
    followed by that of a score: ``hamming+vectors`` takes `oversample` candidates for each hit by
    ``hamming`` and orders them by ``vectors``. What is evaluated is then one search, for as many
    hits as the metric with the longest list needs.

    *As served* is the list that a search returns. It lacks the documents that the search does not
    find, such as those without a word of the query. Documents of equal score are tied. ``hamming``
    and ``asymmetric`` find every document; of the other rankings, and in a collection with
    passages, the first :data:`DEPTH` hits are evaluated.

    Raises:
        MetricError: if a name in `metrics` is not that of a metric, or needs Hamming distances.
        EvaluationError: if the collection was written to during the evaluation; or as
            :class:`EvaluationInput`.
        InputError: if there is no such ranking, or it does not accept a query.
    """
    names = list(dict.fromkeys(rankings))
    check_rankings(names, oversample)
    metric_names = [metric.name for metric in parse_metrics(metrics)]
    data = EvaluationInput(collection, queries, settings or RelevanceSettings())
    if HAMMING in names and collection.encoder is None:
        for query in data.queries:
            if query.vector is None and query.code is None:
                message = f"of the query {query.id!r} cannot be compared with codes; add a code"
                raise InputError("text", message)
    evaluations = {name: data.evaluate(metric_names, name, oversample=oversample) for name in names}
    data.check_generation(collection.generation)
    return evaluations


def measure_rankings(
    collection: CollectionBackend,
    queries: Sequence[Document],
    metrics: Sequence[str],
    settings: RelevanceSettings,
    *,
    rankings: Sequence[str] | None = None,
    oversample: float = DEFAULT_OVERSAMPLE,
    codes_weights: Sequence[float] = (),
) -> dict[str, Any]:
    """Return the means of each ranking as plain JSON values, without intervals and plots.

    `codes_weights` has the means of ``hybrid`` by each of these weights of codes, if there are any,
    `unlabelled` counts the documents without a label,
    `rankings` has the means of each, `served_ranking` names that of a search that names none, and
    the other fields are those of :meth:`Evaluation.to_dict` for `ranking`: Hamming if it was
    measured, or else the first.

    Raises:
        MetricError, EvaluationError, InputError: as :func:`evaluate_rankings`.
    """
    check_rankings(rankings or (), oversample)
    check_codes_weights(codes_weights)
    data = EvaluationInput(collection, queries, settings)
    evaluations = data.evaluate_all(list(metrics), rankings, oversample=oversample)
    curve = data.evaluate_weights(metrics, codes_weights)
    data.check_generation(collection.generation)
    chosen = HAMMING if HAMMING in evaluations else next(iter(evaluations))
    means = {name: evaluation.to_dict() for name, evaluation in evaluations.items()}
    return {
        **means[chosen],
        "warning": data.warning,
        "ranking": chosen,
        "served_ranking": data.served_ranking,
        "unlabelled": data.n_unlabelled,
        "codes_weights": [
            {"codes_weight": weight, "metrics": evaluation.metrics}
            for weight, evaluation in curve.items()
        ]
        or None,
        "rankings": {
            name: {kind: mean[kind] for kind in ("metrics", "expected", "best", "worst")}
            for name, mean in means.items()
        },
    }


def parse_ranking(name: str, oversample: float = DEFAULT_OVERSAMPLE) -> tuple[str, Rescore | None]:
    """Return the ranking and the rescoring of a name such as ``hamming`` or ``hamming+vectors``."""
    ranking, plus, by = name.partition("+")
    return ranking, Rescore(by, oversample) if plus else None


def check_rankings(names: Iterable[str], oversample: float = DEFAULT_OVERSAMPLE) -> None:
    """Raise InputError unless each name is that of a ranking, alone or with a score."""
    for name in names:
        ranking, rescore = parse_ranking(name, oversample)
        if name != SERVED:
            check_ranking(ranking)
            SearchOptions(k=1, ranking=ranking, rescore=rescore).check(8, 1)


def check_codes_weights(weights: Iterable[float]) -> None:
    """Raise InputError unless each is a weight of codes that can be measured."""
    for weight in weights:
        if not 0 <= weight <= MAX_HYBRID_WEIGHT:
            bounds = f"each must be from 0 to {MAX_HYBRID_WEIGHT:g}"
            raise InputError("codes_weights", f"has {weight:g}; {bounds}")


def list_length(metrics: Iterable[str]) -> int:
    """Return the length of the longest list that metrics need, :data:`DEPTH` at most."""
    return max(metric.depth(DEPTH) for metric in parse_metrics(metrics))
