"""Gymnasium views of tasks: Gymnasium's checkers, seeds, and the final observations."""

import subprocess
import sys

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env, data_equivalence
from gymnasium.vector import AutoresetMode

import sensorium as sn
from sensorium import gymnasium_ids
from sensorium.errors import EpisodeOverError
from sensorium.suites import pick_env


def nav(n_envs=1, **options):
    return sn.tasks.make(
        "nav_to_obj", **{"robot": "holonomic", "n_envs": n_envs, "n_furniture": 2, "keep_history": False, **options}
    )


@pytest.mark.filterwarnings("ignore::UserWarning")  # about infinite bounds and actions in SI units
@pytest.mark.parametrize("flatten", [False, True])
def test_gymnasium_checker_passes(flatten):
    check_env(sn.tasks.as_gym(nav(robot="diffdrive"), flatten=flatten))
    check_env(sn.tasks.as_gym(sn.tasks.make("pick", keep_history=False), flatten=flatten))


def test_single_env_matches_the_task():
    task, same = nav(seed=2, max_steps=5), nav(seed=2, max_steps=5)
    env = sn.tasks.as_gym(task)
    obs, info = env.reset()
    truth, _ = same.reset()
    assert info == {"episode_number": 0}
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
    assert env.reset()[1] == {"episode_number": 1}


def test_reset_with_a_seed_matches_a_task_of_that_seed():
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
def test_vector_returns_the_final_observations(autoreset):
    task, same = nav(3, max_steps=4, autoreset=autoreset), nav(3, max_steps=4)
    env = sn.tasks.as_vector(task, keys=("task_info", "robot_base_pose", "nav_state"))
    assert env.metadata["autoreset_mode"] == AutoresetMode.SAME_STEP
    obs, info = env.reset()
    same.reset()
    assert info["episode_number"].tolist() == [0, 0, 0]
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
    obs, *_ = env.step(env.action_space.sample())  # the next episode continues
    assert [each["step"] for each in obs["task_info"]] == [1] * 3


def test_only_some_envs_of_a_vector_end():
    env = sn.tasks.as_vector(nav(2, hold_steps=2, max_steps=9, n_furniture=0, n_objects=1), keys=("nav_state",))
    env.reset()
    task = env.task
    gap = task.robot.radius + task.objects[task.target_name(1)].radius + 0.4
    task.robot.place(task.target_pose()[1, :2] - np.array([gap, 0]), 0.0, [1])
    task.scene.forward([1])
    env.step(np.zeros((2, 3)))
    obs, reward, terminated, _, info = env.step(np.zeros((2, 3)))
    assert reward.tolist() == [0, 1]
    assert terminated.tolist() == info["_final_obs"].tolist() == info["success"].tolist() == [False, True]
    assert info["final_obs"][0] is None
    assert info["final_obs"][1]["nav_state"]["distance"].item() == pytest.approx(0.4, abs=1e-3)
    assert obs["nav_state"]["distance"][1, 0] > 1


def test_flattened_observation_concatenates_the_arrays():
    env = sn.tasks.as_vector(nav(2), keys=("nav_state", "robot_base_pose"), flatten=True)
    obs, _ = env.reset()
    truth = env.task.suite.read()
    state = truth["nav_state"]
    parts = [state["angle"], state["distance"], state["in_sight"], truth["robot_base_pose"]]
    np.testing.assert_array_equal(obs, np.concatenate(parts, axis=1))
    assert obs.dtype == np.float32
    assert env.single_observation_space.shape == (10,)
    assert obs in env.observation_space


@pytest.mark.parametrize(
    ("imports", "env_id"),
    [
        ("gymnasium, sensorium", "sensorium/Reach-v0"),
        ("sensorium.tasks, gymnasium", "sensorium/Reach-v0"),
        ("gymnasium", "sensorium:sensorium/Reach-v0"),
        ("gymnasium", "sensorium.tasks:sensorium/Reach-v0"),
    ],
)
@pytest.mark.slow
def test_tasks_are_registered_by_imports(imports, env_id):
    code = f"import {imports}; print(gymnasium.make({env_id!r}).reset(seed=0)[0]['qpos'].keys())"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "arm" in done.stdout


def test_registering_all_tasks_imports_none():
    code = (
        "import gymnasium, sensorium, sys; from sensorium.gymnasium_ids import IDS; "
        "print(set(IDS.values()) <= set(gymnasium.registry), {'torch', 'mujoco', 'sensorium.tasks'} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout == "True set()\n", done.stderr


def test_import_of_sensorium_does_not_import_gymnasium():
    code = "import sensorium, sys; print('gymnasium' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout == "False\n", done.stderr


def test_ids_are_those_of_the_tasks():
    classes = {**sn.tasks.TENSOR_TASKS, **sn.tasks.TASKS}
    for name, env_id in gymnasium_ids.IDS.items():
        assert env_id == f"sensorium/{classes[name].__name__}-v0"


def test_tasks_are_registered_with_gymnasium():
    ids = sn.tasks.register()
    assert ids == sn.tasks.register()
    assert {"sensorium/Pick-v0", "sensorium/PickAndPlace-v0", "sensorium/NavToObj-v0", "sensorium/Lift-v0"} <= set(ids)
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


def test_invalid_arguments_raise():
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
    with pytest.raises(sn.OptionError, match="each only once"):
        sn.tasks.as_gym(task, keys=())
    with pytest.raises(sn.OptionError, match=r"keys must be a sequence .* got 'nav_state'; write keys=\['nav_state'\]"):
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


# -- entities ---------------------------------------------------------------------------------------------------------


def balance(n_envs=1, **options):
    sensors = [
        sn.IMU(link="torso", rate=200, acc_noise=0.1, delay=0.02),
        sn.JointEncoder(joints=[0, 1], noise=0.002),
    ]
    robot = sn.TrainableEntity("balancer", sensors)
    return sn.tasks.make("balance", entity=robot, n_envs=n_envs, keep_history=False, **options)


@pytest.mark.filterwarnings("ignore::UserWarning")  # about infinite bounds and an unregistered env
@pytest.mark.parametrize("flatten", [False, True])
def test_task_of_an_entity_passes_the_checkers(flatten):
    env = balance().as_gymnasium(vector=False, flatten=flatten, render_mode="rgb_array")
    check_env(env)
    assert set(env.reset()[0]) == {"imu", "joint_encoder"} if not flatten else env.reset()[0].shape == (13,)
    image = env.render()
    assert image.shape == (480, 640, 3)
    assert ((image[..., 2] > 1.3 * image[..., 0]) & (image[..., 2] > 30)).sum() > 200  # its blue torso
    if flatten:
        from stable_baselines3.common.env_checker import check_env as check_env_sb3

        check_env_sb3(env)


def test_views_exclude_what_only_critics_observe():
    def task():
        imu, pose = sn.IMU(link="torso", rate=200, acc_noise=0.1), sn.FramePose(link="torso")
        return sn.tasks.make("balance", entity=sn.TrainableEntity("balancer", [imu], privileged=[pose]))

    name = "privileged/frame_pose"
    assert name in task().suite
    assert set(task().as_gymnasium().single_observation_space) == {"imu"}
    assert task().as_gymnasium(flatten=True).single_observation_space.shape == (9,)
    assert task().as_sb3().observation_space.shape == (9,)
    assert set(task().as_gymnasium(keys=("imu", name)).single_observation_space) == {"imu", name}


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_registered_task_passes_the_checker_with_a_render_mode():
    sn.tasks.register()
    env = gymnasium.make("sensorium/Balance-v0", keys=("robot_base_pose",), render_mode="rgb_array")
    check_env(env.unwrapped)
    env.close()


def test_stable_baselines3_trains_in_the_view():
    from stable_baselines3 import PPO
    from stable_baselines3.common.monitor import Monitor

    env = Monitor(balance(max_steps=20).as_gymnasium(vector=False, flatten=True))
    PPO("MlpPolicy", env, n_steps=64, batch_size=32, n_epochs=1, device="cpu", seed=0).learn(128)
    assert len(env.get_episode_lengths()) > 5
    assert max(env.get_episode_lengths()) <= 20


def test_vector_matches_gymnasiums_sync_vector_env():
    """Compare observations, rewards, flags and infos with SyncVectorEnv, which resets in the same step too."""
    single = [lambda: balance(max_steps=9, fall=0.3).as_gymnasium(vector=False)]
    theirs = gymnasium.vector.SyncVectorEnv(single, autoreset_mode=AutoresetMode.SAME_STEP)
    ours = balance(max_steps=9, fall=0.3).as_gymnasium()
    assert ours.metadata["autoreset_mode"] == theirs.metadata["autoreset_mode"] == AutoresetMode.SAME_STEP
    assert ours.single_observation_space == theirs.single_observation_space
    assert ours.action_space == theirs.action_space
    assert data_equivalence(ours.reset(seed=3), theirs.reset(seed=3), exact=True)
    rng, ends = np.random.default_rng(0), 0
    for _ in range(40):
        actions = rng.uniform(-1, 1, (1, 2)).astype(np.float32)
        (*mine, info), (*other, expected) = ours.step(actions), theirs.step(actions)
        for left, right in zip(mine, other, strict=True):
            assert data_equivalence(left, right, exact=True) or np.allclose(left, right)
        assert mine[0] in ours.observation_space
        ended = (mine[2] | mine[3]).item()
        ends += ended
        assert ("final_obs" in info) == ("final_obs" in expected) == ended
        if ended:
            names = ("_final_obs", "final_info", "_final_info", "episode_number", "_episode_number")
            assert all(data_equivalence(info[name], expected[name], exact=True) for name in names)
            assert data_equivalence(info["final_obs"][0], expected["final_obs"][0], exact=True)
        else:
            assert data_equivalence(info, expected, exact=True)
    assert ends >= 4


def test_gymnasium_vector_wrappers_work():
    from gymnasium.wrappers.vector import DictInfoToList, RecordEpisodeStatistics, RescaleAction

    env = balance(4, max_steps=12, fall=0.15).as_gymnasium(flatten=True)  # some fall before the time limit
    wrapped = RescaleAction(RecordEpisodeStatistics(env), np.float32(-2), np.float32(2))
    wrapped.reset(seed=1)
    wrapped.action_space.seed(1)
    returns, found = np.zeros(4), 0
    for _ in range(30):
        seen, reward, terminated, truncated, info = wrapped.step(wrapped.action_space.sample())
        returns += reward
        ended = terminated | truncated
        assert seen.shape == (4, 13)
        if ended.any():
            assert info["_episode"].tolist() == ended.tolist()
            np.testing.assert_allclose(info["episode"]["r"][ended], returns[ended], rtol=1e-5)
            assert (info["episode"]["l"][ended] <= 12).all()
            assert all(last.shape == (13,) for last in info["final_obs"][ended])
            found += ended.sum()
        returns[ended] = 0
    assert found > 8
    infos = DictInfoToList(balance(2, max_steps=1).as_gymnasium())
    infos.reset()
    *_, info = infos.step(infos.action_space.sample())
    assert [each["final_info"]["success"] for each in info] == [True, True]


def test_tensor_output_equals_array_output():
    import torch

    ours = balance(3, max_steps=4).as_gymnasium(output="torch")
    plain = balance(3, max_steps=4).as_gymnasium()
    first = [env.reset(seed=2)[0]["imu"]["lin_acc"] for env in (ours, plain)]
    assert first[0].dtype == torch.float32
    np.testing.assert_array_equal(first[0], first[1])
    for number in range(6):
        actions = torch.rand(3, 2, generator=torch.Generator().manual_seed(number))
        mine, array = ours.step(actions), plain.step(actions.numpy())
        for left, right in zip(mine[1:4], array[1:4], strict=True):
            assert isinstance(left, torch.Tensor)
            assert left.numpy().dtype == right.dtype
            np.testing.assert_array_equal(left, right)
        np.testing.assert_array_equal(mine[0]["imu"]["ang_vel"], array[0]["imu"]["ang_vel"])
        if number == 3:
            for last, same in zip(mine[4]["final_obs"], array[4]["final_obs"], strict=True):
                assert isinstance(last["imu"]["mag"], torch.Tensor)
                np.testing.assert_array_equal(last["imu"]["lin_acc"], same["imu"]["lin_acc"])
    kept = mine[0]["imu"]["lin_acc"].clone()
    ours.step(actions)
    assert torch.equal(mine[0]["imu"]["lin_acc"], kept)


def test_vector_renders_every_env():
    env = balance(2).as_gymnasium(render_mode="rgb_array")
    env.reset()
    images = env.render()
    assert [each.shape for each in images] == [(480, 640, 3)] * 2
    assert not np.array_equal(*images)  # they lean differently
    assert balance().as_gymnasium().render() is None
    for bad in ({"render_mode": "human"}, {"output": "jax"}):
        with pytest.raises(sn.OptionError, match=next(iter(bad))):
            balance().as_gymnasium(**bad)
