"""Temperature grids against closed forms, and through the sensor contract."""

import math
from typing import ClassVar

import numpy as np
import pytest
import torch
from conftest import drop_scene

import sensorium as sn
from sensorium.sensors.thermal.material import MATERIALS, Material
from sensorium.sensors.thermal.temperature_grid import TemperatureGrid
from sensorium.testing import SensorContract

STILL = {"convection": 0.0}
BARE = Material(conductivity=200, density=2700, heat_capacity=900, emissivity=0.0, hardness=1e9)


def start(*options, n_envs=1, size=(0.1, 0.1, 0.1), dt=0.1, **scene_options):
    """Return a scene with one floating box, and its sensors."""
    scene = sn.Scene(dt=dt, substeps=1, **{"gravity": (0, 0, 0), **scene_options})
    scene.add_object(sn.Box(size=size), name="base", free=True)
    sensors = [scene.add_sensor(one) for one in options]
    scene.build(n_envs=n_envs)
    return scene, *sensors


def test_default_grid_stays_at_ambient_temperature():
    scene, heat = start(TemperatureGrid(link="base", grid_size=(4, 4, 1), sensor_time_constant=0.5), n_envs=3)
    assert heat.read().shape == (3, 4, 4, 1)
    assert heat.read().dtype == torch.float32
    scene.step(5)
    assert torch.equal(heat.read(), torch.full((3, 4, 4, 1), 20.0)), "the link is in equilibrium with its surroundings"


def test_uniform_grid_cools_exponentially():
    """At a Biot number of 1e-3, T - T_ambient falls as exp(-h A t / (rho c V))."""
    options = TemperatureGrid(
        link="base", grid_size=(3, 3, 3), convection=20.0, materials={"base": BARE}, temperatures={"base": 80.0}
    )
    scene, heat = start(options, dt=1.0)
    tau = 2700 * 900 * 0.1**3 / (20.0 * 6 * 0.1**2)
    assert heat.read().unique().tolist() == [80.0]
    for time in (100, 1000):
        scene.step(time - round(scene.time.item()))
        expected = 20 + 60 * math.exp(-time / tau)
        assert heat.read().mean().item() == pytest.approx(expected, abs=0.1)
        assert heat.read().max() - heat.read().min() < 0.5


def test_thin_plate_cools_by_radiation():
    """Without air, dT/dt = -eps sigma A T⁴ / (m c), so T⁻³ grows linearly."""
    black = Material(conductivity=400, density=1000, heat_capacity=500, emissivity=1.0)
    options = TemperatureGrid(
        link="base", materials={"base": black}, temperatures={"base": 500.0}, ambient=-273.1, **STILL
    )
    scene, heat = start(options, size=(0.1, 0.1, 0.002), dt=0.5)
    surface, mass = 2 * (0.1 * 0.1 + 2 * 0.1 * 0.002), 1000 * 0.1 * 0.1 * 0.002
    scene.step(200)
    rate = 3 * 5.670374e-8 * surface / (mass * 500)
    expected = (773.15**-3 + rate * 100) ** (-1 / 3) - 273.15
    assert expected < 250
    assert heat.read().item() == pytest.approx(expected, abs=1.0)


def test_heated_bar_has_a_cosh_profile():
    """A thin bar that is heated at one end and cooled by air along its length has a cosh profile."""
    n, length, side, power = 40, 0.4, 0.01, 5.0
    material = Material(conductivity=150, density=500, heat_capacity=100, emissivity=0.0)
    heat_in = [power] + [0.0] * (n - 1)
    options = TemperatureGrid(
        link="base", grid_size=(n, 1, 1), heat=tuple(heat_in), convection=40.0, materials={"base": material}
    )
    scene, heat = start(options, size=(length, side, side), dt=1.0)
    scene.step(300)
    got = heat.read()[0, :, 0, 0].double().numpy() - 20
    m = math.sqrt(40.0 * 4 * side / (150 * side**2))
    x = (np.arange(n) + 0.5) * length / n
    # the end faces exchange heat, too: lengthen the far end by a quarter of the side, and reduce the power at the near
    far = length + side / 4
    near = math.tanh(m * far)
    excess = power / (math.sqrt(40.0 * 4 * side * 150 * side**2) * near)
    excess /= 1 + 40.0 * side**2 * excess / power
    expected = excess * np.cosh(m * (far - x)) / math.cosh(m * far)
    assert got == pytest.approx(expected, rel=0.01)


def test_insulated_bar_has_a_linear_profile():
    """With the same heat flow into one end and out of the other, the slope is q / (k A)."""
    n, power = 10, 2.0
    material = Material(conductivity=50, density=500, heat_capacity=100, emissivity=0.0)
    watts = np.zeros((1, n, 1))
    watts[0, 0], watts[0, -1] = power, -power
    options = TemperatureGrid(
        link="base", grid_size=(1, n, 1), heat=watts.tolist(), materials={"base": material}, **STILL
    )
    scene, heat = start(options, size=(0.02, 0.2, 0.01), dt=1.0)
    scene.step(500)
    got = heat.read()[0, 0, :, 0].double().numpy()
    slope = -power / (50 * 0.02 * 0.01)
    assert np.diff(got) / 0.02 == pytest.approx(np.full(n - 1, slope), rel=1e-3)
    assert got.mean() == pytest.approx(20.0, abs=1e-3), "heat is conserved"


def test_heat_sources_warm_their_cells():
    scene, heat = start(
        TemperatureGrid(link="base", grid_size=(2, 1, 1), heat=3.0, materials={"base": BARE}, **STILL), n_envs=2
    )
    capacity = 2700 * 900 * 0.1**3
    scene.step(100)
    assert heat.read().flatten().tolist() == pytest.approx([20 + 6 * 10 / capacity] * 4, abs=1e-4)
    heat.set(heat=[[[0.0]], [[1000.0]]], envs=[1])
    scene.step(10)
    one, other = heat.read()[1, :, 0, 0].tolist()
    assert other - one > 0.5
    assert (one + other) / 2 == pytest.approx(20 + (6 * 10 + 1000) / capacity, abs=1e-3)
    assert heat.read()[0].flatten().tolist() == pytest.approx([20 + 6 * 11 / capacity] * 2, abs=1e-4)
    with pytest.raises(sn.OptionError, match="heat"):
        heat.set(heat=[1.0, 2.0, 3.0])


def stack(*options, n_envs=1, dt=0.05):
    """Return a scene with a block on a plate on the ground, and its sensors."""
    scene = sn.Scene(dt=dt, substeps=5)
    scene.add_object(sn.Plane(), name="ground")
    scene.add_object(sn.Box(size=(0.2, 0.2, 0.02), mass=5.0), name="plate", pos=(0, 0, 0.0099), free=True)
    scene.add_object(sn.Box(size=(0.1, 0.1, 0.1), mass=2.0), name="block", pos=(0.05, 0.05, 0.0697), free=True)
    sensors = [scene.add_sensor(one) for one in options]
    scene.build(n_envs=n_envs)
    return scene, *sensors


def light(name):
    """Return a material with a tenth of the density (ten times as fast) and without radiation."""
    return MATERIALS[name].model_copy(update={"emissivity": 0.0, "density": MATERIALS[name].density / 10})


@pytest.mark.parametrize("gridded", [True, False])
def test_two_bodies_conserve_energy_and_reach_the_weighted_mean(gridded):
    """A block at 80 °C on a plate at 20 °C, insulated from everything else."""
    common = {
        "materials": {"plate": light("aluminium"), "block": light("copper")},
        "temperatures": {"block": 80.0},
        "contact_area": 1e-5,
        **STILL,
    }
    plate = TemperatureGrid(link="plate", grid_size=(4, 4, 1), touching=("block",), **common)
    block = TemperatureGrid(link="block", grid_size=(2, 2, 2), touching=("plate",), convection=0.0)
    scene, *sensors = stack(*([plate, block] if gridded else [plate]))
    cold = 270 * 896 * 0.2 * 0.2 * 0.02
    hot = 894 * 385 * 0.1**3
    mean = (cold * 20 + hot * 80) / (cold + hot)
    for count in (10, 4000):
        scene.step(count)
        if gridded:
            energy = cold * sensors[0].read().double().mean() + hot * sensors[1].read().double().mean()
            assert energy.item() == pytest.approx(cold * 20 + hot * 80, rel=1e-6)
        if count == 10:
            near, far = sensors[0].read()[0, 3, 3, 0], sensors[0].read()[0, 0, 0, 0]
            assert near > mean > far, "the plate is warmest below the block"
    for sensor in sensors:
        assert sensor.read().flatten().tolist() == pytest.approx([mean] * sensor.read().numel(), abs=0.1)


def test_contact_conductance_follows_force_and_hardness():
    """A block on cold ground has the conductance k_s / l * (weight / hardness)."""
    soft = Material(conductivity=0.4, density=1000, heat_capacity=1000, emissivity=0.0, hardness=2e6)
    hard = Material(conductivity=1.2, density=2000, heat_capacity=800, emissivity=0.0, hardness=9e9)
    scene = sn.Scene(dt=0.05, substeps=10)
    scene.add_object(sn.Plane(), name="ground")
    scene.add_object(sn.Box(size=(0.1, 0.1, 0.1), mass=2.0), name="block", pos=(0, 0, 0.0499), free=True)
    options = TemperatureGrid(
        link="block",
        materials={"block": soft, "ground": hard},
        temperatures={"block": 70.0, "ground": 10.0},
        asperity_length=1e-6,
        **STILL,
    )
    heat = scene.add_sensor(options)
    scene.build()
    scene.step(40)
    before = heat.read().item()
    scene.step(200)
    conductance = 2 * 0.4 * 1.2 / (0.4 + 1.2) / 1e-6 * (2.0 * 9.81 / 2e6)
    tau = 1000 * 1000 * 0.1**3 / conductance
    assert heat.read().item() == pytest.approx(10 + (before - 10) * math.exp(-10 / tau), abs=0.02)
    assert before - heat.read().item() > 1.0


def test_separate_bodies_exchange_no_heat():
    scene = sn.Scene(dt=0.05, substeps=1, gravity=(0, 0, 0))
    for name, x in (("one", 0.0), ("two", 0.101)):
        scene.add_object(sn.Box(size=(0.1, 0.1, 0.1)), name=name, pos=(x, 0, 0), free=True)
    heat = scene.add_sensor(TemperatureGrid(link="one", temperatures={"two": 90.0}))
    scene.build()
    scene.step(100)
    assert heat.read().item() == 20.0


def test_sensing_element_lags_with_its_time_constant():
    """Only the measured branch lags, as 1 - exp(-t / tau); it starts at the link's temperature, not at 0."""
    tau = 0.4
    heavy = Material(conductivity=200, density=1e6, heat_capacity=1e6, emissivity=0.0)
    options = TemperatureGrid(
        link="base", sensor_time_constant=tau, materials={"base": heavy}, temperatures={"base": 50.0}, **STILL
    )
    scene, heat = start(options, n_envs=2, dt=0.02)
    assert heat.read().flatten().tolist() == [50.0, 50.0]
    jump = 1e6 * 1e6 * 0.1**3 * 30.0 / 0.02  # W that warm the link by 30 °C in one step
    heat.set(heat=jump)
    heat.set(sensor_time_constant=0.1, envs=[1])
    scene.step()
    heat.set(heat=0.0)
    for step in range(1, 40):
        assert heat.read_ground_truth().flatten().tolist() == pytest.approx([80.0, 80.0], abs=1e-3)
        expected = [50 + 30 * (1 - math.exp(-step * 0.02 / constant)) for constant in (tau, 0.1)]
        assert heat.read().flatten().tolist() == pytest.approx(expected, abs=1e-3)
        scene.step()
    scene.reset(envs=[0])
    assert heat.read().flatten().tolist() == pytest.approx([50.0, 80.0], abs=0.1)


def test_reset_restores_initial_temperatures_of_those_envs_only():
    options = TemperatureGrid(link="plate", grid_size=(2, 2, 1), temperatures={"block": 90.0}, touching=("block",))
    scene, heat = stack(options, n_envs=3)
    scene.step(100)
    before = heat.read().clone()
    assert before.max() > 20.005
    heat.set(ambient=35.0, envs=[1])
    scene.reset(envs=[1])
    assert heat.read()[1].unique().tolist() == [35.0], "the link is at the ambient temperature of its env"
    assert torch.equal(heat.read()[[0, 2]], before[[0, 2]])
    scene.step(100)
    assert heat.read()[1].max() > 35.003, "the block is hot again"


def test_stiff_grids_are_stable():
    """Copper cells of 0.1 mm thickness, at a step of 0.1 s."""
    options = TemperatureGrid(link="base", grid_size=(3, 3, 2), heat=(1.0,) + (0.0,) * 17, materials={"base": "copper"})
    scene, heat = start(options, size=(0.003, 0.003, 0.0002))
    scene.step(5)
    assert torch.isfinite(heat.read()).all()
    assert heat.read()[0, 0, 0, 0] == heat.read().max()
    assert 20 < heat.read().min() < heat.read().max() < 1000


def test_wrong_names_and_values_are_rejected():
    with pytest.raises(sn.OptionError, match="did you mean 'steel'"):
        TemperatureGrid(link="base", materials={"base": "steal"})
    with pytest.raises(sn.OptionError, match=r"one number, or 4 numbers"):
        TemperatureGrid(link="base", grid_size=(2, 2, 1), heat=(1.0, 2.0))
    with pytest.raises(sn.OptionError, match="grid_size must be >= 1"):
        TemperatureGrid(link="base", grid_size=(2, 0, 1))
    with pytest.raises(sn.OptionError, match=r"must be > -273\.15"):
        TemperatureGrid(link="base", temperatures={"base": -300.0})
    with pytest.raises(sn.errors.NameNotFoundError, match="did you mean 'base'"):
        start(TemperatureGrid(link="base", temperatures={"bas": 30.0}))
    with pytest.raises(sn.OptionError, match="one grid per link"):
        start(TemperatureGrid(link="base"), TemperatureGrid(link="base", uuid="second"))
    with pytest.raises(sn.OptionError, match="no bounding box"):
        stack(TemperatureGrid(link="ground"))
    with pytest.raises(sn.OptionError, match="has another value"):
        stack(
            TemperatureGrid(link="plate", materials={"block": "wood"}),
            TemperatureGrid(link="block", materials={"block": "steel"}),
        )


def test_grid_spans_the_bounding_box_of_rotated_geoms():
    """The grid of a link with two geoms spans both, and contacts heat the right cells."""
    scene = sn.Scene(dt=0.05, substeps=5)
    rail = """<mujoco><worldbody><body name="rail" pos="0 0 0.05">
    <geom type="box" size="0.05 0.05 0.05" pos="-0.35 0 0"/>
    <geom type="capsule" size="0.05 0.35" pos="0.05 0 0" euler="0 90 0"/></body></worldbody></mujoco>"""
    scene.add_object(rail, name="bench")
    scene.add_object(sn.Box(size=(0.08, 0.08, 0.08), mass=1.0), name="hot", pos=(-0.35, 0, 0.1399), free=True)
    # from -0.4 to 0.45 along x: 17 cells of 5 cm, the hot box rests on the second one
    options = TemperatureGrid(
        link="rail", grid_size=(17, 1, 1), temperatures={"hot": 300.0}, contact_area=1e-5, materials={"rail": "plastic"}
    )
    heat = scene.add_sensor(options)
    scene.build()
    scene.step(20)
    warm = heat.read()[0, :, 0, 0]
    assert warm.argmax().item() in (0, 1)
    assert warm[:2].min() > 20.2
    assert warm[4:].max() < 20.01


class TestTemperatureGrid(SensorContract):
    imperfections: ClassVar = {"noise": 0.1, "random_walk": 0.05, "resolution": 0.01}

    def make_scene(self):
        scene = drop_scene(height=0.11)
        scene.add_object(sn.Box(), name="else", pos=(2, 0, 1.0), free=True)
        return scene

    def make_options(self, **options):
        link = "else" if options.get("uuid") == "other" else "box"
        return TemperatureGrid(
            link=link,
            grid_size=(2, 2, 1),
            sensor_time_constant=0.05,
            touching=("plane",),
            temperatures={"plane": 80.0},
            contact_area=1e-3,
            **options,
        )
