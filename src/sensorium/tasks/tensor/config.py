"""Options that all tensor tasks share."""

from __future__ import annotations

from pathlib import Path
from typing import Self

from pydantic import Field, field_validator, model_validator

from sensorium.errors import did_you_mean, shorten
from sensorium.options import Options
from sensorium.robots import SensorRig
from sensorium.tasks.task_camera import TaskCamera
from sensorium.tasks.tensor.model_randomization import ModelRandomization


class TensorTaskConfig(Options):
    """Options that all tensor tasks share."""

    robot: str = "quadruped"
    """Name of the robot, one of ``sn.robots.names()``, or a model file. Robot objects are passed to ``make``."""
    keyframe: str | None = None
    """Keyframe of a model file at which episodes begin, such as "home". Default: the initial pose of the robot."""
    rig: SensorRig | None = None
    """Sensors of the robot; a YAML file or the name of a rig of the catalogue are loaded. Default: those of the
    robot."""
    n_envs: int = Field(default=1, ge=1)
    """Number of envs, B."""
    device: str = "cpu"
    """"cpu", or "cuda", "cuda:1", ... for a GPU."""
    seed: int = Field(default=0, ge=0)
    """Seed of everything random."""
    dt: float = Field(default=0.02, gt=0)
    """Duration of one step of control and observation, s."""
    substeps: int = Field(default=4, ge=1)
    """Physics steps per step."""
    max_steps: int = Field(default=1000, ge=1, le=65_000)
    """Steps after which an episode is truncated."""
    observe: tuple[str, ...] = ("*",)
    """Patterns of the robot's readings that the policy observes: ``"imu"``, ``"imu/ang_vel"``, ``"joints/*"``.
    Cameras of the robot are excluded; see ``observe_cameras``."""
    randomize: ModelRandomization = ModelRandomization()
    """What differs between episodes in the model: masses, friction and motors."""
    randomize_sensors: dict[str, tuple[float, float]] = {}
    """Ranges of parameters of the sensors of the robot and of the task, drawn at the start of each episode. Noise,
    bias, resolution and deadband are drawn for each axis: ``{"imu.gyro_bias": (-0.05, 0.05), "joints.noise": (0.0,
    0.02)}``. Delay and jitter in s, rate in Hz and dropout are drawn for each sensor:
    ``{"joints.delay": (0.0, 0.04), "attitude.rate": (20, 50)}``. The critic observes the values."""
    curriculum: bool = False
    """Whether episodes begin easy, and become harder in the envs where the policy succeeds. The difficulty of an env
    begins at 0; 1 is the maximum. It multiplies what ``randomize_sensors`` draws, except rates; "walk" also scales its
    commands and pushes. A delay whose jitter is not drawn grows from the sensor's jitter instead of 0, since it must be
    at least the jitter. Evaluations always have the full difficulty."""
    ground_truth: bool = False
    """Whether the policy observes true values instead of measured ones, for comparison."""
    history: int = Field(default=1, ge=1)
    """Observations that the policy gets: the newest one and those of the steps before."""
    cameras: tuple[TaskCamera, ...] = ()
    """Cameras whose images ``sensorium generate`` records. The policy observes those in ``observe_cameras``."""
    observe_cameras: tuple[str, ...] = ()
    """Names of cameras whose colour images the policy observes, besides ``observe``."""
    nconmax: int | None = Field(default=None, ge=1)
    """Contacts per env for which memory is allocated on a GPU. Default: chosen from the model. A CPU allocates what it
    needs."""
    njmax: int | None = Field(default=None, ge=1)
    """Rows of constraints per env for which memory is allocated on a GPU. Default: chosen from the model. MuJoCo
    Warp launches a thread for each, so a robot of many geoms that can touch each other should have few unused ones."""
    threads: int = Field(default=0, ge=0)
    """Threads of the physics on the CPU; 0 for one per core."""

    @field_validator("cameras")
    @classmethod
    def _check_cameras(cls, value: tuple[TaskCamera, ...]) -> tuple[TaskCamera, ...]:
        names = [camera.name for camera in value]
        if len(set(names)) < len(names):
            raise ValueError(f"each camera must have a different name, got {names}")
        for camera in value:
            if camera.pose_jitter:
                raise ValueError(f"camera {camera.name!r}: tensor tasks do not draw camera poses; remove pose_jitter")
        return value

    @model_validator(mode="after")
    def _check_observed_cameras(self) -> Self:
        names = [camera.name for camera in self.cameras]
        for name in self.observe_cameras:
            if name not in names:
                hint = did_you_mean(name, names) or f"; cameras has {shorten(names) or 'none'}"
                raise ValueError(f"observe_cameras: there is no camera {name!r}{hint}")
        return self

    @field_validator("rig", mode="before")
    @classmethod
    def _load_rig(cls, value: object) -> object:
        if isinstance(value, str) and not value.endswith((".yaml", ".yml")):
            return SensorRig.named(value)
        return SensorRig.load(value) if isinstance(value, str | Path) else value
