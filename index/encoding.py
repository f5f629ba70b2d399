"""From documents and queries to codes, in one process or on all cores."""

from __future__ import annotations

import itertools
import os
import signal
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, TypeVar

import numpy as np

from hummingbit.corpus.document import Document, Vector, parse_text, parse_vector
from hummingbit.encoder.codes import (
    Codes,
    code_from_hex,
    codes_from_hex,
    codes_of_vectors,
    pack_bits,
)
from hummingbit.encoder.encoder import Encoder, Inputs
from hummingbit.encoder.vector_features import SpdFeatures
from hummingbit.foundation.errors import InputError, counted
from hummingbit.index.errors import UnknownDocument
from hummingbit.index.passages import (
    DocumentCodes,
    PassageCodes,
    Passages,
    Span,
    passage_texts,
    split_to_fit,
)
from hummingbit.index.questions import Question
from hummingbit.index.records import EncodedQueries, Query
from hummingbit.index.schema import Description

if TYPE_CHECKING:
    from concurrent.futures import ProcessPoolExecutor
    from multiprocessing.connection import Connection

# From documents and queries to codes.


Item = TypeVar("Item")

QUERY_FIELDS = ("text", "vector", "code", "id")
WITHOUT_CODES = "the collection has no codes and is searched by words alone"


@dataclass(frozen=True, slots=True)
class Contents:
    """The contents of documents: codes, and inputs that are to be encoded.

    `codes` is ``uint8[N, n_bits / 8]``, with zeros for documents without a code. `inputs` are the
    texts or vectors to encode, and `positions` the documents that they belong to. In a collection
    with passages, the inputs are the passages of the documents, whose `spans` are given. Passages
    that are searched by words alone are not encoded, and are no inputs.
    """

    codes: Codes
    positions: list[int]
    inputs: Inputs
    spans: Sequence[Sequence[Span]] | None = None

    def insert_codes(self, encoded: Codes | None) -> DocumentCodes:
        """Return the codes of the documents, or of their passages.

        `encoded` are those of the inputs, ``uint8[len(inputs), C]``; None if there are no inputs.
        """
        if self.spans is None:
            if encoded is not None:
                self.codes[self.positions] = encoded
            return self.codes
        counts = np.ones(len(self.codes), dtype=np.int64)
        counts[self.positions] = [len(some) for some in self.spans]
        is_encoded = np.zeros(len(self.codes), dtype=np.bool_)
        is_encoded[self.positions] = True
        codes = np.repeat(self.codes, counts, axis=0)
        spans = np.zeros((len(codes), 2), dtype=np.uint32)
        if encoded is not None:
            codes[np.repeat(is_encoded, counts)] = encoded
        spans[np.repeat(is_encoded, counts)] = [*itertools.chain.from_iterable(self.spans)]
        return PassageCodes(codes, counts, spans)


def encode_documents(
    documents: Sequence[Document],
    encoder: Encoder | None,
    n_bits: int,
    passages: Passages | None = None,
) -> DocumentCodes:
    """Return the codes of `documents`, ``uint8[N, n_bits / 8]``: read, or made by `encoder`.

    Documents without text, vector and code get zeros. With `passages`, return the codes of the
    passages of their texts.

    Raises:
        InputError: if a document is invalid; it names the field, what is wrong and the document.
    """
    contents = read_contents(documents, encoder, n_bits, passages)
    if encoder is None or not len(contents.inputs):
        return contents.insert_codes(None)
    return contents.insert_codes(encoder.encode(contents.inputs))


def encode_queries(
    queries: Sequence[Query],
    description: Description,
    encoder: Encoder | None,
    codes_of: Callable[[Sequence[str]], Mapping[str, Codes]],
    questions: Sequence[Question | None],
    *,
    takes_texts: bool,
) -> EncodedQueries:
    """Return the codes of `queries` and the real values behind them.

    `codes_of` returns the codes of the documents with the ids, and `questions` are the texts as
    they were read. Of a query by code or id only the bits are known; each weighs 1. If the
    collection has no encoder, the numbers of a vector are the weights of the bits. Unless
    `takes_texts`, a text has no code, and its weights are 0.

    Raises:
        InputError: if a query has none of text, vector, code and id, or an id and another one, or
            if the collection's encoder does not take it. Its `position` says which query.
        UnknownDocument: if no document has the id of a query.
    """
    n_bits = description.n_bits
    codes = np.zeros((len(queries), n_bits // 8), dtype=np.uint8)
    signs: list[int] = []
    positions: list[int] = []
    for position, query in enumerate(queries):
        try:
            code = _check_query(query, encoder, n_bits)
        except InputError as error:
            raise InputError(error.field, error.reason, position) from None
        if code is not None:
            codes[position] = code
        elif query.vector is not None and encoder is None:
            signs.append(position)
        elif query.vector is not None or (query.text is not None and takes_texts):
            positions.append(position)
    _insert_document_codes(queries, codes, description.name, codes_of)
    encoded = EncodedQueries.of_codes(codes)
    terms = [*encoded.terms]
    if signs:
        weights = np.stack([np.asarray(queries[at].vector, dtype=np.float32) for at in signs])
        codes[signs] = codes_of_vectors(weights, "sign")
        encoded.weights[signs], encoded.weighted[signs] = weights, True
    if encoder is not None and positions:
        inputs = query_inputs(queries, questions, positions, encoder)
        weights, some_terms = encoder.read_queries(inputs, correct=False)
        codes[positions] = pack_bits(weights > 0)
        # A text without a recognized term says nothing about any bit.
        weights[[seen is not None and not seen.recognized_terms for seen in some_terms]] = 0
        encoded.weights[positions], encoded.weighted[positions] = weights, True
        for at, text_terms in zip(positions, some_terms, strict=True):
            terms[at] = text_terms
    unread = [at for at, asked in enumerate(questions) if asked is not None and terms[at] is None]
    only_words = [at for at in unread if queries[at].vector is None and queries[at].code is None]
    encoded.weights[only_words] = 0
    return replace(
        encoded,
        questions=questions,
        terms=terms,
        vectors=_vectors_of(queries, encoder),
        has_words=bool(unread),
    )


def query_inputs(
    queries: Sequence[Query],
    questions: Sequence[Question | None],
    positions: Sequence[int],
    encoder: Encoder,
) -> Inputs:
    """Return what an encoder reads of the queries at some positions.

    A language model reads a text as it was written, without its syntax; so do words beside it. An
    encoder of words reads it with corrections.
    """
    if encoder.kind != "text":
        return _encoder_inputs([queries[at] for at in positions], encoder)
    texts: list[str] = []
    for at in positions:
        question = questions[at]
        if question is None:
            texts.append("")
        elif encoder.is_slow:
            text = queries[at].text or ""
            texts.append(text if question.syntax.is_plain else question.text)
        else:
            texts.append(question.encoded)
    return texts


def _check_query(query: Query, encoder: Encoder | None, n_bits: int) -> Codes | None:
    """Check the fields of a query; return its code if it brings one."""
    text, vector, code, id_ = query
    contents = (text is not None) + (vector is not None) + (code is not None)
    if (contents > 0) == (id_ is not None):
        raise InputError("query", _describe_fields(query))
    for field in QUERY_FIELDS:
        if n_bits == 0 and field != "text" and getattr(query, field) is not None:
            raise InputError(field, f"needs codes; {WITHOUT_CODES}")
    if text is not None:
        parse_text(text)
    if vector is not None:
        _check_vector(query, encoder, n_bits)
    return None if code is None else code_from_hex(code, n_bits)


def _check_vector(query: Query, encoder: Encoder | None, n_bits: int) -> None:
    """Raise InputError unless a query's vector can be searched for or, beside a code, rescore."""
    vector = parse_vector(query.vector)
    if encoder is not None:
        _check_vector_of(encoder, vector)
    elif query.code is None and len(vector) != n_bits:
        size = f"has {counted(len(vector), 'number')}"
        message = f"the collection has codes of {n_bits} bits, so it must have one for each"
        raise InputError("vector", f"{size}; {message}")


def _vectors_of(queries: Sequence[Query], encoder: Encoder | None) -> Sequence[Vector | None]:
    """Return the vectors of queries, if there are any; the triangle of a matrix is not a vector."""
    if encoder is not None and isinstance(encoder.features, SpdFeatures):
        return ()
    vectors = [query.vector for query in queries]
    return () if all(vector is None for vector in vectors) else vectors


def read_contents(
    documents: Sequence[Document],
    encoder: Encoder | None,
    n_bits: int,
    passages: Passages | None = None,
) -> Contents:
    """Check `documents` and parse their codes; texts and vectors are not encoded.

    With `passages`, which need codes of their own, a code beside a text is left out.

    Raises:
        InputError: if a document is invalid; it names the field, what is wrong and the document.
    """
    if n_bits == 0:
        return _read_words(documents, passages)
    if passages is not None and encoder is not None and encoder.kind == "text":
        documents = [
            document if document.text is None else replace(document, code=None)
            for document in documents
        ]
    codes, positions = _read_codes(documents, encoder, n_bits)
    to_encode = [documents[at] for at in positions]
    if passages is None or encoder is None or encoder.kind != "text" or not positions:
        return Contents(codes, positions, _encoder_inputs(to_encode, encoder))
    spans = _split([document.text or "" for document in to_encode], passages, encoder.are_cut)
    inputs = [
        text
        for document, some in zip(to_encode, spans, strict=True)
        for text in passage_texts(document.text or "", some)
    ]
    return Contents(codes, positions, inputs, spans)


def _read_codes(
    documents: Sequence[Document], encoder: Encoder | None, n_bits: int
) -> tuple[Codes, list[int]]:
    """Return the codes that documents bring, and the positions of those that are to be encoded."""
    positions: list[int] = []
    hex_codes = [document.code for document in documents if document.code is not None]
    codes = np.zeros((len(documents), n_bits // 8), dtype=np.uint8)
    parsed: Codes | None = None
    if len(hex_codes) == len(documents):
        # If one of them is invalid, the loop below parses them one by one and names it.
        with suppress(InputError):
            parsed = codes_from_hex(hex_codes, n_bits)
    for position, document in enumerate(documents):
        try:
            if document.code is not None:
                if parsed is None:
                    codes[position] = code_from_hex(document.code, n_bits)
                _check_parts(document, encoder)
            elif document.text is not None or document.vector is not None:
                _check_content(document, encoder)
                positions.append(position)
        except InputError as error:
            raise InputError(error.field, f"{error.reason} (document {document.id!r})") from None
    return codes if parsed is None else parsed, positions


def _read_words(documents: Sequence[Document], passages: Passages | None) -> Contents:
    """Return the contents of documents that are searched by words alone; their codes are empty."""
    for document in documents:
        try:
            if document.vector is not None or document.code:
                field = "code" if document.vector is None else "vector"
                raise InputError(field, f"cannot be stored: {WITHOUT_CODES}")
            if document.text is not None:
                parse_text(document.text)
        except InputError as error:
            raise InputError(error.field, f"{error.reason} (document {document.id!r})") from None
    codes = np.zeros((len(documents), 0), dtype=np.uint8)
    texts = {
        at: document.text for at, document in enumerate(documents) if document.text is not None
    }
    if passages is None or not texts:
        return Contents(codes, [], [])
    return Contents(codes, [*texts], [], _split([*texts.values()], passages))


def _split(
    texts: Sequence[str],
    passages: Passages,
    are_cut: Callable[[list[str]], list[bool]] | None = None,
) -> list[Sequence[Span]]:
    """Return the passages of each text; `are_cut` tells which texts an encoder does not read whole.

    A passage that would be cut is split further.
    """
    spans: list[Sequence[Span]] = []
    for text in texts:
        some = passages.split(text)
        spans.append(some if are_cut is None else split_to_fit(text, some, are_cut))
    return spans


def _check_parts(document: Document, encoder: Encoder | None) -> None:
    """Raise InputError unless the text and the vector of a document can be stored."""
    if document.text is not None:
        parse_text(document.text)
    if document.vector is not None:
        vector = parse_vector(document.vector)
        if encoder is not None:
            _check_vector_of(encoder, vector)


def _check_vector_of(encoder: Encoder, vector: Vector) -> None:
    _check_kind("vector", encoder)
    encoder.check_vector(vector)


def _check_kind(field: str, encoder: Encoder) -> None:
    if field != encoder.kind:
        message = f"cannot be encoded: the collection's encoder takes {encoder.kind}s"
        raise InputError(field, message)


def _describe_fields(query: Query) -> str:
    present = [name for name in QUERY_FIELDS if getattr(query, name) is not None]
    fields = " and ".join(present) or "none"
    hint = "; an id goes with no other field" if present else ""
    return f"must have at least one of {', '.join(QUERY_FIELDS)}; it has {fields}{hint}"


def _insert_document_codes(
    queries: Sequence[Query],
    codes: Codes,
    name: str,
    codes_of: Callable[[Sequence[str]], Mapping[str, Codes]],
) -> None:
    """Put the codes of the documents that queries name by id into `codes`."""
    ids = {position: query.id for position, query in enumerate(queries) if query.id is not None}
    stored = codes_of(sorted(set(ids.values()))) if ids else {}
    for position, id_ in ids.items():
        if id_ not in stored:
            raise UnknownDocument(f"collection {name!r} has no document {id_!r}")
        codes[position] = stored[id_]


def _check_content(item: Document, encoder: Encoder | None) -> None:
    """Raise InputError unless `encoder` can encode the text or vector of `item`."""
    # Beside a vector, a text is there for searches by words.
    field = "text" if item.vector is None else "vector"
    if encoder is None:
        raise InputError(field, "cannot be encoded: the collection has no encoder; give a code")
    _check_kind(field, encoder)
    _check_parts(item, encoder)


def _encoder_inputs(items: Sequence[Document | Query], encoder: Encoder | None) -> Inputs:
    if encoder is None or encoder.kind == "text" or not items:
        return [item.text or "" for item in items]
    # _check_content has checked the vectors.
    return np.stack([np.asarray(item.vector, dtype=np.float32) for item in items])


def batches(items: Iterable[Item], size: int) -> Iterator[list[Item]]:
    """Yield the items in lists of `size`, the last one shorter."""
    remaining = iter(items)
    while batch := list(itertools.islice(remaining, size)):
        yield batch


def last_of_each_id(documents: Iterable[Document]) -> list[Document]:
    """Keep the last document of each id."""
    last: dict[str, Document] = {}
    for document in documents:
        last.pop(document.id, None)
        last[document.id] = document
    return list(last.values())


# Encoding on all cores.
#
# Most of the work is Python code, so separate processes do it. Each holds the encoder and receives
# only texts or vectors, not whole documents.


# Otherwise every process would use all cores for its matrix products.
ONE_THREAD = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")

# While a process starts, its parent writes the encoder to it, and it imports this program. Signals
# that end the parent wait meanwhile, so that neither fails halfway with a traceback.
ENDING = (signal.SIGINT, signal.SIGTERM)
CAN_BLOCK = hasattr(signal, "pthread_sigmask")  # Windows lacks it

# A process takes a second to start, and holds the encoder: what takes less is encoded here.
SECONDS_BEFORE_PROCESSES = 2.0

_encoder: Encoder | None = None


class EncodingPool:
    """Encodes in `jobs` processes, or in this process if `jobs` is 1."""

    def __init__(self, encoder: Encoder | None, jobs: int) -> None:
        self._encoder = encoder
        self._processes: ProcessPoolExecutor | None = None
        self._seconds = 0.0
        """The processor time that encoding took in this process."""
        if jobs > 1 and encoder is not None:
            import multiprocessing  # noqa: PLC0415 - a search starts no processes
            from concurrent.futures import ProcessPoolExecutor  # noqa: PLC0415

            context = multiprocessing.get_context("spawn")
            # The processes end when this end of the pipe is closed, be it by a kill of this one.
            alive, self._open = context.Pipe(duplex=False)
            self._processes = ProcessPoolExecutor(jobs, context, _prepare, (encoder, alive))

    def submit(self, inputs: Inputs) -> Future[Codes]:
        """Start encoding; the result is ``uint8[N, C]``."""
        if self._processes is None or self._seconds < SECONDS_BEFORE_PROCESSES:
            done: Future[Codes] = Future()
            if self._encoder is not None:
                began = time.process_time()
                done.set_result(self._encoder.encode(inputs))
                self._seconds += time.process_time() - began
            return done
        with _starting_processes():
            return self._processes.submit(_encode, inputs)

    def close(self) -> None:
        """End the processes and cancel their work."""
        if self._processes is None:
            return
        try:
            self._processes.shutdown(cancel_futures=True)
        finally:
            self._open.close()  # the shutdown may have been interrupted


def _prepare(encoder: Encoder, alive: Connection) -> None:
    global _encoder  # noqa: PLW0603 - a process holds one encoder
    _encoder = encoder
    # The parent process handles an interrupt and ends this one.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if CAN_BLOCK:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, ENDING)
    threading.Thread(target=_end_with_parent, args=(alive,), daemon=True).start()


def _end_with_parent(alive: Connection) -> None:
    """End this process when its parent has closed the other end of a pipe, or was killed."""
    with suppress(EOFError, OSError):
        alive.recv()
    os._exit(1)


def _encode(inputs: Inputs) -> Codes:
    if _encoder is None:
        raise RuntimeError("the process was not prepared")
    return _encoder.encode(inputs)


@contextmanager
def _delayed_signals() -> Iterator[None]:
    """Handle :data:`ENDING` after the block.

    Another thread of this process may receive them where the main thread blocks them, and Python
    would run their handlers in the main thread.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    arrived: list[int] = []
    handlers = {
        signal_: signal.signal(signal_, lambda number, _: arrived.append(number))
        for signal_ in ENDING
    }
    try:
        yield
    finally:
        for signal_, handler in handlers.items():
            signal.signal(signal_, handler)
        for number in arrived:
            signal.raise_signal(number)


@contextmanager
def _starting_processes() -> Iterator[None]:
    """Limit processes that are started in this block to one core, and delay :data:`ENDING`.

    The processes inherit the blocked signals; :func:`_prepare` unblocks them.
    """
    before = {name: os.environ.get(name) for name in ONE_THREAD}
    os.environ.update(dict.fromkeys(ONE_THREAD, "1"))
    blocked = signal.pthread_sigmask(signal.SIG_BLOCK, ENDING) if CAN_BLOCK else set()
    try:
        with _delayed_signals():
            yield
    finally:
        if CAN_BLOCK:
            signal.pthread_sigmask(signal.SIG_SETMASK, blocked)
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value
