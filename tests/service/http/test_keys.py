from __future__ import annotations

import hashlib
import json
import os
import sqlite3
import stat
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest
from pydantic import SecretStr

from hummingbit.cli import main
from hummingbit.service.http.admission import Keyring
from hummingbit.service.http.keys import (
    KeysError,
    Role,
    create_key,
    hash_key,
    read_keys,
    revoke_key,
)
from hummingbit.service.settings import Settings


def test_a_key_is_kept_as_its_hash_in_a_file_of_its_owner(tmp_path: Path) -> None:
    path = tmp_path / "keys.json"
    key = create_key(path, "ci", "write")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert key not in path.read_text()
    (stored,) = read_keys(path)
    assert (stored.name, stored.role) == ("ci", "write")
    assert stored.sha256 == hashlib.sha256(key.encode()).hexdigest()
    assert len(key) >= 43
    assert create_key(path, "other", "write") != key


def test_roles_of_keys(tmp_path: Path) -> None:
    path = tmp_path / "keys.json"
    keys = {role: create_key(path, role, role) for role in ("read", "write", "admin")}
    fixed = "f" * 32
    ring = Keyring(Settings(data_dir=tmp_path, write_key=SecretStr(fixed)))
    assert ring.is_required
    assert ring.role_of(keys["read"]) is Role.READ
    assert ring.role_of(keys["write"]) is ring.role_of(fixed) is Role.WRITE
    assert ring.role_of(keys["admin"]) is Role.ADMIN
    for wrong in (None, "", keys["read"] + "x", keys["read"][:-1], "\ud800", "ä"):
        assert ring.role_of(wrong) is Role.NOBODY


def test_keys_come_and_go_while_the_service_runs(tmp_path: Path) -> None:
    ring = Keyring(Settings(data_dir=tmp_path))
    path = tmp_path / "keys.json"
    assert not ring.is_required
    assert ring.role_of(None) is Role.ADMIN
    key = create_key(path, "first", "read")
    assert ring.role_of(key) is Role.READ
    assert ring.role_of(None) is Role.NOBODY
    revoke_key(path, "first")
    assert ring.role_of(key) is Role.NOBODY
    assert ring.is_required, "revoking the last key must not open the service to everybody"
    path.write_text("damaged")
    assert ring.role_of(key) is ring.role_of(None) is Role.NOBODY
    path.unlink()
    assert ring.role_of(None) is Role.NOBODY


def test_names_are_unique_and_plain(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "keys.json"
    create_key(path, "ci", "read")
    before = path.read_text()
    with pytest.raises(KeysError, match="there is a key named 'ci'"):
        create_key(path, "ci", "admin")
    for name in ("", "a b", "-x", "x" * 65, "a\n"):
        with pytest.raises(KeysError, match="name is"):
            create_key(path, name, "read")
    with pytest.raises(KeysError, match="there is no key named 'me'; there are: ci"):
        revoke_key(path, "me")
    assert path.read_text() == before
    left = {item.name: stat.S_IMODE(item.stat().st_mode) for item in path.parent.iterdir()}
    assert left == {"keys.json": 0o600, "keys.json.lock": 0o600}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "is not a keys file"),
        ("[]", "is not a keys file"),
        (json.dumps({"keys": [{"name": "a", "role": "root", "sha256": "0" * 64}]}), "role"),
        (json.dumps({"keys": [], "more": 1}), "more"),
    ],
)
def test_damaged_files_are_refused(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "keys.json"
    path.write_text(text)
    with pytest.raises(KeysError, match=message):
        read_keys(path)
    with pytest.raises(KeysError, match=message):
        Keyring(Settings(data_dir=tmp_path))


def test_a_file_that_others_may_write_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "keys.json"
    create_key(path, "a", "read")
    path.chmod(0o622)
    with pytest.raises(KeysError, match="chmod 600"):
        read_keys(path)
    path.chmod(0o440)  # as a mounted secret has it
    assert len(read_keys(path)) == 1


def test_a_file_that_becomes_unreadable_is_logged(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "keys.json"
    key = create_key(path, "one", "read")
    keyring = Keyring(Settings(data_dir=tmp_path))
    assert keyring.role_of(key) is Role.READ
    path.write_text("{")
    for _ in range(3):
        assert keyring.role_of(key) is Role.NOBODY
    (record,) = caplog.records
    assert record.levelname == "ERROR"
    assert "is not a keys file" in record.getMessage()
    assert key not in record.getMessage()


def test_a_fifo_in_place_of_the_file_keeps_nobody_waiting(tmp_path: Path) -> None:
    path = tmp_path / "keys.json"
    os.mkfifo(path, 0o600)
    with pytest.raises(KeysError, match="is not a file"):
        Keyring(Settings(data_dir=tmp_path))
    path.unlink()
    key = create_key(path, "one", "read")
    keyring = Keyring(Settings(data_dir=tmp_path))
    path.unlink()
    os.mkfifo(path, 0o600)
    assert keyring.role_of(key) is Role.NOBODY
    assert keyring.is_required


def test_the_commands(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    here = ["--data-dir", str(tmp_path)]
    assert main(["keys", "create", *here, "--role", "write", "--name", "ci"]) == 0
    printed = capsys.readouterr()
    assert printed.out.startswith("hb_write_")
    assert printed.out.count("\n") == 1
    assert main(["keys", "list", *here]) == 0
    listed = capsys.readouterr().out
    assert listed.split()[:2] == ["ci", "write"]
    assert printed.out.strip() not in listed
    assert main(["keys", "list", *here, "--json"]) == 0
    listed = capsys.readouterr().out
    (one,) = json.loads(listed)["keys"]
    assert (one["name"], one["role"], set(one)) == ("ci", "write", {"name", "role", "created"})
    assert printed.out.strip() not in listed
    assert main(["keys", "create", *here, "--role", "read", "--name", "more", "--json"]) == 0
    made = json.loads(capsys.readouterr().out)
    assert made["key"].startswith("hb_read_")
    assert main(["keys", "revoke", *here, "--name", "more", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {"name": "more", "revoked": True}
    assert main(["keys", "revoke", *here, "--name", "ci"]) == 0
    assert main(["keys", "revoke", *here, "--name", "ci"]) == 2
    assert "there is no key named 'ci'" in capsys.readouterr().err
    elsewhere = ["--keys-file", str(tmp_path / "elsewhere.json")]
    assert main(["keys", "create", *elsewhere, "--role", "read", "--name", "x"]) == 0
    assert len(read_keys(tmp_path / "elsewhere.json")) == 1


def test_changes_at_once_are_all_kept(tmp_path: Path) -> None:
    path = tmp_path / "keys.json"
    n = 4
    for number in range(n):
        create_key(path, f"old-{number}", "read")
    # Each process changes the keys as its command would, and loads less.
    module = "import sys, pathlib; from hummingbit.service.http.keys import create_key, revoke_key"
    revoke = f"{module}; revoke_key(pathlib.Path(sys.argv[1]), sys.argv[2])"
    create = f"{module}; print(create_key(pathlib.Path(sys.argv[1]), sys.argv[2], 'read'))"
    changes = [(revoke, f"old-{number}") for number in range(n)]
    changes += [(create, f"made-{number}") for number in range(n)]
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", program, str(path), name],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        for program, name in changes
    ]
    printed = [(*process.communicate(), process.returncode) for process in processes]
    assert [status for _, _, status in printed] == [0] * len(changes), printed
    keys = [out.decode().strip() for out, _, _ in printed[n:]]
    stored = {key.name: key.sha256 for key in read_keys(path)}
    assert stored == {f"made-{n}": hash_key(key) for n, key in enumerate(keys)}


def test_a_change_waits_for_another_and_says_what_it_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "keys.json"
    create_key(path, "ci", "read")
    before = path.read_text()
    with closing(sqlite3.connect(tmp_path / "keys.json.lock", isolation_level=None)) as other:
        other.execute("BEGIN EXCLUSIVE")
        monkeypatch.setattr("hummingbit.service.http.keys.LOCK_TIMEOUT", 0.0)
        for change in (lambda: create_key(path, "x", "read"), lambda: revoke_key(path, "ci")):
            with pytest.raises(KeysError, match="another process has been changing it"):
                change()
    assert path.read_text() == before
    revoke_key(path, "ci")


def test_a_killed_change_leaves_nothing_in_the_way(tmp_path: Path) -> None:
    path = tmp_path / "keys.json"
    (tmp_path / "keys.json.partial").write_text("half")
    (tmp_path / "keys.json.partial").chmod(0o644)
    create_key(path, "ci", "read")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert [key.name for key in read_keys(path)] == ["ci"]
    assert not (tmp_path / "keys.json.partial").exists()


def test_a_revocation_lasts_through_a_power_cut(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "keys.json"
    create_key(path, "gone", "read")
    seen: list[tuple[str, bool]] = []
    sync = os.fsync

    def fsync(descriptor: int) -> None:
        kind = "folder" if stat.S_ISDIR(os.fstat(descriptor).st_mode) else "file"
        seen.append((kind, "gone" in path.read_text()))
        sync(descriptor)

    monkeypatch.setattr(os, "fsync", fsync)
    revoke_key(path, "gone")
    # The new file is synced before it takes the old one's place, and the place after that.
    assert seen == [("file", True), ("folder", False)]
