"""Gymnasium views of tensor tasks: Gymnasium's checker, equality with the task, seeds, and final observations."""

import warnings

import gymnasium
import numpy as np
import pytest
import torch
from gl import needs_gl
from gymnasium.utils.env_checker import check_env, data_equivalence
from gymnasium.vector import AutoresetMode

import sensorium as sn
from sensorium.errors import EpisodeOverError, NameNotFoundError, SensoriumError
from sensorium.suites import pick_env
from sensorium.tasks.tensor.episodes import TensorEpisodes

TASKS = {
    "walk": {"randomize_sensors": {"joints.delay": (0.015, 0.08), "imu.gyro_bias": (-0.1, 0.1)}},
    "walk hard": {"curriculum": True, "history": 3},
    "balance": {},
    "reach": {},
    "lift": {},
}
"""Names of the tests -> options of the task; the task is the part of the name before a blank."""


def make(name, n_envs=1, device="cpu", **options):
    return sn.tasks.make(name.split()[0], n_envs=n_envs, device=device, **{**TASKS[name], **options})


def arrays(value):
    """Return tensors in nested dicts as arrays."""
    return {key: arrays(each) for key, each in value.items()} if isinstance(value, dict) else value.numpy(force=True)


def same(left, right):
    """Return whether nested dicts of tensors or arrays are equal bit for bit."""
    if isinstance(left, dict):
        return list(left) == list(right) and all(same(left[key], right[key]) for key in left)
    return np.array_equal(*(each.numpy(force=True) if torch.is_tensor(each) else each for each in (left, right)))


def random_actions(task, count):
    """Return ``count`` random actions (B, n) float32 of a task."""
    low, high = task.single_action_space.low, task.single_action_space.high
    rng = np.random.default_rng(0)
    return [rng.uniform(low, high, (task.n_envs, len(low))).astype(np.float32) for _ in range(count)]


@pytest.mark.filterwarnings("ignore::UserWarning")  # about infinite bounds and actions in SI units
@pytest.mark.parametrize("flatten", [False, True])
@pytest.mark.parametrize("name", TASKS)
def test_gymnasium_checker_passes(name, flatten):
    check_env(make(name).as_gymnasium(vector=False, flatten=flatten))


@pytest.mark.parametrize("name", TASKS)
def test_single_env_equals_the_task(name):
    task, other = make(name, max_steps=4), make(name, max_steps=4)
    env = task.as_gymnasium(vector=False)
    observation, info = env.reset()
    truth, _ = other.reset()
    assert info == {"episode_number": 0}
    assert list(observation) == [uuid for uuid in truth if not uuid.startswith("privileged/")]
    other.autoreset = False
    for step, action in enumerate(random_actions(task, 4), start=1):
        observation, reward, terminated, truncated, info = env.step(action[0])
        truth, *outcome, _ = other.step(action)
        assert observation in env.observation_space
        assert all(same(observation[uuid], pick_env(arrays(truth[uuid]), 0)) for uuid in observation)
        assert [reward, terminated, truncated] == [each.item() for each in outcome]
        assert (type(reward), type(terminated), type(truncated)) == (float, bool, bool)
        assert set(info) == ({"success"} if name in ("reach", "lift") else set())
        assert truncated == (step == 4)
    with pytest.raises(EpisodeOverError, match="call reset"):
        env.step(action[0])
    assert env.reset()[1] == {"episode_number": 1}


@pytest.mark.parametrize("output", ["numpy", "torch"])
@pytest.mark.parametrize("name", TASKS)
def test_vector_equals_the_task(name, output):
    task, other = (make(name, 3, max_steps=4) for _ in range(2))
    env = task.as_gymnasium(output=output)
    other.keep_final = True
    assert env.metadata["autoreset_mode"] == AutoresetMode.SAME_STEP
    observation, info = env.reset()
    truth, _ = other.reset()
    assert same(observation, {uuid: truth[uuid] for uuid in observation})
    assert info["episode_number"].tolist() == [0, 0, 0]
    kept = []
    for step, action in enumerate(random_actions(task, 9), start=1):
        observation, reward, terminated, truncated, info = env.step(action)
        truth, *outcome, last = other.step(action)
        assert same(observation, {uuid: truth[uuid] for uuid in observation})
        assert same(dict(enumerate((reward, terminated, truncated))), dict(enumerate(outcome)))
        kept.append((observation, arrays(truth), reward, outcome[0].numpy(force=True)))
        if output == "torch":
            assert all(isinstance(each, torch.Tensor) for each in (reward, terminated, truncated, info["_final_obs"]))
            assert same(info["final_obs"], {uuid: last["final_obs"][uuid] for uuid in observation})
            assert info["_final_obs"].tolist() == (terminated | truncated).tolist()
        else:
            assert observation in env.observation_space
            ended = terminated | truncated
            assert ("final_obs" in info) == ended.any()
            for number in np.flatnonzero(ended):
                final = info["final_obs"][number]
                assert final in env.single_observation_space
                assert same(final, {uuid: pick_env(arrays(last["final_obs"][uuid]), number) for uuid in final})
        if step % 4 == 0:
            assert info["_final_obs"].all()
            assert info["episode_number"].tolist() == other.episode.tolist()
    assert (other.episode >= 2).all()
    for observation, truth, reward, expected in kept:  # later steps did not overwrite them
        assert same(observation, {uuid: truth[uuid] for uuid in observation})
        assert same(reward, expected)


def test_vector_matches_gymnasiums_sync_vector_env():
    def reach():
        return make("reach", max_steps=5)

    theirs = gymnasium.vector.SyncVectorEnv(
        [lambda: reach().as_gymnasium(vector=False)], autoreset_mode=AutoresetMode.SAME_STEP
    )
    ours = reach().as_gymnasium()
    assert ours.single_observation_space == theirs.single_observation_space
    assert ours.action_space == theirs.action_space
    assert data_equivalence(ours.reset(seed=3), theirs.reset(seed=3), exact=True)
    for step, action in enumerate(random_actions(ours.task, 12), start=1):
        (*mine, info), (*other, expected) = ours.step(action), theirs.step(action)
        assert all(np.allclose(left, right) for left, right in zip(mine[1:], other[1:], strict=True))
        assert data_equivalence(mine[0], other[0], exact=True)
        assert ("final_obs" in info) == ("final_obs" in expected) == (step % 5 == 0)
        names = [name for name in expected if name != "final_obs"]
        assert all(data_equivalence(info[name], expected[name], exact=True) for name in names if step % 5 == 0)
        if step % 5 == 0:
            assert data_equivalence(info["final_obs"][0], expected["final_obs"][0], exact=True)


@pytest.mark.parametrize("name", TASKS)
def test_reset_with_a_seed_begins_the_episodes_of_a_task_of_that_seed(name):
    env = make(name, 3, max_steps=3).as_gymnasium(output="torch")
    other = make(name, 3, seed=5, max_steps=3)
    action = random_actions(other, 1)[0]
    env.reset()
    for _ in range(5):
        env.step(action)
    env.task.difficulty.fill_(0.5)
    first, info = env.reset(seed=5)
    truth, _ = other.reset()
    assert info["episode_number"].tolist() == [0, 0, 0]
    assert env.task.seed == 5
    for _ in range(4):  # over the start of the second episode
        state, expected = env.task.scene.get_state(), other.scene.get_state()
        assert torch.equal(torch.as_tensor(state), torch.as_tensor(expected))
        true = {uuid: value for uuid, value in env.task.observation().items() if uuid.startswith("privileged/")}
        assert same(true, {uuid: truth[uuid] for uuid in true})
        env.step(action)
        truth, *_ = other.step(action)
    again, _ = env.reset(seed=5)
    assert same(again, first)  # the noise of sensors restarts, too
    assert not same(env.reset()[0], first)
    assert not same(env.reset(seed=6)[0], first)


def test_flattened_observation_is_the_actors():
    env = make("walk hard", 2, max_steps=3).as_gymnasium(flatten=True)
    observation, _ = env.reset(seed=1)
    assert observation.shape == (2, 3 * 45)
    for action in random_actions(env.task, 3):
        observation, *_, info = env.step(action)
        assert observation in env.observation_space
        assert same(observation, env.task.groups()["actor"])
    assert same(np.stack(info["final_obs"]), env.task.final_actor())
    chosen = make("walk", 2).as_gymnasium(flatten=True, keys=("privileged/height", "imu", "command"))
    observation, _ = chosen.reset()
    truth = arrays(chosen.task.observation())
    parts = [truth["privileged/height"], truth["imu"]["ang_vel"], truth["command"]]
    assert same(observation, np.concatenate(parts, axis=1))


@needs_gl
@pytest.mark.parametrize("output", ["numpy", "torch"])
def test_images_are_observed_at_the_end_of_an_episode_and_at_the_start_of_the_next(output):
    task, other = (sn.tasks.make("lift", n_envs=2, camera=True, max_steps=2) for _ in range(2))
    env = task.as_gymnasium(output=output)
    observation, _ = env.reset()
    other.reset()
    other.autoreset = False
    assert list(observation)[-1] == "image_front"
    assert same(observation["image_front"], other.images()["image_front"])
    for step, action in enumerate(random_actions(task, 4), start=1):
        observation, *_, info = env.step(action)
        other.step(action)
        if output == "numpy":
            assert observation in env.observation_space
            assert ("final_obs" in info) == (step % 2 == 0)
        if step % 2 == 0:
            last = info["final_obs"]
            images = last["image_front"] if output == "torch" else np.stack([each["image_front"] for each in last])
            assert same(images, other.images()["image_front"])
            assert not same(images, observation["image_front"])
            other.reset()
        assert same(observation["image_front"], other.images()["image_front"])
        assert task.episode.tolist() == [step // 2] * 2
    flat = sn.tasks.make("lift", camera=True).as_gymnasium(vector=False, flatten=True)
    assert flat.observation_space.shape == (18 + 3 + 3 + 8,)  # joints, hand, goal, last action


def test_only_some_envs_begin_again_and_the_history_of_the_others_continues():
    task, other = (make("walk hard", 3, max_steps=50) for _ in range(2))
    task.reset()
    other.reset()
    task.autoreset = False
    for each in (task, other):
        each.step_count[1] = 48
    for action in random_actions(task, 3):
        task.step(action)
        task.begin_ended()
        task.begin_ended()  # changes nothing
        other.step(action)
        assert same(task.groups(), other.groups())
    assert task.episode.tolist() == [0, 1, 0]


def test_readings_of_a_step_that_diverged_are_not_returned():
    env = make("walk").as_gymnasium(vector=False, flatten=True)
    before, _ = env.reset()
    env.task.scene.world.bind("qvel")[0] = 1e12
    observation, reward, terminated, truncated, _ = env.step(np.zeros(12))
    assert (reward, terminated, truncated) == (0.0, False, True)
    assert same(observation, before)
    assert env.reset()[0] in env.observation_space


def test_tensor_tasks_are_registered_with_gymnasium():
    env = gymnasium.make("sensorium/Walk-v0", keys=("command",), flatten=True, max_steps=7, robot="humanoid")
    assert env.reset(seed=1)[0].shape == (3,)
    assert env.unwrapped.task.config.max_steps == 7
    envs = gymnasium.make_vec("sensorium/Walk-v0", num_envs=8, output="torch")
    assert envs.reset(seed=1)[0]["command"].shape == (8, 3)
    envs = gymnasium.make_vec("sensorium/Lift-v0", num_envs=2)
    assert envs.reset(seed=1)[0]["goal"].shape == (2, 3)
    assert isinstance(gymnasium.make("sensorium/Balance-v0").unwrapped.task, sn.tasks.Balance)
    assert isinstance(gymnasium.make("sensorium/Balance-v0", device="cpu").unwrapped.task, sn.tasks.TensorTask)


def test_gymnasium_vector_wrappers_work():
    from gymnasium.wrappers.vector import RecordEpisodeStatistics, RescaleAction

    env = RecordEpisodeStatistics(make("balance", 4, max_steps=12).as_gymnasium(flatten=True))
    env = RescaleAction(env, np.float32(-2), np.float32(2))
    env.reset(seed=1)
    found = 0
    for _ in range(30):
        *_, terminated, truncated, info = env.step(env.action_space.sample())
        ended = terminated | truncated
        if ended.any():
            assert info["_episode"].tolist() == ended.tolist()
            assert (info["episode"]["l"][ended] <= 12).all()
            found += ended.sum()
    assert found >= 8


def test_stable_baselines3_trains_in_the_view():
    from stable_baselines3 import PPO
    from stable_baselines3.common.monitor import Monitor

    env = Monitor(make("balance", max_steps=20).as_gymnasium(vector=False, flatten=True))
    PPO("MlpPolicy", env, n_steps=64, batch_size=32, n_epochs=1, device="cpu", seed=0).learn(128)
    assert max(env.get_episode_lengths()) <= 20


def test_an_entity_observes_its_sensors():
    dog = sn.TrainableEntity("quadruped", [sn.IMU(link="torso")], privileged=[sn.FramePose(link="torso")])
    env = sn.tasks.make("walk", entity=dog, device="cpu", n_envs=2).as_gymnasium()
    observation, _ = env.reset()
    assert list(observation) == ["imu", "command", "last_action"]
    assert observation in env.observation_space


@needs_gl
def test_envs_are_rendered():
    images = make("balance", 2).as_gymnasium(render_mode="rgb_array")
    images.reset()
    assert [each.shape for each in images.render()] == [(480, 640, 3)] * 2
    env = make("balance").as_gymnasium(vector=False, render_mode="rgb_array")
    env.reset()
    assert env.render().shape == (480, 640, 3)
    assert make("balance").as_gymnasium().render() is None


def test_invalid_arguments_raise():
    task = make("walk")
    with pytest.raises(sn.OptionError, match="n_envs=2; use vector=True"):
        make("walk", 2).as_gymnasium(vector=False)
    with pytest.raises(NameNotFoundError, match=r"no observation 'commands' \(did you mean 'command'"):
        task.as_gymnasium(keys=("commands",))
    with pytest.raises(sn.OptionError, match=r"write keys=\['command'\]"):
        task.as_gymnasium(keys="command")
    for keys in ((), ("imu", "imu")):
        with pytest.raises(sn.OptionError, match="each only once"):
            task.as_gymnasium(keys=keys)
    for bad in ({"render_mode": "human"}, {"output": "jax"}, {"vector": 1}, {"flatten": None}):
        with pytest.raises(sn.OptionError, match=next(iter(bad))):
            task.as_gymnasium(**bad)
    with pytest.raises(sn.OptionError, match="vector=False"):
        task.as_gymnasium(vector=False, output="torch")
    env = task.as_gymnasium(vector=False)
    with pytest.raises(EpisodeOverError, match="call reset"):
        env.step(np.zeros(12))
    for bad in ({"seed": -3}, {"seed": 1.5}, {"options": {"where": 1}}):
        with pytest.raises(sn.OptionError, match=next(iter(bad))):
            env.reset(**bad)
    env.reset()
    for action in (np.zeros(7), np.full(12, np.nan), "left", None):
        with pytest.raises(sn.OptionError, match="action"):
            env.step(action)
    env.step(np.zeros(12))


class Undefined(sn.tasks.TensorTask[sn.tasks.TensorTaskConfig]):
    """Its reward is ``value`` in the last env, at the second step of its episode."""

    name = "undefined"
    value = torch.nan

    def rewards(self):
        last = torch.arange(self.n_envs, device=self.device) == self.n_envs - 1
        return {"one": torch.where(last & (self.step_count == 2), self.value, 1.0)}


VIEWS = {
    "vector": lambda task: task.as_gymnasium(),
    "single": lambda task: task.as_gymnasium(vector=False),
    "sb3": lambda task: task.as_sb3(),
    "episodes": lambda task: TensorEpisodes(task, use_sensors=False),
}


@pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=pytest.mark.gpu)])
@pytest.mark.parametrize("view", VIEWS)
@pytest.mark.parametrize("value", [torch.nan, torch.inf])
def test_a_reward_that_is_not_finite_raises_in_its_step(view, device, value):
    if view == "sb3":
        pytest.importorskip("stable_baselines3")
    if view == "episodes" and device == "cuda":
        pytest.skip("datasets are generated on the CPU")
    n_envs = 1 if view == "single" else 3
    task = Undefined(sn.tasks.TensorTaskConfig(robot="balancer", n_envs=n_envs, max_steps=3, device=device))
    task.value = value
    env = VIEWS[view](task)
    action = np.zeros((n_envs, 2), np.float32)[0 if view == "single" else slice(None)]
    env.reset()
    env.step(action)
    for call in (lambda: env.step(action), task.log.take):
        with pytest.raises(SensoriumError, match=rf"'one' .* was NaN or infinite in env {n_envs - 1} at step 2 of"):
            call()
    env.reset()
    env.step(action)


def test_gymnasium_make_names_the_option_of_the_number_of_envs():
    for env_id in ("sensorium/Walk-v0", "sensorium/Balance-v0"):
        with pytest.raises(sn.OptionError, match=r"n_envs: gymnasium\.make makes one env, got n_envs=4.*num_envs"):
            gymnasium.make(env_id, n_envs=4)
        with pytest.raises(sn.OptionError, match=r"n_envs: gymnasium\.make_vec takes num_envs instead, got n_envs=4"):
            gymnasium.make_vec(env_id, num_envs=2, n_envs=4)


# -- GPU --------------------------------------------------------------------------------------------------------------


@pytest.mark.gpu
@pytest.mark.parametrize("name", TASKS)
def test_seeds_on_the_gpu_begin_the_episodes_of_the_cpu(name):
    env = make(name, 3, "cuda", max_steps=3).as_gymnasium(output="torch")
    cpu = make(name, 3, seed=5, max_steps=3)
    action = np.zeros((3, *cpu.single_action_space.shape))
    env.reset()
    for _ in range(4):
        env.step(action)
    env.reset(seed=5)  # the steps are captured by now
    cpu.reset()
    for episode in range(3):
        for field in ("qpos", "qvel", "mocap_pos"):
            one, other = (task.scene.world.bind(field).cpu().float() for task in (env.task, cpu))
            torch.testing.assert_close(one, other, rtol=0, atol=1e-5, msg=f"{field} of episode {episode}")
        for _ in range(3):
            env.step(action)
            cpu.step(action)
        assert env.task.episode.tolist() == cpu.episode.tolist() == [episode + 1] * 3


@pytest.mark.gpu
@pytest.mark.parametrize("flatten", [False, True])
def test_values_are_those_of_the_task_on_the_gpu(flatten):
    env = make("walk", 4, "cuda", max_steps=3).as_gymnasium(output="torch", flatten=flatten)
    arrays_of = make("walk", 4, "cuda", max_steps=3).as_gymnasium(flatten=flatten)
    task = env.task
    env.reset()
    arrays_of.reset()
    for action in random_actions(task, 7):
        observation, reward, terminated, truncated, info = env.step(torch.from_numpy(action).to(task.device))
        truth = task.groups()["actor"] if flatten else {uuid: task.observation()[uuid] for uuid in observation}
        assert same(observation, truth)
        for left, right in ((reward, task.reward), (terminated, task.terminated), (truncated, task.truncated)):
            assert left.device == right.device
            assert torch.equal(left, right)
        assert info["_final_obs"].tolist() == (task.terminated | task.truncated).tolist()
        assert arrays_of.step(action)[0] in arrays_of.observation_space


@pytest.mark.gpu
def test_steps_on_tensors_do_not_wait_for_the_device():
    env = make("walk", 64, "cuda", max_steps=5).as_gymnasium(output="torch")
    env.reset(seed=2)
    action = torch.zeros(64, 12, device=env.task.device)
    for _ in range(3):
        env.step(action)
    torch.cuda.synchronize()
    try:
        with warnings.catch_warnings(action="ignore"):  # torch says that it does not see every kind of waiting
            torch.cuda.set_sync_debug_mode("error")
        for _ in range(10):  # over the ends of episodes
            env.step(action)
    finally:
        torch.cuda.set_sync_debug_mode("default")
    assert (env.task.episode >= 2).all()
