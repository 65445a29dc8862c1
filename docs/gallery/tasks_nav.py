"""Draw docs/pictures/tasks_nav.png, the picture of docs/tasks_nav.md.

.venv/bin/python docs/gallery/tasks_nav.py
"""

import matplotlib.pyplot as plt
import numpy as np
from saving import save_figure

import sensorium as sn

HEIGHT, HALF, SIZE = 7.5, 2.6, (1440, 1200)
"""Height of the camera and half of what it sees, m; size of its images in pixels."""
CLOSE = 0.28
"""Half of what the close-up of the target shows, m."""
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


def close_up(image: np.ndarray, target: np.ndarray) -> np.ndarray:
    """Return the part of an image around a target, (2,) m."""
    scale = SIZE[1] / (2 * HALF)
    across, down = round(SIZE[0] / 2 + target[0] * scale), round(SIZE[1] / 2 - target[1] * scale)
    half = round(CLOSE * scale)
    rows = slice(max(down - half, 0), down + half)
    return image[rows, max(across - half, 0) : across + half]


def main() -> None:
    """Draw the picture."""
    task, tracks = drive()
    figure, axes = plt.subplots(1, ENVS, figsize=(11.4, 3.4))
    wide = HALF * SIZE[0] / SIZE[1]
    for env, (axis, image) in enumerate(zip(axes, photograph(task), strict=True)):
        bright = np.clip(np.asarray(image) * 1.35, 0, 255).astype(np.uint8)
        target = task.target_pose()[env, :2]
        axis.imshow(bright, extent=(-wide, wide, -HALF, HALF))
        axis.plot(*tracks[:, env].T, "-", color="#ff9d00", lw=2.2)
        axis.plot(*tracks[0, env], "o", color="#ff9d00", ms=7)
        axis.add_patch(plt.Circle(target, CLOSE, fill=False, ec="#e01010", lw=2))
        corner = 0.68 if target[0] < 0 else 0.02
        inset = axis.inset_axes((corner, 0.02 if target[1] > 0 else 0.62, 0.3, 0.36))
        inset.imshow(close_up(bright, target))
        inset.set_xticks([])
        inset.set_yticks([])
        for spine in inset.spines.values():
            spine.set(color="#e01010", linewidth=2)
        axis.set_title(task.describe_env(env)["instruction"], fontsize=11)
        axis.set(xlim=(-wide, wide), ylim=(-HALF, HALF))
        axis.axis("off")
    figure.subplots_adjust(0.005, 0.01, 0.995, 0.9, 0.02)
    save_figure(figure, "tasks_nav")


if __name__ == "__main__":
    main()
