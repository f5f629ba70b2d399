"""A sentence for each measure: which method is best, by how much, and whether it is chance."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from experiments.paired_runs import RunsComparison, compare_runs
from hummingbit.evaluation.result import PerQuery
from hummingbit.evaluation.significance import holm

RunsByMethod = Mapping[str, Sequence[Mapping[str, PerQuery]]]
"""By method, a mapping for each run: the values of each measure, float64[Q]."""


def compare_measures(ours: str, runs: RunsByMethod) -> list[str]:
    """Return a sentence for each measure of the method `ours`.

    If `ours` has the highest mean over runs and queries, the sentence compares it with the next
    method, and otherwise with the best one. The interval and the p-value are those of
    :func:`compare_runs`, which resamples runs (seeds and labels drawn) as well as queries; Holm's
    correction is over all methods and measures. Other methods without the same runs are left out.
    """
    measures = list(runs[ours][0])
    others = [name for name, each in runs.items() if name != ours and len(each) == len(runs[ours])]
    if not others:
        return []
    pairs = [(measure, other) for measure in measures for other in others]
    compared = [
        compare_runs(_values(runs[ours], measure), _values(runs[other], measure))
        for measure, other in pairs
    ]
    corrected = holm([comparison.p_value for comparison in compared])
    tests = dict(zip(pairs, zip(compared, corrected, strict=True), strict=True))
    sentences = []
    for measure in measures:
        # The least difference is to the best of the others.
        best = min(others, key=lambda name: tests[measure, name][0].difference.mean)
        sentences.append(f"{measure}: {_sentence(ours, best, *tests[measure, best])}")
    return sentences


def _values(runs: Sequence[Mapping[str, PerQuery]], measure: str) -> PerQuery:
    return np.stack([values[measure] for values in runs])


def _sentence(ours: str, other: str, comparison: RunsComparison, p_value: float) -> str:
    mean, low, high = (getattr(comparison.difference, name) for name in ("mean", "low", "high"))
    if mean < 0:
        ours, other, mean, low, high = other, ours, -mean, -high, -low
    lead = (
        f"{ours} is ahead of {other} by {mean:.3f} ({low:+.3f} to {high:+.3f}), p = {p_value:.2g}"
    )
    return lead if p_value < 0.05 else f"{lead}: not significant"
