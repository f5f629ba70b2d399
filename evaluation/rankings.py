"""Evaluate the rankings of a collection side by side, on the same queries in one run."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import numpy as np
import numpy.typing as npt

from corpus.document import Document
from encoder.codes import Codes, hamming_distance
from evaluation.collection import RelevanceSettings
from evaluation.evaluate import stored_of
from evaluation.metrics.names import DEFAULT_METRICS
from evaluation.relevance import Ids
from evaluation.result import Evaluation, EvaluationError
from evaluation.scores import evaluate_by_score
from index.backend import CollectionBackend
from index.engines.weighted import weighted_distances
from index.rankings.asymmetric import whole_weights
from index.rankings.protocol import ASYMMETRIC, HAMMING
from index.records import EncodedQueries, Query
from index.search_options import check_ranking

QUERIES_AT_ONCE = 16
DEPTH = 1000
"""How many hits of a search are looked at; what a longer cut counts beyond is tied."""

Floats = npt.NDArray[np.float64]


def evaluate_rankings(
    collection: CollectionBackend,
    queries: Sequence[Document],
    rankings: Iterable[str],
    metrics: Iterable[str] = DEFAULT_METRICS,
    settings: RelevanceSettings | None = None,
) -> dict[str, Evaluation]:
    """Measure what each of `rankings` finds for `queries`, as served and tie-averaged.

    Documents of equal score are tied. Those that a ranking does not find, having no word of the
    query, are tied behind all others. By ``hamming`` and ``asymmetric`` every document has its
    score; of the other rankings the first :data:`DEPTH` hits do.

    Raises:
        MetricError: if a name in `metrics` is not that of a metric, or of one of distances.
        EvaluationError: if `settings` leaves the query itself out, or the collection was written to
            meanwhile; or as :func:`evaluation.evaluate.evaluate_collection`.
        InputError: if there is no such ranking, or a query is nothing that it takes.
    """
    how = settings or RelevanceSettings()
    names = list(dict.fromkeys(rankings))
    for name in names:
        check_ranking(name)
    if how.exclude_self:
        raise EvaluationError("rankings are compared on all documents, the query itself included")
    generation = collection.generation
    documents = collection.contents()
    stored = stored_of(documents, collection.n_bits, how.label_field)
    relevance = how.apply(stored, queries)
    rows = np.array([document.row for document in documents])
    encoded = collection.encode_queries(
        [Query(text=one.text, vector=one.vector, code=one.code) for one in queries]
    )
    chosen = list(metrics)
    found = {
        name: evaluate_by_score(
            _scores(collection, stored.codes, rows, encoded, name),
            relevance,
            chosen,
            query_ids=[query.id for query in queries],
        )
        for name in names
    }
    if collection.generation != generation:
        message = f"collection {collection.name!a} was written to while it was evaluated; try again"
        raise EvaluationError(message)
    return found


def _scores(
    collection: CollectionBackend, codes: Codes, rows: Ids, queries: EncodedQueries, ranking: str
) -> Iterator[Floats]:
    """Yield the scores of all documents, ``float64[q, N]``, a few queries at a time."""
    for start in range(0, len(queries), QUERIES_AT_ONCE):
        asked = queries[start : start + QUERIES_AT_ONCE]
        if ranking == HAMMING:
            table = [-hamming_distance(codes, code) for code in asked.codes]
        elif ranking == ASYMMETRIC:
            weights = whole_weights(asked.weights)
            table = [-weighted_distances(codes, one).astype(np.int64) for one in weights]
        else:
            result = collection.search(asked, DEPTH, ranking=ranking)
            table = []
            for hits in result.hits:
                # Behind all that were found.
                scores = np.full(len(rows), min((hit.score for hit in hits), default=0.0) - 1)
                places = np.searchsorted(rows, [hit.row for hit in hits])
                scores[places] = [hit.score for hit in hits]
                table.append(scores)
        yield np.stack(table).astype(np.float64)
