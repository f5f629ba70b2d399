"""Three roles, read, write and admin; each includes the one before it.

A route declares the role that it requires: ``openapi_extra=READ``. One that declares none requires
``admin``.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum
from typing import Any

ROLE_FIELD = "x-role"


class Role(IntEnum):
    """A higher role may do more. NOBODY has sent no valid key to a service that has keys."""

    NOBODY = 0
    READ = 1
    WRITE = 2
    ADMIN = 3

    @property
    def label(self) -> str:
        """The role's name as operators write it."""
        return self.name.lower()


def _requirement(role: Role) -> dict[str, Any]:
    security: list[dict[str, list[str]]] = [{}] if role is Role.NOBODY else SCHEMES
    return {ROLE_FIELD: role.label, "security": security}


# Any one of them carries the key.
SCHEMES: list[dict[str, list[str]]] = [{"bearer": []}, {"header": []}, {"basic": []}]
EVERYBODY = _requirement(Role.NOBODY)
READ = _requirement(Role.READ)
WRITE = _requirement(Role.WRITE)
ADMIN = _requirement(Role.ADMIN)


def required_role(operation: Mapping[str, Any] | None) -> Role:
    """Return the role that a route requires, from its ``openapi_extra``."""
    label = (operation or {}).get(ROLE_FIELD, Role.ADMIN.label)
    return Role[str(label).upper()]
