"""Files in BEIR's format: ``corpus.jsonl``, ``queries.jsonl`` and ``qrels/SPLIT.tsv``."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from corpus.detection.compressions import open_bytes
from corpus.json_rows import read_json_lines
from corpus.named_sets.text_sets import read_qrels
from corpus.rows import BadLine, ReadError


class BeirFiles(NamedTuple):
    """The contents of a folder in BEIR's format, as ``beir.GenericDataLoader`` returns them."""

    corpus: dict[str, dict[str, str]]
    queries: dict[str, str]
    qrels: dict[str, dict[str, int]]


def read_beir(folder: Path, split: str) -> BeirFiles:
    """Read a folder, with the judgements of `split` and the queries that they name.

    Raises:
        ReadError: if a file is missing, or a line is malformed.
    """
    qrels = read_qrels(folder / "qrels" / f"{split}.tsv")
    queries = {id_: row["text"] for id_, row in _records(folder / "queries.jsonl") if id_ in qrels}
    corpus = {
        id_: {"title": row.get("title") or "", "text": row["text"]}
        for id_, row in _records(folder / "corpus.jsonl")
    }
    return BeirFiles(corpus, queries, {id_: qrels[id_] for id_ in queries})


def title_and_text(row: Mapping[str, Any]) -> str:
    """Return the text of a document as BEIR's models take it: its title, a space, its text."""
    return f"{row.get('title') or ''} {row.get('text') or ''}".strip()


def _records(path: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    try:
        stream = open_bytes(path)
    except OSError as error:
        raise ReadError(f"{path}: {error.strerror or error}") from None
    with stream:
        for row in read_json_lines(stream, str(path)):
            record = row.record
            if (
                not isinstance(record, dict)
                or not isinstance(record.get("_id"), str)
                or not isinstance(record.get("text"), str)
            ):
                reason = row.reason or "must be an object with the strings _id and text"
                raise ReadError(str(BadLine(str(path), row.line, reason)))
            yield record["_id"], record
