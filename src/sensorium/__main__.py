"""Run the command ``sensorium``, also with ``python -m sensorium``.

This module imports only the standard library, so that Ctrl-C ends a command quietly while it imports the rest.
"""

from __future__ import annotations

import os
import sys

if __name__ == "__main__" and sys.path[:1] == [os.getcwd()] != [os.path.dirname(os.path.dirname(__file__))]:
    del sys.path[0]  # `python -m` searches the working folder first: a file there could replace any module

import atexit
import contextlib
import signal


def main() -> int:
    """Run the command of ``sys.argv``; return its exit code.

    Ctrl-C and SIGTERM end the process with 130 and 143 while modules are imported. Nothing has begun then. After the
    command, while Python frees what it used, they end the process at once with the exit code of the command.
    """

    def end(number: int, _: object) -> None:
        os.write(2, b"sensorium: interrupted; nothing was kept; run it again\n")
        os._exit(128 + number)

    def ignore() -> None:
        for each in signals:
            signal.signal(each, signal.SIG_IGN)

    signals = [each for each in (signal.SIGINT, signal.SIGTERM) if signal.getsignal(each) is not signal.SIG_IGN]
    for each in signals:
        signal.signal(each, end)
    atexit.register(ignore)  # the first to be registered runs last: afterwards Python runs no handlers any more
    from sensorium.cli import main as run

    status = run()
    for each in signals:
        signal.signal(each, lambda *_: os._exit(status))
    with contextlib.suppress(OSError, ValueError, AttributeError):  # closed, full or None; Python reports it at its end
        sys.stdout.flush()
    return status


if __name__ == "__main__":
    sys.exit(main())
