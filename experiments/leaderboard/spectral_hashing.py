"""Spectral hashing: the signs of low-frequency sines along the principal directions.

Source: Weiss, Torralba and Fergus, "Spectral Hashing" (2008), section 3.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from experiments.leaderboard.contract import Encode, Task
from hummingbit.encoder.codes import Codes, pack_bits
from hummingbit.encoder.encoder import Inputs
from hummingbit.encoder.text_features import Floats
from hummingbit.training.data import Rows
from hummingbit.training.linear_codes import fit_pca
from hummingbit.training.pipeline import choose_features


@dataclass(frozen=True)
class Spectrum:
    """B eigenfunctions Φ_k(x) = sin(π/2 + k π (x − a) / (b − a)) of uniform data on [a, b].

    `directions` holds the principal direction of each function, `modes` its k; `lowest` is a and
    `widths` is b − a, by direction.
    """

    lowest: Floats
    widths: Floats
    directions: Rows
    modes: Rows

    def bits(self, coordinates: Floats) -> Any:
        """Return whether each eigenfunction is above 0, ``bool[N, B]``, at N coordinates."""
        share = (coordinates - self.lowest)[:, self.directions] / self.widths[self.directions]
        return np.sin(np.pi / 2 + np.pi * self.modes * share) > 0


def fit_spectrum(coordinates: Floats, n_bits: int) -> Spectrum:
    """Return the B eigenfunctions with the lowest eigenvalues for coordinates ``(N, D)``, D ≤ B.

    λ_k = 1 − exp(−ε²/2 |k π / (b − a)|²) grows with k / (b − a), so ε does not matter. k = 0 is
    constant, and is left out.
    """
    lowest, highest = coordinates.min(axis=0), coordinates.max(axis=0)
    widths = np.maximum(highest - lowest, np.finfo(np.float32).tiny)
    frequencies = np.arange(1, n_bits + 1)[None, :] / widths[:, None]
    lowest_modes = np.argsort(frequencies, axis=None, kind="stable")[:n_bits]
    directions, mode_indices = np.unravel_index(lowest_modes, frequencies.shape)
    return Spectrum(lowest, widths, np.asarray(directions), np.asarray(mode_indices + 1))


def learn(task: Task, *, max_terms: float = 10_000) -> Encode:
    """Fit spectral hashing along B principal directions to the documents of a task."""
    features = choose_features(task.data, np.arange(len(task.data)), max_terms=int(max_terms))
    weight, means = fit_pca(features.transform(task.data.inputs), task.n_bits, task.seed)  # type: ignore[arg-type]

    def coordinates(inputs: Inputs) -> Floats:
        return np.asarray(features.transform(inputs) @ weight - means)  # type: ignore[arg-type]

    spectrum = fit_spectrum(coordinates(task.data.inputs), task.n_bits)

    def encode(inputs: Inputs) -> Codes:
        return pack_bits(spectrum.bits(coordinates(inputs)))

    return encode
