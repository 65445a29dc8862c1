"""Manipulators: kinematics, controllers, grasping, state, action noise, and models of users."""

import importlib.metadata
import itertools
import json
import math
import os
import time

import mujoco
import numpy as np
import pytest
import torch

import sensorium as sn
from sensorium.cli import main
from sensorium.robots import Manipulator, ManipulatorOptions, MoveGroup, make
from sensorium.robots.kinematic_chain import KinematicChain

ARMS = ["franka", "mobile_franka", "floating_gripper", "bimanual"]
NEAR = (1e-3, math.radians(0.5))
DOWN = (0.0, 1.0, 0.0, 0.0)


def build(robot, n_envs=1, objects=(), seed=0, **options):
    """Return a scene with a robot on a plane and contacts for grasping, at steps of 20 ms, and the robot."""
    scene = sn.Scene(dt=0.02, substeps=10, cone="elliptic", impratio=10)
    scene.add_terrain(sn.Plane(), name="ground")
    robot = scene.add_robot(make(robot, **options) if isinstance(robot, str) else robot, name="robot")
    for name, (shape, pos) in dict(objects).items():
        scene.add_object(shape, name=name, pos=pos, free=True)
    scene.build(n_envs=n_envs, seed=seed)
    return scene, robot


def arms(robot):
    return [group for group in robot.groups.values() if group.description.kind == "arm"]


def turned(first, second):
    """Return the angle between orientations (w, x, y, z), rad."""
    return 2 * np.arccos(np.clip(np.abs((first * second).sum(axis=-1)), 0, 1))


def draw(group, count, seed=0):
    return np.random.default_rng(seed).uniform(group.limits[:, 0], group.limits[:, 1], (count, len(group.limits)))


def in_base(robot, pose):
    """Return poses in the frame of the robot's base."""
    seen = np.empty_like(pose)
    for row, (base, each) in enumerate(zip(robot.base_pose(), pose, strict=True)):
        back = base[3:] * [1, -1, -1, -1]
        mujoco.mju_rotVecQuat(seen[row, :3], each[:3] - base[:3], back)
        mujoco.mju_mulQuat(seen[row, 3:], back, each[3:])
    return seen


def best(call, repeats=30):
    """Return the min duration of a call, s."""
    call()
    return min(_timed(call) for _ in range(repeats))


def _timed(call):
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


# -- kinematics -------------------------------------------------------------------------------------------------------


def random_chain(rng, joints):
    """Return a random chain of hinges and slides on a moving link; some links have two joints, some have none."""
    text, close, made = (
        '<body name="root" pos="1 2 3" quat="1 2 3 4"><joint name="own"/><geom size="0.1"/>',
        "</body>",
        0,
    )
    while made < joints:
        pos, quat = rng.normal(size=3) * 0.3, rng.normal(size=4)
        text += f'<body pos="{_list(pos)}" quat="{_list(quat)}"><geom size="0.05" pos="{_list(rng.normal(size=3))}"/>'
        close += "</body>"
        for _ in range(min(int(rng.integers(0, 3)), joints - made)):
            kind = ("hinge", "slide")[int(rng.random() < 0.3)]
            text += (
                f'<joint name="j{made}" type="{kind}" axis="{_list(rng.normal(size=3))}" '
                f'pos="{_list(rng.normal(size=3) * 0.2)}" ref="{rng.normal() * 0.3}"/>'
            )
            made += 1
    text += f'<site name="tool" pos="{_list(rng.normal(size=3))}" quat="{_list(rng.normal(size=4))}"/>'
    return mujoco.MjModel.from_xml_string(
        f'<mujoco><compiler angle="radian"/><worldbody>{text}{close}</worldbody></mujoco>'
    )


def _list(values):
    return " ".join(repr(float(value)) for value in values)


@pytest.mark.parametrize("seed", range(8))
def test_forward_kinematics_and_jacobians_match_mujoco(seed):
    rng = np.random.default_rng(seed)
    n = int(rng.integers(1, 9))
    model = random_chain(rng, n)
    site = model.site("tool")
    ids = [model.joint(f"j{number}").id for number in range(n)]
    limits = np.tile([-3.0, 3.0], (n, 1))
    chain = KinematicChain(model, ids, limits, np.zeros(n), int(site.bodyid[0]), site.pos, site.quat)
    q = rng.uniform(-3, 3, (20, n))
    poses, jacobians = chain.forward(q)
    data = mujoco.MjData(model)
    linear, angular = np.zeros((3, model.nv)), np.zeros((3, model.nv))
    for row in range(len(q)):
        data.joint("own").qpos = rng.normal()
        for number, joint in enumerate(ids):
            data.qpos[model.jnt_qposadr[joint]] = q[row, number]
        mujoco.mj_kinematics(model, data)
        mujoco.mj_comPos(model, data)
        mujoco.mj_jacSite(model, data, linear, angular, site.id)
        turn, place = data.xmat[chain.root].reshape(3, 3), data.xpos[chain.root]
        assert poses[row, :3] == pytest.approx(turn.T @ (data.site("tool").xpos - place), abs=1e-9)
        own = np.zeros(9)
        mujoco.mju_quat2Mat(own, poses[row, 3:])
        assert own.reshape(3, 3) == pytest.approx(turn.T @ data.site("tool").xmat.reshape(3, 3), abs=1e-9)
        dofs = [model.jnt_dofadr[joint] for joint in ids]
        assert jacobians[row, :3] == pytest.approx(turn.T @ linear[:, dofs], abs=1e-9)
        assert jacobians[row, 3:] == pytest.approx(turn.T @ angular[:, dofs], abs=1e-9)


def test_franka_has_the_published_kinematics():
    """Against the Denavit-Hartenberg parameters of the manufacturer (Craig's convention)."""
    rows = [  # a, d, alpha
        (0, 0.333, 0),
        (0, 0, -math.pi / 2),
        (0, 0.316, math.pi / 2),
        (0.0825, 0, math.pi / 2),
        (-0.0825, 0.384, -math.pi / 2),
        (0, 0, math.pi / 2),
        (0.088, 0, math.pi / 2),
        (0, 0.107 + 0.1034, 0),
    ]
    _, robot = build("franka")
    arm = robot.groups["arm"]
    q = draw(arm, 50)
    poses, _ = arm._chain.forward(q)
    for angles, pose in zip(q, poses, strict=True):
        whole = np.eye(4)
        for (a, d, alpha), theta in zip(rows, [*angles, -math.pi / 4], strict=True):
            c, s, ca, sa = math.cos(theta), math.sin(theta), math.cos(alpha), math.sin(alpha)
            whole = whole @ [
                [c, -s, 0, a],
                [s * ca, c * ca, -sa, -d * sa],
                [s * sa, c * sa, ca, d * ca],
                [0, 0, 0, 1],
            ]
        turn = np.zeros(9)
        mujoco.mju_quat2Mat(turn, pose[3:])
        assert pose[:3] == pytest.approx(whole[:3, 3], abs=1e-9)
        assert turn.reshape(3, 3) == pytest.approx(whole[:3, :3], abs=1e-9)
    limits = [2.8973, 1.7628, 2.8973, -0.0698, 2.8973, 3.7525, 2.8973]
    assert arm.limits[:, 1].tolist() == limits
    assert arm.limits[[3, 5], 0].tolist() == [-3.0718, -0.0175]


@pytest.mark.parametrize("name", ARMS)
def test_inverse_kinematics_reaches_every_reachable_pose(name):
    scene, robot = build(name, pos=(0.3, -0.2, 0.1), yaw=0.7)
    for arm in arms(robot):
        q = draw(arm, 300)
        if name == "floating_gripper":  # away from its gimbal lock
            q[:, 4] = np.clip(q[:, 4], -1.3, 1.3)
        goals = np.empty((len(q), 7))
        for row, each in enumerate(q):
            arm.put(each[None], slice(None))
            scene.world.changes.write()
            goals[row] = arm.tcp_pose()[0]
        robot.set_home()
        before = scene.get_state()
        found, error = arm.solve(goals)
        assert torch.equal(scene.get_state(), before)
        assert ((error[:, 0] < NEAR[0]) & (error[:, 1] < NEAR[1])).mean() > 0.99
        assert (found >= arm.limits[:, 0]).all()
        assert (found <= arm.limits[:, 1]).all()
        for row in range(0, len(q), 10):  # the returned errors are correct
            arm.put(found[row : row + 1], slice(None))
            scene.world.changes.write()
            pose = arm.tcp_pose()[0]
            assert np.linalg.norm(pose[:3] - goals[row, :3]) == pytest.approx(error[row, 0], abs=1e-6)
            assert turned(pose[3:], goals[row, 3:]) == pytest.approx(error[row, 1], abs=1e-5)


def test_inverse_kinematics_stays_near_its_start_and_returns_the_error():
    _, robot = build("franka", n_envs=3)
    arm = robot.groups["arm"]
    pose = arm.tcp_pose()
    q, error = arm.solve(pose)
    assert q == pytest.approx(arm.target, abs=1e-3)
    pose[:, 1] += 0.02
    q, error = arm.solve(pose)
    assert np.abs(q - arm.target).max() < 0.15
    far = np.array([3.0, 0.0, 0.5, *DOWN])
    q, error = arm.solve(far)
    assert q.shape == (3, 7)
    assert (error[:, 0] > 2.0).all()
    start = np.array([0.5, -0.3, 0.2, -2.0, 0.1, 1.9, 0.0])
    one, _ = arm.solve(pose[:1], start=start, envs=[2])
    assert one.shape == (1, 7)
    for bad in (np.zeros((2, 7)), np.full((3, 7), np.nan), np.zeros((3, 6)), np.zeros((3, 7))):
        with pytest.raises(sn.OptionError, match="pose"):
            arm.solve(bad)
    with pytest.raises(sn.OptionError, match="start"):
        arm.solve(pose, start=np.zeros(6))
    with pytest.raises(sn.OptionError, match="not an arm"):
        robot.groups["gripper"].solve(pose)


def test_inverse_kinematics_of_64_envs_takes_less_than_2_ms():
    _, robot = build("franka", n_envs=64)
    arm = robot.groups["arm"]
    goals, _ = arm._chain.forward(draw(arm, 64))
    start = arm.target
    assert best(lambda: arm._chain.solve(goals, start, 10, restart=False)) < 2e-3


@pytest.mark.parametrize("name", ARMS)
def test_tool_centre_points_are_between_the_fingers_and_point_out_of_the_hand(name):
    scene, robot = build(name)
    model = scene.model
    for arm in arms(robot):
        gripper = robot.groups[arm.description.gripper]
        pose = arm.tcp_pose()[0]
        turn = np.zeros(9)
        mujoco.mju_quat2Mat(turn, pose[3:])
        _, y, z = turn.reshape(3, 3).T
        xpos = scene.world.bind("geom_xpos")[0].numpy()
        pads = [xpos[geoms[-1]] for geoms in gripper.finger_geoms]
        for geoms, finger in zip(gripper.finger_geoms, gripper.description.fingers, strict=True):
            assert {model.body(model.geom_bodyid[geom]).name for geom in geoms} == {f"robot/{finger}"}
        across = pads[0] - pads[1]
        assert np.linalg.norm(across - (across @ y) * y) < 1e-6
        middle = (pads[0] + pads[1]) / 2 - pose[:3]
        assert np.linalg.norm(middle) < 0.007
        hand = scene.world.bind("xpos")[0, arm._link].numpy()
        assert (pose[:3] - hand) @ z > 0.09
        assert z == pytest.approx([0, 0, -1], abs=0.001)  # home points down
        inside = abs(across @ y) - 2 * model.geom_size[gripper.finger_geoms[0][-1], 1]
        assert gripper.opening()[0] == pytest.approx(inside, abs=1e-6)
        assert gripper.opening()[0] == pytest.approx(gripper.description.width)


@pytest.mark.parametrize("name", ARMS)
def test_robots_stay_at_home_without_contacts(name):
    scene, robot = build(name, n_envs=2)
    poses = [arm.tcp_pose() for arm in arms(robot)]
    scene.step(100)
    for arm, pose in zip(arms(robot), poses, strict=True):
        assert arm.qpos == pytest.approx(np.tile(arm.description.home, (2, 1)), abs=1e-4)
        assert arm.tcp_pose() == pytest.approx(pose, abs=1e-4)
    assert _env(scene).ncon == 0


def _env(scene):
    """Return the data of env 0 computed by MuJoCo."""
    model, data = scene.model, mujoco.MjData(scene.model)
    mujoco.mj_setState(model, data, scene.get_state()[0].numpy(), int(mujoco.mjtState.mjSTATE_INTEGRATION))
    mujoco.mj_forward(model, data)
    return data


def test_twists_match_mujoco():
    scene, robot = build("mobile_franka", controllers={"arm": "joint_velocity"})
    arm = robot.groups["arm"]
    for _ in range(40):
        robot.act({"arm": [[0.3, -0.2, 0.4, 0.1, -0.5, 0.2, 0.3]], "base": [[0.4, 0.2, 0.5]]})
        scene.step()
    model, data, velocity = scene.model, _env(scene), np.empty(6)
    kind, site = int(mujoco.mjtObj.mjOBJ_SITE), model.site("robot/tcp").id
    mujoco.mj_objectVelocity(model, data, kind, site, velocity, 0)  # angular, then linear
    twist = arm.tcp_twist()[0]
    assert twist == pytest.approx([*velocity[3:], *velocity[:3]], abs=1e-9)
    assert np.linalg.norm(twist[:3]) > 0.2
    assert arm.tcp_pose()[0, :3] == pytest.approx(data.site_xpos[site], abs=1e-9)


# -- controllers ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ARMS)
def test_servos_track_within_2_mm_and_a_degree(name):
    scene, robot = build(name, n_envs=2)
    for arm in arms(robot):
        goal = arm.tcp_pose()
        goal[:, :3] += [[0.08, 0.05, -0.03], [0.02, -0.1, 0.05]]
        q, error = arm.solve(goal)
        assert (error < NEAR).all()
        robot.act({arm.description.name: q})
        scene.step(50)
        assert np.linalg.norm(arm.tcp_pose()[:, :3] - goal[:, :3], axis=1).max() < 2e-3
        assert turned(arm.tcp_pose()[:, 3:], goal[:, 3:]).max() < math.radians(1)


def test_relative_actions_add_to_the_target_and_velocities_integrate():
    scene, robot = build("franka", n_envs=2, controllers={"arm": "joint_position_relative"})
    arm = robot.groups["arm"]
    home = np.array(arm.description.home)
    for _ in range(5):
        robot.act({"arm": [[0.02] * 7, [-9.0] * 7]})
        scene.step()
    assert arm.target[0] == pytest.approx(home + 0.1)
    assert arm.target[1] == pytest.approx(np.clip(home - 0.5, *arm.limits.T))  # clipped at -0.1 per step
    scene, robot = build("franka", controllers={"arm": "joint_velocity"})
    arm = robot.groups["arm"]
    for _ in range(25):
        robot.act({"arm": [0.4] * 7})
        scene.step()
    assert arm.target[0] == pytest.approx(np.clip(home + 0.2, *arm.limits.T))
    before = arm.qpos
    for _ in range(10):
        robot.act({"arm": [0.4] * 7})
        scene.step()
    assert (arm.qpos - before)[0, [0, 1, 2, 4, 5, 6]] / 0.2 == pytest.approx([0.4] * 6, abs=0.01)


@pytest.mark.parametrize("name", ARMS)
def test_tool_poses_are_in_the_frame_of_the_base(name):
    sides = ["left_arm", "right_arm"] if name == "bimanual" else ["arm"]
    scene, robot = build(name, n_envs=3, pos=(0.2, 0.1, 0.0), yaw=-0.6, controllers=dict.fromkeys(sides, "ee_pose"))
    if name == "mobile_franka":
        robot.place([[0.0, 0.0], [1.0, 0.5], [-1.0, 0.2]], [0.0, 1.0, -2.5])
        scene.forward()
    for side in sides:
        arm = robot.groups[side]
        goal = in_base(robot, arm.tcp_pose())
        for step in range(60):
            shift = min(step / 40, 1.0) * np.array([0.06, -0.05, 0.04])
            robot.act({side: np.add(goal, [*shift, 0, 0, 0, 0])})
            scene.step()
        reached = in_base(robot, arm.tcp_pose())
        assert reached[:, :3] == pytest.approx(goal[:, :3] + [0.06, -0.05, 0.04], abs=2e-3)
        assert turned(reached[:, 3:], goal[:, 3:]).max() < math.radians(1)
        with pytest.raises(sn.OptionError, match=f"{side}.*zero"):
            robot.act({side: [0.3, 0, 0.3, 0, 0, 0, 0]})


@pytest.mark.parametrize("name", ARMS)
def test_grippers_open_to_the_commanded_width(name):
    scene, robot = build(name, n_envs=3)
    for group in [each for each in robot.groups.values() if each.description.kind == "gripper"]:
        width = group.description.width
        robot.act({group.description.name: [[0.0], [0.5], [1.0]]})
        scene.step(60)
        ends = [group.description.closed, group.description.open]
        middle = sum(ends) / 2 * 2  # of two fingers
        assert group.opening() == pytest.approx([0.0, middle, width], abs=1e-3)
        assert group.target[2] == pytest.approx(group.description.home)
        assert group.target[0] == pytest.approx([0, 0])


def test_a_base_drives_at_the_commanded_velocity_in_its_own_frame():
    scene, robot = build("mobile_franka", n_envs=2, pos=(1, 2, 0), yaw=math.pi / 2)
    for _ in range(100):
        robot.act({"base": [[0.5, 0.0, 0.0], [0.0, 0.25, 0.0]]})
        scene.step()
    pose = robot.base_pose()
    assert pose[0, :2] == pytest.approx([1.0, 3.0], abs=0.06)  # forward is +y of the world; the servo lags
    assert pose[1, :2] == pytest.approx([0.5, 2.0], abs=0.04)
    robot.act({"base": [0.0, 0.0, 0.0]})
    scene.step(50)
    assert robot.base_pose()[0, :3] == pytest.approx([1.0, 3.0, 0.0], abs=1e-3)
    for _ in range(400):  # more than one turn; forward and turn drive a circle
        robot.act({"base": [0.4, 0.0, 1.0]})
        scene.step()
    assert robot.groups["base"].qpos[0, 2] == pytest.approx(8.0, abs=0.1)
    heading = robot.groups["base"].qpos[0, 2] + math.pi / 2
    centre = robot.base_pose()[0, :2] + 0.4 * np.array([-math.sin(heading), math.cos(heading)])
    assert centre == pytest.approx([1.0 - 0.4, 3.0], abs=0.03)


def test_the_target_of_a_blocked_base_does_not_wind_up():
    wall = sn.Box(size=(0.1, 2.0, 1.0), mass=500)
    scene, robot = build("mobile_franka", objects={"wall": (wall, (0.6, 0, 0.5))})
    for _ in range(150):
        robot.act({"base": [0.3, 0.0, 0.0]})
        scene.step()
    base = robot.groups["base"]
    assert base.qpos[0, 0] < 0.4
    assert base.target[0, 0] - base.qpos[0, 0] < 0.11


def test_actions_have_names_limits_and_slices():
    _, robot = build("mobile_franka", n_envs=2)
    assert robot.n_actions == 3 + 7 + 1
    assert robot.action_names[:4] == ["base.forward", "base.left", "base.turn", "arm.joint1"]
    assert robot.action_names[-1] == "gripper.opening"
    assert robot.action_slices == {"base": slice(0, 3), "arm": slice(3, 10), "gripper": slice(10, 11)}
    assert robot.action_limits.shape == (11, 2)
    assert robot.action_limits[3:10].numpy() == pytest.approx(robot.groups["arm"].limits, abs=1e-6)
    action = np.zeros((2, 11))
    action[:, 3:10] = robot.groups["arm"].target
    action[1, 3] = 99.0
    robot.act(torch.from_numpy(action).float())
    assert robot.groups["arm"].target[1, 0] == pytest.approx(2.8973)
    assert robot.action.value[1, 3] == pytest.approx(2.8973)
    robot.act({"gripper": [[1.0]]}, envs=[1])
    assert robot.action.value[:, 10].tolist() == [0.0, 1.0]
    assert robot.groups["arm"].target[1, 0] == pytest.approx(
        2.8973
    )  # a group that is not in the mapping keeps its target


def test_an_invalid_action_names_the_move_group_and_changes_nothing():
    scene, robot = build("franka", n_envs=2, controllers={"arm": "ee_pose"})
    robot.act({"gripper": [0.3]})
    before = scene.get_state(), {name: group.target for name, group in robot.groups.items()}, robot.action.value.clone()
    pose = in_base(robot, robot.groups["arm"].tcp_pose())
    for bad, message in (
        ({"arm": np.zeros((2, 3))}, r"arm.*\(7,\) or \(2, 7\).*\(2, 3\)"),
        ({"gripper": [0.5], "arm": [1.0, 0, 0, 0, 0, 0, math.nan]}, r"arm\.qz must be finite"),
        ({"gripper": [0.9], "arm": [1.0, 0, 0, 0, 0, 0, 0]}, "arm.*zero"),
        ({"gripper": ["wide"]}, "gripper must be numbers"),
        ({"gripper": [True]}, "gripper must be numbers"),
        (np.zeros((3, 8)), r"arm, gripper.*\(2, 8\)"),
        (np.full((2, 8), np.inf), r"arm\.x must be finite"),
    ):
        with pytest.raises(sn.OptionError, match=message):
            robot.act(bad)
    with pytest.raises(sn.errors.NameNotFoundError, match="'gripper'"):
        robot.act({"arm": pose, "griper": [1.0]})
    assert torch.equal(scene.get_state(), before[0])
    assert all(np.array_equal(robot.groups[name].target, target) for name, target in before[1].items())
    assert torch.equal(robot.action.value, before[2])
    robot.act({"arm": pose, "gripper": [1.0]})


def test_acting_takes_microseconds():
    _, robot = build("franka", n_envs=64)
    action = np.zeros((64, 8))
    action[:, :7] = robot.groups["arm"].target
    assert best(lambda: robot.act(action), 100) < 150e-6
    _, robot = build("franka", n_envs=64, controllers={"arm": "ee_pose"})
    goal = in_base(robot, robot.groups["arm"].tcp_pose())
    ways = itertools.cycle([0.01, -0.01])
    assert best(lambda: robot.act({"arm": np.add(goal, [0, next(ways), 0, 0, 0, 0, 0])}), 100) < 1e-3


# -- grasping ---------------------------------------------------------------------------------------------------------


def carry(robot, scene, side, way, hold):
    """Move the tool through the points of ``way`` at 0.5 m/s."""
    arm = robot.groups[side]
    at = arm.tcp_pose()[0, :3]
    for point in way:
        steps = max(1, round(np.linalg.norm(np.subtract(point, at)) / 0.5 / 0.02))
        for step in range(1, steps + 1):
            spot = at + (np.array(point) - at) * step / steps
            q, error = arm.solve([*spot, *DOWN])
            assert (error < NEAR).all()
            robot.act({side: q})
            scene.step()
        at = np.array(point)
    scene.step(hold)


@pytest.mark.parametrize(
    ("name", "side", "shape", "spot"),
    [
        ("franka", "arm", sn.Box(size=(0.04, 0.04, 0.04), mass=0.1), (0.45, 0.0, 0.02)),
        ("franka", "arm", sn.Box(size=(0.04, 0.04, 0.04), mass=0.5), (0.45, 0.0, 0.02)),
        ("franka", "arm", sn.Sphere(radius=0.02, mass=0.3), (0.45, 0.0, 0.02)),
        ("mobile_franka", "arm", sn.Box(size=(0.1, 0.03, 0.05), mass=0.3), (0.65, 0.0, 0.425)),
        ("floating_gripper", "arm", sn.Cylinder(radius=0.015, height=0.08, mass=0.2), (0.45, 0.0, 0.04)),
        ("bimanual", "left_arm", sn.Box(size=(0.03, 0.03, 0.05), mass=0.15), (0.3, 0.25, 0.025)),
    ],
)
def test_grasped_objects_are_held_at_half_a_metre_per_second(name, side, shape, spot):
    block = sn.Box(size=(0.3, 0.6, 0.4), mass=200), (0.65, 0.0, 0.2)
    objects = {"thing": (shape, spot)} | ({"block": block} if spot[2] > 0.4 else {})
    scene, robot = build(name, objects=objects)
    thing, arm = scene.entities["thing"], robot.groups[side]
    gripper = robot.groups[arm.description.gripper]

    def apart():
        return thing.get_pose()[0][0].numpy() - arm.tcp_pose()[0, :3]

    def beside(*way):
        return [np.add(spot, step) for step in way]

    carry(robot, scene, side, beside((0, 0, 0.15), (0, 0, 0)), hold=15)
    assert apart() == pytest.approx([0, 0, 0], abs=2e-3)
    robot.act({gripper.description.name: [0.0]})
    scene.step(25)
    before = apart()
    assert 0.02 < gripper.opening()[0] < 0.041
    carry(robot, scene, side, beside((0, 0, 0.3)), hold=15)
    assert apart() == pytest.approx(before, abs=1.5e-3)
    carry(robot, scene, side, beside((0, 0.2, 0.3), (0, -0.2, 0.3), (0.05, 0, 0.2)), hold=15)
    assert apart() == pytest.approx(before, abs=4e-3)
    before = apart()
    scene.step(100)
    assert apart() == pytest.approx(before, abs=3e-4)
    robot.hold()
    scene.step(20)
    assert apart() == pytest.approx(before, abs=5e-4)  # hold() keeps the grasp
    robot.act({gripper.description.name: [1.0]})
    scene.step(40)
    assert thing.get_pose()[0][0, 2] < spot[2] + 0.08


# -- state ------------------------------------------------------------------------------------------------------------


def test_set_home_place_and_hold_affect_the_given_envs_only():
    scene, robot = build("mobile_franka", n_envs=3, pos=(0.5, 0, 0), yaw=0.3)
    arm = robot.groups["arm"]
    robot.place([[1.0, 2.0], [-1.0, 0.5]], [1.2, -2.0], envs=[0, 2])
    assert robot.base_pose()[0, :2] == pytest.approx([1.0, 2.0])  # also before forward()
    scene.forward(envs=[0, 2])
    yaw = 2 * np.arctan2(robot.base_pose()[:, 6], robot.base_pose()[:, 3])
    assert yaw == pytest.approx([1.2, 0.3, -2.0])
    assert robot.base_pose()[1, :3] == pytest.approx([0.5, 0, 0])
    robot.act({"arm": arm.target + 0.3})
    scene.step(3)
    moving = arm.qpos
    robot.hold(envs=[1])
    assert arm.target[1] == pytest.approx(moving[1])
    assert arm.target[0] != pytest.approx(moving[0], abs=1e-3)
    robot.set_home(envs=[0])
    scene.forward(envs=[0])
    assert arm.qpos[0] == pytest.approx(arm.description.home)
    assert arm.qvel[0] == pytest.approx([0] * 7)
    assert robot.groups["base"].qpos[0] == pytest.approx([0, 0, 0])
    assert robot.groups["base"].qpos[2] != pytest.approx([0, 0, 0], abs=0.1)
    assert arm.qpos[1] != pytest.approx(arm.description.home, abs=1e-3)
    scene.step(50)
    assert arm.qpos[0] == pytest.approx(arm.description.home, abs=1e-3)
    with pytest.raises(sn.OptionError, match="place"):
        robot.place([[0, 0]] * 4, 0.0)
    _, fixed = build("franka")
    with pytest.raises(sn.OptionError, match="fixed base"):
        fixed.place([0, 0], 0.0)
    assert not fixed.can_be_placed
    scene, flying = build("floating_gripper", n_envs=2)
    flying.place([0.3, -0.4], 1.0, envs=[1])
    scene.forward()
    assert flying.groups["arm"].tcp_pose()[1, :3] == pytest.approx([0.3, -0.4, 0.4])
    assert flying.groups["arm"].tcp_pose()[0, :3] == pytest.approx([0, 0, 0.4])
    assert flying.base_pose()[1, :3] == pytest.approx([0, 0, 0])
    scene.step(20)
    assert flying.groups["arm"].tcp_pose()[1, :3] == pytest.approx([0.3, -0.4, 0.4], abs=1e-3)


def test_a_reset_moves_envs_to_the_state_after_build():
    scene, robot = build("franka", n_envs=3)
    fresh = scene.get_state()
    robot.act({"arm": robot.groups["arm"].target + 0.2, "gripper": [0.0]})
    scene.step(20)
    moved = scene.get_state()
    scene.reset(envs=[1])
    assert torch.equal(scene.get_state()[1], fresh[1])
    assert torch.equal(scene.get_state()[[0, 2]], moved[[0, 2]])
    assert robot.groups["arm"].target[1] == pytest.approx(robot.groups["arm"].description.home)
    assert robot.groups["arm"].target[0] != pytest.approx(robot.groups["arm"].description.home)
    assert robot.groups["arm"].tcp_pose()[1, :3] == pytest.approx([0.307, 0, 0.487], abs=1e-3)
    scene.step(20)
    assert robot.groups["arm"].qpos[1] == pytest.approx(robot.groups["arm"].description.home, abs=1e-4)
    scene.reset()
    assert torch.equal(scene.get_state(), fresh)


def test_targets_are_restored_by_load_state_dict():
    scene, robot = build("bimanual", n_envs=2, controllers={"left_arm": "joint_position_relative"})
    assert {f"robot.groups.{name}.target" for name in robot.groups} <= set(scene.state_dict())
    robot.act({"left_arm": np.full((2, 6), 0.05), "right_gripper": [0.2]})
    scene.step(3)
    scene.update_state()
    state = {
        name: value.clone() if isinstance(value, torch.Tensor) else value for name, value in scene.state_dict().items()
    }
    targets = {name: group.target for name, group in robot.groups.items()}

    def go_on():
        robot.act({"left_arm": np.full((2, 6), -0.02)})
        scene.step(5)
        return scene.get_state()

    end = go_on()
    assert not np.array_equal(robot.groups["left_arm"].target, targets["left_arm"])
    scene.load_state_dict(state)
    scene.write_replay_data()
    assert all(np.array_equal(robot.groups[name].target, target) for name, target in targets.items())
    assert torch.equal(go_on(), end)


def test_a_recording_of_an_arm_replays(tmp_path):
    words = f"record --robot franka --scenario random-acceleration --steps 50 --envs 2 --out {tmp_path}/run"
    assert main(words.split()) == 0
    assert main(["check", f"{tmp_path}/run"]) == 0
    sn.recording.replay(tmp_path / "run", tmp_path / "again")
    first, second = (sn.datasets.open(tmp_path / name) for name in ("run", "again"))
    for name in ("robot.groups.arm.target", "robot.groups.gripper.target", "robot.joint_positions"):
        assert np.array_equal(first.column(name), second.column(name)), name
    assert np.ptp(first.column("robot.groups.arm.target"), axis=0).min() > 0.01
    scene = first.build_scene()
    scene.load_state_dict(first.read_state_dict(20))
    scene.write_replay_data()
    assert np.array_equal(scene.modules["robot"].groups["arm"].target, first[20]["robot.groups.arm.target"])


def test_a_recording_with_a_reset_replays(tmp_path):
    scene, robot = build("franka", n_envs=2)
    with sn.recording.Recorder(scene, tmp_path / "run") as recorder:
        for step in range(20):
            robot.act({"arm": robot.groups["arm"].target + 0.01, "gripper": [step / 20]})
            scene.step()
            recorder.step()
            if step == 9:
                scene.reset(envs=[1])
    sn.recording.replay(tmp_path / "run", tmp_path / "again")
    first, second = (sn.datasets.open(tmp_path / name) for name in ("run", "again"))
    for name in first.names:
        assert np.array_equal(first.column(name), second.column(name)), name
    assert first.column("robot.groups.arm.target")[12, 1] != pytest.approx(first[12]["robot.groups.arm.target"][0])


@pytest.mark.parametrize("name", ARMS)
def test_options_are_recreated_from_json(name):
    robot = make(name, action_noise=0.01)
    assert isinstance(robot, Manipulator)
    options = robot.options
    again = ManipulatorOptions(**json.loads(json.dumps(options.model_dump(mode="json"))))
    assert again == options
    assert Manipulator(again).action_names == robot.action_names
    scene = sn.Scene()
    scene.add_robot(robot, name="robot")
    copy = sn.Scene.from_contents(json.loads(json.dumps(scene.contents)))
    assert copy.modules["robot"].options == options


# -- action noise -----------------------------------------------------------------------------------------------------


def test_action_noise_scales_with_the_range_and_depends_on_the_seed():
    def targets(n_envs, seed, steps=40, noise=0.02):
        _, robot = build("franka", n_envs=n_envs, seed=seed, action_noise=noise)
        middle = robot.action_limits.mean(dim=1).numpy()
        rows = []
        for _ in range(steps):
            robot.act(middle)
            rows.append(robot.groups["arm"].target)
        assert robot.action.value.numpy() == pytest.approx(np.tile(middle, (n_envs, 1)))  # the buffer has no noise
        return np.array(rows) - middle[:7], robot

    noise, robot = targets(64, seed=3)
    span = np.ptp(robot.groups["arm"].limits, axis=1)
    assert noise.std(axis=(0, 1)) == pytest.approx(0.02 * span, rel=0.05)
    assert np.abs(noise.mean(axis=(0, 1))).max() < 0.002 * span.max()
    assert np.abs(np.corrcoef(noise.reshape(-1, 7).T) - np.eye(7)).max() < 0.08
    few, _ = targets(5, seed=3)
    assert np.array_equal(few, noise[:, :5])
    other, _ = targets(5, seed=4)
    assert not np.array_equal(other, few)
    _, robot = targets(5, seed=3, noise=3.0)
    assert (robot.groups["arm"].target <= robot.groups["arm"].limits[:, 1]).all()
    with pytest.raises(sn.OptionError, match="action_noise"):
        make("franka", action_noise=-1.0)


# -- models of users --------------------------------------------------------------------------------------------------

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
