"""The settings of the service: the default and the description of each, and its choices.

:class:`hummingbit.service.settings.Settings` has their types and bounds. They stand apart from it
because ``--help`` shows them, and pydantic takes three times as long to import as numpy.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, NamedTuple, get_args

from hummingbit.index.names import MAX_K, Backend

Trainer = Literal["here", "elsewhere"]
LogLevel = Literal["debug", "info", "warning", "error"]
LogFormat = Literal["json", "text"]


class Declared(NamedTuple):
    """What is known of a setting beside its type."""

    default: Any
    description: str
    choices: tuple[str, ...] = ()


DECLARED: Mapping[str, Declared] = {
    "data_dir": Declared(Path(), "the folder that holds encoders/ and collections/"),
    "create": Declared(False, "create the data folder if it is missing, also beside other files"),
    "host": Declared("127.0.0.1", "the address to listen on"),
    "port": Declared(8000, "the port; 0 for any free one"),
    "workers": Declared(
        0,
        "processes that answer searches, beside one that writes; 0 for a single"
        " process that does both",
    ),
    "read_only": Declared(
        False, "serve without writing or locking; follow the service that writes"
    ),
    "backend": Declared(
        "local",
        "where collections are stored: local, in data_dir, or on a server, postgres",
        get_args(Backend),
    ),
    "postgres_uri": Declared(
        None,
        "the address of PostgreSQL, postgresql://USER@HOST:PORT/DATABASE, without the password",
    ),
    "postgres_password": Declared(
        None, "the password for PostgreSQL (default: that of PGPASSWORD or ~/.pgpass)"
    ),
    "keys_file": Declared(
        None, "the file with the hashes of the keys (default: keys.json in data_dir)"
    ),
    "admin_key": Declared(None, "a key with the role admin"),
    "write_key": Declared(None, "a key with the role write"),
    "read_key": Declared(None, "a key with the role read"),
    "max_body_bytes": Declared(1 << 20, "largest body, except of bulk requests"),
    "max_bulk_body_bytes": Declared(16 << 20, "largest body with documents or labelled queries"),
    "max_snapshot_bytes": Declared(16 << 30, "largest snapshot that can be uploaded"),
    "max_response_bytes": Declared(64 << 20, "largest response; a larger one is refused"),
    "max_payload_values": Declared(
        100_000, "keys, entries and values in the payload of a document"
    ),
    "max_limit": Declared(MAX_K, "hits in a search"),
    "max_requests": Declared(320, "requests under way; further ones return 429"),
    "max_held_bytes": Declared(
        256 << 20, "large bodies being received, all together; and as many of long responses"
    ),
    "concurrent_long_reads": Declared(
        8, "evaluations, encodings and batches at a time; single searches overtake them"
    ),
    "concurrent_jobs": Declared(
        1, "long jobs at a time: reindexing, snapshots, compaction, large bulks"
    ),
    "concurrent_short_jobs": Declared(1, "short jobs at a time: verifications, small bulks"),
    "concurrent_analyses": Declared(
        2,
        "maps and searches for near-duplicates at a time, and as many evaluations; one of each key",
    ),
    "jobs_per_key": Declared(32, "unfinished jobs of one key; further ones return 429"),
    "job_bytes_per_key": Declared(
        512 << 20, "files of one key's jobs; the oldest finished jobs make room"
    ),
    "kept_jobs": Declared(1000, "finished jobs of one key that are remembered"),
    "training": Declared(
        "here",
        "who trains for retraining jobs: a process of this machine, which needs the"
        " extra train, or `hummingbit label train` elsewhere, on the same data_dir",
        get_args(Trainer),
    ),
    "allowed_hosts": Declared(
        "",
        "names that the header Host may have, separated by commas; * for"
        " any (default: any if there are keys, otherwise the names of this machine)",
    ),
    "cors_origin": Declared(
        "",
        "origins whose web pages may use the service, separated by commas, such as"
        " https://console.example (default: only its own)",
    ),
    "max_connections": Declared(1024, "open connections"),
    "max_connections_per_address": Declared(
        256, "open connections from one address; raise it behind a proxy"
    ),
    "idle_timeout": Declared(30.0, "seconds in which a client must send the headers of a request"),
    "write_timeout": Declared(
        30.0, "seconds in which a client must take something of a response, on Linux"
    ),
    "request_timeout": Declared(60.0, "seconds until a response; 0 for no timeout"),
    "shutdown_delay": Declared(
        0.0, "seconds from a stop signal, when /readyz turns 503, until the port closes"
    ),
    "shutdown_grace": Declared(25.0, "seconds that running requests have to finish on shutdown"),
    "log_level": Declared("info", "the lowest level that is logged", get_args(LogLevel)),
    "log_format": Declared("json", "format of log lines", get_args(LogFormat)),
    "access_log": Declared(True, "log a line for every request"),
    "traces_endpoint": Declared(
        None, "the OTLP/HTTP address for OpenTelemetry traces, ending in /v1/traces"
    ),
}
SECRETS = ("admin_key", "write_key", "read_key", "postgres_password")
"""These have no flags, because anybody who lists the machine's processes can read flags."""


def flag_of(name: str) -> str:
    """Return the flag of a setting."""
    return "--" + name.replace("_", "-")
