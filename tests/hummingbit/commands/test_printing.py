from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from hummingbit.commands.printed_figures import print_figures
from hummingbit.commands.printing import print_facets
from hummingbit.evaluation.result import Evaluation
from hummingbit.index.facets import FacetResult


def test_a_space_separates_columns_whatever_their_names(
    capsys: pytest.CaptureFixture[str],
) -> None:
    names = ("P@1", "Success@10", "Recall@10000")
    served = {name: np.array([0.25, 0.5]) for name in names}
    averaged = {name: np.array([0.25, 1.0]) for name in names}
    evaluation = Evaluation(served, averaged, 2, 9, 0, distinct_codes=1234)
    print_figures({"hamming": evaluation, "hamming+vectors": evaluation})
    header, *lines = capsys.readouterr().out.splitlines()[:3]
    columns = [word for name in names for word in (name, "tie-averaged")]
    assert header.split() == ["method", *columns, "distinct", "codes"]
    for line, method in zip(lines, ("hamming", "hamming+vectors"), strict=True):
        assert line.split() == [method, *["0.375", "0.625"] * 3, "1,234"]
        assert len(line) == len(header)


@pytest.mark.parametrize(
    ("starts", "printed"),
    [
        (["2024-01-01T00:00:00Z", "2024-04-01T00:00:00Z"], ["2024-01-01", "2024-04-01"]),
        (["2024-01-01T00:00:00Z", "2024-01-01T06:00:00Z"], None),
        ([0, 10], ["0", "10"]),
    ],
)
def test_intervals_of_whole_days_are_printed_as_days(
    starts: list[Any], printed: list[str] | None, capsys: pytest.CaptureFixture[str]
) -> None:
    buckets = [{"from": start, "to": start, "count": 3} for start in starts]
    print_facets([FacetResult("at", buckets, 6, 0, 2)])
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[1] for line in lines[1:]] == (printed or starts)
