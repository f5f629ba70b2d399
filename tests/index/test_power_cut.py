"""A power cut at any moment: what was acknowledged is there, whatever was not synced is not.

A program writes with a library loaded that notes what reaches the disk when. From these notes, the
test makes and opens the folder that a power cut at any step would leave
(:mod:`tests.support.faults.power_cut`).
"""

from __future__ import annotations

import json
import random
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from hummingbit.index.data_folder import DataFolder
from tests.index.test_faults import ROOT, Record, held_in, possible
from tests.support.faults.endless_folder import state_of
from tests.support.faults.endless_writes import KINDS, NAME
from tests.support.faults.power_cut import Disk, read_trace, shim, traced

Check = Callable[[Path, list[str]], dict[str, Any]]
"""Fails unless a folder holds what was said to be acknowledged; returns what it holds."""


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return shim(tmp_path_factory.mktemp("shim"))


def trace_writes(library: Path, root: Path, module: str, *arguments: str, writes: int) -> Path:
    """Have a program write to `root` until so many writes were acknowledged; return its trace."""
    trace = root.with_suffix(".trace")
    command = [sys.executable, "-m", module, str(root), *arguments]
    environment = traced(library, root, trace)
    with subprocess.Popen(
        command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        done = 0
        while done < writes:
            line = process.stdout.readline()
            assert line, f"{arguments}: it ended by itself: {process.wait()}"
            done += line == "done\n"
        process.kill()
        process.stdout.read()
    return trace


def check_writes(folder: Path, lines: list[str], before: dict[str, Any]) -> dict[str, Any]:
    with DataFolder(folder, writable=True) as data:
        assert not data.unavailable()
        assert not data.problems()
        there = NAME in data.collections()
        found = held_in(data.collection(NAME)) if there else {}
    assert found in possible(before, lines)
    return found


def check_folder(folder: Path, lines: list[str], before: dict[str, Any]) -> dict[str, Any]:
    states = [before, *(json.loads(line[4:]) for line in lines if line.startswith("try "))]
    done = lines.count("done\n")
    with DataFolder(folder, writable=True) as data:
        assert not data.unavailable()
        assert not data.problems()
        found = state_of(data)
    # A drop removes the aliases in a step of its own.
    possible = states[done : done + 2]
    partly = [{**possible[0], "aliases": item["aliases"]} for item in possible]
    assert found in [*possible, *partly], (found, possible)
    return found


def cut_many_times(
    disk: Disk, trace: Path, moments: set[int], chance: random.Random, check: Check
) -> tuple[Path, dict[str, Any]]:
    """Cut the power after those records of a trace; return the last folder and its content."""
    said, survivor, target = "", {}, trace
    for position, record in enumerate(read_trace(trace)):
        if record.operation == "a":
            said += record.first.decode()
        else:
            disk.take(record)
        if position in moments:
            shutil.rmtree(target, ignore_errors=True)
            disk.cut(target := trace.with_suffix(f".{position}"), chance)
            lines = said.splitlines(keepends=True)
            survivor = check(target, [line for line in lines if line.endswith("\n")])
    return target, survivor


def cut_in_rounds(
    library: Path, tmp_path: Path, kinds: Sequence[str], cuts: int, writes: int
) -> int:
    """Cut the power so often in each round; the next goes on in the folder of the last cut.

    Return how many writes were acknowledged.
    """
    chance = random.Random(0)  # noqa: S311 - it picks the moments
    held: dict[str, dict[str, Any]] = {
        "writes": {},
        "folder": {"collections": {}, "aliases": {}, "snapshots": []},
    }
    acknowledged = 0
    for turn, kind in enumerate(kinds):
        family = "folder" if kind == "folder" else "writes"
        root = tmp_path / family
        root.mkdir(exist_ok=True)
        disk, check = Disk(root), check_folder if family == "folder" else check_writes
        arguments = [str(turn)] if family == "folder" else [kind, str(turn)]
        module = f"tests.support.faults.endless_{family}"
        trace = trace_writes(library, root, module, *arguments, writes=writes)
        records = sum(1 for _ in read_trace(trace))
        moments = set(chance.sample(range(records), cuts))
        target, held[family] = cut_many_times(
            disk, trace, moments, chance, partial(check, before=held[family])
        )
        shutil.rmtree(root)
        target.rename(root)
        said = b"".join(item.first for item in read_trace(trace) if item.operation == "a")
        acknowledged += said.count(b"done\n")
        trace.unlink()
    print(
        f"\n{cuts * len(kinds)} power cuts during {acknowledged:,} acknowledged writes, none lost"
    )
    return acknowledged


def test_nothing_acknowledged_is_lost_by_a_power_cut(library: Path, tmp_path: Path) -> None:
    cut_in_rounds(library, tmp_path, [*KINDS, "folder"], cuts=4, writes=25)


@pytest.mark.faults
def test_nothing_acknowledged_is_lost_by_two_hundred_power_cuts(
    library: Path, tmp_path: Path, record_property: Record
) -> None:
    kinds = [*KINDS, "folder", "folder"] * 4
    record_property("acknowledged writes", cut_in_rounds(library, tmp_path, kinds, 10, writes=60))
    record_property("power cuts", 10 * len(kinds))


def test_what_is_not_synced_is_lost(library: Path, tmp_path: Path) -> None:
    """Without this the other tests would prove nothing."""
    root = tmp_path / "root"
    root.mkdir()
    statement = f"""
import os
from pathlib import Path
root = Path({str(root)!r})
for name in ("synced", "unsynced", "unnamed"):
    with (root / name).open("wb") as file:
        file.write(b"x" * 5000)
        file.flush()
        if name != "unsynced":
            os.fsync(file.fileno())
    if name != "unnamed":
        descriptor = os.open(root, os.O_RDONLY)
        os.fsync(descriptor)
        os.close(descriptor)
os.replace(root / "synced", root / "renamed")
print("end", flush=True)
"""
    disk, trace = Disk(root), tmp_path / "trace"
    environment = traced(library, root, trace)
    subprocess.run([sys.executable, "-c", statement], env=environment, check=True)
    for record in read_trace(trace):
        if record.operation != "a":
            disk.take(record)
    left: list[dict[str, int]] = []
    for turn in range(60):
        disk.cut(target := tmp_path / f"cut{turn}", random.Random(turn))  # noqa: S311
        left.append({path.name: path.read_bytes().count(b"x") for path in target.iterdir()})
    names = [set(item) for item in left]
    assert all(item.get("synced", item.get("renamed")) == 5000 for item in left)
    assert all(("synced" in name) != ("renamed" in name) for name in names)
    assert {"unsynced", "synced"} in names
    assert {"unsynced", "unnamed", "renamed"} in names
    assert {0, 5000} < {item["unsynced"] for item in left}
    assert {item["unnamed"] for item in left if "unnamed" in item} == {5000}
