"""``sensorium record``: drive a robot, and keep what it does."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import sensorium as sn
from sensorium.cli.progress import gentle_end, progress
from sensorium.recording.folder import check_new


@dataclass
class Record:
    """Drive a robot through a room, and record every step.

    Example: sensorium record --robot diffdrive --scenario random-path --steps 500 --envs 4 --seed 0 --out runs/a

    Ctrl-C ends the recording; what was recorded until then is kept.
    """

    out: Path
    """Folder to write: a new or an empty one."""
    robot: str = "diffdrive"
    """Which robot: diffdrive, holonomic, franka, mobile_franka, floating_gripper, bimanual, or an MJCF or URDF file."""
    scenario: str = "random-path"
    """What drives it: random-path, random-acceleration, keyboard, gamepad."""
    steps: int = 500
    """How many steps."""
    envs: int = 1
    """How many copies of the scene, side by side."""
    seed: int = 0
    """What the room, the driving and all noise come from."""
    world: Path | None = None
    """MJCF file of what is around the robot. Default: a room with obstacles, from the seed."""
    rig: Path | None = None
    """YAML file of the robot's sensors. Default: the robot's own."""
    dt: float = 0.01
    """Seconds of a step."""
    device: str = "cpu"
    """Where to simulate: cpu or cuda."""
    overwrite: bool = False
    """Replace a recording that is there."""

    def run(self) -> int:
        """Drive and record."""
        for name, value in (("steps", self.steps), ("envs", self.envs)):
            if value < 1:
                raise sn.OptionError(f"--{name} must be at least 1, got {value}")
        check_new(self.out, self.overwrite)  # before the work of making the scene
        scene = sn.Scene(dt=self.dt)
        if self.world is None:
            scene.add_module("room", sn.scenarios.Room(seed=self.seed))
        else:
            scene.add_terrain(self.world, name="world_model")
        rig: dict[str, Any] = {} if self.rig is None else {"rig": self.rig}
        robot = scene.add_robot(sn.robots.make(self.robot, **rig), name="robot")
        scene.build(n_envs=self.envs, seed=self.seed, device=self.device)
        interrupted = False
        with gentle_end(), sn.scenarios.make(self.scenario, scene, robot, seed=self.seed) as scenario:
            scene.add_child("scenario", scenario)
            scenario.reset()
            metadata = {"robot": self.robot, "scenario": self.scenario, "seed": self.seed}
            recorder = sn.recording.Recorder(
                scene,
                self.out,
                occupancy_map=getattr(scenario, "map", None),
                metadata=metadata,
                overwrite=self.overwrite,
            )
            try:
                with recorder, progress("recording", self.steps, "steps") as advance:
                    for _ in range(self.steps):
                        done = scenario.step()
                        try:
                            scene.step()
                        except sn.DivergenceError as error:
                            done[error.envs] = True
                        recorder.step()
                        advance(1)
                        if bool(done.all()) and self.scenario in ("keyboard", "gamepad"):
                            break
                        if bool(done.any()):
                            scene.reset(done)
                            scenario.reset(done)
            except KeyboardInterrupt:
                interrupted = True
        how = " (interrupted)" if interrupted else ""
        print(f"{self.out}: {recorder.n_steps} steps of {self.envs} envs{how}")
        return 0
