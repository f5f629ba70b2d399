"""The features of texts: the terms of an encoder, their idf, and principal directions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from hashlib import shake_128
from typing import Any

import numpy as np

from hummingbit.encoder.analyzers import VISIBLE, Analyzer, word_ngrams
from hummingbit.encoder.encoder import Encoder, Layer
from hummingbit.encoder.text_features import (
    Floats,
    TermWeighting,
    TextFeatures,
    proper_summary,
    sentences_after_summary,
)
from hummingbit.training.data import Rows, TrainingDataError

MIN_DOCUMENTS = 2
SHORT_TEXT = 16
FIXED_SIZE = 3.0
"""The size of fixed rows of terms, relative to learned ones."""
MEANING_BITS = 16
"""The learned bits of a code whose others tell which words a text has."""
BITS_OF_A_LEARNED_BIT = 0.23
"""So many bits of information has the sign of a sum of rows on the text that three words are of."""
MEANING_SIZE = 0.35
"""The root mean square of the learned logits of documents beside bits of words."""
WORD_THRESHOLD = 0.085
"""A bit of words is 1 if they have more weight in a text of length 1: nearly if there is one. For a
query, a bit of none of its words weighs as much against a document."""
PAIR_WEIGHT = 0.5
"""The factor of the idf of a pair of words."""

_TEXTS_TO_SCALE_BY = 1000
_TERMS_AT_ONCE = 50_000
_SUMMARIES_COMPARED = 2000
_LEAST_SUMMARIES = 20
_LEAST_SENTENCES = 3
_LEAST_REPEATED = 0.75


def frequent_terms(
    texts: Iterable[str],
    max_terms: int,
    analyzer: Analyzer = VISIBLE,
    *,
    max_words: int = 1,
    min_documents: int = MIN_DOCUMENTS,
) -> dict[str, int]:
    """Return the `max_terms` most frequent terms that occur in `min_documents` texts or more.

    A term has at most `max_words` words. Each has the number of texts in which it occurs. The order
    is by count, then alphabetical, so it is the same on every machine.

    Raises:
        TrainingDataError: if there is no such term.
    """
    counts: Counter[str] = Counter()
    documents: Counter[str] = Counter()
    for text in texts:
        terms = word_ngrams(analyzer.terms(text), max_words)
        counts.update(terms)
        documents.update(set(terms))
    candidates = (term for term in counts if documents[term] >= min_documents)
    vocabulary = sorted(candidates, key=lambda term: (-counts[term], term))[:max_terms]
    if not vocabulary:
        where = "in two documents" if min_documents > 1 else "in the documents"
        raise TrainingDataError(f"text: no term occurs {where}; at least one must")
    return {term: documents[term] for term in vocabulary}


class TermCounts:
    """In how many of the texts that were added each term occurs; memory is bounded.

    Whenever twice `max_terms` are counted, the rarest are forgotten until `max_terms` are left, as
    in lossy counting (Manku and Motwani 2002).
    """

    def __init__(self, max_terms: int, analyzer: Analyzer = VISIBLE) -> None:
        self.max_terms = max_terms
        self.n_texts = 0
        self.n_short = 0
        """The texts of at most :data:`SHORT_TEXT` different terms."""
        self.analyzer = analyzer
        self._documents: Counter[str] = Counter()

    def add(self, text: str) -> None:
        """Count the terms of a text."""
        terms = set(self.analyzer.terms(text))
        self.n_texts += 1
        self.n_short += len(terms) <= SHORT_TEXT
        self._documents.update(terms)
        if len(self._documents) > 2 * self.max_terms:
            self._documents = Counter(dict(self._most_frequent()))

    @property
    def are_short(self) -> bool:
        """Whether half of the texts have at most :data:`SHORT_TEXT` different terms."""
        return 2 * self.n_short >= self.n_texts > 0

    def _most_frequent(self) -> list[tuple[str, int]]:
        ordered = sorted(self._documents.items(), key=lambda counted: (-counted[1], counted[0]))
        return ordered[: self.max_terms]

    def terms(self) -> dict[str, int]:
        """Return the number of texts of each term, at most `max_terms`, the most frequent first."""
        return dict(self._most_frequent())


def bits_for_words(n_bits: int, counts: TermCounts) -> int:
    """Return how many bits of codes of `n_bits` should tell which words a text has.

    Learned bits tell b · :data:`BITS_OF_A_LEARNED_BIT` bits of information, and finding one of N
    texts among the first ten takes log2(N / 10): for 64 bits, up to some 270,000 texts. Of more,
    if they are short, :data:`MEANING_BITS` bits are learned and the others are for words. Codes of
    fewer than 64 bits have no room for both.
    """
    can_tell = 10 * 2 ** (BITS_OF_A_LEARNED_BIT * n_bits)
    is_needed = n_bits >= 4 * MEANING_BITS and counts.n_texts > can_tell and counts.are_short
    return n_bits - MEANING_BITS if is_needed else 0


def hashed_order(terms: Sequence[str], n_bits: int) -> Rows:
    """Return the bits of a code in an order of its own for each term, int64 ``(V, B)``."""
    raw = b"".join(shake_128(term.encode()).digest(2 * n_bits) for term in terms)
    hashes = np.frombuffer(raw, np.uint16).reshape(len(terms), n_bits)
    return np.argsort(hashes, axis=1, kind="stable")


def add_word_bits(
    encoder: Encoder, counts: TermCounts, known_terms: int, n_bits: int, texts: Sequence[str]
) -> Encoder:
    """Return `encoder`, of one layer that reads words, with `n_bits` more that tell the words.

    They are a superimposed code (:func:`hummingbit.training.linear_codes.fit_signatures`): a hash
    of each word chooses bits, and a text has the bits of all its words. A word v has
    ``k_v = B idf_v / 2 s`` of the B bits, where s is the mean sum of the idf of a text's words. So
    rare words have more, and a text has some B / 2 in all. A query weighs a bit by the features
    of its words that have it. The learned logits of `texts` are scaled to :data:`MEANING_SIZE`.

    The words are those that the encoder learned and the most frequent others of `counts`, up to
    `known_terms`; the learned bits ignore the others.
    """
    learned = texts[:_TEXTS_TO_SCALE_BY]
    size = float(np.sqrt(np.square(encoder.margins(learned)).mean())) or 1.0
    scale = np.float32(MEANING_SIZE / size)
    features = _with_terms(encoder, counts, known_terms)
    (layer,) = encoder.layers
    idf = np.ones(features.dimension, np.float32) if features.idf is None else features.idf
    documents = counts.terms()
    frequencies = np.array([documents.get(term, 0) for term in features.vocabulary])
    total = float(frequencies @ idf) / counts.n_texts
    numbers = np.clip(np.rint(n_bits / 2 * idf / total), 1, n_bits)
    weight = np.zeros((features.dimension, encoder.n_bits + n_bits), dtype=np.float32)
    weight[: len(layer.weight), : encoder.n_bits] = layer.weight * scale
    for start in range(0, features.dimension, _TERMS_AT_ONCE):
        part = slice(start, start + _TERMS_AT_ONCE)
        order = hashed_order(features.vocabulary[part], n_bits)
        chosen = np.arange(n_bits) < numbers[part, None]
        np.put_along_axis(weight[part, encoder.n_bits :], order, chosen, axis=1)
    of_words = np.full(n_bits, WORD_THRESHOLD, dtype=np.float32)
    bias = np.concatenate([layer.bias * scale, np.zeros(n_bits, dtype=np.float32)])
    return replace(
        encoder,
        features=features,
        layers=[Layer(weight, bias, layer.activation, layer.precision)],
        thresholds=np.concatenate([encoder.thresholds * scale, of_words]),
    )


def add_fixed_rows(encoder: Encoder, counts: TermCounts, known_terms: int) -> Encoder:
    """Return `encoder`, of one layer that reads words, with rows for words that it did not learn.

    The most frequent terms of `counts` are added until the vocabulary has `known_terms`, if half of
    the texts have at most :data:`SHORT_TEXT` terms: in longer ones, each of many rare words would
    blur what a text is about. The row of
    a term has the signs of a hash of the term (Weinberger et al. 2009, "Feature Hashing for Large
    Scale Multitask Learning"), times :data:`FIXED_SIZE` and the root mean square of the learned
    rows. So codes differ by a rare word, but do not tell what it means.
    """
    if not counts.are_short:
        return encoder
    (layer,), n_bits = encoder.layers, encoder.n_bits
    features = _with_terms(encoder, counts, known_terms)
    added = features.vocabulary[len(layer.weight) :]
    digests = b"".join(shake_128(term.encode()).digest(n_bits // 8) for term in added)
    bits = np.unpackbits(np.frombuffer(digests, np.uint8)).reshape(len(added), n_bits)
    size = np.float32(FIXED_SIZE * np.sqrt(np.square(layer.weight).mean()))
    rows = (bits.astype(np.float32) * 2 - 1) * size
    weight = np.vstack([layer.weight, rows])
    whole = Layer(weight, layer.bias, layer.activation, layer.precision)
    return replace(encoder, features=features, layers=[whole])


def _with_terms(encoder: Encoder, counts: TermCounts, known_terms: int) -> TextFeatures:
    """Return the features of `encoder` with the most frequent terms of `counts` that it lacks."""
    features = encoder.features
    assert isinstance(features, TextFeatures)  # noqa: S101 - of the encoder of a linear method
    have, room = set(features.vocabulary), max(0, known_terms - features.dimension)
    documents = {term: n for term, n in counts.terms().items() if term not in have}
    added = list(documents)[:room]
    idf = features.idf
    if idf is not None:
        n_texts = np.array([documents[term] for term in added])
        idf = np.concatenate([idf, inverse_document_frequency(n_texts, counts.n_texts)])
    return replace(features, vocabulary=[*features.vocabulary, *added], idf=idf)


def have_more_terms(texts: Iterable[str], number: int, analyzer: Analyzer = VISIBLE) -> bool:
    """Return whether more than `number` words occur in two texts or more.

    No further text is read once so many are found, which takes a few texts of most corpora.
    """
    seen: set[str] = set()
    repeated: set[str] = set()
    for text in texts:
        terms = set(analyzer.terms(text))
        repeated |= terms & seen
        seen |= terms
        if len(repeated) > number:
            return True
    return False


def fit_text_features(
    texts: Sequence[str],
    max_terms: int,
    weighting: str = "tf-idf",
    analyzer: Analyzer = VISIBLE,
    *,
    max_words: int = 1,
    min_documents: int = MIN_DOCUMENTS,
    summary_weight: float = 0.0,
) -> TextFeatures:
    """Return features over the most frequent terms that occur in `min_documents` texts or more.

    ``tf-idf`` is ln(1 + tf) · idf in rows of unit length, so that a query of four words has the
    same length as a document of four hundred. ``count-idf`` has tf instead of ln(1 + tf).
    ``log-tf`` is ln(1 + tf), and has no `summary_weight`. The others have none either if summaries
    say little about these texts (:func:`summaries_tell`).

    If `max_words` is 2, pairs of neighbouring words are terms too. The idf of a pair is halved: a
    pair repeats what its words say, and rare pairs would otherwise outweigh them.

    Raises:
        TrainingDataError: if there is no such term.
    """
    documents = frequent_terms(
        texts, max_terms, analyzer, max_words=max_words, min_documents=min_documents
    )
    of_counts: TermWeighting = "count" if weighting == "count-idf" else "log"
    features = TextFeatures(
        [*documents], weighting=of_counts, max_words=max_words, analyzer=analyzer
    )
    if weighting == "log-tf":
        return features
    idf = inverse_document_frequency(np.array([*documents.values()]), len(texts))
    idf[[" " in term for term in documents]] *= PAIR_WEIGHT
    if summary_weight and not summaries_tell(texts, replace(features, idf=idf)):
        summary_weight = 0.0
    return replace(features, idf=idf, l2_normalize=True, summary_weight=summary_weight)


def summaries_tell(texts: Sequence[str], features: TextFeatures) -> bool:
    """Return whether the titles and first sentences of `texts` say what these are about.

    Then a text repeats their words about as much as those of its other sentences. In a letter or a
    post, the first line may only say who writes or is quoted. Of each text with three or more
    sentences after its summary, the summary has the share ``Σ_r idf_r / Σ_w idf_w``, where r are
    those of its words w that the rest of the text has, too. So has the sentence in the middle of
    the rest. The answer is no if the mean share of summaries is below 3/4 of that of sentences,
    over every text or every k-th, fewer than 4,000. It is yes if fewer than 20 of them are so long.
    """
    step = max(1, len(texts) // _SUMMARIES_COMPARED)
    summaries, bodies, sentences, others = [], [], [], []
    for text in texts[::step]:
        body, summary = sentences_after_summary(text), proper_summary(text)
        if len(body) < _LEAST_SENTENCES:
            continue
        middle = len(body) // 2
        summaries.append(summary)
        bodies.append("\n".join(body))
        sentences.append(body[middle])
        others.append("\n".join([summary, *body[:middle], *body[middle + 1 :]]))
    if len(summaries) < _LEAST_SUMMARIES:
        return True
    of_summaries = _mean_share_repeated(features, summaries, bodies)
    return of_summaries >= _LEAST_REPEATED * _mean_share_repeated(features, sentences, others)


def _mean_share_repeated(features: TextFeatures, parts: list[str], rests: list[str]) -> float:
    """Return the mean share of the terms of parts, weighted by idf, that their rests have."""
    in_parts, in_rests = ((features.count_terms(texts) > 0) for texts in (parts, rests))
    total_N = in_parts @ features.idf
    repeated_N = in_parts.multiply(in_rests) @ features.idf
    has_terms_N = total_N > 0
    if not has_terms_N.any():
        return 0.0
    return float(np.mean(repeated_N[has_terms_N] / total_N[has_terms_N]))


def keep_terms(features: TextFeatures, columns: Rows) -> TextFeatures:
    """Return `features` with only the terms of `columns`, in their original order."""
    columns = np.sort(columns)
    return replace(
        features,
        vocabulary=[features.vocabulary[column] for column in columns],
        idf=None if features.idf is None else features.idf[columns],
    )


def inverse_document_frequency(documents_V: Rows, n_texts: int) -> Floats:
    """Return idf_v = ln((1 + N) / (1 + n_v)) + 1, scikit-learn's smoothed form, shape ``(V,)``.

    `documents_V` are the numbers n of the N texts with each term.
    """
    return np.asarray(np.log((1 + n_texts) / (1 + documents_V)) + 1, dtype=np.float32)


_DIRECTIONS = 200
# The decomposition needs several times the memory of its result.
_ROWS_FOR_DIRECTIONS = 100_000
# The coordinates of more rows are computed this many at a time, where not all are needed at once.
_ROWS_AT_ONCE = 16_384


class PrincipalDirections:
    """The principal directions of `rows`, weighted terms in a scipy matrix ``(N, V)``.

    They are fitted to at most 100,000 random rows. There are at most `directions` of them.
    """

    def __init__(self, rows: Any, seed: int, directions: int = _DIRECTIONS) -> None:
        from sklearn.decomposition import TruncatedSVD  # noqa: PLC0415 - takes a second

        size = max(1, min(directions, rows.shape[0] - 1, rows.shape[1] - 1))
        # Terms of no row take no part in a direction. Of the terms of an encoder that ships, a
        # corpus has few, and the others would take most of the time.
        used = np.unique(rows.nonzero()[1])
        if len(used) <= size:
            used = np.arange(rows.shape[1])
        of_used = rows if len(used) == rows.shape[1] else rows[:, used]
        svd = TruncatedSVD(size, random_state=seed)
        self._rows = rows
        self._fitted: Floats | None = None
        if rows.shape[0] <= _ROWS_FOR_DIRECTIONS:
            self._fitted = np.asarray(svd.fit_transform(of_used))
        else:
            rng = np.random.default_rng(seed)
            sample = rng.choice(rows.shape[0], _ROWS_FOR_DIRECTIONS, replace=False)
            svd.fit(of_used[np.sort(sample)])
        self.components: Floats = np.zeros((size, rows.shape[1]), svd.components_.dtype)
        """The directions, ``(K, V)``."""
        self.components[:, used] = svd.components_

    def coordinates(self, rows: Rows | slice = slice(None)) -> Floats:
        """Return the coordinates of `rows` along the directions, ``(R, K)``."""
        if self._fitted is not None:
            return self._fitted[rows]
        return np.asarray(self._rows[rows] @ self.components.T)

    def slices(self) -> list[slice]:
        """Return slices of all rows: one, or several if the coordinates are not at hand."""
        if self._fitted is not None:
            return [slice(None)]
        starts = range(0, self._rows.shape[0], _ROWS_AT_ONCE)
        return [slice(start, start + _ROWS_AT_ONCE) for start in starts]


_OVERSAMPLED, _POWER_ITERATIONS = 10, 4
# Directions whose share of the largest is below this are noise of float32.
_LEAST_SHARE = 1e-10


def quick_directions(rows: Any, seed: int, directions: int) -> tuple[Floats, Floats]:
    """Return what :func:`principal_directions` does, nearly, in a third of the time.

    Where a subspace is enough, and later directions need not be exact: subspaces are made
    orthonormal by their Gram matrices, which is the quick part and loses half of the digits.

    Source: Halko, Martinsson and Tropp, "Finding Structure with Randomness" (2011), algorithm 4.4.
    """
    learned, rng = rows, np.random.default_rng(seed)
    if rows.shape[0] > _ROWS_FOR_DIRECTIONS:
        sample = rng.choice(rows.shape[0], _ROWS_FOR_DIRECTIONS, replace=False)
        learned = rows[np.sort(sample)]
    used = np.unique(learned.indices)
    of_used = learned if len(used) == rows.shape[1] else learned[:, used]
    size = max(1, min(directions, rows.shape[0] - 1, rows.shape[1] - 1))
    width = min(size + _OVERSAMPLED, *of_used.shape)
    of_terms = rng.standard_normal((of_used.shape[1], width), dtype=np.float32)
    for _ in range(_POWER_ITERATIONS):
        of_terms = np.asarray(of_used.T @ _orthonormal(np.asarray(of_used @ of_terms)))
    found = _orthonormal(of_terms)
    of_all_terms = np.zeros((rows.shape[1], size), dtype=np.float32)
    # The images of orthonormal directions have a Gram matrix whose eigenvectors rotate them.
    rotated = found @ _principal_axes(np.asarray(of_used @ found))[0].astype(np.float32)
    of_all_terms[used, : rotated.shape[1]] = rotated[:, :size]
    return of_all_terms.T, np.asarray(rows @ of_all_terms)


def _orthonormal(vectors: Floats) -> Floats:
    """Return an orthonormal basis of the columns of ``(N, K)``, with K columns or fewer."""
    axes, squares = _principal_axes(vectors)
    kept = squares > _LEAST_SHARE * squares[0]
    return np.asarray(vectors @ (axes[:, kept] / np.sqrt(squares[kept])).astype(np.float32))


def _principal_axes(vectors: Floats) -> tuple[Any, Any]:
    """Return the eigenvectors of the Gram matrix of columns and the eigenvalues, largest first."""
    squares, axes = np.linalg.eigh((vectors.T @ vectors).astype(np.float64))
    return axes[:, ::-1], squares[::-1]


def principal_directions(
    rows: Any, seed: int, directions: int = _DIRECTIONS
) -> tuple[Floats, Floats]:
    """Return the :class:`PrincipalDirections` ``(K, V)``, and coordinates of `rows`, ``(N, K)``."""
    fitted = PrincipalDirections(rows, seed, directions)
    return fitted.components, fitted.coordinates()
