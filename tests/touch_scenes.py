"""Scene for the tests of touch: a pad and an indenter whose motion is prescribed."""

import numpy as np

import sensorium as sn

DT = 0.01
G = 9.81
AWAY = 0.5


def press_scene(geom: str = 'type="sphere" size="0.01"', asset: str = "") -> sn.Scene:
    """Return a scene with a pad, whose upper face is z = 0, and an indenter with which it does not collide.

    The indenter's joints are x, y, z and a rotation about z. No force acts on it, so it keeps its velocity. It starts
    far above the pad. ``asset`` is a mesh that the indenter uses, in MJCF.
    """
    scene = sn.Scene(dt=DT, substeps=1, gravity=(0, 0, 0))
    scene.add_object(sn.Box(size=(0.1, 0.1, 0.02)), name="pad", pos=(0, 0, -0.01))
    scene.add_robot(
        f"""<mujoco><asset>{asset}</asset><worldbody><body name="tip" pos="0 0 {AWAY}">
          <joint name="x" type="slide" axis="1 0 0"/><joint name="y" type="slide" axis="0 1 0"/>
          <joint name="z" type="slide" axis="0 0 1"/><joint name="turn" type="hinge" axis="0 0 1"/>
          <geom {geom} contype="2" conaffinity="2" mass="1"/></body></worldbody></mujoco>""",
        name="indenter",
    )
    return scene


def place(scene: sn.Scene, x=0.0, y=0.0, z=0.0, velocity=(0, 0, 0, 0)) -> None:
    """Set position and velocity of the indenter's centre; sensors see them from the next step on."""
    scene["indenter"].set_joint_positions([x, y, z - AWAY, 0.0])
    scene["indenter"].set_joint_velocities(velocity)


def height(scene: sn.Scene) -> np.ndarray:
    """Return the height of the indenter's centre in each env, (B,) m."""
    return scene.world.bind("qpos")[:, 2].numpy() + AWAY


def positions(sensor) -> np.ndarray:
    """Return the positions of a sensor's taxels in its frame, (n, 3) m."""
    return sensor._local()[0]
