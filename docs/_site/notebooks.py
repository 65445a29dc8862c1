"""Sphinx extension: writes the notebooks as ``.ipynb`` files beside their pages, so that readers can download them."""

from __future__ import annotations

import re
from pathlib import Path

import nbformat
from myst_nb.core.read import read_myst_markdown_notebook
from sphinx.application import Sphinx

FOLDER = Path(__file__).parent.parent / "notebooks"


def notebooks() -> dict[str, nbformat.NotebookNode]:
    """Return the notebooks of docs/notebooks by name, without output."""
    files = [file for file in sorted(FOLDER.glob("*.md")) if file.read_text(encoding="utf-8").startswith("---\n")]
    return {file.stem: read_myst_markdown_notebook(file.read_text(encoding="utf-8")) for file in files}


def _offer_download(app: Sphinx, docname: str, content: list[str]) -> None:
    """Add a link to the file below the title of a notebook's page."""
    folder, _, name = docname.rpartition("/")
    if folder == FOLDER.name and name in notebooks():
        link = f'<a class="reference download" href="{name}.ipynb" download>Download this notebook</a>'
        content[0] = re.sub(r"^(# .*)$", rf"\1\n\n{link}", content[0], count=1, flags=re.MULTILINE)


def _write_files(app: Sphinx, error: Exception | None) -> None:
    """Write the files. Links to other pages become text, since the pages are not beside a downloaded file."""
    if error is not None or app.builder.format != "html":
        return
    for name, notebook in notebooks().items():
        for cell in notebook.cells:
            if cell.cell_type == "markdown":
                cell.source = re.sub(r"\[([^\]]*)\]\((?:\.\./)?([\w/]+\.md)[^)]*\)", r"\1 (docs: `\2`)", cell.source)
        nbformat.write(notebook, Path(app.outdir) / FOLDER.name / f"{name}.ipynb")


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the hooks."""
    app.connect("source-read", _offer_download)
    app.connect("build-finished", _write_files)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
