"""Readers of the named data sets that are texts: labelled documents, and judged queries."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from corpus.docstrings import read_docstrings
from corpus.document import Document, DocumentError, parse_document
from corpus.layout import Layout
from corpus.lines import open_bytes, read_json_lines
from corpus.rows import BadLine, ReadError

NEWS_SEED = 0

Qrels = dict[str, dict[str, int]]
"""Grades by query id and document id; a grade above 0 is relevant."""


def read_labelled(paths: list[Path], _split: str) -> Iterator[Document]:
    """Yield the documents of JSON lines; a `label` that is a list gives several labels."""
    for path in paths:
        yield from _read_lines(path, _parse_labelled)


def read_news_by_date(paths: list[Path], _split: str) -> Iterator[Document]:
    """Yield the posts of 20 Newsgroups without their headers."""
    return map(_strip_header, read_labelled(paths, _split))


def read_news(paths: list[Path], split: str) -> Iterator[Document]:
    """Yield the posts of one split of our own without their headers."""
    return map(_strip_header, read_news_with_headers(paths, split))


def read_news_with_headers(paths: list[Path], split: str) -> Iterator[Document]:
    """Yield the posts of one of three splits, which a hash of the id decides."""
    posts = {post.id: post for post in read_labelled(paths, split)}
    # Ranked by a hash, because a library's random numbers may change between its releases.
    shuffled = sorted(posts, key=lambda id_: hashlib.sha256(f"{NEWS_SEED}:{id_}".encode()).digest())
    train, validation = len(shuffled) * 6 // 10, len(shuffled) * 2 // 10
    start, stop = {
        "train": (0, train),
        "validation": (train, train + validation),
        "test": (train + validation, len(shuffled)),
    }[split]
    chosen = set(shuffled[start:stop])
    for post in posts.values():
        if post.id in chosen:
            yield post


def read_judged(paths: list[Path], split: str) -> Iterator[Document]:
    """Yield the documents of a judged collection, or the queries that have a judgement.

    The text of a document is its title, where it has one, and below it its text. `paths` are the
    file of the documents, or those of the queries and of the judgements.
    """
    if split == "documents":
        yield from _read_lines(paths[0], _parse_titled)
        return
    judged = read_qrels(paths[1])
    for query in _read_lines(paths[0], parse_document):
        if any(grade > 0 for grade in judged.get(query.id, {}).values()):
            yield query


def read_qrels(path: Path) -> Qrels:
    """Read judgements: a line is query, document and grade, with tabs in between.

    Raises:
        ReadError: if the file cannot be read, or a line is none of that.
    """
    qrels: Qrels = {}
    try:
        with open_bytes(path) as stream:
            for number, line in enumerate(stream, 1):
                try:
                    query, document, grade = line.decode().rstrip("\n").split("\t")
                    qrels.setdefault(query, {})[document] = int(grade)
                except ValueError:
                    reason = "is not a query, a document and a whole grade, with tabs in between"
                    raise ReadError(str(BadLine(str(path), number, reason))) from None
    except OSError as error:
        raise ReadError(f"{path}: {error.strerror or error}") from None
    return qrels


def read_docstring_documents() -> Iterator[Document]:
    """Yield all documents of the docstring corpus in the order of their ids."""
    documents = [one for split in ("train", "test") for one in read_docstrings(split)]
    return iter(sorted(documents, key=lambda document: document.id))


def read_questions(split: str) -> tuple[list[Document], Qrels]:
    """Return everyday questions about the docstring corpus, with the answers that count as right.

    The questions stand in ``docstring_questions.jsonl`` beside this module, half of them for
    development and half for the test. Answers are names of functions and classes that a fair person
    would accept; every one has grade 1. They were chosen by reading the corpus, not by looking at
    what any system finds. Judgements may name what is not installed.

    `split` is `queries` for all, `queries-development` or `queries-test`.

    Raises:
        ReadError: if there is no such split.
    """
    wanted = {"queries": ("development", "test")}.get(split, (split.removeprefix("queries-"),))
    lines = Path(__file__).with_name("docstring_questions.jsonl").read_text(encoding="utf-8")
    chosen = [one for one in map(json.loads, lines.splitlines()) if one["split"] in wanted]
    queries = [Document(id=one["id"], text=one["text"]) for one in chosen]
    return queries, {one["id"]: dict.fromkeys(one["answers"], 1) for one in chosen}


def _read_lines(path: Path, parse: Callable[[object], Document]) -> Iterator[Document]:
    try:
        with open_bytes(path) as stream:
            for row in read_json_lines(stream, str(path)):
                if row.reason is not None:
                    raise ReadError(str(BadLine(str(path), row.line, row.reason)))
                try:
                    document = parse(row.record)
                except DocumentError as error:
                    raise ReadError(str(BadLine(str(path), row.line, str(error)))) from None
                yield document
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


def _strip_header(post: Document) -> Document:
    _, _, body = (post.text or "").partition("\n\n")
    return Document(id=post.id, text=body, labels=post.labels)
