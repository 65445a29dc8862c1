"""Measure mjlab's own training of the Go1 or the G1 on flat ground, for ``learning_gpu.py``, which runs it beside ours.

PYTHONPATH=MJLAB python benchmarks/mjlab_walk.py --out FILE [--robot Go1] [--envs 4096] [--iterations 60]

MJLAB is a folder with mjlab and the versions of MuJoCo and MuJoCo Warp that it needs. The other packages may come from
elsewhere. Those that only show and log (viser, wandb, ...) may be missing: they are replaced by empty ones. The result
has env-steps per second with learning, and the mean of the tracking reward by seconds of learning.
"""

from __future__ import annotations

import argparse
import importlib.abc
import importlib.machinery
import importlib.util
import json
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from types import ModuleType
from typing import Any

TASK = "Mjlab-Velocity-Flat-Unitree-{}"
SHOWING = ("imageio_ffmpeg", "mediapy", "mjviser", "onnx", "scipy", "torchrunx", "tqdm", "viser", "wandb")
"""Packages that the training does not need."""


class Anything:
    """A class that can be derived from and called with any arguments."""

    def __init__(self, *_: Any, **__: Any) -> None:
        """Ignore the arguments."""

    def __getattr__(self, name: str) -> Any:
        """Return an object that can be called."""
        if name.startswith("__"):
            raise AttributeError(name)
        return Anything()

    def __call__(self, *_: Any, **__: Any) -> Any:
        """Ignore the arguments."""
        return Anything()


class EmptyModule(ModuleType):
    """A module that has any attribute."""

    def __getattr__(self, name: str) -> Any:
        """Return a class."""
        if name.startswith("__"):
            raise AttributeError(name)
        return type(name, (Anything,), {})


class Empty(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Provides packages of :data:`SHOWING` that are not installed, with any attribute."""

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        """Return a spec for a missing package."""
        if name.partition(".")[0] not in SHOWING:
            return None
        return importlib.machinery.ModuleSpec(name, self, is_package=True)

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType:
        """Return an empty module."""
        return EmptyModule(spec.name)

    def exec_module(self, module: ModuleType) -> None:
        """Do nothing."""


def train(robot: str, n_envs: int, iterations: int, device: str) -> dict[str, Any]:
    """Train with mjlab's own runner and options; return what was measured."""
    import mjlab.tasks  # noqa: F401 - registers the tasks
    import torch
    from mjlab.envs import ManagerBasedRlEnv
    from mjlab.rl import RslRlVecEnvWrapper
    from mjlab.rl.runner import MjlabOnPolicyRunner
    from mjlab.tasks.registry import load_env_cfg, load_rl_cfg
    from mjlab.utils.torch import configure_torch_backends

    configure_torch_backends()
    task = TASK.format(robot)
    config = load_env_cfg(task)
    config.scene.num_envs, config.seed = n_envs, 0
    env = RslRlVecEnvWrapper(ManagerBasedRlEnv(cfg=config, device=device))
    options = asdict(load_rl_cfg(task))
    options["logger"] = "tensorboard"
    runner = MjlabOnPolicyRunner(env, options, None, device)
    weight = config.rewards["track_linear_velocity"].weight
    curve: list[tuple[float, float]] = []
    term = env.unwrapped.reward_manager
    column = term.active_terms.index("track_linear_velocity")

    def learn(count: int) -> float:
        start = time.perf_counter()
        runner.learn(num_learning_iterations=count, init_at_random_ep_len=True)
        if device.startswith("cuda"):
            torch.cuda.synchronize()
        return time.perf_counter() - start

    learn(2)  # compiles, and captures graphs
    seconds = 0.0
    for _ in range(0, iterations, 10):
        seconds += learn(10)
        tracking = float(term._step_reward[:, column].mean()) / weight
        curve.append((seconds, tracking))
    done = len(curve) * 10
    return {"steps_per_second": done * options["num_steps_per_env"] * n_envs / seconds, "curve": curve}


def main() -> None:
    """Train, and write the result."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True, help="JSON file to write")
    parser.add_argument("--robot", choices=("Go1", "G1"), default="Go1", help="robot, of mjlab")
    parser.add_argument("--envs", type=int, default=4096, help="number of envs")
    parser.add_argument("--iterations", type=int, default=60, help="updates of the policy")
    parser.add_argument("--device", default="cuda:0", help="device of physics and networks")
    arguments = parser.parse_args()
    sys.meta_path.append(Empty())
    arguments.out.write_text(json.dumps(train(arguments.robot, arguments.envs, arguments.iterations, arguments.device)))


if __name__ == "__main__":
    main()
