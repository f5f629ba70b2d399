from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from hummingbit.evaluation.gate import GateError, Rule, apply_gate, parse_gate, read_gate
from hummingbit.evaluation.result import Evaluation, EvaluationError


@pytest.fixture
def evaluation() -> Evaluation:
    served = {"P@100": np.array([0.5, 0.7]), "mAP@100": np.array([0.2, 0.4])}
    expected = {name: values / 2 for name, values in served.items()}
    return Evaluation(served, expected, queries=2, documents=9, queries_without_relevant=0)


def test_what_reaches_its_minimum_passes(evaluation: Evaluation) -> None:
    checks = apply_gate([Rule("P@100", minimum=0.6), Rule("mAP@100", minimum=0.0)], evaluation)
    assert [check.status for check in checks] == ["passed", "passed"]


def test_every_metric_that_falls_short_is_named(evaluation: Evaluation) -> None:
    checks = apply_gate([Rule("P@100", minimum=0.61), Rule("mAP@100", minimum=0.9)], evaluation)
    assert [check.status for check in checks] == ["failed", "failed"]
    assert [check.sentence for check in checks] == [
        "P@100 is 0.6000, below the minimum of 0.61",
        "mAP@100 is 0.3000, below the minimum of 0.9",
    ]


GATE = """
[metrics."P@100"]
min = 0.6
max_drop = 0.01
alpha = 0.1
[metrics."map@100"]
max_drop = 0
level = "warn"
"""


def measured(values: dict[str, np.ndarray]) -> Evaluation:
    n = len(next(iter(values.values())))
    return Evaluation(values, values, queries=n, documents=9, queries_without_relevant=0)


def test_a_gate_is_read_from_toml(tmp_path: Path) -> None:
    path = tmp_path / "gate.toml"
    path.write_text(GATE)
    assert read_gate(path) == [
        Rule("P@100", minimum=0.6, max_drop=0.01, alpha=0.1, level="error"),
        Rule("mAP@100", minimum=None, max_drop=0.0, alpha=0.05, level="warn"),
    ]
    path.write_text("min =")
    with pytest.raises(GateError, match=r"gate\.toml: the gate is not TOML"):
        read_gate(path)
    path.write_bytes(b"# \xff")
    with pytest.raises(GateError, match="is not UTF-8"):
        read_gate(path)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("x = " + "[" * 5000, "the gate is nested too deeply"),
        ("x = " + "{a = " * 2000, "the gate is nested too deeply"),
        ("x = " + "9" * 5000, "a whole number with too many digits"),
        ("", "the gate has no rule"),
        ("[metrics]", "the gate has no rule"),
        ("metrics = 3", "the gate has no rule"),
        ("seed = 3", "the gate has the unknown key 'seed'; the keys are metrics, training_queries"),
        ('[metrics."P@x"]\nmin = 0.5', "'P@x' is not a metric"),
        ('[metrics]\n"P@1" = 0.5', 'metrics."P@1" is 0.5; it must be a table'),
        ('[metrics."P@1"]\nminimum = 0.5', "P@1 has the unknown key 'minimum'; the keys are min"),
        ('[metrics."P@1"]\nlevel = "warn"', "P@1 has neither min nor max_drop"),
        ('[metrics."P@1"]\nmin = 0.5\nalpha = 0.1', "P@1 has alpha but no max_drop"),
        ('[metrics."P@1"]\nmin = 60', "min of P@1 is 60; it must be a number from 0 to 1"),
        ('[metrics."P@1"]\nmin = true', "min of P@1 is True"),
        ('[metrics."P@1"]\nmin = nan', "min of P@1 is nan"),
        ('[metrics."P@1"]\nmax_drop = -0.1', "max_drop of P@1 is -0.1"),
        ('[metrics."P@1"]\nmax_drop = "1%"', "max_drop of P@1 is '1%'"),
        ('[metrics."P@1"]\nmax_drop = 0\nalpha = 0', "alpha of P@1 is 0; it must be above 0"),
        ('[metrics."P@1"]\nmin = 0.1\nlevel = "info"', "level of P@1 is 'info'"),
        ('[metrics."P@1"]\nmin = 0.1\n[metrics."p@1"]\nmin = 0.1', "more than one table for P@1"),
    ],
)
def test_gates_that_are_not_right(text: str, reason: str) -> None:
    with pytest.raises(GateError, match=reason):
        parse_gate(text)


def test_what_holds_passes_and_says_so(evaluation: Evaluation) -> None:
    rules = [Rule("P@100", minimum=0.6), Rule("mAP@100", max_drop=0.0)]
    checks = apply_gate(rules, evaluation, evaluation.per_query)
    assert [(check.metric, check.condition, check.status) for check in checks] == [
        ("P@100", "min", "passed"),
        ("mAP@100", "max_drop", "passed"),
    ]
    assert checks[0].sentence == "P@100 is 0.6000, at or above the minimum of 0.6"
    assert checks[1].sentence == (
        "mAP@100 went from 0.3000 to 0.3000 (p = 1), not more than 0 down"
    )


def test_a_drop_must_be_large_and_significant_to_fail() -> None:
    rng = np.random.default_rng(0)
    before = rng.random(2000) * 0.5 + 0.5
    noise = rng.normal(0, 0.1, 2000)
    noise -= noise.mean()
    now = measured({"P@100": before - 0.02 + noise, "MRR": before + noise})
    baseline = {"P@100": before, "MRR": before}

    def status(rule: Rule) -> str:
        return apply_gate([rule], now, baseline)[0].status

    assert status(Rule("P@100", max_drop=0.0)) == "failed"
    assert status(Rule("P@100", max_drop=0.0, level="warn")) == "warned"
    assert status(Rule("P@100", max_drop=0.03)) == "passed"
    assert status(Rule("MRR", max_drop=0.0)) == "passed"
    few = measured({"P@100": now.per_query["P@100"][:4] - 0.1})
    checks = [
        apply_gate([Rule("P@100", max_drop=0.0, alpha=alpha)], few, {"P@100": before[:4]})[0]
        for alpha in (0.05, 1)
    ]
    assert [check.status for check in checks] == ["failed", "failed"]
    assert "cannot tell; 4 queries would not show a drop of 0.05" in checks[0].sentence
    assert "Label" in checks[0].sentence
    assert "cannot tell" not in checks[1].sentence
    loose = Rule("P@100", max_drop=0.0, detect=1.0)
    assert apply_gate([loose], few, {"P@100": before[:4]})[0].status == "passed"


def test_a_rule_of_level_warn_only_warns(evaluation: Evaluation) -> None:
    warned = apply_gate([Rule("P@100", minimum=0.9, level="warn")], evaluation)
    assert [item.status for item in warned] == ["warned"]
    assert warned[0].sentence == "P@100 is 0.6000, below the minimum of 0.9"
    failed = apply_gate([Rule("P@100", minimum=0.9)], evaluation)
    assert [item.status for item in failed] == ["failed"]


def test_drops_are_corrected_for_being_looked_at_together() -> None:
    baseline = {name: np.full(6, 0.5) for name in ("P@1", "P@2")}
    now = measured({"P@1": np.full(6, 0.4), "P@2": np.full(6, 0.5)})
    # Six queries that all fall: p = 2 / 64, which is below 0.05 alone, but not when doubled.
    alone = apply_gate([Rule("P@1", max_drop=0.0)], now, baseline)
    assert alone[0].status == "failed"
    both = apply_gate([Rule("P@1", max_drop=0.0), Rule("P@2", max_drop=0.0)], now, baseline)
    assert [item.status for item in both] == ["failed", "passed"]
    assert "cannot tell" in both[0].sentence
    assert "p = 0.062" in both[0].sentence


def test_a_gate_that_cannot_be_applied_is_no_pass(evaluation: Evaluation) -> None:
    with pytest.raises(
        GateError, match=r"P@10 has a rule but was not measured; the metrics measured are P@1"
    ):
        apply_gate([Rule("P@10", minimum=0.5)], evaluation)
    with pytest.raises(GateError, match="P@100 has max_drop, which needs a baseline"):
        apply_gate([Rule("P@100", max_drop=0.5)], evaluation)
    with pytest.raises(GateError, match="max_drop, but the baseline has only MRR"):
        apply_gate([Rule("P@100", max_drop=0.5)], evaluation, {"MRR": np.zeros(2)})
    with pytest.raises(EvaluationError, match="shapes"):
        apply_gate([Rule("P@100", max_drop=0.5)], evaluation, {"P@100": np.zeros(3)})


def test_measures_of_other_rankings_are_named_with_them() -> None:
    text = '[metrics."hybrid ndcg@10"]\nmin = 0.2\n[metrics."hamming P@100"]\nmin = 0.1'
    assert [rule.metric for rule in parse_gate(text)] == ["hybrid nDCG@10", "P@100"]
    with pytest.raises(GateError, match="'cosine' in 'cosine P@1' is not a ranking"):
        parse_gate('[metrics."cosine P@1"]\nmin = 0.2')
    values = {"hybrid nDCG@10": np.full(9, 0.5), "P@100": np.full(9, 0.2)}
    checks = apply_gate(parse_gate(text), measured(values))
    assert [check.sentence.split(",")[0] for check in checks] == [
        "hybrid nDCG@10 is 0.5000",
        "P@100 is 0.2000",
    ]
    drop = parse_gate('[metrics."hybrid nDCG@10"]\nmax_drop = 0.1')
    with pytest.raises(GateError, match="--rankings hybrid --metrics nDCG@10"):
        apply_gate(drop, measured(values), {"P@100": values["P@100"]})


def test_a_gate_refuses_values_of_training_data(evaluation: Evaluation) -> None:
    seen = replace(evaluation, warning="values of training data: …")
    rule = '[metrics."P@100"]\nmin = 0.6\n'
    with pytest.raises(GateError, match="values of training data: …; to gate them all the same"):
        apply_gate(parse_gate(rule), seen)
    assert apply_gate(parse_gate(f"training_queries = true\n{rule}"), seen)[0].status == "passed"
