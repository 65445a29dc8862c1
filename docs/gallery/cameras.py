"""Draw docs/pictures/cameras.png: all outputs of a camera, and a camera on a hand.

.venv/bin/python docs/gallery/cameras.py
"""

from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np

import sensorium as sn
from sensorium.cameras.plotting import as_picture

PICTURES = Path(__file__).parent.parent / "pictures"
OUTPUTS = ("rgb", "depth", "segmentation", "instance", "normals", "points")

ARM = """
<mujoco model="arm"><worldbody><body name="base" pos="0 0 0.05">
  <geom type="cylinder" size="0.08 0.05" rgba="0.25 0.27 0.3 1"/>
  <body name="upper" pos="0 0 0.05"><joint name="shoulder" axis="0 1 0" damping="2"/>
    <geom type="capsule" fromto="0 0 0 0 0 0.35" size="0.035" rgba="0.95 0.95 0.92 1"/>
    <body name="lower" pos="0 0 0.35"><joint name="elbow" axis="0 1 0" damping="2"/>
      <geom type="capsule" fromto="0 0 0 0 0 0.3" size="0.03" rgba="0.9 0.45 0.15 1"/>
      <body name="hand" pos="0 0 0.3"><joint name="wrist" axis="0 1 0" damping="2"/>
        <geom type="box" size="0.03 0.06 0.02" rgba="0.25 0.27 0.3 1"/>
        <geom type="box" size="0.01 0.008 0.03" pos="0 0.045 0.05" rgba="0.25 0.27 0.3 1"/>
        <geom type="box" size="0.01 0.008 0.03" pos="0 -0.045 0.05" rgba="0.25 0.27 0.3 1"/>
      </body></body></body></body></worldbody></mujoco>"""


def table(**options) -> sn.Scene:
    """Return a scene with an arm that bends over a few objects, lit by a low sun."""
    scene = sn.Scene(**{"dt": 0.01, "gravity": (0, 0, 0), "sky": ((0.35, 0.55, 0.85), (0.85, 0.88, 0.92)), **options})
    scene.add_light("directional", pos=(-1, 1, 3), direction=(0.6, -0.5, -1))
    scene.add_object(sn.Plane(rgba=(0.62, 0.6, 0.56, 1)))
    scene.add_robot(ARM, name="arm")
    rng = np.random.default_rng(5)
    for number in range(7):
        colour = (*plt.get_cmap("tab10")(number)[:3], 1)
        shape = (
            sn.Box(size=(0.1, 0.07, 0.08), rgba=colour),
            sn.Sphere(radius=0.045, rgba=colour),
            sn.Cylinder(radius=0.035, height=0.12, rgba=colour),
        )[number % 3]
        spot = (0.35 + rng.uniform(0, 0.5), rng.uniform(-0.4, 0.4), (0.04, 0.045, 0.06)[number % 3])
        scene.add_object(shape, name=f"thing{number}", pos=spot, euler=(0, 0, rng.uniform(0, 3)))
    return scene


def main() -> None:
    """Draw all outputs of a camera in the room, and images of one on the hand without and with a profile."""
    scene = table()
    room = scene.add_sensor(
        sn.Camera(
            pos=(1.3, -0.9, 0.7), lookat=(0.3, 0, 0.2), resolution=(240, 180), outputs=OUTPUTS, quality="high", far=4.0
        )
    )
    hand = {"link": "hand", "pos": (0.06, 0, 0), "lookat": (0.06, 0, 1), "up": (1, 0, 0), "resolution": (240, 180)}
    hand |= {"quality": "high"}
    clean = scene.add_sensor(sn.Camera(uuid="clean", fov=75, **hand))
    real = scene.add_sensor(sn.Camera(uuid="real", fov=75, profile="action", **hand))
    scene.build()
    scene["arm"].set_joint_positions([0.35, 1.4, 0.9])
    figure, grid = plt.subplots(2, 4, figsize=(11.2, 4.7), layout="constrained")
    pictures = {name: as_picture(name, getattr(room.read(), name)[0]) for name in OUTPUTS}
    pictures["on the hand"] = clean.read().rgb[0].numpy()
    pictures["on the hand, profile action"] = real.read().rgb[0].numpy()
    for axes, (name, picture) in zip(grid.flat, pictures.items(), strict=True):
        axes.imshow(picture, cmap="viridis_r", interpolation="nearest")
        axes.set_title(name, fontsize=10)
        axes.set_axis_off()
    figure.savefig(PICTURES / "cameras.png", dpi=64, pil_kwargs={"optimize": True})


if __name__ == "__main__":
    main()
