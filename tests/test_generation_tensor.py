"""Datasets of tensor tasks: a policy that PPO trained walks, and everything that it senses is stored."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch

import sensorium as sn
from sensorium.cli import main
from sensorium.errors import EpisodeOverError
from sensorium.generation import GenerateOptions, generate
from sensorium.generation.sources import make_policy, make_task
from sensorium.tasks.tensor.episodes import TensorEpisodes
from sensorium.viewer.data_episodes import EpisodeSource

RUN = Path(__file__).parent / "data" / "walk"
"""Folder of a training of "walk" by PPO."""
STEPS = 30


def options(**changes):
    made = {"task": "walk", "policy": str(RUN), "episodes": 2, "envs": 2, "options": {"max_steps": STEPS}}
    return GenerateOptions(**{**made, **changes})


@pytest.fixture(scope="module")
def walked(tmp_path_factory):
    """A dataset of four episodes with a camera that follows the robot, made by the command."""
    folder = tmp_path_factory.mktemp("walked")
    chase = {"name": "chase", "link": "torso", "pos": [-0.8, 0, 0.4], "lookat": [0.5, 0, 0], "resolution": [64, 48]}
    (folder / "cameras.json").write_text(json.dumps([{**chase, "depth": True}]))
    words = ["--episodes", "4", "--envs", "2", "--option", f"max_steps={STEPS}", "--out", str(folder / "data")]
    assert main(["generate", "walk", "--policy", str(RUN), "--cameras", str(folder / "cameras.json"), *words]) == 0
    return folder / "data"


def test_trained_policy_writes_a_valid_dataset(walked, capsys):
    assert main(["validate", str(walked)]) == 0
    assert "4 episodes, 120 steps, 4 successes" in capsys.readouterr().out
    data = sn.datasets.open(walked)
    assert [len(episode) for episode in data] == [STEPS] * 4
    episode = data[0]
    assert episode.scene["instruction"] == "walk with the commanded velocity"
    assert episode.attributes["robot"] == "quadruped"
    assert episode.video("chase").shape == (STEPS + 1, 48, 64, 3)
    assert np.isfinite(episode.video("chase_depth")[:, -1]).all()  # the floor
    purposes = {uuid: entry["purpose"] for uuid, entry in episode.suite.items()}
    for uuid in ("qpos", "command", "last_action", "robot_imu", "robot_joints", "robot_attitude", "chase"):
        assert purposes[uuid] == "observation"
    for uuid in ("env_states", "privileged/velocity", "privileged/height"):
        assert purposes[uuid] == "privileged"
    assert not {"imu", "privileged/imu", "privileged/command"} & set(purposes)  # stored once
    command, velocity = episode["obs/extra/command"], episode["obs/extra/privileged/velocity"]
    np.testing.assert_array_equal(command, np.broadcast_to(command[0], command.shape))  # changes every 5 s
    errors = [np.linalg.norm(e["obs/extra/command"][-1, :2] - e["obs/extra/privileged/velocity"][-1, :2]) for e in data]
    assert np.mean(errors) < 0.4, (errors, velocity[-1])


def test_actions_are_those_of_the_policy(walked):
    episode = sn.datasets.open(walked)[1]
    actions = episode["actions/action"]
    np.testing.assert_array_equal(episode["obs/extra/last_action"][1:], actions)
    task = sn.tasks.make("walk", n_envs=1, max_steps=STEPS)
    policy = sn.training.load_policy(RUN, task)
    observation, _ = task.reset(numbers=[1])
    home = task.scene.world.bind("ctrl")[0, task._columns].numpy().copy()
    for step in range(3):
        np.testing.assert_array_equal(episode["obs/extra/robot_imu/ang_vel"][step], observation["imu"]["ang_vel"][0])
        with torch.inference_mode():
            action = policy(task.as_tensordict())
        np.testing.assert_allclose(actions[step], action[0], atol=1e-5)
        observation, reward, *_ = task.step(torch.as_tensor(actions[step : step + 1]))
        assert episode["rewards"][step] == pytest.approx(float(reward[0]), abs=1e-6)
        target = np.clip(home + np.tile([0.24, 0.24, 0.36], 4) * actions[step], task._min.numpy(), task._max.numpy())
        stored = episode.text("actions/joint_pos")[step + 1]["body"]
        np.testing.assert_allclose(stored, target, atol=1e-6)
    task.close()


def test_episode_depends_on_its_number_alone(walked, tmp_path):
    alone = generate(options(episodes=4, envs=1), tmp_path / "alone")
    for wide, single in zip(sn.datasets.open(walked), sn.datasets.open(alone.folder), strict=True):
        for path in ("env_states/actors/robot", "obs/extra/robot_imu/lin_acc", "obs/extra/privileged/friction"):
            np.testing.assert_array_equal(wide[path][0], single[path][0])
    starts = [episode["env_states/actors/robot"][0] for episode in sn.datasets.open(walked)]
    assert len({start.tobytes() for start in starts}) == 4


def test_exports_and_viewer_read_it(walked, tmp_path):
    for form in ("lerobot", "robomimic"):
        assert main(["export", str(walked), "--format", form, "--out", str(tmp_path / form)]) == 0
    features = json.loads((tmp_path / "lerobot" / "meta" / "info.json").read_text())["features"]
    assert features["action"]["shape"] == [12]
    assert features["observation.images.chase"]["dtype"] == "video"
    assert features["observation.command"]["shape"] == [3]
    sample = sn.datasets.TorchDataset(walked, observations=["command", "robot_imu.ang_vel"], window=(-1, 2))[5]
    assert sample["action"].shape == (3, 12)
    source = EpisodeSource(sn.datasets.open(walked))
    source.choose(2)
    source.pose(STEPS)
    pose = source.scene.world.bind("qpos")[source.env, :7]
    np.testing.assert_allclose(pose, sn.datasets.open(walked)[2]["env_states/actors/robot"][STEPS, :7], atol=1e-6)
    source.close()


def test_episodes_that_end_early_hold_and_keep_their_last_observation():
    task = make_task(options(policy="random", envs=4, options={"max_steps": 200, "fall_tilt": 0.12}))
    assert isinstance(task, TensorEpisodes)
    policy = make_policy(options(policy="random"), task)
    task.register_policy(policy)
    observation, _ = task.reset(numbers=[5, 6, 7, 8])
    lengths, last = np.zeros(4, int), {}
    while not task.is_done().all():
        running = ~task.is_done()
        observation, reward, terminated, truncated, info = task.step(policy.get_action(observation))
        lengths += running
        assert not reward[~running].any()
        for env in np.flatnonzero(terminated & running):
            last[env] = observation["env_states"]["actors"]["robot"][env]
    assert terminated.all()
    assert not (info["success"] | truncated).any()
    assert len(set(lengths.tolist())) > 1
    np.testing.assert_array_equal(task.step_count, lengths)
    for state in last.values():  # the fall, not the start of the next episode
        _, x, y, _ = state[3:7]
        assert 1 - 2 * (x**2 + y**2) < np.cos(0.12)
    final = observation["env_states"]["actors"]["robot"]
    for env, state in last.items():
        np.testing.assert_array_equal(final[env], state)
    with pytest.raises(EpisodeOverError, match="every env is done"):
        task.step(np.zeros((4, 12)))
    with pytest.raises(sn.OptionError, match="begin together in all 4 envs"):
        task.reset(envs=[1])
    task.close()


class Squat(sn.tasks.TensorTask[sn.tasks.TensorTaskConfig]):
    """Bend all knees by one action; the goal is any height below the initial one."""

    name = "own_squat"

    def action_limits(self):
        return torch.tensor([[-1.0, 1.0]])

    def act(self):
        self.robot.act(0.4 * self.action.expand(-1, 12))

    def rewards(self):
        return {"low": -self.robot.get_pose()[0][:, 2]}

    def metrics(self):
        return {"reached": (self.robot.get_pose()[0][:, 2] < 10).float()}


def test_task_of_ones_own_with_fewer_actions_than_its_robot(tmp_path, monkeypatch):
    monkeypatch.setitem(sn.tasks.TENSOR_TASKS, Squat.name, Squat)
    made = options(task="own_squat", policy="random", successes_only=True, options={"max_steps": 5})
    assert generate(made, tmp_path / "data").success_rate == 1
    episode = sn.datasets.open(tmp_path / "data")[0]
    assert episode["actions/action"].shape == (5, 1)
    assert json.loads(episode.attributes["action_names"]) == ["action_0"]
    assert episode.scene["instruction"] == "own_squat"
    assert episode["success"].tolist() == [False] * 4 + [True]
    monkeypatch.setattr(Squat, "metrics", lambda self: {"reached": torch.zeros(self.n_envs)})
    with pytest.raises(sn.GenerationError, match="0 of 2 episodes succeeded"):
        generate(made.model_copy(update={"max_attempts": 4}), tmp_path / "never")


def test_policies_that_do_not_suit_raise(tmp_path):
    with pytest.raises(sn.OptionError, match=r"no planner for the tensor task 'walk'.*sensorium train walk"):
        generate(options(policy="planner"), tmp_path / "a")
    with pytest.raises(sn.OptionError, match="is a training by PPO of the task 'walk', got the task 'pick'"):
        generate(options(task="pick"), tmp_path / "b")
    with pytest.raises(sn.DatasetError, match="holds no training"):
        generate(options(policy=str(tmp_path)), tmp_path / "c")
    with pytest.raises(sn.OptionError, match="holds no training by PPO, which the tensor task 'walk' needs"):
        generate(options(policy=str(tmp_path), robot="quadruped"), tmp_path / "c")
    camera = {"name": "top", "pose_jitter": 0.1}
    with pytest.raises(sn.OptionError, match="tensor tasks do not draw camera poses; remove pose_jitter"):
        generate(options(options={"cameras": [camera]}), tmp_path / "d")
