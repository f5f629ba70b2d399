from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from hummingbit.evaluation.formats import (
    FORMATS,
    missing_for_html,
    to_junit,
    to_markdown,
    write_folder,
)
from hummingbit.evaluation.gate import compare_reports, parse_gate
from hummingbit.evaluation.report import Job, read_report, run_job
from hummingbit.foundation.errors import install_command
from hummingbit.index.data_folder import DataFolder
from tests.support.evaluations import labelled_codes, make_collections, parse_junit

GATE = parse_gate(
    '[metrics."P@100"]\nmin = 0.99\n'
    '[metrics."mAP@100"]\nmin = 0.1\nmax_drop = 0.1\n'
    '[metrics."P@10"]\nmin = 1\nlevel = "warn"\n'
)


@pytest.fixture(scope="module")
def job(tmp_path_factory: pytest.TempPathFactory) -> Job:
    """A job that failed its gate, was warned, and has names that mean something to every format."""
    documents = labelled_codes(300, 0, "d")
    queries = labelled_codes(40, 1, "q")
    odd = [replace(queries[0], labels=("a|b <i>@you</i> \x07",)), *queries[1:]]
    path = make_collections(tmp_path_factory.mktemp("data"), codes=documents)
    with DataFolder(path, writable=False) as folder:
        done = run_job(folder.collection("codes"), odd, ["P@100", "mAP@100", "P@10"])
    return replace(done, report=compare_reports(done.report, GATE, done.report))


def test_junit_has_a_test_case_for_each_metric_of_the_gate(job: Job) -> None:
    suite = parse_junit(to_junit(job.report))
    assert (suite.get("tests"), suite.get("failures"), suite.get("errors")) == ("3", "1", "0")
    cases = {case.get("name"): case for case in suite}
    assert list(cases) == ["P@100", "mAP@100", "P@10"]
    failure = cases["P@100"].find("failure")
    assert failure is not None
    assert "below the minimum of 0.99" in (failure.get("message") or "")
    for name in ("mAP@100", "P@10"):
        assert cases[name].find("failure") is None
    assert "warned: P@10 is" in (cases["P@10"].findtext("system-out") or "")
    found = {item.get("name"): item.get("value") for item in cases["P@10"].iter("property")}
    figures = job.report.metric("P@10")
    assert figures is not None
    assert float(found["served"] or "") == figures.served


def test_junit_without_a_gate_passes_each_metric(job: Job) -> None:
    suite = parse_junit(to_junit(job.report.model_copy(update={"gate": None})))
    assert len(suite) == 3
    assert suite.get("failures") == "0"


def test_markdown_is_a_table_that_names_cannot_break(job: Job) -> None:
    text = to_markdown(job.report)
    assert text.startswith("### ❌ Retrieval evaluation of `codes`")
    rows = [line for line in text.splitlines() if line.startswith("|")]
    assert any(line.startswith("| P@100 |") for line in rows)
    assert any("❌ failed" in line for line in rows)
    assert any("⚠️ warned" in line for line in rows)
    (odd,) = [line for line in rows if "you" in line]
    assert odd.replace("\\|", "").count("|") == 5
    assert "<i>" not in text
    assert "@you" not in text


def test_a_folder_has_every_format(job: Job, tmp_path: Path) -> None:
    out = tmp_path / "deep" / "report"
    write_folder(job, out)
    write_folder(job, out)
    assert {path.name for path in out.iterdir()} == {format_.file for format_ in FORMATS.values()}
    assert read_report(out / "report.json") == job.report
    assert (out / "index.html").read_text().startswith("<!DOCTYPE html>")


def test_without_a_run_there_is_no_file_of_it(job: Job, tmp_path: Path) -> None:
    write_folder(replace(job, run=None), tmp_path)
    assert not (tmp_path / "run.trec").exists()
    assert (tmp_path / "index.html").exists()


def test_what_a_page_needs_is_known_before_it_is_written(monkeypatch: pytest.MonkeyPatch) -> None:
    assert missing_for_html() == ""
    monkeypatch.setattr("hummingbit.evaluation.formats.find_spec", lambda _: None)
    assert missing_for_html() == f"it needs matplotlib and jinja2: {install_command('report')}"


def test_without_matplotlib_the_extra_is_named() -> None:
    check = """
import sys
sys.modules["matplotlib"] = sys.modules["matplotlib.figure"] = None
from hummingbit.evaluation.formats import missing_for_html, PlotError, draw_label_curve
try:
    draw_label_curve([1, 10], {"codes": [0.1, 0.2]}, "P@100")
except PlotError as error:
    print(error)
"""
    done = subprocess.run([sys.executable, "-c", check], capture_output=True, text=True, check=True)
    assert install_command("report") in done.stdout
