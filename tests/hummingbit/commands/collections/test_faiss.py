"""``hummingbit index export|import --faiss FILE``, and the files as plain FAISS reads them."""

from __future__ import annotations

import io
import json
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import faiss
import numpy as np
import numpy.typing as npt
import pytest

from hummingbit import Collection
from hummingbit.cli import main
from hummingbit.corpus.document import Document
from hummingbit.corpus.lines import ReadError
from hummingbit.encoder.artifact import write_artifact
from hummingbit.encoder.codes import Codes, code_from_hex, code_to_hex
from hummingbit.index.data_folder import DataFolder
from hummingbit.index.faiss_files import read_faiss, read_ids
from tests.support.encoders import random_texts, text_encoder
from tests.support.service import running_service

N, N_BITS = 60, 64
CODES = np.random.default_rng(0).integers(0, 256, (N, N_BITS // 8), dtype=np.uint8)
IDS = [f"d{number}" for number in range(N - 1)] + ["two\nlines, ω"]
SEARCH = """
import json, sys
import faiss
import numpy as np

path, query, nprobe = sys.argv[1:]
index = faiss.read_index_binary(path)
ids = [json.loads(line) for line in open(path + ".ids", encoding="utf-8")]
if nprobe != "0":
    inner = faiss.downcast_IndexBinary(index.index)
    print(inner.nlist, inner.nprobe, file=sys.stderr)
    inner.nprobe = int(nprobe)
distances, found = index.search(np.frombuffer(bytes.fromhex(query), np.uint8)[None], index.ntotal)
print(json.dumps([[ids[n], int(d)] for n, d in zip(found[0], distances[0])]))
"""


def hummingbit(*arguments: object) -> int:
    return main([str(argument) for argument in arguments])


@pytest.fixture
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A data folder with the collection ``c`` of codes, of which one document was deleted."""
    monkeypatch.chdir(tmp_path)
    with DataFolder(tmp_path, writable=True) as folder:
        folder.create_collection("c", n_bits=N_BITS).upsert(
            [Document(id_, code=code_to_hex(code)) for id_, code in zip(IDS, CODES, strict=True)]
        )
    assert hummingbit("index", "delete", "c", "d7") == 0
    return tmp_path


def in_another_process(
    path: Path | str, query: str, nprobe: int = 0
) -> tuple[list[list[object]], str]:
    """Return the ids and distances that a program with FAISS alone finds, and what it printed."""
    command = [sys.executable, "-I", "-c", SEARCH, str(path), query, str(nprobe)]
    result = subprocess.run(command, capture_output=True, text=True, check=True)
    return json.loads(result.stdout), result.stderr


@pytest.mark.parametrize("lists", [None, 4])
@pytest.mark.parametrize("where", ["folder", "service"])
def test_plain_faiss_finds_the_same_neighbours(data: Path, lists: int | None, where: str) -> None:
    options = [] if lists is None else ["--lists", lists]
    command = ["index", "export", "c", "--faiss", "c.faiss", *options]
    if where == "folder":
        assert hummingbit(*command) == 0
    else:
        with running_service(data) as client:
            assert hummingbit(*command, "--url", client.base_url) == 0
    query = code_to_hex(CODES[3])
    found, told = in_another_process(data / "c.faiss", query, lists or 0)
    with Collection.open(data, "c") as collection:
        hits = collection.search(code=query, limit=N)
        expected = [[*hit] for hit in zip(hits.ids, hits.distances.tolist(), strict=True)]
    assert sorted(found, key=str) == sorted(expected, key=str)
    assert [distance for _, distance in found] == [distance for _, distance in expected]
    assert found[0] == ["d3", 0]
    assert not lists or told == "4 1\n"


@pytest.mark.parametrize("lists", [None, 4])
@pytest.mark.parametrize("where", ["folder", "service"])
def test_an_export_comes_back(data: Path, lists: int | None, where: str) -> None:
    options = [] if lists is None else ["--lists", lists]
    assert hummingbit("index", "export", "c", "--faiss", "c.faiss", *options) == 0
    command = ["index", "import", "again", "--faiss", "c.faiss"]
    if where == "folder":
        assert hummingbit(*command) == 0
    else:
        with running_service(data) as client:
            assert hummingbit(*command, "--url", client.base_url) == 0
    assert codes_of("again") == codes_of("c")


def codes_of(name: str) -> list[tuple[str, str]]:
    with DataFolder(Path(), writable=False) as folder:
        stored = folder.collection(name).all_documents()
        return [(document.id, document.code) for document in stored]


def test_an_import_into_an_encoder_s_collection_is_searched_by_text(data: Path) -> None:
    write_artifact(data / "encoders" / "plain", encoder := text_encoder(), random_texts(50))
    texts = random_texts(9)
    write_index(data / "mine", faiss.IndexBinaryFlat(encoder.n_bits), encoder.encode(texts))
    assert hummingbit("index", "import", "t", "--faiss", "mine", "--encoder", "plain") == 0
    with Collection.open(data, "t") as collection:
        assert [hit.id for hit in collection.search(texts[4], limit=1, ranking="hamming")] == ["4"]


def write_index(path: Path, index: faiss.IndexBinary, codes: Codes) -> None:
    index.add(codes)
    faiss.write_index_binary(index, str(path))


def test_indexes_that_others_wrote_are_read(data: Path) -> None:
    write_index(data / "flat", faiss.IndexBinaryFlat(N_BITS), CODES)
    assert hummingbit("index", "import", "flat", "--faiss", "flat") == 0
    expected = [(str(number), code_to_hex(code)) for number, code in enumerate(CODES)]
    assert codes_of("flat") == expected
    for name, kind in (("map", faiss.IndexBinaryIDMap), ("map2", faiss.IndexBinaryIDMap2)):
        index = kind(faiss.IndexBinaryFlat(N_BITS))
        index.add_with_ids(CODES, np.arange(N, 0, -1) * 10)
        faiss.write_index_binary(index, str(data / name))
        found = read_faiss((data / name).read_bytes(), name)
        assert found.numbers.tolist() == list(range(10, 10 * N + 1, 10))
        assert np.array_equal(found.codes, CODES[::-1])


@pytest.mark.parametrize("direct_map", ["NoMap", "Array", "Hashtable"])
@pytest.mark.parametrize("lists", [3, 50])
def test_the_lists_of_others_are_read(direct_map: str, lists: int) -> None:
    """Fifty lists, most of them empty, are written as pairs of numbers and sizes."""
    quantizer = faiss.IndexBinaryFlat(N_BITS)
    index = faiss.IndexBinaryIVF(quantizer, N_BITS, lists)
    index.cp.min_points_per_centroid = 1
    index.train(CODES)
    some = CODES[:10]
    index.add(some)
    kind = getattr(faiss.DirectMap, direct_map)  # type: ignore[attr-defined]
    index.set_direct_map_type(kind)
    found = read_faiss(faiss.serialize_index_binary(index).tobytes(), "lists")
    assert np.array_equal(found.codes, some)
    assert found.numbers.tolist() == list(range(10))


def serialized(index: faiss.IndexBinary, numbers: npt.NDArray[np.int64] | None = None) -> bytes:
    if numbers is None:
        index.add(CODES)
    else:
        index.add_with_ids(CODES, numbers)
    data: bytes = faiss.serialize_index_binary(index).tobytes()
    return data


def test_every_damage_is_an_error_of_the_file() -> None:
    flat = faiss.IndexBinaryFlat(N_BITS)
    whole = serialized(faiss.IndexBinaryIDMap(flat), np.arange(N))
    for end in range(0, len(whole), 7):
        with pytest.raises(ReadError, match="cut short"):
            read_faiss(whole[:end], "f")
    rng = np.random.default_rng(1)
    for _ in range(300):
        damaged = bytearray(whole)
        for at in rng.integers(0, 60, 3):
            damaged[at] = rng.integers(256)
        with suppress(ReadError):
            read_faiss(bytes(damaged), "f")


def test_what_is_no_codes_of_documents_is_refused(tmp_path: Path) -> None:
    twice = serialized(faiss.IndexBinaryIDMap(faiss.IndexBinaryFlat(N_BITS)), np.zeros(N, np.int64))
    with pytest.raises(ReadError, match="several codes of number 0"):
        read_faiss(twice, "f")
    faiss.write_index(faiss.IndexFlatL2(4), str(tmp_path / "floats"))
    with pytest.raises(ReadError, match="no file of FAISS with IndexBinaryFlat"):
        read_faiss((tmp_path / "floats").read_bytes(), "f")
    with pytest.raises(ReadError, match="no file of FAISS with IndexBinaryFlat"):
        read_faiss(serialized(faiss.IndexBinaryHNSW(N_BITS, 4)), "f")
    with pytest.raises(ReadError, match=r"f\.ids:2: must be a JSON string"):
        read_ids(io.BytesIO(b'"a"\n7\n'), "f.ids")


def test_mistakes_are_named(data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("flat", "few"):
        write_index(data / name, faiss.IndexBinaryFlat(N_BITS), CODES)
    Path("few.ids").write_text('"a"\n')
    with DataFolder(data, writable=True) as folder:
        folder.create_collection("c8", n_bits=8)
        folder.create_collection("words", n_bits=0)
    for command, message in (
        ("index export c --lists 4", "--lists: is for --faiss"),
        ("index export c other --faiss f", "other: is one file too many"),
        ("index export c --faiss f --lists 60", "it must be from 1 to 59"),
        ("index export words --faiss f", "has nothing for FAISS"),
        ("index import c --faiss absent", "absent: No such file"),
        ("index import c other --faiss flat", "other: cannot be combined with --faiss"),
        ("index import c --faiss flat --vector-field v", "--vector-field: cannot be combined"),
        ("index import c8 --faiss flat", "flat: has codes of 64 bits; the collection's have 8"),
        ("index import n --faiss few", "few.ids: has 1 id; the codes have numbers from 0 to 59"),
    ):
        assert hummingbit(*command.split()) == 2, command
        assert message in capsys.readouterr().err
    with DataFolder(data, writable=False) as folder:
        assert "n" not in folder.collections()
        assert len(folder.collection("c")) == N - 1
    assert not Path("f").exists()


def test_codes_are_those_of_the_documents(data: Path) -> None:
    assert hummingbit("index", "export", "c", "--faiss", "c.faiss") == 0
    found = read_faiss(Path("c.faiss").read_bytes(), "c.faiss")
    with Path("c.faiss.ids").open("rb") as stream:
        ids = read_ids(stream, "c.faiss.ids")
    stored = dict(codes_of("c"))
    assert ids == list(stored)
    for id_, code in zip(ids, found.codes, strict=True):
        assert np.array_equal(code, code_from_hex(stored[id_], N_BITS))
