"""Imperfections of sensors that are drawn per env and episode, in tensor tasks."""

import pytest
import torch

import sensorium as sn


def walk(n_envs=64, **options):
    task = sn.tasks.make("walk", n_envs=n_envs, **options)
    task.reset()
    return task


def test_bound_values_act_on_readings():
    scene = sn.Scene(dt=0.01)
    scene.add_object(sn.Plane())
    scene.add_object(sn.Box(size=(0.2, 0.2, 0.2), mass=1.0), name="box", pos=(0, 0, 0.1), free=True)
    imu = scene.add_sensor(sn.IMU(link="box", gyro_bias=0.5))
    scene.build(n_envs=3)
    bias, noise = imu.bind("gyro_bias"), imu.bind("gyro_noise")
    assert bias.shape == noise.shape == (3, 3)
    assert (bias == 0.5).all()
    bias[1] = torch.tensor([1.0, 2.0, 3.0])
    noise[2] = 0.1
    readings = []
    for _ in range(400):
        scene.step()
        readings.append(imu.read().ang_vel - imu.read_ground_truth().ang_vel)
    readings = torch.stack(readings)
    assert torch.allclose(readings[:, 0], torch.tensor(0.5))
    assert torch.allclose(readings[:, 1], torch.tensor([1.0, 2.0, 3.0]))
    assert torch.allclose(readings[:, 2].std(dim=0), torch.tensor(0.1), rtol=0.15)


def test_values_are_drawn_per_env_axis_and_episode_and_act():
    ranges = {"imu.gyro_bias": (-0.5, 0.5), "joints.noise": (0.0, 0.3)}
    task = walk(randomize_sensors=ranges, max_steps=20, observe=("imu", "joints"))
    drawn = task.observation()["privileged/sensor_parameters"]
    assert drawn.shape == (64, 3 + 12)
    assert len(drawn.unique()) == drawn.numel()
    assert drawn[:, :3].min() >= -0.5
    assert drawn[:, :3].max() < 0.5
    assert abs(float(drawn[:, :3].mean())) < 0.1
    assert drawn[:, 3:].min() >= 0
    assert drawn[:, 3:].max() < 0.3
    rig = task.robot.rig
    assert torch.equal(rig["imu"].bind("gyro_bias"), drawn[:, :3])
    errors = []
    for _ in range(19):
        observation, *_ = task.step(torch.zeros(64, 12))
        assert torch.equal(observation["privileged/sensor_parameters"], drawn)
        errors.append(rig["joints"].read().positions - rig["joints"].read_ground_truth().positions)
    spread = torch.stack(errors).std(dim=0)
    related = torch.corrcoef(torch.stack((spread.flatten(), drawn[:, 3:].flatten())))[0, 1]
    assert related > 0.7
    later, *_ = task.step(torch.zeros(64, 12))  # a new episode
    assert not (later["privileged/sensor_parameters"] == drawn).any()


def test_values_do_not_depend_on_the_batch():
    ranges = {"imu.gyro_bias": (-0.5, 0.5)}
    few, many = (walk(n, randomize_sensors=ranges, seed=5) for n in (2, 5))
    assert torch.equal(few.robot.rig["imu"].bind("gyro_bias"), many.robot.rig["imu"].bind("gyro_bias")[:2])


@pytest.mark.parametrize(
    ("ranges", "error", "text"),
    [
        ({"imo.gyro_bias": (0, 1)}, sn.errors.NameNotFoundError, "did you mean 'imu'"),
        ({"imu.gyro_bais": (0, 1)}, sn.OptionError, "did you mean 'gyro_bias'"),
        ({"imu.delay": (0, 1)}, sn.OptionError, "IMU.delay cannot be bound; these can: .*gyro_noise"),
        ({"imu.gyro_bias": (1, 0)}, sn.OptionError, "low <= high"),
    ],
)
def test_mistakes(ranges, error, text):
    with pytest.raises(error, match=text):
        walk(2, randomize_sensors=ranges)
