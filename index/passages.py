"""Passages: runs of sentences of a long text, each with a code and words of its own.

A collection with passages is searched by its passages, and its hits are documents: a document's
best passage ranks it. So a sentence in the middle of a book is found as well as one at its start.

In such a collection the index of codes and the lexical index hold passages. A passage has a row of
its own, made of the row of its document and its number in it, so that rows of passages ascend as
those of documents do. Everything else knows documents only.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt

from hummingbit.corpus.document import Document
from hummingbit.encoder.codes import Codes
from hummingbit.encoder.text_features import title_of
from hummingbit.foundation.arrays import numbers_of_runs
from hummingbit.foundation.errors import InputError, abbreviate
from hummingbit.index.engines.protocol import Rows
from hummingbit.index.names import AUTO, LONG, PASSAGE_WORDS

if TYPE_CHECKING:
    from hummingbit.index.engines.segments import IndexSnapshot

# Where a text is split.


OVERLAP = 1
MIN_WORDS, MAX_WORDS = 8, 10_000
MAX_SENTENCES = 1000
MAX_OVERLAP = 100
CHARACTERS_A_WORD = 8
"""So many characters count as a word where there are no spaces."""

_WORD = re.compile(r"\S+")
# A sentence ends with a stop and the quotes after it, or with its line.
_SENTENCE_END = re.compile(r"""[.!?]["'”’»)\]]*(?=\s)|[。！？][”’」』）]*|\n""")


class Span(NamedTuple):
    """A part of a text, in characters (Unicode code points)."""

    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Passages:
    """How texts are split: a passage has whole sentences, as many as have at most `words` words.

    It has at most `sentences` of them, if that is given, and its first `overlap` sentences are the
    last ones of the passage before it. A longer sentence is cut. A text of at most `longer_than`
    words, by default `words`, is a single passage.
    """

    words: int = PASSAGE_WORDS
    sentences: int | None = None
    overlap: int = OVERLAP
    longer_than: int | None = None

    def check(self) -> None:
        """Raise InputError unless the settings are valid."""
        bounds = {
            "words": (MIN_WORDS, MAX_WORDS),
            "sentences": (1, MAX_SENTENCES),
            "overlap": (0, MAX_OVERLAP),
            "longer_than": (0, 2**53),
        }
        for name, (least, most) in bounds.items():
            value = getattr(self, name)
            if value is not None and not least <= value <= most:
                message = f"{name} is {value}; it must be from {least:,} to {most:,}"
                raise InputError("passages", message)

    @classmethod
    def of(cls, value: object) -> Passages | None:
        """Return the settings that a request, a file or a caller gives.

        None and False mean no passages, True the defaults, and ``"auto"`` passages of texts with
        more than :data:`LONG` words. A mapping has the fields of this class.

        Raises:
            InputError: if it is anything else.
        """
        if value is None or value is False or isinstance(value, Passages):
            return value or None
        if value is True:
            return cls()
        if value == AUTO:
            return cls(longer_than=LONG)
        known = isinstance(value, Mapping) and value.keys() <= {*cls.__slots__}
        if not known or not all(_is_number_or_none(name, number) for name, number in value.items()):  # type: ignore[attr-defined]
            names = ", ".join(cls.__slots__)
            message = f'it must be true, false, "auto", or an object of whole numbers: {names}'
            raise InputError("passages", f"is {abbreviate(value)}; {message}")
        passages = cls(**value)  # type: ignore[arg-type]
        passages.check()
        return passages

    @property
    def json(self) -> dict[str, int]:
        """The settings as :meth:`of` takes them, without those that are left out."""
        return {name: value for name, value in asdict(self).items() if value is not None}

    def split(self, text: str) -> list[Span]:
        """Return the passages of `text` in order; a short text is one."""
        if size_of(text) <= (self.words if self.longer_than is None else self.longer_than):
            return [Span(0, len(text))]
        words, sentences = self.words, self.sentences
        while True:
            pieces = list(_sentences(text, words))
            spans = _join(pieces, words, sentences, self.overlap)
            if len(spans) <= MAX_PASSAGES:
                return spans or [Span(0, len(text))]
            # A text of a million lines would otherwise have a million passages.
            words, sentences = words * 2, None


def _is_number_or_none(name: str, value: object) -> bool:
    is_number = isinstance(value, int) and not isinstance(value, bool)
    return is_number or (value is None and name in {"sentences", "longer_than"})


def size_of(text: str) -> int:
    """Return the number of words of a text; a script without spaces is counted by characters."""
    return max(len(text.split()), len(text) // CHARACTERS_A_WORD)


def _sentences(text: str, words: int) -> Iterator[tuple[Span, int]]:
    """Yield the sentences that have a word, cut to `words` words each, and their sizes."""
    start = 0
    for end in (*(match.end() for match in _SENTENCE_END.finditer(text)), len(text)):
        sentence = text[start:end]
        size = size_of(sentence)
        if size <= words:
            if stripped := sentence.strip():
                begin = start + len(sentence) - len(sentence.lstrip())
                yield Span(begin, begin + len(stripped)), max(1, size)
        else:
            yield from _cut(text, Span(start, end), words)
        start = end


def _cut(text: str, sentence: Span, words: int) -> Iterator[tuple[Span, int]]:
    """Yield the pieces of a long sentence, of at most `words` words each, and their sizes."""
    longest = words * CHARACTERS_A_WORD
    begin = end = n = 0
    for match in _WORD.finditer(text, *sentence):
        for start in range(match.start(), match.end(), longest):
            stop = min(start + longest, match.end())
            if n and (n == words or stop - begin > longest):
                yield Span(begin, end), n
                n = 0
            begin, end, n = (begin if n else start), stop, n + 1
    if n:
        yield Span(begin, end), n


def _join(
    pieces: Sequence[tuple[Span, int]], words: int, sentences: int | None, overlap: int
) -> list[Span]:
    """Join neighbouring sentences, given with their sizes, to passages."""
    spans: list[Span] = []
    first, n = 0, len(pieces)
    while first < n:
        last, size = first, 0
        while last < n and (last == first or size + pieces[last][1] <= words):
            if sentences is not None and last - first == sentences:
                break
            size += pieces[last][1]
            last += 1
        spans.append(Span(pieces[first][0].start, pieces[last - 1][0].end))
        if last == n:
            return spans
        # Half of a passage is new, and so is its last sentence.
        following = max(last - overlap, first + math.ceil((last - first) / 2))
        size = sum(length for _, length in pieces[following : last + 1])
        while following < last and size > words:
            size -= pieces[following][1]
            following += 1
        first = following
    return spans


def split_to_fit(
    text: str, spans: Sequence[Span], is_too_long: Callable[[list[str]], list[bool]]
) -> list[Span]:
    """Halve passages of `text` until :func:`passage_texts` makes none that is too long.

    A passage of one character is left as it is. If there would be too many, the others are, too.
    """
    done: dict[Span, bool] = {}
    current = list(spans)
    while True:
        untested = [span for span in current if span not in done]
        tested = is_too_long(passage_texts(text, untested))
        done.update(zip(untested, tested, strict=True))
        halved = [
            half for span in current for half in (_halves(text, span) if done[span] else [span])
        ]
        if len(halved) == len(current) or len(halved) > MAX_PASSAGES:
            return current
        current = halved


def _halves(text: str, span: Span) -> list[Span]:
    """Return the halves of a span, cut between words if it has several."""
    start, end = span
    if end - start < 2:
        return [span]
    middle = (start + end) // 2
    spaces = (text.rfind(" ", start + 1, middle), text.find(" ", middle, end - 1))
    near = [at for at in spaces if at > start]
    cut = min(near, key=lambda at: abs(at - middle)) if near else middle
    return [Span(start, cut), Span(cut, end)]


MAX_TITLE = 200
"""A longer first line is not repeated in each passage."""


def passage_texts(text: str, spans: Sequence[Span]) -> list[str]:
    """Return what is encoded and indexed of the passages of `text`.

    A passage in the middle of a text says little about its subject, so its text begins with the
    title of the whole one. Its own lines are joined, because none of them is its title.
    """
    title, begin = title_of(text), len(text) - len(text.lstrip())
    title = "" if title is None or len(title) > MAX_TITLE else f"{title}\n"
    return [
        text[start:end] if start <= begin else title + " ".join(text[start:end].split())
        for start, end in spans
    ]


def passage_documents(documents: Iterable[Document], passages: Passages) -> list[Document]:
    """Return a document for each passage of `documents`, to train an encoder on."""
    return [
        replace(document, id=f"{document.id}#{number}", text=text)
        for document in documents
        for number, text in enumerate(
            passage_texts(document.text or "", passages.split(document.text or ""))
        )
    ]


# The rows of passages, and how the codes of a document's passages are stored.
#
# A passage's row is that of its document times :data:`MAX_PASSAGES`, plus its number in it. The
# column ``code`` of a document holds the codes of its passages, one after another. If there are
# several, the starts and ends of all of them follow, ``<u4[n, 2]``. The code of a document is that
# of its first passage.


PASSAGE_BITS = 16
MAX_PASSAGES = 1 << PASSAGE_BITS
"""The most passages of a text."""
SPAN_BYTES = 8

Spans = npt.NDArray[np.uint32]
RowOrRows = TypeVar("RowOrRows", int, Rows)


@dataclass(frozen=True, slots=True, eq=False)
class PassageCodes:
    """The codes of the passages of N documents, one document after another."""

    codes: Codes
    """``uint8[P, C]``, the codes of all P passages."""
    counts: npt.NDArray[np.int64]
    """``int64[N]``, how many passages each document has; at least 1."""
    spans: Spans
    """``uint32[P, 2]``, the start and end of each passage in its text."""

    @classmethod
    def of_documents(cls, codes: Codes) -> PassageCodes:
        """Return the codes, ``uint8[N, C]``, of documents of one passage each."""
        n = len(codes)
        return cls(codes, np.ones(n, dtype=np.int64), np.zeros((n, 2), dtype=np.uint32))

    def __len__(self) -> int:
        return len(self.counts)

    def __getitem__(self, documents: Sequence[int]) -> PassageCodes:
        ends = np.cumsum(self.counts)
        parts = [np.arange(ends[at] - self.counts[at], ends[at]) for at in documents]
        rows = np.concatenate([np.empty(0, dtype=np.int64), *parts])
        return PassageCodes(self.codes[rows], self.counts[list(documents)], self.spans[rows])

    def packed(self) -> list[bytes]:
        """Return the column ``code`` of each document."""
        codes, spans = self.codes.tobytes(), self.spans.astype("<u4").tobytes()
        size = self.codes.shape[1]
        packed, start = [], 0
        for count in self.counts.tolist():
            end = start + count
            some = codes[start * size : end * size]
            packed.append(
                some + spans[start * SPAN_BYTES : end * SPAN_BYTES] if count > 1 else some
            )
            start = end
        return packed

    def rows(self, first_row: int) -> Rows:
        """Return the rows of the passages if the documents have the rows from `first_row`."""
        return passage_rows(first_row + np.arange(len(self.counts)), self.counts)


DocumentCodes = Codes | PassageCodes
"""The codes of documents, ``uint8[N, C]``, or those of their passages."""


def passage_rows(rows: Rows, counts: npt.NDArray[np.int64]) -> Rows:
    """Return the rows of the passages of documents with these `rows`, in order."""
    return numbers_of_runs(rows << PASSAGE_BITS, counts)


@dataclass(frozen=True, slots=True)
class CodeColumn:
    """How the column ``code`` of documents is read, with passages or without.

    The rows of the index are those of passages, or without passages those of documents.
    """

    code_size: int
    has_passages: bool = False

    def count(self, length: int) -> int:
        """Return the number of codes in a column of `length` bytes; 0 if it is damaged."""
        size = self.code_size
        if length == size:
            return 1
        n, rest = divmod(length, size + SPAN_BYTES)
        return n if self.has_passages and not rest and n > 1 else 0

    def codes(self, column: bytes) -> bytes:
        """Return the codes of a column, one after another."""
        return column[: self.count(len(column)) * self.code_size]

    def code(self, column: bytes) -> bytes:
        """Return the code of the document."""
        return column[: self.code_size] if self.has_passages else column

    def code_of_passage(self, column: bytes, number: int) -> bytes:
        """Return the code of a passage of a document."""
        return column[number * self.code_size : (number + 1) * self.code_size]

    def span(self, column: bytes, number: int) -> Span | None:
        """Return where a passage is in its text; None if the document has only one."""
        is_whole = self.count(len(column)) < 2
        return None if is_whole else Span(*self._spans(column)[number].tolist())

    def _spans(self, column: bytes) -> Spans:
        """Return the start and end of each of several passages of a document."""
        end = self.count(len(column)) * self.code_size
        return np.frombuffer(column[end:], dtype="<u4").reshape(-1, 2)

    def index_rows(self, row: int, length: int) -> range | tuple[int]:
        """Return the rows of the index of a document whose column has `length` bytes."""
        if not self.has_passages:
            return (row,)
        first = row << PASSAGE_BITS
        return range(first, first + self.count(length))

    def last_index_row(self, row: int) -> int:
        """Return the last row of the index that a document with this row can have."""
        return (row << PASSAGE_BITS) + MAX_PASSAGES - 1 if self.has_passages else row

    def rows_of_documents(self, rows: Rows, generation: IndexSnapshot) -> Rows:
        """Return the rows of a generation's index that belong to documents with `rows`, ascending.

        They may include those of removed passages.
        """
        if not self.has_passages:
            return rows
        firsts = rows << PASSAGE_BITS
        return generation.rows_between(firsts, self.last_index_row(0) + firsts)

    def document_rows(self, index_rows: Rows) -> Rows:
        """Return the rows of the documents of ascending rows of the index, once each."""
        rows = self.document_row(index_rows)
        return rows[np.diff(rows, prepend=-1) > 0] if self.has_passages else rows

    def document_row(self, index_row: RowOrRows) -> RowOrRows:
        """Return the row of the document with a row of the index, or of each of several."""
        return index_row >> PASSAGE_BITS if self.has_passages else index_row

    def texts(self, row: int, text: str, column: bytes) -> Iterator[tuple[int, str]]:
        """Yield the rows of the index of a document and the text of each."""
        if self.count(len(column)) < 2:
            yield self.index_rows(row, self.code_size)[0], text
            return
        texts = passage_texts(text, [Span(*span) for span in self._spans(column).tolist()])
        yield from zip(self.index_rows(row, len(column)), texts, strict=True)
