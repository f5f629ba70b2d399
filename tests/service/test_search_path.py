from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


# Without the kernel, numpy is called for what it does in one call.
@pytest.mark.parametrize(("kernel", "calls"), [("", 180), ("off", 210)])
def test_a_plain_search_goes_a_short_and_straight_way(
    kernel: str, calls: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HUMMINGBIT_KERNEL", kernel)
    command = [sys.executable, "-m", "benchmarks.search_path", "--documents", "1000"]
    printed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    found = {name: int(count) for name, count in re.findall(r"^([a-z ]+): (\d+)", printed, re.M)}
    assert found["calls"] < calls, printed
