"""Files as people have them, and the layout that each suggests."""

from __future__ import annotations

import ast
import csv
import gzip
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hummingbit.corpus.layout import Layout
from hummingbit.corpus.readers import ReadError, read_documents
from hummingbit.corpus.survey import survey
from tests.support.corpora import topic_documents

DOCUMENTS = topic_documents(90)
TEXTS = [f"{document.text} number {at}" for at, document in enumerate(DOCUMENTS)]
LABELS = [document.labels[0] for document in DOCUMENTS]


def table(folder: Path, names: list[str], *columns: list[Any]) -> Path:
    path = folder / "d.csv"
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        if names:
            writer.writerow(names)
        writer.writerows(zip(*columns, strict=True))
    return path


def numbers(start: int) -> list[int]:
    return list(range(start, start + len(TEXTS)))


SHAPES: dict[str, tuple[list[str], list[list[Any]], Layout]] = {
    "a label of another name": (
        ["text", "category"],
        [TEXTS, LABELS],
        Layout(label_field="category"),
    ),
    "integer ids": (
        ["qid", "question", "intent"],
        [numbers(7), TEXTS, LABELS],
        Layout(id_field="qid", text_fields=("question",), label_field="intent"),
    ),
    "no header": (
        [],
        [LABELS, [f"{text}, and some more words" for text in TEXTS]],
        Layout(text_fields=("column2",), label_field="column1", has_header=False),
    ),
    "names in Chinese": (
        ["标题", "类别"],
        [TEXTS, LABELS],
        Layout(text_fields=("标题",), label_field="类别"),
    ),
    "names in German": (
        ["Nr", "Titel", "Beschreibung", "Kategorie"],
        [numbers(1), TEXTS, TEXTS, LABELS],
        Layout("Nr", ("Titel", "Beschreibung"), "Kategorie"),
    ),
    "an id in a German compound": (
        ["Artikelnummer", "Klappentext", "Rubrik"],
        [numbers(9000), TEXTS, LABELS],
        Layout("Artikelnummer", ("Klappentext",), "Rubrik"),
    ),
    "the number of a book": (
        ["ISBN", "Text"],
        [numbers(9780000000002), TEXTS],
        Layout("ISBN", ("Text",)),
    ),
    "an id in two capitalized words": (
        ["ArtikelNr", "Text"],
        [numbers(1), TEXTS],
        Layout("ArtikelNr", ("Text",)),
    ),
    "names in French": (
        ["Numéro", "Contenu", "Thème"],
        [numbers(1), TEXTS, LABELS],
        Layout("Numéro", ("Contenu",), "Thème"),
    ),
    "names in Spanish": (
        ["código", "título", "descripción", "categoría"],
        [numbers(1), TEXTS, TEXTS, LABELS],
        Layout("código", ("título", "descripción"), "categoría"),
    ),
    "title, content and category in Chinese": (
        ["编号", "标题", "内容", "类别"],
        [numbers(1), TEXTS, TEXTS, LABELS],
        Layout("编号", ("标题", "内容"), "类别"),
    ),
    "names of several words": (
        ["article_id", "productDescription", "text_en", "ticket-category", "colour"],
        [numbers(1), TEXTS, TEXTS, LABELS, LABELS],
        Layout("article_id", ("text_en",), "ticket-category"),
    ),
    "a number before each row": (
        ["#", "Texto"],
        [numbers(1), TEXTS],
        Layout("#", ("Texto",)),
    ),
    "a number in Spanish": (
        ["Nro.", "Asunto", "Mensaje"],
        [numbers(1), TEXTS, TEXTS],
        Layout("Nro.", ("Asunto", "Mensaje")),
    ),
    "the index that pandas writes": (
        ["", "Unnamed: 0", "text"],
        [numbers(0), numbers(0), TEXTS],
        Layout(id_field=""),
    ),
    "a title beside the text": (
        ["id", "title", "body"],
        [numbers(1), TEXTS, TEXTS],
        Layout(text_fields=("title", "body")),
    ),
    "no labels": (
        ["url", "year", "abstract"],
        [numbers(0), [1999] * len(TEXTS), TEXTS],
        Layout(text_fields=("abstract",)),
    ),
}


@pytest.mark.parametrize("shape", SHAPES)
def test_what_common_files_suggest(tmp_path: Path, shape: str) -> None:
    names, columns, expected = SHAPES[shape]
    path = table(tmp_path, names, *columns)
    found = survey(path, Layout()).layout
    assert found == expected
    documents = list(read_documents(path, layout=found))
    assert all(
        text in (document.text or "") for text, document in zip(TEXTS, documents, strict=True)
    )


def test_a_name_of_an_author_is_no_text(tmp_path: Path) -> None:
    path = tmp_path / "songs.csv"
    rows = [
        f"Anna Stone{at},Bert Hill{at},the river of number {at} runs slowly to the wide grey sea"
        for at in range(60)
    ]
    path.write_text("\n".join(["post by,comment_by,lyrics", *rows]))

    assert survey(path, Layout()).layout.text_fields == ("lyrics",)


@pytest.mark.parametrize(
    "name", ["author name", "userName", "reviewer_name", "username", "Nachname", "Name des Autors"]
)
def test_the_name_of_a_person_is_no_title(tmp_path: Path, name: str) -> None:
    names = [f"Anna Stone{at}" for at in range(len(TEXTS))]
    found = survey(table(tmp_path, [name, "review"], names, TEXTS), Layout())
    assert found.layout.text_fields == ("review",)
    found = survey(table(tmp_path, ["product name", "review"], names, TEXTS), Layout())
    assert found.layout.text_fields == ("product name", "review")


@pytest.mark.parametrize("key", ["q{}", "{}", "doc-{}"])
def test_a_file_of_keys_and_queries_without_a_header_is_read_whole(
    tmp_path: Path, key: str
) -> None:
    path = tmp_path / "queries.tsv"
    path.write_text("".join(f"{key.format(at)}\tabout item {at}\n" for at in range(5)))
    found = survey(path, Layout()).layout
    assert found == Layout(id_field="column1", text_fields=("column2",), has_header=False)


def test_names_with_numbers_above_other_cells_are_names(tmp_path: Path) -> None:
    answers = [f"q{at % 3}" for at in range(len(TEXTS))]
    path = table(tmp_path, ["q1", "q2"], answers, TEXTS)
    assert survey(path, Layout()).layout.has_header


def test_short_texts_without_a_header_are_no_names(tmp_path: Path) -> None:
    words = [f"{text.split()[0]} and number {at}" for at, text in enumerate(TEXTS)]
    path = table(tmp_path, [], LABELS, words)
    found = survey(path, Layout()).layout
    assert found == Layout(text_fields=("column2",), label_field="column1", has_header=False)
    path = table(tmp_path, ["topic", "name of product"], LABELS, words)
    assert survey(path, Layout()).layout.has_header


@pytest.mark.parametrize("name", ["d.CSV", "d.csv.gz", "D.CSV.GZ"])
def test_compression_and_capitals_of_a_name_do_not_change_what_is_found(
    tmp_path: Path, name: str
) -> None:
    plain = table(tmp_path, [], LABELS, TEXTS)
    other = tmp_path / name
    content = plain.read_bytes()
    other.write_bytes(gzip.compress(content) if name.lower().endswith(".gz") else content)
    assert survey(other, Layout()).layout == survey(plain, Layout()).layout


def test_several_labels_a_document_are_labels(tmp_path: Path) -> None:
    records = [
        {"body": text, "topics": [label, "all"], "n": at}
        for at, (text, label) in enumerate(zip(TEXTS, LABELS, strict=True))
    ]
    path = tmp_path / "d.json"
    path.write_text(json.dumps(records))
    found = survey(path, Layout())
    assert found.layout == Layout(text_fields=("body",), label_field="topics")
    assert found.names == ("body", "topics", "n")


def test_lists_in_the_cells_of_a_table_are_labels(tmp_path: Path) -> None:
    topics = [str([label, f"it's {at % 3}"] if at % 4 else []) for at, label in enumerate(LABELS)]
    path = table(tmp_path, ["body", "topics"], TEXTS, topics)
    found = survey(path, Layout()).layout
    assert found == Layout(text_fields=("body",), label_field="topics")
    given = [tuple(ast.literal_eval(topic)) for topic in topics]
    assert [document.labels for document in read_documents(path, layout=found)] == given


def test_lists_are_labels_if_their_entries_repeat(tmp_path: Path) -> None:
    words = [text.split() for text in TEXTS]
    records = [
        {"body": text, "topics": [label, f"of {at // 3}"], "keywords": [*some[:2], str(at)]}
        for at, (text, label, some) in enumerate(zip(TEXTS, LABELS, words, strict=True))
    ]
    path = tmp_path / "d.json"
    path.write_text(json.dumps(records))
    found = survey(path, Layout())
    assert found.layout.label_field == "topics"
    assert found.unused_lists == {
        "keywords": len({keyword for r in records for keyword in r["keywords"]})
    }


def test_lists_that_are_the_same_in_all_documents_are_no_labels(tmp_path: Path) -> None:
    records = [
        {"text": text, "tags": ["x", "y"][:: 1 - 2 * (at % 2)]} for at, text in enumerate(TEXTS)
    ]
    path = tmp_path / "d.json"
    path.write_text(json.dumps(records))
    found = survey(path, Layout())
    assert (found.layout.label_field, found.label_candidates, found.unused_lists) == (None, (), {})


def test_an_id_that_most_documents_lack_is_not_theirs(tmp_path: Path) -> None:
    path = tmp_path / "d.jsonl"
    for share, expected in ((2, None), (30, "author_id")):
        authors = [None if at % share == 0 else at for at in range(len(TEXTS))]
        records = [
            {"text": text, "author_id": one} for text, one in zip(TEXTS, authors, strict=True)
        ]
        path.write_text("\n".join(map(json.dumps, records)))
        assert survey(path, Layout()).layout.id_field == expected


def test_texts_inside_lists_are_refused_by_the_names_of_these(tmp_path: Path) -> None:
    path = tmp_path / "d.json"
    path.write_text(json.dumps([{"n": 1, "paragraphs": [text, text]} for text in TEXTS]))
    with pytest.raises(ReadError, match="copy a text that is inside 'paragraphs' to a field"):
        survey(path, Layout())


def test_of_two_unusual_fields_neither_is_taken_for_the_label(tmp_path: Path) -> None:
    colours = np.random.default_rng(0).choice(["red", "blue"], len(TEXTS)).tolist()
    path = table(tmp_path, ["text", "colour", "mood"], TEXTS, colours, LABELS)
    found = survey(path, Layout())
    assert found.layout.label_field is None
    assert found.label_candidates == ("colour", "mood")


def test_fields_of_strings_come_before_numbers_among_what_may_be_the_label(tmp_path: Path) -> None:
    answers = [at % 5 for at in range(len(TEXTS))]
    colours = [("red", "blue")[at % 2] for at in range(len(TEXTS))]
    path = table(tmp_path, ["text", "q1", "q2", "colour"], TEXTS, answers, answers, colours)
    assert survey(path, Layout()).label_candidates == ("colour", "q1", "q2")


def test_a_repeated_id_is_told(tmp_path: Path) -> None:
    path = table(tmp_path, ["ID", "text"], [at // 2 for at in range(len(TEXTS))], TEXTS)
    found = survey(path, Layout())
    assert found.layout.id_field is None
    assert found.repeated_id == "ID"


def test_texts_inside_objects_are_found(tmp_path: Path) -> None:
    path = tmp_path / "d.json"
    records = [
        {
            "_id": {"$oid": f"{at:024x}"},
            "content": {"headline": f"Heading {at}", "parts": {"n": at}, "body": text},
            "meta": {"category": label, "author": {"name": f"Writer {at}"}},
        }
        for at, (text, label) in enumerate(zip(TEXTS, LABELS, strict=True))
    ]
    path.write_text(json.dumps(records))
    layout = survey(path, Layout()).layout
    assert layout.id_field == "_id.$oid"
    assert layout.text_fields == ("content.headline", "content.body")
    assert layout.label_field == "meta.category"
    first, *_ = read_documents(path, layout=layout)
    assert (first.id, first.text) == (f"{0:024x}", f"Heading 0\n{TEXTS[0]}")
    assert first.labels == (LABELS[0],)
    assert first.payload == {"content": {"parts": {"n": 0}}, "meta": records[0]["meta"]}


def test_numbers_and_ids_are_neither_labels_nor_words_and_states_are_no_words(
    tmp_path: Path,
) -> None:
    rows = range(len(TEXTS))
    columns: dict[str, list[Any]] = {
        "text": TEXTS,
        "Länge": [100 + at % 25 for at in rows],
        "Jahr": [1960 + at % 4 for at in rows],
        "stars": [1 + at % 5 for at in rows],
        "thread_id": [f"thread{at % 9}" for at in rows],
        "day": [f"2024-05-{1 + at % 9:02}" for at in rows],
        "lot": [f"K{at % 9}" for at in rows],
        "stock": [("ja", "Nein", "nein")[at % 3] for at in rows],
        "place": [("Old Town", "Harbour", "Mill", "Bridge", "Park")[at % 5] for at in rows],
    }
    found = survey(table(tmp_path, [*columns], *columns.values()), Layout())
    assert found.label_candidates == ("lot", "stock", "place", "stars")
    assert found.words == ("text", "place")


@pytest.mark.parametrize("value", ["1,250.00", "€ 12.90", "31/12/2024", "2024-01-31 10:11", "7 %"])
def test_prices_and_dates_are_not_proposed_as_labels(tmp_path: Path, value: str) -> None:
    measures = [value.replace("1", str(at % 3)) for at in range(len(TEXTS))]
    if len({*measures}) < 2:
        measures = [value.replace("7", str(at % 3)) for at in range(len(TEXTS))]
    colours = [("red", "blue")[at % 2] for at in range(len(TEXTS))]
    path = table(tmp_path, ["text", "cost", "colour"], TEXTS, measures, colours)
    assert survey(path, Layout()).label_candidates == ("colour",)


@pytest.mark.parametrize("title", ["titre", "Titel", "título", "title"])
@pytest.mark.parametrize("other", [None, "origine", "Quelle", "fuente"])
def test_a_title_that_repeats_is_read_and_is_no_label(
    tmp_path: Path, title: str, other: str | None
) -> None:
    titles = [f"monthly report {row % 7}" for row in range(90)]
    names = ["id", title, "text"] if other is None else ["id", title, "text", other]
    columns: list[list[Any]] = [numbers(0), titles, TEXTS]
    if other is not None:
        columns.append([f"s{row % 3}" for row in range(90)])
    found = survey(table(tmp_path, names, *columns), Layout())
    assert found.layout.label_field == other
    assert found.layout.text_fields == (title, "text")
    assert found.label_candidates == (() if other is None else (other,))


def test_a_subject_beside_a_body_is_read_though_it_repeats(tmp_path: Path) -> None:
    subjects = ["Cannot log in", "Invoice is wrong", "Parcel is late"]
    tickets = [
        {"ticket": {"n": at, "subject": subjects[at % 3], "body": text}}
        for at, text in enumerate(TEXTS)
    ]
    path = tmp_path / "tickets.json"
    path.write_text(json.dumps({"tickets": tickets}))
    assert survey(path, Layout()).layout.text_fields == ("ticket.subject", "ticket.body")


def test_forms_of_address_are_no_title(tmp_path: Path) -> None:
    forms = [("Mrs", "Mr", "Dr")[at % 3] for at in range(len(TEXTS))]
    path = table(tmp_path, ["title", "text"], forms, TEXTS)
    assert "title" not in survey(path, Layout()).layout.text_fields


def test_a_year_is_no_label_unless_it_is_named_as_one(tmp_path: Path) -> None:
    years = [1990 + at % 20 for at in range(len(TEXTS))]
    found = survey(table(tmp_path, ["text", "year"], TEXTS, years), Layout())
    assert found.layout.label_field is None
    assert found.label_candidates == ()
    found = survey(table(tmp_path, ["text", "class"], TEXTS, years), Layout())
    assert found.layout.label_field == "class"
    spoken = [f"{text}, and some more words" for text in TEXTS]
    found = survey(table(tmp_path, [], years, spoken), Layout())
    assert found.layout.label_field == "column1"


def test_what_is_asked_for_stays(tmp_path: Path) -> None:
    path = table(tmp_path, ["text", "note", "label"], TEXTS, TEXTS, LABELS)
    asked = Layout(text_fields=("note",), label_field="text", payload_fields=("label",))
    assert survey(path, asked).layout == asked


def test_a_field_named_as_text_is_the_text_even_if_most_texts_repeat(tmp_path: Path) -> None:
    texts = [TEXTS[at % 5] for at in range(len(TEXTS))]
    path = table(tmp_path, ["number", "message", "label"], numbers(0), texts, LABELS)
    assert survey(path, Layout()).layout.text_fields == ("message",)


def test_texts_that_many_tickets_share_are_read_and_costs_are_not(tmp_path: Path) -> None:
    subjects = [("No sound in calls", "Laptop is slow")[at % 2] for at in range(len(TEXTS))]
    replies = [f"{TEXTS[at % 4]} {TEXTS[at % 4]}" for at in range(len(TEXTS))]
    costs = [f"{at},{at % 90 + 10} €" for at in range(len(TEXTS))]
    opened = [f"{at % 28 + 1}. Mar 2024" for at in range(len(TEXTS))]
    columns = {"Betreff": subjects, "Beschreibung": replies, "Kosten": costs, "Eröffnet am": opened}
    path = table(tmp_path, [*columns], *columns.values())
    assert survey(path, Layout()).layout.text_fields == ("Betreff", "Beschreibung")


def test_a_body_of_html_is_a_body(tmp_path: Path) -> None:
    names = [f"{text} of steel" for text in TEXTS]
    bodies = [f"<p>{TEXTS[at % 4]} {TEXTS[at % 4]} {TEXTS[at % 4]}</p>" for at in range(len(TEXTS))]
    path = table(tmp_path, ["name", "body_html"], names, bodies)
    assert survey(path, Layout()).layout.text_fields == ("name", "body_html")


@pytest.mark.parametrize("header", ["name", "Modell"])
def test_a_table_of_variants_has_the_name_of_the_product_as_its_text(
    tmp_path: Path, header: str
) -> None:
    products = ("Red wool scarf, hand-knitted", "Leather hiking boots", "Foldable gas stove")
    sizes = ("S", "M", "L", "XL")
    rows = [
        f"{p}{s},{name!r},{size}" for p, name in enumerate(products) for s, size in enumerate(sizes)
    ]
    path = tmp_path / "variants.csv"
    path.write_text("\n".join([f"sku,{header},size", *rows]).replace("'", '"'))
    assert survey(path, Layout()).layout.text_fields == (header,)


def test_other_fields_of_text_are_told(tmp_path: Path) -> None:
    stamps = [f"Mon Apr 06 22:19:{at:02} PDT 2009" for at in range(len(TEXTS))]
    longer = [f"{text} with some more words" for text in TEXTS]
    keys = [f"{at:08x}-abcd-abcd-abcd-abcdefabcdef" for at in range(len(TEXTS))]
    names = ["key", "when", "question1", "question2"]
    found = survey(table(tmp_path, names, keys, stamps, longer, longer[::-1]), Layout())
    assert found.layout.text_fields == ("question1",)
    assert found.other_texts == ("question2",)
    both = Layout(text_fields=("question1", "question2"))
    assert survey(tmp_path / "d.csv", both).other_texts == ()


def test_of_many_fields_the_first_are_named(tmp_path: Path) -> None:
    path = tmp_path / "d.json"
    path.write_text(json.dumps({str(at): {"text": text} for at, text in enumerate(TEXTS)}))
    with pytest.raises(ReadError) as raised:
        survey(path, Layout())
    assert f"'19', {len(TEXTS) - 20} more. Name one" in str(raised.value)
    assert str(raised.value).endswith("write one on each line, or an array of them")


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (
            "a,b\n1,2\n3,4\n",
            "no field looks like text; it has 'a', 'b'. Name one with --text-field",
        ),
        ("text,label\n", "has no documents"),
        ("text,label\n" + 9 * "jam,x\njam,y\n", "'text' is the same in every document"),
        ("text,label\n1\n", "has no documents; line 2 has 1 cell; the header has 2"),
        ("", "is empty; it must begin with a header row"),
    ],
)
def test_a_source_without_texts_is_refused(tmp_path: Path, content: str, reason: str) -> None:
    path = tmp_path / "d.csv"
    path.write_text(content)
    with pytest.raises(ReadError, match=reason):
        survey(path, Layout())


def test_texts_with_tags_are_html(tmp_path: Path) -> None:
    rows = "".join(
        f"{position},Shoe {position},<p>Shoe {position} is <b>red</b></p>\n"
        for position in range(60)
    )
    path = tmp_path / "shop.csv"
    path.write_text(f"sku,name,description\n{rows}")
    assert survey(path, Layout()).layout.html
    path.write_text(f"sku,name,description\n{rows.replace('<', '').replace('>', '')}")
    assert not survey(path, Layout()).layout.html
    assert survey(path, Layout(html=True)).layout.html


def test_labels_with_commas_between_them_are_a_list(tmp_path: Path) -> None:
    names = ["bug", "needs reply", "docs", "area: core", "help wanted", "question"]
    # As GitHub lists the labels of issues: most have one label or none.
    cells = [", ".join(names[at % 6 : at % 6 + 1 + 2 * (at % 11 == 0)]) for at in range(len(TEXTS))]
    assert len({cell for cell in cells if "," in cell}) >= 2
    path = table(tmp_path, ["title", "body", "labels"], TEXTS, TEXTS, cells)
    assert survey(path, Layout()).separated_lists == {"labels": ","}
    shops = [["Home, Garden", "Home", "Sports", "Books"][min(at % 9, 3)] for at in range(90)]
    path = table(tmp_path, ["title", "body", "labels"], TEXTS, TEXTS, shops)
    assert survey(path, Layout()).separated_lists == {}


def test_a_second_text_is_named_where_words_have_no_spaces(tmp_path: Path) -> None:
    # The fields of JNLI: pairs of Japanese sentences.
    pairs = [
        {
            "sentence_pair_id": str(at),
            "sentence1": f"公園で{at}匹の犬が走っている。",
            "sentence2": f"{at}匹の犬が公園を楽しそうに走っています。",
            "label": LABELS[at],
        }
        for at in range(len(TEXTS))
    ]
    path = tmp_path / "jnli.jsonl"
    path.write_text("\n".join(json.dumps(pair, ensure_ascii=False) for pair in pairs))
    found = survey(path, Layout())
    assert found.layout.text_fields == ("sentence2",)
    assert found.other_texts == ("sentence1",)


def squad(tmp_path: Path) -> Path:
    """Write a file in the form of SQuAD."""
    articles = [
        {
            "title": f"The article of number {at}",
            "paragraphs": [
                {"context": f"{text * 3} {part}", "qas": [{"id": f"{at}", "question": "?"}]}
                for part in ("one", "two")
            ],
        }
        for at, text in enumerate(TEXTS)
    ]
    path = tmp_path / "squad.json"
    path.write_text(json.dumps({"version": "1.1", "data": articles}))
    return path


def test_each_object_of_a_list_of_texts_is_a_document(tmp_path: Path) -> None:
    path = squad(tmp_path)
    found = survey(path, Layout())
    assert found.layout.text_fields == ("title", "paragraphs[].context")
    documents = [*read_documents(path, layout=found.layout)]
    assert len(documents) == 2 * len(TEXTS)
    first, second = documents[:2]
    assert (first.id, second.id) == ("squad:1:1", "squad:1:2")
    assert first.text == f"The article of number 0\n{TEXTS[0] * 3} one"
    assert first.payload == {"qas": [{"id": "0", "question": "?"}]}


def test_many_questions_about_a_paragraph_are_no_text_in_place_of_it(tmp_path: Path) -> None:
    paragraphs = [
        {
            "context": f"{text} {text}",
            "qas": [{"id": f"{at}-{n}", "question": f"What is said of number {at} in {n}?"}],
        }
        for at, text in enumerate(TEXTS)
        for n in range(9)
    ]
    for paragraph in paragraphs:
        paragraph["qas"] = [*paragraph["qas"]] * 12
    articles = [
        {"title": f"Article {at}", "paragraphs": paragraphs[9 * at : 9 * at + 9]}
        for at in range(len(TEXTS))
    ]
    path = tmp_path / "squad.json"
    path.write_text(json.dumps({"version": "2.0", "data": articles}))
    found = survey(path, Layout())
    assert found.layout.text_fields == ("title", "paragraphs[].context")
    assert found.texts_in_lists == ("qas[].question",)


def test_lists_in_lists_and_ids_of_records(tmp_path: Path) -> None:
    records = [
        {
            "id": f"r{at}",
            "year": 1990,
            "chapters": [
                {"name": "a", "pages": [{"n": 1, "words": text}, {"n": 2, "words": text[::-1]}]},
                {"name": "b", "pages": []},
            ],
        }
        for at, text in enumerate(TEXTS)
    ]
    path = tmp_path / "books.jsonl"
    path.write_text("\n".join(json.dumps(record) for record in records))
    layout = Layout(text_fields=("chapters[].pages[].words",))
    documents = [*read_documents(path, layout=layout)]
    assert [document.id for document in documents[:2]] == ["r0:1", "r0:2"]
    assert documents[0].text == TEXTS[0]
    assert documents[0].payload == {"year": 1990, "name": "a", "n": 1}


def test_texts_inside_lists_beside_a_text_are_named(tmp_path: Path) -> None:
    posts = [
        {"text": f"{text} {text}", "comments": [{"body": text[::-1] + " and so on"}] * 2}
        for text in TEXTS
    ]
    path = tmp_path / "posts.json"
    path.write_text(json.dumps(posts))
    found = survey(path, Layout())
    assert found.layout.text_fields == ()
    assert found.texts_in_lists == ("comments[].body",)
