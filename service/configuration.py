"""Where settings come from: flags, then the environment, then a file, then the defaults."""

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

from foundation.errors import HummingbitError
from index.engines.compiled import kernel
from service.settings import ENV_PREFIX, Settings

CONFIG_VARIABLE = f"{ENV_PREFIX}CONFIG"
# Variables of ours that are no settings of the service.
OTHER_VARIABLES = {
    CONFIG_VARIABLE,
    f"{ENV_PREFIX}DATA",
    f"{ENV_PREFIX}KEY",
    f"{ENV_PREFIX}URL",
    kernel.VARIABLE,
}


class SettingsError(HummingbitError, ValueError):
    """A setting is unknown or cannot be; the message names it and where it was given."""


@dataclass(frozen=True)
class Configuration:
    """Settings in effect, and for each where it was given."""

    settings: Settings
    origins: Mapping[str, str]


def load_settings(
    flags: Mapping[str, Any] | None = None, config_file: Path | None = None
) -> Configuration:
    """Put the settings together; what stands first wins: `flags`, environment, file, defaults.

    The file is `config_file`, or else the one that ``HUMMINGBIT_CONFIG`` names, or none.

    Raises:
        SettingsError: if a name is unknown, a value cannot be, or the file cannot be read.
    """
    if config_file is None and (named := os.environ.get(CONFIG_VARIABLE)):
        config_file = Path(named)
    values: dict[str, Any] = {}
    origins: dict[str, str] = dict.fromkeys(Settings.model_fields, "default")
    if config_file is not None:
        values |= _of_file(config_file)
        origins |= dict.fromkeys(values, f"file {config_file}")
    environment = _of_environment()
    values |= environment
    origins |= {name: f"environment {_variable(name)}" for name in environment}
    values |= flags or {}
    origins |= {name: f"flag {flag_of(name)}" for name in flags or {}}
    try:
        return Configuration(Settings(**values), origins)
    except ValidationError as error:
        raise SettingsError(_explained(error, origins)) from None


def flag_of(name: str) -> str:
    """Return the flag of a setting."""
    return "--" + name.replace("_", "-")


def shown(configuration: Configuration) -> list[str]:
    """Write the settings in effect as lines of a configuration file, secrets left out."""
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
    """Return the value and the origin of each setting, ready to be written as JSON.

    Of a secret, `hidden` takes the place of the value.
    """
    found: dict[str, dict[str, Any]] = {}
    values = configuration.settings.model_dump(mode="json")
    for name, origin in configuration.origins.items():
        secret = isinstance(getattr(configuration.settings, name), SecretStr)
        found[name] = {"hidden": True} if secret else {"value": values[name]}
        found[name]["origin"] = origin
    return found


def _of_file(path: Path) -> dict[str, Any]:
    try:
        with path.open("rb"):  # a source takes a file that is not there for an empty one
            source = TomlConfigSettingsSource(Settings, toml_file=path)
    except OSError as error:
        raise SettingsError(f"{path}: {error.strerror or error}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise SettingsError(f"{path}: is not TOML: {error}") from None
    _check_names(source.toml_data, f"{path}: ", Settings.model_fields)
    return source.toml_data


def _of_environment() -> dict[str, Any]:
    known = {_variable(name) for name in Settings.model_fields}
    given = {name for name in os.environ if name.startswith(ENV_PREFIX)} - OTHER_VARIABLES
    _check_names(given, "environment: ", known)
    return EnvSettingsSource(Settings)()


def _check_names(names: Iterable[str], where: str, known: Iterable[str]) -> None:
    for name in sorted(set(names) - set(known)):
        near = difflib.get_close_matches(name, known, n=1, cutoff=0.0)
        raise SettingsError(f"{where}{name[:80]!a} is not a setting; did you mean {near[0]}?")


def _explained(error: ValidationError, origins: Mapping[str, str]) -> str:
    sentences = []
    for one in error.errors():
        name = str(one["loc"][0])
        message = str(one["msg"]).removeprefix("Value error, ").replace("Input should", "should")
        given = "" if name.endswith(("_key", "_token")) else f" is {str(one['input'])[:80]!a}; it"
        sentences.append(f"{origins.get(name, 'settings')}: {name}{given} {message}")
    return "; ".join(sentences)


def _variable(name: str) -> str:
    return f"{ENV_PREFIX}{name.upper()}"


def _toml(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int | float):
        return str(value)
    text = str(value)
    # A literal string has no escapes, so patterns stay readable.
    return f"'{text}'" if "'" not in text and text.isprintable() else _basic_string(text)


def _basic_string(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return '"' + "".join(c if c.isprintable() else f"\\U{ord(c):08x}" for c in escaped) + '"'
