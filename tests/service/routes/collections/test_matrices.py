from __future__ import annotations

from collections.abc import Iterator

import httpx
import numpy as np
import pytest

from hummingbit.encoder.artifact import write_artifact
from hummingbit.encoder.codes import code_to_hex, hamming_distance
from tests.support.encoders import spd_encoder
from tests.support.matrices import spd_matrices
from tests.support.service import check_problem, make_data_folder, running_service


def triangles(count: int, seed: int = 0) -> np.ndarray:
    rows, columns = np.triu_indices(4)
    return spd_matrices(count, 4, seed)[:, rows, columns].astype(np.float32)


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx.Client]:
    """A client of a service with an encoder of 4 × 4 matrices and a collection of 50."""
    folder = make_data_folder(tmp_path_factory.mktemp("data"))
    write_artifact(folder / "encoders" / "covariances", spd_encoder(), triangles(60))
    with running_service(folder) as client:
        assert client.put("/v1/collections/c", json={"encoder": "covariances"}).status_code == 201
        documents = [
            {"id": str(i), "vector": triangle.tolist()} for i, triangle in enumerate(triangles(50))
        ]
        put = client.put("/v1/collections/c/documents", json={"documents": documents})
        assert put.status_code == 200, put.text
        yield client


def test_a_matrix_is_searched_by_the_hamming_distance_of_its_code(client: httpx.Client) -> None:
    stored, (query,) = spd_encoder().encode(triangles(50)), triangles(1, seed=5)
    body = {"vector": query.tolist(), "limit": 50}
    hits = client.post("/v1/collections/c/search", json=body).json()["hits"]
    away = hamming_distance(stored, spd_encoder().encode(query[None]))
    order = np.lexsort((np.arange(50), away))
    assert [hit["id"] for hit in hits] == [str(i) for i in order]
    assert [hit["distance"] for hit in hits] == away[order].tolist()


def test_a_matrix_is_encoded(client: httpx.Client) -> None:
    body = {"inputs": [{"vector": triangle.tolist()} for triangle in triangles(3)]}
    found = client.post("/v1/encoders/covariances/encode", json=body).json()["codes"]
    assert found == [code_to_hex(code) for code in spd_encoder().encode(triangles(3))]
    about = client.get("/v1/encoders/covariances").json()
    assert (about["kind"], about["dimension"]) == ("vector", 10)


def test_what_is_not_positive_definite_is_refused_and_changes_nothing(client: httpx.Client) -> None:
    bad = (-triangles(1)[0]).tolist()
    document = {"documents": [{"id": "bad", "vector": bad}]}
    answers = [
        (client.put("/v1/collections/c/documents", json=document), "/documents"),
        (client.post("/v1/collections/c/search", json={"vector": bad}), "/vector"),
        (
            client.post("/v1/encoders/covariances/encode", json={"inputs": [{"vector": bad}]}),
            "/inputs/0/vector",
        ),
    ]
    for response, pointer in answers:
        problem = check_problem(response, 422, "invalid_request")
        (error,) = problem["errors"]
        assert error["pointer"] == pointer
        assert "is not the upper triangle of a positive definite 4 × 4 matrix" in error["message"]
    assert client.get("/v1/collections/c/documents/bad").status_code == 404
