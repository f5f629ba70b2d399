"""The gate of a build: metrics that must not fall below a minimum."""

from __future__ import annotations

from collections.abc import Mapping

from evaluation.metrics import MetricError, parse_metric
from evaluation.result import Evaluation


def check_gate(evaluation: Evaluation, minimums: Mapping[str, float]) -> list[str]:
    """Return a sentence for every metric that is below its minimum; none if the gate is passed.

    `minimums` maps names of metrics to shares from 0 to 1. What counts is the metric as served.

    Raises:
        MetricError: if a name is not that of a metric, or of one that was not measured, or a
            minimum is not from 0 to 1.
    """
    failures = []
    for name, minimum in minimums.items():
        metric = parse_metric(name).name
        if metric not in evaluation.metrics:
            measured = ", ".join(evaluation.metrics)
            message = f"{metric} has a minimum but was not measured; measured are {measured}"
            raise MetricError(message)
        if not 0 <= minimum <= 1:
            message = f"the minimum of {metric} is {minimum}; it must be from 0 to 1"
            raise MetricError(message)
        value = evaluation.metrics[metric]
        if value < minimum:
            failures.append(f"{metric} is {value:.4f}, below the minimum of {minimum:g}")
    return failures
