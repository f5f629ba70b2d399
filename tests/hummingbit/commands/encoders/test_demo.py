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
def test_the_demo_answers_serves_a_curl_line_that_works_and_learns(tmp_path: Path) -> None:
    port = free_port()
    data = Path(os.environ.get("DEMO_DATA", tmp_path / "demo"))
    command = [sys.executable, "-m", "hummingbit", "demo", "--data-dir", str(data)]
    with subprocess.Popen(
        [*command, "--port", str(port)], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as demo:
        watchdog = threading.Timer(900, demo.kill)
        watchdog.start()
        try:
            printed = read_until(demo, r"In a browser: ")
            assert len(re.findall(r"^ 1  ", printed, re.MULTILINE)) == 3
            curl = re.search(r"^  (curl .*)$", printed, re.MULTILINE)
            assert curl, printed
            answer = subprocess.run(
                ["bash", "-c", curl[1]], capture_output=True, text=True, check=True
            )
            outcome = read_until(demo, r"docstrings (is searched by|keeps) ")
        finally:
            watchdog.cancel()
            demo.send_signal(signal.SIGINT)
        assert demo.wait(timeout=120) == 0
    names = {hit["id"] for hit in json.loads(answer.stdout)["hits"]}
    assert any(".fft." in name for name in names), names
    # Both searched for the documents held out, and the better one serves.
    figures = re.findall(r"^(before|learned): hybrid +0\.\d+ +0\.\d+ +0\.\d+$", outcome, re.M)
    assert figures == ["before", "learned"], outcome
    is_learned = "docstrings is searched by the codes that were learned" in outcome
    with DataFolder(data, writable=False) as folder:
        # What is learned has the first number that no encoder of an earlier demo has.
        served = folder.aliases()["docstrings"]
        assert is_learned == (served != "docstrings-1")
        assert served in folder.collections()
        assert len(folder.collection("docstrings")) > 1000


def read_until(process: subprocess.Popen[str], pattern: str) -> str:
    assert process.stdout is not None
    lines: list[str] = []
    for line in process.stdout:
        lines.append(line)
        if re.match(pattern, line):
            return "".join(lines)
    raise AssertionError("the demo ended early:\n" + "".join(lines))
