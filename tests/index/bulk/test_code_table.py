from __future__ import annotations

from collections import Counter, defaultdict

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hummingbit.index.code_statistics import profile_of
from hummingbit.index.maps import DistinctCodes, table_of

DOCUMENTS = st.lists(
    st.tuples(
        st.binary(min_size=1, max_size=1),
        st.lists(st.sampled_from("abc"), max_size=3),
    ),
    max_size=30,
)


def packed(documents: list[tuple[bytes, list[str]]]) -> tuple[np.ndarray, list[list[str]]]:
    raw = b"".join(code for code, _ in documents)
    return np.frombuffer(raw, np.uint8).reshape(-1, 1), [labels for _, labels in documents]


@given(DOCUMENTS)
def test_documents_are_grouped_by_their_codes(documents: list[tuple[bytes, list[str]]]) -> None:
    codes, label_lists = packed(documents)
    table = table_of(DistinctCodes.of(codes), label_lists)
    of_code = defaultdict(list)
    for position, (code, labels) in enumerate(documents):
        of_code[code].append((position, set(labels)))
    assert [code.tobytes() for code in table.codes] == sorted(of_code)
    known = Counter(label for _, labels in documents for label in set(labels))
    assert dict(zip(table.labels, table.label_documents.tolist(), strict=True)) == known
    assert list(table.labels) == sorted(known, key=lambda name: (-known[name], name))
    for position, code in enumerate(sorted(of_code)):
        members = of_code[code]
        assert table.documents[position] == len(members)
        ages = [row / max(len(documents) - 1, 1) for row, _ in members]
        assert table.age[position] == pytest.approx(np.mean(ages))
        counts = Counter(label for _, labels in members for label in labels)
        labelled = sum(bool(labels) for _, labels in members)
        assert table.labelled[position] == labelled
        if not labelled:
            assert table.label[position] == -1
            assert np.isnan(table.purity[position])
            continue
        most = max(counts.values())
        assert counts[table.labels[table.label[position]]] == most
        assert table.purity[position] == pytest.approx(most / labelled)


@given(DOCUMENTS.filter(lambda documents: len(documents) > 1))
def test_a_profile_says_what_numpy_says(documents: list[tuple[bytes, list[str]]]) -> None:
    codes, labels = packed(documents)
    profile = profile_of(table_of(DistinctCodes.of(codes), labels))
    bits = np.unpackbits(codes, axis=1).astype(float)
    np.testing.assert_allclose(profile.ones, bits.mean(axis=0))
    with np.errstate(all="ignore"):
        expected = np.nan_to_num(np.corrcoef(bits, rowvar=False))
    expected[bits.std(axis=0) == 0] = 0
    np.testing.assert_allclose(profile.correlation, expected, atol=6e-4)
    counts = np.array(sorted(Counter(code for code, _ in documents).values()))
    shares = counts / counts.sum()
    assert profile.entropy == pytest.approx(float(-(shares * np.log2(shares)).sum()))
    assert profile.alone == (counts == 1).sum()
    assert [item.documents for item in profile.largest] == sorted(counts, reverse=True)[:12]
    labelled = sum(bool(label) for label in labels)
    assert (profile.purity is None) == (labelled == 0)
    if profile.purity is not None:
        assert sum(profile.purity.histogram) == profile.purity.in_shared_codes


def test_without_documents_there_is_nothing() -> None:
    profile = profile_of(table_of(DistinctCodes.of(np.empty((0, 2), np.uint8)), []))
    assert (profile.documents, profile.ones, profile.largest, profile.purity) == (0, [], [], None)


def test_of_long_codes_some_bits_are_correlated() -> None:
    rng = np.random.default_rng(0)
    codes = rng.integers(0, 256, (50, 32), dtype=np.uint8)
    profile = profile_of(table_of(DistinctCodes.of(codes), [[]] * 50))
    assert profile.step == 2
    bits = np.unpackbits(codes, axis=1).astype(float)[:, ::2]
    np.testing.assert_allclose(profile.correlation, np.corrcoef(bits, rowvar=False), atol=6e-4)
