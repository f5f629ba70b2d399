from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from evaluation.labelling.document_vectors import VectorCache
from tests.support.collections import code_collection, code_documents


def test_concurrent_callers_get_the_same_vectors(tmp_path: Path) -> None:
    collection = code_collection(tmp_path)
    collection.upsert(code_documents([f"{at:04x}" for at in range(2000)]))
    cache = VectorCache()
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda _: cache.of(collection), range(8)))
    assert len({id(vectors) for vectors in found}) == 1
    collection.upsert(code_documents(["ffff"]))
    assert cache.of(collection) is not found[0]
