"""The example notebook runs as it is, from an empty folder, and its outputs show what it says."""

import os
import re
from pathlib import Path
from typing import Any

import pytest

NOTEBOOK = Path(__file__).parent.parent / "examples" / "in_a_notebook.ipynb"


@pytest.fixture(scope="module")
def cells(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """The cells by their names, executed."""
    nbclient, nbformat = pytest.importorskip("nbclient"), pytest.importorskip("nbformat")
    pytest.importorskip("ipykernel")
    notebook = nbformat.read(NOTEBOOK, as_version=4)
    folder = tmp_path_factory.mktemp("notebook")
    os.environ["IPYTHONDIR"] = str(folder)
    nbclient.NotebookClient(notebook, timeout=120, resources={"metadata": {"path": str(folder)}}).execute()
    assert [path.suffix for path in sorted((folder / "stopwav-runs").iterdir())] == [".jsonl", ".jsonl"]
    return {cell.id: cell for cell in notebook.cells}


def shown(cell: Any, mime: str) -> str:
    """What the last value of a cell looks like."""
    (output,) = [output for output in cell.outputs if output.output_type == "execute_result"]
    return str(output.data[mime])


def test_it_is_kept_without_outputs() -> None:
    text = NOTEBOOK.read_text()
    assert re.findall(r'"outputs": (.*)', text) == ["[],"] * 4
    assert '"execution_count": null' in text


def test_the_run_shows_its_tables_and_charts(cells: dict[str, Any]) -> None:
    html = shown(cells["measure"], "text/html")
    assert html.startswith('<div class="stopwav">')
    assert html.count("<svg") >= 2
    assert 'data-metric="rtf"' in html
    assert "<stopwav.Record of latency" in shown(cells["measure"], "text/plain")


def test_the_frame_holds_its_metrics(cells: dict[str, Any]) -> None:
    text = shown(cells["frame"], "text/plain")
    assert {"rtf", "wer", "word_latency_p50"} <= set(text.split())
    assert text.count("pocketsphinx") == 3


def test_the_chart_is_drawn(cells: dict[str, Any]) -> None:
    assert "Why a word takes so long" in shown(cells["chart"], "image/svg+xml")


def test_the_card_shows_a_verdict(cells: dict[str, Any]) -> None:
    html = shown(cells["card"], "text/html")
    assert "Verdicts" in html
    assert "B against A" in html
