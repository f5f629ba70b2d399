"""Makes the encoder that ships from a table of terms.

    python models/build.py TABLE TEXTS OUT

TABLE is what ``models/distil.py`` writes, TEXTS what ``models/texts.py`` does. A head turns the
vectors of some texts into 256 bits, of which the first 64 and 128 are codes of their own. As rows,
weights and head are linear, they become one row of 256 numbers for each term, kept in 8 bits.
"""

from __future__ import annotations

import hashlib
import json
import sys
from pathlib import Path

import numpy as np

from hummingbit.encoder.analyzers import VISIBLE
from hummingbit.encoder.artifact import write_artifact
from hummingbit.encoder.encoder import Encoder, Layer
from hummingbit.encoder.text_features import Floats, TextFeatures
from hummingbit.foundation.arrays import unit_rows
from hummingbit.training.model_codes import fit_head

N_BITS, SEED = 256, 0
# nDCG@10 of judged queries of cranfield, medline, cacm and nfcorpus is highest from .25 to .55.
HYBRID_WEIGHT = 0.45
MODEL = "all-MiniLM-L6-v2"
# Texts that the head is fitted to.
_TEXTS = 20_000


def read_table(path: Path) -> tuple[TextFeatures, Floats]:
    """Return the features of the terms of a table, and their rows, ``float32[V, 256]``."""
    with np.load(path) as table:
        terms = str(table["terms"]).split("\n")
        rows, weights = table["rows"].astype(np.float32), table["weights"]
    features = TextFeatures(
        terms,
        weighting="log",
        max_words=2,
        idf=np.maximum(weights, 1e-6).astype(np.float32),
        l2_normalize=True,
        analyzer=VISIBLE,
        summary_weight=1.0,
        pieces=True,
        corrections=False,
    )
    return features, unit_rows(rows)


def build(
    features: TextFeatures, rows: Floats, texts: list[str], head: str, weight: float
) -> Encoder:
    """Return the encoder whose head is fitted to `texts`."""
    known = features.add_summaries(features.transform(texts), texts)
    vectors = np.asarray(known @ rows, dtype=np.float32)
    lengths = np.linalg.norm(vectors, axis=1)
    vectors, lengths = vectors[lengths > 0], lengths[lengths > 0]
    layer, thresholds = fit_head(vectors / lengths[:, None], N_BITS, SEED, head)
    combined = Layer(rows @ layer.weight, layer.bias, "identity", "int8")
    # The head's vectors have the length 1; those of texts are as long as the median.
    thresholds = thresholds * np.float32(np.median(lengths))
    return Encoder(features, [combined], thresholds, {}, hybrid_weight=weight)


def main(table: Path, texts_file: Path, out: Path) -> None:
    """Write the artifact."""
    with texts_file.open() as lines:
        texts = [json.loads(line) for line in lines]
    features, rows = read_table(table)
    encoder = build(features, rows, texts[:_TEXTS], "sne", HYBRID_WEIGHT)
    about = {
        "method": "static",
        "model": {"name": MODEL, "license": "Apache-2.0"},
        "trained_on": {
            "documents": len(texts),
            "sha256": hashlib.sha256(texts_file.read_bytes()).hexdigest(),
            "labelled": 0,
            "classes": [],
        },
        "recipe": {"method": "static", "n_bits": N_BITS},
    }
    written = write_artifact(
        out,
        Encoder(
            encoder.features,
            encoder.layers,
            encoder.thresholds,
            about,
            hybrid_weight=encoder.hybrid_weight,
        ),
        texts[:200],
        overwrite=True,
    )
    size = sum(path.stat().st_size for path in out.iterdir())
    print(f"{out}: {len(features.vocabulary):,} terms, {size / 1e6:.1f} MB, {written.fingerprint}")


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:]))
