"""Who may do what: three roles, each of which may do what the one before it may.

A route says which role it needs where it is declared: ``openapi_extra=READ``. One that says
nothing needs ``admin``.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum
from typing import Any

ROLE_FIELD = "x-role"


class Role(IntEnum):
    """The higher may do more; nobody is who has shown no key, where there are keys."""

    NOBODY = 0
    READ = 1
    WRITE = 2
    ADMIN = 3

    @property
    def label(self) -> str:
        """The role's name as operators write it."""
        return self.name.lower()


def _needs(role: Role) -> dict[str, Any]:
    security: list[dict[str, list[str]]] = [{}] if role is Role.NOBODY else SCHEMES
    return {ROLE_FIELD: role.label, "security": security}


# Any one of them, with the same key.
SCHEMES: list[dict[str, list[str]]] = [{"bearer": []}, {"header": []}, {"basic": []}]
EVERYBODY = _needs(Role.NOBODY)
READ = _needs(Role.READ)
WRITE = _needs(Role.WRITE)
ADMIN = _needs(Role.ADMIN)


def needed_role(operation: Mapping[str, Any] | None) -> Role:
    """Return the role that a route needs, from what it adds to the description."""
    label = (operation or {}).get(ROLE_FIELD, Role.ADMIN.label)
    return Role[str(label).upper()]
