"""MultiTask: each env runs its task as if it were alone, with common spaces."""

import numpy as np
import pytest
import torch

import sensorium as sn
from sensorium.suites import ArraySensor, DictSensor, merge

ROOMS = (
    {"name": "nav_to_obj", "options": {"furniture": ("drum", "crate"), "n_furniture": 1, "max_steps": 6}},
    {"name": "nav_to_obj", "options": {"furniture": ("pot",), "n_furniture": 0, "max_steps": 4}},
)


def rooms(n_envs=5, **options):
    return sn.tasks.make("multi", robot="holonomic", tasks=ROOMS, n_envs=n_envs, **options)


def test_each_env_matches_its_task_run_alone():
    task = rooms(seed=7)
    obs, info = task.reset()
    alone = []
    for sub in task.tasks:
        alone.append(type(sub)(sub.config))
        alone[-1].reset()
    assert [envs.tolist() for envs in task.envs_of] == [[0, 2, 4], [1, 3]]
    assert info["episode"].tolist() == [0] * 5
    rng = np.random.default_rng(0)
    for _ in range(3):
        action = rng.uniform(-0.5, 0.5, (5, 3))
        obs, reward, _, _, _ = task.step(action)
        for sub, envs in zip(alone, task.envs_of, strict=True):
            seen, earned, *_ = sub.step(action[envs])
            np.testing.assert_array_equal(reward[envs], earned)
            for uuid in ("robot_base_pose", "obj_start_pose"):
                np.testing.assert_array_equal(obs[uuid][envs], seen[uuid])
            np.testing.assert_array_equal(obs["robot_lidar"]["distances"][envs], seen["robot_lidar"]["distances"])
            for name, value in seen["env_states"]["actors"].items():
                np.testing.assert_array_equal(obs["env_states"]["actors"][name][envs], value)
            assert [obs["task_info"][env] for env in envs] == list(seen["task_info"])


def test_spaces_are_merged_and_missing_observations_are_zero():
    task = sn.tasks.make("multi", tasks=("pick", "pick_and_place"), n_envs=4)
    obs, _ = task.reset()
    pick, place = (sub.suite.single_space for sub in task.tasks)
    assert set(task.suite) == set(pick) | set(place)
    assert obs in task.suite.space
    assert task.action_space.shape == (4, 8)
    assert task.single_action_space == task.tasks[1].single_action_space
    plate = obs["env_states"]["actors"]["plate"]
    assert (plate[[0, 2]] == 0).all()
    np.testing.assert_array_equal(plate[[1, 3]], task.tasks[1].suite.read()["env_states"]["actors"]["plate"])
    assert not obs["grasp_state_place_receptacle"]["gripper"]["touched"][[0, 2]].any()
    assert (obs["object_poses"]["place_receptacle"][[0, 2]] == 0).all()
    assert [info["task"] for info in obs["task_info"]] == ["pick", "pick_and_place"] * 2
    assert [info["task"] for info in task.task_info()] == ["pick", "pick_and_place"] * 2
    assert task.suite.to_disk(obs)["task_info"].shape == (4, 2000)


def test_planner_runs_the_planners_of_all_tasks():
    task = sn.tasks.make("multi", tasks=("pick", "pick_and_place"), n_envs=4, seed=1)
    planner = sn.policies.make("planner", task)
    task.register_policy(planner)
    obs, _ = task.reset()
    assert obs in task.suite.space
    while not task.is_done().all():
        obs, _, _, _, info = task.step(planner.get_action(obs))
    assert obs in task.suite.space
    assert task.judge_success().sum() >= 3
    np.testing.assert_array_equal(info["success"], [each["success"] for each in obs["task_info"]])
    assert obs["policy_phase"][1]["phase"] in ("release", "withdraw", "done")
    assert obs["grasp_pose"].shape == (4, 7)
    history = task.get_history()
    assert history["actions"].shape[1:] == (4, 8)
    assert len(history["observations"]) == len(history["rewards"]) + 1
    with pytest.raises(sn.OptionError, match="already"):
        task.register_policy(planner)


def test_reset_of_some_envs():
    task = rooms(seed=3)
    task.reset()
    states = [sub.scene.get_state() for sub in task.tasks]
    for _ in range(4):
        _, _, _, truncated, _ = task.step(np.full((5, 3), 0.2))
    assert truncated.tolist() == [False, True, False, True, False]
    held = task.tasks[1].scene.get_state()
    task.step(np.full((5, 3), 0.2))
    assert torch.equal(task.tasks[1].scene.get_state(), held)
    _, info = task.reset([1])
    assert info["episode"].tolist() == [0, 1, 0, 0, 0]
    assert task.step_count.tolist() == [5, 0, 5, 4, 5]
    assert task.is_done().tolist() == [False, False, False, True, False]
    task.reseed(3)
    task.reset()
    for sub, state in zip(task.tasks, states, strict=True):
        assert torch.equal(sub.scene.get_state(), state)


def test_an_env_does_not_depend_on_the_number_of_envs():
    few, many = rooms(2, seed=6), rooms(6, seed=6)
    few.reset()
    many.reset()
    for a, b in zip(few.tasks, many.tasks, strict=True):
        assert torch.equal(a.scene.get_state()[0], b.scene.get_state()[0])
    assert not np.array_equal(few.tasks[0].robot.base_pose(), few.tasks[1].robot.base_pose())


def test_autoreset_resets_envs_in_the_same_step():
    task = rooms(autoreset=True)
    task.reset()
    for _ in range(4):
        obs, _, _, truncated, info = task.step(np.zeros((5, 3)))
    assert truncated.tolist() == info["_final_obs"].tolist() == [False, True, False, True, False]
    assert info["final_obs"]["task_info"][1]["step"] == 4
    assert obs["task_info"][1]["step"] == 0
    assert obs["task_info"][1]["episode"] == 1


def test_robot_object_is_used_for_all_tasks():
    robot = sn.robots.make("holonomic", rig=sn.robots.SensorRig())
    task = sn.tasks.make("multi", robot=robot, tasks=ROOMS, n_envs=2)
    obs, _ = task.reset()
    assert "robot_lidar" not in obs
    assert task.robot.n_actions == 3


def test_sensors_with_different_spaces_cannot_be_merged():
    zeros = lambda *shape: lambda: np.zeros(shape)  # noqa: E731
    first, rest = np.array([0]), np.array([1, 2])
    with pytest.raises(sn.OptionError, match=r"'a.x' cannot be merged"):
        merge(
            [
                ([ArraySensor("a", zeros(1, 2), {"x": (2,)})], first),
                ([ArraySensor("a", zeros(2, 3), {"x": (3,)})], rest),
            ],
            3,
        )
    with pytest.raises(sn.OptionError, match="'a' cannot"):
        merge([([ArraySensor("a", zeros(1, 2), (2,))], first), ([DictSensor("a", lambda: [{}] * 2)], rest)], 3)
    low = ArraySensor("b", lambda: np.full((1, 1), 5.0), (1,), low=4, high=9)
    (merged,) = merge([([low], first)], 3)
    assert merged.space.low.item() == 0  # for envs without the sensor
    assert merged.read().ravel().tolist() == [5, 0, 0]
    text = DictSensor("c", lambda: [{"x": 1}, {"x": 2}], 40)
    (merged,) = merge([([text], rest)], 3)
    assert merged.read() == ({}, {"x": 1}, {"x": 2})
    assert merged.to_disk(merged.read()).shape == (3, 40)


def test_invalid_arguments_raise():
    with pytest.raises(LookupError, match="did you mean 'pick'"):
        sn.tasks.make("multi", tasks=("pik",))
    with pytest.raises(sn.OptionError, match="n_envs must be >= 2"):
        sn.tasks.make("multi", n_envs=1)
    with pytest.raises(sn.OptionError, match="n_envs must be the same for all tasks"):
        sn.tasks.make("multi", tasks=({"name": "pick", "options": {"n_envs": 3}},))
    with pytest.raises(sn.OptionError, match="set dt"):
        sn.tasks.make(
            "multi", robot="holonomic", tasks=("nav_to_obj", {"name": "nav_to_obj", "options": {"dt": 0.1}}), n_envs=2
        )
    with pytest.raises(LookupError, match="there is no task 'multi'"):
        sn.tasks.make("multi", tasks=("multi",))
    with pytest.raises(sn.OptionError, match="needs a robot with arms"):
        sn.tasks.make("multi", robot="holonomic", tasks=("nav_to_obj", "pick"), n_envs=2)
