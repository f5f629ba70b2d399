from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from hummingbit.cli import main
from hummingbit.encoder.artifact import load_encoder, write_artifact
from hummingbit.encoder.encoder import Encoder, Layer
from hummingbit.encoder.recipes import JudgementRecipe, RecipeError
from hummingbit.encoder.text_features import TextFeatures
from hummingbit.encoder.vector_features import VectorFeatures
from hummingbit.evaluation.result import EvaluationError
from hummingbit.training.data import TrainingData, TrainingDataError, tags_of
from hummingbit.training.judgements import METRIC, train_judged
from hummingbit.training.model_codes import fit_reconstruction
from hummingbit.training.objectives.neighbours import ranking_loss
from tests.support.encoders import class_encoder, text_encoder, vector_encoder

ASKED = tuple(f"ask{number:02}" for number in range(24))
ANSWERING = tuple(f"say{number:02}" for number in range(24))
"""Each word of a query stands for another word of documents: only judgements tell which."""
VOCABULARY = (*ASKED, *ANSWERING)


def data_of(texts: list[str], name: str) -> TrainingData:
    ids = tuple(f"{name}{number}" for number in range(len(texts)))
    return TrainingData(ids, texts, *tags_of([()] * len(texts)))


def judged(n_queries: int = 120, seed: int = 0) -> tuple[TrainingData, TrainingData, Any]:
    """Documents of the second words, queries of the first, and which documents answer them."""
    rng = np.random.default_rng(seed)
    pairs = [rng.choice(24, 3, replace=False) for _ in range(80)]
    documents = data_of([" ".join(ANSWERING[word] for word in pair) for pair in pairs], "d")
    rows = rng.integers(80, size=n_queries)
    queries = data_of([" ".join(ASKED[word] for word in pairs[row]) for row in rows], "q")
    return documents, queries, {f"q{i}": {f"d{row}": 1} for i, row in enumerate(rows)}


def linear_encoder(n_bits: int = 32) -> Encoder:
    rng = np.random.default_rng(0)
    weight = rng.normal(size=(len(VOCABULARY), n_bits)).astype(np.float32)
    layer = Layer(weight, np.zeros(n_bits, np.float32), "identity")
    features = TextFeatures(vocabulary=VOCABULARY)
    return Encoder(features, [layer], np.zeros(n_bits, dtype=np.float32), {"method": "ict"})


def written(encoder: Encoder, folder: Path, texts: Any) -> Path:
    write_artifact(folder, encoder, texts)
    return folder


def test_words_that_only_judgements_connect_are_found(tmp_path: Path) -> None:
    documents, queries, qrels = judged()
    start = written(linear_encoder(), tmp_path / "start", list(documents.inputs))
    recipe = JudgementRecipe(steps=200)
    taught = train_judged(start, documents, queries, qrels, recipe=recipe, out=tmp_path / "out")
    for ranking in ("hamming", "asymmetric"):
        assert taught.before[ranking] < 0.2
        # Held-out queries share their words with others, but not their three words.
        assert taught.after[ranking] > taught.before[ranking] + 0.3
    encoder = load_encoder(tmp_path / "out")
    about = encoder.metadata["judgements"]
    assert (about["queries"], about["held_out"], about["pairs"]) == (120, 24, 120)
    assert about["start"] == load_encoder(start).fingerprint
    assert encoder.metadata["method"] == "ict"
    # No evaluation takes them for a test.
    assert encoder.learned.contain(list(queries.inputs)).all()
    again = train_judged(start, documents, queries, qrels, recipe=recipe, out=tmp_path / "again")
    assert again.encoder.fingerprint == encoder.fingerprint


def ndcg_by_hand(encoder: Encoder, documents: Any, queries: Any, qrels: Any, rows: Any) -> float:
    """Asymmetric nDCG@10 of one relevant document a query, as weights leave no ties."""
    signs = np.unpackbits(encoder.encode(documents.inputs), axis=1).astype(np.float64) * 2 - 1
    values = []
    for row in rows:
        scores = signs @ encoder.query_weights([queries.inputs[row]])[0]
        (answer,) = (documents.ids.index(name) for name in qrels[queries.ids[row]])
        rank = int((scores > scores[answer]).sum()) + 1
        values.append(1 / math.log2(rank + 1) if rank <= 10 else 0.0)
    return float(np.mean(values))


def test_the_written_encoder_finds_more_of_queries_that_it_has_not_seen(tmp_path: Path) -> None:
    documents, queries, qrels = judged(200)
    start = written(linear_encoder(64), tmp_path / "start", list(documents.inputs))
    known = {name: qrels[name] for name in queries.ids[:150]}
    recipe = JudgementRecipe(steps=200)
    train_judged(start, documents, queries, known, recipe=recipe, out=tmp_path / "out")
    before, after = (
        ndcg_by_hand(load_encoder(folder), documents, queries, qrels, range(150, 200))
        for folder in (start, tmp_path / "out")
    )
    assert after > before + 0.3


@pytest.mark.parametrize("encoder", [text_encoder(16), class_encoder(32)])
def test_hidden_layers_and_class_bits_stay(encoder: Encoder, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    words = list(encoder.features.vocabulary)  # type: ignore[union-attr]
    texts = [" ".join(rng.choice(words, 4)) for _ in range(60)]
    documents, queries = data_of(texts, "d"), data_of(texts[:20], "q")
    qrels = {f"q{row}": {f"d{(row + 7) % 60}": 2, f"d{row}": 0} for row in range(20)}
    start = written(encoder, tmp_path / "start", texts)
    recipe = JudgementRecipe(steps=20, batch_size=8, learning_rate=0.05)
    taught = train_judged(
        start, documents, queries, qrels, recipe=recipe, out=tmp_path / "out"
    ).encoder
    n_class = 0 if encoder.class_code is None else encoder.class_code.n_bits
    np.testing.assert_array_equal(
        taught.logits(texts)[:, :n_class], encoder.logits(texts)[:, :n_class]
    )
    for old, new in zip(encoder.layers[:-1], taught.layers[:-1], strict=True):
        np.testing.assert_array_equal(old.weight, new.weight)
    assert taught.metadata["judgements"]["pairs"] == 20


def test_an_encoder_of_vectors_learns_too(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    vectors = rng.normal(size=(60, 6)).astype(np.float32)
    turned = (vectors[:40] @ np.linalg.qr(rng.normal(size=(6, 6)))[0]).astype(np.float32)
    no_tags = tags_of([()] * 60)
    documents = TrainingData(tuple(f"d{row}" for row in range(60)), vectors, *no_tags)
    queries = TrainingData(tuple(f"q{row}" for row in range(40)), turned, *tags_of([()] * 40))
    qrels = {f"q{row}": {f"d{row}": 1} for row in range(40)}
    start = written(vector_encoder(32), tmp_path / "start", vectors)
    recipe = JudgementRecipe(steps=40)
    taught = train_judged(start, documents, queries, qrels, recipe=recipe, out=tmp_path / "out")
    assert sum(taught.after.values()) >= sum(taught.before.values())


def test_what_cannot_be_learned_from_is_named(tmp_path: Path) -> None:
    documents, queries, qrels = judged(30)
    start = written(linear_encoder(), tmp_path / "start", list(documents.inputs))
    few = dict(list(qrels.items())[:9])
    arguments: Any = {"recipe": JudgementRecipe(), "out": tmp_path / "out"}
    with pytest.raises(TrainingDataError, match="judgements: there are 9 queries with a relevant"):
        train_judged(start, documents, queries, few, **arguments)
    with pytest.raises(EvaluationError, match="judge no stored document"):
        train_judged(start, documents, queries, {"x": {"y": 1}}, **arguments)
    vectors = np.zeros((80, 3), dtype=np.float32)
    with pytest.raises(TrainingDataError, match="vectors: the encoder has no language model"):
        train_judged(start, documents, queries, qrels, vectors=vectors, **arguments)
    vectors = np.random.default_rng(0).normal(size=(80, 16)).astype(np.float32)
    blocks = fit_reconstruction(vectors, 16, 0)
    zeros = np.zeros(16, dtype=np.float32)
    chosen = Encoder(
        VectorFeatures(16),
        [Layer(blocks.decoder, zeros, "identity")],
        zeros,
        {},
        reconstruction=blocks,
    )
    start = written(chosen, tmp_path / "chosen", vectors)
    with pytest.raises(TrainingDataError, match="encoder: has the head reconstruct"):
        train_judged(start, documents, queries, qrels, **arguments)
    with pytest.raises(RecipeError, match="held_out is 1"):
        JudgementRecipe(held_out=1.0)
    assert not (tmp_path / "out").exists()


def test_the_loss_is_the_cross_entropy_of_both_rankings() -> None:
    rng = np.random.default_rng(0)
    q, d = rng.normal(size=(3, 8)), np.sign(rng.normal(size=(5, 8)))
    target = rng.dirichlet(np.ones(5), size=3)
    total = 0.0
    for i in range(3):
        for query in (np.sign(q[i]), q[i] / np.sqrt((q[i] ** 2).mean())):
            z = 7.0 / 8 * d @ query
            total -= float(target[i] @ (z - np.log(np.exp(z).sum())))
    tensors = (torch.from_numpy(q), torch.from_numpy(d), torch.from_numpy(target))
    loss = ranking_loss(*tensors, torch.tensor(7.0))
    assert float(loss) == pytest.approx(total / 6, abs=1e-12)


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    documents, queries, qrels = judged(60)
    written(linear_encoder(), tmp_path / "start", list(documents.inputs))
    for name, data in (("docs", documents), ("queries", queries)):
        lines = [
            json.dumps({"id": i, "text": t}) for i, t in zip(data.ids, data.inputs, strict=True)
        ]
        (tmp_path / f"{name}.jsonl").write_text("\n".join(lines))
    rows = [f"{query} 0 {id_} 1" for query, graded in qrels.items() for id_ in graded]
    (tmp_path / "qrels.txt").write_text("\n".join(rows))
    texts = dict(zip(queries.ids, queries.inputs, strict=True))
    records = [
        json.dumps({"query": texts[query], "id": id_, "grade": 1, "who": "ann"})
        for query, graded in qrels.items()
        for id_ in graded
    ]
    (tmp_path / "labels.jsonl").write_text("\n".join([*records, '{"id": "d0", "labels": ["x"]}']))
    return tmp_path


@pytest.mark.parametrize("method", [[], ["judged"]])
def test_the_command_reads_qrels_with_the_method_named_or_not(
    method: list[str], corpus: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    common = ["train", *method, "--encoder", f"{corpus}/start", "--data", f"{corpus}/docs.jsonl"]
    common += ["--steps", "40"] if method else []
    trec = ["--queries", f"{corpus}/queries.jsonl", "--judgements", f"{corpus}/qrels.txt"]
    assert main([*common, *trec, "--out", f"{corpus}/by-trec"]) == 0
    out = capsys.readouterr().out
    assert "learned from 48 queries; nDCG@10 of 12 queries held out, before and after:" in out
    assert "asymmetric" in out
    assert METRIC == "nDCG@10"


def test_the_command_reads_exported_judgements(corpus: Path) -> None:
    command = ["train", "judged", "--encoder", f"{corpus}/start", "--data", f"{corpus}/docs.jsonl"]
    command += ["--judgements", f"{corpus}/labels.jsonl", "--steps", "40"]
    assert main([*command, "--out", f"{corpus}/by-labels"]) == 0
    encoder = load_encoder(corpus / "by-labels")
    # Some questions were asked twice.
    distinct = set(judged(60)[1].inputs)
    assert encoder.metadata["judgements"]["queries"] == len(distinct) < 60
    assert set(encoder.metadata["judgements"]["after"]) == {"hamming", "asymmetric"}


@pytest.mark.parametrize(
    ("left_out", "message"),
    [
        ("--encoder", "--encoder is missing"),
        ("--queries", "--queries is missing"),
        ("--judgements", "--judgements is missing"),
    ],
)
def test_missing_options_are_named(
    left_out: str, message: str, corpus: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    options = {
        "--encoder": f"{corpus}/start",
        "--data": f"{corpus}/docs.jsonl",
        "--queries": f"{corpus}/queries.jsonl",
        "--judgements": f"{corpus}/qrels.txt",
        "--out": f"{corpus}/out",
    }
    given = [part for pair in options.items() if pair[0] != left_out for part in pair]
    assert main(["train", "judged", *given]) != 0
    assert message in capsys.readouterr().err
    assert not (corpus / "out").exists()


def test_what_may_be_chance_is_not_learned(tmp_path: Path) -> None:
    documents, queries, _ = judged(60)
    rng = np.random.default_rng(1)
    # Answers without any relation to their queries.
    qrels = {name: {f"d{rng.integers(80)}": 1} for name in queries.ids}
    start = written(linear_encoder(), tmp_path / "start", list(documents.inputs))
    taught = train_judged(
        start, documents, queries, qrels, recipe=JudgementRecipe(), out=tmp_path / "out"
    )
    assert taught.step == 0
    assert taught.after == taught.before
    texts = list(documents.inputs)
    np.testing.assert_array_equal(taught.encoder.encode(texts), load_encoder(start).encode(texts))
