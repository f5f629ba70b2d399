"""hummingbit: learn, search and judge short binary codes."""

from __future__ import annotations

import importlib
import importlib.util
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from encoder.encoder import Encoder
    from hummingbit.clients.async_client import AsyncClient
    from hummingbit.clients.client import Client
    from hummingbit.clients.transport import ServiceError
    from hummingbit.embedded import Collection
    from hummingbit.encoder_loading import load_encoder
    from hummingbit.hasher import SemanticHasher
    from hummingbit.hits import Hits
    from index.records import Hit

MODULES = {
    "AsyncClient": "hummingbit.clients.async_client",
    "Client": "hummingbit.clients.client",
    "Collection": "hummingbit.embedded",
    "Encoder": "encoder.encoder",
    "Hit": "index.records",
    "Hits": "hummingbit.hits",
    "SemanticHasher": "hummingbit.hasher",
    "ServiceError": "hummingbit.clients.transport",
    "load_encoder": "hummingbit.encoder_loading",
}
__all__ = [
    "AsyncClient",
    "Client",
    "Collection",
    "Encoder",
    "Hit",
    "Hits",
    "SemanticHasher",
    "ServiceError",
    "load_encoder",
]


PACKAGES = (
    "foundation",
    "corpus",
    "encoder",
    "evaluation",
    "experiments",
    "hummingbit",
    "index",
    "service",
    "training",
)
"""The application's top-level packages."""

NEED_NOTHING_BESIDE = ("AsyncClient", "Client", "ServiceError")


def __getattr__(name: str) -> Any:
    """Import a name when it is first asked for: the client needs none of what training does."""
    if name not in MODULES:
        raise AttributeError(f"module 'hummingbit' has no attribute {name!r}")
    if name not in NEED_NOTHING_BESIDE:
        _check_nothing_is_in_the_way()
    return getattr(importlib.import_module(MODULES[name]), name)


@cache
def _check_nothing_is_in_the_way() -> None:
    """Raise an ImportError if a package of ours would be imported from somewhere else.

    Commands put their own folders first on the path. A library leaves the path to its caller.
    """
    root = Path(__file__).parents[1]
    for package in PACKAGES:
        found = importlib.util.find_spec(package)
        places = [] if found is None else [found.origin, *(found.submodule_search_locations or ())]
        place = next((Path(one) for one in places if one is not None), None)
        if place is not None and not place.is_relative_to(root):
            message = f"{place} hides the package {package!r} that hummingbit is made of"
            cure = "rename it, run from another folder, or install hummingbit into an environment"
            raise ImportError(f"{message}: {cure} of its own and use hummingbit.Client")


def __dir__() -> list[str]:
    """Return the public names, also those that were not imported yet."""
    return sorted({*globals(), *__all__})
