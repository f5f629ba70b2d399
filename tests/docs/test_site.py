"""The built documentation in Chromium, on a desk and on a phone. ``make docs`` builds it first."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
from playwright.sync_api import Browser, Page

from tests.support.console.browser import chromium
from tests.support.console.chromium import CHROMIUM

pytestmark = pytest.mark.site

SITE = Path(__file__).parents[2] / "build" / "docs"
LOOK = """() => {
    const wider = (element) => element.scrollWidth - element.clientWidth > 1;
    const blocks = [...document.querySelectorAll("article pre")];
    const shown = (element) => element.textContent.trim().slice(0, 60);
    return {
        overflow: document.documentElement.scrollWidth - innerWidth,
        blocks: blocks.length,
        wide: blocks.filter((b) => wider(b) || wider(b.querySelector("code") ?? b)).map(shown),
        plain: blocks.filter((block) => !block.closest(".highlight")).map(shown),
        coloured: document.querySelectorAll("article .highlight code span[class]").length,
        lost: [...document.images].filter((image) => !image.naturalWidth).map((i) => i.src),
        drawn: [...document.images].filter((image) => image.src.startsWith("data:")).length,
    };
}"""


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    if CHROMIUM is None:
        pytest.skip("needs Chromium, which is not installed")
    with chromium() as browser:
        yield browser


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    """The address at which the built site is served."""
    handler = partial(QuietHandler, directory=str(SITE))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}/"
        server.shutdown()
        thread.join()


class QuietHandler(SimpleHTTPRequestHandler):
    """Serves files without a line for each."""

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the name it overrides
        pass


def looks(browser: Browser, address: str, width: int) -> tuple[dict[str, dict[str, Any]], set[str]]:
    """Open every page of the site; return what each looks like, and what other hosts were asked."""
    page: Page = browser.new_page(viewport={"width": width, "height": 800})
    asked: set[str] = set()
    page.on("request", lambda request: asked.add(request.url))
    found = {}
    for path in sorted(SITE.glob("*.html")):
        page.goto(address + path.name)
        found[path.name] = page.evaluate(LOOK)
    page.close()
    assert len(found) > 40, "make docs builds the site"
    return found, {url for url in asked if not url.startswith((address, "data:", "blob:"))}


@pytest.mark.parametrize("width", [1280, 390])
def test_every_page_fits_and_its_blocks_of_code_are_coloured(
    browser: Browser, address: str, width: int
) -> None:
    found, elsewhere = looks(browser, address, width)
    for name, look in found.items():
        assert look["overflow"] <= 0, name
        for problem in ("wide", "plain", "lost"):
            assert look[problem] == [], (name, problem)
    assert sum(look["blocks"] for look in found.values()) > 400
    # Words of shells, Python and JSON are coloured by their kinds.
    for name in ("service.html", "python.html", "rest-search.html", "first_codes.html"):
        assert found[name]["coloured"] > 50, name
    assert elsewhere == set()
    # The notebook is there with what it printed and drew.
    assert found["first_codes.html"]["drawn"] >= 1
    assert found["first_codes.html"]["blocks"] > 10
