"""Evaluates several rankings of a collection on the same queries."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TypedDict

import numpy as np
import numpy.typing as npt

from hummingbit.corpus.document import Document
from hummingbit.encoder.codes import Codes, hamming_distance
from hummingbit.evaluation.evaluate import (
    StoredDocuments,
    build_index,
    encode_queries,
    evaluate_by_score,
    evaluate_ranking,
    query_labels,
    relevance_in,
    rows_of,
    to_stored_documents,
)
from hummingbit.evaluation.metrics import DEFAULT_METRICS, parse_metrics
from hummingbit.evaluation.nearness import nearest_qrels
from hummingbit.evaluation.relevance import Ids, Relevance, name_some
from hummingbit.evaluation.result import Evaluation, EvaluationError
from hummingbit.evaluation.trec import format_run
from hummingbit.foundation.arrays import sorted_distinct
from hummingbit.foundation.slices import begin_stage
from hummingbit.index.backend import CollectionBackend
from hummingbit.index.engines.protocol import CodeIndex
from hummingbit.index.engines.weighted import weighted_distances
from hummingbit.index.rankings import ASYMMETRIC, HAMMING, quantize_weights
from hummingbit.index.search import DEFAULT_OVERSAMPLE, Rescore, check_ranking

# ----------------------------------------------------------------------------
# A collection and its queries, read once for all parts of a report.


class RelevanceOptions(TypedDict):
    """Keyword arguments of :func:`hummingbit.evaluation.evaluate.evaluate_collection`."""

    qrels: Mapping[str, Mapping[str, int]] | None
    hierarchy: bool
    relevant_from: int
    exclude_self: bool


@dataclass(frozen=True, slots=True)
class RelevanceSettings:
    """Which documents count as relevant; see :func:`evaluate_collection`.

    With `nearest`, the documents nearest to a query are relevant
    (:mod:`hummingbit.evaluation.nearness`), that many for each query.
    """

    label_field: str = "label"
    qrels: Mapping[str, Mapping[str, int]] | None = None
    hierarchy: bool = False
    relevant_from: int = 1
    exclude_self: bool = False
    nearest: int | None = None

    @property
    def relevance(self) -> RelevanceOptions:
        """The settings as keyword arguments, without the label field."""
        return {
            "qrels": self.qrels,
            "hierarchy": self.hierarchy,
            "relevant_from": self.relevant_from,
            "exclude_self": self.exclude_self,
        }

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
            EvaluationError, InputError: as :func:`hummingbit.evaluation.evaluate.relevance_in`.
        """
        return relevance_in(
            stored,
            queries,
            self.label_field,
            qrels=self.qrels,
            hierarchy=self.hierarchy,
            relevant_from=self.relevant_from,
        )

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
        return f"{kind}, the query itself left out" if self.exclude_self else kind


class EvaluationInput:
    """The stored documents and the queries of an evaluation, read and encoded once.

    `codes` (uint8[N, C]), `labels` and `documents` have an entry for each row of the collection,
    and `query_labels`, `query_ids`, `texts` and `encoded` one for each query. `self_rows` is as in
    :func:`hummingbit.evaluation.evaluate.evaluate_ranking`. `notes` has a sentence for each oddity.
    """

    def __init__(
        self,
        collection: CollectionBackend,
        queries: Sequence[Document],
        settings: RelevanceSettings,
    ) -> None:
        """Read the documents and encode the queries.

        Raises:
            EvaluationError, InputError: as
            :func:`hummingbit.evaluation.evaluate.evaluate_collection`. EvaluationError: as
            :func:`hummingbit.evaluation.nearness.nearest_qrels`, or if `settings` has
                `nearest` and `qrels` or `hierarchy`.
        """
        self.documents = collection.all_documents()
        stored = to_stored_documents(self.documents, collection.n_bits, settings.label_field)
        self.codes: Codes = stored.codes
        self.labels = stored.labels
        self.query_labels = query_labels(queries, settings.label_field)
        self.query_ids = [query.id for query in queries]
        self.texts = [query.text for query in queries]
        self.self_rows: Ids | None = (
            rows_of(self.query_ids, stored.ids) if settings.exclude_self else None
        )
        if settings.nearest is not None:
            if settings.qrels is not None or settings.hierarchy:
                raise EvaluationError(
                    "nearest is set with qrels or hierarchy; relevance is by one of them"
                )
            begin_stage("finding the nearest documents")
            near = nearest_qrels(self.documents, queries, settings.nearest, self.self_rows)
            settings = replace(settings, qrels=near)
        self.relevance, self.notes = settings.apply(stored, queries)
        self.encoded = encode_queries(collection, queries)

    @cached_property
    def index(self) -> CodeIndex:
        """An index of the documents' codes by row, for the metrics and the hits."""
        return build_index(self.codes)

    def evaluate(self, metrics: Iterable[str]) -> Evaluation:
        """Measure the ranking by Hamming distance.

        Raises:
            MetricError: if a name in `metrics` is not that of a metric.
            EvaluationError: if there are no documents.
        """
        return evaluate_ranking(
            self.encoded.codes,
            self.codes,
            self.relevance,
            metrics,
            self_rows=self.self_rows,
            query_ids=self.query_ids,
            notes=self.notes,
            index=lambda: self.index,
        )

    def evaluate_others(
        self, query_codes: Codes, codes: Codes, metrics: Iterable[str]
    ) -> Evaluation:
        """Measure other codes of the same queries and documents by the same relevance."""
        return evaluate_ranking(
            query_codes, codes, self.relevance, metrics, self_rows=self.self_rows
        )


class Hits:
    """The first hits of every query of an evaluation, nearest first."""

    def __init__(self, data: EvaluationInput, depth: int) -> None:
        """Search for the `depth` first hits of each query."""
        self._data = data
        self._rows, self._distances = self._search(depth)

    def first(self, query: int, count: int) -> list[tuple[int, int, bool]]:
        """Return row, distance and relevance of the first hits of a query."""
        rows = self._rows[query][:count].astype(np.int64)
        sets = self._data.relevance.query_sets[[query]]
        relevant = self._data.relevance.relevant(sets, rows[None, :])[0]
        hits = zip(rows, self._distances[query], relevant, strict=False)
        return [(int(row), int(distance), bool(is_relevant)) for row, distance, is_relevant in hits]

    def run_writer(self) -> Callable[[], str]:
        """Return a function that writes the run in TREC's format, with a line for each hit.

        The score is minus the distance. The function holds the ids of the hits, but not the
        documents.
        """
        query_ids, hit_rows, hit_distances = self._data.query_ids, self._rows, self._distances
        distinct_rows = sorted_distinct(np.concatenate(hit_rows)).tolist()
        ids = {row: self._data.documents[row].id for row in distinct_rows}

        def write() -> str:
            results = {
                query: [
                    (ids[row], -float(distance))
                    for row, distance in zip(rows.tolist(), distances.tolist(), strict=True)
                ]
                for query, rows, distances in zip(query_ids, hit_rows, hit_distances, strict=True)
            }
            return "".join(f"{line}\n" for line in format_run(results))

        return write

    def _search(
        self, depth: int
    ) -> tuple[list[npt.NDArray[np.int32]], list[npt.NDArray[np.int16]]]:
        nearest = self._data.index.search(
            self._data.encoded.codes, depth + (self._data.self_rows is not None)
        )
        self_rows = self._data.self_rows
        if self_rows is None:
            self_rows = np.full(len(nearest), -1)
        rows, distances = [], []
        for neighbours, self_row in zip(nearest, self_rows, strict=True):
            is_other = neighbours.rows != self_row
            rows.append(neighbours.rows[is_other][:depth].astype(np.int32))
            distances.append(neighbours.distances[is_other][:depth].astype(np.int16))
        return rows, distances

    def trec_problems(self) -> list[str]:
        """Return a sentence that says why there is no TREC run; an empty list if there is one."""
        ids = (*self._data.query_ids, *(document.id for document in self._data.documents))
        spaced = [id_ for id_ in ids if id_.split() != [id_]]
        if spaced:
            return [f"there is no TREC run: ids contain white space: {name_some(spaced)}"]
        if len(set(self._data.query_ids)) < len(self._data.query_ids):
            return ["there is no TREC run: query ids occur more than once"]
        return []


# ----------------------------------------------------------------------------
# Evaluate several rankings of a collection on the same queries.


QUERIES_AT_ONCE = 16
DEPTH = 1000
"""The number of hits of a search that are evaluated."""

Floats = npt.NDArray[np.float64]


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
    and ``asymmetric`` find every document; of the other rankings, the first :data:`DEPTH` hits are
    evaluated. Relevance is as in :func:`hummingbit.evaluation.evaluate.evaluate_collection`.

    Raises:
        MetricError: if a name in `metrics` is not that of a metric, or needs Hamming distances.
        EvaluationError: if the collection was written to during the evaluation; or as
            :func:`hummingbit.evaluation.evaluate.evaluate_collection`.
        InputError: if there is no such ranking, or it does not accept a query.
    """
    names = list(dict.fromkeys(rankings))
    for name in names:
        check_ranking(parse_ranking(name, oversample)[0])
    generation, metric_names = collection.generation, list(metrics)
    data = EvaluationInput(collection, queries, settings or RelevanceSettings())
    if not data.documents:
        raise EvaluationError("the database is empty; there must be at least one document")
    evaluations = {
        name: evaluate_by_score(
            _scores(
                collection,
                data,
                name,
                generation,
                oversample=oversample,
                length=list_length(metric_names),
            ),
            data.relevance,
            metric_names,
            self_rows=data.self_rows,
            query_ids=data.query_ids,
        )
        for name in names
    }
    _check_generation(collection, collection.generation, generation)
    return evaluations


def parse_ranking(name: str, oversample: float) -> tuple[str, Rescore | None]:
    """Return the ranking and the rescoring of a name such as ``hamming`` or ``hamming+vectors``."""
    ranking, plus, by = name.partition("+")
    return ranking, Rescore(by, oversample) if plus else None


def list_length(metrics: Iterable[str]) -> int:
    """Return the length of the longest list that metrics need, :data:`DEPTH` at most."""
    return max(metric.depth(DEPTH) for metric in parse_metrics(metrics))


def _check_generation(collection: CollectionBackend, current: int, expected: int) -> None:
    if current != expected:
        message = f"collection {collection.name!r} was written to while it was evaluated; try again"
        raise EvaluationError(message)


def _scores(
    collection: CollectionBackend,
    data: EvaluationInput,
    name: str,
    generation: int,
    *,
    oversample: float,
    length: int,
) -> Iterator[Floats]:
    """Yield the scores of all documents, ``float64[q, N]``, a few queries at a time."""
    begin_stage(f"searching {collection.name} by {name}")
    rows = np.array([document.row for document in data.documents])
    ranking, rescore = parse_ranking(name, oversample)
    depth = (DEPTH if rescore is None else length) + (data.self_rows is not None)
    for start in range(0, len(data.encoded), QUERIES_AT_ONCE):
        encoded = data.encoded[start : start + QUERIES_AT_ONCE]
        if name == HAMMING:
            distances = [hamming_distance(data.codes, code) for code in encoded.codes]
            yield -np.stack(distances).astype(np.float64)
        elif name == ASYMMETRIC:
            weights, _ = quantize_weights(encoded.weights)
            yield -np.stack(
                [weighted_distances(data.codes, of_query) for of_query in weights]
            ).astype(float)
        else:
            table = np.full((len(encoded), len(rows)), -np.inf)
            results = collection.search(encoded, depth, ranking=ranking, rescore=rescore)
            # A document that was written since the rows were read has no column in the table.
            _check_generation(collection, results.generation, generation)
            for line, hits in zip(table, results.hits, strict=True):
                line[np.searchsorted(rows, [hit.row for hit in hits])] = [hit.score for hit in hits]
            yield table
