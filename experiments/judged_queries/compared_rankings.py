"""The rankings of the experiment: each scores every document for every query.

Scores are ``float64[Q, N]``; higher is better. Documents with the same score are tied, and figures
are tie-averaged.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from hummingbit.encoder.codes import Codes, unpack_codes
from hummingbit.encoder.encoder import Encoder, Inputs
from hummingbit.encoder.text_features import Floats, split_sentences
from hummingbit.index.engines.segments import IndexSnapshot
from hummingbit.index.lexical import ANALYZERS, UNIT, LexicalIndex
from hummingbit.index.moments import CodeMoments
from hummingbit.index.rankings import HybridRanking, words_count
from hummingbit.index.records import EncodedQueries
from hummingbit.training.linear_codes import itq_rotation

Scores = npt.NDArray[np.float64]

WORDS, STEMS = "words", "english"


def bm25_scores(queries: Sequence[str], index: LexicalIndex, *, hybrid: bool = False) -> Scores:
    """Return the scores of :mod:`hummingbit.index.lexical`; with `hybrid`, as in hybrids."""
    rows = np.arange(len(index))
    scores = [index.matches(index.weigh(query, hybrid=hybrid)).scores_of(rows) for query in queries]
    return np.stack(scores).astype(np.float64)


def words_of_hybrids(queries: Sequence[str], index: LexicalIndex) -> Scores:
    """Return what words add to the scores of hybrids (:mod:`hummingbit.index.rankings`)."""
    rows, added = np.arange(len(index)), []
    for query in queries:
        weighed = index.weigh(query, hybrid=True)
        scores = index.matches(weighed).scores_of(rows) / UNIT
        evidence = float(scores.max()) * index.evidence(weighed).per_score
        added.append(words_count(evidence) * scores / 2)
    return np.stack(added)


def build_index(documents: Sequence[str], analyzer: str, *, forms: bool = False) -> LexicalIndex:
    """Build the lexical index of documents, numbered from 0, perhaps with other forms of words."""
    return LexicalIndex.build(0, ANALYZERS[analyzer], enumerate(documents), forms=forms)


def tfidf_scores(queries: Sequence[str], documents: Sequence[str], analyzer: str) -> Scores:
    """Return cosines of TF-IDF vectors over the whole vocabulary, with term counts as 1 + ln tf."""
    from sklearn.feature_extraction.text import TfidfVectorizer  # noqa: PLC0415 - takes a second

    vectorizer = TfidfVectorizer(analyzer=ANALYZERS[analyzer].terms, sublinear_tf=True)
    rows = vectorizer.fit_transform(documents)
    return np.asarray((vectorizer.transform(queries) @ rows.T).toarray(), dtype=np.float64)


@dataclass(frozen=True, eq=False)
class CodedCorpus:
    """The codes of documents and the weights of queries."""

    codes: Codes
    """``uint8[N, n_bits / 8]``, of the documents"""
    weights: Floats
    """``float32[Q, n_bits]``, of the queries; above 0 where a bit of the code is 1"""

    def hamming(self) -> Scores:
        """Return the negated Hamming distances."""
        n_bits = self.weights.shape[1]
        return np.asarray((np.where(self.weights > 0, 1.0, -1.0) @ self._signs.T - n_bits) / 2)

    def asymmetric(self) -> Scores:
        """Return the inner products of the queries' weights and the documents' bits as ±1."""
        return np.asarray(self.weights.astype(np.float64) @ self._signs.T)

    def hybrid(
        self,
        queries: Sequence[str],
        words: LexicalIndex,
        weight: float,
    ) -> Scores:
        """Return the scores of :mod:`hummingbit.index.rankings`."""
        rows = np.arange(len(self.codes))
        generation = IndexSnapshot.build(0, self.codes, rows)
        ranking = HybridRanking(generation, CodeMoments.of_codes(self.codes), words, weight)
        encoded = EncodedQueries.of_texts([*map(words.read, queries)], self.weights)
        return np.stack([ranking.score(encoded, at, rows) for at in range(len(queries))])

    @cached_property
    def _signs(self) -> npt.NDArray[np.float64]:
        return unpack_codes(self.codes).astype(np.float64) * 2 - 1


def encode_by_lsa_itq(
    queries: Sequence[str], documents: Sequence[str], n_bits: int, seed: int
) -> CodedCorpus:
    """Return ITQ codes of latent semantic vectors.

    The baseline has the settings that did best on five of these corpora: stems, the whole
    vocabulary, term counts as 1 + ln tf, and latent vectors of length 1. The linear encoder of
    :func:`hummingbit.training.linear_codes.fit_itq` cannot normalize latent vectors.
    """
    from sklearn.decomposition import TruncatedSVD  # noqa: PLC0415 - takes a second
    from sklearn.feature_extraction.text import TfidfVectorizer  # noqa: PLC0415
    from sklearn.preprocessing import normalize  # noqa: PLC0415

    vectorizer = TfidfVectorizer(analyzer=ANALYZERS[STEMS].terms, sublinear_tf=True)
    rows = vectorizer.fit_transform(documents)
    svd = TruncatedSVD(n_bits, random_state=seed).fit(rows)
    document_vectors = normalize(svd.transform(rows))
    query_vectors = normalize(svd.transform(vectorizer.transform(queries)))
    means = document_vectors.mean(axis=0)
    rotation = itq_rotation(document_vectors - means, seed)
    codes = np.packbits((document_vectors - means) @ rotation > 0, axis=1)
    return CodedCorpus(codes, ((query_vectors - means) @ rotation).astype(np.float32))


def encode_corpus(encoder: Encoder, queries: Inputs, documents: Inputs) -> CodedCorpus:
    """Return the codes and weights that an encoder computes."""
    return CodedCorpus(encoder.encode(documents), encoder.query_weights(queries))


@dataclass(frozen=True, eq=False)
class CodedPassages:
    """The codes of passages: a document's best passage ranks it."""

    passages: CodedCorpus
    starts: npt.NDArray[np.int64]
    """The number of the first passage of each document; every document has at least one."""

    def hamming(self) -> Scores:
        """Return the negated Hamming distances of the nearest passages."""
        return self._best(self.passages.hamming())

    def asymmetric(self) -> Scores:
        """Return the best asymmetric score among the passages of each document."""
        return self._best(self.passages.asymmetric())

    def _best(self, scores: Scores) -> Scores:
        return np.asarray(np.maximum.reduceat(scores, self.starts, axis=1))


def encode_passages(
    encoder: Encoder, queries: Sequence[str], documents: Sequence[str], n_words: int
) -> CodedPassages:
    """Return the codes of passages of about `n_words` words; see :func:`split_passages`."""
    passages = [split_passages(document, n_words) for document in documents]
    lengths = np.array([len(some) for some in passages])
    texts = [passage for some in passages for passage in some]
    return CodedPassages(encode_corpus(encoder, queries, texts), lengths.cumsum() - lengths)


def split_passages(text: str, n_words: int) -> list[str]:
    """Return passages of whole sentences; with the next sentence, each has over `n_words` words.

    A passage begins with the last sentence of the one before it.
    """
    passages: list[str] = []
    sentences: list[str] = []
    for sentence in split_sentences(text):
        together = [*sentences, sentence]
        if sentences and sum(len(sentence.split()) for sentence in together) > n_words:
            passages.append(" ".join(sentences))
            together = [sentences[-1], sentence]
        sentences = together
    return [*passages, " ".join(sentences)]


def rescore(first: Scores, second: Scores, n_candidates: int) -> Scores:
    """Return the `second` scores of the best documents by the `first`; the others tie below them.

    Among equals, the first documents are candidates, as in a collection.
    """
    order = np.argsort(-first, axis=1, kind="stable")[:, n_candidates:]
    rescored = second.copy()
    np.put_along_axis(rescored, order, second.min() - 1, axis=1)
    return rescored
