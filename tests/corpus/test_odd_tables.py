"""Tables as people receive them: each of these files is read without an option."""

from __future__ import annotations

from pathlib import Path

import pytest

from hummingbit.corpus.layout import Layout
from hummingbit.corpus.readers import read_documents
from hummingbit.corpus.survey import survey

TEXTS = [
    "The garden gate was left open, so the goat came in",
    "It's raining again; bring an umbrella",
    'She said "wait for me" and ran',
    "Trains to the coast leave at noon, or later",
    "A recipe for bread: flour, water, salt and time",
    "O'Brien's shop sells lamps, chairs and a piano",
    "The match ended in a draw, which pleased nobody",
    "Snow is forecast for the hills, but not before Friday",
]
LABELS = ["home", "weather", "home", "travel", "home", "travel", "sport", "weather"]
ROWS = [(f"d{at}", text, label) for at, (text, label) in enumerate(zip(TEXTS, LABELS, strict=True))]
HEADER = ("id", "text", "label")


def quoted(value: str, quote: str = '"', escape: str | None = None) -> str:
    return quote + value.replace(quote, (escape or quote) + quote) + quote


def table(delimiter: str = ",", quote: str = '"', escape: str | None = None) -> str:
    rows = [delimiter.join(quoted(cell, quote, escape) for cell in row) for row in ROWS]
    return "\n".join([delimiter.join(HEADER), *rows]) + "\n"


def only_texts_quoted(delimiter: str, quote: str, escape: str | None = None) -> str:
    lines = [delimiter.join((id_, quoted(text, quote, escape), label)) for id_, text, label in ROWS]
    return "\n".join([delimiter.join(HEADER), *lines]) + "\n"


ODD_TABLES = {
    "single quotes": table(quote="'"),
    "single quotes around texts": only_texts_quoted(",", "'"),
    "single quotes and semicolons": only_texts_quoted(";", "'"),
    "single quotes with backslashes": only_texts_quoted(",", "'", "\\"),
    "backslash before quotes": table(escape="\\"),
    "backslash before quotes, in texts": only_texts_quoted(",", '"', "\\"),
    "backslash before delimiters": "id,text,label\n"
    + "".join(",".join(cell.replace(",", "\\,") for cell in row) + "\n" for row in ROWS),
    "quotes inside quotes": "id,text,label\n"
    + "".join(",".join(f'"{cell}"' for cell in row) + "\n" for row in ROWS),
    "semicolons": table(";"),
    "tabs": table("\t"),
    "bars": table("|"),
    "carets": table("^"),
    "tildes": "id~text~label\n" + "".join("~".join(row) + "\n" for row in ROWS),
    "control characters": "".join("\x01".join(row) + "\n" for row in (HEADER, *ROWS)),
    "double colons": "".join("::".join(row) + "\n" for row in (HEADER, *ROWS)),
    "double bars": "".join("||".join(row) + "\n" for row in (HEADER, *ROWS)),
    "text before the header": "Helpdesk export\nCreated by admin on 3 May 2024\n\n" + table(),
    "a sentence before the header": "This file was exported for you, with care\n" + table(),
    "fields before the header": "Report:,Tickets\nOwner:,Ann\n\n" + table(),
    "text before semicolons": "Bericht vom 3. Mai\n\n" + table(";"),
    "a delimiter after each row": table().replace("\n", ",\n"),
    "a delimiter after each row but the header": "id,text,label"
    + table().removeprefix("id,text,label").replace('"\n', '",\n'),
    "bom": "\ufeff" + table(),
    "bom and single quotes": "\ufeff" + only_texts_quoted(";", "'"),
    "carriage returns": table().replace("\n", "\r"),
}  # fmt: skip


def documents_of(path: Path) -> list[tuple[str, str | None, tuple[str, ...]]]:
    """Read a file as ``hummingbit quickstart`` does."""
    found = survey(path, Layout())
    return [
        (document.id, document.text, tuple(document.labels))
        for document in read_documents(path, layout=found.layout)
    ]


@pytest.mark.parametrize("name", ODD_TABLES)
def test_a_table_in_an_odd_dialect_is_read_whole(tmp_path: Path, name: str) -> None:
    path = tmp_path / "export.csv"
    path.write_text(ODD_TABLES[name], encoding="utf-8", newline="")

    assert documents_of(path) == [(id_, text, (label,)) for id_, text, label in ROWS]


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be", "utf-8-sig", "utf-32"])
@pytest.mark.parametrize("name", ["semicolons", "tabs", "single quotes", "text before the header"])
def test_an_odd_dialect_in_a_wide_encoding_is_read_whole(
    tmp_path: Path, name: str, encoding: str
) -> None:
    path = tmp_path / "export.csv"
    path.write_bytes(ODD_TABLES[name].encode(encoding))

    assert documents_of(path) == [(id_, text, (label,)) for id_, text, label in ROWS]


def test_clevercsv_is_asked_where_no_usual_dialect_fits(tmp_path: Path) -> None:
    pytest.importorskip("clevercsv")
    path = tmp_path / "export.csv"
    rows = ["*".join(row) for row in (HEADER, *ROWS)]
    path.write_text("\n".join(rows) + "\n")

    assert documents_of(path) == [(id_, text, (label,)) for id_, text, label in ROWS]


CZECH = """\
Dobrý den, objednal jsem si boty a přišla mi špatná velikost.
Kdy mi dorazí zásilka? Platil jsem kartou.
Chtěl bych vrátit zboží, které nefunguje.
Účet se mi nedaří přihlásit ani po změně hesla.
Děkuji za rychlé vyřízení reklamace.
Prosím o fakturu s IČO na firmu.
Balík je poškozený a chybí v něm příslušenství.
Můžete mi poradit, jak nastavit topení?
„Sleva“ se v košíku nezobrazila – co teď?
Telefon se sám vypíná, žádám o opravu.
"""
POLISH = """\
Dzień dobry, zamówiłem buty i przyszedł zły rozmiar.
Kiedy dotrze moja przesyłka? Płaciłem kartą.
Chciałbym zwrócić towar, który nie działa.
Nie mogę zalogować się na konto po zmianie hasła.
Dziękuję za szybkie rozpatrzenie reklamacji.
Proszę o fakturę z numerem NIP na firmę.
Paczka jest uszkodzona i brakuje w niej części.
Czy możecie doradzić, jak ustawić ogrzewanie?
„Rabat” nie pojawił się w koszyku – co teraz?
Telefon sam się wyłącza, żądam naprawy.
"""
SLOVAK = """\
Dobrý deň, objednal som si topánky a prišla mi zlá veľkosť.
Kedy mi dorazí zásielka? Platil som kartou.
Chcel by som vrátiť tovar, ktorý nefunguje.
Ďakujem za rýchle vybavenie reklamácie.
Balík je poškodený a chýba v ňom príslušenstvo.
Môžete mi poradiť, ako nastaviť kúrenie?
"""
HUNGARIAN = """\
Jó napot, cipőt rendeltem, és rossz méret érkezett.
Mikor érkezik meg a csomagom? Kártyával fizettem.
Szeretném visszaküldeni az árut, mert nem működik.
Köszönöm a gyors ügyintézést.
A csomag sérült, és hiányzik belőle a tartozék.
Tudna segíteni, hogyan állítsam be a fűtést?
"""


@pytest.mark.parametrize("n_lines", [3, 6, 10])
@pytest.mark.parametrize("texts", [CZECH, POLISH, SLOVAK, HUNGARIAN])
@pytest.mark.parametrize("delimiter", [";", ","])
def test_a_short_table_of_windows_in_central_europe_keeps_its_letters(
    tmp_path: Path, texts: str, delimiter: str, n_lines: int
) -> None:
    lines = texts.splitlines()[:n_lines]
    rows = [f'{at}{delimiter}"{line}"' for at, line in enumerate(lines)]
    path = tmp_path / "dotazy.csv"
    path.write_bytes("\r\n".join([f"id{delimiter}text", *rows, ""]).encode("cp1250"))

    assert [text for _, text, _ in documents_of(path)] == lines
