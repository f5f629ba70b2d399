"""``hummingbit encoder push|pull``: encoders as repositories of the Hugging Face Hub."""

from __future__ import annotations

import argparse
from pathlib import Path

from foundation.stages import begin_stage
from hummingbit.commands.data_folder_options import Actions
from hummingbit.commands.encoders.encoder_export import encoder_folder, print_installed
from hummingbit.commands.json_output import add_json, print_result
from hummingbit.commands.options import OptionError, add_data_dir, naming
from hummingbit.integrations.hub import model_card, pull, push, push_to_folder
from index.folder.names import check_name


def configure_sharing(actions: Actions) -> None:
    """Add ``push`` and ``pull``."""
    sending = actions.add_parser("push", help="upload an encoder to the Hugging Face Hub")
    sending.add_argument("name", metavar="NAME")
    where = sending.add_mutually_exclusive_group(required=True)
    where.add_argument(
        "repository", nargs="?", metavar="REPOSITORY", help="NAMESPACE/NAME, made if it is missing"
    )
    where.add_argument(
        "--folder", type=Path, metavar="FOLDER", help="write the repository's files here instead"
    )
    sending.add_argument("--private", action="store_true", help="make a private repository")
    sending.add_argument("--license", metavar="NAME", help="for the model card, such as apache-2.0")
    sending.add_argument("--language", metavar="CODE", help="for the model card, such as en")
    sending.set_defaults(run=run_push)
    getting = actions.add_parser("pull", help="install an encoder from the Hugging Face Hub")
    getting.add_argument(
        "repository", metavar="REPOSITORY", help="NAMESPACE/NAME, or a folder that push wrote"
    )
    getting.add_argument("--revision", metavar="NAME", help="a branch, a tag or a commit")
    getting.add_argument("--name", help="its name in the data folder (default: the repository's)")
    getting.set_defaults(run=run_pull)
    for action in (sending, getting):
        add_data_dir(action)
        add_json(action)


def run_push(args: argparse.Namespace) -> int:
    """Upload the encoder's files and a model card, or write them to a folder."""
    folder = encoder_folder(args.data_dir, args.name)
    title = args.name if args.repository is None else args.repository.rpartition("/")[2]
    card = model_card(folder, title, license_name=args.license, language=args.language)
    if args.folder is not None:
        if args.folder.exists():
            raise OptionError(f"--folder {args.folder}: already exists; name a folder to create")
        with naming(f"--folder {args.folder}"):
            push_to_folder(folder, args.folder, card)
        line = f"{args.folder}: the files of a repository, with a model card"
        print_result(args, {"name": args.name, "folder": str(args.folder)}, line)
        return 0
    begin_stage(f"uploading {args.name} to {args.repository}")
    with naming(args.repository):
        address = push(folder, args.repository, private=args.private, card=card)
    print_result(args, {"name": args.name, "url": address}, address)
    return 0


def run_pull(args: argparse.Namespace) -> int:
    """Check the encoder in full and install it; an existing one is never replaced."""
    name = args.name or Path(args.repository).resolve().name
    check_name(name, "--name")
    begin_stage(f"installing {args.repository}")
    with naming(args.repository):
        encoder = pull(args.repository, args.data_dir / "encoders" / name, revision=args.revision)
    print_installed(args, name, encoder)
    return 0
