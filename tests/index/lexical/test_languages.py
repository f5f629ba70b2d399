from __future__ import annotations

import pytest

from hummingbit.foundation.errors import InputError
from hummingbit.index.languages import (
    check_language,
    find_language,
)
from hummingbit.index.names import NONE

SENTENCES = {
    "english": "The dog that lives in the house of my neighbour is not very large.",
    "german": "Der Hund, der im Haus meines Nachbarn lebt, ist nicht sehr groß.",
    "french": "Le chien qui vit dans la maison de mon voisin n'est pas très grand.",
    "spanish": "El perro que vive en la casa de mi vecino no es muy grande.",
    "italian": "Il cane che vive nella casa del mio vicino non è molto grande.",
    "portuguese": "O cão que vive na casa do meu vizinho não é muito grande.",
    "dutch": "De hond die in het huis van mijn buurman woont is niet erg groot.",
    "swedish": "Hunden som bor i huset hos min granne är inte så stor.",
    "russian": "Собака, которая живёт в доме у моего соседа, не очень большая.",
}


@pytest.mark.parametrize("language", SENTENCES)
def test_a_language_is_found_by_its_function_words(language: str) -> None:
    assert find_language([SENTENCES[language]] * 3) == (language, False)
    assert find_language([SENTENCES[language]] * 300) == (language, True)


def test_one_frequent_word_is_no_language() -> None:
    # "num" is a function word of Portuguese; here it stands for numbers.
    assert find_language(["num patients num years risk diet cohort"] * 300) == ("english", True)
    assert find_language([SENTENCES["german"], "num num " * 20] * 100)[0] == "german"


def test_texts_without_function_words_are_english_if_they_are_ascii() -> None:
    assert find_language(["hex bolt zinc"] * 10)[0] == "english"
    assert find_language(["北京大学在哪里"] * 10)[0] == NONE
    assert find_language([]) == ("english", False)


def test_an_unknown_language_names_those_that_there_are() -> None:
    with pytest.raises(InputError, match="is 'klingon'; it must be one of auto, none, arabic"):
        check_language("klingon")
