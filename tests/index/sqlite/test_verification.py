from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

from hummingbit.corpus.document import Document
from hummingbit.index.collection import Collection
from hummingbit.index.errors import StoreError
from hummingbit.index.filters import parse_filter
from hummingbit.index.passages import CodeColumn
from hummingbit.index.records import Query
from hummingbit.index.store.store import Store, verify_store
from tests.support.codes import random_hex
from tests.support.collections import code_collection, code_documents


@pytest.fixture
def path(tmp_path: Path) -> Path:
    with closing(code_collection(tmp_path)) as collection:
        collection.upsert(code_documents(random_hex(np.random.default_rng(0), 300, 16)))
        collection.upsert([Document(id="long", code="ffff", payload={"word": "mark " * 400})])
        collection.delete(["d7", "d8"])
    return tmp_path / "store.sqlite"


def opened(path: Path) -> Collection:
    return Collection(Store(path, writable=True))


def damage(path: Path, *statements: str) -> None:
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        for statement in statements:
            connection.execute(statement)


def flip(path: Path, content: bytes) -> None:
    """Flip a bit in the middle of where `content` lies in the file."""
    raw = bytearray(path.read_bytes())
    place = raw.index(content) + len(content) // 2
    raw[place] ^= 1
    path.write_bytes(raw)


def test_a_whole_collection_has_no_problems(path: Path) -> None:
    with closing(opened(path)) as collection:
        verification = collection.verify()
        assert (verification.documents, verification.problems) == (299, [])
        collection.upsert(code_documents(["0000"], prefix="e"))
        collection.compact()
        assert collection.verify().problems == []


def test_a_flipped_byte_in_a_document_is_found_and_the_others_are_read(path: Path) -> None:
    flip(path, b"mark mark mark mark")
    with closing(opened(path)) as collection:
        assert collection.verify().problems == [
            "document 'long' (row 301) does not match its checksum"
        ]
        with pytest.raises(
            StoreError, match="is damaged: document 'long' does not match its checksum"
        ):
            collection.get("long")
        found = collection.search([Query(id="d3")], 300, with_payload=True).hits[0]
        assert (len(found), found[0].distance) == (299, 0)
        assert collection.count(parse_filter({"field": "at", "lt": 10})) == 8


def test_a_flipped_byte_in_the_codes_is_found_and_made_good(path: Path) -> None:
    with closing(sqlite3.connect(path)) as connection:
        (codes,) = connection.execute("SELECT codes FROM codes ORDER BY first_row").fetchone()
    with closing(opened(path)) as collection:
        expected = collection.search([Query(code="0000")], 300).hits
    flip(path, codes[100:140])
    with closing(opened(path)) as collection:
        assert collection.search([Query(code="0000")], 300).hits == expected
        (problem,) = collection.stats()["problems"]
        assert "does not match its checksum" in problem
        assert collection.verify().problems == [
            "the block of codes from row 1 does not match its checksum"
        ]
        collection.upsert(code_documents(["0000"], prefix="e"))
        collection.compact()
        assert (collection.verify().problems, collection.stats()["problems"]) == ([], [])


@pytest.mark.parametrize(
    ("statement", "problem"),
    [
        ("UPDATE documents SET text = 'x' WHERE row = 5", "document 'd4' (row 5) does not match"),
        ("UPDATE documents SET code = x'00' WHERE row = 5", "document 'd4' (row 5) does not"),
        (
            "UPDATE meta SET value = 7 WHERE key = 'documents'",
            "the store holds 299 documents, not 7 as recorded",
        ),
        (
            "UPDATE sqlite_sequence SET seq = 9",
            "there is a row 301, but the last assigned row is 9",
        ),
        ("DELETE FROM removed WHERE row = 8", "the blocks hold 300 codes; there are 299"),
        (
            "UPDATE removed SET row = 10 WHERE row = 8",
            "the blocks of codes and the documents have different codes",
        ),
        ("DELETE FROM codes WHERE first_row = 301", "the blocks hold 298 codes; there are 299"),
    ],
)
def test_what_was_meddled_with_is_found(path: Path, statement: str, problem: str) -> None:
    with closing(opened(path)) as collection:
        damage(path, statement)
        problems = collection.verify().problems
    assert any(item.startswith(problem) for item in problems), problems


def test_an_index_that_differs_is_found(path: Path) -> None:
    with closing(opened(path)) as collection:
        publication = collection._published_index
        published = publication.current()
        index = published.generation.with_changes(
            published.generation.number,
            np.zeros((0, 2), dtype=np.uint8),
            np.zeros(0, dtype=np.int64),
            np.array([5]),
        )
        publication._published = published._replace(generation=index)
        assert collection.verify().problems == ["the index and the documents have different codes"]


def test_pages_that_sqlite_cannot_read_are_reported(path: Path) -> None:
    raw = bytearray(path.read_bytes())
    raw[4096 * 3 : 4096 * 3 + 64] = b"\xff" * 64
    path.write_bytes(raw)
    store = Store(path, writable=True)
    with closing(store), store.read_transaction() as connection:
        assert any(
            problem.startswith("SQLite: ")
            for problem in verify_store(connection, CodeColumn(2), None).problems
        )


def test_verifying_goes_on_beside_writes(path: Path) -> None:
    def writes(collection: Collection) -> Iterator[int]:
        for step in range(5):
            yield collection.upsert(code_documents(["00ff"], prefix=f"{step}-")).generation

    with closing(opened(path)) as collection:
        for _ in writes(collection):
            assert collection.verify().problems == []
