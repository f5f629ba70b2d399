"""The notebook of the documentation runs from its first cell to its last."""

from __future__ import annotations

from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

NOTEBOOK = Path(__file__).parents[2] / "docs" / "notebooks" / "first_codes.ipynb"


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_every_cell_of_the_notebook_runs(tmp_path: Path) -> None:
    source = NOTEBOOK.read_text(encoding="utf-8")
    corpus = '[\\"numpy\\", \\"scipy\\"]'
    assert source.count(corpus) == 2
    # A third of the documents shows as well that every cell runs.
    smaller = source.replace(corpus, '[\\"numpy\\"]')
    notebook = nbformat.reads(smaller, as_version=4)  # type: ignore[no-untyped-call]
    client = NotebookClient(notebook, timeout=600, resources={"metadata": {"path": str(tmp_path)}})
    client.execute()
    shown = [
        output.get("text") or output.get("data", {}).get("text/plain", "")
        for cell in notebook.cells
        if cell.cell_type == "code"
        for output in cell.outputs
    ]
    assert any("numpy.linalg.solve" in text for text in shown)
    assert any("P@100" in text for text in shown)
