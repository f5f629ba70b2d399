"""Files of unknown layout: what the service finds in them, and the documents that a job stores."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from pydantic import SecretStr

from hummingbit.cli import main
from hummingbit.service.settings import Settings
from tests.support.service import check_problem, make_data_folder, running_service, wait_for_job

HEADERS = {"content-type": "application/octet-stream"}
WORDS = ("bread", "flour", "oven", "matrix", "vector", "proof")
ROWS = [
    {
        "sku": f"p-{at}",
        "description": f"A long description of {WORDS[at % 6]} and of what it is for, number {at}",
        "category": "kitchen" if at % 6 < 3 else "algebra",
        "price": f"{at}.50",
    }
    for at in range(40)
]


def as_csv(rows: list[dict[str, str]], delimiter: str = ";") -> bytes:
    file = io.StringIO()
    writer = csv.DictWriter(file, [*rows[0]], delimiter=delimiter)
    writer.writeheader()
    writer.writerows(rows)
    return file.getvalue().encode()


@pytest.fixture
def client(tmp_path: Path) -> Iterator[httpx.Client]:
    with running_service(make_data_folder(tmp_path)) as client:
        yield client


def post(client: httpx.Client, path: str, content: bytes, **params: Any) -> httpx.Response:
    return client.post(path, content=content, params=params, headers=HEADERS)


def test_a_table_is_surveyed_and_its_documents_are_stored(
    client: httpx.Client, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    content = as_csv(ROWS)
    found = post(client, "/v1/files:survey", content, filename="products.csv").json()
    assert found["documents"] == 40
    assert found["fields"] == ["sku", "description", "category", "price"]
    assert found["text_fields"] == ["description"]
    assert (found["label_field"], found["labels"], found["labelled"]) == ("category", 2, 40)
    assert found["id_field"] == "sku"
    assert found["language"] == "english"
    assert found["sample"][0]["id"] == "p-0"
    # It is what quickstart says.
    (tmp_path / "products.csv").write_bytes(content)
    assert main(["quickstart", str(tmp_path / "products.csv"), "--inspect"]) == 0
    said = capsys.readouterr().out
    assert "category: 2 labels" in said
    assert "sku" in said

    client.put("/v1/collections/products", json={"encoder": None}).raise_for_status()
    path = "/v1/collections/products/documents:file"
    job = wait_for_job(client, post(client, path, content, filename="products.csv"))
    assert job["result"]["written"] == 40
    body = {"text": "flour", "filter": {"field": "category", "eq": "kitchen"}, "limit": 3}
    hits = client.post("/v1/collections/products/search", json=body | {"with_payload": True})
    payload = hits.json()["hits"][0]["payload"]
    assert payload["category"] == "kitchen"
    assert isinstance(payload["price"], float)


def test_few_french_texts_have_no_codes_of_english_words(client: httpx.Client) -> None:
    pytest.importorskip("hummingbit_models")
    sentences = (
        "Le passeport demande une photo récente",
        "La mairie ferme ses portes le samedi",
        "Le marché est sur la place du village",
    )
    # Words that English has, too: the encoder knows three of four.
    lines = [{"contenu": f"{sentences[at % 3]}, avis {at} du service."} for at in range(30)]
    content = "\n".join(json.dumps(line) for line in lines).encode()
    found = post(client, "/v1/files:survey", content, filename="avis.jsonl").json()
    assert (found["language"], found["has_codes"]) == ("french", False)
    assert "words alone" in found["codes"]


def test_a_person_chooses_other_fields(client: httpx.Client) -> None:
    content = "".join(json.dumps(row) + "\n" for row in ROWS).encode()
    chosen = {
        "filename": "products.jsonl",
        "label_field": "price",
        "text_field": ["category", "sku"],
    }
    found = post(client, "/v1/files:survey", content, **chosen).json()
    assert found["text_fields"] == ["category", "sku"]
    assert found["label_field"] == "price"
    assert found["sample"][0]["text"] == "kitchen\np-0"


def test_lines_that_are_no_documents_are_left_out(client: httpx.Client) -> None:
    lines = [json.dumps({"id": "a", "text": "bread and flour"}), "{", json.dumps({"id": "b"})]
    found = post(client, "/v1/files:survey", "\n".join(lines).encode(), filename="a.jsonl").json()
    assert (found["documents"], found["skipped"]) == (1, 2)
    assert found["first_skipped"].startswith("a.jsonl")


def test_what_cannot_be_read_is_a_problem_that_names_the_file(
    client: httpx.Client, tmp_path: Path
) -> None:
    client.put("/v1/collections/c", json={"encoder": None}).raise_for_status()
    for name, content, said in (
        ("a.exe", b"MZ", "must end with one of .jsonl"),
        ("a.csv.gz", b"\x1f\x8b", "must end with one of .jsonl"),
        ("../../etc/passwd", b"root", "must end with one of .jsonl"),
        ("a.json", b"[[[[", "a.json"),
        ("a.csv", b"", "a.csv"),
        ("a.csv", b"a;b\n1;2\n3;4\n", "a.csv"),
    ):
        for path in ("/v1/files:survey", "/v1/collections/c/documents:file"):
            answer = post(client, path, content, filename=name)
            problem = check_problem(answer, 422, "invalid_request")
            assert said in problem["detail"]
            assert str(tmp_path) not in problem["detail"]
    assert client.get("/v1/jobs").json()["jobs"] == []


def test_a_file_may_have_as_many_bytes_as_a_bulk_request(tmp_path: Path) -> None:
    # JSON's escapes and the names of fields make the lines longer than the table.
    content = as_csv(ROWS)
    settings = Settings(max_body_bytes=1000, max_bulk_body_bytes=len(content) + 10)
    with running_service(make_data_folder(tmp_path), settings) as client:
        client.put("/v1/collections/c", json={"encoder": None}).raise_for_status()
        assert post(client, "/v1/files:survey", content, filename="a.csv").status_code == 200
        path = "/v1/collections/c/documents:file"
        check_problem(post(client, path, content, filename="a.csv"), 413, "body_too_large")
        check_problem(
            post(client, "/v1/files:survey", content * 2, filename="a.csv"), 413, "body_too_large"
        )


def test_a_key_that_may_not_write_surveys_nothing(tmp_path: Path) -> None:
    key = SecretStr("r" * 40)
    with running_service(make_data_folder(tmp_path), Settings(read_key=key)) as client:
        headers = HEADERS | {"x-api-key": key.get_secret_value()}
        answer = client.post("/v1/files:survey?filename=a.txt", content=b"bread", headers=headers)
        check_problem(answer, 403, "forbidden")
