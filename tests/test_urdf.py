"""URDF: conversion, strict checks, meshes, approximation and the registry, with hand-written MJCF and real robots."""

import contextlib
import importlib.metadata
import json
import math
from pathlib import Path

import mujoco
import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import sensorium as sn
from sensorium.robots import MoveGroup, make, register_urdf
from sensorium.worlds.urdf import find, read_urdf, registered, registry
from sensorium.worlds.urdf.approximate import roll_pitch_yaw, rotation
from sensorium.worlds.urdf.fitting import convex_hull, enclosing_circle, fit_box, fit_cylinder


def inertial(mass=1.0, moments=(0.01, 0.01, 0.01), origin=""):
    xx, yy, zz = moments
    return (
        f'<inertial>{origin}<mass value="{mass}"/>'
        f'<inertia ixx="{xx}" iyy="{yy}" izz="{zz}" ixy="0" ixz="0" iyz="0"/></inertial>'
    )


ARM = f"""<?xml version="1.0"?>
<robot name="arm">
  <material name="orange"><color rgba="1 0.5 0 1"/></material>
  <link name="base">
    {inertial(4.0, (0.02, 0.02, 0.03), '<origin xyz="0 0 0.05"/>')}
    <visual><origin xyz="0 0 0.05"/><geometry><cylinder radius="0.1" length="0.1"/></geometry>
      <material name="orange"/></visual>
    <collision><origin xyz="0 0 0.05"/><geometry><cylinder radius="0.1" length="0.1"/></geometry></collision>
  </link>
  <link name="upper">
    {inertial(2.0, (0.02, 0.021, 0.003), '<origin xyz="0 0 0.2" rpy="0 0 0.3"/>')}
    <collision name="upper_hull">
      <origin xyz="0 0 0.2" rpy="0 0 0.5"/>
      <geometry><capsule radius="0.04" length="0.3"/></geometry>
    </collision>
  </link>
  <link name="lower">
    {inertial(1.0, (0.009, 0.009, 0.001), '<origin xyz="0 0 0.15"/>')}
    <collision><origin xyz="0.02 0 0.15" rpy="0.1 0.2 0.3"/><geometry><box size="0.05 0.06 0.3"/></geometry></collision>
  </link>
  <link name="finger">{inertial(0.1, (1e-4, 1e-4, 1e-4))}</link>
  <link name="thumb">{inertial(0.1, (1e-4, 1e-4, 1e-4))}</link>
  <link name="tool"/>
  <joint name="shoulder" type="revolute">
    <origin xyz="0 0 0.1" rpy="0.1 -0.2 0.3"/>
    <parent link="base"/>
    <child link="upper"/>
    <axis xyz="0 1 0"/>
    <limit lower="-2" upper="1.5" effort="50" velocity="3"/>
    <dynamics damping="0.4" friction="0.1"/>
  </joint>
  <joint name="elbow" type="continuous">
    <origin xyz="0 0 0.4" rpy="0.5 0 0"/>
    <parent link="upper"/>
    <child link="lower"/>
    <axis xyz="0 2 0"/>
    <limit effort="20" velocity="4"/>
  </joint>
  <joint name="grip" type="prismatic">
    <origin xyz="0 0.02 0.3"/>
    <parent link="lower"/>
    <child link="finger"/>
    <axis xyz="0 1 0"/>
    <limit lower="0" upper="0.04" effort="10" velocity="0.2"/>
  </joint>
  <joint name="follow" type="prismatic">
    <origin xyz="0 -0.02 0.3"/>
    <parent link="lower"/>
    <child link="thumb"/>
    <axis xyz="0 -1 0"/>
    <limit lower="0" upper="0.1" effort="10" velocity="0.2"/>
    <mimic joint="grip" multiplier="2" offset="0.01"/>
  </joint>
  <joint name="mount" type="fixed">
    <origin xyz="0 0 0.35" rpy="0 0 1"/>
    <parent link="lower"/>
    <child link="tool"/>
  </joint>
</robot>
"""

GOLDEN = """
<mujoco model="arm">
  <compiler angle="radian" eulerseq="XYZ" autolimits="true"/>
  <worldbody>
    <body name="base">
      <inertial pos="0 0 0.05" mass="4" diaginertia="0.02 0.02 0.03"/>
      <geom type="cylinder" size="0.1 0.05" pos="0 0 0.05"/>
      <body name="upper" pos="0 0 0.1" euler="0.1 -0.2 0.3">
        <inertial pos="0 0 0.2" euler="0 0 0.3" mass="2" diaginertia="0.02 0.021 0.003"/>
        <joint name="shoulder" axis="0 1 0" range="-2 1.5" actuatorfrcrange="-50 50" damping="0.4" frictionloss="0.1"/>
        <geom type="capsule" size="0.04 0.15" pos="0 0 0.2" euler="0 0 0.5"/>
        <body name="lower" pos="0 0 0.4" euler="0.5 0 0">
          <inertial pos="0 0 0.15" mass="1" diaginertia="0.009 0.009 0.001"/>
          <joint name="elbow" axis="0 1 0" actuatorfrcrange="-20 20"/>
          <geom type="box" size="0.025 0.03 0.15" pos="0.02 0 0.15" euler="0.1 0.2 0.3"/>
          <body name="finger" pos="0 0.02 0.3">
            <inertial pos="0 0 0" mass="0.1" diaginertia="1e-4 1e-4 1e-4"/>
            <joint name="grip" type="slide" axis="0 1 0" range="0 0.04" actuatorfrcrange="-10 10"/>
          </body>
          <body name="thumb" pos="0 -0.02 0.3">
            <inertial pos="0 0 0" mass="0.1" diaginertia="1e-4 1e-4 1e-4"/>
            <joint name="follow" type="slide" axis="0 -1 0" range="0 0.1" actuatorfrcrange="-10 10"/>
          </body>
          <body name="tool" pos="0 0 0.35" euler="0 0 1"/>
        </body>
      </body>
    </body>
  </worldbody>
  <equality><joint joint1="follow" joint2="grip" polycoef="0.01 2 0 0 0"/></equality>
  <actuator>
    <motor name="shoulder" joint="shoulder" ctrlrange="-50 50"/>
    <motor name="elbow" joint="elbow" ctrlrange="-20 20"/>
    <motor name="grip" joint="grip" ctrlrange="-10 10"/>
  </actuator>
</mujoco>
"""


@pytest.fixture(autouse=True)
def own_registry(monkeypatch):
    """Remove the registrations of a test."""
    monkeypatch.setattr(registry, "_REGISTRY", {})


@pytest.fixture
def new(request):
    """Return a name that no other test registers."""
    return f"{request.node.name[:40].replace('.', '_').replace('/', '_')}_{len(registered())}"


# -- conversion -------------------------------------------------------------------------------------------------------


def test_the_model_equals_hand_written_mjcf():
    ours, golden = read_urdf(ARM, visuals=False).spec().compile(), mujoco.MjSpec.from_string(GOLDEN).compile()
    assert (ours.nbody, ours.njnt, ours.ngeom, ours.nu, ours.neq) == (7, 4, 3, 3, 1)
    for field in (
        *("body_mass", "body_ipos", "jnt_range", "jnt_limited", "jnt_axis", "dof_damping", "qpos0"),
        *("dof_frictionloss", "jnt_actfrcrange", "actuator_ctrlrange", "geom_type", "geom_size", "geom_pos"),
        *("body_parentid", "eq_obj1id", "eq_obj2id", "body_pos", "geom_quat", "actuator_gear", "jnt_type"),
    ):
        assert getattr(ours, field) == pytest.approx(getattr(golden, field), abs=1e-6), field
    assert np.sort(ours.body_inertia) == pytest.approx(np.sort(golden.body_inertia), abs=1e-7)
    assert ours.eq_data[:, :5] == pytest.approx(golden.eq_data[:, :5])
    rng = np.random.default_rng(0)
    for _ in range(5):  # compare poses, and the forces of inverse dynamics, which depend on all inertias
        qpos = rng.uniform(-1, 1, 4) * [1.5, 3, 0.04, 0.1]
        results = []
        for model in (ours, golden):
            data = mujoco.MjData(model)
            data.qpos[:] = qpos
            mujoco.mj_forward(model, data)
            full = np.zeros((4, 4))
            mujoco.mj_fullM(model, data, full)
            results.append(np.concatenate([data.xpos.ravel(), np.abs(data.xmat).ravel(), full.ravel(), data.qfrc_bias]))
        assert results[0] == pytest.approx(results[1], rel=1e-5, abs=1e-5)


def test_motors_accelerate_their_joints(new):
    wheel = f"""<robot name="wheel"><link name="axle"/><link name="disc">{inertial(2.0, (0.01, 0.01, 0.02))}</link>
      <joint name="spin" type="continuous"><parent link="axle"/><child link="disc"/><axis xyz="0 0 1"/>
      <limit effort="0.5" velocity="9"/></joint></robot>"""
    report = register_urdf(new, wheel)
    assert report.velocity_limits == {"spin": 9.0}
    scene = sn.Scene(dt=0.01, substeps=5)
    robot = scene.add_robot(new, name="robot", radius=0.2)
    scene.build(n_envs=2)
    assert robot.action_names == ["spin"]
    robot.act([[0.2], [7.0]])  # the second is clipped at the effort limit
    scene.step(100)
    scene.update_state()
    speeds = robot.joint_velocities.value[:, 0].numpy()
    assert speeds == pytest.approx([0.2 / 0.02, 0.5 / 0.02], rel=1e-4)


def test_servos_replace_motors(new):
    """Their force is stiffness times error minus damping times speed, within the effort."""
    wheel = f"""<robot name="wheel"><link name="axle"/><link name="disc">{inertial(2.0, (0.01, 0.01, 0.02))}</link>
      <link name="rod">{inertial(0.1, (1e-3, 1e-3, 1e-3))}</link>
      <joint name="spin" type="revolute"><parent link="axle"/><child link="disc"/><axis xyz="0 0 1"/>
      <limit effort="0.5" velocity="9" lower="-1" upper="2"/></joint>
      <joint name="turn" type="continuous"><parent link="disc"/><child link="rod"/><axis xyz="0 0 1"/>
      <limit effort="3" velocity="9"/></joint></robot>"""
    register_urdf(new, wheel, servos={"sp.*": (4.0, 0.25)})
    scene = sn.Scene(dt=0.01, substeps=5)
    robot = scene.add_robot(new, name="robot", radius=0.2)
    scene.build(n_envs=2)
    assert robot.action_limits.tolist() == [[-1.0, 2.0], [-3.0, 3.0]]  # rad of the servo, N m of the motor
    data = mujoco.MjData(scene.model)
    for target, force in ((0.1, 4.0 * 0.1 - 0.25 * 0.4), (2.0, 0.5)):
        data.ctrl[0], data.qvel[0] = target, 0.4
        mujoco.mj_forward(scene.model, data)
        assert data.actuator_force[0] == pytest.approx(force)
    robot.act([[0.1, 0.0], [0.2, 0.0]])
    scene.step(300)
    assert scene.world.bind("qpos")[:, 0].numpy() == pytest.approx([0.1, 0.2], abs=1e-3)
    register_urdf(new, wheel, servos={".*": (4.0, 0.25)}, replace=True)
    both = scene_of(new)
    assert both.action_limits.numpy() == pytest.approx(np.array([[-1.0, 2.0], [-math.pi, math.pi]]))


def scene_of(name):
    scene = sn.Scene()
    robot = scene.add_robot(name, name="robot", radius=0.2)
    scene.build()
    return robot


@pytest.mark.parametrize(
    ("servos", "words"),
    [
        (5, "servos must map joints to"),
        ({3: (1.0, 1.0)}, "name of a joint must be text"),
        ({"should(": (1.0, 1.0)}, "is no regular expression"),
        ({"shoulder": 4.0}, "must be \\(stiffness, damping\\)"),
        ({"shoulder": (4.0,)}, "must be \\(stiffness, damping\\)"),
        ({"shoulder": (math.nan, 1.0)}, "must be \\(stiffness, damping\\)"),
        ({"shoulder": (0.0, 1.0)}, "a stiffness > 0 and a damping >= 0"),
        ({"shoulders": (4.0, 1.0)}, "did you mean 'shoulder'"),
        ({"shoulder": (4.0, 1.0), "sh.*": (5.0, 1.0)}, "have two gains for the joint 'shoulder'"),
    ],
)
def test_servos_of_a_wrong_form(servos, words, new):
    with pytest.raises(sn.SensoriumError, match=words):
        register_urdf(new, ARM, servos=servos)
    assert new not in registered()


def test_mimic_joints_follow(new):
    register_urdf(new, ARM)
    scene = sn.Scene(dt=0.01, gravity=(0, 0, 0))
    robot = scene.add_robot(new, name="robot")
    scene.build()
    robot.act([0, 0, 3.0])
    scene.step(200)
    scene.update_state()
    grip, follow = robot.joint_positions.value[0, 2:].tolist()
    assert grip == pytest.approx(0.04, abs=3e-3)  # its limit
    assert follow == pytest.approx(2 * grip + 0.01, abs=2e-3)


def test_cameras_see_visual_shapes_and_contacts_use_collision_shapes():
    both, bare = read_urdf(ARM).spec(), read_urdf(ARM, visuals=False).spec()
    seen, felt = both.body("base").geoms
    assert (seen.contype, seen.group, seen.rgba.tolist()) == (0, 1, [1, 0.5, 0, 1])
    assert (felt.contype, felt.group) == (1, 3)
    assert both.body("upper").geoms[0].group == 0  # without a visual shape, the collision shape is visible
    only = bare.body("base").geoms
    assert [(geom.contype, geom.group, geom.rgba.tolist()) for geom in only] == [(1, 0, [1, 0.5, 0, 1])]


def test_links_have_the_mass_of_their_inertial_or_none():
    text = ARM.replace('<link name="tool"/>', f'<link name="tool">{BOX}</link>')
    model = read_urdf(text).spec().compile()
    assert model.body("tool").mass[0] == 0
    assert model.body_mass.sum() == pytest.approx(7.2)


BOX = '<collision><geometry><box size="0.1 0.1 0.1"/></geometry></collision>'
BLOCK = f'<robot name="block"><link name="body">{inertial()}{BOX}</link></robot>'


def test_a_free_base_falls_and_a_fixed_base_does_not(new):
    register_urdf(new, BLOCK, free=True)
    register_urdf(f"{new}_fixed", BLOCK)
    scene = sn.Scene(dt=0.01)
    free, fixed = (
        scene.add_robot(new, name="free", pos=(0, 0, 9)),
        scene.add_robot(f"{new}_fixed", name="fixed", pos=(1, 0, 9)),
    )
    scene.build()
    scene.step(50)
    assert float(free.get_pose()[0][0, 2]) == pytest.approx(9 - 9.81 * 0.5**2 / 2, abs=0.02)
    assert float(fixed.get_pose()[0][0, 2]) == 9


def test_links_that_touch_in_the_initial_state_do_not_collide():
    links = "".join(f'<link name="{name}">{inertial()}{BOX}</link>' for name in "abc")
    joints = "".join(
        f'<joint name="{first}{second}" type="prismatic"><origin xyz="0.04 0 0"/><parent link="{first}"/>'
        f'<child link="{second}"/><axis xyz="1 0 0"/><limit lower="{lower}" upper="1" effort="1" velocity="1"/></joint>'
        for first, second, lower in (("a", "b", 0), ("b", "c", 0))
    )
    robot = f'<robot name="r">{links}{joints}</robot>'
    assert read_urdf(robot).report.touching == (
        ("a", "b"),
        ("a", "c"),
    )  # not b and c: MuJoCo excludes a link and its parent
    apart = robot.replace('<limit lower="0"', '<limit lower="0.5"')
    assert read_urdf(apart).report.touching == ()  # positions are clipped to the limits


def test_a_planar_and_a_floating_joint():
    planar = f"""<robot name="r"><link name="a">{inertial()}</link><link name="b">{inertial()}</link>
      <joint name="j" type="planar"><parent link="a"/><child link="b"/></joint></robot>"""
    assert [joint.name for joint in read_urdf(planar).spec().joints] == ["j_TX", "j_TY", "j_RZ"]
    floating = planar.replace('"a"', '"world"').replace("planar", "floating").replace(inertial(), "", 1)
    assert [joint.type for joint in read_urdf(floating).spec().joints] == [mujoco.mjtJoint.mjJNT_FREE]


def test_a_tile_map_is_a_collision_shape():
    tiles = '<tile_map tile_size="0.5"><tile kind="." height="0"/><tile kind="#" height="0.2"/><row>.#</row></tile_map>'
    robot = f"""<robot name="stage"><link name="floor"><collision><origin xyz="0 0 1" rpy="0 0 1.5707963267948966"/>
      <geometry>{tiles}</geometry></collision></link></robot>"""
    model = read_urdf(robot).spec().compile()
    data = mujoco.MjData(model)
    mujoco.mj_forward(model, data)
    heights = []
    for y in (-0.25, 0.25):  # x of the map is y of the link
        distance = mujoco.mj_ray(
            model, data, np.array([0, y, 5.0]), np.array([0, 0, -1.0]), None, 1, -1, np.zeros(1, np.int32)
        )
        heights.append(5 - distance)
    assert heights == pytest.approx([1.0, 1.2])
    with pytest.raises(sn.errors.ModelError, match=r":2: height of <tile> must be a finite number"):
        read_urdf(robot.replace('height="0.2"', 'height="x"'))


# -- checks -----------------------------------------------------------------------------------------------------------

SHOULDER = '<joint name="shoulder" type="revolute">'
LIMIT = '<limit lower="-2" upper="1.5" effort="50" velocity="3"/>'
FINGER = f'<link name="finger">{inertial(0.1, (1e-4, 1e-4, 1e-4))}</link>'

BAD = [
    ("</robot>", "", "malformed XML: no element found"),
    ('<link name="tool"/>', '<link name="tool">', "malformed XML: mismatched tag"),
    ('<link name="tool"/>', '<link name="tool" name="x"/>', "malformed XML: duplicate attribute"),
    ('<link name="tool"/>', '<lnk name="tool"/>', "did you mean 'link'"),
    ('<link name="tool"/>', '<link nam="tool"/>', "did you mean 'name'"),
    ('<link name="tool"/>', "<link/>", "<link> needs the attribute 'name'"),
    ('<link name="tool"/>', '<link name="upper"/>', "link 'upper' already exists, at line 10"),
    ('<link name="tool"/>', '<link name="tool"/><link name="lost"/>', "2 root links"),
    ('<link name="tool"/>', '<link name="tool"><contact/></link>', "ignore=['link/contact']"),
    ('<link name="tool"/>', '<link name="tool"><xacro:x/></link>', "run xacro"),
    ('name="elbow" type', 'name="shoulder" type', "joint 'shoulder' already exists"),
    (SHOULDER, SHOULDER.replace("revolute", "revolut"), "no joint type 'revolut' (did you mean 'revolute'?)"),
    (SHOULDER, SHOULDER.replace("revolute", "floating"), "give free=True"),
    (LIMIT, "", "needs <limit>; a revolute joint without limits is 'continuous'"),
    (LIMIT, LIMIT.replace("-2", "2"), "lower must be < upper, got lower=2.0 and upper=1.5"),
    (LIMIT, LIMIT.replace('lower="-2" upper="1.5"', ""), "a joint that cannot move is 'fixed'"),
    (LIMIT, LIMIT.replace("-2", "nan"), "lower of <limit> must be a finite number, got 'nan'"),
    (LIMIT, LIMIT.replace('effort="50"', ""), "<limit> needs the attribute 'effort'"),
    (LIMIT, LIMIT.replace("50", "-50"), "effort must be >= 0, got -50"),
    (LIMIT, LIMIT.replace('velocity="3"', 'velocity="-3"'), "velocity must be >= 0"),
    (LIMIT, LIMIT + LIMIT, "more than one <limit>"),
    ('<axis xyz="0 2 0"/>', '<axis xyz="0 0 0"/>', "axis must not be zero"),
    ('<axis xyz="0 2 0"/>', '<axis xyz="0 2"/>', "xyz of <axis> must be 3 finite numbers, got '0 2'"),
    ('damping="0.4"', 'damping="-0.4"', "damping must be >= 0"),
    ('<parent link="upper"/>', '<parent link="uper"/>', "parent link 'uper' does not exist (did you mean 'upper'"),
    ('<parent link="upper"/>', "", "<joint> needs <parent>"),
    ('<child link="tool"/>', '<child link="finger"/>', "is already the child of 'grip'"),
    ('<parent link="base"/>', '<parent link="lower"/>', "is in a cycle"),
    ('<child link="lower"/>', '<child link="upper"/>', "is already the child of 'shoulder'"),
    ('<mimic joint="grip"', '<mimic joint="gripp"', "mimics 'gripp', which does not exist (did you mean 'grip'"),
    ('<mimic joint="grip"', '<mimic joint="mount"', "'mount' is fixed; a mimic needs joints with one axis"),
    ('<mimic joint="grip"', '<mimic joint="follow"', "mimics itself"),
    ('<material name="orange"/>', '<material name="oragne"/>', "no material named 'oragne'"),
    ('rgba="1 0.5 0 1"', 'rgba="1 128 0 1"', "must be in [0, 1]"),
    ('<color rgba="1 0.5 0 1"/>', "", "needs <color> or <texture>"),
    ('radius="0.04"', 'radius="0"', "extents > 0, got radius='0'"),
    ('size="0.05 0.06 0.3"', 'size="0.05 -0.06 0.3"', "extents > 0"),
    ('<box size="0.05 0.06 0.3"/>', "", "<geometry> needs one of <box>"),
    ('<box size="0.05 0.06 0.3"/>', '<box size="1 1 1"/><sphere radius="1"/>', "it has 2"),
    ('<box size="0.05 0.06 0.3"/>', '<mesh filename="package://none/a.stl"/>', "Give its folder with search=[...]"),
    ('<box size="0.05 0.06 0.3"/>', '<mesh filename="a.ply"/>', "convert it to .stl, .obj, .msh, .dae"),
    ('<box size="0.05 0.06 0.3"/>', '<mesh filename="a.stl" scale="1 0 1"/>', "must not contain 0"),
    ('<mass value="2.0"/>', '<mass value="0"/>', "its mass must be > 0, got 0"),
    ('<mass value="2.0"/>', '<mass value="-2"/>', "its mass must be > 0, got -2"),
    ('<mass value="2.0"/>', '<mass value="heavy"/>', "finite number, got 'heavy'"),
    ('<mass value="2.0"/>', "", "<inertial> needs <mass>"),
    ('iyy="0.021"', 'iyy="0"', "positive definite"),
    ('iyy="0.021"', 'iyy="-0.021"', "positive definite"),
    ('iyy="0.021"', 'iyy="0.024"', "exceeds the sum of the others"),
    (FINGER, '<link name="finger"/>', "link 'finger' moves, so it needs <inertial>"),
]


@pytest.mark.parametrize(("old", "wrong", "words"), BAD)
def test_errors_name_the_file_and_the_line_of_a_problem(tmp_path, old, wrong, words, new):
    assert ARM.count(old) >= 1
    file = tmp_path / "arm.urdf"
    file.write_text(ARM.replace(old, wrong, 1))
    with pytest.raises(sn.errors.ModelError) as error:
        register_urdf(new, file)
    line = ARM[: ARM.index(old)].count("\n") + 1
    found = [text for text in str(error.value).split("\n") if words in text]
    assert found, str(error.value)
    assert found[0].startswith(f"{file}:")
    reported = int(found[0].removeprefix(f"{file}:").split(":")[0])
    # some problems are those of the enclosing element, or are noticed later by the parser
    assert (
        abs(reported - line) <= (6 if "needs <limit>" in words or "itself" in words else 3)
        or "malformed" in words
        or "cycle" in words
        or "already" in words
    )
    assert new not in registered()


def test_a_link_named_world_must_be_the_root():
    with pytest.raises(sn.errors.ModelError, match=":23: a link named 'world' must be the root"):
        read_urdf(ARM.replace('"tool"', '"world"'))


def test_all_problems_are_reported_together():
    text = ARM.replace(LIMIT, LIMIT.replace("-2", "2")).replace('iyy="0.021"', 'iyy="0"').replace("oragne", "orange")
    with pytest.raises(sn.errors.ModelError) as error:
        read_urdf(text.replace('<mimic joint="grip"', '<mimic joint="x"'))
    lines = str(error.value).split("\n")
    assert lines.pop() == "strict=False accepts 2 of 3, with a warning"
    assert len(lines) == 3
    assert [int(line.split(":")[1]) for line in lines] == sorted(int(line.split(":")[1]) for line in lines)


@pytest.mark.parametrize(
    "text",
    [
        "<robot name='r'></robot>",
        "<robot name='r'><link name='world'/><link name='a'/></robot>",
        "<robot name='r'><link name='a'/><link name='b'/><joint name='j' type='revolute'>"
        "<parent link='a'/><child link='b'/></joint></robot>",
    ],
)
def test_problems_that_mujoco_ignores_raise(text):
    mujoco.MjSpec.from_string(text)
    with pytest.raises(sn.errors.ModelError):
        read_urdf(text)


@pytest.mark.parametrize(
    ("document", "words"),
    [
        ("nowhere.urdf", "cannot read the URDF file 'nowhere.urdf'"),
        ("<mujoco/>", "must be <robot>, got <mujoco>"),
        ("<" * 100, "malformed"),
        ("<a>" * 500, "nested too deeply"),
        ('<!DOCTYPE r [<!ENTITY a "b">]><robot name="&a;"/>', "entity declarations are not supported"),
        ("<robot name='\ud800'/>", "malformed"),
        ("<robot name='\x00'/>", "malformed"),
    ],
)
def test_documents_that_are_not_urdf_raise(document, words):
    with pytest.raises(sn.errors.ModelError, match=words):
        read_urdf(document)


def test_line_numbers_count_leading_blank_lines():
    for blank in ("", "\n", "\ufeff\r\n \n"):
        lines = blank.count("\n")
        with pytest.raises(sn.errors.ModelError, match=f"text:{lines + 2}: <link> needs"):
            read_urdf(blank + "<robot name='r'>\n<link/></robot>")
        with pytest.raises(sn.errors.ModelError, match=f"text:{lines + 2}: malformed"):
            read_urdf(blank + "<robot name='r'>\n<link></robot>")


def test_invalid_options_raise(new):
    for options, words in (
        ({"approximate": "sphere"}, "approximate must be"),
        ({"search": "folder"}, "search must be a list"),
        ({"ignore": "contact"}, "ignore must be a list"),
        ({"radiu": 1.0}, "did you mean 'radius'"),
        ({"base": "bse"}, "did you mean 'base'"),
    ):
        with pytest.raises(sn.SensoriumError, match=words):
            register_urdf(new, ARM, **options)
        assert new not in registered()
    for name in ("", "a/b", "a.urdf", 3):
        with pytest.raises(sn.OptionError, match="name must be"):
            register_urdf(name, ARM)
    with pytest.raises(sn.errors.DuplicateNameError, match="robot of the catalogue"):
        register_urdf("diffdrive", ARM)
    with pytest.raises(sn.OptionError, match="got int"):
        register_urdf(new, 3)
    world = f"""<robot name="r"><link name="world"/><link name="b">{inertial()}</link>
      <joint name="j" type="fixed"><parent link="world"/><child link="b"/></joint></robot>"""
    with pytest.raises(sn.errors.ModelError, match="cannot move"):
        register_urdf(new, world, free=True)
    with pytest.raises(sn.errors.ModelError, match="'base' moves, so it needs"):
        register_urdf(new, ARM.replace(inertial(4.0, (0.02, 0.02, 0.03), '<origin xyz="0 0 0.05"/>'), ""), free=True)


def test_unknown_elements_can_be_ignored():
    text = ARM.replace('<link name="tool"/>', '<link name="tool" type="x"><contact><mu v="1"/></contact></link>')
    text = text.replace("</robot>", '<gazebo reference="x"><any/></gazebo><transmission name="t"/></robot>')
    with pytest.raises(sn.errors.ModelError, match="contact"):
        read_urdf(text)
    for ignore in (["contact", "link@type"], ["link/contact", "link@type"]):
        assert read_urdf(text, ignore=ignore).xml == read_urdf(ARM).xml


pieces = st.one_of(
    st.sampled_from(
        ["", "<", ">", '"', "nan", "-1", "0", "1e400", "&", "link", "joint", "world", "base", "grip", "fixed"]
    ),
    st.text(max_size=6),
)


@pytest.mark.slow
@given(st.lists(st.tuples(st.integers(0, len(ARM)), st.integers(0, 30), pieces), min_size=1, max_size=3))
@settings(max_examples=250, deadline=None)
def test_edited_text_raises_only_model_errors(edits):
    text = ARM
    for start, length, piece in edits:
        text = text[:start] + piece + text[start + length :]
    before = registered()
    try:
        register_urdf("mutant", "<" + text.lstrip()[1:], replace=True)
    except sn.SensoriumError:
        assert "mutant" in before or registered() == before


@given(
    st.sampled_from(
        ["name", "type", "link", "xyz", "rpy", "value", "ixx", "lower", "upper", "effort", "radius", "joint", "size"]
    ),
    st.sampled_from(
        ["", "nan", "inf", "-1", "0", "x", "1 2 3", "1e308", "1e-308", "base", "world", "lower", "a b", "é/"]
    ),
    st.integers(0, 8),
)
@settings(max_examples=200, deadline=None)
def test_edited_values_raise_only_model_errors(attribute, value, which):
    parts = ARM.split(f' {attribute}="')
    which = 1 + which % (len(parts) - 1)
    parts[which] = value + parts[which][parts[which].index('"') :]
    with contextlib.suppress(sn.SensoriumError):
        read_urdf(f' {attribute}="'.join(parts))


# -- inertias ---------------------------------------------------------------------------------------------------------


def plate(matrix, mass=1.0):
    values = " ".join(f'i{"xyz"[i]}{"xyz"[j]}="{float(matrix[i][j])!r}"' for i in range(3) for j in range(i, 3))
    return f"""<robot name="plate"><link name="base"/><link name="plate"><inertial><mass value="{mass}"/>
      <inertia {values}/></inertial></link><joint name="hinge" type="continuous"><parent link="base"/>
      <child link="plate"/></joint></robot>"""


@given(st.integers(0, 10_000))
@settings(max_examples=40, deadline=None)
def test_flat_bodies_are_accepted_in_any_orientation(seed):
    rng = np.random.default_rng(seed)
    x, y = rng.uniform(1e-6, 1, 2)
    turn = rotation(tuple(rng.uniform(-3, 3, 3)))
    matrix = turn @ np.diag([x, y, x + y]) @ turn.T
    model = read_urdf(plate(matrix)).spec().compile()
    assert sorted(model.body_inertia[2]) == pytest.approx(sorted([x, y, x + y]), abs=1e-4 * (x + y))


def test_frames_may_have_zero_mass_and_inertia():
    zero = inertial(0, (0, 0, 0))
    robot = ARM.replace('<link name="tool"/>', f'<link name="tool">{zero}</link>')
    assert read_urdf(robot).xml == read_urdf(ARM).xml
    with pytest.raises(sn.errors.ModelError, match="'finger' moves, so it needs"):
        read_urdf(ARM.replace(FINGER, f'<link name="finger">{zero}</link>'))


def test_impossible_inertias_can_be_repaired():
    for matrix in (np.zeros((3, 3)), np.diag([0.1, 0.1, 0.5]), np.diag([-0.1, 0.2, 0.2])):
        with pytest.raises(sn.errors.ModelError, match="repair=True"):
            read_urdf(plate(matrix, 2.0))
        model = read_urdf(plate(matrix, 2.0), repair=True)
        assert "repaired: link 'plate'" in str(model.report)
        moments = np.sort(model.spec().compile().body_inertia[2])
        assert moments[0] >= 2e-6
        assert moments[0] + moments[1] >= moments[2]
        assert (moments >= np.sort(np.diag(matrix)) - 1e-9).all()
    tagged = plate(np.diag([0.1, 0.1, 0.5])).replace(
        "<link", '<mujoco><compiler balanceinertia="true"/></mujoco><link', 1
    )
    assert read_urdf(tagged).report.notes


# -- meshes -----------------------------------------------------------------------------------------------------------

CORNERS = np.array(np.meshgrid([-1, 1], [-1, 1], [-1, 1])).reshape(3, 8).T / 2


def write_obj(path, points):
    """Return the convex hull of points as an OBJ file with outward triangles."""
    from scipy.spatial import ConvexHull

    hull = ConvexHull(points)
    lines = [f"v {x!r} {y!r} {z!r}" for x, y, z in np.asarray(points).tolist()]
    for (a, b, c), normal in zip(hull.simplices, hull.equations[:, :3], strict=True):
        flipped = np.cross(points[b] - points[a], points[c] - points[a]) @ normal < 0
        lines.append("f " + " ".join(str(1 + k) for k in ((a, c, b) if flipped else (a, b, c))))
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(lines))


def with_mesh(name, origin="", scale="1 1 1"):
    shape = f'{origin}<geometry><mesh filename="{name}" scale="{scale}"/></geometry>'
    return f'<robot name="m"><link name="body">\n{inertial()}<collision>{shape}</collision></link></robot>'


def test_meshes_are_found(tmp_path, monkeypatch, new):
    write_obj(tmp_path / "ws" / "my_arm" / "meshes" / "beam.obj", CORNERS)
    inside = tmp_path / "ws" / "my_arm" / "urdf" / "arm.urdf"
    outside = tmp_path / "arm.urdf"
    inside.parent.mkdir()
    package = with_mesh("package://my_arm/meshes/beam.obj")
    for file in (inside, outside):
        file.write_text(package)
    expected = read_urdf(inside).assets
    assert list(expected) == ["beam.obj"]
    for document in (outside, package):
        with pytest.raises(sn.errors.ModelError, match=r":2: mesh 'package://my_arm/meshes/beam.obj' does not exist"):
            read_urdf(document)
        for search in (tmp_path / "ws", str(tmp_path / "ws" / "my_arm")):
            assert read_urdf(document, search=[tmp_path, search]).assets == expected
    with monkeypatch.context() as patch:
        patch.setenv("ROS_PACKAGE_PATH", f"/nowhere:{tmp_path / 'ws'}")
        assert read_urdf(package).assets == expected
    assert read_urdf(with_mesh(f"file://{tmp_path}/ws/my_arm/meshes/beam.obj")).assets == expected
    inside.write_text(with_mesh("../meshes/beam.obj"))
    assert read_urdf(inside).assets == expected
    stripped = with_mesh("elsewhere/beam.obj").replace(
        "<link", '<mujoco><compiler meshdir="../meshes" strippath="true"/></mujoco><link', 1
    )
    inside.write_text(stripped)
    assert read_urdf(inside).assets == expected
    register_urdf(new, inside)  # the registration contains the files, so they can be deleted
    for file in tmp_path.rglob("*.obj"):
        file.unlink()
    scene = sn.Scene()
    scene.add_robot(new, name="one")
    scene.build()
    assert scene.world.model.nmesh == 1
    again = sn.Scene.from_contents(json.loads(json.dumps(scene.contents)))
    again.build()
    assert (again.world.model.mesh_vert == scene.world.model.mesh_vert).all()


def test_unreadable_meshes_are_named_with_their_line(tmp_path):
    for name, content in (("bad.obj", "not a mesh"), ("ascii.stl", "solid x\nendsolid x\n" * 20), ("flat.obj", FLAT)):
        (tmp_path / name).write_text(content)
        (tmp_path / "r.urdf").write_text(with_mesh(name))
        with pytest.raises(sn.errors.ModelError, match=rf"r\.urdf:2: mesh '{name}' cannot be used"):
            read_urdf(tmp_path / "r.urdf")


FLAT = "v 0 0 0\nv 1 0 0\nv 0 1 0\nv 1 1 0\nf 1 2 3\nf 2 4 3"


def test_mesh_files_of_the_same_name_are_distinct(tmp_path):
    for folder, size in (("a", 1), ("b", 3)):
        write_obj(tmp_path / folder / "part.obj", CORNERS * size)
    text = with_mesh("a/part.obj").replace(
        "</link>", with_mesh("b/part.obj", scale="2 2 -2").split("\n")[1].split(inertial())[1]
    )
    text = text.replace("</robot></robot>", "</robot>")
    (tmp_path / "r.urdf").write_text(text)
    model = read_urdf(tmp_path / "r.urdf").spec().compile()
    assert sorted(2 * model.geom_aabb[:, 3]) == pytest.approx([1, 6])


# -- approximation ----------------------------------------------------------------------------------------------------


def turned(seed):
    rng = np.random.default_rng(seed)
    return rotation(tuple(rng.uniform(-3, 3, 3))), rng.uniform(-1, 1, 3)


@given(st.integers(0, 10_000), st.tuples(*[st.floats(0.05, 2)] * 3))
@settings(max_examples=60, deadline=None)
def test_the_box_around_a_rotated_box_is_that_box(seed, size):
    turn, center = turned(seed)
    fit = fit_box(convex_hull(CORNERS * size @ turn.T + center))
    assert sorted(fit.size) == pytest.approx(sorted(size), rel=1e-6)
    assert fit.center == pytest.approx(center, abs=1e-7)
    assert np.linalg.det(fit.turn) == pytest.approx(1)


@pytest.mark.parametrize(("radius", "length"), [(0.1, 0.5), (0.4, 0.1), (0.2, 0.4)])
def test_the_cylinder_around_a_rotated_prism_passes_through_its_corners(radius, length):
    turn, center = turned(3)
    angle = np.arange(32) * 2 * np.pi / 32
    ring = np.stack([radius * np.cos(angle), radius * np.sin(angle)], 1)
    points = np.concatenate([np.column_stack([ring, np.full(32, z)]) for z in (-length / 2, length / 2)])
    hull = convex_hull(points @ turn.T + center)
    assert hull.volume == pytest.approx(16 * radius**2 * math.sin(2 * np.pi / 32) * length)
    fit = fit_cylinder(hull)
    assert fit.size == pytest.approx((radius, length), rel=1e-6)
    assert fit.center == pytest.approx(center, abs=1e-6)
    assert fit.volume == pytest.approx(math.pi * radius**2 * length, rel=1e-6)


@given(st.integers(0, 10_000), st.integers(5, 60))
@settings(max_examples=60, deadline=None)
def test_fitted_shapes_contain_all_points(seed, count):
    points = np.random.default_rng(seed).normal(size=(count, 3)) * [1, 0.5, 0.1]
    hull = convex_hull(points)
    box, cylinder = fit_box(hull), fit_cylinder(hull)
    assert (np.abs((points - box.center) @ box.turn) <= np.array(box.size) / 2 + 1e-9).all()
    local = (points - cylinder.center) @ cylinder.turn
    assert (np.hypot(local[:, 0], local[:, 1]) <= cylinder.size[0] + 1e-9).all()
    assert (np.abs(local[:, 2]) <= cylinder.size[1] / 2 + 1e-9).all()
    assert (
        hull.volume < box.volume <= np.prod(np.ptp(points, axis=0)) + 1e-12
    )  # at most as large as the axis-aligned box
    assert hull.volume < cylinder.volume


@given(st.lists(st.tuples(st.floats(-9, 9), st.floats(-9, 9)), min_size=1, max_size=12))
@example([(2.2250738585e-313, 0.0), (0.0, 0.0), (2.2250738585e-313, 1.0)])
@settings(max_examples=100, deadline=None)
def test_the_enclosing_circle_is_the_smallest(points):
    points = np.array(points)
    _, radius = enclosing_circle(points)
    best = math.inf  # over all circles through two or three of the points
    candidates = [(points[0], 0.0)]
    for i in range(len(points)):
        for j in range(i):
            candidates.append(((points[i] + points[j]) / 2, 0.0))
            for k in range(j):
                system = 2 * np.array([points[i] - points[k], points[j] - points[k]])
                determinant = system[0, 0] * system[1, 1] - system[0, 1] * system[1, 0]
                if abs(determinant) > 1e-9:
                    sides = (points[[i, j]] ** 2).sum(1) - (points[k] ** 2).sum()
                    candidates.append((np.linalg.solve(system, sides), 0.0))
    for center, _ in candidates:
        best = min(best, float(np.linalg.norm(points - center, axis=1).max()))
    assert radius == pytest.approx(best, abs=1e-6)


@given(st.tuples(*[st.floats(-3.1, 3.1)] * 3))
def test_roll_pitch_yaw_is_the_inverse_of_rotation(rpy):
    assert rotation(roll_pitch_yaw(rotation(rpy))) == pytest.approx(rotation(rpy), abs=1e-6)


@pytest.mark.parametrize("pitch", [math.pi / 2, -math.pi / 2])
def test_roll_pitch_yaw_in_gimbal_lock(pitch):
    assert rotation(roll_pitch_yaw(rotation((0.3, pitch, -0.8)))) == pytest.approx(rotation((0.3, pitch, -0.8)))


def test_replacements_of_spheres_and_capsules_have_the_expected_volume():
    sphere, capsule = (
        f"<collision><geometry><{shape}/></geometry></collision>"
        for shape in ('sphere radius="0.2"', 'capsule radius="0.04" length="0.3"')
    )
    robot = f'<robot name="r"><link name="a">{inertial()}{sphere}{capsule}{BOX}</link></robot>'
    for by, cube, cuboid in (
        ("box", 6 / math.pi, 0.08**2 * 0.38 / (math.pi * (0.04**2 * 0.3 + 4 / 3 * 0.04**3))),
        ("cylinder", 1.5, 0.04**2 * 0.38 / (0.04**2 * 0.3 + 4 / 3 * 0.04**3)),
    ):
        model = read_urdf(robot, approximate=by)
        first, second = model.report.replacements
        assert (first.shape, second.shape, first.by, first.link, first.line) == ("sphere", "capsule", by, "a", 1)
        assert first.error == pytest.approx(cube - 1)
        assert second.error == pytest.approx(cuboid - 1)
        kinds = [geom.type for geom in model.spec().geoms]
        kind = {"box": mujoco.mjtGeom.mjGEOM_BOX, "cylinder": mujoco.mjtGeom.mjGEOM_CYLINDER}[by]
        assert kinds == [kind, kind, mujoco.mjtGeom.mjGEOM_BOX]
        text = str(model.report).split("\n")
        assert text[0] == "URDF 'r': 2 collision shapes replaced"
        assert text[2].endswith(f"{100 * (cube - 1):+.1f}%")


@pytest.mark.parametrize("by", ["box", "cylinder"])
def test_the_replacement_of_a_mesh_encloses_it_in_place(tmp_path, by):
    turn, center = turned(7)
    points = CORNERS * [0.1, 0.2, 0.5] @ turn.T + 0.3 * center
    write_obj(tmp_path / "part.obj", points)
    (tmp_path / "r.urdf").write_text(with_mesh("part.obj", '<origin xyz="1 2 3" rpy="0.4 -0.5 0.6"/>', "1 1 2"))
    model = read_urdf(tmp_path / "r.urdf", approximate=by)
    (replacement,) = model.report.replacements
    assert (replacement.file, replacement.line, model.assets) == ("part.obj", 2, {})
    assert replacement.before == pytest.approx(0.1 * 0.2 * 0.5 * 2, rel=1e-5)
    compiled = model.spec().compile()
    data = mujoco.MjData(compiled)
    mujoco.mj_forward(compiled, data)
    corners = (points * [1, 1, 2]) @ rotation((0.4, -0.5, 0.6)).T + [1, 2, 3]
    local = np.abs((corners - data.geom_xpos[0]) @ data.geom_xmat[0].reshape(3, 3))
    if by == "box":
        assert (local <= compiled.geom_size[0] + 1e-5).all()
    else:
        assert (np.hypot(local[:, 0], local[:, 1]) <= compiled.geom_size[0, 0] + 1e-5).all()
        assert (local[:, 2] <= compiled.geom_size[0, 1] + 1e-5).all()


# -- the registry -----------------------------------------------------------------------------------------------------


def test_a_name_can_be_registered_once(new):
    register_urdf(new, ARM)
    register_urdf(new, ARM)  # the same robot again
    assert new in registered()
    with pytest.raises(sn.errors.DuplicateNameError, match="replace=True"):
        register_urdf(new, BLOCK)
    assert len(make(new).link_names) == 6
    register_urdf(new, BLOCK, replace=True)
    assert find(new).model.report.name == "block"
    with pytest.raises(sn.OptionError, match="no actuators"):
        make(new)
    with pytest.raises(sn.errors.NameNotFoundError, match=f"did you mean '{new}'"):
        make(new[:-1])
    with pytest.raises(sn.errors.ModelError, match=f"did you mean '{new}'"):
        sn.Scene().add_robot(new[:-1])


def test_registered_options_are_defaults(new):
    group = MoveGroup(
        name="arm",
        kind="arm",
        joints=("shoulder", "elbow"),
        tcp="tool",
        home=(0.5, 1.0),
        controller="joint_position",
    )
    register_urdf(new, ARM, move_groups=[group], radius=0.7)
    scene = sn.Scene(dt=0.02, substeps=10)
    robot = scene.add_robot(new, name="robot")
    other = scene.add_robot(new, name="other", radius=0.9, pos=(2, 0, 0))
    scene.build()
    assert (robot.radius, other.radius) == (0.7, 0.9)
    robot.act([-0.4, 0.8])
    scene.step(100)
    assert robot.groups["arm"].qpos[0] == pytest.approx([-0.4, 0.8], abs=0.02)
    again = type(robot)(robot.options)
    assert again.options.model == robot.options.model


def test_contents_contain_registered_robots(new):
    register_urdf(new, ARM)
    scene = sn.Scene()
    scene.add_robot(new, name="left")
    scene.add_robot(new, name="right", pos=(1, 0, 0))
    contents = json.loads(json.dumps(scene.contents))
    register_urdf(new, BLOCK, replace=True)
    again = sn.Scene.from_contents(contents)
    for each in (scene, again):
        each.build()
        each.step(20)
    assert (again.world.get_state() == scene.world.get_state()).all()


# -- robots of other projects -----------------------------------------------------------------------------------------


def shipped(path):
    try:
        file = importlib.metadata.distribution("example-robot-data").locate_file(
            "cmeel.prefix/share/example-robot-data"
        )
    except importlib.metadata.PackageNotFoundError:
        pytest.skip("example-robot-data is not installed")
    return Path(str(file)) / "robots" / path


ATTRIBUTES = ["D", "K", "mu_coulomb", "mu_viscous"]


@pytest.mark.parametrize(
    ("path", "joints", "options"),
    [
        ("ur_description/urdf/ur5_robot.urdf", 6, {"visuals": False}),
        ("panda_description/urdf/panda.urdf", 9, {"visuals": False, "ignore": [f"dynamics@{a}" for a in ATTRIBUTES]}),
        ("solo_description/robots/solo12.urdf", 12, {"free": True, "ignore": ["contact", "collision/material"]}),
        ("z1_description/urdf/z1.urdf", 7, {"visuals": False}),
    ],
)
def test_real_robots(path, joints, options, new):
    file = shipped(path)
    plain = register_urdf(f"{new}_plain", file, **options)
    assert plain.replacements == ()
    model = find(f"{new}_plain").model.spec().compile()
    reference = mujoco.MjSpec.from_string(_for_mujoco(file)).compile()
    assert (model.jnt_type != mujoco.mjtJoint.mjJNT_FREE).sum() == joints
    for joint in range(reference.njnt):
        name = reference.joint(joint).name
        assert model.joint(name).range == pytest.approx(reference.joint(joint).range, abs=1e-5)
        assert model.joint(name).axis == pytest.approx(reference.joint(joint).axis, abs=1e-5)
    assert model.body_mass.sum() == pytest.approx(reference.body_mass.sum(), rel=1e-5)
    for by in ("box", "cylinder"):
        report = register_urdf(f"{new}_{by}", file, approximate=by, **options)
        assert report.replacements
        assert all(each.error > -1e-6 for each in report.replacements)
        simple = find(f"{new}_{by}").model.spec().compile()
        hulls = simple.geom_type[simple.geom_contype > 0] == mujoco.mjtGeom.mjGEOM_MESH
        assert not hulls.any()
    scene = sn.Scene()
    robot = scene.add_robot(f"{new}_box", name="robot")
    scene.build(n_envs=2)
    robot.act(np.zeros(robot.n_actions))
    scene.step(20)
    assert np.isfinite(scene.world.get_state().numpy()).all()


def _for_mujoco(file):
    """Return the file without shapes, which MuJoCo can load by itself."""
    import xml.etree.ElementTree as ET

    root = ET.parse(file).getroot()
    for link in root.iter("link"):
        for shape in [*link.findall("visual"), *link.findall("collision")]:
            link.remove(shape)
        mass = link.find("inertial/mass")
        if mass is not None and float(mass.get("value")) == 0:
            link.remove(link.find("inertial"))
    compiler = ET.SubElement(ET.SubElement(root, "mujoco"), "compiler")
    compiler.set("fusestatic", "false")
    return ET.tostring(root, encoding="unicode")
