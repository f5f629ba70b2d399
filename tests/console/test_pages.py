from __future__ import annotations

import httpx
import pytest
from playwright.sync_api import Browser, expect
from pydantic import SecretStr

from service.settings import Settings
from tests.console.conftest import SCRIPT
from tests.support.browser import THEMES, WIDTHS, seen
from tests.support.service import make_data_folder, served

pytestmark = pytest.mark.xdist_group("console")
PAGES = {
    "overview": "overview",
    "search": "search?collection={name}&q=bread+matrix+flour",
    "map": "map?collection={name}",
    "codes": "codes?collection={name}",
}


@pytest.mark.parametrize("theme", THEMES)
@pytest.mark.parametrize("width", WIDTHS)
def test_every_page_fits_and_asks_nobody_else(
    browser: Browser, address: str, width: int, theme: str
) -> None:
    with seen(browser, address, width=width, theme=theme) as shown:
        for route in PAGES.values():
            shown.open(route.format(name="plain"))
            assert shown.overflow() <= 0, f"{route} is wider than {width} pixels"
            shown.check()


@pytest.mark.parametrize("theme", THEMES)
@pytest.mark.parametrize("page", PAGES)
def test_axe_finds_no_violation(browser: Browser, address: str, page: str, theme: str) -> None:
    with seen(browser, address, theme=theme, bypass_csp=True) as shown:
        shown.open(PAGES[page].format(name="plain"))
        assert shown.violations() == []


@pytest.mark.parametrize("page", PAGES)
def test_text_is_never_markup(browser: Browser, address: str, page: str) -> None:
    with seen(browser, address) as shown:
        shown.open(PAGES[page].format(name="hostile"))
        shown.check()
        assert shown.page.locator("main img, main script, main b svg").count() == 0


def test_a_search_shows_ids_as_they_are(browser: Browser, address: str) -> None:
    with seen(browser, address) as shown:
        shown.open("search?collection=hostile&q=bread")
        expect(shown.page.locator(".hit .id").first).to_contain_text(SCRIPT)
        shown.check()


def test_two_rankings_lie_side_by_side(browser: Browser, address: str) -> None:
    with seen(browser, address) as shown:
        page = shown.page
        shown.open("search?collection=plain&q=bread")
        page.get_by_label("beside another").check()
        page.get_by_role("button", name="Search", exact=True).click()
        expect(page.locator(".hits")).to_have_count(2)
        expect(page.locator(".note").first).to_contain_text("hits on the left")
        shown.check()


def test_a_filter_is_built_by_clicking(
    browser: Browser, address: str, client: httpx.Client
) -> None:
    with seen(browser, address) as shown:
        page = shown.page
        shown.open("search?collection=plain&q=bread")
        page.get_by_role("button", name="Add a condition").click()
        page.get_by_label("Field", exact=True).fill("year")
        page.get_by_label("Condition", exact=True).select_option("gte")
        page.get_by_label("Value", exact=True).fill("2015")
        with page.expect_response("**/search"):
            page.get_by_role("button", name="Search", exact=True).click()
        shown.settle()
        years = page.locator(".hit .tag", has_text="year").all_inner_texts()
        assert len(years) == 10
        assert all(int(one.removeprefix("year ")) >= 2015 for one in years)
        shown.check()


def test_the_key_is_asked_for_and_kept_for_the_tab(
    browser: Browser, tmp_path_factory: pytest.TempPathFactory
) -> None:
    keys = {role: SecretStr(role * 8 + "-" * 32) for role in ("read", "admin")}
    settings = Settings(read_key=keys["read"], admin_key=keys["admin"])
    folder = make_data_folder(tmp_path_factory.mktemp("keyed"))
    with served(folder, settings) as client, seen(browser, str(client.base_url)) as shown:
        page = shown.page
        page.goto(f"{client.base_url}/console/")
        page.get_by_label("Key").fill("a wrong key")
        page.get_by_role("button", name="Continue").click()
        expect(page.get_by_role("alert")).to_contain_text("unknown or was revoked")
        page.get_by_label("Key").fill(keys["read"].get_secret_value())
        page.get_by_role("button", name="Continue").click()
        expect(page.locator("main h1")).to_have_text("Overview")
        page.reload()
        expect(page.locator("main h1")).to_have_text("Overview")
        assert page.context.cookies() == []
        page.get_by_role("button", name="Forget the key").click()
        expect(page.get_by_label("Key")).to_be_visible()
        assert page.evaluate("sessionStorage.length") == 0


def test_the_keyboard_reaches_a_search(browser: Browser, address: str) -> None:
    with seen(browser, address) as shown:
        shown.open("search?collection=plain")
        page = shown.page
        page.get_by_label("Query").focus()
        page.keyboard.type("bread")
        page.keyboard.press("Enter")
        expect(page.locator(".hit").first).to_be_visible()
        shown.check()


def test_a_map_is_drawn_by_a_job_and_a_region_is_selected(browser: Browser, address: str) -> None:
    with seen(browser, address) as shown:
        page = shown.page
        shown.open("map?collection=fresh")
        page.get_by_label("Layout").select_option("pca")
        page.get_by_role("button", name="Draw the map").click()
        expect(page.locator("canvas")).to_be_visible(timeout=60_000)
        page.get_by_role("button", name="Select what is in view").click()
        expect(page.get_by_role("heading", name="Selected", exact=True)).to_be_visible()
        expect(page.get_by_text("40 documents of")).to_be_visible()
        expect(page.locator(".documents .id").first).to_be_visible()
        page.get_by_role("button", name="Clear").click()
        page.get_by_role("button", name="Lasso").click()
        box = page.locator("canvas").bounding_box()
        assert box is not None
        left, top = box["x"] + 4, box["y"] + 60
        right, low = box["x"] + box["width"] - 4, box["y"] + box["height"] - 4
        page.mouse.move(left, top)
        page.mouse.down()
        for x, y in ((right, top), (right, low), (left, low)):
            page.mouse.move(x, y, steps=3)
        page.mouse.up()
        expect(page.get_by_text("40 documents of")).to_be_visible()
        page.get_by_label("Query to draw in the map").fill("bread flour")
        page.get_by_role("button", name="Show", exact=True).click()
        expect(page.get_by_text("ringed")).to_be_visible()
        shown.check()


def test_the_map_is_moved_by_keys(browser: Browser, address: str) -> None:
    with seen(browser, address) as shown:
        shown.open("map?collection=plain")
        canvas = shown.page.locator("canvas")
        canvas.focus()
        before = canvas.screenshot()
        for key in ("+", "ArrowLeft", "ArrowUp"):
            shown.page.keyboard.press(key)
        shown.page.wait_for_timeout(200)
        assert canvas.screenshot() != before
        shown.page.keyboard.press("0")
        shown.page.wait_for_timeout(200)
        assert canvas.screenshot() == before
        shown.check()
