"""Contact probes against closed forms, options of all sensors of touch, and the sensor contract."""

from typing import ClassVar

import numpy as np
import pytest
import torch
from conftest import drop_scene
from touch_scenes import AWAY, height, place, press_scene

import sensorium as sn
from sensorium.errors import OptionError
from sensorium.sensors.touch.contact_probe import ContactDepthProbe, ContactProbe, KinematicContactProbe
from sensorium.sensors.touch.elastomer import ElastomerDisplacement, ElastomerTaxel
from sensorium.sensors.touch.proximity import Proximity
from sensorium.sensors.touch.tactile_array import TactileArray
from sensorium.testing import SensorContract

# -- contact probes ----------------------------------------------------------------------------------------------------


def test_depth_of_a_probe_sphere():
    scene = press_scene()
    options = {"link": "pad", "pos": (0, 0, 0.01), "positions": ((0, 0, 0), (0.03, 0, 0)), "radius": (0.004, 0.03)}
    around = scene.add_sensor(ContactDepthProbe(uuid="around", **options))
    up = scene.add_sensor(ContactDepthProbe(uuid="up", normals=(0, 0, 2.0), **options))
    down = scene.add_sensor(ContactDepthProbe(uuid="down", normals=(0, 0, -1.0), **options))
    scene.build()
    for z in (0.02, 0.013, 0.011, 0.009):
        place(scene, z=z)
        scene.step()
        straight = max(0.004 - (z - 0.01), 0)
        slanted = 0.03 - (np.hypot(0.03, z) - 0.01)
        assert around.read()[0].tolist() == pytest.approx([straight, slanted], abs=1e-8)
        assert up.read()[0].tolist() == pytest.approx([straight, slanted * z / np.hypot(0.03, z)], abs=1e-8)
        assert not down.read().any()


def test_switch_closes_and_opens_at_its_thresholds():
    """The indenter goes down and up, at a different speed in each env."""
    scene = press_scene()
    thresholds = {"contact_threshold": 0.002, "release_threshold": 0.001}
    switch = scene.add_sensor(ContactProbe(link="pad", pos=(0, 0, 0.01), radius=0.004, **thresholds))
    depth = scene.add_sensor(ContactDepthProbe(link="pad", pos=(0, 0, 0.01), radius=0.004))
    scene.build(n_envs=2)
    scene["indenter"].set_joint_positions([0, 0, 0.02 - AWAY, 0])
    scene["indenter"].set_joint_velocities([[0, 0, -0.0313, 0], [0, 0, -0.0171, 0]])
    closed, kept = np.zeros(2, bool), 0
    for step in range(110):
        if step == 55:
            scene["indenter"].set_joint_velocities([[0, 0, 0.0313, 0], [0, 0, 0.0171, 0]])
        scene.step()
        now = depth.read_ground_truth()[:, 0].numpy()
        assert now == pytest.approx(np.maximum(0.014 - height(scene), 0), abs=1e-8)
        closed = np.where(closed, now >= 0.001, now >= 0.002)
        kept += int((closed & (now < 0.002)).any())
        assert switch.read()[:, 0].tolist() == switch.read_ground_truth()[:, 0].tolist() == closed.tolist()
        if step == 54:
            assert closed.all()
    assert kept > 2  # it stayed closed between the thresholds
    assert not closed.any()


def test_hysteresis_prevents_bouncing_of_a_noisy_switch():
    scene = press_scene()
    common = {"link": "pad", "pos": (0, 0, 0.01), "radius": 0.004, "noise": 0.0002, "contact_threshold": 0.002}
    bare = scene.add_sensor(ContactProbe(uuid="bare", **common))
    steady = scene.add_sensor(KinematicContactProbe(uuid="steady", release_threshold=0.0005, **common))
    scene.build(n_envs=50)
    place(scene, z=0.012)
    changes = np.zeros(2)
    before = None
    for _ in range(60):
        scene.step()
        now = torch.cat([bare.read(), steady.read()], dim=1)
        if before is not None:
            changes += (now != before).sum(0).numpy()
        before = now.clone()
        assert bare.read_ground_truth().all()
    assert changes[0] > 1000  # about half of all steps
    assert changes[1] <= 50  # each switch closes once


def test_reset_keeps_the_switches_of_other_envs():
    scene = press_scene()
    thresholds = {"contact_threshold": 0.002, "release_threshold": 0.001}
    switch = scene.add_sensor(ContactProbe(link="pad", pos=(0, 0, 0.01), radius=0.004, **thresholds))
    scene.build(n_envs=2)
    place(scene, z=0.011)
    scene.step()
    place(scene, z=0.0125)  # 1.5 mm deep, between the thresholds
    scene.step()
    assert switch.read().all()
    scene.reset(envs=[0])
    assert switch.read()[:, 0].tolist() == [False, True]
    scene["indenter"].set_joint_positions([0, 0, 0.0125 - AWAY, 0], envs=[0])
    scene.step()
    assert switch.read()[:, 0].tolist() == [False, True] == switch.read_ground_truth()[:, 0].tolist()


# -- several sensors of one class --------------------------------------------------------------------------------------


def test_sensors_of_different_sizes_do_not_affect_each_other():
    """Each sensor reads the same with others of its class and alone."""
    three = ((0.0, 0.0, 0.0), (0.006, 0.0, 0.0), (0.1, 0.0, 0.0))
    probes = [
        ContactProbe(link="pad", pos=(0, 0, 0.01), radius=0.004, uuid="a", contact_threshold=0.001),
        ContactProbe(link="pad", pos=(0, 0, 0.01), radius=0.004, uuid="b", contact_threshold=0.003, positions=three),
    ]
    skin = {"link": "pad", "pos": (0, 0, 0.01), "stiffness": 100.0, "gain_spread": 0.2}
    arrays = [
        TactileArray(**skin, grid=(2, 5), spacing=0.002, uuid="c", crosstalk_length=0.002),
        TactileArray(**skin, positions=three, uuid="d", dead_taxels=(1,)),
        TactileArray(**skin, grid=(7, 3), spacing=0.002, uuid="e", crosstalk_length=0.004, relaxation_fraction=1.0),
    ]
    gels = [
        ElastomerDisplacement(link="pad", pos=(0, 0, 0.01), grid=(3, 8), size=(0.01, 0.01), uuid="f"),
        ElastomerDisplacement(link="pad", pos=(0, 0, 0.01), grid=(6, 2), size=(0.01, 0.01), uuid="g"),
    ]

    def run(*options):
        scene = press_scene()
        sensors = [scene.add_sensor(one) for one in options]
        scene.build(n_envs=2)
        place(scene, z=0.0115, velocity=(0.01, 0, -0.1, 0))
        scene.step(count=4)
        readings = [sensor.read() for sensor in sensors]
        return [reading if isinstance(reading, torch.Tensor) else torch.cat(reading, 2) for reading in readings]

    together = run(*probes, *arrays, *gels)
    assert together[0].tolist() == [[True]] * 2
    assert together[1].tolist() == [[True, True, False]] * 2
    assert not together[3][:, 1].any()
    for options, reading in zip((*probes, *arrays, *gels), together, strict=True):
        assert reading.any()
        assert torch.equal(run(options)[0], reading)


# -- options -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda: TactileArray(link="pad"), "either grid=.rows, columns. with a spacing, or positions"),
        (lambda: TactileArray(link="pad", grid=(4, 4)), "grid and spacing must be given together"),
        (lambda: TactileArray(link="pad", grid=(4, 0), spacing=0.1), "at least one row"),
        (lambda: TactileArray(link="pad", grid=(2, 2), spacing=0.1, friction=0.3), "friction needs stiffness"),
        (lambda: TactileArray(link="pad", grid=(2, 2), spacing=0.1, dead_taxels=(4,)), r"lie in \[0, 4\), got 4"),
        (lambda: TactileArray(link="pad", grid=(2, 2), spacing=0.1, normals=(0, 0, 0)), "zero vectors"),
        (lambda: TactileArray(link="pad", grid=(2, 2), spacing=0.1, crosstalk_kernel=((1.0,),)), "must be 4 x 4"),
        (
            lambda: TactileArray(link="p", positions=((0, 0, 0),), crosstalk_kernel=((1.0,),), crosstalk_length=0.1),
            "give only one",
        ),
        (lambda: ContactProbe(link="pad", release_threshold=0.1), "release_threshold must be <= contact_threshold"),
        (lambda: ContactDepthProbe(link="pad", radius=(0.1, 0.2)), "one for each of the 1 probes, got 2"),
        (lambda: ContactDepthProbe(link="pad", radius=-0.1), "must be >= 0"),
        (lambda: ElastomerTaxel(link="pad", poisson_ratio=0.6), "poisson_ratio"),
        (lambda: ElastomerTaxel(link="pad", size=(0.0, 0.1)), "size must be > 0"),
    ],
)
def test_wrong_options_are_rejected(make, text):
    with pytest.raises(OptionError, match=text):
        make()


# -- contract ----------------------------------------------------------------------------------------------------------


class FallingContract:
    """Scene of the sensor contract: a box that falls on the ground, with sensors on its lower face."""

    below: ClassVar = {"link": "box", "pos": (0, 0, -0.1), "euler": (np.pi, 0, 0)}
    steps = 25

    def make_scene(self):
        return drop_scene(height=0.13)


class TestProximity(FallingContract, SensorContract):
    imperfections: ClassVar = {"noise": 0.01, "random_walk": 0.01}

    def make_options(self, **options):
        return Proximity(**self.below, positions=((0, 0, 0), (0.1, 0, 0)), frame="sensor", **options)


class TestContactDepthProbe(FallingContract, SensorContract):
    imperfections: ClassVar = {"noise": 0.001, "relaxation_fraction": 0.5, "gain_spread": 0.1}

    def make_options(self, **options):
        return ContactDepthProbe(**self.below, positions=((0, 0, 0), (0.1, 0, 0)), radius=0.01, **options)


class TestContactProbe(FallingContract, SensorContract):
    imperfections: ClassVar = {"noise": 0.004, "bias": 0.001}

    def make_options(self, **options):
        thresholds = {"contact_threshold": 0.006, "release_threshold": 0.003}
        probes = {"positions": ((0, 0, 0), (0.1, 0, 0)), "normals": (0, 0, 1.0), "radius": 0.01}
        return ContactProbe(**self.below, **thresholds, **probes, **options)


class TestTactileArray(FallingContract, SensorContract):
    imperfections: ClassVar = {
        "noise": 0.1,
        "random_walk": 0.1,
        "relaxation_fraction": 0.5,
        "gain_spread": 0.1,
        "dead_fraction": 0.2,
    }

    def make_options(self, **options):
        return TactileArray(**self.below, grid=(3, 4), spacing=0.03, crosstalk_length=0.02, **options)


class TestSpringArray(TestTactileArray):
    def make_scene(self):
        scene = drop_scene(height=0.13)
        scene.add_object(sn.Box(), name="far", pos=(1, 0, 0.12), free=True)
        return scene

    def make_options(self, **options):
        law = {"stiffness": 500.0, "damping": 1.0, "exponent": 1.2, "radius": 0.005}
        return TactileArray(**self.below, **law, grid=(3, 4), spacing=0.03, **options)


class TestElastomer(FallingContract, SensorContract):
    imperfections: ClassVar = {"noise": 1e-4, "relaxation_fraction": 0.5, "dead_fraction": 0.2}

    def make_options(self, **options):
        return ElastomerDisplacement(**(self.below | {"pos": (0, 0, -0.101)}), grid=(3, 4), size=(0.1, 0.1), **options)
