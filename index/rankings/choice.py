"""Which ranking a search asks for."""

from __future__ import annotations

from index.publication import Published
from index.rankings.asymmetric import AsymmetricRanking
from index.rankings.bm25 import Bm25Ranking
from index.rankings.hamming import HammingRanking
from index.rankings.hybrid import HybridRanking
from index.rankings.protocol import ASYMMETRIC, BM25, HYBRID, Ranking
from index.search import Search


def ranking_of(search: Search, published: Published) -> Ranking:
    """Return the ranking that a search wants, of the documents that are published."""
    lexical, moments = published.lexical, published.moments
    if search.ranking == ASYMMETRIC:
        return AsymmetricRanking(published.generation)
    if search.ranking == BM25 and lexical is not None:
        return Bm25Ranking(lexical, search.statistics)
    if search.ranking == HYBRID and lexical is not None and moments is not None:
        return HybridRanking(published.generation, moments, lexical, statistics=search.statistics)
    return HammingRanking(published.generation, search.wanted.radius)
