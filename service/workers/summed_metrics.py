"""Merges the metrics of several processes into those of one service."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import Metric
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.registry import Collector

# Of any other gauge, such as the size of a collection, the largest value is reported.
SUMMED_GAUGES = frozenset(
    {
        "hummingbit_waiting_requests",
        "hummingbit_open_connections",
        "hummingbit_refused_connections",
        "process_virtual_memory_bytes",
        "process_resident_memory_bytes",
        "process_open_fds",
    }
)


def merge_metrics(texts: Sequence[str]) -> bytes:
    """Merge metrics in Prometheus' text format, one text for each process.

    Counters, histograms and :data:`SUMMED_GAUGES` are added up.
    """
    registry = CollectorRegistry()
    registry.register(_MetricsOfProcesses(texts))
    return generate_latest(registry)


class _MetricsOfProcesses(Collector):
    def __init__(self, texts: Sequence[str]) -> None:
        self._texts = texts

    def collect(self) -> Iterator[Metric]:
        families: dict[str, Metric] = {}
        values: dict[str, dict[tuple[str, tuple[tuple[str, str], ...]], float]] = {}
        for text in self._texts:
            for family in text_string_to_metric_families(text):
                merged = families.setdefault(
                    family.name, Metric(family.name, family.documentation, family.type)
                )
                samples = values.setdefault(merged.name, {})
                is_summed = family.type != "gauge" or family.name in SUMMED_GAUGES
                for sample in family.samples:
                    key = (sample.name, tuple(sample.labels.items()))
                    previous = samples.get(key)
                    if previous is None:
                        samples[key] = sample.value
                    elif is_summed and not sample.name.endswith("_created"):
                        samples[key] = previous + sample.value
                    else:
                        samples[key] = max(previous, sample.value)
        for name, merged in families.items():
            for (sample_name, labels), value in values[name].items():
                merged.add_sample(sample_name, dict(labels), value)
            yield merged
