from __future__ import annotations

import argparse
import json
import re
from pathlib import Path
from typing import Literal, get_args, get_origin

import pytest

from hummingbit.cli import main
from hummingbit.commands.service import add_settings, read_settings
from hummingbit.index.engines import kernel
from hummingbit.service.declared_settings import DECLARED, SECRETS
from hummingbit.service.server import tell_of_missing_kernel
from hummingbit.service.settings import Settings, SettingsError, load_settings, settings_to_toml

KEY = "k" * 32


@pytest.fixture(autouse=True)
def no_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("CONFIG", "DATA_DIR", "PORT"):
        monkeypatch.delenv(f"HUMMINGBIT_{name}", raising=False)


def test_flags_win_over_the_environment_and_that_over_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "hummingbit.toml"
    file.write_text("port = 1\nkept_jobs = 2\njobs_per_key = 3\naccess_log = false\n")
    monkeypatch.setenv("HUMMINGBIT_PORT", "4")
    monkeypatch.setenv("HUMMINGBIT_KEPT_JOBS", "5")
    found = load_settings({"port": "6"}, file)
    settings = found.settings
    assert (settings.port, settings.kept_jobs, settings.jobs_per_key) == (6, 5, 3)
    assert settings.access_log is False
    assert settings.host == "127.0.0.1"
    assert found.origins["port"] == "flag --port"
    assert found.origins["kept_jobs"] == "environment HUMMINGBIT_KEPT_JOBS"
    assert found.origins["jobs_per_key"] == f"file {file}"
    assert found.origins["host"] == "default"
    monkeypatch.setenv("HUMMINGBIT_CONFIG", str(file))
    assert load_settings().settings.jobs_per_key == 3


def test_settings_made_in_a_program_ignore_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HUMMINGBIT_PORT", "4")
    assert Settings().port == 8000


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("prot = 1", r"'prot' is not a setting; did you mean port\?"),
        ("max_body_byte = 1", r"did you mean max_body_bytes\?"),
        ("[limits]\nport = 1", r"'limits' is not a setting"),
        ("port = 'x'", r"file .*: port is 'x'; it should be a valid integer"),
        ("port = 70000", r"port is '70000'; it should be less than or equal to 65535"),
        ("max_hits = 7", r"'max_hits' is not a setting"),
        ("log_format = 'xml'", r"log_format is 'xml'; it should be 'json' or 'text'"),
        ("admin_key = 'short'", r"admin_key must have 32 random characters or more"),
        ("port = ", r"is not TOML"),
    ],
)
def test_what_cannot_be_set_is_named(tmp_path: Path, text: str, message: str) -> None:
    file = tmp_path / "c.toml"
    file.write_text(text)
    with pytest.raises(SettingsError, match=message) as caught:
        load_settings(config_file=file)
    assert str(file) in str(caught.value)
    assert "short" not in str(caught.value)


def test_a_file_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=r"nowhere.toml: No such file"):
        load_settings(config_file=tmp_path / "nowhere.toml")


def test_unknown_variables_are_errors(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HUMMINGBIT_PROT", "1")
    message = r"environment: 'HUMMINGBIT_PROT' is not a setting; did you mean HUMMINGBIT_PORT\?"
    with pytest.raises(SettingsError, match=message):
        load_settings()


def test_what_is_shown_can_be_read_again_and_hides_secrets(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("HUMMINGBIT_ADMIN_KEY", KEY)
    flags = ["--data-dir", str(tmp_path / 'it\'s "here"'), "--no-access-log", "--max-limit", "7"]
    assert main(["config", "show", *flags]) == 0
    printed = capsys.readouterr().out
    assert KEY not in printed
    assert "# admin_key is hidden  # environment HUMMINGBIT_ADMIN_KEY" in printed
    assert "max_limit = 7  # flag --max-limit" in printed
    assert main(["config", "show", *flags, "--json"]) == 0
    as_json = capsys.readouterr().out
    assert KEY not in as_json
    found = json.loads(as_json)
    assert found["max_limit"] == {"value": 7, "origin": "flag --max-limit"}
    assert found["admin_key"] == {"hidden": True, "origin": "environment HUMMINGBIT_ADMIN_KEY"}
    assert set(found) == set(Settings.model_fields)
    file = tmp_path / "settings.toml"
    file.write_text(printed)
    monkeypatch.delenv("HUMMINGBIT_ADMIN_KEY")
    again = load_settings(config_file=file).settings
    expected = Settings(data_dir=Path(flags[1]), access_log=False, max_limit=7)
    assert again == expected
    assert len(settings_to_toml(load_settings())) == len(Settings.model_fields)


def test_a_start_without_the_kernel_says_so_once(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr(kernel, "native", None)
    monkeypatch.setattr(kernel, "built", None)
    assert main(["config", "show", "--data-dir", str(tmp_path)]) == 0
    sentence = "FAISS scans all codes, at a fraction of the speed: the compiled kernel was not"
    assert f"# {sentence}" in capsys.readouterr().out
    tell_of_missing_kernel()
    (warning,) = [record for record in caplog.records if record.levelname == "WARNING"]
    assert sentence in warning.message


def test_every_setting_that_is_no_secret_has_a_flag() -> None:
    parser = argparse.ArgumentParser()
    add_settings(parser)
    flags = {action.dest for action in parser._actions} - {"help", "config"}
    assert flags == set(Settings.model_fields) - set(SECRETS)
    assert [*DECLARED] == [*Settings.model_fields]
    for name, field in Settings.model_fields.items():
        is_choice = get_origin(field.annotation) is Literal
        assert DECLARED[name].choices == (get_args(field.annotation) if is_choice else ())
    assert all(re.search("key|token|password", name) for name in SECRETS)
    parsed = parser.parse_args(["--request-timeout", "2.5", "--no-access-log"])
    assert read_settings(parsed).settings.request_timeout == 2.5
    assert parser.format_help()


def test_checking_finds_what_would_stop_the_service(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    here = ["--data-dir", str(tmp_path)]
    assert main(["config", "check", *here]) == 0
    assert "the settings are valid: 1 set" in capsys.readouterr().out
    assert main(["config", "check", *here, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["given"] == 1
    assert main(["config", "check", *here, "--host", "0.0.0.0"]) == 2  # noqa: S104
    assert "hummingbit keys create" in capsys.readouterr().err
    assert main(["keys", "create", *here, "--role", "read", "--name", "me"]) == 0
    assert main(["config", "check", *here, "--host", "0.0.0.0"]) == 0  # noqa: S104


ROOT = Path(__file__).parents[2]
VARIABLES = {
    name
    for page in (ROOT / "docs").glob("*.md")
    for name in re.findall(r"\bHUMMINGBIT_[A-Z_]+[A-Z]\b", page.read_text(encoding="utf-8"))
}


@pytest.mark.parametrize("name", sorted(VARIABLES))
def test_every_variable_that_the_documentation_names_may_be_set(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(name, "1")
    try:
        load_settings()
    except SettingsError as error:
        # The value may be none of the setting's, or a file that is not there.
        assert "is not a setting" not in str(error)  # noqa: PT017


def test_who_kept_collections_on_milvus_is_told_how_to_move_them(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    move = "hummingbit index import NAME http://HOST:19530 --from milvus"
    here = ["index", "list", "--data-dir", str(tmp_path)]
    with pytest.raises(SystemExit):
        main([*here, "--backend", "milvus"])
    assert move in capsys.readouterr().err
    monkeypatch.setenv("HUMMINGBIT_BACKEND", "milvus")
    monkeypatch.setenv("HUMMINGBIT_MILVUS_URI", "http://milvus:19530")
    with pytest.raises(SystemExit):
        main(here)
    assert move in capsys.readouterr().err
    with pytest.raises(SettingsError, match=re.escape(move)):
        load_settings()
