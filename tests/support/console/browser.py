"""Pages of the console in a real Chromium, driven by Playwright."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib.resources import files
from typing import Any
from urllib.parse import urlsplit

from playwright.sync_api import Browser, ConsoleMessage, Page, expect, sync_playwright

from tests.support.console.chromium import CHROMIUM, LOOPBACK

WIDTHS = (380, 1280, 2560)
THEMES = ("light", "dark")
HEIGHTS = {380: 800, 1280: 860, 2560: 1440}


@contextmanager
def chromium() -> Iterator[Browser]:
    """Yield a browser that can reach only this machine."""
    arguments = ["--no-sandbox", LOOPBACK]
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=arguments)
        try:
            yield browser
        finally:
            browser.close()


@dataclass
class WatchedPage:
    """A page, with the problems that it had so far."""

    page: Page
    address: str
    problems: list[str] = field(default_factory=list)

    def open(self, route: str) -> None:
        """Go to a page of the console and wait until it has loaded."""
        self.page.goto("about:blank")
        self.page.goto(f"{self.address}/console/#/{route}")
        self.page.wait_for_selector("main h1")
        self.settle()

    def open_options(self) -> None:
        """Unfold the options of a search."""
        self.page.locator("details.options > summary").click()

    def settle(self) -> None:
        """Wait until no request is running and no spinner is visible."""
        self.page.wait_for_load_state("networkidle")
        expect(self.page.locator(".spinner")).to_have_count(0, timeout=60_000)

    def check(self) -> None:
        """Fail if the page logged a warning, raised an error, or sent a request to another host."""
        assert self.problems == [], self.problems
        assert self.page.evaluate("globalThis.ran") is None, "a text was executed as script"

    def overflow(self) -> int:
        """Return how many pixels the page is wider than the window."""
        return int(self.page.evaluate("document.documentElement.scrollWidth - innerWidth"))

    def violations(self) -> list[str]:
        """Return the accessibility violations that axe-core finds, one per rule and element."""
        source = files("axe_playwright_python").joinpath("axe.min.js").read_text("utf-8")
        self.page.evaluate(source)
        report: dict[str, Any] = self.page.evaluate("axe.run(document)")
        return [
            f"{violation['id']}: {node['html'][:200]} {node['failureSummary'][:300]}"
            for violation in report["violations"]
            for node in violation["nodes"]
        ]


@contextmanager
def watched_page(
    browser: Browser,
    address: str,
    *,
    width: int = 1280,
    theme: str = "light",
    key: str | None = None,
    bypass_csp: bool = False,
) -> Iterator[WatchedPage]:
    """Open a page in a fresh profile and record its problems."""
    context = browser.new_context(
        viewport={"width": width, "height": HEIGHTS.get(width, 860)},
        color_scheme=theme,  # type: ignore[arg-type]  # one of its literals
        bypass_csp=bypass_csp,
        reduced_motion="reduce",
        permissions=["clipboard-read", "clipboard-write"],
    )
    if key is not None:
        script = f"sessionStorage.setItem('hummingbit.key', {key!r})"
        context.add_init_script(f"if (location.protocol === 'http:') {script}")
    page = context.new_page()
    page.set_default_timeout(60_000)
    watched = WatchedPage(page, address)

    def on_console(message: ConsoleMessage) -> None:
        if message.type in {"error", "warning"}:
            watched.problems.append(f"console {message.type}: {message.text}")

    def on_request(url: str) -> None:
        if not url.startswith(("data:", "blob:", "about:")) and (
            urlsplit(url).netloc != urlsplit(address).netloc
        ):
            watched.problems.append(f"request to {url}")

    page.on("console", on_console)
    page.on("pageerror", lambda error: watched.problems.append(f"error: {error}"))
    page.on("dialog", lambda dialog: watched.problems.append(f"dialog: {dialog.message}"))
    page.on("request", lambda request: on_request(request.url))
    try:
        yield watched
    finally:
        context.close()
