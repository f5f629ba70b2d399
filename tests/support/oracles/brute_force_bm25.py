"""The BM25 oracle: it counts every term of every text for every query, and stays this simple."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence

import numpy as np

from hummingbit.encoder.analyzers import Analyzer
from hummingbit.index.engines.protocol import Rows
from hummingbit.index.lexical import (
    inverse_frequency,
    part_of_term,
    residual_inverse_frequency,
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

    def hybrid_scores(self, text: str, opening: int = 12, longest_summary: int = 30) -> list[int]:
        """Return the scores by words of the hybrid ranking, in units.

        A summary has at most `longest_summary` terms.
        """
        totals = self.scores(text, opening=opening, burstiness=0.5)
        lines = [[line for line in text.split("\n") if line.strip()] for text in self._texts]
        titled = [(position, some[0]) for position, some in enumerate(lines) if len(some) > 1]
        titles = BruteForceBm25(titled, self._analyzer)
        for place, score in zip(titles.rows, titles.scores(text, weight=0.2), strict=True):
            totals[place] += score
        for place, score in self._summary_scores(text, longest_summary).items():
            totals[place] += score
        return totals

    def _summary_scores(self, text: str, longest: int) -> dict[int, int]:
        """Return what summaries add to scores, by place, in units."""
        summaries = {
            position: terms
            for position, text in enumerate(self._texts)
            if (terms := set(self._analyzer.terms(_summary(text))[:longest]))
        }
        if all(
            _summary(text).split() == text.split() and "\n" not in text.strip()
            for text in self._texts
        ):
            return {}
        sizes = {place: sum(len(term) ** 2 for term in terms) for place, terms in summaries.items()}
        average = sum(sizes.values()) / len(sizes) if any(sizes.values()) else 1.0
        counts = Counter(self._analyzer.terms(text))
        weights = {term: weight for term in counts if (weight := self._bursty_idf(term))}
        total = sum(weight**2 for weight in weights.values())
        shares = {term: round(2**24 * (weight**2 / total)) for term, weight in weights.items()}
        highest = sum(counts[term] * weight for term, weight in weights.items())
        scores = {}
        for place, terms in summaries.items():
            share = sum(shares[term] for term in terms & shares.keys()) / 2**24
            if share >= 0.1:
                norm = 0.25 + 0.75 * (sizes[place] / average)
                scores[place] = round(0.3 * 2**20 * highest * (share * share) / norm)
        return scores

    def _bursty_idf(self, term: str) -> float:
        """Return the weight of a term in a hybrid ranking, 0 if no text has it."""
        counts = [terms.count(term) for terms in self._terms]
        n_documents, frequency = len(counts), sum(count > 0 for count in counts)
        if not frequency:
            return 0.0
        residual = residual_inverse_frequency(n_documents, frequency, sum(counts))
        return inverse_frequency(n_documents, frequency) * (1 + 0.5 * residual)

    def scores(
        self, text: str, opening: int = 0, burstiness: float = 0.0, weight: float = 1.0
    ) -> list[int]:
        """Return `weight` times the score of each of :attr:`rows`, in units.

        `opening` terms count twice.
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
            idf = weight * inverse_frequency(n_documents, frequency)
            occurrences = sum(terms.count(term) for terms in self._terms)
            idf *= 1 + burstiness * residual_inverse_frequency(n_documents, frequency, occurrences)
            for position, counts in enumerate(counts_twice):
                if term in counts:
                    tf, length = np.array([counts[term]]), np.array([lengths[position]])
                    part = part_of_term(idf, saturation(tf, length, average))
                    totals[position] += repeats * int(part[0])
        return totals

    def idf(self, term: str) -> float:
        """Return the idf of a term, 0 if no text has it."""
        frequency = sum(term in terms for terms in self._terms)
        return inverse_frequency(len(self.rows), frequency) if frequency else 0.0

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


def _summary(text: str) -> str:
    """Return the title, if there is one, and the first sentence after it."""
    lines = [line for line in text.split("\n") if line.strip()] or [""]
    line = lines[min(1, len(lines) - 1)]
    sentence = re.split(r"(?<=[.!?])\s|(?<=[。！？])", line, maxsplit=1)[0]
    return f"{lines[0]} {sentence}" if len(lines) > 1 else sentence
