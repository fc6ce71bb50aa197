"""The notebooks in ``examples/`` run from the first cell to the last."""

from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"
NOTEBOOKS = sorted(EXAMPLES.glob("*.ipynb"))


def test_stored_notebooks_were_executed_without_an_error() -> None:
    nbformat = pytest.importorskip("nbformat")
    for path in NOTEBOOKS:
        notebook = nbformat.read(path, as_version=4)
        nbformat.validate(notebook)
        cells = [cell for cell in notebook.cells if cell.cell_type == "code"]
        assert [cell.execution_count for cell in cells] == list(range(1, len(cells) + 1)), path.name
        assert all(output.output_type != "error" for cell in cells for output in cell.outputs), path.name
        assert cells[-1].outputs, path.name


@pytest.mark.slow
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_runs(path: Path, relax: object, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    nbformat, nbclient = pytest.importorskip("nbformat"), pytest.importorskip("nbclient")
    # PyTorch compiles in the process of the notebook, with TVM.
    needed = ("torch", "tvm") if "import torch" in path.read_text() else ("plotly", "pandas")
    for package in ("ipykernel", *needed):
        pytest.importorskip(package)
    # Without this, every figure brings a copy of plotly.js.
    monkeypatch.setenv("PLOTLY_RENDERER", "plotly_mimetype")
    monkeypatch.setenv("PYTHONPATH", str(EXAMPLES.parent))
    notebook = nbformat.read(path, as_version=4)
    resources = {"metadata": {"path": str(tmp_path)}}
    # An error of a cell is raised here, with the cell.
    nbclient.NotebookClient(notebook, timeout=1800, kernel_name="python3", resources=resources).execute()
    assert all(cell.get("execution_count") for cell in notebook.cells if cell.cell_type == "code")
