from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from corpus.document import Document
from training.data import UNLABELLED, TrainingDataError, gather, hold_out, mask_labels

label_arrays = st.lists(st.integers(-1, 3), min_size=1, max_size=200).map(np.array)


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
    assert data.labels.tolist() == [1, UNLABELLED, 0]
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
        ([Document(id="a", text="x", labels=("l", "m"))], "'a' has 2 labels"),
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


@given(label_arrays, st.floats(0, 1), st.integers(0, 2**32))
def test_held_out_rows_are_labelled_and_the_rest_is_trained_on(
    labels: np.ndarray, share: float, seed: int
) -> None:
    training, held = hold_out(labels, share, np.random.default_rng(seed))
    assert sorted([*training, *held]) == list(range(len(labels)))
    assert (labels[held] != UNLABELLED).all()
    assert len(held) == round(share * (labels != UNLABELLED).sum())


@given(label_arrays, st.floats(0, 1), st.integers(0, 2**32))
def test_masking_keeps_a_share_of_the_labels_as_they_are(
    labels: np.ndarray, supervision: float, seed: int
) -> None:
    masked = mask_labels(labels, supervision, np.random.default_rng(seed))
    kept = masked != UNLABELLED
    assert np.array_equal(masked[kept], labels[kept])
    assert kept.sum() == round(supervision * (labels != UNLABELLED).sum())
