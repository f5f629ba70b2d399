"""Write the files of this folder's tests with the tools themselves.

``python tests/corpus/stores/write_files.py qdrant|milvus|txtai``, in an environment that has
``qdrant-client``, ``pymilvus[bulk_writer]`` or ``txtai``.
"""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path
from tempfile import mkdtemp

import numpy as np

HERE = Path(__file__).parent / "written"
TEXTS = ["apple jam", "pear jam", "plum cake", "apple cake", "a pear"]


def vectors(n: int = 5, dimension: int = 64) -> np.ndarray:
    return np.random.default_rng(0).normal(size=(n, dimension)).astype(np.float32)


def write_qdrant(folder: Path) -> None:
    from qdrant_client import QdrantClient, models  # noqa: PLC0415

    size = models.VectorParams(size=64, distance=models.Distance.EUCLID)
    client = QdrantClient(":memory:")
    sparse = {"words": models.SparseVectorParams()}
    client.create_collection("named", vectors_config={"dense": size}, sparse_vectors_config=sparse)
    client.create_collection("plain", vectors_config=size)
    for position, (text, vector) in enumerate(zip(TEXTS, vectors(), strict=True)):
        payload = {"page_content": text, "metadata": {"year": 1990 + position}, "id": "its own"}
        words = models.SparseVector(indices=[position], values=[1.0])
        both = {"dense": vector.tolist(), "words": words}
        client.upsert("named", [models.PointStruct(id=position, vector=both, payload=payload)])
        client.upsert(
            "plain", [models.PointStruct(id=position, vector=vector.tolist(), payload=payload)]
        )
    named, _ = client.scroll("named", limit=10, with_vectors=True)
    (folder / "qdrant.jsonl").write_text("".join(item.model_dump_json() + "\n" for item in named))
    page, after = client.scroll("plain", limit=3, with_vectors=True)
    points = [json.loads(item.model_dump_json()) for item in page]
    answer = {"result": {"points": points, "next_page_offset": after}, "status": "ok", "time": 0.1}
    (folder / "qdrant.json").write_text(json.dumps(answer))


def write_milvus(folder: Path) -> None:
    from pymilvus import CollectionSchema, DataType, FieldSchema  # noqa: PLC0415
    from pymilvus.bulk_writer import BulkFileType, LocalBulkWriter  # noqa: PLC0415

    fields = [
        FieldSchema("key", DataType.INT64, is_primary=True),
        FieldSchema("body", DataType.VARCHAR, max_length=100),
        FieldSchema("bits", DataType.BINARY_VECTOR, dim=64),
        FieldSchema("dense", DataType.FLOAT_VECTOR, dim=64),
        FieldSchema("words", DataType.SPARSE_FLOAT_VECTOR),
    ]
    schema = CollectionSchema(fields, enable_dynamic_field=True)
    for kind in (BulkFileType.JSON, BulkFileType.PARQUET):
        writer = LocalBulkWriter(schema, mkdtemp(), file_type=kind)
        for position, (text, vector) in enumerate(zip(TEXTS, vectors(), strict=True)):
            packed = np.packbits(vector > 0).tobytes()
            row = {"key": position, "body": text, "bits": packed, "dense": vector.tolist()}
            writer.append_row({**row, "words": {position: 1.0}, "year": 1990 + position})
        writer.commit()
        ((file,),) = writer.batch_files
        shutil.copy(file, folder / f"milvus{Path(file).suffix}")


def write_txtai(folder: Path) -> None:
    from txtai import Embeddings  # noqa: PLC0415

    def transform(texts: list[str]) -> np.ndarray:
        return vectors(len(texts))

    embeddings = Embeddings(method="external", transform=transform, content=True, backend="numpy")
    rows = [
        (f"d{position}", {"text": text, "year": 1990 + position}, "fruit")
        for position, text in enumerate(TEXTS)
    ]
    embeddings.index(rows)
    embeddings.save(str(folder / "txtai.tar.gz"))


if __name__ == "__main__":
    HERE.mkdir(exist_ok=True)
    {"qdrant": write_qdrant, "milvus": write_milvus, "txtai": write_txtai}[sys.argv[1]](HERE)
