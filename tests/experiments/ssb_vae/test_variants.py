"""Every term of a method in total, by hand, and what the methods learn from."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from scipy import sparse

from experiments.ssb_vae.paper_weights import in_the_paper
from experiments.ssb_vae.variants import (
    VariantRecipe,
    class_probabilities,
    share_a_tag,
    tag_sharing_probability,
    train_variant,
    variant_recipe,
)
from experiments.ssb_vae.vdsh_s import GaussianAutoencoder, gaussian_kl_loss
from hummingbit.corpus.document import Document
from hummingbit.encoder.recipes import AutoencoderRecipe
from hummingbit.evaluation.evaluate import evaluate_encoder
from hummingbit.training.batches import SparseBatch, TrainingInputs
from hummingbit.training.data import gather
from hummingbit.training.networks import BernoulliAutoencoder, Shape, TextDecoder
from hummingbit.training.semi_supervised import build_model, train
from hummingbit.training.text_features import fit_text_features
from tests.support.autoencoders import (
    N,
    Setting,
    as_array,
    bernoulli_kl,
    cross_entropy,
    gaussian_kl,
    pairs,
)
from tests.support.corpora import topic_documents

RECIPE = VariantRecipe(
    n_bits=16, label_fraction=0.5, epochs=15, batch_size=32, hidden=24, max_terms=100
)


def setting_of(method: str, *, several: bool = False) -> Setting:
    recipe = variant_recipe(method, n_bits=16, hidden=8, label_fraction=0.6)
    recipe = replace(in_the_paper(recipe, "20news"), batch_size=N)
    return Setting(recipe, recipe.design(), several=several)


@pytest.mark.parametrize("several", [False, True])
@pytest.mark.parametrize("unlabelled_differ", [True, False])
def test_psh_gs_in_total(unlabelled_differ: bool, several: bool) -> None:
    setting = setting_of("psh-gs", several=several)
    assert isinstance(setting.recipe, VariantRecipe)
    assert setting.recipe.unlabelled_differ
    setting.loss.recipe = replace(setting.recipe, unlabelled_differ=unlabelled_differ)
    out = setting.output()
    b, logits, scores = map(as_array, (out.b_NB, out.logits_NB, out.class_logits_NC))
    y = setting.tags.astype(np.float64)

    def alike(i: int, j: int) -> float | None:
        if max(i, j) < 7:
            return float(y[i] @ y[j])
        return float(i == j) if unlabelled_differ else None

    # a = 10⁻², g = 10⁴.
    expected = (
        setting.reconstruction(b)
        + 0.015625 * bernoulli_kl(logits)
        + 100 * cross_entropy(y[:7], scores[:7]) / N
        + 0.0625 * pairs(b, alike)
    )
    total = sum(term.item() for term in setting.terms().values())
    assert total == pytest.approx(expected, rel=2e-5)


def test_vdsh_s_in_total() -> None:
    setting = setting_of("vdsh-s")
    assert isinstance(setting.model, GaussianAutoencoder)
    out = setting.output()
    inputs = TrainingInputs(setting.features, setting.texts, idf_target=True)
    x = inputs.batch(np.arange(N), 0.0, torch.Generator())[0]
    h_NH, mean_NB = setting.model.encoder(x)
    log_variance = as_array(setting.model.latent.log_variance(h_NH))
    y = setting.tags.astype(np.float64)
    # a = 10 at 0.6.
    expected = (
        setting.reconstruction(as_array(out.b_NB))
        + 0.0625 * gaussian_kl(as_array(mean_NB), log_variance)
        + 10 * cross_entropy(y[:7], as_array(out.class_logits_NC)[:7]) / N
    )
    total = sum(term.item() for term in setting.terms().values())
    assert total == pytest.approx(expected, rel=2e-5)


def test_b_vae_in_total() -> None:
    setting = setting_of("b-vae")
    out = setting.output()
    kl = bernoulli_kl(as_array(out.logits_NB))
    expected = setting.reconstruction(as_array(out.b_NB)) + 0.015625 * kl
    total = sum(term.item() for term in setting.terms().values())
    assert total == pytest.approx(expected, rel=2e-5)


def test_pairs_teach_the_class_head_in_the_paper_and_not_in_ours() -> None:
    for similarity, learns in (("self-supervised", True), ("probable", False)):
        setting = setting_of("ssb-vae")
        assert isinstance(setting.recipe, VariantRecipe)
        setting.loss.recipe = replace(setting.recipe, pair_similarity=similarity)
        setting.terms()["pairwise_loss"].backward()  # type: ignore[no-untyped-call]
        assert isinstance(setting.model, BernoulliAutoencoder)
        gradient = setting.model.class_head.weight.grad
        assert (gradient is not None and bool(gradient.any())) is learns


@pytest.mark.parametrize("method", ["psh-gs", "vdsh-s"])
def test_the_other_methods_learn_from_labels(method: str, tmp_path: Path) -> None:
    recipe = replace(RECIPE, method=method)
    if method == "psh-gs":
        recipe = replace(recipe, pairwise_weight=1.5e-3, pairwise_warmup=0.5)
    data, queries = gather(topic_documents(400)), gather(topic_documents(100, seed=1))
    encoder = train_variant(data, recipe, tmp_path / "e", progress=False).encoder
    assert encoder.metadata["method"] == method
    found = evaluate_encoder(encoder, data.labelled(), queries.labelled(), ["P@10"])
    assert found.metrics["P@10"] > 0.85


def test_the_method_without_labels_ignores_them(tmp_path: Path) -> None:
    recipe = replace(RECIPE, method="b-vae", epochs=5)
    labelled = topic_documents(200)
    some = train_variant(gather(labelled), recipe, tmp_path / "some", progress=False)
    swapped = [
        replace(d, labels=("food",) if d.labels != ("food",) else ("sea",)) for d in labelled
    ]
    other = train_variant(gather(swapped), recipe, tmp_path / "other", progress=False)
    texts = [d.text or "" for d in labelled]
    assert np.array_equal(some.encoder.encode(texts), other.encoder.encode(texts))


def test_the_decoder_without_labels_begins_at_the_frequencies_of_terms() -> None:
    texts = ["sea wave wave", "sea sail", "wave sea"]
    features = fit_text_features(texts, 3)
    recipe = replace(RECIPE, method="b-vae", idf_target=False)
    design = recipe.design()
    model = build_model(recipe, design, features, 0)
    tags = np.zeros((3, 0), dtype=np.bool_)
    design.loss(model, recipe, features, texts, tags, settings=design.settings, multi_label=False)
    # Shares of a text, and not of the words of all texts, are added up.
    assert isinstance(model.decoder, TextDecoder)
    found = dict(zip(features.vocabulary, model.decoder.bias.softmax(0).tolist(), strict=True))
    # A single text has "sail", so it is no term.
    expected = {"sea": (1 / 3 + 1 + 1 / 2) / 3, "wave": (2 / 3 + 1 / 2) / 3}
    assert found == pytest.approx(expected)


def test_a_corpus_without_labels_trains_without_figures(tmp_path: Path) -> None:
    bare = [replace(d, labels=()) for d in topic_documents(200)]
    recipe = replace(RECIPE, method="b-vae", epochs=5)
    trained = train_variant(gather(bare), recipe, tmp_path / "e", progress=False)
    assert trained.validation == {}
    assert len(np.unique(trained.encoder.encode([d.text or "" for d in bare]), axis=0)) > 3


@pytest.mark.parametrize("paper", [False, True])
def test_ssb_vae_is_that_of_train(paper: bool, tmp_path: Path) -> None:
    data = gather(topic_documents(120))
    sizes = {"n_bits": 16, "hidden": 12, "epochs": 3, "label_fraction": 0.4}
    variant = variant_recipe("ssb-vae", **sizes)
    variant = in_the_paper(variant) if paper else variant
    ours = train(data, AutoencoderRecipe(**sizes, paper=paper), tmp_path / "a", progress=False)  # type: ignore[arg-type]
    theirs = train_variant(data, variant, tmp_path / "b", progress=False)
    for one, other in zip(ours.encoder.layers, theirs.encoder.layers, strict=True):
        np.testing.assert_array_equal(one.weight, other.weight)


def test_documents_of_several_classes_are_learned_by_the_paper_s_settings(tmp_path: Path) -> None:
    def doubled(documents: list[Document], seed: int) -> list[Document]:
        partners = np.random.default_rng(seed).permutation(np.array(documents, dtype=object))
        return [
            replace(a, text=f"{a.text} {b.text}", labels=tuple({*a.labels, *b.labels}))
            for a, b in zip(documents, partners, strict=True)
        ]

    database, queries = doubled(topic_documents(400), 0), doubled(topic_documents(100, seed=1), 1)
    recipe = in_the_paper(RECIPE, "tmc")
    encoder = train_variant(gather(database), recipe, tmp_path / "e", progress=False).encoder
    # Two documents of two of three topics share one more often than not.
    chance = np.mean([bool({*a.labels} & {*b.labels}) for a in database for b in queries])
    asked = gather(queries).labelled()
    found = evaluate_encoder(encoder, gather(database).labelled(), asked, ["P@10"])
    assert found.metrics["P@10"] > (1 + chance) / 2


def test_the_gaussian_divergence_equals_torchs() -> None:
    generator = torch.Generator().manual_seed(0)
    mean, log_variance = (torch.randn(5, 3, generator=generator) for _ in range(2))
    q = torch.distributions.Normal(mean, torch.exp(0.5 * log_variance))
    p = torch.distributions.Normal(torch.zeros(5, 3), torch.ones(5, 3))
    expected = torch.distributions.kl_divergence(q, p).sum(dim=1).mean()
    torch.testing.assert_close(gaussian_kl_loss(mean, log_variance), expected)


def test_the_gaussian_gradient_by_finite_differences() -> None:
    generator = torch.Generator().manual_seed(0)
    draws = [torch.randn(3, 4, dtype=torch.float64, generator=generator) for _ in range(2)]
    assert torch.autograd.gradcheck(gaussian_kl_loss, [draw.requires_grad_() for draw in draws])


def test_rows_that_share_a_tag_are_alike() -> None:
    tags = torch.tensor([[1, 1, 0], [0, 1, 0], [0, 0, 1], [0, 0, 0]], dtype=torch.bool)
    assert share_a_tag(tags).int().tolist() == [
        [1, 1, 0, 0],
        [1, 1, 0, 0],
        [0, 0, 1, 0],
        [0, 0, 0, 1],
    ]


@pytest.mark.parametrize("multi_label", [False, True])
def test_the_probability_of_a_common_class_equals_sampling(multi_label: bool) -> None:
    rng = np.random.default_rng(0)
    logits = rng.normal(size=(3, 4)) * 2
    draws = 200_000
    if multi_label:
        p = 1 / (1 + np.exp(-logits))
        sampled = rng.random((draws, 3, 4)) < p
    else:
        p = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
        sampled = (p.cumsum(axis=1) > rng.random((draws, 3, 1))).argmax(axis=2)[..., None] == range(
            4
        )
    found = tag_sharing_probability(torch.from_numpy(p), multi_label=multi_label)
    for i, j in ((0, 1), (0, 2), (1, 2)):
        share = (sampled[:, i] & sampled[:, j]).any(axis=1).mean()
        assert abs(found[i, j].item() - share) < 5 * 0.5 / np.sqrt(draws)


def test_labels_count_for_certain_and_predictions_for_what_they_are() -> None:
    logits = torch.tensor([[0.0, 1.0, 2.0], [0.0, 1.0, 2.0]], requires_grad=True)
    tags = torch.tensor([[True, False, False], [False, False, False]])
    for multi_label, p in (
        (False, torch.softmax(logits[1], dim=0)),
        (True, torch.sigmoid(logits[1])),
    ):
        found = class_probabilities(logits, tags, multi_label=multi_label)
        torch.testing.assert_close(found, torch.stack([torch.tensor([1.0, 0, 0]), p]).detach())
        assert not found.requires_grad


def test_gaussian_codes_scatter_around_the_logits() -> None:
    torch.manual_seed(0)
    counts = sparse.random_array((5, 12), density=0.4, format="csr", dtype=np.float32, rng=0)
    model = GaussianAutoencoder(Shape(12, 6, 8, classes=2, text=True))
    all_counts = sparse.csr_array(sparse.vstack([counts] * 2000))
    repeated = SparseBatch.of_rows(all_counts, np.arange(10_000))
    draws = model(repeated, torch.Generator().manual_seed(0)).b_NB.reshape(2000, 5, 8)
    h_NH, mean_NB = model.encoder(SparseBatch.of_rows(counts, np.arange(5)))
    deviation = torch.exp(0.5 * model.latent.log_variance(h_NH))
    # Five standard errors of means and deviations over 2,000 draws.
    torch.testing.assert_close(draws.mean(dim=0), mean_NB, atol=0.2, rtol=0)
    torch.testing.assert_close(draws.std(dim=0), deviation, atol=0, rtol=0.1)
