"""The service, put together."""

from __future__ import annotations

from asyncio import Semaphore
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from fastapi import FastAPI
from fastapi.concurrency import run_in_threadpool

from index.data_folder import DataFolder
from service import collections, evaluations, health, searches
from service.handlers import add_handlers
from service.middleware import BodyLimit, RequestId
from service.openapi import describe
from service.settings import Settings

DEFAULT_SETTINGS = Settings()
BULK_PATHS = ("/documents", "/evaluate")


def create_app(data: Path | DataFolder, settings: Settings = DEFAULT_SETTINGS) -> FastAPI:
    """Make the application that serves a data folder.

    `data` is a path, and the folder is opened when the application starts and closed when it
    ends; or it is open for writing already, and the caller closes it.

    The application raises, when it starts, what :class:`index.data_folder.DataFolder` raises.
    """

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        app.state.evaluations = evaluations.Evaluations(settings.kept_evaluations)
        opened = None
        if not isinstance(data, DataFolder):
            opened = await run_in_threadpool(DataFolder, data, writable=True)
        app.state.folder = data if opened is None else opened
        try:
            yield
        finally:
            await run_in_threadpool(app.state.evaluations.close)
            if opened is not None:
                await run_in_threadpool(opened.close)

    app = FastAPI(
        title="hummingbit",
        summary="Semantic hashing: index and search short binary codes.",
        version=_version(),
        lifespan=lifespan,
        # The pages that FastAPI has for the description load scripts from other hosts.
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
    )
    app.state.settings = settings
    app.state.write_slots = Semaphore(settings.concurrent_writes)
    app.state.long_read_slots = Semaphore(settings.concurrent_long_reads)
    routers = (health.router, collections.router, searches.router, evaluations.router)
    for router in routers:
        app.include_router(router)
    add_handlers(app, [route for router in routers for route in router.routes])
    app.add_middleware(BodyLimit, limit_of=lambda path: _body_limit(path, settings))
    app.add_middleware(RequestId)
    describe(app)
    return app


def _body_limit(path: str, settings: Settings) -> int:
    bulk = path.endswith(BULK_PATHS)
    return settings.max_bulk_body_bytes if bulk else settings.max_body_bytes


def _version() -> str:
    try:
        return version("hummingbit")
    except PackageNotFoundError:  # run from a checkout that is not installed
        return "0"
