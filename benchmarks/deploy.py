"""Measure a decision of a deployed policy: messages in, observation, network, command out, on one core.

.venv/bin/python benchmarks/deploy.py [--decisions 2000] [--json out/deploy.json]

The policy is a network of 256, 128 and 64 units for the quadruped of ``walk``, after a few steps of training: 45 values
of three sensors, the command and the last action. Messages are dicts with the fields of ROS.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from pathlib import Path

import numpy as np
from common import Report

from sensorium.deploy import Policy
from sensorium.deploy.contract import ObservationTerm

Messages = dict[str, dict[str, object]]


def message(terms: list[ObservationTerm], capture: float) -> dict[str, object]:
    """Return a message with the fields of some terms."""
    found: dict[str, object] = {"header": {"stamp": {"sec": int(capture), "nanosec": int(capture % 1 * 1e9)}}}
    for term in terms:
        if term.conversion == "joints":
            found |= {"name": list(term.names), term.field: [0.1] * term.size}
        else:
            found[term.field] = {"x": 0.1, "y": 0.2, "z": 0.3}
    return found


def measure(path: Path, decisions: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the seconds of ``feed`` of all topics and of ``act``, for each decision."""
    policy = Policy.load(path)
    by_topic = {
        topic: [term for term in policy.contract.observations if term.topic == topic] for topic in policy.topics
    }
    feeds, acts = np.zeros((2, decisions))
    for number in range(decisions):
        now = 1.0 + number / policy.rate
        inputs = {topic: message(terms, now) for topic, terms in by_topic.items()}
        begin = time.perf_counter()
        for topic, each in inputs.items():
            policy.feed(topic, each, now)
        fed = time.perf_counter()
        policy.act(now, {"command": (0.5, 0.0, 0.1)})
        feeds[number], acts[number] = fed - begin, time.perf_counter() - fed
    return feeds, acts


def main() -> None:
    """Train a few steps, then measure."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--decisions", type=int, default=2000)
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    from sensorium.training import PPOOptions, train_ppo

    with tempfile.TemporaryDirectory() as folder:
        options = PPOOptions(
            n_envs=4,
            horizon=4,
            epochs=1,
            minibatches=1,
            episodes=2,
            steps=16,
            hidden=(256, 128, 64),
            task_options={"max_steps": 20},
        )
        train_ppo(options, Path(folder) / "walk", tensorboard=False)
        if hasattr(os, "sched_setaffinity"):
            os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})  # one core
        rounds = [measure(Path(folder) / "walk" / "policy.onnx", arguments.decisions) for _ in range(5)]
    report = Report("Deployed policy", ("onnxruntime", "numpy"))
    feeds, acts = min(rounds, key=lambda each: float(np.median(each[0] + each[1])))
    total = (feeds + acts) * 1e3
    report.add("messages of a decision", float(np.median(feeds)) * 1e3, "ms")
    report.add("observation, network, command", float(np.median(acts)) * 1e3, "ms")
    report.add("a decision, median", float(np.median(total)), "ms", bound=0.3)
    report.add("a decision, 99 % of them", float(np.percentile(total, 99)), "ms")
    report.finish(arguments.json)


if __name__ == "__main__":
    main()
