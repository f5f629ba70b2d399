"""Soft labels: classes of unlabelled documents, estimated before a network is trained."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.special import softmax

from hummingbit.encoder.class_code import JointRows
from hummingbit.encoder.classifier import Classifier
from hummingbit.encoder.encoder import Features, Inputs
from hummingbit.encoder.text_features import Floats, TextFeatures
from hummingbit.encoder.vector_features import SpdFeatures
from hummingbit.evaluation.baselines import fit_logistic, unit_scale
from hummingbit.foundation.arrays import unit_rows
from hummingbit.training.data import Rows, Tags
from hummingbit.training.text_features import PrincipalDirections

# Naive Bayes; the classes may be probabilities


Scores = npt.NDArray[np.float64]

_SMOOTHING = 0.3
_UNIFORM_SHARE = 0.7
# The log-likelihoods of rows of unit length are too close to each other, since a text of a hundred
# terms counts as one of a few.
_TEMPERATURE = 0.4
_EM_STEPS = 5


def complement_weights(rows: Any, classes: Any) -> Scores:
    """Return complement naive Bayes' −ln p(term | other classes), ``float64[V, C]``.

    `classes` may be probabilities. 0.3 is added to the sum of each term. Source: Rennie et al.,
    "Tackling the Poor Assumptions of Naive Bayes Text Classifiers" (2003), section 3.2.
    """
    counts_VC = np.asarray(rows.T @ classes, dtype=np.float64)
    others_VC = counts_VC.sum(axis=1, keepdims=True) - counts_VC + _SMOOTHING
    return np.asarray(-np.log(others_VC / others_VC.sum(axis=0)))


def multinomial_weights(rows: Any, classes: Any) -> Scores:
    """Return multinomial naive Bayes' ln p(term | class), ``float64[V, C]``.

    p(v | c) = (1 − λ) n_vc / Σ_v n_vc + λ / V with λ = 0.7, where n_vc is the sum of the weights of
    term v in the `rows`, ``(N, V)``, of class c. `classes`, ``(N, C)``, may be probabilities. A
    class without terms has the uniform distribution. Interpolated so, a rare term of a small class
    weighs no more than one of a large class. All classes have the same prior probability. Source:
    Jelinek and Mercer, "Interpolated Estimation of Markov Source Parameters from Sparse Data"
    (1980).
    """
    counts_VC = np.asarray(rows.T @ classes, dtype=np.float64)
    sums_C = counts_VC.sum(axis=0)
    uniform = 1 / len(counts_VC)
    shares_VC = np.divide(counts_VC, sums_C, out=np.full_like(counts_VC, uniform), where=sums_C > 0)
    return np.asarray(np.log((1 - _UNIFORM_SHARE) * shares_VC + _UNIFORM_SHARE * uniform))


def expectation_maximization(rows: Any, labelled: Rows, classes_LC: Any) -> Scores:
    """Return the log-likelihood of each class for each of the `rows`, ``float64[N, C]``.

    Multinomial naive Bayes is fitted to the `labelled` rows of the classes `classes_LC`. Then, in
    five steps, it is fitted to these and to its own predictions of the other rows, the softmax of
    the log-likelihoods divided by 0.4, a temperature for rows of unit length. Source: Nigam,
    McCallum, Thrun and Mitchell, "Text Classification from Labeled and Unlabeled Documents using
    EM" (2000).
    """
    scores_NC = np.asarray(rows @ multinomial_weights(rows[labelled], classes_LC))
    for _ in range(_EM_STEPS):
        targets_NC = softmax(scores_NC / _TEMPERATURE, axis=1)
        targets_NC[labelled] = classes_LC
        scores_NC = np.asarray(rows @ multinomial_weights(rows, targets_NC))
    return scores_NC


# Ridge regression of several targets on sparse rows, by conjugate gradients.
#
# Source: Hestenes and Stiefel, "Methods of Conjugate Gradients for Solving Linear Systems" (1952).
# scikit-learn's ``Ridge(solver="sparse_cg")`` solves one target after the other. Here the targets
# take each step together, so a step reads the rows once for all of them, which takes less than half
# of the time. Every sum has scikit-learn's order, so the weights are the same, bit for bit.


Array = npt.NDArray[Any]

_PENALTY = 1.0
_TOLERANCE = 1e-4
_STEPS_PER_ROW = 10
_BLOCK = 256


class LinearMap(NamedTuple):
    """Scores x W + b of several targets, ``weight`` ``(V, C)`` and ``bias`` ``(C,)``."""

    weight: Array
    bias: Array

    def __call__(self, rows: Any) -> Array:
        """Return the scores of `rows`, ``(N, C)``."""
        return np.asarray(rows @ self.weight + self.bias)


def fit_ridge(rows: Any, targets: Array) -> LinearMap:
    """Return the W and b that minimize ‖X W + b − Y‖² + ‖W‖².

    `rows` X are a CSR matrix ``(N, V)`` and `targets` Y an array ``(N, C)``. All is computed in the
    precision of `rows`. A target is solved once its residual is below 1e-4 of its size.
    """
    y_NC = np.array(targets, dtype=rows.dtype)
    y_offset_C = np.average(y_NC, axis=0)
    y_NC -= y_offset_C
    x = _Centred(rows)
    weight_CV = _primal(x, y_NC) if rows.shape[1] <= rows.shape[0] else _dual(x, y_NC)
    return LinearMap(weight_CV.T, y_offset_C - x.offset_V @ weight_CV.T)


class _Centred:
    """The matrix X − 1 m of rows without their mean m, which is never made.

    Vectors lie in rows, one for each target, because a dot product of vectors that are not
    contiguous is rounded otherwise. For a product with X they are turned, so that X is read once.
    """

    def __init__(self, rows: Any) -> None:
        self._rows = rows
        n_rows, n_columns = rows.shape
        sums_V = np.bincount(rows.indices, rows.data, minlength=n_columns)
        self.offset_V = (sums_V / n_rows).astype(rows.dtype)
        self._ones_N = np.ones(n_rows, dtype=rows.dtype)

    def product(self, vectors_CV: Array) -> Array:
        """Return ``(C, N)``, (X − 1 m) v for each vector v."""
        product_CN = _turned(self._rows @ _turned(vectors_CV))
        product_CN -= _dots(vectors_CV, self.offset_V)[:, None]
        return product_CN

    def transposed_product(self, vectors_CN: Array) -> Array:
        """Return ``(C, V)``, (X − 1 m)ᵀ v for each vector v."""
        product_CV = _turned(self._rows.T @ _turned(vectors_CN))
        product_CV -= _dots(vectors_CN, self._ones_N)[:, None] * self.offset_V
        return product_CV


def _primal(x: _Centred, y_NC: Array) -> Array:
    """Return the weights ``(C, V)``, solutions of (XᵀX + 1) w = Xᵀy."""
    right_CV = x.transposed_product(y_NC.T)
    return _solve(lambda w_CV: x.transposed_product(x.product(w_CV)) + _PENALTY * w_CV, right_CV)


def _dual(x: _Centred, y_NC: Array) -> Array:
    """Return the weights ``(C, V)``, Xᵀa with the solutions of (X Xᵀ + 1) a = y."""
    right_CN = np.ascontiguousarray(y_NC.T)
    a_CN = _solve(lambda a_CN: x.product(x.transposed_product(a_CN)) + _PENALTY * a_CN, right_CN)
    return x.transposed_product(a_CN)


def _solve(apply: Callable[[Array], Array], right_CM: Array) -> Array:
    """Return the solutions of A s = r for each row r of `right_CM`, with `apply` for s → A s."""
    solution_CM = np.zeros_like(right_CM)
    residuals, directions = right_CM.copy(), right_CM.copy()
    squares = _dots(residuals, residuals)
    limits = (_TOLERANCE * np.sqrt(squares).astype(np.float64)).astype(squares.dtype)
    targets = np.arange(len(right_CM))
    for _ in range(_STEPS_PER_ROW * right_CM.shape[1]):
        unsolved = (np.sqrt(squares) >= limits[targets]) & (squares > 0)
        if not unsolved.all():
            targets, residuals, directions, squares = (
                part[unsolved] for part in (targets, residuals, directions, squares)
            )
        if not len(targets):
            break
        images = apply(directions)
        steps = (squares / _dots(directions, images))[:, None]
        solution_CM[targets] += steps * directions
        residuals -= steps * images
        previous, squares = squares, _dots(residuals, residuals)
        directions *= (squares / previous)[:, None]
        directions += residuals
    return solution_CM


def _dots(a_CM: Array, b: Array) -> Array:
    """Return the dot product of each row of `a_CM` with that of `b`, or with `b`, a vector."""
    others = b if b.ndim > 1 else [b] * len(a_CM)
    dots = [row.dot(other) for row, other in zip(a_CM, others, strict=True)]
    return np.array(dots, dtype=a_CM.dtype)


def _turned(a: Array) -> Array:
    """Return aᵀ as a contiguous copy, which takes a third of the time if made of small parts."""
    turned = np.empty(a.shape[::-1], dtype=a.dtype)
    for start in range(0, len(a), _BLOCK):
        turned[:, start : start + _BLOCK] = a[start : start + _BLOCK].T
    return turned


# Support vector machines
#
# With many classes of short texts they predict better than ridge regression and naive Bayes do.


def fit_svm(rows: Any, classes: Floats, seed: int) -> LinearMap:
    """Fit a support vector machine for each class of `classes`, float[N, C], which may be soft.

    A row counts as one of its likeliest class, with the probability of that class as its weight.
    Rows must be of two classes or more. Returns weights ``(V, C)`` and biases ``(C,)``.
    """
    from sklearn.svm import LinearSVC  # noqa: PLC0415 - takes a second

    model = LinearSVC(dual="auto", random_state=seed)
    with warnings.catch_warnings():
        # With about as many classes as rows, scikit-learn suspects a regression.
        warnings.filterwarnings("ignore", "The number of unique classes is greater", UserWarning)
        model.fit(rows, classes.argmax(axis=1), sample_weight=classes.max(axis=1))
    # A class without a document scores as a class that a document is certainly not of.
    return linear_class_map(model, classes.shape[1], absent=-1, binary_scale=1)


def linear_class_map(
    model: Any, n_classes: int, *, absent: float, binary_scale: float
) -> LinearMap:
    """Return the weights ``(F, C)`` and biases ``(C,)`` of a linear classifier of scikit-learn.

    Classes that it has not seen score `absent` everywhere. A binary classifier has one decision
    function d; its second class scores `binary_scale` · d and its first −`binary_scale` · d.
    """
    coefficients, offsets = model.coef_, model.intercept_
    if len(model.classes_) == 2:
        scales = np.array([-binary_scale, binary_scale], dtype=coefficients.dtype)
        coefficients, offsets = scales[:, None] * coefficients, scales * offsets
    weight = np.zeros((coefficients.shape[1], n_classes), dtype=coefficients.dtype)
    bias = np.full(n_classes, absent, dtype=offsets.dtype)
    weight[:, model.classes_], bias[model.classes_] = coefficients.T, offsets
    return LinearMap(weight, bias)


# Texts: classifiers that learn from each other
#
# Different classifiers err on different texts, so predictions on which they agree are worth
# learning from. With a tenth of the labels of 20 Newsgroups, ridge regression on terms or on
# directions is right on 76 of 100 posts, naive Bayes with EM on 82, and classifiers fitted to
# their predictions on 84.


_COTRAINING_ROUNDS = 3


def predict_texts(rows: Any, labelled: Rows, classes_LC: Floats, seed: int) -> Scores:
    """Return the distribution over classes of each text, ``float64[N, C]``.

    `rows` are weighted terms, a scipy matrix ``[N, V]``; `classes_LC` has the classes of the
    `labelled` rows. Three classifiers learn from the labelled rows: ridge regression on terms,
    ridge regression on the principal directions of all texts, and multinomial naive Bayes, which
    learns from the other rows too (:func:`expectation_maximization`). Their scores, standardized
    over the classes, are summed. Then ridge regression on terms and multinomial naive Bayes are
    fitted to the labels and predictions of all rows, in three rounds. The rounds are skipped if
    they make held-out labels, a fifth of the labelled rows, less likely.
    """
    directions = PrincipalDirections(rows, seed)
    held_out, training = hold_out_fifth(len(labelled), seed)

    def loss(probabilities: Scores) -> float:
        likely = probabilities[labelled[held_out]][classes_LC[held_out] > 0]
        return float(-np.log(likely).mean())

    trial = _rounds(rows, directions, labelled[training], classes_LC[training])
    first_loss, *_, last_loss = map(loss, trial)
    rounds = _rounds(rows, directions, labelled, classes_LC)
    first = next(rounds)
    if last_loss >= first_loss:
        return first
    *_, last = rounds
    return last


def hold_out_fifth(count: int, seed: int) -> tuple[Rows, Rows]:
    """Divide `count` positions at random; return a fifth of them to hold out, and the others."""
    order = np.random.default_rng(seed).permutation(count)
    return order[::5], np.delete(order, np.s_[::5])


def term_weights(rows: Any, classes_NC: Floats) -> Scores:
    """Return how much each term tells about the classes, ``[V]``.

    It is the Euclidean length of the term's weights for all classes in ridge regression.
    """
    return np.asarray(np.linalg.norm(fit_ridge(rows, classes_NC).weight.T, axis=0))


def _rounds(
    rows: Any, directions: PrincipalDirections, labelled: Rows, classes: Floats
) -> Iterator[Scores]:
    """Yield predictions from the labelled rows, then those of each further round."""
    scores = _standardize(_direction_scores(directions, labelled, classes))
    scores += _standardize(fit_ridge(rows[labelled], classes)(rows))
    scores += _standardize(expectation_maximization(rows, labelled, classes))
    yield _probabilities(scores)
    for _ in range(_COTRAINING_ROUNDS):
        targets = _probabilities(scores)
        targets[labelled] = classes
        scores = _standardize(fit_ridge(rows, targets)(rows))
        scores += _standardize(rows @ multinomial_weights(rows, targets))
        yield _probabilities(scores)


def _direction_scores(directions: PrincipalDirections, labelled: Rows, classes: Floats) -> Floats:
    """Return the scores of all rows by ridge regression on directions, fitted to `labelled`."""
    from sklearn.linear_model import Ridge  # noqa: PLC0415 - takes a second
    from sklearn.preprocessing import normalize  # noqa: PLC0415

    model = Ridge(alpha=0.3).fit(normalize(directions.coordinates(labelled)), classes)
    slices = directions.slices()
    return np.concatenate([model.predict(normalize(directions.coordinates(at))) for at in slices])


def _probabilities(scores: Scores) -> Scores:
    return np.asarray(softmax(_standardize(scores), axis=1))


def _standardize(scores: Any) -> Scores:
    centred: Scores = np.asarray(scores, dtype=np.float64)
    centred = centred - centred.mean(axis=1, keepdims=True)
    # A text without known words scores the same for every class.
    return np.asarray(centred / np.maximum(centred.std(axis=1, keepdims=True), 1e-9))


# Vectors: linear classifiers of soft labels
#
# Both weigh all classes the same, however many documents they have. Queries are seldom
# distributed over the classes as documents are, and soft labels exaggerate how documents are
# distributed: a class of few labels gets fewer still.


_SHRINKAGE = 0.5
_INVERSE_REGULARIZATION = 3.0


def fit_discriminant(rows: Floats, classes: Array) -> LinearMap:
    """Fit linear discriminant analysis to `rows` x, ``(N, D)``, and `classes` p, ``(N, C)``.

    The mean of a class is μ_c = Σ_n p_nc x_n / Σ_n p_nc, and S = Σ_nc p_nc (x_n − μ_c)(x_n − μ_c)ᵀ
    / N the covariance within classes. With A = S / 2 + tr(S) / (2 D) · 1, class c scores
    ``xᵀ A⁻¹ μ_c − μ_cᵀ A⁻¹ μ_c / 2``, less the mean over the classes. A row of p sums to 1. A class
    without a document scores as low as any class of any row, so it is never predicted.

    Source: Friedman, "Regularized Discriminant Analysis" (1989), with γ = ½ and λ = 1.
    """
    seen = np.flatnonzero(classes.sum(axis=0) > 0)
    p_NC = np.asarray(classes[:, seen], dtype=np.float64)
    offset_D = rows.mean(axis=0, dtype=np.float64)
    x_ND = rows - offset_D
    sums_C = p_NC.sum(axis=0)
    means_CD = (p_NC.T @ x_ND) / sums_C[:, None]
    within_DD = (x_ND.T @ x_ND - (means_CD.T * sums_C) @ means_CD) / len(x_ND)
    mean_variance = np.trace(within_DD) / len(within_DD)
    # Rows that equal the mean of their class have no covariance.
    diagonal_DD = (_SHRINKAGE * mean_variance if mean_variance > 0 else 1.0) * np.eye(
        len(within_DD)
    )
    weight_DC = np.linalg.solve((1 - _SHRINKAGE) * within_DD + diagonal_DD, means_CD.T)
    bias_C = -(means_CD.T * weight_DC).sum(axis=0) / 2 - offset_D @ weight_DC
    return _of_all_classes(LinearMap(weight_DC, bias_C), rows, seen, classes.shape[1])


def fit_balanced_logistic(rows: Floats, classes: Array) -> LinearMap:
    """Fit logistic regression to the likeliest class of each row; `classes` is ``(N, C)``.

    A row counts with the probability of its class, divided by the sum for all rows of the class.
    The scores of a row have the mean 0. A class that is the likeliest of no row scores as low as
    any class of any row. Rows must be of two classes or more.
    """
    likeliest_N = classes.argmax(axis=1)
    weights_N = classes.max(axis=1).astype(np.float64)
    sums_C = np.bincount(likeliest_N, weights_N, minlength=classes.shape[1])
    seen = np.flatnonzero(sums_C > 0)
    weights_N *= len(rows) / len(seen) / sums_C[likeliest_N]
    scale = unit_scale(rows)
    model = fit_logistic(
        rows / scale,
        np.searchsorted(seen, likeliest_N),
        inverse_regularization=_INVERSE_REGULARIZATION,
        weights=weights_N,
    )
    weight, bias = linear_class_map(model, len(seen), absent=0, binary_scale=0.5)
    return _of_all_classes(LinearMap(weight / scale, bias), rows, seen, classes.shape[1])


def _of_all_classes(seen_map: LinearMap, rows: Floats, seen: Array, n_classes: int) -> LinearMap:
    """Return `seen_map`, centred over its classes `seen`, as a map to `n_classes`."""
    weight = seen_map.weight - seen_map.weight.mean(axis=1, keepdims=True)
    centred = LinearMap(weight, seen_map.bias - seen_map.bias.mean())
    if len(seen) == n_classes:
        return centred
    weight_DC = np.zeros((len(weight), n_classes))
    bias_C = np.full(n_classes, centred(rows).min())
    weight_DC[:, seen], bias_C[seen] = centred.weight, centred.bias
    return LinearMap(weight_DC, bias_C)


# Label spreading: documents take classes from their nearest neighbours


_SPREADING_STEPS = 30

# From this number on, comparing all pairs of documents takes longer than training.
_MANY = 100_000


def smoothing_matrix(vectors: Floats, neighbours: int = 10) -> Any:
    """Return S = D^-½ W D^-½ of N `vectors` as a sparse matrix ``(N, N)``.

    W is the graph of the `neighbours` nearest neighbours by cosine, made symmetric; the weight of
    an edge is the fourth power of the cosine, and D is the diagonal of row sums. With 100,000
    documents or more, the search is approximate and misses a few neighbours; see :func:`_index`.
    """
    return _normalize(_neighbour_graph(vectors, neighbours))


def spread_labels(smoothing: Any, start_NC: Scores, share: float) -> Scores:
    """Return Σ_t (1 − α) αᵗ Sᵗ Y, the scores of each document for each class, ``(N, C)``.

    S is `smoothing`, a :func:`smoothing_matrix`. Y is `start_NC`, the known or estimated classes of
    each document, and α the `share` that a document takes from its neighbours at every step. The
    sum is truncated after 30 terms; with α = .9, where it is largest here, the scores still change
    by a few hundredths at most.

    Source: Zhou, Bousquet, Lal, Weston and Schölkopf, "Learning with Local and Global Consistency"
    (2004).
    """
    scores_NC = start_NC
    for _ in range(_SPREADING_STEPS):
        scores_NC = share * (smoothing @ scores_NC) + (1 - share) * start_NC
    return scores_NC


def _neighbour_graph(vectors: Floats, neighbours: int) -> Any:
    """Return the symmetric matrix of edge weights, CSR ``(N, N)``, without loops."""
    from scipy.sparse import csr_array  # noqa: PLC0415 - only soft labels of vectors need it

    rows = len(vectors)
    unit = unit_rows(vectors)
    # One more, since each document finds itself or a copy of itself.
    cosines, neighbour_rows = _index(unit).search(unit, min(neighbours + 1, rows))
    source, target = np.repeat(np.arange(rows), neighbour_rows.shape[1]), neighbour_rows.ravel()
    weights = np.maximum(cosines.ravel(), 0).astype(np.float64) ** 4
    # The target is -1 if the searched cells hold too few documents.
    others = (source != target) & (target >= 0)
    graph = csr_array(
        (weights[others], (source[others], target[others])), shape=(rows, rows), dtype=np.float64
    )
    return graph.maximum(graph.T)


def _index(unit: Floats) -> Any:
    """Return a faiss index that finds the rows with the largest inner products.

    From 100,000 rows on, rows are sorted into cells, four times the square root of their number,
    and a search covers only the 16 cells nearest to a row.
    """
    import faiss  # noqa: PLC0415

    rows, dimension = unit.shape
    index: Any
    if rows < _MANY:
        index = faiss.IndexFlatIP(dimension)
    else:
        cells = int(4 * np.sqrt(rows))
        cosine = faiss.METRIC_INNER_PRODUCT
        index = faiss.index_factory(dimension, f"IVF{cells},Flat", cosine)
        index.nprobe = 16
        # A sample is enough to compute the centres of the cells.
        index.train(unit[:: max(1, rows // (40 * cells))])
    index.add(unit)
    return index


def _normalize(graph: Any) -> Any:
    """Return D^-½ W D^-½; a document without neighbours has a row of zeros."""
    from scipy.sparse import diags_array  # noqa: PLC0415

    degrees = np.asarray(graph.sum(axis=1)).ravel()
    scale = diags_array(1 / np.sqrt(np.where(degrees > 0, degrees, 1)))
    return scale @ graph @ scale


# The estimation


# What vectors take from their neighbours: most at first, where few are known.
_FIRST_SHARE, _SHARE = 0.9, 0.7
_ESTIMATION_ROUNDS = 2
# The mean deviation of a vector's scores over the classes, before the softmax. They are spread
# afterwards, which makes them softer.
_SHARPNESS = 4.0


def estimate_soft_labels(rows: Any, tags_NC: Tags, seed: int) -> Floats:
    """Return the distribution over classes of each document, ``float32[N, C]``.

    `rows` are features ``[N, F]``, a scipy matrix for texts or an array for vectors. `tags_NC` has
    the training labels, of two classes or more. A document of m labels has probability 1/m for each
    of them. Classifiers that are fitted to the labelled documents predict the classes of the
    others: of texts by :func:`predict_texts`. For vectors it is logistic regression, which learns
    the first of several labels; its probabilities are spread to the nearest neighbours. Twice,
    linear discriminant analysis then learns from these soft labels, and its own are spread. For
    vectors beside words it is :func:`pool` of both predictions, which err on different documents.
    """
    labelled = np.flatnonzero(tags_NC.any(axis=1))
    known_NC = tags_NC.astype(np.float32)
    known_NC /= np.maximum(known_NC.sum(axis=1, keepdims=True), 1)
    if len(labelled) == len(tags_NC):
        return known_NC
    # Classes without a labelled document are never predicted.
    seen = np.flatnonzero(tags_NC[labelled].any(axis=0))
    soft_NC = np.zeros_like(known_NC)
    soft_NC[:, seen] = _predict(rows, labelled, known_NC[labelled][:, seen], seed)
    soft_NC[labelled] = known_NC[labelled]
    return soft_NC


def _predict(rows: Any, labelled: Rows, classes: Floats, seed: int) -> Scores:
    if isinstance(rows, JointRows):
        parts = (rows.vectors, rows.words)
        return pool(*(_predict(part, labelled, classes, seed) for part in parts))
    if isinstance(rows, np.ndarray):
        return _predict_vectors(rows, labelled, classes)
    return predict_texts(rows, labelled, classes, seed)


# What a distribution says of a class is certain to a ten-thousandth at best.
_LEAST_PROBABILITY = 1e-4


def pool(first_NC: Scores, second_NC: Scores) -> Scores:
    """Return the logarithmic opinion pool of two distributions a row, ``√(p q) / Σ √(p q)``.

    Source: Genest and Zidek, "Combining Probability Distributions" (1986).
    """
    product_NC = (first_NC + _LEAST_PROBABILITY) * (second_NC + _LEAST_PROBABILITY)
    root_NC = np.sqrt(product_NC)
    return np.asarray(root_NC / root_NC.sum(axis=1, keepdims=True))


def _predict_vectors(rows: Floats, labelled: Rows, classes: Floats) -> Scores:
    # A class that only accompanies earlier ones is the first of no document.
    first = classes.argmax(axis=1)
    probabilities = np.zeros((len(rows), classes.shape[1]))
    if (first == first[0]).all():
        probabilities[:, first[0]] = 1
    else:
        scale = unit_scale(rows)
        model = fit_logistic(rows[labelled] / scale, first)
        probabilities[:, model.classes_] = model.predict_proba(rows / scale)
    smoothing = smoothing_matrix(rows)

    def spread(probabilities: Scores, share: float) -> Scores:
        start = probabilities.copy()
        start[labelled] = classes
        scores = spread_labels(smoothing, start, share)
        soft_labels = np.asarray(scores / scores.sum(axis=1, keepdims=True))
        soft_labels[labelled] = classes
        return soft_labels

    soft_labels = spread(probabilities, _FIRST_SHARE)
    for _ in range(_ESTIMATION_ROUNDS):
        scores = fit_discriminant(rows, soft_labels)(rows)
        size = scores.std(axis=1).mean() or 1.0
        soft_labels = spread(softmax(scores * (_SHARPNESS / size), axis=1), _SHARE)
    return soft_labels


# The classifier beside an encoder, fitted to the same soft labels and features


# The share of held-out texts that support vector machines must have right beyond those of ridge
# regression to take its place. A random fifth is more like the other texts than queries are, so a
# smaller gain says little about queries.
_LEAST_GAIN = 0.02


def fit_classifier(
    features: Features, inputs: Inputs, tags: Tags, soft_labels: Floats | None, seed: int
) -> Classifier | None:
    """Fit a classifier to the training documents.

    `tags`, bool[N, C], has the training labels of the `inputs`. `soft_labels`, float32[N, C], are
    the distributions over classes that the encoder learned from. For a method without soft labels
    they are estimated from the training labels (:func:`estimate_soft_labels`). Texts are classified
    by the sum of the standardized scores of ridge regression and multinomial naive Bayes, which
    with a tenth of Snippets' labels predicts better than logistic regression of any strength.
    Support vector machines take the place of ridge regression if that makes .02 more of a fifth of
    the labelled texts right, held out; with many classes it often does. Vectors are classified by
    :func:`fit_vectors`. Returns None for matrices, for vectors of several classes, for labels of
    fewer than two classes, and if all labelled documents have the same labels.
    """
    if isinstance(features, SpdFeatures) or len(np.unique(tags[tags.any(axis=1)], axis=0)) < 2:
        return None
    if not isinstance(features, TextFeatures) and bool((tags.sum(axis=1) > 1).any()):
        return None
    rows: Any = features.transform(inputs)  # type: ignore[arg-type]
    targets = estimate_soft_labels(rows, tags, seed) if soft_labels is None else soft_labels
    if isinstance(rows, np.ndarray):
        return fit_vectors(rows, targets)
    return _fit_texts(rows, targets, seed if _svm_is_better(rows, tags, seed) else None)


def _svm_is_better(rows: Any, tags: Tags, seed: int) -> bool:
    """Return whether support vector machines predict a held-out fifth of the labels better."""
    labelled = np.flatnonzero(tags.any(axis=1))
    held_out, known = (labelled[positions] for positions in hold_out_fifth(len(labelled), seed))
    if len(np.unique(tags[known].argmax(axis=1))) < 2:
        return False

    def accuracy(svm_seed: int | None) -> float:
        classifier = _fit_texts(rows[known], tags[known].astype(np.float32), svm_seed)
        return float(tags[held_out, classifier.predict(rows[held_out])].mean())

    return accuracy(seed) > accuracy(None) + _LEAST_GAIN


def _fit_texts(rows: Any, targets: Floats, svm_seed: int | None) -> Classifier:
    """Return the sum of naive Bayes and of support vector machines or, without seed, of ridge."""
    used = np.unique(rows.indices)
    linear = (
        fit_ridge(rows[:, used], targets)
        if svm_seed is None
        else fit_svm(rows[:, used], targets, svm_seed)
    )
    # Of the terms of an encoder that ships, a corpus has few; the others have weights of 0.
    weight = np.zeros((rows.shape[1], targets.shape[1]), dtype=linear.weight.dtype)
    weight[used] = linear.weight
    linear = LinearMap(weight, linear.bias)
    return _sum_of(
        linear, LinearMap(multinomial_weights(rows, targets), np.zeros(targets.shape[1]))
    )


def fit_vectors(rows: Floats, targets: Floats) -> Classifier:
    """Return the sum of linear discriminant analysis and logistic regression, of one size each.

    `rows` are vectors ``(N, D)`` and `targets` distributions over two classes or more, ``(N, C)``.
    """
    return _sum_of(fit_discriminant(rows, targets), fit_balanced_logistic(rows, targets))


def _sum_of(*maps: LinearMap) -> Classifier:
    """Return the classifier that sums the standardized scores of `maps`."""
    weights, biases = zip(*maps, strict=True)
    return Classifier(tuple(map(_float32, weights)), tuple(map(_float32, biases)))


def _float32(array: Any) -> Floats:
    return np.ascontiguousarray(array, dtype=np.float32)
