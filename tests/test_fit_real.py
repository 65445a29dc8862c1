"""Fits of real logs: a MEMS IMU beside motion capture, and the joints of a Go2.

The logs are not part of the repository; the tests are skipped where ``../shared/data`` is missing.
"""

import functools
from pathlib import Path

import numpy as np
import pytest

import sensorium as sn

DATA = Path(__file__).resolve().parents[2] / "shared" / "data"
BROAD = sorted((DATA / "broad").glob("*.hdf5"))
GO2 = DATA / "go2" / "air_chirp.npz"
needs_broad = pytest.mark.skipif(not BROAD, reason=f"no logs in {DATA / 'broad'}")
needs_go2 = pytest.mark.skipif(not GO2.exists(), reason=f"{GO2} is missing")
ROTATIONS = [path for path in BROAD if "rotation" in path.name]


@functools.cache
def fitted(path):
    """Return the twin of one trial."""
    return sn.fit.imu(path, reference=path, units={"mag": "uT"})


@needs_broad
@pytest.mark.slow
@pytest.mark.parametrize("path", BROAD, ids=lambda path: path.stem)
class TestBroad:
    @pytest.mark.slow
    def test_steps_are_those_of_16_bit_converters(self, path):
        got = fitted(path).estimates
        np.testing.assert_allclose(got["gyro.resolution"].value, np.radians(2000) / 32767, rtol=1e-5)
        np.testing.assert_allclose(got["acc.resolution"].value, 16 * 9.81 / 32767, rtol=1e-4)

    def test_noise_density(self, path):
        got = fitted(path).estimates
        assert ((got["gyro.noise_density"].value > 1.1e-4) & (got["gyro.noise_density"].value < 1.9e-4)).all()
        assert ((got["acc.noise_density"].value > 3e-3) & (got["acc.noise_density"].value < 7e-3)).all()
        ratio = got["gyro.allan_density"].value / got["gyro.noise_density"].value
        assert ((ratio > 0.9) & (ratio < 1.2)).all()

    @pytest.mark.slow
    def test_gyroscope_lag_is_the_same_in_all_trials(self, path):
        lag = fitted(path).estimates["gyro.delay"]
        assert lag.identifiable
        assert 0.0040 < lag.value < 0.0044
        assert lag.std < 1e-4

    @pytest.mark.slow
    def test_accelerometer_lag(self, path):
        lag = fitted(path).estimates["acc.delay"]
        assert lag.identifiable
        assert 0.0022 < lag.value < 0.0031

    @pytest.mark.slow
    def test_bias_in_motion_is_near_that_at_rest(self, path):
        got = fitted(path).estimates
        difference = np.abs(got["gyro.bias"].value - got["gyro.bias_in_motion"].value)
        assert difference.max() < 1.5e-3

    @pytest.mark.slow
    def test_residuals(self, path):
        got = fitted(path).estimates
        assert np.linalg.norm(got["gyro.residual"].value) < 0.061
        assert np.linalg.norm(got["acc.residual"].value) < 0.25

    def test_matrices_are_near_the_identity(self, path):
        got = fitted(path).estimates
        for name in ("gyro.misalignment", "acc.misalignment"):
            assert got[name].identifiable
            assert np.abs(got[name].value - np.eye(3)).max() < 0.04

    def test_options_make_a_sensor(self, path):
        twin = fitted(path)
        options = twin.options(link="torso")
        assert options.delay == pytest.approx(twin.estimates["gyro.delay"].value)
        assert options.gyro.misalignment is not None


@needs_broad
@pytest.mark.slow
@pytest.mark.parametrize("path", ROTATIONS, ids=lambda path: path.stem)
def test_magnetometer_of_rotations(path):
    got = fitted(path).estimates
    assert got["mag.misalignment"].identifiable
    assert np.abs(got["mag.bias"].value).max() < 1e-6
    assert np.linalg.norm(got["mag.residual"].value) < 1.6e-6
    assert 4.3e-5 < np.linalg.norm(got["mag.field"].value) < 4.6e-5
    np.testing.assert_allclose(got["mag.resolution"].value, 7.5e-8, rtol=0.02)


@needs_broad
@pytest.mark.slow
def test_magnetometer_that_does_not_turn_is_not_calibrated():
    paths = [path for path in BROAD if "translation" in path.name]
    for path in paths:
        assert not fitted(path).estimates["mag.misalignment"].identifiable
        assert "turn the sensor" in fitted(path).estimates["mag.misalignment"].reason


@needs_go2
def test_step_of_the_encoders_of_a_go2():
    """Hip and thigh have 2¹⁵ counts per turn of the motor behind a gear of 1:6.33; the calf has a linkage after it."""
    twin = sn.fit.joint_encoder(GO2)
    step = twin.estimates["resolution"]
    assert step.identifiable
    hips = [0, 1, 3, 4, 6, 7, 9, 10]
    np.testing.assert_allclose(step.value[hips], 3.0278e-5, rtol=1e-4)
    np.testing.assert_allclose(step.value[2::3], 3.0278e-5 / 1.9167, rtol=1e-3)
    assert not twin.estimates["delay"].identifiable
    lag = twin.estimates["command_delay"]
    assert lag.identifiable
    assert ((lag.value > 0.07) & (lag.value < 0.13)).all()
