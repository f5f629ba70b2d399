"""Settings and options may be numbers of numpy, as grids and computed values are."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.model_selection import GridSearchCV

from hummingbit import Collection, SemanticHasher, load_encoder
from hummingbit.encoder.recipes import ClozeRecipe, RecipeError

INT: Any = np.int64
"""Annotations do not allow numbers of numpy."""
FLOAT: Any = np.float32
TEXTS = ["a cat and a dog", "dogs and cats", "stocks and bonds", "a bond or a stock"] * 6
LABELS = ["pets", "pets", "money", "money"] * 6


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_a_grid_of_bits_is_an_array() -> None:
    grid = {"n_bits": np.array([8, 16]), "method": np.array(["lsh"])}
    search = GridSearchCV(SemanticHasher(), grid, cv=2, error_score="raise")
    search.fit(TEXTS, LABELS)
    assert np.isfinite(search.cv_results_["mean_test_score"]).all()


def test_parameters_of_an_estimator(tmp_path: Path) -> None:
    vectors = np.random.default_rng(0).normal(size=(60, 16))
    hasher = SemanticHasher(n_bits=INT(8), method="itq", validation_fraction=FLOAT(0.25)).fit(
        vectors, [1, 2] * 30
    )
    assert hasher.validation_
    # What is written can be read.
    assert load_encoder(hasher.save(tmp_path / "encoder")).n_bits == 8


def test_settings_of_a_recipe_become_pythons() -> None:
    given: Any = {"n_bits": INT(16), "summary_weight": FLOAT(0.5), "epochs": np.uint8(3)}
    recipe = ClozeRecipe(method=np.str_("ict"), **given)
    plain = ClozeRecipe(method="ict", n_bits=16, summary_weight=0.5, epochs=3)
    assert recipe == plain
    assert [*map(type, vars(recipe).values())] == [*map(type, vars(plain).values())]
    with pytest.raises(RecipeError, match=r"n_bits is 8.5; it must be a whole number"):
        ClozeRecipe(method="ict", n_bits=np.float64(8.5))  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def notes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Collection]:
    hasher = SemanticHasher(n_bits=16, method="lsh").fit(TEXTS)
    with Collection.create(tmp_path_factory.mktemp("data"), "notes", encoder=hasher) as notes:
        notes.add(TEXTS, payloads=[{"n": n} for n in range(len(TEXTS))])
        yield notes


@pytest.mark.parametrize(
    ("given", "plain"),
    [
        ({"limit": np.int64(3)}, {"limit": 3}),
        ({"offset": np.uint8(2), "diversity": np.float64(0.5)}, {"offset": 2, "diversity": 0.5}),
        ({"hybrid": {"codes": np.float64(0.5)}}, {"hybrid": {"codes": 0.5}}),
        ({"collapse_duplicates": np.int64(1)}, {"collapse_duplicates": 1}),
        ({"highlight": np.bool_(True)}, {"highlight": True}),
        (
            {"facets": [{"field": "n", "interval": np.float32(5), "limit": np.int64(2)}]},
            {"facets": [{"field": "n", "interval": 5, "limit": 2}]},
        ),
        ({"filter": {"field": "n", "gte": np.int64(9)}}, {"filter": {"field": "n", "gte": 9}}),
    ],
)
def test_options_of_a_search(
    notes: Collection, given: dict[str, Any], plain: dict[str, Any]
) -> None:
    found, expected = notes.search("cats", **given), notes.search("cats", **plain)
    assert found.ids == expected.ids
    assert found.facets == expected.facets


def test_arguments_of_other_methods(notes: Collection) -> None:
    assert notes.facets([{"field": "n", "limit": np.int64(2)}]) == notes.facets(
        [{"field": "n", "limit": 2}]
    )
    assert notes.complete("ca", limit=INT(1)) == ["cat"]
    report = notes.evaluate(["cats"], ids=["q"], qrels={"q": {"1": INT(1)}})
    assert report.queries == 1
    expires = notes.add(["gone"], ids=["x"], ttl_seconds=FLOAT(1000))
    assert expires == 1
    later: Any = np.datetime64("2999-01-01T00:00:00")
    assert notes.update_payload(ids=["x"], expires_at=later) == 1
    assert notes.update_payload(ids=["x"], ttl_seconds=INT(1000)) == 1
    assert notes.delete(["x"]) == 1


def test_settings_of_a_collection(tmp_path: Path) -> None:
    with Collection.create(tmp_path, "codes", n_bits=INT(16)) as codes:
        codes.add([{"id": "a", "code": "00ff"}])
    with Collection.open(tmp_path, "codes") as codes:
        assert (codes.n_bits, len(codes)) == (16, 1)
    with Collection.create(
        tmp_path, "signs", encoder="sign", dimensions=INT(8), keep_vectors="none"
    ) as signs:
        signs.add(np.ones((1, 8)))
        assert signs.n_bits == 8
    passages = {"words": INT(20), "overlap": INT(2)}
    with Collection.create(tmp_path, "texts", encoder=None, passages=passages) as texts:
        assert texts.add(["some words"]) == 1
