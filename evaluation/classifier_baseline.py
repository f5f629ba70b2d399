"""The classifier baseline: what codes score that know the class of a document and nothing else."""

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

INPUTS_AT_ONCE = 4096
Predict = Callable[[Any], npt.NDArray[np.int64]]
LITTLE_WORD_DROPOUT = 0.1


@dataclass(frozen=True, slots=True)
class ClassifierReference:
    """An encoder with the classifier beside it.

    There is none for documents of several labels, nor with encoders of versions that wrote none.
    """

    encoder: Encoder
    classifier: Classifier | None = None


@dataclass(frozen=True, slots=True)
class ShownLabels:
    """The documents whose labels an encoder was shown, and the classifier fitted beside it."""

    ids: Sequence[str]
    reference: ClassifierReference


def classifier_baseline(
    reference: ClassifierReference,
    shown: Labelled,
    database: Labelled,
    queries: Labelled,
    metrics: Iterable[str] = DEFAULT_METRICS,
) -> Evaluation:
    """Retrieve by the class that the classifier beside an encoder predicts.

    The classifier was fitted to the soft labels that the encoder learned from, over the features of
    the encoder, so codes that score more than this know more than the class. Where codes begin with
    a class code, its maps are the classifier, that of documents and that of queries. Every document
    and query gets a code with one bit set. Without such a classifier this is
    :func:`logistic_baseline`, fitted to `shown`.

    Raises:
        MetricError, EvaluationError: as :func:`evaluation.retrieval.evaluate_codes`.
        EvaluationError: if there are more than 1024 classes, or as :func:`logistic_baseline`.
        InputError: if the encoder does not take such inputs.
    """
    predictors = _predictors(reference)
    if predictors is None:
        return logistic_baseline(shown, database, queries, metrics)
    chosen = [metric.name for metric in parse_metrics(metrics)]
    check_labels(queries.labels, database.labels)
    if predictors.n_classes > MAX_BITS:
        message = f"the classifier knows {predictors.n_classes:,} classes; {MAX_BITS:,} at most fit"
        raise EvaluationError(message)
    query_codes, codes = (
        class_bits(reference.encoder, predict, predictors.n_classes, inputs)
        for predict, inputs in (
            (predictors.of_queries, queries.inputs),
            (predictors.of_documents, database.inputs),
        )
    )
    return evaluate_codes(query_codes, queries.labels, codes, database.labels, chosen)


def class_bits(encoder: Encoder, predict: Predict, n_classes: int, inputs: Inputs) -> Codes:
    """Return codes with one bit set, that of the class which `predict` gives an input's features.

    Raises:
        InputError: if the encoder does not take such inputs.
    """
    predicted = [
        predict(encoder.features.transform(inputs[at : at + INPUTS_AT_ONCE]))  # type: ignore[arg-type]
        for at in range(0, len(inputs), INPUTS_AT_ONCE)
    ]
    classes = np.concatenate(predicted) if predicted else np.empty(0, dtype=np.int64)
    return pack_class_bits(np.eye(n_classes, dtype=np.bool_)[classes])


def has_baseline(reference: ClassifierReference, shown: Labelled) -> bool:
    """Tell whether :func:`classifier_baseline` has at least two classes, and no more than fit."""
    n_shown = len({tag for labels in shown.labels for tag in labels})
    predictors = _predictors(reference)
    n_classes = n_shown if predictors is None else predictors.n_classes
    return n_shown > 1 and n_classes <= MAX_BITS


def classifier_of_collection(
    stored: Sequence[StoredDocument],
    shown: ShownLabels,
    queries: Sequence[Document],
    metrics: Iterable[str] = DEFAULT_METRICS,
    label_field: str = "label",
) -> Evaluation:
    """Run the classifier baseline on the stored documents of a collection.

    Where the encoder has no classifier beside it, those stored documents whose labels it was shown
    are fitted. Labels are as in :func:`evaluation.retrieval.evaluate_collection`.

    Raises:
        MetricError, EvaluationError: as :func:`classifier_baseline`.
        EvaluationError: if a document or a query is neither a text nor a vector like the others.
        InputError: if `label_field` holds something else than labels in some document.
    """
    labels = [labels_of(document.payload, label_field) for document in stored]
    known = frozenset(shown.ids)
    fitted = [row for row, one in enumerate(stored) if one.id in known and labels[row]]
    return classifier_baseline(
        shown.reference,
        Labelled(_inputs([stored[row] for row in fitted]), [labels[row] for row in fitted]),
        Labelled(_inputs(stored), labels),
        Labelled(_inputs(queries), query_labels(queries, label_field)),
        metrics,
    )


def behind_classifier(
    codes: Mapping[str, float], classifier: Mapping[str, float] | None, encoder: Encoder
) -> list[str]:
    """Say in a sentence in which metrics the codes score less than the classifier, and what to try.

    Both are tie-averaged values by metric; `encoder` made the codes. There is no sentence where the
    codes lose nowhere by what three decimals show.
    """
    theirs = classifier or {}
    lost = [
        f"{name} {ours:.3f} against {theirs[name]:.3f}"
        for name, ours in codes.items()
        if name in theirs and round(ours, 3) < round(theirs[name], 3)
    ]
    if not lost:
        return []
    return [
        f"the codes score less than the classifier baseline ({', '.join(lost)}, tie-averaged): a"
        f" code for each predicted class would serve these labels better; try {_remedies(encoder)}"
    ]


def _remedies(encoder: Encoder) -> str:
    recipe = encoder.metadata.get("recipe")
    dropped = recipe.get("word_dropout") if isinstance(recipe, Mapping) else None
    drops_words = isinstance(dropped, float) and dropped > LITTLE_WORD_DROPOUT
    if drops_words and isinstance(encoder.features, TextFeatures):
        return f"more bits, --word-dropout {LITTLE_WORD_DROPOUT}, or the asymmetric ranking"
    return "more bits or the asymmetric ranking"


class _Predictors(NamedTuple):
    """How many classes there are, and what gives rows of features their class."""

    n_classes: int
    of_documents: Predict
    of_queries: Predict


def _predictors(reference: ClassifierReference) -> _Predictors | None:
    code = reference.encoder.class_code
    if code is not None:
        return _Predictors(len(code.codewords), code.documents.predict, code.queries.predict)
    classifier = reference.classifier
    if classifier is None:
        return None
    return _Predictors(classifier.n_classes, classifier.predict, classifier.predict)


def _inputs(documents: Sequence[Document | StoredDocument]) -> Inputs:
    texts = [document.text for document in documents if document.text is not None]
    if len(texts) == len(documents):
        return texts
    vectors = [document.vector for document in documents if document.vector is not None]
    if len(vectors) != len(documents) or len({len(vector) for vector in vectors}) > 1:
        message = "the classifier baseline needs texts throughout, or vectors of one length"
        raise EvaluationError(message)
    return np.stack(vectors)
