"""No Prometheus and no Grafana run here: expressions are parsed and held to a service's metrics."""

from __future__ import annotations

import itertools
import json
import re
from pathlib import Path
from typing import Any

import promql_parser
import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families

from tests.support.service import make_data_folder, running_service

ROOT = Path(__file__).parents[2]
OPERATOR = ROOT / "docker" / "kubernetes" / "operator"
DASHBOARD = json.loads((OPERATOR / "dashboard.json").read_text())
(GROUP,) = yaml.safe_load((ROOT / "docker" / "alerts.yml").read_text())["groups"]
# What Prometheus itself adds to every series, and the series that it writes itself.
TARGET_LABELS = {"job", "instance"}
TARGET_METRICS = {"up"}
Series = dict[str, list[dict[str, str]]]


def queries() -> dict[str, str]:
    """The expressions of alerts and panels, by their titles, with Grafana's variables filled in."""
    of_panels = {
        f"{panel['title']} {target['refId']}": target["expr"]
        for panel in DASHBOARD["panels"]
        for target in panel["targets"]
    }
    filled = {
        title: text.replace("$__rate_interval", "5m").replace("$job", ".*")
        for title, text in of_panels.items()
    }
    return filled | {rule["alert"]: rule["expr"] for rule in GROUP["rules"]}


@pytest.fixture(scope="module")
def series(tmp_path_factory: pytest.TempPathFactory) -> Series:
    """The labels of every series of a service that has answered a search, by metric."""
    with running_service(make_data_folder(tmp_path_factory.mktemp("data"))) as client:
        path = "/v1/collections/notes"
        client.put(path, json={"encoder": "words"}).raise_for_status()
        documents = {"documents": [{"id": "1", "text": "apple"}]}
        client.put(f"{path}/documents", json=documents).raise_for_status()
        client.post(f"{path}/search", json={"text": "apple"}).raise_for_status()
        text = client.get("/metrics").raise_for_status().text
    found: Series = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            found.setdefault(sample.name, []).append(sample.labels)
    return found


@pytest.mark.parametrize("title", queries())
def test_every_query_selects_series_that_a_service_has(title: str, series: Series) -> None:
    selectors: list[promql_parser.VectorSelector] = []
    groupings: list[set[str]] = []

    def visit(node: promql_parser.Expr) -> bool:
        if isinstance(node, promql_parser.VectorSelector):
            selectors.append(node)
        if isinstance(node, promql_parser.AggregateExpr) and node.modifier is not None:
            groupings.append(set(node.modifier.labels))
        return True

    promql_parser.walk(promql_parser.parse(queries()[title]), visit)
    assert selectors
    names: set[str] = set()
    for selector in selectors:
        if selector.name in TARGET_METRICS:
            continue
        assert selector.name in series, selector.name
        labels = series[selector.name]
        names |= labels[0].keys()
        for matcher in selector.matchers.matchers:
            if matcher.name in TARGET_LABELS:
                continue
            values = {label[matcher.name] for label in labels}
            # A service that has not failed has no series of other statuses.
            assert matcher.name == "status" or matcher.value in values
    for grouping in groupings:
        assert grouping <= names | TARGET_LABELS


def test_alerts_say_how_bad_they_are_and_what_to_do() -> None:
    names = [rule["alert"] for rule in GROUP["rules"]]
    assert len(names) == len({*names})
    for rule in GROUP["rules"]:
        assert rule.keys() <= {"alert", "expr", "for", "labels", "annotations"}
        assert rule["labels"]["severity"] in {"critical", "warning"}
        assert {"summary", "description"} == rule["annotations"].keys()
        if "for" in rule:
            assert promql_parser.parse_duration(rule["for"]).total_seconds() >= 60
    page = (ROOT / "docs" / "deployment.md").read_text()
    assert re.findall(r"^\| `(Hummingbit\w+)`", page, re.MULTILINE) == names


def test_the_operator_and_compose_evaluate_the_same_rules() -> None:
    rule = yaml.safe_load((OPERATOR / "prometheusrule.yaml").read_text())
    assert rule["spec"]["groups"] == [GROUP]
    prometheus = yaml.safe_load((ROOT / "docker" / "prometheus.yml").read_text())
    compose = yaml.safe_load((ROOT / "docker-compose.yml").read_text())
    targets = {
        config["target"]: compose["configs"][config["source"]]["file"]
        for config in compose["services"]["prometheus"]["configs"]
    }
    assert [targets[path] for path in prometheus["rule_files"]] == ["docker/alerts.yml"]
    # The alert that a service is down names its job.
    assert [job["job_name"] for job in prometheus["scrape_configs"]] == ["hummingbit"]


def test_kustomize_finds_every_file_for_the_operator() -> None:
    kustomization = yaml.safe_load((OPERATOR / "kustomization.yaml").read_text())
    (generated,) = kustomization["configMapGenerator"]
    named = [*kustomization["resources"], *generated["files"], "kustomization.yaml"]
    assert sorted(named) == sorted(path.name for path in OPERATOR.iterdir())
    service = yaml.safe_load((OPERATOR.parent / "kustomization.yaml").read_text())
    assert kustomization["namespace"] == service["namespace"]


def test_panels_have_titles_and_do_not_overlap() -> None:
    panels: list[dict[str, Any]] = DASHBOARD["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    assert len({panel["title"] for panel in panels}) == len(panels)
    variables = {variable["name"] for variable in DASHBOARD["templating"]["list"]}
    for panel in panels:
        assert panel["datasource"]["uid"] == "${datasource}"
        assert panel["description"]
        for target in panel["targets"]:
            used = set(re.findall(r"\$(\w+)", target["expr"])) - {"__rate_interval"}
            assert used <= variables
    for item, other in itertools.combinations([panel["gridPos"] for panel in panels], 2):
        assert item["x"] + item["w"] <= 24
        assert (
            item["x"] + item["w"] <= other["x"]
            or other["x"] + other["w"] <= item["x"]
            or item["y"] + item["h"] <= other["y"]
            or other["y"] + other["h"] <= item["y"]
        )
