"""Files as people receive them, indexed and searched by two commands without an option."""

from __future__ import annotations

import gzip
import json
import lzma
from pathlib import Path
from typing import Any

import pytest

from hummingbit.cli import main
from hummingbit.index.data_folder import DataFolder

TICKETS = [
    ("The boiler stopped working, and the flat is cold", "housing", 2019),
    ("My landlord says: \"wait until spring\"", "housing", 2020),
    ("The night bus was moved; nobody knows why", "transport", 2021),
    ("O'Hara's tram stop has no roof, no light and no bench", "transport", 2019),
    ("Our choir looks for tenors, basses and an organist", "music", 2022),
    ("The concert in the library was cancelled", "music", 2020),
    ("A fox lives under the school kitchen", "animals", 2021),
    ("The neighbour's cat, a grey one, is lost", "animals", 2022),
] * 8  # fmt: skip
HEADER = ("Ticket", "Message", "Topic", "Year")


def table(quote: str = '"', escape: str | None = None, delimiter: str = ",") -> str:
    rows = [
        (
            f"T-{at}",
            quote + f"{text} (call {at})".replace(quote, (escape or quote) + quote) + quote,
            topic,
            str(year),
        )
        for at, (text, topic, year) in enumerate(TICKETS)
    ]
    return "".join(delimiter.join(row) + "\r\n" for row in (HEADER, *rows))


def squad() -> str:
    articles = [
        {
            "title": f"Street {at}",
            "paragraphs": [
                {
                    "context": f"{text}. The council has read the letter and will answer ({part}).",
                    "qas": [{"id": f"{at}-{part}-{n}", "question": f"Why {n}?"} for n in range(9)],
                }
                for part in range(3)
            ],
        }
        for at, (text, *_) in enumerate(TICKETS)
    ]
    return json.dumps({"version": "v2.0", "data": articles})


def records() -> list[dict[str, Any]]:
    return [
        {"Ticket": f"T-{at}", "Message": f"{text} (call {at})", "Topic": topic, "Year": year}
        for at, (text, topic, year) in enumerate(TICKETS)
    ]


FILES: dict[str, tuple[str, bytes]] = {
    "single quotes": ("a.csv", table("'").encode()),
    "backslashes": ("a.csv", table(escape="\\").encode()),
    "lines before the header": (
        "a.csv",
        ("Citizens' desk, export\r\nGenerated on 3 May 2024\r\n\r\n" + table()).encode(),
    ),
    "semicolons of Excel": ("a.csv", ("sep=;\r\n" + table(delimiter=";")).encode("cp1252")),
    "tabs in UTF-16": ("a.csv", table(delimiter="\t").encode("utf-16")),
    "empty columns at the end": ("a.csv", table().replace("\r\n", ",,\r\n").encode()),
    "blank lines": ("a.csv", table().replace("\r\n", "\r\n\r\n").encode()),
    "lines in cells": ("a.csv", table().replace(" (call", "\n\n(call").encode()),
    "gzip": ("a.csv.gz", gzip.compress(table().encode())),
    "xz": ("a.tsv.xz", lzma.compress(table(delimiter="\t").encode())),
    "a byte order mark": ("a.json", json.dumps(records()).encode("utf-8-sig")),
    "objects in objects": (
        "a.ndjson",
        "\n".join(
            json.dumps(
                {
                    "_id": {"$oid": f"{at:024x}"},
                    "content": {"body": item["Message"]},
                    "Year": item["Year"],
                    "Topic": item["Topic"],
                }
            )
            for at, item in enumerate(records())
        ).encode(),
    ),
}


@pytest.mark.parametrize("name", FILES)
def test_a_file_is_indexed_and_searched_as_it_is(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    name: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    file, content = FILES[name]
    Path(file).write_bytes(content)

    assert main(["index", "build", "tickets", file, "--no-encoder"]) == 0
    capsys.readouterr()
    assert main(["search", "tickets", "O'Hara's tram bench", "--json", "--with-text"]) == 0

    hits = json.loads(capsys.readouterr().out)["hits"]
    assert len(hits) == 8
    assert all("tram stop has no roof, no light and no bench" in hit["text"] for hit in hits)
    assert {hit["payload"]["Topic"] for hit in hits} == {"transport"}
    assert {hit["payload"]["Year"] for hit in hits} == {2019}
    with DataFolder(tmp_path, writable=False) as folder:
        assert len(folder.collection("tickets")) == len(TICKETS)


def test_paragraphs_of_squad_are_documents(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("squad.json").write_text(squad())

    assert main(["quickstart", "squad.json", "--inspect"]) == 0
    shown = capsys.readouterr().out
    assert "text     title + paragraphs[].context; each object in the list" in shown
    assert "qas[].question: texts inside lists, not searched" in shown
    assert main(["index", "build", "streets", "squad.json", "--no-encoder"]) == 0
    assert "192 documents" in capsys.readouterr().out
    assert main(["search", "streets", "grey cat", "--json", "--limit", "1"]) == 0
    assert json.loads(capsys.readouterr().out)["hits"][0]["id"].startswith("squad:8:")


@pytest.mark.parametrize(
    ("texts", "encoding"),
    [
        (["Zásilka nedorazila, prosím o peníze", "Účet mi nefunguje", "Kočka křičí"], "cp1250"),
        (["Przesyłka nie dotarła, proszę o zwrot", "Konto nie działa", "Kot krzyczy"], "cp1250"),
        (["Die Sendung kam nicht an, bitte prüfen", "Konto gesperrt", "Größe falsch"], "cp1252"),
    ],
)
def test_letters_of_a_codepage_are_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, texts: list[str], encoding: str
) -> None:
    monkeypatch.chdir(tmp_path)
    lines = [f'{at};"{texts[at % 3]} ({at})"' for at in range(30)]
    content = "\r\n".join(["Nr;Popis", *lines])
    Path("a.csv").write_bytes(content.encode(encoding))
    assert main(["index", "build", "letters", "a.csv", "--no-encoder"]) == 0
    with DataFolder(tmp_path, writable=False) as folder:
        stored = folder.collection("letters").get("4")
    assert stored is not None
    assert stored.text == f"{texts[1]} (4)"


def test_what_is_left_out_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    pairs = [
        {
            "premise": f"{text} ({at})",
            "hypothesis": f"In {at} they say: {text}",
            "author name": f"Ann {at}",
            "tags": ", ".join(["calls", topic][at % 2 :]),
            "Länge": at % 30,
        }
        for at, (text, topic, _) in enumerate(TICKETS)
    ]
    Path("pairs.json").write_text(json.dumps(pairs))
    assert main(["quickstart", "pairs.json", "--inspect"]) == 0
    shown = capsys.readouterr().out
    assert "text     hypothesis" in shown
    assert "other    premise: not searched; to join it: --text-field hypothesis premise" in shown
    assert "list     tags: ',' separates values" in shown
    assert "Länge: name it" not in shown
    assert "to join Länge" not in shown


@pytest.mark.parametrize("name", ["a.csv", "A.CSV"])
def test_a_label_and_an_id_are_found_beside_a_field_named_text(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    monkeypatch.chdir(tmp_path)
    rows = [f'{at + 100},"{text.replace(chr(34), "")}",{topic},{["en", "de"][at % 2]}'
            for at, (text, topic, _) in enumerate(TICKETS)]  # fmt: skip
    Path(name).write_text("\n".join(["nr,text,category,language", *rows]))
    assert main(["index", "build", "calls", name, "--no-encoder"]) == 0
    assert f"{name}: found text: text, label: category, id: nr" in capsys.readouterr().err
    with DataFolder(tmp_path, writable=False) as folder:
        stored = folder.collection("calls").get("102")
    assert stored is not None
    assert stored.payload == {"category": "transport", "label": "transport", "language": "en"}
