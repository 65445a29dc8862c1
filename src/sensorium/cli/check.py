"""``sensorium check``: is a recording whole?"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

import sensorium as sn


@dataclass
class Check:
    """Say whether a recording is whole, and complete what an interrupted process had begun.

    Example: sensorium check runs/a

    Ends with status 0 if it is whole (now), and 1 if something is missing or broken.
    """

    folder: Annotated[Path, tyro.conf.Positional]
    """The recording."""
    repair: bool = True
    """Complete files that an interrupted process left: their whole steps are kept."""

    def run(self) -> int:
        """Read everything, and print what was found."""
        report = sn.recording.check(self.folder, repair=self.repair)
        print(report)
        return 0 if report.whole else 1
