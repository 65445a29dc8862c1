"""A robot from a URDF file in the task "walk": servos in place of its motors, a rig and a standing pose."""

import pytest
import torch

import sensorium as sn
from sensorium.robots import RigSensor, SensorRig


def inertial(mass, moment):
    tensor = f'ixx="{moment}" iyy="{moment}" izz="{moment}" ixy="0" ixz="0" iyz="0"'
    return f'<inertial><mass value="{mass}"/><inertia {tensor}/></inertial>'


def joint(name, parent, child, axis, lower, upper, pos="0 0 0"):
    return (
        f'<joint name="{name}" type="revolute"><parent link="{parent}"/><child link="{child}"/><origin xyz="{pos}"/>'
        f'<axis xyz="{axis}"/><limit lower="{lower}" upper="{upper}" effort="30" velocity="20"/></joint>'
    )


def dog():
    torso = '<collision><geometry><box size=".4 .16 .1"/></geometry></collision>'
    parts = [f'<link name="torso">{inertial(6, 0.06)}{torso}</link>']
    for leg, x, y in (("fl", 0.2, 0.12), ("fr", 0.2, -0.12), ("rl", -0.2, 0.12), ("rr", -0.2, -0.12)):
        foot = '<collision><origin xyz="0 0 -.2"/><geometry><sphere radius=".025"/></geometry></collision>'
        parts += [
            f'<link name="{leg}_hip">{inertial(0.4, 4e-4)}</link>',
            f'<link name="{leg}_thigh">{inertial(0.8, 4e-3)}</link>',
            f'<link name="{leg}_shank">{inertial(0.2, 1e-3)}{foot}</link>',
            joint(f"{leg}_roll", "torso", f"{leg}_hip", "1 0 0", -0.8, 0.8, f"{x} {y} 0"),
            joint(f"{leg}_pitch", f"{leg}_hip", f"{leg}_thigh", "0 1 0", -1.5, 2.5),
            joint(f"{leg}_knee", f"{leg}_thigh", f"{leg}_shank", "0 1 0", -2.6, -0.3, "0 0 -.2"),
        ]
    return f'<robot name="dog">{"".join(parts)}</robot>'


RIG = SensorRig(
    sensors=(
        RigSensor(name="imu", type="IMU", options={"link": "torso", "gyro_noise": 0.05, "delay": 0.015}),
        RigSensor(name="attitude", type="Attitude", options={"link": "torso"}),
        RigSensor(name="joints", type="JointEncoder", options={"noise": 0.01}),
    )
)
STANDING = {"pos": (0, 0, 0.32), "joint_positions": {".*_pitch": 0.8, ".*_knee": -1.6}}


def register(**options):
    sn.robots.register_urdf("urdf_dog", dog(), free=True, rig=RIG, replace=True, **STANDING, **options)


def test_a_urdf_robot_stands_and_moves():
    register(servos={".*": (120, 2)})
    task = sn.tasks.make("walk", robot="urdf_dog", n_envs=4, randomize={"push": 0.0})
    assert task.single_action_space.shape == (12,)
    task.reset()
    for _ in range(100):
        observation, _, terminated, _, _ = task.step(torch.zeros(4, 12))
        assert not terminated.any()
    height = task.scene.world.bind("qpos")[:, 2]
    assert (height > 0.27).all()
    assert observation["joints"]["positions"].shape == (4, 12)
    task.step(torch.ones(4, 12))
    for _ in range(10):
        moved, *_ = task.step(torch.ones(4, 12))
    assert (moved["joints"]["positions"] - observation["joints"]["positions"]).abs().mean() > 0.05
    task.close()


def test_motors_are_refused_with_the_fix():
    register()
    with pytest.raises(sn.OptionError, match=r"a position servo per joint; 'urdf_dog' has none.*servos=\{...\} of"):
        sn.tasks.make("walk", robot="urdf_dog")
