"""A corpus for comparing services: texts, an encoder, and the codes of documents and queries."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from hummingbit.encoder.artifact import write_artifact
from hummingbit.encoder.codes import Codes
from hummingbit.encoder.encoder import Encoder, Layer
from hummingbit.encoder.text_features import TextFeatures

N_BITS = 64
K = 10
WORDS = 10_000
HIDDEN = 500
TOPICS = 500
WORDS_PER_TEXT = 12
# The noise in a word's weights, as a multiple of the standard deviation between topics.
WORD_NOISE = 0.1
QUERIES = 2_000


@dataclass(frozen=True)
class Corpus:
    """Codes of documents, ``uint8[N, 8]``, and queries as texts and as codes.

    The encoder is in ``encoders/bench`` of `folder`; document i has the id ``i``.
    """

    folder: Path
    codes: Codes
    queries: list[str]
    query_codes: Codes


def kept_corpus(folder: Path, documents: int) -> Corpus:
    """Return the corpus that an earlier run left in `folder`; make it and leave it there if none.

    Raises:
        SystemExit: if the corpus there has another number of documents.
    """
    arrays, queries = folder / "corpus.npz", folder / "queries.json"
    if not arrays.exists():
        folder.mkdir(parents=True, exist_ok=True)
        corpus = make_corpus(folder, documents)
        queries.write_text(json.dumps(corpus.queries))
        with (folder / "unfinished").open("wb") as file:
            np.savez(file, codes=corpus.codes, query_codes=corpus.query_codes)
        (folder / "unfinished").replace(arrays)
    with np.load(arrays) as kept:
        codes, query_codes = kept["codes"], kept["query_codes"]
    if len(codes) != documents:
        raise SystemExit(f"{folder} holds {len(codes):,} documents, not {documents:,}")
    return Corpus(folder, codes, json.loads(queries.read_text()), query_codes)


def make_corpus(folder: Path, documents: int) -> Corpus:
    """Make texts about topics, and an encoder of the usual size that separates the topics.

    Word w belongs to topic w mod TOPICS. The weights are random, but words of a topic have similar
    ones, as after training. So codes of a topic lie together and repeat: of 20,000 a third are
    distinct, as in the demo.
    """
    rng = np.random.default_rng(0)
    encoder = Encoder(
        features=TextFeatures(vocabulary=[_word(i) for i in range(WORDS)], l2_normalize=True),
        layers=[
            _first_layer(rng),
            _layer(rng, HIDDEN, HIDDEN, (2 / HIDDEN) ** 0.5),
            _layer(rng, HIDDEN, N_BITS, (2 / HIDDEN) ** 0.5, last=True),
        ],
        thresholds=np.zeros(N_BITS, dtype=np.float32),
        metadata={"trained_on": "nothing"},
    )
    # Thresholds at the medians make every bit 0 as often as 1.
    sample = _texts(rng, 5_000)
    object.__setattr__(encoder, "thresholds", np.median(encoder.logits(sample), axis=0))
    encoder = write_artifact(folder / "encoders" / "bench", encoder, sample[:200])
    codes = [
        encoder.encode(_texts(rng, min(10_000, documents - start)))
        for start in range(0, documents, 10_000)
    ]
    queries = _texts(rng, QUERIES)
    return Corpus(folder, np.concatenate(codes), queries, encoder.encode(queries))


def _layer(
    rng: np.random.Generator, inputs: int, outputs: int, scale: float, *, last: bool = False
) -> Layer:
    return Layer(
        weight=(rng.normal(size=(inputs, outputs)) * scale).astype(np.float32),
        bias=np.zeros(outputs, dtype=np.float32),
        activation="identity" if last else "relu",
    )


def _first_layer(rng: np.random.Generator) -> Layer:
    topics = rng.normal(size=(TOPICS, HIDDEN))
    noise = rng.normal(size=(WORDS, HIDDEN)) * WORD_NOISE
    weight = topics[np.arange(WORDS) % TOPICS] + noise
    return Layer(weight.astype(np.float32), np.zeros(HIDDEN, dtype=np.float32), "relu")


def _word(number: int) -> str:
    """Return the name of a word: letters alone, as names with digits are read in several forms."""
    return "w" + "".join(chr(ord("a") + int(digit)) for digit in f"{number:05d}")


def _texts(rng: np.random.Generator, count: int) -> list[str]:
    topics = rng.integers(0, TOPICS, (count, 1))
    words = topics + TOPICS * rng.integers(0, WORDS // TOPICS, (count, WORDS_PER_TEXT))
    return [" ".join(map(_word, row)) for row in words.tolist()]
