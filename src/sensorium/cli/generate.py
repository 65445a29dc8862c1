"""``sensorium generate``: generate a dataset of a task's episodes."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import tyro

from sensorium.cli.arguments import default, parse_pair
from sensorium.cli.progress import interrupt_on_sigterm, status_progress

if TYPE_CHECKING:
    from sensorium.generation.ledger import Ledger


@dataclass
class Generate:
    """Generate a dataset of episodes of a task.

    Writes one HDF5 file per episode, and one video per camera.

    Run the same command again to resume an interrupted generation, or to add episodes.

    Examples:
        sensorium generate pick --episodes 8 --envs 4 --workers 2 --out data/pick
        sensorium generate pick --cameras front wrist --depth --out data/pick-images
        sensorium generate pick --option max_steps=300 --out data/pick-short
    """

    task: Annotated[str, tyro.conf.Positional]
    """Name of the task: pick, pick_and_place, ..."""
    out: Path
    """Output folder. A dataset of the same options in it is completed."""
    robot: Annotated[str | None, default("the task's own robot")] = None
    """Name of the robot."""
    policy: str = "planner"
    """Name of the policy."""
    episodes: int = 10
    """Number of episodes to keep: the first ones that succeed."""
    envs: int = 4
    """Number of envs that each process simulates in parallel."""
    workers: int = 1
    """Number of processes."""
    seed: int = 0
    """Seed of all randomness."""
    cameras: Annotated[tuple[str, ...], default("no cameras")] = ()
    """Cameras to record: names of the task's views (front, side, wrist)."""
    resolution: tuple[int, int] = (640, 368)
    """Width and height of the images in pixels."""
    depth: bool = False
    """Record depth images too."""
    option: Annotated[tuple[str, ...], default("the task's defaults")] = ()
    """Options of the task as name=value, e.g. max_steps=300. Values are JSON or text."""
    keep_failed: bool = False
    """Keep failed episodes in the subfolder "failed"."""
    max_attempts: Annotated[int | None, default("10 times --episodes, plus --envs")] = None
    """Maximum number of episodes to try."""
    cluster: Annotated[str | None, default("run on this machine")] = None
    """Address of a Ray cluster, e.g. ray://head:10001 or auto; "local" starts one on this machine."""

    def run(self) -> int:
        """Generate with a progress bar."""
        from sensorium import tasks
        from sensorium.generation import GenerateOptions, generate

        task_options: dict[str, Any] = dict(parse_pair("--option", text) for text in self.option)
        if self.cameras:
            task_options["cameras"] = tasks.camera_views(self.cameras, self.resolution, self.depth)
        options = GenerateOptions(
            task=self.task,
            robot=self.robot or tasks.default_robot(self.task),
            policy=self.policy,
            episodes=self.episodes,
            envs=self.envs,
            seed=self.seed,
            options=task_options,
            keep_failed=self.keep_failed,
            max_attempts=self.max_attempts,
        )
        start = time.monotonic()
        with interrupt_on_sigterm(), status_progress("episodes", self.episodes) as show:
            result = generate(
                options,
                self.out,
                workers=self.workers,
                cluster=self.cluster,
                progress=lambda ledger, steps: show(ledger.successes, _status(ledger, steps, time.monotonic() - start)),
            )
        print(
            f"{result.folder}: {result.episodes} episodes; tried {result.made} in this run, {result.success_rate:.0%} "
            f"of all attempts succeeded; {result.env_steps / max(result.seconds, 1e-9):,.0f} env-steps/s"
        )
        return 0


def _status(ledger: Ledger, env_steps: int, seconds: float) -> str:
    """Return the text beside the bar: success rate and speed."""
    tried = len(ledger.done)
    rate = f"{ledger.successes / tried:.0%} succeed" if tried else ""
    return f"{rate}  {env_steps / max(seconds, 1e-9):,.0f} env-steps/s"
