"""Codes to search: uniform, clustered, and drawn from a trained encoder."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import numpy.typing as npt

from hummingbit.corpus.lines import ReadError
from hummingbit.corpus.named_sets import load_dataset
from hummingbit.encoder.artifact import load_encoder
from hummingbit.encoder.codes import Codes

CHUNK = 200_000
FOLDER = Path("build/benchmarks/encoders")

Draw = Callable[[int], npt.NDArray[np.bool_]]


def uniform(rng: np.random.Generator, n: int, n_bits: int) -> Codes:
    """Return codes of fair, independent bits, which give an engine no structure to use."""
    return rng.integers(0, 256, (n, n_bits // 8), dtype=np.uint8)


def clustered(rng: np.random.Generator, n: int, n_bits: int) -> Codes:
    """Return codes like those of encoders: fifty clusters of unequal size, few bits flipped."""
    centres = rng.integers(0, 2, (50, n_bits), dtype=np.uint8)
    share = 1 / np.arange(1, 51)

    def draw(size: int) -> npt.NDArray[np.bool_]:
        centre = centres[rng.choice(50, size, p=share / share.sum())]
        return (centre ^ (rng.random((size, n_bits), dtype=np.float32) < 0.03)).astype(np.bool_)

    return _draw_codes(n, draw)


def real(rng: np.random.Generator, n: int, n_bits: int) -> Codes:
    """Return codes drawn from a trained encoder's bit probabilities for real documents.

    The encoder is an SSB-VAE of ten epochs, trained once and reused from ``build/benchmarks``. The
    documents are Google Snippets, or docstrings if those cannot be read.
    """
    try:
        load_dataset("snippets", "train")
        probabilities = _probabilities(n_bits, "snippets")
    except ReadError:
        probabilities = _probabilities(n_bits, "docstrings")

    def draw(size: int) -> npt.NDArray[np.bool_]:
        rows = probabilities[rng.integers(0, len(probabilities), size)]
        return np.asarray(rng.random((size, n_bits), dtype=np.float32) < rows)

    return _draw_codes(n, draw)


KINDS: dict[str, Callable[[np.random.Generator, int, int], Codes]] = {
    "uniform": uniform,
    "clustered": clustered,
    "real": real,
}


def _draw_codes(n: int, draw: Draw) -> Codes:
    parts: Iterator[Codes] = (
        np.packbits(draw(min(CHUNK, n - start)), axis=1) for start in range(0, n, CHUNK)
    )
    return np.concatenate(list(parts))


def _probabilities(n_bits: int, dataset: str) -> npt.NDArray[np.float32]:
    folder = FOLDER / f"{dataset}-{n_bits}"
    if not folder.exists():
        settings = ["--data", dataset, "--bits", str(n_bits), "--epochs", "10"]
        command = [str(Path(sys.executable).with_name("hummingbit")), "train", "ssb-vae"]
        command += [*settings, "--out", str(folder)]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    encoder = load_encoder(folder)
    texts = [document.text or "" for document in load_dataset(dataset, "train")]
    logits = encoder.logits(texts) - encoder.thresholds
    return np.asarray(1 / (1 + np.exp(-logits)), dtype=np.float32)
