"""A process killed in the middle of its writes loses nothing that it acknowledged."""

from __future__ import annotations

import random
import subprocess
import sys
from pathlib import Path

from index.backend import CollectionBackend
from index.data_folder import DataFolder
from index.records import Query
from tests.support.endless_upserts import code_of

ROOT = Path(__file__).parents[2]


def upsert_and_kill(folder: Path, turn: int, acknowledgements: int) -> int:
    """Kill the process after so many acknowledgements; return how many documents it had written."""
    command = [sys.executable, "-m", "tests.support.endless_upserts", str(folder), str(turn)]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        lines = [process.stdout.readline() for _ in range(acknowledgements)]
        process.kill()
        lines += process.stdout.readlines()
    # The kill may have cut the last line short.
    return int([line for line in lines if line.endswith("\n")][-1])


def check_documents(collection: CollectionBackend, turn: int, acknowledged: int) -> None:
    """All acknowledged documents are there, and of the upsert after them, all or nothing."""
    number = 0
    while (stored := collection.get(f"r{turn}-{number}")) is not None:
        assert stored.code == code_of(number)
        number += 1
    assert acknowledged <= number
    sizes = [1, 2, 3]
    whole = 0
    while whole < number:
        whole += sizes[0]
        sizes = sizes[1:] + sizes[:1]
    assert whole == number


def test_every_acknowledged_document_survives_a_kill(tmp_path: Path) -> None:
    chance = random.Random(0)  # noqa: S311 - it only picks the moment of the kill
    acknowledged: list[int] = []
    for turn in range(4):
        acknowledged.append(upsert_and_kill(tmp_path, turn, chance.randint(1, 120)))
        with DataFolder(tmp_path, writable=True) as data:
            collection = data.collection("words")
            for earlier, number in enumerate(acknowledged):
                check_documents(collection, earlier, number)
            (hits,) = collection.search([Query(code=code_of(0))], 10_000).hits
            assert len(hits) == len(collection)
            assert hits[0].distance == 0
