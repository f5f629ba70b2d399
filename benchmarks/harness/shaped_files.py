"""Public data sets as files of many shapes, as people have them."""

from __future__ import annotations

import csv
import gzip
import importlib
import io
import json
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from hummingbit.corpus.document import Document

WHOLE_TEXT = 200_000

Documents = Callable[[str], list[Document]]
"""Returns documents of a named data set, from everywhere in it."""

Writer = Callable[[Documents, Path], Path]
"""Writes a file or folder into a folder, and returns its path."""


def _write_table(
    path: Path,
    rows: Iterable[Sequence[object]],
    *,
    delimiter: str = ",",
    encoding: str = "utf-8",
) -> Path:
    with path.open("w", encoding=encoding, newline="", errors="replace") as file:
        csv.writer(file, delimiter=delimiter).writerows(rows)
    return path


def _write_json(path: Path, records: object) -> Path:
    path.write_text(json.dumps(records))
    return path


def _labelled(documents: Iterable[Document]) -> list[tuple[str, str]]:
    return [(document.text or "", document.labels[0]) for document in documents]


def _other_names(documents: Documents, folder: Path) -> Path:
    return _write_table(
        folder / "requests.csv", [("text", "category"), *_labelled(documents("hwu64"))]
    )


def _integer_ids(documents: Documents, folder: Path) -> Path:
    rows = [(n, *row) for n, row in enumerate(_labelled(documents("hwu64")), 1)]
    return _write_table(folder / "questions.csv", [("qid", "question", "intent"), *rows])


def _no_header(documents: Documents, folder: Path) -> Path:
    return _write_table(
        folder / "news.csv", [(label, text) for text, label in _labelled(documents("ag-news"))]
    )


def _chinese(documents: Documents, folder: Path) -> Path:
    rows = [("标题", "类别"), *_labelled(documents("thucnews-titles"))]
    return _write_table(folder / "titles.csv", rows, delimiter=";", encoding="gb18030")


def _lines(documents: Documents, folder: Path) -> Path:
    path = folder / "snippets.txt"
    path.write_text("".join(f"{document.text}\n" for document in documents("snippets")))
    return path


def _topics(documents: Documents, folder: Path) -> Path:
    found = enumerate(documents("reuters"))
    records = [{"n": n, "body": document.text, "topics": document.labels} for n, document in found]
    return _write_json(folder / "reuters.json", records)


def _parquet(documents: Documents, folder: Path) -> Path:
    titled = [(document.text or "").partition("\n") for document in documents("cranfield")]
    columns: dict[str, list[Any]] = {
        "title": [parts[0] for parts in titled],
        "abstract": [parts[2] for parts in titled],
        "year": [1990 + n % 30 for n in range(len(titled))],
    }
    path = folder / "abstracts.parquet"
    importlib.import_module("pyarrow.parquet").write_table(_arrow_table(columns), path)
    return path


def _arrow_table(columns: dict[str, list[Any]]) -> Any:
    return importlib.import_module("pyarrow").table(columns)


def _gzip(documents: Documents, folder: Path) -> Path:
    path = folder / "dbpedia.jsonl.gz"
    lines = [
        json.dumps({"id": document.id, "text": document.text, "label": document.labels[0]})
        for document in documents("dbpedia14")
    ]
    path.write_bytes(gzip.compress("\n".join(lines).encode()))
    return path


def _folder(documents: Documents, folder: Path) -> Path:
    for document in documents("20news-bydate"):
        path = folder / "posts" / document.labels[0] / f"{document.id.rpartition('/')[2]}.txt"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(document.text or "")
    return folder / "posts"


def _broken_lines(documents: Documents, folder: Path) -> Path:
    path = _other_names(documents, folder)
    lines = path.read_text().splitlines()
    for position in range(100, 700, 100):
        lines[position] += ",too,many"
    path.write_text("\n".join(lines))
    return path


def _header_only(_documents: Documents, folder: Path) -> Path:
    return _write_table(folder / "empty.csv", [("id", "text", "label")])


def _numbers(_documents: Documents, folder: Path) -> Path:
    return _write_table(
        folder / "numbers.csv", [("a", "b"), *((n, n * 7 % 13) for n in range(500))]
    )


def _utf16(documents: Documents, folder: Path) -> Path:
    rows = [("Text", "Genre"), *_labelled(documents("germeval2019"))]
    return _write_table(folder / "blurbs.csv", rows, delimiter=";", encoding="utf-16")


def _nested(documents: Documents, folder: Path) -> Path:
    records = [
        {"meta": {"id": n, "tags": {"intent": label}}, "content": {"body": text}}
        for n, (text, label) in enumerate(_labelled(documents("hwu64")))
    ]
    return _write_json(folder / "tickets.json", records)


def _nested_beside(documents: Documents, folder: Path) -> Path:
    records = [
        {"text": text, "meta": {"n": n, "intent": label}, "seen": [1, {"by": "me"}]}
        for n, (text, label) in enumerate(_labelled(documents("hwu64")))
    ]
    return _write_json(folder / "tickets.json", records)


def _null_texts(documents: Documents, folder: Path) -> Path:
    path = folder / "requests.ndjson"
    lines = [
        json.dumps({"id": n, "text": None if n % 10 == 0 else text, "intent": label})
        for n, (text, label) in enumerate(_labelled(documents("hwu64")))
    ]
    path.write_text("\n".join(lines))
    return path


def _bare_quotes(documents: Documents, folder: Path) -> Path:
    path = folder / "news.tsv"
    lines = ["headline\tsection"]
    for n, (text, label) in enumerate(_labelled(documents("ag-news"))):
        first, _, rest = " ".join(text.split()).partition(" ")
        said = f'"{first}" {rest}' if n % 3 == 0 else f'{first} 5" {rest}'
        lines.append(f"{said}\t{label}")
    path.write_text("\n".join(lines))
    return path


def _excel(documents: Documents, folder: Path) -> Path:
    rows: list[tuple[object, ...]] = [("ID", "Beschreibung", "Genre")]
    for n, (text, label) in enumerate(_labelled(documents("germeval2019"))):
        rows.append((n - n % 2, text, label))
    return _write_table(folder / "bücher.csv", rows, delimiter=";", encoding="cp1252")


def _arrow_lists(documents: Documents, folder: Path) -> Path:
    found = documents("reuters")
    columns: dict[str, list[Any]] = {
        "text": [document.text for document in found],
        "topics": [list(document.labels) for document in found],
        "lengths": [[len(word) for word in (document.text or "").split()] for document in found],
    }
    path = folder / "reuters.feather"
    importlib.import_module("pyarrow.feather").write_feather(_arrow_table(columns), path)
    return path


def _one_column(documents: Documents, folder: Path) -> Path:
    rows = [(document.text,) for document in documents("hwu64")]
    return _write_table(folder / "requests.csv", [("request",), *rows])


def _few(documents: Documents, folder: Path) -> Path:
    rows = _labelled(documents("hwu64"))[:30]
    return _write_table(folder / "requests.csv", [("text", "intent"), *rows])


def _long_texts(documents: Documents, folder: Path) -> Path:
    posts = _labelled(documents("20news-bydate"))
    file = io.StringIO()
    for first in range(0, 60 * 10, 10):
        words = "\n".join(text for text, _ in posts[first:])[:WHOLE_TEXT]
        file.write(json.dumps({"text": words, "label": posts[first][1]}) + "\n")
    path = folder / "books.jsonl"
    path.write_text(file.getvalue())
    return path


def _empty_labels(documents: Documents, folder: Path) -> Path:
    rows = [
        (text, label if n % 5 == 0 else "")
        for n, (text, label) in enumerate(_labelled(documents("snippets")))
    ]
    return _write_table(folder / "snippets.csv", [("text", "label"), *rows])


SHAPES: dict[str, Writer] = {
    "CSV with `text`, `category`": _other_names,
    "CSV with integer `qid`, `question`, `intent`": _integer_ids,
    "CSV without a header": _no_header,
    "CSV in GB 18030, separated by `;`, in Chinese": _chinese,
    "text file, a document on each line": _lines,
    "JSON array with `body`, `topics` (lists), `n`": _topics,
    "Parquet with `title`, `abstract`, `year`": _parquet,
    "JSON lines, gzip": _gzip,
    "folder of text files": _folder,
    "CSV with broken lines": _broken_lines,
    "CSV with a header only": _header_only,
    "CSV of numbers": _numbers,
    "CSV in UTF-16 with a byte order mark, separated by `;`": _utf16,
    "JSON array, the texts in nested objects": _nested,
    "JSON array with nested fields beside `text`": _nested_beside,
    "JSON lines, every tenth text null": _null_texts,
    "TSV with quotation marks in the texts": _bare_quotes,
    "CSV of Excel in cp1252, ids twice": _excel,
    "Arrow with lists of labels and of numbers": _arrow_lists,
    "CSV with one column": _one_column,
    "CSV with 30 documents": _few,
    "JSON lines, 60 texts of up to 200,000 characters": _long_texts,
    "CSV, four labels in five empty": _empty_labels,
}
