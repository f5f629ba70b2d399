from __future__ import annotations

import asyncio
import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hummingbit import AsyncClient, Client, ServiceError
from hummingbit.clients.calls import next_poll
from hummingbit.encoder.artifact import write_artifact
from hummingbit.index.data_folder import DataFolder
from tests.support.encoders import random_texts, text_encoder
from tests.support.service import make_data_folder, running_service

N = 25
YEARS = {"field": "year", "gte": 2000}
_numbers = itertools.count()


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    data = make_data_folder(tmp_path_factory.mktemp("data"))
    write_artifact(data / "encoders" / "others", text_encoder(16, seed=3), random_texts(40))
    with running_service(data) as client:
        yield str(client.base_url)


def documents() -> list[dict[str, Any]]:
    texts = random_texts(N)
    return [{"id": f"d{i}", "text": texts[i], "payload": {"year": 1980 + i}} for i in range(N)]


@pytest.fixture
def client(url: str) -> Iterator[Client]:
    with Client(url) as client:
        yield client


@pytest.fixture
def name(client: Client) -> str:
    """Return the name of a collection of 25 texts."""
    name = f"c{next(_numbers)}"
    client.create_collection(name, encoder="words", engine="flat")
    client.bulk(name, documents())
    return name


def test_many_documents(client: Client, name: str) -> None:
    assert client.stats(name)["engine"] == "flat"
    assert client.count(name) == N
    assert client.count(name, YEARS) == 5
    pages = [client.scroll(name, limit=10)]
    while (cursor := pages[-1]["next_cursor"]) is not None:
        pages.append(client.scroll(name, limit=10, cursor=cursor))
    assert [len(page["documents"]) for page in pages] == [10, 10, 5]
    assert [document["id"] for page in pages for document in page["documents"]] == [
        f"d{i}" for i in range(N)
    ]
    assert len(client.scroll(name, filter=YEARS)["documents"]) == 5
    found = client.get_many(name, ["d2", "absent", "d1"])
    assert found["documents"] == [client.get(name, "d2"), client.get(name, "d1")]
    assert found["missing"] == ["absent"]
    for take in (client.get_many, lambda name, ids: client.delete_many(name, ids=ids)):
        with pytest.raises(ServiceError, match="ids") as refused:
            take(name, "d0")
        assert refused.value.status == 422
    assert client.delete_many(name, filter=YEARS)["deleted"] == 5
    assert client.delete_many(name, ids=["d0", "absent"])["deleted"] == 1
    assert client.count(name) == N - 6


def test_bulk_says_what_was_refused(client: Client, name: str) -> None:
    given = [{"id": "d0", "text": "apple"}, {"id": "more", "text": "bread"}, {"id": "bad"}]
    found = client.bulk(name, given, create_only=True)
    assert (found["written"], found["failed"]) == (1, 2)
    refused = [(error["line"], error["id"], error["status"]) for error in found["errors"]]
    assert sorted(refused) == [(1, "d0", 412), (3, "bad", 422)]


def test_an_upsert_that_may_only_create(client: Client, name: str) -> None:
    assert client.upsert(name, [{"id": "x", "text": "apple"}], create_only=True)["upserted"] == 1
    with pytest.raises(ServiceError) as caught:
        client.upsert(name, [{"id": "x", "text": "bread"}], create_only=True)
    assert (caught.value.status, caught.value.code) == (412, "document_exists")


def test_a_bulk_job_is_done_once(client: Client, name: str) -> None:
    given = [{"id": f"j{i}", "text": "apple"} for i in range(10)]
    jobs = [client.bulk_job(name, given, idempotency_key=f"key of {name}") for _ in range(2)]
    assert jobs[0]["id"] == jobs[1]["id"]
    done = client.wait_for(jobs[0], timeout=120)
    assert done["result"] is not None
    assert done["result"]["written"] == 10
    assert client.count(name) == N + 10
    assert jobs[0]["id"] in [job["id"] for job in client.jobs(state="done")]
    with pytest.raises(ServiceError) as caught:
        client.bulk_job(name, given[:1], idempotency_key=f"key of {name}")
    assert caught.value.code == "idempotency_key_reused"
    with pytest.raises(ServiceError) as caught:
        client.cancel_job(done["id"])
    assert caught.value.code == "job_finished"


def test_search_options(client: Client, name: str) -> None:
    fingerprint = client.encoder("words")["fingerprint"]
    found = client.search(
        name,
        "apple bread",
        limit=4,
        offset=1,
        filter=YEARS,
        with_code=True,
        with_cursor=True,
        rerank=True,
        explain=True,
        encoder_fingerprint=fingerprint,
    )
    assert len(found["hits"]) == 4
    assert found["reranked"]
    assert found["next_cursor"] is None
    assert len(found["query_code"]) == 8
    assert all("differing_bits" in hit for hit in found["hits"])
    batch = client.search_batch(
        name, [{"text": "apple"}], filter=YEARS, encoder_fingerprint=fingerprint
    )
    assert len(batch[0]["hits"]) == 5
    for refused in (
        lambda: client.search(name, "apple", encoder_fingerprint="0"),
        lambda: client.search_batch(name, [{"text": "apple"}], encoder_fingerprint="0"),
        lambda: client.upsert(name, documents(), encoder_fingerprint="0"),
        lambda: client.bulk(name, documents(), encoder_fingerprint="0"),
    ):
        with pytest.raises(ServiceError) as caught:
            refused()
        assert caught.value.code == "encoder_mismatch"


def test_aliases_and_reindexing(client: Client, name: str) -> None:
    alias, into = f"{name}-alias", f"{name}-again"
    client.set_alias(alias, name)
    assert client.aliases()[alias] == name
    done = client.wait_for(client.reindex(alias, "others", into, alias), timeout=120)
    found = dict(done["result"] or {})
    assert found.pop("generation") > 0
    assert found == {"collection": into, "documents": N, "alias": alias}
    assert client.aliases()[alias] == into
    assert client.collection(alias)["n_bits"] == 16
    client.remove_alias(alias)
    assert alias not in client.aliases()
    with pytest.raises(ServiceError, match="there is no alias"):
        client.change_aliases([{"remove": {"alias": alias}}])
    failing = client.reindex(name, "numbers", f"{name}-never")
    with pytest.raises(ServiceError, match=r"job .* failed: .*vector") as caught:
        client.wait_for(failing)
    assert caught.value.code == "invalid_request"


def test_upkeep(client: Client, name: str) -> None:
    whole = {"documents": N, "problems": []}
    assert client.verify(name) == whole
    assert client.wait_for(client.verify_job(name), timeout=120)["result"] == whole
    assert client.compact(name)["bytes_after"] > 0
    assert client.index_fields(name, ["year"]) == {"indexed_fields": ["year"]}
    done = client.wait_for(client.index_fields_job(name, []), timeout=120)["result"]
    assert done == {"indexed_fields": []}
    done = client.wait_for(client.compact_job(name), timeout=120)["result"]
    assert set(done or ()) == {"bytes_before", "bytes_after"}


def test_snapshots(client: Client, name: str, tmp_path: Path) -> None:
    made = client.create_snapshot(name)
    job = client.wait_for(client.snapshot_job(name), timeout=120)
    assert job["result"] is not None
    assert [snapshot["id"] for snapshot in client.snapshots(name)] == [
        made["id"],
        job["result"]["id"],
    ]
    assert client.snapshot(made["id"]) == made
    file = tmp_path / "snapshot.tar"
    assert client.download_snapshot(made["id"], file) == made
    assert file.stat().st_size == made["bytes"]
    assert list(tmp_path.iterdir()) == [file]
    with DataFolder(tmp_path / "elsewhere", writable=True) as folder:
        assert len(folder.restore_snapshot(file, "again")) == N
    client.wait_for(client.restore_snapshot(made["id"], f"{name}-restored"), timeout=120)
    assert client.count(f"{name}-restored") == N
    client.delete_snapshot(made["id"])
    for gone in (client.snapshot, lambda id_: client.download_snapshot(id_, file)):
        with pytest.raises(ServiceError) as caught:
            gone(made["id"])
        assert caught.value.code == "unknown_snapshot"


def test_a_snapshot_is_moved_from_one_service_to_another(
    client: Client, name: str, tmp_path: Path
) -> None:
    file = tmp_path / "file"
    made = client.create_snapshot(name)
    client.download_snapshot(made["id"], file)

    async def again(url: str) -> None:
        async with AsyncClient(url) as waiting:
            assert await waiting.upload_snapshot(file) == first
            job = await waiting.wait_for(await waiting.upload_snapshot_job(file), timeout=120)
            assert job["result"] == first

    with running_service(tmp_path / "elsewhere") as other, Client(str(other.base_url)) as moved:
        first = moved.upload_snapshot(file)
        assert first["sha256"] == made["sha256"]
        job = moved.wait_for(moved.upload_snapshot_job(file), timeout=120)
        assert job["result"] == first
        asyncio.run(again(str(other.base_url)))
        moved.wait_for(moved.restore_snapshot(first["id"], "moved"), timeout=120)
        assert moved.count("moved") == N
        file.write_bytes(b"no snapshot")
        with pytest.raises(ServiceError) as caught:
            moved.upload_snapshot(file)
        assert (caught.value.status, caught.value.code) == (422, "invalid_snapshot")
        with pytest.raises(FileNotFoundError):
            moved.upload_snapshot(tmp_path / "absent")


def test_the_asynchronous_client(url: str, client: Client, name: str, tmp_path: Path) -> None:
    async def session() -> None:
        async with AsyncClient(url) as waiting:
            job = await waiting.bulk_job(name, [{"id": "more", "text": "apple"}])
            assert (await waiting.wait_for(job, timeout=120))["state"] == "done"
            assert (await waiting.job(job["id"]))["state"] == "done"
            assert await waiting.count(name) == N + 1
            assert (await waiting.get_many(name, ["absent"]))["missing"] == ["absent"]
            page = await waiting.scroll(name, limit=1)
            assert page["documents"][0]["id"] == "d0"
            assert (await waiting.delete_many(name, ids=["more"]))["deleted"] == 1
            assert (await waiting.verify(name))["problems"] == []
            assert (await waiting.wait_for(await waiting.verify_job(name)))["state"] == "done"
            assert (await waiting.compact(name))["bytes_after"] > 0
            indexed = await waiting.index_fields(name, ["year"])
            assert indexed == {"indexed_fields": ["year"]}
            job = await waiting.index_fields_job(name, [])
            assert (await waiting.wait_for(job))["state"] == "done"
            assert (await waiting.wait_for(await waiting.compact_job(name)))["state"] == "done"
            await waiting.set_alias(f"{name}-alias", name)
            assert (await waiting.aliases())[f"{name}-alias"] == name
            made = await waiting.create_snapshot(name)
            await waiting.download_snapshot(made["id"], tmp_path / "file")
            assert (tmp_path / "file").stat().st_size == made["bytes"]
            assert len(await waiting.snapshots(name)) == 1
            await waiting.delete_snapshot(made["id"])
            with pytest.raises(ServiceError, match="there is no snapshot"):
                await waiting.download_snapshot(made["id"], tmp_path / "file")

    asyncio.run(session())
    assert client.count(name) == N


def test_a_job_is_not_waited_for_longer_than_asked() -> None:
    with pytest.raises(ServiceError) as caught:
        next_poll(1.0, 0.0, "http://127.0.0.1", "a")
    assert caught.value.code == "job_unfinished"
    assert next_poll(1.0, 0.5, "http://127.0.0.1", "a") == 0.5


def test_ids_may_be_numbers(client: Client, name: str) -> None:
    texts = random_texts(3)
    client.upsert(name, [{"id": 1, "text": texts[0]}, {"id": np.int64(2), "text": texts[1]}])
    client.bulk(name, [{"id": 3.0, "text": texts[2]}])
    assert client.get(name, 1)["id"] == "1"
    found = client.get_many(name, (id_ for id_ in np.array([2, 3, 4])))
    assert ([document["id"] for document in found["documents"]], found["missing"]) == (
        ["2", "3"],
        ["4"],
    )
    by_number, by_text = client.search(name, id=2), client.search(name, id="2")
    assert by_number["hits"] == by_text["hits"]
    assert client.update_payload(name, ids=np.array([1, 2]), set={"a": 1})["updated"] == 2
    client.delete(name, 1)
    assert client.delete_many(name, ids=[1, 2, 3])["deleted"] == 2
    with pytest.raises(TypeError, match="document_id is None; it must be a text or a whole number"):
        client.get(name, None)  # type: ignore[arg-type]
    with pytest.raises(ServiceError, match=r"ids"):
        client.get_many(name, [True])
