from __future__ import annotations

import sqlite3
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

from hummingbit.corpus.document import Document
from hummingbit.index.errors import StoreError
from hummingbit.index.schema import Description
from hummingbit.index.store import connections
from hummingbit.index.store import store as blocks
from hummingbit.index.store.store import Store


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "a name with ?#% and é" / "store.sqlite"
    path.parent.mkdir()
    Store.create(path, Description("words", 16))
    return path


def insert(store: Store, *ids: str) -> list[int]:
    documents = [Document(id=id_, code="ffff", payload={"id": id_}) for id_ in ids]
    with store.writing() as transaction:
        transaction.delete(ids)
        rows = transaction.insert(documents, np.full((len(ids), 2), 255, dtype=np.uint8)).rows
        transaction.commit()
    return [int(row) for row in rows]


def break_off(store: Store) -> None:
    with store.writing() as transaction:
        transaction.insert([Document(id="b", code="0000")], np.zeros((1, 2), dtype=np.uint8))
        raise KeyError


def test_what_was_committed_is_there_when_it_is_opened_again(path: Path) -> None:
    with closing(Store(path, writable=True)) as store:
        assert store.description == Description("words", 16)
        assert insert(store, "a", "b") == [1, 2]
        assert insert(store, "a") == [3]
    with closing(Store(path, writable=True)) as store:
        generation, codes, rows, last_row, _ = store.read_codes()
        assert (generation, rows.tolist(), codes.tolist()) == (2, [2, 3], [[255, 255]] * 2)
        assert (last_row, store.count()) == (3, 2)
        assert store.read_rows([1, 2, 3], with_payload=True, with_code=True) == {
            2: ("b", {"id": "b"}, None, b"\xff\xff"),
            3: ("a", {"id": "a"}, None, b"\xff\xff"),
        }
    names = sorted(file.name for file in path.parent.iterdir())
    assert names == ["store.sqlite", "store.sqlite-acknowledged"]


def test_a_row_is_never_given_again(path: Path) -> None:
    with closing(Store(path, writable=True)) as store:
        insert(store, "a", "b")
        with store.writing() as transaction:
            assert transaction.delete(["b", "a", "c"]) == [1, 2]
            transaction.commit()
    with closing(Store(path, writable=True)) as store:
        assert insert(store, "a") == [3]


def test_what_was_not_committed_is_undone(path: Path) -> None:
    with closing(Store(path, writable=True)) as store:
        insert(store, "a")
        with store.writing() as transaction:
            transaction.delete(["a"])
        with pytest.raises(KeyError):
            break_off(store)
        assert store.read_codes()[2].tolist() == [1]
        assert insert(store, "b") == [2]


def test_vectors_and_texts_come_back(path: Path) -> None:
    vector = np.array([1.5, -0.0, 3e-40], dtype=np.float32)
    documents = [Document(id="v", vector=vector), Document(id="t", text="naïve\0 ☃")]
    with closing(Store(path, writable=True)) as store:
        with store.writing() as transaction:
            transaction.insert(documents, np.zeros((2, 2), dtype=np.uint8))
            transaction.commit()
        one, other, missing = store.get("v"), store.get("t"), store.get("x")
    assert one is not None
    assert one.vector is not None
    assert one.vector.tobytes() == vector.tobytes()
    assert (one.text, one.code, one.row) == (None, "0000", 1)
    assert other is not None
    assert (other.text, other.vector) == ("naïve\0 ☃", None)
    assert missing is None


def test_open_for_reading_only_it_shows_what_another_committed_last(path: Path) -> None:
    with closing(Store(path, writable=True)) as writer:
        insert(writer, "a")
        with closing(Store(path, writable=False)) as reader:
            assert reader.read_rows([1, 2, 3]) == {1: ("a", None, None, None)}
            with reader.read_transaction():
                assert reader.generation() == 1
                insert(writer, "a", "b")
                assert reader.read_codes()[0] == 1
                assert reader.read_rows([1, 2, 3]) == {1: ("a", None, None, None)}
            assert reader.read_codes()[0] == 2
            assert reader.read_rows([1, 2, 3]) == {
                2: ("a", None, None, None),
                3: ("b", None, None, None),
            }
            with pytest.raises(StoreError, match="reading only"), reader.writing():
                pass


def test_a_moment_is_of_the_thread_that_asked_for_it(path: Path) -> None:
    with closing(Store(path, writable=True)) as store, ThreadPoolExecutor(1) as pool:
        with store.read_transaction():
            insert(store, "a")
            assert store.generation() == 0
            assert pool.submit(store.generation).result() == 1
        assert store.generation() == 1


def test_threads_share_connections_and_leave_none_open(path: Path) -> None:
    with closing(Store(path, writable=True)) as store:
        insert(store, *(f"d{i}" for i in range(50)))
        for _ in range(3):
            with ThreadPoolExecutor(8) as pool:
                found = list(pool.map(store.get, [f"d{i}" for i in range(50)]))
            assert all(document is not None for document in found)
        assert len(store.connections) <= 8
    with pytest.raises(StoreError, match="is closed"):
        store.get("d1")


def test_more_ids_than_one_statement_takes(path: Path) -> None:
    ids = [f"d{i}" for i in range(1700)]
    with closing(Store(path, writable=True)) as store:
        rows = insert(store, *ids)
        assert len(store.read_rows(rows, with_payload=False)) == 1700
        assert set(store.read_codes_of([*ids, "x"])) == set(ids)


def test_a_later_format_is_refused(path: Path) -> None:
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("UPDATE meta SET value = 6 WHERE key = 'format_version'")
    with pytest.raises(StoreError, match="has format version 6; this hummingbit reads versions 2"):
        Store(path, writable=True)


def test_a_form_of_vectors_that_the_format_does_not_have_is_damage(path: Path) -> None:
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("UPDATE meta SET value = 'int8' WHERE key = 'keep_vectors'")
    with pytest.raises(StoreError, match="is damaged: keep_vectors is 'int8'"):
        Store(path, writable=True)


def test_files_that_are_no_store_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "store.sqlite"
    with pytest.raises(StoreError, match="unable to open"):
        Store(path, writable=True)
    assert not path.exists()
    path.write_bytes(b"")
    with pytest.raises(StoreError, match="is not a hummingbit store"):
        Store(path, writable=True)
    path.write_bytes(b"nonsense" * 1000)
    with pytest.raises(StoreError, match="not a database"):
        Store(path, writable=False)


def damage(path: Path, *statements: str) -> None:
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        for statement in statements:
            connection.execute(statement)


@pytest.mark.parametrize(
    "statement",
    [
        "DELETE FROM codes",
        "UPDATE codes SET codes = x'ffff'",
        "UPDATE codes SET codes = x'fffffffe'",
        "UPDATE codes SET rows = 'text'",
        "DELETE FROM removed",
    ],
)
def test_damaged_blocks_of_codes_are_made_good_by_the_documents(path: Path, statement: str) -> None:
    with closing(Store(path, writable=True)) as store:
        insert(store, "a", "b", "c")
        insert(store, "a")
        whole = store.read_codes()
    damage(path, statement)
    with closing(Store(path, writable=True)) as store:
        found = store.read_codes()
        assert (found.rows.tolist(), found.codes.tolist()) == (
            whole.rows.tolist(),
            whole.codes.tolist(),
        )
        assert len(store.problems) == 1
        store.compact()
        assert store.problems == []
    with closing(Store(path, writable=True)) as store:
        assert store.read_codes().rows.tolist() == [2, 3, 4]
        assert store.problems == []


def test_removed_rows_leave_their_blocks(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(blocks, "BLOCK_ROWS", 16)
    ids = [f"d{i}" for i in range(200)]
    with closing(Store(path, writable=True)) as store:
        for _ in range(5):
            for start in range(0, 200, 7):
                insert(store, *ids[start : start + 7])
        with store.read_transaction() as connection:
            rows = connection.execute("SELECT sum(length(rows)) / 8 FROM codes").fetchone()[0]
            removed = connection.execute("SELECT count(*) FROM removed").fetchone()[0]
        # The last write may have left a little more than the share.
        assert rows == 200 + removed < 300
        assert store.read_codes().rows.tolist() == list(range(801, 1001))
        assert store.problems == []


def test_a_damaged_block_is_made_anew_by_the_writes_that_touch_it(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(blocks, "BLOCK_ROWS", 8)
    with closing(Store(path, writable=True)) as store:
        insert(store, "a", "b", "c")
    damage(path, "UPDATE codes SET codes = x'000000000000'")
    with closing(Store(path, writable=True)) as store:
        insert(store, "a", "b", "e")
        found = store.read_codes()
        assert (found.rows.tolist(), found.codes.tolist()) == ([3, 4, 5, 6], [[255, 255]] * 4)
        assert store.problems == []


def test_documents_that_are_missing_are_noticed(path: Path) -> None:
    with closing(Store(path, writable=True)) as store:
        insert(store, "a", "b")
    damage(path, "DELETE FROM documents WHERE row = 1", "DELETE FROM codes")
    with (
        closing(Store(path, writable=True)) as store,
        pytest.raises(StoreError, match="is damaged: it has 2 documents but 1 codes"),
    ):
        store.read_codes()


@pytest.mark.parametrize("statement", ["DELETE FROM meta WHERE key = 'name'", "DROP TABLE meta"])
def test_a_store_without_its_description_is_refused(path: Path, statement: str) -> None:
    damage(path, statement)
    with pytest.raises(StoreError, match=r"store\.sqlite: "):
        Store(path, writable=True)


def test_a_store_that_is_there_is_not_written_over(path: Path) -> None:
    before = path.read_bytes()
    with pytest.raises(StoreError, match="cannot be written"):
        Store.create(path, Description("other", 8))
    assert path.read_bytes() == before


def test_every_document_can_be_deleted_at_once(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(blocks, "BLOCK_ROWS", 4)
    with closing(Store(path, writable=True)) as store:
        insert(store, *"abcdefghij")
        with store.writing() as changes:
            changes.delete(list("abcdefghij"))
            changes.commit()
        assert store.count() == len(store.read_codes().rows) == 0
        assert insert(store, "a") == [11]
        assert store.read_codes().rows.tolist() == [11]


def test_ids_that_were_read_are_kept_until_the_store_writes(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connections, "IDS_KEPT", 4)
    with closing(Store(path, writable=True)) as writer:
        insert(writer, *(f"d{i}" for i in range(1, 9)))
        everything = {row: (f"d{row}", None, None, None) for row in range(1, 9)}
        with closing(Store(path, writable=False)) as reader:
            for rows in ([1, 2], [2, 3, 99], [4, 5, 6], [7, 1], [8]):
                found = {row: item for row, item in everything.items() if row in rows}
                assert reader.read_ids(rows) == found
            assert len(reader._ids) <= 4 + 2
            insert(writer, "d8")
            assert reader.read_ids([8]) == {8: everything[8]}
            reader.forget_ids()
            assert reader.read_ids([8]) == {}
        assert writer.read_ids([8, 9]) == {9: everything[8]}
        insert(writer, "d8")
        assert writer.read_ids([9, 10]) == {10: everything[8]}
    with pytest.raises(StoreError, match="is closed"):
        writer.read_ids([1])


def test_a_damaged_file_says_what_to_do(path: Path) -> None:
    with closing(Store(path, writable=True)) as store:
        insert(store, *map(str, range(500)))
    size = path.stat().st_size
    with path.open("r+b") as file:
        file.seek(4096)
        file.write(b"\xa5" * (size - 4096))
    remedy = r"`hummingbit index verify NAME` lists what is, and `hummingbit snapshot restore`"
    with (
        pytest.raises(StoreError, match=rf"database disk image is malformed; .*{remedy}"),
        closing(Store(path, writable=True)) as store,
    ):
        store.read_rows(range(1, 500), with_payload=True, with_code=True)
    path.write_bytes(b"no database" * 1000)
    with pytest.raises(StoreError, match=remedy):
        Store(path, writable=True)
