from __future__ import annotations

import hashlib
import re
from importlib.resources import files
from urllib.parse import urljoin

import httpx
import pytest

from hummingbit.service.console import assets, gzipped, page, release
from hummingbit.service.routes.system import CONSOLE_POLICY
from tests.support.service import check_problem

MOST_BYTES = 400_000
VENDORED = re.compile(r"^\| `([^`]+)` \|.*\| `([0-9a-f]{64})` \|$", re.MULTILINE)


def test_all_files_together_are_small() -> None:
    sent = {
        name: len(gzipped(item) if item.is_compressible else item.body)
        for name, item in {**assets(), "": page()}.items()
    }
    assert sum(sent.values()) <= MOST_BYTES, sent


def test_vendored_files_are_as_listed() -> None:
    folder = files("hummingbit.service.console") / "static" / "vendor"
    listed = dict(VENDORED.findall((folder / "VENDORED.md").read_text("utf-8")))
    there = {path.name for path in folder.iterdir()} - {"VENDORED.md"}
    assert {name for name in there if not name.endswith(".LICENSE")} == set(listed)
    for name, checksum in listed.items():
        assert hashlib.sha256((folder / name).read_bytes()).hexdigest() == checksum, name


@pytest.mark.parametrize("name", sorted(assets()))
def test_a_file_is_sent_compressed_and_with_its_tag(client: httpx.Client, name: str) -> None:
    asset = assets()[name]
    address = f"/console/{release()}/{name}"
    response = client.get(address, headers={"accept-encoding": "gzip"})
    assert response.status_code == 200
    assert (response.headers.get("content-encoding") == "gzip") is asset.is_compressible
    assert response.content == asset.body  # httpx has decompressed it
    assert response.headers["content-type"] == asset.media_type
    again = client.get(address, headers={"if-none-match": response.headers["etag"]})
    assert (again.status_code, again.content) == (304, b"")
    plain = client.get(address, headers={"accept-encoding": "identity"})
    assert plain.content == asset.body


def test_the_page_names_files_that_are_there_and_nothing_inline(client: httpx.Client) -> None:
    source = client.get("/console/").text
    for address in re.findall(r'(?:src|href)="([^"]+)"', source):
        assert client.get(f"/console/{address}").status_code == 200, address
    assert not re.search(r"<script(?![^>]*src=)|<style| style=| on\w+=", source)


def test_a_browser_keeps_files_and_checks_the_page(client: httpx.Client) -> None:
    response = client.get("/console/")
    assert response.headers["cache-control"] == "no-cache"
    current = {"if-none-match": response.headers["etag"]}
    assert client.get("/console/", headers=current).status_code == 304
    kept = client.get(f"/console/{release()}/js/app.js").headers["cache-control"]
    assert kept == "public, max-age=31536000, immutable"


def test_a_page_from_before_an_upgrade_gets_files_that_a_browser_checks(
    client: httpx.Client,
) -> None:
    response = client.get(f"/console/{'0' * 16}/js/app.js")
    assert response.content == assets()["js/app.js"].body
    assert response.headers["cache-control"] == "no-cache"


def test_modules_import_files_that_are_there() -> None:
    for name, asset in assets().items():
        if not name.startswith("js/"):
            continue
        folder = f"http://here/{name}"
        for address in re.findall(r'(?:from |import\()"([^"]+)"', asset.body.decode()):
            assert urljoin(folder, address).removeprefix("http://here/") in assets(), address


def test_the_policy_lets_nothing_in(client: httpx.Client) -> None:
    response = client.get("/console/")
    assert response.headers["content-security-policy"] == CONSOLE_POLICY
    assert "default-src 'none'" in CONSOLE_POLICY
    assert "unsafe" not in CONSOLE_POLICY
    assert "set-cookie" not in response.headers
    assert response.headers["x-content-type-options"] == "nosniff"
    redirect = client.get("/console", follow_redirects=False)
    assert (redirect.status_code, redirect.headers["location"]) == (307, "console/")


@pytest.mark.parametrize("name", ["nope.js", "..%2fassets.py", "%2e%2e/%2e%2e/app.py", "vendor"])
def test_other_files_cannot_be_asked_for(client: httpx.Client, name: str) -> None:
    check_problem(client.get(f"/console/{release()}/{name}"), 404, "not_found")


@pytest.mark.parametrize("folder", ["0" * 15, "..", "G" * 16, "js"])
def test_files_are_below_a_release_only(client: httpx.Client, folder: str) -> None:
    check_problem(client.get(f"/console/{folder}/js/app.js"), 404, "not_found")
