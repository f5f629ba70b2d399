from __future__ import annotations

import sys
import time
from pathlib import Path

import httpx
import pytest

from hummingbit.service.console import release
from hummingbit.service.routes import system


def test_a_key_that_may_label_has_what_suggestions_need_imported(
    client: httpx.Client, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "imported_by_the_page.py").touch()
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(system, "CLUSTERING", "imported_by_the_page")
    monkeypatch.setattr(system, "IMPORT_DELAY", 0.0)
    system._import_clustering_soon.cache_clear()
    client.get(f"/console/{release()}/js/app.js").raise_for_status()
    client.get("/console/").raise_for_status()
    assert system._import_clustering_soon.cache_info().currsize == 0
    client.get("/v1/access").raise_for_status()
    deadline = time.monotonic() + 120
    while "imported_by_the_page" not in sys.modules:
        assert time.monotonic() < deadline
        time.sleep(0.01)
