"""The codes as files of FAISS over REST, as plain FAISS reads and writes them."""

from __future__ import annotations

import io
import json
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import faiss
import httpx
import numpy as np
import pytest

from hummingbit.corpus.document import Document
from hummingbit.encoder.codes import code_to_hex
from hummingbit.index.data_folder import DataFolder
from tests.support.service import check_problem, running_service, wait_for_job

N, N_BITS = 60, 64
CODES = np.random.default_rng(0).integers(0, 256, (N, N_BITS // 8), dtype=np.uint8)
SEARCH = """
import json, sys
import faiss
import numpy as np

index = faiss.read_index_binary("codes.faiss")
ids = [json.loads(line) for line in open("codes.faiss.ids", encoding="utf-8")]
query = np.frombuffer(bytes.fromhex(sys.argv[1]), np.uint8)
if lists := int(sys.argv[2]):
    faiss.downcast_IndexBinary(index.index).nprobe = lists
distances, found = index.search(query[None], index.ntotal)
print(json.dumps([[ids[n], int(d)] for n, d in zip(found[0], distances[0])]))
"""


@pytest.fixture
def client(tmp_path: Path) -> Iterator[httpx.Client]:
    """A service with a collection ``c`` of codes and an empty one, ``empty``."""
    documents = [Document(f"d{at}, ω", code=code_to_hex(code)) for at, code in enumerate(CODES)]
    with DataFolder(tmp_path / "data", writable=True) as folder:
        folder.create_collection("c", n_bits=N_BITS).upsert(documents)
        folder.create_collection("empty", n_bits=N_BITS)
    with running_service(tmp_path / "data") as client:
        yield client


def neighbours(client: httpx.Client, name: str, code: str) -> list[list[Any]]:
    body = {"code": code, "limit": N}
    answer = client.post(f"/v1/collections/{name}/search", json=body).raise_for_status().json()
    return [[hit["id"], hit["distance"]] for hit in answer["hits"]]


def upload(client: httpx.Client, content: bytes, media_type: str) -> httpx.Response:
    headers = {"content-type": media_type}
    path = "/v1/collections/empty/faiss/documents"
    return client.post(path, content=content, headers=headers)


@pytest.mark.parametrize("lists", [None, 4])
def test_plain_faiss_reads_the_download_and_the_upload_restores_it(
    client: httpx.Client, tmp_path: Path, lists: int | None
) -> None:
    parameters = {} if lists is None else {"lists": lists}
    archive = client.get("/v1/collections/c/faiss", params=parameters).raise_for_status()
    assert archive.headers["content-type"] == "application/zip"
    zipfile.ZipFile(io.BytesIO(archive.content)).extractall(tmp_path)
    query = code_to_hex(CODES[3])
    command = [sys.executable, "-I", "-c", SEARCH, query, str(lists or 0)]
    result = subprocess.run(command, capture_output=True, cwd=tmp_path, check=True)
    found, expected = json.loads(result.stdout), neighbours(client, "c", query)
    assert sorted(found) == sorted(expected)
    assert [distance for _, distance in found] == [distance for _, distance in expected]

    wait_for_job(client, upload(client, archive.content, "application/zip"))
    assert neighbours(client, "empty", query) == expected


def test_an_index_that_faiss_wrote_is_stored_by_its_numbers(client: httpx.Client) -> None:
    index = faiss.IndexBinaryFlat(N_BITS)
    index.add(CODES)
    content = bytes(faiss.serialize_index_binary(index))
    wait_for_job(client, upload(client, content, "application/octet-stream"))
    expected = [[id_[1:].split(",")[0], d] for id_, d in neighbours(client, "c", "00" * 8)]
    assert neighbours(client, "empty", "00" * 8) == expected


def archive_of(**files: bytes) -> bytes:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files.items():
            archive.writestr(name.replace("_", "."), content)
    return stream.getvalue()


def test_bad_uploads_and_parameters_are_refused_and_change_nothing(client: httpx.Client) -> None:
    short = faiss.IndexBinaryFlat(32)
    short.add(CODES[:, :4].copy())
    whole = archive_of(codes_faiss=bytes(faiss.serialize_index_binary(short)))
    for content, media_type, status, said in (
        (b"nonsense", "application/octet-stream", 422, "no file of FAISS"),
        (bytes(faiss.serialize_index_binary(short)), "application/octet-stream", 422, "32 bits"),
        (whole, "application/zip", 422, "the archive lacks codes.faiss.ids"),
        (archive_of(), "application/zip", 422, "the archive lacks codes.faiss"),
        (archive_of(codes_faiss=bytes(100 << 20)), "application/zip", 413, "more than"),
        (b"{}", "application/json", 415, "application/zip"),
    ):
        response = upload(client, content, media_type)
        code = {422: "invalid_request", 413: "body_too_large", 415: "unsupported_media_type"}[
            status
        ]
        assert said in check_problem(response, status, code)["detail"]
    assert client.get("/v1/collections/empty").json()["documents"] == 0
    for lists, said in ((0, "lists"), (N + 1, f"from 1 to {N}")):
        response = client.get("/v1/collections/c/faiss", params={"lists": lists})
        assert said in json.dumps(check_problem(response, 422, "invalid_request"))
