"""The recipe of docs/scaling.md encodes in the workers of a cluster as one process does."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import distributed

from hummingbit import Collection, SemanticHasher
from tests.support.corpora import topic_documents
from tests.support.docs.doc_blocks import blocks_of

LocalCluster: Any = distributed.LocalCluster
TEXTS = [document.text or "" for document in topic_documents(300)]


def recipe() -> dict[str, Any]:
    """Return what the block of the page that imports Dask defines."""
    (block,) = (block for block in blocks_of("docs/scaling.md") if "dask" in block.text)
    names: dict[str, Any] = {"__name__": "__main__"}  # so that its functions are sent as they are
    exec(compile(block.text, str(block), "exec"), names)  # noqa: S102 - our own docs
    return names


def test_workers_make_the_collection_that_one_process_makes(tmp_path: Path) -> None:
    hasher = SemanticHasher(n_bits=32, method="lsh").fit(TEXTS)
    documents = [{"id": f"d{at}", "text": text} for at, text in enumerate(TEXTS)]
    batches = (documents[start : start + 40] for start in range(0, len(documents), 40))
    with (
        LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as cluster,
        Collection.create(tmp_path / "there", "c", encoder=hasher) as there,
        Collection.create(tmp_path / "here", "c", encoder=hasher) as here,
    ):
        recipe()["index"](cluster, hasher, batches, there, ahead=3)
        here.add(documents)
        stored = [
            [
                (document.id, document.text, document.code)
                for document in one.backend.all_documents()
            ]
            for one in (here, there)
        ]
    assert stored[0] == stored[1]
    assert len(stored[0]) == 300
