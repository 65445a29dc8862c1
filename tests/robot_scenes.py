"""Scenes and models for the tests of robot sensors."""

from conftest import arm_scene, drop_scene

import sensorium as sn

G = 9.81
LINK = """
<mujoco><worldbody><body name="link"><joint name="hinge" axis="0 1 0" {joint}/>
<geom type="sphere" size="0.05" pos="0.5 0 0" mass="2"/></body></worldbody>{actuator}</mujoco>
"""
SERVO = '<actuator><position name="servo" joint="hinge" kp="2000" kv="100"/></actuator>'
TOOL = """
<mujoco><worldbody><body name="arm" pos="0 0 2">
<joint name="pitch" axis="0 1 0"/><joint name="roll" axis="1 0 0"/>
<geom type="sphere" size="0.02" mass="1"/>
<body name="wrist" pos="0.4 0 0" euler="40 20 10"><site name="flange" quat="0.8 0.6 0 0"/>
<geom type="sphere" size="0.001" pos="0.05 -0.02 0.1" mass="0.7"/></body></body></worldbody></mujoco>
"""


def start(options, model=None, n_envs=1, free=None, name="robot", **scene_options):
    """Return a built scene with one sensor, and the sensor. Without a model, the scene holds a fixed box."""
    scene = sn.Scene(**{"dt": 0.01, "substeps": 2, **scene_options})
    if model is None:
        scene.add_object(sn.Box(), name="box", free=free)
    else:
        scene.add_robot(model, name=name)
    sensor = scene.add_sensor(options)
    scene.build(n_envs=n_envs, seed=3)
    return scene, sensor


class ArmContract:
    """Scene of the sensor contract: a driven arm."""

    def make_scene(self):
        return arm_scene()

    def drive(self, scene, step):
        scene["arm"].set_ctrl([3.0 if step < 10 else -1.0, 0.5])


class DropContract:
    """Scene of the sensor contract: a falling box."""

    def make_scene(self):
        return drop_scene(height=0.13)
