"""Sphinx extension: the directive ``commands``, which shows the help of every command of ``sensorium``."""

from __future__ import annotations

import contextlib
import io
import os
import re

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

from sensorium import cli


def command_help(*arguments: str) -> str:
    """Return what ``sensorium ARGUMENTS --help`` prints in a terminal of 100 columns."""
    before, out = os.environ.get("COLUMNS"), io.StringIO()
    os.environ["COLUMNS"] = "100"
    try:
        with contextlib.redirect_stdout(out):
            cli.main([*arguments, "--help"])
    finally:
        if before is None:
            del os.environ["COLUMNS"]
        else:
            os.environ["COLUMNS"] = before
    return out.getvalue().strip()


def command_names() -> list[str]:
    """Return the names of all commands, as ``sensorium --help`` lists them."""
    return re.findall(r"^ +• ([\w-]+)", command_help(), re.MULTILINE)


class CommandsDirective(SphinxDirective):
    """A section per command, with its help."""

    def run(self) -> list[nodes.Node]:
        found: list[nodes.Node] = []
        for name in command_names():
            title = f"sensorium {name}"
            section = nodes.section("", nodes.title("", title), ids=[nodes.make_id(title)], names=[title])
            text = command_help(name)
            section += nodes.literal_block(text, text, language="text")
            found.append(section)
        return found


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the directive."""
    app.add_directive("commands", CommandsDirective)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
