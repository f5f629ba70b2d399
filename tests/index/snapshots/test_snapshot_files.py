from __future__ import annotations

import io
import json
import sqlite3
import tarfile
import threading
import tracemalloc
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from hashlib import sha256
from pathlib import Path

import pytest

from hummingbit.corpus.document import Document
from hummingbit.encoder.artifact import write_artifact
from hummingbit.foundation.errors import InputError
from hummingbit.index.backend import CollectionBackend
from hummingbit.index.catalog import AddAlias
from hummingbit.index.collection import Collection
from hummingbit.index.data_folder import DataFolder
from hummingbit.index.errors import (
    CollectionExists,
    DataFolderError,
    EncoderMismatch,
    InvalidSnapshot,
    SnapshotError,
    StoreFull,
    UnknownCollection,
    UnknownSnapshot,
)
from hummingbit.index.filters import parse_filter
from hummingbit.index.records import Query
from hummingbit.index.snapshots import RECORD, STORE, TAR
from hummingbit.index.store.columns import ColumnReader
from tests.support.encoders import random_texts, text_encoder
from tests.support.faults.disks import fill as fill_disk
from tests.support.faults.disks import small_disk


def fill(path: Path) -> None:
    """Make a data folder with an encoder ``words`` and a collection ``recipes`` of 30 texts."""
    write_artifact(path / "encoders" / "words", text_encoder(16), random_texts(8))
    with DataFolder(path, writable=True) as folder:
        collection = folder.create_collection("recipes", encoder="words")
        collection.upsert(
            Document(id=f"d{at}", text=text, payload={"at": at})
            for at, text in enumerate(random_texts(30))
        )
        collection.delete(["d3"])


def held(collection: CollectionBackend) -> list[tuple[object, ...]]:
    return [
        (document.id, document.row, document.code, document.text, document.payload)
        for document in collection.all_documents()
    ]


def snapshot_of(path: Path) -> Path:
    """Make a snapshot and return its file."""
    with DataFolder(path, writable=True) as folder:
        return folder.snapshots.file(folder.create_snapshot("recipes").id)


@pytest.fixture
def data(tmp_path: Path) -> Path:
    fill(tmp_path / "data")
    return tmp_path / "data"


def test_a_snapshot_is_restored_on_another_machine_with_its_encoder(
    data: Path, tmp_path: Path
) -> None:
    tar = snapshot_of(data)
    with (
        DataFolder(data, writable=False) as before,
        DataFolder(tmp_path / "other", writable=True) as other,
    ):
        restored = other.restore_snapshot(tar, "again")
        original = before.collection("recipes")
        assert restored.name == "again"
        assert restored.encoder_fingerprint == original.encoder_fingerprint
        assert restored.generation == original.generation == 2
        assert held(restored) == held(original)
        queries = [Query(text=text) for text in random_texts(5, seed=1)]
        assert restored.search(queries, 10).hits == original.search(queries, 10).hits
        assert restored.verify().problems == []
        # Rows go on where they were, so none is given twice.
        restored.upsert([Document(id="d3", text="bread")])
        assert held(restored)[-1][:2] == ("d3", 31)
    with DataFolder(tmp_path / "other", writable=False) as other:
        assert len(other.collection("again")) == 30


def test_snapshots_are_listed_described_and_deleted(data: Path) -> None:
    with DataFolder(data, writable=True) as folder:
        first, second = folder.create_snapshot("recipes"), folder.create_snapshot("recipes")
        snapshots = folder.snapshots
        assert snapshots.all() == [first, second] == snapshots.all("recipes")
        assert snapshots.all("others") == []
        assert snapshots.get(first.id) == first
        assert (first.contents.documents, first.contents.generation) == (29, 2)
        assert (first.contents.collection, first.contents.encoder) == ("recipes", "words")
        assert snapshots.file(first.id).stat().st_size == first.bytes
        snapshots.delete(first.id)
        assert snapshots.all() == [second]
        for missing in (first.id, "../recipes", "", "snapshot.tar"):
            with pytest.raises(UnknownSnapshot, match="there is no snapshot"):
                snapshots.get(missing)
            with pytest.raises(UnknownSnapshot):
                snapshots.delete(missing)
        with pytest.raises(UnknownCollection):
            folder.create_snapshot("others")


def test_what_a_crash_leaves_of_a_snapshot_is_deleted(data: Path) -> None:
    left = data / "snapshots" / "0123456789abcdef.partial"
    left.mkdir(parents=True)
    (left / "snapshot.tar").write_bytes(b"half")
    with DataFolder(data, writable=True) as folder:
        assert folder.snapshots.all() == []
    assert not left.exists()


def test_the_file_of_a_snapshot_is_taken_in_elsewhere(data: Path, tmp_path: Path) -> None:
    tar = snapshot_of(data)
    with (
        DataFolder(data, writable=False) as before,
        DataFolder(tmp_path / "other", writable=True) as other,
    ):
        (made,) = before.snapshots.all()
        added = other.snapshots.add(tar)
        assert (added.contents, added.bytes, added.sha256) == (
            made.contents,
            made.bytes,
            made.sha256,
        )
        assert other.snapshots.all() == [added]
        assert other.snapshots.add(tar) == added
        assert other.encoders.names() == []
        restored = other.restore_snapshot(other.snapshots.file(added.id), "again")
        assert held(restored) == held(before.collection("recipes"))
        (folder,) = (tmp_path / "other" / "snapshots").iterdir()
        assert sorted(path.name for path in folder.iterdir()) == [RECORD, TAR]


def test_a_file_that_is_linked_takes_no_room(data: Path, tmp_path: Path) -> None:
    tar = snapshot_of(data)
    with DataFolder(tmp_path / "other", writable=True) as other:
        added = other.snapshots.add(tar, link=True)
        assert other.snapshots.file(added.id).samefile(tar)
        other.snapshots.delete(added.id)
        assert tar.exists()


def test_a_snapshot_holds_one_moment_while_writes_go_on(data: Path) -> None:
    """Documents are written in pairs, so every moment has as many of the one kind as the other."""
    with DataFolder(data, writable=True) as folder:
        collection = folder.create_collection("pairs", n_bits=16)
        done = threading.Event()

        def write() -> None:
            for at in range(10_000):
                pair = [Document(id=f"{kind}{at % 300}", code="00ff") for kind in "ab"]
                collection.upsert(pair)
                if done.is_set():
                    return

        writer = threading.Thread(target=write)
        writer.start()
        try:
            made = [folder.create_snapshot("pairs") for _ in range(5)]
        finally:
            done.set()
            writer.join()
        generations = [item.contents.generation for item in made]
        assert generations == sorted(generations)
        for at, one in enumerate(made):
            restored = folder.restore_snapshot(folder.snapshots.file(one.id), f"pairs{at}")
            ids = [document.id for document in restored.all_documents()]
            assert {id_[1:] for id_ in ids if id_[0] == "a"} == {
                id_[1:] for id_ in ids if id_[0] == "b"
            }
            assert (restored.generation, len(restored)) == (
                one.contents.generation,
                one.contents.documents,
            )


def test_the_encoder_is_taken_that_has_the_fingerprint(data: Path, tmp_path: Path) -> None:
    tar = snapshot_of(data)
    other = tmp_path / "other"
    write_artifact(other / "encoders" / "mine", text_encoder(16), random_texts(8))
    write_artifact(other / "encoders" / "words", text_encoder(16, seed=1), random_texts(8))
    with DataFolder(other, writable=True) as folder:
        assert folder.restore_snapshot(tar, "again").encoder_name == "mine"
        assert folder.encoders.names() == ["mine", "words"]
    third = tmp_path / "third"
    write_artifact(third / "encoders" / "words", text_encoder(16, seed=1), random_texts(8))
    with DataFolder(third, writable=True) as folder:
        with pytest.raises(EncoderMismatch, match="another encoder 'words'"):
            folder.restore_snapshot(tar, "again")
        assert list(folder.collections()) == []
    assert list((third / "collections").iterdir()) == []


def test_a_name_that_is_taken_or_cannot_be_is_refused(data: Path) -> None:
    tar = snapshot_of(data)
    with DataFolder(data, writable=True) as folder:
        with pytest.raises(CollectionExists, match="'recipes' already exists"):
            folder.restore_snapshot(tar, "recipes")
        with pytest.raises(InputError, match=r"name: is '\.\./x'"):
            folder.restore_snapshot(tar, "../x")
        assert list(folder.collections()) == ["recipes"]
    with DataFolder(data, writable=False) as folder:
        with pytest.raises(DataFolderError, match="not open for writing"):
            folder.create_snapshot("recipes")
        with pytest.raises(DataFolderError, match="not open for writing"):
            folder.restore_snapshot(tar, "again")


def members(tar: Path) -> dict[str, bytes]:
    with tarfile.open(tar) as archive:
        files = [(member.name, archive.extractfile(member)) for member in archive]
        return {name: file.read() for name, file in files if file is not None}


def tar_of(path: Path, contents: dict[str, bytes], *others: tarfile.TarInfo) -> Path:
    with tarfile.open(path, "w") as archive:
        for name, raw in contents.items():
            member = tarfile.TarInfo(name)
            member.size = len(raw)
            archive.addfile(member, io.BytesIO(raw))
        for member in others:
            archive.addfile(member)
    return path


def changed(whole: dict[str, bytes], **fields: object) -> dict[str, bytes]:
    record = {**json.loads(whole[RECORD]), **fields}
    return {**whole, RECORD: json.dumps(record).encode()}


def link(name: str, target: str) -> tarfile.TarInfo:
    member = tarfile.TarInfo(name)
    member.type, member.linkname = tarfile.SYMTYPE, target
    return member


def test_a_file_that_is_no_whole_snapshot_is_refused(data: Path, tmp_path: Path) -> None:
    tar = snapshot_of(data)
    whole = members(tar)
    record = json.loads(whole[RECORD])
    other_encoder = {**whole, "encoder/weights.safetensors": b"x"}
    attacks = {
        "'../evil' does not belong in a snapshot": tar_of(
            tmp_path / "a", {**whole, "../evil": b"x"}
        ),
        "'/etc/evil' does not belong in a snapshot": tar_of(
            tmp_path / "b", {**whole, "/etc/evil": b"x"}
        ),
        "'encoder/../../evil.json' does not belong in a snapshot": tar_of(
            tmp_path / "c", {**whole, "encoder/../../evil.json": b"x"}
        ),
        "'encoder/more.json' is not a plain file": tar_of(
            tmp_path / "d", whole, link("encoder/more.json", "/etc/passwd")
        ),
        "the snapshot holds 'encoder/encoder.json' twice": tar_of(
            tmp_path / "e", whole, tarfile.TarInfo("encoder/encoder.json")
        ),
        "holds too many files": tar_of(
            tmp_path / "l", whole | {f"encoder/e{at}.json": b"" for at in range(30)}
        ),
        "n_bits.* must be whole numbers": tar_of(tmp_path / "m", changed(whole, n_bits="16")),
        "must be strings": tar_of(tmp_path / "n", changed(whole, encoder=None)),
        "encoder is '../x'": tar_of(tmp_path / "o", changed(whole, encoder="../x")),
        "collection is 'A'": tar_of(tmp_path / "p", changed(whole, collection="A")),
        "Invalid isoformat": tar_of(tmp_path / "q", changed(whole, created="now")),
        "holds 29 documents": tar_of(tmp_path / "r", changed(whole, documents=30)),
        "does not match its SHA-256": tar_of(
            tmp_path / "f", {**whole, STORE: whole[STORE][:-1] + b"\1"}
        ),
        "it holds no snapshot.json": tar_of(tmp_path / "g", {STORE: whole[STORE]}),
        "it holds no store.sqlite": tar_of(tmp_path / "h", {RECORD: whole[RECORD]}),
        "format version 9": tar_of(
            tmp_path / "i", {**whole, RECORD: json.dumps({**record, "format_version": 9}).encode()}
        ),
        "n_bits=24.* does not match its store": tar_of(
            tmp_path / "j", {**whole, RECORD: json.dumps({**record, "n_bits": 24}).encode()}
        ),
        "the snapshot's encoder": tar_of(tmp_path / "k", other_encoder),
        "cannot be read": tmp_path / "no such file",
    }
    (tmp_path / "text").write_bytes(b"this is no archive" * 100)
    attacks["cannot be read: .*"] = tmp_path / "text"
    (tmp_path / "half").write_bytes(tar.read_bytes()[: tar.stat().st_size // 2])
    attacks["unexpected end of data"] = tmp_path / "half"
    with DataFolder(tmp_path / "other", writable=True) as folder:
        for message, attack in attacks.items():
            with pytest.raises(SnapshotError, match=message):
                folder.restore_snapshot(attack, "again")
            with pytest.raises(SnapshotError):
                folder.snapshots.add(attack)
        assert list(folder.collections()) == folder.encoders.names() == []
        assert folder.snapshots.all() == []
    for name in ("collections", "snapshots"):
        assert list((tmp_path / "other" / name).iterdir()) == []
    assert not (tmp_path / "evil").exists()


@pytest.mark.parametrize(
    ("statement", "message"),
    [
        (
            "CREATE TRIGGER t AFTER INSERT ON documents BEGIN SELECT 1; END",
            "does not have the tables",
        ),
        ("CREATE VIEW v AS SELECT 1", "does not have the tables"),
        (
            "UPDATE documents SET text = 'other' WHERE row = 5",
            "'d4' .* does not match its checksum",
        ),
        ("DELETE FROM removed", "damaged"),
        ("DELETE FROM meta WHERE key = 'n_bits'", "damaged"),
        ("UPDATE meta SET value = 'many' WHERE key = 'documents'", "damaged"),
        ("DELETE FROM meta WHERE key = 'generation'", "damaged"),
        ("UPDATE meta SET value = x'00' WHERE key = 'engine'", "damaged"),
        ("UPDATE documents SET code = 7 WHERE row = 5", "damaged"),
        ("UPDATE documents SET code = 'text' WHERE row = 5", "damaged"),
        ("UPDATE documents SET id = x'ff' WHERE row = 5", "does not match its checksum"),
        ("UPDATE documents SET payload = 5 WHERE row = 5", "does not match its checksum"),
        ("UPDATE documents SET vector = 'text' WHERE row = 5", "damaged"),
        ("UPDATE codes SET rows = 'text'", "damaged"),
        ("CREATE TABLE fields (field)", "does not have the tables"),
        ("UPDATE codes SET checksum = 'text'", "damaged"),
    ],
)
def test_a_store_that_was_tampered_with_is_refused(
    data: Path, tmp_path: Path, statement: str, message: str
) -> None:
    """Its sha256 is made right, as an attacker would."""
    whole = members(snapshot_of(data))
    path = tmp_path / "store.sqlite"
    path.write_bytes(whole[STORE])
    with closing(sqlite3.connect(path)) as connection:
        connection.execute(statement)
        connection.commit()
    raw = path.read_bytes()
    record = {**json.loads(whole[RECORD]), "store_sha256": sha256(raw).hexdigest()}
    tar = tar_of(tmp_path / "tar", {**whole, STORE: raw, RECORD: json.dumps(record).encode()})
    with DataFolder(tmp_path / "other", writable=True) as folder:
        with pytest.raises(SnapshotError, match=message):
            folder.restore_snapshot(tar, "again")
        with pytest.raises(InvalidSnapshot, match=message):
            folder.snapshots.add(tar)
        assert list(folder.collections()) == []
        assert folder.snapshots.all() == []


@pytest.mark.parametrize("kind", [b"x", b"g", b"L", b"K"])
def test_headers_that_extend_others_are_not_read_into_memory(
    data: Path, tmp_path: Path, kind: bytes
) -> None:
    """A header says that half a gigabyte of names follows, in a file that has holes."""
    member = tarfile.TarInfo("encoder/more.json")
    member.type, member.size = kind, 1 << 29
    tar = tmp_path / "tar"
    with tar.open("wb") as file:
        file.write(member.tobuf(tarfile.USTAR_FORMAT))
        file.truncate(1 << 29)
    tracemalloc.start()
    try:
        with (
            DataFolder(tmp_path / "other", writable=True) as folder,
            pytest.raises(InvalidSnapshot, match="is not a plain file"),
        ):
            folder.restore_snapshot(tar, "again")
        assert tracemalloc.get_traced_memory()[1] < 10 << 20
    finally:
        tracemalloc.stop()


def test_a_snapshot_that_finds_the_disk_full_leaves_nothing(data: Path, tmp_path: Path) -> None:
    tar = snapshot_of(data)
    with small_disk(tmp_path) as disk, DataFolder(disk / "data", writable=True) as folder:
        refused = 0
        for kib in range(0, 4000, 20):
            fill_disk(disk / "ballast", kib << 10)
            try:
                folder.restore_snapshot(tar, "restored")
                break
            except StoreFull:
                refused += 1
            (disk / "ballast").unlink()
            assert not folder.collections()
            assert not [*disk.glob("data/collections/*")]
        assert refused > 1
        assert len(folder.collection("restored")) == 29


@pytest.mark.parametrize("way", ["restore", "publish"])
def test_while_an_index_is_built_others_are_made_and_dropped(
    data: Path, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    begun, goes_on = threading.Event(), threading.Event()
    build_index = Collection.build_index

    def build_slowly(collection: Collection) -> None:
        if collection.name == "appears":
            begun.set()
            assert goes_on.wait(120)
        build_index(collection)

    monkeypatch.setattr(Collection, "build_index", build_slowly)
    tar = snapshot_of(data)
    with DataFolder(data, writable=True) as folder, ThreadPoolExecutor(1) as pool:
        if way == "restore":
            appears = pool.submit(folder.restore_snapshot, tar, "appears")
        else:
            draft = folder.draft_collection("appears", encoder="words")
            appears = pool.submit(draft.publish)
        assert begun.wait(120)
        folder.create_collection("made", n_bits=16)
        folder.change_aliases([AddAlias("second", "made")])
        folder.drop_collection("made")
        goes_on.set()
        assert folder.collection("appears") is appears.result()


def test_columns_of_fields_are_made_anew_of_the_payloads(data: Path, tmp_path: Path) -> None:
    """What a snapshot says of them is not taken on trust."""
    with DataFolder(data, writable=True) as folder:
        folder.collection("recipes").set_indexed_fields(["at"])
    whole = members(snapshot_of(data))
    path = tmp_path / "store.sqlite"
    path.write_bytes(whole[STORE])
    with closing(sqlite3.connect(path)) as connection:
        packed = ColumnReader("at", 40).column(1).pack()
        connection.execute("UPDATE columns SET generation = 1, packed = ?", (packed,))
        connection.commit()
    raw = path.read_bytes()
    record = {**json.loads(whole[RECORD]), "store_sha256": sha256(raw).hexdigest()}
    tar = tar_of(tmp_path / "tar", {**whole, STORE: raw, RECORD: json.dumps(record).encode()})
    filter_ = parse_filter({"field": "at", "gte": 10})
    with DataFolder(data, writable=True) as folder:
        restored = folder.restore_snapshot(tar, "again")
        assert restored.indexed_fields == ("at",)
        assert restored.count(filter_) == folder.collection("recipes").count(filter_) == 20
        assert restored.verify().problems == []
