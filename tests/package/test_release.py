"""A release of the next version, up to the upload: built as the workflow does, and then used.

The commands of ``.github/workflows/release.yml`` run in a copy of the repository, for a tag of the
application and one of the encoder that ships. What they build is a folder that pip installs from,
in an environment that has nothing else, and there the commands of the READMEs are run as PyPI would
show them.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from collections.abc import Iterator
from email import message_from_string
from email.message import Message
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.support.commands import run
from tests.support.docs.doc_blocks import blocks_of
from tests.support.service import ROOT, client_of

pytestmark = pytest.mark.package

DISTRIBUTIONS = ("hummingbit", "hummingbit-client", "hummingbit-models")
REPOSITORY = "an-owner/hummingbit"
SERVER = "https://example.org"
TEXTS = """
texts = [f"{subject} {verb} in week {week}" for week in range(20) for subject, verb in (
    ("passport office", "renews"), ("bank", "lends"), ("river", "floods"))]
labels = ["travel", "money", "nature"] * 20
"""
"""What the README's program has of its reader."""


def current_version() -> str:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    return str(project["version"])


def next_version() -> str:
    kept, _, last = current_version().rpartition(".")
    return f"{kept}.{int(last) + 1}"


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of what git has, in which the version is the next one."""
    folder = tmp_path_factory.mktemp("release") / "checkout"
    names = run("git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", cwd=ROOT)
    for name in filter(None, names.split("\0")):
        if (ROOT / name).exists():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, folder / name, follow_symlinks=False)
    old, new = re.escape(current_version()), next_version()
    for name, line in (
        ("pyproject.toml", rf'^(version = "){old}(")$'),
        ("models/pyproject.toml", r'^(version = ")[\d.]+(")$'),
        ("CITATION.cff", rf"^(version: ){old}()$"),
        ("CHANGELOG.md", rf"^(## ){old}()$"),
    ):
        text, times = re.subn(
            line, rf"\g<1>{new}\2", (folder / name).read_text(), flags=re.MULTILINE
        )
        assert times == 1, name
        (folder / name).write_text(text)
    return folder


@pytest.fixture(scope="module")
def jobs() -> dict[str, dict[str, Any]]:
    workflow = yaml.safe_load((ROOT / ".github" / "workflows" / "release.yml").read_text())
    found: dict[str, dict[str, Any]] = workflow["jobs"]
    return found


@pytest.fixture(scope="module")
def packages(
    checkout: Path, jobs: dict[str, dict[str, Any]], tmp_path_factory: pytest.TempPathFactory
) -> Path:
    """The folder of everything that a release of each tag would upload from this system."""
    folder = tmp_path_factory.mktemp("builder")
    run(sys.executable, "-m", "venv", str(folder))
    for job, tag in (("models", f"models-v{next_version()}"), ("sdist", f"v{next_version()}")):
        for command in commands_of(jobs[job]):
            run_step(command, checkout, tag, folder / "bin")
    (sdist,) = (checkout / "dist").glob("hummingbit-[0-9]*.tar.gz")
    # cibuildwheel does this for each system.
    build = ["-m", "build", "--wheel", "--outdir", str(checkout / "dist")]
    with tarfile.open(sdist) as archive:
        archive.extractall(folder, filter="data")
    run(str(folder / "bin" / "python"), *build, str(folder / sdist.name.removesuffix(".tar.gz")))
    run_step("python -m twine check --strict dist/*", checkout, "", folder / "bin")
    return checkout / "dist"


def commands_of(job: dict[str, Any]) -> Iterator[str]:
    """Yield the commands of the steps that a tag runs."""
    for step in job["steps"]:
        if "run" in step:
            assert step.get("if", "startsWith(github.ref").startswith("startsWith(github.ref")
            yield step["run"]


def run_step(command: str, checkout: Path, tag: str, bin_: Path, **variables: str) -> None:
    """Run a command of the workflow as GitHub does, for `tag` and with the Python in `bin_`."""
    run(
        *("bash", "-e", "-o", "pipefail", "-c", command),
        cwd=checkout,
        PATH=f"{bin_}{os.pathsep}{os.environ['PATH']}",
        GITHUB_REF_NAME=tag,
        GITHUB_SERVER_URL=SERVER,
        GITHUB_REPOSITORY=REPOSITORY,
        **variables,
    )


def metadata_of(package: Path) -> Message:
    """Return the metadata that PyPI reads from a wheel or an sdist."""
    if package.suffix == ".whl":
        with zipfile.ZipFile(package) as archive:
            (name,) = [n for n in archive.namelist() if n.endswith(".dist-info/METADATA")]
            return message_from_string(archive.read(name).decode())
    with tarfile.open(package) as archive:
        (name,) = [n for n in archive.getnames() if re.fullmatch(r"[^/]+/PKG-INFO", n)]
        member = archive.extractfile(name)
        assert member is not None
        return message_from_string(member.read().decode())


def test_each_distribution_is_an_sdist_and_a_wheel_of_the_version(packages: Path) -> None:
    found = sorted(metadata_of(package)["Name"] for package in packages.iterdir())
    assert found == sorted(DISTRIBUTIONS * 2)
    assert {metadata_of(package)["Version"] for package in packages.iterdir()} == {next_version()}


def test_a_wheel_without_the_kernel_serves_every_system_and_is_used(
    packages: Path, jobs: dict[str, dict[str, Any]], tmp_path: Path
) -> None:
    job = jobs["wheel-without-kernel"]
    run(sys.executable, "-m", "venv", str(tmp_path / "environment"))
    shutil.copytree(packages, tmp_path / "dist")
    for command in commands_of(job):
        run_step(command, tmp_path, "", tmp_path / "environment" / "bin", **job["env"])
    (wheel,) = (tmp_path / "wheels").iterdir()
    assert wheel.name == f"hummingbit-{next_version()}-py3-none-any.whl"
    with zipfile.ZipFile(wheel) as archive:
        assert [name for name in archive.namelist() if name.endswith((".so", ".c"))] == []


def test_the_metadata_say_what_pypi_shows(packages: Path) -> None:
    for package in packages.iterdir():
        metadata = metadata_of(package)
        assert metadata["License-Expression"] == "Apache-2.0", package.name
        assert "LICENSE" in metadata.get_all("License-File", []), package.name
        classifiers = metadata.get_all("Classifier", [])
        typed = "hummingbit_models" not in package.name
        assert ("Typing :: Typed" in classifiers) is typed, package.name
        assert metadata["Summary"].endswith("."), package.name
        for field in ("Author", "Keywords", "Requires-Python"):
            assert metadata[field], (package.name, field)
        urls = dict(url.split(", ") for url in metadata.get_all("Project-URL", []))
        assert set(urls) == {"Source", "Documentation", "Issues", "Changelog"}, package.name
        assert all(url.startswith(f"{SERVER}/{REPOSITORY}/") for url in urls.values())


def test_every_distribution_holds_the_licence_and_what_it_is_owed_to(packages: Path) -> None:
    licence = (ROOT / "LICENSE").read_bytes()
    for package in packages.iterdir():
        if package.suffix == ".whl":
            with zipfile.ZipFile(package) as archive:
                held = {
                    name.rpartition("/")[2]: archive.read(name)
                    for name in archive.namelist()
                    if "/licenses/" in name
                }
        else:
            with tarfile.open(package) as sdist:
                files = [member for member in sdist.getmembers() if member.name.count("/") == 1]
                held = {
                    Path(member.name).name: file.read()
                    for member in files
                    if (file := sdist.extractfile(member)) is not None
                }
        assert held["LICENSE"] == licence, package.name
        assert ("NOTICE" in held) is ("client" not in package.name), package.name


def test_no_link_of_a_description_is_relative_and_no_command_needs_a_checkout(
    packages: Path,
) -> None:
    for package in packages.iterdir():
        text = str(metadata_of(package).get_payload())
        targets = re.findall(r"\]\(([^)\s]+)\)", text)
        assert [target for target in targets if not target.startswith("https://")] == []
        assert re.findall(r"pip install .*(?:\./|'\.\[| \. )", text) == [], package.name


def test_a_tag_that_is_not_the_version_is_refused(checkout: Path, packages: Path) -> None:
    prepare = [sys.executable, "distributions/prepare.py"]
    done = subprocess.run(
        [*prepare, "v9.9.9", f"{SERVER}/{REPOSITORY}"],
        cwd=checkout,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert "the tag releases 9.9.9, but" in done.stderr
    for name in ("pyproject.toml", "CITATION.cff", "CHANGELOG.md"):
        assert f"{name} has {next_version()}" in done.stderr


@pytest.fixture(scope="module")
def reader(packages: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the READMEs as PyPI shows them, and an environment by their commands."""
    folder = tmp_path_factory.mktemp("reader")
    shutil.copytree(ROOT / "docs", folder / "docs")
    for name in DISTRIBUTIONS:
        (wheel,) = packages.glob(f"{name.replace('-', '_')}-*.whl")
        (folder / f"{name}.md").write_text(str(metadata_of(wheel).get_payload()))
    run(sys.executable, "-m", "venv", str(folder / "environment"))
    # The names are taken from the folder alone, whoever may have them elsewhere; then their
    # requirements from wherever pip is told to look.
    ours = ["--no-index", "--no-deps", "--find-links", str(packages), *DISTRIBUTIONS]
    run(str(folder / "environment" / "bin" / "pip"), "install", "--quiet", *ours)
    for name in DISTRIBUTIONS:
        for line in lines_of(folder, name, "pip install "):
            in_environment(folder, line, PIP_CONSTRAINT=str(ROOT / "constraints.txt"))
    return folder


def lines_of(folder: Path, name: str, start: str) -> list[str]:
    """Return the lines of code in a README that begin so."""
    blocks = blocks_of(str(folder / f"{name}.md"))
    return [line for block in blocks for line in block.text.splitlines() if line.startswith(start)]


def in_environment(folder: Path, command: str, **variables: str) -> str:
    """Run a line as a reader types it, and return what it prints."""
    path = f"{folder / 'environment' / 'bin'}{os.pathsep}{os.environ['PATH']}"
    return run("bash", "-c", command, cwd=folder, PATH=path, **variables)


def test_the_commands_of_the_readme_search_and_serve(reader: Path) -> None:
    (quickstart,) = lines_of(reader, "hummingbit", "hummingbit quickstart ")
    (search,) = lines_of(reader, "hummingbit", "hummingbit search ")
    (curl,) = lines_of(reader, "hummingbit", "curl ")
    program = reader / "environment" / "bin" / quickstart.split()[0]
    command = [str(program), *quickstart.split()[1:], "--port", "0"]
    with subprocess.Popen(command, cwd=reader, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            printed = ""
            while "Serving " not in printed:
                line = process.stdout.readline()
                assert line, printed
                printed += line
            assert re.search(r"^ 1  .+  \d+%$", printed, re.MULTILINE), printed
            address = printed.split()[-1]
            found = in_environment(reader, search.replace("http://127.0.0.1:8000", address))
            assert "deployment.md" in found
            host = address.removeprefix("http://")
            if shutil.which("curl"):
                answer = in_environment(reader, curl.replace("localhost:8000", host))
                assert '"hits":[{"' in answer
            with client_of(address) as client:
                assert client.get("/console", follow_redirects=True).status_code == 200
        finally:
            process.send_signal(signal.SIGINT)
    assert process.returncode in (0, 130, -signal.SIGINT)


def test_the_program_of_the_client_makes_its_collection_and_prints_scores(
    reader: Path, tmp_path: Path
) -> None:
    blocks = blocks_of(str(reader / "hummingbit-client.md"))
    (program,) = [block.text for block in blocks if block.language == "python"]
    hummingbit = str(reader / "environment" / "bin" / "hummingbit")
    command = [hummingbit, "serve", "--create", "--data-dir", str(tmp_path / "data"), "--port", "0"]
    with subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            address = process.stdout.readline().split()[-1]
            (reader / "client.py").write_text(program.replace("http://127.0.0.1:8000", address))
            assert re.fullmatch(r"a \d+\.\d+\n", in_environment(reader, "python client.py"))
        finally:
            process.terminate()


def test_the_program_of_the_readme_trains_and_searches(reader: Path) -> None:
    blocks = blocks_of(str(reader / "hummingbit.md"))
    (program,) = [block.text for block in blocks if block.language == "python"]
    (reader / "program.py").write_text(TEXTS + program)
    assert "passport" in in_environment(reader, "python program.py")
