"""``hummingbit search`` and ``index rank``: rankings and texts."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from hummingbit.cli import main
from hummingbit.encoder.artifact import write_artifact
from tests.support.encoders import random_texts, text_encoder
from tests.support.service import running_service

TEXTS = random_texts(40, seed=3)


@pytest.fixture
def data(tmp_path: Path) -> Path:
    path = tmp_path / "data"
    write_artifact(path / "encoders" / "words", text_encoder(), random_texts(40))
    source = tmp_path / "texts.jsonl"
    lines = [json.dumps({"id": f"d{i}", "text": text}) for i, text in enumerate(TEXTS)]
    source.write_text("\n".join(lines))
    build = ["index", "build", "c", str(source), "--encoder", "words", "--data-dir", str(path)]
    assert main([*build, "--jobs", "1"]) == 0
    return path


def lines_of(capsys: pytest.CaptureFixture[str]) -> list[str]:
    return capsys.readouterr().out.splitlines()


def test_searches_are_ranked_and_show_texts(data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    capsys.readouterr()
    where = ["--data-dir", str(data)]
    search = ["search", "c", "apple vector garlic", "--limit", "5"]
    assert main([*search, *where, "--ranking", "asymmetric", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["ranking"] == "asymmetric"
    assert main([*search, *where, "--ranking", "asymmetric"]) == 0
    lines = lines_of(capsys)
    for rank, (hit, line, details) in enumerate(
        zip(found["hits"], lines[::2], lines[1::2], strict=True), 1
    ):
        # The whole text is one line, so it stands for the document.
        text = TEXTS[int(hit["id"][1:])]
        assert line == f"{rank:>2}  {text}  {hit['confidence']:.0%}"
        assert details == f"    {hit['id']}"
    assert main([*search, *where, "--no-text"]) == 0
    assert all(re.fullmatch(r" \d  d\d+  \d+%", line) for line in lines_of(capsys))


def test_a_hit_shows_its_payload_and_the_words_that_were_asked_for(
    data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source = tmp_path / "offers.jsonl"
    text = f"{' '.join(TEXTS)} garlic quince {' '.join(TEXTS)}"
    source.write_text(json.dumps({"id": "offer", "price": 3.5, "text": text}))
    build = ["index", "build", "offers", str(source), "--encoder", "words"]
    assert main([*build, "--data-dir", str(data), "--jobs", "1"]) == 0
    search = ["search", "offers", "quince"]
    with running_service(data) as client:
        for place in (["--data-dir", str(data)], ["--url", str(client.base_url)]):
            capsys.readouterr()
            assert main([*search, *place]) == 0
            head, price, shown = lines_of(capsys)
            assert re.fullmatch(r" 1  offer  \d+%", head)
            assert price == "    price 3.5"
            assert shown.startswith("    … ")
            assert shown.endswith(" …")
            assert "garlic quince" in shown
            assert len(shown) <= 100
            assert main([*search, *place, "--payload-fields", "price", "text"]) == 0
            assert lines_of(capsys)[1] == "    price 3.5"
            assert main([*search, *place, "--no-payload"]) == 0
            assert len(lines_of(capsys)) == 2


def test_a_collection_is_told_its_ranking(data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    where = ["--data-dir", str(data)]
    search = ["search", "c", "apple vector", "--json"]
    assert main(["index", "rank", "c", "asymmetric", *where]) == 0
    assert lines_of(capsys)[-1] == (
        "c: searches are ranked by asymmetric; in hybrid rankings, codes have the weight 0.5"
    )
    assert main([*search, *where]) == 0
    local = json.loads(capsys.readouterr().out)
    assert local["ranking"] == "asymmetric"
    with running_service(data) as client:
        url = ["--url", str(client.base_url)]
        assert main([*search, *url]) == 0
        remote = json.loads(capsys.readouterr().out)
        assert (remote["ranking"], remote["hits"]) == ("asymmetric", local["hits"])
        assert main(["index", "rank", "c", "hamming", "--weight", "2", *url, "--json"]) == 0
        assert json.loads(capsys.readouterr().out)["hybrid_weight"] == 2
        assert main(["index", "rank", "c", "--weight", "encoder", *url, "--json"]) == 0
        changed = {"collection": "c", "ranking": "hamming", "hybrid_weight": 0.5}
        assert json.loads(capsys.readouterr().out) == changed
        assert main(["index", "rank", "c", "--weight", "0", *url]) == 2
        capsys.readouterr()
        assert main([*search, *url, "--with-text"]) == 0
        shown = json.loads(capsys.readouterr().out)
        assert shown["ranking"] == "hamming"
        assert [hit["text"] for hit in shown["hits"]] == [
            TEXTS[int(hit["id"][1:])] for hit in shown["hits"]
        ]


def test_rankings_that_are_not_there_are_refused(
    data: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    where = ["--data-dir", str(data)]
    with pytest.raises(SystemExit):
        main(["search", "c", "apple", "--ranking", "cosine", *where])
    assert "--ranking: there is no 'cosine'" in capsys.readouterr().err
    assert main(["search", "c", "a", "--ranking", "asymmetric", "--radius", "2", *where]) != 0
    assert "the ranking 'asymmetric' has no radius" in capsys.readouterr().err
