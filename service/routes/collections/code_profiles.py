"""The bits and buckets of a collection over REST."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated
from weakref import WeakKeyDictionary

from fastapi import APIRouter, Depends, Query, Request, Response

from index.backend import CollectionBackend
from index.bulk.code_profile import CodeProfile, profile_of
from index.bulk.code_table import code_table
from service.http.roles import READ
from service.http.routing import JSONRoute
from service.routes.dependencies import LONG_READ, CollectionOf, render
from service.schemas.checks import pointing_at
from service.schemas.collections.code_profiles import BucketPurity, CodeBucket, CodesInfo

router = APIRouter(prefix="/v1/collections/{name}", route_class=JSONRoute)


class Profiles:
    """A cache of the last profile of each collection; a write makes it invalid."""

    def __init__(self) -> None:
        self._profiles: WeakKeyDictionary[CollectionBackend, tuple[str, CodeProfile]]
        self._profiles = WeakKeyDictionary()

    def of(self, collection: CollectionBackend, label_field: str) -> CodeProfile:
        """Return the profile of a collection at its current generation.

        Raises:
            InputError: if the label field of a document holds something that is not a label.
        """
        field, profile = self._profiles.get(collection, (None, None))
        if profile is None or field != label_field or profile.generation != collection.generation:
            profile = profile_of(code_table(collection, label_field))
            self._profiles[collection] = label_field, profile
        return profile


async def _profiles(request: Request) -> Profiles:
    profiles: Profiles = request.app.state.profiles
    return profiles


ProfilesOf = Annotated[Profiles, Depends(_profiles)]


@router.get(
    "/codes",
    response_model=CodesInfo,
    openapi_extra=READ,
    dependencies=LONG_READ,
    summary="Describe a collection's codes",
)
def get_codes(
    collection: CollectionOf,
    profiles: ProfilesOf,
    label_field: Annotated[
        str, Query(description="The payload field that holds the label.")
    ] = "label",
) -> Response:
    """Describe every bit, their correlations, and the buckets that documents share.

    The first request after a write reads all payloads, in slices, so that other requests have
    their turn in between; later requests return the same profile.
    """
    with pointing_at():
        profile = profiles.of(collection, label_field)
    info = {**asdict(profile), "n_bits": collection.n_bits}
    info["largest"] = [
        CodeBucket(**{**asdict(bucket), "code": bucket.code.hex()}) for bucket in profile.largest
    ]
    info["purity"] = None if profile.purity is None else BucketPurity(**info["purity"])
    return render(CodesInfo(**info))
