"""Presets: simulated parts have the values of their data sheets."""

import math

import numpy as np
import pytest
import torch
from conftest import drop_scene

import sensorium as sn

G = 9.80665


def at_rest(options, n_envs=400, steps=60, dt=0.005):
    """Return the readings of an IMU on a body at rest: acceleration and rate, (steps, B, 3) each."""
    scene = sn.Scene(dt=dt, substeps=1, gravity=(0, 0, 0))
    scene.add_object(sn.Sphere(), name="ball", free=True)
    imu = scene.add_sensor(options)
    scene.build(n_envs=n_envs, seed=3)
    acc, gyro = [], []
    for _ in range(steps):
        scene.step()
        acc.append(imu.read().lin_acc.clone())
        gyro.append(imu.read().ang_vel.clone())
    return torch.stack(acc), torch.stack(gyro)


@pytest.mark.parametrize(
    ("name", "acc_density", "gyro_density", "acc_offset", "gyro_offset"),
    [("consumer_mems", 180e-6, 0.007, 40e-3, 3.0), ("automotive", 60e-6, 0.005, 20e-3, 1.0)],
)
def test_noise_and_offsets_match_the_data_sheet(name, acc_density, gyro_density, acc_offset, gyro_offset):
    acc, gyro = at_rest(sn.presets.imu(name, link="ball", rate=200.0, acc_resolution=0.0, gyro_resolution=0.0))
    options = sn.presets.imu(name, link="ball")
    for signal, density, channel in (
        (acc, acc_density * G, options.acc),
        (gyro, math.radians(gyro_density), options.gyro),
    ):
        band = 100.0  # half the sample rate; the filters of the parts let less through
        if channel.bandwidth is not None and channel.bandwidth < 90:
            k, f = math.tan(math.pi * channel.bandwidth / 200), np.linspace(0, 99.99, 20_000)
            band = 100.0 * (1 / (1 + (np.tan(math.pi * f / 200) / k) ** 4)).mean()
        elif channel.bandwidth is not None:
            band = channel.bandwidth * math.pi / (2 * math.sqrt(2))
        assert signal.std(dim=0).mean() == pytest.approx(density * math.sqrt(band), rel=0.03)
    assert acc.mean(dim=0).std() == pytest.approx(acc_offset * G, rel=0.08)
    assert gyro.mean(dim=0).std() == pytest.approx(math.radians(gyro_offset), rel=0.08)


def test_given_options_override_the_preset():
    options = sn.presets.imu("automotive", link="ball", rate=50.0, delay=0.01)
    assert (options.rate, options.delay, options.link) == (50.0, 0.01, "ball")


def test_encoder_readings_are_multiples_of_one_count():
    scene = drop_scene()
    scene.add_robot(
        '<mujoco><worldbody><body name="arm"><joint name="j"/><geom size="0.1"/></body></worldbody></mujoco>', name="r"
    )
    encoder = scene.add_sensor(sn.presets.encoder("magnetic_14_bit", robot="r"))
    scene.build(n_envs=200)
    scene.step()
    counts = encoder.read().positions.double() * 2**14 / (2 * math.pi)
    torch.testing.assert_close(counts, counts.round(), atol=1e-3, rtol=0)
    assert counts.std() > 1


def test_unknown_parts_are_named():
    with pytest.raises(sn.OptionError, match=r"presets\.imu: there is no preset 'consumer_mem' \(did you mean"):
        sn.presets.imu("consumer_mem", link="ball")


def test_every_preset_lists_what_is_not_modelled():
    for kind in sn.presets.names().values():
        for text in kind.values():
            assert "Not modelled" in " ".join(text.split())


@pytest.mark.parametrize(
    ("name", "shape", "across", "down"), [("16_line", (16, 1800), 0.2, 2.0), ("2d", (1, 1081), 0.25, None)]
)
def test_lidar_rays_match_the_data_sheet(name, shape, across, down):
    scene = sn.Scene(dt=0.025)
    scene.add_object(sn.Plane())
    for i, pos in enumerate([(6, 0, 1), (-6, 0, 1), (0, 6, 1), (0, -6, 1)]):
        size = (0.2, 20, 4) if pos[0] else (20, 0.2, 4)
        scene.add_object(sn.Box(size=size), name=f"wall{i}", pos=pos)
    scene.add_object(sn.Box(size=(0.1, 0.1, 0.1)), name="base", pos=(0, 0, 0.5))
    lidar = scene.add_sensor(sn.presets.lidar(name, link="base"))
    scene.build(n_envs=2)
    scene.step(8)
    points, distances = lidar.read().points[0].double(), lidar.read().distances[0]
    assert tuple(distances.shape) == shape
    azimuth = torch.atan2(points[..., 1], points[..., 0])[shape[0] // 2].rad2deg()
    torch.testing.assert_close(azimuth.diff().abs().median().item(), across, atol=1e-3, rtol=0)
    if down is not None:
        elevation = torch.asin(points[..., 2] / points.norm(dim=-1))[:, 0].rad2deg()
        torch.testing.assert_close(elevation, torch.arange(-15.0, 16.0, 2.0).double(), atol=1e-3, rtol=0)
    error = distances - lidar.read_ground_truth().distances[0]
    true = lidar.read_ground_truth().distances[0]
    expected = 0.03 if name == "16_line" else 0.003 + 0.0009 * true.mean().item()
    assert error.std().item() == pytest.approx(expected, rel=0.1)
