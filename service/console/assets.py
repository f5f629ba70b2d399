"""The files of the console's page, read from this package."""

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
"""By file name extension; files with other extensions are not served."""

COMPRESSED_ALREADY = {"font/woff2"}


@dataclass(frozen=True, slots=True)
class Asset:
    """A file, its media type and its entity tag; `gzipped` is None for a compressed format."""

    body: bytes
    gzipped: bytes | None
    media_type: str
    tag: str


@cache
def assets() -> Mapping[str, Asset]:
    """Return the files of the console by their paths; no other file is served."""
    return dict(_read(files("service.console") / "static", ""))


def _read(folder: Traversable, prefix: str) -> Iterator[tuple[str, Asset]]:
    for path in sorted(folder.iterdir(), key=lambda path: path.name):
        if path.is_dir():
            yield from _read(path, f"{prefix}{path.name}/")
            continue
        media_type = MEDIA_TYPES.get(path.name.rpartition(".")[2])
        if media_type is not None:
            body = path.read_bytes()
            zipped = None if media_type in COMPRESSED_ALREADY else gzip.compress(body, mtime=0)
            tag = f'"{hashlib.sha256(body).hexdigest()[:32]}"'
            yield prefix + path.name, Asset(body, zipped, media_type, tag)
