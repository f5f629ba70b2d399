"""Words match by meaning; what a question was read as is said, marked, and can be switched off."""

from __future__ import annotations

import tarfile
from pathlib import Path

import numpy as np
import pytest

from hummingbit.corpus.document import Document
from hummingbit.encoder.artifact import write_artifact
from hummingbit.encoder.encoder import Encoder, Layer
from hummingbit.encoder.text_features import TextFeatures
from hummingbit.foundation.errors import InputError
from hummingbit.index.catalog import shipped_encoder
from hummingbit.index.collection import Collection
from hummingbit.index.data_folder import DataFolder
from hummingbit.index.facets import parse_facets
from hummingbit.index.records import Query
from hummingbit.index.schema import Description
from hummingbit.index.search import SearchResult
from hummingbit.index.store.store import Store

# Words that are near in meaning, each with the angle of its row within a plane of the group.
GROUPS = [
    {"mirror": 0, "reflection": 20, "reflect": 30, "shiny": 80},
    {"phone": 0, "mobile": 30, "telephone": 5},
    {"email": 0, "mail": 15, "email2": 1},
    {"version": 0},
    {"19": 0, "20": 1},
    {"the": 0, "of": 1},
]
TEXTS = [
    "reflection of light on a lake",
    "mobile networks of the north",
    "emil and the detectives",
    "mail is delivered at noon",
    "notes of version 2.19",
    "committee on ship mirrors",
    "accommodation near the harbour",
]


def encoder() -> Encoder:
    """Return an encoder of 16 bits whose rows have these angles."""
    words = [word for group in GROUPS for word in group]
    rows = np.zeros((len(words), 16), dtype=np.float32)
    for plane, group in enumerate(GROUPS):
        for word, degrees in group.items():
            angle = np.deg2rad(degrees)
            rows[words.index(word), 2 * plane : 2 * plane + 2] = np.cos(angle), np.sin(angle)
    layer = Layer(rows, np.zeros(16, np.float32), "identity")
    features = TextFeatures(words, weighting="count")
    thresholds = np.full(16, 0.1, np.float32)
    return Encoder(features, [layer], thresholds, {"method": "static"}, "f" * 64)


@pytest.fixture(scope="module")
def collection(tmp_path_factory: pytest.TempPathFactory) -> Collection:
    path = tmp_path_factory.mktemp("meaning") / "store.sqlite"
    made = encoder()
    Store.create(path, Description("texts", made.n_bits, "encoder", made.fingerprint))
    collection = Collection(Store(path, writable=True), made)
    collection.set_ranking("bm25")
    collection.set_language("english")
    collection.upsert([Document(id=str(at), text=text) for at, text in enumerate(TEXTS)])
    return collection


def search(collection: Collection, text: str, **options: object) -> SearchResult:
    return collection.search([Query(text=text)], 10, **options)  # type: ignore[arg-type]


def ids(collection: Collection, text: str, **options: object) -> list[str]:
    return [hit.id for hit in search(collection, text, **options).hits[0]]


@pytest.mark.parametrize("ranking", ["bm25", "hybrid"])
@pytest.mark.parametrize(("options", "counted"), [({}, 2), ({"expand": False}, 1)])
def test_facets_count_documents_of_expansions(
    collection: Collection, ranking: str, options: dict[str, bool], counted: int
) -> None:
    asked = parse_facets("label")
    found = search(collection, "mirror", ranking=ranking, facets=asked, **options)
    assert found.facets is not None
    assert found.facets[0][0].missing == counted
    assert [*found.facets_over] == ["words"]


@pytest.mark.parametrize("ranking", ["bm25", "hybrid"])
def test_a_word_also_matches_words_near_in_meaning(collection: Collection, ranking: str) -> None:
    found = search(collection, "mirror", ranking=ranking)
    assert {hit.id for hit in found.hits[0][:2]} == {"5", "0"}
    assert ids(collection, "mirror", ranking="bm25")[0] == "5"  # the word as it is written
    assert found.of_query(0).expanded == {"mirror": ("reflect",)}
    assert ids(collection, "phone", ranking=ranking)[0] == "1"
    answer = collection.answer(Query(text="telephone"), {"ranking": ranking})
    assert answer["expanded"] == {"telephone": ("mobile",)}
    assert answer["corrected"] == []


def test_the_largest_part_of_a_word_counts_and_not_the_sum(collection: Collection) -> None:
    both = Document(id="both", text="mirror reflection")
    collection.upsert([both, Document(id="one", text="mirror light")])
    scores = {hit.id: hit.score for hit in search(collection, "mirror").hits[0]}
    assert scores["both"] == scores["one"] > scores["0"] > 0
    collection.delete(["both", "one"])


@pytest.mark.parametrize("text", ['"mirror"', "+mirror"])
def test_a_word_in_quotes_or_after_a_plus_matches_as_it_is(
    collection: Collection, text: str
) -> None:
    assert ids(collection, text) == ["5"]
    assert search(collection, text).of_query(0).expanded == {}
    assert ids(collection, f"{text} light") == ["5"]
    assert ids(collection, "+emial") == []


def test_an_option_switches_it_off(collection: Collection) -> None:
    assert ids(collection, "mirror", expand=False) == ["5"]
    assert ids(collection, "comittee", expand=False) == []
    assert ids(collection, "comittee") == ["5"]
    assert collection.answer(Query(text="mirror"), {"expand": False})["hits"][0]["id"] == "5"
    assert "expanded" not in collection.answer(Query(text="mirror"), {"expand": False})
    with pytest.raises((InputError, TypeError)):
        collection.answer(Query(text="mirror"), {"expandd": False})


def test_a_word_that_the_encoder_knows_is_never_corrected_by_its_letters(
    collection: Collection,
) -> None:
    found = search(collection, "email").of_query(0)
    assert (found.corrected, found.expanded) == ([], {"email": ("mail",)})
    assert ids(collection, "email") == ["3"]
    # Neither is a word with digits, nor one that a document has.
    for text in ("email2", "email3", "emil"):
        assert search(collection, text).of_query(0).corrected == []
    assert ids(collection, "email3") == []


def test_a_correction_is_said_and_its_word_is_marked(collection: Collection) -> None:
    for text, known in (("acommodaton", "accommodation"), ("refletcion", "reflection")):
        found = search(collection, text, highlight=True)
        assert found.of_query(0).corrected == [(text, known)]
        highlight = found.hits[0][0].highlight
        assert highlight is not None
        (mark,) = highlight.marks
        assert highlight.passage[slice(*mark)] == known
    # The encoder reads it, too, where codes rank.
    found = search(collection, text, ranking="hybrid")
    assert found.queries.terms[0] is not None
    assert found.queries.terms[0].recognized_terms == 1


def test_words_near_in_meaning_are_marked(collection: Collection) -> None:
    highlight = search(collection, "mirror", highlight=True).hits[0][1].highlight
    assert highlight is not None
    assert [highlight.passage[a:b] for a, b in highlight.marks] == ["reflection"]


@pytest.mark.parametrize("ranking", ["bm25", "hybrid", "asymmetric", "hamming"])
def test_another_version_is_not_found_by_its_digits(collection: Collection, ranking: str) -> None:
    collection.upsert([Document(id="v", text="this version of the ship")])
    unknown, plain = (
        search(collection, text, ranking=ranking) for text in ("version 6.19", "version")
    )
    # Words count less in a hybrid if some of them are unknown.
    assert [hit.id for hit in unknown.hits[0]] == [hit.id for hit in plain.hits[0]]
    assert unknown.queries.codes.tolist() == plain.queries.codes.tolist()
    assert ids(collection, "version 2.19", ranking=ranking)[0] == "4"
    collection.delete(["v"])


def test_pages_have_the_same_words_whatever_is_written(collection: Collection) -> None:
    collection.upsert([Document(id=f"m{at}", text=f"mirror {at} of glass") for at in range(9)])
    whole = ids(collection, "telephone mirror")
    first = collection.search([Query(text="telephone mirror")], 3)
    collection.upsert([Document(id="new", text="telephone")])
    cursor = first.next_cursors[0]
    rest = collection.search([Query(text="telephone mirror")], 7, cursor=cursor).hits[0]
    assert [hit.id for hit in first.hits[0]] + [hit.id for hit in rest] == whole
    collection.delete(["new", *(f"m{at}" for at in range(9))])


def test_a_collection_that_is_ready_has_what_words_by_meaning_need(tmp_path: Path) -> None:
    """A service asks this before it searches where other requests would wait."""
    folder = shipped_encoder()
    assert folder is not None
    with DataFolder(tmp_path, writable=True, indexed=False) as data:
        data.encoders.install(folder, "english")
        collection = data.create_collection("c", encoder="english")
        assert isinstance(collection, Collection)
        collection.upsert([Document("a", "a bent mirror")])
        assert not collection.is_built_for("hybrid")
        collection.build_index()
        assert collection.is_built_for("hybrid")
        assert collection.is_built_for("hamming")


def test_terms_are_kept_beside_the_encoder_and_in_no_snapshot(tmp_path: Path) -> None:
    write_artifact(tmp_path / "made", encoder(), ["mirror"])
    with DataFolder(tmp_path / "data", writable=True) as data:
        data.encoders.install(tmp_path / "made", "mine")
        created = data.create_collection("c", encoder="mine", language="english")
        created.upsert([Document(id=str(at), text=text) for at, text in enumerate(TEXTS)])
        first = search(created, "mirror", ranking="bm25")
        assert first.of_query(0).expanded == {"mirror": ("reflect",)}
        kept = tmp_path / "data" / "encoders" / "mine" / "visible+english.terms"
        written = kept.stat().st_mtime_ns
        left = kept.with_name(f"{kept.name}.0123.partial")
        left.write_bytes(b"")  # by a process that was killed
        snapshot = data.create_snapshot("c")
        with tarfile.open(data.snapshots.file(snapshot.id)) as archive:
            assert not [name for name in archive.getnames() if "terms" in name]
    with DataFolder(tmp_path / "data", writable=True) as data:
        again = search(data.collection("c"), "mirror", ranking="bm25")
        assert again.hits == first.hits
    assert kept.stat().st_mtime_ns == written
    assert not left.exists()
