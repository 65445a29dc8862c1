"""The core sensor classes, and two that exercise hooks, pass the sensor contract."""

from typing import ClassVar

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
