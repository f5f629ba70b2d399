"""From documents and how alike they are to an encoder: ``hummingbit train metric``.

An objective is an entry of :data:`OBJECTIVES`: it sees the relaxed codes of a batch, its pairs and
how alike they are, and says how far the codes are from what it asks. It is a module of the network
that is trained, so parameters and buffers of its own are learned and kept in checkpoints.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from encoder.artifact import check_place
from encoder.features import Features, TextFeatures
from training.checkpoint import Checkpoint
from training.data import Rows, Tags, TrainingData, TrainingDataError
from training.export import to_encoder
from training.inputs import TrainingInputs
from training.label_tree import dotted_tree, read_tree
from training.loop import Schedule, fit
from training.metric_recipe import MetricRecipe
from training.models import EncoderNetwork, Shape
from training.objectives.continuous_histogram import continuous_histogram_loss
from training.objectives.pair_distance import cosine_distance
from training.pipeline import (
    Split,
    Trained,
    check_labels,
    choose_features,
    split,
    with_median_thresholds,
    write_encoder,
)
from training.semi_supervised import UNIT_ROW_SCALE
from training.similarity import (
    LabelledPairs,
    ListedPairs,
    Pairs,
    PairSource,
    equal_classes,
    graded_classes,
    read_pairs,
)


@dataclass(frozen=True)
class MetricBatch:
    """What an objective sees of N documents: relaxed codes, labels and M pairs with similarities.

    `u_NB` lies between −1 and 1, its signs are the bits; `first_M` and `second_M` are the places
    of the pairs in the batch, `similarity_M` runs from 0 to 1 and holds two degrees at least.
    """

    u_NB: Tensor
    tags_NC: Tensor
    first_M: Tensor
    second_M: Tensor
    similarity_M: Tensor

    def distances(self) -> Tensor:
        """Return ½ (1 − cos) of each pair, ``float[M]`` from 0 to 1.

        Of codes of ±1 it is the share of bits in which they differ. Unlike the distance of the
        relaxed bits it does not depend on how sure the bits are, so that a network whose logits are
        still small is told of its mistakes as loudly as one that has made up its mind.
        """
        return cosine_distance(self.u_NB)[self.first_M, self.second_M]


class ContinuousHistogram(nn.Module):
    """:func:`continuous_histogram_loss` of the pairs of a batch."""

    def __init__(self, recipe: MetricRecipe) -> None:
        super().__init__()
        self._recipe = recipe

    def forward(self, batch: MetricBatch) -> Tensor:
        """Return the loss of a batch, a scalar."""
        return continuous_histogram_loss(
            batch.distances(),
            batch.similarity_M,
            bins=self._recipe.bins,
            similarity_bins=self._recipe.similarity_bins,
            balance=self._recipe.balance,
        )


OBJECTIVES: Mapping[str, Callable[[MetricRecipe], nn.Module]] = {
    "continuous-histogram": ContinuousHistogram,
}
"""What makes each objective of :data:`training.metric_recipe.OBJECTIVES`."""


def train_metric(
    data: TrainingData,
    recipe: MetricRecipe,
    out: Path,
    *,
    similarity_file: Path | None = None,
    overwrite: bool = False,
    progress: bool = True,
) -> Trained:
    """Train on `data` and write the encoder to `out`.

    `similarity_file` holds the pairs, or the tree of labels where it is not that of their dotted
    names. A run that was broken off goes on from the checkpoint beside `out`.

    Raises:
        TrainingDataError: if the documents are too few or their labels do not fit the similarity,
            if `similarity_file` is not what it should be, missing or not needed, or a batch holds
            one degree of similarity only.
        ArtifactError: if `out` exists and `overwrite` is false.
        CheckpointError: if a checkpoint of another run lies beside `out`.
    """
    check_place(out, overwrite=overwrite)
    settings = run_settings(recipe, similarity_file)
    parts = split(data, recipe)
    if recipe.similarity == "pairs":
        # Labels then judge the outcome and have no part in it.
        parts = replace(parts, shown=np.zeros_like(parts.shown))
    source = pair_source(data, parts, recipe, similarity_file)
    features = choose_features(data, parts.training, recipe.max_terms, recipe.features)
    network = build_network(recipe, features)
    loss = MetricLoss(network, recipe, TrainingInputs(features, data.inputs), parts.shown, source)
    schedule = Schedule(recipe.epochs, recipe.batch_size, recipe.learning_rate, recipe.seed)
    run = json.dumps({"recipe": settings, "data": data.sha256}, sort_keys=True)
    checkpoint = Checkpoint(out.with_name(out.name + ".checkpoint"), run)
    history = fit(network, loss, len(source), schedule, checkpoint=checkpoint, progress=progress)
    encoder = to_encoder(network.encoder, features, metadata={})
    if recipe.threshold == "median":
        encoder = with_median_thresholds(encoder, data.take(parts.training))
    trained = write_encoder(
        out, encoder, data, parts, settings=settings, history=history, overwrite=overwrite
    )
    checkpoint.remove()
    return trained


def run_settings(recipe: MetricRecipe, similarity_file: Path | None = None) -> dict[str, Any]:
    """Return the recipe as an encoder keeps it: with the hash of the file that it depends on.

    Raises:
        TrainingDataError: if the file cannot be read, is missing or is not needed.
    """
    settings = asdict(recipe)
    if similarity_file is None:
        if recipe.similarity == "pairs":
            raise TrainingDataError("pairs: similarity by pairs needs a file of them")
        return settings
    if recipe.similarity not in {"hierarchy", "pairs"}:
        message = f"similarity is by {recipe.similarity}, which takes no file of it"
        raise TrainingDataError(f"{recipe.similarity}: {message}; {similarity_file} was given")
    try:
        raw = similarity_file.read_bytes()
    except OSError as error:
        raise TrainingDataError(f"{similarity_file}: {error.strerror or error}") from None
    return {**settings, "similarity_sha256": hashlib.sha256(raw).hexdigest()}


def pair_source(
    data: TrainingData, parts: Split, recipe: MetricRecipe, similarity_file: Path | None
) -> PairSource:
    """Return where the batches of a recipe come from: labelled documents, or pairs of a file.

    Raises:
        TrainingDataError: as :func:`train_metric`.
    """
    if recipe.similarity == "pairs" and similarity_file:
        pairs = read_pairs(similarity_file, data.ids)
        trained_on = np.zeros(len(data), dtype=np.bool_)
        trained_on[parts.training] = True
        kept = trained_on[pairs.first] & trained_on[pairs.second]
        return ListedPairs(Pairs(pairs.first[kept], pairs.second[kept], pairs.similarity[kept]))
    check_labels(data, parts)
    if recipe.similarity == "labels":
        table = equal_classes(data.classes)
    elif recipe.similarity == "graded":
        table = graded_classes(data.classes)
    elif similarity_file is None:
        table = dotted_tree(data.classes).similarities(data.classes)
    else:
        tree = read_tree(similarity_file)
        tree.check_holds(data.classes)
        table = tree.similarities(data.classes)
    return LabelledPairs(parts.shown, table)


class MetricNetwork(nn.Module):
    """The network that makes codes, and the objective with what it learns itself."""

    def __init__(self, encoder: EncoderNetwork, objective: nn.Module) -> None:
        super().__init__()
        self.encoder, self.objective = encoder, objective


def build_network(recipe: MetricRecipe, features: Features) -> MetricNetwork:
    """Return the network of a recipe, its weights drawn from the recipe's seed."""
    unit_rows = isinstance(features, TextFeatures) and features.l2_normalize
    shape = Shape(
        inputs=features.dimension,
        hidden=recipe.hidden,
        n_bits=recipe.n_bits,
        classes=1,
        text=isinstance(features, TextFeatures),
        input_scale=UNIT_ROW_SCALE if unit_rows else 1.0,
    )
    torch.manual_seed(recipe.seed)
    return MetricNetwork(EncoderNetwork(shape), OBJECTIVES[recipe.objective](recipe))


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
        """See :class:`training.loop.BatchLoss`; `rows` are units of the source."""
        documents, pairs = self._source.batch(rows)
        x, _ = self._inputs.batch(documents, self._recipe.word_dropout, generator)
        _, logits_NB = self._network.encoder(x)
        u_NB = torch.tanh(logits_NB / 2)
        # The last batch of an epoch holds what is left over; there may be nothing to compare.
        is_rest = len(rows) < self._recipe.batch_size < len(self._source)
        nothing = is_rest and pairs.spread <= 1 / (self._recipe.similarity_bins - 1)
        loss = 0 * u_NB.sum() if nothing else self._objective(u_NB, documents, pairs)
        return {self._recipe.objective.replace("-", "_") + "_loss": loss}

    def _objective(self, u_NB: Tensor, documents: Rows, pairs: Pairs) -> Tensor:
        if pairs.spread == 0:
            raise TrainingDataError(
                f"batch_size is {self._recipe.batch_size}, and all pairs of a batch are equally"
                " alike, as if of one class; take larger batches, or labels that are less rare"
            )
        batch = MetricBatch(
            u_NB,
            torch.from_numpy(self._tags[documents]),
            torch.from_numpy(pairs.first),
            torch.from_numpy(pairs.second),
            torch.from_numpy(pairs.similarity),
        )
        try:
            loss: Tensor = self._network.objective(batch)
        except ValueError as error:
            raise TrainingDataError(f"{self._recipe.objective}: {error}") from None
        return loss
