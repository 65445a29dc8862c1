"""The same bits on every machine: golden hashes of the random numbers and of the whole imperfection chain.

The hashes were computed on x86-64 and hold on an H200. They must hold on every other machine as well. If a change of
the formula is intended, take the new hash from the failure message. A hash that differs between machines is a bug.
"""

import hashlib

import numpy as np
import pytest
import reference
import torch
from probe import DoublePrecision

import sensorium as sn
from sensorium.pipeline import formula
from sensorium.pipeline.kernels.random import normal_row, threefry

WORDS = "1b7508cca9993eb58773c264e76dc157"
NORMALS = "d1556a0c505f33de5664d964fb7ba69e"
CHAIN = {"float32": "9f071f4a28ca8ffb935483cb28a04cf0", "float64": "66701256a14ea745e559e296f304318b"}
STEPS, ENVS = 200, 7


def digest(*arrays):
    state = hashlib.blake2b(digest_size=16)
    for array in arrays:
        state.update(np.ascontiguousarray(array).astype(array.dtype.newbyteorder("<")).tobytes())
    return state.hexdigest()


def test_random_words_match_the_golden_hash():
    k0, k1 = (np.uint32(word) for word in formula.key(3, "imu", 4))
    words = [threefry(k0, k1, np.uint32(env), np.uint32(step)) for env in range(64) for step in range(64)]
    assert digest(np.array(words, np.uint32)) == WORDS
    env, step = (grid.ravel().astype(np.uint32) for grid in np.meshgrid(range(64), range(64), indexing="ij"))
    assert digest(np.stack(reference.threefry(reference.key(3, "imu", 4), env, step), 1)) == WORDS


def test_normals_match_the_golden_hash():
    k0, k1 = (np.uint32(word) for word in formula.key(3, "imu", 4))
    n0, n1 = np.zeros((2, 100_000), np.float32)
    env = np.arange(100_000, dtype=np.uint32)
    normal_row(k0, k1, np.stack([env, np.full_like(env, 17)]), n0, n1, np.uint32(0))
    assert digest(n0, n1) == NORMALS
    words = reference.threefry(reference.key(3, "imu", 4), env, np.full_like(env, 17))
    assert digest(*reference.normals(*words)) == NORMALS


class Ramp(sn.sensors.SimpleSensorOptions):
    """Sensor of a signal that floats represent exactly, so that only the chain can differ between machines."""


class RampSensor(sn.sensors.SimpleSensor[torch.Tensor], options=Ramp):
    def _get_return_format(self):
        return (4,)

    @classmethod
    def _update_raw_data(cls, group, out):
        step = torch.round(group.world.time.double() / group.dt).long()
        env = torch.arange(group.n_envs, device=group.device)
        column = torch.arange(out.shape[0], device=group.device)[:, None]
        out.copy_(((7 * step * (column % 4 + 1) + 13 * env + column) % 101 - 50) / 8)


class BentRamp(Ramp):
    """A ramp of three columns with an axis matrix."""

    misalignment: tuple[tuple[float, float, float], ...] | None = None
    """Rows of the matrix."""


class BentRampSensor(RampSensor, options=BentRamp):
    def _get_return_format(self):
        return (3,)

    def _mixed_parts(self):
        return [slice(0, 3)]

    def _custom_parameters(self):
        return {"misalignment": ("mix", slice(0, 3))}


class DoubleRamp(Ramp):
    pass


class DoubleRampSensor(DoublePrecision, RampSensor, options=DoubleRamp):
    pass


class DoubleBentRamp(BentRamp):
    pass


class DoubleBentRampSensor(DoublePrecision, BentRampSensor, options=DoubleBentRamp):
    pass


def ramps(kind):
    """Return sensors that together have every generic imperfection, and misaligned axes."""
    common = {"noise": 0.3, "bias": 0.125, "random_walk": 0.2}
    return [
        kind(uuid="plain", **common, resolution=0.01, saturation=(-5.0, 5.5), deadband=0.25),
        kind(uuid="slow", **common, scale_error=0.02, bias_spread=0.3, drift=0.2, temperature_drift=0.01),
        kind(uuid="filtered", **common, bandwidth=20.0, filter_order=2, outliers=0.05, outlier_size=3.0),
        kind(uuid="late", **common, delay=0.05, jitter=0.03, history_length=3),
        kind(uuid="between", **common, delay=0.05, jitter=0.03, interpolate=True),
        kind(uuid="rare", **common, rate=30.0, dropout=0.2, stuck=0.5, delay=0.02),
        (DoubleBentRamp if kind is DoubleRamp else BentRamp)(
            uuid="bent", **common, misalignment=((1.0, 0.013, -0.021), (0.017, 1.0, 0.029), (-0.011, 0.023, 1.0))
        ),
    ]


def readings(kind, n_envs, device="cpu"):
    """Return a hash of the readings of ``ENVS`` envs over ``STEPS`` steps, with resets and changes of parameters."""
    scene = sn.Scene(dt=0.01, substeps=1)
    scene.add_object(sn.Sphere(), name="ball", free=True)
    sensors = [scene.add_sensor(options) for options in ramps(kind)]
    scene.build(n_envs=n_envs, seed=5, device=device)
    state = []
    for step in range(STEPS):
        scene.step()
        if step == 60:
            scene.reset(envs=[1, 4])
        if step == 90:
            sensors[0].set(noise=0.7, envs=[2])
            sensors[1].set(bias=[0.5, 0.25, 0.0, -1.0], envs=[0, 3])
        state += [sensor.read()[:ENVS].cpu().numpy().copy() for sensor in sensors]
    scene.close()
    return digest(*state)


@pytest.mark.parametrize("n_envs", [ENVS, 1500])  # one thread, and several
@pytest.mark.parametrize("kind", [Ramp, DoubleRamp])
def test_imperfection_chain_matches_the_golden_hash(kind, n_envs):
    name = "float64" if kind is DoubleRamp else "float32"
    assert readings(kind, n_envs) == CHAIN[name]


@pytest.mark.parametrize("kind", [Ramp, DoubleRamp])
def test_imperfection_chain_matches_the_golden_hash_without_chained_calls(kind, monkeypatch):
    monkeypatch.setenv("SENSORIUM_CHAIN", "0")
    assert readings(kind, ENVS) == CHAIN["float64" if kind is DoubleRamp else "float32"]


@pytest.mark.gpu
@pytest.mark.parametrize("kind", [Ramp, DoubleRamp])
def test_imperfection_chain_matches_the_golden_hash_on_a_gpu(kind):
    assert readings(kind, ENVS, "cuda") == CHAIN["float64" if kind is DoubleRamp else "float32"]
