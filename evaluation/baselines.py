"""What binary codes are compared with: TF-IDF cosine, and a classifier of the labels shown.

scikit-learn is imported where it is used: it takes a second, which a service that never compares
anything need not wait for.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from encoder.analyzers import UNICODE
from encoder.codes import MAX_BITS, Codes, pack_bits
from encoder.encoder import Inputs
from evaluation.metrics.metric_names import DEFAULT_METRICS, parse_metrics
from evaluation.relevance import Labelled, LabelSet, check_labels
from evaluation.result import Evaluation, EvaluationError
from evaluation.retrieval import evaluate_codes
from evaluation.row_blocks import row_blocks
from evaluation.scores import evaluate_scores

MAX_FEATURES = 10_000
INVERSE_REGULARISATION = 100.0
"""C of the logistic regressions. On Snippets 100 beats 1 and 10 at a tenth and at half of the
labels and equals 10 at all of them; a baseline should be as strong as it can be."""

Features = Any
"""float[N, F]: a numpy array or a scipy sparse matrix, which scikit-learn takes alike."""


def tfidf_cosine(
    database: Labelled,
    queries: Labelled,
    metrics: Iterable[str] = DEFAULT_METRICS,
    max_features: int = MAX_FEATURES,
) -> Evaluation:
    """Rank texts by the cosine of TF-IDF vectors, the search that needs no labels and no training.

    Vocabulary, the `max_features` most frequent words, and weights are those of the database. The
    corpus stays sparse; similarities are dense for a block of queries at a time.

    Raises:
        MetricError, EvaluationError: as :func:`evaluation.scores.evaluate_scores`.
        EvaluationError: if the inputs are not texts, or no text of the database has a word.
    """
    check_labels(queries.labels, database.labels)
    blocks = tfidf_scores(database.inputs, queries.inputs, max_features)
    return evaluate_scores(blocks, queries.labels, database.labels, metrics)


def tfidf_scores(
    database: Inputs, queries: Inputs, max_features: int = MAX_FEATURES
) -> Iterator[npt.NDArray[np.float32]]:
    """Yield the cosines of TF-IDF vectors, float32[q, N] for a block of queries at a time.

    Raises:
        EvaluationError: if the inputs are not texts, or no text of the database has a word.
    """
    vectorizer = _fit_tfidf(database, max_features)
    return _cosine_blocks(
        vectorizer.transform(_texts(queries)), vectorizer.transform(_texts(database))
    )


def logistic_baseline(
    shown: Labelled,
    database: Labelled,
    queries: Labelled,
    metrics: Iterable[str] = DEFAULT_METRICS,
) -> Evaluation:
    """Retrieve by the class that logistic regression predicts from the labels shown.

    Logistic regression is fitted to the documents whose labels were `shown`. Every document and
    query gets the code of the class predicted for it, one bit set for each class: documents of the
    query's class are all tied at distance 0, the others all at distance 2. With several tags to a
    document there is a regression for each tag and the code is the set of predicted tags. A
    document that is in both `shown` and `database` gets its predicted class like any other.

    Vectors are divided by the root mean square of their lengths in the database. Texts become
    TF-IDF vectors with the vocabulary and weights of the database, whose texts all are known; only
    labels are scarce.

    Why it is there: with so few distinct codes nothing is ordered within a class, yet p@100 comes
    out near the accuracy of the classifier. Learned codes that have collapsed to a code for each
    class score the same; only codes that score more than this have kept more of the documents.
    Read its expectation over ties: as served, a query gets the first 100 documents of its class.

    Raises:
        MetricError, EvaluationError: as :func:`evaluation.retrieval.evaluate_codes`.
        EvaluationError: if one of `shown` has no label, if they have fewer than two distinct tags
            or more than 1024, if texts and vectors or vectors of several lengths are mixed, or if
            no text of the database has a word.
    """
    chosen = [metric.name for metric in parse_metrics(metrics)]
    check_labels(queries.labels, database.labels)
    tags = _check_tags(shown.labels)
    features = _features(database.inputs)
    if all(len(label_set) == 1 for label_set in shown.labels):
        predict = _fit_classes(features(shown.inputs), shown.labels, tags)
    else:
        predict = _fit_tags(features(shown.inputs), shown.labels, tags)
    query_codes, codes = predict(features(queries.inputs)), predict(features(database.inputs))
    return evaluate_codes(query_codes, queries.labels, codes, database.labels, chosen)


def _features(database: Inputs) -> Callable[[Inputs], Features]:
    """Return a function that gives inputs the features of inputs like those of `database`."""
    if not isinstance(database, np.ndarray):
        vectorizer = _fit_tfidf(database, MAX_FEATURES)
        return lambda inputs: vectorizer.transform(_texts(inputs))
    dimension = database.shape[1]
    scale = unit_scale(database)

    def vectors(inputs: Inputs) -> Features:
        if not isinstance(inputs, np.ndarray) or inputs.shape[1:] != (dimension,):
            message = f"the database has vectors of {dimension} numbers; so must all other inputs"
            raise EvaluationError(message)
        return inputs / scale

    return vectors


def _texts(inputs: Inputs) -> Sequence[str]:
    if isinstance(inputs, np.ndarray):
        message = "the inputs are vectors; TF-IDF needs texts"
        raise EvaluationError(message)
    return inputs


def _fit_tfidf(texts: Inputs, max_features: int) -> Any:
    """Return a TfidfVectorizer that knows the terms of `texts`, those that encoders see."""
    from sklearn.feature_extraction.text import TfidfVectorizer  # noqa: PLC0415 - takes a second

    known = _texts(texts)
    try:
        vectorizer = TfidfVectorizer(
            analyzer=UNICODE.terms, max_features=max_features, dtype=np.float32
        )
        return vectorizer.fit(known)
    except ValueError as error:
        # An empty vocabulary: scikit-learn speaks of stop words, of which there are none here.
        message = f"no text of the database has a word of two letters or more ({error})"
        raise EvaluationError(message) from error


def _cosine_blocks(queries: Features, database: Features) -> Iterator[npt.NDArray[np.float32]]:
    """Give dense blocks of the product of two sparse matrices whose rows have length 1."""
    transposed = database.T.tocsr()
    for block in row_blocks(queries.shape[0], database.shape[0]):
        yield (queries[block] @ transposed).toarray()


def _check_tags(labels: Sequence[LabelSet]) -> list[str]:
    """Return the distinct tags of the labelled documents, sorted."""
    bare = [place for place, label_set in enumerate(labels) if not label_set]
    if bare:
        message = f"labelled document {bare[0]} (counting from 0) has no label"
        raise EvaluationError(message)
    tags = sorted({tag for label_set in labels for tag in label_set})
    if not 2 <= len(tags) <= MAX_BITS:
        message = (
            f"the labelled documents have {len(tags):,} distinct labels; a code of the class needs"
            f" 2 to {MAX_BITS:,}"
        )
        raise EvaluationError(message)
    return tags


def _fit_classes(
    features: Features, labels: Sequence[LabelSet], tags: list[str]
) -> Callable[[Features], Codes]:
    """Return a function that gives each row the code of its predicted class, one bit set."""
    place = {tag: number for number, tag in enumerate(tags)}
    model = fit_logistic(features, np.array([place[label_set[0]] for label_set in labels]))
    one_hot = np.eye(len(tags), dtype=np.bool_)
    return lambda rows: pack_class_bits(one_hot[model.predict(rows)])


def _fit_tags(
    features: Features, labels: Sequence[LabelSet], tags: list[str]
) -> Callable[[Features], Codes]:
    """Return a function that gives each row the set of its predicted tags as a code."""
    held = np.array([[tag in label_set for tag in tags] for label_set in labels])
    # What every labelled document has is not learned; it is predicted for every row.
    models = [None if column.all() else fit_logistic(features, column) for column in held.T]

    def predict(rows: Features) -> Codes:
        everywhere = np.ones(rows.shape[0], dtype=np.bool_)
        columns = [everywhere if model is None else model.predict(rows) for model in models]
        return pack_class_bits(np.stack(columns, axis=1))

    return predict


def unit_scale(rows: npt.NDArray[np.floating]) -> float:
    """Return the root mean square of the lengths of vectors, 1 where all are zero.

    Divided by it they have a mean squared length of 1, as TF-IDF rows do, so one C suits both.
    """
    return float(np.sqrt(np.mean(np.sum(np.square(rows), axis=1)))) or 1.0


def fit_logistic(features: Features, targets: npt.NDArray[Any]) -> Any:
    """Return a logistic regression fitted to `targets`."""
    from sklearn.exceptions import ConvergenceWarning  # noqa: PLC0415 - takes a second
    from sklearn.linear_model import LogisticRegression  # noqa: PLC0415 - takes a second

    model = LogisticRegression(C=INVERSE_REGULARISATION, max_iter=1000)
    with warnings.catch_warnings():
        # A thousand steps predict well, whether or not the last digits have settled.
        warnings.simplefilter("ignore", ConvergenceWarning)
        return model.fit(features, targets)


def pack_class_bits(bits: npt.NDArray[np.bool_]) -> Codes:
    """Pack bits[N, tags] into codes, with zero bits up to a length that codes can have."""
    return pack_bits(np.pad(bits, ((0, 0), (0, -bits.shape[1] % 8))))
