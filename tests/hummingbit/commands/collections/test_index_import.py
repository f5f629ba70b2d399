"""``hummingbit index import --from STORE``, on files that the stores' own tools wrote."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from hummingbit import Collection
from hummingbit.cli import main
from hummingbit.encoder.artifact import write_artifact
from hummingbit.encoder.codes import code_to_hex
from hummingbit.index.data_folder import DataFolder
from tests.support.encoders import random_texts, text_encoder, vector_encoder
from tests.support.service import running_service

WRITTEN = Path(__file__).parents[3] / "corpus" / "stores" / "written"
TEXTS = ["apple jam", "pear jam", "plum cake", "apple cake", "a pear"]
VECTORS = np.random.default_rng(0).normal(size=(5, 64)).astype(np.float32)
CODES = [code_to_hex(code) for code in np.packbits(VECTORS > 0, axis=1)]


def hummingbit(*arguments: object) -> int:
    return main([str(argument) for argument in arguments])


@pytest.fixture
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    write_artifact(tmp_path / "encoders" / "plain", text_encoder(), random_texts(50))
    return tmp_path


def documents(name: str) -> list[dict[str, object]]:
    with DataFolder(Path(), writable=False) as folder:
        stored = folder.collection(name).all_documents()
        return [
            {**document.payload, "id": document.id, "text": document.text, "code": document.code}
            for document in stored
        ]


@pytest.mark.parametrize(
    ("store", "file", "options"),
    [
        ("qdrant", "qdrant.jsonl", ["--codes", "sign"]),
        ("qdrant", "qdrant.jsonl", ["--codes", "sign", "--text-field", "page_content"]),
        ("milvus", "milvus.json", ["--codes", "sign", "--vector-field", "dense"]),
        ("milvus", "milvus.parquet", ["--codes", "ubinary", "--vector-field", "bits"]),
    ],
)
@pytest.mark.parametrize("where", ["folder", "service"])
def test_vectors_become_codes_beside_which_words_are_searched(
    data: Path, store: str, file: str, options: list[str], where: str
) -> None:
    named = ["--id-field", "key", "--text-field", "body"] if store == "milvus" else []
    command = ["index", "import", "c", WRITTEN / file, "--from", store, *options, *named]
    if where == "folder":
        assert hummingbit(*command) == 0
    else:
        with running_service(data) as client:
            assert hummingbit(*command, "--url", client.base_url) == 0
    found = documents("c")
    assert [item["code"] for item in found] == CODES
    assert [hit["id"] for hit in found] == ["0", "1", "2", "3", "4"]
    assert [document["text"] for document in found] == TEXTS
    assert not {"page_content", "body"} & set(found[0])
    with Collection.open(data, "c") as collection:
        assert [hit.id for hit in collection.search("plum")] == ["2"]
        assert collection.search(code=str(found[3]["code"]))[0].id == "3"


def test_a_point_without_a_text_has_its_code_and_its_other_fields(data: Path) -> None:
    points = [
        {"id": 1, "vector": [1.0] * 8, "payload": {"content": "apple jam", "text": {"of": "it"}}},
        {"id": 2, "vector": [-1.0] * 8, "payload": {"year": 1990}},
    ]
    (data / "points.json").write_text(json.dumps(points))
    options = ["--from", "qdrant", "--codes", "sign"]
    assert hummingbit("index", "import", "c", data / "points.json", *options) == 0
    with DataFolder(data, writable=False) as folder:
        stored = folder.collection("c").all_documents()
    assert [document.text for document in stored] == ["apple jam", None]
    assert [document.payload for document in stored] == [{"text": {"of": "it"}}, {"year": 1990}]
    assert [document.code for document in stored] == ["ff", "00"]


def write_bytes(path: Path) -> None:
    """Write vectors as pymilvus.bulk_writer writes FLOAT16_, BFLOAT16_ and BINARY_VECTOR."""
    upper_halves = (VECTORS.view("<u4") >> 16).astype("<u2")
    columns = {
        "half": VECTORS.astype("<f2").view(np.uint8),
        "brain": upper_halves.view(np.uint8),
        "bits": np.packbits(VECTORS > 0, axis=1)[:, :4],
    }
    arrays = {
        name: pa.array(column.tolist(), pa.list_(pa.uint8())) for name, column in columns.items()
    }
    pq.write_table(pa.table({"key": pa.array(range(5)), **arrays}), path)


@pytest.mark.parametrize(
    ("field", "options", "n_digits"),
    [
        ("half", ["--codes", "sign", "--vector-type", "float16"], 16),
        ("brain", ["--codes", "sign", "--vector-type", "bfloat16"], 16),
        ("bits", ["--codes", "ubinary"], 8),
    ],
)
def test_bytes_of_milvus_are_read_as_what_they_are(
    data: Path, field: str, options: list[str], n_digits: int
) -> None:
    write_bytes(data / "rows.parquet")
    source = ["rows.parquet", "--from", "milvus", "--vector-field", field, "--id-field", "key"]
    assert hummingbit("index", "import", "c", *source, *options) == 0
    assert [document["code"] for document in documents("c")] == [code[:n_digits] for code in CODES]


@pytest.mark.parametrize("field", ["half", "brain", "bits"])
def test_bytes_of_milvus_are_no_numbers(
    data: Path, field: str, capsys: pytest.CaptureFixture[str]
) -> None:
    write_bytes(data / "rows.parquet")
    source = ["rows.parquet", "--from", "milvus", "--vector-field", field, "--id-field", "key"]
    assert hummingbit("index", "import", "c", *source, "--codes", "sign") == 2
    assert f"{field}: holds bytes; a BINARY_VECTOR is read with" in capsys.readouterr().err
    wrong = ["--codes", "ubinary", "--vector-type", "float16"]
    assert hummingbit("index", "import", "c", *source, *wrong) == 2
    assert "--codes must be sign" in capsys.readouterr().err
    with DataFolder(data, writable=False) as folder:
        assert not folder.collections()


def test_numbers_are_no_bytes(data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source = [WRITTEN / "milvus.json", "--from", "milvus", "--vector-field", "dense"]
    options = ["--codes", "sign", "--vector-type", "float16", "--id-field", "key"]
    assert hummingbit("index", "import", "c", *source, *options) == 2
    assert "needs two bytes for each number; it has 64 values" in capsys.readouterr().err


@pytest.mark.parametrize("where", ["folder", "service"])
def test_a_scroll_that_breaks_off_is_said(
    data: Path, capsys: pytest.CaptureFixture[str], where: str
) -> None:
    options = ["--from", "qdrant", "--codes", "sign"]
    if where == "folder":
        assert hummingbit("index", "import", "c", WRITTEN / "qdrant.json", *options) == 1
    else:
        with running_service(data) as client:
            options += ["--url", str(client.base_url)]
            assert hummingbit("index", "import", "c", WRITTEN / "qdrant.json", *options) == 1
    assert "is incomplete: its next_page_offset names the point 3" in capsys.readouterr().err
    assert len(documents("c")) == 3


def test_the_first_bits_of_vectors(data: Path) -> None:
    file = WRITTEN / "qdrant.jsonl"
    options = ("--from", "qdrant", "--codes", "sign", "--bits", 16)
    assert hummingbit("index", "import", "c", file, *options) == 0
    assert [document["code"] for document in documents("c")] == [code[:4] for code in CODES]


@pytest.mark.parametrize(
    ("store", "file", "options"),
    [
        ("qdrant", "qdrant.jsonl", []),
        ("milvus", "milvus.parquet", ["--text-field", "body", "--id-field", "key"]),
        ("txtai", "txtai.tar.gz", []),
    ],
)
def test_texts_are_encoded(data: Path, store: str, file: str, options: list[str]) -> None:
    options = ["--encoder", "plain", *options]
    assert hummingbit("index", "import", "c", WRITTEN / file, "--from", store, *options) == 0
    found = documents("c")
    assert [document["text"] for document in found] == TEXTS
    assert [item["code"] for item in found] == [
        code_to_hex(item) for item in text_encoder().encode(TEXTS)
    ]
    assert not {"dense", "bits", "vector"} & set(found[0])
    # The collection knows its encoder; what is there stays.
    del options[:2]
    assert hummingbit("index", "import", "c", WRITTEN / file, "--from", store, *options) == 0
    assert documents("c") == found


def test_vectors_are_encoded(data: Path) -> None:
    encoder = vector_encoder(dimension=64)
    write_artifact(data / "encoders" / "vectors", encoder, VECTORS)
    options = ("--from", "qdrant", "--encoder", "vectors")
    assert hummingbit("index", "import", "c", WRITTEN / "qdrant.jsonl", *options) == 0
    found = documents("c")
    stored = [json.loads(line) for line in (WRITTEN / "qdrant.jsonl").read_text().splitlines()]
    given = np.array([document["vector"]["dense"] for document in stored], dtype=np.float32)
    assert [item["code"] for item in found] == [code_to_hex(item) for item in encoder.encode(given)]


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        (["--from", "qdrant"], "give --encoder NAME or --codes sign|ubinary|binary"),
        (["--codes", "sign"], "--codes: is for files of other stores; name the store with --from"),
        (
            ["--from", "qdrant", "--codes", "sign", "--encoder", "plain"],
            "--codes: cannot be combined",
        ),
        (["--from", "qdrant", "--codes", "ubinary"], "ubinary must be whole numbers from 0 to 255"),
        (
            ["--from", "qdrant", "--codes", "sign", "--bits", "72"],
            "has 64 numbers; it must have 72",
        ),
        (["--from", "qdrant", "--codes", "sign", "--bits", "7"], "--bits is 7"),
        (["--from", "qdrant", "--encoder", "plain", "--bits", "16"], "collection 'c' has 32 bits"),
        (["--from", "qdrant", "--codes", "sign", "--vector-field", "x"], "has no vector 'x'; its"),
        (["--from", "milvus", "--codes", "sign"], "the suffix must be"),
        (["--from", "txtai", "--encoder", "plain"], "cannot be read as an index of txtai"),
        (["--from", "qdrant", "--encoder", "none"], "none"),
        (["--from", "qdrant", "--encoder", "plain", "--text-field", "x"], "at least one of"),
    ],
)
def test_what_cannot_be_imported_leaves_no_collection(
    data: Path, capsys: pytest.CaptureFixture[str], options: list[str], reason: str
) -> None:
    assert hummingbit("index", "import", "c", WRITTEN / "qdrant.jsonl", *options) == 2
    assert reason in capsys.readouterr().err
    with DataFolder(data, writable=False) as folder:
        assert not folder.collections()


def test_a_file_that_is_missing(data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert hummingbit("index", "import", "c", "no", "--from", "qdrant", "--codes", "sign") == 2
    assert "no: No such file or directory" in capsys.readouterr().err


@pytest.mark.parametrize("bits", [8, 24, 64])
def test_other_bits_than_a_collection_has_are_refused(
    data: Path, capsys: pytest.CaptureFixture[str], bits: int
) -> None:
    file = WRITTEN / "qdrant.jsonl"
    options = ("--from", "qdrant", "--codes", "sign", "--bits")
    assert hummingbit("index", "import", "c", file, *options, 16) == 0
    before = documents("c")
    assert hummingbit("index", "import", "c", file, *options, bits) == 2
    assert f"--bits {bits}: collection 'c' has 16 bits" in capsys.readouterr().err
    assert documents("c") == before
    assert hummingbit("index", "import", "c", file, *options, 16) == 0


@pytest.mark.parametrize(
    ("vector", "reason"),
    [
        ([1.0] * 8, "vector has 8 numbers, which make a code of 8 bits; the codes of the"),
        (None, "has no vector 'vector'; its vectors: none"),
    ],
)
def test_a_vector_unlike_the_others_is_named_once(
    data: Path, capsys: pytest.CaptureFixture[str], vector: list[float] | None, reason: str
) -> None:
    points = [{"id": 1, "vector": [0.5] * 16}, {"id": 2, "vector": vector}]
    Path("two.jsonl").write_text("".join(json.dumps(point) + "\n" for point in points))
    options = ("--from", "qdrant", "--codes", "sign")
    assert hummingbit("index", "import", "c", "two.jsonl", *options) == 2
    said = capsys.readouterr().err
    assert reason in said
    assert said.count("two.jsonl:2: ") == 1
    assert "hexadecimal" not in said
