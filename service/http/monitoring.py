"""Prometheus metrics, of one process or added up over several; the access log; traces."""

from __future__ import annotations

import asyncio
import logging
from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from itertools import accumulate
from threading import Lock
from typing import TYPE_CHECKING, Any

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    PlatformCollector,
    ProcessCollector,
    generate_latest,
)
from prometheus_client.core import GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.registry import Collector
from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from hummingbit.foundation.errors import install_command
from hummingbit.index.data_folder import DataFolder
from hummingbit.service.http.protocol import Connections
from hummingbit.service.logs import FIELDS
from hummingbit.service.settings import SettingsError

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import SpanProcessor, TracerProvider

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
LOOP_WATCH_SECONDS = 0.02
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
        requests = Histograms(
            "hummingbit_request_seconds",
            "Time from a request's headers to the end of its response, by route template.",
            ("method", "route", "status"),
        )
        self._registry.register(requests)
        self.requests = RequestTimes(requests)
        stages = Histograms(
            "hummingbit_stage_seconds",
            "Time in a stage of a request: encoding, searching codes, reading documents.",
            ("stage",),
        )
        self._registry.register(stages)
        self._timed = (requests, stages)
        self.stages = {stage: stages.labels(stage) for stage in STAGES}
        """The histogram of each of :data:`STAGES`, in seconds."""
        self._longest_delay = 0.0
        Gauge(
            "hummingbit_longest_event_loop_delay_seconds",
            "The longest time since the start that the event loop was late, whatever the reason.",
            registry=self._registry,
        ).set_function(lambda: self._longest_delay)
        self.waiting = 0
        Gauge(
            "hummingbit_waiting_requests", "Requests that wait for a turn.", registry=self._registry
        ).set_function(lambda: self.waiting)
        self.refused = Counter(
            "hummingbit_refused_requests",
            "Requests refused with 429 because the queue was full.",
            registry=self._registry,
        )

    def watch(self, folder: DataFolder) -> None:
        """Report the sizes of the collections of `folder` at every scrape."""
        self._registry.register(_Sizes(folder))

    def watch_connections(self, connections: Connections) -> None:
        """Report how many connections are open and how many were refused."""
        Gauge(
            "hummingbit_open_connections", "Open connections.", registry=self._registry
        ).set_function(lambda: connections.open)
        Gauge(
            "hummingbit_refused_connections",
            "Connections refused with 503 because there were too many.",
            registry=self._registry,
        ).set_function(lambda: connections.refused)

    async def watch_loop(self) -> None:
        """Measure how long the event loop is blocked: how much later than due this wakes up.

        A loop that waits for a disk, a lock or the processor counts, too: requests wait as long. A
        delay that begins between two looks is measured from the second one, so up to
        :data:`LOOP_WATCH_SECONDS` are missing. The durations of requests are counted meanwhile.
        """
        loop = asyncio.get_running_loop()
        while True:
            due = loop.time() + LOOP_WATCH_SECONDS
            await asyncio.sleep(LOOP_WATCH_SECONDS)
            self._longest_delay = max(self._longest_delay, loop.time() - due)
            for histograms in self._timed:
                histograms.count()

    def exposition(self) -> bytes:
        """Return all metrics in Prometheus' text format."""
        return generate_latest(self._registry)


class Histogram:
    """How often something took how long, in seconds. Thread-safe.

    Durations are collected first and counted later, so a request takes no more than an append.
    """

    def __init__(self) -> None:
        self._collected: list[float] = []
        self.observe = self._collected.append
        """Take one duration."""
        self._counts = [0] * (len(BUCKETS) + 1)
        self._sum = 0.0
        self._lock = Lock()

    def count(self) -> None:
        """Count what was collected since the last call."""
        with self._lock:
            durations = self._collected[:]
            del self._collected[: len(durations)]
            for seconds in durations:
                self._counts[bisect_left(BUCKETS, seconds)] += 1
                self._sum += seconds

    def read(self) -> tuple[list[tuple[str, float]], float]:
        """Return how many durations were at most each of :data:`BUCKETS`, and the sum of all."""
        self.count()
        with self._lock:
            counts = accumulate(self._counts)
            return [*zip((*map(str, BUCKETS), "+Inf"), counts, strict=True)], self._sum


class Histograms(Collector):
    """The histograms of a metric, by the values of its labels."""

    def __init__(self, name: str, text: str, labels: tuple[str, ...]) -> None:
        """Describe the metric by `text`."""
        self._description = (name, text)
        self._labels = labels
        self._histograms: dict[tuple[str, ...], Histogram] = {}

    def labels(self, *values: str) -> Histogram:
        """Return the histogram for these values of the labels."""
        return self._histograms.setdefault(values, Histogram())

    def count(self) -> None:
        """Count what was collected since the last call."""
        for histogram in [*self._histograms.values()]:
            histogram.count()

    def collect(self) -> Iterator[Metric]:
        """Return the metric for a scrape."""
        family = HistogramMetricFamily(*self._description, labels=self._labels)
        for values, histogram in [*self._histograms.items()]:
            family.add_metric(values, *histogram.read())
        yield family


class RequestTimes(dict[tuple[str, str, int], Histogram]):
    """The histograms of request times in seconds, by method, route template and status."""

    def __init__(self, requests: Histograms) -> None:
        super().__init__()
        self._requests = requests

    def __missing__(self, labels: tuple[str, str, int]) -> Histogram:
        method, route, status = labels
        if method not in METHODS:
            # A client could invent any number of methods, and each would be another time series.
            return self["OTHER", route, status]
        histogram = self[labels] = self._requests.labels(method, route, str(status))
        return histogram


class _Sizes(Collector):
    def __init__(self, folder: DataFolder) -> None:
        self._folder = folder

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
    """Return the template of a request's route, or :data:`UNMATCHED`."""
    path: str = getattr(scope.get("route"), "path", UNMATCHED)
    return path


def log_access(scope: Scope, status: int, seconds: float) -> None:
    """Log a completed request."""
    client = scope.get("client")
    # Percent-encoded as it was sent, so it cannot break a line of the log.
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


def otlp_provider(endpoint: str) -> TracerProvider:
    """Return a provider that sends spans to `endpoint` in batches, by OTLP over HTTP.

    Raises:
        SettingsError: if the extra ``otel`` is not installed.
    """
    try:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import (  # noqa: PLC0415
            OTLPSpanExporter,
        )
        from opentelemetry.sdk.trace.export import BatchSpanProcessor  # noqa: PLC0415
    except ModuleNotFoundError:
        message = f"traces_endpoint needs OpenTelemetry: {install_command('otel')}"
        raise SettingsError(message) from None
    return tracer_provider(BatchSpanProcessor(OTLPSpanExporter(endpoint)))


def tracer_provider(processor: SpanProcessor) -> TracerProvider:
    """Return a provider that hands spans to `processor`; it sets no global state."""
    from opentelemetry.sdk.resources import SERVICE_NAME, Resource  # noqa: PLC0415 - an extra
    from opentelemetry.sdk.trace import TracerProvider  # noqa: PLC0415

    provider = TracerProvider(resource=Resource.create({SERVICE_NAME: "hummingbit"}))
    provider.add_span_processor(processor)
    return provider


class Trace:
    """Wraps every request in a span named after its route, a child of the caller's span.

    Names and attributes follow the semantic conventions for HTTP servers.
    """

    def __init__(self, app: ASGIApp, provider: TracerProvider) -> None:
        from opentelemetry import propagate, trace  # noqa: PLC0415 - an extra

        self._app = app
        self._tracer = provider.get_tracer("hummingbit.service")
        self._extract: Callable[[Headers], Any] = propagate.extract
        self._server = trace.SpanKind.SERVER

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on within a span."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        caller = self._extract(Headers(scope=scope))
        with self._tracer.start_as_current_span(
            scope["method"], context=caller, kind=self._server
        ) as span:

            async def send_with_status(message: Message) -> None:
                if message["type"] == "http.response.start":
                    span.set_attribute("http.response.status_code", message["status"])
                await send(message)

            span.set_attribute("http.request.method", scope["method"])
            span.set_attribute("url.path", scope["path"].encode("utf-8", "replace").decode())
            try:
                await self._app(scope, receive, send_with_status)
            finally:
                span.set_attribute("hummingbit.request_id", scope["state"]["request_id"])
                route = route_of(scope)
                span.set_attribute("http.route", route)
                span.update_name(f"{scope['method']} {route}")


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
