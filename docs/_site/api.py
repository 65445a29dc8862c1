"""Sphinx extension: the directive ``api``, which documents the public names of a package.

::

    .. api:: sensorium
       :names: Scene Entity

    .. api:: sensorium.worlds

Without ``names`` it documents every public name of the package that no other page documents. Options classes get tables
of their options. A public name that no page documents is a warning, which fails the build.
"""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Iterator
from typing import ClassVar

from docutils import nodes
from docutils.parsers.rst import directives
from docutils.statemachine import StringList
from numpy.typing import ArrayLike, DTypeLike
from sphinx.application import Sphinx
from sphinx.environment import BuildEnvironment
from sphinx.util import logging
from sphinx.util.docutils import SphinxDirective
from sphinx.util.nodes import nested_parse_with_titles
from sphinx.util.typing import stringify_annotation

from _site.names import PACKAGES, canonical_names, constant_docstring, documented, import_package
from _site.options import table
from sensorium import Options

LOGGER = logging.getLogger(__name__)


class ApiDirective(SphinxDirective):
    """Document the public names of a package, or some of them."""

    required_arguments = 1
    option_spec: ClassVar = {"names": directives.unchanged_required}

    def run(self) -> list[nodes.Node]:
        module = import_package(self.arguments[0].removeprefix("sensorium").removeprefix("."))
        prefix = f"{module.__name__}."
        names = self.options.get("names", "").split() or [
            name.removeprefix(prefix) for name in documented() if name.rpartition(".")[0] == module.__name__
        ]
        done: dict[str, str] = self.env.__dict__.setdefault("sensorium_documented", {})
        lines = [".. currentmodule:: " + module.__name__, ""]
        if "names" not in self.options and module.__name__ != "sensorium":
            lines = [".. py:module:: " + module.__name__, "", *lines]
        for name in names:
            full = prefix + name
            done[full] = self.env.docname
            lines += [name, "-" * len(name), "", *_describe(full), ""]
        node = nodes.section(document=self.state.document)
        nested_parse_with_titles(self.state, StringList(lines, source=self.env.docname), node)
        return node.children


def _describe(full: str) -> Iterator[str]:
    """Yield the autodoc directive of one name."""
    value = documented().get(full)
    if isinstance(value, type):
        yield f".. autoclass:: {full}"
        yield "   :members:"
        if not getattr(value, "_is_protocol", False):  # autodoc cannot tell apart the members of protocols
            yield f"   :inherited-members: {', '.join(_foreign_bases(value)) or 'object'}"
        if issubclass(value, Options):
            yield f"   :exclude-members: {', '.join(value.model_fields)}, option_names, model_config, model_post_init"
        if any(id(base) in canonical_names() for base in value.__bases__):
            yield "   :show-inheritance:"
    elif inspect.isroutine(value):
        yield f".. autofunction:: {full}"
    else:
        yield f".. py:data:: {full}"
        yield ""
        package, _, name = full.rpartition(".")
        yield from (f"   {line}" for line in constant_docstring(name, package))


def _foreign_bases(cls: type) -> list[str]:
    """Return the base classes whose members are not repeated.

    They are documented themselves, are bases of such a class, which shows their members, or come from elsewhere.
    """
    bases = cls.__mro__[1:-1]
    shown = [base for base in bases if id(base) in canonical_names()]
    return [
        base.__name__
        for base in bases
        if any(issubclass(each, base) for each in shown) or "sensorium" not in base.__module__
    ]


def _add_tables(_: Sphinx, what: str, name: str, obj: object, options: object, lines: list[str]) -> None:
    """Append the tables of options to the docstring of an options class."""
    if what == "class" and isinstance(obj, type) and issubclass(obj, Options) and obj is not Options:
        lines += table(obj)


def _protect_colons(_: Sphinx, what: str, name: str, obj: object, options: object, lines: list[str]) -> None:
    """Keep docstrings of attributes and properties as they are.

    Napoleon takes the text before the first colon of such a docstring for a type: "Rate of the sensor, Hz: 0 for none."
    An empty comment in front of it, which reStructuredText does not show, prevents that.
    """
    if what in ("attribute", "data", "property") and lines:
        lines[:0] = ["..", ""]


def _shorten_signature(
    _: Sphinx, what: str, name: str, obj: object, options: object, signature: str | None, returns: str | None
) -> tuple[str, str] | None:
    """Shorten signatures.

    Options classes have none, since their tables say the same and more. NumPy's ``ArrayLike`` and ``DTypeLike`` are not
    expanded. A class as a default has its name, and a default without a literal form is an ellipsis: Sphinx cannot
    parse ``<function <lambda>>`` and would show the text unformatted.
    """
    if isinstance(obj, type) and issubclass(obj, Options):
        return "(**options)", ""
    if signature is None:
        return None
    for name, alias in (("ArrayLike", ArrayLike), ("DTypeLike", DTypeLike)):
        signature = signature.replace(stringify_annotation(alias, "smart"), f"~numpy.typing.{name}")
    signature = re.sub(r"<class '([\w.]+)'>", r"\1", signature)
    return re.sub(r"<factory>|<function <lambda>>", "...", signature), returns or ""


def _show_public_bases(_: Sphinx, name: str, obj: object, options: object, bases: list[type]) -> None:
    """Keep the documented classes of the line "Bases"."""
    bases[:] = [base for base in bases if id(getattr(base, "__origin__", base)) in canonical_names()] or bases


def _check_complete(app: Sphinx, env: BuildEnvironment) -> None:
    """Warn of public names that no page documents."""
    done = env.__dict__.get("sensorium_documented", {})
    for name in sorted(documented().keys() - done.keys()):
        LOGGER.warning("no page of docs/api documents %s", name)
    exported = {name.split(".")[1] for name in sys.modules if name.startswith("sensorium.") and name.count(".") == 1}
    for package in sorted(exported - set(PACKAGES)):
        module = sys.modules[f"sensorium.{package}"]
        if hasattr(module, "__all__") and not package.startswith("_"):
            LOGGER.warning("docs/_site/names.py does not list the package sensorium.%s", package)


def _merge(_: Sphinx, env: BuildEnvironment, docnames: list[str], other: BuildEnvironment) -> None:
    env.__dict__.setdefault("sensorium_documented", {}).update(other.__dict__.get("sensorium_documented", {}))


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the directive and its hooks."""
    app.add_directive("api", ApiDirective)
    app.connect("autodoc-process-docstring", _add_tables, priority=600)  # after napoleon
    app.connect("autodoc-process-docstring", _protect_colons, priority=400)  # before Napoleon, 500
    app.connect("autodoc-process-signature", _shorten_signature)
    app.connect("autodoc-process-bases", _show_public_bases)
    app.connect("env-check-consistency", _check_complete)
    app.connect("env-merge-info", _merge)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
