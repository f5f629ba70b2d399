from __future__ import annotations

from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

from hummingbit.corpus.document import Document
from hummingbit.evaluation.fusion import WEIGHTS, judged_curve, likely_best, validated, why_no_fit
from hummingbit.index.rankings import DEFAULT_WEIGHT
from tests.support.collections import text_collection
from tests.support.encoders import random_texts


def test_the_weight_is_in_the_middle_of_those_that_may_be_best() -> None:
    rng = np.random.default_rng(0)
    noise = rng.uniform(size=(len(WEIGHTS), 400))
    assert WEIGHTS[0] < likely_best(noise) < WEIGHTS[-1]
    clear = noise / 100
    clear[WEIGHTS.index(2.0)] += 0.1
    assert likely_best(clear) == pytest.approx(2)
    assert likely_best(np.ones((len(WEIGHTS), 3))) == pytest.approx(DEFAULT_WEIGHT, rel=0.15)


def test_queries_that_tell_nothing_of_the_weight_are_known() -> None:
    rng = np.random.default_rng(0)
    assert "find nothing" in str(why_no_fit(np.zeros((len(WEIGHTS), 5))))
    found = np.tile(rng.uniform(size=400), (len(WEIGHTS), 1))
    assert "apart" in str(why_no_fit(found))
    found[WEIGHTS.index(2.0)] += 0.05
    assert why_no_fit(found) is None


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
