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
class Pooled:
    """A document to judge: how much its judgement tells, and its rank in each ranking, from 1."""

    id: str
    weight: float
    ranks: Mapping[str, int]


def pool(rankings: Mapping[str, Sequence[str]], method: str = AP_PRIOR) -> list[Pooled]:
    """Return the documents in any of `rankings`, lists of ids, the most informative first.

    Rank r of a list of Z documents weighs (1 + H_Z − H_r) / Z, H being harmonic numbers: about what
    its judgement moves average precision by. `ap-prior` adds up the weights over the rankings,
    `difference` takes the greatest less the least, `depth-k` is 1 / the best rank. A document that
    a ranking does not have weighs 0 in it. Documents of one weight stand in the order of their ids.
    """
    ranks: dict[str, dict[str, int]] = {}
    for name, ids in rankings.items():
        for rank, id_ in enumerate(ids, start=1):
            ranks.setdefault(id_, {}).setdefault(name, rank)
    weights = {name: _weights(len(ids)) for name, ids in rankings.items()}

    def weight(found: Mapping[str, int]) -> float:
        each = [weights[name][found[name] - 1] if name in found else 0.0 for name in rankings]
        if method == DIFFERENCE:
            return max(each) - min(each)
        if method == DEPTH_K:
            return 1 / min(found.values())
        return math.fsum(each)

    pooled = [Pooled(id_, weight(found), found) for id_, found in ranks.items()]
    return sorted(pooled, key=lambda one: (-one.weight, one.id))


def _weights(size: int) -> list[float]:
    harmonic = [0.0]
    for rank in range(1, size + 1):
        harmonic.append(harmonic[-1] + 1 / rank)
    return [(1 + harmonic[size] - harmonic[rank]) / size for rank in range(1, size + 1)]
