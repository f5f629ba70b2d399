"""Queries to try on a corpus: phrases that several of its documents have."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Sequence

from hummingbit.encoder.analyzers import VISIBLE, is_spaceless
from hummingbit.index.languages import STOP_WORDS

MAX_TEXTS = 2000
MAX_WORDS = 200
"""So many words at the beginning of a text are read."""
MIN_LETTERS = 3
MIN_TEXTS, MOST = 3, 20
"""A phrase of more than so many texts, and of more than a twentieth of all, says little."""
WORDS_OF_A_TEXT, CHARACTERS_OF_A_TEXT = 4, 12
"""Where no phrase repeats, a query is the beginning of a text, so long, up to a content word."""
_STOP_WORDS = frozenset().union(*STOP_WORDS.values())


def example_queries(texts: Sequence[str], count: int) -> list[str]:
    """Return `count` different phrases of the texts, or fewer of few texts.

    A phrase is two words that are no function words, next to each other or around one that is
    ("weather in paris"). Those are returned that occur in the most documents, weighed by how much
    more often they do than their words would by chance: n log(n N / (n_a n_b)), where n of N texts
    have the phrase, and n_a and n_b its words. No word occurs in two of them.
    """
    some = texts[:: 1 + len(texts) // MAX_TEXTS]
    pairs: Counter[tuple[str, str]] = Counter()
    singles: Counter[str] = Counter()
    spelled: dict[tuple[str, str], Counter[str]] = {}
    for text in some:
        words = VISIBLE.terms(text[: 10 * MAX_WORDS])[:MAX_WORDS]
        content = [(at, word) for at, word in enumerate(words) if _is_content(word)]
        singles.update({word for _, word in content})
        found = {}
        for (first, a), (second, b) in itertools.pairwise(content):
            if second - first <= 2 and a != b:
                found[a, b] = " ".join(words[first : second + 1])
        pairs.update(found.keys())
        for pair, phrase in found.items():
            spelled.setdefault(pair, Counter())[phrase] += 1
    scores = {
        pair: n * math.log(n * len(some) / (singles[pair[0]] * singles[pair[1]]))
        for pair, n in pairs.items()
        if 1 < n <= max(MIN_TEXTS, len(some) // MOST)
    }
    queries: list[str] = []
    used: set[str] = set()
    for pair in sorted(scores, key=lambda pair: (-scores[pair], pair)):
        if used.isdisjoint(pair):
            used.update(pair)
            queries.append(spelled[pair].most_common(1)[0][0])
        if len(queries) == count:
            return queries
    beginnings = dict.fromkeys(filter(None, map(_beginning, some)))
    return list(dict.fromkeys([*queries, *beginnings]))[:count]


def _is_content(word: str) -> bool:
    return len(word) >= MIN_LETTERS and word.isalpha() and word not in _STOP_WORDS


def _beginning(text: str) -> str:
    if is_spaceless(text):
        return "".join(text.split())[:CHARACTERS_OF_A_TEXT]
    words = [word for word in text.split() if any(map(str.isalnum, word))][:WORDS_OF_A_TEXT]
    spelled: dict[str, str] = {}
    for word in words:
        spelled.setdefault(word.casefold(), word)
    words = [*spelled.values()]
    while len(words) > 1 and words[-1].casefold() in _STOP_WORDS:
        words.pop()
    return " ".join(words)
