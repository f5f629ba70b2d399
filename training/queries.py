"""Queries that documents themselves give: a few words of a sentence, and what they are similar to.

They stand in for the queries that a search will receive, where there is no log of those.
:class:`ClozeTask` makes the loss of :mod:`training.objectives.inverse_cloze` from them.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from encoder.features import Floats, SparseRows, TextFeatures
from foundation import arrays
from training.data import Rows
from training.models.batches import SparseBatch
from training.objectives.inverse_cloze import inverse_cloze_loss
from training.recipe import METHODS, Recipe
from training.text_features import principal_directions

# Where a sentence ends; of a longer run without an end, so many words are taken at a time.
_END = re.compile(r"[.!?;:](?=\s)|[\n。！？；：]")
_LONGEST_SENTENCE = 30


def split_sentences(text: str) -> list[str]:
    """Return the sentences of `text`, at most thirty words each, in order."""
    sentences: list[str] = []
    for sentence in _END.split(text):
        words = sentence.split()
        starts = range(0, len(words), _LONGEST_SENTENCE)
        sentences.extend(" ".join(words[start : start + _LONGEST_SENTENCE]) for start in starts)
    return sentences


class SentenceQueries:
    """Draws queries from the sentences of `texts`: `least` to `most` distinct terms of one.

    Every sentence of a text with at least two known terms is as likely as any other. Its terms are
    drawn one after the other, each in proportion to its idf, because people ask with telling words;
    without `by_idf` all are alike.
    A text that has no such sentence gives its one sentence of a single term, or nothing: a query
    without terms.
    """

    def __init__(
        self,
        features: TextFeatures,
        texts: Sequence[str],
        *,
        least: int = 2,
        most: int = 16,
        by_idf: bool = True,
    ) -> None:
        self._features, self._least, self._most = features, least, most
        idf = features.idf if by_idf and features.idf is not None else np.ones(features.dimension)
        self._weights = np.asarray(idf, dtype=np.float64)
        sentences = [split_sentences(text) for text in texts]
        counts = features.count_terms([one for several in sentences for one in several])
        counts.data.fill(1.0)
        owner = np.repeat(np.arange(len(texts)), [len(several) for several in sentences])
        terms = np.diff(counts.indptr)
        has_several = np.zeros(len(texts), dtype=bool)
        has_several[owner[terms > 1]] = True
        chosen = np.flatnonzero((terms > 1) | ((terms == 1) & ~has_several[owner]))
        self._terms: SparseRows = counts[chosen]
        self._counts = np.bincount(owner[chosen], minlength=len(texts))
        self._starts = self._counts.cumsum() - self._counts

    def draw(self, rows: Rows, generator: torch.Generator) -> SparseRows:
        """Return the features of one query from each of the texts `rows`, shape ``(N, V)``."""
        counts = self._counts[rows]
        place = (_uniform(len(rows), generator) * counts).astype(np.int64)
        drawn = self._terms[np.where(counts > 0, self._starts[rows] + place, 0)]
        wanted = self._least + _uniform(len(rows), generator) * (self._most - self._least + 1)
        wanted = np.where(counts > 0, wanted.astype(np.int64), 0)
        lengths = np.diff(drawn.indptr)
        row = np.repeat(np.arange(len(rows)), lengths)
        # An exponential variate over the weight of each term: in their order within each row, the
        # first ones are a draw without replacement (Efraimidis and Spirakis 2006).
        waits = -np.log1p(-_uniform(drawn.nnz, generator)) / self._weights[drawn.indices]
        order = np.lexsort((waits, row))
        rank = np.empty(drawn.nnz, dtype=np.int64)
        rank[order] = np.arange(drawn.nnz) - np.repeat(drawn.indptr[:-1], lengths)
        drawn.data[rank >= wanted[row]] = 0.0
        drawn.eliminate_zeros()
        return self._features.weigh(drawn)


class Similarities:
    """How similar queries are to documents without any code, from −1 to 1.

    It is the mean of two cosines: that of the weighted terms, which knows the very words, and that
    of latent semantic analysis (:mod:`training.text_features`), which knows words that occur beside
    the same others.
    """

    def __init__(self, rows: SparseRows, seed: int, *, unit_rows: bool = True) -> None:
        """Take the documents; without `unit_rows` they and queries are brought to length 1."""
        self._unit_rows = unit_rows
        self._rows = self._of_length_one(rows)
        directions_KV, places_NK = principal_directions(self._rows, seed)
        self._directions_VK: Floats = np.ascontiguousarray(directions_KV.T, dtype=np.float32)
        self._places_NK = arrays.unit_rows(places_NK)

    def of(self, queries: SparseRows, rows: Rows) -> Tensor:
        """Return the similarity of each query, ``(N, V)``, to each document, ``float32[N, M]``."""
        queries = self._of_length_one(queries)
        words = (queries @ self._rows[rows].T).toarray()
        meaning = (
            arrays.unit_rows(np.asarray(queries @ self._directions_VK)) @ self._places_NK[rows].T
        )
        return torch.from_numpy(np.asarray((words + meaning) / 2, dtype=np.float32))

    def _of_length_one(self, rows: SparseRows) -> SparseRows:
        if self._unit_rows:
            return rows
        from sklearn.preprocessing import normalize  # noqa: PLC0415 - takes a second

        return normalize(rows)


class ClozeTask:
    """The inverse cloze loss of a recipe for batches of the texts trained on.

    `rows` are the features of `texts`, ``(N, V)``.
    """

    def __init__(
        self, recipe: Recipe, features: TextFeatures, texts: Sequence[str], rows: SparseRows
    ) -> None:
        self._recipe = recipe
        # Beside bits of classes, which leave fewer for words, these and ITQ's start found less.
        alone = METHODS[recipe.method].is_linear
        self._queries = SentenceQueries(features, texts, most=16 if alone else 8, by_idf=alone)
        self._similarities = Similarities(rows, recipe.seed, unit_rows=features.l2_normalize)

    def loss(
        self, network: nn.Module, logits_NB: Tensor, rows: Rows, generator: torch.Generator
    ) -> Tensor:
        """Return the loss of one query drawn from each of the texts `rows`; a scalar.

        `logits_NB` are what `network` gave for the texts. A text of which no term is known gives no
        query and is left out.
        """
        drawn = self._queries.draw(rows, generator)
        taken = np.flatnonzero(np.diff(drawn.indptr))
        if len(taken) < 2:
            return logits_NB.new_zeros(())
        drawn, device, recipe = drawn[taken], logits_NB.device, self._recipe
        batch = SparseBatch.of_rows(drawn, np.arange(len(taken))).to(device)
        return inverse_cloze_loss(
            network(batch)[1].float(),
            logits_NB[torch.from_numpy(taken).to(device)].float(),
            self._similarities.of(drawn, rows[taken]).to(device),
            scale=recipe.cloze_scale,
            shared=recipe.cloze_shared,
            temperature=recipe.cloze_temperature,
        )


def _uniform(count: int, generator: torch.Generator) -> Any:
    return torch.rand(count, generator=generator, dtype=torch.float64).numpy()
