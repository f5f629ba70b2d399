"""Pictures of Geoclidean programs: random points with lines and circles through them.

Source: Hsu, Wu and Goodman (2022). Points lie in a square of side 16. A drawing is repeated until
all objects that must meet do, and every object is visible. The drawing fills seven tenths of the
picture's width, as in the published ones. Places are complex numbers, x + iy.

Two rules are not in the paper but hold for all published pictures. A point on two objects avoids
places where a point lies already, if it can; and lines that form a closed outline do not cross. One
difference remains: half of our rhomboids are trapezoids, which their program allows, but none of
the ten published ones is.
"""

from __future__ import annotations

from cmath import exp, pi
from itertools import combinations
from math import acos, sqrt
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from experiments.generative_similarity.geoclidean_language import Point, Program

_CANVAS = 16.0
_FILLED_SHARE = 0.7
_LINE_WIDTH = 1.0
# Places closer than this are the same, in units of the canvas.
_TOLERANCE = 1e-6
# The least ink, in pixels, of each object that no other object covers.
_MIN_VISIBLE_INK = 6.0
_ATTEMPTS = 20_000


class Curve(NamedTuple):
    """A line from `a` to `b`, or a circle around `a` through `b`."""

    kind: str
    a: complex
    b: complex


class NoDrawingError(ValueError):
    """No attempt to draw a program gave a picture in which every object is visible."""


def draw_program(program: Program, rng: np.random.Generator, size: int) -> npt.NDArray[np.uint8]:
    """Return a picture of a program, ``uint8[size, size]``, black on white.

    Raises:
        NoDrawingError: if 20,000 attempts fail.
    """
    for _ in range(_ATTEMPTS):
        curves = construct(program, rng)
        if curves is not None and not _outline_crosses(curves):
            ink_CHW = _ink(_scale_to_picture(curves, size), size)
            if _all_visible(ink_CHW):
                light_HW = np.rint(255 * (1 - ink_CHW.max(axis=0)))
                return np.asarray(light_HW, dtype=np.uint8)
    names = ", ".join(statement.name for statement in program)
    raise NoDrawingError(f"program of {names}: no drawing after {_ATTEMPTS:,} attempts")


def construct(program: Program, rng: np.random.Generator) -> list[Curve] | None:
    """Return the visible objects of a program with random points; None if two do not meet.

    A point on an object is uniform along it. A point on two objects is at one of the places where
    they meet, all equally likely.
    """
    objects: dict[str, Curve] = {}
    points: dict[str, complex] = {}
    for statement in program:
        for point in statement.points:
            if point.name not in points:
                coordinate = _locate(point, objects, list(points.values()), rng)
                if coordinate is None:
                    return None
                points[point.name] = coordinate
        a, b = (points[point.name] for point in statement.points)
        if abs(a - b) < _TOLERANCE:
            return None
        objects[statement.name] = Curve(statement.kind, a, b)
    return [objects[statement.name] for statement in program if statement.drawn]


def _locate(
    point: Point, objects: dict[str, Curve], occupied: list[complex], rng: np.random.Generator
) -> complex | None:
    if not point.on:
        return complex(*rng.uniform(0, _CANVAS, size=2))
    first, *others = (objects[name] for name in point.on)
    if others:
        meeting = intersections(first, others[0])
        coordinates = [z for z in meeting if not _is_among(z, occupied)] or meeting
        return coordinates[rng.integers(len(coordinates))] if coordinates else None
    along = rng.random()
    if first.kind == "line":
        return first.a + along * (first.b - first.a)
    return first.a + (first.b - first.a) * exp(2j * pi * along)


def _is_among(coordinate: complex, coordinates: list[complex]) -> bool:
    return any(abs(coordinate - other) < _TOLERANCE for other in coordinates)


def intersections(first: Curve, second: Curve) -> list[complex]:
    """Return the places where two objects meet, at most two; none if they are the same line."""
    if first.kind == "circle" and second.kind == "circle":
        return _circle_intersections(first, second)
    if first.kind == "circle" or second.kind == "circle":
        line, circle = (first, second) if first.kind == "line" else (second, first)
        return _line_circle_intersections(line, circle)
    return _line_intersections(first, second)


def _circle_intersections(first: Curve, second: Curve) -> list[complex]:
    between = second.a - first.a
    distance, r, s = abs(between), abs(first.b - first.a), abs(second.b - second.a)
    if not abs(r - s) < distance < r + s:
        return []
    angle = acos(max(-1.0, min(1.0, (r * r + distance * distance - s * s) / (2 * r * distance))))
    return [first.a + r / distance * between * exp(sign * 1j * angle) for sign in (1, -1)]


def _line_circle_intersections(line: Curve, circle: Curve) -> list[complex]:
    direction, start = line.b - line.a, line.a - circle.a
    square = abs(direction) ** 2
    half = (start * direction.conjugate()).real
    root = half * half - square * (abs(start) ** 2 - abs(circle.b - circle.a) ** 2)
    if root < 0:
        return []
    shares = [(-half + sign * sqrt(root)) / square for sign in (-1, 1)]
    return [line.a + share * direction for share in shares if 0 <= share <= 1]


def _line_intersections(first: Curve, second: Curve) -> list[complex]:
    u, v, between = first.b - first.a, second.b - second.a, second.a - first.a
    cross = _cross(u, v)
    if cross == 0:
        return []
    along_one, along_other = _cross(between, v) / cross, _cross(between, u) / cross
    if not (0 <= along_one <= 1 and 0 <= along_other <= 1):
        return []
    return [first.a + along_one * u]


def _cross(u: complex, v: complex) -> float:
    return u.real * v.imag - u.imag * v.real


def _outline_crosses(curves: list[Curve]) -> bool:
    """Return whether the objects are lines that form a closed outline, and two of them cross."""
    ends = [end for curve in curves for end in (curve.a, curve.b)]
    closed = all(sum(abs(end - other) < _TOLERANCE for other in ends) == 2 for end in ends)
    if not closed or any(curve.kind != "line" for curve in curves):
        return False
    return any(
        not _is_among(coordinate, ends)
        for first, second in combinations(curves, 2)
        for coordinate in intersections(first, second)
    )


def _scale_to_picture(curves: list[Curve], size: int) -> list[Curve]:
    """Move and scale the objects so that they fill the middle of the picture."""
    corners: list[complex] = []
    for curve in curves:
        reach = 0.0 if curve.kind == "line" else abs(curve.b - curve.a)
        ends = (curve.a, curve.b) if curve.kind == "line" else (curve.a,)
        corners += [end + reach * corner for end in ends for corner in (1 + 1j, -1 - 1j)]
    x, y = [corner.real for corner in corners], [corner.imag for corner in corners]
    scale = _FILLED_SHARE * size / max(max(x) - min(x), max(y) - min(y))
    middle = complex(min(x) + max(x), min(y) + max(y)) / 2
    centre = complex(size, size) / 2
    return [
        Curve(kind, (a - middle) * scale + centre, (b - middle) * scale + centre)
        for kind, a, b in curves
    ]


def _ink(curves: list[Curve], size: int) -> npt.NDArray[np.float64]:
    """Return the darkness of each object at each pixel, ``[objects, size, size]`` from 0 to 1."""
    coordinates = np.arange(size) + 0.5
    z_HW = coordinates[None, :] + 1j * coordinates[:, None]
    distances = []
    for kind, a, b in curves:
        if kind == "circle":
            distances.append(np.abs(np.abs(z_HW - a) - abs(b - a)))
            continue
        along = ((z_HW - a) * (b - a).conjugate()).real / abs(b - a) ** 2
        distances.append(np.abs(z_HW - a - np.clip(along, 0, 1) * (b - a)))
    ink: npt.NDArray[np.float64] = np.clip((_LINE_WIDTH + 1) / 2 - np.stack(distances), 0, 1)
    return ink


def _all_visible(ink_CHW: npt.NDArray[np.float64]) -> bool:
    for i, ink_HW in enumerate(ink_CHW):
        others_HW = np.delete(ink_CHW, i, axis=0).max(axis=0, initial=0)
        if np.maximum(ink_HW - others_HW, 0).sum() < _MIN_VISIBLE_INK:
            return False
    return True
