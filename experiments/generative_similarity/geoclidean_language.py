"""Geoclidean: concepts of Euclidean geometry as programs of points, lines and circles.

Source: Hsu, Wu and Goodman, "Geoclidean: Few-Shot Generalization in Euclidean Geometry" (2022). A
statement defines a line by its two ends, or a circle by its centre and a point on it:

    l1 = line(p1(), p2())
    c2* = circle(p2(), p3(l1))
    l3 = line(p3(), p4(l1, c2))

A point may lie anywhere, ``p1()``, on an object defined before, ``p3(l1)``, or where two objects
meet, ``p4(l1, c2)``. A name used before is the same point, whatever its parentheses contain. An
object with a star is an auxiliary and is not drawn.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from experiments.generative_similarity.program_kernel import ParseTree
from hummingbit.corpus.lines import ReadError

KINDS = ("line", "circle")

_POINT = r"(\w+)\(\s*([^()]*?)\s*\)"
_STATEMENT = re.compile(rf"\s*(\w+)(\*?)\s*=\s*(\w+)\(\s*{_POINT}\s*,\s*{_POINT}\s*\)\s*")
_EXAMPLE = "l3 = line(p1(), p4(l1, c2))"


@dataclass(frozen=True)
class Point:
    """A point and the names of the objects that it lies on, at most two."""

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
        ValueError: naming the line, if it is not a statement, defines something other than a line
            or a circle, repeats a name, or puts a point on an undefined object or on more than two.
    """
    statements: list[Statement] = []
    defined: set[str] = set()
    for line in lines:
        match = _STATEMENT.fullmatch(line)
        if not match:
            raise ValueError(f"program: {line!r} is not a statement such as {_EXAMPLE!r}")
        name, star, kind, *_ = match.groups()
        if kind not in KINDS:
            raise ValueError(f"program: {line!r} has the kind {kind!r}; it must be line or circle")
        if name in defined:
            raise ValueError(f"program: {line!r} defines {name!r} a second time")
        first, second = (_parse_point(match[i], match[i + 1], defined, line) for i in (4, 6))
        statements.append(Statement(name, kind, not star, (first, second)))
        defined.add(name)
    if not any(statement.drawn for statement in statements):
        raise ValueError("program: nothing is drawn; at least one name must have no star")
    return tuple(statements)


def _parse_point(name: str, arguments: str, defined: set[str], line: str) -> Point:
    on = tuple(part.strip() for part in arguments.split(",")) if arguments else ()
    missing = next((object_ for object_ in on if object_ not in defined), None)
    if missing is not None:
        raise ValueError(f"program: {line!r} uses {missing!r}, which no earlier line defines")
    if len(on) > 2:
        raise ValueError(
            f"program: {line!r} puts {name!r} on {len(on)} objects; it must be on at most 2"
        )
    return Point(name, on)


def parse_tree(program: Program) -> ParseTree:
    """Return the parse tree of a program: statements, their points, the objects these lie on.

    The label of a statement is its kind, with a star for an auxiliary. Points and objects have
    their names as labels; the published programs number them in the order of use.
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
        ReadError: if the file does not hold concepts by group, or, naming the concept, if a program
            is invalid.
    """
    try:
        groups = json.loads(path.read_text())
        pairs = sorted(
            (name, programs["concept"])
            for group in groups.values()
            for name, programs in group.items()
        )
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise ReadError(f"{path}: not a JSON object of concepts by group: {error!r}") from error
    concepts: dict[str, Program] = {}
    for name, lines in pairs:
        try:
            concepts[name] = parse_program([_clean_line(line) for line in lines])
        except ValueError as error:
            raise ReadError(f"{path}: {name}: {error}") from error
    return concepts


def _clean_line(line: str) -> str:
    """Strip the quotes of a published line, and the extra parenthesis that one line has."""
    line = line.strip().strip("',")
    return line[:-1] if line.count(")") > line.count("(") else line
