"""The terms of a word index, while another thread adds words."""

from __future__ import annotations

import sys
import threading

import numpy as np

from hummingbit.index.vocabulary import Vocabulary


def test_a_compaction_reads_the_vocabulary_while_a_write_adds_words() -> None:
    vocabulary = Vocabulary(lambda words: [word[:-1] for word in words])
    for number in range(5_000):
        vocabulary.words[f"early{number}s"]
    # Sorted words take longer to read than those that were added since.
    vocabulary = vocabulary.sorted()
    switch_interval = sys.getswitchinterval()

    def write() -> None:
        for number in range(5_000):
            vocabulary.words[f"late{number}s"]

    writer = threading.Thread(target=write)
    sys.setswitchinterval(1e-6)
    try:
        writer.start()
        while writer.is_alive():
            used = np.arange(0, 5_000, 2)
            compacted = vocabulary.of_numbers(used)
            assert [compacted.term(number) for number in range(2_500)] == [
                f"early{n}" for n in used
            ]
            assert [compacted.sorted_words.get(f"early{n}s") for n in used] == list(range(2_500))
            assert len(compacted.sorted_words) == 2_500
            completions = dict(
                pair
                for word_at, numbers in vocabulary.words_with_prefix("late")
                for pair in zip(map(word_at, range(len(numbers))), numbers.tolist(), strict=True)
            )
            assert all(vocabulary.term(number) == word[:-1] for word, number in completions.items())
    finally:
        writer.join()
        sys.setswitchinterval(switch_interval)
    assert len(vocabulary.sorted().sorted_words) == 10_000
