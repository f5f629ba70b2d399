"""The console with real corpora: from a judgement to a live encoder, and large collections.

`make console` runs these, and prints what they measure; pictures of every page go to
`build/console`, or to the folder that `CONSOLE_PICTURES` names.
"""

from __future__ import annotations

import json
import os
import shutil
import time
from collections.abc import Iterator
from pathlib import Path
from statistics import median
from typing import Any

import httpx
import numpy as np
import pytest
from playwright.sync_api import Browser, Page, expect

from hummingbit.service.settings import Settings
from tests.support.console.browser import THEMES, WIDTHS, WatchedPage, watched_page
from tests.support.encoders import random_texts
from tests.support.service import ROOT, make_data_folder, running_service

pytestmark = pytest.mark.console

DEMO = ROOT / "demo-data"
PICTURES = Path(os.environ.get("CONSOLE_PICTURES", ROOT / "build" / "console"))
LABELLED = 24
LARGE = 100_000
FRAMES = """async () => {
  const canvas = document.querySelector("canvas");
  const began = performance.now();
  let frames = 0;
  while (performance.now() - began < 2000) {
    const key = frames % 20 < 10 ? "ArrowLeft" : "ArrowRight";
    canvas.dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true }));
    await new Promise(requestAnimationFrame);
    frames += 1;
  }
  return frames / ((performance.now() - began) / 1000);
}"""


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx.Client]:
    """A service of a copy of the demo's data folder."""
    if not (DEMO / "collections").is_dir():
        pytest.skip("needs demo-data; run hummingbit demo --no-serve")
    folder = tmp_path_factory.mktemp("demo") / "data"
    shutil.copytree(DEMO, folder, ignore=shutil.ignore_patterns("jobs"))
    with running_service(folder, Settings(request_timeout=300)) as client:
        client.timeout = httpx.Timeout(300)
        real = client.get("/v1/collections/docstrings").json()["name"]
        action = {"add": {"alias": "docs", "collection": real}}
        client.post("/v1/aliases", json={"actions": [action]}).raise_for_status()
        yield client


def address_of(client: httpx.Client) -> str:
    return str(client.base_url).rstrip("/")


def evaluate(client: httpx.Client, ranks: slice) -> str:
    """Evaluate some documents as queries, and return the id."""
    path = "/v1/collections/docstrings"
    page = client.post(f"{path}/documents:scroll", json={"limit": 1000}).json()["documents"]
    queries = [
        {"id": document["id"], "text": document["text"], "label": document["payload"]["label"]}
        for document in page[ranks]
        if document["payload"].get("label")
    ]
    body = {"queries": queries, "exclude_self": True}
    prefer = {"prefer": "respond-async"}
    return str(done(client, client.post(f"{path}/evaluate", json=body, headers=prefer))["id"])


def done(client: httpx.Client, accepted: httpx.Response) -> dict[str, Any]:
    """Wait for a job, however long it takes, and return it."""
    id_ = accepted.raise_for_status().json()["id"]
    while (job := client.get(f"/v1/jobs/{id_}").json())["finished"] is None:
        time.sleep(0.2)
    assert job["state"] == "done", job
    found: dict[str, Any] = job
    return found


def judge_some(client: httpx.Client) -> None:
    """Have two people label some documents, of which the second has seen a third."""
    path = "/v1/collections/docstrings"
    page = client.post(f"{path}/documents:scroll", json={"limit": 1000}).json()["documents"]
    labels = [
        {"id": document["id"], "label": document["payload"]["label"], "who": who}
        for position, document in enumerate(page[::9])
        for who in (("ada", "grace") if position % 3 == 0 else ("ada",))
        if document["payload"].get("label")
    ]
    client.put(f"{path}/labels", json={"labels": labels}).raise_for_status()


def test_pictures_of_every_page(browser: Browser, demo: httpx.Client) -> None:
    judge_some(demo)
    runs = [evaluate(demo, slice(0, 300, 2)), evaluate(demo, slice(0, 300, 3))]
    path = "/v1/collections/docstrings"
    done(demo, demo.post(f"{path}/duplicates", json={"radius": 4, "confirm": 0.4}))
    done(demo, demo.post(f"{path}/map", json={}))
    routes = {
        "overview": "overview",
        "search": "search?collection=docstrings&q=read+numbers+from+a+text+file",
        "map": "map?collection=docstrings",
        "codes": "codes?collection=docstrings",
        "evaluation": f"evaluation?collection=docstrings&run={runs[0]}",
        "comparison": f"evaluation?collection=docstrings&run={runs[0]}&against={runs[1]}",
        "judging": "judging?collection=docstrings&field=-",
        "training": "training?collection=docstrings",
        "duplicates": "duplicates?collection=docstrings",
    }
    PICTURES.mkdir(parents=True, exist_ok=True)
    for theme in THEMES:
        for width in WIDTHS:
            with watched_page(browser, address_of(demo), width=width, theme=theme) as shown:
                for name, route in routes.items():
                    shown.open(route)
                    assert shown.overflow() <= 0, (name, width)
                    shown.page.screenshot(path=PICTURES / f"{name}-{width}-{theme}.png")
                shown.check()


def test_from_judgements_to_a_new_encoder_behind_the_alias(
    browser: Browser, demo: httpx.Client
) -> None:
    """All of it by clicking and typing, as a person would."""
    pytest.importorskip("torch")
    began = time.monotonic()
    before = demo.get("/v1/collections/docstrings").json()["name"]
    with watched_page(browser, address_of(demo)) as shown:
        page = shown.page
        page.set_default_timeout(120_000)
        shown.open("judging?collection=docstrings&field=-")
        for _ in range(LABELLED):
            label_one(page, demo)
        print(f"\n{LABELLED} documents labelled in {time.monotonic() - began:.0f} s")
        shown.open("training?collection=docstrings&field=-")
        page.get_by_label("Alias to move").fill("docs")
        page.get_by_label("Minimum gain").fill("-1")
        page.get_by_label("Epochs").fill("2")
        page.locator("form").get_by_role("button", name="Retrain").click()
        confirm = page.get_by_role("button", name="Reindex with this encoder and move docs")
        expect(confirm).to_be_visible(timeout=400_000)
        confirm.click()
        expect(page.get_by_text("and the alias docs now points to it")).to_be_visible(
            timeout=200_000
        )
        aliases = demo.get("/v1/aliases").json()["aliases"]
        live = next(alias["collection"] for alias in aliases if alias["alias"] == "docs")
        assert live != before
        print(f"the new encoder is live after {time.monotonic() - began:.0f} s")
        shown.open(f"search?collection={live}&q=nearest+neighbours+of+points")
        expect(page.locator(".hit").first).to_be_visible()
        shown.open("training?collection=docstrings")
        page.get_by_role("button", name="Move the alias back").click()
        expect(page.get_by_text(f"The alias docs points to {before} again")).to_be_visible()
        shown.check()


def label_one(page: Page, client: httpx.Client) -> None:
    """Give the document on the page the label that its payload has: click it, or type it."""
    subject = page.locator("[data-document]")
    expect(subject).to_be_visible(timeout=120_000)
    id_ = subject.get_attribute("data-document") or ""
    body = {"ids": [id_]}
    found = client.post("/v1/collections/docstrings/documents:get", json=body).json()
    payload = found["documents"][0]["payload"]
    label = str(payload.get("label") or "none")
    known = page.locator(".choices button").filter(has=page.get_by_text(label, exact=True))
    if known.count():
        known.first.click()
    else:
        page.get_by_label("Another label").fill(label)
        page.get_by_role("button", name="Use this label").click()
    expect(subject).not_to_have_attribute("data-document", id_, timeout=120_000)


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx.Client]:
    """A service of 100,000 documents, all with codes of their own."""
    folder = make_data_folder(tmp_path_factory.mktemp("large"))
    rng = np.random.default_rng(0)
    centres = rng.integers(0, 2, (40, 64))
    which = rng.integers(0, 40, 2 * LARGE)
    bits = centres[which] ^ (rng.random((2 * LARGE, 64)) < 0.14)
    codes, first = np.unique(np.packbits(bits, axis=1), axis=0, return_index=True)
    texts = random_texts(1000)
    with running_service(folder, Settings(request_timeout=300)) as client:
        client.timeout = httpx.Timeout(300)
        client.put("/v1/collections/large", json={"n_bits": 64}).raise_for_status()
        for start in range(0, LARGE, 10_000):
            lines = "\n".join(
                json.dumps(
                    {
                        "id": f"d{at}",
                        "code": codes[at].tobytes().hex(),
                        "label": f"class {which[first[at]]}",
                        "payload": {"summary": texts[at % 1000], "year": 1990 + at % 30},
                    }
                )
                for at in range(start, start + 10_000)
            )
            headers = {"content-type": "application/x-ndjson"}
            path = "/v1/collections/large/documents:bulk"
            client.post(path, content=lines, headers=headers).raise_for_status()
        yield client


def test_a_hundred_thousand_documents(browser: Browser, large: httpx.Client) -> None:
    routes = prepare_pages(large)
    PICTURES.mkdir(parents=True, exist_ok=True)
    times: dict[str, list[tuple[float, float]]] = {name: [] for name in routes}
    for theme in THEMES:
        for width in WIDTHS:
            with watched_page(
                browser, address_of(large), width=width, theme=theme, bypass_csp=True
            ) as shown:
                for name, (route, content) in routes.items():
                    times[name].append(visit(shown, route, content))
                    shown.settle()
                    assert shown.overflow() <= 0, (name, width, theme)
                    assert shown.violations() == [], (name, width, theme)
                    shown.page.screenshot(path=PICTURES / f"large-{name}-{width}-{theme}.png")
                shown.check()
    for name, visits in times.items():
        heading, content = (
            f"{median(some):.0f} ms, at most {max(some):.0f}" for some in zip(*visits, strict=True)
        )
        print(f"{name}: heading after {heading}; content after {content}")
    with watched_page(browser, address_of(large)) as shown:
        measure_map(shown)
        shown.check()


def prepare_pages(client: httpx.Client) -> dict[str, tuple[str, str]]:
    """Do the work that pages show; return each page's route and the selector of its content."""
    path = "/v1/collections/large"
    labels = [{"id": f"d{at}", "label": f"theme {at % 3}"} for at in range(0, 600, 2)]
    client.put(f"{path}/labels", json={"labels": labels}).raise_for_status()
    began = time.monotonic()
    job = done(client, client.post(f"{path}/map", json={"time_field": "year"}))
    print(f"\n{job['result']} in {time.monotonic() - began:.0f} s")
    done(client, client.post(f"{path}/duplicates", json={"radius": 2}))
    page = client.post(f"{path}/documents:scroll", json={"limit": 60}).json()["documents"]
    queries = [
        {"id": document["id"], "code": document["code"], "label": document["payload"]["label"]}
        for document in page
    ]
    runs = []
    for some in (queries[:40], queries[20:]):
        body = {"queries": some, "metrics": ["P@10", "nDCG@10"], "exclude_self": True}
        headers = {"prefer": "respond-async"}
        job = done(client, client.post(f"{path}/evaluate", json=body, headers=headers))
        runs.append(job["id"])
    run, against = runs
    return {
        "overview": ("overview", "main table"),
        "search": (f"search?collection=large&code={page[0]['code']}", ".hit"),
        "map": ("map?collection=large", "canvas[data-drawn]"),
        "codes": ("codes?collection=large", ".chart"),
        "evaluation": (f"evaluation?collection=large&run={run}", ".plots .chart"),
        "comparison": (f"evaluation?collection=large&run={run}&against={against}", ".wins"),
        "judging": ("judging?collection=large&field=-", "[data-document]"),
        "duplicates": ("duplicates?collection=large", ".cluster"),
    }


def visit(shown: WatchedPage, route: str, content: str) -> tuple[float, float]:
    """Open a page anew; return after how many milliseconds its heading and its content are there.

    Nobody wants to wait for more than a second. The time of a busy machine is printed, not tested.
    """
    shown.page.goto("about:blank")
    began = time.monotonic()
    shown.page.goto(f"{shown.address}/console/#/{route}")
    shown.page.wait_for_selector("main h1")
    heading = time.monotonic() - began
    shown.page.wait_for_selector(content)
    return 1000 * heading, 1000 * (time.monotonic() - began)


def measure_map(shown: WatchedPage) -> None:
    shown.open("map?collection=large")
    drawn = shown.page.locator("canvas[data-drawn]").get_attribute("data-drawn")
    frames = shown.page.evaluate(FRAMES)
    print(f"{LARGE:,} points drawn in {drawn} ms; {frames:.0f} frames a second while moving")
