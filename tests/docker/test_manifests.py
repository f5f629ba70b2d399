"""There is no Docker engine and no cluster here: what runs there is linted and read."""

from __future__ import annotations

import re
import stat
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml
from setuptools import find_namespace_packages

from hummingbit.cli import COMMANDS
from hummingbit.service.settings import ENV_PREFIX, Settings, load_settings
from tests.support.folders import INSTALLED

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
    given = of_environment({item["name"] for item in container["env"]}) - {"config"}
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
    for name in ("service", "training", "prometheus"):  # the others extend these, or are servers
        one = compose["services"][name]
        assert one["read_only"] is True
        assert one["cap_drop"] == ["ALL"]
        assert one["security_opt"] == ["no-new-privileges:true"]
        assert all(port.startswith("127.0.0.1:") for port in one.get("ports", []))
    service = compose["services"]["service"]
    assert of_environment(set(service["environment"])) <= set(Settings.model_fields)
    assert "metrics" in compose["services"]["prometheus"]["profiles"]
    server = compose["services"]["postgres"]
    assert server["profiles"] == ["distributed"]
    assert "ports" not in server
    assert "no-new-privileges:true" in server["security_opt"]
    service = compose["services"]["service-on-postgres"]
    assert service["extends"] == {"service": "service"}
    assert of_environment(set(service["environment"])) <= set(Settings.model_fields)


def test_compose_can_give_every_service_its_files() -> None:
    compose = load(ROOT / "docker-compose.yml")
    for name, service in compose["services"].items():
        for kind in ("configs", "secrets"):
            for item in service.get(kind, []):
                source = compose[kind][item if isinstance(item, str) else item["source"]]
                # Compose mounts a `file`. It copies other content into the container, which fails
                # where the file system is read-only.
                copied = {"content", "environment"} & source.keys()
                assert not (service.get("read_only") and copied), (name, source)
                assert copied or (ROOT / source["file"]).is_file()


def test_prometheus_has_the_key_in_the_file_that_it_reads(tmp_path: Path) -> None:
    prometheus = load(ROOT / "docker-compose.yml")["services"]["prometheus"]
    (job,) = load(ROOT / "docker" / "prometheus.yml")["scrape_configs"]
    key_file = Path(job["authorization"]["credentials_file"])
    assert str(key_file.parent) in prometheus["tmpfs"]
    assert set(prometheus["environment"]) == {"HUMMINGBIT_READ_KEY"}
    (script,) = prometheus["command"]
    # Compose writes $ for $$. The file system of the test stands for that of the container.
    script = script.replace("$$", "$").replace(f"{key_file.parent}/", f"{tmp_path}/")
    script = script.replace("/bin/prometheus", "echo")
    done = subprocess.run(
        [*prometheus["entrypoint"], script],
        env={"HUMMINGBIT_READ_KEY": "a %s\\n$key"},
        capture_output=True,
        text=True,
        check=True,
    )
    written = tmp_path / key_file.name
    assert written.read_text() == "a %s\\n$key"
    assert stat.S_IMODE(written.stat().st_mode) == 0o600
    configuration, storage = done.stdout.split()
    assert configuration == f"--config.file={prometheus['configs'][0]['target']}"
    assert storage == f"--storage.tsdb.path={prometheus['volumes'][0].partition(':')[2]}"


def test_training_has_torch_without_cuda_unless_a_gpu_is_asked_for() -> None:
    text = (ROOT / "docker" / "training.Dockerfile").read_text()
    assert re.search(r"^ARG PIP_EXTRA_INDEX_URL=https://\S+/whl/cpu$", text, re.MULTILINE)
    services = load(ROOT / "docker-compose.yml")["services"]
    assert "args" not in services["training"]["build"]
    gpu = services["training-gpu"]
    assert gpu["extends"] == {"service": "training"}
    assert gpu["build"]["args"] == {"PIP_EXTRA_INDEX_URL": ""}
    assert gpu["image"] != services["training"]["image"]


@pytest.mark.parametrize(
    ("labels", "of_namespace", "admitted"),
    [
        ({"hummingbit.client": "true"}, "hummingbit", True),
        ({"hummingbit.client": "true"}, "default", False),
        ({"hummingbit.client": "false"}, "hummingbit", False),
        ({"app.kubernetes.io/name": "prometheus"}, "monitoring", True),
        ({"app.kubernetes.io/name": "prometheus"}, "hummingbit", True),
        ({"app.kubernetes.io/name": "other"}, "monitoring", False),
        ({}, "hummingbit", False),
    ],
)
def test_who_may_connect_on_kubernetes(
    labels: dict[str, str], of_namespace: str, admitted: bool
) -> None:
    kustomization = load(ROOT / "docker" / "kubernetes" / "kustomization.yaml")
    # It would add its labels to the selectors of the pods that may connect.
    assert not any(label.get("includeSelectors") for label in kustomization["labels"])
    policy = load(ROOT / "docker" / "kubernetes" / "networkpolicy.yaml")["spec"]
    (rule,) = policy["ingress"]
    assert [port["port"] for port in rule["ports"]] == [8000]

    def is_admitted(peer: dict[str, Any]) -> bool:
        wanted = peer["podSelector"]["matchLabels"]
        if "namespaceSelector" in peer:
            assert peer["namespaceSelector"] == {}
        elif of_namespace != kustomization["namespace"]:
            return False
        return bool(wanted.items() <= labels.items())

    assert any(map(is_admitted, rule["from"])) is admitted


def test_prometheus_operator_finds_the_service_and_its_key() -> None:
    folder = ROOT / "docker" / "kubernetes"
    monitor = load(folder / "operator" / "servicemonitor.yaml")["spec"]
    (labels,) = load(folder / "kustomization.yaml")["labels"]
    assert monitor["selector"]["matchLabels"] == labels["pairs"]
    (endpoint,) = monitor["endpoints"]
    ports = load(folder / "service.yaml")["spec"]["ports"]
    assert endpoint["port"] in {port["name"] for port in ports}
    pod = load(folder / "statefulset.yaml")["spec"]["template"]
    # A key cannot be in an annotation, and nobody scrapes without one.
    assert "annotations" not in pod["metadata"]
    (container,) = pod["spec"]["containers"]
    secrets = [
        item["valueFrom"]["secretKeyRef"] for item in container["env"] if "valueFrom" in item
    ]
    assert endpoint["authorization"] == {
        "type": "Bearer",
        "credentials": next(secret for secret in secrets if secret["key"] == "read"),
    }


def test_only_our_packages_are_installed() -> None:
    find = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]["packages"]
    found = find_namespace_packages(str(ROOT), **find["find"])
    assert {name.partition(".")[0] for name in found} == {"hummingbit"}


def test_the_image_runs_as_nobody_in_particular() -> None:
    text = (ROOT / "docker" / "service.Dockerfile").read_text()
    assert re.search(r"^USER 10001:10001$", text, re.MULTILINE)
    assert "HEALTHCHECK" in text
    variables = set(re.findall(r"HUMMINGBIT_\w+", text))
    assert of_environment(variables) <= set(Settings.model_fields)


def test_every_package_and_what_builds_it_is_copied_into_the_images() -> None:
    sent = set(re.findall(r"^!([\w.]+)$", (ROOT / ".dockerignore").read_text(), re.MULTILINE))
    for path in DOCKERFILES:
        text = path.read_text()
        assert set(re.findall(r"^COPY (\w+) \w+$", text, re.MULTILINE)) == set(INSTALLED)
        files = re.search(r"^COPY ([\w. ]+) \./$", text, re.MULTILINE)
        assert files is not None
        assert {*INSTALLED, *files[1].split()} <= sent
