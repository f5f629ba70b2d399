from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hummingbit.encoder.codes import (
    code_from_hex,
    code_to_hex,
    codes_from_hex,
    codes_of_vectors,
    distinct_codes,
    hamming_distance,
    pack_bits,
    unpack_codes,
)
from hummingbit.encoder.limits import (
    CodeError,
    check_n_bits,
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


@pytest.mark.parametrize("n_bits", [-8, 0, 4, 12, 33, 4104, 10**9])
def test_lengths_that_codes_cannot_have(n_bits: int) -> None:
    with pytest.raises(ValueError, match=f"n_bits is {n_bits}; it must be a multiple of 8"):
        check_n_bits(n_bits)


@pytest.mark.parametrize("n_bits", [8, 16, 32, 128, 1024, 3072, 4096])
def test_lengths_that_codes_can_have(n_bits: int) -> None:
    assert check_n_bits(n_bits) == n_bits


@given(bit_rows().filter(len), st.integers(0, 2**32))
def test_packed_vectors_hold_the_codes_of_their_signs(bits: np.ndarray, seed: int) -> None:
    magnitudes = np.random.default_rng(seed).uniform(0.1, 3, size=bits.shape)
    vectors = np.where(bits, magnitudes, -magnitudes)
    # The definitions of sentence_transformers.quantization.quantize_embeddings.
    ubinary = np.packbits(vectors > 0).reshape(len(vectors), -1)
    binary = (ubinary - 128).astype(np.int8)
    expected = pack_bits(bits)
    assert np.array_equal(codes_of_vectors(vectors, "sign"), expected)
    assert np.array_equal(codes_of_vectors(ubinary, "ubinary"), expected)
    assert np.array_equal(codes_of_vectors(binary, "binary"), expected)
    assert np.array_equal(codes_of_vectors(binary.tolist(), "binary"), expected)


def test_zero_is_not_positive() -> None:
    assert codes_of_vectors([[0.0] * 7 + [1e-30]], "sign").tolist() == [[1]]


@pytest.mark.parametrize(
    ("vectors", "packing", "reason"),
    [
        (
            [[1, 256]],
            "ubinary",
            "holds 256 at position 1; ubinary must be whole numbers from 0 to 255",
        ),
        ([[-1]], "ubinary", "holds -1 at position 0"),
        ([[1.5]], "ubinary", "holds 1.5 at position 0"),
        (
            [[128]],
            "binary",
            "holds 128 at position 0; binary must be whole numbers from -128 to 127",
        ),
        ([[float("nan")] * 8], "sign", "NaN"),
        ([["a"]], "sign", "is not a list of numbers"),
        ([[0.5] * 9], "sign", "n_bits is 9"),
        ([[0] * 513], "ubinary", "n_bits is 4104"),
    ],
)
def test_vectors_that_hold_no_codes(vectors: list[list[object]], packing: Any, reason: str) -> None:
    with pytest.raises(CodeError, match=reason):
        codes_of_vectors(vectors, packing)


@given(bit_rows())
def test_several_codes_are_read_as_each_is(bits: np.ndarray) -> None:
    codes = pack_bits(bits)
    texts = [code_to_hex(code) for code in codes]
    read = codes_from_hex([text.upper() for text in texts], bits.shape[1])
    assert np.array_equal(read, codes)
    read[:] = 0  # what is read may be written to


@pytest.mark.parametrize("wrong", ["abc", "abcd12", "xyzw", "ab d", "", "ab\u0663d", "0x1f"])
def test_of_several_codes_the_one_that_is_wrong_is_named(wrong: str) -> None:
    with pytest.raises(CodeError, match=f"^code {re.escape(repr(wrong))} is not 4 hexadecimal"):
        codes_from_hex(["abcd", wrong, "12"], 16)


@given(
    code_size=st.integers(0, 20),
    seed=st.integers(0, 2**32 - 1),
    n_codes=st.integers(0, 40),
    n_values=st.integers(1, 3),
)
def test_distinct_codes_are_in_order_and_every_code_is_one_of_them(
    code_size: int, seed: int, n_codes: int, n_values: int
) -> None:
    random = np.random.default_rng(seed)
    codes = random.integers(0, n_values, (n_codes, code_size), dtype=np.uint8)
    distinct, code_of = distinct_codes(codes)
    assert [*map(bytes, distinct)] == sorted({*map(bytes, codes)})
    assert distinct.shape[1] == code_size
    assert np.array_equal(distinct[code_of], codes)
