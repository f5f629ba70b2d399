"""``hummingbit encoder export``: an encoder as an ONNX file."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import numpy as np

from encoder.artifact import ArtifactError, load_encoder
from encoder.artifact_files.artifact_contents import as_inputs
from encoder.artifact_files.manifest import GOLDEN
from encoder.encoder import Encoder
from encoder.onnx_graph import onnx_model, run_onnx
from foundation.files import replacing
from foundation.stages import begin_stage
from hummingbit.commands.json_output import add_json, print_result
from hummingbit.commands.options import OptionError, add_data_dir, naming
from index.errors import UnknownEncoder
from index.folder.names import NAME

DESCRIBED = ("name", "n_bits", "kind", "fingerprint")


def configure_export(parser: argparse.ArgumentParser) -> None:
    """Add the options."""
    parser.add_argument("name", metavar="NAME")
    parser.add_argument(
        "--onnx", required=True, type=Path, metavar="FILE", help="the file to write"
    )
    parser.add_argument("--overwrite", action="store_true", help="replace FILE if it exists")
    add_data_dir(parser)
    add_json(parser)
    parser.set_defaults(run=run_export)


def run_export(args: argparse.Namespace) -> int:
    """Write the graph, after checking that onnxruntime gives the codes of the golden inputs."""
    if args.onnx.exists() and not args.overwrite:
        raise OptionError(f"--onnx {args.onnx}: the file exists; --overwrite replaces it")
    folder = encoder_folder(args.data_dir, args.name)
    encoder = load_encoder(folder)
    begin_stage("writing the graph and comparing its codes")
    model = onnx_model(encoder)
    golden = _golden_inputs(folder, encoder)
    _, codes = run_onnx(model, encoder, golden)
    if not np.array_equal(codes, encoder.encode(golden)):
        raise OptionError(f"--onnx: the graph of {args.name} gives other codes; nothing is written")
    with naming(args.onnx), replacing(args.onnx) as partial:
        partial.write_bytes(model)
    size = f"{len(model) / 1e6:,.1f} MB"
    result = {"file": str(args.onnx), "n_bits": encoder.n_bits, "bytes": len(model)}
    line = f"{args.onnx}: {encoder.n_bits} bits, {size}; the golden inputs give the same codes"
    print_result(args, result, line)
    return 0


def print_installed(args: argparse.Namespace, name: str, encoder: Encoder) -> None:
    """Print the name and the properties of an installed encoder."""
    line = f"{name}: {encoder.n_bits} bits, {encoder.kind}, fingerprint {encoder.fingerprint}"
    print_result(args, describe(name, encoder), line)


def describe(name: str, encoder: Encoder) -> dict[str, Any]:
    """Return the name and the main properties of an encoder."""
    return {"name": name} | {field: getattr(encoder, field) for field in DESCRIBED[1:]}


def encoder_folder(data_dir: Path, name: str) -> Path:
    """Return the folder of an encoder of a data folder.

    Raises:
        UnknownEncoder: if it does not exist.
    """
    folders = {path.name: path for path in encoder_folders(data_dir)}
    if name not in folders:
        raise UnknownEncoder(name, folders)
    return folders[name]


def encoder_folders(data_dir: Path) -> list[Path]:
    """Return the folders of the encoders of a data folder, by name."""
    parent = data_dir / "encoders"
    paths = parent.iterdir() if parent.is_dir() else ()
    return sorted(path for path in paths if path.is_dir() and NAME.fullmatch(path.name))


def _golden_inputs(folder: Path, encoder: Encoder) -> list[str] | np.ndarray:
    try:
        inputs = json.loads((folder / GOLDEN).read_bytes())["inputs"]
    except (OSError, ValueError, KeyError) as error:
        raise ArtifactError(f"{folder / GOLDEN}: cannot be read: {error}") from error
    return as_inputs(encoder, inputs)  # type: ignore[return-value]
