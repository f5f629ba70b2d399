"""The BM25 oracle: it counts every term of every text for every query, and stays this simple."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np

from hummingbit.encoder.analyzers import Analyzer
from hummingbit.index.engines.protocol import Rows
from hummingbit.index.lexical import (
    inverse_frequency,
    part_of_term,
    saturation,
)


class BruteForceBm25:
    """Ranks texts by BM25, for tests."""

    def __init__(self, documents: Sequence[tuple[int, str]], analyzer: Analyzer) -> None:
        """Take pairs (row, text) in ascending order."""
        self.rows = [row for row, _ in documents]
        self._analyzer = analyzer
        self._texts = [text for _, text in documents]
        self._terms = [analyzer.terms(text) for text in self._texts]

    def hybrid_scores(self, text: str, opening: int = 12) -> list[int]:
        """Return the scores by words of the hybrid ranking, in units."""
        return self.scores(text, opening, least=1000)

    def scores(self, text: str, opening: int = 0, least: int = 0) -> list[int]:
        """Return the score of each of :attr:`rows`, in units; `opening` terms count twice.

        With fewer than `least` documents, idf is that of so many.
        """
        n_documents = len(self.rows)
        counts_twice = [Counter([*terms[:opening], *terms]) for terms in self._terms]
        lengths = [counts.total() for counts in counts_twice]
        average = sum(lengths) / n_documents if any(lengths) else 1.0
        totals = [0] * n_documents
        for term, repeats in Counter(self._analyzer.terms(text)).items():
            frequency = sum(term in counts for counts in counts_twice)
            if not frequency:
                continue
            idf = self._idf(frequency, least)
            for position, counts in enumerate(counts_twice):
                if term in counts:
                    tf, length = np.array([counts[term]]), np.array([lengths[position]])
                    part = part_of_term(idf, saturation(tf, length, average))
                    totals[position] += repeats * int(part[0])
        return totals

    def idf(self, term: str, least: int = 0) -> float:
        """Return the idf of a term, 0 if no text has it; `least` as in :meth:`scores`."""
        return self._idf(sum(term in terms for terms in self._terms), least)

    def _idf(self, frequency: int, least: int) -> float:
        n = len(self.rows)
        added = np.log((max(n, least) + 1) / (n + 1))
        return float(inverse_frequency(n, frequency) + added) if frequency else 0.0

    def score_of_terms(self, terms: Sequence[str], opening: int = 12) -> int:
        """Return the hybrid ranking's score of a text of these terms, in units."""
        grouped = [term for term in dict.fromkeys(terms) for _ in range(terms.count(term))]
        own = Counter([*grouped[:opening], *grouped])
        lengths = [len(some) + min(len(some), opening) for some in self._terms]
        average = sum(lengths) / len(lengths) if any(lengths) else 1.0
        saturations = saturation(np.array([*own.values()]), np.array([own.total()]), average)
        return sum(
            terms.count(term) * int(part_of_term(self.idf(term, 1000), value[None])[0])
            for term, value in zip(own, saturations, strict=True)
        )

    def parts(self, term: str, weight: float) -> list[int]:
        """Return what a term with a weight adds to the score of each of :attr:`rows`, in units."""
        average = sum(map(len, self._terms)) / len(self.rows) if any(self._terms) else 1.0
        return [
            int(part_of_term(weight, saturation(np.array([n]), np.array([len(terms)]), average))[0])
            if (n := terms.count(term))
            else 0
            for terms in self._terms
        ]

    def rank(self, text: str, k: int, allowed: Rows | None = None) -> list[tuple[int, int]]:
        """Return (score, row) of the `k` best documents that have a term of `text`."""
        found = [
            (-score, row)
            for score, row in zip(self.scores(text), self.rows, strict=True)
            if score > 0 and (allowed is None or row in allowed)
        ]
        return [(-score, row) for score, row in sorted(found)[:k]]
