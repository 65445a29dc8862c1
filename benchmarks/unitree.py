"""The Unitree Go1 and G1 of mjlab's wheel as model files with servos, a standing pose and a rig of imperfect sensors.

Masses, geoms, motor constants and the standing poses are those that mjlab 1.6.0 gives the robots.
"""

from __future__ import annotations

import math
import re
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import mujoco

FREQUENCY, DAMPING_RATIO = 2 * math.pi * 10, 2.0
"""Of the servos: rad/s, and a ratio."""
RIG = """\
sensors:
  - name: imu
    type: IMU
    mount: {{link: {base}}}
    options:
      {{acc_noise: 0.1, acc_bias_spread: 0.1, gyro_noise: 0.05, gyro_bias_spread: 0.02, delay: 0.015, jitter: 0.015}}
  - name: attitude
    type: Attitude
    mount: {{link: {base}}}
    options: {{noise: 0.02, bias_spread: 0.01, delay: 0.015, jitter: 0.015}}
  - name: joints
    type: JointEncoder
    options: {{noise: 0.01, vel_noise: 0.5, delay: 0.015, jitter: 0.015}}
"""


@dataclass(frozen=True)
class Motor:
    """A motor with its gears, as seen at the joint."""

    armature: float
    """Inertia, kg m²."""
    torque: float
    """Maximum torque, N m."""


@dataclass(frozen=True)
class Foot:
    """The contacts of the feet; all other geoms touch without friction."""

    geoms: str
    """Pattern of the names."""
    condim: int
    friction: tuple[float, ...]


@dataclass(frozen=True)
class RobotFacts:
    """What mjlab gives a robot besides its model. Keys are patterns of names of joints; the first that fits holds."""

    name: str
    base: str
    height: float
    """Height of the base at the start, m."""
    motors: Mapping[str, Motor]
    standing: Mapping[str, float]
    """Angles of the standing pose, rad; 0 for all others."""
    foot: Foot
    solref: tuple[float, float] = (0.02, 1.0)
    """Time constant and damping of contacts; that of MuJoCo by default."""


_ROTOR = 0.000111842
"""Inertia of a rotor of the Go1, kg m²."""
GO1 = RobotFacts(
    name="go1",
    base="trunk",
    height=0.278,
    motors={".*_calf_.*": Motor(_ROTOR * 9.0**2, 35.55), ".*": Motor(_ROTOR * 6.0**2, 23.7)},
    standing={".R_hip_.*": 0.1, ".L_hip_.*": -0.1, ".*_thigh_.*": 0.9, ".*_calf_.*": -1.8},
    foot=Foot(".*_foot_.*", 6, (1.0, 5e-3, 5e-4)),
    solref=(0.01, 1.0),
)
_SMALL, _LARGE = Motor(0.003609725, 25.0), Motor(0.01017752, 88.0)
"""The motors that Unitree calls 5020 and 7520-14."""
G1 = RobotFacts(
    name="g1",
    base="pelvis",
    height=0.76,
    motors={
        ".*_wrist_(pitch|yaw)_.*": Motor(0.00425, 5.0),
        ".*_(hip_roll|knee)_.*": Motor(0.025101925, 139.0),
        ".*_hip_.*|waist_yaw_.*": _LARGE,
        "waist_.*|.*_ankle_.*": Motor(2 * _SMALL.armature, 2 * _SMALL.torque),  # two motors move each pair of joints
        ".*": _SMALL,
    },
    standing={
        ".*_hip_pitch_.*": -0.312,
        ".*_knee_.*": 0.669,
        ".*_ankle_pitch_.*": -0.363,
        ".*_elbow_.*": 0.6,
        ".*_shoulder_pitch_.*": 0.2,
        "left_shoulder_roll_.*": 0.2,
        "right_shoulder_roll_.*": -0.2,
    },
    foot=Foot(".*_foot[1-7]_.*", 3, (0.6,)),
)


def write_robot(facts: RobotFacts, mjlab: Path, folder: Path) -> tuple[Path, Path]:
    """Write the model and the rig to a folder; return both files.

    Args:
        facts: the robot.
        mjlab: the folder that holds the package ``mjlab``.
        folder: where to write, created if missing.
    """
    source = mjlab / "mjlab" / "asset_zoo" / "robots" / f"unitree_{facts.name}" / "xmls"
    spec = mujoco.MjSpec.from_file(str(source / f"{facts.name}.xml"))
    for element in [*spec.sensors, *spec.lights]:
        spec.delete(element)
    for geom in spec.geoms:
        if "_collision" not in geom.name:
            continue
        geom.solref[:] = facts.solref
        geom.condim, geom.priority = 1, 0
        if re.fullmatch(facts.foot.geoms, geom.name):
            geom.condim, geom.priority = facts.foot.condim, 1
            geom.friction[: len(facts.foot.friction)] = facts.foot.friction
    angles = []
    for joint in spec.joints:
        if joint.type == mujoco.mjtJoint.mjJNT_FREE:
            continue
        motor = next(motor for pattern, motor in facts.motors.items() if re.fullmatch(pattern, joint.name))
        joint.armature = motor.armature
        servo = spec.add_actuator(
            name=joint.name.removesuffix("_joint"), target=joint.name, trntype=mujoco.mjtTrn.mjTRN_JOINT
        )
        servo.set_to_position(kp=motor.armature * FREQUENCY**2, kv=2 * DAMPING_RATIO * motor.armature * FREQUENCY)
        servo.ctrlrange[:] = joint.range
        servo.forcerange[:] = -motor.torque, motor.torque
        fitting = (angle for pattern, angle in facts.standing.items() if re.fullmatch(pattern, joint.name))
        angles.append(next(fitting, 0.0))
    spec.body(facts.base).pos[:] = 0.0, 0.0, facts.height
    spec.add_key(name="home", qpos=[0.0, 0.0, facts.height, 1.0, 0.0, 0.0, 0.0, *angles], ctrl=angles)
    folder.mkdir(parents=True, exist_ok=True)
    shutil.copytree(source / "assets", folder / "assets", dirs_exist_ok=True)
    spec.compile()
    model, rig = folder / f"{facts.name}.xml", folder / f"{facts.name}.yaml"
    model.write_text(spec.to_xml())
    rig.write_text(RIG.format(base=facts.base))
    return model, rig
