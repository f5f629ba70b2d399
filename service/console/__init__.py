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
# The page names its other files below this placeholder.
_FILES = b"{files}"
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
    """A file, its media type and its entity tag."""

    body: bytes
    media_type: str
    tag: str

    @property
    def is_compressible(self) -> bool:
        """Whether the format is not a compressed one."""
        return self.media_type not in COMPRESSED_ALREADY


@cache
def assets() -> Mapping[str, Asset]:
    """Return the files that the page loads, by their paths; no other file is served."""
    return {
        name: _asset(name, body)
        for name, body in _read(files("hummingbit.service.console") / "static", "")
        if name != PAGE
    }


@cache
def release() -> str:
    """Return a digest of :func:`assets`, 16 hexadecimal digits: part of their addresses."""
    marks = "".join(f"{name} {asset.tag} " for name, asset in assets().items())
    return hashlib.sha256(marks.encode()).hexdigest()[:16]


@cache
def page() -> Asset:
    """Return the page; it loads its files below :func:`release`."""
    body = (files("hummingbit.service.console") / "static" / PAGE).read_bytes()
    return _asset(PAGE, body.replace(_FILES, release().encode()))


@cache
def gzipped(asset: Asset) -> bytes:
    """Return a file compressed; the first time takes milliseconds, too long for an event loop."""
    return gzip.compress(asset.body, mtime=0)


def _asset(name: str, body: bytes) -> Asset:
    media_type = MEDIA_TYPES[_extension(name)]
    tag = f'"{hashlib.sha256(body).hexdigest()[:32]}"'
    return Asset(body, media_type, tag)


def _extension(name: str) -> str:
    return name.rpartition(".")[2]


def _read(folder: Traversable, prefix: str) -> Iterator[tuple[str, bytes]]:
    for path in sorted(folder.iterdir(), key=lambda path: path.name):
        if path.is_dir():
            yield from _read(path, f"{prefix}{path.name}/")
            continue
        if _extension(path.name) in MEDIA_TYPES:
            yield prefix + path.name, path.read_bytes()
