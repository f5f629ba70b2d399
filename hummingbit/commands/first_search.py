"""What ``quickstart`` and ``demo`` share: a first search, and learning beside a service."""

from __future__ import annotations

import argparse
import os
import socket
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from hummingbit.commands.hits import print_hits
from hummingbit.commands.options import OptionError, add_option
from hummingbit.commands.printing import without_controls
from hummingbit.deferred import deferred_imports
from hummingbit.foundation.errors import counted

with deferred_imports():
    from hummingbit.index.backend import CollectionBackend
    from hummingbit.index.data_folder import DataFolder
    from hummingbit.index.engines import kernel
    from hummingbit.index.records import Query

if TYPE_CHECKING:
    from hummingbit.learning import Learning


def add_serving(parser: argparse.ArgumentParser) -> None:
    """Add where to serve, and the options to leave out serving and learning."""
    add_option(parser, "--no-train", "learn nothing; only index and serve")
    add_option(parser, "--no-serve", "learn without serving meanwhile, and stop")
    add_option(parser, "--host HOST", "address (default: %(default)s)", default="127.0.0.1")
    add_option(parser, "--port PORT", "port (default: %(default)s)", type=int, default=8000)


def check_port(args: argparse.Namespace) -> None:
    """Check that the service can listen where it is to, before any work.

    Raises:
        OptionError: if it cannot.
    """
    if args.no_serve:
        return
    family = socket.AF_INET6 if ":" in args.host else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind((args.host, args.port))
        except (OSError, OverflowError) as error:
            reason = getattr(error, "strerror", None) or error
            message = f"--port: cannot listen on {args.host} port {args.port}: {reason}"
            raise OptionError(message) from error


def learning_arguments(args: argparse.Namespace) -> list[str]:
    """Return the arguments of ``hummingbit train`` for the model given.

    Files have their whole paths, as learning may go on from another folder.
    """
    given = {"--model": args.model, "--model-name": args.model_name}
    arguments = []
    for option, value in given.items():
        if value is not None:
            is_file = option != "--model-name" and Path(value).exists()
            arguments += [option, str(Path(value).absolute() if is_file else value)]
    return arguments


def print_indexed(collection: CollectionBackend, seconds: float) -> None:
    """Print how many documents were indexed, and how quickly; say what the machine lacks."""
    if (lack := kernel.missing()) is not None:
        print(f"warning: {lack}", file=sys.stderr)
    print(f"indexed {counted(len(collection), 'document')} in {seconds:.1f} s", flush=True)


def print_answers(collection: CollectionBackend, queries: Sequence[str]) -> None:
    """Print the first answer to each query."""
    options = {
        "limit": 1,
        "with_payload": True,
        "with_text": True,
        "highlight": True,
        "with_confidence": True,
    }
    if collection.passages is not None:
        options["with_passage"] = True
    for query in queries:
        print(f"\n{without_controls(query)!r}")
        print_hits(collection.answer(Query(text=query), options)["hits"])


def serve_and_learn(
    args: argparse.Namespace, folder: DataFolder, learning: Learning | None
) -> None:
    """Serve the folder until the service is stopped, and learn meanwhile, if anything.

    With ``--no-serve``, only learn.
    """
    if args.no_serve and learning is None:
        return
    # The first search needs nothing of the service.
    from hummingbit.service.settings import load_settings  # noqa: PLC0415

    if learning is not None and os.name != "posix":
        print("nothing is learned, as this system cannot lock files; hummingbit train learns here")
        learning = None
    flags = {"data_dir": folder.path, "host": args.host, "port": args.port}
    settings = load_settings(flags).settings
    if not args.no_serve:
        from hummingbit.service.server import serve  # noqa: PLC0415

        beside = None
        if learning is not None:
            print("Another process learns from the documents while they are searched.", flush=True)
            beside = learning.beside
        serve(settings, folder=folder, beside=beside)
    elif learning is not None:
        from hummingbit.service.concurrency import WriteGate  # noqa: PLC0415
        from hummingbit.service.jobs.kinds import explain, kinds_of_jobs  # noqa: PLC0415
        from hummingbit.service.jobs.runner import Jobs  # noqa: PLC0415

        here = settings.model_copy(update={"training": "here"})
        jobs = Jobs(folder.path / "jobs", kinds_of_jobs(folder, WriteGate(), here), explain)
        try:
            learning.run(jobs)
        finally:
            jobs.close()
