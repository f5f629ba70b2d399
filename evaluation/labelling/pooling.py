"""Which answers to a query to judge next: pooled from several rankings, most informative first.

Sources: depth-k pools as in TREC (Spärck Jones and van Rijsbergen 1975); the average-precision
prior of Aslam, Pavlu and Yilmaz, "A Statistical Method for System Evaluation Using Incomplete
Judgments" (2006), section 3; minimal test collections, Carterette, Allan and Sitaraman (2006).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

DEPTH_K = "depth-k"
AP_PRIOR = "ap-prior"
DIFFERENCE = "difference"
POOLING_METHODS = {
    AP_PRIOR: "the documents that weigh most in the average precision of all rankings",
    DIFFERENCE: "the documents on which the rankings disagree most (minimal test collections)",
    DEPTH_K: "by the best rank that any ranking gives, as TREC pools",
}


@dataclass(frozen=True, slots=True)
class PooledDocument:
    """A document to judge: how informative a judgement is, and its rank in each ranking, from 1."""

    id: str
    weight: float
    ranks: Mapping[str, int]


def pool(rankings: Mapping[str, Sequence[str]], method: str = AP_PRIOR) -> list[PooledDocument]:
    """Return the documents in any of `rankings`, lists of ids, the most informative first.

    Rank r of a list of Z documents weighs (1 + H_Z − H_r) / Z, H being harmonic numbers. That is
    about how far its judgement moves average precision. `ap-prior` adds up the weights over the
    rankings, `difference` subtracts the least from the greatest, and `depth-k` is 1 / the best
    rank. A document weighs 0 in a ranking that lacks it. Documents of equal weight are ordered by
    id.
    """
    ranks: dict[str, dict[str, int]] = {}
    for name, ids in rankings.items():
        for rank, id_ in enumerate(ids, start=1):
            ranks.setdefault(id_, {}).setdefault(name, rank)
    weights = {name: _weights(len(ids)) for name, ids in rankings.items()}

    def weight(ranks_of_document: Mapping[str, int]) -> float:
        if method == DEPTH_K:
            return 1 / min(ranks_of_document.values())
        each = [
            weights[name][ranks_of_document[name] - 1] if name in ranks_of_document else 0.0
            for name in rankings
        ]
        return max(each) - min(each) if method == DIFFERENCE else math.fsum(each)

    pooled = [
        PooledDocument(id_, weight(ranks_of_document), ranks_of_document)
        for id_, ranks_of_document in ranks.items()
    ]
    return sorted(pooled, key=lambda document: (-document.weight, document.id))


def _weights(size: int) -> list[float]:
    harmonic = [0.0]
    for rank in range(1, size + 1):
        harmonic.append(harmonic[-1] + 1 / rank)
    return [(1 + harmonic[size] - harmonic[rank]) / size for rank in range(1, size + 1)]
