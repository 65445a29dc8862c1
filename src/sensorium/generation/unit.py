"""A unit of generation: as many episodes as there are envs, simulated together and written one file each."""

from __future__ import annotations

import gc
import json
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from sensorium import policies, tasks
from sensorium.datasets.episode_writer import EpisodeWriter, episode_name
from sensorium.errors import OptionError
from sensorium.files import explain_errors, write_whole
from sensorium.generation.options import FREE, GenerateOptions

FAILED = "failed"
"""Folder of what is known of episodes that failed."""


@contextmanager
def _old_things_left_alone() -> Iterator[None]:
    """Keep Python's garbage collector from looking through all that was there before, again and again, meanwhile; it
    would take 3% of the time."""
    if gc.get_freeze_count():  # somebody else's choice
        yield
        return
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()


class UnitMaker:
    """Makes units, one after the other, with one task.

    Args:
        options: of the data set.
        folder: where to.
    """

    def __init__(self, options: GenerateOptions, folder: Path) -> None:
        self.options, self.folder = options, folder
        with explain_errors(folder):
            folder.mkdir(parents=True, exist_ok=True)
        self.task = tasks.make(
            options.task,
            robot=options.robot,
            n_envs=options.envs,
            seed=options.seed,
            **{**options.options, "keep_history": False, "autoreset": False},
        )
        if self.task.suite is None:
            raise OptionError("use_sensors must be on: a data set without observations is none")
        self.policy = policies.make(options.policy, self.task)
        self.task.register_policy(self.policy)
        self._about = {
            "seed": options.seed,
            "task": options.task,
            "robot": options.robot,
            "policy": options.policy,
            "options": options.model_dump_json(exclude=set(FREE)),
        }

    def make(
        self, unit: int, wanted: Collection[int], progress: Callable[[int], None] = lambda steps: None
    ) -> dict[int, bool]:
        """Simulate a unit, and write those of its episodes that are wanted.

        Args:
            unit: its episodes have the numbers from ``unit * envs`` on.
            wanted: numbers to write.
            progress: called after each step with how many env-steps it was.

        Returns:
            Number -> whether it succeeded, of those wanted.
        """
        with _old_things_left_alone():
            return self._make(unit, wanted, progress)

    def _make(self, unit: int, wanted: Collection[int], progress: Callable[[int], None]) -> dict[int, bool]:
        task, options = self.task, self.options
        numbers = [unit * options.envs + env for env in range(options.envs)]
        # what noisy sensors draw depends on the step: each unit has steps of its own, whoever makes it and when
        task.set_sensor_step(unit * (task.config.max_steps + 1) % 2**30)
        observation, _ = task.reset(numbers=numbers)
        writer = EpisodeWriter(self.folder, task, numbers, self._about)
        try:
            writer.begin(observation)
            while not task.is_done().all():
                running = ~task.is_done()
                action = self.policy.get_action(observation)
                observation, reward, terminated, truncated, info = task.step(action)
                writer.add(observation, action, reward, terminated, truncated, info["success"], running)
                progress(int(running.sum()))
            success = task.judge_success()
            mine = [number in wanted for number in numbers]
            kept: list[Path | None] = [self.folder, self.folder / FAILED if options.keep_failed else None]
            writer.close([kept[not good] if want else None for want, good in zip(mine, success, strict=True)])
            self._note_failures(numbers, mine, success)
        except BaseException:
            writer.abort()
            raise
        return {number: bool(success[env]) for env, number in enumerate(numbers) if mine[env]}

    def _note_failures(self, numbers: list[int], mine: list[bool], success: Any) -> None:
        for env, number in enumerate(numbers):
            if mine[env] and not success[env]:
                about = {"number": number, "steps": int(self.task.step_count[env]), **self.task.describe_env(env)}
                folder = self.folder / FAILED
                folder.mkdir(parents=True, exist_ok=True)
                write_whole(folder / f"{episode_name(number)}.json", json.dumps(about).encode())

    def close(self) -> None:
        """Free the task."""
        self.task.close()
