from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from hummingbit.cli import COMMANDS, TITLES, main

CASES = {
    "hummingbit ind": "index",
    "hummingbit index im": "import",
    "hummingbit index import --fr": "--from",
    "hummingbit index import --from": "milvus qdrant txtai",
    "hummingbit serve --crea": "--create",
}


def script_of(shell: str, capsys: pytest.CaptureFixture[str]) -> str:
    assert main(["completion", shell]) == 0
    return capsys.readouterr().out


@pytest.mark.skipif(shutil.which("bash") is None, reason="there is no bash")
def test_bash_completes_commands_options_and_values(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "script").write_text(script_of("bash", capsys))
    asked = []
    for line in CASES:
        words = line.split() + ([""] if line.endswith("--from") else [])
        quoted = " ".join(f"'{word}'" for word in words)
        asked.append(f"COMP_WORDS=({quoted}); COMP_CWORD={len(words) - 1}; COMPREPLY=()")
        asked.append('_shtab_hummingbit; echo "${COMPREPLY[@]}"')
    program = "\n".join([f"source '{tmp_path}/script'", *asked])
    done = subprocess.run(["bash", "-c", program], capture_output=True, text=True, check=True)
    assert dict(zip(CASES, done.stdout.splitlines(), strict=True)) == CASES


@pytest.mark.parametrize("shell", ["fish", "zsh"])
def test_other_shells_know_every_command(shell: str, capsys: pytest.CaptureFixture[str]) -> None:
    script = script_of(shell, capsys)
    for name in COMMANDS:
        assert " " in name or name in script
    if shutil.which(shell) is not None:
        subprocess.run([shell, "-n"], input=script, text=True, check=True)


def test_the_help_lists_every_command_once_within_80_columns(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with pytest.raises(SystemExit, match="0"):
        main(["--help"])
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= 80
    listed = [line[2:20].strip() for line in lines if line[:2] == "  " and line[2:3].isalpha()]
    assert sorted(item for item in listed if item and not item.startswith("COMMAND")) == sorted(
        COMMANDS
    )
    assert {command.group for command in COMMANDS.values()} == set(TITLES)


@pytest.mark.parametrize(
    ("words", "shown"),
    [
        ("leaderboard", "of 20news, snippets, reuters, ag-news, dbpedia14"),
        ("leaderboard", "of lsh, pca-sign, itq, spectral,"),
        ("train ict", "Learns, without labels, to find a text by a few of its words"),
        ("train itq", "PCA, rotated to lose least when rounded to bits"),
        ("reproduce ssb-vae", "SSB-VAE: retrieval from few labels"),
        ("serve", "--max-connections-per-address N"),
        ("serve", "--backend {local,postgres}"),
        ("label export", "or the judged queries"),
    ],
)
def test_the_help_of_a_command_names_its_values(
    words: str, shown: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit, match="0"):
        main([*words.split(), "--help"])
    assert shown in " ".join(capsys.readouterr().out.split())
