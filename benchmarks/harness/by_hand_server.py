"""Hybrid search by hand: tantivy and FAISS, joined by reciprocal rank fusion, behind FastAPI.

Run as ``python -m benchmarks.harness.by_hand_server FOLDER``. The folder has ``texts.json``, their
codes in ``codes.npy``, and the encoder in ``encoders/bench``. The address is printed.
"""

from __future__ import annotations

import json
import socket
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import faiss
import numpy as np
import tantivy
import uvicorn
from fastapi import FastAPI
from pydantic import BaseModel

import hummingbit.threads  # noqa: F401 - before the libraries that read the environment
from hummingbit.encoder.artifact import load_encoder

CANDIDATES = 100
CONSTANT = 60
"""That of reciprocal rank fusion."""


class WordSearch:
    """BM25 of texts by tantivy, with English stems; their positions are stored as ids."""

    def __init__(self, texts: Sequence[str]) -> None:
        """Index `texts`."""
        builder = tantivy.SchemaBuilder()
        builder.add_unsigned_field("id", stored=True)
        builder.add_text_field("text", stored=False, tokenizer_name="en_stem", index_option="freq")
        self._index = tantivy.Index(builder.build())
        writer = self._index.writer(num_threads=1)
        for position, text in enumerate(texts):
            writer.add_document(tantivy.Document(id=position, text=text))
        writer.commit()
        writer.wait_merging_threads()
        self._index.reload()
        self._searcher = self._index.searcher()

    def search(self, text: str, k: int) -> list[tuple[float, int]]:
        """Return the scores and the ids of the `k` best texts."""
        query, _ = self._index.parse_query_lenient(text, ["text"])
        hits = self._searcher.search(query, k, count=False).hits
        return [(score, self._searcher.doc(address)["id"][0]) for score, address in hits]


class Body(BaseModel):
    """A request."""

    text: str
    limit: int = 10


def main() -> None:
    folder = Path(sys.argv[1])
    faiss.omp_set_num_threads(1)
    codes, encoder = np.load(folder / "codes.npy"), load_encoder(folder / "encoders" / "bench")
    words = WordSearch(json.loads((folder / "texts.json").read_text()))
    nearest = faiss.IndexBinaryFlat(codes.shape[1] * 8)
    nearest.add(codes)
    app = FastAPI()

    @app.post("/search")
    def search(body: Body) -> dict[str, Any]:
        scores: dict[int, float] = {}
        _, by_codes = nearest.search(encoder.encode_queries([body.text]), CANDIDATES)
        by_words = [id_ for _, id_ in words.search(body.text, CANDIDATES)]
        for ids in (by_codes[0].tolist(), by_words):
            for rank, id_ in enumerate(ids, 1):
                scores[id_] = scores.get(id_, 0.0) + 1 / (CONSTANT + rank)
        best = sorted(scores.items(), key=lambda one: -one[1])[: body.limit]
        return {"hits": [{"id": str(id_), "score": score} for id_, score in best]}

    with socket.create_server(("127.0.0.1", 0)) as listening:
        print(f"http://127.0.0.1:{listening.getsockname()[1]}", flush=True)
        config = uvicorn.Config(app, loop="uvloop", http="httptools", log_level="critical")
        uvicorn.Server(config).run(sockets=[listening])


if __name__ == "__main__":
    main()
