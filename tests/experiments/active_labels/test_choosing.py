from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from experiments.active_labels import choosing
from experiments.active_labels.choosing import saved_label_order, version_of_data
from tests.support.corpora import topic_documents, write_snippets


def write_root(root: Path, seed: int) -> Path:
    write_snippets(root, topic_documents(60, seed), topic_documents(12, seed, "test"))
    return root


def test_an_order_is_computed_again_for_other_documents_of_the_same_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, same, other = (
        write_root(tmp_path / name, seed) for name, seed in (("a", 0), ("b", 0), ("c", 1))
    )

    def order(root: Path) -> Any:
        saved = saved_label_order(
            tmp_path / "w", "snippets", "herding", seed=0, labels=25, data_root=root
        )
        return saved.tolist()

    suggested = order(first)
    assert len(set(suggested)) == 25
    assert np.isin(suggested, np.arange(60)).all()
    assert order(same) == suggested
    assert len(list((tmp_path / "w").iterdir())) == 1
    assert order(other) != suggested
    assert len(list((tmp_path / "w").iterdir())) == 2
    before = version_of_data("snippets", first)
    assert version_of_data("snippets", same) == before
    monkeypatch.setattr(choosing, "code_version", lambda: "other code")
    assert version_of_data("snippets", first) != before
