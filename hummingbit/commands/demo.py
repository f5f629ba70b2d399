"""``hummingbit demo``: search the docstrings of installed packages, and learn from them."""

from __future__ import annotations

import argparse
import json
import re
import time
from itertools import count
from pathlib import Path

from hummingbit.commands.first_search import (
    add_serving,
    check_port,
    learning_arguments,
    print_answers,
    print_indexed,
    serve_and_learn,
)
from hummingbit.commands.options import add_model, add_option, check_folder_above
from hummingbit.commands.printing import timed_stage
from hummingbit.deferred import deferred_imports
from hummingbit.index.names import SHIPPED_NAME
from hummingbit.installed_models import WITHOUT_MODEL

with deferred_imports():
    from hummingbit.corpus.readers import read_documents
    from hummingbit.index.backend import CollectionBackend
    from hummingbit.index.catalog import AddAlias
    from hummingbit.index.data_folder import DataFolder
    from hummingbit.index.ingestion import ingest

NAME = "docstrings"
FIRST = f"{NAME}-1"
"""The collection that is searched first; one with learned codes has a higher number."""
SETTINGS = {"label_fraction": 0.1}
"""Few labels suffice; what `demo` shows is what a tenth of them is good for."""
EXAMPLES = (
    "fast Fourier transform of a real signal",
    "read numbers from a text file",
    "which points are nearest neighbours",
)


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the options."""
    add_model(parser, otherwise=WITHOUT_MODEL)
    add_serving(parser)
    add_option(
        parser,
        "--data-dir DIR",
        "the data folder (default: %(default)s)",
        type=Path,
        default=Path("demo-data"),
    )
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> None:
    """Index the docstrings, print three answers, and serve; learn beside that."""
    check_folder_above(args.data_dir / "encoders" / SHIPPED_NAME, f"--data-dir {args.data_dir}")
    check_port(args)
    with timed_stage("reading the docstrings of the packages installed here"):
        documents = list(read_documents(f"{NAME}:documents"))
    with DataFolder(args.data_dir, writable=True) as folder:
        began = time.perf_counter()
        collection = create_collection(folder)
        ingest(collection, documents)
        print_indexed(collection, time.perf_counter() - began)
        print_answers(collection, EXAMPLES)
        learning = None
        if not args.no_train:
            from hummingbit.learning import Learning  # noqa: PLC0415 - the first search needs it not

            # An earlier demo's encoder stays under its name.
            taken = {FIRST, *folder.encoders.names()}
            into = next(name for n in count(2) if (name := f"{NAME}-{n}") not in taken)
            learning = Learning(FIRST, NAME, into, SETTINGS, learning_arguments(args))
        if not args.no_serve:
            _print_curl(args.host, args.port)
        serve_and_learn(args, folder, learning)


def create_collection(folder: DataFolder) -> CollectionBackend:
    """Create the demo's empty collection, in place of what an earlier demo left."""
    for name in [*folder.collections()]:
        if name == NAME or re.fullmatch(rf"{NAME}-\d+", name):
            folder.drop_collection(name)
    collection = folder.create_collection(FIRST)
    folder.change_aliases([AddAlias(NAME, FIRST)])
    return collection


def _print_curl(host: str, port: int) -> None:
    body = json.dumps({"text": EXAMPLES[0], "limit": 5, "with_text": True})
    print("\nIn another terminal:\n")
    print(f"  hummingbit search {NAME} {EXAMPLES[1]!r} --url http://{host}:{port}")
    print(f"  curl http://{host}:{port}/v1/collections/{NAME}/search --json '{body}'\n", flush=True)
