"""Scenes with hard contact problems, for tests and benchmarks of the solver."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch

import sensorium as sn


def dog() -> str:
    """Return the MJCF of a quadruped of 12 kg with 12 position servos; its keyframe "home" stands."""
    legs, keys, motors = "", "", ""
    for name, x, y in (("FL", 0.2, 0.1), ("FR", 0.2, -0.1), ("RL", -0.2, 0.1), ("RR", -0.2, -0.1)):
        legs += (
            f'<body pos="{x} {y} 0"><joint name="{name}_hip" axis="1 0 0" range="-1 1"/>'
            f'<geom type="sphere" size="0.04" mass="0.6" contype="0" conaffinity="0"/>'
            f'<body><joint name="{name}_thigh" axis="0 1 0" range="-1 3"/>'
            f'<geom type="capsule" fromto="0 0 0 0 0 -0.2" size="0.02" mass="0.9" contype="0" conaffinity="0"/>'
            f'<body pos="0 0 -0.2"><joint name="{name}_calf" axis="0 1 0" range="-2.7 -0.5"/>'
            f'<geom type="capsule" fromto="0 0 0 0 0 -0.2" size="0.015" mass="0.2"/>'
            f'<geom type="sphere" size="0.022" pos="0 0 -0.2" mass="0.05" condim="6"/></body></body></body>'
        )
        motors += "".join(f'<position name="{name}_{j}" joint="{name}_{j}"/>' for j in ("hip", "thigh", "calf"))
        keys += " 0 0.8 -1.6"
    return (
        '<mujoco model="dog"><compiler angle="radian"/>'
        '<default><joint armature="0.01" damping="0.5"/><position kp="60"/></default><worldbody>'
        f'<body name="torso" pos="0 0 0.4"><freejoint/><geom type="box" size="0.25 0.1 0.06" mass="5"/>{legs}</body>'
        f"</worldbody><actuator>{motors}</actuator>"
        f'<keyframe><key name="home" qpos="0 0 0.31 1 0 0 0{keys}"/></keyframe></mujoco>'
    )


def walking(scene: sn.Scene) -> Callable[[int], None]:
    """Add a dog that trots; return the function that sets its controls."""
    robot = scene.add_robot(dog(), name="dog", keyframe="home")
    home = torch.tensor([0.0, 0.8, -1.6]).repeat(4)

    def control(step: int) -> None:
        phase = 2 * math.pi * 2.0 * step * scene.dt
        lift = torch.tensor([math.sin(phase + shift) for shift in (0.0, math.pi, math.pi, 0.0)])
        wave = torch.stack([torch.zeros(4), 0.25 * lift, -0.35 * lift.clamp(min=0)], dim=1)
        robot.set_ctrl(home + wave.flatten())

    return control


def stack(scene: sn.Scene) -> Callable[[int], None]:
    """Add a stack of ten boxes of 1 kg, each smaller than the one below it.

    With equal boxes, whose sides are in one plane, rounding would decide where they touch: a displacement of 1e-8 m
    changes the velocities of MuJoCo's own engine by 0.01 m/s.
    """
    for i in range(10):
        side = 0.2 - 0.01 * i
        box = sn.Box(size=(side, side, 0.1), mass=1.0)
        pos, turn = (0.002 * (-1) ** i, 0.001 * i, 0.0501 + 0.1001 * i), (0.0, 0.0, 0.02 * i)
        scene.add_object(box, name=f"box{i}", pos=pos, euler=turn, free=True)
    return lambda _: None


def pile(scene: sn.Scene) -> Callable[[int], None]:
    """Add twenty boxes that fall onto each other."""
    for i in range(20):
        pos, turn = (0.06 * math.sin(7 * i), 0.06 * math.cos(5 * i), 0.1 + 0.09 * i), (0.4 * i, 0.3 * i, 0.7 * i)
        scene.add_object(sn.Box(size=(0.1, 0.08, 0.06), mass=0.5), name=f"box{i}", pos=pos, euler=turn, free=True)
    return lambda _: None


SCENES = {"trotting dog": walking, "stack of 10": stack, "pile of 20": pile}
"""Name -> function that adds the objects to a scene, and returns a function that sets the controls of a step."""
