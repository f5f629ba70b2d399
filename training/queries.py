"""Queries drawn from documents: a few words of a sentence, and their similarities to documents.

They stand for the queries that a search will receive, of which there may be no log.
:class:`ClozeTask` computes the loss of :mod:`hummingbit.training.objectives.neighbours` with them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from scipy.sparse import csr_array
from torch import Tensor, nn
from torch.nn import functional

from hummingbit.encoder.text_features import (
    Floats,
    SparseRows,
    TextFeatures,
    scale_to_unit_length,
    split_sentences,
)
from hummingbit.foundation import arrays
from hummingbit.training.batches import SparseBatch, entries_of
from hummingbit.training.data import Rows
from hummingbit.training.layers import weighted_sum, with_gradients
from hummingbit.training.linear_codes import itq_of_directions, itq_of_terms
from hummingbit.training.networks import AnyEncoderNetwork, LinearEncoderNetwork
from hummingbit.training.objectives.neighbours import inverse_cloze_gradients, inverse_cloze_loss
from hummingbit.training.static import StaticStart
from hummingbit.training.text_features import quick_directions

# The first sentences of a text are a title or a summary.
_FIRST_SENTENCES = 3
# The factor of a query's logits in the loss. Logits exceed the ±1 of tanh.
_LOGIT_FACTOR = 0.25
# The factor of the scores in the loss, and the temperature of the similarities in its target.
_SCALE, _TEMPERATURE = 20.0, 0.05
# The directions of latent semantics, without bits for classes and beside them.
_DIRECTIONS, _DIRECTIONS_BESIDE_CLASSES = 400, 200


class SentenceQueries:
    """Draws queries from the sentences of `texts`: `least` to `most` distinct terms of a sentence.

    A share `from_first` of the queries is drawn from the first three sentences of a text with at
    least two known terms: a title or a summary, whose words people search with. The others are
    drawn from all such sentences. In both cases the sentences are equally likely. Terms are drawn
    without replacement in proportion to their idf, because people search with informative words;
    without `by_idf` they are equally likely. If no sentence of a text has two terms, the query is
    the term of a sentence with one. If there is none, the query has no terms.
    """

    def __init__(
        self,
        features: TextFeatures,
        texts: Sequence[str],
        *,
        least: int = 2,
        most: int = 16,
        by_idf: bool = True,
        from_first: float = 0.5,
    ) -> None:
        self._features, self._least, self._most = features, least, most
        self._from_first = from_first
        idf = features.idf if by_idf and features.idf is not None else np.ones(features.dimension)
        self._weights = np.asarray(idf, dtype=np.float64)
        sentences = [split_sentences(text) for text in texts]
        counts = features.count_terms(
            [sentence for text_sentences in sentences for sentence in text_sentences]
        )
        counts.data.fill(1.0)
        text = np.repeat(np.arange(len(texts)), [len(of_text) for of_text in sentences])
        n_terms = np.diff(counts.indptr)
        has_several = np.zeros(len(texts), dtype=bool)
        has_several[text[n_terms > 1]] = True
        usable = np.flatnonzero((n_terms > 1) | ((n_terms == 1) & ~has_several[text]))
        self._terms: SparseRows = counts[usable]
        self._counts = np.bincount(text[usable], minlength=len(texts))
        self._starts = self._counts.cumsum() - self._counts

    def draw(self, rows: Rows, generator: torch.Generator) -> SparseRows:
        """Return the features of one query from each of the texts `rows`, shape ``(N, V)``."""
        counts = self._counts[rows]
        choices = counts
        if self._from_first:
            is_from_first = _uniform(len(rows), generator) < self._from_first
            choices = np.where(is_from_first, np.minimum(counts, _FIRST_SENTENCES), counts)
        sentence = (_uniform(len(rows), generator) * choices).astype(np.int64)
        entries, lengths = entries_of(
            self._terms.indptr, np.where(counts > 0, self._starts[rows] + sentence, 0)
        )
        columns = self._terms.indices[entries]
        n_terms = self._least + _uniform(len(rows), generator) * (self._most - self._least + 1)
        n_terms = np.where(counts > 0, n_terms.astype(np.int64), 0)
        row = np.repeat(np.arange(len(rows)), lengths)
        # An exponential variate divided by the weight of each term. The terms with the smallest of
        # these are a weighted draw without replacement (Efraimidis and Spirakis 2006).
        keys = -np.log1p(-_uniform(len(columns), generator)) / self._weights[columns]
        # Within a row by the key, which is mapped to numbers below 1: one sort instead of two.
        order = np.argsort(row + keys / (1 + keys))
        rank = np.empty(len(columns), dtype=np.int64)
        rank[order] = np.arange(len(columns)) - np.repeat(lengths.cumsum() - lengths, lengths)
        kept = np.flatnonzero(rank < n_terms[row])
        ends = np.bincount(row[kept], minlength=len(rows)).cumsum()
        drawn = csr_array(
            (np.ones(len(kept), np.float32), columns[kept], np.append(0, ends)),
            shape=(len(rows), self._features.dimension),
        )
        return self._features.weigh(drawn)

    def has_terms(self, rows: Rows) -> npt.NDArray[np.bool_]:
        """Return whether the queries of each of the texts `rows` have a term."""
        return np.asarray(self._counts[rows] > 0)


class Similarities:
    """The similarity of queries to documents without any code, from −1 to 1.

    It is the mean of two cosines, or three. That of the weighted terms matches exact words. That of
    latent semantic analysis (:mod:`hummingbit.training.text_features`) matches words that occur in
    similar contexts.
    """

    def __init__(
        self,
        rows: SparseRows,
        seed: int,
        *,
        unit_rows: bool = True,
        directions: int = _DIRECTIONS,
        vectors_VE: Floats | None = None,
    ) -> None:
        """Store the documents; with `unit_rows` false, they and queries are scaled to length 1.

        Latent semantics has at most so many `directions`. With `vectors_VE` of the terms, the
        cosine of the sums of these is a third similarity.
        """
        self._unit_rows = unit_rows
        self._rows = self._normalize(rows)
        directions_KV, coordinates_NK = quick_directions(self._rows, seed, directions)
        tables = directions_KV.T
        if vectors_VE is not None:
            tables = np.hstack([tables, vectors_VE])
        self.tables = torch.from_numpy(np.ascontiguousarray(tables, dtype=np.float32))
        """The directions and, after these, the vectors of the terms, ``(V, K + E)``."""
        # Views, since the tables of an encoder that ships are a third of the memory of a run.
        self.directions_VK: Floats = self.tables.numpy()[:, : len(directions_KV)]
        """The directions of latent semantics, ``(V, K)``, orthogonal and of length 1."""
        self._sizes_N1: Floats = np.linalg.norm(coordinates_NK, axis=1, keepdims=True)
        self._coordinates_NK = arrays.unit_rows(coordinates_NK)
        self._vectors_VE = vectors_VE
        if vectors_VE is not None:
            self._vectors_VE = self.tables.numpy()[:, len(directions_KV) :]
            self._sums_NE = arrays.unit_rows(np.asarray(self._rows @ vectors_VE))

    def of(self, queries: SparseRows, rows: Rows) -> Tensor:
        """Return the similarity of each query, ``(N, V)``, to each document, ``float32[N, M]``."""
        queries = self._normalize(queries)
        term_cosine = (queries @ self._rows[rows].T).toarray()
        query_coordinates = arrays.unit_rows(np.asarray(queries @ self.directions_VK))
        lsa_cosine = query_coordinates @ self._coordinates_NK[rows].T
        mean = (term_cosine + lsa_cosine) / 2
        if self._vectors_VE is not None:
            sums = arrays.unit_rows(np.asarray(queries @ self._vectors_VE))
            mean = (2 * mean + sums @ self._sums_NE[rows].T) / 3
        return torch.from_numpy(np.asarray(mean, dtype=np.float32))

    def of_entries(
        self,
        queries: SparseBatch,
        coordinates_NK: Tensor | None,
        documents: SparseBatch,
        rows: Rows,
    ) -> Tensor:
        """Return what :meth:`of` does, up to rounding, in less time, on the CPU.

        `documents` are the features of the documents `rows`. The coordinates are the sums of
        queries along the directions and, after these, along the vectors of the terms, if there are
        any; without, they are computed.
        """
        if coordinates_NK is None:
            coordinates_NK = weighted_sum(queries, self.tables, sparse=False)
        n_directions = self.directions_VK.shape[1]
        cosines_NN = _products_of_terms(queries, documents)
        if not self._unit_rows:
            cosines_NN /= _lengths_of(queries).unsqueeze(1) * _lengths_of(documents)
        places_NK = functional.normalize(coordinates_NK[:, :n_directions])
        cosines_NN.addmm_(places_NK, torch.from_numpy(self._coordinates_NK[rows]).T)
        if self._vectors_VE is None:
            return cosines_NN.div_(2)
        sums_NE = functional.normalize(coordinates_NK[:, n_directions:])
        return cosines_NN.addmm_(sums_NE, torch.from_numpy(self._sums_NE[rows]).T).div_(3)

    def itq_codes(self, n_bits: int, seed: int) -> tuple[Floats, Floats] | None:
        """Return :func:`~hummingbit.training.linear_codes.itq_of_directions` of the first ones.

        It is None if rows are scaled, if there are fewer directions than bits, or as few documents.
        """
        if not self._unit_rows or self.directions_VK.shape[1] < n_bits:
            return None
        coordinates_NB = self._coordinates_NK[:, :n_bits] * self._sizes_N1
        if len(coordinates_NB) <= n_bits:
            return None
        return itq_of_directions(self.directions_VK[:, :n_bits].T, coordinates_NB, seed)

    def _normalize(self, rows: SparseRows) -> SparseRows:
        if self._unit_rows:
            return rows
        rows = rows.copy()
        scale_to_unit_length(rows)
        return rows


class ClozeTask:
    """The inverse cloze loss for batches of the training texts.

    `rows` are the features of `texts`, ``(N, V)``. A share `shared` of a query's target goes to all
    texts by similarity. The loss compares documents with the logits of a query, as the asymmetric
    ranking does. Where the code has bits for classes as well, with `beside_classes`, it compares
    them with the tanh of the logits. Logits gained nothing there. Beside a network for classes,
    `short` queries of equally likely terms gave better results, and queries from first sentences no
    better ones. With `static`, the network starts at the codes of the encoder that ships and learns
    along its directions.
    """

    def __init__(
        self,
        features: TextFeatures,
        texts: Sequence[str],
        rows: SparseRows,
        *,
        seed: int,
        shared: float,
        beside_classes: bool = False,
        short: bool = False,
        static: StaticStart | None = None,
    ) -> None:
        self._static = static
        self._seed, self._shared, self._beside_classes = seed, shared, beside_classes
        most, from_first = (8, 0.0) if short else (16, 0.75 if beside_classes else 0.5)
        self._queries = SentenceQueries(
            features, texts, most=most, by_idf=not short, from_first=from_first
        )
        self._rows = rows
        self._similarities = Similarities(
            rows,
            seed,
            unit_rows=features.l2_normalize,
            directions=_DIRECTIONS_BESIDE_CLASSES if beside_classes else _DIRECTIONS,
            vectors_VE=None if static is None else static.vectors_VE,
        )

    def start(self, network: AnyEncoderNetwork, codes: tuple[Floats, Floats] | None = None) -> None:
        """Initialize a linear network with ITQ codes of latent semantic analysis of the texts.

        With other `codes`, weights ``(V, B)`` and thresholds ``(B,)``, it begins with these.

        Codes trained from there combine two kinds of knowledge: which words occur together in the
        corpus, and which words distinguish a text from all others. Without bits for classes, the
        network learns along the directions of latent semantics as well as word by word. Other
        networks are not changed, nor are networks with as many bits as there are texts or terms.
        """
        if not isinstance(network, LinearEncoderNetwork):
            return
        n_bits, seed = len(network.logits.bias), self._seed
        if self._static is not None:
            codes = self._static.codes(self._rows, n_bits, seed)
        elif codes is None:
            codes = self._similarities.itq_codes(n_bits, seed)
        start = codes or itq_of_terms(self._rows, n_bits, seed)
        if start is None:
            return
        network.start_at(*map(torch.from_numpy, start))
        if self._beside_classes:
            return
        network.learn_along(self._similarities.tables)

    def loss(
        self, network: nn.Module, logits_NB: Tensor, rows: Rows, generator: torch.Generator
    ) -> Tensor:
        """Return the loss of one query drawn from each of the texts `rows`; a scalar.

        `logits_NB` are the outputs of `network` for the texts. A text without known terms has no
        query and is left out.
        """
        queries = self._queries.draw(rows, generator)
        with_terms = np.flatnonzero(np.diff(queries.indptr))
        if len(with_terms) < 2:
            return 0 * logits_NB.sum()  # so that the batch has a gradient, of zeros
        queries, device = queries[with_terms], logits_NB.device
        batch = SparseBatch.of_rows(queries, np.arange(len(with_terms))).to(device)
        query_logits_NB = network(batch)[1].float()
        return inverse_cloze_loss(
            query_logits_NB.tanh() if self._beside_classes else _LOGIT_FACTOR * query_logits_NB,
            logits_NB[torch.from_numpy(with_terms).to(device)].float(),
            self._similarities.of(queries, rows[with_terms]).to(device),
            scale=_SCALE,
            shared=self._shared,
            temperature=_TEMPERATURE,
        )

    def loss_with_gradients(
        self,
        network: LinearEncoderNetwork,
        documents: SparseBatch,
        dropped: SparseBatch,
        rows: Rows,
        generator: torch.Generator,
    ) -> Tensor:
        """Return what :meth:`loss` does for a linear network on the CPU, in less time.

        `documents` are the features of the texts `rows`, and `dropped` those with words left out,
        which the network reads. Two or more of them must have terms, :meth:`with_terms`, and the
        others must be left out. All tables are read once for documents and queries together, and
        the gradients are known.
        """
        queries = SparseBatch.of_matrix(self._queries.draw(rows, generator))
        n_rows = len(rows)
        with torch.no_grad():
            x = dropped.followed_by(queries)
            coordinates_MK = network.coordinates(x)
            logits_MB = network.logits_at(x, coordinates_MK)
            of_queries_NB = logits_MB[n_rows:]
            if self._beside_classes:
                of_queries_NB = of_queries_NB.tanh()
            else:
                of_queries_NB = _LOGIT_FACTOR * of_queries_NB
            similarities_NN = self._similarities.of_entries(
                queries,
                None if coordinates_MK is None else coordinates_MK[n_rows:],
                documents,
                rows,
            )
            loss, gradient_NB, of_documents_NB = inverse_cloze_gradients(
                of_queries_NB,
                logits_MB[:n_rows],
                similarities_NN,
                scale=_SCALE,
                shared=self._shared,
                temperature=_TEMPERATURE,
            )
            if self._beside_classes:
                gradient_NB = gradient_NB * (1 - of_queries_NB.square())
            else:
                gradient_NB = _LOGIT_FACTOR * gradient_NB
            of_logits_MB = torch.cat([of_documents_NB, gradient_NB])
            gradients = network.gradients(x, coordinates_MK, of_logits_MB)
        return with_gradients(loss, gradients)

    def with_terms(self, rows: Rows) -> Rows:
        """Return those of `rows` whose texts have known terms in a sentence."""
        return rows[self._queries.has_terms(rows)]


def _products_of_terms(queries: SparseBatch, documents: SparseBatch) -> Tensor:
    """Return the inner products of queries and documents, ``(Q, N)``, each of distinct terms."""
    asked = queries.columns.numpy()
    terms = arrays.sorted_distinct(asked)
    table_UQ = np.zeros((len(terms), len(queries.lengths)), dtype=np.float32)
    table_UQ[np.searchsorted(terms, asked), queries.row_of_entries()] = queries.values.numpy()
    places = np.full(int(max(terms[-1], documents.columns.max())) + 1, -1)
    places[terms] = np.arange(len(terms))
    found = places[documents.columns.numpy()]
    kept = np.flatnonzero(found >= 0)
    lengths = np.bincount(documents.row_of_entries()[kept], minlength=len(documents.lengths))
    asked_of = SparseBatch.of_entries(found[kept], documents.values.numpy()[kept], lengths)
    return weighted_sum(asked_of, torch.from_numpy(table_UQ), sparse=False).T.contiguous()


def _lengths_of(batch: SparseBatch) -> Tensor:
    """Return the Euclidean lengths of rows, ``float32[N]``."""
    squares = batch.values.numpy().astype(np.float64) ** 2
    lengths = np.sqrt(np.bincount(batch.row_of_entries(), squares, len(batch.lengths)))
    return torch.from_numpy(lengths.astype(np.float32))


def _uniform(count: int, generator: torch.Generator) -> Any:
    return torch.rand(count, generator=generator, dtype=torch.float64).numpy()
