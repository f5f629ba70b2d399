"""Geoclidean: concepts of Euclidean geometry as programs of points, lines and circles.

Source: Hsu, Wu and Goodman, "Geoclidean: Few-Shot Generalization in Euclidean Geometry" (2022). A
statement makes a line from two ends or a circle from its centre and a point of it:

    l1 = line(p1(), p2())
    c2* = circle(p2(), p3(l1))
    l3 = line(p3(), p4(l1, c2))

A point may lie anywhere, ``p1()``, on an object made before, ``p3(l1)``, or where two meet,
``p4(l1, c2)``; a name that was used before is the same point, whatever is in its brackets. An
object with a star only helps and is not drawn.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from corpus.rows import ReadError
from training.similarities.program_kernel import ParseTree

KINDS = ("line", "circle")

_POINT = r"(\w+)\(\s*([^()]*?)\s*\)"
_STATEMENT = re.compile(rf"\s*(\w+)(\*?)\s*=\s*(\w+)\(\s*{_POINT}\s*,\s*{_POINT}\s*\)\s*")
_EXAMPLE = "l3 = line(p1(), p4(l1, c2))"


@dataclass(frozen=True)
class Point:
    """A point and the names of the objects that it lies on, two at most."""

    name: str
    on: tuple[str, ...]


@dataclass(frozen=True)
class Statement:
    """An object: one of `KINDS`, and its two points."""

    name: str
    kind: str
    drawn: bool
    points: tuple[Point, Point]


Program = tuple[Statement, ...]


def parse_program(lines: Sequence[str]) -> Program:
    """Read the statements of a program.

    Raises:
        ValueError: naming the line, if it is no statement, makes something else than a line or a
            circle, gives a name twice, or puts a point on what is not made yet or on more than two.
    """
    statements: list[Statement] = []
    made: set[str] = set()
    for line in lines:
        found = _STATEMENT.fullmatch(line)
        if not found:
            raise ValueError(f"program: {line!a} is no statement, such as {_EXAMPLE!a}")
        name, star, kind, *_ = found.groups()
        if kind not in KINDS:
            raise ValueError(f"program: {line!a} makes a {kind!a}; it must be a line or a circle")
        if name in made:
            raise ValueError(f"program: {line!a} makes {name!a} a second time")
        first, second = (_point(found[i], found[i + 1], made, line) for i in (4, 6))
        statements.append(Statement(name, kind, not star, (first, second)))
        made.add(name)
    if not any(statement.drawn for statement in statements):
        raise ValueError("program: draws nothing; a statement must have a name without a star")
    return tuple(statements)


def _point(name: str, inside: str, made: set[str], line: str) -> Point:
    on = tuple(part.strip() for part in inside.split(",")) if inside else ()
    missing = next((one for one in on if one not in made), None)
    if missing is not None:
        raise ValueError(f"program: {line!a} names {missing!a}, which no earlier line makes")
    if len(on) > 2:
        raise ValueError(f"program: {line!a} puts {name!a} on {len(on)} objects; 2 are the most")
    return Point(name, on)


def parse_tree(program: Program) -> ParseTree:
    """Return the tree of a program as it is written: statements, their points, what these lie on.

    A statement is labelled with its kind, and a star if it only helps; points and objects with
    their names, which the published programs give in the order of use.
    """
    return ParseTree("program", tuple(map(_statement_tree, program)))


def _statement_tree(statement: Statement) -> ParseTree:
    points = (
        ParseTree(point.name, tuple(ParseTree(name) for name in point.on))
        for point in statement.points
    )
    kind = statement.kind if statement.drawn else f"{statement.kind}*"
    return ParseTree(kind, tuple(points))


def read_concepts(path: Path) -> dict[str, Program]:
    """Return the programs of the published concepts by name, in the order of names.

    Raises:
        ReadError: naming the concept, if a program cannot be read, or if the file is none of
            concepts by group.
    """
    try:
        groups = json.loads(path.read_text())
        pairs = sorted(
            (name, programs["concept"])
            for group in groups.values()
            for name, programs in group.items()
        )
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise ReadError(f"{path}: holds no concepts by group: {error!r}") from error
    concepts: dict[str, Program] = {}
    for name, lines in pairs:
        try:
            concepts[name] = parse_program([_plain(line) for line in lines])
        except ValueError as error:
            raise ReadError(f"{path}: {name}: {error}") from error
    return concepts


def _plain(line: str) -> str:
    """Return a published line without the quotes around it; one has a bracket too many."""
    line = line.strip().strip("',")
    return line[:-1] if line.count(")") > line.count("(") else line
