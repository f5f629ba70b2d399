"""Encoding text: a student's codes beside its teacher's vectors, in one run, on one thread.

The teacher is a sentence-transformers model, whose `encode` sorts the texts by length and encodes
them in batches of 32. The student encodes the same texts in one batch. Each round times both.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import torch
from threadpoolctl import threadpool_limits

from benchmarks.harness.timing import in_turn, options, print_machine
from hummingbit.corpus.readers import read_documents
from hummingbit.encoder.artifact import load_encoder
from hummingbit.training.teachers import TeacherError, load_sentence_transformer

MODEL = "sentence-transformers/all-MiniLM-L6-v2"


def main() -> None:
    parser = options(__doc__)
    parser.add_argument("--encoder", type=Path, required=True, help="the student's folder")
    parser.add_argument("--teacher", default=MODEL, help="name or folder (default: %(default)s)")
    parser.add_argument("--data", default="snippets:test", help="texts (default: %(default)s)")
    parser.add_argument("--texts", type=int, default=320, help="texts per round")
    parser.add_argument("--rounds", type=int, default=7)
    args = parser.parse_args()
    print_machine()
    student = load_encoder(args.encoder)
    try:
        teacher = load_sentence_transformer(args.teacher)
    except TeacherError as error:
        print(f"skipped: {error}")
        return
    texts = [document.text for document in read_documents(args.data) if document.text]
    torch.set_num_threads(1)
    with threadpool_limits(1):
        _compare(student.encode, teacher.encode, texts, args.texts, args.rounds)
    student_size = sum(file.stat().st_size for file in args.encoder.iterdir())
    tensors = teacher.state_dict().values()
    teacher_size = sum(tensor.numel() * tensor.element_size() for tensor in tensors)
    print(
        f"{'size':<12} {student_size / 1e6:>12.1f} MB {teacher_size / 1e6:>12.1f} MB"
        f" {teacher_size / student_size:>6.0f}×"
    )


def _compare(
    student: Callable[[list[str]], Any],
    teacher: Callable[[list[str]], Any],
    texts: Sequence[str],
    batch_size: int,
    rounds: int,
) -> None:
    starts = (number * batch_size % max(1, len(texts) - batch_size + 1) for number in range(rounds))
    batches = [[*texts[start : start + batch_size]] for start in starts]
    times = in_turn({"student": student, "teacher": teacher}, batches)
    rates = [len(batches[0]) / median(of_one) for of_one in times.values()]
    ratio = median(np.divide(times["teacher"], times["student"]))
    print(f"{len(batches[0])} texts per round, one thread, medians of {rounds} rounds")
    print(f"{'':<12} {'student':>15} {'teacher':>15} {'ratio':>7}")
    print(f"{'texts':<12} {rates[0]:>13,.0f}/s {rates[1]:>13,.0f}/s {ratio:>6.0f}×")


if __name__ == "__main__":
    main()
