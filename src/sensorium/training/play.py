"""``play``: images of a trained policy at work, with what it senses beside the robot."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import torch

from sensorium._arguments import checked
from sensorium.sensors.plotting import column_names, field_label
from sensorium.tasks.task_cameras import view_of
from sensorium.tasks.tensor import TensorTask
from sensorium.tasks.tensor.observations import Tensors
from sensorium.training.evaluation import SEED
from sensorium.training.ppo_evaluation import load_policy
from sensorium.training.ppo_options import PPOOptions
from sensorium.worlds.snapshot import SnapshotRenderer

HEIGHT, WIDTH = 480, 640
"""Size of the robot's image in pixels. The plots beside it are as large."""
_SHOWN = 3
"""Components of a reading that are plotted."""
_SECONDS = 3.0
"""Time that the plots show."""


def play(
    folder: str | Path, seconds: float = 10.0, which: str = "best", seed: int | None = None, **task_options: object
) -> Iterator[np.ndarray]:
    """Yield images of a policy that PPO trained, 25 per second of simulated time or one per step, on the CPU.

    Args:
        folder: folder of the training.
        seconds: simulated time.
        which: "best" or "last".
        seed: seed of the episode. Default: one that the training did not use.
        **task_options: options of the task that replace those of the training.

    Yields:
        (480, 1280, 3) uint8: the robot, and beside it plots of what it measures (lines) and of the truth (dashed).

    Raises:
        DatasetError: the folder holds no training, or the training has no such policy yet.
    """
    with closing(_task(folder, 1, seed, task_options)) as task:
        observations = _observations(folder, task, which)
        plots = _Plots(task)
        every = steps_per_image(task.config.dt)
        with closing(SnapshotRenderer(task.scene.world, 0, WIDTH, HEIGHT)) as renderer:
            for step, observation in zip(range(max(1, round(seconds / task.config.dt))), observations, strict=False):
                plots.add(observation)
                if step % every == 0:
                    yield np.concatenate((renderer.render(view_of([task.robot], 0)), plots.draw()), axis=1)


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
    """Run a policy that PPO trained in real time, on the CPU, in a window of the browser; see ``scene.view()``.

    Args:
        folder: folder of the training.
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
    with closing(_task(folder, n_envs, seed, task_options)) as task:
        observations = _observations(folder, task, which)
        viewer = task.scene.view(port=port, host=host, open_browser=open_browser)
        viewer.set_speed(1.0)
        count = None if seconds is None else max(1, round(seconds / task.config.dt))
        for step, _ in enumerate(observations, start=1):
            if viewer.closed or step == count:
                break


def _task(folder: str | Path, n_envs: int, seed: int | None, task_options: dict[str, object]) -> TensorTask[Any]:
    """Return the task of a training, on the CPU, with other options."""
    options = PPOOptions.load(Path(folder))
    options = options.model_copy(update={"task_options": {**options.task_options, **task_options}})
    return options.make_task(n_envs, options.seed + 2 * SEED if seed is None else seed, "cpu")


def _observations(folder: str | Path, task: TensorTask[Any], which: str) -> Iterator[Tensors]:
    """Load the policy of a training, and return an iterator that makes steps and yields their observations."""
    policy = load_policy(folder, task, which)
    task.difficulty.fill_(1.0)
    task.reset()
    policy.reset()

    def steps() -> Iterator[Tensors]:
        while True:
            with torch.inference_mode():
                action = policy(task.as_tensordict())
            observation, _, terminated, truncated, _ = task.step(action)
            policy.reset(terminated | truncated)
            yield observation

    return steps()


def steps_per_image(dt: float) -> int:
    """Return the steps of ``dt`` seconds between images: for 25 images per second, or one."""
    return max(1, round(0.04 / dt))


class _Plots:
    """Plots of the last seconds of the readings of one env."""

    def __init__(self, task: TensorTask[Any]) -> None:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure

        observation = task.observation()
        self._keys = [key for key in _parts(observation) if not key[0].startswith("privileged/")]
        self._keys = [key for key in self._keys if ("privileged/" + key[0], key[1]) in _parts(observation)][:4]
        count = max(2, round(_SECONDS / task.config.dt))
        self._dt, self._rows = task.config.dt, deque[list[np.ndarray]](maxlen=count)
        figure = Figure((WIDTH / 100, HEIGHT / 100), dpi=100, layout="constrained")
        self._canvas = FigureCanvasAgg(figure)
        self._axes = figure.subplots(max(1, len(self._keys)), 1, sharex=True, squeeze=False)[:, 0]
        self._lines = []
        for key, axes in zip(self._keys, self._axes, strict=False):
            title, names = _labels(task, *key, tuple(_parts(observation)[key].shape[1:]))
            axes.set_title(title, fontsize=9, loc="left", y=1.0)  # otherwise ticks could move it out of the image
            axes.set_xlim(-_SECONDS, 0)
            axes.set_ylim(-0.00015, 0.00015)  # the layout has room for the labels of these ticks, which are long
            axes.yaxis.set_major_formatter("{x:.4g}")  # without a common offset or exponent
            axes.tick_params(labelsize=7)
            colours = [f"C{number}" for number in range(len(names))]
            self._lines.append(
                [(axes.plot([], [], c, lw=1)[0], axes.plot([], [], c, ls="--", lw=1)[0]) for c in colours]
            )
            for place, (name, colour) in enumerate(zip(reversed(names), reversed(colours), strict=True)):
                axes.text(1 - 0.2 * place, 1.03, name, color=colour, fontsize=7, ha="right", transform=axes.transAxes)
        self._axes[-1].set_xlabel("time from now, s (lines: measured, dashed: true)", fontsize=8)
        self._canvas.draw()
        figure.set_layout_engine("none")  # which is found once; it takes longer than all the rest

    def add(self, observation: Tensors) -> None:
        """Add the readings of a step."""
        parts = _parts(observation)
        pairs = [(parts[key], parts["privileged/" + key[0], key[1]]) for key in self._keys]
        self._rows.append([torch.stack(pair)[:, 0].flatten(1)[:, :_SHOWN].numpy() for pair in pairs])

    def draw(self) -> np.ndarray:
        """Return the plots as an image, (480, 640, 3) uint8."""
        times = self._dt * (np.arange(len(self._rows)) - len(self._rows) + 1)
        for number, (axes, lines) in enumerate(zip(self._axes, self._lines, strict=False)):
            values = np.stack([row[number] for row in self._rows])
            for column, pair in enumerate(lines[: values.shape[2]]):
                for kind, line in enumerate(pair):
                    line.set_data(times, values[:, kind, column])
            low, high = float(values.min()), float(values.max())
            margin = 0.05 * (high - low) or 0.05 * abs(high) or 1e-3
            axes.set_ylim(low - margin, high + margin)
        self._canvas.draw()
        return np.asarray(self._canvas.buffer_rgba())[:, :, :3].copy()


def _labels(task: TensorTask[Any], uuid: str, part: str, shape: tuple[int, ...]) -> tuple[str, list[str]]:
    """Return the title of the plot of a part of an observation, with its unit, and the names of its columns."""
    if uuid in task.robot.rig:
        sensor, field = task.robot.rig[uuid], part or "value"
        names = [name.removeprefix(f"{task.robot.name}/") for name in column_names(sensor, field, shape)]
        unit = sensor.units.get(field)
        title = f"{uuid} {field_label(sensor, part)}" if part else f"{uuid}, {unit}" if unit else uuid
    else:
        described = task.describe_input(uuid)
        names = list(described.names) or [str(number) for number in range(math.prod(shape))]
        title = uuid
    return title, names[:_SHOWN]


def _parts(observation: Tensors) -> dict[tuple[str, str], torch.Tensor]:
    """Return (uuid, part) -> tensor of the parts of an observation."""
    found: dict[tuple[str, str], torch.Tensor] = {}
    for uuid, value in observation.items():
        found |= (
            {(uuid, part): each for part, each in value.items()} if isinstance(value, dict) else {(uuid, ""): value}
        )
    return found
