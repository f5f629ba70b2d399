from __future__ import annotations

import pytest

from hummingbit.evaluation.report import (
    format_interval,
    format_share,
)
from hummingbit.evaluation.significance import format_p_value, format_probability


def test_shares_and_intervals() -> None:
    assert (format_share(0.5), format_share(None)) == ("0.5000", "–")
    assert (format_interval((0.25, 0.5)), format_interval(None)) == ("0.2500 – 0.5000", "–")


@pytest.mark.parametrize(
    ("value", "shown", "sentence"),
    [
        (0.0, "< 0.001", "p < 0.001"),
        (0.000999, "< 0.001", "p < 0.001"),
        (0.001, "0.001", "p = 0.001"),
        (0.0444, "0.044", "p = 0.044"),
        (1.0, "1.000", "p = 1.000"),
    ],
)
def test_p_values_alone_and_in_a_sentence(value: float, shown: str, sentence: str) -> None:
    assert (format_p_value(value), format_probability(value)) == (shown, sentence)
