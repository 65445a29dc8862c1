"""Compare the memory with plain tensor copies, and the brain with plain Stable-Baselines3: time and learning.

.venv/bin/python benchmarks/training.py [--only memory sac learning] [--threads 1] [--json out/training.json]
"""

from __future__ import annotations

import argparse
import itertools
import statistics
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import torch
from common import Report, interleave, ratio
from gymnasium import spaces

from sensorium.entities import ClusterOptions, Memory, SACMLPBrain, VectorizedClusterBuffer

ENVS = 1024
BATCH = 4096
ACTION = spaces.Box(-1, 1, (8,))
VECTORS = {"imu": spaces.Box(-9, 9, (6,)), "joints": spaces.Box(-9, 9, (24,)), "target": spaces.Box(-9, 9, (3,))}
IMAGE = {"camera": spaces.Box(0, 255, (64, 64, 3), np.uint8)}
KINDS = {"vectors": (spaces.Dict(VECTORS), 1_000_000), "vectors and an image": (spaces.Dict(VECTORS | IMAGE), 40_000)}
"""Observation space, and number of transitions: far more memory than the processor's caches."""


def transitions(space: spaces.Dict, generator: torch.Generator) -> dict[str, Any]:
    """Return the arguments of ``Memory.add`` for all envs."""

    def observe() -> dict[str, torch.Tensor]:
        return {
            key: torch.randint(0, 255, (ENVS, *box.shape), dtype=torch.uint8, generator=generator)
            if box.dtype == np.uint8
            else torch.randn((ENVS, *box.shape), generator=generator)
            for key, box in space.spaces.items()
        }

    return {
        "observation": observe(),
        "action": torch.randn((ENVS, *ACTION.shape), generator=generator),
        "reward": torch.randn(ENVS, generator=generator),
        "next_observation": observe(),
        "terminated": torch.zeros(ENVS, dtype=torch.bool),
        "truncated": torch.zeros(ENVS, dtype=torch.bool),
    }


def as_arrays(value: Any) -> Any:
    """Return nested tensors as arrays."""
    return {key: as_arrays(each) for key, each in value.items()} if isinstance(value, dict) else value.numpy()


def allocated(call: Callable[[], Any]) -> tuple[float, float]:
    """Return the peak bytes of Python and NumPy during 20 calls, and the bytes that torch allocates per call."""
    call()
    tracemalloc.start()
    call()
    start = tracemalloc.get_traced_memory()[0]
    tracemalloc.reset_peak()
    for _ in range(20):
        call()
    peak = tracemalloc.get_traced_memory()[1] - start
    tracemalloc.stop()
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU], profile_memory=True) as profile:
        for _ in range(20):
            call()
    return peak, sum(max(event.self_cpu_memory_usage, 0) for event in profile.key_averages()) / 20


def memory(report: Report, kind: str, shared: bool) -> None:
    """Compare writing 1,024 envs and sampling 4,096 transitions with the plain operations on the same bytes."""
    space, capacity = KINDS[kind]
    where = f"{kind}{', shared' if shared else ''}"
    tensors = transitions(space, torch.Generator().manual_seed(0))
    arrays = {name: as_arrays(value) for name, value in tensors.items()}  # as tasks return them
    with Memory(space, ACTION, capacity, ENVS, shared=shared) as ours:

        def write() -> None:
            ours.add(**arrays)

        while not ours.is_full:
            write()
        n_bytes = ENVS * ours.layout.row_bytes
        source = torch.randint(0, 255, (n_bytes,), dtype=torch.uint8).view(torch.float32)
        target = torch.empty((ours.capacity // ENVS, n_bytes // 4)).zero_()  # as large as the memory
        places, one = itertools.cycle(range(len(target))), torch.empty_like(source)

        def copy() -> None:
            target[next(places)].copy_(source)

        contenders = {
            "ours": write,
            "plain": copy,
            "tensors": lambda: ours.add(**tensors),
            "cached": lambda: one.copy_(source),
        }
        times = interleave(contenders, rounds=25, calls=20)
        report.add(f"write of {ENVS:,} envs, {where} ({n_bytes / 1e3:.0f} kB)", _median(times["ours"]), "µs")
        report.add("  a tensor of the same bytes into a ring as large", _median(times["plain"]), "µs")
        report.add("  ours / that, median of the rounds", ratio(times, "ours", "plain"), "x", 2.0)
        report.add("  the same, given tensors instead of arrays / that", ratio(times, "tensors", "plain"), "x")
        report.add("  a tensor of the same bytes over itself, in cache if it fits", _median(times["cached"]), "µs")
        python, torchs = allocated(write)
        report.add("  peak memory of Python and NumPy meanwhile", python / 1e3, "kB", 4.0)
        report.add("  memory allocated by torch per call", torchs / 1e3, "kB", 0.0)
        target = target[:0]

        drawn = [torch.randint(0, len(ours), (BATCH,)) for _ in range(50)]
        turns, out = itertools.cycle(drawn), ours.batch(BATCH)
        blocks = ours._rings.flat

        def select() -> None:
            rows = next(turns)
            for block, tensor in zip(blocks, out.tensors, strict=True):
                torch.index_select(block, 0, rows, out=tensor)

        times = interleave({"ours": lambda: ours.sample(BATCH), "plain": select}, rounds=25, calls=8)
        report.add(
            f"sample of {BATCH:,}, {where} ({BATCH * ours.layout.row_bytes / 1e6:.2f} MB)", _median(times["ours"]), "µs"
        )
        report.add("  index_select of the same fields at rows chosen before", _median(times["plain"]), "µs")
        report.add("  ours / that, median of the rounds", ratio(times, "ours", "plain"), "x", 1.5)
        python, torchs = allocated(lambda: ours.sample(BATCH))
        report.add("  peak memory of Python and NumPy meanwhile", python / 1e3, "kB", 4.0)
        report.add("  memory allocated by torch per call", torchs / 1e3, "kB", 0.0)
        blocks = []


def clusters(report: Report) -> None:
    """Compare the cluster buffer with the memory."""
    space, capacity = KINDS["vectors"]
    ours = Memory(space, ACTION, capacity, ENVS)
    sorted_ = VectorizedClusterBuffer(space, ACTION, ClusterOptions(capacity=capacity, clusters=32))
    given = [transitions(space, torch.Generator().manual_seed(seed)) for seed in range(20)]
    turns = itertools.cycle(given)
    while not ours.is_full:
        values = next(turns)
        ours.add(**values)
        sorted_.add(**values)
    contenders = {"clusters": lambda: sorted_.add(**next(turns)), "memory": lambda: ours.add(**next(turns))}
    times = interleave(contenders, rounds=15, calls=20)
    report.add(
        f"cluster buffer, 32 clusters: routing and writing {ENVS:,} transitions", _median(times["clusters"]), "µs"
    )
    report.add("  the memory's write of the same", _median(times["memory"]), "µs")
    contenders = {"clusters": lambda: sorted_.sample(BATCH), "memory": lambda: ours.sample(BATCH)}
    times = interleave(contenders, rounds=15, calls=8)
    report.add(f"cluster buffer, 32 clusters: sample of {BATCH:,}", _median(times["clusters"]), "µs")
    report.add("  the memory's sample of the same", _median(times["memory"]), "µs")


SIZES = {"64 x 64 units": (64, 64), "256 x 256 units": (256, 256)}
SAC_BATCH = 256
PENDULUM_STEPS, PENDULUM_SEEDS, PENDULUM_EPISODES = 3_000, 3, 20


def gradient_steps(report: Report) -> None:
    """Compare gradient steps on batches of 256: the brain with our memory, and SAC with its own replay buffer."""
    flat = spaces.Box(-np.inf, np.inf, (sum(box.shape[0] for box in VECTORS.values()),))
    for what, hidden in SIZES.items():
        space = KINDS["vectors"][0]
        brain = SACMLPBrain(space, ACTION, hidden=hidden, batch_size=SAC_BATCH)
        held = Memory(space, ACTION, 20 * ENVS, ENVS)
        plain = _plain_sac(_Spaces(flat, ACTION), hidden, buffer_size=20 * ENVS)
        for seed in range(20):
            values = transitions(space, torch.Generator().manual_seed(seed))
            held.add(**values)
            rows = {
                key: torch.cat(list(values[key].values()), dim=1).numpy() for key in ("observation", "next_observation")
            }
            action = np.clip(values["action"].numpy(), -1, 1)
            for row in range(ENVS):
                done = np.zeros(1, bool)
                one = [rows[key][row] for key in ("observation", "next_observation")]
                plain.replay_buffer.add(*one, action[row], values["reward"][row].numpy(), done, [{}])
        contenders = {"ours": lambda b=brain, m=held: b.learn(m, 10), "plain": lambda p=plain: p.train(10, SAC_BATCH)}
        times = interleave(contenders, rounds=25, calls=2)
        report.add(f"SAC, {what}: gradient steps", 10 / statistics.median(times["ours"]), "/s")
        report.add("  plain Stable-Baselines3", 10 / statistics.median(times["plain"]), "/s")
        report.add("  time of ours / of plain, median of the rounds", ratio(times, "ours", "plain"), "x", 1.0)


def learning(report: Report) -> None:
    """Compare the returns of our brain and of plain SAC on Pendulum-v1, with the same steps and settings."""
    found: dict[str, list[float]] = {"ours": [], "plain": []}
    for seed in range(PENDULUM_SEEDS):
        plain = _plain_sac(gymnasium.make("Pendulum-v1"), (64, 64), buffer_size=PENDULUM_STEPS, seed=seed)
        plain.learn(PENDULUM_STEPS)
        found["plain"].append(_swing(lambda seen, p=plain: p.predict(seen, deterministic=True)[0]))
        brain = _learn_pendulum(seed)
        found["ours"].append(_swing(lambda seen, b=brain: b.decide({"pendulum": seen}, deterministic=True)))
    for who, returns in found.items():
        each = ", ".join(f"{value:.0f}" for value in returns)
        report.add(
            f"Pendulum-v1 after {PENDULUM_STEPS:,} steps, {who}: mean return ({each})", statistics.mean(returns), ""
        )


def _learn_pendulum(seed: int) -> SACMLPBrain:
    env = gymnasium.make("Pendulum-v1")
    space = spaces.Dict({"pendulum": env.observation_space})
    brain = SACMLPBrain(space, env.action_space, seed=seed, hidden=(64, 64), learning_rate=1e-3)
    held = Memory(space, env.action_space, PENDULUM_STEPS, 1, seed=seed)
    env.action_space.seed(seed)
    seen, _ = env.reset(seed=seed)
    for step in range(PENDULUM_STEPS):
        now = {"pendulum": seen[None]}
        brain.observe(now)
        action = env.action_space.sample() if step < 100 else brain.decide_batch(now)[0]
        seen, reward, terminated, truncated, _ = env.step(action)
        flags = np.array([[terminated], [truncated]])
        held.add(now, action[None], np.array([reward]), {"pendulum": seen[None]}, *flags)
        if terminated or truncated:
            seen, _ = env.reset()
        if step >= 100:
            brain.learn(held, 1)
    return brain


def _swing(decide: Callable[[np.ndarray], np.ndarray]) -> float:
    """Return the mean return of episodes that neither was trained on."""
    env, total = gymnasium.make("Pendulum-v1"), 0.0
    for episode in range(PENDULUM_EPISODES):
        seen, _ = env.reset(seed=10_000 + episode)
        ended = False
        while not ended:
            seen, reward, terminated, truncated, _ = env.step(decide(seen))
            total += float(reward)
            ended = terminated or truncated
    return total / PENDULUM_EPISODES


def _plain_sac(env: gymnasium.Env, hidden: tuple[int, ...], buffer_size: int, seed: int = 0) -> Any:
    from stable_baselines3 import SAC
    from stable_baselines3.common.logger import Logger

    settings = {"learning_rate": 1e-3, "batch_size": SAC_BATCH, "policy_kwargs": {"net_arch": list(hidden)}}
    plain = SAC("MlpPolicy", env, buffer_size=buffer_size, seed=seed, device="cpu", **settings)
    plain.set_logger(Logger(None, []))
    return plain


class _Spaces(gymnasium.Env):
    """An environment that has spaces only."""

    def __init__(self, observation_space: spaces.Box, action_space: spaces.Box) -> None:
        self.observation_space, self.action_space = observation_space, action_space


def _median(times: list[float]) -> float:
    return statistics.median(times) * 1e6


def main() -> None:
    """Run everything and print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", nargs="+", choices=("memory", "sac", "learning"), help="default: all")
    parser.add_argument("--threads", type=int, default=1, help="threads of torch, for both contenders")
    parser.add_argument("--json", type=Path, help="also write the results to this file")
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    packages = ("torch", "numpy", "numba", "stable_baselines3")
    report = Report(f"Training, {args.threads} thread(s)", packages)
    wanted = args.only or ("memory", "sac", "learning")
    if "memory" in wanted:
        for kind in KINDS:
            memory(report, kind, shared=False)
        memory(report, "vectors", shared=True)
        clusters(report)
    if "sac" in wanted:
        gradient_steps(report)
    if "learning" in wanted:
        learning(report)
    report.finish(args.json)


if __name__ == "__main__":
    main()
