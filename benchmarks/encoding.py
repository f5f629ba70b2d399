"""Encoding text: ours beside scikit-learn's vectorizer and a dense forward pass, in one run.

Both compute the same logits from the same weights, on one thread. The peer counts terms with
scikit-learn and multiplies dense rows, which is the usual way to write a forward pass. "floor"
splits the texts at spaces and multiplies the layers after the first, which every such encoder does.
"""

from __future__ import annotations

import argparse
import itertools
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import median

import numpy as np
from sklearn.feature_extraction.text import TfidfVectorizer
from threadpoolctl import threadpool_limits

from hummingbit.corpus.readers import ReadError, read_documents
from hummingbit.encoder.artifact import load_encoder
from hummingbit.encoder.encoder import Encoder, Layer
from hummingbit.encoder.text_features import Floats, TextFeatures
from hummingbit.training.text_features import fit_text_features

Encode = Callable[[Sequence[str]], Floats]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--encoder", type=Path, help="an artifact (default: random weights)")
    parser.add_argument("--data", default="snippets", help="texts (default: %(default)s)")
    parser.add_argument("--rounds", type=int, default=7)
    args = parser.parse_args()
    texts = _texts(args.data)
    encoder = load_encoder(args.encoder) if args.encoder else _random_encoder(texts)
    peer = _dense_peer(encoder)
    # The peer does not normalize to NFKC, so it splits only ASCII texts as ours does.
    ascii_texts = [text for text in texts[:200] if text.isascii()]
    np.testing.assert_allclose(peer(ascii_texts), encoder.logits(ascii_texts), atol=1e-3)
    print(f"{len(texts):,} texts, {_shape(encoder)}, one thread, medians of {args.rounds} rounds")
    print(f"{'texts':>6} {'ours':>12} {'dense peer':>12} {'ratio':>7} {'floor':>12}")
    encoders = {"ours": encoder.logits, "peer": peer, "floor": _floor(encoder)}
    with threadpool_limits(1):
        for batch_size in (1, 1000):
            _compare(encoders, texts, batch_size, args.rounds)


def _compare(
    encoders: dict[str, Encode], texts: Sequence[str], batch_size: int, rounds: int
) -> None:
    """Time all on the same texts, one after the other in every round."""
    calls = 300 if batch_size == 1 else 1
    times: dict[str, list[float]] = {name: [] for name in encoders}
    for number in range(rounds):
        start = number * calls * batch_size % max(1, len(texts) - calls * batch_size)
        batches = [texts[start + i * batch_size :][:batch_size] for i in range(calls)]
        for name, encode in encoders.items():
            times[name].append(median([_seconds(encode, batch) for batch in batches]))
    figures = {name: _figure(median(own), batch_size) for name, own in times.items()}
    ratio = median([b / a for a, b in zip(times["ours"], times["peer"], strict=True)])
    print(
        f"{batch_size:>6} {figures['ours']:>12} {figures['peer']:>12} {ratio:>6.1f}×"
        f" {figures['floor']:>12}"
    )


def _figure(seconds: float, batch_size: int) -> str:
    return f"{seconds * 1e3:.3f} ms" if batch_size == 1 else f"{batch_size / seconds:,.0f}/s"


def _seconds(encode: Encode, texts: Sequence[str]) -> float:
    began = time.perf_counter()
    encode(texts)
    return time.perf_counter() - began


def _texts(source: str) -> list[str]:
    try:
        documents = list(read_documents(source))
    except ReadError as error:
        print(f"{error}\nusing the docstring corpus instead")
        documents = list(read_documents("docstrings"))
    return [document.text for document in documents if document.text]


def _random_encoder(texts: Sequence[str]) -> Encoder:
    """Return an encoder of the usual shape; its speed does not depend on its weights."""
    rng = np.random.default_rng(0)
    features = fit_text_features(texts, max_terms=10_000)
    sizes = (features.dimension, 500, 500, 32)
    layers = [
        Layer(
            weight=rng.normal(size=(inputs, outputs), scale=inputs**-0.5).astype(np.float32),
            bias=np.zeros(outputs, dtype=np.float32),
            activation="identity" if outputs == sizes[-1] else "relu",
        )
        for inputs, outputs in itertools.pairwise(sizes)
    ]
    return Encoder(features, layers, np.zeros(sizes[-1], dtype=np.float32), {})


def _dense_peer(encoder: Encoder) -> Encode:
    features = encoder.features
    if not isinstance(features, TextFeatures) or features.idf is None:
        raise SystemExit(
            "--encoder must be a TF-IDF encoder of texts, which is what the peer computes"
        )
    vectorizer = TfidfVectorizer(vocabulary=list(features.vocabulary), norm=None, use_idf=False)

    def logits(texts: Sequence[str]) -> Floats:
        x = np.log1p(vectorizer.transform(texts).toarray().astype(np.float32)) * features.idf
        x /= np.maximum(np.linalg.norm(x, axis=1, keepdims=True), 1e-12)
        for layer in encoder.layers:
            x = x @ layer.weight + layer.bias
            x = np.maximum(x, 0) if layer.activation == "relu" else x
        return np.asarray(x, dtype=np.float32)

    # With use_idf=False there is nothing to learn, but transform() requires a fitted vectorizer.
    vectorizer.fit([""])
    return logits


def _floor(encoder: Encoder) -> Encode:
    first, *others = encoder.layers

    def logits(texts: Sequence[str]) -> Floats:
        for text in texts:
            text.split()
        x = np.ones((len(texts), first.weight.shape[1]), dtype=np.float32)
        for layer in others:
            x = x @ layer.weight
        return x

    return logits


def _shape(encoder: Encoder) -> str:
    sizes = [
        encoder.layers[0].weight.shape[0],
        *(layer.weight.shape[1] for layer in encoder.layers),
    ]
    return " × ".join(f"{size:,}" for size in sizes)


if __name__ == "__main__":
    main()
