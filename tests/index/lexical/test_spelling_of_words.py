"""Words that are spelt like others, as the kernel finds them."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hummingbit.encoder.spelling import is_one_edit, is_within_two_edits
from hummingbit.index.engines import kernel
from hummingbit.index.vocabulary import SortedStrings, Vocabulary

LETTERS = "abé漢😀\ud800"

needs_kernel = pytest.mark.skipif(kernel.native is None, reason="there is no kernel")


@needs_kernel
@settings(max_examples=300, deadline=None)
@given(
    words=st.sets(st.text(LETTERS, max_size=9), max_size=30),
    word=st.text(LETTERS, max_size=9),
    edits=st.sampled_from([1, 2]),
)
def test_the_kernel_finds_all_words_within_some_edits(
    words: set[str], word: str, edits: int
) -> None:
    strings = SortedStrings.of(dict.fromkeys(words - {""}, 0))
    is_near = is_one_edit if edits == 1 else is_within_two_edits
    near = [strings[position] for position in strings.within(word, edits)]
    assert near == [
        other
        for other in map(strings.__getitem__, range(len(strings)))
        if other == word or is_near(word, other)
    ]


@needs_kernel
@settings(max_examples=100, deadline=None)
@given(
    words=st.lists(st.text("abcdé", min_size=1, max_size=12), min_size=1, max_size=60),
    word=st.text("abcdé", min_size=4, max_size=40),
    edits=st.sampled_from([1, 2]),
)
def test_similar_words_are_the_same_without_the_kernel(
    words: list[str], word: str, edits: int
) -> None:
    vocabulary = Vocabulary(list)
    for other in words[::2]:
        vocabulary.words[other]
    vocabulary = vocabulary.sorted()
    for other in words[1::2]:
        vocabulary.words[other]
    similar = vocabulary.similar(word, edits)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(kernel, "native", None)
        assert vocabulary.similar(word, edits) == similar


@needs_kernel
def test_words_of_64_letters_are_compared_whole() -> None:
    word = "ab" * 32
    near = [word[1:], word[2:], word + "ab", f"x{word}y", f"b{word}b"]
    far = [word[3:], word + "abb", "b" * 64, f"x{word[1:]}yx"]
    strings = SortedStrings.of(dict.fromkeys(near + far, 0))
    assert {strings[position] for position in strings.within(word, 2)} == {*near}
