from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from experiments.paper_trials.class_tree import tree_codewords, wanted_distances
from tests.support.corpora import dotted_topic_documents, write_snippets

LABELS = ("rec.sport.hockey", "rec.sport.baseball", "rec.autos", "sci.space", "talk.religion.misc")

Reproduce = Callable[..., list[dict[str, Any]]]


def test_codewords_follow_the_tree() -> None:
    wanted = wanted_distances(LABELS, 32, 0.5)
    assert wanted[0, 1] == pytest.approx(8)
    assert wanted[0, 1] < wanted[0, 2] < wanted[0, 3] == 16
    words = tree_codewords(LABELS, 32, 0.5)
    assert set(np.unique(words)) == {-1, 1}
    np.testing.assert_allclose((words[:, None] != words[None]).sum(axis=2), wanted, atol=2)


def test_codewords_of_the_tree_are_measured_beside_plain_ones(
    reproduce: Reproduce, tmp_path: Path
) -> None:
    queries = dotted_topic_documents(40, 1, prefix="test")
    write_snippets(tmp_path, dotted_topic_documents(200, prefix="train"), queries)
    records = reproduce("class-tree", "--tree-dataset", "snippets", "--bits", 16)
    plain, tree = records
    assert plain["gamma"] == 0 < tree["gamma"]
    # A third of the 200 documents have the label of a query, so two thirds are the most.
    assert all(0.5 < record["P@100"] < 0.7 and record["nDCG@100"] > 0.7 for record in records)
