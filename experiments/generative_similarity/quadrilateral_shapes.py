"""Eleven quadrilaterals from regular to irregular, their odd variants, and pictures of them.

Source: Sablé-Meyer et al., "Sensitivity to geometric shape regularity in humans and baboons: A
putative signature of human singularity" (PNAS 2021), whose appendix lists the coordinates. All
shapes have about the same size: the side A'B' is 1.5 long except in the square and the rhombus. In
an odd variant the corner B' is moved by 0.3 of the mean distance of corners, along A'B' or around
A'.

Corners are in the order A, B, B', A' around the shape. Coordinates are in units in which a picture
is 3 wide and high; y points down.
"""

from __future__ import annotations

from itertools import combinations
from math import asin

import numpy as np
import numpy.typing as npt

Corners = npt.NDArray[np.float64]
"""Corners of quadrilaterals, shape ``(..., 4, 2)``."""

N_FEATURES = 22
PICTURE_WIDTH = 3.0
ANGLE_TOLERANCE = 4.125
"""Degrees by which equal angles may differ; chosen to reproduce the published features."""
LENGTH_TOLERANCE = 0.0125
"""The largest logarithm of the ratio of equal sides, chosen likewise."""

_DISPLACEMENT = 0.3
# Sides A'A, AB, A'B', BB' and corners A, A', B', B, in the order of the published features.
_SIDES = ((0, 3), (0, 1), (3, 2), (1, 2))
_CORNERS = (0, 3, 2, 1)
_PAIRS_OF_SIDES = ((0, 1), (1, 3), (0, 3), (1, 2), (0, 2), (2, 3))
_PAIRS_OF_CORNERS = ((0, 1), (0, 2), (1, 2), (0, 3), (1, 3), (2, 3))
_SUBPIXELS = 3


def _shape(*corners: tuple[float, float]) -> Corners:
    return np.array([(0.0, 0.0), *corners])


SHAPES: dict[str, Corners] = {
    "square": _shape((1.2602, 0), (1.2602, 1.2602), (0, 1.2602)),
    "rectangle": _shape((1.5, 0), (1.5, 1), (0, 1)),
    "isoTrapezoid": _shape((0.7445, 0), (1.1351, 1.3617), (-0.3648, 1.3617)),
    "parallelogram": _shape((1.5, 0), (2.0172, 0.8958), (0.5172, 0.8958)),
    "losange": _shape((1.3, 0), (2.2076, 0.9306), (0.9076, 0.9306)),
    "kite": _shape((1.0427, 0), (1.0557, 1.0426), (-0.3882, 1.4488)),
    "rightKite": _shape((1.0376, 0), (1.4035, 0.9709), (0, 1.5)),
    "rustedHinge": _shape((1.5, 0), (1.1266, 1.4394), (-0.1021, 0.579)),
    "hinge": _shape((1.5, 0), (1.3594, 1.3339), (0, 0.7)),
    "trapezoid": _shape((0.951, 0), (1.727, 1.2), (0.227, 1.2)),
    "random": _shape((0.7, 0), (1.6092, 1.5269), (0.1604, 1.1387)),
}
"""The shapes by their published names, in the order of people's error rates."""


def odd_variants(corners_42: Corners) -> Corners:
    """Return the shape four times with B' moved, ``(4, 4, 2)``.

    A'B' gets longer, gets shorter, and turns about A' either way; B' always moves by the same
    distance.
    """
    distances = [np.linalg.norm(p - q) for p, q in combinations(corners_42, 2)]
    step = _DISPLACEMENT * float(np.mean(distances))
    pivot = corners_42[3]
    side = corners_42[2] - pivot
    length = float(np.linalg.norm(side))
    angle = 2 * asin(step / 2 / length)
    sides = [side * (length + step) / length, side * (length - step) / length]
    sides += [rotate(side, -angle), rotate(side, angle)]
    variants = np.repeat(corners_42[None], 4, axis=0)
    variants[:, 2] = pivot + np.stack(sides)
    return variants


def rotate(points: Corners, angle: float | npt.NDArray[np.float64]) -> Corners:
    """Rotate points ``(..., 2)`` about the origin by an angle in radians."""
    cos, sin = np.cos(angle), np.sin(angle)
    x, y = points[..., 0], points[..., 1]
    return np.stack([x * cos - y * sin, x * sin + y * cos], axis=-1)


def features(
    corners_42: Corners,
    angle_tolerance: float = ANGLE_TOLERANCE,
    length_tolerance: float = LENGTH_TOLERANCE,
) -> npt.NDArray[np.bool_]:
    """Return the 22 features of a shape: its regularities, ``bool[22]``.

    They are whether each of 4 angles is right, and for each of 6 pairs whether sides are parallel,
    sides are equal, and angles are equal. As in the published features, the angle at A is replaced
    by its supplement, so parallel sides make equal angles and a kite has none.

    Raises:
        ValueError: unless the corners are ``(4, 2)`` and successive corners differ.
    """
    if corners_42.shape != (4, 2):
        raise ValueError(f"corners have shape {list(corners_42.shape)}; it must be [4, 2]")
    ends_4 = corners_42 - np.roll(corners_42, 1, axis=0)
    if not np.hypot(*ends_4.T).all():
        raise ValueError("corners: two successive ones coincide; every side must have a length")
    angles = [_angle_at(corners_42, corner) for corner in _CORNERS]
    sides = [corners_42[end] - corners_42[start] for start, end in _SIDES]
    lengths = [np.log(np.hypot(*side)) for side in sides]
    directions = [np.degrees(np.arctan2(side[1], side[0])) for side in sides]
    supplement_at_A = [180 - angles[0], *angles[1:]]
    regular = [abs(angle - 90) <= angle_tolerance for angle in angles]
    for i, j in _PAIRS_OF_SIDES:
        between = abs(directions[i] - directions[j]) % 180
        regular.append(min(between, 180 - between) <= angle_tolerance)
    regular += [abs(lengths[i] - lengths[j]) <= length_tolerance for i, j in _PAIRS_OF_SIDES]
    for i, j in _PAIRS_OF_CORNERS:
        regular.append(abs(supplement_at_A[i] - supplement_at_A[j]) <= angle_tolerance)
    return np.array(regular, dtype=np.bool_)


def _angle_at(corners_42: Corners, corner: int) -> float:
    """Return the angle between the sides at a corner in degrees, at most 180."""
    u, v = corners_42[(corner + 1) % 4], corners_42[(corner - 1) % 4]
    u, v = u - corners_42[corner], v - corners_42[corner]
    return float(np.degrees(np.arctan2(abs(u[0] * v[1] - u[1] * v[0]), u @ v)))


def place_shape(
    corners_42: Corners, scale_N: npt.NDArray[np.float64], angle_N: npt.NDArray[np.float64]
) -> Corners:
    """Return a shape in these sizes, turned by these angles, ``(N, 4, 2)``.

    The mean of the corners is at the origin.
    """
    centred = corners_42 - corners_42.mean(axis=0)
    return rotate(centred[None] * scale_N[:, None, None], angle_N[:, None])


def draw(corners_N42: Corners, size: int) -> npt.NDArray[np.uint8]:
    """Return pictures ``uint8[N, size, size]``: each shape white inside, the rest black.

    The brightness of a pixel on the border is the share of it that lies inside.
    """
    points = (np.arange(size * _SUBPIXELS) + 0.5) / (size * _SUBPIXELS)
    points = (points - 0.5) * PICTURE_WIDTH
    pictures = np.empty((len(corners_N42), size, size), dtype=np.uint8)
    for picture, corners_42 in zip(pictures, corners_N42, strict=True):
        inside = _inside(corners_42, points)
        shares = inside.reshape(size, _SUBPIXELS, size, _SUBPIXELS).mean(axis=(1, 3))
        picture[:] = np.rint(255 * shares)
    return pictures


def _inside(corners_42: Corners, points: npt.NDArray[np.float64]) -> npt.NDArray[np.bool_]:
    """Return which points of the square grid lie inside, ``bool[y, x]``, by counting crossings."""
    y = points[:, None]
    inside = np.zeros((len(points), len(points)), dtype=np.bool_)
    for start, end in zip(corners_42, np.roll(corners_42, -1, axis=0), strict=True):
        if start[1] == end[1]:
            continue
        spans_y = (start[1] > y) != (end[1] > y)
        crossing = start[0] + (y - start[1]) / (end[1] - start[1]) * (end[0] - start[0])
        inside ^= spans_y & (points[None, :] < crossing)
    return inside
