"""OpenTelemetry traces, with the extra ``otel``: a span for every request."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from hummingbit.foundation.extras import install_command
from hummingbit.service.http.monitoring import route_of
from hummingbit.service.settings import SettingsError

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import SpanProcessor, TracerProvider


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
