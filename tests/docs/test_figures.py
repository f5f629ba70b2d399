"""Figures that the documentation repeats agree with the table that they are from."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
ROWS = ("codes, `asymmetric`", "words, `bm25`", "codes and words, `hybrid`")


def test_the_shares_of_answered_questions_are_those_of_the_demo() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    in_first_ten = {
        name: float(re.search(rf"^\| {name} \|[^|]*\| ([\d.]+)", readme, re.MULTILINE)[1])  # type: ignore[index]
        for name in ROWS
    }
    sentence = re.search(
        r"a right answer among the first ten hits for (\d+) %.*?(\d+) %.*?(\d+) %",
        (ROOT / "docs" / "choosing.md").read_text(encoding="utf-8"),
        re.DOTALL,
    )
    assert sentence is not None
    assert [int(share) for share in sentence.groups()] == [
        round(100 * in_first_ten[name]) for name in ROWS
    ]
