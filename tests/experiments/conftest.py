from __future__ import annotations

import pytest

from hummingbit.training import networks


@pytest.fixture(autouse=True)
def few_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """Learn neighbours with as many steps as vectors: what is tested here shows after a few."""
    monkeypatch.setattr(networks, "LEAST_STEPS", 20)
