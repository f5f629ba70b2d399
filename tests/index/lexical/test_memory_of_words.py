from __future__ import annotations

import subprocess
import sys

import pytest

from hummingbit.foundation import memory

PROGRAM = """
import random, sys, tempfile
from pathlib import Path
import hummingbit.threads
from hummingbit.corpus.document import Document
from hummingbit.index.data_folder import DataFolder
from hummingbit.index.records import Query

def memory():
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("RssAnon"))

rng = random.Random(0)
letters = "abcdefghijklmnopqrstuvwxyz"
with tempfile.TemporaryDirectory() as path, DataFolder(Path(path), writable=True) as folder:
    collection = folder.create_collection("words", n_bits=0)
    documents = [
        Document(str(at), text=" ".join("".join(rng.choices(letters, k=9)) for _ in range(150)))
        for at in range(1000)
    ]
    collection.upsert(documents[:1])
    collection.search([Query(text="word")], 1)
    print(memory())
    collection.upsert(documents)
    collection.search([Query(text="word")], 1)
    print(memory())
    collection.delete([document.id for document in documents])
    del documents
    collection.compact()
    print(memory())
"""


@pytest.mark.skipif(memory._trim() is None, reason="glibc gives memory back")
def test_compaction_gives_back_the_memory_of_the_words_of_deleted_documents() -> None:
    ran = subprocess.run(
        [sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True
    )
    before, full, after = map(int, ran.stdout.split())
    assert after - before < (full - before) / 3
