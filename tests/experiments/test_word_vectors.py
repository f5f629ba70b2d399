from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from experiments.word_vectors import read_word_vectors
from hummingbit.corpus.readers import ReadError
from hummingbit.training.word_vectors import WordVectorsError

WORDS = ("sea", "Boat", "new york")
VECTORS = np.array([[1, 2.5], [3, -4], [0, 1]], dtype=np.float32)
LINES = "sea 1 2.5\nBoat 3 -4\n"


def save(path: Path, content: str) -> Path:
    if path.suffix == ".gz":
        path.write_bytes(gzip.compress(content.encode()))
    else:
        path.write_text(content, encoding="utf-8")
    return path


def save_columns(path: Path) -> Path:
    if path.suffix == ".npz":
        np.savez(path, ids=np.array(WORDS), vectors=VECTORS)
    else:
        pq.write_table(pa.table({"id": list(WORDS), "vector": VECTORS.tolist()}), path)
    return path


@pytest.mark.parametrize("name", ["words.npz", "words.parquet"])
def test_columns_are_read(name: str, tmp_path: Path) -> None:
    found = read_word_vectors(save_columns(tmp_path / name))
    assert tuple(found.words) == WORDS
    np.testing.assert_array_equal(found.vectors, VECTORS)
    assert found.about()["name"] == name
    assert found.about()["words"] == 3
    assert found.about()["dimension"] == 2


@pytest.mark.parametrize("name", ["glove.txt", "wiki.vec", "wiki.vec.gz"])
@pytest.mark.parametrize("lines", [LINES, "2 2\n" + LINES, "2\t2\n" + LINES.replace(" ", "\t")])
def test_lines_of_words_and_numbers_are_read(name: str, lines: str, tmp_path: Path) -> None:
    found = read_word_vectors(save(tmp_path / name, lines.replace("5\n", "5 \n")))
    assert tuple(found.words) == WORDS[:2]
    np.testing.assert_array_equal(found.vectors, VECTORS[:2])


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("words.csv", LINES, "word vectors are read from files of .npz, .parquet, .txt, .vec"),
        ("words.txt", "", "has no word with a vector"),
        ("words.txt", "sea 1 2\nboat one 2\n", "line 2: 'boat one 2' is not a word"),
        ("words.txt", "sea,1,2\n", "line 1: 'sea,1,2' is not a word .* spaces or tabs between"),
        ("words.txt", "sea 1 2\nboat 1 2 3\n", "vectors have 2 to 3 numbers"),
        ("words.txt", "sea 1 nan\n", "not finite"),
        ("words.vec.gz", None, "Not a gzipped file"),
        ("words.npz", "no archive", "words.npz"),
    ],
)
def test_files_that_cannot_be_used_are_named(
    name: str, content: str | None, message: str, tmp_path: Path
) -> None:
    path = tmp_path / name
    if content is None:
        path.write_text(LINES)
    else:
        save(path, content)
    with pytest.raises((WordVectorsError, ReadError), match=message) as caught:
        read_word_vectors(path)
    assert str(path) in str(caught.value)


def test_a_damaged_archive_is_named(tmp_path: Path) -> None:
    path = tmp_path / "words.vec.gz"
    # A header of gzip, and no deflated data after it.
    path.write_bytes(gzip.compress(LINES.encode())[:10] + b"\xff" * 20)
    with pytest.raises(WordVectorsError, match=r"words\.vec\.gz: "):
        read_word_vectors(path)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(WordVectorsError, match=r"absent\.txt: No such file"):
        read_word_vectors(tmp_path / "absent.txt")
