from __future__ import annotations

from pathlib import Path

import pytest
from pydantic import SecretStr

from hummingbit.index.rankings import RANKINGS
from hummingbit.service.console import release
from hummingbit.service.settings import Settings
from tests.support.service import make_data_folder, running_service


@pytest.mark.parametrize("role", ["read", "write", "admin"])
def test_a_key_is_told_what_it_may_do(tmp_path: Path, role: str) -> None:
    key = f"{role}-{'k' * 40}"
    settings = Settings(**{f"{role}_key": SecretStr(key)}, max_limit=77)  # type: ignore[arg-type]
    with running_service(make_data_folder(tmp_path), settings) as client:
        assert client.get("/v1/access").status_code == 401
        answer = client.get("/v1/access", headers={"x-api-key": key}).json()
        assert (answer["role"], answer["read_only"]) == (role, False)
        assert answer["limits"]["max_limit"] == 77
        assert answer["rankings"] == [*RANKINGS]


def test_the_console_needs_no_key(tmp_path: Path) -> None:
    settings = Settings(admin_key=SecretStr("k" * 40))
    with running_service(make_data_folder(tmp_path), settings) as client:
        assert client.get("/console/").status_code == 200
        assert client.get(f"/console/{release()}/js/app.js").status_code == 200
        assert client.get("/consoleX").status_code == 401
        assert client.get("/v1/collections").status_code == 401
