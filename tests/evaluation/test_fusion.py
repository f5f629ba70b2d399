from __future__ import annotations

from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

from hummingbit.corpus.document import Document
from hummingbit.encoder.codes import pack_bits
from hummingbit.encoder.encoder import Encoder
from hummingbit.evaluation.fusion import (
    MOST,
    OF_MODELS,
    WEIGHTS,
    KnownItems,
    fitted_weight,
    judged_curve,
    known_items,
    likely_best,
    made_curve,
    usual_weight,
    validated,
    why_no_fit,
)
from hummingbit.index.rankings import DEFAULT_WEIGHT
from tests.support.collections import text_collection
from tests.support.encoders import random_texts, text_encoder


def test_the_weight_is_in_the_middle_of_those_that_may_be_best() -> None:
    rng = np.random.default_rng(0)
    noise = rng.uniform(size=(len(WEIGHTS), 400))
    assert WEIGHTS[0] < likely_best(noise) < WEIGHTS[-1]
    clear = noise / 100
    clear[WEIGHTS.index(2.0)] += 0.1
    assert likely_best(clear) == pytest.approx(2)
    assert fitted_weight(clear) == MOST
    assert fitted_weight(clear, of_model=True) == pytest.approx((2 * OF_MODELS) ** 0.5, rel=0.05)
    clear[WEIGHTS.index(0.25)] += 0.2
    assert fitted_weight(clear) == pytest.approx((0.25 * DEFAULT_WEIGHT) ** 0.5, rel=0.05)
    assert likely_best(np.ones((len(WEIGHTS), 3))) == pytest.approx(DEFAULT_WEIGHT, rel=0.15)


def test_queries_that_tell_nothing_of_the_weight_are_known() -> None:
    rng = np.random.default_rng(0)
    by_chance = np.tile(1 / rng.integers(1, 2001, size=400), (len(WEIGHTS), 1))
    assert "next to nothing" in str(why_no_fit(by_chance, 2000))
    assert "next to nothing" in str(why_no_fit(np.zeros((len(WEIGHTS), 5))))
    found = np.tile(rng.uniform(size=400), (len(WEIGHTS), 1))
    assert "apart" in str(why_no_fit(found, 2000))
    found[WEIGHTS.index(2.0)] += 0.05
    assert why_no_fit(found, 2000) is None
    assert why_no_fit(found) is None


def test_codes_count_less_among_more_documents() -> None:
    weights = [usual_weight(number) for number in (0, 100, 1000, 3000, 11_000, 10**6)]
    assert weights == sorted(weights, reverse=True)
    assert weights[:2] == [DEFAULT_WEIGHT] * 2
    assert usual_weight(1033) == pytest.approx(7 / np.log(1033) ** 1.5, abs=0.005)
    assert 0.1 < weights[-1] < 0.2


@pytest.mark.parametrize("codes_know", [True, False])
def test_codes_that_find_documents_get_more_weight_than_those_that_do_not(
    *, codes_know: bool
) -> None:
    rng = np.random.default_rng(1)
    texts = random_texts(200, 2)
    bits = rng.random((200, 64)) < 0.5
    sought = list(range(50))
    of_queries = bits[:50] if codes_know else rng.random((50, 64)) < 0.5
    weights = np.where(of_queries, 1, -1).astype(np.float32)
    asked = [text.split()[0] for text in texts[:50]]
    curve = made_curve(KnownItems(texts, pack_bits(bits), asked, weights, sought))
    assert curve.shape == (len(WEIGHTS), 50)
    assert (fitted_weight(curve) > DEFAULT_WEIGHT) is codes_know


def test_a_query_is_left_out_of_its_document() -> None:
    encoder = text_encoder()
    pairs = zip(random_texts(30, 1), random_texts(30, 2), strict=True)
    texts = [f"{item}. {other}." for item, other in pairs]
    items = known_items(encoder, texts, seed=0)
    assert items is not None
    assert len(items.sought) == len(items.queries) > 20
    for position, query in zip(items.sought, items.queries, strict=True):
        assert items.documents[position] not in texts
        assert query
    changed = encoder.encode(list(items.documents))
    np.testing.assert_array_equal(items.codes, changed)


class _Model(Encoder):
    """An encoder that says that a language model reads its texts."""

    is_slow = True


def test_queries_for_a_language_model_keep_fewer_words_of_their_documents() -> None:
    encoder = text_encoder()
    model = _Model(encoder.features, encoder.layers, encoder.thresholds, {})
    words = random_texts(1000, 3)
    texts = [f"{' '.join(words[start : start + 10])}. " * 2 for start in range(0, 1000, 10)]
    by_words, by_model = (known_items(reader, texts, seed=0) for reader in (encoder, model))
    assert by_words is not None
    assert by_model is not None
    of_words, of_model = (
        sum(len(text.split()) for text in made.queries) for made in (by_words, by_model)
    )
    assert of_model < 0.7 * of_words


def test_texts_without_sentences_make_no_queries() -> None:
    assert known_items(text_encoder(), ["red", "blue green"], seed=0) is None


def test_judged_queries_choose_the_weight_and_are_validated_on_others(tmp_path: Path) -> None:
    texts = random_texts(60, 4)
    documents = [Document(id=f"d{number}", text=text) for number, text in enumerate(texts)]
    with closing(text_collection(tmp_path)) as collection:
        collection.upsert(documents)
        queries = [Document(id=f"q{number}", text=texts[number]) for number in range(6)]
        qrels = {f"q{number}": {f"d{number}": 2, "absent": 1} for number in range(6)}
        curve = judged_curve(collection, queries, qrels)
    # Words rank the document first; as in every evaluation, what is not stored cannot be missed.
    assert curve[:5] == pytest.approx(1)
    by_hand = np.tile(np.linspace(0.1, 0.9, len(WEIGHTS))[:, None], 8)
    assert validated(by_hand) == pytest.approx(0.9)
