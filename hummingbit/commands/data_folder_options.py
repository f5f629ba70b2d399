"""The options that name a data folder or a service, and how commands open it."""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeAlias

from corpus.json_rows import parse_strictly
from corpus.lines import LineError
from foundation.stages import begin_stage
from hummingbit.commands.options import OptionError, add_data_dir
from index.backend import CollectionBackend
from index.data_folder import DataFolder
from index.data_folder_location import ENGINES, DataFolderLocation
from index.errors import DataFolderInUse
from index.filter_parser import parse_filter
from index.filters import Filter, filter_to_json

if TYPE_CHECKING:
    from hummingbit.clients.client import Client
    from hummingbit.clients.operations.operation_responses import Job

# The return type of add_subparsers has no public name.
Actions: TypeAlias = "argparse._SubParsersAction[argparse.ArgumentParser]"  # noqa: SLF001


def add_action(
    actions: Actions, name: str, run: Callable[[argparse.Namespace], int], summary: str
) -> argparse.ArgumentParser:
    """Add an action on a COLLECTION and return its parser."""
    action = actions.add_parser(name, help=summary)
    action.add_argument("collection", metavar="COLLECTION")
    add_folder(action)
    action.set_defaults(run=run)
    return action


def add_folder(parser: argparse.ArgumentParser) -> None:
    """Add ``--data-dir``, ``--engine`` and ``--milvus-uri``."""
    add_data_dir(parser)
    parser.add_argument(
        "--engine",
        choices=ENGINES,
        default=os.environ.get("HUMMINGBIT_ENGINE", ENGINES[0]),
        help="where collections are kept: in the data folder or on Milvus (default: %(default)s)",
    )
    parser.add_argument(
        "--milvus-uri",
        default=os.environ.get("HUMMINGBIT_MILVUS_URI"),
        metavar="URI",
        help="http://HOST:PORT; the token is read from HUMMINGBIT_MILVUS_TOKEN",
    )


def add_url(parser: argparse.ArgumentParser) -> None:
    """Add ``--url``."""
    parser.add_argument(
        "--url",
        metavar="URL",
        help="a running service instead of a data folder; the key is read from HUMMINGBIT_KEY",
    )


def add_service(parser: argparse.ArgumentParser) -> None:
    """Add ``--url`` to a command that needs a service."""
    parser.add_argument(
        "--url", metavar="URL", help="the service (default: $HUMMINGBIT_URL, or this machine's)"
    )


def service_at(args: argparse.Namespace) -> Client:
    """Return a client of the service that ``--url`` names.

    Raises:
        ServiceError: if the address does not begin with http:// or https://.
    """
    from hummingbit.clients.client import Client  # noqa: PLC0415 - only a service needs it

    return Client(args.url)


def wait_for(client: Client, job: Job) -> Job:
    """Wait until a job of the service is done and return it; the stage names the job.

    Raises:
        ServiceError: if it failed or was cancelled.
    """
    begin_stage(f"waiting for the service: {job['kind']}, job {job['id']}")
    return client.wait_for(job)


def open_folder(args: argparse.Namespace, *, writable: bool) -> DataFolder:
    """Open the folder that the options of :func:`add_folder` name.

    The index of a collection is built when it is first searched.

    Raises:
        DataFolderError: if it cannot be opened.
        StoreError: if the collections are on Milvus, and it cannot be reached or refuses.
    """
    token = os.environ.get("HUMMINGBIT_MILVUS_TOKEN")
    begin_stage(f"opening {args.data_dir}")
    location = DataFolderLocation(args.data_dir, args.engine, args.milvus_uri, token)
    try:
        return location.open(writable=writable, indexed=False)
    except DataFolderInUse as error:
        raise DataFolderInUse(f"{error}; if that is a service, use its --url") from None


def add_filter(parser: argparse.ArgumentParser) -> None:
    """Add ``--filter``."""
    parser.add_argument(
        "--filter",
        metavar="JSON",
        help='only documents whose payload matches, such as \'{"field": "year", "gte": 1990}\'',
    )


def read_filter(args: argparse.Namespace) -> Filter | None:
    """Return the filter of ``--filter``, or None without one.

    Raises:
        OptionError: if it is not JSON, or gives a key twice.
        InputError: if it is not a filter.
    """
    if args.filter is None:
        return None
    try:
        return parse_filter(parse_strictly(args.filter))
    except LineError as error:
        example = """'{"field": "year", "gte": 1990}'"""
        raise OptionError(f"--filter: {error}; write it as in {example}") from None


def as_json(filter_: Filter) -> dict[str, Any]:
    """Return a filter as a service takes it."""
    parsed: dict[str, Any] = json.loads(filter_to_json(filter_))
    return parsed


@contextmanager
def filling(folder: DataFolder, collection: CollectionBackend, *, is_new: bool) -> Iterator[None]:
    """Drop a collection that was just created if filling it fails before it has a document."""
    try:
        yield
    except BaseException:
        if is_new and not len(collection):
            folder.drop_collection(collection.name)
        raise
