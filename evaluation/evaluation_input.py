"""A collection and its queries, read once for all parts of a report."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TypedDict

import numpy as np
import numpy.typing as npt

from corpus.document import Document
from encoder.codes import Codes
from evaluation.code_rankings import build_index, evaluate_ranking
from evaluation.nearness import nearest_qrels
from evaluation.qrels import name_some
from evaluation.relevance import Ids, Relevance
from evaluation.result import Evaluation, EvaluationError
from evaluation.retrieval import (
    StoredDocuments,
    encode_queries,
    query_labels,
    relevance_in,
    rows_of,
    to_stored_documents,
)
from evaluation.trec import format_run
from foundation.arrays import sorted_distinct
from foundation.stages import begin_stage
from index.backend import CollectionBackend
from index.engines.protocol import CodeIndex


class RelevanceOptions(TypedDict):
    """Keyword arguments of :func:`evaluation.retrieval.evaluate_collection`."""

    qrels: Mapping[str, Mapping[str, int]] | None
    hierarchy: bool
    relevant_from: int
    exclude_self: bool


@dataclass(frozen=True, slots=True)
class RelevanceSettings:
    """Which documents count as relevant; see :func:`evaluation.retrieval.evaluate_collection`.

    With `nearest`, the documents nearest to a query are relevant (:mod:`evaluation.nearness`), that
    many for each query.
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
            EvaluationError, InputError: as :func:`evaluation.retrieval.relevance_in`.
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
    :func:`evaluation.code_rankings.evaluate_ranking`. `notes` has a sentence for each oddity.
    """

    def __init__(
        self,
        collection: CollectionBackend,
        queries: Sequence[Document],
        settings: RelevanceSettings,
    ) -> None:
        """Read the documents and encode the queries.

        Raises:
            EvaluationError, InputError: as :func:`evaluation.retrieval.evaluate_collection`.
            EvaluationError: as :func:`evaluation.nearness.nearest_qrels`, or if `settings` has
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
