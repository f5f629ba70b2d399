"""Train an encoder that finds texts by a few of their words: ``hummingbit train ict``, ``static``.

The inverse cloze task needs no labels: a few words of a sentence must find their text among others
(:class:`hummingbit.training.queries.ClozeTask`). The encoder is one matrix from words to logits.
``ict`` starts at ITQ codes of latent semantic analysis, ``static`` at the encoder that ships
(:mod:`hummingbit.training.static`).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from hummingbit.encoder.analyzers import Analyzer
from hummingbit.encoder.artifact import WORD_BITS, check_destination
from hummingbit.encoder.encoder import Encoder
from hummingbit.encoder.recipes import AUTO_WORD_BITS, ICT, MAX_KNOWN_TERMS, STATIC, ClozeRecipe
from hummingbit.encoder.text_features import Floats, TextFeatures
from hummingbit.foundation.slices import begin_stage
from hummingbit.training.batches import SparseBatch, drop_words
from hummingbit.training.data import Rows, TrainingData, TrainingDataError
from hummingbit.training.loop import Schedule, choose_device, fit, fit_and_write
from hummingbit.training.networks import LinearEncoderNetwork, Shape, to_encoder
from hummingbit.training.pipeline import (
    Split,
    Trained,
    choose_features,
    one_blas_thread,
    split,
)
from hummingbit.training.queries import ClozeTask
from hummingbit.training.static import static_start
from hummingbit.training.text_features import (
    TermCounts,
    add_fixed_rows,
    add_word_bits,
    bits_for_words,
)

MAX_LEARNED = 100_000
"""The documents that are learned from. More take memory and time, and add little."""
BATCH_SIZE, LEARNING_RATE, WORD_DROPOUT = 100, 4e-3, 0.5
"""The documents in a batch, the step size of Adam, and the mean share of words left out."""
MIN_STEPS = 2000
"""The least number of batches of 2,000 documents or more, reached by more passes; fewer documents
have down to a sixth of it, with larger steps."""
_MANY_DOCUMENTS = 2000
_MOST_LARGER = 6.0


@one_blas_thread()
def train_cloze(
    data: TrainingData,
    recipe: ClozeRecipe,
    out: Path,
    *,
    overwrite: bool = False,
    progress: bool = True,
    device: str = "cpu",
    words: TermCounts | None = None,
) -> Trained:
    """Train on the texts of `data` with `recipe` and write the encoder to `out`.

    An interrupted run resumes from the checkpoint beside `out`. At most 100,000 documents are
    learned from, and the codes of ict know the `words`, by default those of all documents, up to
    300,000. Of very many short texts, most bits tell the words
    (:func:`hummingbit.training.text_features.bits_for_words`).

    Raises:
        DeviceError: if this machine has no such device.
        TrainingDataError: if the documents are no texts, or no term occurs.
        ArtifactError: if `out` exists and `overwrite` is false.
        CheckpointError: if a checkpoint of another run lies beside `out`.
    """
    check_destination(out, overwrite=overwrite)
    torch_device = choose_device(device)
    if not data.is_text:
        found = f"vector: {recipe.method} learns from the words of texts"
        raise TrainingDataError(f"{found}; use texts, or itq")
    parts = split(data, recipe)
    words = _counted_words(data, parts, recipe, words)
    n_word_bits = _number_of_word_bits(recipe, words)
    learned = replace(recipe, n_bits=recipe.n_bits - n_word_bits, word_bits=0)
    parts = _sampled(parts, recipe)
    texts = [str(text) for text in data.take(parts.training)]
    start = static_start(texts, learned) if recipe.method == STATIC else None
    features = start.features if start else _features(data, parts, recipe)
    rows = features.add_summaries(features.transform(texts), texts)
    begin_stage("reading sentences and finding directions")
    network = _network(features, learned.n_bits, recipe.seed).to(torch_device)
    task = ClozeTask(
        features, texts, rows, seed=recipe.seed, shared=recipe.cloze_shared, static=start
    )
    task.start(network)

    def encoder_of() -> Encoder:
        encoder = to_encoder(network, features)
        if words is None:
            return encoder
        if n_word_bits:
            begin_stage("giving bits to words")
            return add_word_bits(encoder, words, MAX_KNOWN_TERMS, n_word_bits, texts)
        return add_fixed_rows(encoder, words, MAX_KNOWN_TERMS)

    return fit_and_write(
        out,
        torch.nn.ModuleDict({"encoder": network}),
        ClozeLoss(task, network, rows),
        rows=len(texts),
        schedule=schedule_for(recipe.epochs, len(texts), recipe.seed),
        data=data,
        parts=parts,
        recipe=recipe,
        encoder_of=encoder_of,
        run={"device": device},
        about=(lambda _encoder: {WORD_BITS: n_word_bits}) if n_word_bits else None,
        overwrite=overwrite,
        progress=progress,
        second_thread=False,  # to hand work over takes as long as the work of a small batch
    )


def _features(data: TrainingData, parts: Split, recipe: ClozeRecipe) -> TextFeatures:
    """Return the terms of the texts, also of those that only one has.

    A word that only one text has is the best word to find it by, and a word that a text repeats is
    more often asked for than the others.
    """
    features = choose_features(
        data,
        parts.training,
        recipe.max_terms,
        "count-idf",
        recipe.analyzer,
        min_documents=1,
        summary_weight=recipe.summary_weight,
    )
    assert isinstance(features, TextFeatures)  # noqa: S101 - of texts
    return features


def _network(features: TextFeatures, n_bits: int, seed: int) -> LinearEncoderNetwork:
    torch.manual_seed(seed)
    return LinearEncoderNetwork(Shape.of(features, 0, n_bits, sparse_gradient=True))


class ClozeLoss:
    """The inverse cloze loss of texts, whose features are `rows`, with words dropped at random."""

    def __init__(self, task: ClozeTask, network: LinearEncoderNetwork, rows: Any) -> None:
        self._task, self._network, self._rows = task, network, rows
        self._device = network.logits.bias.device

    def __call__(
        self,
        rows: Rows,
        generator: torch.Generator,
        progress: float,  # noqa: ARG002 - of the protocol
    ) -> Mapping[str, Tensor]:
        """See :class:`hummingbit.training.loop.BatchLoss`."""
        with_terms = self._task.with_terms(rows)
        if self._device.type == "cpu" and len(with_terms) > 1:
            documents = SparseBatch.of_rows(self._rows, with_terms)
            dropped = drop_words(documents, WORD_DROPOUT, generator)
            loss = self._task.loss_with_gradients(
                self._network, documents, dropped, with_terms, generator
            )
            return {"cloze_loss": loss}
        batch = drop_words(SparseBatch.of_rows(self._rows, rows), WORD_DROPOUT, generator)
        logits_NB = self._network(batch.to(self._device))[1]
        return {"cloze_loss": self._task.loss(self._network, logits_NB, rows, generator)}


def schedule_for(epochs: int, n_documents: int, seed: int) -> Schedule:
    """Return the schedule of a run with `n_documents` to train on.

    Few documents get fewer steps than :data:`MIN_STEPS`, and larger ones, so that the weights move
    as far. More and smaller steps do not find more documents.
    """
    batches = max(1, -(-n_documents // BATCH_SIZE))
    few = min(_MOST_LARGER, max(1.0, _MANY_DOCUMENTS / max(1, n_documents)))
    epochs = max(epochs, math.ceil(MIN_STEPS / few / batches))
    larger = min(_MOST_LARGER, max(1.0, MIN_STEPS / (epochs * batches)))
    return Schedule(epochs, BATCH_SIZE, min(1.0, LEARNING_RATE * larger), seed, decay=True)


def _counted_words(
    data: TrainingData, parts: Split, recipe: ClozeRecipe, words: TermCounts | None
) -> TermCounts | None:
    """Return the words that get fixed rows: `words`, by default those of the documents, or None."""
    if recipe.method != ICT:
        return None
    if words is None or words.analyzer.name != recipe.analyzer:
        words = TermCounts(MAX_KNOWN_TERMS, Analyzer.from_name(recipe.analyzer))
        for text in data.take(parts.training):
            words.add(str(text))
    return words


def _number_of_word_bits(recipe: ClozeRecipe, words: TermCounts | None) -> int:
    """Return how many bits of codes tell which words a text has: those of the recipe, if set."""
    if words is None:
        return 0
    if recipe.word_bits != AUTO_WORD_BITS:
        return recipe.word_bits
    return bits_for_words(recipe.n_bits, words)


def _sampled(parts: Split, recipe: ClozeRecipe) -> Split:
    """Return the split with at most :data:`MAX_LEARNED` training rows."""
    if len(parts.training) <= MAX_LEARNED:
        return parts
    rng = np.random.default_rng(recipe.seed)
    return replace(parts, training=np.sort(rng.permutation(parts.training)[:MAX_LEARNED]))


def fit_cloze(
    features: TextFeatures,
    texts: Sequence[str],
    x: Any,
    n_bits: int,
    *,
    seed: int,
    shared: float,
) -> tuple[Floats, Floats]:
    """Return weights ``(V, B)`` and thresholds ``(B,)`` of bits that find the `texts`.

    They are the content of codes that have bits for classes, too. `x` are the `features` of the
    texts, ``(N, V)``, with more texts and terms than bits. See :class:`ClozeTask` for `shared`.
    """
    network = _network(features, n_bits, seed)
    task = ClozeTask(features, texts, x, seed=seed, shared=shared, beside_classes=True)
    task.start(network)
    loss = ClozeLoss(task, network, x)
    fit(network, loss, len(texts), schedule_for(_EPOCHS, len(texts), seed), second_thread=False)
    layer = to_encoder(network, features).layers[0]
    return layer.weight, -layer.bias


_EPOCHS = 15
