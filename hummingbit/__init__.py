"""hummingbit: learn, search and evaluate short binary codes."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hummingbit.clients.async_client import AsyncClient
    from hummingbit.clients.client import Client
    from hummingbit.clients.requests import ServiceError
    from hummingbit.embedded import Collection, Hits
    from hummingbit.encoder.encoder import Encoder
    from hummingbit.encoder_loading import load_encoder
    from hummingbit.hasher import SemanticHasher
    from hummingbit.index.search import Hit
    from hummingbit.served import ServedCollection

MODULES = {
    "AsyncClient": "hummingbit.clients.async_client",
    "Client": "hummingbit.clients.client",
    "Collection": "hummingbit.embedded",
    "Encoder": "hummingbit.encoder.encoder",
    "Hit": "hummingbit.index.search",
    "Hits": "hummingbit.embedded",
    "SemanticHasher": "hummingbit.hasher",
    "ServedCollection": "hummingbit.served",
    "ServiceError": "hummingbit.clients.requests",
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
    "ServedCollection",
    "ServiceError",
    "load_encoder",
]


def __getattr__(name: str) -> Any:
    """Import a name when it is first used, so that the client loads nothing that training needs."""
    if name not in MODULES:
        raise AttributeError(f"module 'hummingbit' has no attribute {name!r}")
    return getattr(importlib.import_module(MODULES[name]), name)


def __dir__() -> list[str]:
    """Return the public names, including those that are not imported yet."""
    return sorted({*globals(), *__all__})
