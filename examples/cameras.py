"""Render cameras for several envs in one pass: RGB, depth and segmentation, with and without a real camera's profile.

python examples/cameras.py --out out/cameras.png
"""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import tyro
from matplotlib.figure import Figure

import sensorium as sn


@dataclass
class Options:
    """Options of the example."""

    out: Path = Path("out/cameras.png")
    """File of the figure."""
    envs: int = 2
    """Number of envs."""
    width: int = 320
    """Width of the images, pixels."""


def main(options: Options) -> None:
    """Render a falling box with two cameras and draw their images."""
    scene = sn.Scene(dt=0.01, sky=((0.4, 0.6, 0.9), (0.9, 0.9, 0.9)))
    scene.add_light("directional", direction=(0.5, 0.3, -1))
    scene.add_object(sn.Plane(), name="ground")
    scene.add_object(sn.Cylinder(radius=0.1, height=0.4, rgba=(0.2, 0.5, 0.3, 1)), name="post", pos=(0.4, 0.2, 0.2))
    box = sn.Box(size=(0.2, 0.2, 0.2), rgba=(0.8, 0.2, 0.1, 1))
    scene.add_object(box, name="box", pos=(0, 0, 0.6), euler=(0.4, 0.2, 0), free=True)
    size = (options.width, options.width * 3 // 4)
    fixed = scene.add_sensor(
        sn.Camera(
            uuid="fixed",
            pos=(1.4, -1.2, 0.9),
            lookat=(0, 0, 0.2),
            resolution=size,
            outputs=("rgb", "depth", "segmentation"),
            profile=sn.CameraProfile.named("rgbd"),
        )
    )
    above = scene.add_sensor(sn.Camera(uuid="above", pos=(0.1, -0.1, 1.6), lookat=(0.1, 0.1, 0), resolution=size))
    scene.build(n_envs=options.envs)
    scene.step(25)

    measured, true = fixed.read(), fixed.read_ground_truth()  # renders both cameras for all envs, once
    images = {
        "ground truth": true.rgb[0],
        "measured (profile rgbd)": measured.rgb[0],
        "depth, m": measured.depth[0].clamp(max=3),
        "body ids": true.segmentation[0, ..., 0],
        "from above": above.read().rgb[0],
    }
    figure = Figure(figsize=(3 * len(images), 2.6), layout="constrained")
    for axis, (title, image) in zip(np.ravel(figure.subplots(1, len(images))), images.items(), strict=True):
        axis.imshow(image.numpy(force=True))
        axis.set_title(title, fontsize=9)
        axis.axis("off")
    options.out.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(options.out, dpi=90)
    print(f"{tuple(true.rgb.shape)} images by {fixed.renderer_choice}: {options.out}")


if __name__ == "__main__":
    main(tyro.cli(Options))
