"""A Milvus server of the tests' own: the one that the package ``milvus`` carries.

``python -m tests.support.milvus FOLDER`` runs it with all of its data in FOLDER, on ports that are
free, prints its address and stops it when its own standard input ends, as it does however the
process that holds the other end comes to its end.
"""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from importlib.util import find_spec
from pathlib import Path

ROOT = Path(__file__).parents[2]
# What a server waits by default before it looks again; a test would wait as long each time.
IMPATIENCE = {
    "proxy.timeTickInterval": 20,
    "queryCoord.checkInterval": 100,
    "queryCoord.distPullInterval": 100,
    "indexCoord.scheduler.interval": 100,
    "log.level": "warn",
}
# The etcd within the server listens on its usual ports, whatever the configuration of Milvus says.
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
# On a machine that is busy, parts of the server give one another up while they start.
ATTEMPTS = 3


def why_not() -> str | None:
    """Say why no Milvus server can be started here; None where one can."""
    if find_spec("pymilvus") is None:
        return "pymilvus is not installed: pip install 'hummingbit[milvus]'"
    if find_spec("milvus") is None:
        return "no Milvus server here: the package milvus is for linux x86_64 only"
    return None


@contextmanager
def milvus_server(folder: Path) -> Iterator[str]:
    """Run a server with its data in a folder below `folder` and lend its address."""
    for attempt in range(1, ATTEMPTS + 1):
        own = folder / str(attempt)
        own.mkdir(parents=True)
        with subprocess.Popen(
            [sys.executable, "-m", "tests.support.milvus", str(own)],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            # Control-C is for the tests, which then end this process themselves.
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


def _run(folder: Path) -> None:
    from milvus import MilvusServer, MilvusServerConfig  # noqa: PLC0415 - not installed everywhere

    config = MilvusServerConfig(data_dir=str(folder))
    names = [name for name in config.configurable_items if name.endswith("_port")]
    web_port, peer_port, *ports = _free_ports(len(names) + 2)
    given = dict(zip(names, ports, strict=True))
    config.update(**given)
    for name, value in IMPATIENCE.items():
        config.set(name, value)
    etcd = folder / "etcd.yaml"
    etcd.write_text(ETCD.format(client=given["etcd_port"], peer=peer_port))
    os.environ["ETCD_CONFIG_PATH"] = str(etcd)
    ended = threading.Event()
    server = MilvusServer(config, wait_for_started=False)
    server.webservice_port = web_port
    try:
        server.start()
        # It would wait for a server that has ended as for one that is slow.
        watch = threading.Thread(target=_end_with, args=(server.server_proc, ended), daemon=True)
        watch.start()
        server.wait_started(timeout=START_SECONDS * 1000)
        print(f"http://127.0.0.1:{server.listen_port}", flush=True)
        sys.stdin.read()
    finally:
        ended.set()
        server.stop()
    # Half a gigabyte, and nothing in it that a test has not seen.
    shutil.rmtree(folder)


def _end_with(server: subprocess.Popen[bytes], expected: threading.Event) -> None:
    server.wait()
    if not expected.is_set():
        os._exit(1)


def _free_ports(n: int) -> list[int]:
    with ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(n)]
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [one.getsockname()[1] for one in sockets]


if __name__ == "__main__":
    _run(Path(sys.argv[1]))
