from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hummingbit.corpus.document import Document
from hummingbit.training.data import TrainingDataError, gather, hold_out, mask_labels

tag_tables = st.builds(
    lambda rows, seed: np.random.default_rng(seed).random((rows, 3)) < 0.3,
    st.integers(1, 200),
    st.integers(0, 2**32),
)


def vector(*numbers: float) -> np.ndarray:
    return np.array(numbers, dtype=np.float32)


def test_documents_become_inputs_and_class_numbers() -> None:
    data = gather(
        [
            Document(id="1", text="x", labels=("zebra",)),
            Document(id="2", text="y"),
            Document(id="3", text="z", labels=("ant",)),
        ]
    )
    assert data.classes == ("ant", "zebra")
    assert data.tags.tolist() == [[False, True], [False, False], [True, False]]
    assert not data.is_multi_label
    assert data.take(np.array([2, 0])) == ["z", "x"]
    found = data.labelled(np.array([0, 1]))
    assert (found.inputs, found.labels) == (["x", "y"], [("zebra",), ()])
    assert data.rows_of(["3", "1", "absent"]).tolist() == [0, 2]
    assert data.is_text


def test_vectors_become_one_array() -> None:
    data = gather([Document(id="1", vector=vector(1, 2)), Document(id="2", vector=vector(3, 4))])
    assert not data.is_text
    assert np.array_equal(data.take(np.array([1])), [[3, 4]])


@pytest.mark.parametrize(
    ("documents", "message"),
    [
        ([], "no documents"),
        ([Document(id="a", code="00")], "'a' is a code"),
        ([Document(id="a", text="x"), Document(id="b", vector=vector(1))], "train on one kind"),
        (
            [Document(id="a", vector=vector(1)), Document(id="b", vector=vector(1, 2))],
            "from 1 to 2",
        ),
    ],
)
def test_documents_that_do_not_make_a_corpus(documents: list[Document], message: str) -> None:
    with pytest.raises(TrainingDataError, match=message):
        gather(documents)


def test_selected_documents_keep_their_classes_or_get_other_tags() -> None:
    data = gather([Document(str(n), text=f"text {n}", labels=(f"c{n % 2}",)) for n in range(4)])
    selected = data.select(np.array([3, 0]))
    assert (selected.ids, selected.inputs) == (("3", "0"), ["text 3", "text 0"])
    assert selected.classes == data.classes
    assert np.array_equal(selected.tags, data.tags[[3, 0]])
    hidden = np.zeros((2, 2), dtype=bool)
    assert np.array_equal(data.select(np.array([3, 0]), hidden).tags, hidden)


def test_documents_can_have_several_classes() -> None:
    data = gather(
        [Document(id="1", text="x", labels=("b", "a")), Document(id="2", text="y", labels=("b",))]
    )
    assert data.is_multi_label
    assert data.tags.tolist() == [[True, True], [False, True]]
    assert data.labelled().labels == [("a", "b"), ("b",)]


@given(tag_tables, st.floats(0, 1), st.integers(0, 2**32))
def test_held_out_rows_are_labelled_and_the_rest_is_trained_on(
    tags: np.ndarray, share: float, seed: int
) -> None:
    training, held = hold_out(tags, share, np.random.default_rng(seed))
    assert sorted([*training, *held]) == list(range(len(tags)))
    assert tags[held].any(axis=1).all()
    assert len(held) == round(share * tags.any(axis=1).sum())


@given(tag_tables, st.floats(0, 1), st.integers(0, 2**32))
def test_masking_keeps_a_share_of_the_labels_as_they_are(
    tags: np.ndarray, label_fraction: float, seed: int
) -> None:
    masked = mask_labels(tags, label_fraction, np.random.default_rng(seed))
    kept = masked.any(axis=1)
    assert np.array_equal(masked[kept], tags[kept])
    assert kept.sum() == round(label_fraction * tags.any(axis=1).sum())
