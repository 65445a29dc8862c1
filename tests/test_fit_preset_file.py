"""Preset files of fitted sensors: the text, and the two ways to read it."""

import numpy as np
import pytest

import sensorium as sn
from sensorium.errors import OptionError
from sensorium.fit.estimate import Estimate, Twin
from sensorium.fit.logs import as_log
from sensorium.fit.preset_file import text_of
from sensorium.fit.problems import Problem

GOLDEN = """\
# IMU fitted to a log by `sensorium fit`. Edit the options as you like.
#
# in Python:         scene.add_sensor(sn.presets.load("my_imu.yaml", link=...))
# as a robot's rig:  sensorium record --robot diffdrive --rig my_imu.yaml --out runs/a
#
# provenance: the log, and every estimate with its 95 % interval. It has no effect on the sensor.
sensors:
- name: imu
  type: IMU
  options:
    rate: 200.0
    delay: 0.004
    gyro:
      noise_density: [0.0001, 0.0002, 0.0003]
      misalignment:
      - [1.0, 0.01, 0.0]
      - [0.0, 1.0, 0.0]
      - [0.0, 0.0, 0.99]
      saturation: [-35.0, null]
    max_delay: 0.005
provenance:
  version: 9.9.9
  date: '2026-11-17'
  log: arrays
  log_hash: {hash}
  samples: 100
  estimates:
    rate:
      value: 200.0
      interval: [199.98, 200.02]
      unit: Hz
      identifiable: true
    delay:
      value: 0.004
      interval: [0.00360801, 0.00439199]
      unit: s
      identifiable: true
    gyro.noise_density:
      value: [0.0001, 0.0002, 0.0003]
      interval:
      - [9.61559e-05, 0.000192312, 0.000288468]
      - [0.000103998, 0.000207996, 0.000311993]
      unit: rad/s/√Hz
      identifiable: true
    gyro.misalignment:
      value:
      - [1.0, 0.01, 0.0]
      - [0.0, 1.0, 0.0]
      - [0.0, 0.0, 0.99]
      interval:
      - - [1.0, 0.01, 0.0]
        - [0.0, 1.0, 0.0]
        - [0.0, 0.0, 0.99]
      - - [1.0, 0.01, 0.0]
        - [0.0, 1.0, 0.0]
        - [0.0, 0.0, 0.99]
      unit: ''
      identifiable: true
    gyro.saturation:
      value: [-35.0, null]
      interval:
      - [-35.0, null]
      - [-35.0, null]
      unit: rad/s
      identifiable: true
    acc.bias:
      value: [null, null, null]
      interval:
      - [null, null, null]
      - [null, null, null]
      unit: m/s²
      identifiable: false
      reason: no reference
  problems: ['rest.short: 6 s of rest. Record longer.']
"""
MATRIX = np.array([[1, 0.01, 0], [0, 1, 0], [0, 0, 0.99]])
LIMITS = np.array([-35.0, np.inf])


@pytest.fixture
def twin():
    estimates = [
        Estimate.normal("rate", 200.0, 0.0102, "Hz"),
        Estimate.normal("delay", 0.004, 0.0002, "s"),
        Estimate.positive("gyro.noise_density", np.array([1e-4, 2e-4, 3e-4]), 0.02, "rad/s/√Hz"),
        Estimate.normal("gyro.misalignment", MATRIX, np.zeros((3, 3)), ""),
        Estimate("gyro.saturation", LIMITS, (LIMITS, LIMITS), "rad/s"),
        Estimate.missing("acc.bias", "m/s²", "no reference", (3,)),
    ]
    log = as_log({"time": np.arange(100) / 200, "gyro": np.zeros((100, 3))})
    problems = [Problem("rest.short", "6 s of rest", "record longer")]
    origin = {"version": "9.9.9", "date": "2026-11-17"}
    return Twin("imu", {one.name: one for one in estimates}, problems, origin, log)


def test_text_is_the_golden_file(twin):
    assert text_of(twin, "my_imu.yaml") == GOLDEN.replace("{hash}", twin.log.hash)


def test_presets_load_gives_the_options_of_the_twin(twin, tmp_path):
    path = twin.save(tmp_path / "deep" / "my_imu.yaml")
    imu = sn.presets.load(path, link="torso")
    assert isinstance(imu, sn.IMU)
    assert imu.gyro.noise_density == (1e-4, 2e-4, 3e-4)
    assert imu.gyro.saturation == (-35.0, None)
    np.testing.assert_array_equal(imu.gyro.misalignment, MATRIX)
    assert (imu.rate, imu.delay, imu.link) == (200.0, 0.004, "torso")
    changed = sn.presets.load(path, link="torso", gyro_noise=0.1, delay=0.001)
    assert changed.gyro.noise == 0.1
    assert changed.gyro.noise_density is None  # two units of one parameter: the newer one wins
    assert changed.delay == 0.001


def test_a_rig_file_with_the_preset_gives_a_robot_the_sensor(twin, tmp_path):
    path = twin.save(tmp_path / "my_imu.yaml")
    rig = sn.robots.SensorRig.load(path)
    assert rig.provenance["log_hash"] == twin.log.hash
    scene = sn.Scene()
    robot = scene.add_robot("diffdrive", rig=rig)
    scene.build()
    scene.step()
    assert robot.rig["imu"].read().ang_vel.shape == (1, 3)
    assert robot.rig["imu"].options.gyro.noise_density == (1e-4, 2e-4, 3e-4)
    rig.save(tmp_path / "again.yaml")
    assert sn.robots.SensorRig.load(tmp_path / "again.yaml") == rig


def test_a_channel_is_a_preset_of_imperfections(tmp_path):
    twin = Twin("channel", {"bias": Estimate.normal("bias", np.array([1.0, 2.0]), 0.1, "V")})
    path = twin.save(tmp_path / "level.yaml")
    assert sn.presets.load(path) == sn.AxisImperfections(bias=(1.0, 2.0))


def test_rounding_keeps_delays_allowed(tmp_path):
    estimates = {
        name: Estimate.normal(name, value, 0.0, "s")
        for name, value in (("delay", 0.00123456789), ("jitter", 0.00123456789))
    }
    path = Twin("imu", estimates).save(tmp_path / "a.yaml")
    assert sn.presets.load(path, link="a").delay == pytest.approx(0.00123457)


def test_several_sensors_need_a_name(tmp_path):
    (tmp_path / "rig.yaml").write_text(
        "sensors:\n- {name: a, type: IMU, mount: {pos: [0, 0, 1]}, options: {acc_noise: 0.1}}\n- {name: b, type: GPS}\n"
    )
    imu = sn.presets.load(tmp_path / "rig.yaml", "a", link="torso")
    assert (imu.acc.noise, imu.pos) == (0.1, (0.0, 0.0, 1.0))
    with pytest.raises(OptionError, match=r"has 2 sensors; pass name= one of 'a', 'b'"):
        sn.presets.load(tmp_path / "rig.yaml")
    with pytest.raises(OptionError, match=r"has no sensor 'c'"):
        sn.presets.load(tmp_path / "rig.yaml", "c")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("- 1\n", "is not a preset: expected the key 'sensors'"),
        ("a: [\n", "is not valid YAML"),
        ("sensors: [{name: a, type: IMUU}]\n", r"there is no preset of the type 'IMUU' \(did you mean 'IMU'\?\)"),
    ],
)
def test_other_files_are_no_presets(tmp_path, text, message):
    (tmp_path / "a.yaml").write_text(text)
    with pytest.raises(OptionError, match=message):
        sn.presets.load(tmp_path / "a.yaml")


def test_names_of_files(twin, tmp_path):
    with pytest.raises(OptionError, match=r"a preset file must end in .yaml"):
        twin.save(tmp_path / "a.json")
    with pytest.raises(OptionError, match=r"there is no preset file 'nowhere.yaml'"):
        sn.presets.load("nowhere.yaml")
