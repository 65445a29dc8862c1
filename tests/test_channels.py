"""Channels: nested and short forms of imperfections are the same options, everywhere that options are given."""

import inspect

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import sensorium as sn
from sensorium.sensors.channels import channels, short_forms

WITH_CHANNELS = (
    sn.IMU,
    sn.ForceTorque,
    sn.FramePose,
    sn.JointEncoder,
    sn.WheelOdometry,
    sn.OpticalFlow,
    sn.BatteryState,
    sn.GPS,
)
VALUES = {
    "noise": st.floats(0, 1),
    "bias": st.tuples(*[st.floats(-1, 1)] * 3),
    "random_walk": st.floats(0, 1),
    "resolution": st.floats(0, 1),
    "saturation": st.tuples(st.floats(-9, 0), st.floats(0, 9)),
    "deadband": st.floats(0, 1),
    "scale_error": st.floats(-0.5, 0.5),
    "bandwidth": st.floats(1, 40),
    "outliers": st.floats(0, 1),
}


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.fixed_dictionaries({}, optional=VALUES), st.fixed_dictionaries({}, optional=VALUES))
def test_nested_and_short_forms_are_equal(acc, gyro):
    nested = sn.IMU(link="box", acc=sn.Imperfections(**acc), gyro=sn.Imperfections(**gyro))
    flat = {f"acc_{name}": value for name, value in acc.items()} | {
        f"gyro_{name}": value for name, value in gyro.items()
    }
    short = sn.IMU(link="box", **flat)
    mapping = sn.IMU(link="box", acc=acc, gyro=gyro)
    mixed = sn.IMU(link="box", acc=acc, **{f"gyro_{name}": value for name, value in gyro.items()})
    assert nested == short == mapping == mixed
    for options in (nested, short):
        assert options.acc.model_fields_set == acc.keys()
        assert type(options)(**options.model_dump()) == options


def read_box(options, **changes):
    """Bits of a box's IMU after 20 steps, with changes after 10."""
    scene = sn.Scene(dt=0.01)
    scene.add_object(sn.Box(mass=1.0), name="box", pos=(0, 0, 1), free=True)
    imu = scene.add_sensor(options)
    scene.build(n_envs=3, seed=3)
    scene.step(10)
    imu.set(**changes)
    scene.step(10)
    return torch.cat(imu.read(), dim=1)


def test_nested_and_short_forms_give_the_same_bits():
    acc = sn.Imperfections(noise=0.02, bias=(0.1, 0, 0), bias_instability=0.1)
    nested = read_box(sn.IMU(link="box", uuid="imu", acc=acc), acc=sn.Imperfections(noise=0.5), envs=[0])
    flat = sn.IMU(link="box", uuid="imu", acc_noise=0.02, acc_bias=(0.1, 0, 0), acc_bias_instability=0.1)
    assert torch.equal(nested, read_box(flat, acc_noise=0.5, envs=[0]))
    assert not torch.equal(nested, read_box(flat, acc_noise=0.5, envs=[1]))


@pytest.mark.parametrize("options", WITH_CHANNELS)
def test_signature_has_every_short_form_with_its_type(options):
    parameters = inspect.signature(options).parameters
    for name, form in short_forms(options).items():
        field = channels(options)[form.channel].model_fields[form.field]
        assert parameters[name].annotation == field.annotation
        assert parameters[name].default == field.default
    assert set(parameters) == set(options.option_names())


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"acc_nose": 0.1}, "IMU has no option 'acc_nose' .did you mean 'acc_noise'"),
        ({"acc_noise": -1}, "IMU.acc_noise must be >= 0, got -1"),
        ({"acc_noise": "1"}, "IMU.acc_noise must be a number, got '1'"),
        ({"acc": {"noise": -1}}, "IMU.acc.noise must be >= 0, got -1"),
        ({"acc": {"noise": -1}, "acc_bias": 1}, "IMU.acc.noise must be >= 0, got -1"),
        ({"acc_noise": float("nan")}, "IMU.acc_noise must be a finite number, got nan"),
        ({"acc": {"nose": 1}}, "IMU.acc has no option 'nose' .did you mean 'noise'"),
        ({"acc": 0.1}, "IMU.acc must be sn.Imperfections or a mapping of its fields, got 0.1"),
        ({"acc": None}, "IMU.acc must be sn.Imperfections or a mapping of its fields, got None"),
        ({"acc": sn.Imperfections(noise=0.1), "acc_noise": 0.2}, "IMU: set acc.noise or acc_noise, not both"),
        ({"acc_noise": 0.1, "acc_noise_density": 0.2}, "IMU.acc: set noise or noise_density, not both"),
    ],
)
def test_errors_name_the_option_as_it_was_given(given, message):
    with pytest.raises(sn.OptionError, match=message):
        sn.IMU(link="box", **given)


def test_inherited_options_can_be_unavailable():
    with pytest.raises(sn.OptionError, match="saturation is not available for this sensor; set min_range"):
        sn.Lidar(link="box", pattern=sn.SphericalPattern(), saturation=(0, 1))
    with pytest.raises(sn.OptionError, match="drift_time is not available for this sensor; set error_time_const"):
        sn.GPS(link="box", drift_time=3.0)
    assert "saturation" not in inspect.signature(sn.Lidar).parameters


def test_the_right_operand_of_a_union_wins():
    part = sn.presets.BMI160_GYROSCOPE
    mine = part | sn.Imperfections(noise=0.01, bandwidth=20.0)
    assert (mine.noise, mine.noise_density, mine.bandwidth) == (0.01, None, 20.0)
    assert mine.saturation == part.saturation
    assert part | sn.Imperfections() == part
    again = mine | sn.Imperfections(noise_density=0.1)
    assert (again.noise, again.noise_density) == (0.0, 0.1)


def test_a_union_has_the_more_specific_class():
    skew = ((1, 0.01, 0), (0, 1, 0), (0, 0, 1))
    for union in (
        sn.presets.BMI160_GYROSCOPE | sn.AxisImperfections(misalignment=skew),
        sn.AxisImperfections(misalignment=skew) | sn.presets.BMI160_GYROSCOPE,
        sn.presets.imu("consumer_mems", link="base", gyro_misalignment=skew).gyro,
    ):
        assert isinstance(union, sn.AxisImperfections)
        assert union.misalignment == skew
        assert union.saturation == sn.presets.BMI160_GYROSCOPE.saturation
    with pytest.raises(TypeError, match="unsupported operand"):
        sn.Imperfections() | {"noise": 1.0}


def test_presets_are_merged_field_by_field():
    imu = sn.presets.imu("consumer_mems", link="base", gyro=sn.Imperfections(noise=0.01), acc_bias=0.1)
    assert (imu.gyro.noise, imu.gyro.noise_density) == (0.01, None)
    assert imu.gyro.saturation == sn.presets.BMI160_GYROSCOPE.saturation
    assert imu.acc == sn.AxisImperfections(**sn.presets.BMI160_ACCELEROMETER.model_dump(exclude_unset=True), bias=0.1)


class NoisyIMU(sn.IMU, init=False):
    """An IMU with another default."""

    acc: sn.AxisImperfections = sn.AxisImperfections(noise=0.5)
    """m/s²."""


def test_short_forms_keep_the_default_of_the_channel():
    assert NoisyIMU(link="box", acc_bias=0.1).acc == sn.AxisImperfections(noise=0.5, bias=0.1)
    assert NoisyIMU(link="box", acc_noise_density=0.1).acc == sn.AxisImperfections(noise_density=0.1)
    assert NoisyIMU(link="box", acc={"bias": 0.1}).acc == sn.AxisImperfections(bias=0.1)
    assert inspect.signature(NoisyIMU).parameters["acc_noise"].default == 0.5


def test_set_takes_channels_as_the_constructor_does():
    options = sn.IMU(link="box", uuid="imu", acc_noise=0.02)
    assert torch.equal(read_box(options, acc={"noise": 0.5}), read_box(options, acc_noise=0.5))
    with pytest.raises(sn.OptionError, match=r"IMU: set acc\.noise or acc_noise, not both"):
        read_box(options, acc=sn.Imperfections(noise=0.5), acc_noise=0.1)
    with pytest.raises(sn.OptionError, match=r"IMU\.acc must be sn\.Imperfections or a mapping"):
        read_box(options, acc=0.1)


class Foot(sn.Contact):
    """Options with a field that the sensor class does not know."""

    label: str = "left"
    """Which foot."""


def test_derived_options_can_be_set_at_run_time():
    scene = sn.Scene(dt=0.01)
    scene.add_object(sn.Box(mass=1.0), name="box", free=True)
    contact = scene.add_sensor(Foot(link="box", label="right"))
    scene.build()
    contact.set(threshold=2.0)
    with pytest.raises(sn.OptionError, match="threshold"):
        contact.set(threshold=-1.0)


class Balance(sn.sensors.ChannelOptions, init=False):
    """Two channels, and not a line for an imperfection."""

    mass: sn.Imperfections = sn.Imperfections()
    """kg."""
    humidity: sn.Imperfections = sn.Imperfections()
    """%."""


class BalanceSensor(sn.sensors.SimpleSensor[torch.Tensor], options=Balance):
    """Reads a mass of 2 kg and a humidity of 50%."""

    def _get_return_format(self):
        return (2,)

    def _channels(self):
        return {"mass": slice(0, 1), "humidity": slice(1, 2)}

    @classmethod
    def _update_raw_data(cls, group, out):
        out[0::2], out[1::2] = 2.0, 50.0


def test_a_sensor_with_two_channels_needs_no_line_per_imperfection():
    scene = sn.Scene(dt=0.01)
    balance = scene.add_sensor(Balance(mass_bias=0.5, humidity=sn.Imperfections(resolution=20.0, scale_error=0.5)))
    scene.build(n_envs=2)
    scene.step()
    assert balance.read().tolist() == [[2.5, 80.0]] * 2
    balance.set(mass_bias=1.0, humidity_scale_error=0.0, envs=[1])
    scene.step()
    assert balance.read().tolist() == [[2.5, 80.0], [3.0, 40.0]]
    assert {"mass_noise", "humidity_scale_error"} <= set(balance.parameter_names)
    with pytest.raises(sn.OptionError, match="mass_scale_error was not set at construction"):
        balance.set(mass_scale_error=0.1)
