"""The choice of a search's ranking."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from index.engines.protocol import Rows
from index.generations.published import PublishedGeneration
from index.rankings.asymmetric import AsymmetricRanking
from index.rankings.bm25 import Bm25Ranking
from index.rankings.cosine import VECTORS, CosineScorer
from index.rankings.hamming import HammingRanking
from index.rankings.hybrid import DEFAULT_WEIGHT, HybridRanking
from index.rankings.protocol import ASYMMETRIC, BM25, N_FEEDBACK, RankedRows, Ranking
from index.rankings.reciprocal import ReciprocalRanking
from index.rankings.rescored import RescoredRanking, Scorer
from index.records import EncodedQueries
from index.search.search_options import ranking_without_text

if TYPE_CHECKING:
    from index.search.search_steps import Search
    from index.sqlite.store import Store


def make_ranking(search: Search, published: PublishedGeneration, store: Store) -> Ranking:
    """Return the ranking of a search over the published documents, whose vectors `store` has.

    Raises:
        InputError: if the search rescores by vectors and the collection keeps none.
    """
    ranking, rescore = _first_ranking(search, published), search.options.rescore
    if rescore is None:
        return ranking
    scorer: Scorer = AsymmetricRanking(published.generation)
    if rescore.by == BM25 and published.lexical is not None:
        scorer = Bm25Ranking(published.lexical)
    elif rescore.by == VECTORS:
        scorer = CosineScorer(store.read_vectors, store.description.keep_vectors)
    return RescoredRanking(ranking, scorer, search.options.n_candidates)


def _first_ranking(search: Search, published: PublishedGeneration) -> Ranking:
    if not search.by_words:
        return _by_codes(search, published, search.ranking)
    if all(text is not None for text in search.queries.texts):
        return _by_words(search, published)
    others = _by_codes(search, published, ranking_without_text(search.default))
    if all(text is None for text in search.queries.texts):
        return others
    return _TextsByWords(_by_words(search, published), others)


def _by_codes(search: Search, published: PublishedGeneration, name: str) -> Ranking:
    if name == ASYMMETRIC:
        return AsymmetricRanking(published.generation)
    return HammingRanking(published.generation, search.options.radius)


def _by_words(search: Search, published: PublishedGeneration) -> Ranking:
    lexical, moments = published.lexical, published.moments
    if lexical is None or moments is None:
        raise RuntimeError("a ranking by words needs a lexical index; none is published")
    if search.ranking == BM25:
        return Bm25Ranking(lexical, search.statistics)
    hybrid = search.options.hybrid
    if hybrid is not None and hybrid.rrf is not None:
        return ReciprocalRanking(published.generation, lexical, hybrid.rrf)
    weight = search.hybrid_weight or DEFAULT_WEIGHT
    if hybrid is not None and hybrid.codes is not None:
        weight = hybrid.codes
    n_feedback = N_FEEDBACK if hybrid is None or hybrid.feedback is None else hybrid.feedback
    return HybridRanking(
        published.generation,
        moments,
        lexical,
        weight,
        n_feedback=n_feedback,
        statistics=search.statistics,
    )


class _TextsByWords:
    """Ranks text queries by one ranking, and other queries by another."""

    def __init__(self, words: Ranking, codes: Ranking) -> None:
        self._words = words
        self._codes = codes
        self.name = words.name

    def rank(
        self, queries: EncodedQueries, k: int, allowed: Rows | None = None
    ) -> list[RankedRows]:
        return [
            self._ranking_for(query).rank(query, k, allowed)[0]
            for query in (queries[place : place + 1] for place in range(len(queries)))
        ]

    def hit_scores(self, queries: EncodedQueries, found: Sequence[RankedRows]) -> list[list[float]]:
        pairs = ((queries[place : place + 1], some) for place, some in enumerate(found))
        return [self._ranking_for(query).hit_scores(query, [some])[0] for query, some in pairs]

    def anchors(
        self, queries: EncodedQueries, found: Sequence[RankedRows]
    ) -> list[tuple[float, float]]:
        pairs = ((queries[place : place + 1], some) for place, some in enumerate(found))
        return [self._ranking_for(query).anchors(query, [some])[0] for query, some in pairs]

    def _ranking_for(self, query: EncodedQueries) -> Ranking:
        return self._codes if query.texts[0] is None else self._words
