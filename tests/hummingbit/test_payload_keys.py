"""Names of fields that JSON, or a table, would write alike, so that one value was lost."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from hummingbit import Client, Collection
from hummingbit.corpus.document import parse_document
from hummingbit.foundation.errors import InputError
from hummingbit.index.payloads import PayloadUpdate
from tests.support.service import running_service

ALIKE: list[dict[Any, Any]] = [
    {1: "a", "1": "b"},
    {True: "a", "true": "b"},
    {None: "a", "null": "b"},
    {1.5: "a", "1.5": "b"},
    {"nested": [0, {"deep": {2: "a", "2": "b"}}]},
]


@pytest.mark.parametrize("payload", ALIKE)
def test_two_keys_that_json_writes_alike_are_refused(
    tmp_path: Path, payload: dict[Any, Any]
) -> None:
    document = {"id": "a", "code": "0f0f", "payload": payload}
    with Collection.create(tmp_path, "notes", n_bits=16) as collection:
        ways: list[Callable[[], object]] = [
            lambda: collection.add([document]),
            lambda: collection.add([{"id": "a", "code": "0f0f"}], payloads=[payload]),
            lambda: PayloadUpdate.of({"ids": ["a"], "set": payload}),
            lambda: PayloadUpdate.of({"ids": ["a"], "merge": payload}),
            lambda: parse_document(document),
        ]
        for way in ways:
            with pytest.raises(InputError, match="which JSON writes alike; rename one"):
                way()
        assert len(collection) == 0
        whole = {"id": "b", "code": "0f0f", "payload": {7: "seven", "8": None}}
        collection.add([whole])
        stored = collection.get("b")
        assert stored is not None
        assert stored.payload == {"7": "seven", "8": None}
    with running_service(tmp_path) as http, Client(str(http.base_url)) as client:
        with pytest.raises(TypeError, match="which JSON writes alike; rename one"):
            client.upsert("notes", [document])
        with pytest.raises(TypeError, match="which JSON writes alike; rename one"):
            client.update_payloads("notes", [{"ids": ["b"], "set": payload}])
        assert client.count("notes") == 1


def test_two_columns_with_one_name_are_refused(tmp_path: Path) -> None:
    frames = [
        pd.DataFrame([["a", "t", "x", "y"]], columns=["id", "text", 1, "1"]),
        pd.DataFrame([["a", "t", "x", "y"]], columns=["id", "text", "n", "n"]),
    ]
    with Collection.create(tmp_path, "notes", encoder=None) as collection:
        for frame in frames:
            with pytest.raises(InputError, match=r"has two columns '[1n]'; rename one"):
                collection.add(frame)
        with pytest.raises(InputError, match="two fields '1'"):
            collection.add([{"id": "a", "text": "t", 1: "x", "1": "y"}])
        assert len(collection) == 0
