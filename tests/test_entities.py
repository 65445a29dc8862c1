"""Trainable entities: what they sense, what they cannot reach, and a brain that learns and can be kept."""

import gc

import numpy as np
import pytest
import torch

import sensorium as sn
from sensorium.entities import Memory
from sensorium.entities.brain import flat_observation, flat_space
from sensorium.errors import NotBuiltError, OptionError

SENSORS = (sn.IMU(link="torso", rate=200), sn.JointEncoder(joints=[0, 1], noise=0.002))


def make(**options):
    return sn.TrainableEntity(robot="balancer", sensors=SENSORS, brain=sn.SACMLPBrain, **options)


def test_the_suite_is_known_before_there_is_a_scene():
    robot = make()
    assert list(robot.suite.space.spaces) == ["imu", "jointencoder"]
    assert robot.observation_space["imu"]["lin_acc"].shape == (3,)
    assert robot.action_space.shape == (2,)
    with pytest.raises(NotBuiltError, match="in no scene"):
        robot.suite.read()


def test_a_task_shows_what_the_entity_senses_and_nothing_else():
    robot = make()
    task = sn.tasks.make("balance", entity=robot, n_envs=4, seed=0)
    observation, _ = task.reset()
    assert list(observation) == ["imu", "jointencoder"]
    assert observation in robot.suite.space
    action = robot.step()
    assert action.shape == (4, 2)
    assert (np.abs(action) <= 1).all()
    one = {key: {name: value[1] for name, value in each.items()} for key, each in observation.items()}
    np.testing.assert_allclose(
        robot.decide_batch(observation, deterministic=True)[1], robot.decide(one, deterministic=True), atol=1e-6
    )
    env = task.as_gymnasium()
    assert env.num_envs == 4


def reachable(root):
    seen, queue = set(), [root]
    while queue:
        thing = queue.pop()
        if id(thing) in seen or isinstance(thing, type) or type(thing).__name__ in ("module", "function"):
            continue
        seen.add(id(thing))
        yield thing
        queue.extend(gc.get_referents(thing))


def test_no_world_can_be_reached_from_a_brain():
    robot = make()
    task = sn.tasks.make("balance", entity=robot, n_envs=2)
    task.reset()
    robot.step()
    found = {type(each).__name__ for each in reachable(robot.brain) if type(each).__module__.startswith("sensorium")}
    assert found == {"SACMLPBrain", "_Spaces"}
    # the walk does find it from where it can be found
    assert "Scene" in {type(each).__name__ for each in reachable(task) if type(each).__module__.startswith("sensorium")}


def test_ground_truth_takes_a_suite_that_is_privileged():
    from sensorium.suites import PipelineSensor, SensorSuite

    robot = sn.TrainableEntity("balancer", SENSORS, privileged=[sn.FramePose(link="torso")])
    assert "privileged/framepose" in robot.suite.space.spaces
    task = sn.tasks.make("balance", entity=robot, n_envs=2)
    observation, _ = task.reset()
    np.testing.assert_allclose(observation["privileged/framepose"]["pos"], task.robot.base_pose()[:, :3], atol=1e-6)
    sensor = PipelineSensor(task.robot.rig["framepose"], "truth", privileged=True)
    with pytest.raises(OptionError, match="privileged=True"):
        SensorSuite(2, [sensor])


def filled(brain, seed=0):
    rng = np.random.default_rng(seed)
    boxes = flat_space(brain.observation_space)
    from gymnasium import spaces

    memory = Memory(spaces.Dict(list(boxes.items())), brain.action_space, 512, 16, seed=seed)
    for _ in range(32):
        rows = {name: rng.normal(size=(16, *box.shape)).astype(np.float32) for name, box in boxes.items()}
        after = {name: rng.normal(size=(16, *box.shape)).astype(np.float32) for name, box in boxes.items()}
        action = rng.uniform(-1, 1, (16, 2)).astype(np.float32)
        done = rng.random(16) < 0.1
        memory.add(rows, action, rng.normal(size=16).astype(np.float32), after, done, np.zeros(16, bool))
    return memory


def test_learning_is_deterministic_and_a_brain_can_be_kept(tmp_path):
    brains = [make(brain_options={"hidden": (32, 32), "seed": 3}).brain for _ in range(2)]
    for brain in brains:
        brain.learn(filled(brain), 4)
    first, second = (brain._sac.policy.state_dict() for brain in brains)
    assert all(torch.equal(first[name], second[name]) for name in first)
    brains[0].save(tmp_path / "a")
    assert sorted(path.name for path in (tmp_path / "a").iterdir()) == ["brain.json", "brain.safetensors"]
    again = sn.SACMLPBrain.load(tmp_path / "a", brains[0].observation_space, brains[0].action_space)
    for brain in (brains[0], again):
        brain.learn(filled(brain, seed=5), 3)
    kept = again._sac.policy.state_dict()
    assert all(torch.equal(value, kept[name]) for name, value in brains[0]._sac.policy.state_dict().items())


def test_flat_names_of_spaces_and_observations_agree():
    robot = make()
    task = sn.tasks.make("balance", entity=robot, n_envs=2)
    observation, _ = task.reset()
    assert set(flat_observation(observation)) == set(flat_space(robot.observation_space))


def test_a_body_that_leans_is_balanced_by_a_controller_and_falls_without():
    from sensorium import poses

    for gain, upright in ((1.0, True), (0.0, False)):
        task = sn.tasks.make("balance", n_envs=4, seed=0, max_steps=250, use_sensors=False)
        task.reset()
        while not task.is_done().all():
            pose = task.robot.base_pose()
            up, ahead, left = (poses.rotate(pose[:, 3:], axis) for axis in np.eye(3)[[2, 0, 1]])
            linear, angular = (part.numpy() for part in task.robot.get_velocity())
            lean = np.arctan2((up[:, :2] * ahead[:, :2]).sum(axis=1), up[:, 2])
            push = 14 * lean + 1.9 * (angular * left).sum(axis=1) + 1.2 * (linear * ahead).sum(axis=1)
            push += 0.7 * (pose[:, :3] * ahead).sum(axis=1)
            task.step(np.clip(gain * np.stack([push, push], axis=1), -1, 1))
        assert (task.judge_success() == upright).all()
        assert (task.truncated == upright).all()
