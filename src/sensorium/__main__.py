"""Run the command ``sensorium``, also with ``python -m sensorium``.

This module imports only the standard library, so that Ctrl-C ends a command quietly while it imports the rest.
"""

from __future__ import annotations

import os
import sys

if __name__ == "__main__" and sys.path[:1] == [os.getcwd()] != [os.path.dirname(os.path.dirname(__file__))]:
    del sys.path[0]  # `python -m` searches the working folder first: a file there could replace any module

import signal


def main() -> int:
    """Run the command of ``sys.argv``; return its exit code.

    Ctrl-C and SIGTERM end the process with 130 and 143 while modules are imported. Nothing has begun then.
    """

    def end(number: int, _: object) -> None:
        os.write(2, b"sensorium: interrupted; nothing was kept; run it again\n")
        os._exit(128 + number)

    signals = [each for each in (signal.SIGINT, signal.SIGTERM) if signal.getsignal(each) is not signal.SIG_IGN]
    before = {each: signal.signal(each, end) for each in signals}
    from sensorium.cli import main as run

    for each, handler in before.items():
        signal.signal(each, handler)
    return run()


if __name__ == "__main__":
    sys.exit(main())
