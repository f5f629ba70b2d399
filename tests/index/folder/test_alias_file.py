from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hummingbit.foundation.errors import InputError
from hummingbit.index.catalog import AddAlias, Aliases, RemoveAlias
from hummingbit.index.data_folder import DataFolder
from hummingbit.index.errors import CollectionExists, DataFolderError, UnknownCollection

NAMES = ("blue", "green")


def test_an_alias_moves_in_one_step_and_stays_after_a_restart(tmp_path: Path) -> None:
    path = tmp_path / "aliases.json"
    aliases = Aliases(path)
    assert aliases.current() == {}
    aliases.apply([AddAlias("books", "blue"), AddAlias("all", "blue")], NAMES)
    moved = aliases.apply([AddAlias("books", "green"), RemoveAlias("all")], NAMES)
    assert moved == {"books": "green"} == Aliases(path).current()
    assert aliases.resolve("books") == "green"
    assert aliases.resolve("blue") == "blue"
    aliases.forget("green")
    assert Aliases(path).current() == {}
    assert [file.name for file in tmp_path.iterdir()] == ["aliases.json"]


@pytest.mark.parametrize(
    ("action", "error", "message"),
    [
        (AddAlias("Books", "blue"), InputError, "alias: is 'Books'; it must be 1 to 64 of a-z"),
        (AddAlias("blue", "green"), InputError, "'blue' is the name of a collection"),
        (AddAlias("books", "red"), UnknownCollection, "there is no collection 'red'"),
        (AddAlias("more", "kept"), UnknownCollection, "there is no collection 'kept'"),
        (RemoveAlias("books"), InputError, "there is no alias 'books'"),
    ],
)
def test_one_action_that_cannot_be_leaves_all_as_they_were(
    tmp_path: Path, action: AddAlias | RemoveAlias, error: type[Exception], message: str
) -> None:
    aliases = Aliases(tmp_path / "aliases.json")
    aliases.apply([AddAlias("kept", "blue")], NAMES)
    with pytest.raises(error, match=message) as raised:
        aliases.apply([RemoveAlias("kept"), AddAlias("other", "green"), action], NAMES)
    assert getattr(raised.value, "position", 2) == 2
    assert aliases.current() == {"kept": "blue"} == Aliases(tmp_path / "aliases.json").current()


@given(
    st.lists(
        st.one_of(
            st.builds(AddAlias, st.sampled_from("abc"), st.sampled_from([*NAMES, "red"])),
            st.builds(RemoveAlias, st.sampled_from("abc")),
        ),
        max_size=6,
    )
)
def test_actions_are_those_of_a_dictionary(
    tmp_path_factory: pytest.TempPathFactory, actions: list[AddAlias | RemoveAlias]
) -> None:
    model: dict[str, str] | None = {}
    for action in actions:
        if model is None:
            break
        if isinstance(action, RemoveAlias):
            model = None if model.pop(action.alias, None) is None else model
        elif action.collection in NAMES:
            model[action.alias] = action.collection
        else:
            model = None
    aliases = Aliases(tmp_path_factory.mktemp("aliases") / "aliases.json")
    if model is None:
        with pytest.raises((InputError, UnknownCollection)):
            aliases.apply(actions, NAMES)
    else:
        assert aliases.apply(actions, NAMES) == model


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("{", "cannot be read"),
        ("[" * 100_000, "cannot be read"),
        ("[]", "is damaged"),
        ('{"format_version": 1, "aliases": {"a": 1}}', "is damaged"),
        ('{"format_version": 9, "aliases": {}}', "format version 9; .* reads version 1"),
    ],
)
def test_a_file_that_is_not_one_of_aliases_is_refused(
    tmp_path: Path, content: str, message: str
) -> None:
    (tmp_path / "aliases.json").write_text(content)
    with pytest.raises(DataFolderError, match=message):
        Aliases(tmp_path / "aliases.json")


def test_a_collection_is_found_by_its_alias(tmp_path: Path) -> None:
    with DataFolder(tmp_path, writable=True) as folder:
        for name in NAMES:
            folder.create_collection(name, n_bits=16)
        folder.change_aliases([AddAlias("books", "blue")])
        assert folder.collection("books").name == "blue"
        with pytest.raises(CollectionExists, match="'books' is an alias of collection 'blue'"):
            folder.create_collection("books", n_bits=16)
        with pytest.raises(UnknownCollection, match="'books' is an alias of the collection 'blue'"):
            folder.drop_collection("books")
    with DataFolder(tmp_path, writable=True) as folder:
        assert folder.collection("books").name == "blue"
        folder.drop_collection("blue")
        assert folder.aliases() == {}
        with pytest.raises(UnknownCollection):
            folder.collection("books")
    with (
        DataFolder(tmp_path, writable=False) as folder,
        pytest.raises(DataFolderError, match="not open for writing"),
    ):
        folder.change_aliases([AddAlias("books", "green")])
