"""hummingbit: learn, search and judge short binary codes."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hummingbit.async_client import AsyncClient
    from hummingbit.calls import ServiceError
    from hummingbit.client import Client

MODULES = {"AsyncClient": "async_client", "Client": "client", "ServiceError": "calls"}
__all__ = ["AsyncClient", "Client", "ServiceError"]


def __getattr__(name: str) -> Any:
    """Import the client when it is first asked for: commands that need none start without it."""
    if name not in MODULES:
        raise AttributeError(f"module 'hummingbit' has no attribute {name!r}")
    return getattr(importlib.import_module(f"hummingbit.{MODULES[name]}"), name)
