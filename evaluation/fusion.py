"""The weight of codes beside words in the hybrid ranking, fitted on queries made from documents.

A sentence is taken out of a document and becomes a query, and the rest of the document is what the
query should find (:func:`known_items`). The weight that finds most of them (:func:`made_curve`) is
not yet the best for people's queries: these repeat more or fewer of a document's words, which no
corpus tells. So the fitted weight is the geometric mean of this one and the default, which is best
on judged queries of several corpora, and at most :data:`MOST` (:func:`fitted_weight`). An encoder
that learned from nearly all documents finds their sentences too easily: the number of documents
gives its weight (:func:`usual_weight`). A language model has read other texts than these and
knows words that the documents do not have, so its queries keep fewer words of their documents, and
its default is :data:`OF_MODELS`. Where people have judged queries, these decide
(:func:`judged_weight`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from hummingbit.corpus.document import Document
from hummingbit.corpus.qrels import Qrels
from hummingbit.encoder.codes import Codes
from hummingbit.encoder.encoder import TextEncoder
from hummingbit.encoder.text_features import Floats, split_sentences, title_of
from hummingbit.evaluation.rankings import EvaluationInput, RelevanceSettings
from hummingbit.foundation.cancellation import check_cancelled
from hummingbit.index.backend import CollectionBackend
from hummingbit.index.engines.segments import IndexSnapshot
from hummingbit.index.lexical import ANALYZERS, DEFAULT_ANALYZER, LexicalIndex
from hummingbit.index.moments import CodeMoments
from hummingbit.index.rankings import DEFAULT_WEIGHT, HybridRanking
from hummingbit.index.records import EncodedQueries

WEIGHTS = (0.1, 0.15, 0.25, 0.35, 0.5, 0.7, 1.0, 1.4, 2.0, 3.0, 4.5)
"""The weights of codes that are tried."""

JUDGED_METRIC = "nDCG@10"

MOST = 0.6
"""The highest weight that made queries can give: they overrate encoders that learned from their
documents."""

OF_MODELS = 0.8
"""The default weight of the codes of a language model."""

OF_RECONSTRUCTIONS = 0.85
"""The weight of codes from which vectors are reconstructed. On six corpora, with 64 to 256 bits,
it is the best for all by nDCG@10 and MRR together, and each of them is near its own best with it
(``hummingbit reproduce model-codes``). So it is not fitted to made queries, which tell less.
"""

OF_STATIC = 0.6
"""The weight of codes that start at the encoder that ships, without queries to fit it on.

It has the highest mean nDCG@10 over five judged corpora, of .2, .3, .45, .6 and .8.
:func:`usual_weight` is for codes that know only what the documents say.
"""

LEAST_HELD_OUT = 100
"""An encoder that learned from documents finds them by any of their sentences. So queries are made
of documents that it has not seen, and of none where there are fewer."""

_SOUGHT, SEARCHED = 400, 20_000
"""The documents that are searched for, and those that they are searched among, at most."""
# A sentence of fewer words may be said of any document.
_LEAST_WORDS = 3
# The share of the words that a made query keeps of those that the rest of its document has.
_KEPT, _KEPT_FOR_MODELS = 0.5, 0.25

Curve = npt.NDArray[np.float64]
"""What each query finds with each weight, ``float64[W, Q]``; larger is better."""


@dataclass(frozen=True, eq=False)
class KnownItems:
    """Documents, queries made from some of them, and the position of the document of each."""

    documents: Sequence[str]
    codes: Codes
    queries: Sequence[str]
    weights: Floats
    """``float32[Q, n_bits]``: those of the queries by the encoder."""
    sought: Sequence[int]


def known_items(
    encoder: TextEncoder,
    texts: Sequence[str],
    seed: int,
    *,
    codes: Codes | None = None,
    held_out: npt.NDArray[np.int64] | None = None,
) -> KnownItems | None:
    """Make queries from up to 400 of at most 20,000 `texts`, whose `codes` may be known.

    The documents of the queries are of the rows `held_out`, or of all. People ask in
    other words than documents use, so half of the words that a query shares with the rest of its
    document are left out of it, and three quarters where a language model reads the texts. Returns
    None if no text has two sentences, or six words.
    """
    kept = _KEPT_FOR_MODELS if encoder.is_slow else _KEPT
    rng = np.random.default_rng(seed)
    is_held_out = np.zeros(len(texts), dtype=bool)
    if held_out is not None:
        is_held_out[held_out] = True
    order = rng.permutation(len(texts))
    order = np.concatenate([order[is_held_out[order]], order[~is_held_out[order]]])
    searched = order[:SEARCHED]
    n_candidates = len(texts) if held_out is None else int(is_held_out.sum())
    sought, queries, rests = [], [], []
    for position in range(min(n_candidates, len(searched))):
        parts = _take_out_a_sentence(texts[searched[position]], kept, rng)
        if parts is not None:
            sought.append(position)
            queries.append(parts[0])
            rests.append(parts[1])
        if len(sought) == _SOUGHT:
            break
    if not sought:
        return None
    documents = [texts[row] for row in searched]
    of_documents = encoder.encode(documents) if codes is None else codes[searched].copy()
    of_documents[sought] = encoder.encode(rests)
    for position, rest in zip(sought, rests, strict=True):
        documents[position] = rest
    return KnownItems(
        documents, of_documents, queries, encoder.read_queries(queries).weights, sought
    )


def made_curve(items: KnownItems) -> Curve:
    """Return the reciprocal rank of the document of each query, tie-averaged, by each weight.

    The ranking is the hybrid one without feedback and guard, whose scores are linear in the weight.
    """
    words = LexicalIndex.build(0, ANALYZERS[DEFAULT_ANALYZER], enumerate(items.documents))
    rows = np.arange(len(items.codes))
    generation = IndexSnapshot.build(0, items.codes, rows)
    moments = CodeMoments.of_codes(items.codes)
    once, twice = (
        HybridRanking(generation, moments, words, weight, n_feedback=0, guarded=False)
        for weight in (1.0, 2.0)
    )
    queries = EncodedQueries.of_texts([*map(words.read, items.queries)], items.weights)
    found = np.zeros((len(WEIGHTS), len(items.sought)))
    for position, document in enumerate(items.sought):
        check_cancelled()
        query = queries[position : position + 1]
        first, second = once.score(query, 0, rows), twice.score(query, 0, rows)
        by_codes = second - first
        by_words = first - by_codes
        for number, weight in enumerate(WEIGHTS):
            # Rounded, so that equal scores are equal again.
            scores = np.round(by_words + weight * by_codes, 9)
            before = int((scores > scores[document]).sum())
            tied = int((scores == scores[document]).sum())
            found[number, position] = np.mean(1 / np.arange(before + 1, before + tied + 1))
    return found


def fitted_weight(curve: Curve, *, of_model: bool = False) -> float:
    """Return the geometric mean of the default weight and the one that is best on made queries.

    It is at most :data:`MOST`. The codes `of_model` are those of a language model; their default is
    :data:`OF_MODELS`, and they have no such bound, because the model has not learned the documents.
    """
    default = OF_MODELS if of_model else DEFAULT_WEIGHT
    weight = float(np.sqrt(default * likely_best(curve)))
    return float(f"{weight if of_model else min(weight, MOST):.2g}")


def usual_weight(n_documents: int) -> float:
    """Return the weight for a collection of `n_documents` without queries to fit it on.

    It is 7 / ln(n)^1.5, at most the default. Two things grow with the documents. The score by words
    is a share of the query's best, so what the best one says, ln(n / n_t) for a term t, no longer
    counts more where it is higher. And by codes of a fixed length, the best of n unrelated
    documents is √(2 ln n) deviations above the mean by chance. The factor is such that the mean
    over six corpora is that of the weights that are likely best for sentences of documents held
    out, 0.33.
    """
    return min(DEFAULT_WEIGHT, float(f"{7 / np.log(max(n_documents, 3)) ** 1.5:.2g}"))


def judged_weight(curve: Curve) -> float:
    """Return the weight that is likely best on judged queries, to two digits."""
    return float(f"{likely_best(curve):.2g}")


def likely_best(curve: Curve) -> float:
    """Return the geometric mean of the weights, each by how likely it is as good as the best.

    A weight that is d below the best in the mean, with the standard error s of this difference,
    counts exp(−d² / 2s²), times the density of a normal distribution of its logarithm around that
    of the default, of deviation 1. So a few queries, which hardly tell weights apart, give one near
    the default.
    """
    lower = curve[curve.mean(axis=1).argmax()] - curve
    errors = lower.std(axis=1) / np.sqrt(curve.shape[1])
    below = lower.mean(axis=1)
    # Without any error, a lower mean is surely worse.
    ratios = np.where(below > 0, np.inf, 0.0)
    np.divide(below, errors, out=ratios, where=errors > 0)
    logarithms = np.log(WEIGHTS)
    likely = np.exp(-(np.square(ratios) + np.square(logarithms - np.log(DEFAULT_WEIGHT))) / 2)
    return float(np.exp(likely @ logarithms / likely.sum()))


def why_no_fit(curve: Curve, n_documents: int | None = None) -> str | None:
    """Return why queries tell nothing about the weight, or None if they do.

    They find next to nothing if the mean with the best weight is within three standard errors of
    that of a random order of `n_documents`, by reciprocal rank, or zero without these. They do not
    tell the weights apart if none is below the best by more than three standard errors of the
    difference. Three, not two, because the best and the worst of eleven differ by chance alone.
    """
    n_queries, best = curve.shape[1], curve.mean(axis=1).argmax()
    by_chance = 0.0
    if n_documents is not None:
        ranks = 1 / np.arange(1, n_documents + 1)
        by_chance = float(ranks.mean() + 3 * ranks.std() / np.sqrt(n_queries))
    if curve[best].mean() <= by_chance:
        return "the queries find next to nothing with any weight"
    lower = curve[best] - curve
    below, errors = lower.mean(axis=1), lower.std(axis=1) / np.sqrt(n_queries)
    if not ((below > 0) & (below > 3 * errors)).any():
        return "the queries do not tell the weights apart: the differences are within chance"
    return None


def curve_means(curve: Curve) -> dict[str, float]:
    """Return the mean of each weight, by its name."""
    return {
        f"{weight:g}": round(value, 4)
        for weight, value in zip(WEIGHTS, curve.mean(axis=1).tolist(), strict=True)
    }


def judged_curve(collection: CollectionBackend, queries: Sequence[Document], qrels: Qrels) -> Curve:
    """Return the nDCG@10 of each query by each weight, as an evaluation of ``hybrid`` gives it.

    Queries that the encoder learned from are left out if there are others.
    """
    data = EvaluationInput(collection, queries, RelevanceSettings(qrels=qrels))
    by_weight = data.evaluate_weights([JUDGED_METRIC], WEIGHTS)
    data.check_generation(collection.generation)
    return np.stack([by_weight[weight].per_query[JUDGED_METRIC] for weight in WEIGHTS])


def validated(curve: Curve) -> float:
    """Return the mean that each query has with the weight that the other four folds choose."""
    n_queries = curve.shape[1]
    if n_queries < 2:
        return float(curve.mean(axis=1).max())
    fold = np.random.default_rng(0).permutation(n_queries) % min(5, n_queries)
    values = []
    for number in range(int(fold.max()) + 1):
        chosen = np.abs(np.log(WEIGHTS) - np.log(likely_best(curve[:, fold != number]))).argmin()
        values += curve[chosen, fold == number].tolist()
    return float(np.mean(values))


def _take_out_a_sentence(
    text: str, kept_share: float, rng: np.random.Generator
) -> tuple[str, str] | None:
    """Return a query made of a sentence of a text, and the text without it; None if too short.

    A text of one sentence is cut in two halves. The query keeps a share of the words that it
    shares with the rest.
    """
    sentences = split_sentences(text)
    positions = [i for i, sentence in enumerate(sentences) if len(sentence.split()) >= _LEAST_WORDS]
    if len(sentences) > 1 and positions:
        chosen = int(rng.choice(positions))
        sentence = sentences.pop(chosen)
        # The first line stays a title.
        is_titled = title_of(text) is not None and chosen > 0
        first = sentences[:1] if is_titled else []
        rest = "\n".join([*first, ". ".join(sentences[len(first) :])])
    else:
        words = text.split()
        if len(words) < 2 * _LEAST_WORDS:
            return None
        middle = len(words) // 2
        sentence, rest = " ".join(words[middle:]), " ".join(words[:middle])
    terms_of = ANALYZERS[DEFAULT_ANALYZER].terms
    shared = set(terms_of(rest))
    kept = [
        word
        for word in sentence.split()
        if shared.isdisjoint(terms_of(word)) or rng.random() < kept_share
    ]
    return " ".join(kept) if len(kept) > 1 else sentence, rest
