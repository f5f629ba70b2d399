"""Columns of payloads in a database of their own."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping, Sequence
from contextlib import closing
from typing import Any

from hummingbit.index.filters import Filter, fields_of
from hummingbit.index.schema import SCHEMA, payload_to_json
from hummingbit.index.store.fields import Evaluation, read_columns


def database_of(payloads: Sequence[Mapping[str, Any]]) -> sqlite3.Connection:
    """Return a database with documents in the rows from 1 on."""
    connection = sqlite3.connect(":memory:")
    connection.executescript(SCHEMA)
    meta = [("generation", 1), ("documents", len(payloads))]
    connection.executemany("INSERT INTO meta VALUES (?, ?)", meta)
    stored = [(str(at), payload_to_json(payload)) for at, payload in enumerate(payloads)]
    insert = "INSERT INTO documents (id, code, checksum, payload) VALUES (?, x'', x'', ?)"
    connection.executemany(insert, stored)
    return connection


def rows_in_columns(payloads: Sequence[Mapping[str, Any]], filter_: Filter) -> list[int]:
    """Return the rows of the payloads that match a filter, from 1 on."""
    with closing(database_of(payloads)) as connection:
        fields = sorted(fields_of(filter_))
        columns = dict(zip(fields, read_columns(connection, fields), strict=True))
        rows: list[int] = Evaluation(connection, columns).mask(filter_).nonzero()[0].tolist()
        return rows
