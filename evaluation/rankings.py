"""Evaluate several rankings of a collection on the same queries."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import numpy as np
import numpy.typing as npt

from corpus.document import Document
from encoder.codes import hamming_distance
from evaluation.evaluation_input import EvaluationInput, RelevanceSettings
from evaluation.metrics.metric_names import DEFAULT_METRICS, parse_metrics
from evaluation.result import Evaluation, EvaluationError
from evaluation.scores import evaluate_by_score
from foundation.stages import begin_stage
from index.backend import CollectionBackend
from index.engines.portable.weighted import weighted_distances
from index.rankings.asymmetric import whole_weights
from index.rankings.protocol import ASYMMETRIC, HAMMING
from index.records import DEFAULT_OVERSAMPLE, Rescore
from index.search.search_options import check_ranking

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

    A ranking is a name of :data:`index.rankings.protocol.RANKINGS`, such as ``hamming``, alone or
    followed by that of a score: ``hamming+vectors`` takes `oversample` candidates for each hit by
    ``hamming`` and orders them by ``vectors``. What is evaluated is then one search, for as many
    hits as the metric with the longest list needs.

    *As served* is the list that a search returns. It lacks the documents that the search does not
    find, such as those without a word of the query. Documents of equal score are tied. ``hamming``
    and ``asymmetric`` find every document; of the other rankings, the first :data:`DEPTH` hits are
    evaluated. Relevance is as in :func:`evaluation.retrieval.evaluate_collection`.

    Raises:
        MetricError: if a name in `metrics` is not that of a metric, or needs Hamming distances.
        EvaluationError: if the collection was written to during the evaluation; or as
            :func:`evaluation.retrieval.evaluate_collection`.
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
            weights, _ = whole_weights(encoded.weights)
            yield -np.stack([weighted_distances(data.codes, one) for one in weights]).astype(float)
        else:
            table = np.full((len(encoded), len(rows)), -np.inf)
            results = collection.search(encoded, depth, ranking=ranking, rescore=rescore)
            # A document that was written since the rows were read has no column in the table.
            _check_generation(collection, results.generation, generation)
            for line, hits in zip(table, results.hits, strict=True):
                line[np.searchsorted(rows, [hit.row for hit in hits])] = [hit.score for hit in hits]
            yield table
