"""Codes of class, certainty and content: ``hummingbit train class-codes``.

Classifiers learn from the labels and, if some documents have none, from their soft labels. A code
has three parts: the codeword of the predicted class, bits for the certainty of the prediction, and
bits of content that distinguish the documents of a class. Content is latent semantic analysis,
rotated to lose least when it is rounded to bits (ITQ), or learned by the inverse cloze task, by
which a few words of a text find it. A query has all certainty bits set, so among the documents of
its class the most certain come first. Precision at the head of the list is then about the accuracy
of the classifier on queries. A code of the class alone would mix in all documents whose class was
predicted wrongly.

With a teacher's vectors of the documents, soft labels and content learn from them: ``hummingbit
distill --supervision``. A teacher knows which documents are alike, so it knows better than their
words do which class an unlabelled document has. Classifiers and content are functions of words all
the same, so an encoder needs no teacher.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cache, cached_property
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from hummingbit.encoder.artifact import TEACHER, WORD_VECTORS, check_destination
from hummingbit.encoder.class_code import (
    ClassCode,
    ClassMap,
    JointRows,
    count_entries,
    log_odds,
)
from hummingbit.encoder.codes import Codes, pack_bits
from hummingbit.encoder.encoder import Encoder, Features, Inputs, Layer, forward
from hummingbit.encoder.recipes import (
    AUTO_WORD_SHARE,
    CHOSEN,
    CONTENT_SHARES,
    ICT,
    QUERY_CLASSIFIERS,
    WORD_SHARES,
    WORD_VECTOR_CLASSIFIERS,
    ClassCodeRecipe,
)
from hummingbit.encoder.text_features import Floats, TextFeatures
from hummingbit.encoder.vector_features import VectorFeatures
from hummingbit.evaluation.evaluate import evaluate_codes
from hummingbit.foundation.arrays import unit_rows
from hummingbit.foundation.errors import counted
from hummingbit.foundation.slices import begin_stage, part_of_stages
from hummingbit.training.data import Rows, Tags, TrainingData, TrainingDataError
from hummingbit.training.linear_codes import fit_itq, itq_of_terms
from hummingbit.training.model_selection import (
    FOLDS,
    grouped_folds,
    list_length,
    median_class_size,
    split_folds,
    trial_result,
)
from hummingbit.training.pipeline import (
    Split,
    Trained,
    check_labels,
    choose_features,
    one_blas_thread,
    split,
    write_encoder,
)
from hummingbit.training.soft_labels import (
    complement_weights,
    estimate_soft_labels,
    fit_ridge,
    fit_svm,
    fit_vectors,
    hold_out_fifth,
    multinomial_weights,
)
from hummingbit.training.teachers import Teacher, check_directions
from hummingbit.training.text_features import MIN_DOCUMENTS, PrincipalDirections
from hummingbit.training.word_vectors import WordTable, WordVectors, add_words, learned_columns

# Codewords


_TRIALS_PER_BIT = 40
# A trial with a thousand classes takes some 50 µs.
_MAX_TRIALS = 400_000
# The search minimizes Σ exp(−rate · distance), in which near codewords weigh most.
_RATE = 1.5


@cache
def far_codewords(classes: int, n_bits: int, seed: int) -> Floats:
    """Return distinct codewords of −1 and 1, float32[classes, n_bits], far from each other.

    The search starts at random and flips one bit at a time. A flip that increases
    ``Σ_{c < d} exp(−1.5 · distance(c, d))`` is undone.

    Raises:
        TrainingDataError: if there are more classes than codewords.
    """
    if n_bits < 63 and classes > 2**n_bits:
        problem = f"there are fewer codewords of {n_bits} bits than the {classes} classes"
        raise TrainingDataError(f"n_bits: {problem}; use more bits or a smaller content share")
    rng = np.random.default_rng(seed)
    words = np.where(_draw_distinct(rng, classes, n_bits), 1, -1)
    distances = (words[:, None] != words[None]).sum(axis=2)
    weights = np.exp(-_RATE * np.arange(n_bits + 1))
    for _ in range(min(_TRIALS_PER_BIT * classes * n_bits, _MAX_TRIALS)):
        word, bit = int(rng.integers(classes)), int(rng.integers(n_bits))
        step = words[:, bit] * words[word, bit]
        step[word] = 0
        flipped = distances[word] + step
        if weights[flipped].sum() > weights[distances[word]].sum():
            continue
        flipped[word] = 1  # only the other words must differ from it
        if flipped.all():
            words[word, bit] *= -1
            distances[word] += step
            distances[:, word] += step
    codewords = words.astype(np.float32)
    codewords.flags.writeable = False
    return codewords


def _draw_distinct(rng: np.random.Generator, classes: int, n_bits: int) -> npt.NDArray[np.bool_]:
    words = np.empty((0, n_bits), dtype=np.bool_)
    while len(words) < classes:
        more = rng.random((classes, n_bits)) < 0.5
        words = np.unique(np.concatenate([words, more]), axis=0)
    return rng.permutation(words)[:classes]


# Maps from features to classes


# The mean deviation of a document's scores over the classes. It is sharp enough that a document of
# a clear class gets its codeword. It is soft enough that a document between two classes keeps the
# bits that their codewords have in common.
_SHARPNESS = 2.0
_ROWS = 4096
# Multinomial naive Bayes errs on other texts than each of its partners, so all but ridge regression
# alone have it as a part.
_PARTS: Mapping[str, Sequence[str]] = {
    "both": ("ridge", "multinomial"),
    "bayes": ("complement", "multinomial"),
    "ridge": ("ridge",),
    "svm": ("svm", "multinomial"),
    "words": ("multinomial", "word_vectors"),
    "bayes-words": ("complement", "multinomial", "word_vectors"),
    "svm-words": ("svm", "multinomial", "word_vectors"),
}


class ClassMaps:
    """The maps from rows of features to classes, each fitted when it is first used.

    `rows` are features ``(N, F)`` and `targets` distributions over the classes, ``(N, C)``. With a
    table of word vectors, `words`, the further terms that it adds have no weight in the other
    classifiers. Texts that are `known`, ``bool[N]``, count `label_weight` times in the maps of
    documents, if others are not known.
    """

    def __init__(
        self,
        rows: Any,
        targets: Floats,
        seed: int,
        words: WordTable | None = None,
        *,
        known: npt.NDArray[np.bool_] | None = None,
        label_weight: int = 1,
    ) -> None:
        self._known = known
        self._label_weight = label_weight
        self._rows = rows
        self._targets = targets
        self._seed = seed
        self._words = words
        self._learned = learned_columns(rows, words)
        self._parts: dict[str, tuple[Any, Any]] = {}
        self._maps: dict[str, ClassMap] = {}
        self.is_text = not isinstance(rows, np.ndarray)

    def of(self, name: str) -> ClassMap:
        """Return the map of a query classifier of the recipe; vectors have a single map."""
        if name not in self._maps:
            parts = map(self._part, _PARTS[name]) if self.is_text else self._of_vectors
            self._maps[name] = self._combine(parts)
        return self._maps[name]

    def of_documents(self, name: str) -> ClassMap:
        """Return the map of the classifier `name` that documents use."""
        return self._of_documents.of(name)

    @cached_property
    def _of_documents(self) -> ClassMaps:
        known, weight = self._known, self._label_weight
        if weight == 1 or known is None or known.all() or not self.is_text:
            return self
        repeated = np.repeat(np.arange(len(known)), np.where(known, weight, 1))
        return ClassMaps(self._rows[repeated], self._targets[repeated], self._seed, self._words)

    @cached_property
    def _of_vectors(self) -> Sequence[tuple[Any, Any]]:
        classifier = fit_vectors(self._rows, self._targets)
        return list(zip(classifier.weights, classifier.biases, strict=True))

    def _part(self, name: str) -> tuple[Any, Any]:
        """Return the weights and biases of a part of the classifiers of texts."""
        if name not in self._parts:
            self._parts[name] = self._fit(name)
        return self._parts[name]

    def _fit(self, name: str) -> tuple[Any, Any]:
        learned, targets = self._learned, self._targets
        if name == "word_vectors":
            if self._words is None:
                raise ValueError("there are no word vectors")
            return self._words.fit(self._rows, targets)
        if name == "ridge":
            weight, bias = fit_ridge(learned, targets)
        elif name == "svm":
            weight, bias = fit_svm(learned, targets, self._seed)
        else:
            fit = multinomial_weights if name == "multinomial" else complement_weights
            weight = fit(learned, targets)
            weight, bias = weight - weight.mean(axis=1, keepdims=True), np.zeros(weight.shape[1])
        # Terms that only have a vector weigh nothing here.
        further = self._rows.shape[1] - len(weight)
        return (np.pad(weight, ((0, further), (0, 0))) if further else weight), bias

    def _combine(self, maps: Iterable[tuple[Any, Any]]) -> ClassMap:
        """Sum maps, scaled to equal deviations over the classes, and scale the sum."""
        weight, bias = 0.0, 0.0
        for map_weight, map_bias in maps:
            size = _deviation(self._rows, map_weight, map_bias)
            weight, bias = weight + map_weight / size, bias + map_bias / size
        scale = _SHARPNESS / _deviation(self._rows, weight, bias)
        return ClassMap(
            *(np.ascontiguousarray(part * scale, dtype=np.float32) for part in (weight, bias))
        )


@dataclass(frozen=True, eq=False)
class JointMaps:
    """The maps from vectors beside words to classes, made of those of `vectors` and of `words`.

    A document u = [v; x] scores (1 − s) a(v) + s b(x) with the `word_share` s, and maps a and b
    whose scores of the `rows` deviate equally over the classes.
    """

    vectors: ClassMaps
    words: ClassMaps
    rows: JointRows
    word_share: float = 0.5
    is_text = False

    def of(self, name: str) -> ClassMap:
        """Return the map of a query classifier of the recipe."""
        return self._join(self.vectors.of(name), self.words.of(name))

    def of_documents(self, name: str) -> ClassMap:
        """Return the map of the classifier `name` that documents use."""
        return self._join(self.vectors.of_documents(name), self.words.of_documents(name))

    def _join(self, of_vectors: ClassMap, of_words: ClassMap) -> ClassMap:
        own, others = np.float32(1 - self.word_share), np.float32(self.word_share)
        weight = np.vstack([own * of_vectors.weight, others * of_words.weight])
        bias = own * of_vectors.bias + others * of_words.bias
        scale = np.float32(_SHARPNESS / _deviation(self.rows, weight, bias))
        return ClassMap(weight * scale, bias * scale)


def fit_maps(
    rows: Any,
    targets: Floats,
    tags: Tags,
    recipe: ClassCodeRecipe,
    words: WordTable | None = None,
) -> ClassMaps | JointMaps:
    """Return the maps from `rows` to classes that learn from the distributions `targets`.

    Documents that have `tags`, bool ``(N, C)``, are those of known classes.
    """
    known = np.asarray(tags.any(axis=1))
    if not isinstance(rows, JointRows):
        weight = recipe.label_weight
        return ClassMaps(rows, targets, recipe.seed, words, known=known, label_weight=weight)
    return JointMaps(
        ClassMaps(rows.vectors, targets, recipe.seed),
        ClassMaps(rows.words, targets, recipe.seed, known=known, label_weight=recipe.label_weight),
        rows,
    )


def with_word_share(maps: ClassMaps | JointMaps, word_share: float | None) -> ClassMaps | JointMaps:
    """Return `maps` with this share of words, if they are of words beside vectors."""
    if word_share is None or not isinstance(maps, JointMaps):
        return maps
    return replace(maps, word_share=word_share)


def row_slices(rows: Any) -> list[slice]:
    """Return slices of a few thousand rows each."""
    return [slice(at, at + _ROWS) for at in range(0, rows.shape[0], _ROWS)]


def _deviation(rows: Any, weight: Any, bias: Any) -> float:
    """Return the mean over rows of the standard deviation of x W + b over the classes."""
    total = sum(float((rows[at] @ weight + bias).std(axis=1).sum()) for at in row_slices(rows))
    return total / rows.shape[0] or 1.0


# Soft labels and content of a teacher


# The share of held-out labels that soft labels of a document's own features must have right beyond
# those of the teacher's vectors to take their place. Few labels show no smaller difference.
_LEAST_GAIN = 0.05


def rows_of_soft_labels(rows: Any, vectors_NE: Floats, tags_NC: Tags, seed: int) -> Any:
    """Return what soft labels are estimated from: the teacher's vectors, or the features `rows`.

    `rows`, ``(N, F)``, `vectors_NE` and `tags_NC` are of the same documents. The features take the
    place of the vectors if they make .05 more of a fifth of the labels right, held out. So a
    teacher that does not know the classes does no harm.
    """
    labelled = np.flatnonzero(tags_NC.any(axis=1))
    held_out, known = (labelled[positions] for positions in hold_out_fifth(len(labelled), seed))
    shown = np.zeros_like(tags_NC)
    shown[known] = tags_NC[known]
    if len(labelled) == len(tags_NC) or int(shown.any(axis=0).sum()) < 2:
        return vectors_NE

    def accuracy(candidate: Any) -> float:
        soft_labels = estimate_soft_labels(candidate, shown, seed)[held_out]
        return float(tags_NC[held_out, soft_labels.argmax(axis=1)].mean())

    return rows if accuracy(rows) > accuracy(vectors_NE) + _LEAST_GAIN else vectors_NE


def fit_teacher(learned: Any, vectors_NE: Floats, n_terms: int) -> Floats:
    """Return the weights ``float32[V, E]`` of `n_terms` terms that predict a teacher's vectors.

    `learned` are the weighted terms of the corpus, a scipy matrix with the first columns of V. They
    are fitted to the vectors by ridge regression
    (:func:`hummingbit.training.soft_labels.fit_ridge`). Further terms have weights of 0.
    """
    weight = fit_ridge(learned, vectors_NE).weight
    return np.pad(weight, ((0, n_terms - len(weight)), (0, 0))).astype(np.float32)


# The parts of a code


# Where content finds texts by words, short queries are ranked by content rather than by a class
# that is uncertain: the temperature of a query's class probabilities, and the exponent of the
# highest of them in the weight of the certainty bits, which is halved: a text is found by its words
# among those of its class, and not by how clearly it is of the class. The root mean square of the
# content's logits is below 1, or documents of a query's class would come later.
_QUERY_TEMPERATURE = 1.5
_CERTAINTY_POWER = 4.0
_CERTAINTY_WEIGHT = 0.5
_WORDS_RMS = 0.8
# A vector as a query has the codeword of its likeliest class. The mean of two codewords, which a
# document between two classes has, is far from the documents of either.
_VECTOR_TEMPERATURE = 0.25
# A query of fewer terms than this, and than a sixth of a document has, is a question: little is
# known of its class. If documents are as short as queries, queries are asked for their class.
_FEW_TERMS, _FEW_SHARE = 10, 1 / 6
# What the class of a query says about the document, its content says too, and does so better the
# fewer its terms are. So class bits have half of their weight for a query of two terms, or of 4 in
# 10 of the terms of a question.
_HALF_TERMS, _HALF_SHARE = 2.0, 0.4
# The class bits bring near the documents that resemble each other, so the content is to tell a
# document from those: less of its target goes to other documents than where it is the whole code.
_SHARED = 0.5


def class_code(
    maps: ClassMaps | JointMaps,
    rows: Any,
    query_classifier: str,
    widths: Sequence[int],
    recipe: ClassCodeRecipe,
) -> ClassCode:
    """Return the class code of `maps`, with certainty thresholds from the documents `rows`.

    Documents use support vector machines and naive Bayes if queries do, or else ridge regression
    and naive Bayes. `widths` are the numbers of bits of a codeword and for certainty. Documents are
    ordered by the log-odds of their class and divided into K + 1 equal parts. Of the K certainty
    bits, the k-th is 1 for the k most certain parts.
    """
    documents = maps.of_documents("svm" if query_classifier == "svm" else "both")
    queries = maps.of(query_classifier)
    power, weight, half_terms, few_terms = 0.0, 1.0, 0.0, 0
    if recipe.content == ICT:
        power, weight = _CERTAINTY_POWER, _CERTAINTY_WEIGHT
        few_terms = min(_FEW_TERMS, int(np.median(count_entries(rows)) * _FEW_SHARE))
        half_terms = max(_HALF_TERMS, _HALF_SHARE * few_terms)
        queries = queries.soften(_QUERY_TEMPERATURE)
    elif not maps.is_text:
        queries = queries.soften(_VECTOR_TEMPERATURE)
    n_certainty = widths[1]
    odds = np.concatenate([log_odds(documents.scores(rows[at])) for at in row_slices(rows)])
    shares = np.arange(n_certainty, 0, -1) / (n_certainty + 1)
    return ClassCode(
        documents=documents,
        queries=queries,
        codewords=far_codewords(len(documents.bias), widths[0], recipe.seed),
        certainty=np.quantile(odds, shares).astype(np.float32),
        certainty_power=power,
        certainty_weight=weight,
        half_terms=half_terms,
        few_terms=few_terms,
    )


class ContentLayers:
    """The layers of content bits, each fitted to the training documents when it is first used.

    The logits of all rows have a root mean square of 1, or of 0.8 if they are learned by ict, which
    gives content bits about the weight of class bits in a query. With a teacher's vectors of texts,
    ITQ rotates the vectors that the terms predict, if they have more numbers than the content has
    bits.

    Raises:
        TrainingDataError: if the content is to be learned by ict, and the inputs are not texts.
    """

    def __init__(self, documents: _Documents) -> None:
        features, rows = documents.features, documents.rows
        if documents.recipe.content == ICT and not isinstance(features, TextFeatures):
            raise TrainingDataError("content: ict learns from the words of texts; use itq")
        self._documents = documents
        self.rows = rows.vectors if isinstance(rows, JointRows) else rows
        """What the layers read of the documents: their features with summaries, if these count."""
        if isinstance(features, TextFeatures):
            self.rows = features.add_summaries(rows, documents.texts)
        self._layers: dict[int, Layer] = {}

    def of(self, n_bits: int) -> Layer:
        """Return the layer of `n_bits`.

        Raises:
            TrainingDataError: if there are no more documents or features than bits.
        """
        if n_bits not in self._layers:
            self._layers[n_bits] = self._fit(n_bits)
        return self._layers[n_bits]

    def _fit(self, n_bits: int) -> Layer:
        rows, documents = self.rows, self._documents
        recipe, features, taught = documents.recipe, documents.features, documents.taught
        if min(rows.shape) <= n_bits:
            found = f"{counted(rows.shape[0], 'document')} with {counted(rows.shape[1], 'feature')}"
            problem = f"{n_bits} bits for content are more than {found} can fill"
            raise TrainingDataError(f"n_bits: {problem}")
        if recipe.content == ICT and isinstance(features, TextFeatures):
            from hummingbit.training.cloze import fit_cloze  # noqa: PLC0415 - it needs torch

            learned = fit_cloze(
                features, documents.texts, rows, n_bits, seed=recipe.seed, shared=_SHARED
            )
            return _scale(rows, *learned, _WORDS_RMS)
        if isinstance(rows, np.ndarray):
            return _scale(rows, *fit_itq(rows, n_bits, recipe.seed))
        if taught is not None and taught.shape[1] > n_bits:
            predicted = np.concatenate([rows[at] @ self._teacher for at in row_slices(rows)])
            weight, thresholds = fit_itq(predicted, n_bits, recipe.seed)
            return _scale(rows, self._teacher @ weight, thresholds)
        weight_and_thresholds = itq_of_terms(rows, n_bits, recipe.seed)
        assert weight_and_thresholds is not None  # noqa: S101 - checked above
        return _layer(*weight_and_thresholds)

    @cached_property
    def _teacher(self) -> Floats:
        """The weights of terms that predict the teacher's vectors, ``(V, E)``."""
        taught = self._documents.taught
        assert taught is not None  # noqa: S101 - checked above
        learned = learned_columns(self.rows, self._documents.words)
        return fit_teacher(learned, taught, self.rows.shape[1])


def _scale(rows: Any, weight: Floats, thresholds: Floats, target: float = 1.0) -> Layer:
    """Return the layer x W − t, scaled to the root mean square `target` over all `rows`."""
    squares = sum(float(np.square(rows[at] @ weight - thresholds).sum()) for at in row_slices(rows))
    size = np.sqrt(squares / (rows.shape[0] * len(thresholds))) or 1.0
    return _layer(weight * (target / size), thresholds * (target / size))


def _layer(weight: Floats, thresholds: Floats) -> Layer:
    return Layer(np.asarray(weight, dtype=np.float32), -thresholds.astype(np.float32), "identity")


# The choice of the classifier and of the share of content, by grouped folds


Progress = Callable[[str], None]

# The loss of P@k that is accepted for a larger share of content.
_MAX_LOSS = 0.005
# The gain of P@k that is needed to use a classifier other than the first.
_MIN_GAIN = 0.001
_MAX_QUERIES = 2000
# The numbers of clusters into which a class is divided, in turn. Queries of a single large cluster
# are far from the other documents, and those of several small ones are nearer. With few labels in a
# class, hardly one is left near a large cluster, and trials would not show what the labels teach.
_DIVISIONS = (FOLDS, 2 * FOLDS)
_DIVISIONS_OF_FEW_LABELS = (2 * FOLDS, 5 * FOLDS)
_FEW_LABELS = 30
# Those of words, beside the numbers of a vector, that tell which documents are alike.
_DIRECTIONS = 100
# Trials take about five times as long as the rest of a run, and more documents tell little more.
_MAX_DOCUMENTS = 100_000


@dataclass(frozen=True)
class Choice:
    """Settings of a run. The `word_share` is that of words beside vectors, or else None."""

    query_classifier: str
    content_share: float
    word_share: float | None = None

    def __str__(self) -> str:
        words = "" if self.word_share is None else f", word share {self.word_share:g}"
        return (
            f"query classifier {self.query_classifier}, content share {self.content_share:g}{words}"
        )

    def about(self) -> dict[str, Any]:
        """Return what the metadata of an encoder say."""
        return {name: value for name, value in asdict(self).items() if value is not None}


def choose(
    documents: _Documents, content: ContentLayers, progress: Progress, word_share: float
) -> tuple[Choice, list[dict[str, Any]]]:
    """Return the settings that work best on held-out clusters, and the tie-averaged P@k of each.

    With a table of word vectors, classifiers that use it are tried, too. For words beside vectors,
    their share is chosen, too, unless `word_share` is 0 or more.

    All documents are divided by :func:`hummingbit.training.model_selection.grouped_folds`: into
    five clusters of each class, then into ten; or into ten, then 25, if the median class has fewer
    than 30 labelled documents. Of more than 100,000 documents, only so many take part
    (:func:`draw_documents`), and they are divided once. By their soft labels, documents without a
    label are of their likeliest class. The labelled documents of a fold are queries, and those of
    the other folds are searched. As in the run, classifiers learn from labels and from the soft
    labels of the other documents, but the fold is left out: a run knows neither its queries nor
    unlabelled documents near them. Terms and content come from all documents. All classes of all
    folds have equal weight, since queries need not be distributed as the labels are. k is 100, or
    half the median class size if that is less.

    The classifier with the highest tie-averaged P@k is chosen, or the first if that is at most
    0.001 worse; then the share of words with the highest. Of the shares of content that documents
    and features can fill, and that leave a codeword for each class, the largest is chosen that
    costs at most 0.005 of P@k. If there are too few labels to search documents of two classes
    without a fold, the choice is the first classifier and the middle shares.
    """
    rows, recipe = documents.rows, documents.recipe
    possible = [
        share
        for share in CONTENT_SHARES
        if recipe.widths(share)[2] < min(content.rows.shape)
        and recipe.can_hold(documents.tags.shape[1], share)
    ]
    shares = [recipe.content_share] if recipe.content_share else possible or CONTENT_SHARES[-1:]
    names: tuple[str, ...] = (recipe.query_classifier,)
    if recipe.query_classifier == CHOSEN:
        names = QUERY_CLASSIFIERS[:1] if isinstance(rows, np.ndarray) else QUERY_CLASSIFIERS
        names += WORD_VECTOR_CLASSIFIERS if documents.words else ()
    word_shares: Sequence[float | None] = (None,)
    if isinstance(rows, JointRows):
        word_shares = WORD_SHARES if word_share < 0 else (word_share,)
    # The classifier is chosen first, with the middle shares; then the share of words, and that of
    # content.
    middle = Choice(names[0], shares[len(shares) // 2], word_shares[len(word_shares) // 2])
    if len(names) * len(shares) * len(word_shares) == 1:
        return middle, []
    begin_stage("choosing settings by trials on documents that are held out")
    trial = _Trial(documents, content)
    if not trial.has_queries:
        return middle, []
    scores: dict[Choice, float] = {}
    n_trials = len(names) + len(shares) + len(word_shares) - 2

    def score(choice: Choice) -> float:
        if choice not in scores:
            with part_of_stages(f"trial {len(scores) + 1} of {n_trials}, {choice}"):
                scores[choice] = trial.score(choice)
            progress(trial_result(str(choice), trial.metric, scores[choice]))
        return scores[choice]

    best = max((replace(middle, query_classifier=name) for name in names), key=score)
    if score(best) <= score(middle) + _MIN_GAIN:
        best = middle
    best = max((replace(best, word_share=of_words) for of_words in word_shares), key=score)
    by_share = [replace(best, content_share=share) for share in shares]
    threshold = max(map(score, by_share)) - _MAX_LOSS
    best = next(choice for choice in by_share if score(choice) >= threshold)
    progress(f"chosen: {best}")
    trials = [{**choice.about(), trial.metric: value} for choice, value in scores.items()]
    return best, trials


class _Fold(NamedTuple):
    """The classifiers that learned without a fold, the rows to search and the rows that query."""

    maps: ClassMaps | JointMaps
    searched: Rows
    queries: Rows


class _Trial:
    """Searches with the documents of held-out clusters as queries."""

    def __init__(self, documents: _Documents, content: ContentLayers) -> None:
        self._recipe = recipe = documents.recipe
        self._content, self._content_rows = content, content.rows
        rows, tags, learned = documents.rows, documents.tags, documents.learned
        soft_labels = documents.soft_labels
        rng = np.random.default_rng(recipe.seed)
        is_drawn = len(tags) > _MAX_DOCUMENTS
        if is_drawn:
            drawn = draw_documents(tags, _MAX_DOCUMENTS, rng)
            rows, learned, self._content_rows = rows[drawn], learned[drawn], content.rows[drawn]
            tags, soft_labels = tags[drawn], soft_labels[drawn]
        self._rows, self._tags = rows, tags
        # What content of queries is made of: they have no summaries.
        self._query_rows = rows.vectors if isinstance(rows, JointRows) else rows
        labelled = np.flatnonzero(tags.any(axis=1))
        self._classes = soft_labels.argmax(axis=1)
        self.metric = f"P@{list_length(self._classes[labelled])}"
        sample = labelled[rng.permutation(len(labelled))[:_MAX_QUERIES]]
        self._folds = []
        has_few_labels = median_class_size(self._classes[labelled]) < _FEW_LABELS
        divisions = _DIVISIONS_OF_FEW_LABELS if has_few_labels else _DIVISIONS
        # The rows of all folds are in memory at once.
        for kept, held_out in self._divide(divisions[:1] if is_drawn else divisions):
            searched, queries = np.intersect1d(kept, labelled), np.intersect1d(held_out, sample)
            if len(np.unique(self._classes[searched])) > 1 and len(queries):
                targets = estimate_soft_labels(learned[kept], tags[kept], recipe.seed)
                maps = fit_maps(rows[kept], targets, tags[kept], recipe, documents.words)
                self._folds.append(_Fold(maps, searched, queries))

    def _divide(self, divisions: Sequence[int]) -> Iterator[tuple[Rows, Rows]]:
        """Yield the documents outside and inside each fold of each division."""
        everything, seed = np.arange(len(self._classes)), self._recipe.seed
        rows = self._rows
        if isinstance(rows, JointRows):
            # Documents are alike by both, so that a cluster is near no other by either.
            of_words = PrincipalDirections(rows.words, seed, _DIRECTIONS).coordinates()
            rows = np.hstack([unit_rows(rows.vectors), unit_rows(of_words)])
        for clusters in divisions:
            folds = grouped_folds(rows, everything, self._classes, seed, clusters)
            yield from split_folds(folds)

    @property
    def has_queries(self) -> bool:
        """Whether any document can be a query: with few labels there may be nothing to search."""
        return bool(self._folds)

    def score(self, choice: Choice) -> float:
        """Return the tie-averaged P@k, the mean over the classes of all folds."""
        *widths, n_content = self._recipe.widths(choice.content_share)
        content = [self._content.of(n_content)]
        values: list[float] = []
        for fold in self._folds:
            document_rows, query_rows = self._rows[fold.searched], self._rows[fold.queries]
            maps = with_word_share(fold.maps, choice.word_share)
            code = class_code(maps, document_rows, choice.query_classifier, widths, self._recipe)
            content_logits = forward(content, self._content_rows[fold.searched])
            content_of_queries = forward(content, self._query_rows[fold.queries])
            evaluation = evaluate_codes(
                _pack(code.query_weights(query_rows), content_of_queries),
                self._labels(fold.queries),
                _pack(code.logits(document_rows), content_logits),
                self._labels(fold.searched),
                [self.metric],
            )
            precision = evaluation.expected_per_query[self.metric]
            classes = self._classes[fold.queries]
            values += [precision[classes == number].mean() for number in np.unique(classes)]
        return float(np.mean(values))

    def _labels(self, rows: Rows) -> list[tuple[str, ...]]:
        return [tuple(map(str, np.flatnonzero(tags))) for tags in self._tags[rows]]


def draw_documents(tags: Tags, number: int, rng: np.random.Generator) -> Rows:
    """Return `number` random rows of `tags`, ``(N, C)``, in order.

    Half of them are labelled: fewer if there are fewer, and more if too few others are left.
    """
    is_labelled = np.asarray(tags.any(axis=1))
    labelled, others = (
        rng.permutation(np.flatnonzero(mask)) for mask in (is_labelled, ~is_labelled)
    )
    n_labelled = min(len(labelled), max(number // 2, number - len(others)))
    return np.sort(np.concatenate([labelled[:n_labelled], others[: number - n_labelled]]))


def _pack(class_logits: Floats, content_logits: Floats) -> Codes:
    return pack_bits(np.hstack([class_logits, content_logits]) > 0)


# The run


@one_blas_thread()
def train_class_codes(
    data: TrainingData,
    recipe: ClassCodeRecipe,
    out: Path,
    *,
    word_vectors: WordVectors | None = None,
    teacher: Teacher | None = None,
    overwrite: bool = False,
    progress: Progress = lambda _: None,
) -> Trained:
    """Train on `data` with `recipe` and write the encoder to `out`.

    With `word_vectors`, queries may be classified by them, too. With a `teacher`, its vectors of
    `data` give the soft labels (:func:`rows_of_soft_labels`) and, for texts, the content
    (:class:`ContentLayers`). `progress` is called with a line for each trial.

    Raises:
        TrainingDataError: if documents are matrices or vectors of several labels, if there are too
            few documents or labelled documents, if the query classifier of the recipe needs word
            vectors and there are none, or if there are `word_vectors` and documents are not texts.
        WordVectorsError: if no term of the documents has a vector.
        TeacherError: if a vector of the teacher is zero.
        ArtifactError: if `out` exists and `overwrite` is false.
    """
    check_destination(out, overwrite=overwrite)
    if data.are_matrices:
        raise TrainingDataError(
            "vector: documents are matrices; class-codes takes texts or vectors"
        )
    if data.is_multi_label and not data.is_text:
        problem = (
            "vectors have several labels; class-codes takes vectors of one label each, or texts"
        )
        raise TrainingDataError(f"label: {problem}")
    _check_classifier(recipe, word_vectors)
    about: dict[str, Any] = {}
    if word_vectors is not None:
        about[WORD_VECTORS] = word_vectors.about()
    if teacher is not None:
        check_directions(teacher, data)
        # It needs torch, and a missing library is an error before the work, not after it.
        import_module("hummingbit.training.distillation")
    parts = split(data, recipe)
    fitted = fit_class_codes(
        data, parts, recipe, word_vectors=word_vectors, teacher=teacher, progress=progress
    )
    if teacher is not None:
        from hummingbit.training.distillation import held_out_agreement  # noqa: PLC0415

        agreement = held_out_agreement(fitted.encoder, data, teacher.vectors, parts)
        about |= {TEACHER: teacher.about(), "coherence": agreement}
    return write_encoder(
        out,
        fitted.encoder,
        data,
        parts,
        settings=asdict(recipe),
        about={"chosen": fitted.chosen, **about},
        soft_labels=fitted.soft_labels,
        overwrite=overwrite,
    )


class FittedClassCodes(NamedTuple):
    """An encoder that is not written, what trials chose, and the soft labels it learned from."""

    encoder: Encoder
    chosen: dict[str, Any]
    soft_labels: Floats


def fit_class_codes(
    data: TrainingData,
    parts: Split,
    recipe: ClassCodeRecipe,
    *,
    word_vectors: WordVectors | None = None,
    teacher: Teacher | None = None,
    vectors: Floats | None = None,
    word_share: float = AUTO_WORD_SHARE,
    progress: Progress = lambda _: None,
) -> FittedClassCodes:
    """Learn class codes of the training documents of `parts`; see :func:`train_class_codes`.

    With `vectors`, float32 ``(N, D)``, of the N texts of `data`, the class code reads the words of
    a text beside its vector, and content is a function of the vector. The encoder takes vectors
    then; a language model is to take their place. The share of words is `word_share`, or chosen on
    held-out documents if that is below 0. If it is 0, the encoder reads no words.

    Raises:
        TrainingDataError, WordVectorsError, TeacherError: as training.
    """
    check_labels(data, parts, recipe.validation_share)
    _check_classifier(recipe, word_vectors)
    documents = _read(data, parts, recipe, word_vectors, teacher)
    if vectors is not None:
        documents = documents.beside(vectors[parts.training])
    content, soft_labels = ContentLayers(documents), documents.soft_labels
    choice, trials = choose(documents, content, progress, word_share)
    begin_stage("fitting the class codes")
    rows = documents.rows
    maps = fit_maps(rows, soft_labels, documents.tags, recipe, documents.words)
    maps, beside = with_word_share(maps, choice.word_share), documents.beside_vectors
    if isinstance(maps, JointMaps) and not choice.word_share:
        maps, rows, beside = maps.vectors, rows.vectors, None
    *widths, n_content = recipe.widths(choice.content_share)
    encoder = Encoder(
        documents.features,
        [content.of(n_content)],
        np.zeros(recipe.n_bits, dtype=np.float32),
        {},
        class_code=class_code(maps, rows, choice.query_classifier, widths, recipe),
        words=beside,
    )
    return FittedClassCodes(encoder, {**choice.about(), "trials": trials}, soft_labels)


def _check_classifier(recipe: ClassCodeRecipe, word_vectors: WordVectors | None) -> None:
    if word_vectors is None and recipe.query_classifier in WORD_VECTOR_CLASSIFIERS:
        problem = f"query_classifier: {recipe.query_classifier} needs word vectors"
        raise TrainingDataError(f"{problem}; give a file of them")


@dataclass(frozen=True, eq=False)
class _Documents:
    """The training documents: `inputs`, their `features` as `rows`, and their visible labels.

    The rows have words beside vectors if there are the features of those, `beside_vectors`.
    `words` are word vectors of further terms, and `taught` a teacher's vectors ``(N, E)``.
    """

    recipe: ClassCodeRecipe
    inputs: Inputs
    features: Features
    rows: Any
    tags: Tags
    words: WordTable | None
    taught: Floats | None
    beside_vectors: TextFeatures | None = None

    @property
    def texts(self) -> list[str]:
        """The inputs, which are texts."""
        return [str(text) for text in self.inputs]

    @cached_property
    def learned(self) -> Any:
        """The rows from which soft labels are estimated."""
        learned = learned_columns(self.rows, self.words)
        if self.taught is None:
            return learned
        return rows_of_soft_labels(learned, self.taught, self.tags, self.recipe.seed)

    @cached_property
    def soft_labels(self) -> Floats:
        """The distribution over classes of each document, ``(N, C)``."""
        begin_stage("estimating soft labels")
        return estimate_soft_labels(self.learned, self.tags, self.recipe.seed)

    def beside(self, vectors: Floats) -> _Documents:
        """Return the documents, which are texts, with the words beside `vectors`."""
        assert isinstance(self.features, TextFeatures)  # noqa: S101 - of texts
        return replace(
            self,
            inputs=vectors,
            features=VectorFeatures(vectors.shape[1]),
            rows=JointRows(vectors, self.rows),
            beside_vectors=self.features,
        )


def _read(
    data: TrainingData,
    parts: Split,
    recipe: ClassCodeRecipe,
    word_vectors: WordVectors | None,
    teacher: Teacher | None,
) -> _Documents:
    by_words = recipe.content == ICT
    features = choose_features(
        data,
        parts.training,
        recipe.max_terms,
        analyzer=recipe.analyzer,
        max_words=recipe.max_words,
        # A word that only one text has is the best word to find it by.
        min_documents=1 if by_words else MIN_DOCUMENTS,
        summary_weight=recipe.summary_weight if by_words else 0.0,
    )
    inputs = data.take(parts.training)
    words = None
    if word_vectors is not None:
        if not isinstance(features, TextFeatures):
            raise TrainingDataError("vector: word vectors are for texts, and documents are vectors")
        begin_stage("looking up word vectors")
        # The words are further terms of the features.
        features, words = add_words(features, word_vectors, len(inputs), recipe.max_terms)
    return _Documents(
        recipe,
        inputs,
        features,
        features.transform(inputs),  # type: ignore[arg-type]  # each checks its own
        parts.visible_tags[parts.training],
        words,
        None if teacher is None else teacher.vectors[parts.training],
    )
