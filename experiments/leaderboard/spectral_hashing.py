"""Spectral hashing: sines along the principal directions, those of the lowest frequencies.

Source: Weiss, Torralba and Fergus, "Spectral Hashing" (2008), section 3.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from encoder.codes import Codes, pack_bits
from encoder.encoder import Inputs
from encoder.features import Floats
from experiments.leaderboard.contract import Encode, Task
from training.data import Rows
from training.linear_codes import fit_pca
from training.pipeline import choose_features


@dataclass(frozen=True)
class Spectrum:
    """B eigenfunctions Φ_k(x) = sin(π/2 + k π (x − a) / (b − a)) of uniform data on [a, b].

    `directions` and `modes` say which principal direction each is along, and its k.
    """

    lowest: Floats
    widths: Floats
    directions: Rows
    modes: Rows

    def bits(self, places: Floats) -> Any:
        """Return which eigenfunctions are above 0, ``bool[N, B]``, for places ``(N, D)``."""
        share = (places - self.lowest)[:, self.directions] / self.widths[self.directions]
        return np.sin(np.pi / 2 + np.pi * self.modes * share) > 0


def fit_spectrum(places: Floats, n_bits: int) -> Spectrum:
    """Return the B eigenfunctions of the least eigenvalues for places ``(N, D)``, D ≤ B.

    λ_k = 1 − exp(−ε²/2 |k π / (b − a)|²) grows with k / (b − a), so ε does not matter. k = 0 is
    constant and left out.
    """
    lowest, highest = places.min(axis=0), places.max(axis=0)
    widths = np.maximum(highest - lowest, np.finfo(np.float32).tiny)
    frequencies = np.arange(1, n_bits + 1)[None, :] / widths[:, None]
    chosen = np.argsort(frequencies, axis=None, kind="stable")[:n_bits]
    directions, places_of_modes = np.unravel_index(chosen, frequencies.shape)
    return Spectrum(lowest, widths, np.asarray(directions), np.asarray(places_of_modes + 1))


def learn(task: Task) -> Encode:
    """Return the codes of spectral hashing along B principal directions."""
    features = choose_features(task.data, np.arange(len(task.data)), max_terms=10_000)
    weight, means = fit_pca(features.transform(task.data.inputs), task.n_bits, task.seed)  # type: ignore[arg-type]

    def places(inputs: Inputs) -> Floats:
        return np.asarray(features.transform(inputs) @ weight - means)  # type: ignore[arg-type]

    spectrum = fit_spectrum(places(task.data.inputs), task.n_bits)

    def encode(inputs: Inputs) -> Codes:
        return pack_bits(spectrum.bits(places(inputs)))

    return encode
