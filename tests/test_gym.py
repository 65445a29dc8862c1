"""Tasks as environments of Gymnasium: its own checker, seeds, and the last observation of what ended."""

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env, data_equivalence
from gymnasium.vector import AutoresetMode

import sensorium as sn
from sensorium.errors import EpisodeOverError
from sensorium.suites import pick_env


def nav(n_envs=1, **options):
    return sn.tasks.make(
        "nav_to_obj", **{"robot": "holonomic", "n_envs": n_envs, "n_furniture": 2, "keep_history": False, **options}
    )


@pytest.mark.filterwarnings("ignore::UserWarning")  # of bounds that are infinite, and of actions in SI units
@pytest.mark.parametrize("flatten", [False, True])
def test_gymnasiums_own_checker_passes(flatten):
    check_env(sn.tasks.as_gym(nav(robot="diffdrive"), flatten=flatten))
    check_env(sn.tasks.as_gym(sn.tasks.make("pick", keep_history=False), flatten=flatten))


def test_one_env_follows_the_task():
    task, same = nav(seed=2, max_steps=5), nav(seed=2, max_steps=5)
    env = sn.tasks.as_gym(task)
    obs, info = env.reset()
    truth, _ = same.reset()
    assert info == {"episode": 0}
    assert obs in env.observation_space
    assert set(obs) == {uuid for uuid, sensor in same.suite.items() if not sensor.is_dict} - {"object_image_points"}
    for step in range(5):
        action = env.action_space.sample()
        obs, reward, terminated, truncated, info = env.step(action)
        truth, *_ = same.step(action[None])
        assert all(data_equivalence(obs[uuid], pick_env(truth[uuid], 0), exact=True) for uuid in obs)
        assert (reward, terminated, truncated, info) == (0.0, False, step == 4, {"success": False})
    with pytest.raises(EpisodeOverError):
        env.step(action)
    assert env.reset()[1] == {"episode": 1}


def test_reset_with_a_seed_is_a_task_of_that_seed():
    env, other = sn.tasks.as_gym(nav(seed=0), flatten=True), nav(seed=5)
    first, _ = env.reset(seed=5)
    other.reset()
    assert np.array_equal(env.task.scene.get_state(), other.scene.get_state())
    again, _ = env.reset()
    assert not np.array_equal(first, again)  # the second episode of the seed
    np.testing.assert_array_equal(env.reset(seed=5)[0], first)
    np.testing.assert_array_equal(env.reset()[0], again)
    assert not np.array_equal(env.reset(seed=6)[0], first)
    vector = sn.tasks.as_vector(nav(3, seed=1))
    before, _ = vector.reset(seed=5)
    vector.step(vector.action_space.sample())
    after, _ = vector.reset(seed=5)
    assert data_equivalence(before, after, exact=True)
    assert np.array_equal(vector.task.scene.get_state()[0], other.scene.get_state()[0])


@pytest.mark.parametrize("autoreset", [False, True])
def test_a_vector_keeps_the_last_observation(autoreset):
    task, same = nav(3, max_steps=4, autoreset=autoreset), nav(3, max_steps=4)
    env = sn.tasks.as_vector(task, keys=("task_info", "robot_base_pose", "nav_state"))
    assert env.metadata["autoreset_mode"] == AutoresetMode.SAME_STEP
    obs, info = env.reset()
    same.reset()
    assert info["episode"].tolist() == [0, 0, 0]
    for step in range(4):
        action = env.action_space.sample()
        obs, reward, terminated, truncated, info = env.step(action)
        truth, *_ = same.step(action)
        assert obs in env.observation_space
        assert reward.shape == terminated.shape == truncated.shape == (3,)
        assert ("final_obs" in info) == (step == 3)
    assert truncated.all()
    assert info["_final_obs"].all()
    assert info["final_info"]["success"].tolist() == [False] * 3
    for number, last in enumerate(info["final_obs"]):
        assert last in env.single_observation_space
        np.testing.assert_array_equal(last["robot_base_pose"], truth["robot_base_pose"][number])
        assert last["task_info"]["step"] == 4
    assert [each["step"] for each in obs["task_info"]] == [0] * 3
    assert [each["episode"] for each in obs["task_info"]] == [1] * 3
    obs, *_ = env.step(env.action_space.sample())  # and so on
    assert [each["step"] for each in obs["task_info"]] == [1] * 3


def test_some_of_a_vector_end():
    env = sn.tasks.as_vector(nav(2, hold_steps=2, max_steps=9, n_furniture=0, n_objects=1), keys=("nav_state",))
    env.reset()
    task = env.task
    gap = task.robot.radius + task.things[task.target_name(1)].radius + 0.4
    task.robot.place(task.target_pose()[1, :2] - np.array([gap, 0]), 0.0, [1])
    task.scene.forward([1])
    env.step(np.zeros((2, 3)))
    obs, reward, terminated, _, info = env.step(np.zeros((2, 3)))
    assert reward.tolist() == [0, 1]
    assert terminated.tolist() == info["_final_obs"].tolist() == info["success"].tolist() == [False, True]
    assert info["final_obs"][0] is None
    assert info["final_obs"][1]["nav_state"]["distance"].item() == pytest.approx(0.4, abs=1e-3)
    assert obs["nav_state"]["distance"][1, 0] > 1


def test_flattened_is_side_by_side():
    env = sn.tasks.as_vector(nav(2), keys=("nav_state", "robot_base_pose"), flatten=True)
    obs, _ = env.reset()
    truth = env.task.suite.read()
    state = truth["nav_state"]
    parts = [state["angle"], state["distance"], state["in_sight"], truth["robot_base_pose"]]
    np.testing.assert_array_equal(obs, np.concatenate(parts, axis=1))
    assert obs.dtype == np.float32
    assert env.single_observation_space.shape == (10,)
    assert obs in env.observation_space


def test_tasks_are_registered():
    ids = sn.tasks.register()
    assert ids == sn.tasks.register()
    assert {"sensorium/Pick-v0", "sensorium/PickAndPlace-v0", "sensorium/NavToObj-v0"} <= set(ids)
    env = gymnasium.make("sensorium/NavToObj-v0", robot="holonomic", keys=("nav_state",), flatten=True, max_steps=7)
    obs, _ = env.reset(seed=1)
    assert obs.shape == (3,)
    assert env.unwrapped.task.config.max_steps == 7
    assert not env.unwrapped.task.config.keep_history
    envs = gymnasium.make_vec("sensorium/NavToObj-v0", num_envs=2, robot="holonomic")
    assert envs.reset(seed=1)[0]["nav_state"]["angle"].shape == (2, 1)
    envs.close()
    two = ({"name": "nav_to_obj", "options": {"n_objects": 1}}, "nav_to_obj")
    envs = gymnasium.make_vec("sensorium/MultiTask-v0", num_envs=2, robot="holonomic", tasks=two)
    obs, _ = envs.reset()
    assert obs in envs.observation_space


def test_bad_input_is_told():
    with pytest.raises(sn.OptionError, match="use as_vector"):
        sn.tasks.as_gym(nav(2))
    with pytest.raises(sn.OptionError, match="autoreset=False"):
        sn.tasks.as_gym(nav(autoreset=True))
    with pytest.raises(sn.OptionError, match="use_sensors=True"):
        sn.tasks.as_gym(nav(use_sensors=False))
    task = nav()
    with pytest.raises(LookupError, match="did you mean 'nav_state'"):
        sn.tasks.as_gym(task, keys=("nav_stat",))
    with pytest.raises(sn.OptionError, match="'task_info' is text"):
        sn.tasks.as_gym(task, keys=("task_info",), flatten=True)
    with pytest.raises(sn.OptionError, match="each once"):
        sn.tasks.as_gym(task, keys=())
    with pytest.raises(sn.OptionError, match="sequence of uuids"):
        sn.tasks.as_gym(task, keys="nav_state")
    env = sn.tasks.as_gym(task)
    env.reset()
    with pytest.raises(sn.OptionError, match="seed"):
        env.reset(seed=-3)
    with pytest.raises(sn.OptionError, match="takes no options"):
        env.reset(options={"where": 1})
    with pytest.raises(sn.OptionError, match="shape"):
        env.step(np.zeros(7))
    env.step(np.zeros(3))
