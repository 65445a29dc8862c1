"""``sensorium validate``: check a dataset or a recording for missing and damaged data."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from sensorium.cli.progress import progress


@dataclass
class Validate:
    """Check a dataset or a recording for damage.

    Reads every file and compares it with the stored checksums. Decodes every video of a dataset.

    Writes nothing, unless --update is given.

    Exit code: 0 if the data is whole, 1 if not. `sensorium check` is an alias.

    Examples:
        sensorium validate data/pick
        sensorium validate runs/a
        sensorium validate runs/a --update
    """

    folder: Annotated[Path, tyro.conf.Positional]
    """Folder of the dataset, the recording or the replay."""
    update: bool = False
    """Recordings and replays: complete the files of an interrupted process; other damage is only reported. Datasets:
    write index.json, a list of the valid episodes."""
    repair: Annotated[bool | None, tyro.conf.Suppress] = None
    """Old name of ``update``, until 0.3.0."""

    def run(self) -> int:
        """Read everything and print a report."""
        from sensorium import datasets, recording

        update = self.update
        if self.repair is not None:
            warnings.warn("--repair is --update now; it disappears in 0.3.0", DeprecationWarning, stacklevel=2)
            update = self.repair
        if not datasets.is_dataset(self.folder):
            report = recording.check(self.folder, repair=update)
            print(report)
            return 0 if report.whole else 1
        total = len(datasets.Dataset(self.folder))
        with progress("validating", total, "episodes") as advance:
            result = datasets.validate(self.folder, advance, update=update)
        print(result)
        return 0 if result.valid else 1
