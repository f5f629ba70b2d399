"""The JSON of near-duplicates."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from index.bulk.near_duplicates import MAX_SHINGLE
from service.schemas.common import RequestModel, ResponseModel


class FindDuplicates(RequestModel):
    """When two documents are near-duplicates; a cluster is what near-duplicates connect."""

    radius: int = Field(ge=0, description="In how many bits their codes differ at most.")
    confirm: float | None = Field(
        None, gt=0, le=1, description="The least Jaccard similarity of their texts' shingles."
    )
    shingle: int = Field(5, ge=1, le=MAX_SHINGLE, description="How many terms a shingle has.")


class Cluster(ResponseModel):
    """Documents that near-duplicates connect, oldest first; of `size` ids the first 1,000."""

    size: int
    ids: list[str]


class Duplicates(ResponseModel):
    """Near-duplicates of a collection: a page of clusters, by their oldest documents.

    `clusters` counts all of them; it and the page are there once `status` is done.
    """

    id: str
    status: Literal["running", "done", "failed"]
    error: str | None
    collection: str
    clusters: int | None
    page: list[Cluster]
