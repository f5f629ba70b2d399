"""hummingbit: learn, search and evaluate short binary codes."""

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

CLIENT_NAMES = ("AsyncClient", "Client", "ServiceError")
"""The names that work without the other packages."""


def __getattr__(name: str) -> Any:
    """Import a name when it is first used, so that the client loads nothing that training needs."""
    if name not in MODULES:
        raise AttributeError(f"module 'hummingbit' has no attribute {name!r}")
    if name not in CLIENT_NAMES:
        _check_packages()
    return getattr(importlib.import_module(MODULES[name]), name)


@cache
def _check_packages() -> None:
    """Raise ImportError if one of our packages would be imported from somewhere else.

    The command line puts its own folders first on the path. A library must not change the path.
    """
    root = Path(__file__).parents[1]
    for package in PACKAGES:
        spec = importlib.util.find_spec(package)
        places = [] if spec is None else [spec.origin, *(spec.submodule_search_locations or ())]
        place = next((Path(path) for path in places if path is not None), None)
        if place is not None and not place.is_relative_to(root):
            message = f"{place} hides the package {package!r} of hummingbit"
            hint = "rename it, run from another folder, or install hummingbit into an environment"
            raise ImportError(f"{message}: {hint} of its own and use hummingbit.Client")


def __dir__() -> list[str]:
    """Return the public names, including those that are not imported yet."""
    return sorted({*globals(), *__all__})
