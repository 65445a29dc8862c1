"""Drawers and doors: physics, observations, randomisation, success, and the planner that opens them."""

import math

import mujoco
import numpy as np
import pytest
from gl import needs_gl

import sensorium as sn
from sensorium import poses
from sensorium.errors import NameNotFoundError, OptionError
from sensorium.policies.collision_checker import CollisionChecker
from sensorium.policies.driving import drive_command, heading

KINDS = [("opening", {"furniture": "drawer"}), ("opening", {"furniture": "cabinet"}), ("door_opening", {})]
every_kind = pytest.mark.parametrize(("name", "options"), KINDS, ids=["drawer", "cabinet", "room_door"])


def make(name, **options):
    task = sn.tasks.make(name, **({"n_envs": 1, "keep_history": False} | options))
    task.reset()
    return task


def with_planner(name, **options):
    task = sn.tasks.make(name, **({"keep_history": False} | options))
    policy = sn.policies.make("planner", task)
    task.register_policy(policy)
    return task, policy


def run(task, policy):
    observation, _ = task.reset()
    while not task.is_done().all():
        observation, *_ = task.step(policy.get_action(observation))
    return observation


def hold(task):
    """Return the action that keeps the arm at its targets, with open grippers."""
    action = np.ones((task.n_envs, task.robot.n_actions))
    action[:, task.robot.action_slices["arm"]] = task.robot.groups["arm"].target
    return action


def engine(task, env=0):
    """Return MuJoCo data with the state of an env."""
    data = mujoco.MjData(task.scene.model)
    for field in ("qpos", "qvel", "mocap_pos", "mocap_quat"):
        getattr(data, field)[:] = task.scene.world.bind(field)[env].numpy()
    mujoco.mj_forward(task.scene.model, data)
    return data


def episode_values(task):
    """Return all random values of an episode."""
    return np.column_stack([task.part, task.joint_position(), task.handle_pose(), task._friction, task._damping])


# -- physics ----------------------------------------------------------------------------------------------------------


@every_kind
def test_force_at_the_handle_opens_it_against_friction_and_damping(name, options):
    task = make(name, friction=(1.0, 1.0), start_fraction=0.0, **options)
    model, world = task.scene.model, task.scene.world
    joint = model.joint(task.joint_name(0))
    dof = int(joint.dofadr[0])
    friction, damping, inertia = model.dof_frictionloss[dof], model.dof_damping[dof], model.dof_M0[dof]
    handle = model.body(task.handles[int(task.part[0])]).id
    world.bind("xipos")
    torque, force = 2.0 * friction, np.zeros(3)
    for _ in range(25):
        # along the handle's x axis, at its centre of mass, where xfrc_applied acts
        out = poses.rotate(task.handle_pose()[0, 3:], (1.0, 0.0, 0.0))
        arm = world.bind("xipos")[0, handle].numpy() - world.bind("xanchor")[0, joint.id].numpy()
        axis = world.bind("xaxis")[0, joint.id].numpy()
        lever = 1.0 if model.jnt_type[joint.id] == mujoco.mjtJoint.mjJNT_SLIDE else axis @ np.cross(arm, out)
        force = torque / lever * out
        world.bind("xfrc_applied").numpy()[0, handle, :3] = force
        task.step(hold(task))
    # solution for a constant force minus friction, against damping
    time, tau = 25 * task.config.dt, inertia / damping
    expected = (torque - friction) / damping * (time - tau * (1 - math.exp(-time / tau)))
    assert 0.02 * task.stroke()[0] < expected < 0.5 * task.stroke()[0]
    assert task.joint_position()[0] == pytest.approx(expected, rel=0.03)


@every_kind
def test_force_below_friction_does_not_move_it(name, options):
    task = make(name, start_fraction=0.3, open_fraction=0.9, **options)
    world, start, piece = task.scene.world, task.joint_position().copy(), task.handle_path(0, np.zeros(1))
    dof = int(task.scene.model.joint(task.joint_name(0)).dofadr[0])
    world.bind("qfrc_applied").numpy()[0, dof] = 0.5 * task._friction[0, dof]
    for _ in range(50):
        task.step(hold(task))
    assert task.joint_position() == pytest.approx(start, abs=2e-3 * task.stroke()[0])
    np.testing.assert_allclose(task.handle_path(0, np.zeros(1)), piece, atol=1e-9)


@every_kind
def test_pulling_does_not_move_the_furniture_and_the_joint_stops_at_its_range(name, options):
    task = make(name, open_fraction=0.95, rest_steps=500, **options)
    world, model = task.scene.world, task.scene.model
    root = int(model.body_rootid[task.role_bodies()[0, 0]])
    before = world.bind("xpos")[0, root].numpy().copy()
    world.bind("qfrc_applied").numpy()[0, int(model.joint(task.joint_name(0)).dofadr[0])] = 30.0
    action = hold(task)
    action[:, 0] = -1.8  # move the arm out of the way
    for _ in range(200):
        task.step(action)
    assert task.fraction()[0] == pytest.approx(1.0, abs=0.02)
    np.testing.assert_array_equal(world.bind("xpos")[0, root].numpy(), before)


# -- observations -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["opening", "door_opening"])
def test_door_state_matches_the_engine(name):
    task, policy = with_planner(name, n_envs=4, seed=3)
    observation, _ = task.reset()
    for step in range(201):
        if step % 40 == 0:
            seen = observation["door_state"]
            assert observation in task.suite.space
            for env in range(4):
                data, model = engine(task, env), task.scene.model
                angle = data.joint(task.joint_name(env)).qpos[0]
                fraction = angle / model.joint(task.joint_name(env)).range[1]
                handle = data.body(task.handles[int(task.part[env])])
                np.testing.assert_allclose(seen["angle"][env], angle, atol=1e-6)
                np.testing.assert_allclose(seen["fraction"][env], fraction, atol=1e-5)
                np.testing.assert_allclose(seen["handle_pose"][env], [*handle.xpos, *handle.xquat], atol=1e-5)
                assert seen["is_open"][env] == (fraction >= 0.5)
                bar = int(model.body(handle.name).geomadr[0])
                radius, half = model.geom_size[bar, :2]
                extents = [2 * radius, 2 * radius, 2 * (half + radius)]
                np.testing.assert_allclose(seen["handle_extents"][env], extents, rtol=1e-6)
                # the bar is along the z axis of the handle's frame
                along = data.geom_xmat[bar].reshape(3, 3)[:, 2]
                assert abs(along @ poses.rotate(seen["handle_pose"][env, 3:], (0, 0, 1.0))) == pytest.approx(
                    1, abs=1e-6
                )
        if task.is_done().all():
            break
        observation, *_ = task.step(policy.get_action(observation))
    assert seen["angle"].max() > 0.05


@every_kind
def test_handle_path_matches_the_engine(name, options):
    task = make(name, seed=4, **options)
    positions = np.linspace(0, 1, 7) * task.stroke()[0]
    path = task.handle_path(0, positions)
    data = engine(task)
    for position, pose in zip(positions, path, strict=True):
        data.joint(task.joint_name(0)).qpos = position
        mujoco.mj_kinematics(task.scene.model, data)
        handle = data.body(task.handles[int(task.part[0])])
        np.testing.assert_allclose(pose[:3], handle.xpos, atol=1e-9)
        np.testing.assert_allclose(abs(pose[3:] @ handle.xquat), 1, atol=1e-9)


@needs_gl
def test_cameras_see_the_door_and_the_handle():
    camera = {"name": "side", "pos": (-0.1, -0.7, 1.3), "lookat": (0.6, -0.1, 0.55), "resolution": (320, 240)}
    task = make("opening", n_envs=3, seed=2, cameras=[camera])
    observation, _ = task.reset()
    points = observation["object_image_points"]["side"]
    assert set(points) == {"door", "handle"}
    assert (points["handle"]["visible"] >= 4).all()
    assert (points["door"]["visible"] > 3 * points["handle"]["visible"]).all()
    parameters = observation["sensor_param_side"]
    for env in range(3):
        there = parameters["extrinsic"][env] @ np.append(observation["door_state"]["handle_pose"][env, :3], 1)
        x, y = (parameters["intrinsic"][env] @ there)[:2] / there[2] / (320, 240)
        seen = points["handle"]["points"][env]
        seen = seen[seen[:, 0] >= 0]
        assert np.abs(seen - (x, y)).max() < 0.15
        assert np.abs(seen.mean(axis=0) - (x, y)).max() < 0.05


def test_task_info_names_the_target():
    task = make("opening", n_envs=12, seed=1)
    model = task.scene.model
    instructions = {info["instruction"] for info in task.task_info()}
    assert instructions == {"open the upper drawer", "open the lower drawer", "open the cabinet"}
    for env, info in enumerate(task.task_info()):
        names = [model.body(body).name for body in task.role_bodies()[env]]
        assert names == [f"{info['piece']}/{info['part']}", f"{info['piece']}/{info['part']}_handle"]
    assert "open the door" in make("door_opening").task_info()[0]["instruction"]


# -- randomisation ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["opening", "door_opening"])
def test_an_episode_only_depends_on_seed_env_and_number(name):
    three, five = make(name, n_envs=3, seed=9), make(name, n_envs=5, seed=9)
    first = episode_values(five)
    np.testing.assert_array_equal(episode_values(three), first[:3])
    assert len(np.unique(first.round(6), axis=0)) == 5
    five.reset([1])
    second = episode_values(five)
    np.testing.assert_array_equal(second[[0, 2, 3, 4]], first[[0, 2, 3, 4]])
    assert not np.allclose(second[1], first[1])
    three.reset([1])
    np.testing.assert_array_equal(episode_values(three)[1], second[1])
    assert not np.allclose(episode_values(make(name, n_envs=3, seed=10)), first[:3])


def test_an_episode_does_not_depend_on_earlier_episodes():
    def friction(*numbers):
        task = sn.tasks.make("opening", furniture="drawer", n_envs=1, use_sensors=False)
        for number in numbers:
            task.reset(numbers=[number])
        return task._friction.copy(), task._damping.copy()

    for before in range(4):
        for left, right in zip(friction(before, 4), friction(4), strict=True):
            np.testing.assert_array_equal(left, right)


def test_without_randomisation_all_envs_are_equal():
    task = make("opening", n_envs=3, friction=(1.0, 1.0), randomize={"objects": False, "poses": False})
    np.testing.assert_array_equal(episode_values(task), np.tile(episode_values(task)[:1], (3, 1)))
    assert (task.joint_position() == 0).all()


# -- success ----------------------------------------------------------------------------------------------------------


@every_kind
def test_success_when_it_stays_open_untouched(name, options):
    task = make(name, rest_steps=5, open_fraction=0.5, **options)
    joint = task.scene.model.joint(task.joint_name(0))
    for fraction, enough in ((0.49, False), (0.51, True)):
        task.scene.world.bind("qpos").numpy()[0, int(joint.qposadr[0])] = fraction * joint.range[1]
        for step in range(5):
            _, reward, terminated, _, _ = task.step(hold(task))
            assert terminated[0] == (enough and step == 4)
            assert reward[0] == float(terminated[0])


def test_no_success_while_the_handle_is_touched():
    task, policy = with_planner("opening", n_envs=1, furniture="drawer", open_fraction=0.3, rest_steps=1)
    observation, _ = task.reset()
    held = []
    while not task.is_done().all():
        observation, *_ = task.step(policy.get_action(observation))
        if observation["door_state"]["is_open"][0, 0]:
            held.append(bool(observation["grasp_state_handle"]["gripper"]["touched"][0, 0]))
    assert task.judge_success()[0]
    assert sum(held) > 2
    assert not held[-1]


# -- planners ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "robot"),
    [
        ("opening", "franka"),
        ("door_opening", "franka"),
        ("opening", "mobile_franka"),
        ("door_opening", "mobile_franka"),
    ],
)
def test_planner_opens_it(name, robot):
    task, policy = with_planner(name, robot=robot, n_envs=8, seed=21)
    observation = run(task, policy)
    assert task.judge_success().sum() >= 7
    good = task.judge_success()
    assert (observation["door_state"]["fraction"][good] >= 0.5).all()
    assert observation in task.suite.space


@pytest.mark.slow
def test_mobile_robot_opens_a_door_fully():
    task, policy = with_planner("door_opening", robot="mobile_franka", n_envs=4, seed=2, open_fraction=0.9)
    start = task.robot.base_pose()[:, :2]
    run(task, policy)
    assert task.judge_success().all()
    assert (np.linalg.norm(task.robot.base_pose()[:, :2] - start, axis=1) > 0.8).all()


def test_planner_grips_again_after_losing_the_handle():
    task, policy = with_planner("opening", n_envs=3, seed=1, rest_steps=10)
    observation, _ = task.reset()
    dropped = np.zeros(3, int)
    while not task.is_done().all():
        action = policy.get_action(observation)
        half = (task.fraction() > 0.25) & (dropped < 25)
        dropped += half
        action[half, task.robot.action_slices["gripper"]] = 1.0
        observation, *_ = task.step(action)
    assert task.judge_success().all()
    assert (policy.retries >= 1).all()
    assert (observation["policy_num_retries"][:, 0] == policy.retries).all()


@pytest.mark.parametrize("controller", ["joint_velocity", "ee_pose"])
def test_planner_supports_other_controllers(controller):
    robot = sn.robots.make("franka", controllers={"arm": controller}, pos=(0.0, 0.0, 0.4))
    task, policy = with_planner("opening", robot=robot, n_envs=3, seed=3)
    run(task, policy)
    assert task.judge_success().all()


def test_collision_checker_finds_the_first_collision_and_changes_nothing():
    task = make("opening", furniture="cabinet", randomize={"poses": False, "objects": False})
    collisions = CollisionChecker(task, task.handles)
    arm = task.robot.groups["arm"]
    handle = task.handle_pose()[0]
    # straight through the door
    way = handle[:3] + np.linspace((-0.25, 0, 0.05), (0.1, 0, 0.05), 15)
    turn = poses.from_axes([0, 0, -1.0], [0, 1.0, 0], [1.0, 0, 0])
    joints, miss = arm.solve(poses.make(way, turn), envs=np.zeros(15, int), iterations=80)
    assert (miss < (0.005, 0.05)).all()
    before = task.scene.get_state().clone()
    names = [f"robot/{name}" for name in arm.description.joints]
    first = collisions.first_collision(0, dict(zip(names, joints.T, strict=True)))
    # fingers extend 1 cm beyond the tool centre point; they may touch the handle, but not the door 5 cm behind it
    touch = np.flatnonzero(way[:, 0] + 0.01 > handle[0] + 0.048)[0]
    assert abs(first - touch) <= 1
    assert collisions.first_collision(0, {names[0]: np.zeros(4)}) == 4
    np.testing.assert_array_equal(task.scene.get_state(), before)


@pytest.mark.parametrize("yaw", [0.0, 2.5])
def test_drive_command_moves_a_base_to_its_goal(yaw):
    scene = sn.Scene(dt=0.02, substeps=10, integrator="implicitfast")
    robot = scene.add_robot("mobile_franka", name="robot", pos=(0.3, -0.2, 0.0), yaw=yaw)
    scene.build(n_envs=2)
    goals = np.array([[0.9, 0.4, 1.0], [-0.2, -0.3, -3.0]])
    base = robot.groups["base"]
    for _ in range(400):
        robot.act({"base": drive_command(robot, base, goals, 0.02)})
        scene.step()
    pose = robot.base_pose()
    np.testing.assert_allclose(pose[:, :2], goals[:, :2], atol=2e-3)
    np.testing.assert_allclose(np.cos(heading(pose) - goals[:, 2]), 1, atol=1e-5)


# -- bad input --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "options", "words"),
    [
        ("opening", {"furniture": "draw"}, "furniture.*'drawer', 'cabinet' or 'any'.*'draw'"),
        ("opening", {"open_fraction": 1.5}, "open_fraction.*0.95.*1.5"),
        ("door_opening", {"start_fraction": 0.6}, "start_fraction must be < open_fraction.*0.5.*0.6"),
        ("door_opening", {"friction": (2.0, 1.0)}, "friction must be .min, max. factors"),
        ("door_opening", {"furniture": "drawer"}, "no option 'furniture'"),
        ("opening", {"furnitur": "drawer"}, "did you mean 'furniture'"),
    ],
)
def test_invalid_options_raise(name, options, words):
    with pytest.raises(OptionError, match=words):
        sn.tasks.make(name, **options)


def test_unknown_role_of_a_camera_raises_with_a_suggestion():
    with pytest.raises(NameNotFoundError, match=r"handel.*did you mean 'handle'"):
        sn.tasks.make("opening", cameras=[{"name": "front", "must_see": ["handel"]}])


@pytest.mark.parametrize(("name", "options"), [("opening", {"furniture": "drawer"}), ("door_opening", {})])
def test_start_and_goal_poses_are_those_of_the_part(name, options):
    task = sn.tasks.make(name, n_envs=2, seed=3, open_fraction=0.6, **options)
    observation, _ = task.reset()
    bodies = task.role_bodies()
    np.testing.assert_allclose(observation["obj_start_pose"], task.body_poses(bodies[:, 0]), atol=1e-6)
    for number, role in enumerate(("door", "handle")):
        expected = task.robot.in_base_frame(task.body_poses(bodies[:, number]))
        np.testing.assert_allclose(observation["object_poses"][role], expected, atol=1e-6)
    # where MuJoCo puts the part when its joint is at the goal
    world, model = task.scene.world, task.scene.model
    for env in range(2):
        address = model.joint(task.joint_name(env)).qposadr[0]
        world.bind("qpos")[env, address] = 0.6 * task.stroke()[env]
    task.scene.forward()
    reached = task.body_poses(bodies[:, 0])
    np.testing.assert_allclose(observation["obj_end_pose"], reached, atol=1e-5)
    assert (np.linalg.norm(observation["obj_end_pose"] - observation["obj_start_pose"], axis=1) > 0.1).all()
