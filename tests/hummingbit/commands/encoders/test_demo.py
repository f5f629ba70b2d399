from __future__ import annotations

import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from hummingbit.index.data_folder import DataFolder


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@pytest.mark.demo
@pytest.mark.skipif(shutil.which("curl") is None, reason="needs curl, which is not installed")
def test_the_demo_trains_indexes_evaluates_and_serves_a_curl_line_that_works(
    tmp_path: Path,
) -> None:
    port = free_port()
    data = Path(os.environ.get("DEMO_DATA", tmp_path / "demo"))
    command = [sys.executable, "-m", "hummingbit", "demo", "--data-dir", str(data)]
    with subprocess.Popen(
        [*command, "--port", str(port)], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as demo:
        watchdog = threading.Timer(300, demo.kill)
        watchdog.start()
        try:
            printed = read_until(demo, "Serving ")
            curl = re.search(r"^  (curl .*\\\n.*)$", printed, re.MULTILINE)
            assert curl, printed
            answer = subprocess.run(
                ["bash", "-c", curl[1]], capture_output=True, text=True, check=True
            )
        finally:
            watchdog.cancel()
            demo.send_signal(signal.SIGINT)
        assert demo.wait(timeout=120) == 0
    found = json.loads(answer.stdout)
    assert found["n_bits"] == 64
    names = {hit["id"] for hit in found["hits"]}
    assert any(".fft." in name for name in names), names
    # Codes of a tenth of the labels find more documents of a query's package than TF-IDF does.
    codes, words = figures(printed, "codes, Hamming"), figures(printed, "words, BM25")
    both, tfidf = figures(printed, "codes and words, hybrid"), figures(printed, "TF-IDF cosine")
    assert codes[0] > tfidf[0]
    # Codes and words together answer about as many everyday questions as words do, in first place
    # no fewer, and find more documents of the package.
    assert both[0] > words[0]
    assert both[3] > words[3] - 0.05
    # The ranking that is served has a row with its weight, and every row its spread.
    with DataFolder(data, writable=False) as folder:
        weight = folder.collection("docstrings").hybrid_weight
    rows = [line for line in printed.splitlines() if re.search(r"( +0\.\d{3}){2,}$", line)]
    assert figures(printed, f"served: hybrid, {weight:g}") == both
    assert [row.startswith("  ± standard error") for row in rows] == [False, True] * 8


def read_until(process: subprocess.Popen[str], start: str) -> str:
    assert process.stdout is not None
    lines: list[str] = []
    for line in process.stdout:
        lines.append(line)
        if line.startswith(start):
            return "".join(lines)
    raise AssertionError("the demo ended early:\n" + "".join(lines))


def figures(printed: str, method: str) -> list[float]:
    """Return P@100, the same over ties, mAP@100, the share in the first ten, and the MRR."""
    (line,) = [line for line in printed.splitlines() if line.startswith(method)]
    return [float(cell) for cell in line.removeprefix(method).split()]
