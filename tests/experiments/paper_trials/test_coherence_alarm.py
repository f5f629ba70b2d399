from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

Reproduce = Callable[..., list[dict[str, Any]]]


def test_students_are_ordered_by_level_and_by_p100(
    reproduce: Reproduce,
    write_topics: Callable[[str, int, int], None],
    capsys: pytest.CaptureFixture[str],
) -> None:
    write_topics("snippets", 300, 40)
    records = reproduce("coherence-alarm", "--alarm-corpora", "snippets", "--bits", 8, 16)
    assert len(records) == 2 * 2 * 10
    assert all(0 < record["level"] <= 1 and 0 <= record["p@100"] <= 1 for record in records)
    assert "| snippets | taught   | level" in capsys.readouterr().out
