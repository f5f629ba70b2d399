from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hummingbit.corpus.columns import NPZ_CONTENT
from hummingbit.corpus.document import DocumentError, parse_document
from hummingbit.corpus.matrices import upper_triangle
from hummingbit.corpus.readers import ReadError, read_documents
from tests.support.matrices import spd_matrices

GOOD = np.array([[2.0, 1.0], [1.0, 3.0]])


def test_a_matrix_is_read_as_its_upper_triangle(tmp_path: Path) -> None:
    matrices = spd_matrices(4, 3)
    np.savez(tmp_path / "m.npz", matrices=matrices, labels=np.array(["a", "b", "a", "b"]))
    documents = list(read_documents(tmp_path / "m.npz"))
    assert [document.labels for document in documents] == [("a",), ("b",), ("a",), ("b",)]
    assert all(document.is_matrix for document in documents)
    for matrix, document in zip(matrices, documents, strict=True):
        (a, b, c), (_, d, e), (_, _, f) = matrix
        assert document.vector is not None
        assert document.vector.tolist() == np.array([a, b, c, d, e, f], dtype=np.float32).tolist()


def test_rows_of_a_json_document_are_a_matrix() -> None:
    document = parse_document({"id": "a", "vector": GOOD.tolist()})
    assert document.is_matrix
    assert document.vector is not None
    assert document.vector.tolist() == [2, 1, 3]
    assert not parse_document({"id": "a", "vector": [2, 1, 3]}).is_matrix


def test_matrices_as_small_as_those_of_brain_waves_are_taken() -> None:
    assert np.allclose(upper_triangle(GOOD * 1e-27) / 1e-27, [2, 1, 3])


@pytest.mark.parametrize(
    ("matrix", "reason"),
    [
        (
            [[2.0, 1.0], [0.5, 3.0]],
            "is not symmetric: it is 1 at row 0, column 1 and 0.5 at row 1, column 0",
        ),
        ([[1.0, 2.0], [2.0, 1.0]], "is not positive definite: its least eigenvalue is -1"),
        ([[1.0, 1.0], [1.0, 1.0]], "is not positive definite: its least eigenvalue is"),
        ([[1.0, np.nan], [np.nan, 1.0]], "is nan at row 0, column 1; every number must be finite"),
        ([[1e39, 0.0], [0.0, 1.0]], "is 1e\\+39 at row 0, column 0"),
        (np.ones((2, 3)), r"is a matrix of shape \[2, 3\]; it must be square"),
        (np.eye(513), "is a matrix of 513 rows; it must have 1 to 512 rows"),
        (np.array([["a"]]), "holds <U1 values; it must hold numbers"),
        (np.eye(2) * 1j, "holds complex128 values; it must hold numbers"),
    ],
)
def test_what_is_no_positive_definite_matrix_is_an_error(matrix: Any, reason: str) -> None:
    with pytest.raises(ValueError, match=f"^{reason}"):
        upper_triangle(np.asarray(matrix))
    with pytest.raises(DocumentError, match=f"^vector: {reason}"):
        parse_document({"id": "a", "vector": np.asarray(matrix)})


@pytest.mark.parametrize(
    ("rows", "reason"),
    [
        ([[1.0], [2.0, 3.0]], "is a matrix whose rows differ in length"),
        ([[1.0, 0.0], 2.0], "is 2.0; it must be a list of numbers"),
        ([[1.0, "x"], [0.0, 1.0]], "is \\[1.0, 'x'\\]; it must be a list of numbers"),
        ([[]], "has shape \\(0,\\)"),
    ],
)
def test_rows_that_make_no_matrix_are_an_error(rows: Any, reason: str) -> None:
    with pytest.raises(DocumentError, match=f"^vector: {reason}"):
        parse_document({"id": "a", "vector": rows})


def test_an_archive_names_the_matrix_at_fault(tmp_path: Path) -> None:
    matrices = spd_matrices(3, 2)
    matrices[1, 0, 1] += 1
    np.savez(tmp_path / "m.npz", matrices=matrices)
    with pytest.raises(ReadError, match=r"m.npz:2: vector: is not symmetric"):
        list(read_documents(tmp_path / "m.npz"))
    np.savez(tmp_path / "m.npz", matrices=np.ones((2, 3)))
    with pytest.raises(
        ReadError, match=r"matrices is float64 of shape \[2, 3\]; it must be numbers"
    ):
        list(read_documents(tmp_path / "m.npz"))
    assert "matrices" in NPZ_CONTENT
