"""``play`` and ``watch``: a trained policy at work, as images with what it senses, or in the browser."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import numpy as np

from sensorium._arguments import checked
from sensorium.tasks.task_cameras import view_of
from sensorium.training.play_images import as_picture, draw_insets
from sensorium.training.play_plots import HEIGHT, WIDTH, ReadingPlots
from sensorium.training.players import Player, open_player
from sensorium.worlds.snapshot import SnapshotRenderer


def play(
    folder: str | Path, seconds: float = 10.0, which: str = "best", seed: int | None = None, **task_options: object
) -> Iterator[np.ndarray]:
    """Yield images of a trained policy, 25 per second of simulated time or one per step, on the CPU.

    Args:
        folder: folder of a training by PPO or by SAC.
        seconds: simulated time.
        which: "best" or "last".
        seed: seed of the episode. Default: one that the training did not use.
        **task_options: options of the task that replace those of the training.

    Yields:
        (480, 1280, 3) uint8: the robot with the images that the policy observes, and beside it plots of what it
        measures (lines) and of the truth (dashed).

    Raises:
        DatasetError: the folder holds no training, or the training has no such policy yet.
    """
    with open_player(folder, which, seed, task_options=task_options) as player:
        yield from draw_images(player, seconds)


def draw_images(player: Player, seconds: float) -> Iterator[np.ndarray]:
    """Make the steps of some seconds of simulated time, and yield the images of :func:`play`."""
    task = player.task
    plots = ReadingPlots(player.labels, task.config.dt)
    every = steps_per_image(task.config.dt)
    with closing(SnapshotRenderer(task.scene.world, 0, WIDTH, HEIGHT)) as renderer:
        for step in range(max(1, round(seconds / task.config.dt))):
            player.step()
            plots.add(player.readings())
            if step % every == 0:
                image = np.concatenate((renderer.render(view_of([task.robot], 0)), plots.draw()), axis=1)
                draw_insets(image[:, :WIDTH], map(as_picture, player.images()))
                yield image


@checked
def watch(
    folder: str | Path,
    seconds: float | None = None,
    which: str = "best",
    seed: int | None = None,
    *,
    n_envs: int = 1,
    port: int | None = None,
    host: str = "127.0.0.1",
    open_browser: bool = False,
    **task_options: object,
) -> None:
    """Run a trained policy in real time, on the CPU, in a window of the browser; see ``scene.view()``.

    Args:
        folder: folder of a training by PPO or by SAC.
        seconds: simulated time. Default: until the window is closed.
        which: "best" or "last".
        seed: seed of the episodes. Default: one that the training did not use.
        n_envs: number of envs; the window shows one of them, which can be chosen there.
        port, host, open_browser: as ``scene.view()`` takes them.
        **task_options: options of the task that replace those of the training.

    Raises:
        DatasetError: the folder holds no training, or the training has no such policy yet.
        DeviceError: viser is not installed.
    """
    with open_player(folder, which, seed, n_envs, task_options) as player:
        dt = player.task.config.dt
        viewer = player.task.scene.view(port=port, host=host, open_browser=open_browser)
        viewer.set_speed(1.0)
        count = None if seconds is None else max(1, round(seconds / dt))
        step = 0
        while not viewer.closed and step != count:
            player.step()
            step += 1


def steps_per_image(dt: float) -> int:
    """Return the steps of ``dt`` seconds between images: for 25 images per second, or one."""
    return max(1, round(0.04 / dt))
