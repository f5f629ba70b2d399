"""A question: the text of a query, normalized and read once.

Everything that a search takes of a text is here: its words with what else they match, its phrases
and conditions (:mod:`hummingbit.index.query_syntax`), and the text that an encoder reads. Words
that are ranked, highlighted and listed in responses are those of the same :class:`Question`.

A word of a question matches a document by the term of the document that counts most, of these:

- the word itself, by its stem, and by its form without accents;
- words that are near in meaning, by the encoder's table (:data:`Question.expanded`):
  "mirror" also matches "reflection";
- words that begin with it, if it ends in ``*`` or no document has it;
- its correction (:data:`Question.corrected`), if neither a document nor the encoder has it.

A word in quotes or after ``+`` matches only as it is. Numbers and codes are never replaced by
others. Names that are written otherwise (:mod:`hummingbit.index.word_forms`) count besides.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from itertools import chain
from typing import NamedTuple, Protocol

from hummingbit.encoder.analyzers import VISIBLE, Analyzer, WordExpression
from hummingbit.encoder.neighbours import Neighbour
from hummingbit.encoder.spelling import is_correctable
from hummingbit.index.engines.protocol import Rows, rows_in_both
from hummingbit.index.query_syntax import LONGEST_TYPED, QueryText
from hummingbit.index.word_forms import (
    LONGEST_RUN,
    MAX_LENGTH,
    forms_of_chunks,
    has_digit,
    parts_of_words,
    split_pieces,
    split_words,
    without_accents,
)

# How much the terms that stand for a word count, by a factor of its idf.

MOST_EXPANSIONS = 5
"""How many words near in meaning a word also matches, of those that documents have."""
LEAST_COSINE = 0.35
"""How near they are at least."""
NO_WEIGHT_COSINE = 0.2
"""The factor of a word near in meaning is 0 at this cosine, 1 at 1, and a line between them. Its
idf is at most that of the word."""
ACCENT_WEIGHT = 0.8
"""A word without its accents."""
PREFIX_WEIGHT = 0.7
"""A word that begins with one that no document has."""
FORM_WEIGHT = 0.25
"""Another form of words that documents have, which counts besides these."""
PART_WEIGHT = 0.7
"""A part of a word that no document has, besides."""
STOP_WEIGHT = 0.5
"""A function word beside other words. Without them, hybrid loses .015 MRR on questions of Quora,
where "why" and "how" tell questions apart, and BM25 .029; ten other families are within chance."""

MOST_COMPLETIONS, MOST_OF_PREFIX = 8, 32
"""How many words stand for one that no document has, and how many for a ``word*``."""
_HANGUL = re.compile("[가-힣]+")
"""Words of syllables, to which Korean adds its particles: two syllables are a noun."""
MOST_UNKNOWN = 8
"""How many unknown words of a question are replaced."""
WORDS_KEPT = 1 << 14
"""For so many words, a reader keeps what it found."""
LONG_WORD = 8
"""From so many letters on, a correction can be two edits away."""

_PREFIX = WordExpression(r"(?<!\S)(\w{2,})\*(?!\S)")


class KnownTerm(NamedTuple):
    """What an index knows of a term."""

    number: int
    """-1 if no document ever had it."""
    frequency: int
    """How many documents have it."""
    idf: float
    """0 if no document has it."""
    is_stop: bool


UNKNOWN = KnownTerm(-1, 0, 0.0, is_stop=False)


class DocumentWords(Protocol):
    """The words of the documents that a question is asked of."""

    @property
    def analyzer(self) -> Analyzer:
        """What splits texts into terms."""

    @property
    def forms(self) -> bool:
        """Whether documents have the other forms of words."""

    @property
    def look_up(self) -> Callable[[str], KnownTerm]:
        """Returns what is known of a term."""

    @property
    def term_of(self) -> Callable[[str], str]:
        """Returns the term of a word."""

    def complete(self, prefix: str, limit: int) -> list[str]:
        """Return words that begin with `prefix`, frequent ones first."""

    def similar(self, word: str, edits: int) -> list[str]:
        """Return the words of documents within so many edits of a word, the nearest first."""

    def rows_with(self, term: str) -> Rows:
        """Return the rows of the documents that have a term, ascending."""


class EncoderWords(Protocol):
    """What an encoder knows of words."""

    def knows(self, word: str) -> bool:
        """Tell whether it has a word, or one with its stem."""

    def correct(self, word: str) -> str | None:
        """Return the word that it has one edit from another, or None."""

    def neighbours(self, term: str, analyzer: Analyzer) -> Iterable[Neighbour]:
        """Return the terms of an analyzer nearest in meaning to one of them, nearest first."""


class Alternative(NamedTuple):
    """A term of documents that a word of a question matches."""

    term: str
    factor: float
    """What its idf is multiplied by."""
    is_capped: bool = False
    """Whether its idf is at most that of the word's own term."""


class Word(NamedTuple):
    """A word of a question. A document's best of its terms counts."""

    terms: tuple[Alternative, ...]
    """The terms that it matches, its own or that of its correction first."""
    repeats: int = 1
    is_added: bool = False
    """Whether it stands for another form of words, and counts besides them."""


@dataclass(frozen=True, slots=True)
class Question:
    """A text query as it was read."""

    syntax: QueryText
    words: Sequence[Word] | None = None
    """The distinct words of the text in order, and then their other forms; None if it was read
    without the words of documents."""
    encoded: str = ""
    """The text as an encoder of words reads it: with corrections, and without unknown numbers."""
    corrected: tuple[tuple[str, str], ...] = ()
    """Unknown words, each with the word that was searched for in its place."""
    expanded: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Words that were searched for besides each word: near ones, or those that begin with it."""
    is_settled: bool = True
    """Whether the words of documents could not change what the encoder reads."""

    @property
    def text(self) -> str:
        """The words of the query, normalized, without its syntax."""
        return self.syntax.text

    @property
    def warnings(self) -> list[str]:
        """What was not read of its syntax."""
        return [
            f"{word!r} is searched for as words: {reason}"
            for word, reason in self.syntax.unread.items()
        ]


class Reader:
    """Reads questions by the words of documents and of an encoder, either of which may be missing.

    It keeps what it found of words, so one serves all questions to a generation of documents.
    """

    def __init__(self, documents: DocumentWords | None, encoder: EncoderWords | None) -> None:
        self.documents = documents
        self.encoder = encoder

    def read_all(
        self, syntaxes: Sequence[QueryText | None], *, expand: bool
    ) -> list[Question | None]:
        """Return the question of each text, None where there is no text."""
        return [None if text is None else self.read(text, expand=expand) for text in syntaxes]

    def read(self, syntax: QueryText, *, expand: bool = True) -> Question:
        """Return a question; without `expand`, words match only as they are written."""
        text, documents = syntax.text, self.documents
        if documents is None:
            return self._read_for_encoder(syntax, expand=expand)
        if len(text) > LONGEST_TYPED:
            counts = Counter(chain.from_iterable(documents.analyzer.term_lists(text)))
            words = [Word((Alternative(term, 1.0),), n) for term, n in counts.items()]
            return Question(syntax, words, text)
        return _Reading(self, documents, syntax, expand=expand).question()

    @cached_property
    def near(self) -> Callable[[str], Mapping[str, Alternative]]:
        """Returns the words of documents nearest to a word in meaning, nearest first."""
        return lru_cache(WORDS_KEPT)(self._find_near)

    def _find_near(self, word: str) -> Mapping[str, Alternative]:
        documents, encoder = self.documents, self.encoder
        near: dict[str, Alternative] = {}
        if documents is None or encoder is None or not word.isalpha():
            return near
        for term, other, cosine in encoder.neighbours(documents.term_of(word), documents.analyzer):
            if cosine < LEAST_COSINE or len(near) == MOST_EXPANSIONS:
                break
            known = documents.look_up(term)
            if known.frequency and not known.is_stop:
                factor = (cosine - NO_WEIGHT_COSINE) / (1 - NO_WEIGHT_COSINE)
                near[other] = Alternative(term, factor, is_capped=True)
        return near

    def _read_for_encoder(self, syntax: QueryText, *, expand: bool) -> Question:
        """Return a question that only an encoder reads."""
        text, encoder = syntax.text, self.encoder
        if encoder is None or not expand or len(text) > LONGEST_TYPED:
            return Question(syntax, encoded=text)
        words = split_words(text, VISIBLE)
        unknown = [word for word in dict.fromkeys(words) if not encoder.knows(word)]
        corrected = {word: known for word in unknown if (known := encoder.correct(word))}
        numbers = {word: " ".join(VISIBLE.split(word)) for word in words if "." in word}
        parts = _known_parts(_names_in(text, VISIBLE), encoder)
        encoded = text
        if corrected or parts:
            encoded = _replace(words, {**parts, **numbers, **corrected})
        return Question(
            syntax,
            encoded=encoded,
            corrected=tuple(corrected.items()),
            is_settled=not unknown and not numbers,
        )


class _Reading:
    """One typed question while it is read."""

    def __init__(
        self, reader: Reader, documents: DocumentWords, syntax: QueryText, *, expand: bool
    ) -> None:
        self._reader = reader
        self._documents = documents
        self._syntax = syntax
        self._expands = expand
        analyzer, text = documents.analyzer, syntax.text
        split = split_words if documents.forms else _split_plainly
        self._is_plain = _is_plain(text)
        self._words = split(text, analyzer)
        self._terms = dict(zip(self._words, analyzer.stem(self._words), strict=True))
        self._known: dict[str, KnownTerm] = {}
        self._unknown: set[str] = set()
        self._has_content = False
        """Whether documents have a word that is no function word."""
        for word, term in self._terms.items():
            known = self._known[word] = documents.look_up(term)
            if not known.frequency:
                self._unknown.add(word)
            elif not known.is_stop:
                self._has_content = True
        self._exact: set[str] = set()
        for phrase in syntax.phrases:
            self._exact.update(split(phrase, analyzer))
        self._names = [] if self._is_plain else [*parts_of_words(text, analyzer)]
        prefixes = _PREFIX.of(text).findall(text) if "*" in text else ()
        self._prefixes = {prefix.lower() for prefix in prefixes} if prefixes else prefixes
        self._replaced: dict[str, str] = {}
        """What the encoder reads in place of words."""
        self._corrected: dict[str, str] = {}
        self._expanded: dict[str, tuple[str, ...]] = {}
        self._n_unknown = 0

    def question(self) -> Question:
        """Return the question."""
        words = self._own_words()
        if self._documents.forms:
            words += self._other_forms(words)
        text, encoder = self._syntax.text, self._reader.encoder
        if self._names and encoder is not None and self._expands:
            self._replaced = {**_known_parts(self._names, encoder), **self._replaced}
        encoded = _replace(self._words, self._replaced) if self._replaced else text
        return Question(
            self._syntax, words, encoded, tuple(self._corrected.items()), self._expanded
        )

    def _own_words(self) -> list[Word]:
        """Return the words of the text, one for each term."""
        # A function word beside other words counts less.
        of_stop = STOP_WEIGHT if self._has_content and self._documents.forms else 1.0
        terms: dict[str, dict[str, Alternative]] = {}
        for word, known in self._known.items():
            others = () if known.is_stop else self._others(word, known)
            own = self._terms[word]  # that of its correction, if it was corrected
            of_word = terms.get(own)
            if of_word is None:
                alternative = Alternative(own, of_stop if known.is_stop else 1)
                of_word = terms[own] = {own: alternative}
            for other in others:
                before = of_word.get(other.term)
                if before is None or before.factor < other.factor:
                    of_word[other.term] = other
        in_text = [self._terms[word] for word in self._words]
        return [Word((*some.values(),), in_text.count(own)) for own, some in terms.items()]

    def _others(self, word: str, known: KnownTerm) -> Sequence[Alternative]:  # noqa: C901
        """Return what else a word matches, and note it."""
        documents, others = self._documents, []
        if "." in word:  # a number, whose digits on either side are words for the encoder
            parts = documents.analyzer.split(word) if known.frequency else ()
            self._replaced[word] = " ".join(parts)
        if documents.forms and not word.isascii():
            bare = without_accents(word, documents.analyzer)
            if bare:
                others.append(Alternative(documents.term_of(bare), ACCENT_WEIGHT))
        if word in self._prefixes:
            return [*others, *self._completions(word, f"{word}*", MOST_OF_PREFIX, 1.0)]
        if word in self._exact or not self._expands:
            return others
        read = word
        if not known.frequency:
            encoder = self._reader.encoder
            if has_digit(word) or encoder is None or not encoder.knows(word):
                self._n_unknown += 1
                if self._n_unknown > MOST_UNKNOWN:
                    return others
                completions = self._completions(word, word, MOST_COMPLETIONS, PREFIX_WEIGHT)
                if completions or (correction := self._correction(word)) is None:
                    return [*others, *completions]
                read = correction
                self._corrected[word] = self._replaced[word] = read
                self._terms[word] = documents.term_of(read)
        near = self._reader.near(read)
        if near:
            self._expanded[read] = tuple(near)
            others += near.values()
        return others

    def _completions(self, word: str, written: str, limit: int, factor: float) -> list[Alternative]:
        """Return words that begin with one; a number that goes on is another number."""
        least = 2 if _HANGUL.fullmatch(word) else 3 if has_digit(word) else 4
        if written == word and len(word) < least:
            return []
        completions = self._documents.complete(word, limit)
        if written == word and word[-1].isdigit():
            completions = [known for known in completions if not known[len(word)].isdigit()]
        if completions:
            self._expanded[written] = tuple(completions)
            self._replaced.setdefault(word, completions[0])
        term_of = self._documents.term_of
        return [Alternative(term_of(completion), factor) for completion in completions]

    def _correction(self, word: str) -> str | None:
        """Return what a misspelt word stands for: a word of documents, else one of the encoder.

        Of several words of documents, it is the one that most of them have, above all most of
        those with another word of the question.
        """
        if not is_correctable(word):
            return None
        documents, encoder = self._documents, self._reader.encoder
        candidates: list[str] = []
        for edits in (1, 2) if len(word) >= LONG_WORD else (1,):
            similar = documents.similar(word, edits)
            candidates = [
                other for other in similar if documents.look_up(documents.term_of(other)).frequency
            ]
            if candidates:
                break
        if not candidates:
            return None if encoder is None else encoder.correct(word)
        if len(candidates) == 1:
            return candidates[0]
        rows_of_others = [
            documents.rows_with(documents.term_of(other))
            for other, known in self._known.items()
            if known.frequency and not known.is_stop
        ]

        def plausibility(candidate: str) -> float:
            rows = documents.rows_with(documents.term_of(candidate))
            together = sum(len(rows_in_both(rows, some)) for some in rows_of_others)
            return math.log(len(rows)) + 2 * math.log1p(together)

        return max(candidates, key=plausibility)

    def _other_forms(self, words: Sequence[Word]) -> list[Word]:
        """Return the other forms of words that documents have; `words` are those of the text.

        A form of words that documents lack counts like a word, any other form less.
        """
        forms = self._joined_words()
        if not self._is_plain:
            forms = self._forms_of_names() + forms
        if not forms:
            return []
        own = {term.term for word in words for term in word.terms}
        factors: dict[str, float] = {}
        for term, factor in forms:
            known = self._documents.look_up(term)
            if term not in own and known.frequency and factor > factors.get(term, 0.0):
                factors[term] = factor
        return [
            Word((Alternative(term, factor),), is_added=True) for term, factor in factors.items()
        ]

    def _forms_of_names(self) -> list[tuple[str, float]]:
        """Return the terms of other forms of names, and how much they count."""
        text, analyzer = self._syntax.text, self._documents.analyzer
        term_of, look_up = self._documents.term_of, self._documents.look_up
        every: list[tuple[str, float]] = []
        for chunk, forms in forms_of_chunks(text, analyzer, parts=False):
            words = split_words(chunk, analyzer)
            factor = FORM_WEIGHT if words and self._are_known(words) else 1.0
            every += [(term, factor) for term in map(term_of, forms) if not look_up(term).is_stop]
        for word, parts in self._names:
            every += self._parts(word, [*map(term_of, parts)])
        return every

    def _parts(self, word: str, parts: Sequence[str]) -> list[tuple[str, float]]:
        """Return the terms that are parts of a word, and how much they count."""
        if self._are_known([word]):
            return [(term, FORM_WEIGHT) for term in parts]
        # A word of which documents have some parts only is another word.
        if all(self._documents.look_up(term).frequency for term in parts):
            return [(term, PART_WEIGHT) for term in parts]
        return []

    def _joined_words(self) -> list[tuple[str, float]]:
        """Return the terms of words that a question writes apart, and how much they count.

        Those that no document has are left out.
        """
        text, documents = self._syntax.text, self._documents
        pieces = text.split() if self._is_plain else split_pieces(text, documents.analyzer)
        runs: list[list[str]] = []
        for length in range(2, LONGEST_RUN + 1):
            runs += [pieces[at : at + length] for at in range(len(pieces) - length + 1)]
        words = [*map("".join, runs)]
        found: list[tuple[str, float]] = []
        for run, word, term in zip(runs, words, documents.analyzer.stem(words), strict=True):
            if documents.look_up(term).frequency and len(word) <= MAX_LENGTH:
                found.append((term, FORM_WEIGHT if self._unknown.isdisjoint(run) else 1.0))
        return found

    def _are_known(self, words: Iterable[str]) -> bool:
        """Tell whether documents have those of some words that the question has as words."""
        return self._unknown.isdisjoint(words)


def _split_plainly(text: str, analyzer: Analyzer) -> list[str]:
    return analyzer.split(text)


def _is_plain(text: str) -> bool:
    """Tell quickly that no word of a text has another form of its own."""
    return text.isascii() and text.replace(" ", "").isalpha() and text.islower()


def _names_in(text: str, analyzer: Analyzer) -> list[tuple[str, list[str]]]:
    """Return the names in a text that consist of several words, each with its parts."""
    return [] if _is_plain(text) else [*parts_of_words(text, analyzer)]


def _known_parts(
    names: Sequence[tuple[str, Sequence[str]]], encoder: EncoderWords
) -> dict[str, str]:
    """Return the names that an encoder does not know, each with its parts, if it knows one."""
    return {
        word: " ".join(parts)
        for word, parts in names
        if not encoder.knows(word) and any(map(encoder.knows, parts))
    }


def _replace(words: Sequence[str], replaced: Mapping[str, str]) -> str:
    """Return the words of a text, some of which are replaced."""
    return " ".join(filter(None, (replaced.get(word, word) for word in words)))
