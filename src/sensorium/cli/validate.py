"""``sensorium validate``: is a data set what it says?"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

import sensorium as sn
from sensorium.cli.progress import progress


@dataclass
class Validate:
    """Read every file of a data set, decode every video, and write an index of it.

    Example: sensorium validate data/pick

    Ends with status 0 if everything is as it says, and 1 if not.
    """

    folder: Annotated[Path, tyro.conf.Positional]
    """The data set."""

    def run(self) -> int:
        """Read everything, and print what was found."""
        total = len(sn.datasets.Dataset(self.folder))
        with progress("validating", total, "episodes") as advance:
            result = sn.datasets.validate(self.folder, advance)
        print(result)
        return 0 if result.valid else 1
