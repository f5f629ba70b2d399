"""Evaluate the rankings of a collection side by side, on the same queries in one run."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import numpy as np
import numpy.typing as npt

from corpus.document import Document
from encoder.codes import hamming_distance
from evaluation.evaluation_input import EvaluationInput, RelevanceSettings
from evaluation.metrics.metric_names import DEFAULT_METRICS
from evaluation.result import Evaluation, EvaluationError
from evaluation.scores import evaluate_by_score
from index.backend import CollectionBackend
from index.engines.portable.weighted import weighted_distances
from index.rankings.asymmetric import whole_weights
from index.rankings.protocol import ASYMMETRIC, HAMMING
from index.search.search_options import check_ranking

QUERIES_AT_ONCE = 16
DEPTH = 1000
"""How many hits of a search are looked at."""

Floats = npt.NDArray[np.float64]


def evaluate_rankings(
    collection: CollectionBackend,
    queries: Sequence[Document],
    rankings: Iterable[str],
    metrics: Iterable[str] = DEFAULT_METRICS,
    settings: RelevanceSettings | None = None,
) -> dict[str, Evaluation]:
    """Measure what each of `rankings` finds for `queries`, as served and tie-averaged.

    *As served* is the list that a search returns: a document that the search does not find, having
    no word of the query, is not in it. Documents of equal score are tied. By ``hamming`` and
    ``asymmetric`` every document is found; of the other rankings the first :data:`DEPTH` hits are
    looked at. What is relevant is as in :func:`evaluation.retrieval.evaluate_collection`.

    Raises:
        MetricError: if a name in `metrics` is not that of a metric, or of one of distances.
        EvaluationError: if the collection was written to meanwhile; or as
            :func:`evaluation.retrieval.evaluate_collection`.
        InputError: if there is no such ranking, or a query is nothing that it takes.
    """
    names = list(dict.fromkeys(rankings))
    for name in names:
        check_ranking(name)
    generation, chosen = collection.generation, list(metrics)
    data = EvaluationInput(collection, queries, settings or RelevanceSettings())
    if not data.documents:
        raise EvaluationError("the database is empty; there must be at least one document")
    found = {
        name: evaluate_by_score(
            _scores(collection, data, name, generation),
            data.relevance,
            chosen,
            self_rows=data.self_rows,
            query_ids=data.query_ids,
        )
        for name in names
    }
    _check_unwritten(collection, collection.generation, generation)
    return found


def _check_unwritten(collection: CollectionBackend, now: int, before: int) -> None:
    if now != before:
        message = f"collection {collection.name!a} was written to while it was evaluated; try again"
        raise EvaluationError(message)


def _scores(
    collection: CollectionBackend, data: EvaluationInput, ranking: str, generation: int
) -> Iterator[Floats]:
    """Yield the scores of all documents, ``float64[q, N]``, a few queries at a time."""
    rows = np.array([document.row for document in data.documents])
    depth = DEPTH + (data.self_rows is not None)
    for start in range(0, len(data.encoded), QUERIES_AT_ONCE):
        encoded = data.encoded[start : start + QUERIES_AT_ONCE]
        if ranking == HAMMING:
            distances = [hamming_distance(data.codes, code) for code in encoded.codes]
            yield -np.stack(distances).astype(np.float64)
        elif ranking == ASYMMETRIC:
            weights = whole_weights(encoded.weights)
            yield -np.stack([weighted_distances(data.codes, one) for one in weights]).astype(float)
        else:
            table = np.full((len(encoded), len(rows)), -np.inf)
            found = collection.search(encoded, depth, ranking=ranking)
            # A hit that was written since the documents were read has no place in the table.
            _check_unwritten(collection, found.generation, generation)
            for line, hits in zip(table, found.hits, strict=True):
                line[np.searchsorted(rows, [hit.row for hit in hits])] = [hit.score for hit in hits]
            yield table
