"""``hummingbit encoder ACTION``: the encoders of a data folder or of a service."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from encoder.artifact import ArtifactError, install_artifact, load_encoder, read_metrics
from foundation.stages import begin_stage
from hummingbit.commands.data_folder_options import add_url, service_at
from hummingbit.commands.encoders.encoder_export import (
    DESCRIBED,
    configure_export,
    describe,
    encoder_folder,
    encoder_folders,
    print_installed,
)
from hummingbit.commands.encoders.encoder_sharing import configure_sharing
from hummingbit.commands.json_output import add_json, print_json, print_result
from hummingbit.commands.options import add_data_dir
from index.folder.names import check_name

DETAILS = ("name", "fingerprint", "n_bits", "kind", "dimension", "metadata", "figures")


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the actions."""
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    install = actions.add_parser("install", help="copy an encoder into a data folder")
    install.add_argument("folder", type=Path, metavar="FOLDER", help="a trained encoder")
    install.add_argument("--name", help="its name in the data folder (default: the name of FOLDER)")
    install.set_defaults(run=run_install)
    listing = actions.add_parser("list", help="list the encoders")
    listing.set_defaults(run=run_list)
    show = actions.add_parser("show", help="print an encoder's manifest and figures as JSON")
    show.add_argument("name", metavar="NAME")
    show.set_defaults(run=run_show)
    export = "write an encoder as an ONNX file, for runtimes without Python"
    configure_export(actions.add_parser("export", help=export))
    configure_sharing(actions)
    for action in (install, listing, show):
        add_data_dir(action)
        add_json(action)
    for action in (listing, show):
        add_url(action)


def run_install(args: argparse.Namespace) -> int:
    """Check the encoder in full, copy it, and load the copy.

    A running service sees it at once. An existing encoder is never replaced.
    """
    name = args.folder.resolve().name if args.name is None else args.name
    check_name(name, "--name")
    begin_stage(f"checking and copying {args.folder}")
    encoder = install_artifact(args.folder, args.data_dir / "encoders" / name)
    print_installed(args, name, encoder)
    return 0


def run_list(args: argparse.Namespace) -> int:
    """Print name, bits, kind and fingerprint, or the error; return 1 if one cannot be loaded."""
    encoders, unavailable = _list_remotely(args) if args.url is not None else _list(args)
    lines = [_line(encoder) for encoder in encoders]
    lines += [f"{one['name']:<24} cannot be loaded: {one['reason']}" for one in unavailable]
    print_result(args, {"encoders": encoders, "unavailable": unavailable}, sorted(lines))
    return 1 if unavailable else 0


def run_show(args: argparse.Namespace) -> int:
    """Print the manifest and the figures of an encoder."""
    if args.url is not None:
        with service_at(args) as client:
            detail: Mapping[str, Any] = client.encoder(args.name)
        print_json({name: detail[name] for name in DETAILS})
        return 0
    folder = encoder_folder(args.data_dir, args.name)
    encoder = load_encoder(folder)
    properties = {name: getattr(encoder, name) for name in DETAILS[1:-1]}
    print_json({"name": args.name, **properties, "figures": read_metrics(folder, encoder)})
    return 0


def _list(args: argparse.Namespace) -> tuple[list[dict[str, Any]], list[dict[str, str]]]:
    encoders, unavailable = [], []
    for path in encoder_folders(args.data_dir):
        try:
            encoders.append(describe(path.name, load_encoder(path)))
        except ArtifactError as error:
            unavailable.append({"name": path.name, "reason": str(error)})
    return encoders, unavailable


def _list_remotely(args: argparse.Namespace) -> tuple[list[dict[str, Any]], list[dict[str, str]]]:
    with service_at(args) as client:
        response = client.encoders()
    encoders: list[Mapping[str, Any]] = [*response["encoders"]]
    unavailable = [
        {"name": one["name"], "reason": one["reason"]} for one in response["unavailable"]
    ]
    return [{name: encoder[name] for name in DESCRIBED} for encoder in encoders], unavailable


def _line(encoder: Mapping[str, Any]) -> str:
    columns = f"{encoder['name']:<24} {encoder['n_bits']:>4} {encoder['kind']:<6}"
    return f"{columns} {encoder['fingerprint']}"
