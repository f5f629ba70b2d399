"""hummingbit: learn, search and judge short binary codes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hummingbit.calls import ServiceError
    from hummingbit.client import AsyncClient, Client

__all__ = ["AsyncClient", "Client", "ServiceError"]


def __getattr__(name: str) -> Any:
    """Import the client when it is first asked for: commands that need none start without it."""
    if name not in __all__:
        raise AttributeError(f"module 'hummingbit' has no attribute {name!r}")
    from hummingbit import calls, client  # noqa: PLC0415 - see above

    return getattr(calls if name == "ServiceError" else client, name)
