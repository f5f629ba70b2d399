"""Texts whose words have the frequencies of a natural language, and queries for them."""

from __future__ import annotations

import numpy as np

VOCABULARY = 400_000


def zipfian_texts(rng: np.random.Generator, n_texts: int, mean_length: float) -> list[str]:
    """Make texts of log-normal lengths, of words whose frequencies fall with their rank."""
    shares = 1 / (np.arange(VOCABULARY) + 2.7)
    bounds = np.cumsum(shares) / shares.sum()
    words = [_spell_word(number) for number in range(VOCABULARY)]
    lengths = rng.lognormal(np.log(mean_length) - 0.125, 0.5, n_texts).clip(1).astype(int)
    drawn_words = np.searchsorted(bounds, rng.random(int(lengths.sum()))).tolist()
    texts, start = [], 0
    for length in lengths.tolist():
        texts.append(" ".join(words[number] for number in drawn_words[start : start + length]))
        start += length
    return texts


def runs_of_words(rng: np.random.Generator, texts: list[str], n_queries: int) -> list[str]:
    """Make queries of two to six successive words, from documents drawn at random."""
    queries = []
    for number in rng.integers(0, len(texts), n_queries).tolist():
        words, length = texts[number].split(), int(rng.integers(2, 7))
        start = int(rng.integers(0, max(1, len(words) - length)))
        queries.append(" ".join(words[start : start + length]))
    return queries


def _spell_word(number: int) -> str:
    """Return a word of at least two letters, a different one for each number."""
    letters = ""
    number += 26
    while number:
        number, letter = divmod(number, 26)
        letters += chr(ord("a") + letter)
    return letters + "x"
