"""Tasks at a table: randomisation, observations, success, episode ends, policies and errors."""

import mujoco
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import sensorium as sn
from sensorium import poses
from sensorium.errors import EpisodeOverError, NameNotFoundError, OptionError
from sensorium.robots import chain_kernels
from sensorium.suites import decode
from sensorium.suites.images import find_pixels

EXPECTED = (
    *("qpos", "qvel", "robot_base_pose", "env_states", "task_info", "actions/commanded_action", "actions/joint_pos"),
    *("actions/joint_pos_rel", "actions/ee_twist", "actions/ee_pose", "object_image_points", "object_poses"),
    *("obj_start_pose", "obj_end_pose", "grasp_state_pickup_obj", "tcp_pose"),
)


def run(task, policy, max_steps=900):
    observation, _ = task.reset()
    for _ in range(max_steps):
        if task.is_done().all():
            break
        observation, *_ = task.step(policy.get_action(observation))
    return observation


def home_action(task):
    action = np.zeros((task.n_envs, task.robot.n_actions))
    for name, part in task.robot.action_slices.items():
        group = task.robot.groups[name]
        action[:, part] = 1.0 if group.description.kind == "gripper" else group.target
    return action


@pytest.fixture(scope="module")
def pick():
    """Return a pick task and its planner after one episode."""
    task = sn.tasks.make("pick", n_envs=4, seed=0)
    policy = sn.policies.make("planner", task)
    task.register_policy(policy)
    run(task, policy)
    return task, policy


# -- planners ---------------------------------------------------------------------------------------------------------


def test_planner_picks(pick):
    task, _ = pick
    assert task.judge_success().all()
    assert task.terminated.all()
    assert not task.truncated.any()
    # success according to the engine's state: the object is lifted
    for env in range(4):
        target = task.objects[task.pickup_name(env)]
        assert task.pickup_pose()[env, 2] > 0.4 + target.half[2] + 0.099


@pytest.mark.parametrize("name", ["pick", "pick_and_place"])
def test_planners_succeed_on_other_seeds(name):
    task = sn.tasks.make(name, n_envs=8, seed=11)
    policy = sn.policies.make("planner", task)
    task.register_policy(policy)
    run(task, policy)
    assert task.judge_success().sum() >= 7
    if name == "pick_and_place":
        at, plate = task.pickup_pose()[:, :3], task.plate_pose()[:, :3]
        good = task.judge_success()
        assert (np.linalg.norm(at[good, :2] - plate[good, :2], axis=1) < 0.09).all()


@pytest.mark.parametrize(("max_steps", "is_short"), [(70, True), (600, False)])
def test_planner_hurries_only_if_the_episode_is_short(max_steps, is_short):
    """At its own pace the plan takes more than 100 steps."""
    task = sn.tasks.make("pick", n_envs=4, seed=3, max_steps=max_steps)
    policy = sn.policies.make("planner", task)
    task.register_policy(policy)
    run(task, policy)
    assert task.judge_success().all()
    assert ((task.step_count <= 70) == is_short).all()
    assert ((task.step_count > 100) != is_short).all()


@pytest.mark.parametrize("controller", ["joint_position_relative", "joint_velocity", "ee_pose"])
def test_planner_supports_every_arm_controller(controller):
    robot = sn.robots.make("franka", controllers={"arm": controller}, pos=(0.0, 0.0, 0.4))
    task = sn.tasks.make("pick", robot=robot, n_envs=2, seed=3)
    policy = sn.policies.make("planner", task)
    task.register_policy(policy)
    run(task, policy)
    assert task.judge_success().all()


def test_idle_robot_does_not_succeed_and_is_truncated():
    task = sn.tasks.make("pick", n_envs=2, max_steps=30)
    task.reset()
    for step in range(30):
        _, reward, terminated, truncated, _ = task.step(home_action(task))
        assert not terminated.any()
        assert not reward.any()
        assert truncated.all() == (step == 29)
    assert not task.judge_success().any()


def test_object_lifted_without_a_grip_is_not_a_success():
    task = sn.tasks.make("pick", n_envs=1, hold_steps=1)
    task.reset()
    here = task.pickup_pose()[0]
    task.scene[task.pickup_name(0)].set_pose((*here[:2], 1.0), here[3:])
    task.step(home_action(task))
    assert not task.judge_success().any()


# -- observations -----------------------------------------------------------------------------------------------------


def test_composition_order_is_task_robot_policy(pick):
    task, _ = pick
    assert list(task.suite)[-4:] == ["tcp_pose", "policy_phase", "policy_num_retries", "grasp_pose"]
    assert tuple(task.suite)[: len(EXPECTED)] == EXPECTED
    assert [task.suite.owner(uuid).split()[0] for uuid in ("qpos", "tcp_pose", "grasp_pose")] == [
        "task",
        "robot",
        "policy",
    ]


def test_every_observation_is_in_the_space():
    task = sn.tasks.make("pick_and_place", n_envs=2, seed=1)
    policy = sn.policies.make("planner", task)
    task.register_policy(policy)
    observation, _ = task.reset()
    while not task.is_done().all():
        assert observation in task.suite.space
        observation, *_ = task.step(policy.get_action(observation))
    assert observation in task.suite.space
    stored = task.suite.to_disk(observation)
    assert set(stored) == set(task.suite.space.spaces)
    assert stored["task_info"].shape == (2, 2000)
    assert decode(stored["task_info"])[0]["task"] == "pick_and_place"


def test_state_observations_match_the_engine(pick):
    task, _ = pick
    observation = task.suite.read()
    world, model = task.scene.world, task.scene.model
    qpos, qvel = world.bind("qpos").numpy(), world.bind("qvel").numpy()
    for number in range(1, 8):
        joint = model.joint(f"robot/joint{number}")
        np.testing.assert_allclose(observation["qpos"]["arm"][:, number - 1], qpos[:, joint.qposadr[0]], atol=1e-6)
        np.testing.assert_allclose(observation["qvel"]["arm"][:, number - 1], qvel[:, joint.dofadr[0]], atol=1e-6)
    data = mujoco.MjData(model)
    for env in range(4):
        data.qpos[:], data.qvel[:] = qpos[env], qvel[env]
        mujoco.mj_forward(model, data)
        velocity = np.zeros(6)
        for name in task.objects:
            row = observation["env_states"]["actors"][name][env]
            np.testing.assert_allclose(
                row[:7], np.concatenate([data.body(name).xpos, data.body(name).xquat]), atol=1e-5
            )
            mujoco.mj_objectVelocity(model, data, mujoco.mjtObj.mjOBJ_XBODY, data.body(name).id, velocity, 0)
            np.testing.assert_allclose(row[7:], [*velocity[3:], *velocity[:3]], atol=1e-4)
        tool = data.site("robot/tcp")
        base = data.body("robot/link0")
        expected = base.xmat.reshape(3, 3).T @ (tool.xpos - base.xpos)
        np.testing.assert_allclose(observation["tcp_pose"][env, :3], expected, atol=1e-5)
        target = data.body(task.pickup_name(env))
        expected = base.xmat.reshape(3, 3).T @ (target.xpos - base.xpos)
        np.testing.assert_allclose(observation["object_poses"]["pickup_obj"][env, :3], expected, atol=1e-5)


def test_action_observations_are_zero_at_first_and_empty_at_the_end():
    task = sn.tasks.make("pick", n_envs=2, max_steps=2)
    observation, _ = task.reset()
    names = [uuid for uuid in task.suite if uuid.startswith("actions/")]
    assert len(names) == 5
    for uuid in names:
        for env in range(2):
            assert observation[uuid][env]
            if uuid == "actions/ee_pose":
                continue
            assert not np.any(np.concatenate(list(observation[uuid][env].values())))
    np.testing.assert_allclose(
        [row["arm"] for row in observation["actions/ee_pose"]], observation["tcp_pose"], atol=1e-6
    )
    action = home_action(task)
    action[:, 0] += 0.1
    before = task.robot.groups["arm"].qpos
    observation, *_ = task.step(action)
    for env in range(2):
        np.testing.assert_allclose(observation["actions/commanded_action"][env]["arm"], action[env, :7])
        np.testing.assert_allclose(observation["actions/joint_pos"][env]["arm"], action[env, :7])
        np.testing.assert_allclose(observation["actions/joint_pos_rel"][env]["arm"], action[env, :7] - before[env])
        pose = np.array(observation["actions/ee_pose"][env]["arm"])
        expected = poses.relative(task.robot.base_pose(), task.robot.groups["arm"].forward(action[:, :7]))[env]
        np.testing.assert_allclose(pose, expected, atol=1e-9)
        # the first joint turns the tool by 0.1 rad about the z axis of the base
        twist = np.array(observation["actions/ee_twist"][env]["arm"])
        np.testing.assert_allclose(twist[3:], [0, 0, 0.1 / task.config.dt], atol=1e-6)
    observation, *_ = task.step(action)
    assert all(value == {} for uuid in names for value in observation[uuid])


@given(st.lists(st.tuples(*[st.floats(-1, 1)] * 14), min_size=1, max_size=4), st.floats(1e-3, 1))
@settings(deadline=None)
def test_twist_between_poses_matches_quaternion_algebra(rows, dt):
    start, goal = np.array(rows).reshape(-1, 2, 7).swapaxes(0, 1)
    for pose in (start, goal):
        pose[:, 3] += 1.5  # avoid quaternions of length 0
        pose[:, 3:] /= np.linalg.norm(pose[:, 3:], axis=1, keepdims=True)
    goal[:, 3:] *= -1  # the same rotation
    twist = np.empty((len(goal), 6))
    chain_kernels.between(start, goal, dt, twist)
    np.testing.assert_allclose(twist[:, :3], (goal - start)[:, :3] / dt)
    turn = poses.rotation_vector(poses.multiply(goal[:, 3:], poses.conjugate(start[:, 3:])))
    np.testing.assert_allclose(twist[:, 3:], turn / dt, atol=1e-9 / dt)


def test_grasp_state_is_updated_in_every_step_and_for_a_new_target():
    task = sn.tasks.make("pick", n_envs=2, seed=0)
    policy = sn.policies.make("planner", task)
    task.register_policy(policy)
    observation, _ = task.reset()
    seen = []
    while not task.is_done().all():
        observation, *_ = task.step(policy.get_action(observation))
        fresh = task.grips([task.pickup_name(env) for env in range(2)])["gripper"]
        np.testing.assert_array_equal(task.pickup_grips()["gripper"], fresh)
        state = observation["grasp_state_pickup_obj"]["gripper"]
        assert list(state) == ["touched", "held"]
        np.testing.assert_array_equal(np.hstack([state["touched"], state["held"]]), fresh)
        seen.append(fresh[:, 1].any())
    assert seen[-1]
    assert not seen[0]
    task.pickup[:] = (task.pickup + 1) % len(task.objects)
    assert not task.pickup_grips()["gripper"].any()
    task.reset()
    assert not task.pickup_grips()["gripper"].any()


def test_use_sensors_false_gives_empty_observations():
    task = sn.tasks.make("pick", n_envs=2, use_sensors=False)
    policy = sn.policies.make("planner", task)
    task.register_policy(policy)
    observation, _ = task.reset()
    assert observation == {}
    assert task.suite is None
    observation, *_ = task.step(policy.get_action(observation))
    assert observation == {}


def test_history_holds_every_step(pick):
    task, _ = pick
    history = task.get_history()
    steps = len(history["rewards"])
    assert len(history["observations"]) == steps + 1
    assert history["actions"].shape == (steps, 4, 8)
    for name in ("rewards", "terminals", "truncateds", "successes"):
        assert history[name].shape == (steps, 4)
    np.testing.assert_array_equal(history["terminals"][-1], task.terminated)
    np.testing.assert_array_equal(history["rewards"].sum(axis=0), [1, 1, 1, 1])


# -- cameras ----------------------------------------------------------------------------------------------------------

CAMERAS = (
    {
        "name": "front",
        "depth": True,
        "segmentation": True,
        "resolution": (96, 64),
        "pose_jitter": 0.15,
        "must_see": ("pickup_obj",),
    },
    {"name": "wrist", "link": "hand", "pos": (0.07, 0, 0.02), "lookat": (0.03, 0, 0.2), "resolution": (64, 48)},
)


def test_one_render_pass_per_step_serves_all_image_observations(monkeypatch):
    from sensorium.cameras.render_pass import RenderPass

    passes, render = [], RenderPass.render
    monkeypatch.setattr(RenderPass, "render", lambda self, *args: (passes.append(1), render(self, *args))[1])
    task = sn.tasks.make("pick", n_envs=2, seed=5, cameras=CAMERAS)
    task.reset()
    passes.clear()
    observation, *_ = task.step(home_action(task))
    assert len(passes) == 1
    assert observation in task.suite.space
    assert observation["front"].shape == (2, 64, 96, 3)
    assert observation["front_depth"].shape == (2, 64, 96)
    assert "wrist_depth" not in observation
    assert task.get_history()["skipped_images"] == ["front", "front_depth", "front_segmentation", "wrist"]


def test_camera_parameters_project_objects_to_their_image_points():
    task = sn.tasks.make("pick", n_envs=3, seed=2, cameras=CAMERAS)
    observation, _ = task.reset()
    parameters = observation["sensor_param_front"]
    here = task.pickup_pose()[:, :3]
    found = observation["object_image_points"]["front"]["pickup_obj"]
    for env in range(3):
        there = parameters["extrinsic"][env] @ np.append(here[env], 1)
        assert there[2] > 0  # OpenCV axes: z is forward
        pixel = (parameters["intrinsic"][env] @ there)[:2] / there[2]
        assert found["visible"][env, 0] > 0
        points = found["points"][env] * (96, 64)
        points = points[points[:, 0] >= 0]
        assert np.linalg.norm(points.mean(axis=0) - pixel) < 6
        # OpenGL axes: the camera looks along -z, and y is up
        matrix = parameters["cam2world"][env]
        ahead = (np.linalg.inv(matrix) @ np.append(here[env], 1))[:3]
        np.testing.assert_allclose(ahead * (1, -1, -1), there, atol=1e-4)
        assert matrix[2, 1] > 0


def test_image_points_are_spread_over_the_object():
    segmentation = np.full((1, 8, 10, 2), -1, np.int32)
    segmentation[0, 2:6, 3:8, 0] = 4
    segmentation[0, 0, 0, 0] = 7
    table = np.full((1, 9), -1, np.int64)
    table[0, 4], table[0, 7] = 0, 1
    points, visible = np.zeros((1, 3, 10, 2), np.float32), np.zeros((1, 3), np.int32)
    find_pixels(segmentation, table, points, visible)
    assert visible.tolist() == [[20, 1, 0]]
    x, y = (points[0, 0] * (10, 8)).T
    assert ((x >= 3) & (x < 8) & (y >= 2) & (y < 6)).all()
    assert set(y.astype(int)) == {2, 3, 4, 5}
    np.testing.assert_allclose(points[0, 1, 0], (0.05, 0.0625))
    assert (points[0, 1, 1:] == -1).all()
    assert (points[0, 2] == -1).all()


@pytest.mark.parametrize("total", [1, 9, 10, 11, 15, 19, 20, 57])
def test_up_to_ten_image_points_are_selected(total):
    order = np.sort(np.random.default_rng(total).choice(120, total, replace=False))
    segmentation = np.full((1, 8, 15, 2), -1, np.int32)
    segmentation.reshape(120, 2)[order, 0] = 2
    points, visible = np.zeros((1, 1, 10, 2), np.float32), np.zeros((1, 1), np.int32)
    find_pixels(segmentation, np.array([[-1, -1, 0]]), points, visible)
    kept = min(total, 10)
    assert visible[0, 0] == total
    picked = order[(2 * np.arange(kept) + 1) * total // (2 * kept)]
    np.testing.assert_allclose(points[0, 0, :kept] * (15, 8) - 0.5, np.stack([picked % 15, picked // 15], 1), atol=1e-5)
    assert (points[0, 0, kept:] == -1).all()


def test_cameras_see_their_must_see_objects_from_different_poses():
    task = sn.tasks.make("pick", n_envs=4, seed=8, cameras=CAMERAS[:1], randomize={"colors": 0.2, "lights": 0.3})
    observation, _ = task.reset()
    assert (observation["object_image_points"]["front"]["pickup_obj"]["visible"] > 0).all()
    matrices = observation["sensor_param_front"]["cam2world"]
    assert len({tuple(matrix[:3, 3]) for matrix in matrices}) == 4


# -- randomisation ----------------------------------------------------------------------------------------------------


def test_an_episode_only_depends_on_seed_env_and_number():
    few, many = (sn.tasks.make("pick", n_envs=n, seed=4) for n in (2, 5))
    few.reset()
    many.reset()
    np.testing.assert_array_equal(few.start_pose, many.start_pose[:2])
    assert [few.pickup_name(env) for env in range(2)] == [many.pickup_name(env) for env in range(2)]
    first = many.start_pose.copy()
    many.reset(envs=[1])  # the second episode of env 1
    np.testing.assert_array_equal(np.delete(many.start_pose, 1, 0), np.delete(first, 1, 0))
    assert not np.array_equal(many.start_pose[1], first[1])
    few.reset()
    np.testing.assert_array_equal(few.start_pose[1], many.start_pose[1])
    other = sn.tasks.make("pick", n_envs=2, seed=5)
    other.reset()
    assert not np.allclose(other.start_pose[:, :2], first[:2, :2])


def test_objects_do_not_overlap_and_absent_ones_are_away_from_the_table():
    task = sn.tasks.make("pick", n_envs=6, seed=1, n_objects=3)
    task.reset()
    model = task.scene.model
    spots = np.stack([task.body_poses(np.full(6, model.body(name).id))[:, :3] for name in task.objects], axis=1)
    for env in range(6):
        there = spots[env][spots[env, :, 0] > 0]
        assert len(there) == 3
        names = [name for name, spot in zip(task.objects, spots[env], strict=True) if spot[0] > 0]
        assert task.pickup_name(env) in names
        for i, a in enumerate(names):
            for b, spot in zip(names[i + 1 :], there[i + 1 :], strict=True):
                gap = np.linalg.norm(there[i, :2] - spot[:2]) - task.objects[a].radius - task.objects[b].radius
                assert gap > 0.03
    # no object sinks or jumps in the first step
    task.step(home_action(task))
    assert np.abs(task.pickup_pose()[:, 2] - task.start_pose[:, 2]).max() < 0.003


# -- episode ends -----------------------------------------------------------------------------------------------------


def test_env_that_is_done_holds_still_until_reset():
    task = sn.tasks.make("pick", n_envs=3, max_steps=4)
    task.reset()
    task.step(home_action(task))
    task.step(home_action(task))
    task.reset(envs=[1])
    action = home_action(task)
    action[:, 1] += 0.3
    for _ in range(2):
        task.step(action)
    assert task.is_done().tolist() == [True, False, True]
    state, time = task.scene.get_state().clone(), task.scene.time.clone()
    task.step(action)
    assert (task.scene.get_state()[[0, 2]] == state[[0, 2]]).all()
    assert (task.scene.time[[0, 2]] == time[[0, 2]]).all()
    assert (task.scene.time[1] > time[1]).all()
    action[[0, 2]] = np.nan  # rows of envs that are done are ignored
    task.step(action)
    with pytest.raises(EpisodeOverError, match=r"every env is done.*reset"):
        task.step(home_action(task))
    task.reset(envs=[0])
    assert task.is_done().tolist() == [False, True, True]
    task.step(home_action(task))


def test_autoreset_returns_the_final_observation():
    task = sn.tasks.make("pick", n_envs=2, max_steps=3, autoreset=True)
    task.reset()
    first = task.start_pose.copy()
    for _ in range(2):
        _, _, _, truncated, info = task.step(home_action(task))
        assert "final_obs" not in info
    observation, _, terminated, truncated, info = task.step(home_action(task))
    assert truncated.all()
    assert not terminated.any()
    assert info["_final_obs"].all()
    assert info["final_obs"]["task_info"][0]["step"] == 3
    assert info["final_obs"]["actions/joint_pos"] == ({}, {})
    assert observation["task_info"][0] | {"step": 0, "episode": 1} == observation["task_info"][0]
    assert not np.array_equal(task.start_pose, first)
    assert not task.is_done().any()


# -- policies ---------------------------------------------------------------------------------------------------------


def test_playback_policy_repeats_recorded_actions(pick):
    task, _ = pick
    again = sn.tasks.make("pick", n_envs=4, seed=0)
    policy = sn.policies.make("playback", again, actions=task.get_history()["actions"])
    again.register_policy(policy)
    run(again, policy)
    assert again.judge_success().all()


def test_checkpoint_and_function_policies_act(tmp_path):
    import torch

    task = sn.tasks.make("pick", n_envs=2)
    seen = []
    policy = sn.policies.make("function", task, function=lambda obs: (seen.append(obs), home_action(task))[1])
    observation, _ = task.reset()
    task.step(policy.get_action(observation))
    assert seen[0] is observation
    net = torch.nn.Linear(7 + 9, 8)
    torch.save(net.state_dict(), tmp_path / "net.pt")
    fresh = torch.nn.Linear(7 + 9, 8)
    policy = sn.policies.make("checkpoint", task, module=fresh, keys=["tcp_pose", "qpos"], path=tmp_path / "net.pt")
    arrays = [observation["tcp_pose"], observation["qpos"]["arm"], observation["qpos"]["gripper"]]
    with torch.no_grad():
        expected = net(torch.from_numpy(np.concatenate(arrays, axis=1))).numpy()
    np.testing.assert_allclose(policy.get_action(observation), expected)
    with pytest.raises(NameNotFoundError, match="did you mean 'tcp_pose'"):
        sn.policies.make("checkpoint", task, module=fresh, keys=["tcp_pos"])
    with pytest.raises(OptionError, match="is text"):
        sn.policies.make("checkpoint", task, module=fresh, keys=["task_info"])


# -- bad input --------------------------------------------------------------------------------------------------------


def test_unknown_names_raise_with_a_suggestion():
    with pytest.raises(NameNotFoundError, match="did you mean 'pick'"):
        sn.tasks.make("pik")
    with pytest.raises(NameNotFoundError, match="did you mean 'franka'"):
        sn.tasks.make("pick", robot="frank")
    with pytest.raises(NameNotFoundError, match="did you mean 'red_cube'"):
        sn.tasks.make("pick", objects=("red_cub",))
    with pytest.raises(NameNotFoundError, match="did you mean 'hand'"):
        sn.tasks.make("pick", cameras=[{"name": "wrist", "link": "hnd"}])
    with pytest.raises(NameNotFoundError, match="did you mean 'pickup_obj'"):
        sn.tasks.make("pick", cameras=[{"name": "front", "must_see": ["pickup_object"]}])
    with pytest.raises(OptionError, match="n_objects is 3"):
        sn.tasks.make("pick", objects=("red_cube",), n_objects=3)
    task = sn.tasks.make("pick")
    with pytest.raises(NameNotFoundError, match="did you mean 'planner'"):
        sn.policies.make("planer", task)


def test_invalid_actions_raise_and_change_nothing():
    task = sn.tasks.make("pick", n_envs=2)
    with pytest.raises(EpisodeOverError, match="reset"):
        task.step(home_action(task))
    task.reset()
    state = task.scene.get_state().clone()
    good = home_action(task)
    bad = good.copy()
    bad[1, 2] = np.nan
    for action, text in (
        (good[:, :7], r"shape \(2, 8\).*arm: 7, gripper: 1.*\(2, 7\)"),
        (good[0], "shape"),
        (bad, "row of env 1 has NaN"),
        (good.astype(complex), "numbers, got dtype complex128"),
        (np.full((2, 8), "a"), "numbers"),
        ({"arm": good[:, :7]}, "move groups"),
        ({"arm": good[:, :7], "griper": good[:, 7:]}, "did you mean 'gripper'"),
    ):
        with pytest.raises(OptionError, match=text):
            task.step(action)
    assert (task.scene.get_state() == state).all()
    assert (task.step_count == 0).all()
    task.step({"arm": good[:, :7], "gripper": good[:, 7:]})


def test_second_policy_is_refused_and_the_first_stays(pick):
    task, policy = pick
    with pytest.raises(ValueError, match="PickPlanner already"):
        task.register_policy(sn.policies.make("planner", task))
    assert task.policy is policy


def test_robot_without_move_groups_is_refused():
    with pytest.raises(OptionError, match="move groups"):
        sn.tasks.make("pick", robot="diffdrive")


# -- edge cases -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("random_poses", [True, False])
def test_no_env_starts_at_the_goal(random_poses):
    task = sn.tasks.make("pick_and_place", n_envs=12, seed=6, n_objects=3, randomize={"poses": random_poses})
    task.reset()
    for _ in range(15):
        task.step(home_action(task))
    assert not task.is_done().any()
    if not random_poses:
        first = task.plate_pose()[:, :2]
        np.testing.assert_allclose(first, np.tile(first[0], (12, 1)), atol=1e-3)
    with pytest.raises(OptionError, match="no room for 4 objects"):
        sn.tasks.make("pick_and_place", n_objects=3, area=((0.4, 0.5), (0.0, 0.1))).reset()
    with pytest.raises(OptionError, match="on the table"):
        sn.tasks.make("pick", area=((2.0, 3.0), (0.0, 0.1)))


def test_colours_and_lights_only_depend_on_seed_and_episode_number():
    options = {"cameras": CAMERAS[:1], "randomize": {"colors": 0.5, "lights": 0.5}}
    first, second = sn.tasks.make("pick", seed=1, **options), sn.tasks.make("pick", seed=9, **options)
    first.reseed(9)
    np.testing.assert_array_equal(first.reset()[0]["front"], second.reset()[0]["front"])
    many = sn.tasks.make("pick", n_envs=3, seed=9, **options)
    seen = many.reset(numbers=[5, 6, 7])[0]["front"]
    np.testing.assert_array_equal(second.reset(numbers=[6])[0]["front"][0], seen[1])


def test_reset_with_a_seed_restarts_the_action_noise():
    robot = sn.robots.make("franka", action_noise=0.02)
    view = sn.tasks.as_gym(sn.tasks.make("pick", robot=robot), keys=("qpos",), flatten=True)
    runs = []
    for _ in range(2):
        view.reset(seed=7)
        action = view.task.robot.groups["arm"].target[0]
        runs.append([view.step(np.append(action, 1.0).astype(np.float32))[0] for _ in range(5)])
    np.testing.assert_array_equal(*runs)


def test_episode_numbers_are_assigned_to_the_given_envs():
    task = sn.tasks.make("pick", n_envs=3)
    task.reset()
    task.reset([2, 0], numbers=[10, 20])
    assert task.episode.tolist() == [20, 0, 10]
    for wrong in ([1.7, 2.2], ["a", "b"], [1], [-1, 2]):
        with pytest.raises(OptionError, match="numbers must be integers"):
            task.reset([0, 1], numbers=wrong)


def test_planner_makes_its_plan_when_registered_or_first_called():
    task = sn.tasks.make("pick", n_envs=2, seed=0)
    observation, _ = task.reset()
    registered = sn.policies.make("planner", task)
    task.register_policy(registered)
    assert registered.phase(0) == "approach"
    other = sn.tasks.make("pick", n_envs=2, seed=0)
    observation, _ = other.reset()
    unregistered = sn.policies.make("planner", other)
    unregistered.get_action(observation)
    assert unregistered.phase(1) == "approach"
    with pytest.raises(OptionError, match="made for this task"):
        sn.tasks.make("pick").register_policy(registered)
    with pytest.raises(OptionError, match="made for this task"):
        sn.tasks.make("pick").register_policy(3)
    with pytest.raises(OptionError, match="did you mean 'max_retries'"):
        sn.policies.make("planner", other, retries=2)
    with pytest.raises(OptionError, match="needs the option 'actions'"):
        sn.policies.make("playback", other)


def test_actions_by_move_group_must_have_the_right_shape():
    task = sn.tasks.make("pick", n_envs=2)
    task.reset()
    with pytest.raises(OptionError, match=r"'arm' must have shape \(2, 7\), got \(2, 1\)"):
        task.step({"arm": np.zeros((2, 1)), "gripper": np.zeros((2, 7))})
    with pytest.raises(OptionError, match="ragged"):
        task.step([[0.0] * 8, [0.0]])


def test_robot_by_name_and_robot_object_are_equivalent_and_reusable():
    robot = sn.robots.make("franka")
    tasks = [sn.tasks.make("pick", robot=each, seed=2) for each in ("franka", robot, robot)]
    seen = [task.reset()[0] for task in tasks]
    for other in seen[1:]:
        np.testing.assert_array_equal(other["robot_base_pose"], seen[0]["robot_base_pose"])
        np.testing.assert_array_equal(other["obj_start_pose"], seen[0]["obj_start_pose"])
    assert tasks[1].config.robot == "franka"


def test_history_is_a_copy_of_the_observations():
    task = sn.tasks.make("pick")
    observation, _ = task.reset()
    kept = observation["qpos"]["arm"].copy()
    observation["qpos"]["arm"][:] = 99
    np.testing.assert_array_equal(task.get_history()["observations"][0]["qpos"]["arm"], kept)


def test_camera_that_cannot_see_its_object_causes_a_warning():
    away = {
        "name": "front",
        "pos": (1.5, 0, 1),
        "lookat": (3, 0, 1),
        "resolution": (32, 24),
        "must_see": ("pickup_obj",),
    }
    task = sn.tasks.make("pick", cameras=[away])
    with pytest.warns(UserWarning, match=r"'front' does not see pickup_obj in the envs \[0\]"):
        task.reset()
    with pytest.raises(OptionError, match="carried by 'hand'"):
        sn.tasks.make("pick", cameras=[{"name": "wrist", "link": "hand", "pose_jitter": 0.1}])


# -- suites of tasks --------------------------------------------------------------------------------------------------


class OwnSuite(sn.tasks.Pick):
    """A pick task whose hook returns a suite."""

    n_sensed = 2

    def create_task_sensors(self, config):
        sensors = super().create_task_sensors(config)
        return sn.suites.SensorSuite(self.n_sensed, sensors, "own task")


def test_a_task_may_return_a_suite():
    task = OwnSuite(sn.tasks.PickConfig(n_envs=2))
    plain = sn.tasks.make("pick", n_envs=2)
    assert list(task.suite) == list(plain.suite)
    assert task.suite.owner("qpos") == "own task"
    assert task.suite.owner("tcp_pose") == "robot 'franka'"
    assert task.reset()[0] in task.suite.space
    with pytest.raises(sn.OptionError, match="the suite is for 2 envs and the task has 3"):
        OwnSuite(sn.tasks.PickConfig(n_envs=3))


@pytest.mark.parametrize("made", [None, "qpos", {"qpos": 1}])
def test_a_task_that_returns_no_sensors_raises(made):
    class Wrong(sn.tasks.Pick):
        def create_task_sensors(self, config):
            return made

    with pytest.raises(sn.OptionError, match=r"Wrong\.create_task_sensors must return a list of sensors"):
        Wrong(sn.tasks.PickConfig())


def test_a_base_driven_by_velocity_has_no_relative_joint_positions():
    task = sn.tasks.make("pick", robot="mobile_franka", n_envs=2)
    observation, _ = task.reset()
    for _ in range(2):
        for env in range(2):
            assert list(observation["actions/joint_pos_rel"][env]) == ["arm", "gripper"]
            assert list(observation["actions/joint_pos"][env]) == ["base", "arm", "gripper"]
            assert np.linalg.norm(observation["actions/ee_pose"][env]["arm"][3:]) == pytest.approx(1.0)
        observation, *_ = task.step(task.action_space.sample())


@pytest.mark.parametrize("name", ["pick", "pick_and_place", "opening", "door_opening", "nav_to_obj", "multi"])
def test_phases_have_an_index(name):
    task = sn.tasks.make(name, n_envs=2, max_steps=2000)
    policy = sn.policies.make("planner", task)
    task.register_policy(policy)
    phases = policy.get_all_phases()
    assert list(phases.values()) == list(range(len(phases)))
    observation, _ = task.reset()
    for _ in range(3):
        for reading in observation["policy_phase"]:
            assert set(reading) == {"phase", "index"}
            assert phases[reading["phase"]] == reading["index"]
        observation, *_ = task.step(policy.get_action(observation))
    phases["other"] = 99
    assert "other" not in policy.get_all_phases()


def test_every_phase_of_a_plan_is_listed():
    """Planners name all phases of their plans, also those after a failure."""
    for name in ("pick", "pick_and_place", "opening"):
        task = sn.tasks.make(name, n_envs=1)
        policy = sn.policies.make("planner", task)
        task.register_policy(policy)
        task.reset()
        for retries in (0, 1):
            policy.retries[0] = retries
            plan = policy.make_plan(0)
            assert {waypoint.phase for waypoint in plan.waypoints} <= set(policy.get_all_phases())


def test_an_entity_cannot_do_several_tasks():
    entity = sn.TrainableEntity(robot="franka", sensors=[sn.JointEncoder(joints=[0])])
    with pytest.raises(sn.OptionError, match=r"'multi' has one scene per task.*make\('pick', entity=\.\.\.\)"):
        sn.tasks.make("multi", entity=entity, n_envs=2)


@pytest.mark.parametrize("robot", ["yam", "rby1"])
def test_planners_pick_with_every_arm(robot):
    task = sn.tasks.make("pick", robot=robot, n_envs=4, seed=5, keep_history=False)
    policy = sn.policies.make("planner", task)
    task.register_policy(policy)
    observation, _ = task.reset()
    assert observation in task.suite.space
    while not task.is_done().all():
        observation, *_ = task.step(policy.get_action(observation))
    assert task.judge_success().all()
    if robot == "rby1":  # its grasp sensors feel the object in the hand that holds it
        grips = [observation[f"robot_{side}_grasp_left"] for side in ("left", "right")]
        assert (np.linalg.norm(grips, axis=2).max(axis=0) > 5).all()
