from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from pyriemann.geometry.distance import distance_logeuclid, distance_riemann
from pyriemann.geometry.mean import mean_logeuclid, mean_riemann
from scipy.special import roots_jacobi
from scipy.stats import gmean, gstd, norm
from sklearn.mixture import GaussianMixture as SklearnMixture

from experiments.saved_encoders import is_trained_on
from hummingbit.cli import main
from hummingbit.corpus.document import Document
from hummingbit.encoder import recipes
from hummingbit.encoder.artifact import load_encoder, read_labelled_ids
from hummingbit.encoder.recipes import MetricRecipe, RecipeError
from hummingbit.encoder.vector_features import SpdFeatures
from hummingbit.evaluation.evaluate import evaluate_encoder
from hummingbit.training import metric_learning
from hummingbit.training.data import TrainingData, TrainingDataError, gather
from hummingbit.training.metric_learning import (
    POTATO_MARGIN,
    POTATO_THRESHOLD,
    GenerativeSimilarity,
    MetricBatch,
    PotatoRanking,
    pair_source,
    run_settings,
    train_metric,
)
from hummingbit.training.pipeline import split
from hummingbit.training.similarities import Pairs
from tests.support.corpora import topic_documents, topic_vectors
from tests.support.matrices import matrix_documents

RECIPE = MetricRecipe(n_bits=16, epochs=8, batch_size=32, hidden=24, max_terms=100)
# Food is near the sea and far from algebra, as far as labels say.
PLACES = {"food": "world.food", "sea": "world.sea", "algebra": "mind.algebra"}


def dotted(documents: Sequence[Document]) -> TrainingData:
    return gather([replace(d, labels=(PLACES[d.labels[0]],)) for d in documents])


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("encoders") / "topics"
    train_metric(dotted(topic_documents(400)), RECIPE, out, progress=False)
    return out


@pytest.mark.parametrize("objective", recipes.METRIC_OBJECTIVES)
@pytest.mark.parametrize("documents", [topic_documents, topic_vectors])
def test_codes_rank_by_the_levels_of_the_hierarchy(
    objective: str, documents: object, tmp_path: Path
) -> None:
    data, queries = dotted(documents(200)), dotted(documents(80, seed=1))  # type: ignore[operator]
    recipe = replace(RECIPE, objective=objective, epochs=15)
    encoder = train_metric(data, recipe, tmp_path / "e", progress=False).encoder
    database, asked = data.labelled(), queries.labelled()
    found = evaluate_encoder(encoder, database, asked, ["nDCG@200", "P@10"], hierarchy=True)
    assert found.expected["nDCG@200"] > 0.95
    assert evaluate_encoder(encoder, database, asked, ["P@10"]).expected["P@10"] > 0.85


def test_both_tables_of_objectives_have_the_same_entries() -> None:
    assert list(metric_learning.OBJECTIVES) == list(recipes.METRIC_OBJECTIVES)


def test_the_artifact_says_how_it_was_made(trained: Path) -> None:
    encoder = load_encoder(trained)
    assert encoder.metadata["method"] == "metric"
    assert encoder.metadata["recipe"]["objective"] == "continuous-histogram"
    assert len(read_labelled_ids(trained, encoder)) == 360
    epochs = json.loads((trained / "metrics.json").read_text())["epochs"]
    assert epochs[-1]["continuous_histogram_loss"] < epochs[0]["continuous_histogram_loss"]
    assert is_trained_on(encoder, dotted(topic_documents(400)), run_settings(RECIPE))
    assert not trained.with_name("topics.checkpoint").exists()


@pytest.mark.parametrize("objective", recipes.METRIC_OBJECTIVES)
def test_codes_of_matrices_find_their_class(objective: str, tmp_path: Path) -> None:
    data, queries = gather(matrix_documents(200)), gather(matrix_documents(60, seed=1))
    recipe = replace(RECIPE, objective=objective, spd_order=3)
    encoder = train_metric(data, recipe, tmp_path / "e", progress=False).encoder
    assert isinstance(encoder.features, SpdFeatures)
    assert [weight.shape for weight in encoder.features.weights] == [(6, 6), (6, 3)]
    found = evaluate_encoder(encoder, data.labelled(), queries.labelled(), ["P@10"])
    assert found.expected["P@10"] > 0.85


@pytest.mark.parametrize("geometry", recipes.POTATO_GEOMETRIES)
def test_an_interrupted_run_on_matrices_ends_in_the_same_artifact(
    geometry: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = gather(matrix_documents(60))
    recipe = replace(
        RECIPE, objective="riemannian-potato", epochs=4, hidden=8, potato_geometry=geometry
    )
    whole = train_metric(data, recipe, tmp_path / "whole", progress=False)
    monkeypatch.setattr("hummingbit.training.loop._SECONDS_BETWEEN_CHECKPOINTS", 0.0)
    monkeypatch.setattr("hummingbit.training.pipeline.validate", _interrupt)
    with pytest.raises(KeyboardInterrupt):
        train_metric(data, recipe, tmp_path / "again", progress=False)
    monkeypatch.undo()
    resumed = train_metric(data, recipe, tmp_path / "again", progress=False)
    assert resumed.encoder.fingerprint == whole.encoder.fingerprint


def potato_loss_in_loops(
    distance_NC: NDArray[np.float64], tags: NDArray[np.bool_], recipe: MetricRecipe
) -> float:
    """The loss of a first batch, whose examples define μ and σ: means over pairs of both kinds."""
    n, n_classes = tags.shape
    z = np.empty_like(distance_NC)
    for c in range(n_classes):
        own = distance_NC[tags[:, c], c]
        z[:, c] = np.log(distance_NC[:, c] / gmean(own)) / np.log(gstd(own, ddof=0))
    limit = POTATO_THRESHOLD + POTATO_MARGIN
    near, far = [], []
    for i in range(n):
        for c in range(n_classes):
            if tags[i, c]:
                near.append(z[i, c] - POTATO_THRESHOLD)
            else:
                far.append(limit - z[i, c])
    means = [float(np.mean([d for d in one if d > 0] or [0.0])) for one in (near, far)]
    return means[0] + recipe.potato_balance * means[1]


@pytest.mark.parametrize("geometry", ["affine-invariant", "log-euclidean"])
def test_the_potatoes_of_matrices_are_those_of_loops(geometry: str) -> None:
    """The oracle has pyRiemann's distances and means, and scipy's geometric statistics."""
    rng = np.random.default_rng(3)
    factors = rng.standard_normal((12, 4, 8))
    matrices = factors @ factors.swapaxes(1, 2) / 8 + 0.1 * np.eye(4)
    tags = np.eye(3, dtype=np.bool_)[np.arange(12) % 3]
    u = np.tanh(rng.standard_normal((12, 16)))
    recipe = replace(
        RECIPE,
        n_bits=16,
        potato_geometry=geometry,
        potato_balance=0.7,
    )
    scaled = u / np.sqrt(4 * 16)
    code_distance = np.stack(
        [
            np.sqrt(((scaled - scaled[own].mean(axis=0)) ** 2).sum(axis=1) + 0.3**2)
            for own in tags.T
        ],
        axis=1,
    )
    mean, distance = {
        "affine-invariant": (mean_riemann, distance_riemann),
        "log-euclidean": (mean_logeuclid, distance_logeuclid),
    }[geometry]
    matrix_distance = np.stack(
        [[distance(x, mean(matrices[own])) for x in matrices] for own in tags.T], axis=1
    )
    batch = MetricBatch(
        torch.from_numpy(u),
        torch.from_numpy(tags),
        torch.tensor([0]),
        torch.tensor([1]),
        torch.tensor([0.0]),
        torch.from_numpy(matrices),
    )
    expected = potato_loss_in_loops(code_distance, tags, recipe) + potato_loss_in_loops(
        matrix_distance, tags, recipe
    )
    assert float(PotatoRanking(recipe, 3, 4)(batch)) == pytest.approx(expected, rel=1e-5)


def test_distances_of_matrices_need_matrices(tmp_path: Path) -> None:
    recipe = replace(
        RECIPE, objective="riemannian-potato", similarity="labels", potato_geometry="log-euclidean"
    )
    with pytest.raises(
        TrainingDataError, match=r"^potato_geometry is 'log-euclidean', which needs"
    ):
        train_metric(gather(topic_vectors(40)), recipe, tmp_path / "e", progress=False)
    assert not (tmp_path / "e").exists()


def test_matrices_and_vectors_do_not_mix() -> None:
    with pytest.raises(TrainingDataError, match=r"^vector: some documents are matrices and some"):
        gather([*matrix_documents(5), *topic_vectors(5)])


def test_potatoes_need_labels(tmp_path: Path) -> None:
    documents = [replace(d, labels=()) for d in topic_vectors(40)]
    lines = [
        {"a": documents[i].id, "b": documents[i + 1].id, "similarity": i % 2} for i in range(39)
    ]
    path = tmp_path / "pairs.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    recipe = replace(RECIPE, objective="riemannian-potato", similarity="pairs")
    with pytest.raises(TrainingDataError, match="riemannian-potato: label: no document of the"):
        train_metric(gather(documents), recipe, tmp_path / "e", similarity_file=path)


def test_an_interrupted_run_ends_in_the_same_artifact(
    trained: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hummingbit.training.loop._SECONDS_BETWEEN_CHECKPOINTS", 0.0)
    monkeypatch.setattr("hummingbit.training.pipeline.validate", _interrupt)
    data = dotted(topic_documents(400))
    with pytest.raises(KeyboardInterrupt):
        train_metric(data, RECIPE, tmp_path / "again", progress=False)
    assert (tmp_path / "again.checkpoint").exists()
    monkeypatch.undo()
    resumed = train_metric(data, RECIPE, tmp_path / "again", progress=False)
    assert resumed.encoder.fingerprint == load_encoder(trained).fingerprint


def _interrupt(*_: object, **__: object) -> None:
    raise KeyboardInterrupt


def test_a_file_gives_the_tree(tmp_path: Path) -> None:
    (tmp_path / "tree").write_text("world food\nworld sea\nmind algebra\n")
    recipe = replace(RECIPE, epochs=2)
    from_file = train_metric(
        gather(topic_documents(200)),
        recipe,
        tmp_path / "file",
        similarity_file=tmp_path / "tree",
        progress=False,
    )
    from_names = train_metric(
        dotted(topic_documents(200)), recipe, tmp_path / "names", progress=False
    )
    for layer, other in zip(from_file.encoder.layers, from_names.encoder.layers, strict=True):
        np.testing.assert_array_equal(layer.weight, other.weight)
    assert "similarity_sha256" in from_file.encoder.metadata["recipe"]


def test_labels_that_are_numbers_are_grades(tmp_path: Path) -> None:
    grade = {"food": "1", "sea": "2.5", "algebra": "10"}
    data = gather([replace(d, labels=(grade[d.labels[0]],)) for d in topic_vectors(200)])
    recipe = replace(RECIPE, similarity="graded")
    encoder = train_metric(data, recipe, tmp_path / "e", progress=False).encoder
    logits = encoder.logits(data.inputs)
    means = {name: logits[data.tags[:, i]].mean(axis=0) for i, name in enumerate(data.classes)}
    near = np.linalg.norm(means["1"] - means["2.5"])
    far = np.linalg.norm(means["1"] - means["10"])
    assert near < far


def test_pairs_that_a_user_lists(tmp_path: Path) -> None:
    documents = topic_vectors(200)
    rng = np.random.default_rng(0)
    lines = []
    for i, j in rng.integers(0, 200, (1500, 2)):
        if i != j:
            alike = float(documents[i].labels == documents[j].labels)
            lines.append({"a": documents[i].id, "b": documents[j].id, "similarity": alike})
    path = tmp_path / "pairs.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    bare = gather([replace(d, labels=()) for d in documents])
    recipe = replace(RECIPE, similarity="pairs")
    trained = train_metric(bare, recipe, tmp_path / "e", similarity_file=path, progress=False)
    assert trained.validation == {}
    assert trained.labelled_ids == ()
    data, queries = gather(documents), gather(topic_vectors(60, seed=1))
    found = evaluate_encoder(trained.encoder, data.labelled(), queries.labelled(), ["P@10"])
    assert found.expected["P@10"] > 0.85


def test_a_batch_of_one_class_is_explained(tmp_path: Path) -> None:
    rare = [replace(d, labels=("a" if i else "b",)) for i, d in enumerate(topic_vectors(300))]
    also = [replace(d, id=f"also-{d.id}", labels=("b",)) for d in topic_vectors(3)]
    data = gather([*rare, *also])
    recipe = replace(RECIPE, batch_size=5, similarity="labels")
    with pytest.raises(TrainingDataError, match="batch_size is 5, and all pairs of a batch are"):
        train_metric(data, recipe, tmp_path / "e", progress=False)


def test_degrees_that_the_bins_do_not_tell_apart_are_explained(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = {"food": "1", "sea": "1.1", "algebra": "1.2"}
    documents = [replace(d, labels=(name[d.labels[0]],)) for d in topic_vectors(60)]
    data = gather([*documents, Document("far", vector=documents[0].vector, labels=("90",))])
    monkeypatch.setattr(metric_learning, "SIMILARITY_BINS", 2)
    recipe = replace(RECIPE, similarity="graded", batch_size=30)
    with pytest.raises(TrainingDataError, match="continuous-histogram: similarity: all 435 pairs"):
        train_metric(data, recipe, tmp_path / "e", progress=False)


@pytest.mark.parametrize(
    ("similarity", "file", "message"),
    [
        ("pairs", None, "similarity_file: similarity by pairs needs a file of pairs"),
        ("labels", "tree", "similarity by labels takes no file; leave out .*tree"),
        ("graded", None, "label: 'algebra' is not a number"),
        ("hierarchy", "tree", "the label 'algebra' is not in the tree"),
        ("hierarchy", "none", "none: No such file"),
    ],
)
def test_a_similarity_that_does_not_fit_is_refused(
    similarity: str, file: str | None, message: str, tmp_path: Path
) -> None:
    (tmp_path / "tree").write_text("world food\n")
    recipe = replace(RECIPE, similarity=similarity)
    path = None if file is None else tmp_path / file
    with pytest.raises(TrainingDataError, match=message):
        train_metric(gather(topic_documents(60)), recipe, tmp_path / "e", similarity_file=path)
    assert not (tmp_path / "e").exists()


def test_one_class_is_refused(tmp_path: Path) -> None:
    data = gather([replace(d, labels=("a",)) for d in topic_vectors(50)])
    with pytest.raises(TrainingDataError, match="the documents have 1 distinct label;"):
        train_metric(data, RECIPE, tmp_path / "e")


@pytest.mark.parametrize(
    ("setting", "value", "message"),
    [
        ("balance", 1.5, "balance is 1.5; it must be from 0 to 1"),
        ("objective", "triplet", "objective is 'triplet'; it must be one of"),
        ("similarity", "cosine", "similarity is 'cosine'; it must be one of"),
        ("n_bits", 12, "n_bits is 12"),
    ],
)
def test_settings_out_of_range_are_named(setting: str, value: object, message: str) -> None:
    with pytest.raises(RecipeError, match=message):
        replace(RECIPE, **{setting: value})  # type: ignore[arg-type]


def beta_bernoulli_in_integrals(x: NDArray[np.int64], y: NDArray[np.int64]) -> float:
    """s_gen by numerical integration over θ ~ Beta(2, 0.5), one feature at a time."""
    nodes, weights = roots_jacobi(40, 0.5 - 1, 2.0 - 1)
    theta, prior = (1 + nodes) / 2, weights / weights.sum()
    ratio = 1.0
    for f, g in zip(x, y, strict=True):
        p_x, p_y = (theta if bit else 1 - theta for bit in (f, g))
        ratio *= float(prior @ (p_x * p_y)) / (float(prior @ p_x) * float(prior @ p_y))
    return ratio


def feature_documents(count: int, seed: int = 0) -> tuple[list[Document], NDArray[np.int64]]:
    """Vectors in three clusters, each with binary features of its own."""
    rng = np.random.default_rng(seed)
    clusters = np.arange(count) % 3
    vectors = 4 * np.eye(3)[clusters] + rng.standard_normal((count, 3))
    shares = np.array([[0.95, 0.9, 0.1, 0.1], [0.1, 0.9, 0.9, 0.1], [0.1, 0.1, 0.1, 0.95]])
    features = (rng.random((count, 4)) < shares[clusters]).astype(np.int64)
    documents = [
        Document(id=f"d{row}", vector=vector, labels=(str(cluster),))
        for row, (vector, cluster) in enumerate(
            zip(vectors.astype(np.float32), clusters, strict=True)
        )
    ]
    return documents, features


def save_features(path: Path, documents: Sequence[Document], features: NDArray[Any]) -> Path:
    np.savez(path, ids=np.array([d.id for d in documents]), vectors=features.astype(np.float32))
    return path


def batch_of_all(recipe: MetricRecipe, data: TrainingData, path: Path | None) -> tuple[Any, Pairs]:
    parts = split(data, recipe)
    source = pair_source(data, parts, recipe, path)
    return source.batch(np.arange(len(source)))


def test_features_give_the_similarities_of_their_model(tmp_path: Path) -> None:
    documents, features = feature_documents(30)
    path = save_features(tmp_path / "features.npz", documents, features)
    recipe = replace(
        RECIPE, objective="generative-similarity", similarity="beta-bernoulli", alpha=2.0, beta=0.5
    )
    rows, pairs = batch_of_all(recipe, gather(documents), path)
    expected = np.array(
        [
            beta_bernoulli_in_integrals(features[rows[i]], features[rows[j]])
            for i, j in zip(pairs.first, pairs.second, strict=True)
        ]
    )
    greatest = max(beta_bernoulli_in_integrals(features[row], features[row]) for row in rows)
    np.testing.assert_allclose(pairs.similarity, expected / greatest, rtol=1e-4)


def test_points_give_the_similarities_of_a_mixture() -> None:
    """s_gen is p(x, y | same) / (p(x) p(y)), of the densities of scipy."""
    documents, _ = feature_documents(60)
    recipe = replace(
        RECIPE, objective="generative-similarity", similarity="gaussian-mixture", components=3
    )
    data = gather(documents)
    rows, pairs = batch_of_all(recipe, data, None)
    points = np.asarray(data.inputs, dtype=np.float64)[rows]
    fitted = SklearnMixture(3, covariance_type="spherical", random_state=0).fit(points)
    deviation = float(fitted.weights_ @ fitted.covariances_) ** 0.5
    density = np.stack([norm(mean, deviation).pdf(points).prod(axis=1) for mean in fitted.means_])
    joint = np.einsum("k,kn,km->nm", fitted.weights_, density, density)
    alone = fitted.weights_ @ density
    s_gen = joint / np.outer(alone, alone)
    expected = s_gen[pairs.first, pairs.second] / s_gen.diagonal().max()
    np.testing.assert_allclose(pairs.similarity, expected, rtol=1e-4, atol=1e-7)


@pytest.mark.parametrize("contrast", ["softmax", "regression"])
def test_codes_follow_features_that_queries_do_not_have(contrast: str, tmp_path: Path) -> None:
    documents, features = feature_documents(300)
    path = save_features(tmp_path / "features.npz", documents, features)
    recipe = replace(
        RECIPE,
        objective="generative-similarity",
        similarity="beta-bernoulli",
        contrast=contrast,
        epochs=10,
    )
    encoder = train_metric(
        gather(documents), recipe, tmp_path / "e", similarity_file=path, progress=False
    ).encoder
    queries = gather(feature_documents(60, seed=1)[0])
    found = evaluate_encoder(encoder, gather(documents).labelled(), queries.labelled(), ["P@10"])
    assert found.expected["P@10"] > 0.9


def test_a_regression_is_the_square_of_equation_2() -> None:
    rng = np.random.default_rng(0)
    u = np.tanh(rng.standard_normal((6, 16)))
    first, second = np.triu_indices(6, k=1)
    target = rng.random(len(first))
    cosine = [
        u[i] @ u[j] / np.linalg.norm(u[i]) / np.linalg.norm(u[j])
        for i, j in zip(first, second, strict=True)
    ]
    batch = MetricBatch(
        torch.from_numpy(u),
        torch.ones(6, 1, dtype=torch.bool),
        torch.from_numpy(first),
        torch.from_numpy(second),
        torch.from_numpy(target),
    )
    loss = GenerativeSimilarity(replace(RECIPE, contrast="regression"))(batch)
    expected = np.mean([((1 + c) / 2 - t) ** 2 for c, t in zip(cosine, target, strict=True)])
    assert float(loss) == pytest.approx(float(expected))


def test_a_function_gives_similarities_by_id(tmp_path: Path) -> None:
    documents, _ = feature_documents(120)
    recipe = replace(RECIPE, objective="generative-similarity", similarity="function", epochs=4)

    def same_rest(a: list[str], b: list[str]) -> list[float]:
        return [float(int(x[1:]) % 3 == int(y[1:]) % 3) for x, y in zip(a, b, strict=True)]

    encoder = train_metric(
        gather(documents), recipe, tmp_path / "e", similarity_function=same_rest, progress=False
    ).encoder
    database = gather(documents).labelled()
    assert evaluate_encoder(encoder, database, database, ["P@10"]).expected["P@10"] > 0.9


@pytest.mark.parametrize(
    ("similarity", "options", "message"),
    [
        ("beta-bernoulli", {}, "similarity: a feature is .*; those of beta-bernoulli must be 0 or"),
        (
            "function",
            {},
            "similarity is 'function'; 'function' and similarity_function go together",
        ),
        ("labels", {"similarity_function": lambda a, _: a}, "similarity is 'labels'; 'function'"),
        ("function", {"similarity_function": lambda a, _: [2.0] * len(a)}, "returned 2 for 'd"),
        ("function", {"similarity_function": lambda *_: 0.5}, r"returned shape \[\] for"),
        ("gaussian-mixture", {"components": 500}, "components is 500; it must be at most the"),
    ],
)
def test_sources_that_do_not_fit_are_refused(
    similarity: str, options: dict[str, Any], message: str, tmp_path: Path
) -> None:
    settings = {name: options.pop(name) for name in ["components"] if name in options}
    recipe = replace(RECIPE, similarity=similarity, **settings)
    with pytest.raises(TrainingDataError, match=message):
        train_metric(
            gather(feature_documents(60)[0]), recipe, tmp_path / "e", progress=False, **options
        )
    assert not (tmp_path / "e").exists()


def test_texts_need_a_file_of_features(tmp_path: Path) -> None:
    recipe = replace(RECIPE, similarity="gaussian-mixture", components=2)
    with pytest.raises(
        TrainingDataError, match=r"^similarity_file: the documents are texts; name a file"
    ):
        train_metric(gather(topic_documents(60)), recipe, tmp_path / "e", progress=False)


def test_the_command_line_imports_a_function(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "likeness.py").write_text(
        "def by_id(a, b):\n    return [float(x[-1] == y[-1]) for x, y in zip(a, b)]\n"
    )
    lines = [
        json.dumps({"id": f"d{row}", "vector": vector})
        for row, vector in enumerate(np.random.default_rng(0).standard_normal((60, 3)).tolist())
    ]
    (tmp_path / "points.jsonl").write_text("\n".join(lines))
    monkeypatch.chdir(tmp_path)
    command = (
        "train metric --data points.jsonl --out e --bits 16 --epochs 1 --similarity function"
        " --similarity-function likeness:"
    )
    assert main((command + "by_name").split()) == 2
    assert "it must be MODULE:FUNCTION" in capsys.readouterr().err
    assert main((command + "by_id").split()) == 0
