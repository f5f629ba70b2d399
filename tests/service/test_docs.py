from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import httpx
import pytest

from service.docs import BUNDLED, OWN, PAGE
from tests.support.service import check_problem

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser"))), None)
OPTIONS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
    "--hide-scrollbars",
    "--virtual-time-budget=8000",
    # No name is looked up: whatever the page would load from another host is not there.
    "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",
]


def test_the_page_names_no_other_host(client: httpx.Client) -> None:
    response = client.get("/docs")
    assert response.headers["content-type"].startswith("text/html")
    assert "default-src 'self'" in response.headers["content-security-policy"]
    addresses = re.findall(r'(?:src|href)="([^"]+)"', PAGE)
    assert addresses
    for address in addresses:
        assert client.get(address).status_code == 200


def test_files_come_from_a_fixed_list(client: httpx.Client) -> None:
    for name in (*OWN, *BUNDLED):
        response = client.get(f"/docs/{name}")
        assert response.status_code == 200
        assert response.headers["content-type"].split(";")[0] in {
            "text/javascript",
            "text/css",
            "image/svg+xml",
        }
    for name in ("nope.js", "..%2f..%2fconsts.py", "redoc.standalone.js"):
        check_problem(client.get(f"/docs/{name}"), 404, "not_found")


@pytest.mark.skipif(CHROMIUM is None, reason="needs Chromium, which is not installed")
def test_chromium_shows_the_page_without_a_network(client: httpx.Client, tmp_path: Path) -> None:
    address = f"{client.base_url}/docs".replace("//docs", "/docs")
    profile = f"--user-data-dir={tmp_path / 'profile'}"
    command = [str(CHROMIUM), *OPTIONS, profile, "--dump-dom", address]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    assert "Find the documents nearest" in done.stdout or "/v1/collections/{name}/search" in (
        re.sub(r"<[^>]+>|&#8203;|\u200b", "", done.stdout)
    )
    assert "Failed to load" not in done.stdout
