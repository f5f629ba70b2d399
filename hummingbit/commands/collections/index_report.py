"""What putting documents into a collection came to, as people read it."""

from __future__ import annotations

from index.bulk.ingest import IngestReport


def print_ingested(name: str, total: int, report: IngestReport) -> None:
    """Print what an ingestion or an import did to a collection, which now holds `total`."""
    rate = report.documents / report.seconds if report.seconds else 0.0
    unchanged = f"{report.unchanged:,} of them unchanged, " if report.unchanged else ""
    print(
        f"{name}: {report.documents:,} documents in {report.seconds:.1f} s"
        f" ({rate:,.0f} a second), {unchanged}{total:,} in all, generation {report.generation}"
    )
