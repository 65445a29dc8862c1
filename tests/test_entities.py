"""Trainable entities: their observations, privileged sensors, and the SAC brain."""

import numpy as np
import pytest
import torch

import sensorium as sn
from sensorium.entities import Memory
from sensorium.entities.nesting import flat_observation, flat_space
from sensorium.errors import DatasetError, DeviceError, NotBuiltError, OptionError

SENSORS = (sn.IMU(link="torso", rate=200), sn.JointEncoder(joints=[0, 1], noise=0.002))


def make(**options):
    return sn.TrainableEntity(robot="balancer", sensors=SENSORS, brain=sn.SACMLPBrain, **options)


def test_spaces_are_known_before_there_is_a_scene():
    robot = make()
    assert list(robot.suite.space.spaces) == ["imu", "joint_encoder"]
    assert robot.observation_space["imu"]["lin_acc"].shape == (3,)
    assert robot.action_space.shape == (2,)
    with pytest.raises(NotBuiltError, match="in no scene"):
        robot.suite.read()


def test_task_only_observes_the_sensors_of_the_entity():
    robot = make()
    task = sn.tasks.make("balance", entity=robot, n_envs=4, seed=0)
    observation, _ = task.reset()
    assert list(observation) == ["imu", "joint_encoder"]
    assert observation in robot.suite.space
    for world in (None, task, task.scene, task.scene.world, task.as_gymnasium()):
        action = robot.step(world)
        assert action.shape == (4, 2)
        assert (np.abs(action) <= 1).all()
    with pytest.raises(OptionError, match="in another one"):
        robot.step(sn.tasks.make("balance", n_envs=1))
    with pytest.raises(OptionError, match="in no scene yet"):
        make().step(task)
    with pytest.raises(OptionError, match="must be a task, a scene or a world, got True"):
        robot.step(True)
    one = {key: {name: value[1] for name, value in each.items()} for key, each in observation.items()}
    np.testing.assert_allclose(
        robot.decide_batch(observation, deterministic=True)[1], robot.decide(one, deterministic=True), atol=1e-6
    )
    with pytest.raises(OptionError, match=r"'imu.ang_vel' must have shape \(3,\) in each env, got \(4, 3\)"):
        robot.decide(observation)
    with pytest.raises(OptionError, match="the observation lacks 'imu"):
        robot.decide_batch({"im": np.zeros((4, 3))})
    with pytest.raises(OptionError, match="the entity has no sensors"):
        sn.TrainableEntity("balancer", [], brain=sn.SACMLPBrain)
    env = task.as_gymnasium()
    assert env.num_envs == 4


def test_ground_truth_needs_a_privileged_suite():
    from sensorium.suites import PipelineSensor, SensorSuite

    robot = sn.TrainableEntity("balancer", SENSORS, privileged=[sn.FramePose(link="torso")])
    assert "privileged/frame_pose" in robot.suite.space.spaces
    task = sn.tasks.make("balance", entity=robot, n_envs=2)
    observation, _ = task.reset()
    np.testing.assert_allclose(observation["privileged/frame_pose"]["pos"], task.robot.base_pose()[:, :3], atol=1e-6)
    sensor = PipelineSensor(task.robot.rig["frame_pose"], "truth", privileged=True)
    with pytest.raises(OptionError, match="privileged=True"):
        SensorSuite(2, [sensor])


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("gamma", 5),
        ("hidden", (0,)),
        ("hidden", ()),
        ("hidden", 5),
        ("seed", 2**40),
        ("learning_rate", 0),
        ("tau", 2),
        ("batch_size", 0),
        ("seed", -1),
    ],
)
def test_invalid_brain_options_raise(option, value):
    with pytest.raises(OptionError, match=f"SACOptions.{option}"):
        make(brain_options={option: value})


def test_layer_norm_normalises_the_hidden_layers():
    robot = make(brain_options={"hidden": (16,), "layer_norm": True})
    policy = robot.brain._sac.policy
    for network in (policy.actor.latent_pi, policy.critic.q_networks[0]):
        units = network[1](network[0](torch.randn(8, network[0].in_features)))
        linear = network[0]
        big = network[1](100 * linear(torch.randn(8, linear.in_features)))
        for each in (units, big):  # the positive half of values with mean 0 and standard deviation 1
            assert (each >= 0).all()
            assert 0.1 < each.mean() < 0.8


def test_restore_refuses_another_layer_norm(tmp_path):
    make(brain_options={"hidden": (16,), "layer_norm": True}).brain.save(tmp_path)
    with pytest.raises(DatasetError, match="layer_norm"):
        make(brain_options={"hidden": (16,)}).brain.restore(tmp_path)


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


def test_learning_is_deterministic_and_continues_after_load(tmp_path):
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


def test_unreadable_brain_raises_and_changes_nothing(tmp_path):
    robot = make(brain_options={"hidden": (16,)})
    robot.brain.save(tmp_path)
    before = {name: value.clone() for name, value in robot.brain._tensors().items()}
    data, header = (tmp_path / "brain.safetensors").read_bytes(), (tmp_path / "brain.json").read_text()
    other = make(brain_options={"hidden": (8,)}).brain
    with pytest.raises(DatasetError, match=r"other networks .*\[16\].* and .*\[8\]"):
        other.restore(tmp_path)
    for tensors, text in ((data[:100], header), (b"", header), (data, "{"), (data, "[]"), (data, "{}")):
        (tmp_path / "brain.safetensors").write_bytes(tensors)
        (tmp_path / "brain.json").write_text(text)
        with pytest.raises(DatasetError, match=r"brain"):
            robot.brain.restore(tmp_path)
        with pytest.raises(DatasetError, match=r"brain"):
            sn.SACMLPBrain.load(tmp_path, robot.observation_space, robot.action_space)
    assert all(torch.equal(value, before[name]) for name, value in robot.brain._tensors().items())


def test_task_of_an_entity_keeps_no_history_by_default():
    for options, kept in (({}, 0), ({"keep_history": True}, 3)):
        env = sn.tasks.make("balance", entity=make(), n_envs=2, **options).as_gymnasium()
        env.reset()
        for _ in range(3):
            env.step(env.action_space.sample() * 0)
        assert len(env.task.get_history()["actions"]) == kept


def test_flat_spaces_and_flat_observations_have_the_same_names():
    robot = make()
    task = sn.tasks.make("balance", entity=robot, n_envs=2)
    observation, _ = task.reset()
    assert set(flat_observation(observation)) == set(flat_space(robot.observation_space))


def test_balancer_stands_with_a_controller_and_falls_without():
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


def test_brain_learns_from_camera_images():
    sensors = [sn.IMU(link="torso"), sn.Camera(resolution=(48, 40), pos=(0.06, 0.0, 0.2))]
    options = {"hidden": (16,), "batch_size": 4}
    robot = sn.TrainableEntity("balancer", sensors, sn.SACMLPBrain, brain_options=options, memory=40)
    image = robot.observation_space["camera"]["rgb"]
    assert (image.shape, image.dtype) == ((40, 48, 3), np.uint8)
    layers = [type(each).__name__ for each in robot.brain._sac.actor.modules()]
    assert "Conv2d" in layers
    task = sn.tasks.make("balance", entity=robot, n_envs=2, autoreset=True)
    observation, _ = task.reset()
    due = np.ones(2, bool)
    for _ in range(6):
        action = robot.choose(observation, due)
        after, reward, terminated, truncated, info = task.step(action)
        robot.experience(reward, info.get("final_obs", after), terminated, truncated, due)
        observation = after
    assert len(robot.memory) == 12
    assert robot.memory.sample(3).observation["camera.rgb"].dtype == torch.uint8
    before = robot.decide_batch(observation, deterministic=True)
    weight = robot.brain._sac.actor.features_extractor.extractors["camera_rgb"].cnn[0].weight.clone()
    robot.learn(2)
    assert not torch.equal(weight, robot.brain._sac.actor.features_extractor.extractors["camera_rgb"].cnn[0].weight)
    dark = {**observation, "camera": {"rgb": np.zeros_like(observation["camera"]["rgb"])}}
    assert not np.allclose(
        robot.decide_batch(dark, deterministic=True), robot.decide_batch(observation, deterministic=True), atol=1e-6
    )
    assert before.shape == (2, 2)


def test_brain_with_only_a_camera_learns():
    options = {"hidden": (16,), "batch_size": 4}
    eye = sn.TrainableEntity(
        "balancer", [sn.Camera(resolution=(40, 40))], sn.SACMLPBrain, brain_options=options, memory=40
    )
    task = sn.tasks.make("balance", entities={"eye": eye}, n_envs=2, autoreset=True)
    task.rollout(3)
    assert eye.learn(1)["train/critic_loss"] > 0


def test_brain_handles_infinite_and_nan_readings():
    sensors = [sn.Camera(resolution=(8, 8), outputs=("depth",)), sn.IMU(link="torso")]
    options = {"hidden": (16,), "batch_size": 4}
    robot = sn.TrainableEntity("balancer", sensors, sn.SACMLPBrain, brain_options=options, memory=40)
    task = sn.tasks.make("balance", entities={"robot": robot}, n_envs=2, autoreset=True)
    observation, _ = task.reset()
    depth = observation["robot"]["camera"]["depth"]
    assert np.isinf(depth).any()  # the sky
    assert np.isfinite(depth).any()
    task.rollout(4)
    assert np.isfinite(list(robot.learn(2).values())).all()
    lost = {**observation["robot"], "imu": {n: v * np.nan for n, v in observation["robot"]["imu"].items()}}
    robot.brain.observe(lost)
    assert np.isfinite(robot.decide_batch(lost)).all()
    seen = np.random.default_rng(0).normal(3.0, 2.0, (1000, 2, 3)).astype(np.float32)
    brain = sn.SACMLPBrain(robot.observation_space["imu"], robot.action_space, hidden=(16,))
    for each in seen:
        brain.observe({"lin_acc": each, "ang_vel": each, "mag": each})
    np.testing.assert_allclose(
        brain._inputs.normalizers["vector"].mean.reshape(3, 3), np.tile(seen.mean(axis=(0, 1)), (3, 1)), rtol=1e-4
    )


def test_unsupported_images_and_devices_raise():
    with pytest.raises(OptionError, match="at least 36 x 36"):
        sn.TrainableEntity("balancer", [sn.Camera(resolution=(64, 35))], sn.SACMLPBrain)
    if not torch.cuda.is_available():
        with pytest.raises(DeviceError, match="no CUDA device"):
            make(brain_options={"device": "cuda"})


def test_large_camera_image_is_supported():
    robot = sn.TrainableEntity("balancer", [sn.Camera(resolution=(224, 224))], sn.SACMLPBrain)
    action = robot.decide({"camera": {"rgb": np.zeros((224, 224, 3), np.uint8)}})
    assert action.shape == (2,)


@pytest.mark.parametrize(
    "camera",
    [
        {},
        {"quat": (0.5, 0.5, -0.5, -0.5)},
        {"euler": (np.pi / 2, 0.0, -np.pi / 2)},
        {"lookat": (1.0, 0.0, 0.2)},
    ],
    ids=["default", "quat", "euler", "lookat"],
)
def test_entity_cameras_look_forward_or_as_their_options_say(camera):
    """Orientation options are in GL axes, as for a camera on a link; the robot's x axis is forward."""
    robot = sn.TrainableEntity("balancer", [sn.Camera(resolution=(8, 8), pos=(0.1, 0.0, 0.2), **camera)])
    task = sn.tasks.make("balance", entity=robot, tilt=0.0)
    task.reset()
    pose = task.robot.rig["camera"].cam2world_gl[0].numpy()
    body = task.robot.base_pose()[0]
    ahead = np.array([1 - 2 * body[6] ** 2, 2 * body[3] * body[6], 0])
    np.testing.assert_allclose(-pose[:3, 2], ahead, atol=1e-5)
    np.testing.assert_allclose(pose[:3, 1], [0, 0, 1], atol=1e-5)
    np.testing.assert_allclose(pose[:3, 3], body[:3] + 0.1 * ahead + [0, 0, 0.2], atol=1e-5)


@pytest.mark.parametrize("privileged", [False, True])
def test_dataset_marks_ground_truth_as_privileged(tmp_path, privileged):
    from sensorium.datasets.dataset import Episode
    from sensorium.datasets.episode_writer import EpisodeWriter

    truth = [sn.FramePose(link="torso")] if privileged else []
    sensors = [*SENSORS, sn.Camera(resolution=(8, 6))]
    robot = sn.TrainableEntity("balancer", sensors, privileged=truth)
    task = sn.tasks.make("balance", entity=robot, max_steps=3)
    observation, _ = task.reset()
    header = {"seed": 0, "task": "balance", "robot": "balancer", "policy": "none"}
    writer = EpisodeWriter(tmp_path, task, [0], header)
    writer.begin(observation)
    seen = [observation]
    while not task.is_done().all():
        observation, reward, terminated, truncated, info = task.step(np.zeros((1, 2)))
        seen.append(observation)
        running = np.ones(1, bool)
        writer.add(observation, np.zeros((1, 2)), reward, terminated, truncated, info["success"], running)
    writer.close([tmp_path])
    episode = Episode(tmp_path / "episode_000000.h5")
    assert bool(episode.attributes["privileged"]) == privileged
    assert not episode.suite["imu"]["privileged"]
    assert ("privileged/frame_pose" in episode.suite) == privileged
    if privileged:
        assert episode.suite["privileged/frame_pose"]["privileged"]
        kept = episode["obs/extra/privileged/frame_pose/pos"]
        np.testing.assert_array_equal(kept, [each["privileged/frame_pose"]["pos"][0] for each in seen])
    (name,) = episode.cameras
    images = np.stack([each["camera"]["rgb"][0] for each in seen]).astype(float)
    assert np.abs(episode.video(name).astype(float) - images).mean() < 8  # a video is lossy


def test_ground_truth_has_a_prefix_in_every_suite():
    from sensorium.suites import PipelineSensor, SensorSuite

    robot = sn.TrainableEntity("balancer", SENSORS)
    task = sn.tasks.make("balance", entity=robot, n_envs=2)
    suite = SensorSuite(2, [PipelineSensor(task.robot.rig["imu"], privileged=True)], privileged=True)
    assert list(suite.space.spaces) == ["privileged/robot_imu"]
    assert suite.describe()[0]["uuid"] == "privileged/robot_imu"
