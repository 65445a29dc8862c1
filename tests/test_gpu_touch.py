"""Sensors of touch and temperature on the GPU world: the same readings as on the CPU. Needs CUDA."""

from typing import ClassVar

import pytest
import torch
from test_gpu_catalogue import follow
from touch_everywhere import HEAT, PRESSES, PROBES, Agreement, press, press_scene, probes_scene

import sensorium as sn
from sensorium.testing import SensorContract, flat

pytestmark = pytest.mark.gpu


class OnGpu(SensorContract):
    """A ball that falls, and a pad below it."""

    __test__ = False
    device: ClassVar[str] = "cuda"

    def make_scene(self):
        scene = sn.Scene(dt=0.01, substeps=2)
        scene.add_object(sn.Plane())
        scene.add_object(sn.Sphere(radius=0.1, mass=1.0), name="ball", pos=(0, 0, 0.2), free=True)
        return scene


class TestProximity(OnGpu):
    __test__ = True
    imperfections: ClassVar = {"noise": 0.01, "random_walk": 0.01, "resolution": 0.001}

    def make_options(self, **options):
        return sn.Proximity(link="ball", positions=((0, 0, 0), (0.1, 0, 0)), max_range=1.0, **options)


class TestContactProbe(OnGpu):
    __test__ = True
    imperfections: ClassVar = {"noise": 0.05, "random_walk": 0.05}

    def make_options(self, **options):
        return sn.ContactProbe(link="ball", radius=0.2, contact_threshold=0.05, release_threshold=0.03, **options)


class TestTactileArray(OnGpu):
    __test__ = True
    imperfections: ClassVar = {"noise": 0.05, "gain_spread": 0.2, "relaxation_fraction": 0.3}

    def make_options(self, **options):
        down = {"pos": (0, 0, -0.1), "euler": (3.141592653589793, 0, 0)}
        return sn.TactileArray(link="ball", grid=(4, 4), spacing=0.01, radius=0.01, **down, **options)


class TestElastomer(OnGpu):
    __test__ = True
    imperfections: ClassVar = {"noise": 1e-4, "gain_spread": 0.2, "dead_fraction": 0.3}

    def make_options(self, **options):
        down = {"pos": (0, 0, -0.11), "euler": (3.141592653589793, 0, 0)}
        return sn.ElastomerDisplacement(link="ball", grid=(4, 5), thickness=0.02, **down, **options)


class TestTemperatureGrid(OnGpu):
    __test__ = True
    imperfections: ClassVar = {"noise": 0.1, "random_walk": 0.05, "resolution": 0.01}

    def make_scene(self):
        scene = super().make_scene()
        scene.add_object(sn.Box(), name="else", pos=(2, 0, 1.0), free=True)
        return scene

    def make_options(self, **options):
        link = "else" if options.get("uuid") == "other" else "ball"
        heat = {"temperatures": {"plane": 80.0}, "contact_area": 1e-3, "touching": ("plane",)}
        return sn.TemperatureGrid(link=link, grid_size=(2, 2, 1), sensor_time_constant=0.05, **heat, **options)


def test_probes_read_the_same_as_on_the_cpu():
    """Every sensor and kind of geom, imperfections, delays, parameters and resets per env."""
    cpu, gpu = probes_scene(n_envs=16), probes_scene(n_envs=16, device="cuda")
    assert "after the graph" not in gpu.describe()

    def between(scene, step):
        if step == 8:
            scene.reset(envs=torch.arange(16, device=scene.world.device) % 5 == 0)
        if step == 12:
            scene["springs"].set(gain_spread=0.5, noise=0.0, envs=[0, 3])
            scene["any"].set(dead_fraction=0.0, relaxation_fraction=0.0)
            scene["gel"].set(relaxation_time=0.5, dead_fraction=0.8, envs=[2])

    agreement = Agreement()
    follow(cpu, gpu, 30, agreement, between)
    agreement.finish()


@pytest.mark.parametrize("sensors", [PRESSES, HEAT], ids=["wrenches", "temperatures"])
def test_contacts_are_felt_as_on_the_cpu(sensors):
    cpu, gpu = (press_scene(n_envs=16, device=device, sensors=sensors) for device in ("cpu", "cuda"))
    assert "after the graph" not in gpu.describe()

    def between(scene, step):
        if step == 30:
            scene.reset(envs=[1, 7])
            press(scene)
        if step == 40 and sensors is PRESSES:
            scene["skin"].set(gain_spread=0.5, dead_fraction=0.3, envs=[3])
        if step == 40 and sensors is HEAT:
            scene["warm"].set(ambient=0.0, sensor_time_constant=0.5, envs=[3])

    agreement = Agreement()
    follow(cpu, gpu, 60, agreement, between)
    agreement.finish()


def test_forces_of_taxels_add_up_to_the_contact_force():
    """In every env, with 32 lanes per sensor and a number of taxels that they do not divide."""
    taxels = {"link": "finger", "pos": (0, 0, -0.0095), "euler": (3.141592653589793, 0, 0)}
    sensors = (
        sn.TactileArray(uuid="skin", grid=(7, 7), spacing=0.005, tracked="box", **taxels),
        sn.ContactForce(uuid="force", link="finger", euler=taxels["euler"], touching="box"),
    )
    scene = press_scene(n_envs=500, device="cuda", sensors=sensors)
    for _ in range(60):
        scene.step()
    total, force = scene["skin"].read().force.sum(1), scene["force"].read()
    assert (force[:, 2] < -1.0).all(), "the finger presses"
    torch.testing.assert_close(total, force, rtol=1e-3, atol=1e-3)


def test_reset_by_a_mask_keeps_the_other_envs():
    scene = probes_scene(n_envs=64, device="cuda")
    for _ in range(9):
        scene.step()
    before = {uuid: flat(sensor.read()).clone() for uuid, sensor in scene.sensors.items()}
    mask = torch.arange(64, device="cuda") % 7 == 2
    scene.reset(mask)
    for uuid, old in before.items():
        assert torch.equal(flat(scene[uuid].read())[~mask], old[~mask]), uuid


def test_random_numbers_have_the_bits_of_the_cpu():
    """Probes that reach nothing: readings are those of the imperfections alone."""
    far = {"link": "eye", "pos": (0, 0, 40.0), "noise": 0.1, "random_walk": 0.1, "bias_spread": 1.0}
    skin = {"gain_spread": 0.3, "dead_fraction": 0.3, "crosstalk_length": 0.01, "delay": 0.02, "jitter": 0.02}
    sensors = (
        sn.ContactDepthProbe(uuid="depth", **far, **skin),
        sn.TactileArray(uuid="array", grid=(3, 3), spacing=0.01, stiffness=1.0, **far, **skin),
        sn.ElastomerDisplacement(uuid="gel", grid=(3, 3), **far, **skin),
    )
    cpu, gpu = (probes_scene(n_envs=64, device=device, sensors=sensors) for device in ("cpu", "cuda"))
    for step in range(12):
        for one in (cpu, gpu):
            one.step()
            if step == 6:
                one.reset(envs=[2])
        for uuid in ("depth", "array", "gel"):
            assert torch.equal(flat(gpu[uuid].read()).cpu(), flat(cpu[uuid].read())), f"{uuid} at step {step}"


def test_readings_do_not_depend_on_the_number_of_envs():
    few, many = (probes_scene(n_envs=n, device="cuda", sensors=PROBES) for n in (3, 40))
    many.world.bind("qvel")[:3] = few.world.bind("qvel")
    many.forward()
    for _ in range(5):
        for scene in (few, many):
            scene.step()
    agreement = Agreement()
    for uuid in ("near", "any", "along", "springs", "gel"):
        for name, a, b in zip(
            getattr(few[uuid].read(), "_fields", ("value",)), _all(few[uuid]), _all(many[uuid]), strict=True
        ):
            agreement(f"{uuid}.{name}", uuid, a.cpu(), b[:3].cpu())


def _all(sensor):
    reading = sensor.read()
    return reading if isinstance(reading, tuple) else (reading,)
