"""Options that all tensor tasks share."""

from __future__ import annotations

from pydantic import Field

from sensorium.options import Options


class TensorTaskConfig(Options):
    """Options that all tensor tasks share."""

    robot: str = "quadruped"
    """Name of the robot, one of ``sn.robots.names()``, or a model file. Robot objects are passed to ``make``."""
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
    """Patterns of the robot's readings that the policy observes: ``"imu"``, ``"imu/ang_vel"``, ``"joints/*"``."""
    randomize_sensors: dict[str, tuple[float, float]] = {}
    """Ranges of noise, bias, resolution and deadband of the robot's sensors, drawn for each axis at the start of each
    episode: ``{"imu.gyro_bias": (-0.05, 0.05), "joints.noise": (0.0, 0.02)}``. The critic observes the values."""
    curriculum: bool = False
    """Whether episodes begin easy, and become harder in the envs where the policy succeeds. Evaluations always have the
    full difficulty."""
    ground_truth: bool = False
    """Whether the policy observes true values instead of measured ones, for comparison."""
    history: int = Field(default=1, ge=1)
    """Observations that the policy gets: the newest one and those of the steps before."""
    threads: int = Field(default=0, ge=0)
    """Threads of the physics on the CPU; 0 for one per core."""
