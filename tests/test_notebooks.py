"""The notebooks of docs/notebooks run from the first to the last cell and show tables and pictures."""

import sys
from pathlib import Path

import pytest

DOCS = Path(__file__).parent.parent / "docs"
SHOWN = {
    "fit_a_sensor": ["fitted parameters", "gyro.bias", "options have their default"],
    "imperfect_sensors": ["4 envs on cpu", "measured in env 0", "data:image/png", "<iframe"],
}
"""Notebook -> texts that must be in its HTML output."""


@pytest.fixture(scope="module")
def notebooks():
    pytest.importorskip("myst_nb", reason="the notebooks need the extra docs")
    sys.path.insert(0, str(DOCS))
    from _site.notebooks import notebooks

    yield notebooks()
    sys.path.remove(str(DOCS))


def test_every_notebook_is_checked(notebooks):
    assert notebooks.keys() == SHOWN.keys()
    for notebook in notebooks.values():
        assert not any(cell.get("outputs") for cell in notebook.cells)


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(SHOWN))
@pytest.mark.filterwarnings("default")  # of Jupyter
def test_notebook_runs_and_shows_tables_and_pictures(notebooks, name, tmp_path):
    from nbclient import NotebookClient

    notebook = notebooks[name]
    NotebookClient(notebook, timeout=300, resources={"metadata": {"path": str(tmp_path)}}).execute()
    outputs = [output for cell in notebook.cells if cell.cell_type == "code" for output in cell.outputs]
    html = "".join(output.data.get("text/html", "") for output in outputs if "data" in output)
    assert not [text for text in SHOWN[name] if text not in html]
    assert sum("image/png" in output.get("data", {}) for output in outputs) >= 1  # a plot
    if name == "fit_a_sensor":
        (lines,) = [output.text for output in outputs if output.get("name") == "stdout"]
        means = [line.split("[")[1].split("]")[0].split() for line in lines.splitlines()]
        assert [[float(value) for value in mean] for mean in means] == [
            pytest.approx([0.01, -0.02, 0.005], abs=1e-3) for _ in range(2)
        ]
