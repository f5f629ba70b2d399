from __future__ import annotations

from collections.abc import Callable
from itertools import product
from typing import Any

import numpy as np
import pytest

from experiments.paper_trials.none_of_these import auroc, potatoes

Reproduce = Callable[..., list[dict[str, Any]]]


def test_texts_of_a_class_held_out_get_every_score(
    reproduce: Reproduce,
    write_topics: Callable[[str, int, int], None],
    capsys: pytest.CaptureFixture[str],
) -> None:
    write_topics("hwu64", 240, 60)
    records = reproduce("none-of-these", "--absent", 1)
    assert len(records) == 2 * 14
    assert {record["half"] for record in records} == {"chosen on", "shown on"}
    assert all(0 < record["auroc"] < 1 for record in records)
    # Beside itself, the score of today gains nothing.
    assert "+0.000 [+0.000, +0.000]" in capsys.readouterr().out


def test_potatoes_and_auroc_by_plain_loops() -> None:
    rng = np.random.default_rng(0)
    documents, queries = (rng.normal(size=(n, 3)).astype(np.float32) for n in (12, 5))
    tags = np.eye(2, dtype=np.bool_).repeat(6, axis=0)
    z, d = potatoes(documents, tags, queries)
    for c, rows in enumerate((documents[:6], documents[6:])):
        logs = np.log(np.linalg.norm(rows - rows.mean(axis=0), axis=1))
        expected = np.linalg.norm(queries - rows.mean(axis=0), axis=1)
        np.testing.assert_allclose(d[:, c], expected, rtol=1e-5)
        np.testing.assert_allclose(
            z[:, c], (np.log(expected) - logs.mean()) / logs.std(), rtol=1e-4
        )
    values, known = np.array([3.0, 1.0, 1.0, 0.0]), np.array([True, True, False, False])
    pairs = [(a > b) + (a == b) / 2 for a, b in product(values[known], values[~known])]
    assert auroc(values, known) == pytest.approx(np.mean(pairs))
