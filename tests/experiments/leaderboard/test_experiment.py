from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from experiments.judged_queries.judged_corpora import read_corpus
from experiments.leaderboard import cells, cibhash, experiment, text_training
from experiments.leaderboard.cells import (
    Cell,
    compute,
    draw,
    save_sentence_vectors,
    saved_record,
)
from experiments.leaderboard.contract import Encode, Encodings, Task, encodings_of
from experiments.leaderboard.measuring import measure, rows_of, unseen_classes
from experiments.leaderboard.methods import METHODS
from hummingbit.cli import main
from hummingbit.evaluation.evaluate import evaluate_by_score, evaluate_codes
from hummingbit.training import cloze
from hummingbit.training.data import TrainingData, gather
from hummingbit.training.model_folders import read_model
from tests.support.corpora import TOPICS, topic_documents, write_snippets, write_xz
from tests.support.models import write_model


def corpus() -> tuple[TrainingData, TrainingData]:
    return gather(topic_documents(200)), gather(topic_documents(40, seed=1, prefix="test"))


def cell(method: str = "itq", **changes: object) -> Cell:
    return Cell(**{**vars(Cell("snippets", method, 16, 0, 0.5)), **changes})


@pytest.fixture
def data_root(tmp_path: Path) -> Path:
    write_snippets(tmp_path, topic_documents(200), topic_documents(40, seed=1, prefix="test"))
    return tmp_path


def test_figures_are_those_of_the_codes_over_all_documents() -> None:
    documents, queries = corpus()
    task = Task("snippets", documents, 16, 0, 0.5)
    found = measure(METHODS["itq"].load(), task, queries)
    encode = encodings_of(METHODS["itq"].load()(task)).documents
    labels = [documents.labelled().labels, queries.labelled().labels]
    direct = evaluate_codes(encode(queries.inputs), labels[1], encode(documents.inputs), labels[0])
    assert found["p100"] == direct.metrics["P@100"]
    assert found["p100_expected"] == direct.expected["P@100"]
    assert found["map100_expected"] == direct.expected["mAP@100"]
    assert found["distinct_codes"] == direct.distinct_codes
    assert found["asked"] == 40
    assert found["cpu_seconds"] > 0


def test_documents_of_unseen_classes_are_asked_for_and_not_learned_from() -> None:
    documents, queries = corpus()
    assert unseen_classes(documents.classes) == ("food",)
    tasks = []
    load = METHODS["itq"].load()

    def watched(task: Task) -> Encode | Encodings:
        tasks.append(task)
        return load(task)

    whole = Task("snippets", documents, 16, 0, 0.5)
    found = measure(watched, whole, queries, unseen=True)
    (task,) = tasks
    assert task.data.classes == ("algebra", "sea")
    seen = documents.tags[:, [0, 2]].any(axis=1)
    assert task.data.ids == tuple(np.array(documents.ids)[seen])
    food = rows_of(queries, np.flatnonzero(queries.tags[:, documents.classes.index("food")]))
    encode = encodings_of(load(task)).documents
    direct = evaluate_codes(
        encode(food.inputs),
        food.labelled().labels,
        encode(documents.inputs),
        documents.labelled().labels,
    )
    assert found["p100_expected"] == direct.expected["P@100"]
    assert found["asked"] == len(food)


@pytest.mark.parametrize("method", [name for name in METHODS if "sentence" not in name])
def test_every_method_gives_codes_of_any_text(method: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(text_training, "MIN_BATCHES", 0)
    monkeypatch.setattr(cloze, "MIN_STEPS", 20)
    documents, queries = corpus()
    learned = encodings_of(METHODS[method].load()(Task("snippets", documents, 8, 0, 0.5)))
    for encode in (learned.documents, learned.queries):
        codes = encode(queries.inputs)
        assert codes.shape == (40, 1)
        assert codes.dtype == np.uint8
        assert np.array_equal(encode(queries.inputs[:3]), codes[:3])


def test_class_codes_of_queries_are_their_own() -> None:
    documents, queries = corpus()
    task = Task("snippets", documents, 32, 0, 0.5)
    load = METHODS["class-codes"].load()
    learned = load(task)
    assert isinstance(learned, Encodings)
    found = measure(lambda _: learned, task, queries)
    labels = [documents.labelled().labels, queries.labelled().labels]
    of_documents = learned.documents(documents.inputs)
    of_queries = learned.queries(queries.inputs)
    assert not np.array_equal(of_queries, learned.documents(queries.inputs))
    direct = evaluate_codes(of_queries, labels[1], of_documents, labels[0])
    assert found["p100_expected"] == direct.expected["P@100"]


def test_a_cell_is_kept_until_its_code_or_its_documents_change(
    data_root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, work = cell(), tmp_path / "work"
    assert saved_record(one, work, data_root) is None
    record = compute(one, work, data_root)
    assert saved_record(one, work, data_root) == record
    assert saved_record(cell(seed=1), work, data_root) is None
    other = tmp_path / "other"
    write_snippets(other, topic_documents(199), topic_documents(40, seed=1, prefix="test"))
    assert saved_record(one, work, other) is None
    monkeypatch.setattr(cells, "version_of", lambda *_modules: "other code")
    assert saved_record(one, work, data_root) is None


def test_the_table_has_all_methods_and_leaves_what_was_not_computed_empty(
    data_root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command = ["leaderboard", "--datasets", "snippets", "--bits", "16", "--seeds", "2"]
    places = ["--data-root", str(data_root), "--work-dir", str(data_root / "w")]
    only = ["--methods", "lsh", "sentence-itq", "ssb-vae-paper", "--no-unseen"]
    some = ["--methods", "lsh", "--queries", "20"]
    assert main([*command, *places, *only]) == 0
    first = capsys.readouterr()
    assert "| lsh           | 0." in first.out
    assert "| sentence-itq  |       " in first.out
    assert first.out.strip().endswith("0.621   |")  # printed for SSB-VAE at 16 bits, ρ = 0.1

    assert main([*command, *places, *only, "--minutes", "0"]) == 0
    again = capsys.readouterr()
    assert again.out == first.out
    assert again.err == ""
    assert main([*command, *places, *only, "--json"]) == 0
    records = json.loads(capsys.readouterr().out)["records"]
    assert [record["method"] for record in records] == ["lsh", "ssb-vae-paper"] * 2
    out = data_root / "records.json"
    assert main([*command, *places, *only, "--json", str(out)]) == 0
    assert "--json FILE is now --json > FILE" in capsys.readouterr().err
    assert json.loads(out.read_text()) == records
    assert main([*command, *places, *some, "--seeds", "1"]) == 0
    assert "snippets-lsh-16-0-unseen-20-queries" in capsys.readouterr().err


def test_several_data_sets_have_a_table_of_each_method_in_all_of_them(
    data_root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for split, count in (("train", 100), ("test", 30)):
        records = [
            {"id": document.id, "text": document.text or "", "label": document.labels[0]}
            for document in topic_documents(count, seed=2, prefix=split)
        ]
        write_xz(data_root / "dbpedia14_subset" / f"{split}.jsonl.xz", records)
    names = ("snippets", "dbpedia14")
    command = ["leaderboard", "--datasets", *names, "--methods", "lsh", "itq", "--bits", "16"]
    command += ["--seeds", "1", "--data-root", str(data_root), "--work-dir", str(data_root / "w")]
    assert main([*command, "--json"]) == 0
    figures = {
        (record["unseen"], record["method"], record["dataset"]): f"{record['p100_expected']:.3f}"
        for record in json.loads(capsys.readouterr().out)["records"]
    }
    assert main(command) == 0
    _, *tables = capsys.readouterr().out.split("tie-averaged p@100, 16 bits, ")
    for table, unseen in zip(tables, (False, True), strict=True):
        rows = [line.replace("|", " ").split() for line in table.splitlines() if "0." in line]
        assert rows == [
            [method, *(figures[unseen, method, name] for name in names)]
            for method in ("lsh", "itq")
        ]


def test_a_draw_is_the_same_each_time_and_keeps_the_order() -> None:
    documents, _ = corpus()
    some = draw(documents, 50)
    assert some.ids == draw(documents, 50).ids
    rows = [documents.ids.index(id_) for id_ in some.ids]
    assert rows == sorted(rows)
    assert len(rows) == 50
    assert [some.inputs[i] for i in range(50)] == [documents.inputs[row] for row in rows]
    assert draw(documents, 1000) is draw(documents, None) is documents


def test_vectors_name_a_data_set_and_a_file(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["leaderboard", "--vectors", "nothing=vectors.npz", "--minutes", "0"]) == 2
    assert "vectors is 'nothing=vectors.npz'; it must be" in capsys.readouterr().err


def test_sentence_vectors_take_the_place_of_texts(data_root: Path) -> None:
    ids = [f"doc-{i}" for i in range(200)] + [f"test-{i}" for i in range(40)]
    both = [*topic_documents(200), *topic_documents(40, seed=1, prefix="test")]
    place = {name: i for i, name in enumerate(TOPICS)}
    rng = np.random.default_rng(0)
    vectors = rng.normal(scale=0.1, size=(240, 12)).astype(np.float32)
    for row, document in enumerate(both):
        vectors[row, place[document.labels[0]]] += 1
    np.savez(data_root / "v.npz", ids=np.array(ids), vectors=vectors)
    record = compute(
        cell("sentence-itq", n_bits=8), data_root / "w", data_root, data_root / "v.npz"
    )
    assert record["map100_expected"] > 0.8


@pytest.mark.parametrize("method", [name for name in METHODS if "sentence" in name])
def test_methods_of_sentence_vectors_keep_near_vectors_near(
    method: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cibhash, "MIN_BATCHES", 200)
    rng = np.random.default_rng(0)
    centres = rng.normal(size=(4, 16)) * 3
    which = rng.integers(4, size=200)
    vectors = (centres[which] + rng.normal(size=(200, 16))).astype(np.float32)
    no_tags = np.zeros((200, 0), dtype=np.bool_)
    data = TrainingData(tuple(map(str, range(200))), vectors, (), no_tags)
    encode = encodings_of(METHODS[method].load()(Task("snippets", data, 8, 0, 1.0))).documents
    bits = np.unpackbits(encode(vectors), axis=1).astype(int)
    distances = np.abs(bits[:, None] - bits).sum(axis=2)
    is_same = which[:, None] == which
    assert distances[is_same].mean() < distances[~is_same].mean() - 1


@pytest.fixture
def judged_root(tmp_path: Path) -> Path:
    """A data set with judged queries of the three topics, in place of Cranfield."""
    folder = tmp_path / "cranfield"
    texts, queries = topic_documents(90), topic_documents(9, seed=3, prefix="q")
    write_xz(
        folder / "corpus.jsonl.xz",
        [{"id": text.id, "title": "", "text": text.text or ""} for text in texts],
    )
    write_xz(
        folder / "queries.jsonl.xz",
        [{"id": query.id, "text": query.text or ""} for query in queries],
    )
    pairs = [
        f"{query.id}\t{text.id}\t1"
        for query in queries
        for text in texts
        if text.labels == query.labels
    ]
    (folder / "qrels.tsv").write_text("\n".join([*pairs, ""]))
    return tmp_path


def test_judged_queries_have_ndcg_beside_bm25(
    judged_root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command = ["leaderboard", "--datasets", "cranfield", "--bits", "16", "--seeds", "1"]
    command += ["--methods", "itq", "sentence-itq", "ssb-vae", "--data-root", str(judged_root)]
    command += ["--work-dir", str(judged_root / "w")]
    assert main([*command, "--json"]) == 0
    (record,) = json.loads(capsys.readouterr().out)["records"]
    assert (record["method"], record["settings"]) == ("itq", dict(METHODS["itq"].chosen))
    corpus = read_corpus("cranfield", "queries", judged_root)
    encode = encodings_of(METHODS["itq"].load()(Task("x", corpus.data, 16, 0, 0.1))).queries
    codes = [np.unpackbits(encode(some), axis=1) for some in (corpus.queries, corpus.documents)]
    distances = (codes[0][:, None] != codes[1]).sum(axis=2)
    found = evaluate_by_score([-distances.astype(float)], corpus.relevance, ["nDCG@10"])
    assert record["ndcg10_expected"] == pytest.approx(found.expected["nDCG@10"])
    assert main(command) == 0
    printed = capsys.readouterr().out
    assert "nDCG@10 of judged queries, 16 bits" in printed
    rows = [line.replace("|", " ").split() for line in printed.splitlines() if "|" in line]
    assert rows[0] == ["method", "cranfield", "CPU", "s"]
    assert rows[2][0] == "bm25"
    assert float(rows[2][1]) > 0.9
    assert rows[3][:2] == ["itq", f"{record['ndcg10_expected']:.3f}"]


def test_every_method_that_is_tuned_has_four_combinations() -> None:
    for name, entry in METHODS.items():
        if entry.grid:
            combinations = list(entry.combinations())
            assert len(combinations) == 4, name
            assert not entry.chosen or entry.chosen in combinations, name


def test_tuning_prints_the_best_settings_first(
    data_root: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(experiment, "TUNED_ON", ("snippets", "snippets"))
    monkeypatch.setattr(experiment, "TUNED_DOCUMENTS", 120)
    command = ["leaderboard", "--tune", "--methods", "itq", "vdsh-s", "sentence-cibhash"]
    command += ["--data-root", str(data_root), "--work-dir", str(data_root / "w")]
    assert main(command) == 0
    first = capsys.readouterr()
    rows = [line.replace("|", " ").split() for line in first.out.splitlines() if "0." in line]
    assert sorted(float(row[2]) for row in rows) == [2000, 5000, 10000, 20000]
    values = [float(row[3]) for row in rows]
    assert values == sorted(values, reverse=True)
    assert main(command) == 0
    again = capsys.readouterr()
    assert (again.out, again.err) == (first.out, "")


def test_a_model_gives_the_vectors_of_every_data_set(judged_root: Path) -> None:
    (judged_root / "model").mkdir()
    write_model(judged_root / "model")
    folder = read_model(judged_root / "model")
    path = save_sentence_vectors(folder, "cranfield", judged_root / "w", judged_root)
    corpus = read_corpus("cranfield", "queries", judged_root)
    with np.load(path) as arrays:
        vectors = arrays["vectors"]
    model = folder.features
    np.testing.assert_allclose(vectors[:90], model.transform(corpus.documents), atol=1e-5)
    np.testing.assert_allclose(vectors[90:], model.transform_queries(corpus.queries)[0], atol=1e-5)
    assert save_sentence_vectors(folder, "cranfield", judged_root / "w", judged_root) == path
    record = compute(
        Cell("cranfield", "sentence-itq", 8, 0, 0.1), judged_root / "w", judged_root, path
    )
    assert 0 <= record["ndcg10_expected"] <= 1
