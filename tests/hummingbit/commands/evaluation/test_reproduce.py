from __future__ import annotations

import argparse
import subprocess
import sys
from pathlib import Path

import pytest

from hummingbit.commands.reproduce import load_experiment

ROOT = Path(__file__).parents[4]

HIDING = """
import sys
sys.modules["pytorch_metric_learning"] = None
from hummingbit.cli import main
sys.exit(main(sys.argv[1:]))
"""


def run_without_package(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Run a command in a process that cannot import ``pytorch_metric_learning``."""
    command = [sys.executable, "-c", HIDING, *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_experiments_are_listed_though_a_package_of_their_parts_is_missing() -> None:
    found = run_without_package("reproduce", "--help")
    assert found.returncode == 0, found.stderr
    assert "ssb-vae" in found.stdout
    assert "pytorch_metric_learning" in found.stdout.replace("\n", "").replace(" ", "")


def test_running_an_experiment_names_the_package_that_its_parts_lack() -> None:
    found = run_without_package("reproduce", "generative-similarity")
    assert found.returncode == 2
    assert "reproduce generative-similarity needs pytorch_metric_learning" in found.stderr
    assert "Traceback" not in found.stderr


@pytest.mark.parametrize(
    "name", sorted(path.parent.name for path in ROOT.glob("experiments/*/experiment.py"))
)
def test_every_option_of_an_experiment_has_a_help(name: str) -> None:
    parser = argparse.ArgumentParser()
    load_experiment(name.replace("_", "-")).configure(parser)
    assert [action.dest for action in parser._actions if not action.help] == []
