"""A language model as features of texts: its tokenizer, its network in ONNX, and the pooling.

Texts become vectors as sentence-transformers computes them: a prompt and the text are split into
tokens, the network gives every token a vector, and these are pooled to one. onnxruntime and
tokenizers do the work; both are in the extra ``model``, and nothing needs torch.

A text's vector does not depend on the texts beside it. Batches are padded and the network masks the
padding, which leaves every float32 operation on a text as it is. A model whose activations are
quantized to 8 bits takes their scale from the whole batch, so it reads texts one at a time.
"""

from __future__ import annotations

import functools
import importlib
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, fields
from typing import Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from hummingbit.encoder.limits import Precision
from hummingbit.encoder.spelling import QueryTerms
from hummingbit.encoder.text_features import Floats
from hummingbit.foundation.cancellation import check_cancelled
from hummingbit.foundation.errors import HummingbitError, InputError, counted, install_command
from hummingbit.foundation.slices import available_cores

Pooling = Literal["mean", "cls", "last"]
INPUTS = ("input_ids", "attention_mask", "token_type_ids")

# A batch has at most so many texts and, padding included, so many tokens: fewer than a processor
# needs for its full speed would be slower, and more would keep other work waiting.
_TEXTS_AT_ONCE, _TOKENS_AT_ONCE = 32, 512
# A text is cut to so many characters for each token before it is split: a token of natural language
# has four, and a million characters would take a second.
_CHARACTERS_A_TOKEN = 64
_INTEGERS = {"tensor(int64)": np.int64, "tensor(int32)": np.int32}


class ModelError(HummingbitError, ValueError):
    """A language model cannot be used: a part is missing, malformed or does not fit another."""


class TokenizedText(NamedTuple):
    """The tokens of a text that the model reads."""

    ids: list[int]
    n_known: int
    """How many of them, special ones left out, are not the unknown token."""
    is_cut: bool
    """Whether the text has more tokens than the model reads."""


@dataclass(frozen=True, eq=False)
class TextModel:
    """Vectors of texts by the network `model`, an ONNX file, and `tokenizer`, a tokenizer.json.

    The network takes ``input_ids`` and ``attention_mask``, and perhaps ``token_type_ids``, each
    ``[N, L]``, and its first output is the vectors of the tokens, ``float32[N, L, E]``. `pooling`
    takes their mean, the first (``cls``) or the last. Vectors are cut to their first `dimension`
    numbers, which Matryoshka models allow, and with `l2_normalize` scaled to length 1. A text is
    read to `max_tokens` tokens, special ones included. The prompts precede queries and documents.

    Raises:
        ModelError: if onnxruntime or tokenizers is not installed, a file cannot be read, the
            tokenizer has tokens that the network lacks, or the network has other inputs or outputs.
    """

    model: bytes
    tokenizer: bytes
    dimension: int
    pooling: Pooling = "mean"
    max_tokens: int = 256
    query_prompt: str = ""
    document_prompt: str = ""
    l2_normalize: bool = True
    precision: Precision = "float32"

    def __post_init__(self) -> None:
        self._check_network()

    def __reduce__(self) -> tuple[Any, ...]:
        """Leave out the sessions, which every process makes for itself."""
        return TextModel, tuple(getattr(self, field.name) for field in fields(self))

    def __repr__(self) -> str:
        """Return a line without the files."""
        size = f"{len(self.model) / 1e6:.0f} MB"
        return f"<TextModel of {self.dimension} numbers, {self.pooling} pooling, {size}>"

    def prepare(self) -> None:
        """Do nothing; a model is ready once it exists."""

    def knows(self, word: str) -> bool:
        """Tell whether a word in lower case is a token, however tokens mark the begin of a word."""
        forms = (f"{mark}{word}" for mark in ("", "▁", "Ġ"))
        return any(self._tokenizer.token_to_id(form) is not None for form in forms)

    def transform(self, texts: Sequence[str]) -> Floats:
        """Return the vectors of `texts` as documents, ``float32[N, dimension]``.

        Raises:
            InputError: if `texts` is not a sequence of strings.
        """
        return self.vectors([text.ids for text in self.tokenize(texts, self.document_prompt)])

    def transform_queries(self, texts: Sequence[str]) -> tuple[Floats, list[QueryTerms]]:
        """Return the vectors of `texts` as queries, and how many tokens of each are known.

        Raises:
            InputError: if `texts` is not a sequence of strings.
        """
        tokenized = self.tokenize(texts, self.query_prompt)
        known = [max(0, text.n_known - self._known_in_prompt) for text in tokenized]
        terms = [QueryTerms(n, ()) for n in known]
        return self.vectors([text.ids for text in tokenized]), terms

    def tokenize(self, texts: Sequence[str], prompt: str = "") -> list[TokenizedText]:
        """Split `prompt` and each text into tokens, at most `max_tokens`.

        Raises:
            InputError: if `texts` is not a sequence of strings.
        """
        if isinstance(texts, str) or not all(isinstance(text, str) for text in texts):
            raise InputError("text", "must be a sequence of strings")
        most = self.max_tokens * _CHARACTERS_A_TOKEN
        encodings = self._tokenizer.encode_batch([prompt + text[:most] for text in texts])
        unknown = self._unknown
        return [
            TokenizedText(
                encoding.ids,
                sum(
                    not special and token != unknown
                    for token, special in zip(
                        encoding.ids, encoding.special_tokens_mask, strict=True
                    )
                ),
                bool(encoding.overflowing) or len(text) > most,
            )
            for text, encoding in zip(texts, encodings, strict=True)
        ]

    def vectors(self, ids: Sequence[Sequence[int]], n_threads: int | None = None) -> Floats:
        """Return the vectors of texts whose tokens are `ids`, ``float32[N, dimension]``.

        `n_threads` batches are read at the same time, by default as many as there are processors.
        """
        result = np.zeros((len(ids), self.dimension), dtype=np.float32)
        n_threads = n_threads or available_cores()
        batches = list(self._batches(ids, n_threads))
        n_threads = min(n_threads, len(batches))
        if n_threads <= 1:
            for rows in batches:
                check_cancelled()
                result[rows] = self._run([ids[row] for row in rows])
            return result
        with ThreadPoolExecutor(n_threads) as threads:
            for start in range(0, len(batches), n_threads):
                check_cancelled()
                running: list[tuple[list[int], Future[Floats]]] = [
                    (rows, threads.submit(self._run, [ids[row] for row in rows]))
                    for rows in batches[start : start + n_threads]
                ]
                for rows, vectors in running:
                    result[rows] = vectors.result()
        return result

    def _batches(self, ids: Sequence[Sequence[int]], n_threads: int) -> Iterator[list[int]]:
        """Yield the rows of texts of similar lengths; texts without tokens are left out.

        Each of the threads gets a batch if there are texts for it.
        """
        batch: list[int] = []
        most = min(_TEXTS_AT_ONCE, -(-len(ids) // n_threads))
        if self.precision == "int8":
            most = 1
        for row in sorted((row for row in range(len(ids)) if ids[row]), key=lambda i: len(ids[i])):
            # Lengths ascend, so the batch is padded to that of this text.
            if batch and (len(batch) >= most or (len(batch) + 1) * len(ids[row]) > _TOKENS_AT_ONCE):
                yield batch
                batch = []
            batch.append(row)
        if batch:
            yield batch

    def _run(self, ids: Sequence[Sequence[int]]) -> Floats:
        lengths = [len(text_ids) for text_ids in ids]
        tokens = np.zeros((len(ids), max(lengths)), dtype=np.int64)
        mask = np.zeros_like(tokens)
        for row, text_ids in enumerate(ids):
            tokens[row, : len(text_ids)] = text_ids
            mask[row, : len(text_ids)] = 1
        arrays = dict(zip(INPUTS, (tokens, mask, np.zeros_like(tokens)), strict=True))
        feeds = {name: arrays[name].astype(kind) for name, kind in self._inputs.items()}
        hidden: Floats = self._session.run([self._output], feeds)[0]
        return np.stack([self._pool(hidden[row, :n]) for row, n in enumerate(lengths)])

    def _pool(self, hidden: npt.NDArray[Any]) -> Floats:
        """Return the vector of a text whose tokens have the vectors `hidden`, ``[L, E]``."""
        if self.pooling == "mean":
            # Added in the order of the tokens, which is the same in every batch.
            vector = hidden.sum(axis=0) / np.float32(len(hidden))
        else:
            vector = hidden[0 if self.pooling == "cls" else -1]
        vector = vector[: self.dimension]
        if self.l2_normalize:
            vector = vector / max(np.float32(np.linalg.norm(vector)), np.float32(1e-12))
        return np.asarray(vector, dtype=np.float32)

    @functools.cached_property
    def _session(self) -> Any:
        runtime = _library("onnxruntime")
        options = runtime.SessionOptions()
        # Texts are read in threads of our own; onnxruntime's would wait for work by computing.
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        options.log_severity_level = 4
        try:
            return runtime.InferenceSession(self.model, options, providers=["CPUExecutionProvider"])
        except Exception as error:
            raise ModelError(
                f"onnxruntime cannot read the network: {_first_line(error)}"
            ) from error

    @functools.cached_property
    def _inputs(self) -> dict[str, Any]:
        """The type of each input of the network, by name."""
        inputs = {input_.name: _INTEGERS.get(input_.type) for input_ in self._session.get_inputs()}
        if not set(INPUTS[:2]) <= inputs.keys() <= set(INPUTS) or None in inputs.values():
            found = ", ".join(inputs) or "none"
            raise ModelError(f"the network's inputs are {found}; they must be {', '.join(INPUTS)}")
        return inputs

    @functools.cached_property
    def _output(self) -> str:
        return str(self._session.get_outputs()[0].name)

    @functools.cached_property
    def _tokenizer(self) -> Any:
        tokenizer = _read_tokenizer(self.tokenizer)
        tokenizer.no_padding()
        tokenizer.enable_truncation(self.max_tokens)
        return tokenizer

    @functools.cached_property
    def _unknown(self) -> int | None:
        names = ("[UNK]", "<unk>")
        found = (self._tokenizer.token_to_id(name) for name in names)
        return next((token for token in found if token is not None), None)

    @functools.cached_property
    def _known_in_prompt(self) -> int:
        return self.tokenize([self.query_prompt])[0].n_known

    def _check_network(self) -> None:
        """Let the network read the last token of the tokenizer, and look at what it returns."""
        last = self._tokenizer.get_vocab_size() - 1
        tokens = np.full((1, 2), last)
        feeds = {
            name: (tokens if name == INPUTS[0] else tokens * 0 + (name == INPUTS[1])).astype(kind)
            for name, kind in self._inputs.items()
        }
        try:
            hidden = self._session.run([self._output], feeds)[0]
        except Exception as error:
            found = f"the tokenizer has {counted(last + 1, 'token')}, and the network reads fewer"
            raise ModelError(f"{found}; they are of different models") from error
        if hidden.ndim != 3 or hidden.shape[:2] != (1, 2) or hidden.dtype != np.float32:
            found = f"{hidden.dtype}{list(hidden.shape)} for 1 text of 2 tokens"
            raise ModelError(f"the network returns {found}; it must return float32[1, 2, E]")
        if not 1 <= self.dimension <= hidden.shape[2]:
            found = f"dimension is {self.dimension}"
            raise ModelError(f"{found}; the network's vectors have {hidden.shape[2]} numbers")


@dataclass(frozen=True, eq=False)
class ReadTexts:
    """The vectors of texts that a language model has read, in its place.

    `vectors`, ``float32[N, dimension]``, are those of `texts` as documents. Queries have the same.
    """

    texts: Sequence[str]
    vectors: Floats

    @property
    def dimension(self) -> int:
        """The number of numbers of a vector."""
        return int(self.vectors.shape[1])

    def prepare(self) -> None:
        """Do nothing."""

    def knows(self, word: str) -> bool:  # noqa: ARG002
        """Return False: which words the model knows was not read."""
        return False

    def transform(self, texts: Sequence[str]) -> Floats:
        """Return the vectors of some of the texts.

        Raises:
            KeyError: if the model has not read a text.
        """
        return self.vectors[[self._rows[text] for text in texts]]

    def transform_queries(self, texts: Sequence[str]) -> tuple[Floats, list[QueryTerms]]:
        """Return the vectors of some of the texts, and how many words each has."""
        return self.transform(texts), [QueryTerms(len(text.split()), ()) for text in texts]

    @functools.cached_property
    def _rows(self) -> dict[str, int]:
        return {text: row for row, text in enumerate(self.texts)}


def count_tokens(tokenizer: bytes) -> int:
    """Return the number of tokens of a tokenizer.json.

    Raises:
        ModelError: if it cannot be read, or tokenizers is not installed.
    """
    return int(_read_tokenizer(tokenizer).get_vocab_size())


def _read_tokenizer(contents: bytes) -> Any:
    library = _library("tokenizers")
    try:
        return library.Tokenizer.from_buffer(contents)
    except Exception as error:
        raise ModelError(f"tokenizers cannot read the tokenizer: {_first_line(error)}") from error


def _library(name: str) -> Any:
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        needed = f"onnxruntime and tokenizers: {install_command('model')}"
        raise ModelError(f"an encoder with a language model needs {needed}") from error


def _first_line(error: Exception) -> str:
    return str(error).strip().partition("\n")[0][:300]
