"""Several entities in one scene: observations, decision rates, memories, and PettingZoo's API tests."""

import numpy as np
import pytest
from gymnasium.utils.env_checker import data_equivalence
from pettingzoo.test import api_test, parallel_api_test, parallel_seed_test
from pettingzoo.utils.conversions import parallel_to_aec

import sensorium as sn
from sensorium.errors import EpisodeOverError, NameNotFoundError, OptionError

SENSORS = (sn.IMU(link="torso", rate=200, acc_noise=0.1), sn.JointEncoder(joints=[0, 1], noise=0.002))


class Reflex:
    """A brain whose action is proportional to the gyroscope, so that each action identifies its observation."""

    def __init__(self, observation_space, action_space, gain=0.3):
        self.gain, self.seen = gain, []

    def decide(self, observation, deterministic=False):
        return np.clip(self.gain * observation["imu"]["ang_vel"][:2], -1, 1)

    def decide_batch(self, observation, deterministic=False):
        self.seen.append(observation)
        return np.clip(self.gain * observation["imu"]["ang_vel"][:, :2], -1, 1)


def make(sensors=SENSORS, brain=Reflex, **options):
    return sn.TrainableEntity("balancer", sensors, brain, **options)


def pair(n_envs=1, spacing=1.0, slow=12.5, **options):
    entities = {"quick": make(memory=4000), "slow": make(SENSORS[:1], memory=4000, rate=slow)}
    return sn.tasks.make("balance", entities=entities, n_envs=n_envs, spacing=spacing, **options)


def random_actions(task, rng):
    return {name: rng.uniform(-1, 1, (task.n_envs, 2)) for name in task.entities}


# -- observations -----------------------------------------------------------------------------------------------------


def test_each_entity_only_observes_its_own_sensors():
    task = pair(n_envs=3)
    observations, infos = task.reset()
    assert {name: list(each) for name, each in observations.items()} == {
        "quick": ["imu", "joint_encoder"],
        "slow": ["imu"],
    }
    assert infos["slow"]["episode"].tolist() == [0, 0, 0]
    rng = np.random.default_rng(0)
    for _ in range(5):
        observations, *_ = task.step(random_actions(task, rng))
    for name, entity in task.entities.items():
        assert observations[name] in entity.suite.space
        rig = task.members[name].robot.rig
        np.testing.assert_array_equal(observations[name]["imu"]["lin_acc"], rig["imu"].read().lin_acc)
    assert not np.allclose(observations["quick"]["imu"]["lin_acc"], observations["slow"]["imu"]["lin_acc"])
    assert task.scene["quick"] is not task.scene["slow"]


def test_action_of_a_distant_entity_does_not_change_observations():
    seen = []
    for command in (1.0, -0.4):
        task = pair(spacing=50.0, slow=None)
        task.reset()
        for _ in range(6):
            observations, *_ = task.step({"quick": np.full((1, 2), 0.2), "slow": np.full((1, 2), command)})
        seen.append(observations)
    for name in ("lin_acc", "ang_vel"):
        np.testing.assert_allclose(seen[0]["quick"]["imu"][name], seen[1]["quick"]["imu"][name], atol=1e-4)
    assert not np.allclose(seen[0]["slow"]["imu"]["ang_vel"], seen[1]["slow"]["imu"]["ang_vel"], atol=0.1)


def test_action_of_another_entity_does_not_change_the_reward():
    results = []
    for command in (0.0, 1.0):
        task = pair(spacing=50.0, slow=None)
        task.reset()
        results.append(task.step({"quick": np.full((1, 2), 0.2), "slow": np.full((1, 2), command)})[1])
    np.testing.assert_allclose(results[0]["quick"], results[1]["quick"], atol=1e-5)
    assert results[0]["slow"] > results[1]["slow"] + 0.04


def test_entities_see_and_touch_each_other():
    eye = make([sn.IMU(link="torso"), sn.Camera(resolution=(64, 64), pos=(0.06, 0.0, 0.2))], None)
    task = sn.tasks.make("balance", entities={"eye": eye, "other": make()}, spacing=0.8, tilt=0.0)
    task.reset()

    def blue():
        image = eye.suite.read()["camera"]["rgb"][0].astype(int)
        return ((image[..., 2] > 1.3 * image[..., 0]) & (image[..., 2] > 30)).sum()

    counts = []
    for heading in (-np.pi / 2, np.pi / 2):  # the other entity is at smaller y
        place = np.array([[*task.members["eye"].origin, 0.081]])
        quat = np.array([[np.cos(heading / 2), 0, 0, np.sin(heading / 2)]])
        task.members["eye"].robot._entity.set_pose(place, quat, [0])
        task.scene.forward()
        counts.append(blue())
    assert counts[0] > 50
    assert counts[1] == 0
    close = sn.tasks.make("balance", entities={"a": make(), "b": make()}, spacing=0.09, tilt=0.0)
    close.reset()
    apart = [close.members[name].robot.base_pose()[0, :3] for name in "ab"]
    for _ in range(3):
        close.step({name: np.zeros((1, 2)) for name in "ab"})
    now = [close.members[name].robot.base_pose()[0, :3] for name in "ab"]
    # contacts push them apart
    assert np.linalg.norm(now[0] - now[1]) > np.linalg.norm(apart[0] - apart[1]) + 1e-4


# -- rates ------------------------------------------------------------------------------------------------------------


def test_action_is_held_until_the_next_decision():
    task = pair(n_envs=2)  # every 4th step
    assert task.periods == {"quick": 1, "slow": 4}
    _, infos = task.reset()
    rng = np.random.default_rng(1)
    control = task.scene.world.bind("ctrl").numpy()
    held = None
    for number in range(9):
        actions = random_actions(task, rng)
        assert infos["slow"]["due"].tolist() == [number % 4 == 0] * 2
        if number % 4 == 0:
            held = actions["slow"]
        elif number == 5:
            del actions["slow"]  # optional, since it is not due
        *_, infos = task.step(actions)
        np.testing.assert_allclose(control[:, :2], actions["quick"], atol=1e-6)
        np.testing.assert_allclose(control[:, 2:], held, atol=1e-6)


def test_each_env_has_its_own_decision_clock():
    task = pair(n_envs=2)
    task.reset()
    rng = np.random.default_rng(1)
    first = random_actions(task, rng)
    task.step(first)
    for _ in range(2):
        task.step(random_actions(task, rng))
    _, infos = task.reset([1])
    assert infos["slow"]["due"].tolist() == [False, True]
    second = random_actions(task, rng)
    *_, infos = task.step(second)
    assert infos["slow"]["due"].tolist() == [True, False]
    control = task.scene.world.bind("ctrl").numpy()
    np.testing.assert_allclose(control[:, 2:], [first["slow"][0], second["slow"][1]], atol=1e-6)
    third = random_actions(task, rng)
    task.step(third)
    np.testing.assert_allclose(control[:, 2:], [third["slow"][0], second["slow"][1]], atol=1e-6)


@pytest.mark.parametrize("rate", [100.0, 30.0])
def test_rate_that_does_not_divide_the_step_rate_raises(rate):
    with pytest.raises(OptionError, match=r"slow: rate must be 1 / dt = 50.*the nearest rates are"):
        pair(slow=rate)


def test_single_entity_must_decide_in_every_step():
    with pytest.raises(OptionError, match=r"make the task with dt=0.04"):
        sn.tasks.make("balance", entity=make(rate=25))
    assert sn.tasks.make("balance", entity=make(rate=25), dt=0.04, substeps=8).reset()


# -- episode ends -----------------------------------------------------------------------------------------------------


def push_until_one_falls(task):
    """Push "slow" over while "quick" stands upright, and return the result of the step in which it falls."""
    task.reset()
    for _ in range(200):
        result = task.step({"quick": np.zeros((1, 2)), "slow": np.ones((1, 2))})
        if result[2]["slow"][0]:
            return result
    raise AssertionError("the entity did not fall")


def test_fallen_entity_is_not_commanded_and_the_other_continues():
    task = pair(tilt=0.0, spacing=3.0)
    _, rewards, terminated, truncated, infos = push_until_one_falls(task)
    assert rewards["slow"][0] == 0
    assert not terminated["quick"][0]
    assert not truncated["slow"][0]
    assert not infos["slow"]["due"][0]
    assert not task.is_done()[0]
    control = task.scene.world.bind("ctrl").numpy()
    assert (control[0, 2:] == 0).all()
    steps = task.members["slow"].step_count[0]
    _, rewards, terminated, _, _ = task.step({"quick": np.zeros((1, 2)), "slow": np.ones((1, 2))})
    assert (control[0, 2:] == 0).all()
    assert rewards["slow"][0] == 0
    assert rewards["quick"][0] > 0.9
    assert terminated["slow"][0]
    assert task.members["slow"].step_count[0] == steps
    assert task.members["quick"].step_count[0] == steps + 1
    while not task.is_done()[0]:
        task.step({"quick": np.ones((1, 2))})
    before = task.scene.get_state()
    with pytest.raises(EpisodeOverError, match="every env is done"):
        task.step({"quick": np.zeros((1, 2))})
    np.testing.assert_array_equal(task.scene.get_state(), before)
    task.reset()
    assert task.step({"quick": np.zeros((1, 2)), "slow": np.zeros((1, 2))})[1]["slow"][0] > 0.9


def test_env_is_reset_when_all_entities_have_ended():
    task = pair(n_envs=2, autoreset=True, max_steps=6)
    task.reset()
    rng = np.random.default_rng(0)
    for number in range(6):
        observations, _, _, truncated, infos = task.step(random_actions(task, rng))
        assert ("final_obs" in infos["quick"]) == (number == 5)
    assert truncated["quick"].all()
    assert truncated["slow"].all()
    assert infos["slow"]["_final_obs"].all()
    assert infos["slow"]["due"].all()
    assert task.members["slow"].step_count.tolist() == [0, 0]
    last, first = infos["quick"]["final_obs"]["imu"]["lin_acc"], observations["quick"]["imu"]["lin_acc"]
    assert not np.allclose(last, first)
    np.testing.assert_array_equal(first, task.entities["quick"].suite.read()["imu"]["lin_acc"])


# -- seeds ------------------------------------------------------------------------------------------------------------


def test_episode_of_an_entity_only_depends_on_its_own_name():
    def start(names, seed=3):
        task = sn.tasks.make("balance", entities={name: make() for name in names}, n_envs=2, seed=seed)
        task.reset()
        return {name: task.members[name].robot.base_pose()[:, 3:] for name in names}

    together, other, alone = start(["a", "b"]), start(["a", "c"]), start(["a"])
    np.testing.assert_allclose(together["a"], other["a"], atol=1e-12)
    np.testing.assert_allclose(together["a"], alone["a"], atol=1e-12)
    assert not np.allclose(together["a"], together["b"])
    assert not np.allclose(together["a"], start(["a", "b"], seed=4)["a"])


def test_reseed_matches_a_task_of_that_seed():
    first, second = pair(n_envs=2, seed=5), pair(n_envs=2, seed=0)
    first.reset()
    second.reset()
    second.reset()
    second.reseed(5)
    second.reset()
    np.testing.assert_array_equal(first.scene.get_state(), second.scene.get_state())


# -- memory -----------------------------------------------------------------------------------------------------------


def stored(memory):
    """Return all transitions of a memory in the order in which they were written."""
    out = memory.batch(len(memory))
    _, rows, lost = memory.read_since(0, 0, out)
    assert lost == 0
    return [
        (
            out.observation["imu.ang_vel"][row].numpy(),
            out.action[row].numpy(),
            float(out.reward[row]),
            out.next_observation["imu.ang_vel"][row].numpy(),
            bool(out.terminated[row]),
            bool(out.truncated[row]),
        )
        for row in range(rows.start, rows.stop)
    ]


def test_each_entity_stores_its_transitions_from_decision_to_decision():
    """Compare with a plain loop over envs that keeps lists."""
    n_envs = 3
    task, same = (pair(n_envs=n_envs, autoreset=True, max_steps=11, fall=0.2) for _ in range(2))
    task.rollout(60)
    expected = {name: [] for name in same.entities}
    opened = {name: [None] * n_envs for name in same.entities}
    held = {name: np.zeros((n_envs, 2)) for name in same.entities}
    observations, _ = same.reset()
    due = {name: [True] * n_envs for name in same.entities}
    for _ in range(60):
        for name, entity in same.entities.items():
            for env in range(n_envs):
                if due[name][env]:
                    seen = {"imu": {"ang_vel": observations[name]["imu"]["ang_vel"][env]}}
                    held[name][env] = entity.brain.decide(seen)
                    opened[name][env] = [seen["imu"]["ang_vel"].copy(), held[name][env].copy(), 0.0]
        observations, rewards, terminated, truncated, infos = same.step(held)
        for name in same.entities:
            last = infos[name].get("final_obs", observations[name])["imu"]["ang_vel"]
            due[name] = infos[name]["due"].tolist()
            for env in range(n_envs):
                ended = terminated[name][env] or truncated[name][env]
                if opened[name][env] is None:
                    continue
                opened[name][env][2] += rewards[name][env]
                if ended or due[name][env]:
                    flags = (bool(terminated[name][env]), bool(truncated[name][env]))
                    expected[name].append((*opened[name][env], last[env].copy(), *flags))
                    opened[name][env] = None
    ends = 0
    for name, entity in task.entities.items():
        found = stored(entity.memory)
        assert len(expected[name]) - n_envs < len(found) <= len(expected[name])
        for ours, theirs in zip(found, expected[name], strict=False):
            for mine, other in zip(ours, theirs, strict=True):
                np.testing.assert_allclose(mine, other, atol=1e-6)
        ends += sum(each[4] for each in found)
    assert ends > 5  # some entities fell
    assert len(expected["quick"]) > 2 * len(expected["slow"])
    assert max(each[2] for each in expected["slow"]) > 3  # the sum of four rewards of nearly 1


def test_brain_only_decides_in_envs_that_are_due():
    task = pair(n_envs=2, autoreset=True)
    task.reset()
    task.rollout(3)
    task.reset([1])
    brain = task.entities["slow"].brain
    brain.seen.clear()
    task.rollout(4)
    assert [len(each["imu"]["ang_vel"]) for each in brain.seen] == [1, 1]
    assert [len(each["imu"]["ang_vel"]) for each in task.entities["quick"].brain.seen] == [2] * 7


def test_reset_discards_open_transitions():
    task = pair(n_envs=2, autoreset=True)
    task.rollout(2)
    task.reset()  # "slow" is in the middle of its first action
    task.rollout(4)
    memory = task.entities["slow"].memory
    assert len(memory) == 2
    reward = memory.sample(2).reward.numpy()
    assert (reward > 3).all()


def test_entities_learn_from_their_own_memories():
    options = {"brain": sn.SACMLPBrain, "brain_options": {"hidden": (16,), "batch_size": 8}}
    entities = {"a": make(memory=100, **options), "b": make(SENSORS[:1], memory=100, rate=25, **options)}
    task = sn.tasks.make("balance", entities=entities, n_envs=2, autoreset=True, fall=3.2)
    means = task.rollout(20)
    assert all(0 < mean <= 1 for mean in means.values())
    assert [len(each.memory) for each in entities.values()] == [40, 20]
    weights = {name: each.brain._sac.actor.mu.weight.clone() for name, each in entities.items()}
    entities["a"].learn(2)
    assert not (weights["a"] == entities["a"].brain._sac.actor.mu.weight).all()
    assert (weights["b"] == entities["b"].brain._sac.actor.mu.weight).all()
    assert "train/critic_loss" in entities["b"].learn(1)


# -- PettingZoo -------------------------------------------------------------------------------------------------------


def parallel(**options):
    return pair(**{"max_steps": 60, **options}).as_parallel_env()


def test_pettingzoo_api_tests_pass():
    parallel_api_test(parallel(), num_cycles=100)
    parallel_seed_test(parallel)


@pytest.mark.filterwarnings("ignore::UserWarning")  # about names without numbers and infinite bounds
def test_pettingzoo_aec_api_test_passes():
    api_test(parallel_to_aec(pair(max_steps=20).as_parallel_env(flatten=True)), num_cycles=100)


def test_same_seed_gives_the_same_episode():
    first, second = parallel(seed=1), parallel(seed=1)
    rng = np.random.default_rng(0)
    assert data_equivalence(first.reset(seed=7), second.reset(seed=7), exact=True)
    steps = 0
    while first.agents:
        actions = {agent: rng.uniform(-1, 1, 2).astype(np.float32) for agent in first.agents}
        assert data_equivalence(first.step(actions), second.step(actions), exact=True)
        assert first.agents == second.agents
        steps += 1
    assert 5 < steps <= 60
    same, _ = first.reset(seed=7)
    other, _ = second.reset(seed=8)
    assert not data_equivalence(same, other)


def test_agents_are_removed_when_they_end_and_return_at_reset():
    env = pair(tilt=0.0, spacing=3.0, max_steps=300).as_parallel_env(flatten=True)
    assert env.possible_agents == ["quick", "slow"]
    with pytest.raises(EpisodeOverError, match="reset"):
        env.step({})
    observations, infos = env.reset()
    assert infos == {name: {"episode_number": 0, "due": True} for name in env.agents}
    assert observations["quick"].shape == (13,)
    assert observations["quick"] in env.observation_space("quick")
    while "slow" in env.agents:
        observations, rewards, terminated, truncated, infos = env.step({"quick": np.zeros(2), "slow": np.ones(2)})
        assert set(observations) == set(rewards) == set(infos) == {"quick", "slow"}
        assert isinstance(rewards["slow"], float)
    assert terminated == {"quick": False, "slow": True}
    assert truncated == {"quick": False, "slow": False}
    assert env.agents == ["quick"]
    with pytest.raises(OptionError, match="'slow' has ended"):
        env.step({"quick": np.zeros(2), "slow": np.ones(2)})
    observations, *_ = env.step({"quick": np.zeros(2)})
    assert list(observations) == ["quick"]
    while env.agents:
        _, _, _, truncated, _ = env.step({"quick": np.ones(2)})
    assert env.reset()[1]["slow"]["episode_number"] == 1
    assert env.agents == ["quick", "slow"]
    env.close()


def test_parallel_env_renders_both_bodies():
    env = pair().as_parallel_env(render_mode="rgb_array")
    env.reset()
    image = env.render()
    assert image.shape == (480, 640, 3)
    assert image.dtype == np.uint8
    blue = (image[..., 2] > 1.3 * image[..., 0]) & (image[..., 2] > 30)
    columns = np.flatnonzero(blue.any(axis=0))
    assert (np.diff(columns) > 20).sum() == 1  # two separate bodies
    assert parallel().render() is None


# -- bad input --------------------------------------------------------------------------------------------------------


def test_invalid_arguments_raise():
    one = make()
    with pytest.raises(OptionError, match="entities must be different objects"):
        sn.tasks.make("balance", entities={"a": one, "b": one})
    with pytest.raises(OptionError, match="with at least one"):
        sn.tasks.make("balance", entities={})
    with pytest.raises(OptionError, match="name -> TrainableEntity, got 'a': 'balancer'"):
        sn.tasks.make("balance", entities={"a": "balancer"})
    with pytest.raises(OptionError, match="entity must be a TrainableEntity"):
        sn.tasks.make("balance", entity="balancer")
    with pytest.raises(OptionError, match="is for one robot"):
        sn.tasks.make("pick", entities={"a": one})
    with pytest.raises(OptionError, match="do not pass robot or entity"):
        sn.tasks.make("balance", robot="balancer", entities={"a": one})
    with pytest.raises(OptionError, match="spacing"):
        sn.tasks.make("balance", entities={"a": one}, spacing=0)
    with pytest.raises(OptionError, match="among its sensors"):
        sn.tasks.make("balance", entities={"a": one}, cameras=[{"name": "front"}])
    with pytest.raises(OptionError, match="one env"):
        pair(n_envs=2).as_parallel_env()
    with pytest.raises(OptionError, match="autoreset=False"):
        pair(autoreset=True).as_parallel_env()
    with pytest.raises(OptionError, match="render_mode"):
        pair().as_parallel_env(render_mode="human")
    task = pair()
    with pytest.raises(EpisodeOverError, match="reset"):
        task.step({})
    with pytest.raises(OptionError, match="autoreset=True"):
        task.rollout()
    with pytest.raises(OptionError, match="steps must be an integer"):
        task.rollout("two")
    with pytest.raises(OptionError, match="remember"):
        task.rollout(1, remember="no")
    some = pair(n_envs=2)
    some.reset([1])
    with pytest.raises(EpisodeOverError, match="reset"):
        some.step(random_actions(some, np.random.default_rng(0)))
    task.reset()
    state = task.scene.get_state()
    with pytest.raises(NameNotFoundError, match="did you mean 'quick'"):
        task.step({"quik": np.zeros((1, 2))})
    with pytest.raises(OptionError, match="action of 'slow' is missing"):
        task.step({"quick": np.zeros((1, 2))})
    with pytest.raises(OptionError, match=r"action of 'slow' must have shape \(1, 2\) \(body: 2\), got \(2,\)"):
        task.step({"quick": np.zeros((1, 2)), "slow": np.zeros(2)})
    with pytest.raises(OptionError, match="action of 'quick' must be finite"):
        task.step({"quick": np.full((1, 2), np.nan), "slow": np.zeros((1, 2))})
    np.testing.assert_array_equal(task.scene.get_state(), state)
    other = sn.tasks.make("balance", entities=task.entities, n_envs=2, autoreset=True)
    with pytest.raises(OptionError, match="the memory has 1 envs, and the task has 2"):
        other.rollout()
    other.rollout(remember=False)
    with pytest.raises(OptionError, match="rate must be a number > 0"):
        make(rate=-1)
    with pytest.raises(OptionError, match="memory must be an integer"):
        make(memory=2.5)
    with pytest.raises(OptionError, match="did you mean 'gain'"):
        make(brain_options={"gian": 1})
    with pytest.raises(OptionError, match="does not learn"):
        make(memory=10).learn(1)


def test_rollout_without_memory_discards_open_transitions():
    entity = make(SENSORS[:1], memory=100, rate=25)
    task = sn.tasks.make("balance", entities={"a": entity}, n_envs=1, autoreset=True, max_steps=9)
    task.reset()
    task.rollout(1)
    task.rollout(9, remember=False)
    task.rollout(1)
    assert len(entity.memory) == 0


def test_diverged_step_has_no_reward_and_is_not_stored():
    task = sn.tasks.make("balance", n_envs=3, autoreset=True)
    task.reset()
    task.step(np.zeros((3, 2)))
    task.scene.world.bind("qvel")[1, :] = 1e12
    _, reward, _, truncated, info = task.step(np.zeros((3, 2)))
    assert list(info["failed"]) == [1]
    assert reward[1] == 0
    assert (reward[[0, 2]] > 0.5).all()
    assert truncated.tolist() == [False, True, False]
    entity = make(memory=100)
    task = sn.tasks.make("balance", entities={"a": entity}, n_envs=2, autoreset=True)
    task.reset()
    task.rollout(2)
    assert len(entity.memory) == 4
    task.scene.world.bind("qvel")[0, :] = 1e12
    task.rollout(2)  # three more transitions, of which the memory takes two at a time
    assert len(entity.memory) == 6
