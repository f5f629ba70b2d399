"""The metrics of several processes as those of one service."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import Metric
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.registry import Collector

# Of other gauges the largest is shown: sizes of collections, delays, versions.
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


def summed(texts: Sequence[str]) -> bytes:
    """Return metrics in Prometheus' text format: counts and times added up over `texts`."""
    registry = CollectorRegistry()
    registry.register(_Merged(texts))
    return generate_latest(registry)


class _Merged(Collector):
    def __init__(self, texts: Sequence[str]) -> None:
        self._texts = texts

    def describe(self) -> list[Metric]:
        """Return nothing: registering must parse nothing."""
        return []

    def collect(self) -> Iterator[Metric]:
        families: dict[str, Metric] = {}
        values: dict[str, dict[tuple[str, tuple[tuple[str, str], ...]], float]] = {}
        for text in self._texts:
            for family in text_string_to_metric_families(text):
                one = families.setdefault(
                    family.name, Metric(family.name, family.documentation, family.type)
                )
                held = values.setdefault(one.name, {})
                adds = family.type != "gauge" or family.name in SUMMED_GAUGES
                for sample in family.samples:
                    key = (sample.name, tuple(sample.labels.items()))
                    before = held.get(key)
                    if before is None:
                        held[key] = sample.value
                    elif adds and not sample.name.endswith("_created"):
                        held[key] = before + sample.value
                    else:
                        held[key] = max(before, sample.value)
        for name, merged in families.items():
            for (sample_name, labels), value in values[name].items():
                merged.add_sample(sample_name, dict(labels), value)
            yield merged
