from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hummingbit.index.engines.distinct import as_words, distinct_codes, posting_lists


@given(
    code_size=st.integers(1, 20),
    seed=st.integers(0, 2**32 - 1),
    n_codes=st.integers(0, 40),
    n_values=st.integers(1, 3),
)
def test_every_row_is_in_the_posting_list_of_its_code(
    code_size: int, seed: int, n_codes: int, n_values: int
) -> None:
    random = np.random.default_rng(seed)
    codes = random.integers(0, n_values, (n_codes, code_size), dtype=np.uint8)
    distinct, postings = distinct_codes(codes)
    assert distinct.shape == (len({row.tobytes() for row in codes}), code_size)
    for number, code in enumerate(distinct):
        listed = postings.positions[postings.offsets[number] : postings.offsets[number + 1]]
        expected = [
            position for position, row in enumerate(codes) if row.tobytes() == code.tobytes()
        ]
        assert listed.tolist() == expected
        assert (postings.code_of[listed] == number).all()


@pytest.mark.parametrize(("code_size", "words"), [(1, 1), (4, 1), (5, 1), (8, 1), (9, 2), (16, 2)])
def test_words_are_equal_where_codes_are(code_size: int, words: int) -> None:
    codes = np.random.default_rng(0).integers(0, 2, (200, code_size), dtype=np.uint8)
    found = as_words(codes)
    assert found.shape == (200, words)
    same = (codes[:, None] == codes[None]).all(axis=2)
    assert np.array_equal((found[:, None] == found[None]).all(axis=2), same)


def test_a_code_without_rows_has_an_empty_posting_list() -> None:
    code_of: npt.NDArray[np.int32] = np.array([3, 1, 3], dtype=np.int32)
    postings = posting_lists(code_of, 5)
    assert postings.offsets.tolist() == [0, 0, 1, 1, 3, 3]
    assert postings.positions.tolist() == [1, 0, 2]
