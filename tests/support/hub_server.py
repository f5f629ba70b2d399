"""A local Hub server with the endpoints that huggingface_hub needs to push and pull."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

COMMIT = "c" * 40
TOKEN = "hf_test"  # noqa: S105


class _Handler(BaseHTTPRequestHandler):
    root: Path

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        if self.headers.get("Authorization") != f"Bearer {TOKEN}":
            self._send(401, {"error": "Invalid credentials"})
            return
        path = self.path.partition("?")[0]
        if path == "/api/repos/create":
            asked = json.loads(body)
            name = f"{asked['organization']}/{asked['name']}" if "organization" in asked else ""
            (self.root / name).mkdir(parents=True, exist_ok=True)
            self._send(200, {"url": f"{self._address()}/{name}", "name": name})
        elif path == "/api/validate-yaml":
            self._send(200, {"errors": [], "warnings": []})
        elif "/preupload/" in path:
            files = [
                {"path": file["path"], "uploadMode": "regular", "shouldIgnore": False}
                for file in json.loads(body)["files"]
            ]
            self._send(200, {"files": files})
        elif "/commit/" in path:
            folder = self.root / path.removeprefix("/api/models/").partition("/commit/")[0]
            for line in map(json.loads, body.splitlines()):
                if line["key"] == "file":
                    content = base64.b64decode(line["value"]["content"])
                    (folder / line["value"]["path"]).write_bytes(content)
            url = f"{self._address()}/{folder.relative_to(self.root)}/commit/{COMMIT}"
            self._send(200, {"commitUrl": url, "commitOid": COMMIT, "success": True})
        else:
            self._send(404, {"error": path})

    def do_HEAD(self) -> None:
        self.do_GET()

    def do_GET(self) -> None:
        path = self.path.partition("?")[0]
        if path.startswith("/api/models/"):
            name, _, _ = path.removeprefix("/api/models/").partition("/revision/")
            name, is_tree, _ = name.partition("/tree/")
            if not (self.root / name).is_dir():
                self._send(404, {"error": "Repository not found"}, {"X-Error-Code": "RepoNotFound"})
                return
            files = sorted((self.root / name).glob("*"))
            if is_tree:
                listed = [
                    {"type": "file", "path": file.name, "size": file.stat().st_size, "oid": COMMIT}
                    for file in files
                ]
                self._send(200, listed)
                return
            siblings = [{"rfilename": file.name} for file in files]
            self._send(200, {"id": name, "sha": COMMIT, "siblings": siblings})
        elif "/resolve/" in path:
            name, _, rest = path[1:].partition("/resolve/")
            file = self.root / name / rest.partition("/")[2]
            content = file.read_bytes()
            etag = hashlib.sha1(content, usedforsecurity=False).hexdigest()
            self._send_bytes(200, content, {"ETag": f'"{etag}"', "X-Repo-Commit": COMMIT})
        else:
            self._send(404, {"error": path})

    def _address(self) -> str:
        return f"http://{self.headers['Host']}"

    def _send(self, status: int, answer: Any, headers: dict[str, str] | None = None) -> None:
        self._send_bytes(status, json.dumps(answer).encode(), headers or {})

    def _send_bytes(self, status: int, content: bytes, headers: dict[str, str]) -> None:
        self.send_response(status)
        for name, value in {**headers, "Content-Length": str(len(content))}.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content)

    def log_message(self, *_: object) -> None:
        """Log nothing."""


@contextmanager
def serving_hub(root: Path) -> Iterator[str]:
    """Serve the repositories in `root`, one per folder; yield the address."""
    handler = type("Handler", (_Handler,), {"root": root})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    thread = Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
