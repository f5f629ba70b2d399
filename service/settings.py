"""The settings of the service, and how flags, environment, file and defaults make them.

The flags of ``hummingbit serve``, the variables ``HUMMINGBIT_…`` and the keys of the configuration
file are derived from the fields of :class:`Settings`.
"""

from __future__ import annotations

import difflib
import os
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, ClassVar

from pydantic import AfterValidator, BeforeValidator, Field, SecretStr, ValidationError
from pydantic_settings import (
    BaseSettings,
    EnvSettingsSource,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
)

from hummingbit.corpus.document import MAX_TEXT_LENGTH
from hummingbit.encoder import endpoint
from hummingbit.encoder.text_features import VARIABLE
from hummingbit.foundation.errors import HummingbitError
from hummingbit.index.data_folder import DataFolderLocation, check_postgres_address
from hummingbit.index.names import MAX_K, Backend, check_backend
from hummingbit.service.declared_settings import (
    DECLARED,
    LogFormat,
    LogLevel,
    Trainer,
    flag_of,
)

ENV_PREFIX = "HUMMINGBIT_"
MIN_KEY_LENGTH = 32


def _check_postgres_uri(uri: str | None) -> str | None:
    if uri is not None:
        try:
            check_postgres_address(uri)
        except ValueError as error:
            raise ValueError(f"{error}, as postgres_password") from None
    return uri


def _check_key(key: SecretStr | None) -> SecretStr | None:
    if key is None:
        return None
    # Files and shells leave a line end behind a key, which no header can carry.
    secret = key.get_secret_value().strip()
    if len(secret) < MIN_KEY_LENGTH:
        raise ValueError(f"must have {MIN_KEY_LENGTH} random characters or more")
    if not (secret.isascii() and secret.isprintable()):
        raise ValueError("must have printable characters of ASCII, which a header can carry")
    return SecretStr(secret)


Count = Annotated[int, Field(ge=1)]
Seconds = Annotated[float, Field(ge=0, le=86_400)]
Key = Annotated[SecretStr | None, AfterValidator(_check_key)]


def _declared(name: str) -> Any:
    """Return the default and the description of a field."""
    declared = DECLARED[name]
    return Field(default=declared.default, description=declared.description)


class Settings(BaseSettings):
    """The settings of the service; ``Settings()`` has the defaults, whatever the environment."""

    model_config = SettingsConfigDict(frozen=True, extra="forbid", env_prefix=ENV_PREFIX)

    data_dir: Path = _declared("data_dir")
    create: bool = _declared("create")
    host: str = _declared("host")
    port: Annotated[int, Field(ge=0, le=65_535)] = _declared("port")

    workers: Annotated[int, Field(ge=0, le=256)] = _declared("workers")
    read_only: bool = _declared("read_only")

    backend: Annotated[Backend, BeforeValidator(check_backend)] = _declared("backend")
    postgres_uri: Annotated[str | None, AfterValidator(_check_postgres_uri)] = _declared(
        "postgres_uri"
    )
    postgres_password: SecretStr | None = _declared("postgres_password")

    keys_file: Path | None = _declared("keys_file")
    admin_key: Key = _declared("admin_key")
    write_key: Key = _declared("write_key")
    read_key: Key = _declared("read_key")

    max_body_bytes: Count = _declared("max_body_bytes")
    max_bulk_body_bytes: Count = _declared("max_bulk_body_bytes")
    max_snapshot_bytes: Count = _declared("max_snapshot_bytes")
    max_response_bytes: Count = _declared("max_response_bytes")
    max_payload_values: Count = _declared("max_payload_values")
    max_limit: Annotated[int, Field(ge=1, le=MAX_K)] = _declared("max_limit")

    max_requests: Count = _declared("max_requests")
    max_held_bytes: Count = _declared("max_held_bytes")
    concurrent_long_reads: Count = _declared("concurrent_long_reads")
    concurrent_jobs: Count = _declared("concurrent_jobs")
    concurrent_short_jobs: Count = _declared("concurrent_short_jobs")
    concurrent_analyses: Count = _declared("concurrent_analyses")
    jobs_per_key: Count = _declared("jobs_per_key")
    job_bytes_per_key: Count = _declared("job_bytes_per_key")
    kept_jobs: Count = _declared("kept_jobs")
    training: Trainer = _declared("training")
    allowed_hosts: str = _declared("allowed_hosts")
    cors_origin: str = _declared("cors_origin")
    max_connections: Count = _declared("max_connections")
    max_connections_per_address: Count = _declared("max_connections_per_address")
    idle_timeout: Annotated[float, Field(gt=0, le=86_400)] = _declared("idle_timeout")
    write_timeout: Annotated[float, Field(gt=0, le=86_400)] = _declared("write_timeout")
    request_timeout: Seconds = _declared("request_timeout")
    shutdown_delay: Seconds = _declared("shutdown_delay")
    shutdown_grace: Seconds = _declared("shutdown_grace")

    log_level: LogLevel = _declared("log_level")
    log_format: LogFormat = _declared("log_format")
    access_log: bool = _declared("access_log")
    traces_endpoint: str | None = _declared("traces_endpoint")

    # Limits that are the same everywhere.

    max_text_length: ClassVar[int] = MAX_TEXT_LENGTH
    max_hits: ClassVar[int] = 100_000
    """Searches in a batch times the largest limit."""
    max_documents: ClassVar[int] = 10_000
    max_searches: ClassVar[int] = 1_000
    max_inputs: ClassVar[int] = 2_048
    """OpenAI's clients send so many."""
    max_queries: ClassVar[int] = 10_000
    concurrent_writes: ClassVar[int] = 8

    @property
    def max_entries(self) -> dict[str, int]:
        """The most entries that a list in a body may have, by the name of its field."""
        return {
            "documents": self.max_documents,
            "searches": self.max_searches,
            "inputs": self.max_inputs,
            "input": self.max_inputs,
            "queries": self.max_queries,
        }

    @property
    def location(self) -> DataFolderLocation:
        """Where the collections are."""
        secret = self.postgres_password
        password = None if secret is None else secret.get_secret_value()
        return DataFolderLocation(self.data_dir, self.backend, self.postgres_uri, password)

    @property
    def keys_path(self) -> Path:
        """The path of the keys file, whether or not the file exists."""
        return self.data_dir / "keys.json" if self.keys_file is None else self.keys_file

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],  # noqa: ARG003 - pydantic-settings' signature
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,  # noqa: ARG003
        dotenv_settings: PydanticBaseSettingsSource,  # noqa: ARG003
        file_secret_settings: PydanticBaseSettingsSource,  # noqa: ARG003
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Take values from the caller only; ``settings`` reads all sources."""
        return (init_settings,)


# Loading, from flags, the environment, a file and the defaults, in this order.


CONFIG_VARIABLE = f"{ENV_PREFIX}CONFIG"
# Variables of hummingbit that are not settings of the service.
OTHER_VARIABLES = {
    CONFIG_VARIABLE,
    f"{ENV_PREFIX}DATA",
    f"{ENV_PREFIX}KEY",
    f"{ENV_PREFIX}MILVUS_TOKEN",
    f"{ENV_PREFIX}MILVUS_URI",  # of earlier versions, with a backend whose error says what to do
    f"{ENV_PREFIX}MODEL",
    f"{ENV_PREFIX}URL",
    VARIABLE,
    endpoint.ALLOWED,
    endpoint.BATCH,
    endpoint.KEY,
    endpoint.TIMEOUT,
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
        with path.open("rb") as file:
            values = tomllib.load(file)
    except OSError as error:
        raise SettingsError(f"{path}: {error.strerror or error}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise SettingsError(f"{path}: is not TOML: {error}") from None
    _check_names(values, f"{path}: ", Settings.model_fields)
    return values


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
