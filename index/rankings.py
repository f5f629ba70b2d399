"""The rankings: each orders the documents of a collection for a query."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from base64 import b64decode, b64encode
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt

from hummingbit.encoder.codes import Codes, hamming_distance
from hummingbit.encoder.text_features import Floats
from hummingbit.foundation.arrays import sorted_distinct
from hummingbit.foundation.errors import InputError
from hummingbit.index.confidence import OF_BOTH, OF_WORDS, Evidence, evidence_of_codes
from hummingbit.index.engines import kernel
from hummingbit.index.engines.compiled import CompiledIndex
from hummingbit.index.engines.protocol import After, Rows, Weights, max_bit_weight
from hummingbit.index.engines.segments import IndexSnapshot
from hummingbit.index.engines.weighted import weighted_distances
from hummingbit.index.errors import RowsRemoved
from hummingbit.index.kept_vectors import packed_size, unpack_vectors
from hummingbit.index.lexical import (
    MOST_IN_HEAP,
    UNIT,
    LexicalIndex,
    Matches,
    PostingLists,
    WeighedQuery,
)
from hummingbit.index.moments import CodeMoments, StandardScore, sums_of_scores
from hummingbit.index.names import ASYMMETRIC, BM25, HAMMING, HYBRID, LOGITS, NONE, VECTORS
from hummingbit.index.passages import PASSAGE_BITS, CodeColumn
from hummingbit.index.questions import Question
from hummingbit.index.records import EncodedQueries, Examples

if TYPE_CHECKING:
    from hummingbit.index.search import Search


Scores = npt.NDArray[np.int64] | npt.NDArray[np.float64]
QuantizedWeights = tuple[Weights, npt.NDArray[np.int64]]
"""Whole weights of queries, and the sum of their absolute values for each."""

CODES, TEXTS = "codes", "texts"
"""What a ranking can need: codes of the documents, their word index, or VECTORS that are kept."""


class RankedRows(NamedTuple):
    """The result of one query, best first; rows with the same score in ascending order."""

    rows: Rows
    """``int64[m]``"""
    scores: Scores
    """``[m]``, descending. Integers are within ±2**53, so that a float64 holds each."""
    scoring: WeighedQuery | HybridScoring | None = None
    """Whatever the scores depend on besides the documents; None in most rankings."""

    @property
    def statistics(self) -> dict[str, Any]:
        """What the scores depend on, as JSON values; empty in most rankings.

        A ranking of a later generation that receives it gives documents the same scores, so the
        pages of a search stay consistent while documents are written.
        """
        return {} if self.scoring is None else self.scoring.statistics

    def select(self, some: slice | npt.NDArray[Any] | list[int]) -> RankedRows:
        """Return some of the rows, by their positions."""
        return RankedRows(self.rows[some], self.scores[some], self.scoring)


class Scoring(ABC):
    """What the scores of the `hits` of the query at a position, `at`, mean."""

    def hit_scores(self, queries: EncodedQueries, at: int, hits: RankedRows) -> list[float]:  # noqa: ARG002
        """Return the scores that hits report; higher is better. Here, these are unchanged."""
        scores: list[float] = hits.scores.tolist()
        return scores

    @abstractmethod
    def evidence(self, queries: EncodedQueries, at: int, hits: RankedRows) -> Evidence:
        """Return what the confidence of the hits follows from."""


class Ranking(Scoring):
    """Documents of one generation in the order (score descending, row ascending).

    Nothing else decides the order: not the engine, the size of the batch, or the number of threads.
    So the first k of a ranking of k + 1 are the ranking of k. A ranking never changes, and any
    number of threads can use it at once.
    """

    @abstractmethod
    def rank(
        self, queries: EncodedQueries, k: int, allowed: Rows | None = None
    ) -> list[RankedRows]:
        """Return the `k` best documents of each query, or all if there are fewer.

        `k` is at least 1. If `allowed` is given, ``int64[M]`` in ascending order, only these rows
        are found; unknown rows in it are ignored.
        """


@runtime_checkable
class RankingFromAnywhere(Protocol):
    """A ranking in which a page costs the same however many hits precede it."""

    def rank_after(
        self, query: EncodedQueries, k: int, score: float, row: int, allowed: Rows | None = None
    ) -> RankedRows:
        """Return the `k` best documents of one query that come after a score and a row.

        `k` and `allowed` are those of :meth:`Ranking.rank`. The row need not exist.
        """


class SearchedDocuments(NamedTuple):
    """The documents of one generation, as rankings read them."""

    generation: IndexSnapshot
    lexical: LexicalIndex | None
    """The words of the documents; None unless the search needs :data:`TEXTS`."""
    moments: CodeMoments | None
    """The moments of the codes; None unless the search needs :data:`TEXTS`."""
    read_vectors: ReadVectors
    keep_vectors: str
    """The form of the kept vectors, one of :data:`hummingbit.index.kept_vectors.FORMS`."""
    code_column: CodeColumn
    """Whether the documents have passages, which are then what is ranked."""

    def words(self) -> tuple[LexicalIndex, CodeMoments]:
        """Return the words of the documents and the moments of their codes."""
        if self.lexical is None or self.moments is None:
            raise RuntimeError("a ranking by words needs a lexical index; none is published")
        return self.lexical, self.moments


class Scorer(Scoring):
    """What scores documents that a ranking found; :data:`SCORERS` has those of `rescore`."""

    needs: ClassVar[frozenset[str]]
    """Which of :data:`CODES`, :data:`TEXTS` and :data:`VECTORS` the scores are made from.

    A query must have a text if texts are needed, and a vector if vectors are."""

    @classmethod
    @abstractmethod
    def of(cls, documents: SearchedDocuments, search: Search) -> Scorer:
        """Return what ranks or scores the documents, with the options and statistics of `search`.

        Raises:
            InputError: if the collection does not hold what is needed.
        """

    @abstractmethod
    def score(self, queries: EncodedQueries, at: int, rows: Rows) -> Scores:
        """Return the scores of `rows` for one query, in that order; all of them must exist."""


class NamedRanking(Ranking, Scorer):
    """A :class:`Ranking` that searches name. Another ranking is a subclass and a line in RANKINGS.

    A subclass has

    - ``name``, that in requests, and ``summary``, how it orders hits, for help texts;
    - ``needs`` and :meth:`of`: what it reads, and how a search makes it;
    - :meth:`rank`, the order itself, and :meth:`score`, the same scores for any rows;
    - :meth:`evidence`, the features that confidence follows from (:mod:`.confidence`);
    - :meth:`hit_scores`, if hits report other scores than those that decide the order;
    - ``rank_after``, if it can find a page without the hits before it
      (:class:`RankingFromAnywhere`);
    - ``statistics`` in its :class:`RankedRows`, if scores depend on other documents. Then
      :meth:`of` takes them from ``search.statistics``, so that all pages of a search agree.

    Scores must not depend on the order of additions, so they are sums of whole numbers. A new
    ranking also needs a brute-force twin in ``tests/index/rankings``.
    """

    name: ClassVar[str]
    summary: ClassVar[str]

    @classmethod
    @abstractmethod
    def of(cls, documents: SearchedDocuments, search: Search) -> NamedRanking:
        """See :meth:`Scorer.of`."""


class ByDistance(Ranking):
    """A :class:`Ranking` whose scores are minus the Hamming distance, in bits."""

    @property
    @abstractmethod
    def n_documents(self) -> int:
        """The number of documents."""

    def hit_scores(self, queries: EncodedQueries, at: int, hits: RankedRows) -> list[float]:  # noqa: ARG002
        """Return 1 - distance / n_bits: the share of bits that agree."""
        scores: list[float] = (1 + hits.scores / (queries.codes.shape[1] * 8)).tolist()
        return scores

    def evidence(self, queries: EncodedQueries, at: int, hits: RankedRows) -> Evidence:  # noqa: ARG002
        """Return the evidence of the share of bits that agree.

        Of n random bits, n / 2 ± √n / 2 agree, so codes that are equal lie √n deviations above.
        """
        highest = math.sqrt(queries.codes.shape[1] * 8)
        return evidence_of_codes(highest, -highest, self.n_documents, queries.known_share(at))


class HammingRanking(ByDistance, NamedRanking):
    """Documents by the Hamming distance of their codes; the score is minus the distance in bits."""

    name = HAMMING
    needs = frozenset({CODES})

    def __init__(self, generation: IndexSnapshot, radius: int | None = None) -> None:
        """Rank the documents of `generation`, without those farther than `radius`."""
        self._generation = generation
        self._radius = radius

    @classmethod
    def of(cls, documents: SearchedDocuments, search: Search) -> HammingRanking:
        """See :meth:`Scorer.of`."""
        return cls(documents.generation, search.options.radius)

    def rank(
        self, queries: EncodedQueries, k: int, allowed: Rows | None = None
    ) -> list[RankedRows]:
        """See :meth:`Ranking.rank`."""
        generation = self._generation
        # Without deltas, the base holds all rows.
        index = generation if generation.deltas else generation.base
        nearest = index.search(queries.codes, k, self._radius, allowed)
        return [RankedRows(rows, -distances) for rows, distances in nearest]

    def rank_after(
        self, query: EncodedQueries, k: int, score: float, row: int, allowed: Rows | None = None
    ) -> RankedRows:
        """See :meth:`RankingFromAnywhere.rank_after`."""
        after = After.at(-score, row)
        nearest = self._generation.search(query.codes, k, self._radius, allowed, after)
        return RankedRows(nearest[0].rows, -nearest[0].distances)

    def score(self, queries: EncodedQueries, at: int, rows: Rows) -> Scores:
        """See :meth:`Scorer.score`."""
        return -hamming_distance(self._generation.codes_of(rows), queries.codes[at])

    @property
    def n_documents(self) -> int:
        """The number of documents."""
        return len(self._generation)


class AsymmetricRanking(NamedRanking):
    """Documents by the probability of their bits, given the real values of a query.

    The query's real values w, ``float32[n_bits]``, say how certain each bit is: bit b of a relevant
    document is 1 with the probability sigmoid(w_b). Then

        log p(bits) = Σ_b log sigmoid(w_b s_b) = (Σ_b w_b s_b) / 2 + constant,   s_b = 2 bit_b - 1,

    since log sigmoid(x) - log sigmoid(-x) = x. So documents are ordered by the dot product of their
    ±1 bits with w. Documents are stored as for Hamming distances and only the query keeps its real
    values, which makes this an asymmetric distance (Jégou, Douze & Schmid, "Product quantization
    for nearest neighbor search", 2011; for binary codes Gordo, Perronnin, Gong & Lazebnik,
    "Asymmetric distances for binary embeddings", 2014).

    The values are first rounded to integers, the largest to 20 bits. All sums are then integers, so
    the order is the same for every engine, batch and number of threads.

    A query that is only a code has the weights ±1, so it ranks documents by Hamming distance.
    """

    name = ASYMMETRIC
    needs = frozenset({CODES})

    def __init__(self, generation: IndexSnapshot) -> None:
        """Rank the documents of `generation`."""
        self._generation = generation
        self._quantized: tuple[Floats, QuantizedWeights] | None = None

    @classmethod
    def of(cls, documents: SearchedDocuments, search: Search) -> AsymmetricRanking:  # noqa: ARG003
        """See :meth:`Scorer.of`."""
        return cls(documents.generation)

    def quantized(self, queries: EncodedQueries) -> QuantizedWeights:
        """Return the :func:`quantize_weights` of the queries; those of the last ones are kept."""
        last = self._quantized
        if last is None or last[0] is not queries.weights:
            last = self._quantized = queries.weights, quantize_weights(queries.weights)
        return last[1]

    @property
    def n_documents(self) -> int:
        """The number of documents."""
        return len(self._generation)

    @property
    def compiled(self) -> CompiledIndex | None:
        """The index of all documents, if they are in one that the kernel searches."""
        base = self._generation.base
        if kernel.native is None or self._generation.deltas or not isinstance(base, CompiledIndex):
            return None
        return base

    def rank(
        self, queries: EncodedQueries, k: int, allowed: Rows | None = None
    ) -> list[RankedRows]:
        """See :meth:`Ranking.rank`."""
        weights, totals = self.quantized(queries)
        nearest = self._generation.search_weighted(weights, k, allowed)
        # A bit that differs counts -|w|, where an equal one counts |w|.
        return [
            RankedRows(rows, total - 2 * distances)
            for total, (rows, distances) in zip(totals.tolist(), nearest, strict=True)
        ]

    def rank_after(
        self, query: EncodedQueries, k: int, score: float, row: int, allowed: Rows | None = None
    ) -> RankedRows:
        """See :meth:`RankingFromAnywhere.rank_after`."""
        weights, (total,) = self.quantized(query)
        total = int(total)
        after = After.at((total - score) / 2, row)
        (nearest,) = self._generation.search_weighted(weights, k, allowed, after)
        return RankedRows(nearest.rows, total - 2 * nearest.distances)

    def score(self, queries: EncodedQueries, at: int, rows: Rows) -> Scores:
        """See :meth:`Scorer.score`."""
        weights, totals = self.quantized(queries)
        distances = weighted_distances(self._generation.codes_of(rows), weights[at])
        return np.asarray(totals[at] - 2 * distances.astype(np.int64))

    def hit_scores(self, queries: EncodedQueries, at: int, hits: RankedRows) -> list[float]:
        """Return ``(1 + score / sum_b |w_b|) / 2``: the share of the weight in bits that agree."""
        total = max(self.quantized(queries)[1].item(at), 1)
        scores: list[float] = ((1 + hits.scores / total) / 2).tolist()
        return scores

    def evidence(self, queries: EncodedQueries, at: int, hits: RankedRows) -> Evidence:  # noqa: ARG002
        """Return the evidence of the scores.

        With random bits, w · s has the deviation |w|, and at most Σ |w_b|.
        """
        weights = queries.weights[at]
        length = float(np.sqrt((weights**2).sum()))
        highest = float(np.abs(weights).sum()) / length if length else 0.0
        return evidence_of_codes(highest, -highest, self.n_documents, queries.known_share(at))


def quantize_weights(weights: Floats) -> QuantizedWeights:
    """Round `weights`, ``float32[Q, n_bits]`` and finite, to integers within the bounds.

    The bounds are those of :func:`hummingbit.index.engines.protocol.max_bit_weight`. Each query's
    weights are scaled by the largest power of two that keeps them within, so scaling itself loses
    nothing.

    Returns:
        The weights, and the sum of their absolute values for each query.
    """
    max_bits = max_bit_weight(weights.shape[1]).bit_length() - 1
    if kernel.native is not None:
        return kernel.round_weights(weights, max_bits)
    largest = np.abs(weights).max(axis=1, initial=0).astype(np.float64)
    _, exponents = np.frexp(largest)
    scaled = np.ldexp(weights.astype(np.float64), (max_bits - exponents)[:, None])
    whole: Weights = np.rint(scaled).astype(np.int64)
    return whole, np.abs(whole).sum(axis=1)


class Bm25Ranking(NamedRanking):
    """A ranking of the documents that have a term of the query.

    Scores are those of :mod:`hummingbit.index.lexical`, in its units.
    """

    name = BM25
    needs = frozenset({TEXTS})

    def __init__(self, lexical: LexicalIndex, statistics: Mapping[str, Any] | None = None) -> None:
        """Rank the documents of `lexical`.

        The `statistics` of an earlier ranking's result reproduce the scores of its query.
        """
        self._lexical = lexical
        self._statistics = statistics

    @classmethod
    def of(cls, documents: SearchedDocuments, search: Search) -> Bm25Ranking:
        """See :meth:`Scorer.of`."""
        return cls(documents.words()[0], search.statistics)

    def rank(
        self, queries: EncodedQueries, k: int, allowed: Rows | None = None
    ) -> list[RankedRows]:
        """See :meth:`Ranking.rank`."""
        weighed = [self._weighed(queries, at) for at in range(len(queries))]
        return [RankedRows(*self._lexical.best(query, k, allowed), query) for query in weighed]

    def rank_after(
        self, query: EncodedQueries, k: int, score: float, row: int, allowed: Rows | None = None
    ) -> RankedRows:
        """See :meth:`RankingFromAnywhere.rank_after`."""
        weighed = self._weighed(query, 0)
        later = self._lexical.matches(weighed).after(score, row)
        return RankedRows(*later.best(k, allowed), weighed)

    def score(self, queries: EncodedQueries, at: int, rows: Rows) -> Scores:
        """See :meth:`Scorer.score`."""
        return self._lexical.matches(self._weighed(queries, at)).scores_of(rows)

    def hit_scores(self, queries: EncodedQueries, at: int, hits: RankedRows) -> list[float]:  # noqa: ARG002
        """Return the scores of the formula."""
        scores: list[float] = (hits.scores / UNIT).tolist()
        return scores

    def evidence(self, queries: EncodedQueries, at: int, hits: RankedRows) -> Evidence:  # noqa: ARG002
        """Return the score as :class:`hummingbit.index.confidence.WordEvidence` scales it."""
        scale = self._lexical.evidence(self._weighed(queries, at)).per_score
        return Evidence(OF_WORDS, (0.0,), (scale,))

    def _weighed(self, queries: EncodedQueries, at: int) -> WeighedQuery:
        if self._statistics is None:
            return self._lexical.weigh(question_of(queries, at, self.name))
        return weigh_again(self._lexical, self._statistics)


def question_of(queries: EncodedQueries, at: int, ranking: str) -> Question:
    """Return the text of one query as it was read.

    Raises:
        InputError: if it has no text.
    """
    question = queries.questions[at]
    if question is None:
        raise InputError("ranking", f"is {ranking!r}, which needs a text as the query", at)
    return question


def weigh_again(lexical: LexicalIndex, statistics: Mapping[str, Any]) -> WeighedQuery:
    """Return a query as an earlier page weighed it.

    Raises:
        InputError: if the statistics in its cursor are not those of a query.
    """
    try:
        return lexical.weigh_again(statistics)
    except (KeyError, TypeError, ValueError):
        raise cursor_of_other_version() from None


def cursor_of_other_version() -> InputError:
    """Return the error of a cursor whose statistics cannot be read."""
    return InputError("cursor", "is one of another version; request the first page again")


LEAST_SCORE = -1.0
# Numbers of vectors in memory at a time, and the most rows that one statement reads.
NUMBERS_AT_ONCE = 1 << 20
ROWS_AT_ONCE = 500

Vectors = npt.NDArray[np.float64]
ReadVectors = Callable[[Sequence[int]], Mapping[int, bytes | None]]
"""Returns what is stored of the vectors of rows; rows that were removed are missing."""


class CosineScorer(Scorer):
    """The cosine of a query's vector and the kept vectors of a collection.

    The vectors lie on disk and are read for the candidates of a search only. The score of a
    document is

        q · x / (|q| |x|),

    from -1 to 1, and 0 if one of the two is zero. A document without a vector of the query's length
    has the score -1. Before they are multiplied, the numbers of a vector are rounded to multiples
    of 2^(e - b), where 2^e bounds the largest of them and b = (53 - ⌈log2 D⌉) / 2, so 22 bits for
    384 numbers. The sums are then whole numbers below 2^53, which float64 adds without an error in
    any order. So the scores are the same on every processor, and in every batch.
    """

    needs = frozenset({VECTORS})

    def __init__(self, read_vectors: ReadVectors, form: str, n_documents: int) -> None:
        """Score rows of vectors kept in `form`, one of :data:`hummingbit.index.kept_vectors.FORMS`.

        The collection has `n_documents`.

        Raises:
            InputError: if the collection keeps no vectors.
        """
        if form == NONE:
            message = f"by is {VECTORS!r}, but the collection keeps no vectors (keep_vectors: none)"
            raise InputError("rescore", message)
        self._read_vectors = read_vectors
        self._form = form
        self._n_documents = n_documents

    @classmethod
    def of(cls, documents: SearchedDocuments, search: Search) -> CosineScorer:  # noqa: ARG003
        """See :meth:`Scorer.of`."""
        n_documents = len(documents.generation)
        return cls(documents.read_vectors, documents.keep_vectors, n_documents)

    def evidence(self, queries: EncodedQueries, at: int, hits: RankedRows) -> Evidence:  # noqa: ARG002
        """Return the evidence of codes that agree as much as vectors with this cosine.

        Signs of random projections agree with the probability 1 - θ / π at the angle θ, which is
        about 1/2 + cos θ / π. Source: Charikar, "Similarity Estimation Techniques from Rounding
        Algorithms" (2002).
        """
        highest = math.sqrt(queries.codes.shape[1] * 8) * 2 / math.pi
        return evidence_of_codes(highest, 0.0, self._n_documents, queries.known_share(at))

    def score(self, queries: EncodedQueries, at: int, rows: Rows) -> Vectors:
        """See :meth:`Scorer.score`.

        Raises:
            RowsRemoved: if a row is no longer stored.
        """
        vector = queries.vectors[at]
        if vector is None:
            raise ValueError("a query without a vector has no cosine")
        query = whole_numbers(vector[None])[0]
        scores = np.full(len(rows), LEAST_SCORE)
        step = max(1, min(ROWS_AT_ONCE, NUMBERS_AT_ONCE // len(query)))
        for start in range(0, len(rows), step):
            some: list[int] = rows[start : start + step].tolist()
            stored = self._read_vectors(some)
            if len(stored) < len(some):
                raise RowsRemoved("a candidate was removed while its vector was read")
            size = packed_size(len(query), self._form)
            kept = [i for i, row in enumerate(some) if len(stored[row] or b"") == size]
            if kept:
                packed = [stored[some[i]] or b"" for i in kept]
                documents = whole_numbers(unpack_vectors(packed, self._form))
                scores[[start + i for i in kept]] = cosines(query, documents)
        return scores


def whole_numbers(vectors: npt.NDArray[np.float32]) -> Vectors:
    """Return vectors ``(N, D)`` as whole numbers whose products add up without rounding.

    Each vector is scaled by a power of two, which changes no cosine.
    """
    bits = (53 - (vectors.shape[1] - 1).bit_length()) // 2
    x = vectors.astype(np.float64)
    exponents = np.frexp(np.abs(x).max(axis=1, keepdims=True))[1]
    return np.asarray(np.rint(np.ldexp(x, bits - exponents)))


def cosines(query: Vectors, documents: Vectors) -> Vectors:
    """Return the cosines of `query` ``(D,)`` and `documents` ``(N, D)``, all whole numbers."""
    norms = np.sqrt(np.einsum("nd,nd->n", documents, documents)) * np.sqrt(query @ query)
    products = documents @ query
    quotients = np.divide(products, norms, out=np.zeros_like(norms), where=norms > 0)
    return np.asarray(np.clip(quotients, -1.0, 1.0))


DEFAULT_WEIGHT = 0.5
"""The weight of codes, which is that of words: the score is the mean of the two. Of .35, .5, .75
and 1 it has the highest mean over ten families of questions, with codes of 8 and of 32 bytes
(``python -m experiments.questions.table --weights .35 .5 .75 1``)."""
OF_MODELS = 0.85
"""The weight of the codes of a language model, which says more of a text than a table of words."""
ENOUGH_BY_WORDS, LEAST_BY_WORDS = 1.5, 1 / 16
"""The evidence from which words count in full, and the least they count."""
NEAREST_SHARE = 3_000
"""One in so many documents is scored as one of the nearest by codes, and bounds what codes add to
the others. Of a million uniform codes of 256 bits, a hybrid search then takes 4 ms in place of 7
(``python -m benchmarks.scale --size 1e6``)."""
FIRST_BY_WORDS = 16
"""How many of the best by words are scored first: the better they are, the fewer others must be."""


class HybridRanking(NamedRanking):
    """Documents by their words and their codes together.

    The score of a document d is

        score(d) = x · words(d) / 2 + weight · z(d),   z(d) = (codes(d) - mean) / deviation.

    words(d) is BM25 with openings twice (:mod:`hummingbit.index.lexical`): the logarithm
    of how much likelier the words of the query are in a relevant document than in others. codes(d)
    is the score of :class:`AsymmetricRanking`, with its mean and deviation over all documents. It
    is about normal, and lies some deviations higher for relevant documents, so z(d) is such a
    logarithm, too, but for a factor; sums of logarithms join evidence. Neither part is scaled by
    the best of the query, so a query with many rare words is decided by words, and one with few by
    codes, with one weight for all.

    Words that match by chance do not outweigh codes: if even the best document by words has little
    of the query, words count

        x = min(1, (e / :data:`ENOUGH_BY_WORDS`)²), at least :data:`LEAST_BY_WORDS`,

    with the evidence e of that document (:class:`hummingbit.index.confidence.WordEvidence`). A
    document without a term of the query has words(d) = 0. If all documents have the same score by
    codes, z(d) = 0. A filter changes no score.

    Source: Robertson and Zaragoza, "The Probabilistic Relevance Framework: BM25 and Beyond" (2009),
    section 2, for scores as logarithms of odds.
    """

    name = HYBRID
    needs = frozenset({CODES, TEXTS})

    def __init__(
        self,
        generation: IndexSnapshot,
        moments: CodeMoments,
        lexical: LexicalIndex,
        weight: float = DEFAULT_WEIGHT,
        *,
        statistics: Mapping[str, Any] | None = None,
    ) -> None:
        """Rank the documents of a generation, given the moments of its codes and its texts.

        The `statistics` of an earlier ranking's result reproduce the scores of its query.
        """
        self._codes = AsymmetricRanking(generation)
        self._generation = generation
        self._moments = moments
        self._lexical = lexical
        self._weight = weight
        self._statistics = statistics
        self._last: tuple[EncodedQueries, _Scorer] | None = None

    @classmethod
    def of(cls, documents: SearchedDocuments, search: Search) -> HybridRanking:
        """See :meth:`Scorer.of`."""
        lexical, moments = documents.words()
        weight, statistics = search.codes_weight, search.statistics
        return cls(documents.generation, moments, lexical, weight, statistics=statistics)

    def rank(
        self, queries: EncodedQueries, k: int, allowed: Rows | None = None
    ) -> list[RankedRows]:
        """See :meth:`Ranking.rank`."""
        # One at a time, because each scorer is large.
        return [self._scorer_of(queries, at).best(k, allowed) for at in range(len(queries))]

    def score(self, queries: EncodedQueries, at: int, rows: Rows) -> Scores:
        """See :meth:`Scorer.score`."""
        return self._scorer_of(queries, at).scores(rows)

    def evidence(self, queries: EncodedQueries, at: int, hits: RankedRows) -> Evidence:
        """Return the evidence of the best document by words, and the rest of the score.

        Without what words add to that document, x · words / 2, a score says how near the codes are
        and how many words are missing.
        """
        scoring = hits.scoring
        if not isinstance(scoring, HybridScoring):
            scoring = self._scorer_of(queries, at).scoring
        of_best = scoring.words_count * scoring.best_by_words / 2
        return Evidence(OF_BOTH, (scoring.evidence, -of_best), (0.0, 1.0))

    def _scorer_of(self, queries: EncodedQueries, at: int) -> _Scorer:
        """Return the scorer of one query.

        That of a query that comes alone is kept until the next, so to rank more of its documents,
        or some only, takes less time.
        """
        if self._last is not None and self._last[0] is queries:
            return self._last[1]
        query, question = queries[at : at + 1], question_of(queries, at, self.name)
        if self._statistics is None:
            scorer = self._scorer(query, question)
        else:
            scorer = self._scorer_again(query, self._statistics)
        if len(queries) == 1:
            self._last = queries, scorer
        return scorer

    def _scorer(self, query: EncodedQueries, question: Question) -> _Scorer:
        if query.is_unrecognized(0):
            query = query.with_weights(np.zeros_like(query.weights))
        weighed = self._lexical.weigh(question, hybrid=True)
        matches = self._lexical.matches(weighed)
        first = matches.best(FIRST_BY_WORDS)
        best = float(first.scores[0]) / UNIT if len(first.scores) else 0.0
        evidence = best * self._lexical.evidence(weighed).per_score
        by_codes = self._standard_score(query)
        scoring = HybridScoring(weighed, best, evidence, by_codes, query.weights)
        texts = self._lexical.texts
        return _Scorer(scoring, matches, texts, self._codes, query, self._weight, first.rows)

    def _standard_score(self, query: EncodedQueries) -> StandardScore:
        """Return the standard score of a query's score by codes, over all documents."""
        weights, (total,) = self._codes.quantized(query)
        if self._moments.products is not None:
            return self._moments.standard_score(weights[0])
        # A score is the total less twice the distance.
        n, total = len(self._generation), int(total)
        (nearest,) = self._generation.search_weighted(weights, max(1, n))
        distances, squares = sums_of_scores(nearest.distances.astype(np.int32))
        of_scores = n * total**2 - 4 * total * distances + 4 * squares
        return StandardScore.of_sums(n, n * total - 2 * distances, of_scores)

    def _scorer_again(self, query: EncodedQueries, statistics: Mapping[str, Any]) -> _Scorer:
        """Return the scorer whose :attr:`HybridScoring.statistics` are given."""
        try:
            weighed = weigh_again(self._lexical, statistics["words"])
            raw = np.frombuffer(b64decode(statistics["weights"]), dtype="<f4")
            weights = raw.astype(np.float32).reshape(query.weights.shape)
            mean, deviation = map(float, statistics["by_codes"])
            best, evidence = map(float, statistics["by_words"])
        except (KeyError, TypeError, ValueError):
            raise cursor_of_other_version() from None
        by_codes = StandardScore(mean, deviation)
        scoring = HybridScoring(weighed, best, evidence, by_codes, weights)
        matches, query = self._lexical.matches(weighed), query.with_weights(weights)
        return _Scorer(scoring, matches, self._lexical.texts, self._codes, query, self._weight)


def words_count(evidence: float) -> float:
    """Return how much words count, x, given the evidence of the best document by words."""
    return min(1.0, max(LEAST_BY_WORDS, (evidence / ENOUGH_BY_WORDS) ** 2))


class HybridScoring(NamedTuple):
    """What the hybrid scores of one query depend on besides the documents and the weight."""

    weighed: WeighedQuery
    best_by_words: float
    """The highest score by words of a document."""
    evidence: float
    """What it says of the query (:class:`hummingbit.index.confidence.WordEvidence`)."""
    by_codes: StandardScore
    weights: Floats
    """``float32[1, n_bits]``: the real values of the query."""

    @property
    def words_count(self) -> float:
        """x, how much words count."""
        return words_count(self.evidence)

    @property
    def by_words(self) -> StandardScore:
        """Turns scores of the lexical index into what they add."""
        return StandardScore(0.0, 2 * UNIT / self.words_count)

    @property
    def statistics(self) -> dict[str, Any]:
        """The statistics with which :class:`HybridRanking` reproduces the scores."""
        return {
            "words": self.weighed.statistics,
            "by_words": [self.best_by_words, self.evidence],
            "by_codes": list(self.by_codes),
            "weights": b64encode(self.weights.astype("<f4").tobytes()).decode("ascii"),
        }


class _Scorer(NamedTuple):
    """One query: the scores by words of all documents, and the scores of any by both."""

    scoring: HybridScoring
    matches: Matches
    texts: PostingLists
    """Those of the matches."""
    codes: AsymmetricRanking
    query: EncodedQueries
    weight: float
    first_by_words: Rows = np.empty(0, dtype=np.int64)
    """The rows of some of the best by words, best first."""

    def best(self, k: int, allowed: Rows | None = None) -> RankedRows:
        """Return the `k` best documents.

        A document without a term of the query can be among them only if it is among the `k` best by
        codes alone, because no document scores less by words. Of the other documents, only those
        are scored whose score by words would suffice if their codes were as near as the last of the
        nearest.
        """
        n_nearest = max(k, self.codes.n_documents // NEAREST_SHARE)
        compiled = self.codes.compiled
        if compiled is not None and len(self.matches.parts) == 1 and k <= MOST_IN_HEAP:
            return self._best_by_heap(k, n_nearest, compiled, allowed)
        (nearest,) = self.codes.rank(self.query, n_nearest, allowed)
        best_by_words = self.matches.best(k, allowed)
        rows = sorted_distinct(np.concatenate([nearest.rows, best_by_words.rows]))
        if self.query.is_unrecognized(0):
            # The code of such a query says nothing, so only words find documents.
            rows = rows[self.matches.scores_of(rows) > 0]
        least = self._least_by_words(k, rows, nearest)
        others = self.matches.at_least(least, allowed).rows
        rows = np.concatenate([others, rows[self.matches.scores_of(rows) < least]])
        scores = self.scores(rows)
        order = np.lexsort((rows, -scores))[:k]
        return RankedRows(rows[order], scores[order], self.scoring)

    def _best_by_heap(
        self, k: int, n_nearest: int, compiled: CompiledIndex, allowed: Rows | None
    ) -> RankedRows:
        """Return what :meth:`best` does, as the kernel finds it in one pass over the scores.

        The least score by words that suffices rises with each document that is found. So hybrid
        searches of a million texts take 5 ms, where numpy takes 18 (``python -m benchmarks.scale
        --size 1e6 --bits 64 --codes clustered``).
        """
        ((all_rows, all_scores),) = self.matches.parts
        weights, (total,) = self.codes.quantized(self.query)
        ((nearest, distances),) = compiled.search_weighted(weights, n_nearest, allowed)
        best, scores = np.empty(k, dtype=np.int64), np.empty(k, dtype=np.float64)
        n_best = kernel.native.best_by_both(
            *(len(all_scores), all_scores.itemsize == 8, all_scores, all_rows),
            None if allowed is None else self.texts.marks(allowed)[0],
            *(compiled.positions_of_rows(all_rows), *compiled.coded, compiled.placed(weights)),
            *(int(total), self.scoring.by_words.deviation, *self.scoring.by_codes, self.weight),
            *(self.query.is_unrecognized(0), len(nearest), nearest, distances),
            *(len(self.first_by_words), self.first_by_words),
            *(*(self.matches.highest_of_blocks or (None,)), k, best, scores),
        )
        return RankedRows(best[:n_best], scores[:n_best], self.scoring)

    def scores(self, rows: Rows) -> npt.NDArray[np.float64]:
        """Return the scores of `rows`."""
        by_codes = self.scoring.by_codes.standardize(self.codes.score(self.query, 0, rows))
        by_words = self.scoring.by_words.standardize(self.matches.scores_of(rows))
        return np.asarray(by_words + self.weight * by_codes)

    def _least_by_words(self, k: int, rows: Rows, nearest: RankedRows) -> int:
        """Return the least score by words, above 0, with which others could be among the best."""
        if len(rows) < k:
            return 1
        least = float(np.partition(self.scores(rows), len(rows) - k)[len(rows) - k])
        most = self.weight * float(self.scoring.by_codes.standardize(nearest.scores[-1:])[0])
        # Two units cover the rounding.
        return max(1, math.floor(self.scoring.by_words.deviation * (least - most)) - 2)


class Derived(Ranking):
    """A :class:`Ranking` made from another one, whose hits report what a `scoring` says of them."""

    def __init__(self, ranking: Ranking, scoring: Scoring) -> None:
        self._ranking = ranking
        self._scoring = scoring

    def hit_scores(self, queries: EncodedQueries, at: int, hits: RankedRows) -> list[float]:
        """See :meth:`Scoring.hit_scores`."""
        return self._scoring.hit_scores(queries, at, hits)

    def evidence(self, queries: EncodedQueries, at: int, hits: RankedRows) -> Evidence:
        """See :meth:`Scoring.evidence`."""
        return self._scoring.evidence(queries, at, hits)


class RescoredRanking(Derived):
    """The best documents of one :class:`Ranking`, in the order of another.

    One ranking finds more candidates than hits, and another scores them. A document that is not
    among the candidates is not found; among them the order is exact.
    """

    def __init__(self, candidates: Ranking, scorer: Scorer, n_candidates: int) -> None:
        """Rank the `n_candidates` best of `candidates` by the scores of `scorer`."""
        super().__init__(candidates, scorer)
        self._by = scorer
        self._n_candidates = n_candidates

    def rank(
        self, queries: EncodedQueries, k: int, allowed: Rows | None = None
    ) -> list[RankedRows]:
        """See :meth:`Ranking.rank`."""
        results = []
        for at, candidates in enumerate(self._ranking.rank(queries, self._n_candidates, allowed)):
            rows, scores = candidates.rows, self._by.score(queries, at, candidates.rows)
            order = np.lexsort((rows, -scores))[:k]
            results.append(RankedRows(rows[order], scores[order]))
        return results


CANDIDATES_A_HIT = 4
"""For each document to find, so many are ranked at first."""


class Chosen(Derived):
    """A :class:`Ranking` of what is chosen among the best of another one, whose scores stay.

    The other ranking is read from the best; more of it is ranked until `k` are chosen. So whether
    something is chosen must depend on better candidates only.
    """

    def __init__(self, ranking: Ranking, n_candidates: int | None = None) -> None:
        """Choose among the first `n_candidates` of a `ranking`, or among all."""
        super().__init__(ranking, ranking)
        self._n_candidates = n_candidates

    def rank(
        self, queries: EncodedQueries, k: int, allowed: Rows | None = None
    ) -> list[RankedRows]:
        """See :meth:`Ranking.rank`; the scores are those of the whole ranking."""
        results = []
        first = self._n_candidates or CANDIDATES_A_HIT * k
        for position, candidates in enumerate(self._ranking.rank(queries, first, allowed)):
            query, count, ranked = queries[position : position + 1], first, candidates
            chosen = self._choose(query, ranked, k)
            while len(chosen) < k and len(ranked.rows) == count and self._n_candidates is None:
                count *= CANDIDATES_A_HIT
                (ranked,) = self._ranking.rank(query, count, allowed)
                chosen = self._choose(query, ranked, k)
            results.append(ranked.select(chosen))
        return results

    @abstractmethod
    def _choose(self, query: EncodedQueries, ranked: RankedRows, k: int) -> list[int]:
        """Return the positions of the first `k` that are chosen among `ranked`."""


class BestPassages(Chosen):
    """A :class:`Ranking` of documents by their best passages, by rows of passages.

    A ranking orders passages where documents have several. The first passage of a document
    in such an order is its best one. So documents in the order of their first passages are ordered
    by (score of the best passage descending, row), because rows of passages ascend with those of
    documents.
    """

    def __init__(self, passages: Ranking, generation: IndexSnapshot, column: CodeColumn) -> None:
        """Take the passages from a ranking of those of `generation`."""
        super().__init__(passages)
        self._generation = generation
        self._column = column

    def rank(
        self, queries: EncodedQueries, k: int, allowed: Rows | None = None
    ) -> list[RankedRows]:
        """See :meth:`Ranking.rank`; `allowed` are rows of documents."""
        if allowed is not None:
            allowed = self._column.rows_of_documents(allowed, self._generation)
        return super().rank(queries, k, allowed)

    def _choose(self, query: EncodedQueries, ranked: RankedRows, k: int) -> list[int]:  # noqa: ARG002
        _, first = np.unique(ranked.rows >> PASSAGE_BITS, return_index=True)
        first.sort()
        best: list[int] = first[:k].tolist()
        return best


class AboveThreshold(Derived):
    """A :class:`Ranking` without hits whose confidence is below a threshold.

    Confidence never rises down a ranking, so those are its first ones, and the first k of k + 1 are
    the ranking of k.
    """

    def __init__(self, ranking: Ranking, threshold: float) -> None:
        """Take the hits of a `ranking` whose confidence is at least the `threshold`."""
        super().__init__(ranking, ranking)
        self._threshold = threshold

    def rank(
        self, queries: EncodedQueries, k: int, allowed: Rows | None = None
    ) -> list[RankedRows]:
        """See :meth:`Ranking.rank`."""
        ranked = self._ranking.rank(queries, k, allowed)
        return [self._confident(queries, at, hits) for at, hits in enumerate(ranked)]

    def _confident(self, queries: EncodedQueries, at: int, hits: RankedRows) -> RankedRows:
        if not len(hits.rows):
            return hits

        def score_at(position: int) -> float:
            return self.hit_scores(queries, at, hits.select(slice(position, position + 1)))[0]

        line = self.evidence(queries, at, hits).line()
        return hits.select(slice(line.n_reaching(len(hits.rows), score_at, self._threshold)))


class WithoutDuplicates(Chosen):
    """A :class:`Ranking` without documents whose codes are near that of a better one.

    The ranking is read from the best to the worst, and a document is kept unless its code is within
    a radius of that of one that was kept before. So whether a document is kept depends on better
    ones only, and the first k of k + 1 are the ranking of k. Documents that were left out leave out
    no others.
    """

    def __init__(self, ranking: Ranking, generation: IndexSnapshot, radius: int) -> None:
        """Leave out documents of a `ranking` of `generation` by the codes within `radius`."""
        super().__init__(ranking)
        self._generation = generation
        self._radius = radius

    def _choose(self, query: EncodedQueries, ranked: RankedRows, k: int) -> list[int]:  # noqa: ARG002
        codes = self._generation.codes_of(ranked.rows)
        is_left = np.ones(len(codes), dtype=np.bool_)
        kept: list[int] = []
        for position in range(len(codes)):
            if not is_left[position]:
                continue
            kept.append(position)
            if len(kept) == k:
                break
            near = hamming_distance(codes[position:], codes[position]) <= self._radius
            is_left[position:][near] = False
        return kept


FEWEST_TIMES = 8
"""All codes are read, rather than searched for so large a share of them."""


class BestScoreRanking(Ranking):
    """A :class:`Ranking` of one query by its nearest examples.

    With the similarities s⁺ to the nearest positive and s⁻ to the nearest negative example, a
    document has the score

        σ(s⁺) if s⁺ > s⁻, else -σ(s⁻),   σ(x) = (x / (1 + |x|) + 1) / 2.

    Without examples of a kind, their similarity is below any other. The order is that of whole
    numbers, ``n_bits + 1 - d⁺`` and ``d⁻ - n_bits - 1``, which ascend with the scores.
    """

    def __init__(self, generation: IndexSnapshot, examples: Examples) -> None:
        """Rank the documents of `generation`."""
        self._generation = generation
        self._examples = examples

    def rank(
        self,
        queries: EncodedQueries,  # noqa: ARG002 - the examples are the query
        k: int,
        allowed: Rows | None = None,
    ) -> list[RankedRows]:
        """See :meth:`Ranking.rank`."""
        count, n_codes = CANDIDATES_A_HIT * k, len(self._generation)
        while len(self._examples.positive) and count < n_codes // FEWEST_TIMES:
            ranked = self._near_positive(count, k, allowed)
            if len(ranked.rows) == k:
                return [ranked]
            count *= CANDIDATES_A_HIT**2
        codes, rows = self._generation.codes()
        if allowed is not None:
            rows, positions, _ = np.intersect1d(
                rows, allowed, assume_unique=True, return_indices=True
            )
            codes = codes[positions]
        return [self._ranked(codes, rows, k)]

    def _near_positive(self, count: int, k: int, allowed: Rows | None) -> RankedRows:
        """Return the best documents, as far as the `count` nearest of each example decide them.

        A document that is as near to an example as its farthest neighbour here is among these
        neighbours. So those that are nearer than the nearest of the farthest are all here.
        """
        nearest = self._generation.search(self._examples.positive, count, None, allowed)
        ends = [(some.distances[-1], some.rows[-1]) for some in nearest if len(some.rows) == count]
        rows = sorted_distinct(np.concatenate([some.rows for some in nearest]))
        ranked = self._ranked(self._generation.codes_of(rows), rows, len(rows))
        distances = self._generation.n_bits + 1 - ranked.scores
        known = ranked.scores > 0
        if ends:
            distance, row = min(ends)
            known &= (distances < distance) | ((distances == distance) & (ranked.rows <= row))
        return ranked.select(np.flatnonzero(known)[:k])

    def _ranked(self, codes: Codes, rows: Rows, k: int) -> RankedRows:
        n_bits = codes.shape[1] * 8
        near, far = (_nearest(codes, some) for some in self._examples)
        scores = np.where(near < far, n_bits + 1 - near, far - n_bits - 1)
        order = np.lexsort((rows, -scores))[:k]
        return RankedRows(rows[order], scores[order])

    def hit_scores(self, queries: EncodedQueries, at: int, hits: RankedRows) -> list[float]:  # noqa: ARG002
        """Return the scores of the equation."""
        n_bits = queries.codes.shape[1] * 8
        return [_score(score, n_bits) for score in hits.scores.tolist()]

    def evidence(self, queries: EncodedQueries, at: int, hits: RankedRows) -> Evidence:  # noqa: ARG002
        """Raise InputError: no hits of recommendations were judged."""
        raise InputError("with_confidence", "is not for recommendations; leave it out")


def _nearest(codes: Codes, examples: Codes) -> npt.NDArray[np.int64]:
    """Return the distance of each code to its nearest example; beyond all, if there is none."""
    nearest = np.full(len(codes), codes.shape[1] * 8 + 1, dtype=np.int64)
    for example in examples:
        np.minimum(nearest, hamming_distance(codes, example), out=nearest)
    return nearest


def _score(order: int, n_bits: int) -> float:
    distance = n_bits + 1 - abs(order)
    similarity = 1 - 2 * distance / n_bits
    sigmoid = (similarity / (1 + abs(similarity)) + 1) / 2
    return sigmoid if order > 0 else -sigmoid


class DiverseRanking(Chosen):
    """A :class:`Ranking` of documents that are relevant and differ in code from better ones.

    Of the best candidates of another ranking, the next is always the one with the largest

        (1 - D) r - D max_j max(0, 1 - 2 d_j / n_bits),

    where D is the diversity, r is 0 for the worst score of a candidate, 1 for the best and a line
    between them, and d_j is the Hamming distance from a document chosen before. The earlier
    candidate wins a tie. The number of candidates belongs to the search, so the first k of k + 1
    are those of k.

    Source: Carbonell and Goldstein, "The Use of MMR, Diversity-Based Reranking for Reordering
    Documents and Producing Summaries" (1998).
    """

    def __init__(
        self, ranking: Ranking, generation: IndexSnapshot, diversity: float, n_candidates: int
    ) -> None:
        """Choose among the first `n_candidates` of a `ranking` of `generation`."""
        super().__init__(ranking, n_candidates)
        self._generation = generation
        self._diversity = diversity

    def _choose(self, query: EncodedQueries, ranked: RankedRows, k: int) -> list[int]:
        scores = np.array(self._ranking.hit_scores(query, 0, ranked), dtype=np.float64)
        above = scores - scores.min(initial=math.inf)
        relevance = above / (above.max(initial=0.0) or 1.0)
        codes = self._generation.codes_of(ranked.rows)
        n_bits = codes.shape[1] * 8
        nearest = np.zeros(len(scores))
        is_left = np.ones(len(scores), dtype=np.bool_)
        chosen: list[int] = []
        for _ in range(min(k, len(scores))):
            gain = (1 - self._diversity) * relevance - self._diversity * nearest
            best = int(np.where(is_left, gain, -np.inf).argmax())
            chosen.append(best)
            is_left[best] = False
            similarity = 1 - 2 * hamming_distance(codes, codes[best]) / n_bits
            np.maximum(nearest, similarity, out=nearest)
        return chosen


RANKINGS: Mapping[str, type[NamedRanking]] = {
    ranking.name: ranking
    for ranking in (HammingRanking, AsymmetricRanking, Bm25Ranking, HybridRanking)
}
"""All rankings, by their names in requests, options and help texts."""
BY_WORDS = frozenset(name for name, ranking in RANKINGS.items() if TEXTS in ranking.needs)
"""The rankings that need the lexical index: by words alone, or by words and codes."""
BY_CODES = frozenset(RANKINGS) - BY_WORDS
"""The rankings that use only what the encoder knows of a text."""

SCORERS: Mapping[str, type[Scorer]] = {
    BM25: Bm25Ranking,
    LOGITS: AsymmetricRanking,
    VECTORS: CosineScorer,
}
"""What can rescore candidates: their words, the real values of the query, or their vectors."""


def make_ranking(search: Search, documents: SearchedDocuments) -> Ranking:
    """Return the ranking of a search over the documents.

    Raises:
        InputError: if the search rescores by vectors and the collection keeps none.
    """
    ranking, rescore = _first_ranking(search, documents), search.options.rescore
    if documents.code_column.has_passages:
        ranking = BestPassages(ranking, documents.generation, documents.code_column)
    if rescore is not None:
        scorer = SCORERS[rescore.by].of(documents, search)
        ranking = RescoredRanking(ranking, scorer, search.options.n_candidates)
    if search.options.score_threshold is not None:
        ranking = AboveThreshold(ranking, search.options.score_threshold)
    radius, diversity = search.options.collapse_duplicates, search.options.diversity
    if radius is not None:
        ranking = WithoutDuplicates(ranking, documents.generation, radius)
    if diversity is not None:
        n_candidates = search.options.n_diverse
        ranking = DiverseRanking(ranking, documents.generation, diversity, n_candidates)
    return ranking


def _first_ranking(search: Search, documents: SearchedDocuments) -> Ranking:
    if search.queries.examples is not None:
        return BestScoreRanking(documents.generation, search.queries.examples)
    queries, ranking = search.queries, RANKINGS[search.ranking].of(documents, search)
    others: Ranking = ranking
    if TEXTS in ranking.needs and not all(queries.questions):
        others = RANKINGS[ranking_without_text(search.default)].of(documents, search)
    if search.has_only_filters:
        return _EachQuery(ranking, others, InOrder(documents.generation))
    if others is ranking or not any(queries.questions):
        return others
    return _EachQuery(ranking, others)


def ranking_without_text(default: str) -> str:
    """Return the ranking of queries without a text where others are ranked by their words."""
    return HAMMING if default == HAMMING else ASYMMETRIC


class InOrder(Ranking):
    """Documents in the order of insertion, each with the score 1."""

    def __init__(self, generation: IndexSnapshot) -> None:
        """List the documents of `generation`."""
        self._generation = generation

    def rank(
        self, queries: EncodedQueries, k: int, allowed: Rows | None = None
    ) -> list[RankedRows]:
        """See :meth:`Ranking.rank`."""
        every = self._generation.all_live_rows()
        rows = every if allowed is None else self._generation.live_rows(allowed)
        ranked = RankedRows(rows[:k], np.ones(len(rows[:k]), dtype=np.int64))
        return [ranked] * len(queries)

    def evidence(self, queries: EncodedQueries, at: int, hits: RankedRows) -> Evidence:  # noqa: ARG002
        """Return evidence beyond doubt, for the same reason."""
        return Evidence(OF_WORDS, (math.inf,), (0.0,))


class _EachQuery(Ranking):
    """Ranks texts by one ranking, other queries by another, and lists those without words."""

    def __init__(self, texts: Ranking, others: Ranking, listed: Ranking | None = None) -> None:
        self._texts = texts
        self._others = others
        self._listed = listed

    def rank(
        self, queries: EncodedQueries, k: int, allowed: Rows | None = None
    ) -> list[RankedRows]:
        """See :meth:`Ranking.rank`."""
        return [
            self._ranking_of(queries, at).rank(queries[at : at + 1], k, allowed)[0]
            for at in range(len(queries))
        ]

    def hit_scores(self, queries: EncodedQueries, at: int, hits: RankedRows) -> list[float]:
        """See :meth:`Scoring.hit_scores`."""
        return self._ranking_of(queries, at).hit_scores(queries, at, hits)

    def evidence(self, queries: EncodedQueries, at: int, hits: RankedRows) -> Evidence:
        """See :meth:`Scoring.evidence`."""
        return self._ranking_of(queries, at).evidence(queries, at, hits)

    def _ranking_of(self, queries: EncodedQueries, at: int) -> Ranking:
        if self._listed is not None and queries.is_only_filter(at):
            return self._listed
        return self._others if queries.questions[at] is None else self._texts
