"""The rankings that are compared: each scores every document for every query.

A ranking is a function of queries and documents that returns ``float64[Q, N]``, higher being
better. Documents of one score are tied; the figures are expectations over the order of ties.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from encoder.codes import Codes, unpack_codes
from encoder.encoder import Encoder
from encoder.features import Floats
from index.engines.segments import Generation
from index.lexical.analyzer_names import ANALYZERS
from index.lexical.index import LexicalIndex
from index.rankings.hybrid import HybridRanking
from index.rankings.moments import CodeMoments
from index.records import EncodedQueries
from training.linear_codes import itq_rotation

Scores = npt.NDArray[np.float64]

WORDS, STEMS = "words", "english"


def bm25(queries: Sequence[str], index: LexicalIndex, *, opening_twice: bool = False) -> Scores:
    """Return the scores of :mod:`index.lexical.bm25_formula`."""
    rows = np.arange(len(index))
    scores = [
        index.matches(index.weigh(query, opening_twice=opening_twice)).scores_of(rows)
        for query in queries
    ]
    return np.stack(scores).astype(np.float64)


def words_of(documents: Sequence[str], analyzer: str) -> LexicalIndex:
    """Return the lexical index of documents, numbered from 0."""
    return LexicalIndex.build(0, ANALYZERS[analyzer], enumerate(documents))


def tfidf(queries: Sequence[str], documents: Sequence[str], analyzer: str) -> Scores:
    """Return the cosine of TF-IDF vectors over the whole vocabulary, term counts as 1 + ln tf."""
    from sklearn.feature_extraction.text import TfidfVectorizer  # noqa: PLC0415 - takes a second

    vectorizer = TfidfVectorizer(analyzer=ANALYZERS[analyzer].terms, sublinear_tf=True)
    rows = vectorizer.fit_transform(documents)
    return np.asarray((vectorizer.transform(queries) @ rows.T).toarray(), dtype=np.float64)


@dataclass(frozen=True, eq=False)
class CodedCorpus:
    """The codes of documents and the real values of queries."""

    codes: Codes
    """``uint8[N, n_bits / 8]``, of the documents"""
    weights: Floats
    """``float32[Q, n_bits]``, of the queries; above 0 where a bit of their codes is 1"""

    def hamming(self) -> Scores:
        """Return minus the Hamming distances."""
        n_bits = self.weights.shape[1]
        return np.asarray((np.where(self.weights > 0, 1.0, -1.0) @ self._signs.T - n_bits) / 2)

    def asymmetric(self) -> Scores:
        """Return the queries' real values times the documents' bits as ±1."""
        return np.asarray(self.weights.astype(np.float64) @ self._signs.T)

    def hybrid(self, queries: Sequence[str], words: LexicalIndex, weight: float) -> Scores:
        """Return the scores of :mod:`index.rankings.hybrid`."""
        rows = np.arange(len(self.codes))
        generation = Generation.build(0, self.codes, rows)
        moments = CodeMoments.of_codes(self.codes)
        ranking = HybridRanking(generation, moments, words, weight)
        some = len(queries)
        packed = np.packbits(self.weights > 0, axis=1)
        weighted = np.ones(some, dtype=np.bool_)
        asked = EncodedQueries(packed, self.weights, list(queries), weighted, [None] * some)
        return np.stack(ranking.score(asked, [rows] * some))

    @cached_property
    def _signs(self) -> npt.NDArray[np.float64]:
        return unpack_codes(self.codes).astype(np.float64) * 2 - 1


def itq_of_lsa(
    queries: Sequence[str], documents: Sequence[str], n_bits: int, seed: int
) -> CodedCorpus:
    """Return ITQ codes of latent semantics.

    The baseline has what served it best on five of these corpora: stems, the whole vocabulary, term
    counts as 1 + ln tf, and latent vectors of length 1, which the linear encoder of
    :func:`training.linear_codes.fit_itq` cannot have.
    """
    from sklearn.decomposition import TruncatedSVD  # noqa: PLC0415 - takes a second
    from sklearn.feature_extraction.text import TfidfVectorizer  # noqa: PLC0415
    from sklearn.preprocessing import normalize  # noqa: PLC0415

    vectorizer = TfidfVectorizer(analyzer=ANALYZERS[STEMS].terms, sublinear_tf=True)
    rows = vectorizer.fit_transform(documents)
    svd = TruncatedSVD(n_bits, random_state=seed).fit(rows)
    stored = normalize(svd.transform(rows))
    query_vectors = normalize(svd.transform(vectorizer.transform(queries)))
    means = stored.mean(axis=0)
    rotation = itq_rotation(stored - means, seed)
    codes = np.packbits((stored - means) @ rotation > 0, axis=1)
    return CodedCorpus(codes, ((query_vectors - means) @ rotation).astype(np.float32))


def of_encoder(encoder: Encoder, queries: Sequence[str], documents: Sequence[str]) -> CodedCorpus:
    """Return the codes of an encoder."""
    return CodedCorpus(encoder.encode(documents), encoder.query_weights(queries))
