"""``hummingbit encoder ACTION``: the encoders of a data folder or of a service."""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hummingbit.commands.options import (
    Actions,
    OptionError,
    add_command,
    add_data_dir,
    add_data_dir_or_url,
    add_option,
    naming,
    open_encoders,
)
from hummingbit.commands.printing import add_json, print_json, print_result
from hummingbit.deferred import deferred_imports
from hummingbit.foundation.slices import begin_stage

with deferred_imports():
    import numpy as np

    from hummingbit.encoder.artifact import GOLDEN, ArtifactError, as_inputs, install_artifact
    from hummingbit.encoder.encoder import Encoder
    from hummingbit.encoder.onnx_graph import onnx_model, run_onnx
    from hummingbit.foundation.files import replacing
    from hummingbit.index.catalog import EncoderFolder, check_name
    from hummingbit.integrations.hub import model_card, pull, push, push_to_folder

if TYPE_CHECKING:
    from hummingbit.remote import RemoteEncoder

# ``hummingbit encoder export``: an encoder as an ONNX file.


DESCRIBED = ("n_bits", "kind", "fingerprint")


def configure_export(parser: argparse.ArgumentParser) -> None:
    """Add the options."""
    parser.add_argument("name", metavar="NAME")
    add_option(parser, "--onnx FILE", "the file to write", required=True, type=Path)
    add_option(parser, "--overwrite", "replace FILE if it exists")
    add_data_dir(parser)
    add_json(parser)
    parser.set_defaults(run=run_export)


def run_export(args: argparse.Namespace) -> None:
    """Write the graph, after checking that onnxruntime gives the codes of the golden inputs."""
    if args.onnx.exists() and not args.overwrite:
        raise OptionError(f"--onnx {args.onnx}: the file exists; --overwrite replaces it")
    encoders = EncoderFolder(args.data_dir / "encoders")
    folder, encoder = encoders.folder(args.name), encoders.load(args.name)
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


def print_installed(args: argparse.Namespace, name: str, encoder: Encoder) -> None:
    """Print the name and the properties of an installed encoder."""
    line = f"{name}: {encoder.n_bits} bits, {encoder.kind}, fingerprint {encoder.fingerprint}"
    print_result(args, describe(name, encoder), line)


def describe(name: str, encoder: Encoder | RemoteEncoder) -> dict[str, Any]:
    """Return the name and the main properties of an encoder."""
    return {"name": name} | {field: getattr(encoder, field) for field in DESCRIBED}


def _golden_inputs(folder: Path, encoder: Encoder) -> list[str] | np.ndarray:
    try:
        inputs = json.loads((folder / GOLDEN).read_bytes())["inputs"]
    except (OSError, ValueError, KeyError) as error:
        raise ArtifactError(f"{folder / GOLDEN}: cannot be read: {error}") from error
    return as_inputs(encoder, inputs)  # type: ignore[return-value]


# ``hummingbit encoder push|pull``: encoders as repositories of the Hugging Face Hub.


def configure_sharing(actions: Actions) -> None:
    """Add ``push`` and ``pull``."""
    sending = add_command(actions, "push", run_push, "upload an encoder to the Hugging Face Hub")
    sending.add_argument("name", metavar="NAME")
    where = sending.add_mutually_exclusive_group(required=True)
    where.add_argument(
        "repository", nargs="?", metavar="REPOSITORY", help="NAMESPACE/NAME, made if it is missing"
    )
    add_option(where, "--folder FOLDER", "write the repository's files here instead", type=Path)
    add_option(sending, "--private", "make a private repository")
    add_option(sending, "--license NAME", "for the model card, such as apache-2.0")
    add_option(sending, "--language CODE", "for the model card, such as en")
    getting = add_command(actions, "pull", run_pull, "install an encoder from the Hugging Face Hub")
    getting.add_argument(
        "repository", metavar="REPOSITORY", help="NAMESPACE/NAME, or a folder that push wrote"
    )
    add_option(getting, "--revision NAME", "a branch, a tag or a commit")
    add_option(getting, "--name NAME", "its name in the data folder (default: the repository's)")
    for action in (sending, getting):
        add_data_dir(action)
        add_json(action)


def run_push(args: argparse.Namespace) -> None:
    """Upload the encoder's files and a model card, or write them to a folder."""
    folder = EncoderFolder(args.data_dir / "encoders").folder(args.name)
    title = args.name if args.repository is None else args.repository.rpartition("/")[2]
    card = model_card(folder, title, license_name=args.license, language=args.language)
    if args.folder is not None:
        if args.folder.exists():
            raise OptionError(f"--folder {args.folder}: already exists; name a folder to create")
        with naming(f"--folder {args.folder}"):
            push_to_folder(folder, args.folder, card)
        line = f"{args.folder}: the files of a repository, with a model card"
        print_result(args, {"name": args.name, "folder": str(args.folder)}, line)
        return
    begin_stage(f"uploading {args.name} to {args.repository}")
    with naming(args.repository):
        address = push(folder, args.repository, private=args.private, card=card)
    print_result(args, {"name": args.name, "url": address}, address)


def run_pull(args: argparse.Namespace) -> None:
    """Check the encoder in full and install it; an existing one is never replaced."""
    name = args.name or Path(args.repository).resolve().name
    check_name(name, "--name")
    begin_stage(f"installing {args.repository}")
    with naming(args.repository):
        encoder = pull(args.repository, args.data_dir / "encoders" / name, revision=args.revision)
    print_installed(args, name, encoder)


# ``hummingbit encoder ACTION``: the encoders of a data folder or of a service.


DETAILS = ("fingerprint", "n_bits", "kind", "dimension", "metadata")


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the actions."""
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    install = add_command(actions, "install", run_install, "copy an encoder into a data folder")
    install.add_argument("folder", type=Path, metavar="FOLDER", help="a trained encoder")
    add_option(install, "--name NAME", "its name in the data folder (default: the name of FOLDER)")
    listing = add_command(actions, "list", run_list, "list the encoders")
    show = add_command(actions, "show", run_show, "print an encoder's manifest and figures as JSON")
    show.add_argument("name", metavar="NAME")
    export = "write an encoder as an ONNX file, for runtimes without Python"
    configure_export(actions.add_parser("export", help=export))
    configure_sharing(actions)
    add_data_dir(install)
    for action in (listing, show):
        add_data_dir_or_url(action)
    for action in (install, listing, show):
        add_json(action)


def run_install(args: argparse.Namespace) -> None:
    """Check the encoder in full, copy it, and load the copy.

    A running service sees it at once. An existing encoder is never replaced.
    """
    name = args.folder.resolve().name if args.name is None else args.name
    check_name(name, "--name")
    begin_stage(f"checking and copying {args.folder}")
    encoder = install_artifact(args.folder, args.data_dir / "encoders" / name)
    print_installed(args, name, encoder)


def run_list(args: argparse.Namespace) -> int:
    """Print name, bits, kind and fingerprint, or the error; return 1 if one cannot be loaded."""
    described, unavailable = [], []
    with open_encoders(args) as encoders:
        for name in encoders.names():
            try:
                described.append(describe(name, encoders.load(name)))
            except ArtifactError as error:
                unavailable.append({"name": name, "reason": str(error)})
    lines = [_line(encoder) for encoder in described]
    lines += [
        f"{encoder['name']:<24} cannot be loaded: {encoder['reason']}" for encoder in unavailable
    ]
    print_result(args, {"encoders": described, "unavailable": unavailable}, sorted(lines))
    return 1 if unavailable else 0


def run_show(args: argparse.Namespace) -> None:
    """Print the manifest and the figures of an encoder."""
    with open_encoders(args) as encoders:
        encoder = encoders.load(args.name)
        properties = {name: getattr(encoder, name) for name in DETAILS}
        print_json({"name": args.name, **properties, "figures": encoders.figures(args.name)})


def _line(encoder: Mapping[str, Any]) -> str:
    columns = f"{encoder['name']:<24} {encoder['n_bits']:>4} {encoder['kind']:<6}"
    return f"{columns} {encoder['fingerprint']}"
