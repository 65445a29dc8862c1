"""``sensorium compare``: simulated sensors beside the real ones of a log."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

import sensorium as sn
from sensorium.cli.arguments import bad_input, check_min, check_output, default
from sensorium.cli.progress import progress


@dataclass
class Compare:
    """Compare simulated sensors with those of a robot's log.

    A simulated robot follows the motion of the log: joint positions and the pose of the base.

    Exit code: 0 if all signals agree, 1 if one differs, 2 if a file cannot be used.

    Examples:
        sensorium compare real.mcap --robot my_robot.urdf --rig my_imu.yaml --out out/compare
        sensorium compare real.mcap --robot quadruped --topics robot_imu=/imu/data
    """

    log: Annotated[Path, tyro.conf.Positional]
    """The log: MCAP, HDF5, NPZ or CSV."""
    robot: str
    """Robot of the catalogue, or an MJCF or URDF file, whose joints have the names of the log."""
    rig: Annotated[Path | None, default("the robot's own sensors")] = None
    """YAML file of the simulated sensors."""
    out: Annotated[Path | None, default("none")] = None
    """Folder for one picture per signal."""
    topics: Annotated[tuple[str, ...], default("by name")] = ()
    """Topics of the log, as SENSOR=TOPIC."""
    env: Annotated[int | None, default("the only one")] = None
    """Env of a log of several."""
    world: Annotated[Path | None, default("that of our own logs, otherwise none")] = None
    """MJCF file of the robot's surroundings, for lidars."""
    rate: Annotated[float | None, default("that of the log's own simulation, otherwise 1000")] = None
    """Steps per second of the simulation."""
    seed: int = 0
    """Seed of the simulated noise."""
    partial: bool = False
    """Read what is whole of a log that is damaged or ends too early."""

    def run(self) -> int:
        """Compare, print the verdicts and write the pictures."""
        from sensorium.doctor.compare import compare, default_rate
        from sensorium.doctor.tables import read_any

        if self.rate is not None:
            check_min("rate", self.rate, 1)
        if any("=" not in each for each in self.topics):
            raise sn.OptionError(f"topics must be SENSOR=TOPIC, got {' '.join(self.topics)}")
        topics = dict(each.split("=", 1) for each in self.topics)
        check_output("--out", self.out)
        with bad_input():
            log = read_any(self.log, self.partial)
            steps = int((log.span[1] - log.span[0]) * (self.rate or default_rate(log)))
            with progress("simulating", steps, "steps") as advance:
                found = compare(
                    log,
                    self.robot,
                    self.rig,
                    topics=topics,
                    env=self.env,
                    world=self.world,
                    rate=self.rate,
                    seed=self.seed,
                    progress=advance,
                )
        print(found)
        if self.out is not None:
            for path in found.plot(self.out):
                print(path)
        return 0 if found.holds else 1
