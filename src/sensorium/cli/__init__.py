"""The command line ``sensorium``: one module per subcommand, each a dataclass of options with a ``run()`` method.

``sensorium COMMAND --help`` is made from the class: its docstring (description and examples), and the docstrings of its
fields. Modules of this package import what a command needs inside ``run()``, so that ``--help`` stays fast.
"""

from __future__ import annotations

import inspect
import io
import os
import signal
import sys
from collections.abc import Sequence
from functools import reduce
from importlib.util import find_spec
from operator import or_
from pathlib import Path
from typing import Annotated, Protocol, cast

import tyro

from sensorium import __version__
from sensorium.cli.compare import Compare
from sensorium.cli.doctor import Doctor
from sensorium.cli.evaluate import Evaluate
from sensorium.cli.export import Export
from sensorium.cli.export_policy import ExportPolicy
from sensorium.cli.fit import FitSensor
from sensorium.cli.generate import Generate
from sensorium.cli.plain_output import plain_output
from sensorium.cli.play import Play
from sensorium.cli.plot import Plot
from sensorium.cli.progress import NOTHING_KEPT, Terminated, interruptible, signals_ignored
from sensorium.cli.record import Record
from sensorium.cli.replay import Replay
from sensorium.cli.train import Train
from sensorium.cli.validate import Validate
from sensorium.cli.view import View
from sensorium.errors import NameNotFoundError, OptionError, SensoriumError, did_you_mean

FAILURE, USAGE, INTERRUPTED, TERMINATED = 1, 2, 130, 143
"""Exit codes: the command failed, it was called with invalid options, or it was ended by Ctrl-C or by SIGTERM."""
_DESCRIPTION = """Simulated robot sensors: record, replay, generate datasets, train.

Run `sensorium COMMAND --help` for the options of a command, `sensorium --version` for the version.

Examples:
    sensorium record --robot diffdrive --steps 500 --out runs/a
    sensorium replay runs/a --out runs/a-seen --rgb --depth
    sensorium generate pick --episodes 8 --out data/pick
    sensorium validate data/pick
    sensorium view data/pick"""


class Command(Protocol):
    """A subcommand with its options.

    A command that keeps something when it is interrupted has a property ``interrupted``, a text that says what is kept
    and how to go on. It imports nothing: torch cannot be imported again after its import was interrupted.
    """

    def run(self) -> int:
        """Run the command; return its exit code."""
        ...


_COMMANDS: dict[str, type[Command]] = {
    "record": Record,
    "replay": Replay,
    "validate": Validate,
    "generate": Generate,
    "export": Export,
    "train": Train,
    "evaluate": Evaluate,
    "export-policy": ExportPolicy,
    "play": Play,
    "plot": Plot,
    "fit": FitSensor,
    "doctor": Doctor,
    "compare": Compare,
    "view": View,
}
_ALIASES = {"check": "validate"}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command.

    Args:
        arguments: command line without the program name. Default: ``sys.argv[1:]``.

    Returns:
        The exit code: 0 for success, 1 if the command failed, 2 for invalid usage, 130 after Ctrl-C, 143 after
        SIGTERM.
    """
    if arguments is None:  # a program of its own: its worker processes do not search the working folder either
        os.environ["PYTHONSAFEPATH"] = "1"
        _name_glfw()
        if isinstance(sys.stdout, io.TextIOWrapper):  # names of files may have characters that cannot be encoded
            sys.stdout.reconfigure(errors="backslashreplace")
    given = list(sys.argv[1:] if arguments is None else arguments)
    if given == ["--version"]:
        print(__version__)
        return 0
    name = given[0] if given else "--help"
    if not name.startswith("-") and name not in (*_COMMANDS, *_ALIASES):
        hint = did_you_mean(name, [*_COMMANDS, *_ALIASES])
        return _report("sensorium", f"there is no command {name!r}{hint}; run `sensorium --help` for a list", USAGE)
    started: list[Command] = []
    with interruptible() as received:
        try:
            return _run(given, name, started)
        except BaseException as error:
            with signals_ignored():
                status, message = _explain(error, received, started)
                if status is None:
                    raise
                return _report(f"sensorium {name}", message, status)


def _explain(error: BaseException, received: list[int], started: list[Command]) -> tuple[int | None, str]:
    """Return the exit code and the message of an error; None if it is an error of Sensorium itself.

    Args:
        error: what a command raised.
        received: the signals that came.
        started: the command, once its options are parsed.
    """
    if isinstance(error, KeyboardInterrupt) or received:
        is_terminated = isinstance(error, Terminated) or received[:1] == [signal.SIGTERM]
        kept = getattr(started[0], "interrupted", NOTHING_KEPT) if started else NOTHING_KEPT
        return TERMINATED if is_terminated else INTERRUPTED, f"interrupted; {kept}"
    if isinstance(error, OptionError | NameNotFoundError):
        return USAGE, str(error)
    if isinstance(error, SensoriumError):
        return FAILURE, str(error)
    if isinstance(error, OSError) and error.filename is not None:  # caused by a file of the user
        return FAILURE, f"{error.filename}: {error.strerror}"
    return None, ""


def _run(arguments: list[str], name: str, started: list[Command]) -> int:
    """Parse the options of a command, append it to ``started``, and run it; return its exit code."""
    try:
        with plain_output():
            command, unknown = _parse(arguments or ["--help"], _ALIASES.get(name, name))
    except SystemExit as exit:  # tyro printed the help (0) or what is wrong with the options (2)
        return exit.code if isinstance(exit.code, int) else USAGE
    if unknown:
        return _report(f"sensorium {name}", _describe_unknown(unknown[0], command, name), USAGE)
    started.append(command)
    _check_paths(command)
    _import_physics()
    return command.run()


def _check_paths(command: Command) -> None:
    """Raise OptionError for an option that is a path which no file can have."""
    from sensorium._paths import checked_path

    for name, value in vars(command).items():
        for path in value if isinstance(value, list | tuple) else (value,):
            if isinstance(path, Path):
                checked_path(name, path)


def _name_glfw() -> None:
    """Name the library that the package glfw contains, for this process and its workers.

    MuJoCo imports glfw, which would start a process to find its library. That process would print a traceback where a
    worker ends while it imports.
    """
    package = None if "PYGLFW_LIBRARY" in os.environ else find_spec("glfw")
    if package is None or package.origin is None:
        return
    is_wayland = os.environ.get("XDG_SESSION_TYPE") == "wayland"
    variant = os.environ.get("PYGLFW_LIBRARY_VARIANT", "wayland" if is_wayland else "x11").lower()
    library = Path(package.origin).parent / variant / "libglfw.so"  # on Linux; other wheels are searched as usual
    if library.is_file():
        os.environ["PYGLFW_LIBRARY"] = str(library)


def _import_physics() -> None:
    """Import MuJoCo, which all commands need, with signals held back.

    It imports glfw, which starts a process to ask for the version of a library that :func:`_name_glfw` did not name.
    Ctrl-C in a terminal reaches that process too, and it would print a traceback of its own. It inherits the mask.
    """
    if sys.platform == "win32":
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, (signal.SIGINT, signal.SIGTERM))
    try:
        import mujoco  # noqa: F401
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _report(program: str, message: str, status: int) -> int:
    print(f"{program}: {message}", file=sys.stderr)
    return status


def _describe_unknown(argument: str, command: Command, name: str) -> str:
    if not argument.startswith("-"):
        return f"unexpected argument {argument!r}; run `sensorium {name} --help`"
    names = [field.replace("_", "-") for field in vars(command)]
    hint = did_you_mean(argument.lstrip("-"), names).replace(" '", " '--")
    return f"there is no option {argument!r}{hint}; run `sensorium {name} --help` for a list"


def _parse(arguments: list[str], name: str) -> tuple[Command, list[str]]:
    """Return the command, and the arguments that it does not have.

    The help of the command ``name`` is its whole docstring, that of others the first line.
    """
    options = [
        Annotated[  # type: ignore[valid-type]
            command,
            tyro.conf.subcommand(
                each,
                description=_help(command) if each == name else _summary(command),
                aliases=tuple(alias for alias, target in _ALIASES.items() if target == each),
            ),
        ]
        for each, command in _COMMANDS.items()
    ]
    union = cast("type[Command]", reduce(or_, options))
    return tyro.cli(
        union,
        prog="sensorium",
        description=_DESCRIPTION,
        args=arguments,
        return_unknown_args=True,
        config=(tyro.conf.DisallowNone, tyro.conf.PositionalMetavarFromFieldName),
    )


def _help(command: type[Command]) -> str:
    return inspect.cleandoc(command.__doc__ or "")


def _summary(command: type[Command]) -> str:
    return _help(command).split("\n")[0].rstrip(".")
