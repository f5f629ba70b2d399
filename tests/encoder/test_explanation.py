from __future__ import annotations

import numpy as np
import pytest

from hummingbit.encoder.codes import unpack_codes
from hummingbit.encoder.encoder import explain_text
from hummingbit.encoder.text_features import TextFeatures
from tests.support.encoders import random_texts, text_encoder, vector_encoder


@pytest.mark.parametrize("text", random_texts(6, seed=3))
def test_a_term_does_what_leaving_it_out_undoes(text: str) -> None:
    encoder = text_encoder(32)
    features = encoder.features
    assert isinstance(features, TextFeatures)
    words = text.split()
    found = explain_text(encoder, text, limit=100)
    assert sorted(item.term for item in found) == sorted(set(words))
    assert [item.influence for item in found] == sorted(
        (item.influence for item in found), reverse=True
    )
    for item in found:
        rest = " ".join(word for word in words if word != item.term)
        margins = encoder.logits([text, rest]).astype(np.float64) - encoder.thresholds
        whole, without = 1 / (1 + np.exp(-margins))
        assert item.influence == pytest.approx(np.abs(whole - without).sum(), abs=1e-5)
        whole_bits, rest_bits = unpack_codes(encoder.encode([text, rest]))
        assert item.flipped_bits == np.flatnonzero(whole_bits != rest_bits).tolist()
        column = list(features.vocabulary).index(item.term)
        assert item.weight == pytest.approx(features.transform([text]).toarray()[0, column])
    assert explain_text(encoder, text, limit=1) == found[:1]


def test_a_text_without_known_terms_has_nothing_to_explain() -> None:
    assert explain_text(text_encoder(32), "unheard of") == []


def test_words_that_a_search_corrects_are_explained_as_it_takes_them() -> None:
    encoder = text_encoder(32)
    corrected = explain_text(encoder, "chese matrx matrix")
    assert corrected == explain_text(encoder, "cheese matrix matrix")
    assert {item.term for item in corrected} == {"cheese", "matrix"}


def test_vectors_have_no_terms() -> None:
    with pytest.raises(TypeError, match="takes vectors"):
        explain_text(vector_encoder(), "words")
