"""What the fields of tables hold: numbers or strings."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Literal

FieldType = Literal["number", "string"]
NUMBER: FieldType = "number"
STRING: FieldType = "string"


class FieldTypes:
    """Whether each payload field holds numbers or strings, for all tables of a collection.

    The first table that has values for a field decides; later ones are read by it. This class keeps
    the types in memory. :class:`hummingbit.index.ingestion.CollectionFieldTypes` has those of a
    collection.
    """

    def __init__(
        self, types: Mapping[str, FieldType] | None = None, *, of_payload: bool = True
    ) -> None:
        """Begin with `types`, by the names of the fields.

        If not `of_payload`, nobody uses the payload, and the types of its fields are not decided.
        """
        self._types: dict[str, FieldType] = dict(types or {})
        self.of_payload = of_payload

    @property
    def decided(self) -> Mapping[str, FieldType]:
        """All types that are known."""
        return self._types

    def known(self, names: Collection[str]) -> dict[str, FieldType]:
        """Return the types of those of the fields `names` that have one."""
        return {name: self._types[name] for name in names if name in self._types}

    def remember(self, types: Mapping[str, FieldType]) -> None:
        """Keep the types of fields that had none."""
        self._types.update(types)
