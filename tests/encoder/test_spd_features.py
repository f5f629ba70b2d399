from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.numpy import load_file, save_file
from scipy.linalg import expm

from hummingbit.encoder.artifact import ArtifactError, load_encoder, write_artifact
from hummingbit.encoder.text_features import Floats
from hummingbit.encoder.vector_features import SpdFeatures
from hummingbit.foundation.errors import InputError
from tests.support.encoders import spd_encoder
from tests.support.matrices import spd_matrices


def triangles(matrices: Any) -> Floats:
    rows, columns = np.triu_indices(matrices.shape[1])
    return np.asarray(matrices[:, rows, columns], dtype=np.float32)


@settings(deadline=None, max_examples=25)
@given(st.integers(0, 2**32 - 1))
def test_features_are_the_logarithm_of_the_mapped_matrix(seed: int) -> None:
    matrices = spd_matrices(3, 4, seed)
    rng = np.random.default_rng(seed)
    weights = [rng.normal(size=shape).astype(np.float32) for shape in ((4, 3), (3, 2))]
    features = SpdFeatures(weights, floor=1e-9)
    found = features.transform(triangles(matrices))
    both, root = weights[0].astype(np.float64) @ weights[1], np.sqrt(2)
    for matrix, (a, b, c) in zip(matrices, found, strict=True):
        mapped = expm(np.array([[a, b / root], [b / root, c]], dtype=np.float64))
        expected = both.T @ matrix @ both
        assert np.allclose(mapped, expected, rtol=1e-3, atol=1e-4 * np.abs(expected).max())


def test_eigenvalues_are_raised_to_the_floor() -> None:
    features = SpdFeatures([np.eye(2, dtype=np.float32)], floor=0.5)
    assert features.transform(triangles(np.diag([1e-3, 4.0])[None])).tolist() == [
        [np.float32(np.log(0.5)), 0, np.float32(np.log(4))]
    ]


def test_an_artifact_of_matrices_is_loaded_as_it_was(tmp_path: Path) -> None:
    vectors = triangles(spd_matrices(60, 4))
    written = write_artifact(tmp_path / "e", spd_encoder(), vectors)
    loaded = load_encoder(tmp_path / "e")
    assert loaded.fingerprint == written.fingerprint
    assert np.array_equal(loaded.encode(vectors), spd_encoder().encode(vectors))
    assert (loaded.kind, loaded.dimension) == ("vector", 10)
    spec = json.loads((tmp_path / "e" / "encoder.json").read_text())["features"]
    assert spec == {"kind": "spd", "orders": [4, 3, 2], "floor": 1e-4}


def rewrite(folder: Path, **spec: Any) -> None:
    """Change the features' settings, and write the hash of the weights as they are now."""
    manifest = json.loads((folder / "encoder.json").read_text())
    manifest["features"].update(spec)
    raw = (folder / "weights.safetensors").read_bytes()
    manifest["files"]["weights.safetensors"] = hashlib.sha256(raw).hexdigest()
    (folder / "encoder.json").write_text(json.dumps(manifest))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"orders": [4, 3, 3]}, "the first layer has 3 inputs; it must have 6"),
        ({"orders": [5, 3, 2]}, r"spd.0.weight is float32 \(4, 3\); it must be float32 \(5, 3\)"),
        ({"orders": [4]}, "features.orders: has the length 1; it must be from 2 to 16"),
        (
            {"orders": [4, 0, 2]},
            "features.orders.1: is 0; it must be from 1 to 512",
        ),
        ({"orders": [4, 600, 2]}, "features.orders.1: is 600; it must be from 1 to 512"),
        ({"floor": 0.0}, "features: floor is 0; it must be above 0"),
        ({"floor": 2.0}, "does not give the recorded codes"),
    ],
)
def test_an_artifact_that_does_not_fit_itself_is_refused(
    tmp_path: Path, changes: dict[str, Any], message: str
) -> None:
    write_artifact(tmp_path / "e", spd_encoder(), triangles(spd_matrices(60, 4)))
    rewrite(tmp_path / "e", **changes)
    with pytest.raises(ArtifactError, match=message):
        load_encoder(tmp_path / "e")


def test_a_weight_that_is_not_finite_is_refused(tmp_path: Path) -> None:
    write_artifact(tmp_path / "e", spd_encoder(), triangles(spd_matrices(60, 4)))
    tensors = {name: t.copy() for name, t in load_file(tmp_path / "e/weights.safetensors").items()}
    tensors["spd.1.weight"][0, 0] = np.nan
    save_file(tensors, tmp_path / "e" / "weights.safetensors")
    rewrite(tmp_path / "e")
    with pytest.raises(ArtifactError, match=r"spd.1.weight holds NaN or infinity"):
        load_encoder(tmp_path / "e")


@pytest.mark.parametrize(
    ("vector", "message"),
    [
        (
            -np.eye(4),
            r"^vector: is not the upper triangle of a positive definite 4 × 4 matrix",
        ),
        (np.ones((4, 4)), r"every eigenvalue must be above 0$"),
        (np.diag([1, 1, 1, np.nan]), r"^vector: holds NaN or infinity"),
        (np.eye(3), r"^vector: has 6 numbers"),
    ],
)
def test_what_is_no_such_matrix_is_an_error(vector: Floats, message: str) -> None:
    (given,) = triangles(vector[None])
    with pytest.raises(InputError, match=message):
        spd_encoder().encode(given[None])
    if np.isfinite(given).all():
        with pytest.raises(InputError, match=message):
            spd_encoder().check_vector(given)
