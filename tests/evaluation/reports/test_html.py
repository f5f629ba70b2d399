from __future__ import annotations

from pathlib import Path

import matplotlib.image
import numpy as np
import pytest

from hummingbit.evaluation.formats import PLOTS, to_html
from hummingbit.evaluation.gate import compare_reports, parse_gate
from hummingbit.evaluation.report import Report, run_job
from hummingbit.index.data_folder import DataFolder
from tests.support.console.chromium import NOWHERE, needs_chromium, run_chromium
from tests.support.evaluations import labelled_codes, make_collections, shuffled

GATE = parse_gate('[metrics."P@100"]\nmin = 0.99\nmax_drop = 0.1\n')


@pytest.fixture(scope="module")
def reports(tmp_path_factory: pytest.TempPathFactory) -> tuple[Report, Report]:
    """A report that failed its gate, and its baseline."""
    documents = labelled_codes(500, 0, "d")
    contents = {"good": documents, "shuffled": shuffled(documents)}
    queries = labelled_codes(60, 1, "<q>&")
    path = make_collections(tmp_path_factory.mktemp("data"), **contents)
    with DataFolder(path, writable=False) as folder:
        good, bad = (run_job(folder.collection(name), queries).report for name in contents)
    return compare_reports(bad, GATE, good), good


@pytest.fixture(scope="module")
def page(reports: tuple[Report, Report]) -> str:
    return to_html(*reports)


def test_a_page_is_complete_in_itself(page: str) -> None:
    assert "<script" not in page
    assert "src=" not in page
    assert "@import" not in page
    # Namespaces are names, not addresses; a plot refers to parts of itself only.
    addresses = {part.split('"')[0] for part in page.split('href="')[1:]}
    assert all(address.startswith("#") for address in addresses)
    assert "default-src 'none'" in page


def test_ids_are_unique_and_references_lead_somewhere(page: str) -> None:
    ids = [part.split('"')[0] for part in page.split(' id="')[1:]]
    assert len(ids) == len(set(ids))
    references = {part.split('"')[0] for part in page.split('href="#')[1:]}
    references |= {part.split(")")[0] for part in page.split("url(#")[1:]}
    assert references
    assert references <= set(ids)


def test_what_came_from_outside_is_escaped(page: str) -> None:
    assert "&lt;q&gt;&amp;" in page
    assert "<q>" not in page


def test_the_same_report_gives_the_same_page(reports: tuple[Report, Report], page: str) -> None:
    assert to_html(*reports) == page


@needs_chromium
def test_chromium_opens_the_page_without_a_network(page: str, tmp_path: Path) -> None:
    path = tmp_path / "index.html"
    path.write_text(page)
    dom = chromium(tmp_path, path, "--dump-dom")
    for name, (title, _) in PLOTS.items():
        _, _, figure = dom.partition(f'<figure id="{name}">')
        figure, _, _ = figure.partition("</figure>")
        assert title in figure
        assert figure.count("<path") > 5
        assert "</svg>" in figure
    for section in ("metrics", "gate", "classes", "worst-queries"):
        assert f'<section id="{section}">' in dom
    assert "gate failed" in dom


@needs_chromium
def test_chromium_shows_every_plot(page: str, tmp_path: Path) -> None:
    # Only the plots, each at a place of its own, so that it is known where it must be.
    height = 700
    rules = ["header, section { display: none; }"]
    rules += [
        f"#{name} {{ position: absolute; left: 0; top: {at * height}px; width: 980px; }}"
        for at, name in enumerate(PLOTS)
    ]
    path, picture = tmp_path / "index.html", tmp_path / "page.png"
    path.write_text(page.replace("</style>\n</head>", f"{' '.join(rules)}</style>\n</head>"))
    size = f"--window-size=1000,{height * len(PLOTS)}"
    chromium(tmp_path, path, f"--screenshot={picture}", size)
    pixels = (matplotlib.image.imread(picture)[:, :, :3] * 255).round().astype(int)
    for at, name in enumerate(PLOTS):
        inside = pixels[at * height : (at + 1) * height].reshape(-1, 3)
        # Black on white would be a frame without content; each has something in its own colour.
        blue = (inside[:, 2] - inside[:, 0] > 50).sum()
        assert len(np.unique(inside @ (1 << 16, 1 << 8, 1))) > 20, name
        assert blue > 300, name


def chromium(folder: Path, page: Path, *arguments: str) -> str:
    """Run Chromium on a page without a network and return what it prints."""
    return run_chromium(folder / "profile", NOWHERE, *arguments, page.as_uri())
