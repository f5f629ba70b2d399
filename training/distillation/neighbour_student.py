"""A student that finds what its teacher finds, and texts by their words.

``hummingbit distill --objective neighbours``. The student is one matrix from the words of a text to
logits, as that of ``train ict``. Ours are this combination of two losses and the start from the
teacher's codes.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from encoder.features import Floats, TextFeatures
from encoder.recipes import DistillationRecipe, Recipe
from foundation.arrays import unit_rows
from foundation.stages import begin_stage
from training.data import Rows, TrainingData, TrainingDataError
from training.linear_codes import fit_itq
from training.loop import Schedule
from training.models.batches import SparseBatch, drop_words
from training.models.encoder_networks import LinearEncoderNetwork, Shape
from training.objectives.stochastic_neighbours import (
    neighbour_temperatures,
    stochastic_neighbour_loss,
)
from training.pipeline import choose_features
from training.queries import ClozeTask
from training.semi_supervised import UNIT_ROW_SCALE, touches_few_terms
from training.soft_labels.ridge import fit_ridge

PERPLEXITY = 4.0
"""About so many documents are near a text by the teacher."""
SCALE = 20.0
"""The factor γ of the scores, as in the inverse cloze loss."""

# A text's temperature is found from so many nearest documents, of which the first ten may join a
# batch, two for each text.
_NEAREST, _NEAR, _DRAWN = 100, 10, 2
# The nearest are looked for among so many documents, drawn at random, if there are more.
_MOST_CANDIDATES = 20_000
_ROWS_AT_ONCE = 1_000


class NeighbourStudent(nn.Module):
    """The student's network; neither loss has parameters of its own."""

    def __init__(self, encoder: LinearEncoderNetwork) -> None:
        super().__init__()
        self.encoder = encoder


class NeighbourLoss:
    """Two losses for batches of the training texts; `model` holds the student's network.

    Each text of the batch, with words dropped, is a query, and so are a few words of one of its
    sentences. Both search the texts of the batch, as bits.

    - The first must find what is near the text by the teacher's cosines:
      :func:`stochastic_neighbour_loss`. A random text has few neighbours in a batch of random
      texts, so two of the teacher's ten nearest join the batch for each text. The temperature
      gives each text about four neighbours in the corpus. No text is its own neighbour.
    - The second must find the text that has the words: :func:`inverse_cloze_loss`.
    """

    def __init__(
        self, data: TrainingData, vectors: Floats, recipe: DistillationRecipe, training: Rows
    ) -> None:
        """Set up the loss for the documents `training`, whose teacher's vectors are `vectors`.

        Raises:
            TrainingDataError: if the documents are no texts.
        """
        if not data.is_text:
            found = "vector: the objective neighbours learns from the words of texts"
            raise TrainingDataError(f"{found}; use texts, or another objective")
        cloze = cloze_recipe(recipe)
        features = choose_features(
            data,
            training,
            recipe.max_terms,
            "count-idf",
            recipe.analyzer,
            min_documents=1,
            summary_weight=recipe.summary_weight,
        )
        assert isinstance(features, TextFeatures)  # noqa: S101 - because the inputs are texts
        texts = [str(text) for text in data.take(training)]
        self.features, self._recipe = features, recipe
        self._x: Any = features.add_summaries(features.transform(texts), texts)
        self._unit_NE = torch.from_numpy(unit_rows(vectors))
        cosines_NK, self._nearest_NK = nearest_documents(self._unit_NE, recipe.seed)
        self._temperatures_N1 = neighbour_temperatures(cosines_NK, PERPLEXITY)
        self._cloze = ClozeTask(cloze, features, texts, self._x, beside_classes=False)
        self.model = self._build_model(texts, vectors)

    def _build_model(self, texts: list[str], vectors: Floats) -> NeighbourStudent:
        recipe = self._recipe
        torch.manual_seed(recipe.seed)
        network = LinearEncoderNetwork(
            Shape(
                inputs=self.features.dimension,
                hidden=recipe.hidden,
                n_bits=recipe.n_bits,
                classes=1,
                text=True,
                input_scale=UNIT_ROW_SCALE,
                sparse_gradient=touches_few_terms(self.features, texts, 2 * recipe.batch_size),
            )
        )
        begin_stage("fitting the teacher's codes")
        self._cloze.start(network, codes_of_terms(self._x, vectors, recipe.n_bits, recipe.seed))
        return NeighbourStudent(network)

    def schedule(self) -> Schedule:
        """Return the schedule: the recipe's, with at least its `min_steps`."""
        recipe, n = self._recipe, self._x.shape[0]
        batches = max(1, -(-n // recipe.batch_size))
        epochs = max(recipe.epochs, -(-recipe.min_steps // batches))
        return Schedule(epochs, recipe.batch_size, recipe.learning_rate, recipe.seed, decay=True)

    def __call__(
        self,
        rows: Rows,
        generator: torch.Generator,
        progress: float,  # noqa: ARG002 - of the protocol
    ) -> Mapping[str, Tensor]:
        """See :class:`training.loop.BatchLoss`."""
        network = self.model.encoder
        searched = self._add_nearest(rows, generator)
        logits_MB = network(self._drop_words(searched, generator))[1]
        query_logits_NB = network(self._drop_words(rows, generator))[1]
        cosines_NM = self._unit_NE[torch.from_numpy(rows)] @ self._unit_NE[searched].T
        return {
            "neighbour_loss": stochastic_neighbour_loss(
                query_logits_NB,
                logits_MB,
                cosines_NM,
                self._temperatures_N1[torch.from_numpy(rows)],
                torch.tensor(SCALE),
                # The texts of the batch come first among those that are searched.
                left_out=torch.eye(*cosines_NM.shape, dtype=torch.bool),
            ),
            "cloze_loss": self._cloze.loss(network, logits_MB[: len(rows)], rows, generator),
        }

    def _add_nearest(self, rows: Rows, generator: torch.Generator) -> Rows:
        """Return `rows`, and after them some of the texts nearest to each, without repeats."""
        near_NK = self._nearest_NK[rows, :_NEAR]
        chosen = torch.randint(near_NK.shape[1], (len(rows), _DRAWN), generator=generator)
        drawn = np.take_along_axis(near_NK, chosen.numpy(), axis=1)
        return np.concatenate([rows, np.setdiff1d(drawn, rows)])

    def _drop_words(self, rows: Rows, generator: torch.Generator) -> SparseBatch:
        batch = SparseBatch.of_rows(self._x, rows)
        return drop_words(batch, self._recipe.word_dropout, generator)


def cloze_recipe(recipe: DistillationRecipe) -> Recipe:
    """Return the settings of the inverse cloze task; those of both recipes are `recipe`'s."""
    return Recipe(
        method="ict",
        n_bits=recipe.n_bits,
        seed=recipe.seed,
        max_terms=recipe.max_terms,
        analyzer=recipe.analyzer,
        word_dropout=recipe.word_dropout,
    )


def nearest_documents(unit_NE: Tensor, seed: int) -> tuple[Tensor, npt.NDArray[np.int64]]:
    """Return the largest cosines of each row with other rows and their numbers, both ``(N, K)``.

    K is 100, or the number of other rows if there are fewer. If there are more than 20,000 rows,
    the others are among 20,000 that are drawn at random.
    """
    begin_stage("finding the teacher's nearest documents")
    n = len(unit_NE)
    candidates = np.arange(n)
    if n > _MOST_CANDIDATES:
        drawn = np.random.default_rng(seed).choice(n, _MOST_CANDIDATES, replace=False)
        candidates = np.sort(drawn)
    candidate_numbers = torch.from_numpy(candidates)
    candidates_CE = unit_NE[candidate_numbers]
    cosines, numbers = [], []
    for start in range(0, n, _ROWS_AT_ONCE):
        cosines_RC = unit_NE[start : start + _ROWS_AT_ONCE] @ candidates_CE.T
        own_RC = torch.arange(start, start + len(cosines_RC))[:, None] == candidate_numbers
        cosines_RC[own_RC] = -torch.inf
        nearest = cosines_RC.topk(min(_NEAREST, len(candidates) - 1), dim=1)
        cosines.append(nearest.values)
        numbers.append(candidate_numbers[nearest.indices])
    return torch.cat(cosines), torch.cat(numbers).numpy()


def codes_of_terms(
    rows: Any, vectors: Floats, n_bits: int, seed: int
) -> tuple[Floats, Floats] | None:
    """Return the weights ``(V, B)`` and thresholds ``(B,)`` of ITQ codes regressed from terms.

    The codes are those of the `vectors`, before they are rounded to bits. The regression is ridge
    regression from the weighted terms `rows`, a scipy matrix ``(N, V)``. Its results have a mean
    square of 1. Returns None if there are too few vectors, or numbers in them, for the bits.
    """
    if min(vectors.shape) <= n_bits or rows.shape[0] <= n_bits:
        return None
    weight, thresholds = fit_itq(vectors, n_bits, seed)
    ridge = fit_ridge(rows, vectors @ weight - thresholds)
    size = float(np.sqrt(np.square(ridge(rows)).mean())) or 1.0
    return (
        np.ascontiguousarray(ridge.weight / size, dtype=np.float32),
        np.asarray(-ridge.bias / size, dtype=np.float32),
    )
