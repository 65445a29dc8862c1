"""Extra docs: Sphinx builds a page with Markdown and the reference of a sensor; notebooks can be read."""

from pathlib import Path

from myst_nb.core.read import read_myst_markdown_notebook
from sphinx.cmd.build import main

CONFIG = """
extensions = ["myst_nb", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "sphinx_copybutton"]
html_theme = "furo"
nb_execution_mode = "off"
"""
PAGE = """# Sensors

```{eval-rst}
.. autoclass:: sensorium.IMU
```
"""
NOTEBOOK = "---\nkernelspec: {name: python3}\n---\n\n```{code-cell}\n1 + 1\n```\n"

source = Path("source")
source.mkdir()
(source / "conf.py").write_text(CONFIG)
(source / "index.md").write_text(PAGE)
assert main(["-q", "-W", "-b", "html", str(source), "site"]) == 0
text = Path("site/index.html").read_text()
assert 'id="sensorium.IMU"' in text
assert Path("site/search.html").exists()
assert len(read_myst_markdown_notebook(NOTEBOOK).cells) == 1
