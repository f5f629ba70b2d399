"""Documents to a service, many at a time."""

from __future__ import annotations

import argparse
import itertools
import sys
import time
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

from tqdm import tqdm

from corpus.readers import count_documents
from hummingbit.commands.collections.index_report import print_ingested
from hummingbit.commands.options import read
from index.bulk.ingest import IngestReport
from index.encoded_inputs import batches

if TYPE_CHECKING:
    from hummingbit.clients.client import Client

# A request holds so many documents, or about so many bytes if that is less.
BATCH = 1000
BATCH_BYTES = 4 << 20


def send_sources(client: Client, args: argparse.Namespace) -> int:
    """Send the documents of ``args.sources``; see :func:`send`."""
    from hummingbit.service_transfer import record_of  # noqa: PLC0415 - only a service needs it

    counts = [count_documents(source) for source in args.sources]
    total = None if None in counts else sum(count or 0 for count in counts)
    sources = (read(args, source, unique_ids=False) for source in args.sources)
    records = map(record_of, itertools.chain.from_iterable(sources))
    return send(client, args, records, total)


def send(
    client: Client,
    args: argparse.Namespace,
    records: Iterable[dict[str, Any]],
    total: int | None,
    encoder_fingerprint: str | None = None,
) -> int:
    """Upsert documents, but for those that are there just so; return 1 if some were refused."""
    from hummingbit.service_transfer import summary_of  # noqa: PLC0415 - only a service needs it

    name = args.collection
    began = time.perf_counter()
    read_, unchanged, failed = 0, 0, 0
    with tqdm(desc="sending", unit=" documents", total=total, disable=None) as bar:
        try:
            for part in _parts(records):
                found = client.bulk(
                    name, part, skip_unchanged=True, encoder_fingerprint=encoder_fingerprint
                )
                read_, failed = read_ + len(part), failed + found["failed"]
                unchanged += found["unchanged"]
                for error in found["errors"]:
                    print(f"refused: {error['id']}: {error['detail']}", file=sys.stderr)
                bar.update(len(part))
        except BaseException:
            if read_ > failed:
                hint = "the same again goes on from there"
                print(f"{name}: {read_ - failed:,} documents are in; {hint}", file=sys.stderr)
            raise
    seconds = time.perf_counter() - began
    there = summary_of(client, name)
    report = IngestReport(read_ - failed, unchanged, seconds, there["generation"])
    print_ingested(args, there["name"], there["documents"], report, failed)
    if failed:
        print(f"{name}: {failed:,} documents refused", file=sys.stderr)
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
