"""PairRec: a document is reconstructed from its own code and from that of a near document.

Source: Hansen et al., "Unsupervised Semantic Hashing with Pairwise Reconstruction" (2020). There,
near documents are found by codes of self-taught hashing; here by cosine of latent semantic
vectors.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

import numpy as np
import torch
from torch import Tensor, nn

from experiments.leaderboard.contract import Encode, Task
from experiments.leaderboard.text_training import (
    LEARNING_RATE,
    Batch,
    TextModel,
    WordCounts,
    draw_bits,
    learn_by,
)
from hummingbit.encoder.text_features import SparseRows
from hummingbit.training.data import Rows
from hummingbit.training.networks import EncoderNetwork, Shape, TextDecoder
from hummingbit.training.objectives.ssb_vae import kl_loss, text_reconstruction_loss
from hummingbit.training.text_features import principal_directions

NEIGHBOURS = 20
"""The number of nearest documents from which one is drawn."""

KL_WEIGHT = 0.01
"""β"""


class PairRec(TextModel):
    """L = −ln p(x|z(x) + ε) − ln p(x|z(x⁺) + ε) + β (KL(x) + KL(x⁺)), x⁺ drawn near x.

    p(w|z) = softmax over w of i_w E_w·z + c_w, with a learned importance i_w of each word. In the
    paper i_w also multiplies the encoder's input; here the first matrix of the encoder can learn
    that. The noise is ε ~ N(0, σ²), and σ falls from 1 to 0 during the run.
    """

    def __init__(
        self, shape: Shape, documents: WordCounts, seed: int, kl_weight: float = KL_WEIGHT
    ) -> None:
        super().__init__()
        self.kl_weight = kl_weight
        self.encoder = EncoderNetwork(shape)
        self.decoder = TextDecoder(shape.n_bits, shape.inputs)
        self.importance_V = nn.Parameter(torch.empty(shape.inputs).uniform_(0.1, 1.0))
        self._documents = documents
        self._near = nearest(documents.x, NEIGHBOURS, seed)

    def losses(
        self, batch: Batch, generator: torch.Generator, progress: float
    ) -> Mapping[str, Tensor]:
        """Return the reconstruction losses by the own and by the near code, and the KL terms."""
        rank = torch.randint(self._near.shape[1], (len(batch.rows),), generator=generator)
        other = self._documents.batch(self._near[batch.rows, rank.numpy()])
        terms: dict[str, Tensor] = {}
        for name, x in (("own", batch.x), ("near", other.x)):
            _, logits_NB = self.encoder(x, generator)
            z_NB = draw_bits(logits_NB, generator)
            noise_NB = (1 - progress) * torch.randn(z_NB.shape, generator=generator)
            terms[f"reconstruction_by_{name}"] = self._words_loss(z_NB + noise_NB, batch)
            terms[f"kl_of_{name}"] = self.kl_weight * kl_loss(logits_NB)
        return terms

    def _words_loss(self, z_NB: Tensor, batch: Batch) -> Tensor:
        weight_VB = self.importance_V[:, None] * self.decoder.weight
        per_word_N = text_reconstruction_loss(z_NB, weight_VB, self.decoder.bias, batch.words)
        return (batch.n_words_N * per_word_N).mean()


def nearest(x: SparseRows, count: int, seed: int) -> Rows:
    """Return the `count` documents nearest to each, without itself, ``int64[N, count]``.

    `x` are TF-IDF rows; near means a high cosine of their latent semantic vectors.
    """
    import faiss  # noqa: PLC0415

    _, coordinates = principal_directions(x, seed)
    coordinates = np.ascontiguousarray(coordinates, dtype=np.float32)
    faiss.normalize_L2(coordinates)
    index = faiss.IndexFlatIP(coordinates.shape[1])
    index.add(coordinates)
    count = min(count, len(coordinates) - 1)
    _, neighbours = index.search(coordinates, count + 1)
    # A duplicate may come before the document itself, so the first neighbour may be another.
    others = [[row for row in rows if row != own][:count] for own, rows in enumerate(neighbours)]
    return np.array(others, dtype=np.int64)


def learn(
    task: Task, *, learning_rate: float = LEARNING_RATE, kl_weight: float = KL_WEIGHT
) -> Encode:
    """Train PairRec on the documents of a task."""
    build = partial(PairRec, kl_weight=kl_weight)
    return learn_by(build, task, learning_rate)
