"""The lines of the reference do what it says."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from hummingbit.encoder.artifact import write_artifact
from hummingbit.index.options import REQUEST_OPTIONS
from hummingbit.index.rankings import RANKINGS
from tests.support.docs.doc_blocks import blocks_of
from tests.support.encoders import random_texts, text_encoder
from tests.support.service import ROOT, running_service

CURL = 'curl() { command curl --noproxy "*" --fail-with-body "$@"; echo; }'


def lines_of_the_reference() -> str:
    """Return the lines to be run, in their order; a job may be finished before it is cancelled."""
    page = (ROOT / "docs" / "service.md").read_text().splitlines()
    first, end = page.index("## By task"), page.index("### At the command line")
    blocks = [block for block in blocks_of("docs/service.md") if first < block.line <= end]
    lines = "\n".join(block.text for block in blocks if block.language in {"", "sh"}).splitlines()
    return "\n".join(line for line in lines if not line.endswith("/cancel"))


@pytest.mark.skipif(
    shutil.which("curl") is None or shutil.which("jq") is None, reason="there is no curl, or no jq"
)
def test_every_line_of_the_reference_is_taken(tmp_path: Path) -> None:
    for seed, name in enumerate(("mine", "other")):
        encoder = text_encoder(32, seed=seed)
        write_artifact(tmp_path / "data" / "encoders" / name, encoder, random_texts(40))
    lines = lines_of_the_reference()
    assert lines.count("curl") > 20
    with running_service(tmp_path / "data") as client:
        lines = lines.replace("http://127.0.0.1:8000", str(client.base_url))
        script = f"set -euo pipefail\n{CURL}\n{lines}\n"
        done = subprocess.run(
            ["bash", "-c", script], cwd=tmp_path, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stdout[-800:] + done.stderr[-800:]
        assert client.get("/v1/collections/books/documents/b").status_code == 200
        assert client.get("/v1/aliases").json()["aliases"][0]["alias"] == "shop"
    assert (tmp_path / "books.tar").stat().st_size > 1000


def test_the_documentation_names_every_option_and_ranking() -> None:
    options = (ROOT / "docs" / "service.md").read_text().partition("### Search options")[2]
    assert [name for name in REQUEST_OPTIONS if f"`{name}`" not in options + "`limit`"] == []
    rankings = (ROOT / "docs" / "collections.md").read_text().partition("### Rankings")[2]
    assert [name for name in RANKINGS if f"\n| `{name}` |" not in rankings] == []
