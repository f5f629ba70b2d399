from __future__ import annotations

import pytest

from hummingbit.evaluation.metrics import Kind, Metric, MetricError, parse_metric, parse_metrics


@pytest.mark.parametrize(
    ("name", "kind", "k", "canonical"),
    [
        ("P@100", "P", 100, "P@100"),
        ("p@1", "P", 1, "P@1"),
        ("map@10000", "mAP", 10_000, "mAP@10000"),
        ("recall@5", "Recall", 5, "Recall@5"),
        ("R@1", "Success", 1, "Success@1"),
        ("r@3", "Success", 3, "Success@3"),
        ("Success@7", "Success", 7, "Success@7"),
        ("mrr", "MRR", None, "MRR"),
        ("MRR@10", "MRR", 10, "MRR@10"),
        ("ndcg@10", "nDCG", 10, "nDCG@10"),
        ("mAP-trec", "mAP-trec", None, "mAP-trec"),
        ("AP-trec@100", "mAP-trec", 100, "mAP-trec@100"),
        ("map-11PT", "mAP-11pt", None, "mAP-11pt"),
        ("P@radius0", "P@radius", 0, "P@radius0"),
        ("p@Radius1024", "P@radius", 1024, "P@radius1024"),
    ],
)
def test_names(name: str, kind: Kind, k: int | None, canonical: str) -> None:
    metric = parse_metric(name)
    assert metric == Metric(kind, k)
    assert metric.name == canonical
    assert parse_metric(canonical) == metric


def test_how_deep_a_metric_looks() -> None:
    depths = {name: parse_metric(name).depth(50) for name in ("P@9", "P@90", "MRR", "P@radius2")}
    assert depths == {"P@9": 9, "P@90": 50, "MRR": 50, "P@radius2": 0}


@pytest.mark.parametrize(
    "name",
    [
        "",
        "P",
        "P@",
        "P@0",
        "R@5",
        "nDCG",
        "mAP-11pt@5",
        "P@radius",
        "P@radius4097",
        "P@radius02",
        "P@-1",
        "P@10001",
        "P@1e3",
        "P@007",
        " P@1",
        "P@1\n",
        "ap@5",
        "P@٣",
        7,
    ],
)
def test_what_is_no_name_is_refused_with_what_is(name: str) -> None:
    with pytest.raises(MetricError, match=r"P@k.*mAP@k.*1 to 10,000") as caught:
        parse_metric(name)
    assert repr(name) in str(caught.value)


def test_a_metric_that_is_named_twice_is_taken_once() -> None:
    assert parse_metrics(["mAP@5", "P@5", "map@5"]) == [Metric("mAP", 5), Metric("P", 5)]


@pytest.mark.parametrize(("names", "reason"), [([], "empty"), ("P@100", "must be a list")])
def test_lists_of_names_that_cannot_be(names: list[str], reason: str) -> None:
    with pytest.raises(MetricError, match=reason):
        parse_metrics(names)
