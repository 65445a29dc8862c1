"""Draw docs/pictures/task_pick.png: four moments of the task pick_and_place.

.venv/bin/python docs/gallery/tasks.py
"""

from __future__ import annotations

import matplotlib.pyplot as plt
import mujoco
import numpy as np
from saving import save_figure

import sensorium as sn

PHASES = ("descend", "lift", "carry", "release")


def view(hand: np.ndarray) -> mujoco.MjvCamera:
    """Return a camera that looks at the table and the hand, (3,) m."""
    camera = mujoco.MjvCamera()
    camera.lookat[:] = 0.25 * hand + 0.75 * np.array((0.3, 0.05, 0.62))
    camera.distance, camera.azimuth, camera.elevation = 1.6, 150, -26
    return camera


def pick() -> None:
    """Draw four moments of picking and placing."""
    task = sn.tasks.make("pick_and_place", n_envs=1, seed=5)
    policy = sn.policies.make("planner", task)
    task.register_policy(policy)
    observation, _ = task.reset()
    instruction = task.describe_env(0)["instruction"]
    shots: list[tuple[str, np.ndarray]] = []
    seen: list[str] = []
    while not task.is_done().all():
        observation, *_ = task.step(policy.get_action(observation))
        phase = observation["policy_phase"][0]["phase"]
        seen.append(phase)
        if phase in PHASES and seen.count(phase) == 4:
            hand = task.robot.groups["arm"].tcp_pose()[0, :3]
            shots.append((phase, task.scene.snapshot(width=600, height=500, camera=view(hand))))
    figure, axes = plt.subplots(1, len(shots), figsize=(3 * len(shots), 2.9), layout="constrained")
    for axis, (phase, image) in zip(axes, shots, strict=True):
        axis.imshow(image)
        axis.set_title(phase, fontsize=10)
        axis.axis("off")
    figure.suptitle(instruction, fontsize=11)
    save_figure(figure, "task_pick")


if __name__ == "__main__":
    pick()
