"""Wrong arguments of methods of tasks, planners and robots: the error names the argument, and nothing changes."""

import numpy as np
import pytest
import torch

import sensorium as sn
from sensorium.errors import NameNotFoundError


@pytest.fixture(scope="module")
def pick():
    task = sn.tasks.make("pick", n_envs=2, seed=0)
    task.register_policy(sn.policies.make("planner", task))
    task.reset()
    return task


@pytest.fixture(scope="module")
def walk():
    task = sn.tasks.make("walk", n_envs=2, seed=0)
    task.reset()
    return task


@pytest.fixture(scope="module")
def nav():
    task = sn.tasks.make("nav_to_obj", n_envs=2, seed=0)
    task.reset()
    return task


@pytest.mark.parametrize("numbers", [3, [1], [1, -1], [0.5, 1], ["a", "b"], [[1, 2]], [0, 2**31], [None, 1]])
@pytest.mark.parametrize("name", ["pick", "walk"])
def test_episode_numbers(name, numbers, request):
    task = request.getfixturevalue(name)
    before = np.array(task.episode.tolist())
    with pytest.raises(
        sn.OptionError, match=r"numbers must be integers in \[0, 2147483647\], one for each of 2 envs; got"
    ):
        task.reset(numbers=numbers)
    assert np.array_equal(np.array(task.episode.tolist()), before)


@pytest.mark.parametrize(
    ("catalogue", "known", "base"), [("TASKS", "pick", "Task"), ("TENSOR_TASKS", "walk", "TensorTask")]
)
def test_classes_of_the_catalogues(catalogue, known, base, monkeypatch):
    classes = getattr(sn.tasks, catalogue)
    for value in (int, 3, None):
        monkeypatch.setitem(classes, "own", value)
        with pytest.raises(sn.OptionError, match=rf"{catalogue}\['own'\] must be a class derived from {base}, got"):
            sn.tasks.make("own")
    monkeypatch.setitem(classes, "own", classes[known])
    with pytest.raises(sn.OptionError, match=rf"{catalogue}\['own'\] must be .*'own', got .* with the name '{known}'"):
        sn.tasks.make("own")


@pytest.mark.parametrize("numbers", [(4, 4), np.array([4, 4]), torch.tensor([4, 4])])
def test_episode_numbers_in_any_container(walk, numbers):
    assert walk.reset(numbers=numbers)[1]["episode"].tolist() == [4, 4]


@pytest.mark.parametrize("action", ["ahead", None, [[1], [2, 3]], object()])
def test_actions_that_are_no_numbers(walk, pick, action):
    with pytest.raises(sn.OptionError, match="action must be numbers, got"):
        walk.step(action)
    with pytest.raises(sn.OptionError, match=r"action .*must"):
        pick.step(action)


def test_move_groups(pick):
    arm, n_envs = pick.robot.groups["arm"], pick.n_envs
    before, home = arm.target.copy(), np.zeros((n_envs, 7))
    for call, message in {
        lambda: arm.put(home[:, :3], slice(None)): r"arm: position must be numbers of shape \(2, 7\)",
        lambda: arm.put("home", slice(None)): r"arm: position must be numbers of shape \(2, 7\), got 'home'",
        lambda: arm.put(home, np.array([0, 7])): "arm: rows must be a slice or ids of envs < 2, got",
        lambda: arm.put_home(None): "arm: rows must be a slice or ids of envs < 2, got None",
        lambda: arm.aim(home[:1], slice(None)): r"arm: target must be numbers of shape \(2, 7\)",
        lambda: arm.forward(home[0]): r"arm: joints must be numbers of shape \(2, 7\)",
        lambda: arm.solve("there"): "arm.solve: pose must be numbers, got 'there'",
        lambda: arm.solve(np.zeros(7)): "quaternion that is not zero",
        lambda: arm.solve([1.0, 2.0]): r"arm.solve: pose must have shape \(7,\)",
        lambda: arm.joints_at([[0.5]]): r"arm: fraction must be numbers \(m,\)",
        lambda: pick.robot.disturb([0], 0.1, [3]): "rngs must be",
        lambda: pick.robot.act([[1], [2, 3]]): "must be numbers",
    }.items():
        with pytest.raises(sn.OptionError, match=message):
            call()
    assert np.array_equal(arm.target, before)


def test_planners(pick):
    planner = pick.policy
    with pytest.raises(sn.OptionError, match=r"env must be an integer in \[0, 1\], got 2"):
        planner.phase(2)
    with pytest.raises(sn.OptionError, match=r"env must be an integer in \[0, 1\], got 'a'"):
        planner.succeeded("a", "lift")
    with pytest.raises(sn.OptionError, match="index must be a mapping of names to numbers, got 3"):
        planner.use_phase_index(3)


def test_places_of_a_base(nav):
    before = nav.robot.base_pose()
    for xy, yaw in (((1, 2, 3), 0.0), ("ab", 0.0), ((1, 2), None), (np.zeros((2, 2)), np.zeros(3)), ((), 0.0)):
        with pytest.raises(sn.OptionError, match=r"place: (xy|yaw) must"):
            nav.robot.place(xy, yaw)
    assert np.array_equal(nav.robot.base_pose(), before)


def test_names_in_a_room(nav):
    known = nav.target_name(0)
    with pytest.raises(NameNotFoundError, match=r"there is no object .*did you mean"):
        nav.reach(known + "x")
    with pytest.raises(sn.OptionError, match="names of objects must be text"):
        nav.reach(None)


def test_links_of_several_scenes():
    task = sn.tasks.make("multi", n_envs=2, seed=0)
    with pytest.raises(sn.OptionError, match=r"use task.tasks\[k\].body_poses"):
        task.body_poses(np.zeros(2, int))


@pytest.mark.parametrize("name", ["task", "robot", "policy"])
@pytest.mark.parametrize("value", [[], {}, np.zeros(2), 3])
def test_names_of_generated_datasets(name, value):
    with pytest.raises(sn.OptionError, match=name):
        sn.generation.GenerateOptions(**{"task": "balance", name: value})


@pytest.mark.parametrize("modules", [3, "tasks.py", [None], ["a\0b"], [""]])
def test_modules_of_generated_datasets(modules):
    with pytest.raises(sn.OptionError, match="modules must be"):
        sn.generation.GenerateOptions(task="balance", modules=modules)


def test_agents():
    pytest.importorskip("pettingzoo")
    entities = {"one": sn.TrainableEntity("balancer", [sn.IMU(link="torso")])}
    env = sn.tasks.make("balance", entities=entities).as_parallel_env()
    with pytest.raises(NameNotFoundError, match=r"there is no agent 'on'.*did you mean 'one'"):
        env.action_space("on")
    env.reset()
    with pytest.raises(sn.OptionError, match="actions must be a mapping of agents to actions, got 3"):
        env.step(3)


def test_lens_of_a_camera_profile(tmp_path):
    profile = sn.CameraProfile()
    with pytest.raises(sn.OptionError, match="intrinsics must be"):
        profile.rays(3, (4, 3))
    with pytest.raises(sn.OptionError, match="path must be a path"):
        profile.save(3)
