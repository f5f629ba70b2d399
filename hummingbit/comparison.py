"""Chooses among the rankings of a collection by a test on a person's own queries."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from hummingbit.evaluation.result import PerQuery
from hummingbit.evaluation.significance import format_probability, holm, permutation_test
from hummingbit.index.names import HYBRID


@dataclass(frozen=True)
class Choice:
    """The ranking to use, by a test.

    It is the default unless another ranking is significantly better by the two-sided paired
    permutation test on each query, with Holm's correction over all others. `rival` is the ranking
    with the highest mean where it differs from the default, `lead` how far it is ahead, and
    `p_value` that of the test. `metric` names the values.
    """

    ranking: str
    rival: str | None = None
    lead: float = 0.0
    p_value: float = 1.0
    metric: str = "nDCG@10"

    def advice(self) -> str:
        """Return which ranking to use, and why by the test, as the end of a sentence."""
        if self.rival is None:
            return f"use {self.ranking}, as searches do: no other ranking is significantly better."
        test = format_probability(self.p_value)
        if self.ranking == self.rival:
            by = f"by {self.lead:.3f} in {self.metric} ({test})"
            return f"use {self.rival}: it beats {HYBRID} {by}, and searches use it."
        found = f"{self.rival} has {self.lead:.3f} more {self.metric}, {test}"
        kept = f"use {self.ranking}, as searches do: no other ranking is significantly better"
        return f"{kept} ({found})."


def choose_ranking(
    values: Mapping[str, PerQuery],
    default: str = HYBRID,
    alpha: float = 0.05,
    metric: str = "nDCG@10",
) -> Choice:
    """Choose among rankings by their values for each query, float64[Q]."""
    means = {name: float(per_query.mean()) for name, per_query in values.items()}
    best = max(means, key=lambda name: (means[name], name == default))
    if best == default or default not in values:
        return Choice(best, metric=metric)
    others = [name for name in values if name != default]
    p_values = holm([permutation_test(values[name], values[default]) for name in others])
    p_value = p_values[others.index(best)]
    chosen = best if p_value <= alpha else default
    return Choice(chosen, best, means[best] - means[default], p_value, metric)
