"""``sensorium export``: write a dataset in the format of another project."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import tyro

from sensorium.cli.arguments import default
from sensorium.cli.progress import progress
from sensorium.json_files import load_json


@dataclass
class Export:
    """Write a dataset in the format of another project.

    Compares every file with its checksum while it is read.

    Examples:
        sensorium export data/pick --format lerobot --out data/pick-lerobot
        sensorium export data/pick --format robomimic --no-images --out data/pick-robomimic
        sensorium export data/pick --exclude "privileged.*" "info.*" --out data/pick-lerobot
    """

    folder: Annotated[Path, tyro.conf.Positional]
    """Folder of the dataset."""
    out: Path
    """Output folder. It must not exist, or be empty."""
    format: Literal["lerobot", "robomimic", "minari", "rerun", "mcap"] = "lerobot"
    """Format: lerobot (version 3.0), robomimic (one HDF5 file), minari, rerun (one .rrd file per episode), or mcap
    (one file of ROS 2 messages per episode)."""
    images: bool = True
    """Export camera images."""
    include: Annotated[tuple[str, ...], default("everything")] = ()
    """Patterns of what to export, e.g. qpos "robot_*" "observation.*"."""
    exclude: Annotated[tuple[str, ...], default("nothing")] = ()
    """Patterns of what not to export, e.g. "privileged.*" "info.*"."""

    def run(self) -> int:
        """Export with a progress bar."""
        from sensorium import datasets
        from sensorium.datasets.export.reasons import NO_DATA, NOT_REQUESTED, NOT_SELECTED
        from sensorium.errors import shorten

        total = len(datasets.Dataset(self.folder))
        with progress("exporting", total, "episodes") as advance:
            out = datasets.export(
                self.folder,
                self.format,
                self.out,
                images=self.images,
                include=self.include,
                exclude=self.exclude,
                progress=advance,
            )
        size = sum(path.stat().st_size for path in out.rglob("*") if path.is_file())
        print(f"{out}: {total} episodes as {self.format}, {size / 1e6:,.1f} MB")
        note = next(out.rglob("sensorium.json"))
        known = (NO_DATA, NOT_REQUESTED, NOT_SELECTED)
        skipped = [name for name, why in load_json(note.read_bytes())["left_out"].items() if why not in known]
        if skipped:
            print(f"skipped, as {note.relative_to(out)} explains: {shorten(skipped)}")
        return 0

    @property
    def interrupted(self) -> str:
        """What an interrupted export keeps."""
        return f"nothing was left at {self.out}; run the same command again"
