"""The wheel: what it holds, and that it works alone in a clean environment.

``make package`` runs these. They build the distribution as a release does, install it with pip into
an environment that has nothing else, and use it from a project with folders of our names: with each
Python from 3.11 to 3.14 that this machine has.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.commands import run
from tests.support.folders import INSTALLED
from tests.support.service import client_of

pytestmark = pytest.mark.package

ROOT = Path(__file__).parents[2]
MODELS = ROOT / "models"


@pytest.fixture(scope="module")
def distribution(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder with an sdist, and a wheel that was built of it."""
    out = tmp_path_factory.mktemp("dist")
    run(sys.executable, "-m", "build", "--no-isolation", "--outdir", str(out), str(ROOT))
    for built in sorted(out.iterdir()):
        print(f"{built.name}: {built.stat().st_size / 1e6:.2f} MB")
    return out


@pytest.fixture(scope="module")
def wheel(distribution: Path) -> Path:
    return next(distribution.glob("*.whl"))


def interpreter(minor: int) -> str:
    """Return the path of Python 3.`minor` on this machine, or skip the test."""
    if sys.version_info.minor == minor:
        return sys.executable
    on_path = shutil.which(f"python3.{minor}")
    of_pyenv = sorted(Path.home().glob(f".pyenv/versions/3.{minor}.*/bin/python"))
    for path in [*([on_path] if on_path else []), *map(str, of_pyenv)]:
        # A shim of pyenv is on the path for versions that are not chosen, too.
        if subprocess.run([path, "--version"], capture_output=True, check=False).returncode == 0:
            return path
    pytest.skip(f"Python 3.{minor} is not installed")


@pytest.fixture(scope="module", params=[11, 12, 13, 14], ids="python3.{}".format)
def environment(
    request: pytest.FixtureRequest, wheel: Path, tmp_path_factory: pytest.TempPathFactory
) -> Path:
    """The ``bin`` of an environment with the wheel and what a service needs, and nothing else.

    Before the service's packages are installed, the library is used without them.
    """
    folder = tmp_path_factory.mktemp("environment")
    run(interpreter(request.param), "-m", "venv", str(folder))
    python = str(folder / "bin" / "python")
    pip = [python, "-m", "pip", "install", "--quiet"]
    pip += ["--constraint", str(ROOT / "constraints.txt")]
    run(*pip, str(wheel))
    print(f"a library alone: {packages_and_size(folder)}")
    absent = "import importlib.util; print(importlib.util.find_spec('fastapi'))"
    assert run(python, "-c", absent).strip() == "None"
    run(python, str(ROOT / "tests" / "package" / "use_wheel.py"), cwd=folder)
    run(*pip, f"{wheel}[serve]")
    print(f"a service: {packages_and_size(folder)}")
    return folder / "bin"


def packages_and_size(folder: Path) -> str:
    """Return how many packages an environment has, and how large it is."""
    packages = list(folder.rglob("site-packages/*.dist-info"))
    size = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
    return f"{len(packages)} packages, {size / 1e6:.0f} MB"


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A user's project, whose modules fail when they are imported, with a file of documents."""
    for name in ("foundation", "corpus", "encoder", "index", "service", "training"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").write_text("raise RuntimeError('the user\\'s own')\n")
    lines = [f"{row},text {row % 7} of topic {row % 3},t{row % 3}" for row in range(60)]
    (tmp_path / "notes.csv").write_text("\n".join(["key,body,topic", *lines]) + "\n")
    return tmp_path


def files_of_the_packages() -> Iterator[str]:
    """Return the files of the repository that a wheel should hold, by their names there."""
    for name in run("git", "ls-files", *INSTALLED, cwd=ROOT).splitlines():
        if name.endswith(".py"):
            yield installed(name)
    yield from ("hummingbit/py.typed", "hummingbit/corpus/docstring_questions.jsonl")
    yield "hummingbit/evaluation/page.html.j2"
    static = ROOT / "service" / "console" / "static"
    for path in static.rglob("*"):
        if path.is_file():
            yield installed(str(path.relative_to(ROOT)))


def installed(name: str) -> str:
    """Return the name that a file of the repository has in a wheel."""
    return name if name.startswith("hummingbit/") else f"hummingbit/{name}"


def test_every_module_and_every_file_is_in_the_wheel(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        held = set(archive.namelist())
    assert sorted(set(files_of_the_packages()) - held) == []
    assert {name.partition("/")[0].partition("-")[0] for name in held} == {"hummingbit"}


def test_the_compiled_modules_are_stripped(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        compiled = {
            info.filename: info for info in archive.infolist() if info.filename.endswith(".so")
        }
        assert len(compiled) == 3
        for name, info in compiled.items():
            print(f"{name}: {info.file_size / 1e3:.0f} kB")
            assert b".debug_info" not in archive.read(name), name


def test_the_sdist_holds_the_tests_and_no_data_and_no_environment(distribution: Path) -> None:
    with tarfile.open(next(distribution.glob("*.tar.gz"))) as archive:
        names = archive.getnames()
    assert not [name for name in names if "/.venv" in name or "/demo-data" in name]
    held = {name.partition("/")[2] for name in names}
    assert held >= {"CHANGELOG.md", "LICENSE", "NOTICE", "tests/package/test_distribution.py"}


def test_the_wheel_has_the_licence_and_says_where_its_data_come_from(wheel: Path) -> None:
    assert licences_of(wheel) == {"LICENSE": ROOT / "LICENSE", "NOTICE": ROOT / "NOTICE"}


def test_the_encoder_that_ships_has_a_licence_and_names_the_texts_it_learned_from(
    tmp_path: Path,
) -> None:
    run(sys.executable, "-m", "build", "--no-isolation", "--outdir", str(tmp_path), str(MODELS))
    (built,) = tmp_path.glob("*.whl")
    assert licences_of(built) == {"LICENSE": MODELS / "LICENSE", "NOTICE": MODELS / "NOTICE"}
    assert (MODELS / "LICENSE").read_text() == (ROOT / "LICENSE").read_text()
    sources = re.search(r"^MANUALS = \((.*?)^\)", (MODELS / "texts.py").read_text(), re.M | re.S)
    assert sources is not None
    notice = (MODELS / "NOTICE").read_text()
    assert [name for name in re.findall(r'"([\w.-]+)"', sources[1]) if name not in notice] == []


def licences_of(wheel: Path) -> dict[str, Path]:
    """Return the files of `wheel` that are licences, and the file here that each is a copy of."""
    with zipfile.ZipFile(wheel) as archive:
        held = {
            name.rpartition("/")[2]: archive.read(name)
            for name in archive.namelist()
            if "/licenses/" in name
        }
    folder = MODELS if wheel.name.startswith("hummingbit_models") else ROOT
    return {
        name: folder / name for name, data in held.items() if data == (folder / name).read_bytes()
    }


def test_a_project_with_folders_of_our_names_uses_it_whole(
    environment: Path, project: Path
) -> None:
    def hummingbit(*arguments: str) -> str:
        return run(str(environment / "hummingbit"), *arguments, cwd=project, PYTHONPATH=".")

    assert hummingbit("--version").startswith("hummingbit ")
    fields = ["--id-field", "key", "--text-field", "body", "--label-field", "topic"]
    hummingbit(
        "train", "lsh", "--data", "notes.csv", "--bits", "64", "--out", "encoders/n", *fields
    )
    hummingbit("index", "build", "notes", "notes.csv", "--encoder", "n", "--data-dir", ".", *fields)
    found = json.loads(hummingbit("search", "notes", "text 3", "--data-dir", ".", "--json"))
    assert len(found["hits"]) == 10
    again = run(
        str(environment / "python"),
        "-m",
        "hummingbit",
        "index",
        "list",
        "--data-dir",
        ".",
        cwd=project,
    )
    assert "notes" in again


def test_a_project_with_folders_of_our_names_imports_the_library(
    environment: Path, project: Path
) -> None:
    code = "from hummingbit import Client, Collection; print(Collection.__name__)"
    assert run(str(environment / "python"), "-c", code, cwd=project) == "Collection\n"


def test_it_serves_the_console_without_torch(environment: Path, project: Path) -> None:
    absent = "import importlib.util; print(importlib.util.find_spec('torch'))"
    assert run(str(environment / "python"), "-c", absent).strip() == "None"
    data = project / "data"
    data.mkdir()
    command = [str(environment / "hummingbit"), "serve", "--data-dir", str(data)]
    command += ["--port", "0", "--create"]
    with subprocess.Popen(command, cwd=project, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            address = process.stdout.readline().split()[-1]
            with client_of(address) as client:
                assert client.get("/readyz").status_code == 200
                page = client.get("/console", follow_redirects=True)
                assert page.status_code == 200
                assert page.headers["content-type"].startswith("text/html")
        finally:
            process.terminate()
