"""Prometheus metrics and the access log: requests by route and status, stages, sizes."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Iterator

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    PlatformCollector,
    ProcessCollector,
    generate_latest,
)
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector
from starlette.types import Scope

from index.data_folder import DataFolder
from service.http.connections import Connections
from service.logs import FIELDS

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
LOOP_WATCH_SECONDS = 0.05
STAGES = ("encode", "search", "store")
METHODS = {"OTHER", "GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"}
# In seconds, from a search of a small collection to an evaluation.
BUCKETS = (
    *(0.0002, 0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05),
    *(0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0, 60.0),
)


class Metrics:
    """The metrics of one application, in a registry of their own."""

    def __init__(self) -> None:
        self._registry = CollectorRegistry()
        ProcessCollector(registry=self._registry)
        PlatformCollector(registry=self._registry)
        requests = Histogram(
            "hummingbit_request_seconds",
            "Time from a request's headers to the end of its answer, by the template of its route.",
            ("method", "route", "status"),
            buckets=BUCKETS,
            registry=self._registry,
        )
        self.requests = RequestTimes(requests)
        stages = Histogram(
            "hummingbit_stage_seconds",
            "Time in a stage of answering: encoding, searching codes, reading documents.",
            ("stage",),
            buckets=BUCKETS,
            registry=self._registry,
        )
        self.stages = {stage: stages.labels(stage) for stage in STAGES}
        """What observes the seconds of each of :data:`STAGES`."""
        self._longest_delay = 0.0
        Gauge(
            "hummingbit_longest_event_loop_delay_seconds",
            "The longest time since the start that the event loop stood still.",
            registry=self._registry,
        ).set_function(lambda: self._longest_delay)
        self.waiting = 0
        Gauge(
            "hummingbit_waiting_requests", "Requests that wait for a turn.", registry=self._registry
        ).set_function(lambda: self.waiting)
        self.refused = Counter(
            "hummingbit_refused_requests",
            "Requests that were answered 429, the queue being full.",
            registry=self._registry,
        )

    def watch(self, folder: DataFolder) -> None:
        """Report the sizes of the collections of `folder`, as they are at every scrape."""
        self._registry.register(_Sizes(folder))

    def watch_connections(self, connections: Connections) -> None:
        """Report how many connections there are and how many were refused."""
        Gauge(
            "hummingbit_open_connections", "Open connections.", registry=self._registry
        ).set_function(lambda: connections.open)
        Gauge(
            "hummingbit_refused_connections",
            "Connections that were answered 503, there being too many.",
            registry=self._registry,
        ).set_function(lambda: connections.refused)

    async def watch_loop(self) -> None:
        """Note how much later than it asks to this wakes up: so long the event loop stood still.

        Only as much counts as the process computed meanwhile; the rest went to other processes.
        """
        loop = asyncio.get_running_loop()
        while True:
            due, computed = loop.time() + LOOP_WATCH_SECONDS, time.process_time()
            await asyncio.sleep(LOOP_WATCH_SECONDS)
            delay = min(loop.time() - due, time.process_time() - computed)
            self._longest_delay = max(self._longest_delay, delay)

    def exposition(self) -> bytes:
        """Return all metrics in Prometheus' text format."""
        return generate_latest(self._registry)


class RequestTimes(dict[tuple[str, str, int], Histogram]):
    """What observes the seconds of requests, by method, template of the route, and status."""

    def __init__(self, requests: Histogram) -> None:
        super().__init__()
        self._requests = requests

    def __missing__(self, labels: tuple[str, str, int]) -> Histogram:
        method, route, status = labels
        if method not in METHODS:
            # A client can make up as many as it likes.
            return self["OTHER", route, status]
        histogram = self[labels] = self._requests.labels(*labels)
        return histogram


class _Sizes(Collector):
    def __init__(self, folder: DataFolder) -> None:
        self._folder = folder

    def describe(self) -> list[Metric]:
        """Return nothing: registering must not ask the folder."""
        return []

    def collect(self) -> Iterator[Metric]:
        families = {
            "documents": "Documents of a collection.",
            "generation": "Writes to a collection that changed anything.",
            "n_bits": "Bits of a collection's codes.",
        }
        gauges = {
            name: GaugeMetricFamily(f"hummingbit_collection_{name}", text, labels=("collection",))
            for name, text in families.items()
        }
        for name, collection in self._folder.collections().items():
            gauges["documents"].add_metric((name,), len(collection))
            gauges["generation"].add_metric((name,), collection.generation)
            gauges["n_bits"].add_metric((name,), collection.n_bits)
        yield from gauges.values()
        yield GaugeMetricFamily(
            "hummingbit_unavailable_collections",
            "Collections that cannot be opened.",
            value=len(self._folder.unavailable()),
        )


_log = logging.getLogger("hummingbit.access")

UNMATCHED = "unmatched"
MAX_LOGGED_PATH = 1000


def route_of(scope: Scope) -> str:
    """Return the template of the route that a request found; there are only so many."""
    path: str = getattr(scope.get("route"), "path", UNMATCHED)
    return path


def log_access(scope: Scope, status: int, seconds: float) -> None:
    """Log a request that was answered."""
    client = scope.get("client")
    # As it was sent, percent-encoded: no line of a log ends inside it.
    path = scope["raw_path"].decode("latin-1")[:MAX_LOGGED_PATH]
    fields = {
        "method": scope["method"],
        "path": path,
        "route": route_of(scope),
        "status": status,
        "duration_ms": round(seconds * 1000, 3),
        "client": client[0] if client else None,
        "role": scope["state"]["role"].label if "role" in scope["state"] else None,
    }
    _log.info("%s %s %d", scope["method"], path, status, extra={FIELDS: fields})
