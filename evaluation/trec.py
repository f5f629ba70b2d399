"""TREC's text formats: judgements (qrels) and runs, read strictly and written so.

A line of qrels is ``query iteration document grade``, a line of a run ``query Q0 document rank
score tag``, fields apart by white space. Source: NIST's trec_eval. Blank lines are skipped; every
other line must be right, or the error says which is not.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from evaluation.result import EvaluationError

Qrels = dict[str, dict[str, int]]
"""Grades by query id and document id; a grade above 0 is relevant, 0 and below judged and not."""

Run = dict[str, dict[str, float]]
"""Scores by query id and document id; the greater, the better."""

MAX_GRADE = 1000
_INTEGER = re.compile(r"[+-]?[0-9]{1,9}", re.ASCII)


class TrecError(EvaluationError):
    """A file is not in TREC's format; the message begins with its name and the line."""


def read_qrels(path: str | Path) -> Qrels:
    """Read the judgements in the file `path`.

    Raises:
        TrecError: as :func:`parse_qrels`, or if the file is not UTF-8 text.
        OSError: if it cannot be read.
    """
    return parse_qrels(_lines(path), str(path))


def read_run(path: str | Path) -> Run:
    """Read the run in the file `path`.

    Raises:
        TrecError: as :func:`parse_run`, or if the file is not UTF-8 text.
        OSError: if it cannot be read.
    """
    return parse_run(_lines(path), str(path))


def parse_qrels(lines: Iterable[str], source: str = "qrels") -> Qrels:
    """Read judgements from `lines`; `source` is what errors call them.

    Raises:
        TrecError: if a line has not four fields, its grade is no integer or above 1000, a document
            is judged twice for a query, or there is no judgement at all.
    """
    qrels: Qrels = {}
    for where, line in _numbered(lines, source):
        query, _, document, grade = _fields(line, 4, "query iteration document grade", where)
        if not _INTEGER.fullmatch(grade) or int(grade) > MAX_GRADE:
            limit = f"it must be an integer of at most {MAX_GRADE:,}"
            message = f"{where}: the grade is {_show(grade)}; {limit}"
            raise TrecError(message)
        judged = qrels.setdefault(query, {})
        if document in judged:
            message = f"{where}: document {_show(document)} is judged twice for query"
            raise TrecError(f"{message} {_show(query)}")
        judged[document] = int(grade)
    if not qrels:
        message = f"{source}: there is no judgement in it; at least one is needed"
        raise TrecError(message)
    return qrels


def parse_run(lines: Iterable[str], source: str = "run") -> Run:
    """Read a run from `lines`; `source` is what errors call them. Ranks are not looked at.

    As for trec_eval the score decides the order. Documents of one score are tied.

    Raises:
        TrecError: if a line has not six fields, its rank is no integer, its score is NaN, infinite
            or no number, a document comes twice for a query, or there is no line at all.
    """
    run: Run = {}
    for where, line in _numbered(lines, source):
        fields = _fields(line, 6, "query Q0 document rank score tag", where)
        query, document, rank, score = fields[0], fields[2], fields[3], fields[4]
        if not _INTEGER.fullmatch(rank):
            message = f"{where}: the rank is {_show(rank)}; it must be an integer"
            raise TrecError(message)
        found = run.setdefault(query, {})
        if document in found:
            message = f"{where}: document {_show(document)} comes twice for query {_show(query)}"
            raise TrecError(message)
        found[document] = _score(score, where)
    if not run:
        message = f"{source}: there is no line in it; at least one is needed"
        raise TrecError(message)
    return run


def format_run(
    results: Mapping[str, Sequence[tuple[str, float]]], tag: str = "hummingbit"
) -> Iterator[str]:
    """Give the lines of a run, without their ends; `results` holds (document, score), best first.

    For codes the score is minus the distance, so that ties stay ties. trec_eval breaks them by
    document id and not by rank.

    Raises:
        TrecError: if an id or the tag is empty or has white space in it, or a score is NaN or
            infinite.
    """
    name = _id(tag, "tag")
    for query, found in results.items():
        query_id = _id(query, "query")
        for rank, (document, score) in enumerate(found, start=1):
            if not math.isfinite(score):
                message = f"the score of document {_show(document)} for query {_show(query)} is"
                raise TrecError(f"{message} {score}; it must be finite")
            yield f"{query_id} Q0 {_id(document, 'document')} {rank} {score!r} {name}"


def _lines(path: str | Path) -> list[str]:
    try:
        return Path(path).read_text(encoding="utf-8-sig").splitlines()
    except UnicodeDecodeError as error:
        message = f"{path}: is not UTF-8 text ({error.reason} at byte {error.start})"
        raise TrecError(message) from None


def _numbered(lines: Iterable[str], source: str) -> Iterator[tuple[str, str]]:
    """Give (file:line, line) for every line that is not blank."""
    for number, line in enumerate(lines, start=1):
        if line.strip():
            yield f"{source}:{number}", line


def _fields(line: str, n: int, names: str, where: str) -> list[str]:
    fields = line.split()
    if len(fields) != n:
        message = f"{where}: has {len(fields)} fields; there must be {n}: {names}"
        raise TrecError(message)
    return fields


def _score(text: str, where: str) -> float:
    try:
        score = float(text)
    except ValueError:
        score = math.nan
    if not math.isfinite(score):
        message = f"{where}: the score is {_show(text)}; it must be a finite number"
        raise TrecError(message)
    return score


def _id(value: str, whose: str) -> str:
    if not value or value.split() != [value]:
        message = f"the {whose} {_show(value)} cannot stand in TREC's format: ids must not be empty"
        raise TrecError(f"{message} or have white space in them")
    return value


def _show(value: str) -> str:
    shown = ascii(value)
    return shown if len(shown) <= 60 else shown[:57] + "..."
