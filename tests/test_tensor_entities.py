"""Entities in tensor tasks: what they observe, decide and remember, on the device of the task."""

import numpy as np
import pytest
import torch
from gymnasium import spaces

import sensorium as sn
from sensorium.entities import ClusterOptions, Memory
from sensorium.entities.nesting import flat_values
from sensorium.entities.normalizer import RunningNormalizer

DEVICES = ["cpu", pytest.param("cuda", marks=pytest.mark.gpu)]
SENSORS = [sn.IMU(link="torso", acc_noise=0.1, delay=0.02), sn.JointEncoder(joints=[0, 1], noise=0.002)]


def make_entity(**options):
    options = {"brain": sn.SACMLPBrain, "brain_options": {"hidden": (16, 16), "batch_size": 32}, **options}
    return sn.TrainableEntity("balancer", SENSORS, **options)


def make_task(entity, device="cpu", **options):
    return sn.tasks.make("balance", entity=entity, device=device, **{"n_envs": 6, "max_steps": 12, **options})


def act(entity, task, steps):
    """Let the entity act and remember; returns all that was observed, done and received."""
    observation, _ = task.reset()
    rows = []
    for _ in range(steps):
        action = entity.choose(observation)
        after, reward, terminated, truncated, info = task.step(action)
        entity.experience(reward, info["final_obs"], terminated, truncated)
        rows.append((observation, action, reward, info["final_obs"], terminated, truncated, after))
        observation = after
    return rows


@pytest.mark.parametrize("device", DEVICES)
def test_an_entity_observes_its_sensors_and_what_the_task_observes(device):
    entity = make_entity(privileged=[sn.FramePose(link="torso")])
    before = entity.brain
    task = make_task(entity, device)
    observation, _ = task.reset()
    assert sorted(observation) == ["imu", "joint_encoder", "last_action", "privileged/frame_pose"]
    assert sorted(entity.observation_space) == sorted(task.single_observation_space) == sorted(observation)
    assert entity.action_space == task.single_action_space
    assert entity.brain is not before  # made anew, for the spaces of the task
    assert entity.brain.device.type == device
    assert not any(name.startswith("privileged") for name in entity.brain._inputs.actor_names)
    own = flat_values(entity.suite.read())  # the same as arrays
    for name, value in flat_values(observation).items():
        assert value.device.type == device
        if name in own:
            np.testing.assert_array_equal(value.cpu(), own[name])
    assert set(own) == {name for name in flat_values(observation) if name != "last_action"}
    for action in (entity.decide_batch(observation), entity.step(task)):
        assert (action.shape, action.dtype, action.device.type) == ((6, 2), torch.float32, device)
    one = {
        name: {part: each[0] for part, each in value.items()}
        for name, value in observation.items()
        if isinstance(value, dict)
    }
    one["last_action"] = observation["last_action"][0]
    torch.testing.assert_close(
        entity.decide(one, deterministic=True), entity.decide_batch(observation, deterministic=True)[0]
    )
    another = make_task(entity, device, n_envs=2)  # the same spaces: the brain stays
    kept = entity.brain
    make_task(entity, device, n_envs=3)
    assert entity.brain is kept
    assert "privileged/way" in str(sn.tasks.make("balance", device=device).single_observation_space)
    for each in (task, another):
        each.close()


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("memory", [400, ClusterOptions(capacity=400, clusters=3, warmup=60)])
def test_transitions_are_remembered_on_the_device(device, memory):
    entity = make_entity(memory=memory)
    task = make_task(entity, device)
    rows = act(entity, task, 20)
    assert len(entity.memory) == 120
    assert entity.memory.device.type == device
    batch = entity.memory.sample(500)
    assert batch.reward.device.type == device
    first = {name: torch.cat([flat_values(row[0])[name] for row in rows]) for name in batch.observation}
    last = {name: torch.cat([flat_values(row[3])[name] for row in rows]) for name in batch.observation}
    stored = {"action": 1, "reward": 2, "terminated": 4, "truncated": 5}
    columns = {name: torch.cat([row[place] for row in rows]) for name, place in stored.items()}
    # each sampled transition is one that was made, in all fields
    key = "joint_encoder.positions"
    match = (batch.observation[key][:, None] == first[key]).all(dim=2)
    assert (match.sum(dim=1) == 1).all()
    which = match.int().argmax(dim=1)
    for name, value in columns.items():
        assert torch.equal(getattr(batch, name).to(value.dtype), value[which])
    for name, value in last.items():
        assert torch.equal(batch.next_observation[name], value[which])
    assert bool(columns["truncated"].any())
    entity.interrupt()
    assert np.isfinite(list(entity.learn(2).values())).all()
    task.close()


@pytest.mark.parametrize("device", DEVICES)
def test_final_observations_are_those_before_new_episodes(device):
    """In envs whose episode goes on, they are the observation; at an end, those of a task without new episodes."""
    tasks = [make_task(make_entity(), device, max_steps=5, seed=2) for _ in range(2)]
    tasks[1].autoreset = False
    for task in tasks:
        task.reset()
    action = torch.full((6, 2), 0.3, device=tasks[0].device)
    for step in range(5):
        (after, *_, info), (without, *_) = (task.step(action) for task in tasks)
        for name, value in flat_values(info["final_obs"]).items():
            assert torch.equal(value, flat_values(without)[name]), name
            assert torch.equal(value, flat_values(after)[name]) == (step < 4), name
    for task in tasks:
        task.close()


def test_a_memory_is_not_emptied_by_another_task():
    entity = make_entity(memory=400)
    task = make_task(entity)
    act(entity, task, 5)
    assert len(entity.memory) == 30
    small = make_task(entity, n_envs=2)  # to evaluate, for example
    observation, _ = small.reset()
    with pytest.raises(sn.OptionError, match="the memory has 6 envs, and the task has 2; call start_memory"):
        entity.choose(observation)
    entity.choose(observation, remember=False)
    assert len(entity.memory) == 30
    make_task(entity).close()
    entity.action_space = spaces.Box(-1.0, 1.0, (3,))  # as of a task with other actions
    with pytest.raises(sn.OptionError, match="its memory has 30 transitions; make another entity for this task"):
        make_task(entity)
    fresh = make_entity(memory=400)
    make_task(fresh)
    assert make_task(fresh, n_envs=2).n_envs == fresh.memory.n_envs == 2  # an empty one follows the task
    array = make_entity(memory=400)
    act_on_arrays(array)
    with pytest.raises(sn.OptionError, match="has learned in a task with other observations or actions"):
        make_task(array)
    assert len(array.memory) > 0


def test_a_saved_memory_is_continued(tmp_path):
    entity = make_entity(memory=400)
    act(entity, make_task(entity), 5)
    entity.memory.save(tmp_path)
    other = make_entity()
    task = make_task(other)
    other.memory = Memory.load(tmp_path)
    assert len(other.memory) == 30
    act(other, task, 3)
    assert len(other.memory) == 48
    assert np.isfinite(list(other.learn(1).values())).all()
    with pytest.raises(sn.OptionError, match="memory must be a Memory, a VectorizedClusterBuffer or None, got 3"):
        other.memory = 3
    with pytest.raises(sn.OptionError, match="the memory has the fields"):
        make_entity().memory = Memory.load(tmp_path)  # in no task yet: it has the spaces of its sensors alone
    other.memory = None
    act(other, task, 2)
    with pytest.raises(sn.OptionError, match="the entity has no memory"):
        other.learn(1)


def act_on_arrays(entity):
    task = sn.tasks.make("balance", entities={"a": entity}, n_envs=4, autoreset=True)
    task.rollout(5)


def test_all_envs_decide_and_are_interrupted_together():
    entity = make_entity(memory=400)
    task = make_task(entity)
    observation, _ = task.reset()
    with pytest.raises(sn.OptionError, match="due must be None in a tensor task"):
        entity.choose(observation, np.ones(6, bool))
    action = entity.choose(observation)
    entity.interrupt([])  # of no env
    with pytest.raises(sn.OptionError, match="all envs are interrupted together"):
        entity.interrupt([0])
    _, reward, terminated, truncated, info = task.step(action)
    with pytest.raises(sn.OptionError, match="due must be None"):
        entity.experience(reward, info["final_obs"], terminated, truncated, np.ones(6, bool))
    entity.experience(reward, info["final_obs"], terminated, truncated)
    assert len(entity.memory) == 6


def test_weights_of_sensors_in_another_order_are_refused(tmp_path):
    """The networks concatenate the readings in the order of the sensors."""
    saved, swapped = (
        sn.TrainableEntity("balancer", sensors, sn.SACMLPBrain, brain_options={"hidden": (8,)})
        for sensors in (SENSORS, SENSORS[::-1])
    )
    saved.brain.save(tmp_path)
    with pytest.raises(sn.DatasetError, match="list the sensors in the same order"):
        swapped.brain.restore(tmp_path)
    same = sn.TrainableEntity("balancer", SENSORS, sn.SACMLPBrain, brain_options={"hidden": (8,), "seed": 5})
    same.brain.restore(tmp_path)


def test_tensors_and_arrays_give_the_same_decisions_and_statistics():
    entities = [make_entity() for _ in range(2)]
    task = make_task(entities[0])
    make_task(entities[1]).close()
    observation, _ = task.reset()
    arrays = {name: value.numpy() for name, value in flat_values(observation).items()}
    for _ in range(3):
        for entity, given in zip(entities, (observation, arrays), strict=True):
            entity.brain.observe(given)
        torch.testing.assert_close(
            entities[0].decide_batch(observation), torch.from_numpy(entities[1].decide_batch(arrays))
        )
    with pytest.raises(sn.OptionError, match=r"lacks 'imu\.lin_acc'"):
        entities[0].decide_batch({"last_action": observation["last_action"]})


def test_statistics_of_tensors_are_those_of_arrays():
    rng = np.random.default_rng(0)
    arrays, tensors, mixed = (RunningNormalizer(3, torch.device("cpu")) for _ in range(3))
    for turn in range(4):
        values = rng.normal([1e3, 0.0, -5.0], [1e-3, 1.0, 9.0], (50, 3)).astype(np.float32)
        values[turn, 1] = np.nan
        arrays.update(values)
        tensors.update_tensors(torch.from_numpy(values))
        mixed.update(values) if turn % 2 else mixed.update_tensors(torch.from_numpy(values))
    for other in (tensors, mixed):
        np.testing.assert_allclose(other.mean, arrays.mean, rtol=1e-12)
        np.testing.assert_allclose(other.variance, arrays.variance, rtol=1e-9)
        assert other.count == arrays.count == 200
        one = torch.from_numpy(values)
        torch.testing.assert_close(other.normalize(one.clone()), arrays.normalize(one.clone()))


@pytest.mark.parametrize("device", DEVICES)
def test_a_saved_brain_continues_in_a_tensor_task(device, tmp_path):
    entity = make_entity(memory=400)
    task = make_task(entity, device)
    rows = act(entity, task, 8)
    entity.learn(2)
    entity.brain.save(tmp_path)
    again = make_entity()
    make_task(again, device).close()
    again.brain.restore(tmp_path)
    assert torch.equal(entity.decide_batch(rows[0][0]), again.decide_batch(rows[0][0]))
    elsewhere = sn.SACMLPBrain.load(tmp_path, entity.observation_space, entity.action_space)  # on the CPU
    arrays = {name: value.cpu().numpy() for name, value in flat_values(rows[0][0]).items()}
    mean = entity.decide_batch(rows[0][0], deterministic=True).cpu().numpy()
    np.testing.assert_allclose(elsewhere.decide_batch(arrays, deterministic=True), mean, atol=1e-5)
    task.close()


@pytest.mark.parametrize("device", DEVICES)
def test_an_entity_receives_the_command_of_walk(device):
    sensors = [sn.IMU(link="torso", delay=0.02), sn.JointEncoder(noise=0.01)]
    dog = sn.TrainableEntity("quadruped", sensors, sn.SACMLPBrain, brain_options={"hidden": (8,)}, memory=64)
    task = sn.tasks.make("walk", entity=dog, n_envs=4, device=device)
    rows = act(dog, task, 3)
    assert sorted(rows[0][0]) == ["command", "imu", "joint_encoder", "last_action"]
    assert dog.action_space == task.single_action_space
    assert torch.equal(rows[1][0]["last_action"], rows[0][1])
    assert len(dog.memory) == 12
    task.close()


def test_wrong_uses_raise():
    for options, message in (
        ({"observe": ("imu",)}, "observe: with an entity, this follows from its sensors"),
        ({"history": 3}, "set their history_length"),
        ({"ground_truth": True}, "privileged"),
        ({"dt": 0.04}, None),
    ):
        if message is None:
            make_task(make_entity(), **options).close()
        else:
            with pytest.raises(sn.OptionError, match=message):
                make_task(make_entity(), **options)
    with pytest.raises(sn.OptionError, match=r"make the task with dt=0\.04"):
        make_task(make_entity(rate=25.0))
    with pytest.raises(sn.OptionError, match="its own robot"):
        sn.tasks.make("walk", "quadruped", entity=make_entity())
    with pytest.raises(sn.OptionError, match="with cameras act in tasks on arrays only"):
        make_task(sn.TrainableEntity("balancer", [sn.Camera(resolution=(8, 8))]))
    named = sn.TrainableEntity("balancer", [sn.IMU(link="torso", uuid="last_action")])
    with pytest.raises(sn.OptionError, match="'last_action' has the name of a value of the task"):
        make_task(named)
    entity = make_entity()
    make_task(entity).close()
    with pytest.raises(sn.OptionError, match="has the spaces of a tensor task"):
        sn.tasks.make("balance", entity=entity)
