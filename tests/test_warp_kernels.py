"""The Warp kernels, on Warp's CPU device, are bit-identical to the Numba kernels for the same raw signal."""

from copy import copy
from dataclasses import replace

import numpy as np
import pytest
import torch
from conftest import drop_scene
from probe import HookedDoubleProbe, HookedProbe, Probe, ProbeSensor
from thermometer import Thermometer

import sensorium as sn
from sensorium.pipeline.layout import Ticks
from sensorium.pipeline.protocols import ResetEnvs

wp = pytest.importorskip("warp")


class Doubled(Probe):
    """A probe with a post-process that returns floats."""


class DoubledSensor(ProbeSensor, options=Doubled):
    @classmethod
    def _post_process(cls, group, data, out, is_measured):
        torch.mul(data, 2.0, out=out)


def same_bits(got, expected, err_msg=""):
    """Assert that two arrays hold the same numbers, and zeros of the same sign."""
    np.testing.assert_array_equal(got, expected, err_msg=err_msg)
    np.testing.assert_array_equal(np.signbit(got[got == 0]), np.signbit(expected[expected == 0]), err_msg=err_msg)


def reset_envs(mask):
    return ResetEnvs(mask, None)


class Duet:
    """One scene that is sensed twice: by Numba as usual, and by the Warp kernels in copies of all storage."""

    def __init__(self, scene, n_envs, seed):
        from sensorium.pipeline.gpu import GpuKernels

        scene.build(n_envs=n_envs, seed=seed)
        self.scene, self.numba, self.expected = scene, scene._sensing, scene._sensing._pipelines[-1].layout
        self.data = torch.zeros(scene.model.nsensordata, n_envs)
        self.steps = torch.zeros(n_envs, dtype=torch.int32)
        self.layout = self._copy_of(self.expected)
        self.blocks, self.timing = list(self.layout.blocks.values()), self.layout.timing
        self.warp = GpuKernels(self.data, self.steps, self.layout, Ticks(scene.dt, 1))
        self._observe(range(n_envs))

    @staticmethod
    def _copy_of(layout):
        def clone(store):
            new = copy(store)
            for name, tensor in vars(store).items():
                setattr(new, name, tensor.clone())
            return new

        blocks = {
            dtype: replace(block, store=clone(block.store), delivery=clone(block.delivery))
            for dtype, block in layout.blocks.items()
        }
        posts = {
            dtype: replace(
                post, delivery=clone(post.delivery), snapshot=post.snapshot.clone(), truth=post.truth.clone()
            )
            for dtype, post in layout.posts.items()
        }
        return replace(layout, blocks=blocks, posts=posts, timing=clone(layout.timing))

    def _observe(self, envs):
        """Copy the raw signal of the Numba run to the Warp run. Ground truth is float32, so this is exact."""
        envs = list(envs)
        self.data[:, envs] = self.scene.world.bind("sensordata")[envs].T.float()
        self.steps.copy_((self.scene.time / self.scene.dt).round().int())

    def step(self):
        self.scene.step()
        self._observe(range(self.scene.n_envs))
        self.warp.time()
        self.warp.step()
        self.check()

    def reset(self, envs):
        self.scene.reset(envs=envs)
        self._observe(envs)
        mask = torch.zeros(self.scene.n_envs, dtype=torch.bool)
        mask[envs] = True
        self.timing.episode.copy_(self.expected.timing.episode)
        self.warp.reset_timing(reset_envs(mask))
        for block in self.blocks:
            self.warp.reset_fused(block, reset_envs(mask))
        self.check()

    def check(self):
        for mine, block in zip(self.blocks, self.expected.blocks.values(), strict=True):
            fused = slice(0, block.fused)
            same_bits(mine.store.extra.numpy(), block.store.extra.numpy())
            for name in ("truth", "reading", "walk"):
                expected, got = getattr(block.store, name)[fused], getattr(mine.store, name)[fused]
                same_bits(got.numpy(), expected.numpy(), err_msg=name)
            rows = slice(0, block.fused_rows)
            same_bits(mine.delivery.cache[rows].numpy(), block.delivery.cache[rows].numpy())
            for name in ("ring", "history", "truth_history"):
                expected, got = getattr(block.delivery, name), getattr(mine.delivery, name)
                same_bits(got.numpy(), expected.numpy(), err_msg=name)
        for name in ("due", "lag", "part", "stuck", "arrives", "offset", "tick", "draw", "sample_draw"):
            expected, got = getattr(self.expected.timing, name), getattr(self.timing, name)
            same_bits(got.numpy(), expected.numpy(), err_msg=name)


def busy_scene():
    scene = drop_scene()
    matrix = ((1.0, 0.02, 0.0), (-0.01, 0.98, 0.03), (0.0, 0.01, 1.01))
    add = scene.add_sensor
    add(
        sn.IMU(
            link="box",
            uuid="imu",
            acc_noise=0.3,
            acc_bias=(0.1, 0.2, 0.3),
            acc_random_walk=0.5,
            acc_misalignment=matrix,
            gyro_noise=0.1,
            gyro_resolution=0.02,
            mag_saturation=(-3e-5, 1e-5),
            delay=0.013,
            jitter=0.013,
            rate=77.0,
            dropout=0.1,
            history_length=3,
        )
    )
    add(sn.IMU(link="box", uuid="late", acc_noise=0.1, delay=0.035, jitter=0.01, interpolate=True))
    add(sn.IMU(link="box", uuid="held", acc_noise=0.1, delay=0.025, interpolate=True, rate=40.0, dropout=0.3))
    add(sn.IMU(link="box", uuid="very_late", acc_noise=0.1, delay=0.06, jitter=0.04, dropout=0.2))
    add(sn.IMU(link="box", uuid="plain"))
    lean = {f"{part}_{name}": 0.1 for part in ("acc", "gyro", "mag") for name in ("noise", "bias", "random_walk")}
    add(sn.IMU(link="box", uuid="lean", **lean, delay=0.02, jitter=0.015))
    add(sn.IMU(link="box", uuid="limited", **lean, acc_resolution=0.1, gyro_deadband=0.2, mag_saturation=(-0.1, 0.1)))
    add(
        sn.IMU(
            link="box",
            uuid="worse",
            acc_bandwidth=20.0,
            acc_scale_error=0.01,
            acc_bias_spread=0.2,
            acc_outliers=0.2,
            acc_outlier_size=3.0,
            acc_misalignment=matrix,
            gyro_drift=0.1,
            gyro_drift_time=0.5,
            gyro_bandwidth=9.0,
            gyro_noise_density=0.01,
            gyro_temperature_drift=0.003,
            temperature=40.0,
            stuck=2.0,
            delay=0.02,
        )
    )
    add(sn.FramePose(link="box", uuid="pose", pos_noise=0.1))
    return scene


@pytest.mark.parametrize("n_envs", [1, 33, 64])
def test_fused_step_is_bit_identical_to_numba(n_envs):
    duet = Duet(busy_scene(), n_envs, seed=11)
    for step in range(25):
        duet.step()
        if step == 9:
            duet.reset([n_envs - 1])


@pytest.mark.parametrize("reset", [False, True])
def test_zeros_and_values_that_are_not_finite_match_numba(reset):
    """No zero is negative, not even after mixing axes. Infinity stays infinity."""
    scene = drop_scene()
    mirror = ((1.0, 0.0, 0.0), (0.0, -1.0, 0.0), (0.0, 0.0, 1.0))
    scene.add_sensor(sn.IMU(link="box", uuid="a", acc_misalignment=mirror, gyro_bias_spread=0.1, mag_bandwidth=9.0))
    duet = Duet(scene, 4, seed=0)
    raw = torch.tensor([-2.0, 0.0, -3.0, np.inf, -np.inf, np.nan, 0.0, -0.0, 1.0])
    scene.world.bind("sensordata").copy_(raw)
    duet._observe(range(4))
    if reset:
        duet.numba.reset(None)
        for block in duet.blocks:
            duet.warp.reset_fused(block, reset_envs(torch.ones(4, dtype=torch.bool)))
    else:
        duet.numba.step()
        duet.warp.time()
        duet.warp.step()
    duet.check()
    reading = duet.blocks[0].store.reading[:, 0]
    assert reading[1] == 0
    assert not torch.signbit(reading[1])
    assert reading[3] == np.inf


@pytest.mark.parametrize("delay", [-0.05, float("nan"), float("inf"), 1e300])
def test_delays_that_were_not_validated_stay_within_the_ring(delay):
    """Values in device tensors are not validated."""
    scene = drop_scene()
    for uuid, linear in (("a", True), ("b", False)):
        scene.add_sensor(sn.IMU(link="box", uuid=uuid, delay=0.02, max_delay=0.03, interpolate=linear))
    for n_envs in (4, 5):
        duet = Duet(scene, n_envs, seed=0)
        for _ in range(6):
            scene.step()
        duet._observe(range(n_envs))
        duet.timing.parameter("delay")[:] = delay
        duet.warp.time()
        duet.warp.step()
        assert (duet.timing.lag >= 0).all()
        assert ((duet.timing.part >= 0) & (duet.timing.part <= 1)).all()
        assert duet.blocks[0].delivery.cache.isfinite().all()
        if delay < 0:
            assert (duet.timing.lag == 0).all()
            np.testing.assert_array_equal(duet.blocks[0].delivery.cache, duet.blocks[0].store.reading)
        scene = drop_scene()
        for uuid, linear in (("a", True), ("b", False)):
            scene.add_sensor(sn.IMU(link="box", uuid=uuid, delay=0.02, max_delay=0.03, interpolate=linear))


def test_rotated_and_summed_signals_match_within_rounding():
    """The GPU computes them in float32, the CPU in float64."""
    scene = drop_scene(height=0.1)
    scene.add_object(sn.Box(size=(0.1, 0.1, 0.1), mass=0.5), name="top", pos=(0, 0, 0.25), free=True)
    scene.add_sensor(sn.ContactForce(link="box", uuid="a", euler=(0.4, 0.5, 0.6), touching=("plane", "top")))
    scene.add_sensor(sn.ContactForce(link="box", uuid="b", euler=(0.4, 0.5, 0.6)))
    scene.add_sensor(sn.Contact(link="box", uuid="c", touching=("plane", "top")))
    duet = Duet(scene, 3, seed=0)
    scene.step(40)
    duet._observe(range(3))
    duet.warp.time()
    duet.warp.step()
    for mine, block in zip(duet.blocks, duet.expected.blocks.values(), strict=True):
        torch.testing.assert_close(mine.store.truth, block.store.truth, atol=1e-4, rtol=1e-5)
        assert block.store.truth.abs().max() > 5


@pytest.mark.parametrize("options", [HookedProbe, HookedDoubleProbe])
def test_hardware_stage_of_classes_with_hooks(options):
    scene = drop_scene()
    made = options(uuid="p", noise=0.3, random_walk=(0.1, 0.2, 0.3), bias=0.5, resolution=0.01, deadband=0.05)
    probe = scene.add_sensor(made)
    duet = Duet(scene, 5, seed=3)
    block, group = duet.blocks[0], probe.group
    for _ in range(4):
        scene.step()
        before, out = group.truth.clone(), torch.zeros_like(group.truth)
        duet.warp.time()
        duet.warp.step()
        duet.warp.hardware(block, group, before, out)
        np.testing.assert_array_equal(out.numpy(), group.reading.numpy())
    mask = torch.tensor([False, True, False, False, True])
    scene.reset(envs=[1, 4])
    duet.timing.episode.copy_(duet.expected.timing.episode)
    duet.warp.reset_timing(reset_envs(mask))
    duet.warp.reset_hardware(block, group, group.truth.clone(), out, reset_envs(mask))
    np.testing.assert_array_equal(out[:, mask].numpy(), group.reading[:, mask].numpy())
    assert (block.store.walk[:, mask] == 0).all()


@pytest.mark.parametrize(
    "sensor",
    [
        sn.Contact(link="box", uuid="s", noise=3.0, delay=0.025, jitter=0.02, history_length=3),
        sn.FramePose(link="box", uuid="s", pos_noise=1.0, delay=0.025, jitter=0.02, history_length=2),
        Doubled(uuid="s", noise=1.0, delay=0.025, jitter=0.02, interpolate=True, history_length=2),
        Thermometer(link="box", uuid="s", delay=0.03, jitter=0.03),
    ],
)
def test_delivery_of_classes_with_post_process_or_hooks(sensor):
    scene = drop_scene()
    made = scene.add_sensor(sensor)
    duet = Duet(scene, 4, seed=1)
    group = made.group
    store, expected_store = (layout.snapshots(group).delivery for layout in (duet.layout, duet.expected))
    mask = torch.tensor([False, False, True, False])
    for step in range(12):
        scene.step()
        duet.warp.time()
        duet.warp.step()
        snapshots = duet.expected.snapshots(group)._replace(delivery=store)
        duet.warp.deliver(snapshots, group.delivery_rows)
        if step == 6:
            scene.reset(envs=[2])
            duet.timing.episode.copy_(duet.expected.timing.episode)
            duet.warp.reset_timing(reset_envs(mask))
            duet.warp.reset_delivery(snapshots, group.delivery_rows, reset_envs(mask))
        for name in ("ring", "cache", "history", "truth_history"):
            expected, got = getattr(expected_store, name), getattr(store, name)
            np.testing.assert_array_equal(got.numpy(), expected.numpy(), err_msg=name)
