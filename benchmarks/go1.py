"""The Unitree Go1 of mjlab's wheel as a model file with servos, a standing pose and a rig of imperfect sensors.

Masses, geoms, motor constants and the standing pose are those that mjlab 1.6.0 gives the robot.
"""

from __future__ import annotations

import math
import shutil
from pathlib import Path

import mujoco

ROTOR_INERTIA = 0.000111842
"""Inertia of a rotor, kg m²."""
GEARS = {"hip": 6.0, "thigh": 6.0, "calf": 9.0}
TORQUES = {"hip": 23.7, "thigh": 23.7, "calf": 35.55}
"""Largest torque of a joint, N m."""
FREQUENCY, DAMPING_RATIO = 2 * math.pi * 10, 2.0
HEIGHT = 0.278
"""Height of the trunk at the start, m."""
RIG = """\
sensors:
  - name: imu
    type: IMU
    mount: {link: trunk}
    options:
      {acc_noise: 0.1, acc_bias_spread: 0.1, gyro_noise: 0.05, gyro_bias_spread: 0.02, delay: 0.015, jitter: 0.015}
  - name: attitude
    type: Attitude
    mount: {link: trunk}
    options: {noise: 0.02, bias_spread: 0.01, delay: 0.015, jitter: 0.015}
  - name: joints
    type: JointEncoder
    options: {noise: 0.01, vel_noise: 0.5, delay: 0.015, jitter: 0.015}
"""


def standing(joint: str) -> float:
    """Return the angle of a joint in the standing pose, rad."""
    if "hip" in joint:
        return 0.1 if joint[1] == "R" else -0.1
    return 0.9 if "thigh" in joint else -1.8


def write_go1(mjlab: Path, folder: Path) -> tuple[Path, Path]:
    """Write the model and the rig to a folder; return both files.

    Args:
        mjlab: the folder that holds the package ``mjlab``.
        folder: where to write, created if missing.
    """
    source = mjlab / "mjlab" / "asset_zoo" / "robots" / "unitree_go1" / "xmls"
    spec = mujoco.MjSpec.from_file(str(source / "go1.xml"))
    for sensor in list(spec.sensors):
        spec.delete(sensor)
    for light in list(spec.lights):
        spec.delete(light)
    for geom in spec.geoms:
        if "_collision" not in geom.name:
            continue
        geom.solref[:] = 0.01, 1.0
        geom.condim, geom.priority = 1, 0
        if "_foot_" in geom.name:
            geom.condim, geom.priority = 6, 1
            geom.friction[:] = 1.0, 5e-3, 5e-4
    angles = []
    for joint in spec.joints:
        if joint.type == mujoco.mjtJoint.mjJNT_FREE:
            continue
        kind = joint.name.split("_")[1]
        joint.armature = ROTOR_INERTIA * GEARS[kind] ** 2
        stiffness = joint.armature * FREQUENCY**2
        servo = spec.add_actuator(
            name=joint.name.removesuffix("_joint"), target=joint.name, trntype=mujoco.mjtTrn.mjTRN_JOINT
        )
        servo.set_to_position(kp=stiffness, kv=2 * DAMPING_RATIO * joint.armature * FREQUENCY)
        servo.ctrlrange[:] = joint.range
        servo.forcerange[:] = -TORQUES[kind], TORQUES[kind]
        angles.append(standing(joint.name))
    spec.body("trunk").pos[:] = 0.0, 0.0, HEIGHT
    spec.add_key(name="home", qpos=[0.0, 0.0, HEIGHT, 1.0, 0.0, 0.0, 0.0, *angles], ctrl=angles)
    folder.mkdir(parents=True, exist_ok=True)
    shutil.copytree(source / "assets", folder / "assets", dirs_exist_ok=True)
    spec.compile()
    model, rig = folder / "go1.xml", folder / "go1.yaml"
    model.write_text(spec.to_xml())
    rig.write_text(RIG)
    return model, rig
