"""``hummingbit index … --url``: the same of a service's collections."""

from __future__ import annotations

import argparse
import itertools
import json
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from tqdm import tqdm

from corpus.document import Document
from hummingbit.commands.opening import service_at
from hummingbit.commands.options import OptionError, read
from index.batches import batches

if TYPE_CHECKING:
    from hummingbit.client import Client

# A request holds so many documents, or about so many bytes if that is less.
BATCH = 1000
BATCH_BYTES = 4 << 20


def build(args: argparse.Namespace) -> int:
    """Make a collection of documents."""
    with service_at(args) as client:
        if args.collection in [one["name"] for one in client.collections()["collections"]]:
            raise OptionError(f"collection {args.collection!a} exists; index add extends it")
        client.create_collection(
            args.collection, encoder=args.encoder, n_bits=args.bits, engine=args.search_by
        )
        return _send(client, args)


def add(args: argparse.Namespace) -> int:
    """Add documents, a thousand at a time."""
    with service_at(args) as client:
        return _send(client, args)


def get(args: argparse.Namespace) -> int:
    """Print documents as they are stored, one a line."""
    with service_at(args) as client:
        for id_ in args.ids:
            found: dict[str, Any] = {**client.get(args.collection, id_)}
            names = ("id", "text", "vector", "payload", "code")
            shown = {name: found[name] for name in names if found[name] is not None}
            print(json.dumps(shown, ensure_ascii=False))
    return 0


def count(args: argparse.Namespace, filter_: dict[str, Any] | None) -> int:
    """Print how many documents there are, or for how many the filter holds."""
    with service_at(args) as client:
        print(client.count(args.collection, filter_))
    return 0


def delete(args: argparse.Namespace, filter_: dict[str, Any] | None) -> int:
    """Delete documents."""
    with service_at(args) as client:
        ids = None if filter_ is not None else args.ids
        deleted = client.delete_many(args.collection, ids=ids, filter=filter_)["deleted"]
        left = client.count(args.collection)
    print(f"{args.collection}: {deleted:,} documents deleted; {left:,} in all")
    return 0


def list_(args: argparse.Namespace) -> int:
    """Print a collection a line."""
    with service_at(args) as client:
        found = client.collections()
    for one in found["collections"]:
        encoder = "-" if one["encoder"] is None else one["encoder"]["name"]
        print(f"{one['name']}\t{one['documents']} documents\t{one['n_bits']} bits\t{encoder}")
    for missing in found["unavailable"]:
        print(f"{missing['name']}\tcannot be opened: {missing['reason']}")
    return 0


def stats(args: argparse.Namespace) -> int:
    """Print what a collection holds, as JSON, just as of one in a folder."""
    with service_at(args) as client:
        found: dict[str, Any] = {**client.stats(args.collection)}
    encoder = found["encoder"] or {"name": None, "fingerprint": None}
    found |= {"encoder": encoder["name"], "encoder_fingerprint": encoder["fingerprint"]}
    first = ("name", "documents", "n_bits", "encoder", "encoder_fingerprint", "generation")
    print(json.dumps({name: found[name] for name in dict.fromkeys([*first, *found])}, indent=2))
    return 0


def verify(args: argparse.Namespace) -> tuple[int, list[str]]:
    """Return how many documents were checked, and what is wrong."""
    with service_at(args) as client:
        found = client.wait_for(client.verify_job(args.collection))["result"] or {}
    return found["documents"], found["problems"]


def compact(args: argparse.Namespace) -> tuple[int, int]:
    """Return the bytes that the collection took before and takes now."""
    with service_at(args) as client:
        found = client.wait_for(client.compact_job(args.collection))["result"] or {}
    return found["bytes_before"], found["bytes_after"]


def drop(args: argparse.Namespace) -> int:
    """Delete a collection."""
    with service_at(args) as client:
        client.delete_collection(args.collection)
    print(f"{args.collection}: dropped")
    return 0


def _send(client: Client, args: argparse.Namespace) -> int:
    """Send the documents of the sources; return 1 if the service refused some."""
    written, failed = 0, 0
    sources = [read(args, source, unique_ids=False) for source in args.sources]
    with tqdm(desc="sending", unit=" documents", disable=None) as bar:
        for batch in _parts(itertools.chain.from_iterable(sources)):
            found = client.bulk(args.collection, batch)
            written, failed = written + found["written"], failed + found["failed"]
            for error in found["errors"]:
                print(f"refused: {error['id']}: {error['detail']}", file=sys.stderr)
            bar.update(len(batch))
    print(f"{args.collection}: {written:,} documents written, {failed:,} refused")
    return 1 if failed else 0


def _parts(documents: Iterator[Document]) -> Iterator[list[dict[str, Any]]]:
    from hummingbit.document_calls import lines_of  # noqa: PLC0415 - only a service needs it

    for batch in batches(documents, BATCH):
        part: list[dict[str, Any]] = []
        size = 0
        for document in batch:
            record = _record(document)
            length = len(lines_of([record]))
            if part and size + length > BATCH_BYTES:
                yield part
                part, size = [], 0
            part.append(record)
            size += length
        yield part


def _record(document: Document) -> dict[str, Any]:
    """Return a document as the service takes it."""
    content = {"text": document.text, "vector": document.vector, "code": document.code}
    given = {name: value for name, value in content.items() if value is not None}
    return {"id": document.id, **given, "payload": dict(document.payload_with_labels)}
