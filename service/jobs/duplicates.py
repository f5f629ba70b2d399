"""The job that finds near-duplicates and keeps the clusters."""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

from foundation.files import replacing
from index.bulk.near_duplicates import DuplicateCriteria, find_duplicates
from index.data_folder import DataFolder
from service.jobs.work import Progress

CLUSTERS_FILE = "clusters.jsonl"
MAX_LISTED = 1000
"""Ids of a cluster that are kept; the oldest come first."""


def list_duplicates(folder: DataFolder, progress: Progress) -> dict[str, Any]:
    """Find the clusters and write them into the job's folder, a line each.

    Raises:
        InputError: if the collection cannot be compared so.
    """
    collection = folder.collection(progress.job.collection)
    progress.step = "comparing"
    progress.advance()
    clusters = later = 0
    with (
        replacing(progress.folder / CLUSTERS_FILE) as path,
        path.open("w", encoding="utf-8") as file,
    ):
        for ids in find_duplicates(collection, DuplicateCriteria(**progress.job.spec)):
            line = json.dumps({"size": len(ids), "ids": ids[:MAX_LISTED]}, ensure_ascii=False)
            file.write(line + "\n")
            clusters += 1
            later += len(ids) - 1
            progress.advance(1)
    return {
        "clusters": clusters,
        "documents_with_an_older_duplicate": later,
        "duplicates": f"/v1/duplicates/{progress.job.id}",
    }


def read_clusters(folder: Path, offset: int, limit: int) -> Iterator[dict[str, Any]]:
    """Yield some of the clusters that the job of a folder found."""
    with (folder / CLUSTERS_FILE).open(encoding="utf-8") as file:
        for line in islice(file, offset, offset + limit):
            yield json.loads(line)
