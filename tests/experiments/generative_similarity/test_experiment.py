from __future__ import annotations

import json
from math import log
from pathlib import Path

import numpy as np
import pytest
import torch
from matplotlib.image import imread
from pytorch_metric_learning.losses import NTXentLoss
from sklearn.metrics import ndcg_score

from experiments.generative_similarity import gaussian, hierarchy
from experiments.generative_similarity.contrastive_baselines import (
    class_triplet_loss,
    info_nce_loss,
)
from experiments.generative_similarity.hierarchy import graded_retrieval, odd_one_out
from hummingbit.cli import main
from hummingbit.evaluation.relevance import relevance_by_hierarchy
from tests.support.corpora import dotted_topic_documents, write_snippets

COMMAND = ["reproduce", "generative-similarity"]


def run(*options: object) -> None:
    assert main([*COMMAND, *map(str, options)]) == 0


def test_clouds_are_embedded_by_every_method(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(gaussian, "TEST_POINTS", 500)
    options = ["--part", "gaussian", "--seeds", 1, "--triplets", 1000, "--passes", 20]
    options += ["--work-dir", tmp_path / "w", "--json", tmp_path / "r.json"]
    run(*options, "--plot", tmp_path / "p.png")
    printed = capsys.readouterr().out
    records = json.loads((tmp_path / "r.json").read_text())
    assert [record["method"] for record in records] == list(gaussian.METHODS)
    for record in records:
        assert record["accuracy"] > 0.97
        assert record["spearman"] < -0.75
        assert record["distance_same"] < record["distance_different"] / 1.5
    assert "| softplus " in printed
    assert imread(tmp_path / "p.png").shape[1] > 800
    kept = {path: path.stat().st_mtime_ns for path in (tmp_path / "w").iterdir()}
    assert len(kept) == len(records)
    run(*options)
    assert capsys.readouterr().out == printed
    assert {path: path.stat().st_mtime_ns for path in (tmp_path / "w").iterdir()} == kept


@pytest.fixture
def data_root(tmp_path: Path) -> Path:
    queries = dotted_topic_documents(60, 1, prefix="test")
    write_snippets(tmp_path, dotted_topic_documents(200, prefix="train"), queries)
    return tmp_path


@pytest.mark.long
def test_a_tree_of_topics(data_root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    options = ["--part", "hierarchy", "--dataset", "snippets", "--seeds", 1, "--tree-epochs", 25]
    options += ["--data-root", data_root, "--work-dir", data_root / "w"]
    run(*options, "--json", data_root / "r.json", "--plot", data_root / "groups.svg")
    assert "<svg" in (data_root / "groups.svg").read_text()
    records = json.loads((data_root / "r.json").read_text())
    assert [item["method"] for item in records] == list(hierarchy.METHODS)
    for item in records:
        # About a third of the documents are of each topic, and so two thirds of "world".
        assert item["p100"] > 0.55
        assert item["ndcg100"] > 0.8
        assert item["svm_level1"] > 0.2
        assert item["svm_level2"] > 0.5
    # Only what knows the tree has "sea" before "algebra" once "food" is used up.
    ndcg = {item["method"]: item["ndcg100"] for item in records}
    told = [ndcg.pop(name) for name in list(ndcg) if "generative" in name]
    assert min(told) > max(ndcg.values())
    asked = [document.labels[0] for document in dotted_topic_documents(60, 1, prefix="test")]
    over_chance = 0.0
    for level in (1, 2):
        cut = [".".join(label.split(".")[:level]) for label in asked]
        share = max(map(cut.count, cut)) / 60
        over_chance += log((records[0][f"svm_level{level}"] + share) / share)
    assert records[0]["ln_over_chance"] == pytest.approx(over_chance)
    assert all(record["odd_boundary"] > 0.5 for record in records)
    assert all(0.32 < record["odd_coarse"] <= 1 for record in records)
    assert "| generative " in capsys.readouterr().out


def test_graded_retrieval_is_what_scikit_learn_says() -> None:
    rng = np.random.default_rng(0)
    names = ["rec.sport.hockey", "rec.sport.baseball", "rec.autos", "sci.crypt", "sci.space.nasa"]
    labels, asked = ([names[i] for i in rng.integers(0, 5, n)] for n in (150, 20))
    documents, queries = rng.normal(size=(150, 4)), rng.normal(size=(20, 4))
    found = graded_retrieval(documents, labels, queries, asked)
    relevance = relevance_by_hierarchy([(item,) for item in asked], [(item,) for item in labels])
    every = np.tile(np.arange(150), (20, 1))
    grades = relevance.grade_lists(relevance.query_sets, every)
    scores = queries @ documents.T
    assert found["ndcg100"] == pytest.approx(ndcg_score(grades, scores, k=100))
    best = np.argsort(-scores, axis=1)[:, :100]
    same = [[labels[j] == label for j in row] for row, label in zip(best, asked, strict=True)]
    assert found["p100"] == pytest.approx(np.mean(same))


def test_infonce_is_that_of_the_library() -> None:
    one, other = torch.randn(2, 6, 4, generator=torch.Generator().manual_seed(0))
    expected = NTXentLoss(0.1)(torch.cat([one, other]), torch.arange(6).repeat(2))
    torch.testing.assert_close(info_nce_loss(one, other), expected)


def test_class_triplets_equal_their_formula() -> None:
    x = torch.randn(6, 4, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    classes = [0, 0, 0, 1, 1, 2]
    unit = (x / x.norm(dim=1, keepdim=True)).tolist()
    terms = []
    for i in range(6):
        for j in range(6):
            for k in range(6):
                if i != j and classes[i] == classes[j] != classes[k]:
                    near, far = np.linalg.norm(np.subtract(unit[i], [unit[j], unit[k]]), axis=1)
                    terms.append(near - far + 0.2)
    expected = np.mean([term for term in terms if term > 0])
    found = class_triplet_loss(x, torch.tensor(classes))
    assert float(found) == pytest.approx(float(expected), abs=1e-6)


def test_the_odd_one_is_the_post_of_another_group() -> None:
    """Groups at 0°, 30°, and 90°: the first two share a level, and the third is the odd one."""
    angles = np.repeat(np.radians([0, 30, 90]), 4)
    embedding = np.stack([np.cos(angles), np.sin(angles)], axis=1)
    labels = [name for name in ("a.x", "a.y", "b") for _ in range(4)]
    found = odd_one_out(embedding, labels, np.random.default_rng(0))
    assert found["odd_boundary"] > 0.99
    assert found["odd_coarse"] > 0.99
    # The tree says that a.x and b are the farthest apart; here they are the nearest.
    turned = odd_one_out(embedding, ["a.x"] * 4 + ["b"] * 4 + ["a.y"] * 4, np.random.default_rng(0))
    assert turned["odd_coarse"] == pytest.approx(1 / 3, abs=0.03)
    rng = np.random.default_rng(1)
    noise = rng.normal(size=(60, 40))
    noise /= np.linalg.norm(noise, axis=1, keepdims=True)
    unknown = odd_one_out(noise, labels * 5, rng)
    assert unknown["odd_boundary"] == pytest.approx(1 / 3, abs=0.05)
    assert "odd_coarse" not in odd_one_out(noise, ["a", "b"] * 30, rng)
