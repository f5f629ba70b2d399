"""A file that nobody has described, looked at, learned from, compared and indexed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from corpus.document import Document
from hummingbit.cli import main
from hummingbit.commands.encoders import quickstart
from hummingbit.comparison import CLASSIFIER, Figures, verdict, words_of_sentences
from index.data_folder import DataFolder
from tests.support.corpora import topic_documents


@pytest.fixture(autouse=True)
def _in_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def write_csv(path: Path, *, labelled: bool) -> None:
    documents = topic_documents(150)
    rows = [f'"{one.text}",{one.labels[0]}' if labelled else f'"{one.text}"' for one in documents]
    path.write_text("\n".join(["question,intent" if labelled else "question", *rows]))


@pytest.mark.parametrize("labelled", [True, False])
def test_a_csv_becomes_a_collection(
    tmp_path: Path, labelled: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    write_csv(tmp_path / "My Bank.csv", labelled=labelled)
    assert main(["quickstart", "My Bank.csv", "--no-serve", "--bits", "16"]) == 0
    printed = capsys.readouterr().out
    assert "My Bank.csv: 150 documents, 0 lines skipped" in printed
    assert ("intent: 3 labels" in printed) is labelled
    assert ("ssb-vae" if labelled else "ict") in printed
    for name in ("hamming", "asymmetric", "bm25", "hybrid"):
        assert f"\n{name} " in printed
    assert ("\nclassifier baseline" in printed) is labelled
    with DataFolder(tmp_path / "my-bank-data", writable=False) as folder:
        assert len(folder.collection("my-bank")) == 150
    assert main(["search", "my-bank", "apple bread", "--data-dir", "my-bank-data"]) == 0


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("text\none\n", "has 1 documents with text; codes are learned from 50 or more"),
        ("a,b\n1,2\n", "no field looks like text; it has 'a', 'b'"),
    ],
)
def test_a_file_without_enough_texts_is_refused_in_a_sentence(
    tmp_path: Path, content: str, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "d.csv").write_text(content)
    assert main(["quickstart", "d.csv"]) == 2
    assert message in capsys.readouterr().err
    assert not (tmp_path / "d-data").exists()


def test_a_folder_that_is_there_is_not_touched(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "d-data").mkdir()
    (tmp_path / "d.csv").write_text("text\n")
    assert main(["quickstart", "d.csv"]) == 2
    assert "d-data already exists; name another with --data-dir" in capsys.readouterr().err
    assert list((tmp_path / "d-data").iterdir()) == []


def test_bad_lines_are_skipped_and_the_first_are_shown(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = [json.dumps({"text": one.text}) for one in topic_documents(60)]
    (tmp_path / "d.jsonl").write_text("\n".join([*lines, *["{"] * 5]))
    assert main(["quickstart", "d.jsonl", "--no-serve", "--bits", "8"]) == 0
    printed = capsys.readouterr()
    assert "60 documents, 5 lines skipped" in printed.out
    assert printed.err.count("skipped: d.jsonl:") == 3
    assert "skipped: 2 more lines" in printed.err


def test_options_that_would_change_nothing_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    for option in (["--on-error", "stop"], ["--data-root", "."]):
        with pytest.raises(SystemExit):
            main(["quickstart", "d.csv", *option])
        assert f"there is no option {option[0]}" in capsys.readouterr().err


def test_the_words_of_a_query_are_of_one_sentence_in_its_order() -> None:
    documents = topic_documents(40)
    for document, query in zip(documents, words_of_sentences(documents), strict=True):
        rest = iter((document.text or "").split())
        words = query.split()
        assert 2 <= len(words) <= 6
        assert all(word in rest for word in words)


def test_a_query_of_text_without_spaces_is_a_part_of_it() -> None:
    text = "中国经济新闻联播今天开始了新的一年"
    (query,) = words_of_sentences([Document(id="a", text=text)])
    assert query in text
    assert 4 <= len(query) <= 12


def test_the_verdict_says_which_ranking_and_whether_a_classifier_does_better() -> None:
    figures = {
        "hamming": Figures(0.80, 0.5, 0.4),
        "asymmetric": Figures(0.82, 0.6, 0.5),
        "bm25": Figures(0.70, 0.9, 0.8),
        "hybrid": Figures(0.78, 0.95, 0.9),
        CLASSIFIER: Figures(0.9),
    }
    said = verdict(figures)
    assert "To find a document by some of its words, use hybrid." in said
    assert "keep the texts stored" in said
    assert (
        "A classifier finds more documents of the same label (0.900) than asymmetric does" in said
    )
    without = verdict({name: Figures(None, one.found, one.reciprocal_rank)
                       for name, one in figures.items() if name != CLASSIFIER})  # fmt: skip
    assert "label" not in without


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("My Bank 2.csv", "my-bank-2"),
        ("x.tar.gz", "x"),
        ("Bücher été.tsv", "bucher-ete"),
        ("标题.csv", "documents"),
    ],
)
def test_the_name_of_a_file_names_what_is_made_of_it(name: str, expected: str) -> None:
    assert quickstart._name_of(Path(name)) == expected
