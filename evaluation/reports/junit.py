"""A report as JUnit XML, which CI systems display: a test case for each metric of the gate."""

from __future__ import annotations

import re
from xml.etree import ElementTree as ET

from evaluation.reports.report import Report

_NOT_XML = re.compile(r"[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def to_junit(report: Report) -> str:
    """Return a test suite with a test case for each metric that has a rule in the gate.

    A failed condition is a failure of its metric's test case. The other results of the gate,
    including warnings, are its output. Without a gate, every metric has a test case that passes.
    The properties of a test case are the metric's figures.
    """
    suite = ET.Element("testsuite", name=_clean(f"evaluation of {report.subject.name}"))
    gate = report.gate or []
    names = dict.fromkeys(result.metric for result in gate) or [
        metric.name for metric in report.metrics
    ]
    for name in names:
        case = _case(suite, report, name)
        output = []
        for result in gate:
            if result.metric != name:
                continue
            if result.status == "failed":
                message = _clean(result.sentence)
                ET.SubElement(case, "failure", message=message, type=result.condition)
            else:
                output.append(f"{result.status}: {result.sentence}")
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
    """Replace the characters that XML cannot represent."""
    return _NOT_XML.sub("\ufffd", text)
