"""The Python of docs/embeddings.md runs, with vectors, texts and pictures as a reader has them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.support.docs.doc_blocks import blocks_of
from tests.support.encoders import random_texts


def pictures() -> dict[str, Any]:
    """Return three pictures, one of them twice: as it is, and smaller and as a JPEG."""
    image = pytest.importorskip("PIL.Image")
    rows, columns = np.mgrid[0:240, 0:320] / 240
    waves = [
        np.sin(3 * rows + 9 * columns),
        np.cos(11 * rows * columns),
        np.sin(20 * rows) * np.cos(5 * columns),
    ]
    shades = [np.uint8(127 + 120 * wave) for wave in waves]
    found = dict(zip(("beach", "forest", "town"), map(image.fromarray, shades), strict=True))
    return {**found, "beach-small": found["beach"].resize((160, 120))}


def test_the_page_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("imagehash")
    pytest.importorskip("pdqhash")
    monkeypatch.chdir(tmp_path)
    vectors = np.random.default_rng(0).normal(size=(30, 384)).astype(np.float32)
    names: dict[str, Any] = {
        "vectors": vectors,
        "texts": [f"{text} number{at}" for at, text in enumerate(random_texts(30))],
        "pictures": pictures(),
    }
    for block in blocks_of("docs/embeddings.md"):
        if block.text.startswith(("import", "packed")):
            exec(compile(block.text, str(block), "exec"), names)  # noqa: S102 - our own docs
    for hits in ("hits", "same"):
        assert set(names[hits].ids) == {"beach", "beach-small"}
    query = names["query"]
    assert names["collection"].search(query, ranking="asymmetric").ids[0] == "3"
    assert names["brought"].search(names["texts"][3], code={"ubinary": names["packed"][3]}).ids[0]
    for collection in ("collection", "brought", "pictures_found", "by_pdq"):
        names[collection].close()
