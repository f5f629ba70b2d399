"""The settings that the image experiment tries, its ablations, and its two scales."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

COHERENCE = "perception-coherence"

Setting = tuple[float, Mapping[str, Any]]
"""A learning rate and the settings of the objective."""

TEACHER_TEMPERATURE = 0.1
_TEMPERATURES = tuple(
    {"teacher_temperature": teacher, "student_temperature": student}
    for teacher, student in ((TEACHER_TEMPERATURE, 0.3), (0.05, 0.1))
)
_RATES = (5e-3, 1e-2)
_FOUR_RATES: tuple[Setting, ...] = tuple((rate, {}) for rate in (1e-3, 5e-3, 1e-2, 2e-2))
_DISSIMILARITIES: tuple[Setting, ...] = tuple(
    (rate, {"dissimilarity": name}) for rate in _RATES for name in ("cosine", "euclidean")
)
SETTINGS: Mapping[str, tuple[Setting, ...]] = {
    COHERENCE: tuple((rate, t) for rate in _RATES for t in _TEMPERATURES),
    "kd": tuple((rate, {"temperature": t}) for rate in _RATES for t in (2.0, 4.0)),
    "fitnet": _FOUR_RATES,
    "vid": _FOUR_RATES,
    "mkt": _DISSIMILARITIES,
    "pkt": _FOUR_RATES,
    "rkd": tuple((rate, {"angle_weight": w}) for rate in _RATES for w in (0.0, 2.0)),
    "crd": tuple((rate, {"temperature": t}) for rate in _RATES for t in (0.07, 0.2)),
    "fitnet-h": _FOUR_RATES,
    "mkt-h": _DISSIMILARITIES,
    "pkt-h": _FOUR_RATES,
    "hkd": _FOUR_RATES,
}
"""Four candidate settings by method; validation chooses among them."""

ABLATED_TEMPERATURES = (0.001, 0.01, 0.05, 0.1, 0.3, 0.5, 5.0, 10.0)
"""The student's, as in Table 6; the teacher's is :data:`TEACHER_TEMPERATURE`."""
ABLATED_DEPTHS = (1, 2, 3, 4)
"""The student's, as in Table 5; 4 is the whole student."""


@dataclass(frozen=True)
class Scale:
    """The size of a run: `teacher` is widths, blocks, epochs; images are per class, None: all."""

    teacher: tuple[tuple[int, ...], int, int]
    train: int | None
    test: int | None
    validation: int
    epochs: int
    tuning_epochs: int


SCALES = {
    "full": Scale(((64, 128, 256, 512), 2, 30), None, None, 500, 50, 10),
    "small": Scale(((16, 32, 64), 1, 25), 500, 100, 50, 20, 8),
}
