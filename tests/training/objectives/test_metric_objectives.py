from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from hummingbit.corpus.document import Document
from hummingbit.encoder.recipes import MetricRecipe, RecipeError
from hummingbit.evaluation.evaluate import evaluate_encoder
from hummingbit.training.data import TrainingDataError, gather
from hummingbit.training.metric_learning import (
    GenerativeSimilarity,
    MetricBatch,
    train_metric,
    tree_similarities,
)
from hummingbit.training.objectives.generative_similarity import (
    kernel_pair_loss,
    kernel_triplet_loss,
)
from hummingbit.training.similarities import dotted_tree, read_tree
from tests.support.corpora import topic_vectors

RECIPE = MetricRecipe(
    objective="generative-similarity", n_bits=16, epochs=15, batch_size=32, hidden=24
)


def batch_of(n: int, chosen: slice) -> MetricBatch:
    generator = torch.Generator().manual_seed(0)
    first, second = torch.triu_indices(n, n, offset=1)
    return MetricBatch(
        torch.rand(n, 16, generator=generator) * 2 - 1,
        torch.zeros(n, 2, dtype=torch.bool),
        first[chosen],
        second[chosen],
        torch.rand(len(first), generator=generator)[chosen],
    )


def test_codes_are_compared_by_their_distance_and_a_temperature() -> None:
    batch = batch_of(6, slice(None))
    found = GenerativeSimilarity(RECIPE, 2)(batch)
    kernel = torch.zeros(6, 6)
    kernel[batch.first_M, batch.second_M] = batch.similarity_M
    s = -10 * batch.all_distances()
    expected = kernel_triplet_loss(s, kernel + kernel.T, contrast="softmax")
    torch.testing.assert_close(found, expected)
    some = batch_of(6, slice(2, 9))
    torch.testing.assert_close(
        GenerativeSimilarity(RECIPE, 2)(some),
        kernel_pair_loss(-10 * some.distances(), some.similarity_M, contrast="softmax"),
    )


def test_a_tree_says_how_likely_two_labels_have_one_source(tmp_path: Path) -> None:
    labels = ["rec.sport.hockey", "rec.sport.baseball", "rec.autos", "sci.crypt"]
    table = tree_similarities(dotted_tree(labels), labels, "generative-similarity")
    # (2 + 4 + 8) / 3 is the greatest; sport has half of rec, rec half of all.
    expected = np.array([[14, 6, 2, 0], [6, 14, 2, 0], [2, 2, 10, 0], [0, 0, 0, 6]]) / 14
    np.testing.assert_allclose(table, expected, rtol=1e-6)
    levels = tree_similarities(dotted_tree(labels), labels, "continuous-histogram")
    np.testing.assert_allclose(levels[0], [1, 2 / 3, 1 / 3, 0], rtol=1e-6)
    lines = ["rec sport", "sport hockey", "sport baseball", "rec autos", "sci crypt"]
    (tmp_path / "tree").write_text("\n".join(lines))
    names = [label.split(".")[-1] for label in labels]
    from_file = tree_similarities(read_tree(tmp_path / "tree"), names, "generative-similarity")
    np.testing.assert_allclose(from_file, table)


def test_pairs_of_a_file_and_grades_are_kernels(tmp_path: Path) -> None:
    documents = topic_vectors(200)
    rng = np.random.default_rng(0)
    lines = []
    for i, j in rng.integers(0, 200, (1500, 2)):
        if i != j:
            alike = 0.9 * (documents[i].labels == documents[j].labels)
            lines.append({"a": documents[i].id, "b": documents[j].id, "similarity": alike})
    path = tmp_path / "pairs.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    data, queries = gather(documents), gather(topic_vectors(60, seed=1))
    recipe = replace(RECIPE, similarity="pairs")
    listed = train_metric(data, recipe, tmp_path / "p", similarity_file=path, progress=False)
    grade = {"food": "1", "sea": "2.5", "algebra": "10"}
    graded = gather([replace(d, labels=(grade[d.labels[0]],)) for d in documents])
    recipe = replace(RECIPE, similarity="graded")
    by_grade = train_metric(graded, recipe, tmp_path / "g", progress=False)
    # Grades of 1 and 2.5 are 5/6 alike, so that their kernel tells them apart but little.
    for trained, least in ((listed, 0.8), (by_grade, 0.6)):
        found = evaluate_encoder(trained.encoder, data.labelled(), queries.labelled(), ["P@10"])
        assert found.expected["P@10"] > least


def test_a_batch_of_one_class_is_explained(tmp_path: Path) -> None:
    rare = [replace(d, labels=("a" if i else "b",)) for i, d in enumerate(topic_vectors(300))]
    far = [Document(f"far-{i}", vector=rare[0].vector, labels=("b",)) for i in range(3)]
    recipe = replace(RECIPE, batch_size=5)
    with pytest.raises(TrainingDataError, match="batch_size is 5, and all pairs of a batch are"):
        train_metric(gather([*rare, *far]), recipe, tmp_path / "e", progress=False)


@pytest.mark.parametrize(
    ("setting", "value", "message"),
    [
        ("contrast", "softplus", "contrast is 'softplus'; it must be one of softmax, regression"),
        ("balance", 2.0, "balance is 2; it must be from 0 to 1"),
    ],
)
def test_settings_out_of_range_are_named(setting: str, value: object, message: str) -> None:
    with pytest.raises(RecipeError, match=message):
        replace(RECIPE, **{setting: value})  # type: ignore[arg-type]
