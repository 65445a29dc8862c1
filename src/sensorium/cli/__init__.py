"""The command ``sensorium``."""

from __future__ import annotations

import sys

import tyro

from sensorium import __version__
from sensorium.cli.plot import Plot
from sensorium.errors import SensoriumError

_USAGE = """usage: sensorium COMMAND ...

  plot         draw what a sensor reads beside ground truth
  --version    print the version

`sensorium COMMAND --help` says more."""


def main(arguments: list[str] | None = None) -> int:
    """Run one command; returns the exit status."""
    given = sys.argv[1:] if arguments is None else arguments
    if given == ["--version"]:
        print(__version__)
        return 0
    if given in ([], ["-h"], ["--help"]):
        print(_USAGE)
        return 0
    if given[0] != "plot":
        print(f"sensorium: there is no command {given[0]!r}\n\n{_USAGE}", file=sys.stderr)
        return 2
    try:
        tyro.cli(Plot, prog="sensorium plot", args=given[1:]).run()
    except SensoriumError as error:
        print(f"sensorium plot: {error}", file=sys.stderr)
        return 2
    return 0
