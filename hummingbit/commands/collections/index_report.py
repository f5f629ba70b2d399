"""Prints the result of an ingestion."""

from __future__ import annotations

import argparse

from foundation.errors import counted
from hummingbit.commands.json_output import print_result
from index.bulk.ingest import IngestReport


def print_ingested(
    args: argparse.Namespace, name: str, total: int, report: IngestReport, refused: int = 0
) -> None:
    """Print the result of an ingestion or import into a collection of now `total` documents.

    The report does not count the documents that a service `refused`.
    """
    rate = report.documents / report.seconds if report.seconds else 0.0
    unchanged = f"{report.unchanged:,} of them unchanged, " if report.unchanged else ""
    later = "replaced by a later document with the same id"
    repeated = f"{report.repeated:,} of them {later}, " if report.repeated else ""
    result = {
        "collection": name,
        "given": report.documents,
        "unchanged": report.unchanged,
        "repeated": report.repeated,
        "refused": refused,
        "seconds": report.seconds,
        "documents": total,
        "generation": report.generation,
    }
    print_result(
        args,
        result,
        f"{name}: {counted(report.documents, 'document')} in {report.seconds:.1f} s"
        f" ({rate:,.0f} a second), {unchanged}{repeated}{total:,} in all,"
        f" generation {report.generation}",
    )
