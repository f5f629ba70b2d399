from __future__ import annotations

import re
from pathlib import Path

import httpx

from hummingbit.service.routes.system import BUNDLED, OWN, PAGE
from tests.support.console.chromium import LOOPBACK, needs_chromium, run_chromium
from tests.support.service import check_problem


def test_the_page_names_no_other_host(client: httpx.Client) -> None:
    response = client.get("/docs")
    assert response.headers["content-type"].startswith("text/html")
    assert "default-src 'self'" in response.headers["content-security-policy"]
    assert "frame-ancestors 'none'" in response.headers["content-security-policy"]
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


@needs_chromium
def test_chromium_shows_the_page_without_a_network(client: httpx.Client, tmp_path: Path) -> None:
    address = f"{client.base_url}/docs".replace("//docs", "/docs")
    options = [LOOPBACK, "--virtual-time-budget=8000", "--dump-dom"]
    dom = run_chromium(tmp_path / "profile", *options, address)
    assert "Find the documents nearest" in dom or "/v1/collections/{name}/search" in (
        re.sub(r"<[^>]+>|&#8203;|\u200b", "", dom)
    )
    assert "Failed to load" not in dom
