from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from hummingbit.corpus.document import Document
from hummingbit.evaluation.labelling import suggestions
from hummingbit.evaluation.labelling.suggestions import VectorCache
from tests.support.collections import code_collection, code_documents, text_collection


def test_concurrent_callers_get_the_same_vectors(tmp_path: Path) -> None:
    collection = code_collection(tmp_path)
    collection.upsert(code_documents([f"{at:04x}" for at in range(2000)]))
    cache = VectorCache()
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda _: cache.of(collection), range(8)))
    assert len({id(vectors) for vectors in found}) == 1
    collection.upsert(code_documents(["ffff"]))
    assert cache.of(collection) is not found[0]


def test_of_long_texts_fewer_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    collection = text_collection(tmp_path)
    collection.upsert([Document(f"d{at}", "apple bread " * 10) for at in range(300)])
    whole = VectorCache().of(collection).documents
    assert [document.id for document in whole] == [f"d{at}" for at in range(300)]
    monkeypatch.setattr(suggestions, "MAX_CHARACTERS", 120 * 100)
    vectors = VectorCache().of(collection)
    rows = [document.row for document in vectors.documents]
    assert 100 <= len(rows) < 100 + suggestions.READ_AT_ONCE
    assert rows == sorted(set(rows))
    assert len(vectors.vectors) == len(vectors.buckets) == len(rows)
    assert rows == [document.row for document in VectorCache().of(collection).documents]
    # They are drawn from all of the collection.
    assert np.mean(rows) == pytest.approx(np.mean([item.row for item in whole]), rel=0.2)
