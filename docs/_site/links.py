"""Sphinx extension: links of the site.

- Markdown pages link to files of the repository as a reader of the repository needs it (``../CHANGELOG.md``,
  ``docs/pipeline.md``); the site has pages for some of them.
- References in docstrings name the module in which a class is written; the reference has its public name.
- Inline code that is a public name (``sn.IMU``, ``IMU``) becomes a link to the reference.
"""

from __future__ import annotations

import re
from collections.abc import Container

from docutils import nodes
from sphinx import addnodes
from sphinx.application import Sphinx
from sphinx.transforms.post_transforms import SphinxPostTransform
from sphinx.util.nodes import find_pending_xref_condition, make_refnode

from _site.names import documented, resolve, short_names

INCLUDED = {"CHANGELOG.md": "changelog.md", "CONTRIBUTING.md": "contributing.md"}
"""Pages in the root of the repository -> the pages of the site that include them."""
NAME = re.compile(r"(?:sn|sensorium)((?:\.\w+)+)(?:\(.*\))?|(\w+)(?:\(.*\))?", re.DOTALL)


def _adapt_links(app: Sphinx, docname: str, content: list[str]) -> None:
    """Point links to files outside of docs/ to the pages of the site that show them."""
    for file, page in INCLUDED.items():
        up = "../" * (docname.count("/") + 1)
        content[0] = content[0].replace(f"]({up}{file}", f"]({up[3:]}{page}")


def _adapt_included(app: Sphinx, relative: object, parent: str, content: list[str]) -> None:
    """Adapt the links of an included page, which lies in the root of the repository."""
    content[0] = content[0].replace("](docs/", "](")
    for file, page in INCLUDED.items():
        content[0] = content[0].replace(f"]({file}", f"]({page}")
    content[0] = re.sub(r"\]\((examples|benchmarks/|LICENSE)", r"](../\1", content[0])


class ResolveNames(SphinxPostTransform):
    """Give references in docstrings the documented name, and make those to other packages plain text.

    Sphinx would search all names for each unknown one, which takes a fifth of the build.
    """

    default_priority = 5  # before Sphinx's ReferencesResolver, 10

    def run(self, **kwargs: object) -> None:
        objects = self.env.domains["py"].objects
        for node in list(self.document.findall(addnodes.pending_xref)):
            if node.get("refdomain") != "py":
                continue
            name = _public_name(node["reftarget"], node.get("py:module"), node.get("py:class"), objects)
            if name is None:
                shown = find_pending_xref_condition(node, "resolved")  # of several texts, the short one
                node.replace_self(shown.children if shown is not None else node.children)
            else:
                node["reftarget"] = name
                node["refspecific"] = False


def _public_name(target: str, module: str | None, cls: str | None, objects: Container[str]) -> str | None:
    """Return the documented name that a reference means, or None if it is not documented."""
    target = target.removeprefix("sn.")
    scopes = [f"{module}.{cls}" if module and cls else cls, module, "sensorium", None]
    for scope in scopes:
        name = f"{scope}.{target}" if scope else target
        if name in objects:
            return name
    if target.startswith("sensorium."):
        name = resolve(target)
    else:
        first, _, rest = target.partition(".")
        name = ".".join(filter(None, (short_names().get(first), rest))) if first in short_names() else None
    return name if name in objects else None


class LinkNames(SphinxPostTransform):
    """Make inline code that is a public name a link to the reference."""

    default_priority = 900
    formats = ("html",)

    def run(self, **kwargs: object) -> None:
        if self.env.docname.startswith("api/"):
            return
        objects = self.env.domains["py"].objects
        for literal in list(self.document.findall(nodes.literal)):
            if isinstance(literal.parent, nodes.reference | nodes.title | addnodes.desc_signature | nodes.term):
                continue
            if any(isinstance(parent, nodes.reference) for parent in _parents(literal)):
                continue
            match = NAME.fullmatch(literal.astext())
            if match is None:
                continue
            full = f"sensorium{match[1]}" if match[1] else f"sensorium.{match[2]}"
            if not match[1] and not (full in documented() and match[2][0].isupper()):
                continue
            name = full if full in objects else resolve(full)
            found = objects.get(name) if name else None
            if found is not None:
                link = make_refnode(
                    self.app.builder, self.env.docname, found.docname, found.node_id, literal.deepcopy(), name
                )
                literal.replace_self(link)


def _parents(node: nodes.Node) -> list[nodes.Node]:
    found = []
    while node.parent is not None:
        node = node.parent
        found.append(node)
    return found


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the hooks."""
    app.connect("source-read", _adapt_links)
    app.connect("include-read", _adapt_included)
    app.add_post_transform(ResolveNames)
    app.add_post_transform(LinkNames)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
