from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

from corpus.document import Document
from index.ingest import ingest
from tests.support.codes import random_hex
from tests.support.collections import code_collection, code_documents


def test_all_documents_are_written_as_one_generation(tmp_path: Path) -> None:
    documents = code_documents(random_hex(np.random.default_rng(0), 2500, 16))
    sizes: list[int] = []
    with closing(code_collection(tmp_path)) as collection:
        report = ingest(collection, iter(documents), progress=sizes.append)
        assert (report.documents, report.generation) == (2500, 1)
        assert report.seconds > 0
        assert sizes == [1000, 1000, 500]
        assert len(collection) == 2500


def test_nothing_is_half_indexed(tmp_path: Path) -> None:
    def documents() -> Iterator[Document]:
        yield from code_documents(["0000"] * 30)
        raise ValueError("corpus.jsonl:31: is not JSON")

    with closing(code_collection(tmp_path)) as collection:
        with pytest.raises(ValueError, match=r"corpus\.jsonl:31"):
            ingest(collection, documents(), batch_size=7)
        assert len(collection) == collection.generation == 0
        assert collection.get("d0") is None
