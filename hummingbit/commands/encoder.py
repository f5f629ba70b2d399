"""``hummingbit encoder install|list|show``: the encoders of a data folder."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from encoder.artifact import ArtifactError, install_artifact, load_encoder, read_figures
from hummingbit.commands.options import OptionError, add_data_dir
from index.names import NAME, check_name


def configure(parser: argparse.ArgumentParser) -> None:
    """Add ``install``, ``list`` and ``show``."""
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    install = actions.add_parser("install", help="copy an encoder into a data folder")
    install.add_argument("folder", type=Path, metavar="FOLDER", help="an encoder that was trained")
    install.add_argument("--name", help="its name there (default: that of FOLDER)")
    install.set_defaults(run=run_install)
    listing = actions.add_parser("list", help="print the encoders, one a line")
    listing.set_defaults(run=run_list)
    show = actions.add_parser("show", help="print what an encoder is and was trained on, as JSON")
    show.add_argument("name", metavar="NAME")
    show.set_defaults(run=run_show)
    for action in (install, listing, show):
        add_data_dir(action)


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
    status = 0
    for path in _folders(args.data_dir):
        try:
            encoder = load_encoder(path)
        except ArtifactError as error:
            print(f"{path.name:<24} cannot be loaded: {error}")
            status = 1
        else:
            print(f"{path.name:<24} {encoder.n_bits:>4} {encoder.kind:<6} {encoder.fingerprint}")
    return status


def run_show(args: argparse.Namespace) -> int:
    """Print what the artifact says of itself."""
    known = {path.name: path for path in _folders(args.data_dir)}
    if args.name not in known:
        names = ", ".join(known) or "none"
        raise OptionError(f"there is no encoder {args.name!a}; there are: {names}")
    encoder = load_encoder(known[args.name])
    about = {
        "name": args.name,
        "fingerprint": encoder.fingerprint,
        "n_bits": encoder.n_bits,
        "kind": encoder.kind,
        "dimension": encoder.dimension,
        "metadata": encoder.metadata,
        "figures": read_figures(known[args.name], encoder),
    }
    print(json.dumps(about, indent=2, ensure_ascii=False))
    return 0


def _folders(data_dir: Path) -> list[Path]:
    parent = data_dir / "encoders"
    found = parent.iterdir() if parent.is_dir() else ()
    return sorted(path for path in found if path.is_dir() and NAME.fullmatch(path.name))
