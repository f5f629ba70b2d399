"""Codewords for classes, chosen far from each other."""

from __future__ import annotations

from functools import cache

import numpy as np
import numpy.typing as npt

from encoder.features import Floats
from training.data import TrainingDataError

_TRIALS_PER_BIT = 40
# A trial with a thousand classes takes some 50 µs.
_MAX_TRIALS = 400_000
# The search minimizes Σ exp(−rate · distance), in which near codewords weigh most.
_RATE = 1.5


@cache
def far_codewords(classes: int, n_bits: int, seed: int) -> Floats:
    """Return distinct codewords of −1 and 1, float32[classes, n_bits], far from each other.

    The search starts at random and flips one bit at a time. A flip that increases
    ``Σ_{c < d} exp(−1.5 · distance(c, d))`` is undone.

    Raises:
        TrainingDataError: if there are more classes than codewords.
    """
    if n_bits < 63 and classes > 2**n_bits:
        problem = f"there are fewer codewords of {n_bits} bits than the {classes} classes"
        raise TrainingDataError(f"n_bits: {problem}; use more bits or a smaller content share")
    rng = np.random.default_rng(seed)
    words = np.where(_draw_distinct(rng, classes, n_bits), 1, -1)
    distances = (words[:, None] != words[None]).sum(axis=2)
    weights = np.exp(-_RATE * np.arange(n_bits + 1))
    for _ in range(min(_TRIALS_PER_BIT * classes * n_bits, _MAX_TRIALS)):
        word, bit = int(rng.integers(classes)), int(rng.integers(n_bits))
        step = words[:, bit] * words[word, bit]
        step[word] = 0
        flipped = distances[word] + step
        if weights[flipped].sum() > weights[distances[word]].sum():
            continue
        flipped[word] = 1  # only the other words must differ from it
        if flipped.all():
            words[word, bit] *= -1
            distances[word] += step
            distances[:, word] += step
    codewords = words.astype(np.float32)
    codewords.flags.writeable = False
    return codewords


def _draw_distinct(rng: np.random.Generator, classes: int, n_bits: int) -> npt.NDArray[np.bool_]:
    words = np.empty((0, n_bits), dtype=np.bool_)
    while len(words) < classes:
        more = rng.random((classes, n_bits)) < 0.5
        words = np.unique(np.concatenate([words, more]), axis=0)
    return rng.permutation(words)[:classes]
