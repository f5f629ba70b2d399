from __future__ import annotations

import pytest

from hummingbit.index.engines import kernel

WITHOUT = "without the kernel"
PATHS: tuple[str, ...] = () if kernel.built is None else kernel.built.paths()


@pytest.fixture(autouse=True, params=[WITHOUT, "kernel"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Run every test of engines twice: with the kernel and without."""
    way: str = request.param
    if way == WITHOUT:
        monkeypatch.setattr(kernel, "native", None)
    elif kernel.native is None:
        pytest.skip("there is no compiled kernel here")
    return way
