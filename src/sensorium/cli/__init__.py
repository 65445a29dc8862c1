"""The command ``sensorium``."""

from __future__ import annotations

import sys
from typing import Any

import tyro

from sensorium import __version__
from sensorium.cli.check import Check
from sensorium.cli.evaluate import Evaluate
from sensorium.cli.export import Export
from sensorium.cli.generate import Generate
from sensorium.cli.plot import PlotCommand
from sensorium.cli.record import Record
from sensorium.cli.replay import Replay
from sensorium.cli.train import Train
from sensorium.cli.validate import Validate
from sensorium.cli.view import ViewCommand
from sensorium.errors import SensoriumError

_USAGE = """usage: sensorium COMMAND ...

  check        say whether a recording is whole, and repair it
  evaluate     say how good a trained robot is
  export       write a data set in the format of another project
  generate     make a data set of a task's episodes
  plot         draw what a sensor reads beside ground truth
  record       drive a robot and record it
  replay       sense a recording again
  train        let a robot learn a task
  validate     say whether a data set is what it says
  view         show a model, a data set or a recording in the browser
  --version    print the version

`sensorium COMMAND --help` says more."""


_COMMANDS: dict[str, type[Any]] = {
    "check": Check,
    "evaluate": Evaluate,
    "export": Export,
    "generate": Generate,
    "plot": PlotCommand,
    "record": Record,
    "replay": Replay,
    "train": Train,
    "validate": Validate,
    "view": ViewCommand,
}


def main(arguments: list[str] | None = None) -> int:
    """Run one command; returns the exit status."""
    given = sys.argv[1:] if arguments is None else arguments
    if given == ["--version"]:
        print(__version__)
        return 0
    if given in ([], ["-h"], ["--help"]):
        print(_USAGE)
        return 0
    name = given[0]
    if name not in _COMMANDS:
        print(f"sensorium: there is no command {name!r}\n\n{_USAGE}", file=sys.stderr)
        return 2
    try:
        status = tyro.cli(_COMMANDS[name], prog=f"sensorium {name}", args=given[1:]).run()
    except SensoriumError as error:
        print(f"sensorium {name}: {error}", file=sys.stderr)
        return 2
    except OSError as error:
        if error.filename is None:  # not about a file of the user's
            raise
        print(f"sensorium {name}: {error.filename}: {error.strerror}", file=sys.stderr)
        return 2
    return int(status or 0)
