"""A file that nobody has described, looked at, learned from, compared and indexed."""

from __future__ import annotations

import itertools
import json
import lzma
import re
import shutil
import socket
import sys
from importlib.machinery import PathFinder
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hummingbit import SemanticHasher, load_encoder, training_methods
from hummingbit.cli import main
from hummingbit.commands import quickstart
from hummingbit.comparison import choose_ranking
from hummingbit.corpus.document import Document
from hummingbit.corpus.layout import Layout
from hummingbit.corpus.qrels import read_qrels
from hummingbit.corpus.readers import read_documents
from hummingbit.corpus.survey import survey
from hummingbit.corpus.tables import separator_of
from hummingbit.evaluation.known_items import (
    chance_by_label,
    paraphrased,
    words_of_sentences,
)
from hummingbit.evaluation.rankings import RelevanceSettings, evaluate_rankings
from hummingbit.example_queries import example_queries
from hummingbit.foundation.errors import install_command
from hummingbit.index import catalog, first_reading
from hummingbit.index.data_folder import DataFolder
from hummingbit.index.first_reading import read_corpus
from hummingbit.installed_models import MODEL_VARIABLE
from hummingbit.training_methods import choose_model
from tests.support.corpora import topic_documents
from tests.support.models import write_model
from tests.support.recipes import train_in_few_batches


@pytest.fixture(autouse=True)
def _in_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


QUICK = ("--no-serve", "--no-train")


def write_csv(path: Path, *, labelled: bool, count: int = 150) -> None:
    rows = [
        f'"{document.text}",{document.labels[0] if labelled else "any"},{1870 + at}'
        for at, document in enumerate(topic_documents(count))
    ]
    header = "question,intent,year" if labelled else "question,label,year"
    path.write_text("\n".join([header, *rows]))


@pytest.mark.parametrize("labelled", [True, False])
def test_a_csv_becomes_a_collection_that_answers(
    tmp_path: Path, labelled: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    write_csv(tmp_path / "My Bank.csv", labelled=labelled)
    assert main(["quickstart", "My Bank.csv", *QUICK]) == 0
    printed = capsys.readouterr().out
    assert "My Bank.csv: 150 documents, 0 lines skipped" in printed
    assert ("intent: 3 labels" in printed) is labelled
    told = "label: 1 label, the rarest of 150 documents; too few to learn from"
    assert (told in printed) is not labelled
    assert "indexed 150 documents in " in printed
    answers = re.findall(r"^'(.+)'\n 1  (.+)  \d+%$", printed, re.MULTILINE)
    assert len(answers) == 3
    for query, text in answers:
        assert set(query.split()) <= set(text.split())
    with DataFolder(tmp_path / "my-bank-data", writable=False) as folder:
        assert folder.aliases() == {"my-bank": "my-bank-1"}
        collection = folder.collection("my-bank")
        assert len(collection) == 150
        assert collection.field_types["year"] == "number"
    assert main(["search", "my-bank", "apple bread", "--data-dir", "my-bank-data"]) == 0


def test_texts_of_fewer_terms_than_class_codes_need_are_trained_on_otherwise(
    tmp_path: Path,
) -> None:
    words = ("apple", "bread", "cheese", "dates", "eggs", "figs")
    texts = [" ".join(some) for some in itertools.islice(itertools.permutations(words, 3), 80)]
    rows = [f"{text},{'fruit' if 'apple' in text else 'other'}" for text in texts]
    (tmp_path / "bank.csv").write_text("\n".join(["text,label", *rows]))
    assert searching_method() == "ssb-vae"


def test_codes_are_of_what_ships_where_it_knows_the_words(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    english = [f"The train to town {at} leaves in the morning." for at in range(60)]
    german = [f"Der Zug fährt mit dem Fahrer nicht durch die Stadt {at}." for at in range(300)]
    numbers = [f"SA-{at}-X{at * 7}Q qtr{at}zz" for at in range(60)]
    shipped = catalog.shipped_encoder() is not None
    for name, texts, expected in (
        ("english", english, shipped),
        ("german", german, False),
        ("numbers", numbers, False),
    ):
        lines = [json.dumps({"text": text}) for text in texts]
        (tmp_path / f"{name}.jsonl").write_text("\n".join(lines))
        assert main(["quickstart", f"{name}.jsonl", *QUICK]) == 0
        with DataFolder(Path(f"{name}-data"), writable=False) as folder:
            assert bool(folder.collection(name).n_bits) is expected
    monkeypatch.setattr(catalog, "shipped_encoder", lambda: None)
    shutil.rmtree("english-data")
    capsys.readouterr()
    assert main(["quickstart", "english.jsonl", *QUICK]) == 0
    assert "words alone: hummingbit-models is not installed" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("text\n \n", "has 0 documents with text"),
        ("a,b\n1,2\n", "no field looks like text; it has 'a', 'b'"),
        ("text\n" + "".join(f"{'😀' * (at + 1)}\n" for at in range(60)), "but no words"),
    ],
)
def test_a_file_without_enough_texts_is_refused_in_a_sentence(
    tmp_path: Path, content: str, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "d.csv").write_text(content)
    assert main(["quickstart", "d.csv", *QUICK]) == 2
    assert message in capsys.readouterr().err
    assert not (tmp_path / "d-data").exists()


def test_a_folder_that_is_there_is_not_touched(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "d-data").mkdir()
    (tmp_path / "d.csv").write_text("text\n")
    assert main(["quickstart", "d.csv", *QUICK]) == 2
    assert "d-data already exists; name another with --data-dir" in capsys.readouterr().err
    assert list((tmp_path / "d-data").iterdir()) == []


def test_bad_lines_are_skipped_and_the_first_are_shown(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = [json.dumps({"text": document.text}) for document in topic_documents(60)]
    (tmp_path / "d.jsonl").write_text("\n".join([*lines, *["{"] * 5, '{"text": " "}']))
    assert main(["quickstart", "d.jsonl", *QUICK]) == 0
    printed = capsys.readouterr()
    assert "60 documents, 5 lines skipped" in printed.out
    assert "empty    1 more document, left out" in printed.out
    assert printed.err.count("skipped: d.jsonl:") == 3
    assert "skipped: 2 more lines" in printed.err


def test_options_that_would_change_nothing_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    for option in (["--on-error", "stop"], ["--data-root", "."]):
        with pytest.raises(SystemExit):
            main(["quickstart", "d.csv", *option])
        assert f"there is no option {option[0]}" in capsys.readouterr().err


def test_a_sample_is_drawn_from_the_whole_source_and_again_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = [json.dumps({"id": str(at), "text": f"text {at}"}) for at in range(1000)]
    (tmp_path / "d.jsonl").write_text("\n".join(lines))
    whole = read_corpus(tmp_path / "d.jsonl", Layout(), print)
    assert [document.id for document in whole.sample] == [str(at) for at in range(1000)]
    monkeypatch.setattr(first_reading, "MAX_SAMPLE", 100)
    corpus = read_corpus(tmp_path / "d.jsonl", Layout(), print)
    places = [int(document.id) for document in corpus.sample]
    assert (corpus.count, len(places), places) == (1000, 100, sorted(set(places)))
    assert 350 < sum(places) / 100 < 650
    again = read_corpus(tmp_path / "d.jsonl", Layout(), print)
    assert [document.id for document in again.sample] == [str(place) for place in places]
    assert {document.id for document in corpus.stored_documents()} == {*map(str, range(1000))}


def test_an_interrupted_quickstart_leaves_nothing_and_can_be_repeated(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupt(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(quickstart, "ingest", interrupt)
    write_csv(tmp_path / "d.csv", labelled=False)
    assert main(["quickstart", "d.csv", *QUICK]) == 130
    assert capsys.readouterr().err.endswith("hummingbit: interrupted\n")
    assert not (tmp_path / "d-data").exists()


def test_a_port_that_is_in_use_is_refused_before_any_work(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_csv(tmp_path / "d.csv", labelled=False)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        assert main(["quickstart", "d.csv", "--port", str(port)]) == 2
    printed = capsys.readouterr()
    assert f"cannot listen on 127.0.0.1 port {port}" in printed.err
    assert printed.out == ""


def test_lists_whose_values_hardly_repeat_are_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    records = [
        {"text": document.text, "tags": [str(at), f"x{at}"], **{f"q{n}": at % 3 for n in range(9)}}
        for at, document in enumerate(topic_documents(60))
    ]
    (tmp_path / "d.json").write_text(json.dumps(records))
    assert main(["quickstart", "d.json", *QUICK]) == 0
    expected = (
        "  list     tags: 120 different values, which hardly repeat; no label, kept in the payload"
    )
    printed = capsys.readouterr().out.splitlines()
    assert expected in printed
    some = "q0, q1, q2, q3, q4 and 4 others"
    assert f"  label    none; it may be one of {some}: name it with --label-field" in printed


def test_labels_that_stand_in_one_cell_are_told(tmp_path: Path) -> None:
    cells = ["a, b", "b, c, d", "a", ""]
    records = [{"text": f"text {at}", "tags": cells[at % 4], "note": "x, y"} for at in range(80)]
    (tmp_path / "d.jsonl").write_text("\n".join(map(json.dumps, records)))
    assert read_corpus(tmp_path / "d.jsonl", Layout(), print).separated_labels() == {"tags": ","}
    assert separator_of(["a;b, c", "b, c;a", "a;a"]) == ";"
    assert separator_of(["Paris, France", "Rome, Italy", "Bern, Switzerland"]) is None
    assert separator_of([]) is None


def test_the_words_of_a_query_are_of_one_sentence_in_its_order() -> None:
    documents = topic_documents(40)
    for document, query in zip(documents, words_of_sentences(documents), strict=True):
        rest = iter((document.text or "").split())
        words = query.split()
        assert 2 <= len(words) <= 6
        assert all(word in rest for word in words)


def test_a_query_of_text_without_spaces_is_a_part_of_it() -> None:
    text = "中国经济新闻联播今天开始了新的一年"
    (query,) = words_of_sentences([Document(id="a", text=text)])
    assert query in text
    assert 4 <= len(query) <= 12


def test_chance_is_the_share_of_documents_with_the_label() -> None:
    rare = Document(id="r", text="a", labels=("rare",))
    documents = [Document(id=str(at), text="a", labels=("common",)) for at in range(99)]
    assert chance_by_label([*documents, rare], [documents[0], rare]) == pytest.approx(0.5)
    unlabelled = [Document(id=f"u{at}", text="a") for at in range(300)]
    with_others = chance_by_label([*documents, rare, *unlabelled], [documents[0], rare])
    assert with_others == pytest.approx(0.5)
    several = Document(id="s", text="a", labels=("rare", "common"))
    assert chance_by_label([*documents, rare], [several]) == 1.0


def test_examples_are_phrases_of_several_texts() -> None:
    fillers = "apple bread cheese dates eggs figs grapes honey".split()
    texts = [f"{fillers[at % 8]} {fillers[(at * 3) % 8]} number{at}" for at in range(200)]
    for at in range(6):
        texts[at * 9] += " the weather in Paris"
        texts[at * 9 + 1] += " a hidden treasure"
    assert set(example_queries(texts, 2)) == {"weather in paris", "hidden treasure"}


def test_texts_without_phrases_are_examples_by_their_beginnings() -> None:
    assert example_queries(["one two three four five six"], 3) == ["one two three four"]
    assert example_queries(["中国经济新闻联播今天开始了新的一年", "?!", ""], 3) == [
        "中国经济新闻联播今天开始"
    ]
    assert example_queries([], 3) == []
    # A title may be the heading, too, and a query does not end with "the".
    assert example_queries(["Backup 13\n# Backup The disk copies"], 1) == ["Backup 13"]
    assert example_queries(["Hello, invoice shows the wrong sum"], 1) == ["Hello, invoice shows"]


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("My Bank 2.csv", "my-bank-2"),
        ("x.tar.gz", "x"),
        ("Bücher été.tsv", "bucher-ete"),
        ("标题.csv", "documents"),
    ],
)
def test_the_name_of_a_file_names_what_is_made_of_it(name: str, expected: str) -> None:
    assert quickstart.name_of(Path(name)) == expected


@pytest.fixture
def _without_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    hide("torch", monkeypatch)


def hide(package: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Make a package impossible to find, also for modules that have imported it."""

    class WithoutPackage(PathFinder):
        @classmethod
        def find_spec(cls, fullname: str, *args: Any, **kwargs: Any) -> Any:
            return None if fullname == package else super().find_spec(fullname, *args, **kwargs)

    finders = [WithoutPackage if item is PathFinder else item for item in sys.meta_path]
    monkeypatch.setattr(sys, "meta_path", finders)
    for name, module in list(sys.modules.items()):
        if name.partition(".")[0] == package or (
            name.startswith("training.") and hasattr(module, package)
        ):
            monkeypatch.delitem(sys.modules, name)


@pytest.mark.usefixtures("_without_torch")
@pytest.mark.parametrize(("labelled", "method"), [(True, "class-codes"), (False, "itq")])
def test_without_torch_a_method_is_chosen_that_needs_none(
    capsys: pytest.CaptureFixture[str], *, labelled: bool, method: str
) -> None:
    write_csv(Path("bank.csv"), labelled=labelled)
    assert searching_method() == method
    printed = capsys.readouterr()
    assert "torch is not installed; codes learned with it find more documents" in printed.err


@pytest.mark.usefixtures("_without_torch")
@pytest.mark.parametrize(
    "command",
    [
        "train ssb-vae --data absent.csv --out e",
        "train ict --data absent.csv --out e",
        "train metric --data absent.csv --out e",
        "train sne --data absent.csv --out e",
        "train class-codes --content ict --data absent.csv --out e",
        "distill --teacher absent.npz --data absent.csv --out e",
        "evaluate curve --data absent.csv --queries absent.csv",
    ],
)
def test_torch_is_missed_before_any_file_is_read(
    capsys: pytest.CaptureFixture[str], command: str
) -> None:
    assert main(command.split()) == 2
    said = capsys.readouterr().err
    assert f"training needs torch; install it with: {install_command('train')}" in said


@pytest.mark.usefixtures("_without_torch")
@pytest.mark.parametrize("labelled", [True, False])
def test_training_without_torch_and_without_a_method(
    capsys: pytest.CaptureFixture[str], *, labelled: bool
) -> None:
    write_csv(Path("bank.csv"), labelled=labelled)
    layout = ["--text-field", "question", "--label-field", "intent" if labelled else "label"]
    command = ["train", "--data", "bank.csv", "--bits", "16", "--out", "encoder", *layout]
    assert main(command) == 0
    said = capsys.readouterr().err
    assert f"training by {'class-codes' if labelled else 'itq'}" in said
    assert ("torch is not installed" in said) is not labelled


def test_a_ranking_replaces_the_default_only_by_a_test() -> None:
    rng = np.random.default_rng(0)
    hybrid = rng.random(200)
    ahead = {"hybrid": hybrid, "bm25": hybrid + 0.05}
    chosen = choose_ranking(ahead)
    assert (chosen.ranking, chosen.rival) == ("bm25", "bm25")
    assert "use bm25: it beats hybrid by 0.050 in nDCG@10 (p < 0.001)" in chosen.advice()
    noise = rng.normal(0, 0.5, 200)
    by_chance = {"hybrid": hybrid, "bm25": hybrid + noise - noise.mean() + 0.02}
    kept = choose_ranking(by_chance)
    assert (kept.ranking, kept.rival) == ("hybrid", "bm25")
    assert kept.advice().startswith(
        "use hybrid, as searches do: no other ranking is significantly better"
    )
    assert "(bm25 has 0.020 more nDCG@10, p = " in kept.advice()
    assert choose_ranking({"hybrid": hybrid, "bm25": hybrid}).ranking == "hybrid"


def test_every_other_word_is_replaced_by_a_related_one_that_the_answer_lacks() -> None:
    documents = [
        Document(f"d{at}", " ".join(rng.permutation(words)[:6]))
        for rng in [np.random.default_rng(1)]
        for at in range(120)
        for words in [
            (
                ("sun", "moon", "star", "orbit", "comet", "planet", "galaxy", "dust"),
                ("bread", "flour", "yeast", "oven", "crust", "dough", "salt", "butter"),
            )[at % 2]
        ]
    ]
    queries = [" ".join((document.text or "").split()[:4]) for document in documents]
    found = paraphrased(queries, documents)
    astronomy = set("sun moon star orbit comet planet galaxy dust".split())
    for query, other, document in zip(queries, found, documents, strict=True):
        changed = [(a, b) for a, b in zip(query.split(), other.split(), strict=True) if a != b]
        assert len(changed) == 2
        for before, after in changed:
            assert after not in (document.text or "").split()
            assert (before in astronomy) == (after in astronomy)
    # Every second query takes what is near by a table: here the other subject.
    baking = set("bread flour yeast oven crust dough salt butter".split())
    both = paraphrased(queries, documents, lambda term: baking if term in astronomy else astronomy)
    assert both[::2] == found[::2]
    for query, other in zip(queries[1::2], both[1::2], strict=True):
        changed = [(a, b) for a, b in zip(query.split(), other.split(), strict=True) if a != b]
        assert len(changed) == 2
        assert all((before in astronomy) != (after in astronomy) for before, after in changed)


def test_what_is_recognised_is_told_without_training(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source = tmp_path / "topics.csv"
    lines = [
        "body,label",
        *(f"{document.text},{document.labels[0]}" for document in topic_documents(60)),
    ]
    source.write_text("\n".join(lines))
    assert main(["quickstart", str(source), "--inspect", "--data-dir", str(tmp_path / "d")]) == 0
    shown = capsys.readouterr().out
    assert "60 documents" in shown
    assert "body" in shown
    assert "indexed" not in shown
    assert not (tmp_path / "d").exists()
    assert main(["quickstart", str(source), "--no-serve", "--queries", str(source)]) == 2
    assert "--queries: needs --qrels" in capsys.readouterr().err


def test_judged_queries_set_the_ranking_and_the_weight_of_codes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source = tmp_path / "topics.jsonl"
    texts = [document.text or "" for document in topic_documents(150)]
    lines = [json.dumps({"id": f"d{at}", "text": text}) for at, text in enumerate(texts)]
    source.write_text("\n".join(lines))
    asked = [{"id": f"q{at}", "text": " ".join(texts[at].split()[:3])} for at in range(12)]
    (tmp_path / "queries.jsonl").write_text("\n".join(json.dumps(item) for item in asked))
    qrels = tmp_path / "qrels.tsv"
    head = "query-id\tcorpus-id\tscore\n"
    qrels.write_text(head + "".join(f"q{at}\td{at}\t1\n" for at in range(12)))
    command = ["quickstart", "topics.jsonl", *QUICK, "--data-dir", "d"]
    command += ["--queries", "queries.jsonl", "--qrels", "qrels.tsv"]
    assert main(command) == 0
    shown = capsys.readouterr().out
    assert "12 judged queries:" in shown
    (fitted,) = re.findall(r"The weight of codes in hybrid is ([0-9.]+), fitted to these", shown)
    with DataFolder(Path("d"), writable=False) as folder:
        assert folder.collection("topics").own_hybrid_weight == float(fitted)

    qrels.write_text(head + "q1\tline-1\t1\n")
    command[command.index("d")] = "other"
    assert main(command) == 2
    assert "names ['line-1'], and the first document is 'd0'" in capsys.readouterr().err
    qrels.write_text(head + "elsewhere\td1\t1\n")
    assert main(command) == 2
    assert "judges none of the queries" in capsys.readouterr().err
    assert not Path("other").exists()


def test_a_corpus_of_titles_and_texts_is_recognised_without_training(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Two corpora in the form of public ones: some documents are empty, or no title has text."""
    topics = topic_documents(1_400)
    rows = [
        {"id": str(at + 1), "title": f"on {topic.text}"[:40], "text": f"{topic.text} . " * 4}
        for at, topic in enumerate(topics)
    ]
    for empty in (470, 994):
        rows[empty] |= {"title": "", "text": ""}
    cranfield = tmp_path / "corpus.jsonl.xz"
    cranfield.write_bytes(lzma.compress("\n".join(map(json.dumps, rows)).encode()))
    assert main(["quickstart", str(cranfield), "--inspect"]) == 0
    shown = capsys.readouterr().out
    for row in ("text     title + text", "label    none", "id       id"):
        assert f"\n  {row}\n" in shown
    assert "1,398 documents, 0 lines skipped" in shown
    assert "empty    2 more documents, left out" in shown
    medical = tmp_path / "medical.jsonl"
    records = [
        {"id": f"MED-{at}", "title": "", "text": f"{topic.text} {topic.text}"}
        for at, topic in enumerate(topics)
    ]
    medical.write_text("\n".join(map(json.dumps, records)))
    assert main(["quickstart", str(medical), "--inspect"]) == 0
    # What is not searched is named; the titles are empty, so none is offered as text.
    shown = capsys.readouterr().out
    assert "payload  title: kept for filters, not searched" in shown
    assert "--text-field text title" not in shown
    assert {*tmp_path.iterdir()} == {cranfield, medical}


def test_columns_that_are_left_out_are_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = [
        f"{at},{topic.text},{topic.text} again,Smith {at % 7},{1900 + at},{topic.labels[0]}"
        for at, topic in enumerate(topic_documents(60))
    ]
    (tmp_path / "books.csv").write_text("\n".join(["id,title,body,author,year,label", *rows]))
    assert main(["quickstart", "books.csv", "--inspect"]) == 0
    shown = capsys.readouterr().out
    assert "text     title + body" in shown
    assert "payload  author year: kept for filters, not searched" in shown
    assert "--text-field title body author" in shown
    assert main(["quickstart", "books.csv", "--inspect", "--text-field", "body"]) == 0
    shown = capsys.readouterr().out
    assert "other    title: not searched; to join it: --text-field body title" in shown
    assert "payload  author year: kept for filters, not searched" in shown


def test_objects_numbers_and_states_are_not_suggested_as_text(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    records = [
        {
            "text": document.text,
            "meta": {"page": at},
            "parts": [{"n": at}],
            "year": 1900 + at % 20,
            "stock": ["ja", "nein", "auf Anfrage"][at % 3],
            "place": ["Old Town", "Harbour", "Mill", "Bridge", "Park"][at % 5],
            "mood": ["glad", "sad"][at % 2],
        }
        for at, document in enumerate(topic_documents(60))
    ]
    lines = "\n".join(map(json.dumps, records))
    (tmp_path / "pages.jsonl").write_text(lines)
    assert main(["quickstart", "pages.jsonl", "--inspect"]) == 0
    shown = capsys.readouterr().out
    kept = "meta parts year stock place and 1 other: kept for filters, not searched"
    assert f"payload  {kept}; to join place to the text: --text-field text place" in shown
    assert "label    none; it may be one of stock, place, mood: name it" in shown


def test_a_corpus_is_ranked_by_its_judged_queries(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Files in the form of public judged corpora; most queries have a rare word of its answer."""
    corpus, queries = tmp_path / "corpus.jsonl.xz", tmp_path / "queries.jsonl.xz"
    topics = topic_documents(300)
    letters = "bcdfglmnpqrstvwxz"
    rare = [f"{first}{second}ium" for first in letters for second in letters]
    documents = [
        {"id": str(at), "title": rare[at % 289], "text": f"{topic.text} {rare[at * 7 % 289]}"}
        for at, topic in enumerate(topics)
    ]
    words = [" ".join(str(topic.text).split()[:3]) for topic in topics]
    asked = [
        {"id": str(at), "text": f"{words[at]} {rare[at]}" if at % 8 else words[at]}
        for at in range(0, 240, 4)
    ]
    for part, records in ((corpus, documents), (queries, asked)):
        part.write_bytes(lzma.compress("\n".join(map(json.dumps, records)).encode()))
    qrels = tmp_path / "qrels.tsv"
    qrels.write_text("".join(f"{query['id']}\t{query['id']}\t1\n" for query in asked))
    command = ["quickstart", str(corpus), *QUICK, "--data-dir", "d"]
    assert main([*command, "--queries", str(queries), "--qrels", str(qrels)]) == 0
    printed = capsys.readouterr().out
    assert "60 judged queries:" in printed
    _, _, judged = printed.partition("judged queries:")
    heads, *rows = [line for line in judged.splitlines() if re.match(r"(method|\w+ +0\.)", line)]
    assert heads.split()[:2] == ["method", "nDCG@10"]
    values = {row.split()[0]: float(row.split()[1]) for row in rows[:4]}
    assert values.keys() == {"hamming", "asymmetric", "bm25", "hybrid"}
    with DataFolder(tmp_path / "d", writable=False) as folder:
        served = folder.collection("corpus")
        assert served.ranking in {"bm25", "hybrid"}
        said = printed.replace("\n", " ")
        assert f"For queries like the judged ones, use {served.ranking}" in said
        questions = list(read_documents(queries))
        judgements = read_qrels(qrels)
        report = evaluate_rankings(
            served, questions, ["bm25"], ["nDCG@10"], RelevanceSettings(qrels=judgements)
        )
    assert report["bm25"].metrics["nDCG@10"] == pytest.approx(values["bm25"], abs=5e-4)


def test_texts_that_differ_by_a_sign_at_the_end_repeat(tmp_path: Path) -> None:
    texts = ["How do I renew it", "how do I  renew it?", "How do I renew it!!", "Another", "?"]
    source = tmp_path / "questions.jsonl"
    source.write_text("".join(json.dumps({"text": text}) + "\n" for text in texts))
    assert read_corpus(source, Layout(), print).repeats == 2


def test_long_texts_are_split_unless_told_otherwise(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source = tmp_path / "books.jsonl"
    documents = [*topic_documents(60)]
    lines = [
        {"id": document.id, "text": " ".join([f"{document.text}."] * (120 if position < 20 else 1))}
        for position, document in enumerate(documents)
    ]
    source.write_text("".join(json.dumps(line) + "\n" for line in lines))
    arguments = ["quickstart", "books.jsonl", *QUICK]
    assert main([*arguments, "--data-dir", "split"]) == 0
    assert "are searched by passages" in capsys.readouterr().out
    assert main([*arguments, "--data-dir", "whole", "--passages", "no"]) == 0
    for name, passages in (("split", True), ("whole", False)):
        with DataFolder(Path(name), writable=False) as folder:
            assert (folder.collection("books").passages is not None) == passages


def test_of_few_documents_nothing_is_learned(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = [json.dumps({"text": f"A sentence about bird {number}."}) for number in range(20)]
    (tmp_path / "few.jsonl").write_text("\n".join(lines))
    assert main(["quickstart", "few.jsonl", "--inspect"]) == 0
    assert "few.jsonl: 20 documents" in capsys.readouterr().out
    assert main(["quickstart", "few.jsonl", "--no-serve"]) == 0
    printed = capsys.readouterr().out
    assert "nothing is learned from 20 different documents; that needs 50 or more" in printed
    with DataFolder(tmp_path / "few-data", writable=False) as folder:
        assert len(folder.collection("few")) == 20


@pytest.fixture
def installed_model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A language model where commands look for one, beside a folder that is none."""
    folder = tmp_path / "models/tiny"
    write_model(folder)
    (tmp_path / "models/a-folder-of-something-else").mkdir()
    monkeypatch.setattr(training_methods, "MODELS_FOLDER", folder.parent)
    monkeypatch.setattr(training_methods, "shipped_encoder", lambda: None)
    monkeypatch.delenv(MODEL_VARIABLE)
    return folder


def searching_method(*options: str) -> str:
    """Train for searches, as quickstart does, and return the method that is chosen."""
    shutil.rmtree("encoder", ignore_errors=True)
    corpus = read_corpus(Path("bank.csv"), survey(Path("bank.csv"), Layout()).layout, print)
    records = [{"id": d.id, "text": d.text, "labels": list(d.labels)} for d in corpus.sample]
    if not corpus.has_labels:
        records = [{"id": record["id"], "text": record["text"]} for record in records]
    Path("learned.jsonl").write_text("\n".join(map(json.dumps, records)))
    command = ["train", "--for-search", "--data", "learned.jsonl", "--out", "encoder"]
    assert main([*command, "--bits", "16", *options]) == 0
    method: str = load_encoder(Path("encoder")).metadata["method"]
    return method


@pytest.fixture(autouse=True)
def _of_few_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    train_in_few_batches(monkeypatch)


def test_the_model_that_is_installed_reads_texts_unless_told_otherwise(
    installed_model: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    write_csv(Path("bank.csv"), labelled=False, count=60)
    assert searching_method() == "model"
    assert f"model: tiny in {installed_model.parent}; --model none:" in capsys.readouterr().err
    assert searching_method("--model", "none") == "ict"
    assert "model: none, by --model\n" in capsys.readouterr().err
    monkeypatch.setenv(MODEL_VARIABLE, "none")
    assert searching_method() == "ict"
    assert searching_method("--model", str(installed_model)) == "model"
    monkeypatch.setenv(MODEL_VARIABLE, str(installed_model.rename("moved")))
    assert searching_method() == "model"


def test_a_model_that_nothing_can_read_is_not_used(
    installed_model: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    write_csv(Path("bank.csv"), labelled=False, count=60)
    hide("onnxruntime", monkeypatch)
    assert searching_method() == "ict"
    needed = f"tiny in {installed_model.parent} needs {install_command('model', 'train')}"
    assert f"model: none: {needed}\n" in capsys.readouterr().err


def test_a_machine_without_a_model_learns_from_words(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(training_methods, "MODELS_FOLDER", tmp_path / "absent")
    monkeypatch.setattr(training_methods, "shipped_encoder", lambda: None)
    monkeypatch.delenv(MODEL_VARIABLE)
    write_csv(Path("bank.csv"), labelled=False, count=60)
    assert searching_method() == "ict"
    assert "model: none is installed; --model FOLDER" in capsys.readouterr().err


SUBJECTS = ["physician", "aeroplane", "violin", "garden", "lawsuit", "ocean", "bread", "computer"]
LONG = "The {} of our town was seen by all who came to the market on that cold and rainy {}, {}."
DAYS = ["morning", "noon", "evening", "night", "winter", "summer", "spring", "autumn"]


@pytest.fixture
def installed_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only hummingbit-models is installed, and no other model."""
    if catalog.shipped_encoder() is None:
        pytest.skip("needs hummingbit-models: pip install ./models")
    monkeypatch.setattr(training_methods, "MODELS_FOLDER", tmp_path / "absent")
    monkeypatch.delenv(MODEL_VARIABLE)
    texts = [
        LONG.format(subject, day, item) for item in "abcd" for subject in SUBJECTS for day in DAYS
    ]
    lines = [json.dumps({"text": text}) for text in texts]
    Path("towns.jsonl").write_text("\n".join(lines))


@pytest.mark.usefixtures("installed_rows")
@pytest.mark.long
def test_without_a_language_model_the_encoder_that_ships_is_adapted_to_texts(
    capsys: pytest.CaptureFixture[str],
) -> None:
    command = ["train", "--for-search", "--data", "towns.jsonl", "--out", "towns"]
    assert main([*command, "--bits", "64"]) == 0
    printed = capsys.readouterr().err
    assert "model: static, what hummingbit-models knows, adapted to the texts, as" in printed
    assert "; --model none: words alone\n" in printed
    encoder = load_encoder(Path("towns"))
    assert (encoder.metadata["method"], encoder.n_bits) == ("static", 64)


@pytest.mark.usefixtures("installed_rows")
def test_the_encoder_that_ships_reads_no_short_texts_no_other_language_and_no_labels(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    texts = [json.loads(line)["text"] for line in Path("towns.jsonl").read_text().splitlines()]
    assert choose_model(None, texts).model == choose_model(None).model == "static"
    assert choose_model(None, texts, n_bits=256).model == "static"
    assert choose_model(None, texts, n_bits=264).model is None
    assert choose_model(None, [text[:40] for text in texts]).model is None
    assert choose_model(None, texts, has_labels=True).model is None
    german = ["Der Zug fährt mit dem Fahrer durch die Stadt und hält nicht an der alten Brücke,"]
    german = [f"{german[0]} weil im Winter dort Eis liegt und niemand es räumen will."] * 200
    assert choose_model(None, german).model is None
    assert choose_model("static", german).model == "static"
    assert SemanticHasher(n_bits=16, model="auto").fit(texts[::4]).method_ == "static"
    monkeypatch.setattr(training_methods, "has_torch", lambda: False)
    assert choose_model(None, texts).model is None


@pytest.mark.usefixtures("_without_torch", "installed_model")
def test_a_model_is_used_without_torch() -> None:
    write_csv(Path("bank.csv"), labelled=False, count=60)
    assert searching_method() == "model"


def test_labels_are_learned_from_words_unless_a_model_is_given(
    installed_model: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_csv(Path("bank.csv"), labelled=True, count=60)
    assert searching_method() == "class-codes"
    assert "model: none, as words and labels find more of a label" in capsys.readouterr().err
    assert searching_method("--model", str(installed_model)) == "model"


def test_texts_in_a_language_that_the_model_may_not_know_are_read_by_words(
    installed_model: Path,
) -> None:
    german = ["Der Zug fährt mit dem Fahrer durch die Stadt und hält nicht an der Brücke."] * 200
    assert choose_model(None, german).model is None
    assert choose_model(None, [" the ".join(german)] * 200).model is None
    english = ["The train drives through the town, and does not stop at the bridge."] * 200
    assert choose_model(None, english).model == choose_model(None).model == str(installed_model)
    assert choose_model(str(installed_model), german).model == str(installed_model)


def test_the_estimator_takes_the_installed_model_if_told(installed_model: Path) -> None:
    # The model reads all of so few words.
    texts = [" ".join((document.text or "").split()[:3]) for document in topic_documents(60)]
    labels = [document.labels[0] for document in topic_documents(60)]
    assert SemanticHasher(n_bits=16, model="auto").fit(texts).method_ == "model"
    assert SemanticHasher(n_bits=16, model="auto").fit(texts, labels).method_ == "class-codes"
    assert SemanticHasher(n_bits=16, method="itq", model="auto").fit(texts).method_ == "itq"
    installed_model.rename("moved")
    assert SemanticHasher(n_bits=16, method="itq", model="auto").fit(texts).method_ == "itq"
