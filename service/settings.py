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
from typing import Annotated, Any, ClassVar, Literal

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


class Settings(BaseSettings):
    """The settings of the service; ``Settings()`` has the defaults, whatever the environment."""

    model_config = SettingsConfigDict(frozen=True, extra="forbid", env_prefix=ENV_PREFIX)

    data_dir: Path = Field(
        default=Path(), description="the folder that holds encoders/ and collections/"
    )
    create: bool = Field(
        default=False,
        description="create the data folder if it is missing, also beside other files",
    )
    host: str = Field(default="127.0.0.1", description="the address to listen on")
    port: int = Field(default=8000, ge=0, le=65_535, description="the port; 0 for any free one")

    workers: int = Field(
        default=0,
        ge=0,
        le=256,
        description="processes that answer searches, beside one that writes; 0 for a single"
        " process that does both",
    )
    read_only: bool = Field(
        default=False,
        description="serve without writing or locking; follow the service that writes",
    )

    backend: Annotated[Backend, BeforeValidator(check_backend)] = Field(
        default="local",
        description="where collections are stored: local, in data_dir, or on a server, postgres",
    )
    postgres_uri: Annotated[str | None, AfterValidator(_check_postgres_uri)] = Field(
        default=None,
        description="the address of PostgreSQL, postgresql://USER@HOST:PORT/DATABASE, without the"
        " password",
    )
    postgres_password: SecretStr | None = Field(
        default=None,
        description="the password for PostgreSQL (default: that of PGPASSWORD or ~/.pgpass)",
    )

    keys_file: Path | None = Field(
        default=None,
        description="the file with the hashes of the keys (default: keys.json in data_dir)",
    )
    admin_key: Key = Field(default=None, description="a key with the role admin")
    write_key: Key = Field(default=None, description="a key with the role write")
    read_key: Key = Field(default=None, description="a key with the role read")

    max_body_bytes: Count = Field(
        default=1 << 20, description="largest body, except of bulk requests"
    )
    max_bulk_body_bytes: Count = Field(
        default=16 << 20, description="largest body with documents or labelled queries"
    )
    max_snapshot_bytes: Count = Field(
        default=16 << 30, description="largest snapshot that can be uploaded"
    )
    max_response_bytes: Count = Field(
        default=64 << 20, description="largest response; a larger one is refused"
    )
    max_payload_values: Count = Field(
        default=100_000, description="keys, entries and values in the payload of a document"
    )
    max_limit: int = Field(default=MAX_K, ge=1, le=MAX_K, description="hits in a search")

    max_requests: Count = Field(
        default=320, description="requests under way; further ones return 429"
    )
    max_held_bytes: Count = Field(
        default=256 << 20,
        description="large bodies being received, all together; and as many of long responses",
    )
    concurrent_long_reads: Count = Field(
        default=8,
        description="evaluations, encodings and batches at a time; single searches overtake them",
    )
    concurrent_jobs: Count = Field(
        default=1,
        description="long jobs at a time: reindexing, snapshots, compaction, large bulks",
    )
    concurrent_short_jobs: Count = Field(
        default=1, description="short jobs at a time: verifications, small bulks"
    )
    concurrent_analyses: Count = Field(
        default=2,
        description="maps and searches for near-duplicates at a time, and as many evaluations;"
        " one of each key",
    )
    jobs_per_key: Count = Field(
        default=32, description="unfinished jobs of one key; further ones return 429"
    )
    job_bytes_per_key: Count = Field(
        default=512 << 20,
        description="files of one key's jobs; the oldest finished jobs make room",
    )
    kept_jobs: Count = Field(
        default=1000, description="finished jobs of one key that are remembered"
    )
    training: Literal["here", "elsewhere"] = Field(
        default="here",
        description="who trains for retraining jobs: a process of this machine, which needs the"
        " extra train, or `hummingbit label train` elsewhere, on the same data_dir",
    )
    allowed_hosts: str = Field(
        default="",
        description="names that the header Host may have, separated by commas; * for"
        " any (default: any if there are keys, otherwise the names of this machine)",
    )
    cors_origin: str = Field(
        default="",
        description="origins whose web pages may use the service, separated by commas, such as"
        " https://console.example (default: only its own)",
    )
    max_connections: Count = Field(default=1024, description="open connections")
    max_connections_per_address: Count = Field(
        default=256, description="open connections from one address; raise it behind a proxy"
    )
    idle_timeout: Annotated[float, Field(gt=0, le=86_400)] = Field(
        default=30.0, description="seconds in which a client must send the headers of a request"
    )
    write_timeout: Annotated[float, Field(gt=0, le=86_400)] = Field(
        default=30.0,
        description="seconds in which a client must take something of a response, on Linux",
    )
    request_timeout: Seconds = Field(
        default=60.0, description="seconds until a response; 0 for no timeout"
    )
    shutdown_delay: Seconds = Field(
        default=0.0,
        description="seconds from a stop signal, when /readyz turns 503, until the port closes",
    )
    shutdown_grace: Seconds = Field(
        default=25.0, description="seconds that running requests have to finish on shutdown"
    )

    log_level: Literal["debug", "info", "warning", "error"] = Field(
        default="info", description="the lowest level that is logged"
    )
    log_format: Literal["json", "text"] = Field(default="json", description="format of log lines")
    access_log: bool = Field(default=True, description="log a line for every request")
    traces_endpoint: str | None = Field(
        default=None,
        description="the OTLP/HTTP address for OpenTelemetry traces, ending in /v1/traces",
    )

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
