"""The training that the published text hashing methods share: word counts, batches and schedule.

Each method is a network with an `encoder` and `losses`. All have two hidden layers, Adam, and the
same input: TF-IDF rows of unit length over the most frequent terms without stop words.

Shapes: N rows of a batch, V terms, H hidden units, B bits.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

import numpy as np
import torch
from torch import Tensor, nn

from experiments.leaderboard.contract import Encode, Task
from hummingbit.encoder.encoder import Encoder, Inputs
from hummingbit.encoder.text_features import Floats, SparseRows, TextFeatures
from hummingbit.training.batches import (
    SparseBatch,
    share_of_terms,
    touches_few_terms,
    word_distribution,
)
from hummingbit.training.data import Rows
from hummingbit.training.loop import Schedule, fit
from hummingbit.training.networks import EncoderNetwork, Shape, TextDecoder, to_encoder
from hummingbit.training.text_features import fit_text_features, keep_terms

MAX_TERMS = 10_000
HIDDEN = 500
EPOCHS = 20
MIN_BATCHES = 2000
"""The least number of batches of a run: small corpora get more epochs, as bits learn slowly."""
BATCH_SIZE = 100
LEARNING_RATE = 2e-3

WARMUP = 0.5
"""The share of a run in which the weight of the KL term rises to 1, so that bits stay in use."""


@dataclass(frozen=True)
class Batch:
    """A batch: the rows of its documents, TF-IDF `x`, word frequencies and numbers of words."""

    rows: Rows
    x: SparseBatch
    words: SparseBatch
    n_words_N: Tensor


class WordCounts:
    """The training texts: TF-IDF rows as input and word counts as target."""

    def __init__(self, features: TextFeatures, texts: Sequence[str]) -> None:
        counts = features.count_terms(texts)
        self.x: SparseRows = features.weigh(counts)
        self._words = word_distribution(counts)
        self._n_words = np.asarray(counts.sum(axis=1), dtype=np.float32).ravel()

    def share_of_terms(self) -> Floats:
        """Return each term's mean share of the words of a text, ``float32[V]``."""
        return share_of_terms(self._words)

    def batch(self, rows: Rows) -> Batch:
        """Return the documents of `rows`."""
        x, words = (SparseBatch.of_rows(matrix, rows) for matrix in (self.x, self._words))
        return Batch(rows, x, words, torch.from_numpy(self._n_words[rows]))


class TextModel(nn.Module):
    """A method's network. Training initializes the decoder with the frequencies of terms."""

    encoder: EncoderNetwork
    decoder: TextDecoder

    @abstractmethod
    def losses(
        self, batch: Batch, generator: torch.Generator, progress: float
    ) -> Mapping[str, Tensor]:
        """Return the named terms of the loss; training minimizes their sum."""


def words_loss(decoder: TextDecoder, b_NB: Tensor, batch: Batch) -> Tensor:
    """Return the mean over rows of −Σ_i ln softmax(E b + c)_{w_i}, over all words w_i of a text.

    This is −ln p(x|b) of VDSH and its successors.
    """
    per_word_N: Tensor = decoder(b_NB, batch.words)
    return (batch.n_words_N * per_word_N).mean()


def warmup_weight(progress: float) -> float:
    """Return the weight of the KL term after the share `progress` of a run."""
    return min(1.0, progress / WARMUP)


def draw_bits(logits_NB: Tensor, generator: torch.Generator) -> Tensor:
    """Draw bits of 0 or 1 with probability σ(l), with the gradient of σ(l), ``(N, B)``.

    Source: Bengio, Léonard and Courville, "Estimating or Propagating Gradients Through Stochastic
    Neurons" (2013).
    """
    p_NB = torch.sigmoid(logits_NB)
    drawn_NB = (torch.rand(p_NB.shape, generator=generator) < p_NB).to(p_NB.dtype)
    return p_NB + (drawn_NB - p_NB).detach()


def fit_features_without_stop_words(
    texts: Sequence[str], max_terms: int = MAX_TERMS
) -> TextFeatures:
    """Fit TF-IDF over the most frequent terms that are not English stop words."""
    from sklearn.feature_extraction.text import (  # noqa: PLC0415 - takes a second
        ENGLISH_STOP_WORDS,
    )

    features = fit_text_features(texts, max_terms + len(ENGLISH_STOP_WORDS))
    columns = [
        column for column, term in enumerate(features.vocabulary) if term not in ENGLISH_STOP_WORDS
    ]
    return keep_terms(features, np.array(columns[:max_terms], dtype=np.int64))


def learn_by(
    build: Callable[[Shape, WordCounts, int], TextModel],
    task: Task,
    learning_rate: float,
    *,
    median_thresholds: bool = False,
) -> Encode:
    """Train the network ``build(shape, documents, seed)`` on the documents of a task.

    A bit is 1 where its logit is above 0 or, with `median_thresholds`, above its median over the
    training documents.
    """
    _, encoder = fit_text_model(build, task, learning_rate)
    if median_thresholds:
        encoder = with_median_thresholds(encoder, task.texts)
    return encoder.encode


Model = TypeVar("Model", bound=TextModel)


def fit_text_model(
    build: Callable[[Shape, WordCounts, int], Model], task: Task, learning_rate: float
) -> tuple[Model, Encoder]:
    """Train the network ``build(shape, documents, seed)`` on the documents of a task.

    The step size of Adam falls from `learning_rate` to 0. The second is the model's `encoder`.
    """
    texts = task.texts
    features = fit_features_without_stop_words(texts)
    documents = WordCounts(features, texts)
    torch.manual_seed(task.seed)
    is_sparse = touches_few_terms(features, texts, BATCH_SIZE)
    shape = Shape.of(features, HIDDEN, task.n_bits, dropout=0.1, sparse_gradient=is_sparse)
    model = build(shape, documents, task.seed)
    model.decoder.start_at(torch.from_numpy(documents.share_of_terms()))

    def loss(rows: Rows, generator: torch.Generator, progress: float) -> Mapping[str, Tensor]:
        return model.losses(documents.batch(rows), generator, progress)

    epochs = max(EPOCHS, -(-MIN_BATCHES * BATCH_SIZE // len(texts)))
    schedule = Schedule(epochs, BATCH_SIZE, learning_rate, task.seed, decay=True)
    fit(model, loss, len(texts), schedule, progress=False)
    return model, to_encoder(model.encoder, features)


def with_median_thresholds(encoder: Encoder, inputs: Inputs) -> Encoder:
    """Return `encoder` with each threshold at the median of its logit over `inputs`."""
    medians: Floats = np.median(encoder.logits(inputs), axis=0).astype(np.float32)
    return replace(encoder, thresholds=medians)
