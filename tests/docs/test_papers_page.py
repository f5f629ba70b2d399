from __future__ import annotations

import re
from pathlib import Path

PAGE = (Path(__file__).parents[2] / "docs" / "papers.md").read_text(encoding="utf-8")
VERDICTS = {"equal", "near", "small scale", "not reproduced", "not run"}


def test_every_item_of_the_papers_has_one_of_five_verdicts() -> None:
    rows = [
        re.split(r"(?<!\\) \| ", line[2:-2])
        for line in PAGE.splitlines()
        if line.startswith("| ") and not line.startswith(("| item", "| verdict"))
    ]
    items = [row for row in rows if len(row) == 4]
    assert len(items) > 90
    assert {row[1] for row in items} == VERDICTS
    # Other tables of the page explain the words.
    assert {row[0] for row in rows if len(row) != 4} == VERDICTS
