"""Options of the physics: each acts as its closed form says, engines refuse what they lack, and files keep them."""

import math
import warnings

import numpy as np
import pytest
from conftest import ARM, drop_scene
from contact_scenes import SCENES
from damage import edited_config

import sensorium as sn
from sensorium.worlds.physics_options import check_gpu_options, on_device

DEVICES = ["cpu", pytest.param("cuda", marks=pytest.mark.gpu)]
G = 9.81
CART = """
<mujoco model="cart"><worldbody><body name="cart"><joint name="x" type="slide" axis="1 0 0" range="-.1 .1"/>
<geom type="box" size=".1 .1 .1" mass="2" contype="0" conaffinity="0"/></body></worldbody>
<actuator><motor name="m" joint="x" ctrlrange="-1 1"/></actuator></mujoco>
"""
SOLVER = {"solver": "cg", "iterations": 17, "ls_iterations": 7, "tolerance": 1e-5, "ls_tolerance": 0.02}
SOLVER |= {"noslip_iterations": 3, "jacobian": "sparse", "cone": "elliptic", "impratio": 5.0}
SOLVER |= {"integrator": "implicitfast", "disable": ("eulerdamp", "island"), "enable": ("energy",)}


def cube(device="cpu", **options):
    """Return a built scene with a cube of 0.2 m and 2 kg in free fall."""
    scene = sn.Scene(**{"dt": 0.1, "substeps": 100, **options})
    scene.add_object(sn.Box(size=(0.2, 0.2, 0.2), mass=2.0), name="box", pos=(0, 0, 1), free=True)
    scene.build(device=device)
    return scene


def cart(device="cpu", **options):
    scene = sn.Scene(**{"dt": 0.1, "substeps": 100, **options})
    scene.add_robot(CART, name="cart")
    scene.build(device=device)
    scene["cart"].set_ctrl(3.0)
    scene.step()
    return float(scene.world.bind("qvel")[0, 0])


def velocity(scene):
    return scene.world.bind("qvel")[0].double().cpu().numpy()


def test_every_option_arrives_in_the_model():
    scene = drop_scene(wind=(1, 2, 3), density=1.2, viscosity=2e-5, **SOLVER)
    scene.build()
    option = scene.model.opt
    numbers = {name: value for name, value in SOLVER.items() if isinstance(value, int | float)}
    assert numbers == {name: pytest.approx(getattr(option, name)) for name in numbers}
    assert (option.solver, option.jacobian, option.cone, option.integrator) == (1, 1, 1, 3)
    assert (option.disableflags, option.enableflags) == (32768 | 262144, 2)
    assert (option.wind.tolist(), option.density, option.viscosity) == ([1, 2, 3], 1.2, 2e-5)


def test_every_option_arrives_in_mujoco_warp():
    wp, mjw = pytest.importorskip("warp"), pytest.importorskip("mujoco_warp")
    scene = drop_scene(wind=(1, 2, 3), density=1.2, **SOLVER)
    check_gpu_options(scene.options)
    scene.build()
    with wp.ScopedDevice("cpu"):
        m = mjw.put_model(scene.model)
    assert (m.opt.iterations, m.opt.ls_iterations, m.opt.noslip_iterations, m.opt.solver) == (17, 7, 3, 1)
    assert (m.opt.disableflags, m.opt.enableflags, m.is_sparse, m.has_fluid) == (32768 | 262144, 2, True, True)
    assert m.opt.tolerance.numpy()[0] == pytest.approx(1e-5)


@pytest.mark.parametrize("device", DEVICES)
def test_viscosity_carries_a_cube_with_the_wind(device):
    """MuJoCo's drag of a cube is 3 π times viscosity, edge and velocity relative to the wind."""
    scene = cube(device, gravity=(0, 0, 0), wind=(2.0, 0, 0), viscosity=4.0)
    scene.step(3)
    assert velocity(scene)[0] == pytest.approx(2.0 * (1 - math.exp(-3 * math.pi * 4.0 * 0.2 * 0.3 / 2)), rel=0.01)


@pytest.mark.parametrize("device", DEVICES)
def test_density_slows_a_cube_with_the_square_of_its_speed(device):
    scene = cube(device, gravity=(0, 0, 0), density=100.0)
    scene.world.bind("qvel")[:, 0] = 3.0
    scene.forward()
    scene.step(5)
    rate = 0.5 * 100.0 * 0.2**2 / 2.0  # half the density times the area, divided by the mass
    assert velocity(scene)[0] == pytest.approx(3.0 / (1 + rate * 3.0 * 0.5), rel=0.01)


@pytest.mark.parametrize("device", DEVICES)
def test_flags_disable_parts_of_the_physics(device):
    scene = cube(device, disable=("gravity",))
    scene.step()
    assert velocity(scene)[2] == 0.0
    for disable, expected in ((("contact",), -G * 0.3), ((), 0.0)):
        scene = drop_scene(height=0.1, dt=0.1, substeps=100, disable=disable)
        scene.build(device=device)
        scene.step(3)
        assert velocity(scene)[2] == pytest.approx(expected, rel=0.01, abs=0.01)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, 0.05),  # the control is clamped to 1 N
        ({"disable": ("clampctrl",)}, 0.15),
        ({"disable": ("actuation",)}, 0.0),
    ],
)
def test_flags_of_actuators(options, expected, device):
    assert cart(device, **options) == pytest.approx(expected, rel=1e-3)


@pytest.mark.parametrize("device", DEVICES)
def test_the_flag_energy_computes_energy(device):
    scene = cube(device, enable=("energy",))
    scene.step()
    energy = scene.world.bind("energy")[0].double().cpu().numpy()
    drop = 0.5 * G * 0.1**2
    assert energy.sum() == pytest.approx(2.0 * G, rel=1e-3)
    assert energy[1] == pytest.approx(2.0 * G * drop, rel=0.02)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("solver", ["newton", "cg", "pgs"])
@pytest.mark.parametrize("jacobian", ["dense", "sparse"])
def test_every_solver_carries_the_weight_of_a_box(solver, jacobian, device):
    if device == "cuda" and solver == "pgs":
        pytest.skip("the GPU engine has no PGS")
    scene = drop_scene(height=0.1, solver=solver, jacobian=jacobian)
    force = scene.add_sensor(sn.ContactForce(link="box"))
    scene.build(device=device)
    scene.step(100)
    np.testing.assert_allclose(force.read_ground_truth()[0].cpu(), [0, 0, G], atol=0.02)


@pytest.mark.parametrize("device", DEVICES)
def test_noslip_stops_the_creep_of_a_box_on_a_slope(device):
    """Soft friction lets a box creep although the slope is below the friction angle."""
    ways = []
    for iterations in (0, 10):
        tilt = 0.4
        gravity = (G * math.sin(tilt), 0.0, -G * math.cos(tilt))
        scene = drop_scene(height=0.1, gravity=gravity, noslip_iterations=iterations, cone="elliptic")
        scene.build(device=device)
        scene.step(50)
        before = scene["box"].get_pose()[0][0, 0].item()
        scene.step(100)
        ways.append(scene["box"].get_pose()[0][0, 0].item() - before)
    assert ways[0] > 5e-4
    assert abs(ways[1]) < 0.05 * ways[0]


def test_iterations_and_tolerance_limit_the_solver():
    """With one iteration, or a tolerance that any improvement meets, the result of a hard contact problem differs."""
    ends = {}
    for name, options in {"exact": {}, "one": {"iterations": 1}, "loose": {"tolerance": 1.0}, "same": {}}.items():
        scene = sn.Scene(dt=0.02, substeps=4, **options)
        scene.add_object(sn.Plane())
        for i in range(6):
            box = sn.Box(size=(0.1, 0.08, 0.06), mass=0.5)
            scene.add_object(
                box, name=f"box{i}", pos=(0.02 * i, 0, 0.1 + 0.09 * i), euler=(0.4 * i, 0.3 * i, 0), free=True
            )
        scene.build()
        scene.step(25)
        ends[name] = scene.world.bind("qpos").clone()
    assert ends["exact"].equal(ends["same"])
    assert (ends["exact"] - ends["one"]).abs().max() > 1e-3
    assert (ends["exact"] - ends["loose"]).abs().max() > 1e-3


# -- engines ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "cpu", "gpu"),
    [
        ({}, (100, 50), (10, 20)),
        ({"cone": "elliptic"}, (100, 50), (20, 50)),
        ({"solver": "cg"}, (100, 50), (100, 50)),
        ({"iterations": 7}, (7, 50), (7, 20)),
        ({"ls_iterations": 9, "iterations": 100}, (100, 9), (100, 9)),
    ],
)
def test_what_is_not_given_gets_the_default_of_the_engine(options, cpu, gpu):
    scene = sn.Scene(**options)
    for is_gpu, expected in ((False, cpu), (True, gpu)):
        resolved = on_device(scene.options, is_gpu)
        assert (resolved.iterations, resolved.ls_iterations) == expected
    scene.build()
    assert (scene.options.iterations, scene.model.opt.iterations) == (cpu[0], cpu[0])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"solver": "pgs"}, r"solver='pgs' \(it has 'cg', 'newton'\)"),
        ({"disable": ("gravity", "midphase")}, "disable='midphase'"),
        ({"disable": ("nativeccd",)}, "disable='nativeccd'"),
        ({"enable": ("energy", "fwdinv"), "solver": "pgs"}, "solver='pgs' .*, enable='fwdinv'"),
    ],
)
def test_the_gpu_engine_refuses_what_it_lacks_by_name(options, message):
    pytest.importorskip("mujoco_warp")
    with pytest.raises(sn.OptionError, match=rf"MuJoCo Warp, lacks .*{message}\. Remove them"):
        check_gpu_options(sn.Scene(**options).options)


@pytest.mark.parametrize("name", ["iterations", "ls_iterations", "noslip_iterations"])
def test_numbers_that_mujoco_cannot_hold_are_refused(name):
    with pytest.raises(sn.OptionError, match=rf"SceneOptions\.{name} must be <= 2147483647, got 2147483648"):
        sn.Scene(**{name: 2**31})


@pytest.mark.gpu
def test_build_on_a_gpu_refuses_and_a_build_on_the_cpu_still_works():
    scene = drop_scene(solver="pgs")
    with pytest.raises(sn.OptionError, match="solver='pgs'"):
        scene.build(device="cuda")
    scene.build()
    assert scene.options.iterations == 100


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"solver": "neton"}, r"SceneOptions.solver must be .*, got 'neton' \(did you mean 'newton'\?\)"),
        ({"disable": ["gravty"]}, r"disable\[0\] must be .* \(did you mean 'gravity'\?\)"),
        ({"disable": ["sensor"]}, r"disable\[0\] must be .*, got 'sensor'"),
        ({"enable": ["sleep"]}, r"enable\[0\] must be 'energy', .*, got 'sleep'"),
        ({"iterations": 0}, "SceneOptions.iterations must be >= 1, got 0"),
        ({"iterations": True}, "SceneOptions.iterations must be a number, got True"),
        ({"tolerance": -1e-8}, "SceneOptions.tolerance must be >= 0"),
        ({"density": -1.0}, "SceneOptions.density must be >= 0, got -1"),
        ({"wind": (1, 2)}, "SceneOptions.wind: too few values"),
        ({"jacobian": "spars"}, r"did you mean 'sparse'\?"),
    ],
)
def test_wrong_options_raise(options, message):
    with pytest.raises(sn.OptionError, match=message):
        sn.Scene(**options)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("cone", ["pyramidal", "elliptic"])
@pytest.mark.parametrize("name", SCENES)
def test_the_iterations_of_a_gpu_are_enough(name, cone, device):
    """In each step, from the state that 100 iterations led to, they lead to the same velocities.

    A GPU adds up in another order each time. There the difference may be as large as that of two scenes with 100
    iterations: boxes that rest on each other hardly move, and rounding decides how.
    """
    limits = on_device(sn.Scene(cone=cone).options, is_gpu=True)
    scenes = []
    for iterations, ls_iterations in ((100, 50), (limits.iterations, limits.ls_iterations), (100, 50)):
        scene = sn.Scene(dt=0.02, substeps=4, cone=cone, iterations=iterations, ls_iterations=ls_iterations)
        scene.add_object(sn.Plane())
        scenes.append((scene, SCENES[name](scene)))
        scene.build(device=device)
    (exact, control), (tried, _), (again, _) = scenes
    error, noise, speed = np.zeros(3)
    for step in range(40):
        control(step)
        for scene in (tried, again):
            scene.set_state(exact.get_state())
        for scene, _ in scenes:
            scene.step()
        now, other, third = (scene.world.bind("qvel").double() for scene, _ in scenes)
        error += float((now - other).square().mean())
        noise += float((now - third).square().mean())
        speed += float(now.square().mean())
    assert speed > 0
    assert math.sqrt(error / speed) < (1e-9 if device == "cpu" else 0.01 + 3 * math.sqrt(noise / speed))


# -- files ------------------------------------------------------------------------------------------------------------


def recorded(tmp_path, **options):
    scene = drop_scene(**options)
    scene.add_robot(ARM, name="arm", pos=(1, 0, 0), joint_positions={"elbow": 0.04})
    scene.add_contact_pair("box", "plane", friction=0.2)
    scene.exclude_contacts("lower", "box")
    scene.build(n_envs=2)
    with sn.recording.Recorder(scene, tmp_path / "run") as recorder:
        recorder.record(5)
    return scene


def test_a_recording_has_the_physics_of_its_scene(tmp_path):
    scene = recorded(tmp_path, wind=(1, 2, 3), viscosity=0.1, **SOLVER)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        again = sn.recording.Recording(tmp_path / "run").build_scene()
    assert again.options == scene.options
    assert again.contents == scene.contents
    again.step(5)
    assert again.get_state().equal(scene.get_state())


def test_recordings_without_these_options_still_load(tmp_path):
    """Earlier versions had none of them: MuJoCo's defaults, also on a GPU."""
    scene = recorded(tmp_path)
    old = {"dt", "substeps", "gravity", "magnetic_field", "integrator", "cone", "impratio", "exact_sensing", "sky"}
    with edited_config(tmp_path / "run") as config:
        options = config["scene"]["options"]
        config["scene"]["options"] = {name: value for name, value in options.items() if name in {*old, "environments"}}
    recording = sn.recording.Recording(tmp_path / "run")
    loaded = recording.load_scene()
    assert on_device(loaded.options, is_gpu=True).iterations == 100
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        again = recording.build_scene()
    again.step(5)
    assert again.get_state().equal(scene.get_state())
