"""``hummingbit encoder ACTION``: the encoders of a data folder or of a service."""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from encoder.artifact import ArtifactError, install_artifact, load_encoder, read_figures
from hummingbit.commands.data_folder_options import add_url, service_at
from hummingbit.commands.encoders.encoder_export import (
    configure_export,
    encoder_folder,
    encoder_folders,
)
from hummingbit.commands.encoders.encoder_sharing import configure_sharing
from hummingbit.commands.options import add_data_dir
from index.folder.names import check_name

SHOWN = ("name", "fingerprint", "n_bits", "kind", "dimension", "metadata", "figures")


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
    for action in (listing, show):
        add_url(action)


def run_install(args: argparse.Namespace) -> int:
    """Check the encoder in full, copy it, and load it from its new place.

    A service that is running sees it at once; nothing is ever replaced.
    """
    name = args.folder.resolve().name if args.name is None else args.name
    check_name(name, "--name")
    encoder = install_artifact(args.folder, args.data_dir / "encoders" / name)
    print(f"{name}: {encoder.n_bits} bits, {encoder.kind}, fingerprint {encoder.fingerprint}")
    return 0


def run_list(args: argparse.Namespace) -> int:
    """Print name, bits, kind and fingerprint, or what is wrong with it; return 1 if anything is."""
    if args.url is not None:
        return _list_remotely(args)
    status = 0
    for path in encoder_folders(args.data_dir):
        try:
            encoder = load_encoder(path)
        except ArtifactError as error:
            print(_line_of_lost(path.name, error))
            status = 1
        else:
            print(_line(path.name, encoder.n_bits, encoder.kind, encoder.fingerprint))
    return status


def run_show(args: argparse.Namespace) -> int:
    """Print what the artifact says of itself."""
    if args.url is not None:
        with service_at(args) as client:
            found: Mapping[str, Any] = client.encoder(args.name)
        _print({name: found[name] for name in SHOWN})
        return 0
    folder = encoder_folder(args.data_dir, args.name)
    encoder = load_encoder(folder)
    about = {name: getattr(encoder, name) for name in SHOWN[1:-1]}
    figures = read_figures(folder, encoder)
    _print({"name": args.name, **about, "figures": figures})
    return 0


def _list_remotely(args: argparse.Namespace) -> int:
    with service_at(args) as client:
        found = client.encoders()
    lines = [
        _line(one["name"], one["n_bits"], one["kind"], one["fingerprint"])
        for one in found["encoders"]
    ]
    lines += [_line_of_lost(lost["name"], lost["reason"]) for lost in found["unavailable"]]
    for line in sorted(lines):
        print(line)
    return 1 if found["unavailable"] else 0


def _line(name: str, n_bits: int, kind: str, fingerprint: str) -> str:
    return f"{name:<24} {n_bits:>4} {kind:<6} {fingerprint}"


def _line_of_lost(name: str, reason: object) -> str:
    return f"{name:<24} cannot be loaded: {reason}"


def _print(about: Mapping[str, Any]) -> None:
    print(json.dumps(about, indent=2, ensure_ascii=False))
