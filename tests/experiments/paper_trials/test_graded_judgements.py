from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from experiments.paper_trials.graded_judgements import loss
from tests.support.corpora import write_source, write_xz
from tests.support.encoders import WORDS

Reproduce = Callable[..., list[dict[str, Any]]]


@pytest.mark.parametrize("by_query", [False, True])
def test_histogram_loss_is_nothing_if_the_order_of_grades_is_right(by_query: bool) -> None:
    bits = torch.tensor([[1.0, 1, 1, 1], [1, 1, 1, -1], [-1, -1, -1, -1]])
    queries = torch.full((2, 4), 9.0)
    grades = torch.tensor([[1.0, 0.5, 0.0]]).repeat(2, 1)
    assert loss(queries, bits, grades, by_query, 0.0).item() == pytest.approx(0, abs=1e-6)
    assert loss(queries, bits, grades.flip(1), by_query, 0.0).item() > 0.1


def test_grades_teach_codes(reproduce: Reproduce, tmp_path: Path) -> None:
    data = tmp_path / "nfcorpus"
    pairs = [f"{first} {second}" for first in WORDS[:10] for second in WORDS[10:]]
    write_xz(
        data / "corpus.jsonl.xz",
        [{"id": f"d{n}", "title": "", "text": text} for n, text in enumerate(pairs)],
    )
    for name, start in (("train.", 0), ("dev.", 30), ("", 60)):
        rows = range(start, start + 30)
        write_xz(
            data / f"{name}queries.jsonl.xz", [{"id": f"q{n}", "text": pairs[n]} for n in rows]
        )
        lines = "\n".join(f"q{n}\td{n + offset}\t{2 - offset}" for n in rows for offset in (0, 1))
        write_source(data, f"{name}qrels.tsv{'.xz' if name == 'train.' else ''}", lines.encode())
    records = reproduce("graded-judgements", "--steps", 20, "--bits", 16)
    assert {record["way"] for record in records} == {"start", "train judged", "histogram"}
    assert all(0 <= record["nDCG@10"] <= 1 for record in records)
