"""A report as JUnit XML, which CI systems show as tests: one for each metric of the gate."""

from __future__ import annotations

import re
from xml.etree import ElementTree as ET

from evaluation.reports.report import Report

_NOT_XML = re.compile(r"[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def to_junit(report: Report) -> str:
    """Write a test suite with a test case for each metric that the gate has a rule for.

    What fails the gate is a failure of its metric; all else that the gate found, warnings too, is
    the test case's output. Without a gate there is a test case for each metric, which passes.
    Every test case has the metric's figures as properties.
    """
    suite = ET.Element("testsuite", name=_clean(f"evaluation of {report.subject.name}"))
    gate = report.gate or []
    gated = dict.fromkeys(one.metric for one in gate) or [one.name for one in report.metrics]
    for metric in gated:
        case = _case(suite, report, metric)
        found = [one for one in gate if one.metric == metric]
        for one in found:
            if one.status == "failed":
                ET.SubElement(case, "failure", message=_clean(one.sentence), type=one.condition)
        output = [f"{one.status}: {one.sentence}" for one in found if one.status != "failed"]
        if output:
            ET.SubElement(case, "system-out").text = _clean("\n".join(output))
    suite.set("tests", str(len(suite)))
    suite.set("failures", str(sum(case.find("failure") is not None for case in suite)))
    suite.set("errors", "0")
    suites = ET.Element("testsuites")
    suites.append(suite)
    ET.indent(suites)
    text = ET.tostring(suites, encoding="unicode")
    return f'<?xml version="1.0" encoding="utf-8"?>\n{text}\n'


def _case(suite: ET.Element, report: Report, metric: str) -> ET.Element:
    case = ET.SubElement(suite, "testcase", classname="hummingbit.evaluate", name=_clean(metric))
    figures = report.metric(metric)
    if figures is not None:
        properties = ET.SubElement(case, "properties")
        for kind in ("served", "expected", "worst", "best"):
            value = getattr(figures, kind)
            if value is not None:
                ET.SubElement(properties, "property", name=kind, value=repr(value))
    return case


def _clean(text: str) -> str:
    """Replace what XML cannot hold."""
    return _NOT_XML.sub("\ufffd", text)
