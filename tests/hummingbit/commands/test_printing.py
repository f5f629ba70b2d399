from __future__ import annotations

import numpy as np
import pytest

from hummingbit.commands.printed_figures import print_figures
from hummingbit.evaluation.result import Evaluation


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
