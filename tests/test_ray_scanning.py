"""Imperfections, scanning and casting of rays, and the sensor contract."""

import math
from typing import ClassVar

import numpy as np
import pytest
import torch
from conftest import drop_scene
from ray_scenes import ALL, room, scanning_scene

import sensorium as sn
from sensorium.errors import OptionError
from sensorium.sensors.rays.depth_camera import DepthCamera
from sensorium.sensors.rays.moving_patterns import RosettePattern
from sensorium.sensors.rays.patterns import ArrayPattern, GridPattern, RingPattern, SphericalPattern
from sensorium.sensors.rays.raycaster import Lidar, Raycaster
from sensorium.testing import SensorContract, flat, same

# -- divergence, noise and lost returns --------------------------------------------------------------------------------


@pytest.mark.slow
def test_diverging_beam_reads_the_nearest_surface_in_its_cone():
    scene = sn.Scene(dt=0.01, gravity=(0, 0, 0))
    scene.add_object(sn.Box(size=(0.2, 10, 10), collide=False), pos=(4.1, 0, 0))
    scene.add_object(sn.Box(size=(0.2, 1, 1), collide=False), pos=(2.1, 0.54, 0))  # its edge is at y = 0.04
    scene.add_object(sn.Sphere(radius=0.1), name="base", free=True)
    half = math.atan2(0.05, 2.0)
    beam = {"link": "base", "pattern": ArrayPattern(directions=(1, 0, 0))}
    sharp = scene.add_sensor(Raycaster(**beam))
    wide = scene.add_sensor(Raycaster(divergence=2 * half, **beam))
    narrow = scene.add_sensor(Raycaster(divergence=half, **beam))
    scene.build()
    assert sharp.read().distances.item() == pytest.approx(4.0)
    assert narrow.read().distances.item() == pytest.approx(4.0)
    assert wide.read().distances.item() == pytest.approx(2.0 / math.cos(half), abs=1e-5)


def test_noise_grows_with_range():
    """The standard deviation is noise + noise_per_metre * distance, from one random number."""
    scene = room(walls=False)
    for i in range(1, 5):
        scene.add_object(sn.Box(size=(0.2, 0.2, 0.2), collide=False), pos=(5.0 * i + 0.1, i, 0))
    pattern = ArrayPattern(origins=[(0, i, 0) for i in range(1, 5)], directions=(1, 0, 0))
    options = {"link": "base", "pattern": pattern, "uuid": "lidar"}
    lidar = scene.add_sensor(Raycaster(noise=0.02, noise_per_metre=0.01, **options))
    scene.build(n_envs=500, seed=3)
    samples = []
    for _ in range(40):
        scene.step()
        samples.append((lidar.read().distances - lidar.read_ground_truth().distances).clone())
    errors = torch.stack(samples).flatten(0, 1)
    distances = np.array([5.0, 10.0, 15.0, 20.0])
    np.testing.assert_allclose(lidar.read_ground_truth().distances[0], distances, atol=1e-5)
    deviation = errors.std(dim=0).numpy()
    np.testing.assert_allclose(deviation, 0.02 + 0.01 * distances, rtol=5 / math.sqrt(2 * len(errors)))
    np.testing.assert_allclose(errors.mean(dim=0), 0, atol=5 * 0.22 / math.sqrt(len(errors)))
    correlation = np.corrcoef(errors.numpy(), rowvar=False) - np.eye(4)
    assert np.abs(correlation).max() < 5 / math.sqrt(len(errors))  # rays are independent


def test_ray_dropout_loses_single_returns():
    scene = room()
    lidar = scene.add_sensor(
        Lidar(link="base", pattern=RingPattern(n_points=100), max_range=50.0, ray_dropout=0.2, returns=ALL)
    )
    scene.build(n_envs=50, seed=1)
    lost = []
    for _ in range(10):
        scene.step()
        reading = lidar.read()
        gone = reading.distances == 50.0
        assert same(gone, reading.body_ids == -1)
        assert same(gone, reading.intensity == 0)
        assert same(reading.distances[~gone], lidar.read_ground_truth().distances[~gone])
        lost.append(gone.clone())
    lost = torch.stack(lost).double()  # (steps, envs, rays)
    spread = math.sqrt(0.2 * 0.8)
    assert lost.mean().item() == pytest.approx(0.2, abs=5 * spread / math.sqrt(lost.numel()))
    for axes, count in (((0, 1), 500), ((1, 2), 5000), ((0, 2), 1000)):  # the same for all rays, steps and envs
        np.testing.assert_allclose(lost.mean(dim=axes), 0.2, atol=5.5 * spread / math.sqrt(count))
    lidar.set(ray_dropout=1.0, envs=[7])
    scene.step()
    assert (lidar.read().distances[7] == 50.0).all()
    with pytest.raises(OptionError, match="ray_dropout"):
        lidar.set(ray_dropout=1.5)


# -- scanning ----------------------------------------------------------------------------------------------------------


def test_scanned_columns_show_the_wall_at_their_own_time():
    scene, lidar, directions = scanning_scene()
    speed = torch.tensor([2.0, -1.0]).double()
    scene.world.bind("qvel")[:, 0] = speed
    for step in range(1, 36):
        scene.step()
        # column c was cast in the newest step k with 0.01 * k at or after a time (m + c / 20) * 0.1
        fired = [
            max([0, *(math.ceil(2 * (j * 20 + c) / 4) for j in range(5) if 2 * step >= j * 20 + c > 0)])
            for c in range(20)
        ]
        where = 3.0 + speed[:, None] * 0.01 * torch.tensor(fired)
        expected = where[:, None, :].numpy() / directions[None, ..., 0]
        np.testing.assert_allclose(lidar.read().distances, expected, atol=1e-5)


def test_points_in_the_world_frame_are_those_at_capture():
    """The points stay on the wall while the sensor rotates and moves."""
    scene, lidar, _ = scanning_scene(frame="world", returns=("distances", "points", "normals"))
    velocity = scene.world.bind("qvel")
    velocity[:, 11] = 3.0  # about z
    velocity[:, 7] = 0.5  # along y
    for _ in range(17):
        scene.step()
        np.testing.assert_allclose(lidar.read().points[..., 0], 3.0, atol=1e-4)
        np.testing.assert_allclose(lidar.read().normals, np.broadcast_to([-1.0, 0, 0], (2, 3, 20, 3)), atol=1e-6)
    # the newest column has the current rotation of the sensor
    newest = 34 % 20
    base = scene.world.bind("xpos")[0, 2].numpy()
    turn = math.radians(-30 + 60 / 19 * newest) + 0.17 * 3.0
    expected = base[1] + (3.0 - base[0]) * math.tan(turn)
    np.testing.assert_allclose(lidar.read().points[0, 1, newest, 1], expected, atol=1e-3)


def test_columns_hold_their_noise_and_lost_returns_until_the_next_scan():
    scene, lidar, _ = scanning_scene(noise=0.1, ray_dropout=0.2)
    before = lidar.read().distances.clone()
    for step in range(1, 31):
        scene.step()
        now = lidar.read().distances.clone()
        changed = (now != before).any(dim=1)
        fired = [(2 * step - 1) % 20, 2 * step % 20]
        assert changed[:, fired].all()
        changed[:, fired] = False
        assert not changed.any()
        before = now


def test_reset_scans_the_whole_revolution_of_those_envs():
    scene, lidar, directions = scanning_scene(n_envs=3, noise=0.01)
    twin, undisturbed, _ = scanning_scene(n_envs=3, noise=0.01)
    for each in (scene, twin):
        each.world.bind("qvel")[:, 0] = -1.0
        each.step(count=7)
    scene.reset(envs=[1])
    exact = np.broadcast_to(3.0 / directions[..., 0], (3, 20))
    np.testing.assert_allclose(lidar.read_ground_truth().distances[1], exact, atol=1e-5)
    scene.step(count=3)  # the reset env is at 0.03 s of its own time: columns 1 to 6 are new, of a wall at rest
    twin.step(count=3)
    np.testing.assert_allclose(lidar.read_ground_truth().distances[1], exact, atol=1e-5)
    assert same(flat(lidar.read())[[0, 2]], flat(undisturbed.read())[[0, 2]])
    assert not same(flat(lidar.read())[1], flat(undisturbed.read())[1])


def test_fast_scanner_casts_every_column_in_every_step():
    scene = room()
    fast = scene.add_sensor(Lidar(link="base", scan_rate=250.0, pattern=RingPattern(n_points=36)))
    plain = scene.add_sensor(Lidar(link="base", pattern=RingPattern(n_points=36)))
    scene.build()
    scene.world.bind("qvel")[:, 0] = 1.0
    for _ in range(5):
        scene.step()
        assert same(fast.read().distances, plain.read().distances)


# -- casting -----------------------------------------------------------------------------------------------------------


def test_casting_in_chunks_and_threads_gives_the_same_readings(monkeypatch):
    from sensorium.sensors.rays import cpu_rays

    def run():
        scene = room()
        lidar = scene.add_sensor(Lidar(link="base", pattern=RingPattern(n_points=50), exclude="wallx+", noise=0.1))
        scene.build(n_envs=37)
        scene.world.bind("qvel")[:, 0] = torch.linspace(-1, 1, 37).double()
        scene.step(count=4)
        scene.reset(envs=[3, 30, 36])
        scene.step()
        return flat(lidar.read())

    whole = run()
    monkeypatch.setattr(cpu_rays, "_CHUNK", 100)
    monkeypatch.setattr(cpu_rays, "_MIN_ENVS", 5)
    assert same(run(), whole)
    monkeypatch.undo()
    monkeypatch.setattr(cpu_rays, "_MIN_RAYS", 1)  # several threads
    assert same(run(), whole)


def test_failed_env_does_not_affect_others():
    def run(fails):
        scene = room()
        lidar = scene.add_sensor(Lidar(link="base", pattern=RingPattern(n_points=8), noise=0.1))
        scene.build(n_envs=3)
        scene.world.bind("qvel")[:, 0] = 1.0
        if fails:
            scene.world.bind("qvel")[1] = math.nan
            with pytest.raises(sn.DivergenceError):
                scene.step()
        else:
            scene.step()
        scene.step()
        return scene, lidar

    (scene, lidar), (_, healthy) = run(True), run(False)
    assert same(flat(lidar.read())[[0, 2]], flat(healthy.read())[[0, 2]])
    scene.reset(envs=[1])
    np.testing.assert_allclose(lidar.read_ground_truth().distances[1, ::2], [3, 2, 3, 2], atol=1e-5)


# -- contract ----------------------------------------------------------------------------------------------------------


class FallingContract:
    """Scene of the sensor contract: a falling box and a door."""

    def make_scene(self):
        scene = drop_scene()
        scene.add_object(sn.Box(size=(0.1, 0.4, 0.4), mass=1.0), name="door", pos=(0.4, 0, 0.3), free=True)
        return scene


class TestRaycaster(FallingContract, SensorContract):
    imperfections: ClassVar = {"noise": 0.05, "noise_per_metre": 0.02, "random_walk": 0.1, "ray_dropout": 0.1}

    def make_options(self, **options):
        pattern = GridPattern(size=(0.6, 0.4), resolution=0.2)
        return Raycaster(
            link="box", pos=(0, 0, 1.0), alignment="yaw", pattern=pattern, frame="world", returns=ALL, **options
        )


class TestLidar(FallingContract, SensorContract):
    imperfections: ClassVar = {"noise": 0.05, "bias": 0.02, "resolution": 0.01, "ray_dropout": 0.3}

    def make_options(self, **options):
        pattern = SphericalPattern(n_points=(12, 3))
        return Lidar(link="box", max_range=5.0, divergence=0.01, pattern=pattern, returns=ALL, **options)


class TestScanningLidar(FallingContract, SensorContract):
    imperfections: ClassVar = {"noise": 0.05, "noise_per_metre": 0.02, "ray_dropout": 0.3}

    def make_options(self, **options):
        pattern = SphericalPattern(n_points=(12, 3))
        return Lidar(
            link="box", max_range=5.0, scan_rate=15.0, pattern=pattern, exclude_self=True, frame="world", **options
        )

    def test_set_changes_only_the_given_envs(self):
        """Columns scanned before the change keep their noise, so compare after one revolution."""
        scene, sensor = self.start()
        sensor.set(envs=[1], **self.imperfections)
        changed = self.run(scene, sensor)
        clean, imperfect = self.run(*self.start()), self.run(*self.start(**self.imperfections))
        for step in range(8, self.steps):
            assert same(changed[step][[0, 2]], clean[step][[0, 2]])
            assert same(changed[step][1], imperfect[step][1])


class TestEchoLidar(FallingContract, SensorContract):
    imperfections: ClassVar = {"noise": 0.05, "bias": 0.02, "ray_dropout": 0.3}

    def make_options(self, **options):
        pattern = SphericalPattern(fov=(360, (-60, 30)), n_points=(8, 3))
        beam = {"divergence": 0.2, "rays_per_beam": 6, "echoes": ("strongest", "last"), "echo_separation": 0.05}
        power = {"extinction": 0.3, "threshold": 0.01, "near_range": 0.2}
        return Lidar(link="box", max_range=5.0, pattern=pattern, returns=(*ALL, "times"), **beam, **power, **options)


class TestRosetteLidar(FallingContract, SensorContract):
    imperfections: ClassVar = {"noise": 0.05, "noise_per_metre": 0.02}

    def make_options(self, **options):
        pattern = RosettePattern(n_points=30, fov=120.0, point_rate=3000.0, repeat_after=4)
        return Lidar(link="box", max_range=5.0, pattern=pattern, euler=(0, 1.0, 0), frame="world", **options)


class TestDepthCamera(FallingContract, SensorContract):
    imperfections: ClassVar = {"noise": 0.05, "noise_per_metre": 0.02, "resolution": 0.01}

    def make_options(self, **options):
        return DepthCamera(link="box", width=6, height=4, exclude=("plane",), max_range=3.0, **options)
