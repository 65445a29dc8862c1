"""Draw docs/pictures/task_pick.png: four moments of the task pick_and_place.

.venv/bin/python docs/gallery/tasks.py
"""

from __future__ import annotations

from pathlib import Path

import matplotlib as mpl

mpl.use("Agg")
import matplotlib.pyplot as plt
import mujoco

import sensorium as sn

PICTURES = Path(__file__).parent.parent / "pictures"


def view(distance: float, azimuth: float = 140.0) -> mujoco.MjvCamera:
    """Return a camera that looks at the table."""
    camera = mujoco.MjvCamera()
    camera.lookat[:] = 0.45, 0.0, 0.55
    camera.distance, camera.azimuth, camera.elevation = distance, azimuth, -22
    return camera


def pick() -> None:
    """Draw four moments of picking and placing."""
    task = sn.tasks.make("pick_and_place", n_envs=1, seed=5)
    policy = sn.policies.make("planner", task)
    task.register_policy(policy)
    observation, _ = task.reset()
    shots, wanted = [], ["approach", "lift", "carry", "withdraw"]
    while not task.is_done().all():
        observation, *_ = task.step(policy.get_action(observation))
        phase = observation["policy_phase"][0]["phase"]
        if wanted and phase == wanted[0] and task.step_count[0] % 4 == 0:
            shots.append((wanted.pop(0), task.scene.snapshot(width=420, height=340, camera=view(1.5))))
    figure, axes = plt.subplots(1, len(shots), figsize=(3 * len(shots), 2.9))
    for axis, (phase, image) in zip(axes, shots, strict=True):
        axis.imshow(image)
        axis.set_title(phase, fontsize=10)
        axis.axis("off")
    figure.tight_layout(pad=0.6)
    figure.savefig(PICTURES / "task_pick.png", dpi=70)


if __name__ == "__main__":
    pick()
