"""Sphinx configuration of the documentation site. ``script/docs`` builds it."""

import gc
import os
import sys
from datetime import UTC, datetime
from pathlib import Path

ROOT = Path(__file__).parent.parent
sys.path[:0] = [str(ROOT / "src"), str(ROOT / "docs")]

from _site.source import source_link  # noqa: E402

import sensorium  # noqa: E402

gc.set_threshold(200_000, 20, 100)  # a build keeps most objects: searching them takes a fifth of its time

project = "Sensorium"
author = "the Sensorium authors"
copyright = f"{datetime.now(UTC).year}, {author}"
release = version = sensorium.__version__
language = "en"
highlight_language = "none"  # blocks without a language are output and shell commands

extensions = [
    "myst_nb",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "sphinx.ext.linkcode",
    "sphinx_copybutton",
    "_site.api",
    "_site.commands",
    "_site.links",
    "_site.notebooks",
    "_site.source",
]
exclude_patterns = ["gallery", "_site"]

# -- Markdown and notebooks --------------------------------------------------------------------------------------------
myst_heading_anchors = 4  # the same anchors as on code hosting sites
myst_enable_extensions = ["colon_fence", "html_image"]
nb_execution_mode = os.environ.get("SENSORIUM_NOTEBOOKS", "force")
nb_execution_timeout = 300
nb_execution_raise_on_error = True
nb_merge_streams = True

# -- API reference -----------------------------------------------------------------------------------------------------
autodoc_member_order = "bysource"
autodoc_typehints_format = "short"
python_use_unqualified_type_names = True
python_maximum_signature_line_length = 88
add_module_names = True
toc_object_entries = False  # the sidebar of every page would contain every method
napoleon_use_rtype = False
napoleon_use_admonition_for_examples = False
napoleon_use_ivar = True
linkcode_resolve = source_link

# -- HTML: every file is part of the site, so that it can be read without a network ------------------------------------
html_theme = "furo"
html_title = f"Sensorium {release}"
html_static_path = ["_site/static"]
html_css_files = ["site.css"]
html_copy_source = False
html_show_sourcelink = False
html_show_sphinx = False
html_theme_options = {
    "announcement": f"Version {release}, in development",
    "navigation_with_keys": True,
}
copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True
