"""The shortest way to a search.

FastAPI matches a route by trying all before it, solves what the function depends on anew for every
request and passes both through layers of its own, which takes longer than a search does. What
stands before it here answers searches with the same function, if nothing is wrong with them.
Otherwise FastAPI's route has the request, and is the one that says what is wrong.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from fastapi import Request, Response
from fastapi.routing import APIRoute
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from index.backend import Folder
from service.http.body import JSONRequest, check_role
from service.http.roles import needed_role
from service.routes.search import post_search
from service.schemas.search import SearchRequest


class DirectSearch:
    """Answers as `described`, the route of :func:`post_search`, does."""

    def __init__(self, app: ASGIApp, described: APIRoute) -> None:
        self._app = app
        self._described = described
        self._path = re.compile(re.escape(described.path).replace(r"\{name\}", "([^/]+)"))
        self._needed = needed_role(described.openapi_extra)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a search, or pass the request on as it came."""
        found = None
        if scope["type"] == "http" and scope["method"] == "POST":
            found = self._path.fullmatch(scope["path"])
        if found is None:
            await self._app(scope, receive, send)
            return
        recorder = _Recorder(receive)
        try:
            response = await self._answer(JSONRequest(scope, recorder.receive), found[1])
        except Exception:  # noqa: BLE001 - the route meets it again, and says what it is
            await self._app(scope, recorder.receive_again, send)
        else:
            scope["route"] = self._described  # for the metrics and the log
            await response(scope, receive, send)

    async def _answer(self, request: Request, name: str) -> Response:
        check_role(request, self._needed)
        body = SearchRequest.model_validate(await request.json())
        folder: Folder = request.app.state.folder
        collection = folder.collection(name)
        return await post_search(request, collection, body, request.app.state.settings)


class _Recorder:
    """Keeps what was received of a body, so that it can be received again."""

    def __init__(self, receive: Receive) -> None:
        self._receive = receive
        self._received: list[Message | Exception] = []
        self._again: Iterator[Message | Exception] | None = None

    async def receive(self) -> Message:
        try:
            message = await self._receive()
        except Exception as error:
            self._received.append(error)
            raise
        self._received.append(message)
        return message

    async def receive_again(self) -> Message:
        if self._again is None:
            self._again = iter(self._received)
        for one in self._again:
            if isinstance(one, Exception):
                raise one
            return one
        return await self._receive()
