"""The terms of a word index by number, and how to find those that begin like or resemble a word.

A :class:`Vocabulary` numbers two kinds of strings: the terms, which postings belong to, and the
words as texts have them, each with its term. So a word is stemmed once, and completions are words
that people write. A :class:`SortedStrings` holds either kind in one array of bytes, which is read
from a file as it is; strings that came later are in a dict.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Self

import numpy as np
import numpy.typing as npt

from hummingbit.encoder.spelling import is_one_edit, is_within_two_edits
from hummingbit.index.engines import kernel

Numbers = npt.NDArray[np.int32]
SEPARATOR = b"\n"
"""Ends each string; no term has it."""

STRINGS_AT_ONCE = 1 << 16
LATER_AT_ONCE = 128
"""Words that were added are compared one by one up to twice as many."""
GROUP = 64
"""How many strings are searched for the one that is looked up."""
MOST_BYTES = 64
"""The kernel compares words of at most so many bytes."""
MAX_EDIT = 4
"""An edit changes four bytes at most."""
GRAM = 3
"""The length of character n-grams in bytes; a word's ends count as a character."""


@dataclass(frozen=True, eq=False)
class SortedStrings:
    """Distinct strings in ascending order, each with a number."""

    text: npt.NDArray[np.uint8]
    """The strings in UTF-8, each after a separator, and a separator at the end."""
    starts: npt.NDArray[np.int64]
    """``int64[n + 1]``: where each string begins; the last is the length of `text`."""
    numbers: Numbers

    @classmethod
    def of(cls, strings: Mapping[str, int]) -> Self:
        """Sort strings and their numbers."""
        ordered = sorted(strings)
        separator = SEPARATOR.decode("ascii")
        lines = separator.join(["", *ordered, ""]) if ordered else separator
        text = np.frombuffer(lines.encode("utf-8", "surrogatepass"), np.uint8)
        starts = np.flatnonzero(text == ord(SEPARATOR)) + 1
        numbers = np.fromiter(map(strings.__getitem__, ordered), np.int32, len(ordered))
        return cls(text, starts, numbers)

    def __len__(self) -> int:
        return len(self.numbers)

    def __getitem__(self, position: int) -> str:
        return self._bytes_at(position).decode("utf-8", "surrogatepass")

    def get(self, string: str) -> int | None:
        """Return the number of a string."""
        key = string.encode("utf-8", "surrogatepass")
        group = bisect_right(self._firsts, key) - 1
        if group < 0 or SEPARATOR in key:
            return None
        first = group * GROUP
        begin = self.starts.item(first) - 1
        end = self.starts.item(min(first + GROUP, len(self)))
        at = self._searched.find(SEPARATOR + key + SEPARATOR, begin, end)
        if at < 0:
            return None
        return self.numbers.item(first + self._searched.count(SEPARATOR, begin, at))

    def with_prefix(self, prefix: str) -> range:
        """Return the positions of the strings that begin with `prefix`."""
        key, positions = prefix.encode("utf-8", "surrogatepass"), range(len(self))
        start = bisect_left(positions, key, key=self._bytes_at)
        # No byte of UTF-8 is 0xff.
        return range(start, bisect_left(positions, key + b"\xff", key=self._bytes_at))

    def sharing(self, word: str) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        """Return the positions of the strings that share n-grams with `word`, and of how many each.

        The n-grams are those of three bytes of the word between two separators.
        """
        ends = [np.zeros(0, np.int64)]
        for gram in sorted(_grams(word)):
            begins = [match.start() for match in re.finditer(re.escape(gram), self._searched)]
            ends.append(np.unique(np.searchsorted(self.starts, np.array(begins) + 1, "right") - 1))
        return np.unique(np.concatenate(ends), return_counts=True)

    def within(self, word: str, edits: int) -> list[int]:
        """Return the positions of the strings that one edit, or two, turn into `word`.

        The kernel compares all of them: 400,000 words take five milliseconds, where numpy takes
        fifty to find those that share n-grams with the word.
        """
        key = word.encode("utf-8", "surrogatepass")
        positions = np.empty(len(self), dtype=np.int32)
        text = len(self.text), self.text
        n = kernel.native.near_strings(
            len(self), self.starts, *text, len(key), key, edits, positions
        )
        near: list[int] = positions[:n].tolist()
        return near

    @cached_property
    def _firsts(self) -> list[bytes]:
        """The first string of each group, as bisecting a list calls no function."""
        return [self._bytes_at(position) for position in range(0, len(self), GROUP)]

    @cached_property
    def _searched(self) -> bytes:
        return self.text.tobytes()

    def _bytes_at(self, position: int) -> bytes:
        return self._searched[self.starts.item(position) : self.starts.item(position + 1) - 1]


class _Numbered(dict[str, int]):
    """The numbers of strings that were looked up or added since the sorted ones were made."""

    def __init__(self, vocabulary: Vocabulary) -> None:
        super().__init__()
        self._vocabulary = vocabulary

    def __missing__(self, word: str) -> int:
        return self._vocabulary.numbers_of([word])[word]


class Vocabulary:
    """The terms of a word index and the words that have them, each with the number of its term.

    It never forgets a term, so the indexes of several generations can share it; :meth:`of_numbers`
    makes a smaller one. One thread at a time adds words; any number can look them up.
    """

    def __init__(
        self,
        stem: Callable[[list[str]], list[str]],
        terms: SortedStrings | None = None,
        words: SortedStrings | None = None,
    ) -> None:
        """Begin with `terms`, numbered from 0, and the `words` that have them.

        `stem` returns the terms of words.
        """
        empty = SortedStrings.of({})
        self._stem = stem
        self.sorted_terms = empty if terms is None else terms
        self.sorted_words = empty if words is None else words
        self._later: list[str] = []
        """The terms after the sorted ones, by number."""
        self._terms: dict[str, int] = {}
        self.words: dict[str, int] = _Numbered(self)
        """The number of the term of each word; a word that is looked up here is added."""
        self._later_words: list[tuple[str, int]] = []
        """The words after the sorted ones, with the numbers of their terms."""
        self._later_sorted = SortedStrings.of({})

    def __len__(self) -> int:
        return len(self.sorted_terms) + len(self._later)

    def __getitem__(self, term: str) -> int:
        """Return the number of a term, which is added if it is unknown."""
        number = self._terms.get(term)
        if number is None and len(self.sorted_terms.numbers):
            number = self.sorted_terms.get(term)
        if number is None:
            number = self._terms[term] = len(self.sorted_terms.numbers) + len(self._later)
            self._later.append(term)
        return number

    def get(self, term: str) -> int | None:
        """Return the number of a term, or None."""
        number = self._terms.get(term)
        return self.sorted_terms.get(term) if number is None else number

    def term(self, number: int) -> str:
        """Return the term of a number."""
        n_sorted = len(self.sorted_terms)
        if number >= n_sorted:
            return self._later[number - n_sorted]
        return self.sorted_terms[int(self._positions[number])]

    def numbers_of(self, words: Iterable[str]) -> dict[str, int]:
        """Return the number of the term of each word; unknown words and terms are added."""
        known = self.words
        numbers = {word: known.get(word, -1) for word in words}
        unknown = [word for word, number in numbers.items() if number < 0]
        if len(self.sorted_words.numbers):
            for word in unknown:
                number = self.sorted_words.get(word)
                if number is not None:
                    numbers[word] = known[word] = number
            unknown = [word for word in unknown if numbers[word] < 0]
        # Stemmed together, since a call takes longer than it takes to stem a word.
        terms = self._stem(unknown)
        number_of = self._terms.get
        added: list[int] = []
        for term in terms:
            number = number_of(term)
            added.append(self[term] if number is None else number)
        later = [*zip(unknown, added, strict=True)]
        self._later_words += later
        known.update(later)
        numbers.update(later)
        return numbers

    def sizes(self, numbers: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """Return the squares of the terms' lengths in characters."""
        lengths = (len(self.term(number)) for number in numbers.tolist())
        return np.fromiter(lengths, np.int64, len(numbers)) ** 2

    def of_numbers(self, numbers: npt.NDArray[np.int64]) -> Vocabulary:
        """Return a vocabulary of the terms with these ascending numbers only, in their order.

        Another thread may add words meanwhile; it has none that were added since it began.
        """
        every_word = list(self._numbered_words())
        n_sorted = len(self.sorted_terms)
        before, later = np.split(numbers, [np.searchsorted(numbers, n_sorted)])
        strings = [self.sorted_terms[at] for at in self._positions[before].tolist()]
        strings += [self._later[number] for number in (later - n_sorted).tolist()]
        terms = dict(zip(strings, range(len(strings)), strict=True))
        kept = np.full(len(self), -1, np.int64)
        kept[numbers] = np.arange(len(numbers))
        at_of = kept.tolist()
        words = {word: at_of[number] for word, number in every_word if at_of[number] >= 0}
        return Vocabulary(self._stem, SortedStrings.of(terms), SortedStrings.of(words))

    @property
    def is_sorted(self) -> bool:
        """Whether nothing was added after the sorted strings."""
        return not self._later and not self._later_words

    def sorted(self) -> Vocabulary:
        """Return an equal vocabulary, with equal numbers, all of whose strings are sorted."""
        if len(self.sorted_terms) or len(self.sorted_words):
            return self.of_numbers(np.arange(len(self)))
        words, terms = dict(self._later_words.copy()), self._later.copy()
        numbered = dict(zip(terms, range(len(terms)), strict=True))
        return Vocabulary(self._stem, SortedStrings.of(numbered), SortedStrings.of(words))

    def words_with_prefix(self, prefix: str) -> Iterator[tuple[Callable[[int], str], Numbers]]:
        """Yield words that begin with `prefix`, by position, and the numbers of their terms."""
        strings, positions = self.sorted_words, self.sorted_words.with_prefix(prefix)
        yield (
            lambda at: strings[positions[at]],  # decoded when it is read
            strings.numbers[positions.start : positions.stop],
        )
        later = [pair for pair in self._later_words.copy() if pair[0].startswith(prefix)]
        yield lambda at: later[at][0], np.array([number for _, number in later], np.int32)

    def similar(self, word: str, edits: int) -> list[str]:
        """Return the words within one edit of `word`, or two, in alphabetical order.

        An edit inserts, deletes or replaces a letter, or exchanges two neighbours. A word is found
        only if it shares an n-gram of three bytes; within two edits, only if it shares a quarter of
        them.
        """
        grams = _grams(word)
        size = len(word.encode("utf-8", "surrogatepass"))
        least = 1 if edits == 1 else len(grams) // 4
        # Sorted again when they are half as many more: to compare each takes milliseconds.
        later = self._later_words
        if len(later) > 2 * LATER_AT_ONCE + len(self._later_sorted) * 3 // 2:
            self._later_sorted = SortedStrings.of(dict(later))
        # Another thread may sort them anew meanwhile.
        later_sorted = self._later_sorted
        candidates = [added for added, _ in later[len(later_sorted) :]]
        for strings in (self.sorted_words, later_sorted):
            if kernel.native is not None and size <= MOST_BYTES:
                near_strings = map(strings.__getitem__, strings.within(word, edits))
                candidates += [near for near in near_strings if len(grams & _grams(near)) >= least]
                continue
            positions, shared = strings.sharing(word)
            lengths = np.diff(strings.starts)[positions] - 1
            near = (np.abs(lengths - size) <= MAX_EDIT * edits) & (shared >= least)
            candidates += map(strings.__getitem__, positions[near].tolist())
        is_near = is_one_edit if edits == 1 else is_within_two_edits
        return sorted({candidate for candidate in candidates if is_near(word, candidate)})

    def _numbered_words(self) -> Iterator[tuple[str, int]]:
        for start in range(0, len(self.sorted_words), STRINGS_AT_ONCE):
            stop = min(start + STRINGS_AT_ONCE, len(self.sorted_words))
            numbers = self.sorted_words.numbers[start:stop].tolist()
            yield from (
                (self.sorted_words[start + at], number) for at, number in enumerate(numbers)
            )
        yield from self._later_words.copy()

    @cached_property
    def _positions(self) -> npt.NDArray[np.int64]:
        """Where the sorted terms are, by number."""
        return np.argsort(self.sorted_terms.numbers)


def _grams(word: str) -> set[bytes]:
    marked = SEPARATOR + word.encode("utf-8", "surrogatepass") + SEPARATOR
    return {marked[at : at + GRAM] for at in range(len(marked) - GRAM + 1)}
