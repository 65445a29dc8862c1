"""Bad input of entities, brains, memories and their environments: the message names it, and nothing is changed."""

import numpy as np
import pytest
import torch
from gymnasium import spaces

import sensorium as sn

SPACE = spaces.Dict({"imu": spaces.Box(-1, 1, (3,)), "privileged/pose": spaces.Box(-1, 1, (2,))})
ACTION = spaces.Box(-1, 1, (2,))
NAN = float("nan")


class Fixed:
    """A brain that returns what it is given."""

    def __init__(self, observation_space, action_space, action):
        self.action = action

    def decide(self, observation, deterministic=False):
        return self.action[0]

    def decide_batch(self, observation, deterministic=False):
        return self.action


def observation(n_envs=2, **changes):
    return {"imu": np.zeros((n_envs, 3)), "privileged/pose": np.zeros((n_envs, 2))} | changes


def transition(n_envs=2):
    flags = np.zeros(n_envs, bool)
    return observation(n_envs), np.zeros((n_envs, 2)), np.zeros(n_envs), observation(n_envs), flags, flags


@pytest.fixture(scope="module")
def brain():
    return sn.SACMLPBrain(SPACE, ACTION, hidden=(4,))


@pytest.fixture(scope="module")
def acting():
    entity = sn.TrainableEntity(
        "balancer", [sn.IMU(link="torso", uuid="imu")], sn.SACMLPBrain, brain_options={"hidden": (4,)}, memory=64
    )
    task = sn.tasks.make("balance", entity=entity, n_envs=2, seed=0)
    first, _ = task.reset()
    yield entity, first
    task.close()


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (None, "observation must be a mapping of key -> .* got None"),
        ({}, "the observation lacks 'imu'; it has none"),
        (observation(imu=np.zeros(3)), r"'imu' must have shape \(3,\) in each env, got \(\); use decide for one env"),
        (observation(imu=np.zeros((2, 4))), r"'imu' must have shape \(3,\) in each env, got \(4,\)$"),
        (observation(imu=1.0), r"'imu' must have shape \(3,\) in each env, got \(\)$"),
        (observation(imu=[[0, 0, 0], [0, 0]]), "the observation 'imu' must be an array of numbers: .*inhomogeneous"),
        (observation(imu=np.array([["a"] * 3] * 2)), "the observation 'imu' must be numbers, got array"),
    ],
)
def test_an_observation_that_a_brain_cannot_use_is_refused(brain, given, words):
    mean = brain._inputs.normalizers["vector"].mean.copy()
    for call in (brain.decide_batch, brain.observe):
        with pytest.raises(sn.OptionError, match=words):
            call(given)
    assert np.array_equal(brain._inputs.normalizers["vector"].mean, mean)


def test_an_observation_of_several_envs_is_refused_by_decide(brain):
    with pytest.raises(sn.OptionError, match=r"got \(2, 3\); use decide_batch for several envs"):
        brain.decide(observation())
    with pytest.raises(sn.OptionError, match="deterministic must be True or False, got 'yes'"):
        brain.decide_batch(observation(), "yes")


def test_an_incomplete_observation_does_not_change_the_statistics(brain):
    count = brain._inputs.normalizers["vector"].count
    lacking = {"imu": np.ones((2, 3))}
    assert brain.decide_batch(lacking).shape == (2, 2)  # the actor needs no privileged observation
    with pytest.raises(sn.OptionError, match="the observation lacks 'privileged/pose'; it has 'imu'"):
        brain.observe(lacking)
    with pytest.raises(sn.OptionError, match=r"the same number of envs, got \{'imu': 3, 'privileged/pose': 2}"):
        brain._inputs.refuse(observation(imu=np.zeros((3, 3))), list(SPACE), ValueError())
    assert brain._inputs.normalizers["vector"].count == count


def test_learning_needs_a_memory_of_the_same_spaces(brain):
    own = sn.entities.Memory(SPACE, ACTION, 16, 2)
    other = sn.entities.Memory(spaces.Dict({"imu": spaces.Box(-1, 1, (3,))}), ACTION, 16, 2)
    with pytest.raises(sn.OptionError, match="memory must be TransitionSource, got None"):
        brain.learn(None, 1)
    with pytest.raises(sn.OptionError, match="memory must have the fields of the brain's spaces"):
        brain.learn(other, 1)
    with pytest.raises(sn.OptionError, match="gradient_steps must be an integer >= 1, got 0"):
        brain.learn(own, 0)
    with pytest.raises(sn.OptionError, match="cannot sample"):
        brain.learn(own, 1)


def test_files_of_a_brain_and_a_training_need_a_path(brain, tmp_path):
    (tmp_path / "file").write_text("")
    for save in (brain.save, sn.training.recipe("balance").save, sn.training.PPOOptions().save):
        for bad in (None, 3, "", "no\0name"):
            with pytest.raises(sn.OptionError, match="folder must be a path, got"):
                save(bad)
        with pytest.raises(sn.errors.DatasetError, match="cannot write"):
            save(tmp_path / "file")
    with pytest.raises(sn.OptionError, match="folder must be a path, got None"):
        brain.restore(None)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"observation": None}, "observation must be a mapping of key"),
        ({"observation": {}}, "the observation lacks 'imu.ang_vel'"),
        ({"due": [1, 0]}, r"due must be bool of shape \(2,\), got \[1, 0\]"),
        ({"due": np.ones(3, bool)}, r"due must be bool of shape \(2,\), got array"),
        ({"remember": None}, "remember must be True or False, got None"),
        ({"observation": None, "due": np.array([True, False])}, "observation must be a mapping of key"),
        ({"observation": {"imu": [0.0, 0.0]}, "due": np.array([True, False])}, "'imu' must be an array of 2 rows"),
    ],
)
def test_a_choice_with_bad_arguments_changes_nothing(acting, options, words):
    entity, first = acting
    held, rng = entity.choose(first, remember=False), entity.brain._rng.get_state()
    with pytest.raises(sn.OptionError, match=words):
        entity.choose(**{"observation": first} | options)
    assert not entity._transitions._open.any()
    assert np.array_equal(entity._action, held)
    assert torch.equal(entity.brain._rng.get_state(), rng)


@pytest.mark.parametrize(
    ("place", "bad", "words"),
    [
        (0, None, r"reward must be numbers of shape \(2,\), got"),
        (0, np.zeros((2, 1)), r"reward must be numbers of shape \(2,\), got"),
        (0, np.zeros(3), "the memory has 2 envs, and the task has 3"),
        (0, np.array([0.0, NAN]), "rewards must be finite, got nan"),
        (1, None, "observation must be a mapping of key"),
        (1, {}, "the observation lacks 'imu.ang_vel'; it has none"),
        (2, np.zeros(2), r"terminated must be bool of shape \(2,\), got array"),
        (3, "no", r"truncated must be bool of shape \(2,\), got 'no'"),
        (4, np.ones(3, bool), r"due must be bool of shape \(2,\), got array"),
    ],
)
def test_a_bad_result_of_a_step_stores_nothing(acting, place, bad, words):
    entity, first = acting
    entity.choose(first)
    before = entity._transitions._reward.copy(), len(entity.memory)
    result = [np.ones(2), first, np.zeros(2, bool), np.zeros(2, bool), np.ones(2, bool)]
    result[place] = bad
    with pytest.raises(sn.OptionError, match=words):
        entity.experience(*result)
    assert np.array_equal(entity._transitions._reward, before[0])
    assert len(entity.memory) == before[1]
    entity.interrupt()


@pytest.mark.parametrize("action", [None, np.zeros((3, 2)), "left", [[0.0], [0.0, 0.0]]])
def test_actions_of_a_brain_have_the_shape_of_the_space(action):
    entity = sn.TrainableEntity(
        "balancer", [sn.IMU(link="torso")], Fixed, brain_options={"action": action}, rate=None, memory=None
    )
    with pytest.raises(sn.OptionError, match=r"the brain must return actions of shape \(2, 2\), .* got"):
        entity.choose({"imu": {}}, np.ones(2, bool))


def test_an_error_of_a_brain_is_not_hidden():
    class Broken(Fixed):
        def decide_batch(self, observation, deterministic=False):
            raise KeyError("its own error")

    entity = sn.TrainableEntity("balancer", [sn.IMU(link="torso")], Broken, brain_options={"action": None})
    with pytest.raises(KeyError, match="its own error"):
        entity.choose({"imu": {}})


def test_an_entity_is_bound_to_a_robot_only(acting):
    entity, _ = acting
    with pytest.raises(sn.OptionError, match="robot must be Robot, got 'balancer'"):
        entity.bind("balancer", 2)
    with pytest.raises(sn.OptionError, match="gradient_steps must be an integer >= 1, got '8'"):
        entity.learn("8")


@pytest.mark.parametrize("kind", ["Memory", "VectorizedClusterBuffer"])
def test_transitions_that_do_not_fit_are_refused(kind):
    clusters = sn.entities.ClusterOptions(capacity=16, clusters=1)
    memory = (
        sn.entities.Memory(SPACE, ACTION, 16, 2)
        if kind == "Memory"
        else sn.entities.VectorizedClusterBuffer(SPACE, ACTION, clusters)
    )
    for place, bad, words in (
        (0, None, "observation must be a mapping of key"),
        (3, torch.zeros(2), "next_observation must be a mapping of key"),
        (2, 1.0, "reward must have shape"),
    ):
        values = list(transition())
        values[place] = bad
        with pytest.raises(sn.OptionError, match=words):
            memory.add(*values)
    assert len(memory) == 0
    memory.add(*transition())
    for bad in (None, 0, -1, 0.5, "8"):
        with pytest.raises(sn.OptionError, match="batch_size must be an integer >= 1, got"):
            memory.sample(bad)
    with pytest.raises(sn.OptionError, match="batch_size=1000000000000000000: the transitions"):
        memory.sample(10**18)


def test_a_layout_refuses_values_of_another_layout():
    layout = sn.entities.ExperienceLayout.of(SPACE, ACTION)
    values, shapes = layout.collect(*transition()), layout.shapes(2)
    for convert in (layout.arrays, layout.tensors):
        for bad in (values[:-1], None, [None] * len(values)):
            with pytest.raises(sn.OptionError, match=r"values and shapes must be|transitions must be|must have shape"):
                convert(bad, shapes)
        with pytest.raises(
            sn.OptionError, match=r"results of collect\(\) and shapes\(\), with 8 entries; got 8 values"
        ):
            convert(values, None)


def test_names_of_a_suite_are_text(acting):
    suite = acting[0].suite
    assert [] not in suite
    for call in (suite.get, suite.owner, suite.__getitem__):
        with pytest.raises(sn.OptionError, match=r"a uuid must be text, got \[\]"):
            call([])
    with pytest.raises(sn.OptionError, match="the sensors of suite must be an iterable, got 3"):
        suite.extend(3)
    with pytest.raises(sn.OptionError, match="observation must be a mapping of uuid -> reading, got None"):
        suite.to_disk(None)


def test_wrong_calls_of_the_environment_of_stable_baselines3():
    task = sn.tasks.make("walk", n_envs=2, seed=0)
    envs = task.as_sb3()
    assert envs.get_attr("n_envs", 1) == [2]
    assert not envs.has_attr("nonesuch")
    for call in (envs.get_attr, envs.env_method):
        with pytest.raises(sn.errors.NameNotFoundError, match="the task 'walk' has no attribute 'nonesuch'"):
            call("nonesuch")
        with pytest.raises(sn.OptionError, match="attribute must be text, got None"):
            call(None)
        with pytest.raises(sn.OptionError, match=r"indices must be an integer in \[-2, 1\], got 2"):
            call("n_envs", indices=[2])
    with pytest.raises(sn.OptionError, match="'n_envs' of the task is no method; use get_attr"):
        envs.env_method("n_envs")
    for bad, words in ((None, "actions must have shape"), ("left", "actions must be numbers, got 'left'")):
        with pytest.raises(sn.OptionError, match=words):
            envs.step_async(bad)
    task.close()
