from __future__ import annotations

import sys
import time
from pathlib import Path

import httpx
import pytest

from service.console.assets import release
from service.routes.system import console


def test_opening_the_page_imports_what_suggestions_need(
    client: httpx.Client, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "imported_by_the_page.py").touch()
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(console, "CLUSTERING", "imported_by_the_page")
    monkeypatch.setattr(console, "IMPORT_DELAY", 0.0)
    console._import_clustering_soon.cache_clear()
    client.get(f"/console/{release()}/js/app.js").raise_for_status()
    assert console._import_clustering_soon.cache_info().currsize == 0
    client.get("/console/").raise_for_status()
    deadline = time.monotonic() + 120
    while "imported_by_the_page" not in sys.modules:
        assert time.monotonic() < deadline
        time.sleep(0.01)
