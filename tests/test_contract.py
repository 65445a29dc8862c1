"""The core sensor classes, and two that exercise hooks, pass the sensor contract."""

import unittest
from typing import ClassVar

import pytest
import torch
from conftest import arm_scene, drop_scene
from thermometer import Thermometer

import sensorium as sn
from sensorium.testing import SensorContract


class Drop:
    def make_scene(self):
        return drop_scene()


class Arm:
    def make_scene(self):
        return arm_scene()

    def drive(self, scene, step):
        scene["arm"].set_ctrl([3.0 if step < 10 else -1.0, 0.5])


class TestIMU(Drop, SensorContract):
    imperfections: ClassVar = {
        "acc_noise": 0.1,
        "gyro_random_walk": (0.1, 0.2, 0.0),
        "mag_bias": 1e-6,
        "acc_misalignment": ((1.0, 0.01, 0.0), (0.0, 0.99, 0.02), (0.01, 0.0, 1.0)),
        "gyro_resolution": 0.01,
        "acc_saturation": (-50.0, 50.0),
    }

    def make_options(self, **options):
        return sn.IMU(link="box", pos=(0.02, 0, 0.05), euler=(0.1, 0.2, 0.3), **options)


class TestContact(Drop, SensorContract):
    imperfections: ClassVar = {"noise": 5.0, "threshold": 2.0}

    def make_options(self, **options):
        return sn.Contact(link="box", **options)


class TestContactForce(Drop, SensorContract):
    imperfections: ClassVar = {"noise": 0.5, "min_force": 0.2, "max_force": 15.0, "random_walk": 0.3}

    def make_options(self, **options):
        return sn.ContactForce(link="box", euler=(0.3, 0, 0), **options)


class TestJointEncoder(Arm, SensorContract):
    imperfections: ClassVar = {"counts_per_revolution": 512, "vel_noise": 0.05, "bias": (0.1, -0.1)}

    def make_options(self, **options):
        return sn.JointEncoder(robot="arm", **options)


class TestFramePose(Arm, SensorContract):
    imperfections: ClassVar = {"pos_noise": 0.01, "rot_noise": 0.02, "ang_vel_bias": 0.1}

    def make_options(self, **options):
        return sn.FramePose(link="tip", relative_to="upper", **options)


class TestThermometer(Drop, SensorContract):
    """A class with its own response model."""

    imperfections: ClassVar = {"noise": 0.1, "random_walk": 0.05}

    def make_options(self, **options):
        return Thermometer(link="box", time_constant=0.05, **options)


class Vertical(sn.sensors.SimpleSensorOptions):
    """Height of the box in float64, with physics imperfections, state, and its own hardware stage."""


class VerticalSensor(sn.sensors.SimpleSensor[torch.Tensor], options=Vertical):
    def _get_return_format(self):
        return (2,)

    @classmethod
    def _get_intermediate_dtype(cls):
        return torch.float64

    @classmethod
    def _get_cache_dtype(cls):
        return torch.float64

    @classmethod
    def _update_current_timestep_data(cls, group, ground_truth, measured):
        ground_truth.copy_(group.world.bind("xpos")[:, -1, 2].expand(group.n_columns, -1))
        torch.add(ground_truth, 0.25, out=measured)

    @classmethod
    def _apply_transform(cls, group, data, timeline, is_measured):
        count = group.state("count")
        if is_measured:
            count += 1
            data += count

    @classmethod
    def _apply_hardware_imperfections(cls, group, data):
        data *= 2.0
        super()._apply_hardware_imperfections(group, data)


class TestVertical(Drop, SensorContract):
    imperfections: ClassVar = {"noise": 0.1, "random_walk": (0.1, 0.2), "deadband": 0.01}

    def make_options(self, **options):
        return Vertical(**options)


# -- the contract finds classes that break it --------------------------------------------------------------------------


class Height(sn.sensors.SimpleSensorOptions):
    """Height of the box."""


class HeightSensor(sn.sensors.SimpleSensor[torch.Tensor], options=Height):
    def _get_return_format(self):
        return (1,)

    @classmethod
    def _build_group(cls, group):
        return {"generator": torch.Generator().manual_seed(0), "sum": torch.zeros(1, group.n_envs), "calls": 0}

    @classmethod
    def _update_raw_data(cls, group, out):
        out.copy_(group.world.bind("xpos")[:, -1, 2])


def draws_from_a_generator(cls, group, data):
    data += torch.randn(data.shape, generator=group.backend["generator"])


def keeps_its_own_state(cls, group, data, timeline, is_measured):
    if is_measured:
        group.backend["sum"] += data
        data.copy_(group.backend["sum"])


def counts_in_python(cls, group, data, out, is_measured):
    group.backend["calls"] += 1
    out.copy_(data + group.backend["calls"])


def runs_the_raw_hook_twice(cls, group, ground_truth, measured):
    for _ in range(2):
        cls._update_raw_data(group, ground_truth)
    measured.copy_(ground_truth)


def calls_the_reset_hook(cls, group, out):
    HeightSensor._update_raw_data.__func__(cls, group, out)
    cls._reset_group(group, torch.ones(group.n_envs, dtype=torch.bool))


def mixes_the_branches(cls, group, data):
    group.imperfect(data)
    group.truth_timeline.at(0).add_(data)


@pytest.mark.parametrize(
    ("hook", "broken", "test"),
    [
        ("_apply_hardware_imperfections", draws_from_a_generator, "test_readings_do_not_depend_on_batch_size"),
        ("_apply_hardware_imperfections", draws_from_a_generator, "test_reset_changes_only_the_reset_envs"),
        ("_apply_hardware_imperfections", draws_from_a_generator, "test_episodes_can_be_made_again"),
        ("_apply_transform", keeps_its_own_state, "test_first_reading_after_reset_is_the_state_at_reset"),
        ("_apply_transform", keeps_its_own_state, "test_reset_changes_only_the_reset_envs"),
        ("_post_process", counts_in_python, "test_reset_changes_only_the_reset_envs"),
        ("_update_shared_cache", runs_the_raw_hook_twice, "test_raw_hook_runs_once_per_step_and_reset"),
        ("_update_raw_data", calls_the_reset_hook, "test_reset_group_runs_once_per_reset"),
        ("_apply_hardware_imperfections", mixes_the_branches, "test_hardware_imperfections_do_not_enter_the_timeline"),
    ],
)
def test_contract_refuses_broken_classes(hook, broken, test):
    class Broken(Height):
        pass

    type("BrokenSensor", (HeightSensor,), {hook: classmethod(broken)}, options=Broken)

    class Contract(Drop, SensorContract):
        def __init__(self, options):
            self.make_options = lambda **given: options(**given)

    getattr(Contract(Height), test)()
    with pytest.raises(AssertionError) as error:
        getattr(Contract(Broken), test)()
    assert "assert" in str(error.value)  # pytest explains it


def test_contract_skips_with_a_reason():
    class Contract(Drop, SensorContract):
        def make_options(self, **options):
            return sn.IMU(link="box", **options)

    with pytest.raises(unittest.SkipTest, match="IMUSensor overrides none of _post_process"):
        Contract().test_post_process_runs_once_per_branch_and_step()
