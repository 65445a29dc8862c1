"""Robots: actions, state, models of users, ``scene.add_robot``, and sensor rigs."""

import json
import math

import mujoco
import numpy as np
import pytest
import torch
from gl import needs_gl

import sensorium as sn
from sensorium.robots import Action, Robot, RobotOptions, SensorRig, make, names
from sensorium.sensors.options import SensorOptions

BARE = SensorRig()
CART = """
<mujoco model="cart"><worldbody><body name="chassis" pos="0 0 0.1"><freejoint/>
  <geom type="box" size="0.2 0.1 0.03" mass="5"/>
  <geom type="sphere" size="0.05" pos="-0.15 0 -0.05" condim="1" priority="1" mass="0.1"/>
  <geom type="sphere" size="0.05" pos="0.15 0 -0.05" condim="1" priority="1" mass="0.1"/>
  <body name="l" pos="0 0.2 0"><joint name="l" axis="0 1 0"/><geom type="sphere" size="0.1" mass="0.5"/></body>
  <body name="r" pos="0 -0.2 0"><joint name="r" axis="0 1 0"/><geom type="sphere" size="0.1" mass="0.5"/></body>
</body></worldbody>
<actuator><velocity name="vl" joint="l" kv="2"/><velocity name="vr" joint="r" kv="2" ctrlrange="-5 5"/></actuator>
</mujoco>
"""
CART_ACTIONS = [
    {"name": "forward", "limits": (-1, 1), "actuators": {"vl": 10, "vr": 10}},
    {"name": "turn", "limits": (-2, 2), "actuators": {"vl": -2, "vr": 2}},
]


def flat(robot, n_envs=1, **build):
    """Return a scene with a robot on a plane, and the robot."""
    scene = sn.Scene()
    scene.add_terrain(sn.Plane(), name="ground")
    robot = scene.add_robot(make(robot, rig=BARE) if isinstance(robot, str) else robot, name="robot")
    scene.build(n_envs=n_envs, **build)
    return scene, robot


def heading(robot):
    """Return the yaw of env 0, rad."""
    w, x, y, z = robot.get_pose()[1][0].tolist()
    return math.atan2(2 * (w * z + x * y), 1 - 2 * (y * y + z * z))


# -- actions ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("name", "axis"), [("diffdrive", 0), ("holonomic", 0), ("holonomic", 1)])
def test_robots_drive_at_the_commanded_speed(name, axis):
    scene, robot = flat(name)
    action = [0.0] * robot.n_actions
    action[robot.action_names.index(("forward", "left")[axis])] = 1.0
    robot.act(action)
    scene.step(200)
    start = robot.get_pose()[0][0].clone()
    assert start[axis] == pytest.approx(2.0, rel=0.055)  # it accelerates first
    scene.step(200)
    way = robot.get_pose()[0][0] - start
    assert way[axis] == pytest.approx(2.0, rel=0.01)
    assert abs(way[1 - axis]) < 0.02
    assert robot.get_velocity()[0][0, axis] == pytest.approx(1.0, rel=0.01)
    assert abs(heading(robot)) < 0.01


@pytest.mark.parametrize("name", ["diffdrive", "holonomic"])
@pytest.mark.parametrize("rate", [1.0, -2.0])
def test_robots_turn_on_the_spot_at_the_commanded_rate(name, rate):
    scene, robot = flat(name)
    robot.act([*[0.0] * (robot.n_actions - 1), rate])
    scene.step(50)
    before = heading(robot)
    scene.step(100)
    turned = (heading(robot) - before + math.pi) % (2 * math.pi) - math.pi
    assert turned == pytest.approx((rate + math.pi) % (2 * math.pi) - math.pi, rel=0.01)
    assert robot.get_velocity()[1][0, 2] == pytest.approx(rate, rel=0.01)
    assert robot.get_pose()[0][0, :2].norm() < 0.02


def test_forward_and_turn_drive_a_circle_that_wheel_odometry_measures():
    scene = sn.Scene()
    scene.add_terrain(sn.Plane())
    robot = scene.add_robot("diffdrive", name="robot")
    scene.build()
    for _ in range(100):  # gently, so that no wheel slips
        robot.act([min(0.5, scene.time.item()), min(1.0, scene.time.item())])
        scene.step()
    centre = robot.get_pose()[0][0, :2].numpy() + 0.5 * np.array([-math.sin(heading(robot)), math.cos(heading(robot))])
    for _ in range(40):
        scene.step(10)
        away = np.hypot(*(robot.get_pose()[0][0, :2].numpy() - centre))
        assert away == pytest.approx(0.5, abs=0.02)
    odometry = robot.rig["odometry"].read()
    assert odometry.pos[0].numpy() == pytest.approx(robot.get_pose()[0][0, :2].numpy(), abs=0.03)
    assert float(odometry.yaw[0, 0]) % (2 * math.pi) == pytest.approx(heading(robot) % (2 * math.pi), abs=0.05)


def test_holonomic_velocities_are_in_the_base_frame():
    scene, robot = flat(make("holonomic", rig=BARE, yaw=math.pi / 2, pos=(1, 2, 0)))
    robot.act([0.5, 0.25, 0.0])
    scene.step(200)
    assert robot.get_velocity()[0][0, :2].tolist() == pytest.approx([-0.25, 0.5], abs=0.01)
    position = robot.get_pose()[0][0]
    assert position[0] < 0.6
    assert position[1] > 2.8


def test_actions_are_clipped_and_kept_per_env():
    scene, robot = flat("diffdrive", n_envs=3)
    robot.act([[0.5, 0.0], [99.0, -99.0], [0.0, 0.0]])
    assert robot.action.value.tolist() == [[0.5, 0.0], [1.0, -2.0], [0.0, 0.0]]
    robot.act([[-0.25, 1.0]], envs=[2])
    assert robot.action.value.tolist() == [[0.5, 0.0], [1.0, -2.0], [-0.25, 1.0]]
    ctrl = scene.world.bind("ctrl")
    assert ctrl[0].tolist() == pytest.approx([0.5 / 0.08] * 2)
    assert ctrl[2].tolist() == pytest.approx([(-0.25 - 0.18) / 0.08, (-0.25 + 0.18) / 0.08])
    for bad, message in (
        ([1.0], "shape"),
        ([[1.0, 0.0]] * 2, "shape"),
        ([math.nan, 0.0], "finite"),
    ):
        with pytest.raises(sn.OptionError, match=message):
            robot.act(bad)
    assert robot.action.value[0].tolist() == [0.5, 0.0]
    assert robot.action_limits.tolist() == [[-1, 1], [-2, 2]]


def test_actions_give_the_same_bits_in_any_batch_size():
    actions = torch.rand(7, 3, generator=torch.Generator().manual_seed(0)) * 2 - 1
    ends = []
    for rows in (slice(0, 7), slice(3, 4)):
        scene, robot = flat("holonomic", n_envs=len(actions[rows]))
        robot.act(actions[rows])
        scene.step(30)
        ends.append(scene.get_state())
    assert torch.equal(ends[0][3:4], ends[1])


# -- state ------------------------------------------------------------------------------------------------------------


def test_buffers_contain_the_state_and_write_it_back():
    scene, robot = flat("diffdrive", n_envs=2)
    robot.act([0.6, 1.0])
    scene.step(80)
    scene.update_state()
    state = {
        name: value.clone()
        for name, value in scene.state_dict(include_tags=["state", "action"]).items()
        if name != "physics"  # the full state would restore the robot too
    }
    wanted = ["position", "orientation", "linear_velocity", "angular_velocity", "joint_positions", "joint_velocities"]
    assert sorted(state) == sorted(f"robot.{name}" for name in [*wanted, "action"])
    qvel = scene.world.bind("qvel")
    assert state["robot.linear_velocity"][0].tolist() == pytest.approx(qvel[0, :3].tolist(), abs=1e-5)
    assert state["robot.angular_velocity"][0, 2].item() == pytest.approx(qvel[0, 5].item(), abs=1e-4)
    assert state["robot.joint_velocities"].shape == (2, 2)
    assert torch.equal(state["robot.action"], torch.tensor([[0.6, 1.0]] * 2))
    scene.reset()
    scene.load_state_dict(state, strict=False)
    scene.write_replay_data()
    position, quat = robot.get_pose()
    assert position[0].tolist() == pytest.approx(state["robot.position"][0].tolist(), abs=1e-6)
    assert quat[1].tolist() == pytest.approx(state["robot.orientation"][1].tolist(), abs=1e-6)


def test_place_and_radius():
    scene, robot = flat("diffdrive", n_envs=3)
    robot.place([[1.0, 2.0], [-1.0, 0.5]], [0.5, -0.5], envs=[2, 0])
    scene.forward()
    position, quat = robot.get_pose()
    assert position[2].tolist() == [1.0, 2.0, 0.0]
    assert position[1].tolist() == [0.0, 0.0, 0.0]
    assert quat[0].tolist() == pytest.approx([math.cos(0.25), 0, 0, -math.sin(0.25)])
    fixed = make(CART.replace("<freejoint/>", ""), actions=CART_ACTIONS)
    scene, fixed = flat(fixed)
    with pytest.raises(sn.OptionError, match="fixed base"):
        fixed.place([0, 0], 0.0)
    assert fixed.radius == pytest.approx(math.hypot(0.1, 0.3))  # the corner of a box around a wheel
    for name in names():
        robot = make(name, rig=BARE)
        assert robot.radius <= make(name, rig=BARE, radius=None).radius


# -- models of users --------------------------------------------------------------------------------------------------


def test_a_model_file_with_actions_and_a_rig_is_a_robot(tmp_path):
    file, rig = tmp_path / "cart.xml", tmp_path / "rig.yaml"
    file.write_text(CART)
    rig.write_text(
        "sensors: [{name: imu, type: IMU, mount: {pos: [0, 0, 0.1]}}, {name: l, type: Contact, mount: {link: l}}]"
    )
    robot = make(file, base="chassis", actions=CART_ACTIONS, rig=str(rig))
    scene, robot = flat(robot, n_envs=2)
    robot.act([0.5, 0.0])
    scene.step(200)
    assert robot.get_velocity()[0][0, 0] == pytest.approx(0.5, rel=0.02)
    assert robot.rig["imu"].read().lin_acc.shape == (2, 3)
    assert robot.rig.names == ["imu", "l"]
    names = {name for name, _ in scene.named_buffers()}
    assert {"robot.rig.imu.measured", "robot.position", "robot.action"} <= names
    assert scene.sensors["robot_imu"] is robot.rig["imu"]


def test_two_robots_of_a_kind_are_independent():
    scene = sn.Scene()
    scene.add_terrain(sn.Plane())
    first = scene.add_robot("diffdrive", name="first")
    second = scene.add_robot("diffdrive", name="second", pos=(0, 2, 0))
    scene.build()
    first.act([0.5, 0.0])
    scene.step(100)
    assert first.get_pose()[0][0, 0] > 0.3
    assert abs(second.get_pose()[0][0, 0]) < 0.01
    assert first.rig["odometry"].read().pos[0, 0] > 0.3
    assert abs(second.rig["odometry"].read().pos[0, 0]) < 0.01


def test_options_contain_the_meshes_of_the_model(tmp_path):
    (tmp_path / "parts").mkdir()
    corners = [(x, y, z) for x in (-0.1, 0.1) for y in (-0.1, 0.1) for z in (-0.1, 0.1)]
    faces = [(0, 1, 3, 2), (4, 6, 7, 5), (0, 4, 5, 1), (2, 3, 7, 6), (0, 2, 6, 4), (1, 5, 7, 3)]
    lines = [f"v {x} {y} {z}" for x, y, z in corners] + ["f " + " ".join(str(i + 1) for i in face) for face in faces]
    (tmp_path / "parts" / "box.obj").write_text("\n".join(lines))
    model = """<mujoco><compiler meshdir="parts"/><asset><mesh name="box" file="box.obj"/></asset>
      <worldbody><body name="base" pos="0 0 0.1"><joint name="x" type="slide" axis="1 0 0"/>
      <geom type="mesh" mesh="box"/></body></worldbody>
      <actuator><motor name="push" joint="x" ctrlrange="-3 3"/></actuator></mujoco>"""
    (tmp_path / "slider.xml").write_text(model)
    options = make(tmp_path / "slider.xml").options
    saved = json.dumps(options.model_dump(mode="json"))
    (tmp_path / "slider.xml").unlink()
    (tmp_path / "parts" / "box.obj").unlink()
    robot = Robot(RobotOptions(**json.loads(saved)))
    assert robot.options == options
    assert robot.action_names == ["push"]
    assert robot.action_limits.tolist() == [[-3.0, 3.0]]
    assert robot.radius == pytest.approx(math.hypot(0.1, 0.1))
    scene, robot = flat(robot)
    robot.act([3.0])
    scene.step(20)
    assert scene.model.nmesh == 1
    assert robot.get_pose()[0][0, 0] > 0

    (tmp_path / "arm.urdf").write_text(
        '<robot name="arm"><link name="base"><inertial><mass value="1"/><inertia ixx="1" ixy="0" ixz="0" iyy="1" '
        'iyz="0" izz="1"/></inertial><visual><geometry><box size="0.2 0.2 0.2"/></geometry></visual></link></robot>'
    )
    with pytest.raises(sn.OptionError, match=r"base must name|no actuators"):
        make(tmp_path / "arm.urdf")


@pytest.mark.parametrize(
    ("model", "options", "error", "message"),
    [
        ("difdrive", {}, sn.errors.NameNotFoundError, "did you mean 'diffdrive'"),
        ("nowhere/cart.xml", {}, sn.errors.NameNotFoundError, "no robot or model file"),
        (CART, {}, sn.OptionError, "'vl' has no ctrlrange"),
        (CART, {"base": "chasis", "actions": CART_ACTIONS}, sn.errors.NameNotFoundError, "did you mean 'chassis'"),
        (
            CART,
            {"actions": [{"name": "go", "limits": (0, 1), "actuators": {"v1": 1}}]},
            sn.errors.NameNotFoundError,
            "'vl'",
        ),
        (CART, {"actions": [{"name": "go", "limits": (1, 0), "actuators": {"vl": 1}}]}, sn.OptionError, "min < max"),
        (CART, {"actions": [{"name": "go", "limits": (0, 1), "actuators": {}}]}, sn.OptionError, "at least one"),
        (CART, {"actions": CART_ACTIONS[:1] * 2}, sn.OptionError, "name of its own"),
        (CART, {"actions": CART_ACTIONS, "rig": "difdrive"}, sn.errors.NameNotFoundError, "did you mean 'diffdrive'"),
        (CART, {"actions": CART_ACTIONS, "rig": "gone.yaml"}, sn.OptionError, "no rig file"),
        ("diffdrive", {"color": "red"}, sn.OptionError, "has no option 'color'"),
    ],
)
def test_invalid_robots_raise(model, options, error, message):
    with pytest.raises(error, match=message):
        make(model, **options)


# -- scene.add_robot --------------------------------------------------------------------------------------------------


PENDULUM = """
<mujoco model="pendulum"><worldbody><body name="rod" pos="0 0 1.23456789"><joint name="hinge" axis="0 1 0"/>
  <geom type="capsule" fromto="0 0 0 0.3 0 0" size="0.02"/></body></worldbody>
<actuator><motor name="torque" joint="hinge"/></actuator></mujoco>
"""


def pendulums(tmp_path):
    """Return the pendulum as text, file, path and spec."""
    (tmp_path / "pendulum.xml").write_text(PENDULUM)
    spec = mujoco.MjSpec.from_string(PENDULUM)
    return PENDULUM, str(tmp_path / "pendulum.xml"), tmp_path / "pendulum.xml", spec


def test_add_robot_returns_a_robot_for_every_kind_of_model(tmp_path):
    scene = sn.Scene()
    robots = [scene.add_robot(model, pos=(0, number, 0)) for number, model in enumerate(pendulums(tmp_path))]
    robots += [scene.add_robot("diffdrive", rig=BARE), scene.add_robot(make("diffdrive", rig=BARE), pos=(3, 0, 0))]
    assert all(isinstance(robot, Robot) for robot in robots)
    assert [robot.name for robot in robots] == [
        *("pendulum", "pendulum_2", "pendulum_3", "pendulum_4"),
        *("diffdrive", "diffdrive_2"),
    ]
    assert list(scene.modules) == list(scene.entities) == [robot.name for robot in robots]
    scene.build(n_envs=2)
    for number, robot in enumerate(robots[:4]):
        assert robot.entity is scene.entities[robot.name]
        assert scene[robot.name] is robot
        assert robot.get_pose()[0][1].tolist() == pytest.approx([0, number, 1.23456789])
        assert (robot.joint_names, robot.actuator_names, robot.action_names) == (["hinge"], ["torque"], ["torque"])
        assert robot.rig.names == []
    assert robots[5].get_pose()[0][0].tolist() == pytest.approx([3, 0, 0])


def test_a_robot_of_a_model_acts_and_has_state():
    scene = sn.Scene(dt=0.01)
    robot = scene.add_robot(PENDULUM, name="arm")
    scene.build(n_envs=3)
    assert robot.action_limits.tolist() == [[-math.inf, math.inf]]  # its actuator has no ctrlrange
    robot.act([[1.0], [100.0], [0.0]])
    assert scene.world.bind("ctrl")[:, 0].tolist() == [1.0, 100.0, 0.0]
    robot.set_ctrl(2.0, envs=[2])
    assert scene.world.bind("ctrl")[:, 0].tolist() == [1.0, 100.0, 2.0]
    scene.reset()
    robot.set_joint_positions(0.5)
    robot.set_joint_velocities([[1.0], [2.0], [3.0]])
    scene.forward()
    scene.update_state()
    state = scene.state_dict(exclude_tags=["physics"])
    assert sorted(state) == sorted(
        f"arm.{name}"
        for name in (
            *("position", "orientation", "linear_velocity", "angular_velocity", "joint_positions"),
            *("joint_velocities", "ctrl", "action"),
        )
    )
    assert state["arm.joint_positions"].tolist() == [[0.5]] * 3
    assert torch.equal(state["arm.joint_velocities"], robot.get_joint_velocities())
    assert state["arm.angular_velocity"][:, 1].tolist() == pytest.approx([1.0, 2.0, 3.0])
    assert scene.state_dict(include_tags=["robot"]).keys() == {
        *("arm.position", "arm.orientation", "arm.joint_positions", "arm.joint_velocities", "arm.ctrl")
    }


def test_placement_of_robots():
    quat = (math.cos(0.3), math.sin(0.3), 0.0, 0.0)
    scene = sn.Scene(gravity=(0, 0, 0))
    tilted = scene.add_robot(PENDULUM, name="tilted", quat=quat)
    free = scene.add_robot(
        PENDULUM.replace('<joint name="hinge" axis="0 1 0"/>', "").split("<actuator>")[0] + "</mujoco>",
        name="free",
        pos=(5, 0, 0),
        free=True,
    )
    turned = scene.add_robot(make("mobile_franka", pos=(1, 1, 0)), name="turned", euler=(0, 0, 0.5))
    scene.build()
    assert tilted.get_pose()[1][0].tolist() == pytest.approx(quat)
    free.set_pose(pos=(7, 0, 0))
    assert free.get_pose()[0][0].tolist() == pytest.approx([7, 0, 0])
    free.place((8, 1), 0.0)
    assert free.get_pose()[0][0, :2].tolist() == pytest.approx([8, 1])
    assert turned.base_pose()[0, :2] == pytest.approx([1, 1])  # keeps the position of its options
    turned.place((2.0, 3.0), -0.25)
    base = turned.base_pose()[0]
    assert base[:2] == pytest.approx([2, 3])
    assert 2 * math.atan2(base[6], base[3]) == pytest.approx(-0.25)


def test_robots_without_actuators_or_with_several_roots():
    two = """<mujoco><worldbody><body><joint/><geom size="0.1"/></body><body pos="1 0 0"><geom size="0.1"/></body>
      </worldbody></mujoco>"""
    scene = sn.Scene()
    robot = scene.add_robot(two, name="two")
    scene.build(n_envs=2)
    assert (robot.n_actions, robot.action.value.shape, robot.joint_names) == (0, (2, 0), ["joint0"])
    robot.set_home()
    with pytest.raises(sn.OptionError, match="has no actions"):
        robot.act([])
    for call in (robot.get_pose, robot.get_velocity, robot.base_pose):
        with pytest.raises(sn.OptionError, match="must have one root link"):
            call()
    with pytest.raises(sn.OptionError, match="no base link"):
        _ = robot.radius
    scene.update_state()
    assert not hasattr(robot, "position")
    with pytest.raises(sn.OptionError, match="limited actions"):
        sn.scenarios.make("random-acceleration", scene, robot)


def test_contents_keep_a_model_exactly(tmp_path):
    """A file stays a file, and text stays text: neither is rounded to the six digits of a saved spec."""
    scene = sn.Scene()
    for number, model in enumerate(pendulums(tmp_path)[:3]):
        scene.add_robot(model, name=f"arm{number}", pos=(0, number, 0), euler=(0, 0, 0.1), free=False)
    scene.add_robot("diffdrive", name="car", rig=BARE, pos=(1, 2, 3))
    contents = json.loads(json.dumps(scene.contents))
    assert [entry["call"] for entry in contents] == ["add_robot"] * 3 + ["add_module"]
    assert [list(entry["model"]) for entry in contents[:3]] == [["xml", "assets"], ["file"], ["file"]]
    again = sn.Scene.from_contents(contents)
    for each in (scene, again):
        each.build(n_envs=2)
        each.step(10)
    assert torch.equal(scene.get_state(), again.get_state())
    assert scene.model.body("arm1/rod").pos[2] == 1.23456789
    assert [type(module) for module in again.modules.values()] == [type(module) for module in scene.modules.values()]


def test_contents_of_earlier_versions_can_be_loaded():
    """Robots were entities without a module, and primitives could be added as robots."""
    box = {"type": "sensorium.worlds.primitives:Box", "options": {"size": [0.1, 0.1, 0.1]}}
    action = {"name": "torque", "limits": [-1.0, 1.0], "actuators": {"mapping": {"torque": 2.0}}}
    options = {
        "model": PENDULUM,
        "base": "rod",
        "actions": [{"type": "sensorium.robots.robot:Action", "options": action}],
        "rig": {"type": "sensorium.robots.rig:SensorRig", "options": {}},
    }
    part = {
        "part": "sensorium.robots.robot:Robot",
        "options": {"type": "sensorium.robots.robot:RobotOptions", "options": options},
    }
    contents = [
        {"call": "add_robot", "model": {"xml": PENDULUM, "assets": {}}, "name": "arm", "pos": [0, 0, 1]},
        {"call": "add_robot", "model": box, "name": "box", "pos": [2, 0, 1]},
        {"call": "add_module", "name": "other", "part": part},
    ]
    scene = sn.Scene.from_contents(contents)
    scene.build()
    assert list(scene.entities) == ["arm", "box", "other"]
    assert list(scene.modules) == ["arm", "other"]
    assert scene.entities["box"].kind == "robot"
    assert scene.modules["other"].action_limits.tolist() == [[-1.0, 1.0]]


def test_invalid_robots_raise_and_leave_the_scene_as_it_was():
    class Nested(sn.SceneModule[sn.Options]):
        def attach(self, scene, name):
            scene.add_robot("diffdrive")

    scene = sn.Scene()
    robot = make("diffdrive", rig=BARE)
    with pytest.raises(sn.NotBuiltError, match=r"scene\.add_robot"):
        _ = robot.entity
    scene.add_robot(robot)
    contents = scene.contents
    for call, error, words in (
        (lambda: scene.add_robot(sn.Box()), sn.OptionError, r"got sn\.Box; use add_object"),
        (lambda: scene.add_robot("difdrive"), sn.errors.ModelError, "did you mean 'diffdrive'"),
        (lambda: scene.add_robot(robot, pos=(5, 0, 0)), sn.errors.DuplicateNameError, "already in a scene"),
        (lambda: scene.add_robot(make("diffdrive"), rig=BARE), sn.OptionError, r"give 'rig' to sn\.robots\.make"),
        (lambda: scene.add_robot("diffdrive", color="red"), sn.OptionError, "has no option 'color'"),
        (lambda: scene.add_robot(PENDULUM, quat=(1, 0, 0, 0), euler=(0, 0, 0)), sn.OptionError, "not both"),
        (lambda: scene.add_module("nested", Nested()), sn.OptionError, "cannot add robots"),
    ):
        with pytest.raises(error, match=words):
            call()
    assert list(scene.modules) == ["diffdrive"]
    assert scene.contents == contents


def test_a_robot_without_a_scene_cannot_act():
    with pytest.raises(sn.NotBuiltError):
        make("diffdrive", rig=BARE).act([0, 0])


def test_the_catalogue_lists_robots_whose_options_have_a_json_form():
    arms = ["franka", "mobile_franka", "floating_gripper", "bimanual", "yam", "rby1"]
    assert names() == ["diffdrive", "holonomic", "balancer", "quadruped", "humanoid", *arms]
    for name in names():
        options = make(name).options
        assert type(options)(**json.loads(json.dumps(options.model_dump(mode="json")))) == options


# -- rigs -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["diffdrive", "holonomic"])
def test_rigs_of_the_catalogue_are_complete_and_survive_saving(tmp_path, name):
    rig = SensorRig.named(name)
    types = {sensor.name: sensor.type for sensor in rig.sensors}
    assert {"front_left": "Camera", "front_right": "Camera", "lidar": "Lidar", "imu": "IMU"}.items() <= types.items()
    assert "odometry" in types
    rig.save(tmp_path / "rig.yaml")
    assert SensorRig.load(tmp_path / "rig.yaml") == rig
    text = (tmp_path / "rig.yaml").read_text()
    (tmp_path / "rig.yaml").write_text(text.replace("max_range: 12.0", "max_range: 7.5"))  # as a user would edit it
    edited = SensorRig.load(tmp_path / "rig.yaml")
    assert edited != rig
    assert {sensor.name: sensor.options for sensor in edited.sensors}["lidar"]["max_range"] == 7.5


def test_cameras_look_forward_and_mounts_rotate_them():
    rig = SensorRig(
        sensors=[
            {"name": "ahead", "type": "Camera", "mount": {"pos": (0.3, 0, 0.2)}, "options": {"outputs": ("rgb",)}},
            {"name": "left", "type": "Camera", "mount": {"euler": (0, 0, math.pi / 2)}},
            {"name": "down", "type": "Camera", "mount": {"euler": (0, math.pi / 2, 0)}},
        ]
    )
    for entry, axis, up in zip(
        rig.sensors, ([1, 0, 0], [0, 1, 0], [0, 0, -1]), ([0, 0, 1], [0, 0, 1], [1, 0, 0]), strict=True
    ):
        options = entry.resolve("robot", "robot/base", ())
        w, x, y, z = options.quat
        turn = np.array(
            [
                [1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y)],
                [2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x)],
                [2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)],
            ]
        )
        assert turn @ [0, 0, -1] == pytest.approx(axis, abs=1e-9)  # a camera looks along its -z
        assert turn @ [0, 1, 0] == pytest.approx(up, abs=1e-9)
        assert options.link == "robot/base"


@needs_gl
def test_the_stereo_pair_has_the_parallax_of_its_baseline():
    scene = sn.Scene()
    scene.add_terrain(sn.Plane())
    scene.add_object(sn.Sphere(radius=0.1, rgba=(1, 0, 0, 1)), pos=(2.22, 0, 0.16))
    robot = scene.add_robot("diffdrive", name="robot")
    scene.build()
    middles, away = [], []
    for name in ("front_left", "front_right"):
        image = robot.rig[name].read()
        red = (image.rgb[0, ..., 0] > 60) & (image.rgb[0, ..., 1] < 30)
        assert int(red.sum()) > 100
        middles.append(red.nonzero().float().mean(dim=0)[1].item())
        away.append(image.depth[0][red].min().item())
    focal = 120 / math.tan(math.radians(30))
    assert away == pytest.approx([1.9, 1.9], abs=0.01)
    assert middles[0] - middles[1] == pytest.approx(
        focal * 0.12 / 2.0, rel=0.06
    )  # it is farther right in the left image


class Wobble(SensorOptions):
    """A sensor type of a user."""


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("sensors: [{name: a, type: Lydar}]", "did you mean 'Lidar'"),
        ("sensors: [{name: a, type: Scene}]", "no sensor type 'Scene'"),
        ("sensors: [{name: a, type: IMU, options: {acc_nois: 1}}]", "did you mean 'acc_noise'"),
        ("sensors: [{name: a, type: IMU, options: {pos: [0, 0, 1]}}]", "pos belongs under mount"),
        ("sensors: [{name: a, type: IMU, options: {uuid: x}}]", "remove uuid"),
        ("sensors: [{name: a, type: IMU, mount: {po: [0, 0, 1]}}]", "no option 'po'"),
        ("sensors: [{name: a, type: Clock, mount: {link: base}}]", "not mounted on a link"),
        ("sensors: [{name: a, type: Clock, mount: {pos: [0, 0, 1]}}]", "has no pose"),
        ("sensors: [{name: a.b, type: IMU}]", "name"),
        ("sensors: [{name: a, type: IMU}, {name: a, type: Clock}]", "two sensors are named 'a'"),
        ("sensors: [{name: a, typ: IMU}]", "no option 'typ'"),
        ("sensors: [{name: a, type: 'os:path'}]", "must be derived"),
        ("sensors: [{name: a, type: 'nobody.knows:Sensor'}]", "import the module 'nobody.knows' first"),
        ("sensor: []", "did you mean 'sensors'"),
        ("- a", "expected a mapping"),
        ("sensors: [", "not valid YAML"),
    ],
)
def test_errors_of_rig_files_name_the_file(tmp_path, text, message):
    file = tmp_path / "rig.yaml"
    file.write_text(text)
    with pytest.raises(sn.OptionError, match=message) as error:
        SensorRig.load(file)
    assert "rig.yaml" in str(error.value)


def test_rigs_accept_channels_in_every_form(tmp_path):
    def rig(kind, **options):
        return SensorRig(sensors=[{"name": "own", "type": kind, "options": options}])

    pose = rig("FramePose", pos={"noise": 0.1})  # ``pos`` of other sensors belongs under mount
    assert pose.sensors[0].resolve("robot", "base", ()).pos.noise == 0.1
    imu = rig("IMU", acc=sn.Imperfections(noise=0.1, saturation=(None, 9.0)))
    imu.save(tmp_path / "rig.yaml")
    assert SensorRig.load(tmp_path / "rig.yaml") == imu
    short = rig("IMU", acc_noise=0.1, acc_saturation=[None, 9.0])
    assert imu.sensors[0].resolve("robot", "base", ()) == short.sensors[0].resolve("robot", "base", ())


def test_rigs_accept_sensor_types_of_users_and_refuse_unknown_links():
    rig = SensorRig(sensors=[{"name": "own", "type": f"{__name__}:Wobble"}])
    assert isinstance(rig.sensors[0].resolve("robot", "base", ()), Wobble)
    scene = sn.Scene()
    rig = SensorRig(sensors=[{"name": "imu", "type": "IMU", "mount": {"link": "left_weel"}}])
    scene.add_robot("diffdrive", name="robot", rig=rig)
    with pytest.raises(sn.errors.NameNotFoundError, match="did you mean 'left_wheel'"):
        scene.build()
    scene, robot = flat("diffdrive")
    with pytest.raises(sn.errors.NameNotFoundError, match="the rig has no sensor 'imu'"):
        robot.rig["imu"]


@pytest.mark.parametrize("relative_to", ["world", "ground", "wheel"])
def test_names_of_a_rig_can_be_those_of_the_scene(tmp_path, relative_to):
    """``world`` is the world of the scene, not the world body of the robot's own model."""
    (tmp_path / "rig.yaml").write_text(
        "sensors:\n"
        f"  - {{name: pose, type: FramePose, options: {{relative_to: {relative_to.replace('wheel', 'left_wheel')}}}}}\n"
    )
    scene = sn.Scene()
    scene.add_object(sn.Plane(), name="ground", pos=(0, 0, -0.5))
    robot = scene.add_robot("diffdrive", name="robot", rig=tmp_path / "rig.yaml", pos=(1, 2, 0.2))
    scene.build()
    position = robot.get_pose()[0]
    expected = {"world": position, "ground": position + torch.tensor([0, 0, 0.5])}
    wheel = scene.world.bind("xpos")[:, scene.model.body("robot/left_wheel").id].float()
    assert torch.allclose(robot.rig["pose"].read().pos, expected.get(relative_to, position - wheel), atol=1e-6)


def test_actions_can_be_objects():
    robot = make(CART, actions=[Action(**each) for each in CART_ACTIONS])
    assert robot.action_names == ["forward", "turn"]
    assert robot.options.base == "chassis"


@pytest.mark.parametrize("name", ["diffdrive", "franka"])
def test_a_reset_sets_the_action_to_zero(name):
    scene = sn.Scene(dt=0.01, substeps=2)
    scene.add_terrain(sn.Plane())
    robot = scene.add_robot(name, name="robot", rig=SensorRig())
    scene.build(n_envs=3)
    robot.act(robot.action_limits[:, 1].numpy())
    scene.step(2)
    command = robot.action.value.clone()
    assert command.abs().max() > 0
    scene.reset([2, 0])
    assert robot.action.value[[0, 2]].abs().max() == 0
    assert torch.equal(robot.action.value[1], command[1])
    scene.reset(torch.tensor([True, False, True]))
    assert torch.equal(robot.action.value[1], command[1])
    scene.reset(1)
    assert robot.action.value[1].abs().max() == 0
    robot.act(robot.action_limits[:, 1].numpy())
    scene.reset()
    assert robot.action.value.abs().max() == 0


def test_a_driving_robot_accepts_an_action_for_its_move_group():
    scene = sn.Scene(dt=0.01, substeps=2)
    robot = scene.add_robot("diffdrive", name="robot", rig=SensorRig())
    scene.build(n_envs=2)
    robot.act({"base": [0.5, 0.1]})
    assert robot.action.value.tolist() == [pytest.approx([0.5, 0.1])] * 2
    for bad, words in (({"bas": [0.5, 0.1]}, "'bas'.*base"), ({}, "one move group"), ("fast", "numbers, got 'fast'")):
        with pytest.raises((sn.OptionError, sn.errors.NameNotFoundError), match=words):
            robot.act(bad)
    assert robot.action.value.tolist() == [pytest.approx([0.5, 0.1])] * 2


def test_the_base_pose_follows_every_change_of_the_state():
    scene = sn.Scene()
    scene.add_terrain(sn.Plane())
    robot = scene.add_robot(sn.robots.make("quadruped"), name="dog")
    scene.build(n_envs=2)
    seen = []
    for change in (
        scene.step,
        lambda: robot.entity.set_pose(pos=(1.0, 2.0, 3.0), envs=[1]),
        lambda: scene.reset([1]),
        lambda: scene.world.bind("qpos")[0, :3].add_(1.0) is None or scene.forward(),
    ):
        change()
        pose = robot.base_pose()
        body = scene.model.body(f"dog/{robot.options.base}").id
        scene.world.settle()
        np.testing.assert_array_equal(pose[:, :3], scene.world.bind("xpos")[:, body])
        np.testing.assert_array_equal(pose[:, 3:], scene.world.bind("xquat")[:, body])
        seen.append(pose.tobytes())
        pose[:] = 7.0  # the caller owns what it got
        assert not (robot.base_pose() == 7.0).any()
    assert len(set(seen)) == len(seen)


@pytest.mark.parametrize("name", names())
def test_joints_reach_what_can_be_commanded(name):
    scene = sn.Scene(dt=0.02)
    scene.add_robot(name, name="robot")
    scene.build()
    model = scene.model
    is_servo = (model.actuator_trntype == mujoco.mjtTrn.mjTRN_JOINT) & (model.actuator_biasprm[:, 1] < 0)
    for actuator in np.flatnonzero(is_servo & (model.actuator_ctrllimited == 1)):
        joint = model.actuator_trnid[actuator, 0]
        if model.jnt_limited[joint]:
            low, high = model.actuator_ctrlrange[actuator] / model.actuator_gear[actuator, 0]
            assert model.jnt_range[joint, 0] <= low + 1e-6
            assert model.jnt_range[joint, 1] >= high - 1e-6


@pytest.mark.parametrize(("name", "sag"), [("quadruped", 0.035), ("humanoid", 0.01)])
def test_legged_robots_stand_after_a_small_push(name, sag):
    scene = sn.Scene(dt=0.02, substeps=4, integrator="implicitfast")
    scene.add_terrain(sn.Plane())
    robot = scene.add_robot(name, name="robot")
    scene.build(n_envs=2)
    before = robot.base_pose()[:, 2].copy()
    velocity = scene.world.bind("qvel")
    velocity[1, :2] = torch.tensor([0.1, 0.05])
    scene.step(count=250)
    pose = robot.base_pose()
    assert (before - pose[:, 2] < sag).all()
    upright = 1 - 2 * (pose[:, 4] ** 2 + pose[:, 5] ** 2)
    assert (upright > 0.99).all()


def test_a_rig_is_iterated_by_the_names_of_its_sensors():
    scene = sn.Scene(dt=0.02)
    rig = scene.add_robot("quadruped", name="robot").rig
    assert list(rig) == rig.names == ["imu", "attitude", "joints"]
    assert "imu" in rig
    assert "lidar" not in rig
