from __future__ import annotations

import csv
from pathlib import Path

import pytest

from hummingbit.cli import main
from hummingbit.corpus.document import Document
from hummingbit.encoder.artifact import write_artifact
from hummingbit.evaluation.report import read_report
from hummingbit.index.data_folder import DataFolder
from tests.support.encoders import random_texts, text_encoder
from tests.support.service import running_service


def test_questions_become_judged_queries_and_a_report(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data = tmp_path / "data"
    write_artifact(data / "encoders" / "words", text_encoder(), random_texts(40))
    with DataFolder(data, writable=True) as folder:
        documents = [Document(f"d{at}", text) for at, text in enumerate(random_texts(60))]
        folder.create_collection("c", encoder="words").upsert(documents)
    (tmp_path / "questions.txt").write_text("bread flour\n\ntensor matrix\n")
    questions, sheet = str(tmp_path / "questions.txt"), tmp_path / "answers.csv"
    pool = ["label", "pool", "c", questions]
    assert main([*pool, str(sheet), "-n", "4", "--data-dir", str(data)]) == 0
    assert f"label judged c {sheet} --data-dir {data} --out DIR" in capsys.readouterr().out
    with running_service(data) as client:
        there = tmp_path / "there.csv"
        url = str(client.base_url)
        assert main([*pool, str(there), "-n", "4", "--url", url]) == 0
        assert f"label judged c {there} --url {url} --out DIR" in capsys.readouterr().out
    assert there.read_text() == sheet.read_text()
    assert main([*pool, str(sheet), "--data-dir", str(data)]) == 2
    assert "its grades would be lost" in capsys.readouterr().err
    rows = list(csv.DictReader(sheet.read_text(encoding="utf-8-sig").splitlines()))
    assert [row["question"] for row in rows] == ["bread flour"] * 4 + ["tensor matrix"] * 4
    for at, row in enumerate(rows):
        row["grade"] = "" if at == 3 else str(at % 2 * 3)
    # A spreadsheet of another country writes semicolons.
    with sheet.open("w", encoding="utf-8-sig", newline="") as file:
        writer = csv.DictWriter(file, rows[0].keys(), delimiter=";")
        writer.writeheader()
        writer.writerows(rows)
    judged = ["label", "judged", "c", str(sheet), "--data-dir", str(data)]
    assert main([*judged, "--out", questions]) == 2
    assert f"--out: {questions} is a file" in capsys.readouterr().err
    with DataFolder(data, writable=False) as folder:
        annotations = folder.collection("c").annotations
        assert annotations is not None
        assert annotations.judgements() == []
    assert main([*judged, "--out", str(tmp_path / "out")]) == 0
    assert "nDCG@10" in capsys.readouterr().out
    report = read_report(tmp_path / "out" / "report" / "report.json")
    assert report.queries == 2
    answers = [answer.id for query in report.worst_queries for answer in query.answers]
    assert sorted(answers) == sorted(row["document"] for row in rows if row["grade"] == "3")
    sheet.write_text("grade,question,document\nyes,bread flour,d1\n")
    assert main([*judged, "--out", str(tmp_path / "out")]) == 2
    assert "line 2: grade: is 'yes'; it must be a whole number" in capsys.readouterr().err
