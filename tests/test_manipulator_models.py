"""Manipulators of models of users: added servos, invalid move groups, URDF files and models of other projects."""

import importlib.metadata
import json
import math
import os

import numpy as np
import pytest
from arm_scenes import DOWN, NEAR, build, draw, turned

import sensorium as sn
from sensorium.robots import Manipulator, ManipulatorOptions, MoveGroup, make

PLANAR = """
<mujoco model="planar"><compiler angle="radian"/><worldbody><body name="stand"><geom type="box" size="0.05 0.05 0.05"/>
  <body name="upper" pos="0 0 0.1"><joint name="shoulder" axis="0 0 1" range="-2 2" limited="true"/>
    <geom type="capsule" size="0.03" fromto="0 0 0 0.4 0 0"/>
    <body name="lower" pos="0.4 0 0"><joint name="elbow" axis="0 0 1"/>
      <geom type="capsule" size="0.03" fromto="0 0 0 0.3 0 0"/><site name="tool" pos="0.3 0 0"/>
    </body></body></body></worldbody>
  <actuator><motor name="push" joint="shoulder"/><position name="elbow" joint="elbow" kp="50" kv="5"/></actuator>
</mujoco>
"""
PLANAR_ARM = {
    "name": "arm",
    "kind": "arm",
    "joints": ("shoulder", "elbow"),
    "tcp": "tool",
    "home": (0.3, 0.5),
    "controller": "joint_position",
}


def test_servos_are_added_to_a_model_without_them():
    scene, robot = build(make(PLANAR, move_groups=[PLANAR_ARM]))
    arm = robot.groups["arm"]
    assert isinstance(robot, Manipulator)
    assert arm.limits.tolist() == [[-2, 2], [-2 * math.pi, 2 * math.pi]]
    assert arm.tcp_pose()[0, :3] == pytest.approx(
        [0.4 * math.cos(0.3) + 0.3 * math.cos(0.8), 0.4 * math.sin(0.3) + 0.3 * math.sin(0.8), 0.1]
    )
    robot.act({"arm": [-0.8, 1.1]})
    scene.step(50)
    assert arm.qpos[0] == pytest.approx([-0.8, 1.1], abs=1e-3)


def test_invalid_move_groups_raise():
    def with_group(**changes):
        return make(PLANAR, move_groups=[PLANAR_ARM | changes])

    for changes, message in (
        ({"joints": ("shoulder", "elbw")}, r"'arm': the model has no joint named 'elbw' \(did you mean 'elbow'"),
        ({"actuators": ("push", "elbo")}, r"no actuator named 'elbo' \(did you mean 'elbow'"),
        ({"tcp": "tol"}, r"no site or link named 'tol' \(did you mean 'tool'"),
        ({"gripper": "hand"}, "no move group 'hand'"),
        ({"controller": "joint_positon"}, "did you mean 'joint_position'"),
    ):
        with pytest.raises(sn.errors.NameNotFoundError, match=message):
            with_group(**changes)
    for changes, message in (
        ({"actuators": ("push", "elbow")}, "'push' must be a position servo of joint 'shoulder'"),
        ({"actuators": ("elbow", "push")}, "'elbow' must be a position servo of joint 'shoulder'"),
        ({"home": (0.0,)}, "home must have one position for each of 2 joints"),
        ({"home": (2.5, 0.0)}, "home of joint 'shoulder' must be in"),
        ({"joints": ("elbow", "shoulder")}, "joints must be all joints between"),
        ({"tcp": None}, "needs tcp"),
        ({"controller": "gripper"}, "cannot control 'arm'"),
        ({"kind": "leg"}, "kind"),
    ):
        with pytest.raises(sn.OptionError, match=message):
            with_group(**changes)
    with pytest.raises(sn.errors.NameNotFoundError, match="'arm'"):
        make("franka", controllers={"arn": "ee_pose"})
    with pytest.raises(sn.OptionError, match="name of its own"):
        make(PLANAR, move_groups=[PLANAR_ARM, PLANAR_ARM])
    with pytest.raises(sn.OptionError, match="must not be set"):
        make("franka", actions=[{"name": "a", "limits": (0, 1), "actuators": {"joint1": 1}}])
    with pytest.raises(sn.errors.NameNotFoundError, match="franka"):
        make("franca")
    lonely = make("franka")
    for call in (lambda: lonely.act([0.0] * 8), lambda: lonely.groups["arm"].qpos, lonely.base_pose, lonely.set_home):
        with pytest.raises(sn.NotBuiltError):
            call()


def arm_of(joints, home, **values):
    return MoveGroup(name="arm", kind="arm", joints=joints, home=home, controller="joint_position", **values)


def test_a_urdf_with_meshes_of_a_ros_package(tmp_path):
    corners = "".join(f"v {x} {y} {z}\n" for x in (0, 0.3) for y in (-0.02, 0.02) for z in (-0.02, 0.02))
    faces = "".join(f"f {face}\n" for face in ("1 2 4 3", "5 7 8 6", "1 5 6 2", "3 4 8 7", "1 3 7 5", "2 6 8 4"))
    mass = '<inertial><mass value="1"/><inertia ixx="0.01" iyy="0.01" izz="0.01" ixy="0" ixz="0" iyz="0"/></inertial>'
    shape = '<collision><geometry><mesh filename="package://my_arm/meshes/beam.obj"/></geometry></collision>'
    links = "".join(f'<link name="{name}">{mass}{shape}</link>' for name in ("foot", "upper", "lower"))
    joints = "".join(
        f'<joint name="{name}" type="revolute"><parent link="{parent}"/><child link="{child}"/>'
        f'<origin xyz="0.3 0 {height}"/><axis xyz="0 0 1"/><limit lower="-2" upper="2" effort="50" velocity="3"/>'
        "</joint>"
        for name, parent, child, height in (("a", "foot", "upper", 0.2), ("b", "upper", "lower", 0))
    )
    for folder in ("urdf", "meshes"):
        (tmp_path / "my_arm" / folder).mkdir(parents=True)
    (tmp_path / "my_arm" / "meshes" / "beam.obj").write_text(corners + faces)
    file = tmp_path / "my_arm" / "urdf" / "arm.urdf"
    file.write_text(f'<robot name="arm">{links}{joints}</robot>')
    made = make(file, move_groups=[arm_of(("a", "b"), (0.2, 0.2), tcp="lower")], pos=(0, 0, 0.5))
    again = Manipulator(ManipulatorOptions(**json.loads(json.dumps(made.options.model_dump(mode="json")))))
    (tmp_path / "my_arm" / "meshes" / "beam.obj").unlink()  # the options contain it
    scene, robot = build(again)
    assert robot.options.base == "foot"
    assert scene.model.nmesh == 1
    assert robot.base_pose()[0, :3] == pytest.approx([0, 0, 0.5])
    robot.act([0.6, -1.0])
    scene.step(50)
    assert robot.groups["arm"].qpos[0] == pytest.approx([0.6, -1.0], abs=1e-3)
    expected = [0.3 + 0.3 * math.cos(0.6), 0.3 * math.sin(0.6), 0.7]
    assert robot.groups["arm"].tcp_pose()[0, :3] == pytest.approx(expected, abs=1e-3)
    with pytest.raises(sn.errors.ModelError, match=r"package:.*beam"):
        make(file, move_groups=[arm_of(("a", "b"), (0.2, 0.2), tcp="lower")])


def shipped(package, path):
    """Return a file of a package; skip the test if it is not installed."""
    try:
        file = importlib.metadata.distribution(package).locate_file(path)
    except importlib.metadata.PackageNotFoundError:
        pytest.skip(f"{package} is not installed")
    return str(file)


def prove(robot, n_envs=2):
    """Check that an arm reaches a goal and stays there."""
    scene, robot = build(robot, n_envs=n_envs)
    arm = robot.groups["arm"]
    goal = arm.tcp_pose()
    goal[:, :3] += [[0.05, 0.1, -0.1], [0.0, -0.1, -0.05]]
    q, error = arm.solve(goal)
    assert (error < NEAR).all()
    robot.act({"arm": q})
    scene.step(75)
    assert np.linalg.norm(arm.tcp_pose()[:, :3] - goal[:, :3], axis=1).max() < 2e-3
    assert turned(arm.tcp_pose()[:, 3:], goal[:, 3:]).max() < math.radians(1)
    return scene, robot


PANDA_HOME = (0.0, -0.785, 0.0, -2.356, 0.0, 1.571, 0.785)
SUITE = {
    "panda": ([f"joint{n}" for n in range(1, 8)], PANDA_HOME),
    "iiwa": ([f"joint_{n}" for n in range(1, 8)], (0.0, 0.65, 0.0, -1.89, 0.0, 0.6, 0.0)),
    "kinova3": ([f"Actuator{n}" for n in range(1, 8)], (0.0, 0.65, 0.0, 1.89, 0.0, 0.6, 0.0)),
    "ur5e": (
        ["shoulder_pan_joint", "shoulder_lift_joint", "elbow_joint", *(f"wrist_{n}_joint" for n in range(1, 4))],
        (0.0, -1.57, 1.57, -1.57, -1.57, 0.0),
    ),
}


@pytest.mark.parametrize("name", SUITE)
def test_arms_of_robosuite(name):
    file = shipped("robosuite", f"robosuite/models/assets/robots/{name}/robot.xml")
    joints, home = SUITE[name]
    _, robot = prove(make(file, move_groups=[arm_of(tuple(joints), home, tcp="right_hand")]))
    if name == "panda":  # its hand is at the pose of the hand of our model
        _, own = build("franka")
        ours, _ = own.groups["arm"]._chain.forward(draw(own.groups["arm"], 10))
        theirs, _ = robot.groups["arm"]._chain.forward(draw(own.groups["arm"], 10))
        assert np.linalg.norm(ours[:, :3] - theirs[:, :3], axis=1) == pytest.approx([0.1034] * 10, abs=1e-3)
        assert turned(ours[:, 3:], theirs[:, 3:]).max() < 1e-3


@pytest.mark.parametrize("file", ["panda.urdf", "panda_collision.urdf"])
def test_an_arm_of_example_robot_data(file):
    folder = "cmeel.prefix/share/example-robot-data/robots/panda_description/urdf"
    fingers = ("panda_leftfinger", "panda_rightfinger")
    joints = ("panda_finger_joint1", "panda_finger_joint2")
    gripper = MoveGroup(
        name="gripper", kind="gripper", joints=joints, width=0.08, home=(0.04, 0.04), fingers=fingers,
        controller="gripper",
    )  # fmt: skip
    arm = arm_of(tuple(f"panda_joint{n}" for n in range(1, 8)), PANDA_HOME, tcp="panda_hand_tcp", gripper="gripper")
    scene, robot = prove(make(shipped("example-robot-data", f"{folder}/{file}"), move_groups=[arm, gripper]))
    _, own = build("franka")
    ours, _ = own.groups["arm"]._chain.forward(draw(own.groups["arm"], 10))
    theirs, _ = robot.groups["arm"]._chain.forward(draw(own.groups["arm"], 10))
    assert ours[:, :3] == pytest.approx(theirs[:, :3], abs=1e-4)
    robot.act({"gripper": [[0.0], [0.5]]})
    scene.step(50)
    assert robot.groups["gripper"].opening() == pytest.approx([0.0, 0.04], abs=1e-3)


def test_an_arm_of_the_menagerie():
    root = os.environ.get("MENAGERIE_ROOT", "")
    file = os.path.join(root, "franka_emika_panda", "panda.xml")
    if not root or not os.path.isfile(file):
        pytest.skip("MENAGERIE_ROOT names no copy of the menagerie")
    arm = arm_of(
        tuple(f"joint{n}" for n in range(1, 8)),
        PANDA_HOME,
        actuators=tuple(f"actuator{n}" for n in range(1, 8)),
        tcp="hand",
    )
    gripper = MoveGroup(
        name="gripper",
        kind="gripper",
        joints=("finger_joint1", "finger_joint2"),
        actuators=("actuator8",),
        open=255.0,
        closed=0.0,
        width=0.08,
        home=(0.04, 0.04),
        fingers=("left_finger", "right_finger"),
        controller="gripper",
    )
    scene = sn.Scene(dt=0.02, substeps=10, integrator="implicitfast", gravity=(0, 0, 0))
    robot = scene.add_robot(file, name="robot", move_groups=[arm, gripper])
    scene.build()
    q, error = robot.groups["arm"].solve([0.5, 0.1, 0.5, *DOWN])
    assert (error < NEAR).all()
    robot.act({"arm": q, "gripper": [0.0]})
    scene.step(200)
    assert robot.groups["arm"].qpos == pytest.approx(q, abs=5e-3)
    assert robot.groups["gripper"].opening()[0] == pytest.approx(0.0, abs=2e-3)
