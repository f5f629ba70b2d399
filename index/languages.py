"""The language of texts, found by their function words, and the stop words of each language.

A language that ``stop_words.txt`` lists is found if its function words are more of the texts than
those of any other. Its stemmer is Snowball's, if PyStemmer has one. The lists are of the most
frequent function words; a query leaves them out (:mod:`hummingbit.index.lexical`), so words that
can be names or contents, such as "will" or "may", are not among them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path
from types import MappingProxyType

import Stemmer

from hummingbit.encoder.analyzers import VISIBLE, Analyzer
from hummingbit.foundation.errors import InputError
from hummingbit.index.names import AUTO, NONE

DEFAULT_LANGUAGE = "english"
"""The language of ASCII texts without function words, such as lists of products."""

# Words that are read to find the language, and the share of them that function words must be.
SAMPLE_WORDS = 20_000
LEAST_SHARE = 0.08
ASCII_SHARE = 0.98
ENOUGH_WORDS = 2000
OFTEN = 20


def _read_stop_words() -> Mapping[str, frozenset[str]]:
    """Read ``stop_words.txt``: paragraphs of a language and its words."""
    listed = Path(__file__).with_name("stop_words.txt").read_text(encoding="utf-8")
    paragraphs = [paragraph.split() for paragraph in listed.split("\n\n")]
    return MappingProxyType({language: frozenset(words) for language, *words in paragraphs})


STOP_WORDS = _read_stop_words()


@cache
def stop_terms(analyzer: Analyzer) -> frozenset[str]:
    """Return the terms of the stop words of an analyzer's language; none if it is not listed."""
    return frozenset(analyzer.stem(sorted(STOP_WORDS.get(analyzer.language or "", frozenset()))))


@cache
def stemmers() -> frozenset[str]:
    """Return the languages that have a stemmer."""
    return frozenset(Stemmer.algorithms())


def find_language(texts: Iterable[str]) -> tuple[str, bool]:
    """Return the language of texts, and whether they have enough words to be sure.

    It is ``none`` if there is no stemmer for it, or if it is not known.

    One word that occurs often in ASCII texts, such as a "num" that stands for numbers, is no
    language: it counts at most as often as all others of its language together.
    Texts without function words are read as English if nearly all words are ASCII, and otherwise as
    none.
    """
    words: Counter[str] = Counter()
    for text in texts:
        words.update(VISIBLE.split(text[:SAMPLE_WORDS]))
        if words.total() >= SAMPLE_WORDS:
            break
    total = words.total()
    is_sure = total >= ENOUGH_WORDS
    if not total:
        return DEFAULT_LANGUAGE, False
    n_ascii = sum(count for word, count in words.items() if word.isascii())
    is_ascii = n_ascii >= ASCII_SHARE * total
    counts = {
        language: _count([words[word] for word in stop if len(word) > 1], is_ascii=is_ascii)
        for language, stop in STOP_WORDS.items()
    }
    language = max(counts, key=counts.__getitem__)
    if counts[language] >= LEAST_SHARE * total:
        return (language if language in stemmers() else NONE), is_sure
    return (DEFAULT_LANGUAGE if is_ascii else NONE), is_sure


def _count(counts: list[int], *, is_ascii: bool) -> int:
    most = max(counts, default=0)
    others = sum(counts) - most
    return others + (min(most, max(others, OFTEN)) if is_ascii else most)


def analyzer_of(language: str) -> Analyzer:
    """Return the analyzer of texts in a language, or of texts without stems."""
    return Analyzer("visible", None if language == NONE else language)


def check_language(language: str) -> str:
    """Return a language that texts can be stemmed in, or ``none``.

    Raises:
        InputError: if there is no stemmer for it.
    """
    if language != NONE and language not in stemmers():
        known = ", ".join([AUTO, NONE, *sorted(stemmers())])
        raise InputError("language", f"is {language[:40]!r}; it must be one of {known}")
    return language
