"""Runs in TREC's format, and ids as its files have them.

A line of a run is ``query Q0 document rank score tag``. As in NIST's trec_eval, lines end with a
newline, fields are separated by ASCII white space, and nothing is a comment or a quotation. Blank
lines are skipped. Any other line must be valid; errors name the line.

Ids with white space do not fit this format. Exported judgements have them percent-encoded
(:func:`to_trec_id`), and :func:`hummingbit.evaluation.relevance.relevance_by_qrels` finds what they
stand for.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from urllib.parse import quote, unquote

from hummingbit.corpus.qrels import FIELD
from hummingbit.evaluation.result import EvaluationError
from hummingbit.foundation.errors import abbreviate, counted

Run = dict[str, dict[str, float]]
"""Scores by query id and document id; higher is better."""

_INTEGER = re.compile(r"[+-]?[0-9]{1,9}", re.ASCII)


class TrecError(EvaluationError):
    """A file is not in TREC's format. The message begins with its name and the line number."""


def to_trec_id(text: str) -> str:
    """Percent-encode white space and ``%``, and nothing else."""
    return "".join(quote(c, safe="") if c.isspace() or c == "%" else c for c in text)


def from_trec_id(id_: str) -> str:
    """Return the text that :func:`to_trec_id` encodes as `id_`, or `id_` if there is none."""
    text = unquote(id_)
    return text if to_trec_id(text) == id_ else id_


def read_run(path: str | Path) -> Run:
    """Read the run in the file `path`.

    Raises:
        TrecError: as :func:`parse_run`, or if the file is not UTF-8 text.
        OSError: if the file cannot be read.
    """
    return parse_run(_read_lines(path), str(path))


def parse_run(lines: Iterable[str], source: str = "run") -> Run:
    """Parse a run from `lines`; `source` is their name in errors. Ranks are ignored.

    As in trec_eval, the score decides the order. Documents of equal score are tied.

    Raises:
        TrecError: if a line does not have six fields, its rank is not an integer, its score is not
            a finite number, a document occurs twice for a query, or there are no lines.
    """
    run: Run = {}
    for location, line in _number_lines(lines, source):
        fields = _split(line, 6, "query Q0 document rank score tag", location)
        query, document, rank, score = fields[0], fields[2], fields[3], fields[4]
        if not _INTEGER.fullmatch(rank):
            raise TrecError(f"{location}: the rank is {abbreviate(rank)}; it must be an integer")
        scores = run.setdefault(query, {})
        if document in scores:
            message = f"{location}: document {abbreviate(document)} occurs twice for query"
            raise TrecError(f"{message} {abbreviate(query)}")
        scores[document] = _parse_score(score, location)
    if not run:
        raise TrecError(f"{source}: there are no lines; at least one is needed")
    return run


def format_run(results: Mapping[str, Sequence[tuple[str, float]]]) -> Iterator[str]:
    """Yield the lines of a run, without newlines; `results` holds (document, score), best first.

    For codes the score is minus the distance, so that ties stay ties. trec_eval orders ties by
    document id and not by rank.

    Raises:
        TrecError: if an id is empty or contains white space, or a score is NaN or infinite.
    """
    for query, hits in results.items():
        _check_id(query, "query")
        for rank, (document, score) in enumerate(hits, start=1):
            if not math.isfinite(score):
                message = f"the score of document {abbreviate(document)} for query"
                raise TrecError(f"{message} {abbreviate(query)} is {score}; it must be finite")
            _check_id(document, "document")
            yield f"{query} Q0 {document} {rank} {score!r} hummingbit"


def _read_lines(path: str | Path) -> list[str]:
    try:
        return Path(path).read_bytes().decode("utf-8-sig").split("\n")
    except UnicodeDecodeError as error:
        message = f"{path}: is not UTF-8 text ({error.reason} at byte {error.start})"
        raise TrecError(message) from None


def _number_lines(lines: Iterable[str], source: str) -> Iterator[tuple[str, str]]:
    """Yield (source:number, line) for every line that is not blank."""
    for number, line in enumerate(lines, start=1):
        if FIELD.search(line):
            yield f"{source}:{number}", line


def _split(line: str, n: int, names: str, location: str) -> list[str]:
    fields = FIELD.findall(line)
    if len(fields) != n:
        message = f"{location}: has {counted(len(fields), 'field')}; there must be {n}: {names}"
        raise TrecError(message)
    return fields


def _parse_score(text: str, location: str) -> float:
    try:
        score = float(text)
    except ValueError:
        score = math.nan
    if not math.isfinite(score):
        raise TrecError(f"{location}: the score is {abbreviate(text)}; it must be a finite number")
    return score


def _check_id(value: str, kind: str) -> None:
    if value.split() != [value]:
        message = f"the {kind} {abbreviate(value)} is not valid in TREC's format: it must not be"
        raise TrecError(f"{message} empty or contain white space")
