"""What the codes of a collection look like, over REST."""

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
    """The last profile of each collection, for as long as nothing is written to it."""

    def __init__(self) -> None:
        self._known: WeakKeyDictionary[CollectionBackend, tuple[str, CodeProfile]]
        self._known = WeakKeyDictionary()

    def of(self, collection: CollectionBackend, label_field: str) -> CodeProfile:
        """Return the profile of a collection as it is now.

        Raises:
            InputError: if the field holds something that is no label in some document.
        """
        field, profile = self._known.get(collection, (None, None))
        if profile is None or field != label_field or profile.generation != collection.generation:
            profile = profile_of(code_table(collection, label_field))
            self._known[collection] = label_field, profile
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

    The first request after a write reads all payloads, in slices between which others have their
    turn; later ones return what it found.
    """
    with pointing_at():
        profile = profiles.of(collection, label_field)
    found = {**asdict(profile), "n_bits": collection.n_bits}
    found["largest"] = [
        CodeBucket(**{**asdict(one), "code": one.code.hex()}) for one in profile.largest
    ]
    found["purity"] = None if profile.purity is None else BucketPurity(**found["purity"])
    return render(CodesInfo(**found))
