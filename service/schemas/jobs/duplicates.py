"""The JSON of near-duplicates."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from index.bulk.near_duplicates import MAX_SHINGLE
from service.schemas.common import RequestModel, ResponseModel


class FindDuplicates(RequestModel):
    """When two documents are near-duplicates; chains of near-duplicates form a cluster."""

    radius: int = Field(ge=0, description="The most bits in which their codes may differ.")
    confirm: float | None = Field(
        None, gt=0, le=1, description="The least Jaccard similarity of their texts' shingles."
    )
    shingle: int = Field(5, ge=1, le=MAX_SHINGLE, description="The number of terms in a shingle.")


class Cluster(ResponseModel):
    """A cluster of `size` documents; `ids` are the 1,000 oldest of them, oldest first."""

    size: int
    ids: list[str]


class Duplicates(ResponseModel):
    """Near-duplicates of a collection: a page of clusters, by their oldest documents.

    `clusters` counts all of them. Until `status` is done, it is null and the page is empty.
    """

    id: str
    status: Literal["running", "done", "failed"]
    error: str | None
    collection: str
    clusters: int | None
    page: list[Cluster]
