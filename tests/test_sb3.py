"""Tasks as the ``VecEnv`` of Stable-Baselines3."""

import numpy as np
import pytest

import sensorium as sn

PPO = pytest.importorskip("stable_baselines3").PPO


def reach(**options):
    return sn.tasks.make("reach", keep_history=False, seed=3, **options)


@pytest.mark.parametrize(("flatten", "policy"), [(True, "MlpPolicy"), (False, "MultiInputPolicy")])
def test_ppo_learns_on_several_envs(flatten, policy):
    env = reach(n_envs=3, max_steps=10).as_sb3(flatten=flatten)
    model = PPO(policy, env, n_steps=16, batch_size=24, n_epochs=1, seed=0, device="cpu")
    model.learn(96)
    assert model.num_timesteps == 96
    assert {episode["l"] for episode in model.ep_info_buffer} == {10}
    env.close()


def test_steps_are_those_of_the_task():
    """Episodes, rewards, ends and last observations, beside the task stepped by hand."""
    env, task = reach(n_envs=2, max_steps=4).as_sb3(), reach(n_envs=2, max_steps=4)
    view = task.as_gymnasium(flatten=True)
    np.testing.assert_array_equal(env.reset(), view.reset()[0])
    rng = np.random.default_rng(0)
    returns = np.zeros(2)
    for step in range(1, 10):
        action = rng.uniform(-0.5, 0.5, env.action_space.shape).astype(np.float32)
        action = np.stack([action, -action])
        got, reward, done, infos = env.step(action)
        expected, expected_reward, terminated, truncated, info = view.step(action)
        np.testing.assert_array_equal(got, expected)
        np.testing.assert_array_equal(reward, expected_reward)
        np.testing.assert_array_equal(done, terminated | truncated)
        returns += reward
        assert done.all() == (step % 4 == 0)
        for number, one in enumerate(infos):
            if done[number]:
                np.testing.assert_array_equal(one["terminal_observation"], info["final_obs"][number])
                assert one["TimeLimit.truncated"] == truncated[number]
                assert one["episode"] == {"r": pytest.approx(returns[number]), "l": 4}
            else:
                assert one == {}
        returns[done] = 0


def test_dict_observations_are_flat_and_in_their_space():
    env = reach(n_envs=2, max_steps=2).as_sb3(keys=("qpos", "qvel"), flatten=False)
    observation = env.reset()
    assert set(observation) == {"qpos", "qvel"}
    assert all(observation[key].shape == (2, *env.observation_space[key].shape) for key in observation)
    env.step(np.zeros((2, *env.action_space.shape)))
    *_, infos = env.step(np.zeros((2, *env.action_space.shape)))
    last = infos[0]["terminal_observation"]
    assert env.observation_space.contains({key: value.astype(np.float32) for key, value in last.items()})


def test_seeds():
    env = reach(n_envs=2).as_sb3()
    env.seed(7)
    first = env.reset()
    assert not np.array_equal(env.reset(), first)
    env.seed(7)
    np.testing.assert_array_equal(env.reset(), first)


def test_mistakes():
    env = reach(n_envs=2).as_sb3()
    with pytest.raises(sn.OptionError, match=r"one task; set 'seed' of env\.task"):
        env.set_attr("seed", 1)
    with pytest.raises(sn.errors.NameNotFoundError, match="qpos"):
        reach().as_sb3(keys=("qpso",))
    assert env.get_attr("n_envs") == [2, 2]
    assert env.env_method("is_done")[0].shape == (2,)
    assert env.env_is_wrapped(object) == [False, False]
