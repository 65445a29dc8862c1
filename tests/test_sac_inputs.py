"""Inputs of the SAC brain: what the actor and the critics receive, images and depth, and spaces that are refused."""

import json
import warnings

import numpy as np
import pytest
import torch
from gymnasium import spaces

import sensorium as sn
from sensorium.entities.nesting import flat_observation
from sensorium.errors import DatasetError, OptionError
from sensorium.robots import RigSensor, SensorMount, SensorRig
from sensorium.training import evaluate, recipe, train

SMALL = {"hidden": (16, 16), "batch_size": 8}
CAMERA = sn.Camera(resolution=(48, 40), pos=(0.06, 0.0, 0.2), outputs=("rgb", "depth"))
ACTION = spaces.Box(-1, 1, (2,), np.float32)
SENSED = (sn.IMU(link="torso"),)
TRUTH = (sn.FramePose(link="torso"),)


def make(sensors=SENSED, privileged=TRUTH, **options):
    options = {"brain_options": SMALL, "memory": 64, **options}
    return sn.TrainableEntity("balancer", sensors, sn.SACMLPBrain, privileged=privileged, **options)


def shifted(tree):
    if isinstance(tree, dict):
        return {name: shifted(value) for name, value in tree.items()}
    return 255 - tree if tree.dtype == np.uint8 else tree + 1


def perturb(observation):
    return {key: shifted(value) if key.startswith("privileged/") else value for key, value in observation.items()}


def critic_values(brain, observation):
    flat = {name: torch.as_tensor(value) for name, value in flat_observation(observation).items()}
    with torch.no_grad():
        return brain._sac.critic(brain._inputs.of_all(flat), torch.zeros(len(next(iter(flat.values()))), 2))[0].numpy()


@pytest.mark.parametrize("truth", [TRUTH, (*TRUTH, CAMERA)])
def test_the_actor_does_not_depend_on_what_is_privileged(truth):
    robot = make(privileged=truth)
    task = sn.tasks.make("balance", entities={"robot": robot}, n_envs=4, seed=0, autoreset=True)
    observation = task.reset()[0]["robot"]
    task.rollout(4)
    for _ in range(2):
        other = perturb(observation)
        state = robot.brain._rng.get_state()
        for deterministic in (True, False):
            robot.brain._rng.set_state(state)
            action = robot.decide_batch(observation, deterministic)
            robot.brain._rng.set_state(state)
            np.testing.assert_array_equal(robot.decide_batch(other, deterministic), action)
        assert (np.abs(critic_values(robot.brain, other) - critic_values(robot.brain, observation)) > 1e-6).all()
        assert np.isfinite(list(robot.learn(3).values())).all()  # and again after learning
    sensed = {"imu": observation["imu"]}
    np.testing.assert_array_equal(
        robot.decide_batch(sensed, deterministic=True), robot.decide_batch(observation, deterministic=True)
    )
    assert not np.allclose(
        robot.decide_batch(shifted(sensed), deterministic=True), robot.decide_batch(sensed, deterministic=True)
    )
    with pytest.raises(OptionError, match=r"lacks 'imu\.ang_vel'"):
        robot.decide_batch({key: value for key, value in observation.items() if key != "imu"})


def test_keys_of_the_purpose_privileged_and_of_the_option_are_privileged():
    box = spaces.Box(-1, 1, (3,), np.float32)
    space = spaces.Dict(dict.fromkeys(("imu", "object_poses", "privileged/pose", "payload", "pads"), box))
    brain = sn.SACMLPBrain(space, ACTION, **SMALL, privileged=["pay*"])
    assert brain._inputs.actor_names == ["imu", "pads"]
    assert brain._sac.actor.latent_pi[0].in_features == 6
    assert brain._sac.critic.q_networks[0][0].in_features == 15 + 2
    with pytest.raises(OptionError, match="nothing that the actor may observe"):
        sn.SACMLPBrain(spaces.Dict({"privileged/pose": box}), ACTION)


def test_asymmetric_brain_is_saved_and_continues_exactly(tmp_path):
    robot = make()
    task = sn.tasks.make("balance", entities={"robot": robot}, n_envs=4, seed=0, autoreset=True)
    task.rollout(6)
    robot.learn(2)
    robot.brain.save(tmp_path)
    again = sn.SACMLPBrain.load(tmp_path, robot.observation_space, robot.action_space)
    for name, value in robot.brain._tensors().items():
        assert torch.equal(again._tensors()[name], value), name
    observation = task.reset()[0]["robot"]
    np.testing.assert_array_equal(again.decide_batch(observation), robot.decide_batch(observation))
    np.testing.assert_array_equal(critic_values(again, observation), critic_values(robot.brain, observation))


def test_saved_actor_with_other_inputs_is_refused(tmp_path):
    robot = make()
    robot.brain.save(tmp_path)
    header = json.loads((tmp_path / "brain.json").read_bytes())
    assert header["version"] == 4
    old = {name: value for name, value in header.items() if name not in ("actor", "float_images")} | {"version": 2}
    (tmp_path / "brain.json").write_text(json.dumps(old))
    with pytest.raises(
        DatasetError, match=r"observes .*privileged/frame_pose.*do not receive privileged.*train it again"
    ):
        robot.brain.restore(tmp_path)
    seeing = make([sn.IMU(link="torso"), CAMERA], ())
    seeing.brain.save(tmp_path)
    header = json.loads((tmp_path / "brain.json").read_bytes())
    (tmp_path / "brain.json").write_text(json.dumps({**header, "float_images": []}))
    with pytest.raises(DatasetError, match=r"CNN for the float images \[\], and this one for \['camera.depth'\]"):
        seeing.brain.restore(tmp_path)
    make(privileged=()).brain.save(tmp_path)  # without anything privileged, older programs can read it
    header = json.loads((tmp_path / "brain.json").read_bytes())
    assert header["version"] == 2
    assert "privileged" not in header["options"]


class KilledError(Exception):
    pass


@pytest.mark.slow
def test_training_with_a_privileged_sensor_resumes_bit_identically(tmp_path):
    truth = RigSensor(name="truth", type="FramePose", mount=SensorMount(link="torso"))
    options = recipe(
        "balance",
        task_options={"max_steps": 30, "threads": 1},
        brain_options={"hidden": [16], "batch_size": 16},
        n_envs=4,
        steps=240,
        warmup=80,
        gradient_steps=1,
        evaluate_every=120,
        checkpoint_every=120,
        episodes=2,
    )
    entity = options.entity.model_copy(update={"privileged": SensorRig(sensors=(truth,))})
    options = options.model_copy(update={"entity": entity})

    def kill(progress):
        if progress.steps > 160:
            raise KilledError

    train(options, tmp_path / "whole", tensorboard=False)
    with pytest.raises(KilledError):
        train(options, tmp_path / "killed", tensorboard=False, progress=kill)
    train(options, tmp_path / "killed", tensorboard=False, resume=True)
    one, other = ((tmp_path / name / "last" / "brain.safetensors").read_bytes() for name in ("whole", "killed"))
    assert one == other
    without = entity.model_copy(update={"privileged": SensorRig(sensors=())})  # as on a robot
    assert evaluate(tmp_path / "whole", 2, entity=without) == evaluate(tmp_path / "whole", 2)


def test_exact_pose_of_a_landmark_warns_once():
    def arm(uuid, **options):
        where = "privileged" if options.pop("privileged", False) else "sensors"
        sensors = {"sensors": [sn.JointEncoder()]}
        frames = {"link": "target", "relative_to": "link0", **options}
        tracker = sn.FramePose(uuid=uuid, **frames)
        sensors[where] = [*sensors.get(where, ()), tracker]
        return sn.TrainableEntity("franka", landmarks=["target"], **sensors)

    with pytest.warns(UserWarning, match=r"'exact'.*landmark 'target'.*privileged=\[") as caught:
        arm("exact")
    assert len(caught) == 1
    assert caught[0].filename == __file__
    with pytest.warns(UserWarning, match=r"'inverse'.*landmark 'target'") as caught:
        arm("inverse", link="hand", relative_to="target")
    assert len(caught) == 1
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        arm("exact")
        arm("noisy", pos_noise=0.002)
        arm("late", delay=0.04)
        arm("truth", privileged=True)
        arm("noisy_inverse", link="hand", relative_to="target", pos_noise=0.002)
        arm("own", link="hand")
        recipe("reach").entity.make()


def test_batched_and_image_spaces_are_refused():
    robot = make([sn.IMU(link="torso"), CAMERA], ())
    task = sn.tasks.make("balance", entity=robot, n_envs=4)
    with pytest.raises(OptionError, match=r"the space of 4 envs; pass entity\.observation_space"):
        sn.SACMLPBrain(robot.suite.space, robot.action_space)
    with pytest.raises(OptionError, match=r"action_space must be the space of one env"):
        sn.SACMLPBrain(robot.observation_space, task.action_space)
    image = spaces.Box(0, 255, (64, 64, 3), np.uint8)
    with pytest.raises(OptionError, match=r"spaces\.Dict\(\{'camera': space\}\)"):
        sn.SACMLPBrain(image, ACTION)
    for name, box in (
        ("rgb", spaces.Box(0, 255, (4, 64, 64, 3), np.uint8)),
        ("depth", spaces.Box(0, np.inf, (4, 64, 64), np.float32)),
    ):
        with pytest.raises(OptionError, match=rf"camera\.{name} has the shape .* the space of one env"):
            sn.SACMLPBrain(spaces.Dict({"camera": spaces.Dict({name: box})}), ACTION)
    ids = spaces.Box(0, 9, (64, 64, 2), np.int32)
    with pytest.raises(OptionError, match="image of int32"):
        sn.SACMLPBrain(spaces.Dict({"segmentation": ids}), ACTION)


def test_depth_images_go_through_a_cnn():
    robot = make([sn.Camera(resolution=(48, 40), pos=(0.06, 0.0, 0.2), outputs=("depth",))], ())
    layer = robot.brain._sac.actor.features_extractor.extractors["camera_depth"].cnn[0]
    assert (type(layer).__name__, layer.in_channels) == ("Conv2d", 1)
    task = sn.tasks.make("balance", entities={"robot": robot}, n_envs=2, seed=0, autoreset=True)
    depth = task.reset()[0]["robot"]["camera"]["depth"]
    assert np.isinf(depth).any()  # the sky
    task.rollout(6)
    before = layer.weight.clone()
    assert np.isfinite(list(robot.learn(2).values())).all()
    assert not torch.equal(before, layer.weight)
    actions = [
        robot.decide_batch({"camera": {"depth": value}}, deterministic=True)
        for value in (depth, np.full_like(depth, 0.3), np.full_like(depth, np.nan))
    ]
    assert np.isfinite(actions).all()
    assert not np.allclose(actions[0], actions[1], atol=1e-7)
    scaled = robot.brain._inputs.of_actor({"camera.depth": torch.tensor([[[0.0, 1.0, 3.0, np.inf, np.nan]]])})
    torch.testing.assert_close(scaled["camera_depth"], torch.tensor([[[[0.0, 0.5, 0.75, 1.0, 0.0]]]]))
