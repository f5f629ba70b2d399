from __future__ import annotations

import json
from pathlib import Path

import pytest

from experiments.result_tables import group, mean_and_deviation, print_table, write_records

RECORDS = [
    {"method": "a", "seed": 0, "p100": 0.5},
    {"method": "b", "seed": 0, "p100": 0.25},
    {"method": "a", "seed": 1, "p100": 0.75},
]


def test_records_are_written_as_a_json_list(tmp_path: Path) -> None:
    path = tmp_path / "results" / "records.json"
    write_records(path, RECORDS[:1])
    write_records(path, RECORDS)
    assert json.loads(path.read_text()) == RECORDS
    assert [item.name for item in path.parent.iterdir()] == ["records.json"]


def test_groups_keep_their_order() -> None:
    groups = group(RECORDS, "method")
    assert {key: [run["seed"] for run in runs] for key, runs in groups.items()} == {
        ("a",): [0, 1],
        ("b",): [0],
    }


def test_a_mean_comes_with_the_deviation_of_a_sample() -> None:
    assert mean_and_deviation(group(RECORDS, "method")[("a",)], "p100") == "0.625 ± 0.177"
    assert mean_and_deviation(RECORDS[1:2], "p100") == "0.250"


def test_columns_line_up(capsys: pytest.CaptureFixture[str]) -> None:
    print_table(["method", "p"], [["a", "0.5"], ["longer name", "1"]])
    assert capsys.readouterr().out.splitlines() == [
        "| method      | p   |",
        "|-------------|-----|",
        "| a           | 0.5 |",
        "| longer name | 1   |",
    ]
