from __future__ import annotations

import numpy as np
import pytest

from hummingbit.training.class_codes import far_codewords
from hummingbit.training.data import TrainingDataError


@pytest.mark.parametrize(("classes", "n_bits", "least"), [(2, 8, 8), (8, 16, 7), (20, 16, 5)])
def test_codewords_are_far_apart(classes: int, n_bits: int, least: int) -> None:
    words = far_codewords(classes, n_bits, 0)
    assert words.shape == (classes, n_bits)
    assert set(np.unique(words)) <= {-1, 1}
    distances = (n_bits - words @ words.T) / 2
    assert distances[np.triu_indices(classes, 1)].min() >= least


def test_codewords_are_distinct_where_there_are_as_many_as_there_can_be() -> None:
    assert len(np.unique(far_codewords(16, 4, 1), axis=0)) == 16


def test_the_same_seed_gives_the_same_codewords() -> None:
    first, other = far_codewords(5, 8, 1), far_codewords(5, 8, 2)
    far_codewords.cache_clear()
    assert np.array_equal(far_codewords(5, 8, 1), first)
    assert not np.array_equal(first, other)


def test_too_many_classes_are_refused() -> None:
    with pytest.raises(TrainingDataError, match="fewer codewords of 4 bits than the 17 classes"):
        far_codewords(17, 4, 0)
