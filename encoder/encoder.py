"""The encoder: turns texts, vectors or matrices into packed binary codes, and explains them."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from pathlib import Path
from typing import Any, Literal, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from hummingbit.encoder.analyzers import Analyzer
from hummingbit.encoder.class_code import ClassCode, JointRows, joint_row
from hummingbit.encoder.codes import (
    Codes,
    pack_bits,
)
from hummingbit.encoder.endpoint import EndpointModel
from hummingbit.encoder.limits import Precision, check_n_bits
from hummingbit.encoder.neighbours import TERMS, Neighbour, TermTable, find_terms, open_terms
from hummingbit.encoder.reconstruction import Reconstruction
from hummingbit.encoder.spelling import QueryTerms
from hummingbit.encoder.text_features import Floats, SparseRows, TextFeatures, TextRow, native
from hummingbit.encoder.text_model import (
    ReadTexts,
    TextModel,
)
from hummingbit.encoder.vector_features import SpdFeatures, VectorFeatures
from hummingbit.foundation.cancellation import check_cancelled
from hummingbit.foundation.errors import InputError, counted

# The documents that an encoder learned from, so that no evaluation takes them for a test.


Content = str | npt.NDArray[np.float32]
"""A text, or a vector of float32."""
Hashes = npt.NDArray[np.uint64]


def hash_contents(contents: Iterable[Content | None]) -> Hashes:
    """Return 64 bits of BLAKE2b for each content, 0 for None.

    White space is read as single spaces, so a text that was wrapped or trimmed has the same hash.
    """
    return np.array([_hash(content) for content in contents], dtype=np.uint64)


def _hash(content: Content | None) -> int:
    if content is None:
        return 0
    if isinstance(content, str):
        raw = " ".join(content.split()).encode("utf-8", "surrogatepass")
    else:
        raw = np.ascontiguousarray(content, dtype="<f4").tobytes()
    return int.from_bytes(hashlib.blake2b(raw, digest_size=8).digest(), "little")


def learned_bytes(contents: Sequence[Content] | npt.NDArray[np.float32]) -> bytes:
    """Return the record of the contents: their distinct hashes, ascending, ``<u8``."""
    return np.unique(hash_contents(contents)).astype("<u8").tobytes()


@dataclass(frozen=True)
class LearnedDocuments:
    """What an artifact records of the documents that its encoder learned from.

    `hashes` (uint64, ascending) are those of their contents, and `labelled_ids` the ids of those
    whose labels it used. An artifact of an earlier version has only the ids, one that was not
    trained here has neither.
    """

    hashes: Hashes = field(default_factory=lambda: np.empty(0, np.uint64))
    labelled_ids: frozenset[str] = frozenset()

    def __bool__(self) -> bool:
        """Whether anything is recorded."""
        return bool(len(self.hashes) or self.labelled_ids)

    def contain(
        self,
        contents: Iterable[Content | None],
        stored: Iterable[tuple[str, Content | None]] = (),
    ) -> npt.NDArray[np.bool_]:
        """Tell of each content whether the encoder learned from it, bool[N].

        `stored` are ids and contents of a collection. Those with a labelled id count as learned
        from too, since a collection may have rounded the vectors, and earlier artifacts have no
        hashes.
        """
        hashes = hash_contents(contents)
        by_id = [content for id_, content in stored if id_ in self.labelled_ids]
        is_known: npt.NDArray[np.bool_] = np.isin(hashes, hash_contents(by_id))
        if len(self.hashes):
            rows = np.searchsorted(self.hashes, hashes)
            is_known |= self.hashes[np.minimum(rows, len(self.hashes) - 1)] == hashes
        is_known &= hashes != 0
        return is_known


# The encoder: turns texts, vectors or matrices into packed binary codes.
#
# Its network consists of fully connected layers in numpy. A language model can read the texts for
# it.


# Rows encoded at a time: enough for fast matrix products, few enough to stay in cache.
_BATCH = 512

# Up to this many queries are read one by one; more are read together, as documents are.
_FEW_TEXTS = 16
# Rows of weights that are copied at a time.
_ROWS_AT_ONCE = 64

TABLES = frozenset({"static", "ict"})
"""The methods of training whose rows of the first layer say which words are near in meaning."""


LanguageModel = TextModel | EndpointModel | ReadTexts
Features = TextFeatures | LanguageModel | VectorFeatures | SpdFeatures
Inputs = Sequence[str] | Floats
Integers = npt.NDArray[np.intp]
Activation = Literal["relu", "identity"]


class ByteRows(NamedTuple):
    """A matrix in 8 bits: row i is ``scales[i] * numbers[i]``."""

    numbers: npt.NDArray[np.int8]
    scales: Floats


class Layer:
    """act(x W + b), with the weight W of shape ``(inputs, outputs)`` and `bias` b ``(outputs,)``.

    The `precision` is that of W in an artifact; in memory it is float32. Of a W that is read in 8
    bits, the rows that a query needs are made alone, as making all of a large table takes longer
    than a search. What needs the others makes W once, and the 8 bits are let go.
    """

    def __init__(
        self,
        weight: Floats | ByteRows,
        bias: Floats,
        activation: Activation,
        precision: Precision = "float32",
    ) -> None:
        self._weight = weight
        self.bias = bias
        self.activation = activation
        self.precision = precision

    @property
    def is_whole(self) -> bool:
        """Whether W is float32 in memory."""
        return not isinstance(self._weight, ByteRows)

    @property
    def weight(self) -> Floats:
        """W."""
        weight = self._weight
        if isinstance(weight, ByteRows):
            weight = self._weight = weight.numbers * weight.scales[:, None]
        return weight

    def rows(self, columns: Integers) -> Floats:
        """Return the rows of W at some inputs, ``(M, outputs)``."""
        weight = self._weight  # another thread may make it whole
        if isinstance(weight, ByteRows):
            return np.asarray(weight.numbers[columns] * weight.scales[columns, None])
        return weight.take(columns, axis=0)

    def __call__(self, x: Floats | SparseRows) -> Floats:
        """Apply the layer to rows ``(N, inputs)``.

        For a sparse x, only the rows of W whose terms occur are read. So the cost of a text depends
        on its own length and not on that of the vocabulary.
        """
        return self.activate(np.asarray(x @ self.weight))

    def activate(self, products: Floats) -> Floats:
        """Return act(x W + b) for the products x W, which are overwritten."""
        products += self.bias
        if self.activation == "relu":
            np.maximum(products, 0.0, out=products)
        return products


class WeightedQueries(NamedTuple):
    """The weights of queries, and what the encoder knows of their terms."""

    weights: Floats
    """See :meth:`Encoder.query_weights`, float32 of shape ``(N, n_bits)``."""
    terms: Sequence[QueryTerms | None]
    """The terms of each query that is a text; None for a vector."""


@dataclass(frozen=True)
class Encoder:
    """Features, a network and thresholds: bit b of a code is 1 where logit_b > threshold_b.

    With a `class_code`, its bits come first and the network gives the logits of the others. With a
    `reconstruction`, which has the weight of the only layer, it gives the logits of documents, and
    the network those of queries; biases and thresholds are 0. The network reads the summaries of
    documents, too, if the features have a summary weight. With `words`, which need a language model
    and a class code, the class code reads the words of a text beside its vector
    (:class:`hummingbit.encoder.class_code.JointRows`), and the network the vector alone.
    `hybrid_weight` is the weight of codes in a hybrid ranking where a search names none.
    `metadata` records what the encoder was trained on and how. `fingerprint` identifies the
    artifact that it was loaded from, and is empty for an encoder that was never written. `learned`
    has the documents that it learned from, as far as the artifact records them. In the folder
    `derived`, tables are kept that take long to make.
    """

    features: Features
    layers: Sequence[Layer]
    thresholds: Floats
    metadata: Mapping[str, Any]
    fingerprint: str = ""
    class_code: ClassCode | None = None
    hybrid_weight: float | None = None
    learned: LearnedDocuments = field(default_factory=LearnedDocuments, compare=False)
    reconstruction: Reconstruction | None = None
    words: TextFeatures | None = None
    derived: Path | None = field(default=None, compare=False)

    def __repr__(self) -> str:
        """Return a line without the weights, for interactive use."""
        method = self.metadata.get("method", "no method")
        name = self.fingerprint[:12] or "not saved"
        return f"<Encoder of {self.kind}s, {self.n_bits} bits, {method}, {name}>"

    @property
    def n_bits(self) -> int:
        """The number of bits in a code."""
        return len(self.thresholds)

    @property
    def code_size(self) -> int:
        """The number of bytes in a packed code."""
        return self.n_bits // 8

    @property
    def kind(self) -> Literal["text", "vector"]:
        """What the encoder takes. A matrix is passed as the vector of its upper triangle."""
        return "text" if isinstance(self.features, TextFeatures | LanguageModel) else "vector"

    @property
    def dimension(self) -> int | None:
        """The length of the vectors that it takes; None for text."""
        text = isinstance(self.features, TextFeatures | LanguageModel)
        return None if text else self.features.dimension

    @property
    def is_slow(self) -> bool:
        """Whether a language model reads the texts, a thousand times slower than a word index."""
        return isinstance(self.features, LanguageModel)

    def are_cut(self, texts: Sequence[str]) -> list[bool]:
        """Tell which documents are longer than what a language model reads."""
        if isinstance(self.features, EndpointModel):
            return [*map(self.features.is_cut, texts)]
        if not isinstance(self.features, TextModel):
            return [False] * len(texts)
        return [
            tokenized.is_cut
            for tokenized in self.features.tokenize(texts, self.features.document_prompt)
        ]

    def prepare(self) -> None:
        """Build what the first queries would otherwise wait for."""
        for layer in self.layers:
            _ = layer.weight
        for features in (self.features, self.words):
            if isinstance(features, TextFeatures | LanguageModel):
                features.prepare()

    def knows(self, word: str) -> bool:
        """Tell whether a word in lower case, or one with its stem, is one of those it learned."""
        features, words = self.features, self.words
        if isinstance(features, TextFeatures | LanguageModel) and features.knows(word):
            return True
        return words is not None and words.knows(word)

    def correct(self, word: str) -> str | None:
        """Return the known word one edit from a word that it does not know, or None."""
        features = self.features if isinstance(self.features, TextFeatures) else self.words
        return None if features is None else features.correct(word)

    def neighbours(self, term: str, analyzer: Analyzer) -> Iterable[Neighbour]:
        """Return the terms of an analyzer nearest in meaning to one of them, nearest first.

        There are none if it has no table of words, or no word of this term.
        """
        return self._term_table(analyzer).neighbours(term) if self.has_table_of_words else ()

    def knows_neighbours(self, analyzer: Analyzer) -> bool:
        """Tell whether :meth:`neighbours` need build no table, which takes a second."""
        return not self.has_table_of_words or analyzer in self._term_tables

    def prepare_neighbours(self, analyzer: Analyzer) -> None:
        """Build what the first call of :meth:`neighbours` would otherwise wait for."""
        if self.has_table_of_words:
            self._term_table(analyzer)

    @property
    def has_table_of_words(self) -> bool:
        """Whether :meth:`neighbours` knows any words."""
        return isinstance(self.features, TextFeatures) and self.metadata.get("method") in TABLES

    def _term_table(self, analyzer: Analyzer) -> TermTable:
        table = self._term_tables.get(analyzer)
        if table is None:
            assert isinstance(self.features, TextFeatures)  # noqa: S101 - asked only then
            words, rows = self.features.vocabulary, self.layers[0].rows
            find = partial(find_terms, words, rows, analyzer.stem)
            if self.derived is None:
                terms = find()
            else:
                origin = self.fingerprint, analyzer.name, analyzer.stemmer_version
                terms = open_terms(self.derived / f"{analyzer.name}{TERMS}", origin, find)
            table = TermTable(words, rows, terms)
            self._term_tables[analyzer] = table
        return table

    @cached_property
    def _term_tables(self) -> dict[Analyzer, TermTable]:
        return {}

    def check_vector(self, vector: Floats) -> None:
        """Check a vector of finite numbers; the encoder must be one of vectors or matrices.

        Raises:
            InputError: if it has another length, or the encoder takes matrices and it is not the
                upper triangle of a positive definite one.
        """
        if len(vector) != self.dimension:
            reason = f"has {counted(len(vector), 'number')}; it must have {self.dimension}"
            raise InputError("vector", reason)
        if isinstance(self.features, SpdFeatures):
            self.features.matrices(vector[None])

    def logits(self, inputs: Inputs) -> Floats:
        """Return the logits of `inputs` as documents, float32 of shape ``(N, n_bits)``.

        Raises:
            InputError: if `inputs` is not what the encoder takes.
        """
        parts = [self._document_logits(batch) for batch in _batches(inputs)]
        return self._concatenate(parts)

    def encode(self, inputs: Inputs) -> Codes:
        """Return the packed codes of `inputs`, uint8 of shape ``(N, code_size)``.

        Raises:
            InputError: if `inputs` is not what the encoder takes.
        """
        return pack_bits(self.logits(inputs) > self.thresholds)

    def encode_few(self, inputs: Inputs) -> Codes:
        """Return what :meth:`encode` does for few inputs, of which a bit may be rounded otherwise.

        Texts are read without scipy, which takes long to import.

        Raises:
            InputError: if `inputs` is not what the encoder takes.
        """
        if not isinstance(self.features, TextFeatures):
            return self.encode(inputs)
        margins = np.empty((len(inputs), self.n_bits), dtype=np.float32)
        for row, text in zip(margins, inputs, strict=True):
            of_text, of_network = self.features.read_document(text)
            if self.class_code is not None:
                n_class = self.class_code.n_bits
                row[:n_class] = self.class_code.logits_of_row(*of_text) - self.thresholds[:n_class]
            self._forward_one(row, *of_network)
        return pack_bits(margins > 0)

    def encode_features(self, rows: Floats, texts: Sequence[str]) -> Codes:
        """Return the packed codes of documents whose features are `rows`, float32 ``(N, D)``.

        The encoder must be one of a language model. `texts` are those of the documents.
        """
        return pack_bits(self._logits_of_vectors(rows, texts) > self.thresholds)

    def margins(self, inputs: Inputs) -> Floats:
        """Return ``logit_b - threshold_b`` of `inputs`, float32 of shape ``(N, n_bits)``.

        Raises:
            InputError: if `inputs` is not what the encoder takes.
        """
        return self.logits(inputs) - self.thresholds

    def least_margins(self, inputs: Inputs) -> Floats:
        """Return the least number that decides on a bit of each document, ``float32[N]``.

        Where it is far from 0, a code does not depend on how a processor rounds.

        Raises:
            InputError: if `inputs` is not what the encoder takes.
        """
        if self.reconstruction is None:
            return np.asarray(np.abs(self.margins(inputs)).min(axis=1))
        parts = [self.reconstruction.logits(self._transform(some))[1] for some in _batches(inputs)]
        return np.concatenate(parts)

    def encode_queries(self, inputs: Inputs) -> Codes:
        """Return the packed codes of `inputs` as queries, uint8 of shape ``(N, code_size)``.

        Bit b is 1 where the query weight of b is positive; see :meth:`query_weights`.

        Raises:
            InputError: if `inputs` is not what the encoder takes.
        """
        return pack_bits(self.query_weights(inputs) > 0)

    def encode_uncorrected_queries(self, inputs: Inputs) -> Codes:
        """Return the codes of queries as :meth:`encode_queries` does, without correcting words.

        Raises:
            InputError: if `inputs` is not what the encoder takes.
        """
        return pack_bits(self._uncorrected_query_weights(inputs) > 0)

    def query_weights(self, inputs: Inputs) -> Floats:
        """Return the weights of a document's bits for each query, float32 ``(N, n_bits)``.

        They are ``w_b = logit_b - threshold_b``, except for the bits of a class code
        (:meth:`hummingbit.encoder.class_code.ClassCode.query_weights`). The asymmetric ranking
        orders documents by ``sum_b w_b (2 bit_b - 1)``. If each bit b of a document is 1 with the
        probability ``sigmoid(w_b)``, independently of the others, this sum is twice the logarithm
        of the probability of the document's code, up to a constant of the query.

        Raises:
            InputError: if `inputs` is not what the encoder takes.
        """
        return self.read_queries(inputs).weights

    def read_queries(self, inputs: Inputs, *, correct: bool = True) -> WeightedQueries:
        """Return the query weights of `inputs`, and the terms of each that is a text.

        With `correct`, unknown words are corrected first; see
        :meth:`hummingbit.encoder.text_features.TextFeatures.count_query_terms`. Words of documents
        never are.

        Raises:
            InputError: if `inputs` is not what the encoder takes.
        """
        if not isinstance(self.features, TextFeatures | LanguageModel):
            weights_of_vectors = self._uncorrected_query_weights(inputs)
            return WeightedQueries(weights_of_vectors, [None] * len(inputs))
        is_few = 0 < len(inputs) <= _FEW_TEXTS and not isinstance(inputs, str)
        if is_few and isinstance(self.features, TextFeatures):
            return self._read_few(self.features, inputs, correct=correct)  # type: ignore[arg-type]
        weights, terms = [], []
        for batch in _batches(inputs):
            if isinstance(self.features, TextFeatures):
                rows, batch_terms = self.features.transform_queries(batch, correct=correct)  # type: ignore[arg-type]
                weights.append(self.query_weights_of_rows(rows))
            else:
                vectors, batch_terms = self.features.transform_queries(batch)  # type: ignore[arg-type]
                words = None
                if self.words is not None:
                    read = [self.words.read_query(text, correct=correct) for text in batch]
                    words = [row for row, _ in read]
                    batch_terms = [
                        terms_of_text._replace(corrected=of_words.corrected)
                        for terms_of_text, (_, of_words) in zip(batch_terms, read, strict=True)
                    ]
                weights.append(self._query_weights_beside(vectors, words))
            terms += batch_terms
        return WeightedQueries(self._concatenate(weights), terms)

    def query_weights_of_vectors(self, vectors: Floats, texts: Sequence[str]) -> Floats:
        """Return the query weights of `texts` that a language model has read.

        `vectors`, float32 ``(N, D)``, are those of the texts as queries.
        """
        words = self.words
        rows = None if words is None else [words.read_query(text)[0] for text in texts]
        return self._query_weights_beside(vectors, rows)

    def _query_weights_beside(self, vectors: Floats, words: Sequence[TextRow] | None) -> Floats:
        """Return the query weights of texts by their vectors and, if they are read, their words."""
        if words is None:
            return self.query_weights_of_rows(vectors)
        code = self._joint_code
        content = self._forward(vectors) - self.thresholds[code.n_bits :]
        return np.hstack([self._each_joint(code.weights_of_row, vectors, words), content])

    @property
    def _joint_code(self) -> ClassCode:
        """The class code, which reads words beside vectors."""
        assert self.class_code is not None  # noqa: S101 - there are no words without it
        return self.class_code

    def _each_joint(
        self, function: Callable[..., Floats], vectors: Floats, words: Sequence[TextRow]
    ) -> Floats:
        """Return what `function` of the class code makes of each vector and the words beside it."""
        of_classes: Floats = np.empty((len(vectors), self._joint_code.n_bits), dtype=np.float32)
        for row, vector, terms in zip(of_classes, vectors, words, strict=True):
            row[:] = function(*joint_row(vector, terms))
        return of_classes

    def query_weights_of_rows(self, rows: Any) -> Floats:
        """Return the query weights of queries whose features are `rows`, ``(N, n_bits)``."""
        if self.class_code is None:
            return self._forward(rows) - self.thresholds
        content = self._forward(rows) - self.thresholds[self.class_code.n_bits :]
        return np.hstack([self._each(self.class_code.query_weights, rows), content])

    def _uncorrected_query_weights(self, inputs: Inputs) -> Floats:
        """Return the query weights of `inputs` without correcting words."""
        parts = []
        for batch in _batches(inputs):
            if not isinstance(self.features, LanguageModel):
                parts.append(self.query_weights_of_rows(self._transform(batch)))
                continue
            vectors = self.features.transform_queries(batch)[0]  # type: ignore[arg-type]
            words = None if self.words is None else self._words_of(batch)  # type: ignore[arg-type]
            parts.append(self._query_weights_beside(vectors, words))
        return self._concatenate(parts)

    def _words_of(self, texts: Sequence[str]) -> list[TextRow]:
        """Return the words of `texts` as documents, uncorrected."""
        assert self.words is not None  # noqa: S101 - asked only then
        return [self.words.read_document(text)[0] for text in texts]

    def class_rows(self, inputs: Inputs, *, vectors: Floats | None = None) -> Any:
        """Return what the maps of the class code read of `inputs` as documents, ``(N, F)``.

        `vectors`, ``float32[N, D]``, are those of a language model if they are known.
        """
        rows = self._transform(inputs) if vectors is None else vectors
        if self.words is None:
            return rows
        return JointRows(rows, self.words.transform(inputs))  # type: ignore[arg-type]

    def _concatenate(self, parts: list[Floats]) -> Floats:
        return np.concatenate(parts) if parts else np.empty((0, self.n_bits), dtype=np.float32)

    def _read_few(
        self, features: TextFeatures, texts: Sequence[str], *, correct: bool
    ) -> WeightedQueries:
        """Read queries one by one, so that none depends on those beside it, and without scipy."""
        weights = np.empty((len(texts), self.n_bits), dtype=np.float32)
        code, terms = self.class_code, []
        for row, text in zip(weights, texts, strict=True):
            (columns, values), query_terms = features.read_query(text, correct=correct)
            if code is not None:
                row[: code.n_bits] = code.weights_of_row(columns, values)
            self._forward_one(row, columns, values)
            terms.append(query_terms)
        return WeightedQueries(weights, terms)

    def _forward_one(self, margins: Floats, columns: Integers, values: Floats) -> None:
        """Write the margins of the bits that the layers give for one row into `margins`."""
        n_class = 0 if self.class_code is None else self.class_code.n_bits
        if native is None:
            margins[n_class:] = (
                forward_row(self.layers, columns, values) - self.thresholds[n_class:]
            )
        elif self.layers[0].is_whole:
            native.forward(margins[n_class:], columns, values, *self._native_network)
        else:
            thresholds, *others = self._native_beside_weight
            # A layer has a row at least; without columns, it is not read.
            some = columns if len(columns) else np.zeros(1, dtype=np.intp)
            native.forward(
                margins[n_class:],
                np.arange(len(columns)),
                values,
                thresholds,
                self.layers[0].rows(some),
                *others,
            )

    @cached_property
    def _native_network(self) -> tuple[Any, ...]:
        """The thresholds, and each layer's weight, bias and activation, for the compiled code."""
        thresholds, *others = self._native_beside_weight
        weight = np.ascontiguousarray(self.layers[0].weight, dtype=np.float32)
        return thresholds, weight, *others

    @cached_property
    def _native_beside_weight(self) -> tuple[Any, ...]:
        """The same without the weight of the first layer, which may be made row by row."""
        n_class = 0 if self.class_code is None else self.class_code.n_bits
        arguments: list[Any] = [np.ascontiguousarray(self.thresholds[n_class:], dtype=np.float32)]
        for at, layer in enumerate(self.layers):
            arrays = (layer.weight, layer.bias) if at else (layer.bias,)
            arguments += [np.ascontiguousarray(array, dtype=np.float32) for array in arrays]
            arguments.append(layer.activation == "relu")
        return tuple(arguments)

    def _document_logits(self, inputs: Inputs) -> Floats:
        rows = self._transform(inputs)
        if isinstance(self.features, LanguageModel):
            return self._logits_of_vectors(rows, inputs)  # type: ignore[arg-type]
        network_rows = rows
        if isinstance(self.features, TextFeatures):
            network_rows = self.features.add_summaries(rows, inputs)  # type: ignore[arg-type]
        return self._logits_of_rows(rows, network_rows)

    def _logits_of_vectors(self, vectors: Floats, texts: Sequence[str]) -> Floats:
        """Return the logits of `texts` whose vectors by a language model are `vectors`."""
        if self.words is None:
            return self._logits_of_rows(vectors, vectors)
        logits_of_row = self._joint_code.logits_of_row
        of_classes = self._each_joint(logits_of_row, vectors, self._words_of(texts))
        return np.hstack([of_classes, self._forward(vectors)])

    def _logits_of_rows(self, rows: Any, network_rows: Any) -> Floats:
        """Return the logits of documents; the class code reads `rows`, the layers the others."""
        if self.reconstruction is not None:
            return self.reconstruction.logits(rows)[0]
        logits = self._forward(network_rows)
        if self.class_code is None:
            return logits
        return np.hstack([self._each(self.class_code.logits, rows), logits])

    def _forward(self, rows: Any) -> Floats:
        """Return the output of the last layer for `rows` of features."""
        return self._each(partial(forward, self.layers), rows)

    def _each(self, function: Callable[[Any], Floats], rows: Any) -> Floats:
        """Return what `function` makes of `rows` of features.

        It takes the vectors of a language model one by one, because the product of a matrix may
        round a row otherwise than that of the row alone.
        """
        if not isinstance(self.features, LanguageModel):
            return function(rows)
        parts = [function(row[None]) for row in rows]
        return np.concatenate(parts) if parts else function(rows)

    def _transform(self, inputs: Inputs) -> Any:
        return self.features.transform(inputs)  # type: ignore[arg-type]  # each checks its own


def sign_encoder(dimension: int) -> Encoder:
    """Return the encoder of vectors of `dimension` numbers whose bits are their signs.

    Bit b is 1 where number b is positive, and a query's real values are its numbers. It has nothing
    to learn.

    Raises:
        CodeError: unless codes can have so many bits.
    """
    check_n_bits(dimension)
    thresholds = np.zeros(dimension, dtype=np.float32)
    return Encoder(VectorFeatures(dimension), (), thresholds, {"method": "sign"})


def forward(layers: Sequence[Layer], x: Floats | SparseRows) -> Floats:
    """Return the output of the last layer, float32 of shape ``(N, outputs)``."""
    for layer in layers:
        x = layer(x)
    return np.asarray(x, dtype=np.float32)


def forward_row(layers: Sequence[Layer], columns: Integers, values: Floats) -> Floats:
    """Return the output of the last layer for one row, float32 of shape ``(outputs,)``.

    The row is 0 but for `values` at the ascending `columns`. The inputs of a layer are added in
    their order, and each product is rounded before it is added, as in ``native/layers.c``. So both
    give the same on every processor, bit for bit; a matrix product may round otherwise.
    """
    for layer in layers:
        sums = np.zeros(len(layer.bias), dtype=np.float32)
        for start in range(0, len(columns), _ROWS_AT_ONCE):
            part = slice(start, start + _ROWS_AT_ONCE)
            rows = layer.rows(columns[part])
            rows *= values[part, None]
            rows[0] += sums
            sums = np.add.reduce(rows, axis=0)
        x = layer.activate(sums)
        (columns,) = x.nonzero()
        values = x[columns]
    return x


def _batches(inputs: Inputs) -> Iterator[Inputs]:
    for start in range(0, len(inputs), _BATCH):
        check_cancelled()
        yield inputs[start : start + _BATCH]


# Explains the code of a query: how each term of its text changes the bits.


# Only this many terms, those with the highest weights, are left out in turn.
MAX_TERMS = 256


class TermInfluence(NamedTuple):
    """A term of a text, and how the code changes without it."""

    term: str
    weight: float
    """The value of its feature, such as TF-IDF."""
    influence: float
    """Σ_b |p_b − p′_b|, with the probabilities of the bits p with the term and p′ without it."""
    flipped_bits: list[int]
    """The bits that change without it; bit 0 is the first of the code."""


def explain_text(
    encoder: Encoder, text: str, limit: int = 10, *, correct: bool = True
) -> list[TermInfluence]:
    """Return up to `limit` terms of `text`, those with the most influence on its code first.

    A language model reads a text as a whole, so there are none.

    The text is read as a query, with unknown words corrected unless told otherwise. Each term is
    left out in turn, and the rest is encoded: p_b = σ(w_b), w being
    :meth:`hummingbit.encoder.encoder.Encoder.query_weights`.

    Raises:
        TypeError: if the encoder does not take text.
    """
    features = encoder.features
    if isinstance(features, LanguageModel):
        return []
    if not isinstance(features, TextFeatures):
        raise TypeError("the encoder takes vectors; it has no terms")
    counts, _ = features.count_query_terms([text], correct=correct)
    weights = features.weigh(counts).data
    heaviest = np.argsort(-weights, kind="stable")[:MAX_TERMS]
    # Row 0 has all terms of the text; row i > 0 lacks the i-th of the heaviest.
    counts_without = np.repeat(counts.data[None, :], len(heaviest) + 1, axis=0)
    counts_without[np.arange(len(heaviest)) + 1, heaviest] = 0
    starts = np.arange(len(heaviest) + 2) * counts.nnz
    columns = np.tile(counts.indices, len(heaviest) + 1)
    shape = (len(heaviest) + 1, features.dimension)
    from scipy.sparse import csr_array  # noqa: PLC0415 - it takes longer than a search

    rows = csr_array((counts_without.ravel(), columns, starts), shape=shape)
    rows.eliminate_zeros()
    bit_weights = encoder.query_weights_of_rows(features.weigh(rows))
    probabilities = 1 / (1 + np.exp(-bit_weights.astype(np.float64)))
    influences = np.abs(probabilities[1:] - probabilities[0]).sum(axis=1)
    flips = (bit_weights[1:] > 0) != (bit_weights[0] > 0)
    most_influential = np.argsort(-influences, kind="stable")[:limit]
    return [
        TermInfluence(
            term=features.vocabulary[counts.indices[heaviest[position]]],
            weight=float(weights[heaviest[position]]),
            influence=float(influences[position]),
            flipped_bits=np.flatnonzero(flips[position]).tolist(),
        )
        for position in most_influential
    ]


class LearnedTexts(Protocol):
    """The texts that an encoder learned from."""

    def contain(self, contents: Sequence[str], /) -> npt.NDArray[np.bool_]:
        """Tell of each text whether the encoder learned from it, bool[N]."""


class TextEncoder(Protocol):
    """What makes codes of documents and weights of queries: an encoder, here or at a service."""

    @property
    def is_slow(self) -> bool:
        """See :attr:`Encoder.is_slow`."""

    @property
    def learned(self) -> LearnedTexts:
        """The texts that it learned from."""

    def encode(self, inputs: list[str], /) -> Codes:
        """Return the codes of documents, ``uint8[N, C]``."""

    def read_queries(self, inputs: list[str], /) -> WeightedQueries:
        """See :meth:`Encoder.read_queries`."""
