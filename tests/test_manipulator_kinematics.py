"""Manipulators: forward and inverse kinematics, and the published dimensions of the arms."""

import math

import mujoco
import numpy as np
import pytest
import torch
from arm_scenes import ARMS, DOWN, NEAR, arms, best, build, draw, turned

import sensorium as sn
from sensorium.robots.kinematic_chain import KinematicChain


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


def test_yam_has_the_published_lengths():
    """Its planar chain in closed form: upper arm 264 mm, forearm 245 mm, offset by 60 mm, wrist to tool 244 mm."""
    _, robot = build("yam")
    arm = robot.groups["arm"]
    for q in draw(arm, 20):
        q[4:] = 0.0  # the tool stays in the plane of the arm
        upper, fore = q[1], q[1] - q[2]
        tool = fore + q[3]
        x = -0.02 - 0.264 * math.cos(upper) + 0.245 * math.cos(fore) + 0.06 * math.sin(fore) + 0.244 * math.cos(tool)
        z = 0.104 + 0.264 * math.sin(upper) - 0.245 * math.sin(fore) + 0.06 * math.cos(fore) - 0.244 * math.sin(tool)
        expected = [x * math.cos(q[0]), x * math.sin(q[0]), z]
        assert arm.forward(q[None])[0, :3] == pytest.approx(expected, abs=1e-9)


def test_rby1_hangs_straight_down_at_zero_and_has_mirrored_arms():
    _, robot = build("rby1")
    left, right = robot.groups["left_arm"], robot.groups["right_arm"]
    assert left.forward(np.zeros((1, 7)))[0, :3] == pytest.approx([0.22, 0.22, 0.95 - 0.276 - 0.256 - 0.07 - 0.147])
    mirror = np.array([1, -1, -1, 1, -1, 1, -1])
    for q in draw(left, 20):
        a, b = left.forward(q[None])[0, :3], right.forward((q * mirror)[None])[0, :3]
        assert a == pytest.approx(b * [1, -1, 1], abs=1e-9)
    assert left.limits[1].tolist() == [-0.05, 3.14]
    assert right.limits[1].tolist() == [-3.14, 0.05]


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
