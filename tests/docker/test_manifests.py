"""There is no Docker engine and no cluster here: what runs there is linted and read."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

from hummingbit.cli import COMMANDS
from service.configuration import load_settings
from service.settings import ENV_PREFIX, Settings

ROOT = Path(__file__).parents[2]
DOCKERFILES = sorted((ROOT / "docker").glob("*.Dockerfile"))
MANIFESTS = sorted((ROOT / "docker" / "kubernetes").glob("*.yaml"))
RESOURCES = [path for path in MANIFESTS if path.name != "kustomization.yaml"]


def load(path: Path) -> dict[str, Any]:
    content: dict[str, Any] = yaml.safe_load(path.read_text())
    return content


def of_environment(names: set[str]) -> set[str]:
    return {name.removeprefix(ENV_PREFIX).lower() for name in names if name.startswith(ENV_PREFIX)}


@pytest.mark.parametrize("path", DOCKERFILES, ids=lambda path: path.name)
def test_dockerfiles_lint(path: Path) -> None:
    hadolint = Path(sys.executable).with_name("hadolint")
    done = subprocess.run([hadolint, path], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize("path", RESOURCES, ids=lambda path: path.name)
def test_manifests_are_what_kubernetes_takes(path: Path) -> None:
    command = [sys.executable, "-m", "kubernetes_validate", "--strict", "--quiet", str(path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_kustomize_finds_every_manifest() -> None:
    kustomization = load(ROOT / "docker" / "kubernetes" / "kustomization.yaml")
    assert sorted(kustomization["resources"]) == [path.name for path in RESOURCES]


def test_the_pod_may_do_as_little_as_can_be() -> None:
    pod = load(ROOT / "docker" / "kubernetes" / "statefulset.yaml")["spec"]["template"]["spec"]
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert pod["enableServiceLinks"] is False
    (container,) = pod["containers"]
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    given = of_environment({one["name"] for one in container["env"]}) - {"config"}
    assert given <= set(Settings.model_fields)
    assert container["readinessProbe"]["exec"]["command"][1] in COMMANDS


def test_the_settings_of_the_manifests_are_settings(tmp_path: Path) -> None:
    data = load(ROOT / "docker" / "kubernetes" / "configmap.yaml")["data"]
    file = tmp_path / "hummingbit.toml"
    file.write_text(data["hummingbit.toml"])
    settings = load_settings(config_file=file).settings
    assert settings.host == "0.0.0.0"  # noqa: S104 - it is only compared
    spec = load(ROOT / "docker" / "kubernetes" / "statefulset.yaml")["spec"]["template"]["spec"]
    wait = settings.shutdown_delay + settings.shutdown_grace
    assert wait < spec["terminationGracePeriodSeconds"]


def test_the_compose_file_is_as_strict() -> None:
    compose = load(ROOT / "docker-compose.yml")
    for name in ("service", "training", "prometheus"):
        one = compose["services"][name]
        assert one["read_only"] is True
        assert one["cap_drop"] == ["ALL"]
        assert one["security_opt"] == ["no-new-privileges:true"]
        assert all(port.startswith("127.0.0.1:") for port in one.get("ports", []))
    service = compose["services"]["service"]
    assert of_environment(set(service["environment"])) <= set(Settings.model_fields)
    assert "metrics" in compose["services"]["prometheus"]["profiles"]
    for name in ("milvus", "etcd", "minio"):
        one = compose["services"][name]
        assert one["profiles"] == ["distributed"]
        assert "ports" not in one
        assert "no-new-privileges:true" in one["security_opt"]
    service = compose["services"]["service-on-milvus"]
    assert service["extends"] == {"service": "service"}
    assert of_environment(set(service["environment"])) <= set(Settings.model_fields)
    for one in compose["configs"].values():
        assert "file" not in one or (ROOT / one["file"]).is_file()


def test_the_image_runs_as_nobody_in_particular() -> None:
    text = (ROOT / "docker" / "service.Dockerfile").read_text()
    assert re.search(r"^USER 10001:10001$", text, re.MULTILINE)
    assert "HEALTHCHECK" in text
    variables = set(re.findall(r"HUMMINGBIT_\w+", text))
    assert of_environment(variables) <= set(Settings.model_fields)


def test_every_package_is_copied_into_the_images() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    folders = {
        name.rstrip("*") for name in project["tool"]["setuptools"]["packages"]["find"]["include"]
    }
    sent = set(re.findall(r"^!(\w+)$", (ROOT / ".dockerignore").read_text(), re.MULTILINE))
    assert folders <= sent
    for path in DOCKERFILES:
        assert set(re.findall(r"^COPY (\w+) \w+$", path.read_text(), re.MULTILINE)) == folders
