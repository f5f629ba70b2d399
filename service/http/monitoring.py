"""Prometheus metrics, the access log, and traces."""

from __future__ import annotations

import asyncio
import logging
import os
import time
from collections.abc import Callable, Iterator
from functools import cache
from typing import TYPE_CHECKING, Literal

from anyio import CapacityLimiter
from fastapi.telemetry import TelemetryConfig
from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    PlatformCollector,
    ProcessCollector,
    disable_created_metrics,
    generate_latest,
)
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.multiprocess import MultiProcessCollector
from prometheus_client.registry import Collector
from starlette.requests import Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from hummingbit.foundation.errors import install_command
from hummingbit.index.data_folder import DataFolder
from hummingbit.index.engines import kernel
from hummingbit.service.http.connections import Connections
from hummingbit.service.http.problems import INTERNAL, ProblemError, problem_response
from hummingbit.service.logs import FIELDS
from hummingbit.service.settings import SettingsError

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import SpanProcessor, TracerProvider

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
MULTIPROCESS = "PROMETHEUS_MULTIPROC_DIR"
"""The variable of prometheus_client that several processes of a service have."""
LOOP_WATCH_SECONDS = 0.02
STAGES = ("encode", "search", "store")
METHODS = {"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"}
# In seconds, from a search of a small collection to an evaluation.
BUCKETS = (
    *(0.0002, 0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05),
    *(0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0, 60.0),
)


# Prometheus' text format would have another time series for each of those below.
disable_created_metrics()  # type: ignore[no-untyped-call]


class Metrics:
    """The metrics of an application, in registries of their own.

    The processes of one service count in files of the folder ``PROMETHEUS_MULTIPROC_DIR``, and each
    of them reports what all have counted.
    """

    def __init__(self) -> None:
        self._counted, self._read = CollectorRegistry(), CollectorRegistry()
        ProcessCollector(registry=self._read)
        PlatformCollector(registry=self._read)
        requests = Histogram(
            "hummingbit_request_seconds",
            "Time from a request's headers to the end of its response, by route template.",
            ("method", "route", "status"),
            buckets=BUCKETS,
            registry=self._counted,
        )
        self.request_times = cache(requests.labels)
        """Returns the histogram of the seconds of requests, by method, route and status."""
        stages = Histogram(
            "hummingbit_stage_seconds",
            "Time in a stage of a request: encoding, searching codes, reading documents.",
            ("stage",),
            buckets=BUCKETS,
            registry=self._counted,
        )
        self.stages = {stage: stages.labels(stage) for stage in STAGES}
        """The histogram of each of :data:`STAGES`, in seconds."""
        self.refused = Counter(
            "hummingbit_refused_requests",
            "Requests refused with 429 because too many were under way.",
            registry=self._counted,
        )
        self._gauges: list[tuple[Gauge, Callable[[], float]]] = []
        self._longest_delay = 0.0
        self._watch(
            "hummingbit_longest_event_loop_delay_seconds",
            "The longest time since the start that the event loop was late, whatever the reason.",
            lambda: self._longest_delay,
            "max",
        )

    def watch(self, folder: DataFolder) -> None:
        """Report the collections of `folder`, and what searches them, at every scrape."""
        self._read.register(_Collections(folder))

    def watch_limiter(self, limiter: CapacityLimiter) -> None:
        """Report how many requests wait for a limiter."""
        self._watch(
            "hummingbit_waiting_requests",
            "Long requests that wait until others have ended.",
            lambda: limiter.statistics().tasks_waiting,
        )

    def watch_connections(self, connections: Connections) -> None:
        """Report how many connections are open and how many were refused."""
        self._watch("hummingbit_open_connections", "Open connections.", lambda: connections.open)
        self._watch(
            "hummingbit_refused_connections",
            "Connections refused with 503 because there were too many.",
            lambda: connections.refused,
            "sum",
        )

    async def watch_loop(self) -> None:
        """Set the gauges, and measure how much later than due this wakes up.

        An event loop that waits for a disk, a lock or the processor counts as blocked, too:
        requests wait as long. A delay that begins between two looks is measured from the second
        one, so up to :data:`LOOP_WATCH_SECONDS` are missing.
        """
        loop = asyncio.get_running_loop()
        while True:
            due = loop.time() + LOOP_WATCH_SECONDS
            await asyncio.sleep(LOOP_WATCH_SECONDS)
            self._longest_delay = max(self._longest_delay, loop.time() - due)
            for gauge, read in self._gauges:
                gauge.set(read())

    def exposition(self) -> bytes:
        """Return all metrics in Prometheus' text format."""
        counted = self._counted
        if MULTIPROCESS in os.environ:
            counted = CollectorRegistry()
            MultiProcessCollector(counted)  # type: ignore[no-untyped-call]
        return generate_latest(counted) + generate_latest(self._read)

    def _watch(
        self,
        name: str,
        text: str,
        read: Callable[[], float],
        mode: Literal["livesum", "max", "sum"] = "livesum",
    ) -> None:
        """Report what `read` returns; `mode` is how that of several processes is put together."""
        gauge = Gauge(name, text, registry=self._counted, multiprocess_mode=mode)
        self._gauges.append((gauge, read))


class _Collections(Collector):
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
        yield GaugeMetricFamily(
            "hummingbit_compiled_kernel",
            "1 if the compiled kernel searches; 0 if FAISS scans all codes, more slowly.",
            value=float(kernel.native is not None),
        )


_log = logging.getLogger("hummingbit.access")
_errors = logging.getLogger("hummingbit.service")

UNMATCHED = "unmatched"
BY_WRITER = "by_writer"
"""Set in the state of a request that the writer answered, which counts and logs it."""
MAX_LOGGED_PATH = 1000


class Monitoring:
    """ASGI: counts, times and logs every request, and logs what failed."""

    def __init__(self, app: ASGIApp, metrics: Metrics, *, log: bool) -> None:
        """Write a line for every request if `log`."""
        self._app = app
        self._times = metrics.request_times
        self._log = log

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on; respond with 500 to one that fails by a defect."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        start = time.perf_counter()
        status = 0

        async def send_noting(message: Message) -> None:
            nonlocal status
            status = message.get("status", status)
            await send(message)

        try:
            await self._app(scope, receive, send_noting)
        except Exception:
            _errors.exception("a request failed")
            if status:  # the response is incomplete
                raise
            problem = ProblemError(500, "internal_error", INTERNAL, headers={"Connection": "close"})
            await problem_response(Request(scope), problem)(scope, receive, send_noting)
        finally:
            self._record(scope, status or 500, time.perf_counter() - start)

    def _record(self, scope: Scope, status: int, seconds: float) -> None:
        """Count, time and log a request."""
        if BY_WRITER in scope["state"]:
            return
        route = getattr(scope.get("route"), "path", UNMATCHED)
        # A client could invent any number of methods, and each would be another time series.
        method = scope["method"] if scope["method"] in METHODS else "OTHER"
        self._times(method, route, str(status)).observe(seconds)
        if self._log and _log.isEnabledFor(logging.INFO):
            log_access(scope, route, status, seconds)


def log_access(scope: Scope, route: str, status: int, seconds: float) -> None:
    """Log a completed request."""
    client = scope.get("client")
    # Percent-encoded as it was sent, so it cannot break a line of the log.
    path = scope["raw_path"].decode("latin-1")[:MAX_LOGGED_PATH]
    fields = {
        "method": scope["method"],
        "path": path,
        "route": route,
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


def telemetry(endpoint: str | None) -> TelemetryConfig:
    """Return what FastAPI sends of itself: a span for each request, to `endpoint`, or nothing.

    Raises:
        SettingsError: if the extra ``otel`` is not installed.
    """
    nothing: TelemetryConfig = {"tracing": False, "metrics": False, "logs": False}
    if endpoint is None:
        return nothing
    spans = otlp_provider(endpoint)
    return {**nothing, "tracing": True, "tracer_provider": spans, "operation_spans": False}
