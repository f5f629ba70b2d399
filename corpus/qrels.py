"""Judgements of relevance (qrels): how well documents answer queries, in TREC's format or BEIR's.

A line of TREC's has four fields, ``query iteration document grade``, separated by ASCII white space
as in NIST's trec_eval; nothing is quoted. BEIR's is a TSV of three cells, ``query-id``,
``corpus-id`` and ``score``, quoted as Python's `csv` quotes them (`QUOTE_MINIMAL`), with or without
these names as its first line. The first line tells which of the two a file is. Blank lines are
skipped. Any other line must be valid; errors name the line.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from hummingbit.corpus.grades import check_grade
from hummingbit.corpus.lines import ReadError, open_source, read_all
from hummingbit.foundation.errors import InputError, abbreviate, counted

Qrels = dict[str, dict[str, int]]
"""Grades by query id and document id. A document of grade 0 or below is judged not relevant."""

FIELD = re.compile(r"[^ \t\n\v\f\r]+")
"""A field of TREC's formats."""

_GRADE = re.compile(r"[+-]?[0-9]{1,9}", re.ASCII)
_TREC_FIELDS = ("query", "iteration", "document", "grade")
_BEIR_CELLS = ("query-id", "corpus-id", "score")
_HEADS = (
    {"queryid", "qid", "query", "topic", "topicid"},
    {"corpusid", "docid", "did", "documentid", "docno", "document", "doc", "pid", "passageid"},
    {"score", "grade", "relevance", "rel", "label", "judgement", "judgment"},
)
"""The names that the columns of a TSV may have, without their hyphens and underscores."""

_Row = tuple[int, list[str]]
"""The number of a line, and its fields or cells."""


def parse_grade(text: str) -> int:
    """Return the grade that a text holds.

    Raises:
        InputError: as :func:`.check_grade`.
    """
    stripped = text.strip()
    return check_grade(int(stripped) if _GRADE.fullmatch(stripped) else text)


def check_qrels(qrels: Mapping[str, Mapping[str, int]]) -> Qrels:
    """Return judgements with every grade checked.

    Raises:
        InputError: if a grade is none (:func:`.check_grade`); it names the query and the document.
    """
    checked: Qrels = {}
    for query, graded in qrels.items():
        checked[query] = {}
        for document, grade in graded.items():
            try:
                checked[query][document] = check_grade(grade)
            except InputError as error:
                pair = f"of document {abbreviate(document)} for query {abbreviate(query)}"
                raise InputError("qrels", f"the grade {pair} {error.reason}") from None
    return checked


def read_qrels(path: str | Path) -> Qrels:
    """Read the judgements in the file `path`, also a compressed one.

    Raises:
        ReadError: if the file cannot be read or is not UTF-8 text, or as :func:`parse_qrels`.
    """
    with open_source(Path(path)) as stream:
        raw = read_all(stream, str(path))
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        reason = f"{error.reason} at byte {error.start}"
        raise ReadError(f"{path}: is not UTF-8 text ({reason})") from None
    return parse_qrels(text.split("\n"), str(path))


def parse_qrels(lines: Iterable[str], source: str = "qrels") -> Qrels:
    """Parse judgements from `lines`, of either format; `source` is their name in errors.

    Raises:
        ReadError: if a line does not have the form of the others, an id is empty, a grade is none
            (:func:`.check_grade`), a document is judged twice for a query, or none is judged.
            The message begins with `source` and the number of the line.
    """
    lines = [line.removesuffix("\n") for line in lines]
    is_tsv = _is_tsv(lines)
    qrels: Qrels = {}
    for number, parts in _tsv_rows(lines, source) if is_tsv else _trec_rows(lines):
        location = f"{source}:{number}"
        names = _BEIR_CELLS if is_tsv else _TREC_FIELDS
        if len(parts) != len(names):
            kind, between = ("cell", "tabs") if is_tsv else ("field", "spaces")
            rule = f"there must be {len(names)}, separated by {between}: {' '.join(names)}"
            raise ReadError(f"{location}: has {counted(len(parts), kind)}; {rule}")
        query, document, grade = parts[0], parts[-2], parts[-1]
        for name, id_ in (("query", query), ("document", document)):
            if not id_:
                raise ReadError(f"{location}: the id of the {name} is empty")
        graded = qrels.setdefault(query, {})
        if document in graded:
            pair = f"document {abbreviate(document)} is judged twice for query {abbreviate(query)}"
            raise ReadError(f"{location}: {pair}; keep one of the judgements")
        try:
            graded[document] = parse_grade(grade)
        except InputError as error:
            hint = ""
            if is_tsv and number == 1:
                hint = f"; the names of a first line are {', '.join(_BEIR_CELLS)}"
            raise ReadError(f"{location}: the grade {error.reason}{hint}") from None
    if not qrels:
        raise ReadError(f"{source}: there are no judgements; at least one is needed")
    return qrels


def _is_tsv(lines: list[str]) -> bool:
    """Tell whether the first line has three cells; TREC's fields may be separated by tabs, too."""
    try:
        first: list[str] = next(filter(_has_content, _cells(lines)), [])
    except csv.Error:
        return False
    # Four fields of which one follows a space are three cells, of which one has two words.
    return len(first) == len(_BEIR_CELLS) and len(FIELD.findall(first[-1])) <= 1


def _trec_rows(lines: list[str]) -> Iterator[_Row]:
    for number, line in enumerate(lines, start=1):
        if fields := FIELD.findall(line):
            yield number, fields


def _tsv_rows(lines: list[str], source: str) -> Iterator[_Row]:
    """Yield the rows of a TSV, without that of the names."""
    rows, number, is_first = _cells(lines), 1, True
    while True:
        try:
            cells = next(rows)
        except StopIteration:
            return
        except csv.Error as error:
            raise ReadError(f"{source}:{number}: {error}") from None
        if _has_content(cells):
            if not (is_first and _are_names(cells)):
                yield number, cells
            is_first = False
        number = rows.line_num + 1


def _cells(lines: list[str]) -> Any:
    return csv.reader((f"{line}\n" for line in lines), delimiter="\t", quoting=csv.QUOTE_MINIMAL)


def _has_content(cells: list[str]) -> bool:
    return any(cell.strip() for cell in cells)


def _are_names(cells: list[str]) -> bool:
    bare = [re.sub(r"[-_ ]", "", cell.strip().casefold()) for cell in cells]
    return len(bare) == len(_HEADS) and all(
        name in names for name, names in zip(bare, _HEADS, strict=True)
    )
