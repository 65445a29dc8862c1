"""Sphinx extension: pages with the source of the package, and the links to them from the reference.

``sphinx.ext.viewcode`` gives each of 200 modules a page with the whole navigation of the site, which takes longer than
all other pages together. These pages have the code only.
"""

from __future__ import annotations

import functools
import html
import inspect
from pathlib import Path

from pygments import highlight
from pygments.formatters import HtmlFormatter
from pygments.lexers import PythonLexer
from sphinx.application import Sphinx

from _site.names import SOURCE, documented

FOLDER = "_source"
_LINKED: set[Path] = set()

PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}</title><style>{style}</style></head>
<body><p><a href="{home}">Sensorium {version}</a> · <code>{title}</code></p>{code}</body></html>
"""
STYLE = """
body { font-family: system-ui, sans-serif; margin: 1rem; }
pre { font-size: 0.85rem; line-height: 1.35; overflow-x: auto; }
:target { background: #ffd54f66; }
a { color: inherit; text-decoration: none; }
.linenos { opacity: 0.6; padding-right: 1em; }
"""


@functools.cache
def _style() -> str:
    light = HtmlFormatter(style="default").get_style_defs(".highlight")
    dark = HtmlFormatter(style="native").get_style_defs(".highlight")
    dark += "\nbody { background: #131416; color: #d0d0d0; }"
    return f"{STYLE}\n{light}\n@media (prefers-color-scheme: dark) {{\n{dark}\n}}"


def source_link(domain: str, info: dict[str, str]) -> str | None:
    """Return the address of the source of an object, relative to a page in api/."""
    name = f"{info['module']}.{info['fullname']}" if info.get("module") else info.get("fullname", "")
    owner, members = name, []
    while owner and owner not in documented():
        owner, _, member = owner.rpartition(".")
        members.insert(0, member)
    if not owner:
        return None
    value = documented()[owner]
    for member in members:
        value = inspect.getattr_static(value, member, None)
    value = value.fget if isinstance(value, property) else getattr(value, "__func__", value)
    try:
        file = Path(inspect.getsourcefile(inspect.unwrap(value)) or "")
        line = inspect.getsourcelines(inspect.unwrap(value))[1]
    except (TypeError, OSError, AttributeError):
        return None
    if SOURCE not in file.parents:
        return None
    _LINKED.add(file)
    return f"../{FOLDER}/{file.relative_to(SOURCE).as_posix()}.html#L{line}"


def _write_sources(app: Sphinx, error: Exception | None) -> None:
    """Write a page for each linked file."""
    if error is not None or app.builder.format != "html":
        return
    formatter = HtmlFormatter(anchorlinenos=True, lineanchors="L", linenos="inline")
    for file in sorted(_LINKED):
        relative = file.relative_to(SOURCE)
        out = Path(app.outdir) / FOLDER / f"{relative.as_posix()}.html"
        out.parent.mkdir(parents=True, exist_ok=True)
        code = highlight(file.read_text(encoding="utf-8"), PythonLexer(), formatter).replace("L-", "L")
        title = html.escape(f"sensorium/{relative.as_posix()}")
        home = "../" * len(relative.parts) + "index.html"
        out.write_text(
            PAGE.format(title=title, style=_style(), home=home, version=app.config.release, code=code), encoding="utf-8"
        )


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the hook."""
    app.connect("build-finished", _write_sources)
    return {"parallel_read_safe": False, "parallel_write_safe": True}
