from __future__ import annotations

import numpy as np

from experiments.leaderboard.contract import Task
from experiments.leaderboard.spectral_hashing import fit_spectrum, learn
from hummingbit.encoder.codes import unpack_codes
from hummingbit.training.data import gather
from tests.support.corpora import topic_documents


def test_the_lowest_frequencies_come_first() -> None:
    """Along an interval of length 4 the modes 1, 2, 3 have 1/4, 2/4, 3/4, of length 1.5 1/1.5."""
    places = np.array([[0.0, 10.0], [4.0, 11.5], [1.0, 10.2]], dtype=np.float32)
    spectrum = fit_spectrum(places, 4)
    pairs = list(zip(spectrum.directions.tolist(), spectrum.modes.tolist(), strict=True))
    assert pairs == [(0, 1), (0, 2), (1, 1), (0, 3)]
    # cos(k π s) > 0 with s the share of the way: of 1/4 of it cos(π/4), cos(π/2 · …), and so on.
    bits = spectrum.bits(np.array([[1.0, 11.4], [3.9, 10.1]], dtype=np.float32))
    assert bits[0].tolist() == [True, bool(np.cos(np.pi / 2) > 0), False, False]
    assert bits[1].tolist() == [False, True, True, False]


def test_codes_of_other_documents_are_taken_along_the_same_directions() -> None:
    data = gather(topic_documents(200))
    encode = learn(Task("any", data, 16, 0, 0.1))
    all_codes = encode(data.inputs)
    assert all_codes.shape == (200, 2)
    assert np.array_equal(encode(data.inputs[3:7]), all_codes[3:7])
    assert unpack_codes(all_codes).any(axis=0).all()
