from __future__ import annotations

import argparse
import re
import subprocess
import sys
from pathlib import Path

import pytest

from hummingbit.commands.reproduce import load_experiment

ROOT = Path(__file__).parents[4]

WITHOUT_PACKAGE = """
import sys
class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == "torch":
            raise ModuleNotFoundError(f"No module named {name!r}", name="torch")
sys.meta_path.insert(0, Absent())
from hummingbit.cli import main
try:
    main(["reproduce", "--help"])
except SystemExit as end:
    assert not end.code
sys.exit(main(["reproduce", "generative-similarity"]))
"""


def test_experiments_are_listed_and_the_package_that_one_lacks_is_named() -> None:
    command = [sys.executable, "-c", WITHOUT_PACKAGE]
    found = subprocess.run(command, capture_output=True, text=True, check=False)
    assert found.returncode == 2
    assert "ssb-vae" in found.stdout
    assert "embeddings in which examples" in re.sub(r"\s+", " ", found.stdout)
    assert "reproduce generative-similarity needs torch" in found.stderr
    assert "Traceback" not in found.stderr


@pytest.mark.parametrize(
    "name", sorted(path.parent.name for path in ROOT.glob("experiments/*/experiment.py"))
)
def test_every_option_of_an_experiment_has_a_help(name: str) -> None:
    parser = argparse.ArgumentParser()
    load_experiment(name.replace("_", "-")).configure(parser)
    assert [action.dest for action in parser._actions if not action.help] == []
