"""Help and usage errors as plain text, as ``git`` prints them, instead of the tables that tyro draws.

tyro has no option for this. It draws no boxes on a standard output without an encoding, such as a ``StringIO``: each
table is then a title, a line of dashes, and rows that are indented by two spaces. Checked with tyro 1.0.16; what other
versions draw is printed as it is.
"""

from __future__ import annotations

import contextlib
import io
import re
import sys
from collections.abc import Iterator

_TITLE = re.compile(r"^ (?P<title>\S.*?) *\n -{10,} *\n", re.MULTILINE)
_RULE = re.compile(r"^ *-{10,} *$", re.MULTILINE)


@contextlib.contextmanager
def plain_output() -> Iterator[None]:
    """Print what tyro prints in the block as plain text, at the end of the block."""
    help_text, errors = io.StringIO(), io.StringIO()
    try:
        with contextlib.redirect_stdout(help_text), contextlib.redirect_stderr(errors):
            yield
    finally:
        sys.stdout.write(plain_help(help_text.getvalue()))
        sys.stderr.write(plain_error(errors.getvalue()))


def plain_help(text: str) -> str:
    """Return a help text with a heading above each table, such as "options:"."""
    return _without_padding(_TITLE.sub(r"\g<title>:\n", text))


def plain_error(text: str) -> str:
    """Return an error without its title, which the text repeats, and with blank lines between its parts."""
    lines = _without_padding(_RULE.sub("", _TITLE.sub("", text))).splitlines()
    return "".join(f"{line.removeprefix('  ')}\n" for line in lines)


def _without_padding(text: str) -> str:
    lines = [line.rstrip() for line in text.splitlines()]
    return "".join(f"{line}\n" for line in "\n".join(lines).strip("\n").split("\n")) if text else ""
