"""The Numba kernels are bit-identical to the NumPy reference; random numbers match published vectors and theory."""

import warnings

import numpy as np
import pytest
import reference
import torch
from conftest import drop_scene
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from probe import DoubleProbe, HookedProbe, Probe, probe_scene

import sensorium as sn
from sensorium.pipeline import formula
from sensorium.pipeline.kernels.random import normal_row, threefry

VECTORS = [  # published test vectors of Threefry2x32 with 20 rounds: key, counter, result
    ((0x00000000, 0x00000000), (0x00000000, 0x00000000), (0x6B200159, 0x99BA4EFE)),
    ((0xFFFFFFFF, 0xFFFFFFFF), (0xFFFFFFFF, 0xFFFFFFFF), (0x1CB996FC, 0xBB002BE7)),
    ((0x13198A2E, 0x03707344), (0x243F6A88, 0x85A308D3), (0xC4923A9C, 0x483DF7A0)),
]


@pytest.mark.parametrize(("key", "counter", "result"), VECTORS)
def test_threefry_matches_the_published_vectors(key, counter, result):
    u = np.uint32
    assert threefry(u(key[0]), u(key[1]), u(counter[0]), u(counter[1])) == result
    got = reference.threefry(np.array(key, u), np.array([counter[0]], u), np.array([counter[1]], u))
    assert tuple(int(word[0]) for word in got) == result


def test_normals_are_bit_identical_to_the_reference():
    n0, n1 = np.zeros(200_000, np.float32), np.zeros(200_000, np.float32)
    k0, k1 = formula.key(3, "imu", 4)
    draw = np.random.default_rng(0).integers(0, 2**32, (2, 200_000), dtype=np.uint32)
    normal_row(np.uint32(k0), np.uint32(k1), draw, n0, n1, np.uint32(5))
    words = reference.threefry(reference.key(3, "imu", 4), draw[0] ^ np.uint32(5), draw[1])
    expected = reference.normals(*words)
    np.testing.assert_array_equal(n0, expected[0])
    np.testing.assert_array_equal(n1, expected[1])


def test_normals_have_the_moments_and_tails_of_a_normal_distribution():
    n0, n1 = np.zeros(2_000_000, np.float32), np.zeros(2_000_000, np.float32)
    draw = np.stack([np.arange(2_000_000), np.full(2_000_000, 3)]).astype(np.uint32)
    normal_row(np.uint32(1), np.uint32(2), draw, n0, n1, np.uint32(0))
    for n in (n0, n1):
        n = n.astype(np.float64)
        assert abs(n.mean()) < 4 / np.sqrt(len(n))
        assert abs(n.var() - 1) < 4 * np.sqrt(2 / len(n))
        assert abs((n**3).mean()) < 4 * np.sqrt(15 / len(n))
        assert abs((n**4).mean() - 3) < 4 * np.sqrt(96 / len(n))
        for z, tail in ((1, 0.158655), (2, 0.0227501), (3, 0.00134990), (4, 3.16712e-5)):
            sigma = np.sqrt(tail * (1 - tail) / len(n))
            assert abs((n > z).mean() - tail) < 4.5 * sigma
            assert abs((n < -z).mean() - tail) < 4.5 * sigma
    assert abs(np.corrcoef(n0, n1)[0, 1]) < 4 / np.sqrt(len(n0))
    assert abs(np.corrcoef(np.abs(n0), np.abs(n1))[0, 1]) < 4 / np.sqrt(len(n0))


def test_normals_are_accurate_functions_of_their_words():
    """The polynomials are compared with the functions in float64."""
    words = np.random.default_rng(0).integers(0, 2**32, (2, 100_000), dtype=np.uint32)
    n0, n1 = reference.normals(words[0], words[1])
    u = ((words[0] >> 9).astype(np.float64) + 0.5) / 2**23
    q = ((words[1] >> 9).astype(np.float64) + 0.5) / 2**23
    r = np.sqrt(-2 * np.log(u))
    np.testing.assert_allclose(np.abs(n0), r * np.sin(q * np.pi / 2), atol=3e-6)
    np.testing.assert_allclose(np.abs(n1), r * np.cos(q * np.pi / 2), atol=3e-6)


def number(low, high):
    """Strategy for 0 or a realistic number, not a subnormal one: some libraries flush those to 0 in the process."""
    return st.just(0.0) | st.floats(max(low, 1e-4), high, allow_nan=False)


spread = st.one_of(st.just(0.0), number(0.001, 2.0), st.tuples(number(0, 1), number(0, 1), number(0, 1)))
options = st.fixed_dictionaries(
    {},
    optional={
        "noise": spread,
        "noise_is_density": st.booleans(),
        "bias": spread,
        "random_walk": spread,
        "resolution": spread,
        "deadband": spread,
        "saturation": st.sampled_from([(-1.0, 1.0), (-0.3, 2.0), (None, 0.5), (0.0, None)]),
        "rate": st.sampled_from([3.0, 30.0, 33.3, 50.0, 99.9, 100.0]),
        "delay_jitter": st.tuples(number(0.0, 0.12), number(0.0, 1.0)),
        "dropout": st.sampled_from([0.0, 0.2, 0.9, 1.0]),
        "interpolate": st.booleans(),
        "history_length": st.sampled_from([1, 2, 5]),
        "scale_error": st.sampled_from([0.0, -0.02, (0.1, 0.0, -0.3)]),
        "bias_spread": spread,
        "drift": spread,
        "drift_time": st.sampled_from([0.02, 1.0, 100.0]),
        "temperature_drift": spread,
        "temperature": st.sampled_from([-40.0, 25.0, 85.0]),
        "outliers": st.sampled_from([0.0, 0.1, 1.0]),
        "outlier_size": spread,
        "bandwidth": st.sampled_from([0.5, 7.0, 30.0, 44.0, 50.0, 400.0]),
        "filter_order": st.sampled_from([1, 2]),
        "stuck": st.sampled_from([0.0, 3.0, 1e9]),
    },
)


def from_density(options, dt):
    """Return the noise per sample, or before the filter per tick, that a one-sided noise density gives."""
    density, bandwidth = options.pop("noise_density"), options.get("bandwidth")
    if bandwidth is None:
        return {"noise": density * np.sqrt(options.get("rate", 1 / dt) / 2)}
    if bandwidth * dt <= 0.45:
        return {"input_noise": density * np.sqrt(1 / dt / 2)}
    shape = np.pi / 2 if options.get("filter_order", 2) == 1 else np.pi / (2 * np.sqrt(2))
    return {"noise": density * np.sqrt(shape * bandwidth)}


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    options=options,
    seed=st.integers(0, 2**40),
    n_envs=st.sampled_from([1, 2, 7]),
    probe=st.sampled_from([Probe, DoubleProbe, HookedProbe]),
    data=st.data(),
)
def test_any_combination_of_options_is_bit_identical_to_the_reference(options, seed, n_envs, probe, data):
    options = dict(options)
    delay, share = options.pop("delay_jitter", (0.0, 0.0))
    options |= {"delay": delay, "jitter": delay * share}
    is_density = options.pop("noise_is_density", False) and "noise" in options
    if is_density:
        options["noise_density"] = options.pop("noise")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # some combinations of options have no effect
        scene, sensor = probe_scene(probe(uuid="p", **options), n_envs=n_envs, seed=seed)
    low, high = options.pop("saturation", (None, None))
    limits = {"low": -np.inf if low is None else low, "high": np.inf if high is None else high}
    length = options.pop("history_length", None)
    columns = {k: np.reshape(v, (-1, 1)) if isinstance(v, tuple) else v for k, v in options.items()}
    if "drift" in columns:
        columns["drift_size"] = columns.pop("drift")
    if is_density:
        columns |= from_density(columns, dt=0.01)
    dtype = np.float64 if probe is DoubleProbe else np.float32
    expected = reference.Reference(seed=seed, uuid="p", shape=(3, n_envs), dt=0.01, dtype=dtype, **limits, **columns)
    read = expected.reset(sensor.group.truth.numpy(), 0)
    newest = (lambda: sensor.read()[:, 0]) if length else sensor.read
    np.testing.assert_array_equal(newest().T.numpy(), read)
    reset_at = data.draw(st.integers(1, 25), label="reset_at")
    for step in range(1, 26):
        scene.step()
        read = expected.step(sensor.group.truth.numpy())
        np.testing.assert_array_equal(newest().T.numpy(), read)
        np.testing.assert_allclose(sensor.age().numpy(), expected.age(), atol=1e-7)
        if step == reset_at:
            scene.reset()
            read = expected.reset(sensor.group.truth.numpy(), 1)
            np.testing.assert_array_equal(newest().T.numpy(), read)


@pytest.mark.parametrize("n_envs", [1, pytest.param(5000, marks=pytest.mark.slow)])
def test_fused_columns_are_bit_identical_to_the_reference(n_envs):
    """Columns that come from the engine and stay in the fused kernel, on one thread and on two."""
    matrix = ((1.0, 0.02, 0.0), (-0.01, 0.98, 0.03), (0.0, 0.01, 1.01))
    scene = drop_scene()
    imu = scene.add_sensor(
        sn.IMU(
            link="box",
            uuid="imu",
            acc_noise=0.3,
            acc_bias=(0.1, 0.2, 0.3),
            acc_random_walk=0.5,
            acc_misalignment=matrix,
            gyro_noise=0.1,
            delay=0.013,
            jitter=0.013,
            rate=77.0,
            dropout=0.1,
        )
    )
    encoder = scene.add_sensor(sn.ContactForce(link="box", uuid="force", noise=1.0, resolution=0.25, max_force=12.0))
    scene.build(n_envs=n_envs, seed=9)
    imu.set(acc_noise=np.linspace(0, 1, n_envs)[:, None])
    common = {"seed": 9, "dt": 0.01, "delay": 0.013, "jitter": 0.013, "rate": 77.0, "dropout": 0.1}
    acc = reference.Reference(
        uuid="imu",
        shape=(3, n_envs),
        noise=np.linspace(0, 1, n_envs),
        bias=np.array([[0.1], [0.2], [0.3]]),
        random_walk=0.5,
        mix=matrix,
        **common,
    )
    force = reference.Reference(
        seed=9, uuid="force", shape=(3, n_envs), dt=0.01, noise=1.0, resolution=0.25, low=-12.0, high=12.0
    )
    acc.reset(imu.group.truth[:3].numpy(), 1)
    force.reset(encoder.group.truth.numpy(), 1)
    scene.reset()  # so that the first sample has the noise that was set
    for _ in range(1, 20):
        scene.step()
        expected = acc.step(imu.group.truth[:3].numpy())
        np.testing.assert_array_equal(imu.read().lin_acc.T.numpy(), expected)
        expected = force.step(encoder.group.truth.numpy())
        np.testing.assert_array_equal(encoder.read().T.numpy(), expected)


def test_noise_depends_only_on_seed_uuid_element_env_and_tick():
    def first(uuid="a", seed=0, columns=3, n_envs=4, steps=2, others=()):
        extra = [Probe(uuid=name, noise=1.0) for name in others]
        scene, *sensors = probe_scene(*extra, Probe(uuid=uuid, noise=1.0, columns=columns), n_envs=n_envs, seed=seed)
        scene.step(steps)
        return (sensors[-1].read() - sensors[-1].read_ground_truth()).clone()

    base = first()
    assert torch.equal(base, first())
    assert torch.equal(base, first(others=("x", "y")))
    assert torch.equal(base[:2], first(n_envs=2))
    assert torch.equal(base, first(columns=5)[:, :3])
    for other in (first(uuid="b"), first(seed=1), first(steps=3)):
        assert not torch.isclose(base, other).any()
    assert len(base.unique()) == base.numel()
