"""Baselines for binary codes: TF-IDF cosine, BM25, vectors, and classifiers of the labels."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from hummingbit.corpus.document import Document
from hummingbit.encoder.analyzers import VISIBLE
from hummingbit.encoder.classifier import Classifier
from hummingbit.encoder.codes import Codes, pack_bits
from hummingbit.encoder.encoder import Encoder, Inputs, LanguageModel
from hummingbit.encoder.recipes import learns_labels
from hummingbit.encoder.text_features import TextFeatures
from hummingbit.evaluation.evaluate import evaluate_codes, evaluate_scores
from hummingbit.evaluation.metrics import DEFAULT_METRICS, parse_metrics
from hummingbit.evaluation.relevance import Labelled, LabelSet, check_labels, query_labels
from hummingbit.evaluation.result import Evaluation, EvaluationError, row_blocks
from hummingbit.foundation.arrays import unit_rows
from hummingbit.foundation.errors import counted
from hummingbit.index.lexical import ANALYZERS, DEFAULT_ANALYZER, LexicalIndex
from hummingbit.index.records import StoredDocument, labels_of

# TF-IDF cosine and other rankings
#
# scikit-learn is imported where it is used. Its import takes a second, and a service may never
# need it.


MAX_FEATURES = 10_000
INVERSE_REGULARIZATION = 100.0
"""C of the logistic regressions. A baseline should be as strong as it can be. On Snippets, 100
beats 1 and 10 with a tenth and with half of the labels, and equals 10 with all of them."""
MAX_CLASSES = 1024
"""The most classes that a code of the class has a bit for."""

SOFT_CLASS_SCORES, BM25, VECTORS = "soft class scores", "bm25", "vectors"
"""The names of baselines that rank by scores, in reports and in the output of training."""

Features = Any
"""float[N, F]: a numpy array or a scipy sparse matrix, both of which scikit-learn accepts."""


def tfidf_cosine(
    database: Labelled,
    queries: Labelled,
    metrics: Iterable[str] = DEFAULT_METRICS,
) -> Evaluation:
    """Rank texts by the cosine of TF-IDF vectors, which needs no labels and no training.

    The vocabulary (the 10,000 most frequent words) and the weights come from the database.
    The corpus stays sparse; similarities are dense for one block of queries at a time.

    Raises:
        MetricError, EvaluationError: as :func:`hummingbit.evaluation.evaluate.evaluate_scores`.
        EvaluationError: if the inputs are not texts, or no text of the database has a word.
    """
    check_labels(queries.labels, database.labels)
    blocks = tfidf_scores(database.inputs, queries.inputs)
    return evaluate_scores(blocks, queries.labels, database.labels, metrics)


def tfidf_scores(database: Inputs, queries: Inputs) -> Iterator[npt.NDArray[np.float32]]:
    """Yield the cosines of TF-IDF vectors, float32[q, N] for a block of queries at a time.

    Raises:
        EvaluationError: if the inputs are not texts, or no text of the database has a word.
    """
    vectorizer = _fit_tfidf(database)
    return _cosine_blocks(
        vectorizer.transform(_texts(queries)), vectorizer.transform(_texts(database))
    )


def bm25(
    database: Labelled, queries: Labelled, metrics: Iterable[str] = DEFAULT_METRICS
) -> Evaluation:
    """Rank texts by BM25 (:mod:`hummingbit.index.lexical`), as searches by ``bm25`` do.

    A document without a word of the query is not found.

    Raises:
        MetricError, EvaluationError: as :func:`hummingbit.evaluation.evaluate.evaluate_scores`.
        EvaluationError: if the inputs are not texts.
    """
    check_labels(queries.labels, database.labels)
    texts, asked = _texts(database.inputs), _texts(queries.inputs)
    index = LexicalIndex.build(0, ANALYZERS[DEFAULT_ANALYZER], enumerate(texts), forms=True)
    rows = np.arange(len(texts))

    def scores(text: str) -> npt.NDArray[np.float64]:
        found = index.matches(index.weigh(text)).scores_of(rows).astype(np.float64)
        return np.where(found > 0, found, -np.inf)

    blocks = (
        np.stack([scores(text) for text in asked[block]])
        for block in row_blocks(len(asked), len(texts))
    )
    return evaluate_scores(blocks, queries.labels, database.labels, metrics)


def vector_cosine(
    database: Labelled, queries: Labelled, metrics: Iterable[str] = DEFAULT_METRICS
) -> Evaluation:
    """Rank vectors, float32[N, D], by their cosine: what codes of them would keep at best.

    Raises:
        MetricError, EvaluationError: as :func:`hummingbit.evaluation.evaluate.evaluate_scores`.
    """
    check_labels(queries.labels, database.labels)
    blocks = cosine_blocks(np.asarray(queries.inputs), np.asarray(database.inputs))
    return evaluate_scores(blocks, queries.labels, database.labels, metrics)


def cosine_blocks(
    queries: npt.NDArray[np.float32], documents: npt.NDArray[np.float32]
) -> Iterator[npt.NDArray[np.float32]]:
    """Yield the cosines of vectors ``(Q, D)`` and ``(N, D)``, ``float32[q, N]`` a block."""
    asked, stored = unit_rows(queries), unit_rows(documents)
    for block in row_blocks(len(asked), len(stored)):
        yield asked[block] @ stored.T


def logistic_baseline(
    training: Labelled,
    database: Labelled,
    queries: Labelled,
    metrics: Iterable[str] = DEFAULT_METRICS,
) -> Evaluation:
    """Retrieve by the class that logistic regression predicts from the labels of `training`.

    Every document and query gets the code of its predicted class, which has one bit set. Documents
    of the query's class are all tied at distance 0, and the others at distance 2. If documents have
    several tags, there is a regression for each tag, and a code is the set of predicted tags. A
    document that is in both `training` and `database` gets its predicted class like any other.

    Vectors are divided by the root mean square of their lengths in the database. Texts become
    TF-IDF vectors with the vocabulary and weights of the database, since all of its texts are
    available and only labels are scarce.

    The purpose: so few distinct codes leave no order within a class, yet P@100 is near the accuracy
    of the classifier. Learned codes that have collapsed to one code for each class score the same.
    Only codes that score more than this baseline preserve more about the documents than a class.
    Use its tie-averaged value: as served, a query gets the first 100 documents of its class.

    Raises:
        MetricError, EvaluationError: as :func:`hummingbit.evaluation.evaluate.evaluate_codes`.
        EvaluationError: if a document of `training` has no label, if there are fewer than two
            distinct tags or more than 1024, if texts and vectors or vectors of different lengths
            are mixed, or if no text of the database has a word.
    """
    names = [metric.name for metric in parse_metrics(metrics)]
    check_labels(queries.labels, database.labels)
    tags = _check_tags(training.labels)
    transform = _fit_features(database.inputs)
    if all(len(label_set) == 1 for label_set in training.labels):
        predict = _fit_classes(transform(training.inputs), training.labels, tags)
    else:
        predict = _fit_tags(transform(training.inputs), training.labels, tags)
    query_codes, codes = predict(transform(queries.inputs)), predict(transform(database.inputs))
    return evaluate_codes(query_codes, queries.labels, codes, database.labels, names)


def _fit_features(database: Inputs) -> Callable[[Inputs], Features]:
    """Return a function that maps inputs to features, with the scale or weights of `database`."""
    if not isinstance(database, np.ndarray):
        vectorizer = _fit_tfidf(database)
        return lambda inputs: vectorizer.transform(_texts(inputs))
    dimension = database.shape[1]
    scale = unit_scale(database)

    def divide(inputs: Inputs) -> Features:
        if not isinstance(inputs, np.ndarray) or inputs.shape[1:] != (dimension,):
            message = f"the database has vectors of {dimension} numbers; so must all other inputs"
            raise EvaluationError(message)
        return inputs / scale

    return divide


def _texts(inputs: Inputs) -> Sequence[str]:
    if isinstance(inputs, np.ndarray):
        raise EvaluationError("the inputs are vectors; TF-IDF needs texts")
    return inputs


def _fit_tfidf(texts: Inputs) -> Any:
    """Return a TfidfVectorizer fitted to `texts`, with the analyzer that encoders use."""
    from sklearn.feature_extraction.text import TfidfVectorizer  # noqa: PLC0415 - takes a second

    vectorizer = TfidfVectorizer(
        analyzer=VISIBLE.terms, max_features=MAX_FEATURES, dtype=np.float32
    )
    fit_texts = _texts(texts)
    try:
        return vectorizer.fit(fit_texts)
    except ValueError as error:
        # scikit-learn's message suggests stop words, of which there are none here.
        message = f"no text of the database has a word of two letters or more ({error})"
        raise EvaluationError(message) from error


def _cosine_blocks(queries: Features, database: Features) -> Iterator[npt.NDArray[np.float32]]:
    """Yield dense blocks of the product of two sparse matrices whose rows have length 1."""
    transposed = database.T.tocsr()
    for block in row_blocks(queries.shape[0], database.shape[0]):
        yield (queries[block] @ transposed).toarray()


def _check_tags(labels: Sequence[LabelSet]) -> list[str]:
    """Return the distinct tags of the labelled documents, sorted."""
    unlabelled = [row for row, label_set in enumerate(labels) if not label_set]
    if unlabelled:
        raise EvaluationError(f"labelled document {unlabelled[0]} (counting from 0) has no label")
    tags = sorted({tag for label_set in labels for tag in label_set})
    if not 2 <= len(tags) <= MAX_CLASSES:
        raise EvaluationError(
            f"the labelled documents have {counted(len(tags), 'distinct label')};"
            f" a code of the class needs 2 to {MAX_CLASSES:,}"
        )
    return tags


def _fit_classes(
    features: Features, labels: Sequence[LabelSet], tags: list[str]
) -> Callable[[Features], Codes]:
    """Return a function that maps each row to the code of its predicted class, one bit set."""
    number = {tag: column for column, tag in enumerate(tags)}
    model = fit_logistic(features, np.array([number[label_set[0]] for label_set in labels]))
    one_hot = np.eye(len(tags), dtype=np.bool_)
    return lambda rows: pack_class_bits(one_hot[model.predict(rows)])


def _fit_tags(
    features: Features, labels: Sequence[LabelSet], tags: list[str]
) -> Callable[[Features], Codes]:
    """Return a function that maps each row to the set of its predicted tags, as a code."""
    has_tag = np.array([[tag in label_set for tag in tags] for label_set in labels])
    # A tag of every labelled document cannot be learned. It is predicted for every row.
    models = [None if column.all() else fit_logistic(features, column) for column in has_tag.T]

    def predict(rows: Features) -> Codes:
        all_rows = np.ones(rows.shape[0], dtype=np.bool_)
        columns = [all_rows if model is None else model.predict(rows) for model in models]
        return pack_class_bits(np.stack(columns, axis=1))

    return predict


def unit_scale(rows: npt.NDArray[np.floating]) -> float:
    """Return the root mean square of the lengths of vectors, or 1 if all are zero.

    Vectors divided by it have a mean squared length of 1, as TF-IDF rows do, so one C suits both.
    """
    return float(np.sqrt(np.mean(np.sum(np.square(rows), axis=1)))) or 1.0


def fit_logistic(
    features: Features,
    targets: npt.NDArray[Any],
    *,
    inverse_regularization: float = INVERSE_REGULARIZATION,
    weights: npt.NDArray[np.float64] | None = None,
) -> Any:
    """Return a logistic regression fitted to `targets`; rows may have `weights`, float64[N]."""
    from sklearn.exceptions import ConvergenceWarning  # noqa: PLC0415 - takes a second
    from sklearn.linear_model import LogisticRegression  # noqa: PLC0415 - takes a second

    model = LogisticRegression(C=inverse_regularization, max_iter=1000)
    with warnings.catch_warnings():
        # A thousand iterations predict well enough, converged or not.
        warnings.simplefilter("ignore", ConvergenceWarning)
        return model.fit(features, targets, sample_weight=weights)


def pack_class_bits(bits: npt.NDArray[np.bool_]) -> Codes:
    """Pack ``bool[N, tags]`` into codes, padded with zero bits to whole bytes."""
    return pack_bits(np.pad(bits, ((0, 0), (0, -bits.shape[1] % 8))))


BATCH_SIZE = 4096
Predict = Callable[[Any], npt.NDArray[np.int64]]
LOW_WORD_DROPOUT = 0.1


@dataclass(frozen=True, slots=True)
class ClassifierReference:
    """An encoder and the classifier that was saved beside it.

    There is no classifier if the encoder was trained on matrices, or on vectors of several labels,
    or by an earlier version.
    """

    encoder: Encoder
    classifier: Classifier | None = None


@dataclass(frozen=True, slots=True)
class TrainingLabels:
    """The ids of the documents whose labels an encoder was trained with, and its classifier."""

    ids: Sequence[str]
    reference: ClassifierReference


class ClassPredictors(NamedTuple):
    """The number of classes, and the functions that predict them from rows of features."""

    n_classes: int
    of_documents: Predict
    of_queries: Predict


def class_predictors(reference: ClassifierReference) -> ClassPredictors | None:
    """Return the classifiers of a class code or the one beside the encoder; None without one."""
    code = reference.encoder.class_code
    if code is not None:
        return ClassPredictors(len(code.codewords), code.documents.predict, code.queries.predict)
    classifier = reference.classifier
    if classifier is None:
        return None
    return ClassPredictors(classifier.n_classes, classifier.predict, classifier.predict)


def classifier_baseline(
    reference: ClassifierReference,
    training: Labelled,
    database: Labelled,
    queries: Labelled,
    metrics: Iterable[str] = DEFAULT_METRICS,
) -> Evaluation:
    """Retrieve by the class that the classifier beside an encoder predicts.

    The classifier was fitted to the encoder's features and to the soft labels that the encoder
    learned from. So codes that score more than this baseline hold more than the class. Where codes
    begin with a class code, its maps for documents and for queries are the classifier. Every
    document and query gets a code with one bit set. Without a classifier, this is
    :func:`logistic_baseline`, fitted to `training`.

    Raises:
        MetricError, EvaluationError: as :func:`hummingbit.evaluation.evaluate.evaluate_codes`.
        EvaluationError: if there are more than 1024 classes, or as :func:`logistic_baseline`.
        InputError: if the encoder does not take such inputs.
    """
    predictors = class_predictors(reference)
    if predictors is None:
        return logistic_baseline(training, database, queries, metrics)
    names = [metric.name for metric in parse_metrics(metrics)]
    check_labels(queries.labels, database.labels)
    codes = _class_codes(reference.encoder, predictors, queries.inputs, database.inputs)
    return evaluate_codes(codes[0], queries.labels, codes[1], database.labels, names)


def soft_class_scores(
    encoder: Encoder,
    database: Labelled,
    queries: Labelled,
    metrics: Iterable[str] = DEFAULT_METRICS,
) -> Evaluation | None:
    """Retrieve by the dot product of the class probabilities of query and document.

    The probabilities are those of the maps of the encoder's class code; without one, the result is
    None. They take C floats a document and hold no content. Codes with class bits that score more
    than this have more than the classes, and more of them than the likeliest.

    Raises:
        MetricError, EvaluationError: as :func:`hummingbit.evaluation.evaluate.evaluate_scores`.
        InputError: if the encoder does not take such inputs.
    """
    blocks = _class_score_blocks(encoder, database.inputs, queries.inputs)
    if blocks is None:
        return None
    return evaluate_scores(blocks, queries.labels, database.labels, metrics)


def stored_class_scores(
    encoder: Encoder, stored: Sequence[StoredDocument], queries: Sequence[Document]
) -> Iterator[npt.NDArray[np.float64]] | None:
    """Yield the scores of :func:`soft_class_scores` for the stored documents of a collection.

    The result is None without class codes, and for a language model, which would have to read
    every text again; training measures both.
    """
    if isinstance(encoder.features, LanguageModel):
        return None
    return _class_score_blocks(encoder, _inputs(stored), _inputs(queries))


def _class_score_blocks(
    encoder: Encoder, documents: Inputs, queries: Inputs
) -> Iterator[npt.NDArray[np.float64]] | None:
    code = encoder.class_code
    if code is None:
        return None
    of_queries, of_documents = (
        np.concatenate(
            [
                of_class.probabilities(encoder.class_rows(inputs[start : start + BATCH_SIZE]))
                for start in range(0, len(inputs), BATCH_SIZE)
            ]
        ).astype(np.float64)
        for of_class, inputs in ((code.queries, queries), (code.documents, documents))
    )
    rows = row_blocks(len(of_queries), len(of_documents))
    return (of_queries[block] @ of_documents.T for block in rows)


def _class_codes(
    encoder: Encoder, predictors: ClassPredictors, queries: Inputs, documents: Inputs
) -> tuple[Codes, Codes]:
    if predictors.n_classes > MAX_CLASSES:
        raise EvaluationError(
            f"the classifier has {predictors.n_classes:,} classes; the baseline takes at most"
            f" {MAX_CLASSES:,}"
        )
    n_classes, of_documents, of_queries = predictors
    return (
        class_bits(encoder, of_queries, n_classes, queries),
        class_bits(encoder, of_documents, n_classes, documents),
    )


def class_bits(encoder: Encoder, predict: Predict, n_classes: int, inputs: Inputs) -> Codes:
    """Return codes with one bit set: that of the class which `predict` returns for each input.

    Raises:
        InputError: if the encoder does not take such inputs.
    """
    predicted = [
        predict(encoder.class_rows(inputs[start : start + BATCH_SIZE]))
        for start in range(0, len(inputs), BATCH_SIZE)
    ]
    classes = np.concatenate(predicted) if predicted else np.empty(0, dtype=np.int64)
    return pack_class_bits(np.eye(n_classes, dtype=np.bool_)[classes])


def has_baseline(reference: ClassifierReference, training: Labelled) -> bool:
    """Return whether :func:`classifier_baseline` has from 2 to 1,024 classes."""
    n_tags = len({tag for labels in training.labels for tag in labels})
    predictors = class_predictors(reference)
    n_classes = n_tags if predictors is None else predictors.n_classes
    return n_tags > 1 and n_classes <= MAX_CLASSES


def collection_classifier_baseline(
    stored: Sequence[StoredDocument],
    training_labels: TrainingLabels,
    queries: Sequence[Document],
    metrics: Iterable[str] = DEFAULT_METRICS,
    label_field: str = "label",
) -> Evaluation | None:
    """Run the classifier baseline on the stored documents of a collection.

    Returns None if the labels that the encoder was trained with are too few or too many for it.

    If the encoder has no classifier, one is fitted to the stored documents whose labels the encoder
    was trained with. Labels are as in :class:`hummingbit.evaluation.rankings.RelevanceSettings`.

    Raises:
        MetricError, EvaluationError: as :func:`classifier_baseline`.
        EvaluationError: if some documents or queries are texts and others vectors, or vectors
            differ in length.
        InputError: if the `label_field` of a document holds something other than labels.
    """
    labels = [labels_of(document.payload, label_field) for document in stored]
    ids = frozenset(training_labels.ids)
    rows = [row for row, document in enumerate(stored) if document.id in ids and labels[row]]
    training = Labelled(_inputs([stored[row] for row in rows]), [labels[row] for row in rows])
    if not has_baseline(training_labels.reference, training):
        return None
    return classifier_baseline(
        training_labels.reference,
        training,
        Labelled(_inputs(stored), labels),
        Labelled(_inputs(queries), query_labels(queries, label_field)),
        metrics,
    )


def class_code_queries_and_documents(
    stored: Sequence[StoredDocument], reference: ClassifierReference, queries: Sequence[Document]
) -> tuple[Codes, Codes] | None:
    """Return the baseline's codes of the queries and of the documents, for any relevance.

    Return None if there is no classifier beside the encoder.

    Raises:
        EvaluationError: if there are more than 1024 classes, or as
            :func:`collection_classifier_baseline`.
        InputError: if the encoder does not take such inputs.
    """
    predictors = class_predictors(reference)
    if predictors is None:
        return None
    return _class_codes(reference.encoder, predictors, _inputs(queries), _inputs(stored))


def classifier_warnings(
    codes: Mapping[str, float], classifier: Mapping[str, float] | None, encoder: Encoder
) -> list[str]:
    """Return a sentence that names the metrics in which the codes score below the classifier.

    `codes` and `classifier` are tie-averaged values by metric; `encoder` made the codes. The
    sentence says what to try. The list is empty if no metric is lower, rounded to three decimals,
    or if the codes learned no labels, and so are not to tell them.
    """
    recipe = encoder.metadata.get("recipe")
    if isinstance(recipe, Mapping) and not learns_labels(recipe):
        return []
    baseline = classifier or {}
    lower = [
        f"{name} {value:.3f} against {baseline[name]:.3f}"
        for name, value in codes.items()
        if name in baseline and round(value, 3) < round(baseline[name], 3)
    ]
    if not lower:
        return []
    return [
        f"the codes score below the classifier baseline ({', '.join(lower)}, tie-averaged): one"
        f" code for each predicted class would serve these labels better; try {_remedies(encoder)}"
    ]


def _remedies(encoder: Encoder) -> str:
    remedies = "more bits or the asymmetric ranking"
    if encoder.class_code is not None or not isinstance(encoder.features, TextFeatures):
        return remedies
    recipe = encoder.metadata.get("recipe")
    word_dropout = recipe.get("word_dropout") if isinstance(recipe, Mapping) else None
    if isinstance(word_dropout, float) and word_dropout > LOW_WORD_DROPOUT:
        remedies = f"--word-dropout {LOW_WORD_DROPOUT}, {remedies}"
    return f"hummingbit train class-codes, {remedies}"


def _inputs(documents: Sequence[Document | StoredDocument]) -> Inputs:
    texts = [document.text for document in documents if document.text is not None]
    vectors = [document.vector for document in documents if document.vector is not None]
    if len(texts) == len(documents) and not 0 < len(documents) == len(vectors):
        return texts
    if len(vectors) != len(documents) or len({len(vector) for vector in vectors}) > 1:
        message = "the classifier baseline needs texts throughout, or vectors of one length"
        raise EvaluationError(message)
    return np.stack(vectors)
