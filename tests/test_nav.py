"""NavToObj: solvable rooms, the definition of success, and its planner."""

import mujoco
import numpy as np
import pytest
import torch

import sensorium as sn
from sensorium import poses
from sensorium.scenarios import OccupancyMap
from sensorium.tasks.floor_plan import CELL, FURNITURE, FloorPlan, Footprint

ROBOTS = ("diffdrive", "holonomic")


def make(n_envs=2, **options):
    return sn.tasks.make("nav_to_obj", **{"n_envs": n_envs, "keep_history": False, **options})


def data_of(task, env):
    """Return MuJoCo data with the state of one env."""
    data = mujoco.MjData(task.scene.model)
    state = task.scene.get_state()[env].numpy()
    mujoco.mj_setState(task.scene.model, data, state, int(mujoco.mjtState.mjSTATE_INTEGRATION))
    mujoco.mj_forward(task.scene.model, data)
    return data


def sees(task, env):
    """Return whether mj_ray finds a line of sight that ignores the geoms of the robot."""
    model, data = task.scene.model, data_of(task, env)
    names = [model.body(body).name for body in model.geom_bodyid]
    model.geom_group[:] = [5 if name.startswith("robot/") else 0 for name in names]
    eye = data.body("robot/base").xpos + np.array([0, 0, task.config.eye])
    target = data.body(task.target_name(env))
    geom = np.zeros(1, np.int32)
    mujoco.mj_ray(model, data, eye, target.xpos - eye, np.array([1, 1, 1, 1, 1, 0], np.uint8), 1, -1, geom)
    return model.geom_bodyid[geom[0]] == target.id


def stand(task, env, away, turn=0.0, side=0.0):
    """Place the robot ``away`` metres (between surfaces) from the target, facing it up to an angle ``turn``."""
    there = task.target_pose()[env, :2]
    gap = task.robot.radius + task.objects[task.target_name(env)].radius + away
    task.robot.place(there - gap * np.array([np.cos(side), np.sin(side)]), side + turn, [env])
    task.scene.forward([env])


def test_distance_angle_and_sight_match_the_engine():
    task = make(12, seed=5)
    task.reset()
    for env in range(12):
        if env % 2:  # half of the robots are near their targets, where more is in sight
            stand(task, env, 0.3 + 0.1 * env, 0.2 * env, 0.5 * env)
    obs = task._observe()["nav_state"]
    for env in range(12):
        data = data_of(task, env)
        base, target = data.body("robot/base"), data.body(task.target_name(env))
        way = target.xpos[:2] - base.xpos[:2]
        radius = task.objects[task.target_name(env)].radius
        assert obs["distance"][env, 0] == pytest.approx(np.linalg.norm(way) - radius - task.robot.radius, abs=1e-5)
        heading = np.arctan2(base.xmat[3], base.xmat[0])
        off = (np.arctan2(way[1], way[0]) - heading + np.pi) % (2 * np.pi) - np.pi
        assert obs["angle"][env, 0] == pytest.approx(off, abs=1e-4)
        assert obs["in_sight"][env, 0] == sees(task, env)
    assert 0 < obs["in_sight"].sum() < 12


@pytest.mark.parametrize("robot", ROBOTS)
def test_every_start_has_a_path_and_no_contacts(robot):
    task = make(10, seed=1, robot=robot)
    task.reset()
    for env in range(10):
        model, data = task.scene.model, data_of(task, env)
        for contact in data.contact:
            bodies = {model.body(model.geom_bodyid[geom]).name for geom in contact.geom}
            assert contact.dist > -0.01
            assert not any(name.startswith("robot/") for name in bodies) or "floor" in bodies
        far = np.linalg.norm(task.target_pose()[env, :2] - task.robot.base_pose()[env, :2])
        assert far >= task.config.start_distance
    # the path planner also finds a path on a map from rays, which is independent of the layout
    for env in range(3):
        room, cells = task.drivable(env, use_rays=True)
        lengths = sn.scenarios.PathPlanner(room).lengths(task.robot.base_pose()[env, :2])
        assert np.isfinite(lengths[tuple(cells.T)]).any()


def test_map_of_a_layout_matches_a_map_from_rays():
    task = make(3, seed=2)
    task.reset()
    for env in range(3):
        known = task.plans[env].occupancy()
        bounds = (known.origin[0], known.origin[1], -known.origin[0], -known.origin[1])
        seen = OccupancyMap.from_scene(task.scene, CELL, (0.015, 0.5), bounds, exclude=("robot",), env=env)
        assert seen.shape == known.shape
        # the maps only differ at edges, within about a cell of occupied space
        missed = ~seen.free & known.free
        assert missed.mean() < 0.002
        assert (known.clearance()[missed] < 1.6 * CELL).all()
        assert (seen.clearance()[~known.free & seen.free] < 1.6 * CELL).all()


def test_footprint_distances():
    rng = np.random.default_rng(0)
    box = Footprint(0.3, -0.2, 0.7, (0.5, 0.2), False)
    points = rng.uniform(-2, 2, (200, 2))
    axis = np.array([np.cos(0.7), np.sin(0.7)])
    grid = np.stack(np.meshgrid(np.linspace(-0.5, 0.5, 401), np.linspace(-0.2, 0.2, 161)), -1).reshape(-1, 2)
    inside = np.array([0.3, -0.2]) + grid[:, :1] * axis + grid[:, 1:] * np.array([-axis[1], axis[0]])
    nearest = np.linalg.norm(points[:, None] - inside[None], axis=-1).min(axis=1)
    np.testing.assert_allclose(np.maximum(box.distance(points), 0), nearest, atol=2e-3)
    assert np.abs(box.distance(box.outline()[:-1])).max() < 1e-12
    assert box.distance(np.array([0.3, -0.2])) == pytest.approx(-0.2)
    circle = Footprint.circle(1.0, 1.0, 0.3)
    assert circle.distance(np.array([[1.0, 2.0], [1.0, 1.0]])) == pytest.approx([0.7, -0.3])
    plan = FloorPlan((3.0, 3.0), {"box": box})
    assert plan.gap(circle) == pytest.approx(min(0.2, box.distance(circle.outline()).min()))


def test_an_episode_only_depends_on_seed_env_and_number():
    few, many, other = make(2, seed=4), make(5, seed=4), make(2, seed=9)
    for task in (few, many, other):
        task.reset()
    assert torch.equal(few.scene.get_state(), many.scene.get_state()[:2])
    assert not torch.equal(few.scene.get_state(), other.scene.get_state())
    first = few.scene.get_state()
    few.reset([1])
    many.reset([1, 4])
    assert torch.equal(few.scene.get_state(), many.scene.get_state()[:2])
    assert torch.equal(few.scene.get_state()[0], first[0])
    assert not torch.equal(few.scene.get_state()[1], first[1])
    few.reseed(9)
    few.reset()
    assert torch.equal(few.scene.get_state(), other.scene.get_state())


def test_without_randomisation_all_episodes_are_equal():
    task = make(3, randomize={"poses": False, "objects": False})
    task.reset()
    state = task.scene.get_state()
    assert torch.equal(state[0], state[1])
    task.reset()
    assert torch.equal(task.scene.get_state(), state)
    assert task.target_name(0) == task.config.objects[0]
    assert set(task.plans[0].pieces) == {*task.config.furniture[:5], *task.config.objects[:3]}


def test_success_needs_all_conditions():
    task = make(6, seed=0, n_furniture=0, n_objects=1, hold_steps=4, start_distance=0.5, size=(8.0, 8.0))
    task.reset()
    rest = np.zeros((6, 2))
    stand(task, 0, 0.55)  # all conditions hold
    stand(task, 1, 0.65)  # too far
    stand(task, 2, 0.4, turn=0.4)  # does not face it
    stand(task, 3, 0.5)  # something blocks the line of sight
    stand(task, 4, 0.4)  # keeps turning
    stand(task, 5, 0.5, turn=-0.3)
    between = task.target_pose()[3, :2] + np.array([-0.2, 0.24])
    task.scene.world.bind("mocap_pos")[3, task._mocap["crate"]] = torch.tensor([*between, 0.25])
    task.scene.world.changes.write([3])
    task.scene.forward([3])
    moving = rest.copy()
    moving[4, 1] = 0.3
    for step in range(8):
        _, reward, terminated, _, info = task.step(moving)
        if step == 3:  # the fourth step in a row
            assert reward.tolist() == [1, 0, 0, 0, 0, 1]
        assert terminated[[1, 2, 3, 4]].sum() == 0
    assert info["success"].tolist() == [True, False, False, False, False, True]
    assert task.in_sight().tolist() == [True, True, True, False, True, True]


def test_base_of_a_drive_is_a_move_group():
    task = make(3, n_furniture=0, size=(8.0, 8.0))
    obs, _ = task.reset()
    assert obs["actions/commanded_action"][0] == {"base": [0.0, 0.0]}
    for _ in range(40):
        obs, *_ = task.step(np.tile([0.3, 0.5], (3, 1)))
    assert obs in task.suite.space
    yaw = obs["qpos"]["base"][:, 2]
    np.testing.assert_allclose(obs["qpos"]["base"][:, :2], obs["robot_base_pose"][:, :2], atol=1e-6)
    np.testing.assert_allclose(
        poses.yaw(yaw),
        obs["robot_base_pose"][:, 3:] * np.sign(obs["robot_base_pose"][:, 3:4]) * np.sign(np.cos(yaw / 2))[:, None],
        atol=2e-3,
    )
    np.testing.assert_allclose(obs["qvel"]["base"][:, 2], 0.5, atol=0.05)
    speed = np.linalg.norm(obs["qvel"]["base"][:, :2], axis=1)
    np.testing.assert_allclose(speed, 0.3, atol=0.03)
    for env in range(3):  # the target of one step ago is the position now
        assert obs["actions/joint_pos"][env]["base"] == pytest.approx(obs["qpos"]["base"][env], abs=2e-3)
        assert obs["actions/commanded_action"][env]["base"] == pytest.approx([0.3, 0.5])
        assert obs["actions/ee_pose"][env] == {}


@pytest.mark.parametrize("robot", [*ROBOTS, "mobile_franka"])
def test_planner_reaches_the_target(robot):
    task = make(8, seed=11, robot=robot)
    planner = sn.policies.make("planner", task)
    task.register_policy(planner)
    obs, _ = task.reset()
    phases = [[] for _ in range(8)]
    while not task.is_done().all():
        for env, reading in enumerate(obs["policy_phase"]):
            if not phases[env] or phases[env][-1] != reading["phase"]:
                phases[env].append(reading["phase"])
        if task.step_count[0] % 20 == 0:
            assert obs in task.suite.space
        obs, *_ = task.step(planner.get_action(obs))
    assert obs in task.suite.space
    won = task.judge_success()
    assert won.sum() >= 7
    state = obs["nav_state"]
    assert (state["distance"][won] <= 0.6).all()
    assert (np.abs(state["angle"][won]) <= 0.35).all()
    assert all(sees(task, env) for env in np.flatnonzero(won))
    for each in phases:  # a robot that arrives facing the target does not turn
        assert each in (["plan", "drive", "turn", "stop"], ["plan", "drive", "stop"]) or each.count("plan") > 1
    assert ["plan", "drive", "turn", "stop"] in phases
    assert "grasp_pose" not in task.suite


@pytest.mark.parametrize("robot", ROBOTS)
def test_planner_avoids_obstacles_that_appear_later(robot):
    task = make(2, seed=3, robot=robot, furniture=("pot", "pillar"), n_furniture=1)
    planner = sn.policies.make("planner", task)
    task.register_policy(planner)
    obs, _ = task.reset()
    obs, *_ = task.step(planner.get_action(obs))
    for env in range(2):
        absent = next(name for name in ("pot", "pillar") if name not in task.plans[env].pieces)
        way = planner._path[env, : planner._corners[env]]
        along = np.append(0, np.cumsum(np.hypot(*np.diff(way, axis=0).T)))
        middle = [np.interp(along[-1] / 2, along, way[:, axis]) for axis in (0, 1)]
        assert np.linalg.norm(middle - way[0]) > 0.6  # away from the robot
        at = torch.tensor([*middle, FURNITURE[absent].height / 2])
        task.scene.world.bind("mocap_pos")[env, task._mocap[absent]] = at
    task.scene.world.changes.write()
    while not task.is_done().all():
        obs, *_ = task.step(planner.get_action(obs))
    assert task.judge_success().all()
    assert (obs["policy_num_retries"] >= 1).all()


def test_rig_cameras_are_observed_with_the_option():
    task = make(1, rig_cameras=True, n_furniture=1)
    obs, _ = task.reset()
    assert obs["robot_front_left"].shape == (1, 240, 320, 3)
    assert obs["robot_front_left_depth"].shape == (1, 240, 320)
    assert "robot_front_left_segmentation" not in obs  # rendered for the image points only
    assert set(obs["object_image_points"]) == {"robot_front_left", "robot_front_right"}
    seen = obs["sensor_param_robot_front_left"]["cam2world"][0, :3, 3]
    assert np.linalg.norm(seen - task.robot.base_pose()[0, :3] - (0, 0, 0.16)) == pytest.approx(np.hypot(0.22, 0.06))
    task.close()
    task = make(
        1, n_furniture=1, cameras=({"name": "top", "pos": (0, 0, 7), "lookat": (0, 0.01, 0), "resolution": (640, 480)},)
    )
    obs, _ = task.reset()
    assert "robot_front_left" not in obs
    seen = obs["object_image_points"]["top"]["target_obj"]
    assert seen["visible"][0, 0] > 0
    point = seen["points"][0, 0] * (640, 480)
    there = np.append(task.target_pose()[0, :3], 1) @ obs["sensor_param_top"]["extrinsic"][0].T
    pixel = (obs["sensor_param_top"]["intrinsic"][0] @ there)[:2] / there[2]
    assert np.linalg.norm(point - pixel) < 8


def test_invalid_arguments_raise():
    with pytest.raises(sn.OptionError, match="needs a robot that drives; 'franka' does not"):
        make(robot="franka")
    with pytest.raises(sn.OptionError, match="needs a robot with arms as move groups; 'diffdrive' has none"):
        sn.tasks.make("pick", robot="diffdrive")
    with pytest.raises(LookupError, match="did you mean 'cabinet'"):
        make(furniture=("cabinett",))
    with pytest.raises(LookupError, match="did you mean 'nav_to_obj'"):
        sn.tasks.make("nav_to_object")
    with pytest.raises(sn.OptionError, match="n_objects is 9"):
        make(n_objects=9)
    crowded = make(1, size=(2.5, 2.5), n_furniture=6)
    with pytest.raises(sn.OptionError, match="n_furniture"):
        crowded.reset()
    task = make(1)
    task.reset()
    with pytest.raises(sn.OptionError, match=r"shape \(1, 2\)"):
        task.step(np.zeros((1, 3)))
    with pytest.raises(sn.OptionError, match="seed must be an integer"):
        task.reseed(-1)
    task.step(np.zeros((1, 2)))
