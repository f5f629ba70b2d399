"""What Qdrant, Milvus and txtai wrote, by write_files.py, is read as it was given to them."""

from __future__ import annotations

import io
import json
import shutil
import sqlite3
import tarfile
import tempfile
import zipfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from hummingbit.corpus.lines import COMPRESSIONS, ReadError
from hummingbit.corpus.stores import Point, read_milvus, read_qdrant, read_txtai

WRITTEN = Path(__file__).parent / "written"
TEXTS = ["apple jam", "pear jam", "plum cake", "apple cake", "a pear"]
VECTORS = np.random.default_rng(0).normal(size=(5, 64)).astype(np.float32)


def close(found: list[Point], name: str, n: int = 5) -> bool:
    return np.allclose([item.vectors[name] for item in found], VECTORS[:n], atol=1e-6)


def test_points_of_qdrant_with_named_vectors() -> None:
    found = list(read_qdrant(WRITTEN / "qdrant.jsonl"))
    assert [item.fields["page_content"] for item in found] == TEXTS
    assert [item.fields["id"] for item in found] == [0, 1, 2, 3, 4]
    assert found[2].fields["metadata"] == {"year": 1992}
    assert found[0].fields["payload"] == {"id": "its own"}
    assert [list(item.vectors) for item in found] == [["dense"]] * 5  # sparse ones are left out
    assert close(found, "dense")


def test_an_answer_of_scrolling_qdrant(tmp_path: Path) -> None:
    found = list(read_qdrant(WRITTEN / "qdrant.json"))
    assert [item.fields["page_content"] for item in found] == TEXTS[:3]
    assert close(found, "vector", 3)
    page = json.loads((WRITTEN / "qdrant.json").read_text())
    pages = tmp_path / "pages.jsonl"
    pages.write_text(f"{json.dumps(page)}\n{json.dumps(page)}\n")
    assert len(list(read_qdrant(pages))) == 6
    upsert = tmp_path / "upsert.json"
    upsert.write_text(json.dumps({"points": page["result"]["points"]}, indent=2))
    assert list(read_qdrant(upsert)) == found


def test_a_scroll_that_breaks_off_is_incomplete(tmp_path: Path) -> None:
    def page(*ids: int | str, after: int | str | None = None) -> str:
        points = [{"id": id_, "vector": [1.0]} for id_ in ids]
        return json.dumps({"result": {"points": points, "next_page_offset": after}, "status": "ok"})

    def said(*pages: str, suffix: str = ".jsonl") -> list[str]:
        path = tmp_path / f"points{suffix}"
        path.write_text("\n".join(pages))
        found: list[str] = []
        list(read_qdrant(path, found.append))
        return found

    complete = [page(1, 2, after=3), page(3, 4, after="a-5"), page("a-5")]
    assert said(*complete) == []
    assert said(f"[{', '.join(complete)}]", suffix=".json") == []
    assert said(*reversed(complete)) == []
    for kept, missing in ((complete[:2], "a-5"), (complete[::2], "3"), (complete[:1], "3")):
        (sentence,) = said(*kept)
        assert f"next_page_offset names the point {missing}," in sentence
    (sentence,) = said(json.dumps(json.loads(complete[0])["result"], indent=1), suffix=".json")
    assert "the point 3," in sentence


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        ('{"points": 3}', r"1: is neither a point with an id nor a response of"),
        ('{"id": 1}\nnonsense', r"2: is not valid JSON"),
        ('{"id": 1, "payload": [3]}', r"1: payload: must be an object"),
    ],
)
def test_what_is_no_point_of_qdrant(tmp_path: Path, content: str, reason: str) -> None:
    (tmp_path / "points.jsonl").write_text(content)
    with pytest.raises(ReadError, match=reason):
        list(read_qdrant(tmp_path / "points.jsonl"))


def test_a_snapshot_of_qdrant_is_refused_with_the_way_to_export(tmp_path: Path) -> None:
    with tarfile.open(tmp_path / "a.snapshot", "w") as archive:
        archive.add(WRITTEN / "qdrant.json", "config.json")
    with pytest.raises(ReadError, match=r"is a snapshot, .*/points/scroll"):
        list(read_qdrant(tmp_path / "a.snapshot"))


@pytest.mark.parametrize("name", ["milvus.json", "milvus.parquet"])
def test_rows_of_milvus(name: str) -> None:
    found = list(read_milvus(WRITTEN / name))
    assert [item.fields["body"] for item in found] == TEXTS
    assert [item.fields["key"] for item in found] == [0, 1, 2, 3, 4]
    assert [item.fields["year"] for item in found] == [1990, 1991, 1992, 1993, 1994]
    assert close(found, "dense")
    expected = np.packbits(VECTORS > 0, axis=1)
    assert [item.vectors["bits"] for item in found] == expected.tolist()


def test_what_parquet_of_milvus_does_not_say_is_read(tmp_path: Path) -> None:
    table = {
        "key": pa.array([1, 2]),
        # As pymilvus.bulk_writer writes BINARY_VECTOR of 32 bits, JSON, VARCHAR and $meta.
        "bits": pa.array([[1, 2, 3, 4], [5, 6, 7, 8]], pa.list_(pa.uint8())),
        "about": pa.array(['{"year": 1990, "tags": ["a"]}', "null"]),
        "number": pa.array(["10010", "7"]),
        "text": pa.array(["[1] is cited", '{"a": 1}']),
        "$meta": pa.array(['{"more": {"deep": "{}"}}', "{}"]),
    }
    pq.write_table(pa.table(table), tmp_path / "1.parquet")
    first, second = read_milvus(tmp_path)
    assert first.vectors == {"bits": [1, 2, 3, 4]}
    assert first.byte_vectors == {"bits"}
    assert first.fields == {
        "key": 1,
        "about": {"year": 1990, "tags": ["a"]},
        "number": "10010",
        "text": "[1] is cited",
        "more": {"deep": "{}"},
    }
    assert second.fields["text"] == '{"a": 1}'
    # The parts of a folder agree on what is JSON.
    pq.write_table(pa.table({**table, "about": pa.array(["-", "x"])}), tmp_path / "2.parquet")
    found = [point.fields["about"] for point in read_milvus(tmp_path)]
    assert found == ['{"year": 1990, "tags": ["a"]}', "null", "-", "x"]


def test_a_folder_of_milvus_is_read_in_the_order_of_its_parts(tmp_path: Path) -> None:
    rows = json.loads((WRITTEN / "milvus.json").read_text())["rows"]
    for part in (1, 2, 10):
        one = {"rows": [{**row, "part": part} for row in rows]}
        (tmp_path / f"{part}.json").write_text(json.dumps(one))
    found = [point.fields["part"] for point in read_milvus(tmp_path)]
    assert found == [1] * 5 + [2] * 5 + [10] * 5
    shutil.copy(WRITTEN / "milvus.parquet", tmp_path)
    with pytest.raises(ReadError, match="has files of both formats"):
        list(read_milvus(tmp_path))


@pytest.mark.parametrize(
    ("name", "content", "reason"),
    [
        ("a.txt", "x", "the suffix must be .json or .parquet"),
        ("a.json", "[1]", r"a.json:1: must be an object"),
        ("a.json", '{"rows": 3}', "must be"),
        ("a.json", "{", "is not valid JSON"),
        ("a.json", '[{"$meta": "{"}]', r"a.json:1: \$meta is not valid JSON"),
        ("a.parquet", "x", "cannot be read as Parquet"),
    ],
)
def test_what_milvus_did_not_write(tmp_path: Path, name: str, content: str, reason: str) -> None:
    (tmp_path / name).write_text(content)
    with pytest.raises(ReadError, match=reason):
        list(read_milvus(tmp_path / name))


@pytest.mark.parametrize("suffix", sorted(COMPRESSIONS))
def test_a_packed_file_of_qdrant_that_breaks_off_is_reported(tmp_path: Path, suffix: str) -> None:
    packed = tmp_path / f"points.json{suffix}"
    with COMPRESSIONS[suffix](packed, "wb") as out:
        out.write((WRITTEN / "qdrant.json").read_bytes())
    whole = packed.read_bytes()
    assert len(list(read_qdrant(packed))) == 3
    for broken in (whole[: len(whole) // 2], whole[:100] + bytes(60) + whole[160:]):
        packed.write_bytes(broken)
        with pytest.raises(ReadError, match="cannot be read"):
            list(read_qdrant(packed))


def test_texts_of_txtai(tmp_path: Path) -> None:
    found = list(read_txtai(WRITTEN / "txtai.tar.gz"))
    assert [item.fields["id"] for item in found] == ["d0", "d1", "d2", "d3", "d4"]
    assert [item.fields["text"] for item in found] == TEXTS
    assert [item.fields["year"] for item in found] == [1990, 1991, 1992, 1993, 1994]
    assert {item.fields["tags"] for item in found} == {"fruit"}
    folder = tmp_path / "saved"
    with tarfile.open(WRITTEN / "txtai.tar.gz") as archive:
        archive.extractall(folder, filter="data")
    assert list(read_txtai(folder)) == found
    packed = tmp_path / "saved.zip"
    with zipfile.ZipFile(packed, "w") as archive_:
        archive_.write(folder / "documents", "documents")
    assert list(read_txtai(packed)) == found


def test_what_txtai_did_not_write(tmp_path: Path) -> None:
    with pytest.raises(ReadError, match="has no file 'documents'; txtai writes it for an index"):
        list(read_txtai(tmp_path))
    (tmp_path / "a.tar.gz").write_text("x")
    with pytest.raises(ReadError, match="cannot be read as an index of txtai"):
        list(read_txtai(tmp_path / "a.tar.gz"))
    (tmp_path / "documents").write_text("x")
    with pytest.raises(ReadError, match="is not a SQLite database"):
        list(read_txtai(tmp_path))
    (tmp_path / "documents").unlink()
    sqlite3.connect(tmp_path / "documents").executescript("CREATE TABLE sections (a)")
    with pytest.raises(ReadError, match="cannot be read: no such table"):
        list(read_txtai(tmp_path))


def test_an_archive_that_would_fill_the_disk_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = tmp_path / "unpacked"
    place.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(place))
    zipped, tarred = tmp_path / "bomb.zip", tmp_path / "bomb.tar.gz"
    zeros = bytes(100_000_000)
    with zipfile.ZipFile(zipped, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("documents", zeros)
    with tarfile.open(tarred, "w:gz") as tar:
        info = tarfile.TarInfo("documents")
        info.size = len(zeros)
        tar.addfile(info, io.BytesIO(zeros))
    for path in (zipped, tarred):
        with pytest.raises(
            ReadError, match="documents has 100,000,000 bytes, more than 67,108,864"
        ):
            list(read_txtai(path))
    usage = shutil.disk_usage(place)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage._replace(free=1000))
    with pytest.raises(ReadError, match="has room for 1,000; set TMPDIR"):
        list(read_txtai(WRITTEN / "txtai.tar.gz"))
    assert list(place.iterdir()) == []


@pytest.mark.parametrize("kind", [tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.FIFOTYPE])
@pytest.mark.parametrize("target", ["nowhere", "/etc/passwd", "documents", "../documents"])
def test_a_member_that_is_no_file_is_refused(tmp_path: Path, kind: bytes, target: str) -> None:
    path = tmp_path / "a.tar"
    with tarfile.open(path, "w") as tar:
        info = tarfile.TarInfo("index/documents")
        info.type, info.linkname = kind, target
        tar.addfile(info)
    with pytest.raises(ReadError, match="index/documents is a link or a device"):
        list(read_txtai(path))


def test_a_zip_of_txtai_that_cannot_be_unpacked(tmp_path: Path) -> None:
    packed = tmp_path / "saved.zip"
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("documents", b"SQLite format 3\0" * 40)
    whole = packed.read_bytes()
    central = whole.rfind(b"PK\x01\x02")
    # Where a member's flags and its compression stand, in its header and in the directory.
    for at, value, reason in ((6, 1, "is encrypted"), (8, 99, "compression method is not")):
        broken = bytearray(whole)
        broken[at] = broken[central + at + 2] = value
        packed.write_bytes(broken)
        with pytest.raises(ReadError, match=f"cannot be read as an index of txtai: .*{reason}"):
            list(read_txtai(packed))
