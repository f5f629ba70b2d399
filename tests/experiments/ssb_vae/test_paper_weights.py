from __future__ import annotations

import pytest

from experiments.ssb_vae.paper_weights import DATASETS, in_the_paper
from experiments.ssb_vae.variants import METHODS, VariantRecipe


@pytest.mark.parametrize(
    ("dataset", "method", "label_fraction", "n_bits", "expected"),
    [
        # test_models_snippets.py -M 3 -p 0.1 -a 0.0001 -b 0.015625 -g 10000 -l 32
        ("snippets", "ssb-vae", 0.1, 32, (0.015625, 1.0, 3.125e-4)),
        # … -M 1 -p 0.1 -a 10.0 -b 0.125 -g 0.0
        ("snippets", "vdsh-s", 0.1, 32, (0.125, 10.0, None)),
        # … -M 2 -p 0.6 -a 0.001 -b 0.015625 -g 0.001 -l 16
        ("snippets", "psh-gs", 0.6, 16, (0.015625, 1e-6, 6.25e-3)),
        # test_models_20news.py -M 3 -p 0.5 -a 100000 -b 0.015625 -g 100000 -l 32
        ("20news", "ssb-vae", 0.5, 32, (0.015625, 1e10, 3.125e5)),
        # test_models_TMC.py -M 2 -p 0.2 -a 0.00001 -b 0.000244 -g 1000000 -l 16
        ("tmc", "psh-gs", 0.2, 16, (0.000244, 10.0, 6.25e-5)),
        # test_models_cifar.py -M 3 -p 1.0 -a 1000 -b 0.003906 -g 1000 -l 16
        ("cifar10", "ssb-vae", 1.0, 16, (0.003906, 1e6, 6250.0)),
    ],
)
def test_weights_are_those_of_the_authors_scripts(
    dataset: str,
    method: str,
    label_fraction: float,
    n_bits: int,
    expected: tuple[float, float, float | None],
) -> None:
    recipe = VariantRecipe(method=method, label_fraction=label_fraction, n_bits=n_bits)
    found = in_the_paper(recipe, dataset)
    assert found.kl_weight == expected[0]
    assert found.pointwise_weight == pytest.approx(expected[1])
    if expected[2] is not None:
        assert found.pairwise_weight == pytest.approx(expected[2])


@pytest.mark.parametrize("dataset", DATASETS)
@pytest.mark.parametrize("method", METHODS)
def test_every_share_of_labels_makes_a_recipe(dataset: str, method: str) -> None:
    for label_fraction in (0.001, 0.04, 0.1, 0.149, 0.5, 0.96, 1.0):
        recipe = VariantRecipe(method=method, label_fraction=label_fraction)
        assert in_the_paper(recipe, dataset).batch_size == 100


def test_the_nearest_tenth_decides() -> None:
    weights = [in_the_paper(VariantRecipe(label_fraction=x)).pairwise_weight for x in (0.1, 0.14)]
    assert weights[0] == weights[1]


@pytest.mark.parametrize(
    ("dataset", "features"), [("snippets", "log-tf"), ("20news", "tf-idf"), ("tmc", "tf-idf")]
)
def test_terms_are_weighted_as_in_the_authors_scripts(dataset: str, features: str) -> None:
    recipe = in_the_paper(VariantRecipe(), dataset)
    assert (recipe.features, recipe.idf_target) == (features, features == "tf-idf")
