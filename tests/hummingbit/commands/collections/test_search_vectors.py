"""``index build --keep-vectors`` and ``search --vector``, in the data folder and at a service."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from hummingbit import Client, Collection
from hummingbit.cli import main
from hummingbit.foundation.errors import InputError
from tests.support.encoders import random_texts
from tests.support.service import make_data_folder, running_service

VECTORS = np.random.default_rng(0).normal(size=(40, 6)).astype(np.float32)
TEXTS = random_texts(40, seed=4)
QUERY = json.dumps((VECTORS[5] + 0.05).tolist())


@pytest.fixture
def source(tmp_path: Path) -> Path:
    path = tmp_path / "documents.jsonl"
    lines = [
        json.dumps({"id": f"d{at}", "vector": VECTORS[at].tolist(), "text": TEXTS[at]})
        for at in range(40)
    ]
    path.write_text("\n".join(lines))
    return path


def test_vectors_are_kept_and_searched(
    tmp_path: Path, source: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data = make_data_folder(tmp_path / "data")
    build = ["index", "build", "c", str(source), "--encoder", "numbers", "--keep-vectors", "int8"]
    where = ["--data-dir", str(data)]
    assert main([*build, *where, "--jobs", "1"]) == 0
    searches = [
        ["--vector", QUERY],
        ["--vector", QUERY, "--rescore", "vectors", "--oversample", "10"],
        [TEXTS[5], "--vector", QUERY, "--with-text"],
    ]
    answers = []
    for options in searches:
        capsys.readouterr()
        assert main(["search", "c", *options, *where]) == 0
        answers.append(capsys.readouterr().out)
    assert [answer.splitlines()[1] for answer in answers[1:]] == ["    d5"] * 2
    with running_service(data) as client:
        url = str(client.base_url)
        for options, expected in zip(searches, answers, strict=True):
            assert main(["search", "c", *options, "--url", url]) == 0
            assert capsys.readouterr().out == expected
        again = ["index", "build", "again", *build[3:]]
        assert main([*again, "--url", url]) == 0
        with Client(url) as own:
            assert own.collection("again")["keep_vectors"] == "int8"
            rescore = {"by": "vectors", "oversample": 10}
            vector = json.loads(QUERY)
            found = own.search("again", vector=vector, rescore=rescore, limit=3)
            (batched,) = own.search_batch(
                "again", [{"vector": vector, "limit": 3}], rescore=rescore
            )
            assert found["hits"] == batched["hits"]
            assert found["hits"][0]["id"] == "d5"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ([], "TEXT: is missing; give a text, --vector, --code or --id"),
        (["--vector", "[1, 2"], "--vector: is not valid JSON"),
        (["--vector", '"x"'], "--vector: is 'x'; it must be a list of numbers"),
        (["--vector", QUERY, "--code", "00"], "code: '00' is not 4 hexadecimal digits"),
        (["--vector", QUERY, "--id", "d1"], "an id goes with no other field"),
        (["--vector", QUERY, "--oversample", "3"], "--oversample: needs --rescore"),
        (["--vector", QUERY, "--rescore", "vectors", "--oversample", "0"], "oversample is 0"),
    ],
)
def test_bad_options_are_refused(
    tmp_path: Path, options: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    data = make_data_folder(tmp_path)
    with Collection.create(data, "c", encoder="numbers") as collection:
        collection.add(VECTORS)
    assert main(["search", "c", *options, "--data-dir", str(data)]) == 2
    assert message in capsys.readouterr().err


def test_a_collection_in_this_process_keeps_and_searches_vectors(tmp_path: Path) -> None:
    data = make_data_folder(tmp_path)
    with Collection.create(data, "c", encoder="numbers", keep_vectors="float16") as collection:
        collection.add([{"vector": VECTORS[at], "text": TEXTS[at]} for at in range(40)])
        query = VECTORS[5] + 0.05
        cosines = VECTORS @ query / np.linalg.norm(VECTORS, axis=1)
        hits = collection.search(query, limit=40, rescore="vectors")
        assert hits.ids == [str(at) for at in np.argsort(-cosines)]
        oversampled = collection.search(
            query, rescore={"by": "vectors", "oversample": 8.0}, limit=5
        )
        assert oversampled.ids == hits.ids[:5]
        both = {"text": TEXTS[5], "vector": query}
        assert collection.search(both).ids[0] == "5"
        for rescore in (
            {"oversample": 3},
            {"by": "vectors", "over": 3},
            {"by": 3},
            {"by": "x", "oversample": "3"},
        ):
            with pytest.raises(InputError, match="it must be a name, or have by"):
                collection.search(query, rescore=rescore)
        with pytest.raises(InputError, match="it may have text, vector and code"):
            collection.search({"vectors": query})
