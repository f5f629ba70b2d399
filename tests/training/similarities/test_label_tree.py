from __future__ import annotations

import lzma
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hummingbit.evaluation.relevance import relevance_by_hierarchy
from hummingbit.training.data import TrainingDataError
from hummingbit.training.similarities import LabelTree, dotted_tree, read_tree

NEWS = [
    "comp.sys.ibm.pc.hardware",
    "comp.sys.mac.hardware",
    "rec.autos",
    "rec.sport.baseball",
    "rec.sport.hockey",
    "sci.crypt",
]


def test_hockey_is_nearer_to_baseball_than_to_cryptography() -> None:
    table = dotted_tree(NEWS).similarities(NEWS)
    hockey = dict(zip(NEWS, table[4].tolist(), strict=True))
    assert hockey == pytest.approx(
        {
            "rec.sport.hockey": 1,
            "rec.sport.baseball": 2 / 5,
            "rec.autos": 1 / 5,
            "sci.crypt": 0,
            "comp.sys.ibm.pc.hardware": 0,
            "comp.sys.mac.hardware": 0,
        }
    )
    assert (table == table.T).all()


names = st.lists(st.sampled_from("abc"), min_size=1, max_size=4).map(".".join)


@given(st.lists(names, min_size=2, max_size=8, unique=True))
def test_similarities_are_in_the_order_of_evaluations_grades(labels: list[str]) -> None:
    table = dotted_tree(labels).similarities(labels)
    tags = [(label,) for label in labels]
    places = np.arange(len(labels))
    relevance = relevance_by_hierarchy(tags, tags)
    grades = relevance.grade_lists(places, np.tile(places, (len(labels), 1)))
    shared_by_all = grades.min()
    deepest = max(label.count(".") + 1 for label in labels)
    expected = (grades - shared_by_all) / float(max(1, deepest - shared_by_all))
    np.fill_diagonal(expected, 1)
    np.testing.assert_allclose(table, expected, rtol=1e-6)
    assert ((table >= 0) & (table <= 1)).all()
    assert (np.diag(table) == 1).all()


def test_a_root_that_all_share_counts_for_nothing() -> None:
    tree = LabelTree({"mammal": "animal", "bird": "animal", "cat": "mammal", "dog": "mammal"})
    table = tree.similarities(["cat", "dog", "bird"])
    assert table.tolist() == [[1, 0.5, 0], [0.5, 1, 0], [0, 0, 1]]


@pytest.mark.parametrize("name", ["tree.txt", "tree.tsv", "tree.txt.xz"])
def test_a_file_of_parents_and_children(name: str, tmp_path: Path) -> None:
    text = "mammal cat\n\nmammal dog\nanimal mammal\nanimal bird\n"
    path = tmp_path / name
    if name.endswith("tsv"):
        path.write_text(text.replace(" ", "\t"))
    elif name.endswith("xz"):
        path.write_bytes(lzma.compress(text.encode()))
    else:
        path.write_text(text)
    tree = read_tree(path)
    assert tree.path("cat") == ("animal", "mammal", "cat")
    tree.check_holds(["bird", "animal"])
    with pytest.raises(TrainingDataError, match="the label 'fish' is not in the tree"):
        tree.check_holds(["bird", "fish"])


def test_labels_with_spaces_are_separated_by_tabs(tmp_path: Path) -> None:
    (tmp_path / "tree").write_text("water animal\tsea horse\n")
    assert read_tree(tmp_path / "tree").path("sea horse") == ("water animal", "sea horse")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a b\nb c\nc a\n", "similarity_file: .* → .* → .* → .* is a cycle; every label must lead"),
        ("a a\n", "similarity_file: a → a is a cycle"),
        ("a b\nc b\n", "tree:2: 'b' has the parents 'a' and 'c'; in a tree it has one"),
        ("a b c\n", "tree:1: is 'a b c'; it must be a parent and a child"),
        ("a\n", "it must be a parent and a child"),
        ("\n", "is empty; it must hold a parent and a child"),
    ],
)
def test_what_is_no_tree_is_refused(text: str, message: str, tmp_path: Path) -> None:
    (tmp_path / "tree").write_text(text)
    with pytest.raises(TrainingDataError, match=message):
        read_tree(tmp_path / "tree")


def test_a_missing_or_damaged_file_is_explained(tmp_path: Path) -> None:
    with pytest.raises(TrainingDataError, match=r"cannot be read: .*No such file"):
        read_tree(tmp_path / "none")
    (tmp_path / "latin").write_bytes(b"a \xff\n")
    with pytest.raises(TrainingDataError, match=r"cannot be read: .*decode"):
        read_tree(tmp_path / "latin")
    (tmp_path / "cut.xz").write_bytes(lzma.compress(b"a b\n" * 1000)[:50])
    with pytest.raises(TrainingDataError, match="cannot be read"):
        read_tree(tmp_path / "cut.xz")
