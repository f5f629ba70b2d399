from __future__ import annotations

import numpy as np

from experiments.paired_runs import compare_runs
from experiments.ssb_vae.measure_comparison import compare_measures


def test_a_sentence_names_the_best_method_and_whether_it_is_chance() -> None:
    rng = np.random.default_rng(0)
    base = rng.random((3, 60))
    noise = 0.02 * rng.standard_normal((3, 60))
    values = {
        "ours": {"p@100": base + 0.1, "items": base, "unseen": base + noise},
        "near": {"p@100": base + 0.05, "items": base + 0.2, "unseen": base},
        "far": {"p@100": base - 0.2, "items": base + 0.1, "unseen": base - 0.3},
    }
    runs = {
        name: [{measure: rows[run] for measure, rows in each.items()} for run in range(3)]
        for name, each in values.items()
    }
    precision, items, unseen = compare_measures("ours", runs)
    assert precision.startswith("p@100: ours is ahead of near by 0.050 (+0.050 to +0.050)")
    # Three measures of two other methods make six tests.
    assert precision.endswith(f"p = {6 * 2 / 10_001:.2g}")
    assert items.startswith("items: near is ahead of ours by 0.200 (+0.200 to +0.200)")
    comparison = compare_runs(base + noise, base)
    assert f" by {abs(comparison.difference.mean):.3f} " in unseen
    assert unseen.endswith("not significant")
    # A method with other runs is not compared.
    assert compare_measures("ours", {"ours": runs["ours"], "near": runs["near"][:2]}) == []
