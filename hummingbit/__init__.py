"""hummingbit: learn, search and judge short binary codes."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from encoder.encoder import Encoder
    from hummingbit.clients.async_client import AsyncClient
    from hummingbit.clients.client import Client
    from hummingbit.clients.transport import ServiceError
    from hummingbit.embedded import Collection
    from hummingbit.encoders import load_encoder
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
    "load_encoder": "hummingbit.encoders",
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


def __getattr__(name: str) -> Any:
    """Import a name when it is first asked for: the client needs none of what training does."""
    if name not in MODULES:
        raise AttributeError(f"module 'hummingbit' has no attribute {name!r}")
    return getattr(importlib.import_module(MODULES[name]), name)


def __dir__() -> list[str]:
    """Return the public names, also those that were not imported yet."""
    return sorted({*globals(), *__all__})
