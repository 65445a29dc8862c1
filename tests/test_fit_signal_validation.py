"""Validation of twins other than IMUs: rigs read their signals, true twins pass, wrong ones fail."""

from dataclasses import replace

import numpy as np
import pytest

import sensorium as sn
from sensorium.errors import OptionError
from sensorium.fit.estimate import Estimate, Twin
from sensorium.fit.report import report
from sensorium.fit.signal_replay import replay_signals, replay_stamps
from sensorium.fit.timing import timing

RATE = 100.0
TIME = np.arange(2000) / RATE
WAVES = np.stack([np.sin(2 * TIME), np.cos(3 * TIME), 0.5 * np.sin(5 * TIME)], axis=1)
SIGNALS = {
    "joint_encoder": {"joint_pos": WAVES[:, :2]},
    "force_torque": {"force": 10 * WAVES, "torque": WAVES},
    "gps": {"pos": 50 * WAVES},
    "barometer": {"pressure": 95_000 + 30 * WAVES[:, :1]},
    "raycaster": {"distance": 3 + WAVES},
    "lidar": {"distance": 3 + WAVES},
    "depth_camera": {"distance": 3 + WAVES},
    "channel": {"level": WAVES[:, :2]},
}
"""Kind -> true values of its channels."""
PREFIX = {"force_torque": "force."}
NOISE = {"barometer": 2.0, "gps": 0.4}


def make_twin(kind, scale=1.0, delay=0.03, **extra):
    noise, prefix = scale * NOISE.get(kind, 0.02), PREFIX.get(kind, "")
    channel = next(iter(SIGNALS[kind]))
    estimates = [
        Estimate.normal("rate", RATE, 1e-6, "Hz"),
        Estimate.normal("delay", delay, 1e-5, "s"),
        Estimate.normal(f"{prefix}noise", noise, 1e-4 * noise, ""),
        Estimate.normal(f"{prefix}bias", 0.1 * noise, 1e-4 * noise, ""),
    ]
    settings = {"settings": {"name": channel, "unit": "m"}} if kind == "channel" else {}
    return Twin(kind, {one.name: one for one in estimates}, provenance=settings, **extra)


def make_log(kind, delay=0.03, seed=3):
    """Return readings of the true twin that are late, and the true values at the time stamps."""
    late = {
        name: np.stack([np.interp(TIME - delay, TIME, axis) for axis in values.T], axis=1)
        for name, values in SIGNALS[kind].items()
    }
    read = replay_signals(make_twin(kind), late, 1 / RATE, 1, seed=seed)
    log = {"time": TIME[5:], **{name: values[5:, 0] for name, values in read.items()}}
    name = next(iter(SIGNALS[kind]))
    truth = {"time": TIME, **SIGNALS[kind]} if kind == "force_torque" else SIGNALS[kind][name][5:]
    return log, truth, name


@pytest.mark.parametrize("kind", SIGNALS)
def test_rigs_read_their_signals(kind):
    signals = {name: values[:200] for name, values in SIGNALS[kind].items()}
    rate = {"rate": Estimate.normal("rate", RATE, 1e-6, "Hz")}
    read = replay_signals(Twin(kind, rate, provenance=make_twin(kind).provenance), signals, 1 / RATE, 2)
    for name, values in signals.items():
        assert read[name].shape == (200, 2, values.shape[1])
        np.testing.assert_allclose(read[name], np.repeat(values[:, None], 2, axis=1), rtol=1e-7, atol=5e-7)


def test_imus_have_no_rig():
    with pytest.raises(OptionError, match=r"no replay of signals for the kind 'imu'"):
        replay_signals(Twin("imu", {}), {"gyro": WAVES}, 0.01, 1)


@pytest.mark.parametrize("kind", [kind for kind in SIGNALS if kind not in ("lidar", "depth_camera")])
@pytest.mark.slow
def test_the_true_twin_has_all_properties_and_a_wrong_one_lacks_them(kind):
    log, truth, name = make_log(kind)
    found = sn.fit.validate(make_twin(kind), log, truth, seed=11)
    of_channel = {one.subject for one in found.verdicts if one.channel == name}
    assert of_channel == {"noise", "distribution", "autocorrelation", "level", "prediction", "lag"}
    assert {one.subject for one in found.verdicts if one.channel == "sensor"} >= {"rate", "jitter"}
    assert all(one.holds for one in found.verdicts), str(found)
    wrong = sn.fit.validate(make_twin(kind, scale=2.0, delay=0.2), log, truth, seed=11)
    failed = {one.subject for one in wrong.verdicts if not one.holds and one.channel == name}
    assert {"noise", "distribution", "prediction"} <= failed
    assert wrong.motion[name].lag < -0.05


@pytest.mark.slow
def test_half_of_a_log_predicts_the_other_half(tmp_path):
    log, truth, _ = make_log("channel")
    twin = sn.fit.channel(log, truth, unit="m")
    found = sn.fit.validate(twin)
    assert found.fitted_on == "the first half of arrays"
    assert len(found.log) == len(TIME[5:]) - len(TIME[5:]) // 2
    assert all(one.holds for one in found.verdicts), str(found)
    page, *pictures = report(twin, tmp_path / "r.html", found)
    assert {path.stem for path in pictures} == {"log", "estimates", "level_rest", "level_motion"}
    assert "9 of 9 properties" in page.read_text() or "8 of 8 properties" in page.read_text()


def test_without_a_reference_rest_is_compared():
    rng = np.random.default_rng(5)
    values = 3.0 + 0.01 * rng.standard_normal((4000, 2))
    log = {"time": np.arange(4000) / RATE, "level": values}
    found = sn.fit.validate(sn.fit.channel(log))
    assert {one.subject for one in found.verdicts if one.channel == "level"} == {
        "noise",
        "distribution",
        "autocorrelation",
    }
    assert all(one.holds for one in found.verdicts), str(found)


def test_what_cannot_be_compared_is_noted():
    log = {"time": TIME, "joint_pos": WAVES}
    found = sn.fit.validate(sn.fit.joint_encoder(log))
    assert found.notes == [
        "joint_pos is not compared: no rest of 2 s or more in the log, and no reference of this quantity"
    ]
    assert {one.subject for one in found.verdicts} == {"rate", "jitter"}


def test_stamps_of_the_twin_have_its_jitter():
    jitter = Estimate.normal("jitter", 0.004, 1e-5, "s")
    twin = Twin("channel", {"rate": Estimate.normal("rate", 99.3, 1e-4, "Hz"), "jitter": jitter})
    found = {one.name: one for one in timing(replay_stamps(twin, 3000))}
    assert found["rate"].value == pytest.approx(99.3, abs=0.01)
    assert found["stamp_jitter"].value == pytest.approx(0.004 / np.sqrt(12), rel=0.05)


@pytest.mark.slow
def test_rate_jitter_and_drop_outs_are_compared():
    rng = np.random.default_rng(6)
    stamps = np.arange(3000) / RATE + rng.uniform(0, 0.003, 3000)
    values = rng.standard_normal((3000, 1))
    held = np.flatnonzero(rng.uniform(size=3000) < 0.05)
    values[held[held > 0]] = values[held[held > 0] - 1]
    twin = sn.fit.channel({"time": stamps, "level": values})
    verdicts = {one.subject: one for one in sn.fit.validate(twin).verdicts if one.channel == "sensor"}
    assert all(one.holds for one in verdicts.values()), verdicts
    assert set(verdicts) == {"rate", "jitter", "drop-outs"}
    estimates = twin.estimates | {
        "rate": Estimate.normal("rate", 90.0, 1e-3, "Hz"),
        "jitter": Estimate.normal("jitter", 0.006, 1e-5, "s"),
        "dropout": Estimate.normal("dropout", 0.2, 1e-3, ""),
    }
    wrong = sn.fit.validate(replace(twin, estimates=estimates), {"time": stamps, "level": values})
    assert not any(one.holds for one in wrong.verdicts if one.channel == "sensor")


@pytest.mark.slow
def test_lost_returns_of_rays_are_compared():
    log, truth, _ = make_log("raycaster")
    rng = np.random.default_rng(7)
    log["distance"] = np.where(rng.uniform(size=log["distance"].shape) < 0.05, np.nan, log["distance"])
    twin = make_twin("raycaster")
    for share, holds in ((0.05, True), (0.15, False)):
        twin.estimates["ray_dropout"] = Estimate.normal("ray_dropout", share, 1e-3, "")
        lost = [one for one in sn.fit.validate(twin, log, truth).verdicts if one.subject == "drop-outs"]
        assert [one.holds for one in lost] == [holds]
        assert "rays have no return" in lost[0].text
