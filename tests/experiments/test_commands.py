"""``hummingbit reproduce``: its help, and parts at their smallest size, without further extras."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import pytest

from experiments.parts import COMMANDS
from hummingbit.cli import main
from hummingbit.commands import reproduce
from tests.support.corpora import topic_documents, write_snippets

ROOT = Path(reproduce.__file__).parents[2]
NAMES = sorted(
    path.parent.name.replace("_", "-") for path in (ROOT / "experiments").glob("*/experiment.py")
)
ON_SNIPPETS = [
    "ssb-vae --methods ssb-vae --bits 8 --supervision 1",
    "ssb-vae --methods ssb-vae --bits 8 --supervision 1 --paper",
    "ssb-vae --methods ssb-vae --bits 8 --supervision 1 --ablate no-noise no-word-dropout",
    "table1 --datasets snippets --methods ssb-vae --bits 8 --supervision 1 --train",
    "perception-coherence --part text --corpora snippets --objectives pkt --widths 8"
    " --without-teacher ict",
    "generative-similarity --part hierarchy --dataset snippets --tree-methods generative"
    " --tree-epochs 1",
    "hierarchy-codes --dataset snippets --methods chl --bits 8 --epochs 1 --hidden 8",
    "leaderboard --datasets snippets --methods lsh itq --bits 8 --no-unseen",
]
ALONE = [
    "continuous-histogram --part synthetic --priors uniform --pairs 20",
    "generative-similarity --part gaussian --gaussian-methods printed kernel --triplets 300"
    " --passes 1",
    "perception-coherence --part toy --toy-epochs 1 --datasets two-moons --batch-sizes 3",
    "perception-coherence --part gpcl --examples 600 --batches 2",
    "riemannian-potato --dataset wishart --methods untrained rpl rpl-log rpl-sphere --epochs 1",
]
REFUSED = {
    "riemannian-potato --dataset wishart --methods rpl n-pair": "n-pair needs pytorch_metric",
    "generative-similarity --part gaussian": "sup-con need pytorch_metric_learning",
    "generative-similarity --part quadrilaterals": "simclr needs pytorch_metric_learning",
    "generative-similarity --part geoclidean": "supcon need pytorch_metric_learning",
    "model-codes --model folder": "--model needs onnxruntime",
    "ssb-vae --model folder": "--model needs onnxruntime",
    "judgements --model folder": "--model needs onnxruntime",
}


@pytest.fixture
def no_extras(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the packages that only some parts need be missing."""
    for package in COMMANDS:
        monkeypatch.setitem(sys.modules, package, None)
        assert importlib.util.find_spec(package) is None


def run(command: str, *options: object) -> int:
    try:
        return main(["reproduce", *command.split(), *map(str, options)])
    except SystemExit as exit_:
        return int(exit_.code or 0)


@pytest.mark.usefixtures("no_extras")
@pytest.mark.parametrize("name", NAMES)
def test_help_says_what_an_experiment_needs(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(name, "--help") == 0
    printed = " ".join(capsys.readouterr().out.split())
    assert "runs from a checkout of hummingbit and needs the extra train" in printed


@pytest.mark.usefixtures("no_extras")
@pytest.mark.parametrize("command", [*ALONE, *ON_SNIPPETS])
def test_a_part_runs_without_further_extras(command: str, tmp_path: Path) -> None:
    options: list[object] = ["--seeds", 1, "--work-dir", tmp_path / "work"]
    if command in ON_SNIPPETS:
        training, queries = topic_documents(240, 0), topic_documents(40, 1, "query")
        write_snippets(tmp_path / "data", training, queries)
        options += ["--data-root", tmp_path / "data"]
    assert run(command, *options) == 0


@pytest.mark.usefixtures("no_extras")
@pytest.mark.parametrize("command", REFUSED)
def test_a_part_that_lacks_a_package_is_refused_before_it_starts(
    command: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    assert run(command) == 2
    error = " ".join(capsys.readouterr().err.split())
    assert REFUSED[command] in error
    assert "install" in error
    assert not any(tmp_path.rglob("*.safetensors"))
