"""``sensorium export``: a data set in the format of another project."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

import sensorium as sn
from sensorium.cli.progress import gentle_end, progress


@dataclass
class Export:
    """Write a data set in the format of another project. It must be valid: see `sensorium validate`.

    Example: sensorium export data/pick --format lerobot --out data/pick-lerobot
    """

    folder: Annotated[Path, tyro.conf.Positional]
    """The data set."""
    out: Path
    """Folder to write; it does not exist, or is empty."""
    format: str = "lerobot"
    """lerobot (version 3.0), robomimic (HDF5), minari, or rerun (one recording an episode)."""
    images: bool = True
    """Whether to export what cameras saw."""

    def run(self) -> int:
        """Export, with a progress bar."""
        total = len(sn.datasets.Dataset(self.folder))
        with gentle_end(), progress("exporting", total, "episodes") as advance:
            out = sn.datasets.export(self.folder, self.format, self.out, images=self.images, progress=advance)
        size = sum(path.stat().st_size for path in out.rglob("*") if path.is_file())
        print(f"{out}: {total} episodes as {self.format}, {size / 1e6:,.1f} MB")
        return 0
