"""``sensorium record``: drive a robot and record every step."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import sensorium as sn
from sensorium.cli.arguments import check_min, default
from sensorium.cli.progress import NOTHING_KEPT, end_by, progress, stop_request


@dataclass
class Record:
    """Drive a robot through a room and record every step.

    Ctrl-C ends the recording after its current step; what was recorded is whole, and the exit code is 130.

    Examples:
        sensorium record --robot diffdrive --scenario random-path --steps 500 --envs 4 --seed 0 --out runs/a
        sensorium record --robot my_robot.urdf --rig my_sensors.yaml --scenario random-acceleration --out runs/b
        sensorium record --robot diffdrive --steps 500 --format mcap --out runs/c
    """

    out: Path
    """Output folder. It must be new or empty, unless --overwrite is given."""
    robot: str = "diffdrive"
    """Robot: diffdrive or holonomic, or an MJCF or URDF file with actuators named forward and turn. The scenario
    random-acceleration drives every robot of the catalogue: balancer, franka, yam, rby1, ..."""
    scenario: str = "random-path"
    """What drives the robot: random-path, random-acceleration, keyboard or gamepad."""
    steps: int = 500
    """Number of steps."""
    envs: int = 1
    """Number of copies of the scene, simulated in parallel."""
    seed: int = 0
    """Seed of the room, the driving and all noise."""
    world: Annotated[Path | None, default("a room with obstacles, made from the seed")] = None
    """MJCF file of the robot's surroundings."""
    rig: Annotated[Path | None, default("the robot's own sensors")] = None
    """YAML file of the robot's sensors."""
    dt: float = 0.01
    """Duration of a step in seconds."""
    device: str = "cpu"
    """Device of the simulation: cpu or cuda."""
    format: Literal["sensorium", "mcap"] = "sensorium"
    """Format: sensorium (states, which can be replayed with other sensors), or mcap (one file of ROS 2 messages per
    env, with what the sensors read)."""
    namespaces: bool = False
    """MCAP: write all envs to one file, with topics below /env_0, /env_1, ..."""
    jpeg: Annotated[int | None, default("raw images")] = None
    """MCAP: quality of JPEG for colour images, 1 to 100."""
    overwrite: bool = False
    """Replace the recording in the output folder. Other contents are never replaced."""

    def run(self) -> int:
        """Drive and record."""
        from sensorium.recording.folder import check_new

        check_min("steps", self.steps, 1)
        check_min("envs", self.envs, 1)
        if self.format == "mcap" and self.overwrite:
            raise sn.OptionError("--overwrite is for --format sensorium; remove the old MCAP files or change --out")
        if self.format != "mcap" and (self.namespaces or self.jpeg is not None):
            raise sn.OptionError("namespaces and jpeg are for --format mcap")
        check_new(self.out, self.overwrite)  # before the scene is built, which takes time
        scene = sn.Scene(dt=self.dt)
        if self.world is None:
            scene.add_module("room", sn.scenarios.Room(seed=self.seed))
        else:
            scene.add_terrain(self.world, name="world_model")
        rig: dict[str, Any] = {} if self.rig is None else {"rig": self.rig}
        robot = scene.add_robot(sn.robots.make(self.robot, **rig), name="robot")
        scene.build(n_envs=self.envs, seed=self.seed, device=self.device)
        with stop_request() as received, sn.scenarios.make(self.scenario, scene, robot, seed=self.seed) as scenario:
            scene.add_child("scenario", scenario)
            scenario.reset()
            metadata = {"robot": self.robot, "scenario": self.scenario, "seed": self.seed}
            recorder = self._recorder(scene, scenario, metadata)
            with recorder, progress("recording", self.steps, "steps") as advance:
                for _ in range(self.steps):
                    done = scenario.step()
                    try:
                        scene.step()
                    except sn.DivergenceError as error:
                        done[error.envs] = True
                    recorder.step()
                    advance(1)
                    if received:
                        break
                    if bool(done.all()) and self.scenario in ("keyboard", "gamepad"):
                        break
                    if bool(done.any()):
                        scene.reset(done)
                        scenario.reset(done)
        end_by(received)
        print(f"{self.out}: {recorder.n_steps} steps of {self.envs} envs")
        return 0

    @property
    def interrupted(self) -> str:
        """What an interrupted recording keeps."""
        if not self.out.exists():
            return NOTHING_KEPT
        return f"the recorded steps in {self.out} are kept; record again with --overwrite, or into another folder"

    def _recorder(
        self, scene: sn.Scene, scenario: object, metadata: dict[str, Any]
    ) -> sn.ros.McapRecorder | sn.recording.Recorder:
        if self.format == "mcap":
            from sensorium.ros import McapRecorder

            return McapRecorder(scene, self.out, jpeg=self.jpeg, namespaces=self.namespaces, metadata=metadata)
        return sn.recording.Recorder(
            scene,
            self.out,
            occupancy_map=getattr(scenario, "map", None),
            metadata=metadata,
            overwrite=self.overwrite,
        )
