"""Draw docs/pictures/arms.png, the picture of the arms in docs/robots.md.

.venv/bin/python docs/gallery/arms.py
"""

from pathlib import Path

import matplotlib.image
import mujoco

import sensorium as sn

PICTURE = Path(__file__).parent.parent / "pictures" / "arms.png"


def portraits() -> None:
    """Draw all arms side by side, each at a suitable height."""
    scene = sn.Scene(sky=((0.75, 0.82, 0.9), (0.95, 0.95, 0.95)))
    scene.add_terrain(sn.Box(size=(8, 8, 0.1), rgba=(0.62, 0.6, 0.57, 1)), name="floor", pos=(0, 0, -0.05))
    for name, spot, size in (("a", 1.55, 0.7), ("b", -1.6, 1.1), ("c", 2.4, 0.5)):
        table = sn.Box(size=(0.7, size, 0.4), rgba=(0.75, 0.62, 0.46, 1))
        scene.add_terrain(table, name=f"table_{name}", pos=(0.2, spot, 0.2))
    scene.add_robot("franka", name="franka", pos=(0, 1.55, 0.4))
    scene.add_robot("mobile_franka", name="mobile", pos=(-0.1, 0.45, 0))
    scene.add_robot("floating_gripper", name="gripper", pos=(0.2, -0.55, 0.2))
    scene.add_robot("bimanual", name="pair", pos=(0, -1.6, 0.4))
    scene.add_robot("yam", name="yam", pos=(0, 2.4, 0.4))
    scene.add_robot("rby1", name="two_armed", pos=(-0.1, -2.75, 0))
    scene.add_light("directional", direction=(-0.6, 0.3, -1), shadow=True)
    scene.build()
    view = mujoco.MjvCamera()
    view.lookat[:], view.distance, view.azimuth, view.elevation = (0.1, -0.15, 0.5), 3.0, 182, -16
    matplotlib.image.imsave(PICTURE, scene.snapshot(width=1000, height=360, camera=view))


if __name__ == "__main__":
    portraits()
