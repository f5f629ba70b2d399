"""The job that finds near-duplicates and saves their clusters."""

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
"""The most ids of a cluster that are saved, oldest first."""


def write_clusters(folder: DataFolder, progress: Progress) -> dict[str, Any]:
    """Find the clusters and write them into the job's folder, one line each.

    Raises:
        InputError: if the criteria do not suit the collection.
    """
    collection = folder.collection(progress.job.collection)
    progress.show_percent("reading", 0, 1)
    n_clusters = n_newer = 0
    with (
        replacing(progress.folder / CLUSTERS_FILE) as path,
        path.open("w", encoding="utf-8") as file,
    ):
        criteria = DuplicateCriteria(**progress.job.spec)
        for ids in find_duplicates(collection, criteria, progress.show_percent):
            line = json.dumps({"size": len(ids), "ids": ids[:MAX_LISTED]}, ensure_ascii=False)
            file.write(line + "\n")
            n_clusters += 1
            n_newer += len(ids) - 1
            progress.advance()
    progress.show_percent("comparing", 1, 1)
    return {
        "clusters": n_clusters,
        "documents_with_an_older_duplicate": n_newer,
        "duplicates": f"/v1/duplicates/{progress.job.id}",
    }


def read_clusters(folder: Path, offset: int, limit: int) -> Iterator[dict[str, Any]]:
    """Yield at most `limit` clusters from a finished job's folder, after the first `offset`."""
    with (folder / CLUSTERS_FILE).open(encoding="utf-8") as file:
        for line in islice(file, offset, offset + limit):
            yield json.loads(line)
