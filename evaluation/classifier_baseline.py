"""The classifier baseline: the score of codes that hold the predicted class and nothing else."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from corpus.document import Document
from encoder.classifier import Classifier
from encoder.codes import MAX_BITS, Codes
from encoder.encoder import Encoder, Inputs
from encoder.features import TextFeatures
from evaluation.baselines import logistic_baseline, pack_class_bits
from evaluation.metrics.metric_names import DEFAULT_METRICS, parse_metrics
from evaluation.relevance import Labelled, check_labels
from evaluation.result import Evaluation, EvaluationError
from evaluation.retrieval import evaluate_codes, query_labels
from index.payload_labels import labels_of
from index.records import StoredDocument

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
        MetricError, EvaluationError: as :func:`evaluation.retrieval.evaluate_codes`.
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


def _class_codes(
    encoder: Encoder, predictors: ClassPredictors, queries: Inputs, documents: Inputs
) -> tuple[Codes, Codes]:
    if predictors.n_classes > MAX_BITS:
        message = (
            f"the classifier has {predictors.n_classes:,} classes; the baseline takes at most"
            f" {MAX_BITS:,}"
        )
        raise EvaluationError(message)
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
        predict(encoder.features.transform(inputs[start : start + BATCH_SIZE]))  # type: ignore[arg-type]
        for start in range(0, len(inputs), BATCH_SIZE)
    ]
    classes = np.concatenate(predicted) if predicted else np.empty(0, dtype=np.int64)
    return pack_class_bits(np.eye(n_classes, dtype=np.bool_)[classes])


def has_baseline(reference: ClassifierReference, training: Labelled) -> bool:
    """Return whether :func:`classifier_baseline` has from 2 to 1,024 classes."""
    n_tags = len({tag for labels in training.labels for tag in labels})
    predictors = class_predictors(reference)
    n_classes = n_tags if predictors is None else predictors.n_classes
    return n_tags > 1 and n_classes <= MAX_BITS


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
    was trained with. Labels are as in :func:`evaluation.retrieval.evaluate_collection`.

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
    sentence says what to try. The list is empty if no metric is lower, rounded to three decimals.
    """
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
