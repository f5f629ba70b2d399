"""Loads settings from flags, the environment, a file and the defaults, in this order."""

from __future__ import annotations

import difflib
import os
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import SecretStr, ValidationError
from pydantic_settings import EnvSettingsSource, TomlConfigSettingsSource

from encoder.compiled.forward_pass import VARIABLE
from foundation.errors import HummingbitError
from service.settings import ENV_PREFIX, Settings

CONFIG_VARIABLE = f"{ENV_PREFIX}CONFIG"
# Variables of hummingbit that are not settings of the service.
OTHER_VARIABLES = {
    CONFIG_VARIABLE,
    f"{ENV_PREFIX}DATA",
    f"{ENV_PREFIX}KEY",
    f"{ENV_PREFIX}URL",
    VARIABLE,
}


class SettingsError(HummingbitError, ValueError):
    """A setting is unknown or invalid; the message names the setting and its source."""


@dataclass(frozen=True)
class Configuration:
    """The settings in effect, and the origin of each, such as ``flag --port``."""

    settings: Settings
    origins: Mapping[str, str]


def load_settings(
    flags: Mapping[str, Any] | None = None, config_file: Path | None = None
) -> Configuration:
    """Load the settings; the first source that has one wins: `flags`, environment, file, defaults.

    The file is `config_file`, or else the one that ``HUMMINGBIT_CONFIG`` names, or none.

    Raises:
        SettingsError: if a name is unknown, a value is invalid, or the file cannot be read.
    """
    if config_file is None and (path := os.environ.get(CONFIG_VARIABLE)):
        config_file = Path(path)
    values: dict[str, Any] = {}
    origins: dict[str, str] = dict.fromkeys(Settings.model_fields, "default")
    if config_file is not None:
        values |= _read_file(config_file)
        origins |= dict.fromkeys(values, f"file {config_file}")
    environment = _read_environment()
    values |= environment
    origins |= {name: f"environment {_variable(name)}" for name in environment}
    values |= flags or {}
    origins |= {name: f"flag {flag_of(name)}" for name in flags or {}}
    try:
        return Configuration(Settings(**values), origins)
    except ValidationError as error:
        raise SettingsError(_explain(error, origins)) from None


def flag_of(name: str) -> str:
    """Return the flag of a setting."""
    return "--" + name.replace("_", "-")


def settings_to_toml(configuration: Configuration) -> list[str]:
    """Return the settings in effect as lines of a configuration file, without secrets."""
    lines = []
    for name, field in Settings.model_fields.items():
        value, origin = getattr(configuration.settings, name), configuration.origins[name]
        if isinstance(value, SecretStr):
            entry = f"# {name} is hidden"
        elif value is None:
            entry = f"# {name} is not set"
        else:
            entry = f"{name} = {_toml(value)}"
        lines.append(f"{entry}  # {origin}: {field.description}")
    return lines


def settings_to_json(configuration: Configuration) -> dict[str, dict[str, Any]]:
    """Return the value and the origin of each setting, as JSON.

    A secret has `hidden` in place of its value.
    """
    settings: dict[str, dict[str, Any]] = {}
    values = configuration.settings.model_dump(mode="json")
    for name, origin in configuration.origins.items():
        is_secret = isinstance(getattr(configuration.settings, name), SecretStr)
        settings[name] = {"hidden": True} if is_secret else {"value": values[name]}
        settings[name]["origin"] = origin
    return settings


def _read_file(path: Path) -> dict[str, Any]:
    try:
        with path.open("rb"):  # pydantic's source reads a missing file as an empty one
            source = TomlConfigSettingsSource(Settings, toml_file=path)
    except OSError as error:
        raise SettingsError(f"{path}: {error.strerror or error}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise SettingsError(f"{path}: is not TOML: {error}") from None
    _check_names(source.toml_data, f"{path}: ", Settings.model_fields)
    return source.toml_data


def _read_environment() -> dict[str, Any]:
    known = {_variable(name) for name in Settings.model_fields}
    names = {name for name in os.environ if name.startswith(ENV_PREFIX)} - OTHER_VARIABLES
    _check_names(names, "environment: ", known)
    return EnvSettingsSource(Settings)()


def _check_names(names: Iterable[str], source: str, known: Iterable[str]) -> None:
    for name in sorted(set(names) - set(known)):
        (nearest,) = difflib.get_close_matches(name, known, n=1, cutoff=0.0)
        raise SettingsError(f"{source}{name[:80]!r} is not a setting; did you mean {nearest}?")


def _explain(error: ValidationError, origins: Mapping[str, str]) -> str:
    sentences = []
    for details in error.errors():
        name = str(details["loc"][0])
        message = str(details["msg"]).removeprefix("Value error, ")
        message = message.replace("Input should", "should")
        is_secret = name.endswith(("_key", "_token"))
        value = "" if is_secret else f" is {str(details['input'])[:80]!r}; it"
        sentences.append(f"{origins.get(name, 'settings')}: {name}{value} {message}")
    return "; ".join(sentences)


def _variable(name: str) -> str:
    return f"{ENV_PREFIX}{name.upper()}"


def _toml(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int | float):
        return str(value)
    text = str(value)
    # TOML's literal strings have no escapes, so patterns stay readable.
    return f"'{text}'" if "'" not in text and text.isprintable() else _basic_string(text)


def _basic_string(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return '"' + "".join(c if c.isprintable() else f"\\U{ord(c):08x}" for c in escaped) + '"'
