"""Milvus for tests: the server 2.3.5 (``milvus``), and the core of 2.5 (``milvus-lite`` 2.5.1).

PyPI has none that are later: servers from 2.4 on come as images, and ``milvus-lite`` from 3.0 on is
another program, in Python, which stores no binary vectors.

``python -m tests.support.milvus FOLDER`` runs the server with all of its data in FOLDER, on free
ports, and prints its address. It stops when its standard input ends, so it cannot outlive the
process that started it.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from importlib.util import find_spec
from pathlib import Path

ROOT = Path(__file__).parents[2]
# Polling intervals in milliseconds; with the defaults each test would wait longer.
FAST_SETTINGS = {
    "proxy.timeTickInterval": 20,
    "queryCoord.checkInterval": 100,
    "queryCoord.distPullInterval": 100,
    "indexCoord.scheduler.interval": 100,
    "log.level": "warn",
}
# The embedded etcd ignores Milvus' configuration and uses its usual ports without this file.
ETCD = """
listen-client-urls: http://127.0.0.1:{client}
advertise-client-urls: http://127.0.0.1:{client}
listen-peer-urls: http://127.0.0.1:{peer}
initial-advertise-peer-urls: http://127.0.0.1:{peer}
initial-cluster: default=http://127.0.0.1:{peer}
heartbeat-interval: 300
election-timeout: 3000
unsafe-no-fsync: true
"""
START_SECONDS = 90.0
# On a busy machine the start can fail, because parts of the server time out on one another.
ATTEMPTS = 3


def reason_unavailable() -> str | None:
    """Return why no Milvus server can be started here, or None if one can."""
    if find_spec("pymilvus") is None:
        return "pymilvus is not installed: pip install pymilvus"
    if find_spec("milvus") is None or find_spec("milvus_lite") is None:
        return "no Milvus server here: milvus and milvus-lite 2.5 are for linux x86_64 only"
    return None


@contextmanager
def milvus_server(folder: Path) -> Iterator[str]:
    """Run a server with its data in a folder below `folder`; yield its address."""
    for attempt in range(1, ATTEMPTS + 1):
        own = folder / str(attempt)
        own.mkdir(parents=True)
        with subprocess.Popen(
            [sys.executable, "-m", "tests.support.milvus", str(own)],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            # Control-C reaches only the tests, which then stop this process.
            start_new_session=True,
        ) as process:
            assert process.stdin is not None
            assert process.stdout is not None
            try:
                address = process.stdout.readline().strip()
                if address:
                    yield address
                    return
            finally:
                process.stdin.close()
    raise RuntimeError(f"Milvus did not start; its logs are in {folder}")


@contextmanager
def milvus_core(folder: Path) -> Iterator[str]:
    """Run the core of Milvus 2.5 with its data in `folder`; yield its address."""
    package = find_spec("milvus_lite")
    assert package is not None
    assert package.submodule_search_locations is not None
    libraries = Path(package.submodule_search_locations[0]) / "lib"
    (port,) = _free_ports(1)
    address = f"127.0.0.1:{port}"
    with (folder / "lock").open("w") as lock:
        # The server stops once it can take this lock, so it cannot outlive the tests.
        fcntl.lockf(lock, fcntl.LOCK_EX)
        command = [libraries / "milvus", folder / "milvus.db", address, "ERROR", lock.name]
        environment = {**os.environ, "LD_LIBRARY_PATH": str(libraries)}
        with subprocess.Popen(command, cwd=folder, env=environment) as process:
            try:
                _wait_for(port)
                yield f"http://{address}"
            finally:
                process.kill()


def _wait_for(port: int) -> None:
    """Wait until a server listens."""
    ends = time.monotonic() + START_SECONDS
    while time.monotonic() < ends:
        with suppress(ConnectionRefusedError), socket.create_connection(("127.0.0.1", port)):
            return
        time.sleep(0.05)
    raise RuntimeError("the core of Milvus did not start")


def _run(folder: Path) -> None:
    from milvus import MilvusServer, MilvusServerConfig  # noqa: PLC0415 - not installed everywhere

    config = MilvusServerConfig(data_dir=str(folder))
    names = [name for name in config.configurable_items if name.endswith("_port")]
    web_port, peer_port, *ports = _free_ports(len(names) + 2)
    port_settings = dict(zip(names, ports, strict=True))
    config.update(**port_settings)
    for name, value in FAST_SETTINGS.items():
        config.set(name, value)
    etcd = folder / "etcd.yaml"
    etcd.write_text(ETCD.format(client=port_settings["etcd_port"], peer=peer_port))
    os.environ["ETCD_CONFIG_PATH"] = str(etcd)
    ended = threading.Event()
    server = MilvusServer(config, wait_for_started=False)
    server.webservice_port = web_port
    try:
        server.start()
        # wait_started() would also wait for a server that has exited.
        watch = threading.Thread(target=_exit_with, args=(server.server_proc, ended), daemon=True)
        watch.start()
        server.wait_started(timeout=START_SECONDS * 1000)
        print(f"http://127.0.0.1:{server.listen_port}", flush=True)
        sys.stdin.read()
    finally:
        ended.set()
        server.stop()
    # The data take half a gigabyte and are not needed again.
    shutil.rmtree(folder)


def _exit_with(server: subprocess.Popen[bytes], expected: threading.Event) -> None:
    server.wait()
    if not expected.is_set():
        os._exit(1)


def _free_ports(n: int) -> list[int]:
    with ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(n)]
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in sockets]


if __name__ == "__main__":
    _run(Path(sys.argv[1]))
