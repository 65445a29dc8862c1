"""Draw docs/pictures/batch_renderer.png: the qualities of the ray tracer beside OpenGL, and one camera in four envs.

.venv/bin/python docs/gallery/batch_renderer.py
"""

from pathlib import Path

import numpy as np
import torch
from matplotlib.figure import Figure

import sensorium as sn

PICTURES = Path(__file__).parent.parent / "pictures"


def still_life(renderer: str, quality: str, n_envs: int = 1) -> tuple[sn.Scene, sn.Module]:
    """Build a few shapes under two lamps, and a camera."""
    scene = sn.Scene(sky=((0.5, 0.65, 0.85), (0.9, 0.9, 0.95)))
    scene.add_object(sn.Plane(rgba=(0.5, 0.52, 0.55, 1)))
    scene.add_object(
        sn.Box(size=(0.3, 0.3, 0.3), rgba=(0.8, 0.3, 0.2, 1)), name="box", pos=(0.2, 0.3, 0.151), free=True
    )
    scene.add_object(sn.Sphere(radius=0.16, rgba=(0.9, 0.75, 0.2, 1)), name="ball", pos=(-0.25, 0.1, 0.161), free=True)
    scene.add_object(sn.Cylinder(radius=0.08, height=0.5, rgba=(0.2, 0.5, 0.4, 1)), name="post", pos=(0.1, -0.25, 0.25))
    scene.add_light("spot", pos=(1.2, -1.0, 2.0), lookat=(0, 0, 0), cutoff=40, intensity=0.7)
    scene.add_light("directional", direction=(0.6, 1.0, -1.2), intensity=0.35)
    lens = {"pos": (1.1, -0.9, 0.8), "lookat": (0, 0.05, 0.15), "resolution": (200, 150), "fov": 45}
    camera = scene.add_sensor(sn.Camera(renderer=renderer, quality=quality, **lens))
    scene.build(n_envs=n_envs)
    return scene, camera


def main() -> None:
    """Draw the picture."""
    figure = Figure(figsize=(8, 3.4), layout="constrained")
    axes = figure.subplots(2, 4)
    for axis, (renderer, quality) in zip(
        axes[0], [("batch", "fast"), ("batch", "balanced"), ("batch", "high"), ("raster", "high")], strict=True
    ):
        scene, camera = still_life(renderer, quality)
        axis.imshow(camera.read().rgb[0])
        axis.set_title(f"{renderer}, {quality}", fontsize=8)
        scene.close()
    scene, camera = still_life("batch", "high", n_envs=4)
    rng = np.random.default_rng(4)
    positions = np.concatenate([rng.uniform(-0.3, 0.3, (4, 2)), np.full((4, 1), 0.161)], 1)
    scene["ball"].set_pose(pos=positions)
    colours = scene.world.expand("geom_rgba")
    colours[:, 1:, :3] = torch.from_numpy(rng.uniform(0.2, 0.9, (4, colours.shape[1] - 1, 3)))  # except the floor
    scene.forward()
    for env, axis in enumerate(axes[1]):
        axis.imshow(camera.read().rgb[env])
        axis.set_title(f"batch, high, env {env}", fontsize=8)
    for axis in axes.flat:
        axis.set_axis_off()
    figure.savefig(PICTURES / "batch_renderer.png", dpi=80)


if __name__ == "__main__":
    main()
