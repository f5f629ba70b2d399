"""Encoder folders made to harm: each is refused, runs nothing and takes little memory."""

from __future__ import annotations

import hashlib
import io
import json
import os
import pickle
import struct
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import save

from hummingbit.encoder.artifact import ArtifactError, load_encoder, write_artifact
from tests.support.encoders import random_texts, text_encoder

ROOT = Path(__file__).parents[2]
WEIGHTS = "weights.safetensors"
LARGE = 16 << 20
# What Python and the allocator take besides, whatever the size of the file.
SLACK = 8 << 20


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write_artifact(tmp_path / "encoder", text_encoder(), random_texts(50))
    return tmp_path / "encoder"


def put(folder: Path, name: str, raw: bytes) -> None:
    """Put a file in the place of another, the manifest vouching for it."""
    (folder / name).write_bytes(raw)
    manifest = json.loads((folder / "encoder.json").read_text())
    manifest["files"][name] = hashlib.sha256(raw).hexdigest()
    (folder / "encoder.json").write_text(json.dumps(manifest))


def header(entries: dict[str, Any], length: int | None = None, data: bytes = b"") -> bytes:
    """Write a safetensors file with such a header, whatever it says."""
    raw = json.dumps(entries).encode()
    return struct.pack("<Q", len(raw) if length is None else length) + raw + data


def tensor(shape: list[int], start: int, end: int) -> dict[str, Any]:
    return {"dtype": "F32", "shape": shape, "data_offsets": [start, end]}


class Harm:
    """Unpickled, it leaves a mark."""

    def __init__(self, mark: Path) -> None:
        self.mark = mark

    def __reduce__(self) -> tuple[Any, ...]:
        return os.mkdir, (str(self.mark),)


@pytest.mark.parametrize("name", ["encoder.json", WEIGHTS, "vocabulary.txt", "golden.json"])
def test_a_pickle_is_not_unpickled(folder: Path, tmp_path: Path, name: str) -> None:
    raw = pickle.dumps(Harm(tmp_path / "harmed"))
    if name == "encoder.json":
        (folder / name).write_bytes(raw)
    else:
        put(folder, name, raw)
    with pytest.raises(ArtifactError, match=name):
        load_encoder(folder)
    assert not (tmp_path / "harmed").exists()


HEADERS: dict[str, tuple[bytes, str]] = {
    "no header": (b"", WEIGHTS),
    "a header longer than the file": (header({}, length=2**63), WEIGHTS),
    "a header as long as memory": (header({}, length=2**40), WEIGHTS),
    "a negative length": (struct.pack("<q", -1) + b"{}", WEIGHTS),
    "no JSON": (struct.pack("<Q", 4) + b"\xff\xff\xff\xff", WEIGHTS),
    "deep JSON": (struct.pack("<Q", 200_000) + b"[" * 200_000, WEIGHTS),
    "overlapping tensors": (
        header({"a": tensor([4], 0, 16), "b": tensor([4], 8, 24)}, data=bytes(24)),
        WEIGHTS,
    ),
    "a hole": (header({"a": tensor([1], 0, 4), "b": tensor([1], 8, 12)}, data=bytes(12)), WEIGHTS),
    "beyond the end": (header({"a": tensor([1024], 0, 4096)}, data=bytes(16)), WEIGHTS),
    "an end before the start": (header({"a": tensor([1], 4, 0)}, data=bytes(4)), WEIGHTS),
    "a shape that overflows": (
        header({"a": tensor([2**32, 2**32], 0, 4)}, data=bytes(4)),
        WEIGHTS,
    ),
    "a shape of another size": (header({"a": tensor([2**20], 0, 4)}, data=bytes(4)), WEIGHTS),
    "another type": (
        header({"a": {"dtype": "PICKLE", "shape": [1], "data_offsets": [0, 4]}}, data=bytes(4)),
        WEIGHTS,
    ),
    "nothing in it": (save({}), "weight is missing"),
}


@pytest.mark.parametrize("case", HEADERS)
def test_headers_that_lie_are_refused(folder: Path, case: str) -> None:
    raw, message = HEADERS[case]
    put(folder, WEIGHTS, raw)
    with pytest.raises(ArtifactError, match=message):
        load_encoder(folder)


def not_finite(value: float) -> bytes:
    weights = np.zeros((LARGE // 4 // 12, 12), dtype=np.float32)
    weights[-1, -1] = value
    tensors = {"layers.0.weight": weights, "thresholds": np.zeros(32, dtype=np.float32)}
    return save(tensors)


def bomb() -> bytes:
    """A small archive of four times as many zeros, and zeros of the file's own behind it."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        archive.writestr("data.pkl", bytes(4 * LARGE))
    return buffer.getvalue().ljust(LARGE, b"\0")


HEAVY: dict[str, tuple[str, Callable[[], bytes]]] = {
    "a zip bomb": (WEIGHTS, bomb),
    "a header that is the whole file": (
        WEIGHTS,
        lambda: struct.pack("<Q", LARGE) + b" " * LARGE,
    ),
    "overlapping tensors": (
        WEIGHTS,
        lambda: header(
            {f"t{i}": tensor([LARGE // 4], 0, LARGE) for i in range(50)}, data=bytes(LARGE)
        ),
    ),
    "weights that are not finite": (WEIGHTS, lambda: not_finite(float("nan"))),
    "a pickle": (WEIGHTS, lambda: pickle.dumps(bytes(LARGE))),
    "a manifest without end": ("encoder.json", lambda: b"[" * LARGE),
}


@pytest.mark.parametrize("case", HEAVY)
def test_what_is_refused_takes_less_than_twice_its_size(
    folder: Path, tmp_path: Path, case: str
) -> None:
    write_artifact(tmp_path / "small", text_encoder(), random_texts(50))
    name, make = HEAVY[case]
    raw = make()
    if name == "encoder.json":
        (folder / name).write_bytes(raw)
    else:
        put(folder, name, raw)
    folders = [str(folder), str(tmp_path / "small")]
    command = [sys.executable, "-m", "tests.support.peak_memory", *folders]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    found = json.loads(done.stdout)
    assert name in found["error"]
    assert found["bytes"] < 2 * len(raw) + SLACK
