"""``hummingbit index … --url``: the actions on the collections of a service."""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from foundation.errors import counted
from hummingbit.commands.collections.sending import BATCH, send_sources
from hummingbit.commands.data_folder_options import as_json, service_at, wait_for
from hummingbit.commands.json_output import print_json, print_result
from hummingbit.commands.options import OptionError
from index.encoded_inputs import batches
from index.errors import UnknownDocument
from index.kept_vectors import FLOAT32

if TYPE_CHECKING:
    from hummingbit.clients.client import Client
    from index.filters import Filter

EXTEND_HINT = "index add extends it, and continues an interrupted build"


def build(args: argparse.Namespace) -> int:
    """Create a collection and fill it; if no document gets in, delete it."""
    name = args.collection
    with service_at(args) as client:
        if name in [summary["name"] for summary in client.collections()["collections"]]:
            raise OptionError(f"collection {name!r} exists; {EXTEND_HINT}")
        client.create_collection(
            name,
            encoder=args.encoder,
            n_bits=args.bits,
            engine=args.search_by,
            indexed_fields=args.index_fields,
            keep_vectors=None if args.keep_vectors == FLOAT32 else args.keep_vectors,
        )

        def send() -> int:
            status = send_sources(client, args)
            if not status:
                check_filled(args, client.count(name))
            return status

        return fill(client, name, send)


def check_filled(args: argparse.Namespace, documents: int) -> None:
    """Raise OptionError if a build has stored no `documents`."""
    if not documents:
        raise OptionError(f"{', '.join(args.sources)}: there are no documents to index")


def add(args: argparse.Namespace) -> int:
    """Add documents; unchanged ones are skipped."""
    with service_at(args) as client:
        return send_sources(client, args)


def get(args: argparse.Namespace) -> int:
    """Print documents as they are stored, one a line."""
    names = ("id", "text", "vector", "payload", "code")
    with service_at(args) as client:
        for ids in batches(args.ids, BATCH):
            response = client.get_many(args.collection, ids)
            by_id: dict[str, Any] = {document["id"]: document for document in response["documents"]}
            for id_ in ids:
                if id_ not in by_id:
                    message = f"collection {args.collection!r} has no document {id_[:80]!r}"
                    raise UnknownDocument(message)
                document = by_id[id_]
                fields = {name: document[name] for name in names if document[name] is not None}
                print(json.dumps(fields, ensure_ascii=False))
    return 0


def count(args: argparse.Namespace, filter_: Filter | None) -> int:
    """Print the number of documents, or of those that match the filter."""
    condition = None if filter_ is None else as_json(filter_)
    with service_at(args) as client:
        response = client.explained_count(args.collection, condition)
    print_count(args, response["count"], response.get("warnings", []))
    return 0


def print_count(args: argparse.Namespace, documents: int, warnings: Sequence[str]) -> None:
    """Print how many documents were counted, and why if none passes the filter."""
    result = {"collection": args.collection, "documents": documents}
    print_result(args, result, str(documents), warnings)


def delete(args: argparse.Namespace, filter_: Filter | None) -> int:
    """Delete documents."""
    with service_at(args) as client:
        chosen: dict[str, Any] = (
            {"ids": args.ids} if filter_ is None else {"filter": as_json(filter_)}
        )
        response = client.delete_many(args.collection, **chosen)
        left = client.count(args.collection)
    print_deleted(args, response["deleted"], left, response.get("warnings", []))
    return 0


def print_deleted(
    args: argparse.Namespace, deleted: int, left: int, warnings: Sequence[str]
) -> None:
    """Print how many documents were deleted and how many are left."""
    result = {"collection": args.collection, "deleted": deleted, "documents": left}
    line = f"{args.collection}: {counted(deleted, 'document')} deleted; {left:,} in all"
    print_result(args, result, line, warnings)


def list_(args: argparse.Namespace) -> dict[str, Any]:
    """Return the collections and those that cannot be opened."""
    with service_at(args) as client:
        response = client.collections()
    collections = [
        {
            "name": one["name"],
            "documents": one["documents"],
            "n_bits": one["n_bits"],
            "encoder": None if one["encoder"] is None else one["encoder"]["name"],
        }
        for one in response["collections"]
    ]
    return {"collections": collections, "unavailable": response["unavailable"]}


def stats(args: argparse.Namespace) -> int:
    """Print the statistics of a collection as JSON, with the fields of a local one."""
    with service_at(args) as client:
        statistics: dict[str, Any] = {**client.stats(args.collection)}
    encoder = statistics["encoder"] or {"name": None, "fingerprint": None}
    statistics |= {"encoder": encoder["name"], "encoder_fingerprint": encoder["fingerprint"]}
    first = ("name", "documents", "n_bits", "encoder", "encoder_fingerprint", "generation")
    print_json({name: statistics[name] for name in dict.fromkeys([*first, *statistics])})
    return 0


def verify(args: argparse.Namespace) -> tuple[int, list[str]]:
    """Return how many documents were checked, and the problems."""
    with service_at(args) as client:
        result = wait_for(client, client.verify_job(args.collection))["result"] or {}
    return result["documents"], result["problems"]


def compact(args: argparse.Namespace) -> tuple[int, int]:
    """Return the size of the collection in bytes before and after."""
    with service_at(args) as client:
        result = wait_for(client, client.compact_job(args.collection))["result"] or {}
    return result["bytes_before"], result["bytes_after"]


def rank(args: argparse.Namespace) -> None:
    """Set a collection's default ranking."""
    with service_at(args) as client:
        client.update_collection(args.collection, ranking=args.ranking)


def fields(args: argparse.Namespace) -> tuple[list[str], list[str]]:
    """Index the fields given, or none with ``--none``; return the indexed ones, and warnings."""
    result: dict[str, Any] = {}
    with service_at(args) as client:
        if args.fields or args.none:
            job = client.index_fields_job(args.collection, args.fields)
            result = wait_for(client, job)["result"] or {}
        indexed = client.collection(args.collection)["indexed_fields"]
    return indexed, result.get("warnings", [])


def drop(args: argparse.Namespace) -> None:
    """Delete a collection."""
    with service_at(args) as client:
        client.delete_collection(args.collection)


def fill(client: Client, name: str, send: Callable[[], int]) -> int:
    """Fill a new collection by `send`; delete it if it stays empty."""
    from hummingbit import ServiceError  # noqa: PLC0415 - only a service needs it

    try:
        status = send()
    except BaseException:
        with suppress(ServiceError):  # the first error is the one to report
            _delete_if_empty(client, name)
        raise
    if status:
        _delete_if_empty(client, name)
    return status


def _delete_if_empty(client: Client, name: str) -> None:
    if not client.count(name):
        client.delete_collection(name)
