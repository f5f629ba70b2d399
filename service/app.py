"""Builds the application of the service."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, ExitStack, asynccontextmanager, suppress
from functools import partial
from pathlib import Path

from anyio import CapacityLimiter
from fastapi import FastAPI
from fastapi.concurrency import run_in_threadpool
from fastapi.middleware.cors import CORSMiddleware
from starlette.types import Message, Receive, Scope, Send

from hummingbit.evaluation.labelling.suggestions import VectorCache
from hummingbit.evaluation.report import own_version
from hummingbit.foundation.errors import HummingbitError
from hummingbit.foundation.files import scratch_folder
from hummingbit.index.data_folder import DataFolder
from hummingbit.service.batching import Batcher
from hummingbit.service.concurrency import WriteGate
from hummingbit.service.http.admission import Admission, Keyring
from hummingbit.service.http.bodies import HeldBytes
from hummingbit.service.http.forwarding import Forwarding
from hummingbit.service.http.limits import Limits
from hummingbit.service.http.monitoring import Metrics, Monitoring, telemetry
from hummingbit.service.http.request_ids import RequestIds
from hummingbit.service.http.routing import HeadAsGet
from hummingbit.service.jobs.kinds import explain, kinds_of_jobs
from hummingbit.service.jobs.runner import Jobs
from hummingbit.service.jobs.store import Quota
from hummingbit.service.logs import log_problems
from hummingbit.service.routes import (
    collections,
    documents,
    encoders,
    faiss,
    files,
    jobs,
    labels,
    search,
    snapshots,
    system,
)
from hummingbit.service.routes.dependencies import add_handlers
from hummingbit.service.routes.openapi import describe
from hummingbit.service.settings import Settings

DEFAULT_SETTINGS = Settings()
ROUTERS = (
    search.search_router,
    system.router,
    system.pages_router,
    encoders.router,
    collections.router,
    collections.documents_router,
    documents.router,
    faiss.router,
    files.router,
    search.router,
    snapshots.router,
    jobs.router,
    labels.router,
)


Beside = Callable[[Jobs], AbstractContextManager[None]]
"""Enters a block that lasts as long as the application runs, with its jobs."""


class Service(FastAPI):
    """An application; a start that fails says why in a sentence."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request, or the start or the end of the server, on."""
        if scope["type"] == "lifespan":
            send = partial(_send_sentence, send)
        await super().__call__(scope, receive, send)


async def _send_sentence(send: Send, message: Message) -> None:
    """Send a message; a start that failed says why in a sentence, with a traceback if a defect."""
    error = sys.exc_info()[1]
    if message["type"] == "lifespan.startup.failed" and isinstance(error, HummingbitError):
        message = {**message, "message": str(error)}
    await send(message)


def create_app(
    data: Path | DataFolder,
    settings: Settings = DEFAULT_SETTINGS,
    beside: Beside | None = None,
    writer: Path | None = None,
) -> Service:
    """Create the application that serves a data folder.

    If `data` is a path, the application opens the folder when it starts, closes it when it ends,
    and raises at its start what :class:`hummingbit.index.data_folder.DataFolder` raises. An open
    folder is closed by the caller, and served read-only if it was opened so. `beside` is entered
    when the application has started, and left before its jobs stop. Requests that a folder opened
    read-only cannot answer are passed on to the Unix socket `writer`, if there is one.

    Raises:
        KeysError: if the keys file cannot be read.
        SettingsError: if ``traces_endpoint`` is set and the extra ``otel`` is not installed.
    """
    if isinstance(data, DataFolder):
        folder_settings = {"data_dir": data.path, "read_only": not data.writable}
    else:
        folder_settings = {"data_dir": data}
    # Another process writes for the readers of a service that takes writes.
    takes_writes = not settings.read_only
    settings = settings.model_copy(update=folder_settings)

    app = Service(
        title="hummingbit",
        summary="Semantic hashing: index and search short binary codes.",
        version=own_version(),
        lifespan=partial(_running, data=data, settings=settings, beside=beside),
        # FastAPI's own pages load scripts from other hosts, and require no key.
        openapi_url=None,
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
        telemetry=telemetry(settings.traces_endpoint),
    )
    app.state.settings = settings
    app.state.takes_writes = takes_writes
    app.state.draining = False
    app.state.metrics = Metrics()
    app.state.keyring = Keyring(settings)
    _share_resources(app, settings)
    # Routers that are included would make their routes anew, at the first request.
    routes = [route for router in ROUTERS for route in router.routes]
    app.router.routes += routes
    add_handlers(app, routes)
    app.add_middleware(HeadAsGet)
    if writer is not None and isinstance(data, DataFolder):
        seconds = settings.request_timeout
        app.add_middleware(Forwarding, folder=data, writer=writer, seconds=seconds)
    _add_middleware(app, settings)
    describe(app)
    return app


REMOVAL_SECONDS = 1.0


@asynccontextmanager
async def _running(
    app: FastAPI, *, data: Path | DataFolder, settings: Settings, beside: Beside | None
) -> AsyncIterator[None]:
    """Open what the application needs while it runs, and close it at the end."""
    opened = None
    if not isinstance(data, DataFolder):
        opened = await run_in_threadpool(
            settings.location.open,
            writable=not settings.read_only,
            follow=settings.read_only,
        )
    app.state.folder = data if opened is None else opened
    # A request that began before its collection was dropped ends as if it had not been.
    app.state.folder.linger_seconds = settings.request_timeout or DEFAULT_SETTINGS.request_timeout
    await run_in_threadpool(log_problems, app.state.folder)
    app.state.metrics.watch(app.state.folder)
    scratch = ExitStack()
    app.state.jobs = await run_in_threadpool(_open_jobs, app, scratch)
    # A thread of its own, so that health checks never wait for other work.
    app.state.health_thread = ThreadPoolExecutor(1, thread_name_prefix="health")
    app.state.batcher = Batcher(
        app.state.metrics,
        app.state.long,
        partial(search.write_search, max_bytes=settings.max_response_bytes),
    )
    watching = asyncio.create_task(app.state.metrics.watch_loop())
    removing = asyncio.create_task(_remove_expired(app.state.folder))
    companion = ExitStack()
    if beside is not None:
        await run_in_threadpool(companion.enter_context, beside(app.state.jobs))
    try:
        yield
    finally:
        await run_in_threadpool(companion.close)
        watching.cancel()
        removing.cancel()
        with suppress(asyncio.CancelledError):
            await removing
        await run_in_threadpool(app.state.batcher.close)
        app.state.health_thread.shutdown()
        await run_in_threadpool(app.state.jobs.close)
        await run_in_threadpool(scratch.close)
        if opened is not None:
            await run_in_threadpool(opened.close)


async def _remove_expired(folder: DataFolder) -> None:
    """Delete the documents that have expired, every :data:`REMOVAL_SECONDS`; readers do not."""
    while folder.writable:
        await asyncio.sleep(REMOVAL_SECONDS)
        await run_in_threadpool(folder.remove_expired)


def _share_resources(app: FastAPI, settings: Settings) -> None:
    """Set up what requests share and wait for: memory, limiters and caches."""
    state = app.state
    state.held_bytes = HeldBytes(settings.max_held_bytes)
    state.write_gate = WriteGate()
    state.write_slots = asyncio.Semaphore(settings.concurrent_writes)
    state.long = CapacityLimiter(settings.concurrent_long_reads)
    state.metrics.watch_limiter(state.long)
    state.profiles = collections.Profiles()
    state.label_vectors = VectorCache()


def _add_middleware(app: FastAPI, settings: Settings) -> None:
    """Add the layers between the server and the routes, from the innermost."""
    metrics, origins = app.state.metrics, _split_names(settings.cors_origin)
    app.add_middleware(
        Admission,
        keyring=app.state.keyring,
        hosts=_split_names(settings.allowed_hosts),
        own_host=settings.host,
        origins=origins,
    )
    if origins:
        app.add_middleware(
            CORSMiddleware,
            allow_origins=origins,
            allow_methods=["*"],
            allow_headers=["*"],
            expose_headers=["X-Request-ID", "Location", "Retry-After"],
        )
    app.add_middleware(Limits, settings=settings, metrics=metrics)
    app.add_middleware(Monitoring, metrics=metrics, log=settings.access_log)
    app.add_middleware(RequestIds)


def _open_jobs(app: FastAPI, scratch: ExitStack) -> Jobs:
    """Open the data folder's jobs; a read-only service keeps its own in a folder of `scratch`."""
    folder, settings = app.state.folder, app.state.settings
    kinds = kinds_of_jobs(folder, app.state.write_gate, settings)
    path = folder.path / "jobs"
    if settings.read_only:
        path = scratch.enter_context(scratch_folder("hummingbit-reader-"))
    return Jobs(
        path,
        kinds,
        explain,
        workers={
            "long": settings.concurrent_jobs,
            "short": settings.concurrent_short_jobs,
            "analysis": settings.concurrent_analyses,
            "evaluation": settings.concurrent_analyses,
        },
        quota=Quota(settings.kept_jobs, settings.jobs_per_key, settings.job_bytes_per_key),
    )


def _split_names(names: str) -> list[str]:
    """Split names at commas."""
    return [name.strip() for name in names.split(",") if name.strip()]
