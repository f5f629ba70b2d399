"""Files of word vectors, which classify queries whose words no labelled text has.

Class codes take them beside the labels (:mod:`hummingbit.training.word_vectors`). ``hummingbit
distill --supervision`` makes its own if the teacher is a language model.
"""

from __future__ import annotations

import gzip
import hashlib
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from hummingbit.corpus.lines import suffixes_of
from hummingbit.corpus.readers import read_documents
from hummingbit.training.word_vectors import WordVectors, WordVectorsError

FILES = (".npz", ".parquet")
PLAIN_FILES = (".txt", ".vec")


def read_word_vectors(path: Path) -> WordVectors:
    """Read the vectors of words.

    `path` is an `.npz` archive of `ids`, the words, and `vectors`, a Parquet file of `id` and
    `vector`, or a file of lines that have a word and its numbers, as those of GloVe and fastText:
    `.txt` or `.vec`, optionally followed by `.gz`, with spaces or tabs between them. A first line
    of two numbers is skipped.

    Raises:
        WordVectorsError: if the file cannot be read, has another suffix, no vectors, vectors of
            different lengths or a number that is not finite.
        ReadError: if an archive or Parquet file does not have the format of its suffix.
    """
    suffix, compression = suffixes_of(path)
    plain = suffix in PLAIN_FILES and compression in ("", ".gz")
    if not plain and path.suffix.lower() not in FILES:
        expected = ", ".join([*FILES, *PLAIN_FILES])
        raise WordVectorsError(f"{path}: word vectors are read from files of {expected}")
    try:
        with path.open("rb") as file:
            fingerprint = hashlib.file_digest(file, "sha256").hexdigest()
        pairs = list(_read_lines(path) if plain else _read_columns(path))
    except (OSError, EOFError, UnicodeDecodeError, zlib.error) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise WordVectorsError(f"{path}: {reason}") from error
    if not pairs:
        raise WordVectorsError(f"{path}: has no word with a vector")
    words, vectors = zip(*pairs, strict=True)
    if len(lengths := sorted({len(vector) for vector in vectors})) > 1:
        raise WordVectorsError(
            f"{path}: vectors have {lengths[0]} to {lengths[-1]} numbers; all must have as many"
        )
    table = np.asarray(vectors, dtype=np.float32)
    if not table.size or not np.isfinite(table).all():
        raise WordVectorsError(f"{path}: a vector is empty, or a number of it is not finite")
    return WordVectors(path.name, fingerprint, words, table)


def _read_columns(path: Path) -> Iterator[tuple[str, Any]]:
    for document in read_documents(path):
        if document.vector is not None:
            yield document.id, document.vector


def _read_lines(path: Path) -> Iterator[tuple[str, Any]]:
    with (
        gzip.open(path, "rt", encoding="utf-8")
        if path.suffix.lower() == ".gz"
        else path.open(encoding="utf-8") as lines
    ):
        for number, line in enumerate(lines, 1):
            word, *numbers = line.rstrip(" \t\r\n").replace("\t", " ").split(" ")
            if number == 1 and len(numbers) == 1:
                continue
            try:
                vector = np.array(numbers, dtype=np.float32)
            except ValueError:
                vector = np.empty(0, dtype=np.float32)
            if not len(vector):
                found = f"line {number}: {line[:40].rstrip()!r} is not a word and its numbers"
                raise WordVectorsError(f"{path}: {found}, with spaces or tabs between them")
            yield word, vector
