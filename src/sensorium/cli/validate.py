"""``sensorium validate``: check a dataset or a recording for missing and damaged data."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from sensorium.cli.progress import progress


@dataclass
class Validate:
    """Check a dataset or a recording for damage.

    Reads every file and compares it with the stored checksums.

    Datasets: also decodes every video, and writes the index that `sensorium export` needs.

    Recordings and replays: also completes files that an interrupted process left.

    Exit code: 0 if the data is whole, 1 if not. `sensorium check` is an alias.

    Examples:
        sensorium validate data/pick
        sensorium validate runs/a
        sensorium validate runs/a --no-repair
    """

    folder: Annotated[Path, tyro.conf.Positional]
    """Folder of the dataset, the recording or the replay."""
    repair: bool = True
    """Recordings: complete the files of an interrupted process. Other damage is only reported."""

    def run(self) -> int:
        """Read everything and print a report."""
        from sensorium import datasets, recording

        if not datasets.is_dataset(self.folder):
            report = recording.check(self.folder, repair=self.repair)
            print(report)
            return 0 if report.whole else 1
        total = len(datasets.Dataset(self.folder))
        with progress("validating", total, "episodes") as advance:
            result = datasets.validate(self.folder, advance)
        print(result)
        return 0 if result.valid else 1
