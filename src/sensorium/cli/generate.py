"""``sensorium generate``: a data set of a task's episodes."""

from __future__ import annotations

import json
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import tyro

from sensorium.cli.progress import gentle_end, telling_progress
from sensorium.errors import OptionError


@dataclass
class Generate:
    """Generate a data set: episodes of a task, one file each. Run it again to resume it.

    Example: sensorium generate pick --episodes 8 --envs 4 --workers 2 --out data/pick
    """

    task: Annotated[str, tyro.conf.Positional]
    """Name of the task: pick, pick_and_place, ..."""
    out: Path
    """Folder to write into. One that holds a data set of the same options is completed."""
    robot: str | None = None
    """Name of the robot. Default: the task's own."""
    policy: str = "planner"
    """Name of the policy."""
    episodes: int = 10
    """How many episodes to keep: the first that succeed."""
    envs: int = 4
    """How many run side by side in each process."""
    workers: int = 1
    """How many processes."""
    seed: int = 0
    """Everything random comes from it."""
    cameras: tuple[str, ...] = ()
    """Cameras to record with: names of the task's own views ("front", "side", "wrist")."""
    resolution: tuple[int, int] = (640, 368)
    """Of the cameras: width and height in pixels."""
    depth: bool = False
    """Whether the cameras record depth as well."""
    option: tuple[str, ...] = ()
    """Further options of the task, as max_steps=300; values are JSON, or text."""
    keep_failed: bool = False
    """Keep episodes that fail, in a folder "failed"."""
    max_attempts: int | None = None
    """How many episodes to try at most. Default: ten for each to keep."""
    cluster: str | None = None
    """Run on a Ray cluster: its address, as ray://head:10001 or auto; or "local" to start one here."""

    def run(self) -> int:
        """Generate, with a progress bar."""
        from sensorium import tasks
        from sensorium.generation import GenerateOptions, generate

        options: dict[str, Any] = dict(named_value(text) for text in self.option)
        if self.cameras:
            options["cameras"] = tasks.camera_views(self.cameras, self.resolution, self.depth)
        what = GenerateOptions(
            task=self.task,
            robot=self.robot or tasks.default_robot(self.task),
            policy=self.policy,
            episodes=self.episodes,
            envs=self.envs,
            seed=self.seed,
            options=options,
            keep_failed=self.keep_failed,
            max_attempts=self.max_attempts,
        )
        start = time.monotonic()
        with gentle_end(), telling_progress("episodes", self.episodes) as tell:
            made = generate(
                what,
                self.out,
                workers=self.workers,
                cluster=self.cluster,
                progress=lambda ledger, steps: tell(ledger.successes, _beside(ledger, steps, time.monotonic() - start)),
            )
        print(
            f"{made.folder}: {made.episodes} episodes; {made.made} tried now, {made.success_rate:.0%} of all tried "
            f"succeeded; {made.env_steps / max(made.seconds, 1e-9):,.0f} env-steps/s"
        )
        return 0


def _beside(ledger: Any, env_steps: int, seconds: float) -> str:
    """What is said beside the bar."""
    tried = len(ledger.done)
    rate = f"{ledger.successes / tried:.0%} succeed" if tried else ""
    return f"{rate}  {env_steps / max(seconds, 1e-9):,.0f} env-steps/s"


def named_value(text: str) -> tuple[str, Any]:
    """NAME=VALUE, the value as JSON or text."""
    name, equals, value = text.partition("=")
    if not equals:
        raise OptionError(f"--option takes NAME=VALUE, got {text!r}")
    try:
        return name, json.loads(value)
    except ValueError:
        return name, value
