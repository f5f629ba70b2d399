from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from hummingbit.cli import main
from hummingbit.corpus.document import Document
from hummingbit.index.data_folder import DataFolder
from hummingbit.index.engines import kernel
from tests.support.encoders import random_texts
from tests.support.service import make_data_folder, running_service


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = make_data_folder(tmp_path_factory.mktemp("data"))
    documents = [
        Document(id=f"d{i}", text=text, payload={"year": 1990 + i % 10})
        for i, text in enumerate(random_texts(60))
    ]
    with DataFolder(path, writable=True) as folder:
        folder.create_collection("c", encoder="words").upsert(documents)
    return path


@pytest.fixture(scope="module")
def url(data: Path) -> Iterator[str]:
    with running_service(data) as client:
        yield str(client.base_url)


@pytest.mark.parametrize(
    "options",
    [
        ["apple bread"],
        ["apple", "--limit", "3", "--radius", "9"],
        ["--id", "d7", "--no-payload"],
        ["--code", "00000000", "--limit", "5", "--offset", "4", "--with-code"],
        ["rank trace", "--filter", '{"field": "year", "gte": 1995}'],
        ["rank trace", "--rerank"],
    ],
)
def test_a_service_answers_as_the_folder_does(
    data: Path, url: str, options: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["search", "c", *options, "--data-dir", str(data)]) == 0
    expected = capsys.readouterr().out
    assert main(["search", "c", *options, "--url", url]) == 0
    assert capsys.readouterr().out == expected
    assert expected
    answers = []
    for place in (["--data-dir", str(data)], ["--url", url]):
        assert main(["search", "c", *options, "--json", *place]) == 0
        answers.append(json.loads(capsys.readouterr().out))
        assert answers[-1].pop("took_ms") >= 0
    assert answers[0] == answers[1]
    assert answers[0]["hits"]


@pytest.mark.parametrize(
    ("condition", "reason"),
    [
        ('{"field": "yaer", "gte": 1995}', "filter: no document has the field 'yaer'\n"),
        ('{"field": "year", "eq": "1995"}', "'year' holds numbers; \"1995\" finds strings only\n"),
        ('{"field": "year", "gte": 2995}', ""),
    ],
)
def test_why_a_filter_finds_nothing_is_said(
    data: Path, url: str, condition: str, reason: str, capsys: pytest.CaptureFixture[str]
) -> None:
    for place in (["--data-dir", str(data)], ["--url", url]):
        for command, printed in (
            (["search", "c", "rank trace"], ""),
            (["index", "count", "c"], "0\n"),
        ):
            assert main([*command, "--filter", condition, *place]) == 0
            captured = capsys.readouterr()
            assert captured.out == printed
            assert captured.err.endswith(reason)
            assert reason or "filter:" not in captured.err
            assert main([*command, "--filter", condition, "--json", *place]) == 0
            captured = capsys.readouterr()
            assert "".join(json.loads(captured.out).get("warnings", [])).endswith(reason.strip())
            assert "filter:" not in captured.err


def test_a_search_without_hits_says_so(
    data: Path, url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    for place in (["--data-dir", str(data)], ["--url", url]):
        assert main(["search", "c", "--id", "d1", "--offset", "60", *place]) == 0
        captured = capsys.readouterr()
        assert captured.out == ""
        assert captured.err.endswith("the search finds nothing\n")


def test_pages_of_a_service(url: str, capsys: pytest.CaptureFixture[str]) -> None:
    ask = ["search", "c", "apple", "--limit", "7", "--json", "--url", url]
    ids: list[str] = []
    cursor: list[str] = []
    while True:
        assert main([*ask, *cursor]) == 0
        page = json.loads(capsys.readouterr().out)
        ids += [hit["id"] for hit in page["hits"]]
        if page["next_cursor"] is None:
            break
        cursor = ["--cursor", page["next_cursor"]]
    assert len(ids) == len(set(ids)) == 60


def test_what_a_service_refuses_is_said(url: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["search", "absent", "apple", "--url", url]) == 2
    assert "there is no collection 'absent'" in capsys.readouterr().err
    assert main(["ready", "--url", url]) == 0
    assert "ready: 1 collection, 2 encoders" in capsys.readouterr().out


def test_ready_says_that_the_kernel_is_missing(
    url: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(kernel, "native", None)
    assert main(["ready", "--url", url]) == 0
    said = "encoders; without the compiled kernel, so FAISS scans all codes\n"
    assert capsys.readouterr().out.endswith(said)
