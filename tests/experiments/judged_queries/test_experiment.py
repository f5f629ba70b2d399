from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from experiments.judged_queries.coded_corpora import read_vectors
from experiments.judged_queries.judged_corpora import read_corpus
from hummingbit.cli import main
from hummingbit.corpus.lines import ReadError
from hummingbit.training.teachers import TeacherError
from tests.support.corpora import TOPICS, write_xz


@pytest.fixture
def data_root(tmp_path: Path) -> Path:
    """A judged collection of texts about three topics: a query names two words of one document."""
    rng = np.random.default_rng(0)
    corpus, queries, qrels = [], [], []
    for number in range(60):
        words = rng.permutation(list(TOPICS.values())[number % 3])
        corpus.append({"id": f"d{number}", "title": "", "text": " ".join(words[:6])})
        if number < 9:
            queries.append({"id": f"q{number}", "text": " ".join(words[:2])})
            qrels.append(f"q{number}\td{number}\t{1 + number % 2}\n")
    write_xz(tmp_path / "cisi/corpus.jsonl.xz", corpus)
    write_xz(tmp_path / "cisi/queries.jsonl.xz", queries)
    (tmp_path / "cisi/qrels.tsv").write_text("".join(qrels))
    return tmp_path


def test_every_ranking_is_measured_on_judged_queries(
    data_root: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "found.json"
    given = ["--data-root", data_root, "--work-dir", tmp_path / "work", "--json", out]
    asked = ["--corpora", "cisi", "--methods", "itq", "--bits", 8, "--metrics", "MRR", "nDCG@10"]
    command = ["reproduce", "judged-queries", *asked, *given]
    assert main([str(item) for item in command]) == 0
    printed = capsys.readouterr().out
    assert "MRR; * differs from bm25, stems with p < 0.05" in printed
    records = json.loads(out.read_text())
    names = [record["ranking"] for record in records]
    words = ["bm25", "bm25, stems", "bm25 of collections", "words of hybrids"]
    codes = [
        f"{of} 8, {by}"
        for of in ("itq of lsa", "itq")
        for by in ("hamming", "asymmetric", "hybrid")
    ]
    assert names == [*words, "tf-idf, stems", *codes]
    figures = {record["ranking"]: record for record in records}
    assert figures["bm25, stems"]["Recall@100"] == 1.0
    assert figures["bm25, stems"]["MRR"] > 0.1
    assert "| itq 8, hybrid" in printed


def test_candidates_and_passages_are_ranked_where_they_are_asked_for(
    data_root: Path, tmp_path: Path
) -> None:
    out = tmp_path / "found.json"
    command = ["reproduce", "judged-queries", "--corpora", "cisi", "--methods", "itq", "--bits", 8]
    command += ["--candidates", 60, "--passages", 3]
    command += ["--data-root", data_root, "--work-dir", tmp_path / "work", "--json", out]
    assert main([str(item) for item in command]) == 0
    figures = {record["ranking"]: record for record in json.loads(out.read_text())}
    # All documents are candidates, so the order is that of BM25.
    assert figures["itq 8, 60 candidates by bm25"]["MRR"] == figures["bm25, stems"]["MRR"]
    assert {"itq 8, hamming, passages", "itq 8, asymmetric, passages"} <= figures.keys()


def write_vectors(folder: Path, data_root: Path) -> None:
    """Write vectors in which each query is at a right angle to all documents but one."""
    corpus = read_corpus("cisi", "queries", data_root)
    vectors = np.eye(60, dtype=np.float32)
    np.savez(folder / "cisi-documents.npz", ids=corpus.data.ids[::-1], vectors=vectors[::-1])
    ids = [query.id for query in corpus.query_list]
    np.savez(folder / "cisi-queries.npz", ids=ids, vectors=3 * vectors[: len(ids)])


def test_vectors_of_a_teacher_add_their_cosines_their_codes_and_students(
    data_root: Path, tmp_path: Path
) -> None:
    write_vectors(tmp_path, data_root)
    out = tmp_path / "found.json"
    command = ["reproduce", "judged-queries", "--corpora", "cisi", "--bits", 8, "--json", out]
    command += ["--teacher-vectors", tmp_path, "--students", "mkt"]
    command += ["--data-root", data_root, "--work-dir", tmp_path / "work"]
    assert main([str(item) for item in command]) == 0
    figures = {record["ranking"]: record for record in json.loads(out.read_text())}
    # Query i and document i have the same direction, and document i answers query i.
    assert figures["vectors, cosine"]["MRR"] == 1.0
    coded = [f"{name} of vectors 8" for name in ("itq", "pca-sign", "sne")]
    names = [f"{of}, {by}" for of in coded for by in ("hamming", "asymmetric", "hybrid")]
    assert {*names, "student, mkt 8, hamming", "student, mkt 8, asymmetric"} <= figures.keys()


def test_a_query_without_a_vector_is_named(data_root: Path, tmp_path: Path) -> None:
    write_vectors(tmp_path, data_root)
    np.savez(tmp_path / "cisi-queries.npz", ids=["q0", "q1"], vectors=np.eye(2))
    with pytest.raises(TeacherError, match="no vector for 7 of the 9 documents: 'q2'"):
        read_vectors(read_corpus("cisi", "queries", data_root), tmp_path)


def test_students_need_a_teacher(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["reproduce", "judged-queries", "--students", "mkt"]) != 0
    assert "students need a teacher; add --teacher-vectors DIR" in capsys.readouterr().err


def test_titles_are_queries_for_the_documents_that_have_them(tmp_path: Path) -> None:
    titles = ["Red apple pie", "Green pear", "Red apple pie", ""]
    corpus = [
        {"id": f"d{number}", "title": title, "text": f"text of {number}"}
        for number, title in enumerate(titles)
    ]
    write_xz(tmp_path / "cisi/corpus.jsonl.xz", corpus)
    read = read_corpus("cisi", "titles", tmp_path)
    assert sorted(read.queries) == ["Green pear", "Red apple pie"]
    relevance, rows = read.relevance, np.tile(np.arange(4), (2, 1))
    relevant = relevance.relevant(relevance.query_sets, rows).tolist()
    assert relevant == [[title == query for title in titles] for query in read.queries]


def test_a_corpus_without_titles_has_its_queries(data_root: Path) -> None:
    read = read_corpus("cisi", "titles", data_root)
    assert read.queries == read_corpus("cisi", "queries", data_root).queries
    assert len(read.queries) == 9


@pytest.mark.parametrize(
    ("split", "queries"),
    [("queries", ["is it wet"]), ("queries-development", ["what is the time"])],
)
def test_paraphrases_search_for_one_another(tmp_path: Path, split: str, queries: list[str]) -> None:
    def write(part: str, *pairs: tuple[str, str, int]) -> None:
        records = [{"text1": item, "text2": other, "label": label} for item, other, label in pairs]
        write_xz(tmp_path / f"qqp_pairs/{part}.pairs.jsonl.xz", records)

    write("dev", ("what is the time", "how late is it", 1), ("who am I", "does it rain", 0))
    write(
        "test",
        ("is it wet", "does it rain", 1),
        ("is it wet", "is it raining", 1),
        ("is it dry", "how late is it", 0),
        ("does it rain", "is it raining", 1),
    )
    read = read_corpus("qqp", split, tmp_path)
    assert read.documents == ["how late is it", "does it rain", "is it raining"]
    assert read.queries == queries
    rows = np.arange(3)[None]
    relevant = read.relevance.relevant(read.relevance.query_sets, rows).tolist()
    assert relevant == [[False, True, True] if split == "queries" else [True, False, False]]


@pytest.mark.parametrize(
    ("record", "reason"),
    [
        ({"text1": "a", "text2": 3, "label": 1}, "text2: must be a text, not 3"),
        ({"text1": "a", "text2": "b", "label": "yes"}, "label: must be 0 or 1, not 'yes'"),
        ("a", "text1: must be a text, not None"),
    ],
)
def test_a_malformed_pair_is_named(tmp_path: Path, record: object, reason: str) -> None:
    for part in ("train", "test"):
        write_xz(tmp_path / f"mrpc_pairs/{part}.pairs.jsonl.xz", [record])
    with pytest.raises(ReadError, match=reason):
        read_corpus("mrpc", "queries", tmp_path)
