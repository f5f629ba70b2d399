"""The rankings that are compared: each scores every document for every query.

A ranking is a function of queries and documents that returns ``float64[Q, N]``, higher being
better. Documents of one score are tied; the figures are expectations over the order of ties.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from encoder.codes import unpack_codes
from encoder.encoder import Encoder
from index.lexical.analyzer_names import ANALYZERS
from index.lexical.index import LexicalIndex
from training.linear_codes import itq_rotation

Scores = npt.NDArray[np.float64]

WORDS, STEMS = "words", "english"


def bm25(queries: Sequence[str], documents: Sequence[str], analyzer: str) -> Scores:
    """Return the BM25 scores of the lexical index, with k₁ = 1.2 and b = 0.75."""
    index = LexicalIndex.build(0, ANALYZERS[analyzer], enumerate(documents))
    rows = np.arange(len(documents))
    scores = [index.matches(index.weigh(query)).of(rows) for query in queries]
    return np.stack(scores).astype(np.float64)


def tfidf(queries: Sequence[str], documents: Sequence[str], analyzer: str) -> Scores:
    """Return the cosine of TF-IDF vectors over the whole vocabulary, term counts as 1 + ln tf."""
    from sklearn.feature_extraction.text import TfidfVectorizer  # noqa: PLC0415 - takes a second

    vectorizer = TfidfVectorizer(analyzer=ANALYZERS[analyzer].terms, sublinear_tf=True)
    rows = vectorizer.fit_transform(documents)
    return np.asarray((vectorizer.transform(queries) @ rows.T).toarray(), dtype=np.float64)


def itq_of_lsa(
    queries: Sequence[str], documents: Sequence[str], n_bits: int, seed: int
) -> tuple[Scores, Scores]:
    """Return the scores of ITQ codes of latent semantics: by Hamming distance, and asymmetric.

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
    bits = np.where((stored - means) @ rotation > 0, 1.0, -1.0)
    return _by_bits((query_vectors - means) @ rotation, bits)


def of_codes(
    encoder: Encoder, queries: Sequence[str], documents: Sequence[str]
) -> tuple[Scores, Scores]:
    """Return the scores of an encoder's codes: by Hamming distance, and asymmetric.

    The one is minus the distance of the query's code to each document's, the other the query's real
    values times each document's bits as ±1.
    """
    bits = 2 * unpack_codes(encoder.encode(documents)).astype(np.float64) - 1
    return _by_bits(encoder.query_weights(queries).astype(np.float64), bits)


def _by_bits(weights: Scores, bits: Scores) -> tuple[Scores, Scores]:
    """Return both scores of :func:`of_codes`: of queries' real values and documents' bits as ±1.

    A bit of a query's own code is 1 where its real value is positive.
    """
    code = np.where(weights > 0, 1.0, -1.0)
    return (code @ bits.T - bits.shape[1]) / 2, weights @ bits.T


def hybrid(lexical: Scores, codes: Scores, weight: float) -> Scores:
    """Return ``z(lexical) + weight · z(codes)``, z standardising over the documents of a query."""
    return standardize(lexical) + weight * standardize(codes)


def standardize(scores: Scores) -> Scores:
    """Bring each query's scores to mean 0 and standard deviation 1; equal scores become 0."""
    centred = scores - scores.mean(axis=1, keepdims=True)
    deviation = scores.std(axis=1, keepdims=True)
    return np.asarray(np.where(deviation > 0, centred / np.where(deviation > 0, deviation, 1), 0.0))
