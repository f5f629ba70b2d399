from __future__ import annotations

import json
from pathlib import Path

import pytest

from hummingbit.cli import main
from tests.support.corpora import write_source, write_xz
from tests.support.encoders import WORDS
from tests.support.models import write_model


def test_queries_of_the_training_split_teach_and_others_are_measured(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_model(tmp_path / "model")
    data = tmp_path / "nfcorpus"
    pairs = [(first, second) for first in WORDS[:10] for second in WORDS[10:]]
    documents = [
        {"id": f"d{row}", "title": "", "text": " ".join(pair)} for row, pair in enumerate(pairs)
    ]
    write_xz(data / "corpus.jsonl.xz", documents)
    # The right answer of a query has its second word and another first one.
    answers = {f"q{row}": f"d{(row + 30) % 100}" for row in range(100)}
    queries = [{"id": f"q{row}", "text": " ".join(pair)} for row, pair in enumerate(pairs)]
    write_xz(data / "train.queries.jsonl.xz", queries[:80])
    write_xz(data / "queries.jsonl.xz", queries[80:])
    qrels = [f"{query}\t{document}\t1" for query, document in answers.items()]
    write_source(data, "train.qrels.tsv.xz", "\n".join(qrels[:80]).encode())
    (data / "qrels.tsv").write_text("\n".join(qrels[80:]))
    out = tmp_path / "records.json"
    command = ["reproduce", "judgements", "--model", f"{tmp_path}/model", "--corpora", "nfcorpus"]
    command += ["--bits", "8", "--seeds", "1", "--data-root", str(tmp_path), "--json", str(out)]
    assert main([*command, "--work-dir", f"{tmp_path}/w"]) == 0
    records = {record["ranking"]: record for record in json.loads(out.read_text())}
    assert set(records) == {"hamming", "asymmetric"}
    for record in records.values():
        assert record["gain"] == pytest.approx(record["after"] - record["before"])
        assert 0 <= record["before"] <= 1
    assert "| nfcorpus | 8 " in capsys.readouterr().out
