"""txtai's API over a binary FAISS index, hybrid with texts; runs in an environment of its own.

Run as ``python -m benchmarks.harness.txtai_server PORT`` with the folder of the corpus in
``BENCH_FOLDER``. With ``quantize: 1`` txtai keeps the sign of each number, so codes that go in as
vectors of ±1 come out unchanged. If the folder has ``texts.json``, searches are hybrid: by the
words of these texts, too.
"""

# mypy: ignore-errors

from __future__ import annotations

import json
import os
import sys
import tempfile
from pathlib import Path

import numpy as np

from hummingbit.encoder.artifact import load_encoder

FOLDER = Path(os.environ["BENCH_FOLDER"])
CONFIG = """
path: {index}
writable: false
embeddings:
  method: external
  transform: benchmarks.harness.txtai_server.transform
  quantize: 1
  hybrid: {hybrid}
  faiss:
    components: BFlat
"""
TEXTS = FOLDER / "texts.json"
_encoder = load_encoder(FOLDER / "encoders" / "bench")


def signs(codes):
    """Return a unit vector for each code: the sign of each part is a bit."""
    bits = np.unpackbits(codes, axis=1).astype(np.float32)
    return (bits * 2 - 1) / np.float32(np.sqrt(bits.shape[1]))


def transform(inputs):
    """Encode texts; return inputs that are vectors already as they are."""
    if isinstance(inputs[0], str):
        return signs(_encoder.encode(inputs))
    return np.asarray(inputs, dtype=np.float32)


def main() -> None:
    import uvicorn  # noqa: PLC0415 - in the other environment only
    from txtai import Embeddings  # noqa: PLC0415

    config = {
        "method": "external",
        "transform": transform,
        "quantize": 1,
        "faiss": {"components": "BFlat"},
        "hybrid": TEXTS.exists(),
    }
    embeddings = Embeddings(config)
    documents = signs(np.load(FOLDER / "codes.npy"))
    if TEXTS.exists():
        documents = json.loads(TEXTS.read_text())
    embeddings.index((i, document, None) for i, document in enumerate(documents))
    with tempfile.TemporaryDirectory() as scratch:
        embeddings.config["transform"] = "benchmarks.harness.txtai_server.transform"
        embeddings.save(f"{scratch}/index")
        file = Path(scratch) / "config.yml"
        file.write_text(CONFIG.format(index=f"{scratch}/index", hybrid=str(TEXTS.exists()).lower()))
        os.environ["CONFIG"] = str(file)
        uvicorn.run("txtai.api:app", port=int(sys.argv[1]), log_level="warning")


if __name__ == "__main__":
    main()
