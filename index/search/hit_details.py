"""What a search adds to its hits on request: codes, reranking, relevances and highlights."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from encoder.codes import Codes, hamming_distance, unpack_codes
from index.lexical.analyzer_names import ANALYZERS, DEFAULT_ANALYZER
from index.lexical.highlights import highlight
from index.lexical.index import LexicalIndex
from index.records import EncodedQueries, Hit, StoredRow
from index.search.search_options import SearchOptions


def hits_with_codes(
    query: EncodedQueries,
    options: SearchOptions,
    rows: Sequence[int],
    stored: Sequence[StoredRow],
    scores: Sequence[float],
) -> list[Hit]:
    """Return the hits of one query from rows that were read with their codes.

    `scores` are those of :meth:`index.rankings.protocol.Ranking.hit_scores`.
    """
    packed = b"".join(code or b"" for _, _, _, code in stored)
    codes = np.frombuffer(packed, dtype=np.uint8).reshape(len(stored), query.codes.shape[1])
    distances = hamming_distance(codes, query.codes[0]).tolist()
    with_code = options.with_code
    hits = [
        Hit(id_, distance, score, row, payload, text, code.hex() if with_code and code else None)
        for row, distance, score, (id_, payload, text, code) in zip(
            rows, distances, scores, stored, strict=True
        )
    ]
    if not options.rerank:
        return hits
    return rerank_hits(hits, codes, query.weights[0].astype(np.float64))


def rerank_hits(hits: list[Hit], codes: Codes, margins: npt.NDArray[np.float64]) -> list[Hit]:
    """Return the hits ordered by (rerank_score, distance, row).

    The rerank score is the sum over b of |alpha_b - c_b|, where alpha_b = sigmoid(margin_b) is the
    query's probability that bit b is 1, and c_b is the bit of the hit's code.
    """
    # exp(-|m|) cannot overflow.
    exponentials = np.exp(-np.abs(margins))
    alpha = np.where(margins >= 0, 1, exponentials) / (1 + exponentials)
    scores = np.abs(alpha - unpack_codes(codes)).sum(axis=1).tolist()
    scored = [hit._replace(rerank_score=score) for hit, score in zip(hits, scores, strict=True)]
    return sorted(scored, key=lambda hit: (hit.rerank_score or 0.0, hit.distance, hit.row))


def add_relevances(
    hits: Sequence[Sequence[Hit]], anchors: Sequence[tuple[float, float]]
) -> list[list[Hit]]:
    """Add to each hit its score on the scale between the anchors of its query, from 0 to 1."""
    return [
        [hit._replace(relevance=_share(hit.score, lowest, highest)) for hit in some]
        for some, (lowest, highest) in zip(hits, anchors, strict=True)
    ]


def _share(score: float, lowest: float, highest: float) -> float:
    if highest <= lowest:
        return 0.0
    return min(max((score - lowest) / (highest - lowest), 0.0), 1.0)


def add_highlights(
    hits: list[list[Hit]],
    queries: EncodedQueries,
    lexical: LexicalIndex | None,
    *,
    with_text: bool,
) -> list[list[Hit]]:
    """Add highlights to the hits of each query, and drop their texts unless `with_text`.

    `lexical`, if there is one, gives rare words a higher weight.
    """
    analyzer = ANALYZERS[DEFAULT_ANALYZER] if lexical is None else lexical.analyzer
    for place in range(len(hits)):
        words = queries.words_of(place)
        if words is None:
            continue
        if lexical is None:
            weights = dict.fromkeys(analyzer.terms(words.with_corrections), 1.0)
        else:
            weights = {one.term: one.idf for one in lexical.weigh(*words).terms if one.idf}
        hits[place] = [
            hit._replace(highlight=highlight(hit.text, weights, analyzer))
            if hit.text is not None
            else hit
            for hit in hits[place]
        ]
    if with_text:
        return hits
    return [[hit._replace(text=None) for hit in query_hits] for query_hits in hits]
