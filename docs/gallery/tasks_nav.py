"""Draw docs/pictures/tasks_nav.png, the picture of docs/tasks_nav.md.

.venv/bin/python docs/gallery/tasks_nav.py
"""

from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np
from PIL import Image

import sensorium as sn

PICTURE = Path(__file__).parent.parent / "pictures" / "tasks_nav.png"
HEIGHT, HALF, SIZE = 7.5, 2.6, (576, 480)
ENVS, SEED = 3, 21


def drive() -> tuple[sn.tasks.NavToObj, np.ndarray]:
    """Return the finished task, and the tracks (steps, envs, 2)."""
    task = sn.tasks.make("nav_to_obj", n_envs=ENVS, seed=SEED)
    planner = sn.policies.make("planner", task)
    task.register_policy(planner)
    observation, _ = task.reset()
    while not task.is_done().all():
        observation, *_ = task.step(planner.get_action(observation))
    seen = task.get_history()["observations"]
    return task, np.stack([each["robot_base_pose"][:, :2] for each in seen])


def photograph(task: sn.tasks.NavToObj) -> np.ndarray:
    """Return images of the current envs from above, (B, H, W, 3)."""
    fov = 2 * np.degrees(np.arctan(HALF / HEIGHT))
    camera = {"name": "above", "pos": (0, 0, HEIGHT), "lookat": (0, 0.001, 0), "resolution": SIZE, "fov": fov}
    studio = sn.tasks.make("nav_to_obj", n_envs=ENVS, cameras=(camera,))
    studio.reset()
    studio.scene.set_state(task.scene.get_state())
    return studio.suite["above"].read()


def main() -> None:
    """Draw the picture."""
    task, tracks = drive()
    figure, axes = plt.subplots(1, ENVS, figsize=(9.6, 2.85), dpi=100)
    wide = HALF * SIZE[0] / SIZE[1]
    for env, (axis, image) in enumerate(zip(axes, photograph(task), strict=True)):
        axis.imshow(image, extent=(-wide, wide, -HALF, HALF))
        axis.plot(*tracks[:, env].T, "-", color="#ffd040", lw=1.6)
        axis.plot(*tracks[0, env], "o", color="#ffd040", ms=6)
        axis.add_patch(plt.Circle(task.target_pose()[env, :2], 0.22, fill=False, ec="#ff3030", lw=1.8))
        axis.set_title(task.describe_env(env)["instruction"], fontsize=9)
        axis.set(xlim=(-wide, wide), ylim=(-HALF, HALF))
        axis.axis("off")
    figure.subplots_adjust(0.005, 0.01, 0.995, 0.9, 0.02)
    figure.canvas.draw()
    pixels = np.asarray(figure.canvas.buffer_rgba())[..., :3]
    Image.fromarray(pixels).quantize(256).save(PICTURE, optimize=True)


if __name__ == "__main__":
    main()
