"""Manipulators: controllers, grasping, state and action noise."""

import itertools
import json
import math

import numpy as np
import pytest
import torch
from arm_scenes import ARMS, DOWN, NEAR, arms, best, build, in_base, turned

import sensorium as sn
from sensorium.cli import main
from sensorium.robots import Manipulator, ManipulatorOptions, make

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
    sides = ["left_arm", "right_arm"] if name in ("bimanual", "rby1") else ["arm"]
    scene, robot = build(name, n_envs=3, pos=(0.2, 0.1, 0.0), yaw=-0.6, controllers=dict.fromkeys(sides, "ee_pose"))
    if name in ("mobile_franka", "rby1"):
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


@pytest.mark.parametrize("name", ["mobile_franka", "rby1"])
def test_a_base_drives_at_the_commanded_velocity_in_its_own_frame(name):
    scene, robot = build(name, n_envs=2, pos=(1, 2, 0), yaw=math.pi / 2)
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
    scene, robot = build("franka", n_envs=64)
    action = np.zeros((64, 8))
    action[:, :7] = robot.groups["arm"].target
    slow = 0.03 * best(scene.step)  # on a busy machine
    assert best(lambda: robot.act(action), 500) < max(150e-6, slow)
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


def test_grasp_sensors_of_rby1_measure_the_grip():
    spot = (0.55, 0.25, 0.43)
    block = sn.Box(size=(0.3, 0.6, 0.4), mass=200), (0.6, 0.0, 0.2)
    thing = sn.Box(size=(0.04, 0.04, 0.06), mass=0.3), spot
    scene, robot = build("rby1", objects={"block": block, "thing": thing})
    assert robot.rig.names == ["left_grasp_left", "left_grasp_right", "right_grasp_left", "right_grasp_right"]

    def forces():
        return {name: robot.rig[name].read()[0].norm().item() for name in robot.rig.names}

    assert max(forces().values()) < 0.5
    carry(robot, scene, "left_arm", [np.add(spot, (0, 0, 0.15)), spot], hold=15)
    robot.act({"left_gripper": [0.0]})
    scene.step(40)
    carry(robot, scene, "left_arm", [np.add(spot, (0, 0, 0.12))], hold=15)
    assert scene.entities["thing"].get_pose()[0][0, 2] > spot[2] + 0.1
    held = forces()
    assert held["left_grasp_left"] == pytest.approx(held["left_grasp_right"], rel=0.2)
    assert 20 < held["left_grasp_left"] < 70
    assert max(held["right_grasp_left"], held["right_grasp_right"]) < 0.5


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
