from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hummingbit.training.data import TrainingDataError
from hummingbit.training.similarities import (
    LabelledPairs,
    ListedPairs,
    Pairs,
    equal_classes,
    graded_classes,
    read_pairs,
)

IDS = ["a", "b", "c", "d"]


def tags_of(*label_sets: str) -> np.ndarray:
    """Tags of documents whose classes are the letters x, y and z."""
    return np.array([[name in set_ for name in "xyz"] for set_ in label_sets])


TABLE = np.array([[1.0, 0.4, 0.0], [0.4, 1.0, 0.2], [0.0, 0.2, 1.0]], dtype=np.float32)


def test_all_pairs_of_the_labelled_documents_of_a_batch() -> None:
    source = LabelledPairs(tags_of("x", "", "y", "z", "x"), TABLE)
    assert len(source) == 4
    rows, pairs = source.batch(np.array([3, 0, 1]))
    assert rows.tolist() == [4, 0, 2]
    found = {
        (int(rows[i]), int(rows[j])): s
        for i, j, s in zip(pairs.first, pairs.second, pairs.similarity.tolist(), strict=True)
    }
    assert found == pytest.approx({(4, 0): 1, (4, 2): 0.4, (0, 2): 0.4})


def test_of_several_classes_the_most_similar_count() -> None:
    label_sets = ("xz", "y", "yz", "x", "xyz", "z")
    source = LabelledPairs(tags_of(*label_sets), TABLE)
    rows, pairs = source.batch(np.arange(6))
    assert len(pairs.similarity) == 15
    for i, j, s in zip(pairs.first, pairs.second, pairs.similarity, strict=True):
        one, other = label_sets[rows[i]], label_sets[rows[j]]
        expected = max(TABLE["xyz".index(a), "xyz".index(b)] for a in one for b in other)
        assert s == expected


def test_one_class_is_refused() -> None:
    with pytest.raises(TrainingDataError, match="have 1 of the classes; pairs of one class"):
        LabelledPairs(tags_of("x", "x", ""), TABLE)


def test_grades_are_alike_by_their_difference() -> None:
    np.testing.assert_allclose(
        graded_classes(["1", "3", "2.5", "5"])[0], [1, 0.5, 0.625, 0], rtol=1e-6
    )
    for wrong, message in (
        (["1", "good"], "'good' is not a number; graded labels must be"),
        (["1", "nan"], "'nan' is not a number"),
        (["1", "1.0"], "all grades are the same; there must be at least two"),
    ):
        with pytest.raises(TrainingDataError, match=message):
            graded_classes(wrong)


def test_equal_classes_are_alike() -> None:
    assert equal_classes("ab").tolist() == [[1, 0], [0, 1]]


def write_pairs(path: Path, *records: object) -> Path:
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
    return path


def pair(a: Any = "a", b: Any = "b", similarity: Any = 0.5) -> dict[str, Any]:
    return {"a": a, "b": b, "similarity": similarity}


def test_listed_pairs_make_batches_of_the_documents_they_name(tmp_path: Path) -> None:
    path = write_pairs(tmp_path / "p.jsonl", pair(), pair("d", "a", 1), pair("b", "d", 0))
    source = ListedPairs(read_pairs(path, IDS))
    assert len(source) == 3
    rows, pairs = source.batch(np.array([2, 0]))
    assert rows.tolist() == [0, 1, 3]
    assert [(rows[i], rows[j]) for i, j in zip(pairs.first, pairs.second, strict=True)] == [
        (1, 3),
        (0, 1),
    ]
    assert pairs.similarity.tolist() == [0, 0.5]


@pytest.mark.parametrize(
    ("record", "message"),
    [
        (pair(b="e"), "p.jsonl:2: b is 'e'; it must be the id of a document"),
        (pair(a=3), "a is 3; it must be the id of a document"),
        (pair("a", "a"), "a and b are both 'a'"),
        (pair(similarity=1.01), r"similarity is 1.01; it must be a number from 0 to 1"),
        (pair(similarity=-0.1), "similarity is -0.1"),
        (pair(similarity=True), "similarity is True"),
        (pair(similarity="1"), "similarity is '1'"),
        ({"a": "a", "b": "b"}, "must be an object with fields a, b and similarity"),
        (["a", "b", 1], "must be an object with fields"),
    ],
)
def test_a_bad_pair_is_named_with_its_line(record: object, message: str, tmp_path: Path) -> None:
    with pytest.raises(TrainingDataError, match=message):
        read_pairs(write_pairs(tmp_path / "p.jsonl", pair(), record), IDS)


def test_a_bad_file_of_pairs_is_explained(tmp_path: Path) -> None:
    with pytest.raises(TrainingDataError, match=r"similarity_file: .*cannot be read"):
        read_pairs(tmp_path / "none", IDS)
    with pytest.raises(TrainingDataError, match="is empty"):
        read_pairs(write_pairs(tmp_path / "empty.jsonl"), IDS)
    (tmp_path / "text").write_text("a b 0.5\n")
    with pytest.raises(TrainingDataError, match="text:1: is not"):
        read_pairs(tmp_path / "text", IDS)


def test_pairs_all_equally_alike_are_refused() -> None:
    zero, one = np.zeros(3, dtype=np.int64), np.ones(3, dtype=np.int64)
    with pytest.raises(TrainingDataError, match="all 3 pairs are equally similar"):
        ListedPairs(Pairs(zero, one, np.full(3, 0.5, dtype=np.float32)))
