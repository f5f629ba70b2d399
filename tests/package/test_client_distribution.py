"""``hummingbit-client``: it is built from our client, and works where there is only httpx."""

from __future__ import annotations

import json
import subprocess
import sys
import tomllib
import zipfile
from importlib import metadata
from pathlib import Path

import pytest
from typing_extensions import is_typeddict

from hummingbit.service.schemas import responses
from tests.support.commands import run
from tests.support.service import ROOT, make_data_folder, running_service

pytestmark = pytest.mark.package

DISTRIBUTION = ROOT / "distributions" / "hummingbit-client"
PACKAGE = "hummingbit_client"
SOURCES = ROOT / "hummingbit" / "clients"
MODULES = {str(path.relative_to(SOURCES)) for path in SOURCES.rglob("*.py")} | {"responses.py"}

PROGRAM = """
import asyncio, json, sys
from hummingbit_client import AsyncClient, Client, ServiceError

url = sys.argv[1]
documents = [{"id": "a", "text": "apple jam"}, {"id": "b", "text": "bread"}]
with Client(url) as client:
    client.create_collection("c", encoder="words")
    client.upsert("c", documents)
    found = client.search("c", "apple jam", limit=1)
    try:
        client.collection("none")
    except ServiceError as error:
        refused = error.code

async def search():
    async with AsyncClient(url) as client:
        return await client.search("c", "apple jam", limit=1)

print(json.dumps([found, asyncio.run(search()), refused]))
"""

TYPED = """
from hummingbit_client import AsyncClient, Client, SearchHit

with Client("http://127.0.0.1:8000") as client:
    hits: list[SearchHit] = client.search("c", "apple", limit=1)["hits"]
    reveal_type(hits[0]["id"])
    client.search("c", "apple", limit="one")
"""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A wheel, built of an sdist as a release builds it."""
    folder = tmp_path_factory.mktemp("client")
    out = folder / "dist"
    run(sys.executable, "-m", "build", "--no-isolation", "--outdir", str(out), str(DISTRIBUTION))
    (sdist,), (built,) = out.glob("*.tar.gz"), out.glob("*.whl")
    print(f"{sdist.name}: {sdist.stat().st_size / 1e3:.0f} kB")
    print(f"{built.name}: {built.stat().st_size / 1e3:.0f} kB")
    return built


@pytest.fixture(scope="module")
def python(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The interpreter of an environment with the wheel and what it needs, and nothing else."""
    folder = tmp_path_factory.mktemp("environment")
    run(sys.executable, "-m", "venv", str(folder))
    place = folder / "bin" / "python"
    constraints = str(ROOT / "constraints.txt")
    run(str(place), "-m", "pip", "install", "--quiet", "--constraint", constraints, str(wheel))
    return place


def test_every_module_of_the_client_is_in_the_wheel(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        held = {name for name in archive.namelist() if ".dist-info" not in name}
        code = b"".join(archive.read(name) for name in held)
    assert held == {f"{PACKAGE}/{name}" for name in {*MODULES, "py.typed"}}
    assert b"import hummingbit." not in code
    assert b"from hummingbit." not in code


def test_a_checkout_installs_it_with_its_modules_and_version(tmp_path: Path) -> None:
    leftover = DISTRIBUTION / "build" / "lib" / PACKAGE / "of_another_version.py"
    leftover.parent.mkdir(parents=True, exist_ok=True)
    leftover.touch()
    pip = [sys.executable, "-m", "pip", "install", "--no-deps", "--no-build-isolation", "--target"]
    before = run("git", "status", "--porcelain", cwd=ROOT)
    run(*pip, str(tmp_path), "distributions/hummingbit-client", cwd=ROOT)
    (distribution,) = metadata.distributions(name="hummingbit-client", path=[str(tmp_path)])
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    assert distribution.version == version
    installed = tmp_path / PACKAGE
    held = {str(path.relative_to(installed)) for path in installed.rglob("*.py")}
    assert held == MODULES
    program = "import hummingbit_client as c; print(c.__version__, c.Client.__module__)"
    assert version in run(sys.executable, "-P", "-c", program, PYTHONPATH=str(tmp_path))
    assert run("git", "status", "--porcelain", cwd=ROOT) == before


def test_the_types_of_all_responses_are_exported(python: Path) -> None:
    program = "import hummingbit_client as c; print(*(n for n in c.__all__ if hasattr(c, n)))"
    types = {name for name, value in vars(responses).items() if is_typeddict(value)}
    assert len(types) > 70
    assert types <= set(run(str(python), "-c", program).split())


def test_it_needs_httpx_and_nothing_else(python: Path) -> None:
    listed = json.loads(run(str(python), "-m", "pip", "list", "--format", "json"))
    names = {item["name"].lower() for item in listed}
    httpx = {"httpx", "httpcore", "h11", "anyio", "idna", "certifi", "sniffio", "typing_extensions"}
    assert names - httpx - {"pip", "setuptools"} == {"hummingbit-client"}


def test_both_clients_talk_to_a_service(python: Path, tmp_path: Path) -> None:
    # A project with folders of the application's names is not in its way.
    for name in ("index", "service", "encoder"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").write_text("raise RuntimeError('the user\\'s own')\n")
    (tmp_path / "program.py").write_text(PROGRAM)
    with running_service(make_data_folder(tmp_path / "data")) as http:
        printed = run(str(python), "program.py", str(http.base_url), cwd=tmp_path)
    found, awaited, refused = json.loads(printed)
    assert found["hits"] == awaited["hits"]
    assert found["hits"][0]["id"] == "a"
    assert refused == "unknown_collection"


def test_its_types_are_seen(wheel: Path, tmp_path: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(tmp_path)
    (tmp_path / "typed.py").write_text(TYPED)
    command = [sys.executable, "-m", "mypy", "--strict", "--config-file=", "typed.py"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert 'Revealed type is "str"' in done.stdout.replace("builtins.", "")
    assert 'Argument "limit" to "search" of "Client" has incompatible type "str"' in done.stdout
    assert done.stdout.count("error:") == 1
