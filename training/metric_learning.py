"""Train an encoder from similarities of documents: ``hummingbit train metric``.

:data:`OBJECTIVES` are the losses by name, and :mod:`hummingbit.training.similarities` provides the
similarities.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from hummingbit.corpus.lines import ReadError
from hummingbit.encoder.artifact import check_destination
from hummingbit.encoder.encoder import Features
from hummingbit.encoder.recipes import (
    AFFINE_INVARIANT,
    BETA_BERNOULLI,
    CODES,
    FUNCTION,
    GAUSSIAN_MIXTURE,
    PAIRS,
    REGRESSION,
    WITHOUT_LABELS,
    MetricRecipe,
)
from hummingbit.foundation.errors import InputError
from hummingbit.training.batches import SparseBatch, TrainingInputs
from hummingbit.training.data import Rows, Tags, TrainingData, TrainingDataError
from hummingbit.training.generative_models import (
    BetaBernoulli,
    GaussianMixture,
    GenerativeModel,
)
from hummingbit.training.loop import Schedule, fit_and_write
from hummingbit.training.networks import EncoderNetwork, Shape, to_encoder
from hummingbit.training.objectives.continuous_histogram import continuous_histogram_loss
from hummingbit.training.objectives.dissimilarity import cosine_distance
from hummingbit.training.objectives.generative_similarity import (
    kernel_pair_loss,
    kernel_triplet_loss,
    regression_loss,
)
from hummingbit.training.objectives.riemannian_potato import EUCLIDEAN, Ranking, RiemannianPotato
from hummingbit.training.pipeline import (
    Split,
    Trained,
    check_labels,
    choose_features,
    one_blas_thread,
    split,
)
from hummingbit.training.similarities import (
    LabelledPairs,
    LabelTree,
    ListedPairs,
    Pairs,
    PairSource,
    SimilarityFunction,
    Table,
    TreeHierarchy,
    dotted_tree,
    equal_classes,
    function_pairs,
    generative_pairs,
    graded_classes,
    read_pairs,
    read_tree,
)
from hummingbit.training.teachers import TeacherError, read_teacher

if TYPE_CHECKING:
    from hummingbit.training.spd import SpdNetwork


# The objectives
#
# An objective computes a loss from the relaxed codes of a batch, its pairs and their
# similarities. It is a module of the trained network, so its parameters and buffers are trained
# and saved in checkpoints.


# Chosen on held-out documents of 20 Newsgroups and hdm05 (experiments/LAB_BOOK.md).
LEARNING_RATE = 1e-3
WORD_DROPOUT = 0.25
"""The mean share of a document's words that are left out of the input."""
BINS = SIMILARITY_BINS = 100
"""The nodes of the histogram over distances (the paper's R) and over similarities."""
TEMPERATURE = 0.1
"""The distance that makes a triplet e times as probable."""
POTATO_THRESHOLD, POTATO_MARGIN, POTATO_RATE = -1.0, 6.0, 0.2
"""z_th, m and β: the deviations within which a class should stay, the further ones beyond which
others should, and how fast means and deviations follow the batches."""

# In units of the distance of PotatoRanking, the root of a share of bits: about a tenth of the bits.
# Classes that are closer than that gain little by shrinking further.
SOFTNESS = 0.3


@dataclass(frozen=True)
class MetricBatch:
    """A batch of N documents: relaxed codes, labels, and M pairs with similarities.

    `u_NB` is between −1 and 1, and its signs are the bits. `first_M` and `second_M` are the rows of
    the pairs in the batch. `similarity_M` is from 0 to 1 and has at least two values.
    `matrices_Nmm` are those of the last SPD layer, if the documents are matrices.
    """

    u_NB: Tensor
    tags_NC: Tensor
    first_M: Tensor
    second_M: Tensor
    similarity_M: Tensor
    matrices_Nmm: Tensor | None = None

    def all_distances(self) -> Tensor:
        """Return the distances of all documents, ``float[N, N]`` from 0 to 1.

        For codes of ±1 they are shares of differing bits. The cosine does not depend on the size of
        the logits, so its gradient is as strong while logits are still small.
        """
        return cosine_distance(self.u_NB)

    def distances(self) -> Tensor:
        """Return the distance of each pair, ``float[M]`` from 0 to 1."""
        return self.all_distances()[self.first_M, self.second_M]


class ContinuousHistogram(nn.Module):
    """:func:`continuous_histogram_loss` of the pairs of a batch."""

    def __init__(self, recipe: MetricRecipe, *_: object) -> None:
        super().__init__()
        self._recipe = recipe

    def forward(self, batch: MetricBatch) -> Tensor:
        """Return the loss of a batch, a scalar."""
        return continuous_histogram_loss(
            batch.distances(),
            batch.similarity_M,
            bins=BINS,
            similarity_bins=SIMILARITY_BINS,
            balance=self._recipe.balance,
        )


class GenerativeSimilarity(nn.Module):
    """Similarities S of codes that follow the similarities of a batch's pairs.

    With the contrast "regression", S = 1 − distance is fitted to them: :func:`regression_loss`, the
    paper's Equation 2. Otherwise triplets are weighted by them, with S = −distance / temperature.

    It is :func:`kernel_triplet_loss` if the batch has all pairs of its documents, and otherwise
    :func:`kernel_pair_loss` of the pairs that it has.
    """

    def __init__(self, recipe: MetricRecipe, *_: object) -> None:
        super().__init__()
        self._contrast = recipe.contrast

    def forward(self, batch: MetricBatch) -> Tensor:
        """Return the loss of a batch, a scalar."""
        if self._contrast == REGRESSION:
            return regression_loss(1 - batch.distances(), batch.similarity_M)
        n = len(batch.u_NB)
        if len(batch.first_M) < n * (n - 1) // 2 or n < 3:
            s_M = -batch.distances() / TEMPERATURE
            return kernel_pair_loss(s_M, batch.similarity_M, contrast=self._contrast)
        kernel_NN = batch.similarity_M.new_zeros((n, n))
        kernel_NN[batch.first_M, batch.second_M] = batch.similarity_M
        kernel_NN[batch.second_M, batch.first_M] = batch.similarity_M
        s_NN = -batch.all_distances() / TEMPERATURE
        return kernel_triplet_loss(s_NN, kernel_NN, contrast=self._contrast)


class PotatoRanking(nn.Module):
    """:class:`RiemannianPotato` of relaxed codes at distances ‖u − v‖ / √(4 B).

    For codes of ±1 this is the root of the share of differing bits. The geometric z-score is the
    same for a distance and its square, so the potato ranks by the Hamming distance.

    With a `potato_geometry` of matrices, the loss is the sum of this potato and of that of the
    matrices of the last SPD layer, with affine-invariant distances or those of their logarithms.
    """

    def __init__(self, recipe: MetricRecipe, classes: int, matrix_order: int | None) -> None:
        super().__init__()
        ranking = Ranking(POTATO_THRESHOLD, POTATO_MARGIN, recipe.potato_balance)
        self._codes = RiemannianPotato(
            classes,
            (recipe.n_bits,),
            EUCLIDEAN,
            ranking,
            rate=POTATO_RATE,
            softness=SOFTNESS,
        )
        self._matrices: RiemannianPotato | None = None
        self._points: Callable[[Tensor], Tensor] = lambda x: x
        if recipe.potato_geometry == CODES:
            return
        if matrix_order is None:
            raise TrainingDataError(
                f"potato_geometry is {recipe.potato_geometry!r}, which needs documents that are"
                f" matrices; for others it must be {CODES!r}"
            )
        from hummingbit.training import spd  # noqa: PLC0415 - takes a second

        shape: tuple[int, ...]
        if recipe.potato_geometry == AFFINE_INVARIANT:
            geometry, shape = spd.AFFINE_INVARIANT, (matrix_order, matrix_order)
        else:
            geometry, shape = EUCLIDEAN, (matrix_order * (matrix_order + 1) // 2,)
            self._points = lambda x: spd.half_vectors(spd.matrix_logarithm(x, spd.FLOOR))
        self._matrices = RiemannianPotato(classes, shape, geometry, ranking, rate=POTATO_RATE)

    def forward(self, batch: MetricBatch) -> Tensor:
        """Return the loss of a batch, a scalar."""
        if not bool(batch.tags_NC.any()):
            raise ValueError("label: no document of the batch has one; potatoes need classes")
        scaled_NB = batch.u_NB / (4 * batch.u_NB.shape[1]) ** 0.5
        loss: Tensor = self._codes(scaled_NB, batch.tags_NC)
        if self._matrices is None or batch.matrices_Nmm is None:
            return loss
        of_matrices: Tensor = self._matrices(self._points(batch.matrices_Nmm), batch.tags_NC)
        return loss + of_matrices


OBJECTIVES: Mapping[str, Callable[[MetricRecipe, int, int | None], nn.Module]] = {
    "continuous-histogram": ContinuousHistogram,
    "generative-similarity": GenerativeSimilarity,
    "riemannian-potato": PotatoRanking,
}
"""The constructor of each objective of :data:`hummingbit.encoder.recipes.METRIC_OBJECTIVES`.

It takes the recipe, the number of classes, and the rows of the matrices of the last SPD layer, if
the documents are matrices.
"""


# The run


@one_blas_thread()
def train_metric(
    data: TrainingData,
    recipe: MetricRecipe,
    out: Path,
    *,
    similarity_file: Path | None = None,
    similarity_function: SimilarityFunction | None = None,
    overwrite: bool = False,
    progress: bool = True,
) -> Trained:
    """Train on `data` and write the encoder to `out`.

    `similarity_file` holds the pairs; the tree of labels, if it is not the tree of their dotted
    names; or, for a generative model, the features by id, if they are not the
    documents' vectors. `similarity_function` is that of the similarity "function". An interrupted
    run resumes from the checkpoint beside `out`.

    Raises:
        TrainingDataError: if there are too few documents or their labels do not fit the similarity,
            if `similarity_file` is not valid, missing or not needed, or if all pairs of a batch are
            equally similar.
        ArtifactError: if `out` exists and `overwrite` is false.
        CheckpointError: if a checkpoint of another run lies beside `out`.
    """
    check_destination(out, overwrite=overwrite)
    settings = run_settings(recipe, similarity_file)
    parts = split(data, recipe)
    if recipe.similarity in WITHOUT_LABELS:
        # Labels are then used only for the evaluation.
        parts = replace(parts, visible_tags=np.zeros_like(parts.visible_tags))
    source = pair_source(data, parts, recipe, similarity_file, similarity_function)
    torch.manual_seed(recipe.seed)
    spd = build_spd_network(data, parts.training, recipe) if data.are_matrices else None
    features = (
        choose_features(data, parts.training, recipe.max_terms, analyzer=recipe.analyzer)
        if spd is None
        else spd.features()
    )
    network = build_network(recipe, features, len(data.classes), spd)
    inputs = TrainingInputs(features, data.inputs)
    loss = MetricLoss(network, recipe, inputs, parts.visible_tags, source)
    return fit_and_write(
        out,
        network,
        loss,
        rows=len(source),
        schedule=Schedule(recipe.epochs, recipe.batch_size, LEARNING_RATE, recipe.seed),
        data=data,
        parts=parts,
        recipe=recipe,
        # The features of matrices are those of the fitted layers.
        encoder_of=lambda: to_encoder(network.encoder, features if spd is None else spd.features()),
        settings=settings,
        overwrite=overwrite,
        progress=progress,
    )


def run_settings(recipe: MetricRecipe, similarity_file: Path | None = None) -> dict[str, Any]:
    """Return the recipe as an encoder records it, with the hash of `similarity_file`.

    Raises:
        TrainingDataError: if the file cannot be read, is missing or is not needed.
    """
    settings = asdict(recipe)
    if similarity_file is None:
        if recipe.similarity == PAIRS:
            raise TrainingDataError("similarity_file: similarity by pairs needs a file of pairs")
        return settings
    if recipe.similarity in {"labels", "graded", FUNCTION}:
        message = f"similarity by {recipe.similarity} takes no file; leave out {similarity_file}"
        raise TrainingDataError(f"similarity_file: {message}")
    try:
        raw = similarity_file.read_bytes()
    except OSError as error:
        raise TrainingDataError(f"{similarity_file}: {error.strerror or error}") from None
    return {**settings, "similarity_sha256": hashlib.sha256(raw).hexdigest()}


def pair_source(
    data: TrainingData,
    parts: Split,
    recipe: MetricRecipe,
    similarity_file: Path | None,
    similarity_function: SimilarityFunction | None = None,
) -> PairSource:
    """Return the source of a recipe's batches: labelled documents, documents, or pairs of a file.

    Raises:
        TrainingDataError: as :func:`train_metric`.
    """
    if (recipe.similarity == FUNCTION) != (similarity_function is not None):
        raise TrainingDataError(
            f"similarity is {recipe.similarity!r}; {FUNCTION!r} and similarity_function go together"
        )
    if similarity_function is not None:
        return function_pairs(parts.training, data.ids, similarity_function)
    if recipe.similarity in {BETA_BERNOULLI, GAUSSIAN_MIXTURE}:
        features = example_features(data, similarity_file)
        model = generative_model(recipe, features[parts.training])
        return generative_pairs(parts.training, model, features)
    if recipe.similarity == PAIRS and similarity_file:
        pairs = read_pairs(similarity_file, data.ids)
        in_training = np.zeros(len(data), dtype=np.bool_)
        in_training[parts.training] = True
        keep = in_training[pairs.first] & in_training[pairs.second]
        return ListedPairs(Pairs(pairs.first[keep], pairs.second[keep], pairs.similarity[keep]))
    check_labels(data, parts, recipe.validation_share)
    if recipe.similarity == "labels":
        table = equal_classes(data.classes)
    elif recipe.similarity == "graded":
        table = graded_classes(data.classes)
    elif similarity_file is None:
        table = tree_similarities(dotted_tree(data.classes), data.classes, recipe.objective)
    else:
        tree = read_tree(similarity_file)
        tree.check_holds(data.classes)
        table = tree_similarities(tree, data.classes, recipe.objective)
    return LabelledPairs(parts.visible_tags, table)


def example_features(data: TrainingData, path: Path | None) -> NDArray[np.float64]:
    """Return the features of each document, ``float64[N, F]``: by id in a file, or its vector.

    Raises:
        TrainingDataError: if there is no file and the documents are not vectors, or the file cannot
            be read or lacks a document.
    """
    if path is not None:
        try:
            return np.asarray(read_teacher(str(path), data).vectors, dtype=np.float64)
        except (TeacherError, ReadError) as error:
            raise TrainingDataError(f"similarity_file: {error}") from None
    if data.is_text:
        raise TrainingDataError(
            "similarity_file: the documents are texts; name a file of their features by id (.npz,"
            " .parquet)"
        )
    return np.asarray(data.inputs, dtype=np.float64)


def generative_model(recipe: MetricRecipe, features: NDArray[np.float64]) -> GenerativeModel:
    """Return the model of a recipe; a Gaussian mixture is fitted to `features`, ``[N, F]``.

    Its means and weights are those of sklearn's mixture with spherical covariances, and its
    variance is their mean, weighted, as all components of the paper's mixture have the same.

    Raises:
        TrainingDataError: if features of "beta-bernoulli" are not 0 or 1, or there are fewer
            documents than components.
    """
    if recipe.similarity == BETA_BERNOULLI:
        wrong = features[(features != 0) & (features != 1)]
        if len(wrong):
            raise TrainingDataError(
                f"similarity: a feature is {wrong[0]:g}; those of {BETA_BERNOULLI} must be 0 or 1"
            )
        return BetaBernoulli(features.shape[1], recipe.alpha, recipe.beta)
    if len(features) < recipe.components:
        found = f"components is {recipe.components}"
        raise TrainingDataError(
            f"{found}; it must be at most the number of documents, {len(features)}"
        )
    from sklearn import mixture  # noqa: PLC0415 - takes a second

    fitted = mixture.GaussianMixture(
        recipe.components, covariance_type="spherical", random_state=recipe.seed % 2**32
    ).fit(features)
    variance = float(fitted.weights_ @ fitted.covariances_)
    return GaussianMixture(fitted.means_, variance**0.5, list(fitted.weights_))


def tree_similarities(tree: LabelTree, classes: Sequence[str], objective: str) -> Table:
    """Return the similarities of classes in a tree for an objective, ``float32[C, C]`` from 0 to 1.

    For generative-similarity it is s_gen, divided by its maximum. For any other objective it is the
    share of levels that two classes have in common.
    """
    if objective != "generative-similarity":
        return tree.similarities(classes)
    table_CC = TreeHierarchy(tree, classes).table()
    scaled_CC: Table = (table_CC / table_CC.max()).astype(np.float32)
    return scaled_CC


class MetricNetwork(nn.Module):
    """The network that makes codes, with the objective and its parameters."""

    def __init__(
        self, encoder: EncoderNetwork, objective: nn.Module, spd: SpdNetwork | None = None
    ) -> None:
        super().__init__()
        self.encoder, self.objective, self.spd = encoder, objective, spd

    def logits(self, x: SparseBatch | Tensor) -> Tensor:
        """Return the logits ``(N, B)`` of features, or of matrices ``(N, n, n)``."""
        if self.spd is not None and isinstance(x, Tensor):
            x = self.spd.vectors(x).float()
        logits_NB: Tensor = self.encoder(x)[1]
        return logits_NB

    def matrices(self, x: SparseBatch | Tensor) -> Tensor | None:
        """Return the matrices ``(N, m, m)`` of the last SPD layer, if there is one."""
        if self.spd is None or not isinstance(x, Tensor):
            return None
        matrices_Nmm: Tensor = self.spd(x)
        return matrices_Nmm


def build_spd_network(data: TrainingData, training: Rows, recipe: MetricRecipe) -> SpdNetwork:
    """Return SPD layers for documents that are matrices, centred at the mean of `training` rows.

    Raises:
        TrainingDataError: if a matrix is not positive definite.
    """
    from hummingbit.training.spd import matrices_of, spd_network, whitening  # noqa: PLC0415 - slow

    try:
        matrices = matrices_of(np.asarray(data.take(training)))
    except InputError as error:
        raise TrainingDataError(str(error)) from None
    return spd_network(whitening(matrices), recipe.spd_order)


def build_network(
    recipe: MetricRecipe, features: Features, classes: int, spd: SpdNetwork | None = None
) -> MetricNetwork:
    """Return the network of a recipe, with weights drawn from torch's generator.

    `classes` is the number of classes, and `spd` the layers that come first for matrices.
    """
    objective = OBJECTIVES[recipe.objective](recipe, classes, None if spd is None else spd.order)
    network = EncoderNetwork(Shape.of(features, recipe.hidden, recipe.n_bits))
    return MetricNetwork(network, objective, spd)


class MetricLoss:
    """The loss terms of a recipe for batches of a :class:`PairSource`."""

    def __init__(
        self,
        network: MetricNetwork,
        recipe: MetricRecipe,
        inputs: TrainingInputs,
        tags: Tags,
        source: PairSource,
    ) -> None:
        self._network, self._recipe = network, recipe
        self._inputs, self._tags, self._source = inputs, tags, source

    def __call__(
        self,
        rows: Rows,
        generator: torch.Generator,
        progress: float,  # noqa: ARG002
    ) -> dict[str, Tensor]:
        """See :class:`hummingbit.training.loop.BatchLoss`; `rows` are items of the source."""
        documents, pairs = self._source.batch(rows)
        x, _ = self._inputs.batch(documents, WORD_DROPOUT, generator)
        u_NB = torch.tanh(self._network.logits(x) / 2)
        # The last batch of an epoch may be smaller, and its pairs equally similar.
        is_smaller = len(rows) < self._recipe.batch_size < len(self._source)
        is_uniform = pairs.spread <= 1 / (SIMILARITY_BINS - 1)
        skip = is_smaller and is_uniform
        matrices_Nmm = self._network.matrices(x) if self._recipe.potato_geometry != CODES else None
        loss = 0 * u_NB.sum() if skip else self._objective(u_NB, documents, pairs, matrices_Nmm)
        return {self._recipe.objective.replace("-", "_") + "_loss": loss}

    def _objective(
        self, u_NB: Tensor, documents: Rows, pairs: Pairs, matrices_Nmm: Tensor | None
    ) -> Tensor:
        if pairs.spread == 0:
            raise TrainingDataError(
                f"batch_size is {self._recipe.batch_size}, and all pairs of a batch are equally"
                " similar, as if of one class; use larger batches, or more frequent labels"
            )
        batch = MetricBatch(
            u_NB,
            torch.from_numpy(self._tags[documents]),
            torch.from_numpy(pairs.first),
            torch.from_numpy(pairs.second),
            torch.from_numpy(pairs.similarity),
            matrices_Nmm,
        )
        try:
            loss: Tensor = self._network.objective(batch)
        except ValueError as error:
            raise TrainingDataError(f"{self._recipe.objective}: {error}") from None
        return loss
