from __future__ import annotations

import json
from pathlib import Path

import pytest

from hummingbit.cli import main
from tests.support.corpora import write_xz
from tests.support.encoders import WORDS
from tests.support.models import write_model


def test_codes_alone_and_with_words_are_compared_and_kept_by_parts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    write_model(tmp_path / "model")
    data = tmp_path / "nfcorpus"
    pairs = [(first, second) for first in WORDS[:10] for second in WORDS[10:]]
    documents = [
        {"id": f"d{row}", "title": "", "text": " ".join(pair)} for row, pair in enumerate(pairs)
    ]
    write_xz(data / "corpus.jsonl.xz", documents)
    queries = [{"id": f"q{row}", "text": " ".join(pairs[row])} for row in range(20)]
    write_xz(data / "queries.jsonl.xz", queries)
    (data / "qrels.tsv").write_text("\n".join(f"q{row}\td{row}\t1" for row in range(20)))
    command = ["reproduce", "model-codes", "--model", f"{tmp_path}/model", "--corpora", "nfcorpus"]
    command += ["--bits", "8", "16", "--seeds", "2", "--data-root", str(tmp_path)]
    command += ["--work-dir", f"{tmp_path}/results", "--json", f"{tmp_path}/records.json"]
    assert main(command) == 0
    records = json.loads((tmp_path / "records.json").read_text())
    seeds: dict[str, list[float]] = {record["ranking"]: [] for record in records}
    for record in records:
        seeds[record["ranking"]].append(record["nDCG@10"])
    assert len(seeds["cosine"]) == len(seeds["bm25, stems"]) == 1
    for name in ("ITQ, 8 bits", "reconstruction, 16 bits and words, weight 0.85"):
        assert len(seeds[name]) == 2
    # Every query is the text of its document.
    assert seeds["bm25, stems"] == seeds["cosine"] == [pytest.approx(1)]
    assert max(seeds["reconstruction, 8 bits"]) < min(
        seeds["reconstruction, 8 bits and words, best weight"]
    )
    first = capsys.readouterr().out
    assert "| reconstruction, 16 bits and words, best weight" in first

    def fails(*_: object) -> None:
        raise AssertionError("a part that is kept was computed again")

    monkeypatch.setattr("experiments.model_codes.experiment.evaluate_by_score", fails)
    assert main(command) == 0
    assert capsys.readouterr().out == first
    assert json.loads((tmp_path / "records.json").read_text()) == records
