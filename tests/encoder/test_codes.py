from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from encoder.codes import (
    check_n_bits,
    code_from_hex,
    code_to_hex,
    hamming_distance,
    pack_bits,
    unpack_codes,
)

widths = st.integers(1, 16).map(lambda size: size * 8)


@st.composite
def bit_rows(draw: st.DrawFn) -> np.ndarray:
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    return rng.integers(0, 2, size=(draw(st.integers(0, 5)), draw(widths)), dtype=np.uint8)


def test_the_first_bit_is_the_most_significant_of_the_first_byte() -> None:
    bits = np.zeros((1, 16), dtype=np.uint8)
    bits[0, [0, 15]] = 1
    assert pack_bits(bits).tolist() == [[0b1000_0000, 0b0000_0001]]


@given(bit_rows())
def test_unpacking_gives_the_bits_back(bits: np.ndarray) -> None:
    assert np.array_equal(unpack_codes(pack_bits(bits)), bits)


@given(bit_rows())
def test_hamming_distance_counts_differing_bits(bits: np.ndarray) -> None:
    expected = [[sum(a != b for a, b in zip(x, y, strict=True)) for y in bits] for x in bits]
    codes = pack_bits(bits)
    assert hamming_distance(codes[:, None], codes[None]).tolist() == expected


def test_hamming_distance_counts_beyond_one_byte() -> None:
    zeros, ones = np.zeros((1, 128), dtype=np.uint8), np.full((1, 128), 255, dtype=np.uint8)
    assert hamming_distance(zeros, ones).tolist() == [1024]


@given(bit_rows())
def test_hexadecimal_round_trip(bits: np.ndarray) -> None:
    for code in pack_bits(bits):
        assert np.array_equal(code_from_hex(code_to_hex(code), len(code) * 8), code)


@pytest.mark.parametrize(
    "text",
    ["", "abc", "abcde", "abcdefab", "zz00", "ab c", " abcd", "ab\ncd", "０abc", "0xab", "\ud800"],
)
def test_text_that_is_not_a_16_bit_code_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"code .* is not 4 hexadecimal digits \(16 bits\)"):
        code_from_hex(text, 16)


@pytest.mark.parametrize("n_bits", [-8, 0, 4, 12, 33, 1032, 10**9])
def test_lengths_that_codes_cannot_have(n_bits: int) -> None:
    with pytest.raises(ValueError, match=f"n_bits is {n_bits}; it must be a multiple of 8"):
        check_n_bits(n_bits)


@pytest.mark.parametrize("n_bits", [8, 16, 32, 128, 1024])
def test_lengths_that_codes_can_have(n_bits: int) -> None:
    assert check_n_bits(n_bits) == n_bits
