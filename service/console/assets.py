"""The files of the console, as they lie beside this module, ready to be sent."""

from __future__ import annotations

import gzip
import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from importlib.resources.abc import Traversable

PAGE = "index.html"
MEDIA_TYPES = {
    "html": "text/html; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "css": "text/css; charset=utf-8",
    "svg": "image/svg+xml",
    "woff2": "font/woff2",
}
"""By the end of the name; files of other kinds are not sent."""

COMPRESSED_ALREADY = {"font/woff2"}


@dataclass(frozen=True, slots=True)
class Asset:
    """A file: as it is, compressed unless its format is already, its type and its tag."""

    body: bytes
    gzipped: bytes | None
    media_type: str
    tag: str


@cache
def assets() -> Mapping[str, Asset]:
    """Return the files of the console by their paths; nothing else can be asked for."""
    return dict(_read(files("service.console") / "static", ""))


def _read(folder: Traversable, prefix: str) -> Iterator[tuple[str, Asset]]:
    for one in sorted(folder.iterdir(), key=lambda one: one.name):
        if one.is_dir():
            yield from _read(one, f"{prefix}{one.name}/")
            continue
        media_type = MEDIA_TYPES.get(one.name.rpartition(".")[2])
        if media_type is not None:
            body = one.read_bytes()
            zipped = None if media_type in COMPRESSED_ALREADY else gzip.compress(body, mtime=0)
            tag = f'"{hashlib.sha256(body).hexdigest()[:32]}"'
            yield prefix + one.name, Asset(body, zipped, media_type, tag)
