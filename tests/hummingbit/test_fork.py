"""What was opened before a fork, as multiprocessing and gunicorn's preload do it."""

from __future__ import annotations

import json
import os
import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from hummingbit import Client, Collection
from tests.support.service import running_service

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")

# Each script runs in a process of its own, because this one has threads.
POOL = """
import json, multiprocessing, sys
from hummingbit import Collection

collection = Collection.create(sys.argv[1], "d", encoder=None)
collection.add(["first"])

def add(number):
    try:
        collection.add([f"w {number}"])
        return "added"
    except Exception as error:
        return f"{type(error).__name__}: {error}"

def ask(call):
    try:
        return repr(eval(call))
    except Exception as error:
        return f"{type(error).__name__}: {error}"

def again(_):
    try:
        with Collection.open(sys.argv[1], "d", read_only=True) as mine:
            return [hit.id for hit in mine.search("first")]
    except Exception as error:
        return f"{type(error).__name__}: {error}"

CALLS = ["len(collection)", "collection.search('first')", "collection.get('0')",
         "collection.delete(['0'])", "collection.count()", "collection.generation",
         "collection.add(['x'], ids=['x'])", "collection.to_pandas()",
         "collection._folder.collection('d')", "collection._folder.collections()"]
with multiprocessing.get_context("fork").Pool(4) as pool:
    added, asked, opened = pool.map(add, range(40)), pool.map(ask, CALLS), pool.map(again, range(2))
collection.add(["last"])
found = [hit.id for hit in collection.search("last")]
print(json.dumps([added, asked, opened, len(collection), found]))
"""


def run(script: str, *arguments: object) -> Any:
    command = [sys.executable, "-c", script, *map(str, arguments)]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert ended.returncode == 0, ended.stderr
    return json.loads(ended.stdout.splitlines()[-1])


def test_a_collection_opened_before_a_fork_refuses_work_in_the_child(tmp_path: Path) -> None:
    added, asked, opened, size, found = run(POOL, tmp_path)
    for answer in added + asked:
        assert "ForkedError" in answer, answer
        assert "was opened before a fork" in answer
        assert "open it again" in answer
    # A child reads what it opens itself, and the parent goes on.
    assert opened == [["0"], ["0"]]
    assert (size, found) == (2, ["1"])


HANDED_OVER = """
import json, os, sys
from hummingbit import Collection

collection = Collection.create(sys.argv[1], "d", encoder=None)
ready, done = os.pipe(), os.pipe()
if not (pid := os.fork()):
    os.read(ready[0], 1)
    with Collection.open(sys.argv[1], "d") as mine:
        mine.add(["of the child"])
    os.write(done[1], b"x")
    os._exit(0)
collection.add(["of the parent"])
collection.close()
os.write(ready[1], b"x")
assert os.waitpid(pid, 0)[1] == 0
with Collection.open(sys.argv[1], "d", read_only=True) as again:
    print(json.dumps(sorted(hit.id for hit in again.search("of the child parent"))))
"""


def test_a_child_writes_once_its_parent_has_closed_the_folder(tmp_path: Path) -> None:
    assert run(HANDED_OVER, tmp_path) == ["0", "1"]


HELD = """
import json, os, sys, threading
from hummingbit import Collection

collection = Collection.create(sys.argv[1], "d", encoder=None)
inside, leave = threading.Event(), threading.Event()

def documents():
    inside.set()
    leave.wait()
    yield "a text"

writer = threading.Thread(target=collection.add, args=(["a text"] * 20_000,))
writer.start()
while not collection._backend._write_lock.locked() and writer.is_alive():
    pass
if not (pid := os.fork()):
    try:
        collection.add(["of the child"])
        status = 1
    except Exception as error:
        status = 0 if "opened before a fork" in str(error) else 2
    os._exit(status)
status = os.waitpid(pid, 0)[1]
writer.join()
print(json.dumps([status, len(collection)]))
"""


def test_a_child_does_not_wait_for_a_lock_that_was_held_at_the_fork(tmp_path: Path) -> None:
    assert run(HELD, tmp_path) == [0, 20_000]


PRELOAD = """
import json, os, sys
from pathlib import Path
from hummingbit.corpus.document import Document
from hummingbit.index.data_folder import DataFolder

folder = DataFolder(Path(sys.argv[1]), writable=True)
notes = folder.collection("notes")
CALLS = ["folder.collection('notes')", "folder.collections()", "folder.aliases()",
         "folder.create_collection('new', n_bits=16)", "folder.drop_collection('notes')",
         "notes.upsert([Document('b', code='0f0f')])", "notes.get('a')", "notes.scroll(1)",
         "notes.set_ranking('hamming')", "notes.stats()", "notes.compact()", "notes.verify()"]
read, write = os.pipe()
if not (pid := os.fork()):
    answers = []
    for call in CALLS:
        try:
            answers.append(repr(eval(call)))
        except Exception as error:
            answers.append(f"{type(error).__name__}: {error}")
    folder.close()
    os.write(write, json.dumps(answers).encode())
    os._exit(0)
os.waitpid(pid, 0)
notes.upsert([Document("b", code="0f0f")])
print(json.dumps([json.loads(os.read(read, 1 << 16)), len(notes)]))
"""


def test_a_data_folder_opened_before_a_fork_refuses_work_in_the_child(tmp_path: Path) -> None:
    """As gunicorn's ``--preload`` does it."""
    with Collection.create(tmp_path, "notes", n_bits=16) as collection:
        collection.add([{"id": "a", "code": "0f0f"}])
    answers, count = run(PRELOAD, tmp_path)
    for answer in answers:
        assert answer.startswith("ForkedError"), answer
    assert count == 2


CLIENT = """
import json, multiprocessing, sys
from hummingbit import AsyncClient, Client, ServedCollection

client = Client(sys.argv[1])
notes = ServedCollection(client, "notes")
ids = [hit["id"] for hit in client.search("notes", id="a")["hits"]]

def ask(_):
    answers = []
    for call in (lambda: client.count("notes"), lambda: notes.search(id="a"),
                 lambda: notes.add(["x"], ids=["x"])):
        try:
            answers.append(repr(call()))
        except Exception as error:
            answers.append(f"{type(error).__name__}: {error}")
    client.close()
    return answers

with multiprocessing.get_context("fork").Pool(2) as pool:
    answers = pool.map(ask, range(4))
print(json.dumps([answers, client.count("notes"), ids]))
"""


def test_a_client_opened_before_a_fork_refuses_work_in_the_child(tmp_path: Path) -> None:
    with Collection.create(tmp_path, "notes", n_bits=16) as collection:
        collection.add([{"id": "a", "code": "0f0f"}])
    with running_service(tmp_path) as http:
        answers, count, ids = run(CLIENT, http.base_url)
    for answer in [text for some in answers for text in some]:
        assert answer.startswith("ServiceError: the client was opened before a fork"), answer
    assert (count, ids) == (1, ["a"])


NUMBERED = """
import json, multiprocessing, sys
from hummingbit import Client, ServedCollection

def add(texts):
    with Client(sys.argv[1]) as client:
        return int(ServedCollection(client, "notes").add(texts))

if __name__ == "__main__":
    with multiprocessing.get_context("fork").Pool(4) as pool:
        print(json.dumps(pool.map(add, [[f"w {at}", f"v {at}"] for at in range(20)], 1)))
"""


def test_processes_that_number_documents_lose_none(tmp_path: Path) -> None:
    Collection.create(tmp_path, "notes", encoder=None).close()
    with running_service(tmp_path) as http:
        assert run(NUMBERED, http.base_url) == [2] * 20
        assert http.post("/v1/collections/notes/documents:count", json={}).json() == {"count": 40}


def test_what_is_open_is_not_sent_to_another_process(tmp_path: Path) -> None:
    with (
        Collection.create(tmp_path, "notes", n_bits=16) as collection,
        Client("http://127.0.0.1:1") as client,
    ):
        for opened, advice in ((collection, "open it there"), (client, "open another there")):
            with pytest.raises(TypeError, match=advice):
                pickle.dumps(opened)
