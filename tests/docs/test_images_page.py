"""docs/images.md runs from a folder of pictures to a search, with digits and with photographs."""

from __future__ import annotations

import io
import json
import runpy
import shlex
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from sklearn.datasets import load_digits, load_sample_images

from hummingbit.cli import main
from tests.support.docs.doc_blocks import blocks_of, commands_of

KNOWN, ASKED = 40, 1
"""Pictures of each class in the folder, and others that search for them."""


def digits() -> Iterator[tuple[str, bytes]]:
    """Yield the label and the PNG of scikit-learn's digits, those of a class together."""
    pictures, labels = load_digits(return_X_y=True)
    for label in range(10):
        for row in np.flatnonzero(labels == label)[: KNOWN + ASKED]:
            grey = (pictures[row].reshape(8, 8) * 255 / 16).astype(np.uint8)
            picture = Image.fromarray(grey).resize((28, 28))
            yield f"digit-{label}", content_of(picture, "PNG")


def scenes() -> Iterator[tuple[str, bytes]]:
    """Yield the label and the JPEG of parts of scikit-learn's photographs, drawn at random."""
    rng = np.random.default_rng(0)
    photographs = load_sample_images().images
    for label in range(10):
        photograph = Image.fromarray(photographs[label % 2])
        for _ in range(KNOWN + ASKED):
            left, top = (int(place) for place in rng.integers(0, (576, 363)))
            part = photograph.crop((left, top, left + 64, top + 64)).resize((32, 32))
            yield f"class-{label}", content_of(part, "JPEG")


def content_of(picture: Image.Image, form: str) -> bytes:
    file = io.BytesIO()
    picture.save(file, form)
    return file.getvalue()


def write_model(path: Path, channels: int, size: int) -> None:
    """Write 48 random filters of 5 × 5 pixels, each with its maximum over a grid of 4 × 4."""
    onnx = pytest.importorskip("onnx")
    helper, number = onnx.helper, onnx.TensorProto.FLOAT
    filters = np.random.default_rng(0).normal(size=(48, channels, 5, 5)).astype(np.float32)
    filters -= filters.mean(axis=(1, 2, 3), keepdims=True)
    cells = (size - 4) // 4
    graph = helper.make_graph(
        [
            helper.make_node("Conv", ["image", "filters"], ["edges"]),
            helper.make_node("Relu", ["edges"], ["positive"]),
            helper.make_node(
                "MaxPool",
                ["positive"],
                ["cells"],
                kernel_shape=[cells, cells],
                strides=[cells, cells],
            ),
            helper.make_node("Flatten", ["cells"], ["vector"]),
        ],
        "filters",
        [helper.make_tensor_value_info("image", number, [1, channels, size, size])],
        [helper.make_tensor_value_info("vector", number, [1, 48 * 16])],
        [onnx.numpy_helper.from_array(filters, "filters")],
    )
    opset = helper.make_opsetid("", 17)
    onnx.save(helper.make_model(graph, opset_imports=[opset], ir_version=9), path)


@pytest.mark.parametrize("corpus", [(digits, 1, 28, 0.3), (scenes, 3, 32, 0.0)])
def test_the_page_finds_pictures_of_the_same_class(
    corpus: tuple[Any, int, int, float],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Chance is a tenth. Random filters know digits; of scenes only the same picture is found."""
    pictures, channels, size, least = corpus
    pytest.importorskip("onnxruntime")
    monkeypatch.chdir(tmp_path)
    counts: dict[str, int] = {}
    asked = []
    for label, content in pictures():
        counts[label] = number = counts.get(label, 0) + 1
        folder = tmp_path / ("images" if number <= KNOWN else "others") / label
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{number:04}.png").write_bytes(content)
        if number > KNOWN:
            asked.append(folder / f"{number:04}.png")
    write_model(tmp_path / "model.onnx", channels, size)
    blocks = list(blocks_of("docs/images.md"))
    script, commands = (
        next(block for block in blocks if word in block.text)
        for word in ("def vector", "train ssb")
    )
    (tmp_path / "image_vectors.py").write_text(script.text)

    def run(*words: str) -> str:
        monkeypatch.setattr(sys, "argv", [*words])
        capsys.readouterr()
        runpy.run_path(words[0], run_name="__main__")
        return capsys.readouterr().out

    run("image_vectors.py")
    (train, build) = commands_of(commands)
    assert main([*train, "--epochs", "15"]) == 0
    assert "vectors  " in capsys.readouterr().out
    assert main(build) == 0
    search = next(words for block in blocks for words in commands_of(block) if "--vector" in words)
    first = json.loads((tmp_path / "images.jsonl").read_text().splitlines()[0])["id"]
    place = search.index("--vector") + 1
    typed = shlex.split(search[place].removeprefix("$(").removesuffix(")"))
    assert typed == ["python", "image_vectors.py", "new.png"]

    def hits_of(path: Path) -> list[dict[str, Any]]:
        vector = run(typed[1], str(path))
        assert main([*search[:place], vector, *search[place + 1 :], "--json"]) == 0
        hits: list[dict[str, Any]] = json.loads(capsys.readouterr().out)["hits"]
        return hits

    assert hits_of(Path(first))[0]["distance"] == 0
    right = [
        np.mean([Path(hit["id"]).parent.name == path.parent.name for hit in hits_of(path)])
        for path in asked[::2]
    ]
    assert np.mean(right) >= least
    assert main(["search", "pictures", "--id", first]) == 0
    assert "images/" in capsys.readouterr().out
