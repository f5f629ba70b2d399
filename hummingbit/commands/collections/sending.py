"""Sends documents to a service, many at a time."""

from __future__ import annotations

import argparse
import itertools
import sys
import time
from collections.abc import Collection, Iterable, Iterator
from typing import TYPE_CHECKING, Any

from corpus.readers import count_documents
from corpus.tables import FieldType, FieldTypes
from foundation.errors import counted
from foundation.stages import count_in_stage
from hummingbit.commands.collections.index_report import print_ingested
from hummingbit.commands.data_folder_options import as_json
from hummingbit.commands.options import read
from index.bulk.ingest import IngestReport, held_type
from index.encoded_inputs import batches
from index.filters import Filter

if TYPE_CHECKING:
    from hummingbit.clients.client import Client

# A request has at most this many documents, and about this many bytes.
BATCH = 1000
BATCH_BYTES = 4 << 20


class ServiceFieldTypes(FieldTypes):
    """The types of the fields of a service's collection: those of most of its documents' values."""

    def __init__(self, client: Client, collection: str) -> None:
        """Ask `client` about `collection` once a field is met."""
        super().__init__()
        self._client, self._collection = client, collection

    def known(self, names: Collection[str]) -> dict[str, FieldType]:
        """Return the types of those of the fields `names` that have one."""
        known = super().known(names)
        if unknown := sorted({*names} - known.keys()):
            found = {name: self._held(name) for name in unknown} if self._count(None) else {}
            self.remember({name: type_ for name, type_ in found.items() if type_ is not None})
        return super().known(names)

    def _held(self, name: str) -> FieldType | None:
        return held_type(name, lambda filter_: self._count(filter_) > 0, self._count)

    def _count(self, filter_: Filter | None) -> int:
        condition = None if filter_ is None else as_json(filter_)
        return self._client.count(self._collection, condition)


def send_sources(client: Client, args: argparse.Namespace) -> int:
    """Send the documents of ``args.sources``; see :func:`send`."""
    from hummingbit.service_transfer import record_of  # noqa: PLC0415 - only a service needs it

    counts = [count_documents(source) for source in args.sources]
    total = None if None in counts else sum(count or 0 for count in counts)
    types = ServiceFieldTypes(client, args.collection)
    sources = (read(args, one, unique_ids=False, field_types=types) for one in args.sources)
    records = map(record_of, itertools.chain.from_iterable(sources))
    return send(client, args, records, total)


def send(
    client: Client,
    args: argparse.Namespace,
    records: Iterable[dict[str, Any]],
    total: int | None,
    encoder_fingerprint: str | None = None,
) -> int:
    """Upsert documents, skipping unchanged ones; return 1 if some were refused."""
    from hummingbit.service_transfer import summary_of  # noqa: PLC0415 - only a service needs it

    name = args.collection
    began = time.perf_counter()
    sent, unchanged, failed, repeated = 0, 0, 0, 0
    with count_in_stage("sending", total) as advance:
        try:
            for part in _parts(records):
                outcome = client.bulk(
                    name, part, skip_unchanged=True, encoder_fingerprint=encoder_fingerprint
                )
                sent, failed = sent + len(part), failed + outcome["failed"]
                unchanged += outcome["unchanged"]
                repeated += len(part) - len({record["id"] for record in part})
                for error in outcome["errors"]:
                    print(f"refused: {error['id']}: {error['detail']}", file=sys.stderr)
                advance(len(part))
        except BaseException:
            if sent > failed:
                hint = "to continue, run the command again"
                print(
                    f"{name}: {counted(sent - failed, 'document')} stored; {hint}", file=sys.stderr
                )
            raise
    seconds = time.perf_counter() - began
    summary = summary_of(client, name)
    generation = summary["generation"]
    report = IngestReport(sent - failed, unchanged, seconds, generation, repeated)
    print_ingested(args, summary["name"], summary["documents"], report, failed)
    if failed:
        print(f"{name}: {counted(failed, 'document')} refused", file=sys.stderr)
    return 1 if failed else 0


def _parts(records: Iterable[dict[str, Any]]) -> Iterator[list[dict[str, Any]]]:
    from hummingbit.clients.document_calls import json_lines  # noqa: PLC0415 - only a service needs it

    for batch in batches(records, BATCH):
        part: list[dict[str, Any]] = []
        size = 0
        for record in batch:
            length = len(json_lines([record]))
            if part and size + length > BATCH_BYTES:
                yield part
                part, size = [], 0
            part.append(record)
            size += length
        yield part
