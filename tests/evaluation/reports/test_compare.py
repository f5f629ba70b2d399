from __future__ import annotations

from collections.abc import Iterator

import pytest

from hummingbit.evaluation.gate import GateError, compare_reports, parse_gate
from hummingbit.evaluation.report import Report, run_job
from hummingbit.evaluation.result import EvaluationError
from hummingbit.index.data_folder import DataFolder
from tests.support.evaluations import labelled_codes, make_collections, shuffled

GATE = parse_gate('[metrics."P@100"]\nmax_drop = 0.01\n[metrics."mAP@100"]\nmin = 0.6\n')
WARN = parse_gate('[metrics."P@100"]\nmin = 0.99\nlevel = "warn"\n')


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DataFolder]:
    documents = labelled_codes(600, 0, "d")
    contents = {"good": documents, "shuffled": shuffled(documents)}
    with DataFolder(
        make_collections(tmp_path_factory.mktemp("data"), **contents), writable=False
    ) as folder:
        yield folder


def report_of(folder: DataFolder, name: str, queries: int = 200) -> Report:
    return run_job(folder.collection(name), labelled_codes(queries, 1, "q")).report


def test_a_run_against_itself_passes(folder: DataFolder) -> None:
    report = report_of(folder, "good")
    judged = compare_reports(report, GATE, report)
    assert judged.passed
    assert judged.gate is not None
    assert [item.status for item in judged.gate] == ["passed", "passed"]
    assert judged.changes is not None
    assert all(change.difference == 0 and change.adjusted == 1 for change in judged.changes)


def test_shuffled_codes_fail(folder: DataFolder) -> None:
    judged = compare_reports(report_of(folder, "shuffled"), GATE, report_of(folder, "good"))
    assert not judged.passed
    assert judged.gate is not None
    assert [item.status for item in judged.gate] == ["failed", "failed"]
    assert judged.changes is not None
    (p100, _) = judged.changes
    assert p100.difference < -0.2
    assert p100.interval[0] <= p100.difference <= p100.interval[1] < 0
    assert p100.adjusted < 0.01


def test_a_warning_does_not_fail(folder: DataFolder) -> None:
    judged = compare_reports(report_of(folder, "shuffled"), WARN)
    assert judged.gate is not None
    assert [item.status for item in judged.gate] == ["warned"]
    assert judged.passed
    assert judged.changes is None


def test_without_rules_or_baseline_nothing_is_added(folder: DataFolder) -> None:
    report = report_of(folder, "good")
    assert compare_reports(report) == report


def test_the_order_of_the_baselines_queries_does_not_matter(folder: DataFolder) -> None:
    queries = labelled_codes(50, 1, "q")
    there = run_job(folder.collection("good"), queries).report
    back = run_job(folder.collection("good"), queries[::-1]).report
    changes = compare_reports(there, baseline=back).changes
    assert changes is not None
    assert all(change.p_value == 1 for change in changes)


def test_what_cannot_be_compared_is_refused(folder: DataFolder) -> None:
    report = report_of(folder, "good")
    with pytest.raises(EvaluationError, match="the runs have different queries"):
        compare_reports(report, baseline=report_of(folder, "good", queries=199))
    with pytest.raises(GateError, match="needs a baseline; there is none"):
        compare_reports(report, GATE)
    with pytest.raises(GateError, match="was not measured"):
        compare_reports(report, parse_gate('[metrics."P@5"]\nmin = 0.1\n'))


def test_on_the_common_queries_the_others_are_left_out_and_told_of(folder: DataFolder) -> None:
    queries = labelled_codes(200, 1, "q")
    ours = run_job(folder.collection("shuffled"), queries[:150]).report
    theirs = run_job(folder.collection("good"), queries[:49:-1]).report
    judged = compare_reports(ours, GATE, theirs, ignore_unmatched_queries=True)
    note = "leave out 50 queries that the baseline lacks and 50 that only it has"
    assert any(note in item for item in judged.notes)
    same = compare_reports(
        run_job(folder.collection("shuffled"), queries[50:150]).report,
        GATE,
        run_job(folder.collection("good"), queries[50:150]).report,
        ignore_unmatched_queries=True,
    )
    assert same.notes == []
    assert judged.changes == same.changes
    assert judged.gate == same.gate
    other = run_job(folder.collection("good"), labelled_codes(5, 2, "other")).report
    with pytest.raises(EvaluationError, match="none of the queries"):
        compare_reports(ours, baseline=other, ignore_unmatched_queries=True)
