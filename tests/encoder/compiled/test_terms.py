"""The known terms of texts, by the compiled code and by Python."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hummingbit.encoder import text_features
from hummingbit.encoder.analyzers import BOUNDARY, PIECE_LENGTH, VISIBLE
from hummingbit.encoder.text_features import TextFeatures

pytestmark = pytest.mark.skipif(text_features.native is None, reason="it was not built")

WORDS = ["read", "data", "cs", "c", "a", "20", "x9", "caf\u00e9", "big", "_"]
VOCABULARY = [*WORDS, "big data", "data read", "a b", "read data big", "##v", "##s", "##ad", "##0"]
TEXTS = st.lists(
    st.one_of(
        st.lists(
            st.sampled_from(
                [*WORDS, "Dataframe", "readv", "read_csv", "200x9", "b", BOUNDARY, "."]
            ),
            max_size=9,
        ).map(" ".join),
        st.text(st.sampled_from("aAcdrsv029_ .-\n\u00e9"), max_size=20),
        st.sampled_from(["read " * PIECE_LENGTH, "csv" * 40, ""]),
    ),
    max_size=7,
)


@settings(max_examples=200, deadline=None)
@given(texts=TEXTS, max_words=st.integers(1, 3), pieces=st.booleans())
def test_the_terms_of_documents_are_those_of_python(
    *, texts: list[str], max_words: int, pieces: bool
) -> None:
    features = TextFeatures(VOCABULARY, max_words=max_words, analyzer=VISIBLE, pieces=pieces)
    found = features.count_terms(texts)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(text_features, "native", None)
        apart = TextFeatures(VOCABULARY, max_words=max_words, analyzer=VISIBLE, pieces=pieces)
        expected = apart.count_terms(texts)
    assert found.shape == expected.shape == (len(texts), len(VOCABULARY))
    assert found.toarray().tolist() == expected.toarray().tolist()
    for text, row in zip(texts, found.toarray(), strict=True):
        if not pieces:
            counts = Counter(features.terms(text))
            assert row.tolist() == [counts[term] for term in VOCABULARY]


def test_a_term_that_occurs_twice_in_a_vocabulary_is_the_last() -> None:
    features = TextFeatures(["read", "data", "read"])
    assert features.count_terms(["read data read"]).toarray().tolist() == [[0, 1, 2]]


def test_arguments_that_do_not_fit_are_refused() -> None:
    native = text_features.native
    starts, cells = np.array([0, 5], dtype=np.int32), np.zeros(4, dtype=np.uint64)
    native.fill_cells(b"read\n", starts, cells)
    terms = b"read\n", starts, cells
    columns, lengths = np.empty(20, dtype=np.int32), np.empty(1, dtype=np.int64)
    assert native.known_terms(*terms, 1, False, b"read \x01 ", 1, columns, lengths) == 1
    for arguments, message in (
        ((*terms, 1, False, b"read \x01 ", 1, columns[:3], lengths), "no room"),
        ((*terms, 0, False, b"read \x01 ", 1, columns, lengths), "no room"),
        ((*terms, 1, False, b"read ", 1, columns, lengths), "number of texts"),
        ((*terms, 1, False, b"\x01 \x01 ", 1, columns, lengths), "number of texts"),
        ((b"rea", *terms[1:], 1, False, b"\x01 ", 1, columns, lengths), "do not fit"),
        ((*terms[:2], cells[:3], 1, False, b"\x01 ", 1, columns, lengths), "do not fit"),
        ((*terms[:2], cells[:1], 1, False, b"\x01 ", 1, columns, lengths), "do not fit"),
    ):
        with pytest.raises(ValueError, match=message):
            native.known_terms(*arguments)
