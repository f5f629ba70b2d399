"""Readers of named data sets that are texts: labelled documents, judged queries and pairs."""

from __future__ import annotations

import csv
import hashlib
import io
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple, TypeVar

from corpus.detection.compressions import open_bytes
from corpus.document import Document, DocumentError, parse_document
from corpus.json_rows import read_json_lines
from corpus.layout import Layout
from corpus.rows import BadLine, ReadError

NEWS_SEED = 0

Parsed = TypeVar("Parsed")
Qrels = dict[str, dict[str, int]]
"""Grades by query id and document id. A document with a grade above 0 is relevant."""

QUESTION_SPLITS: Mapping[str, tuple[str, ...]] = {
    "queries": ("development", "test"),
    "queries-development": ("development",),
    "queries-test": ("test",),
    "queries-simple": ("simple",),
}
"""The splits of the questions about the docstring corpus, and the parts that make up each."""


def read_labelled(paths: list[Path], _split: str) -> Iterator[Document]:
    """Yield the documents of JSON lines; a `label` can be a list of several labels."""
    for path in paths:
        yield from _read_lines(path, _parse_labelled)


def read_news_by_date(paths: list[Path], _split: str) -> Iterator[Document]:
    """Yield the posts of 20 Newsgroups without their headers."""
    return map(_strip_header, read_labelled(paths, _split))


def read_news(paths: list[Path], split: str) -> Iterator[Document]:
    """Yield the posts of 20 Newsgroups in one split of our own, without their headers."""
    return map(_strip_header, read_news_with_headers(paths, split))


def read_news_with_headers(paths: list[Path], split: str) -> Iterator[Document]:
    """Yield the posts of 20 Newsgroups in one split of our own, which a hash of the id decides."""
    posts = {post.id: post for post in read_labelled(paths, split)}
    # Posts are ranked by a hash, because random numbers may change between releases of a library.
    shuffled = sorted(posts, key=lambda id_: hashlib.sha256(f"{NEWS_SEED}:{id_}".encode()).digest())
    train, validation = len(shuffled) * 6 // 10, len(shuffled) * 2 // 10
    start, stop = {
        "train": (0, train),
        "validation": (train, train + validation),
        "test": (train + validation, len(shuffled)),
    }[split]
    ids = set(shuffled[start:stop])
    for post in posts.values():
        if post.id in ids:
            yield post


def read_judged(paths: list[Path], split: str) -> Iterator[Document]:
    """Yield the documents of a judged collection, or its queries with a relevant document.

    The text of a document begins with its title, if it has one. `paths` are the file of the
    documents, or the files of the queries and of the judgements.
    """
    if split == "documents":
        yield from _read_lines(paths[0], _parse_titled)
        return
    qrels = read_qrels(paths[1])
    for query in _read_lines(paths[0], parse_document):
        if any(grade > 0 for grade in qrels.get(query.id, {}).values()):
            yield query


def read_qrels(path: Path) -> Qrels:
    """Read judgements from a TSV, as :func:`parse_tsv_qrels` does.

    Raises:
        ReadError: if the file cannot be read or is not UTF-8 text, or a line has another form.
    """
    try:
        with open_bytes(path) as stream:
            lines = io.TextIOWrapper(stream, encoding="utf-8-sig", newline="")
            return parse_tsv_qrels(lines, str(path))
    except OSError as error:
        raise ReadError(f"{path}: {error.strerror or error}") from None
    except UnicodeDecodeError as error:
        raise ReadError(f"{path}: is not UTF-8 text ({error.reason})") from None


def parse_tsv_qrels(lines: Iterable[str], source: str) -> Qrels:
    """Read judgements as BEIR does: a query's id, a document's id and a whole grade, in cells.

    Cells are separated by tabs, and quoted as Python's `csv` quotes them (`QUOTE_MINIMAL`). The
    first line may hold the names of the cells. `lines` end with newlines.

    Raises:
        ReadError: if a line has another form. The message names `source` and the line.
    """
    qrels: Qrels = {}
    rows = csv.reader(lines, delimiter="\t", quoting=csv.QUOTE_MINIMAL)
    number = 1
    try:
        for cells in rows:
            try:
                if cells:
                    query, document, grade = cells
                    qrels.setdefault(query, {})[document] = int(grade)
            except ValueError:
                is_header = number == 1 and len(cells) == 3 and not re.search(r"\d", cells[2])
                if not is_header:
                    reason = "must be a query, a document and a whole grade, separated by tabs"
                    raise ReadError(str(BadLine(source, number, reason))) from None
            number = rows.line_num + 1
    except csv.Error as error:
        raise ReadError(str(BadLine(source, number, str(error)))) from None
    return qrels


class Pair(NamedTuple):
    """Two texts, and whether a person said that they mean the same."""

    first: str
    second: str
    is_paraphrase: bool


def read_pairs(path: Path) -> Iterator[Pair]:
    """Yield the pairs of JSON lines with `text1`, `text2` and a `label`, 1 for paraphrases.

    Raises:
        ReadError: if the file cannot be read, or a line has another form.
    """
    return _read_lines(path, _parse_pair)


def read_questions(split: str) -> tuple[list[Document], Qrels]:
    """Return everyday questions about the docstring corpus, and the judgements of their answers.

    The questions are in ``docstring_questions.jsonl`` beside this module: 120, half of them for
    development and half for the test, and 40 simple ones, such as "matrix inverse". The answers are
    names of functions and classes that a fair person would accept, all of grade 1. Those of the 120
    were chosen by reading the corpus, not by looking at what a system finds; for the simple ones,
    some results had been seen. Some may name packages that are not installed.

    `split` is `queries` for the 120 questions, `queries-development` or `queries-test` for one half
    of them, or `queries-simple`.

    Raises:
        ReadError: if there is no such split.
    """
    if split not in QUESTION_SPLITS:
        splits = ", ".join(QUESTION_SPLITS)
        raise ReadError(f"docstrings has no questions {split!r}; the splits are {splits}")
    parts = QUESTION_SPLITS[split]
    lines = Path(__file__).with_name("docstring_questions.jsonl").read_text(encoding="utf-8")
    questions = [
        record for record in map(json.loads, lines.splitlines()) if record["split"] in parts
    ]
    queries = [Document(id=record["id"], text=record["text"]) for record in questions]
    return queries, {record["id"]: dict.fromkeys(record["answers"], 1) for record in questions}


def _read_lines(path: Path, parse: Callable[[object], Parsed]) -> Iterator[Parsed]:
    try:
        with open_bytes(path) as stream:
            for row in read_json_lines(stream, str(path)):
                if row.reason is not None:
                    raise ReadError(str(BadLine(str(path), row.line, row.reason)))
                try:
                    parsed = parse(row.record)
                except DocumentError as error:
                    raise ReadError(str(BadLine(str(path), row.line, str(error)))) from None
                yield parsed
    except OSError as error:
        raise ReadError(f"{path}: {error.strerror or error}") from None


def _parse_labelled(record: object) -> Document:
    if isinstance(record, Mapping):
        record = Layout().document_record(record, None)
    return parse_document(record)


def _parse_titled(record: object) -> Document:
    if isinstance(record, Mapping) and isinstance(record.get("title"), str):
        text = "\n".join(part for part in (record["title"], record.get("text")) if part)
        record = {key: value for key, value in record.items() if key != "title"} | {"text": text}
    return parse_document(record)


def _parse_pair(record: object) -> Pair:
    fields = record if isinstance(record, Mapping) else {}
    for name in ("text1", "text2"):
        if not isinstance(fields.get(name), str):
            raise DocumentError(name, f"must be a text, not {fields.get(name)!r}")
    if fields.get("label") not in {0, 1}:
        raise DocumentError("label", f"must be 0 or 1, not {fields.get('label')!r}")
    return Pair(fields["text1"], fields["text2"], fields["label"] == 1)


def _strip_header(post: Document) -> Document:
    _, _, body = (post.text or "").partition("\n\n")
    return Document(id=post.id, text=body, labels=post.labels)
