from __future__ import annotations

import math

import numpy as np
import pytest

from evaluation.gate import check_gate
from evaluation.metrics import MetricError
from evaluation.result import Evaluation


@pytest.fixture
def evaluation() -> Evaluation:
    served = {"P@100": np.array([0.5, 0.7]), "mAP@100": np.array([0.2, 0.4])}
    expected = {name: values / 2 for name, values in served.items()}
    return Evaluation(served, expected, queries=2, documents=9, queries_without_relevant=0)


def test_what_reaches_its_minimum_passes(evaluation: Evaluation) -> None:
    assert check_gate(evaluation, {}) == []
    assert check_gate(evaluation, {"P@100": 0.6, "mAP@100": 0.0}) == []


def test_every_metric_that_falls_short_is_named(evaluation: Evaluation) -> None:
    failures = check_gate(evaluation, {"p@100": 0.61, "mAP@100": 0.9})
    assert failures == [
        "P@100 is 0.6000, below the minimum of 0.61",
        "mAP@100 is 0.3000, below the minimum of 0.9",
    ]


@pytest.mark.parametrize("minimum", [-0.1, 64, math.nan, math.inf])
def test_a_minimum_is_a_share(evaluation: Evaluation, minimum: float) -> None:
    with pytest.raises(MetricError, match=r"minimum of P@100 is .*; it must be from 0 to 1"):
        check_gate(evaluation, {"P@100": minimum})


def test_what_was_not_measured_cannot_pass(evaluation: Evaluation) -> None:
    with pytest.raises(MetricError, match=r"P@10 .* measured are P@100, mAP@100"):
        check_gate(evaluation, {"P@10": 0.5})
