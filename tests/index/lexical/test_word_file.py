"""A word index that was kept in a file searches as one that is built from the texts."""

from __future__ import annotations

import json
import shutil
import zlib
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hummingbit.corpus.document import Document
from hummingbit.encoder.analyzers import VISIBLE
from hummingbit.encoder.text_features import summary_of, title_of
from hummingbit.index import word_file
from hummingbit.index.collection import Collection
from hummingbit.index.lexical import LexicalIndex
from hummingbit.index.moments import CodeMoments
from hummingbit.index.store.store import Store
from hummingbit.index.word_forms import other_forms
from tests.support.collections import code_collection

WORDS = "apple apples banana t-test C++ DDF484Z elder fig grape naïve".split()
QUERIES = ("apple", "ddf484 t-test", "elder fig naïve banana", "c++ appl")


@pytest.fixture(autouse=True)
def every_collection_has_a_file(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(word_file, "LEAST_BYTES", 0)


def documents(rng: np.random.Generator, n_documents: int) -> list[Document]:
    made = []
    for number in rng.choice(60, n_documents, replace=False).tolist():
        text = None if rng.random() < 0.2 else " \n"[rng.integers(2)].join(rng.choice(WORDS, 5))
        made.append(Document(id=f"d{number}", text=text, code=rng.bytes(2).hex()))
    return made


def reopened(folder: Path, *, writable: bool = True) -> Collection:
    return Collection(Store(folder / "store.sqlite", writable=writable), indexed=False)


def check(collection: Collection) -> None:
    """Compare the index and the moments with those that are built from the store."""
    published = collection._published_index.current_with_lexical()
    assert published.lexical is not None
    assert published.lexical.number == collection.generation
    held = [
        (document.row, document.text)
        for document in collection.all_documents()
        if document.text is not None
    ]
    built = LexicalIndex.build(0, published.lexical.analyzer, held, forms=True)
    assert published.lexical.rows().tolist() == built.rows().tolist()
    rows = built.rows()
    for text in QUERIES:
        for hybrid in (False, True):
            of_file, expected = (
                item.matches(item.weigh(text, hybrid=hybrid)).scores_of(rows).tolist()
                for item in (published.lexical, built)
            )
            assert of_file == expected
        assert published.lexical.complete(text[:2], 5) == built.complete(text[:2], 5)
    expected_moments = CodeMoments.of_codes(published.generation.codes()[0])
    assert published.moments is not None
    assert published.moments.n_codes == expected_moments.n_codes
    assert np.array_equal(published.moments.sums, expected_moments.sums)
    assert published.moments.products is not None
    assert expected_moments.products is not None
    assert np.array_equal(published.moments.products, expected_moments.products)


def refuse_to_build(monkeypatch: pytest.MonkeyPatch) -> None:
    def build(*_: object, **__: object) -> LexicalIndex:
        raise AssertionError("the texts were indexed anew")

    monkeypatch.setattr(LexicalIndex, "build", build)


def filled(folder: Path) -> Collection:
    """Make a collection whose word index has a file."""
    with closing(code_collection(folder)) as collection:
        collection.upsert(documents(np.random.default_rng(0), 40))
        check(collection)
    assert (folder / word_file.FILE).exists()
    return reopened(folder)


def test_a_later_process_indexes_no_text(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    filled(tmp_path).close()
    with monkeypatch.context() as patch, closing(reopened(tmp_path, writable=False)) as reader:
        refuse_to_build(patch)
        assert reader._published_index.current_with_lexical().lexical is not None
    with closing(reopened(tmp_path)) as collection:
        check(collection)


def test_the_file_is_followed_by_what_was_written_since(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    filled(tmp_path).close()
    with closing(reopened(tmp_path)) as collection:  # without an index in memory
        collection.upsert([Document(id="new", text="fig t-test quince", code="0f0f")])
        collection.delete(["d1", "d2", "d3"])
    with closing(reopened(tmp_path)) as collection, monkeypatch.context() as patch:
        refuse_to_build(patch)
        lexical = collection._published_index.current_with_lexical().lexical
        assert lexical is not None
        assert len(lexical.rank("quince", 5).rows) == 1
    with closing(reopened(tmp_path)) as collection:
        check(collection)


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), steps=st.lists(st.sampled_from("adscr"), max_size=12))
def test_after_any_writes_and_crashes_it_equals_a_new_index(
    tmp_path_factory: pytest.TempPathFactory, seed: int, steps: list[str]
) -> None:
    folder, rng = tmp_path_factory.mktemp("store"), np.random.default_rng(seed)
    collection = code_collection(folder)
    file, earlier = folder / word_file.FILE, folder / "earlier"
    for step in steps:
        if step == "a":
            collection.upsert(documents(rng, int(rng.integers(1, 15))))
        elif step == "d":
            collection.delete([f"d{number}" for number in rng.integers(0, 60, 8)])
        elif step == "s":
            check(collection)
        else:
            # Closing writes the file; a crash leaves that of an earlier generation.
            if file.exists():
                shutil.copy(file, earlier)
            collection.close()
            if step == "c" and earlier.exists():
                shutil.copy(earlier, file)
            collection = reopened(folder)
    with closing(collection):
        check(collection)


@pytest.mark.parametrize("share", [0.0, 0.001, 0.02, 0.3, 0.6, 0.9, 0.999])
def test_a_changed_byte_is_found(tmp_path: Path, share: float) -> None:
    filled(tmp_path).close()
    file = tmp_path / word_file.FILE
    raw = bytearray(file.read_bytes())
    # The padding between arrays is the only part that nothing reads.
    places = [at for at, byte in enumerate(raw) if byte]
    at = places[int(share * len(places))]
    raw[at] ^= 0x10
    file.write_bytes(raw)
    with closing(reopened(tmp_path)) as collection:
        check(collection)


@pytest.mark.parametrize("content", [b"", b"x" * 100, b"\x80\x04K\x01.", b"hummingbit word\n"])
def test_another_file_is_not_used(tmp_path: Path, content: bytes) -> None:
    filled(tmp_path).close()
    (tmp_path / word_file.FILE).write_bytes(content)
    with closing(reopened(tmp_path)) as collection:
        check(collection)


@pytest.mark.parametrize("share", [0.1, 0.5, 0.99])
def test_a_truncated_file_is_not_used(tmp_path: Path, share: float) -> None:
    filled(tmp_path).close()
    file = tmp_path / word_file.FILE
    file.write_bytes(file.read_bytes()[: int(share * file.stat().st_size)])
    with closing(reopened(tmp_path)) as collection:
        check(collection)


def test_a_link_is_not_followed(tmp_path: Path) -> None:
    filled(tmp_path).close()
    file = tmp_path / word_file.FILE
    file.rename(tmp_path / "elsewhere")
    file.symlink_to(tmp_path / "elsewhere")
    with closing(reopened(tmp_path, writable=False)) as collection:
        check(collection)


def test_a_file_of_another_store_or_of_a_later_state_is_not_used(tmp_path: Path) -> None:
    first, second, backup = (tmp_path / name for name in ("first", "second", "backup"))
    for folder in (first, second):
        folder.mkdir()
        filled(folder).close()
    shutil.copy(second / word_file.FILE, first / word_file.FILE)
    with closing(reopened(first)) as collection:
        check(collection)
    shutil.copytree(first, backup)
    with closing(reopened(first)) as collection:
        check(collection)
        collection.upsert([Document(id="lost", text="apple fig", code="ffff")])
    for name in ("store.sqlite", "store.sqlite-acknowledged"):
        shutil.copy(backup / name, first / name)
    with closing(reopened(first)) as collection:
        assert not (first / word_file.FILE).exists()
        collection.upsert([Document(id="other", text="banana", code="0000")])
        check(collection)


def test_rows_with_other_codes_are_not_trusted(tmp_path: Path) -> None:
    filled(tmp_path).close()
    raw = (tmp_path / word_file.FILE).read_bytes()
    with closing(reopened(tmp_path)) as collection:
        header = word_file.header_in(tmp_path)
        assert header is not None
        codes, rows = collection._published_index.current().generation.codes()
        lexical = collection._published_index.current_with_lexical().lexical
        assert lexical is not None
        other = codes ^ np.uint8(1)
        saved = word_file.SavedWords(lexical, rows, other, CodeMoments.of_codes(other))
        word_file.save(tmp_path, header.stamp, saved)
    assert (tmp_path / word_file.FILE).read_bytes() != raw
    with closing(reopened(tmp_path)) as collection:
        check(collection)


def test_a_change_of_the_language_indexes_anew(tmp_path: Path) -> None:
    with closing(filled(tmp_path)) as collection:
        check(collection)
        collection.set_language("none")
        check(collection)
    with closing(reopened(tmp_path)) as collection:
        check(collection)


def test_where_nothing_can_be_written_searches_go_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    filled(tmp_path).close()
    (tmp_path / word_file.FILE).unlink()

    def save(*_: object) -> None:
        raise OSError(30, "Read-only file system")

    monkeypatch.setattr(word_file, "save", save)
    with closing(reopened(tmp_path, writable=False)) as collection:
        check(collection)
        collection._published_index.wait()
    assert not (tmp_path / word_file.FILE).exists()


def test_remains_of_a_crash_are_deleted(tmp_path: Path) -> None:
    filled(tmp_path).close()
    partial = tmp_path / f"{word_file.FILE}.0123abcd.partial"
    partial.write_bytes(b"x")
    reopened(tmp_path, writable=False).close()
    assert partial.exists()
    reopened(tmp_path).close()
    assert not partial.exists()


SAMPLE = (
    "Running t-tests on Wi-Fi 6\nThe cross_entropy of CrossEntropyLoss in C++ and .NET costs"
    " $1,000.50 (v2.17.1). Schöne Häuser, œuvres naïves; мои дома 東京都 αὐτός! python3.11 हिन्दी"
)
ANALYSES = {1: "5aad3389"}
"""What a checksum of the sample's terms, their other forms, title and summary was, by number."""


def test_a_change_of_how_texts_are_analyzed_has_a_number_of_its_own() -> None:
    """If this fails, add one to ANALYSIS, and a line above."""
    made = [*VISIBLE.terms(SAMPLE), *other_forms(SAMPLE), str(title_of(SAMPLE)), summary_of(SAMPLE)]
    found = f"{zlib.crc32(json.dumps(made).encode()):08x}"
    assert max(ANALYSES) == word_file.ANALYSIS
    assert found == ANALYSES[word_file.ANALYSIS]
