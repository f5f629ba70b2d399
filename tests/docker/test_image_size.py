"""The service's image stays under 400 MB, reckoned from what pip would install into it."""

from __future__ import annotations

import re
import shutil
import subprocess
import tomllib
from importlib.metadata import Distribution, distribution
from pathlib import Path

import pytest
from packaging.requirements import Requirement

# python:3.11-slim for linux/amd64, unpacked.
BASE_BYTES = 130_000_000
MOST_BYTES = 400_000_000


ROOT = Path(__file__).parents[2]
# What docker/service.Dockerfile deletes.
DELETED = {"tests"}


def requirements() -> list[Requirement]:
    """Return what the project itself needs, and its service."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    needed = [*project["dependencies"], *project["optional-dependencies"]["serve"]]
    return [Requirement(text) for text in needed]


def installed_sizes() -> dict[str, int]:
    """Return the bytes that each distribution takes that would come into the image."""
    sizes: dict[str, int] = {}
    pending = requirements()
    while pending:
        needed = pending.pop()
        name = re.sub(r"[-_.]+", "-", needed.name).lower()
        if name in sizes or not applies(needed, frozenset()):
            continue
        found = distribution(needed.name)
        sizes[name] = installed_bytes(found)
        further = [Requirement(text) for text in found.requires or []]
        pending += [item for item in further if applies(item, frozenset(needed.extras))]
    return sizes


def applies(needed: Requirement, extras: frozenset[str]) -> bool:
    marker = needed.marker
    return marker is None or any(marker.evaluate({"extra": extra}) for extra in ("", *extras))


def installed_bytes(found: Distribution) -> int:
    return sum(path.stat().st_size for path in installed_files(found))


def installed_files(found: Distribution) -> list[Path]:
    kept = (
        Path(str(found.locate_file(file)))
        for file in found.files or []
        if file.suffix != ".pyc" and not DELETED & set(file.parts)
    )
    return [path for path in kept if path.is_file()]


def saved_by_stripping(name: str, scratch: Path) -> int:
    saved = 0
    for path in installed_files(distribution(name)):
        if path.suffix == ".so":
            stripped = Path(shutil.copy(path, scratch))
            subprocess.run(["strip", "--strip-unneeded", stripped], check=True)
            saved += path.stat().st_size - stripped.stat().st_size
    return saved


@pytest.mark.skipif(shutil.which("strip") is None, reason="needs strip, which is not installed")
def test_the_image_is_small_and_has_no_torch(tmp_path: Path) -> None:
    sizes = installed_sizes()
    sizes["uvloop"] -= saved_by_stripping("uvloop", tmp_path)
    for name, size in sorted(sizes.items(), key=lambda item: -item[1])[:12]:
        print(f"{name:<24} {size / 1e6:8.1f} MB")
    assert "torch" not in sizes
    assert sizes["numpy"] > 1_000_000
    total = sum(sizes.values()) + BASE_BYTES
    print(f"{'in all, with the base':<24} {total / 1e6:8.1f} MB")
    assert total < MOST_BYTES


def test_the_image_deletes_what_is_not_counted() -> None:
    dockerfile = (ROOT / "docker" / "service.Dockerfile").read_text()
    for name in DELETED:
        assert f"-name {name} " in dockerfile
    assert "-path '*/uvloop/*.so' -exec strip --strip-unneeded" in dockerfile
