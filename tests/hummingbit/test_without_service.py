"""The library and the command line without the packages of the service."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

PACKAGES = "fastapi fastapi_offline httptools prometheus_client pydantic_settings starlette uvicorn"
WITHOUT = f"""
import sys

class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {{*{PACKAGES.split()}, "uvloop"}}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)

sys.meta_path.insert(0, Absent())
from hummingbit.cli import main
"""


def run(code: str, folder: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", WITHOUT + code]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)


def test_a_file_is_searched_and_measured_and_the_service_says_what_it_needs(tmp_path: Path) -> None:
    lines = (
        json.dumps(
            {"id": f"d{row}", "text": f"text {row % 5} of topic {row}", "label": f"{row % 2}"}
        )
        for row in range(60)
    )
    (tmp_path / "notes.jsonl").write_text("\n".join(lines))
    begun = run(
        'sys.exit(main(["quickstart", "notes.jsonl", "--no-train", "--no-serve"]))', tmp_path
    )
    assert begun.returncode == 0, begun.stderr
    search = ["search", "notes", "topic 17", "--data-dir", "notes-data", "--json"]
    found = run(f"sys.exit(main({search}))", tmp_path)
    assert json.loads(found.stdout)["hits"][0]["id"] == "d17", found.stderr
    evaluate = ["evaluate", "notes", "--queries", "notes.jsonl", "--data-dir", "notes-data"]
    measured = run(f"sys.exit(main({evaluate}))", tmp_path)
    assert measured.returncode == 0, measured.stderr
    served = run('sys.exit(main(["serve", "--data-dir", "notes-data"]))', tmp_path)
    assert served.returncode == 2
    assert "the service needs" in served.stderr
    assert "[serve]" in served.stderr


def test_the_library_and_the_client_need_none_of_them(tmp_path: Path) -> None:
    code = (
        "from hummingbit import AsyncClient, Client, Collection, SemanticHasher, ServedCollection"
    )
    assert run(code, tmp_path).returncode == 0


def test_the_command_alone_lists_the_commands(tmp_path: Path) -> None:
    listed = subprocess.run(
        [sys.executable, "-m", "hummingbit"], capture_output=True, text=True, check=False
    )
    assert listed.returncode == 0
    assert "\n  quickstart " in listed.stdout
    assert "\n  search " in listed.stdout
