"""Model fields with values of their own in each env: each changes the motion as the closed form says, on both engines.

These are the rows of the table in docs/worlds.md.
"""

import re
from pathlib import Path

import numpy as np
import pytest
import torch

import sensorium as sn

DEVICES = ["cpu", pytest.param("cuda", marks=pytest.mark.gpu)]
G, T = 9.81, 0.1
CART = """
<mujoco model="cart"><worldbody><body name="cart"><joint name="x" type="slide" axis="1 0 0" {joint}/>
  <geom type="box" size=".1 .1 .1" mass="2" contype="0" conaffinity="0"/></body></worldbody>
<actuator>{actuator}</actuator></mujoco>
"""
ROTOR = """
<mujoco model="rotor"><worldbody><body name="rotor"><joint name="q" axis="{axis}"/>
  <inertial pos="0 0 0" mass="2" diaginertia=".02 .03 .04"/></body></worldbody>
<actuator><motor name="m" joint="q"/></actuator></mujoco>
"""
MOTOR = '<motor name="m" joint="x"/>'
FORCE = 3.0


def start(model, fields, n_envs=3, device="cpu", gravity=(0, 0, 0), **options):
    """Return a scene of one robot whose model fields have values per env: field -> (index, values)."""
    scene = sn.Scene(dt=T, substeps=100, gravity=gravity, **options)
    scene.add_robot(model, name="r")
    scene.build(n_envs=n_envs, device=device)
    vary(scene, fields)
    return scene


def vary(scene, fields):
    """Give fields values per env: field -> (index of the element, values)."""
    for field, (index, values) in fields.items():
        target = scene.world.expand(field)
        target[(slice(None), *index)] = torch.as_tensor(values).to(target)
    scene.world.update_constants()
    scene.forward()


def speed(scene):
    return scene.world.bind("qvel")[:, 0].double().cpu().numpy()


def pushed(scene):
    """Push the first joint for 0.1 s and return its velocities."""
    scene["r"].set_ctrl(FORCE)
    scene.step()
    return speed(scene)


def thrown(scene, velocity=2.0):
    """Let the first joint start with a velocity, and return its velocities after 0.1 s."""
    scene.world.bind("qvel")[:, 0] = velocity
    scene.forward()
    scene.step()
    return speed(scene)


def masses(device):
    mass = np.array([1.0, 2.0, 5.0])
    scene = start(CART.format(joint="", actuator=MOTOR), {"body_mass": ((1,), mass)}, device=device)
    return pushed(scene), FORCE * T / mass


def inertias(device):
    inertia = np.array([0.04, 0.08, 0.2])
    scene = start(ROTOR.format(axis="0 0 1"), {"body_inertia": ((1, 2), inertia)}, device=device)
    return pushed(scene), FORCE * T / inertia


def inertia_axes(device):
    """Turning the principal axes by a quarter about x exchanges the inertias about y and z."""
    half = np.sqrt(0.5)
    quats = np.array([[1, 0, 0, 0], [half, half, 0, 0], [half, 0, half, 0]])
    fields = {"body_iquat": ((1,), quats)}
    scene = start(ROTOR.format(axis="0 0 1"), fields, device=device, simple_bodies=False)
    return pushed(scene), FORCE * T / np.array([0.04, 0.03, 0.02])


def centres_of_mass(device):
    """A pendulum that is released horizontally: the model has its centre of mass on the axis."""
    at = np.array([0.0, 0.1, 0.3])
    options = {"device": device, "gravity": (0, 0, -G), "simple_bodies": False}
    scene = start(ROTOR.format(axis="0 1 0"), {"body_ipos": ((1, 0), at)}, **options)
    scene.step()
    angle, rate = np.zeros(3), np.zeros(3)
    for _ in range(1000):
        rate += 1e-4 * 2 * G * at * np.cos(angle) / (0.03 + 2 * at**2)
        angle += 1e-4 * rate
    return speed(scene), rate


def free_centres_of_mass(device):
    """A free box, pushed at its origin: it turns about its centre of mass, which lies beside it."""
    at, inertia = np.array([0.0, 0.05, 0.1]), 2.0 * 0.08 / 12
    scene = sn.Scene(dt=0.01, substeps=10, gravity=(0, 0, 0), simple_bodies=False)
    scene.add_object(sn.Box(size=(0.2, 0.2, 0.2), mass=2.0), name="box", free=True)
    scene.build(n_envs=3, device=device)
    vary(scene, {"body_ipos": ((1, 0), at)})
    scene.world.bind("qfrc_applied")[:, 2] = FORCE
    scene.step()
    velocity = scene.world.bind("qvel").double().cpu().numpy()
    turn = FORCE * 0.01 * at / inertia
    return velocity[:, [2, 4]], np.stack([FORCE * 0.01 / 2 + at * turn, turn], axis=1)


def frictions(device, pair=False):
    mu = np.array([0.1, 0.3, 0.6])
    scene = sn.Scene(dt=T, substeps=100, cone="elliptic", impratio=10)
    scene.add_object(sn.Plane(), name="floor")
    scene.add_object(sn.Box(size=(0.2, 0.2, 0.1), mass=1.0), name="box", pos=(0, 0, 0.05), free=True)
    if pair:
        scene.add_contact_pair("box", "floor")
    scene.build(n_envs=3, device=device)
    if pair:
        vary(scene, {"pair_friction": ((0, slice(0, 2)), mu[:, None])})
    else:
        vary(scene, {"geom_friction": ((slice(None), 0), mu[:, None])})
    scene.step(5)  # the box settles
    return thrown(scene), 2.0 - mu * G * T


def pair_frictions(device):
    return frictions(device, pair=True)


def dampings(device):
    damping = np.array([0.0, 4.0, 12.0])
    scene = start(CART.format(joint="", actuator=MOTOR), {"dof_damping": ((0,), damping)}, device=device)
    return thrown(scene), 2.0 * np.exp(-damping * T / 2)


def armatures(device):
    armature = np.array([0.0, 1.0, 6.0])
    scene = start(CART.format(joint="", actuator=MOTOR), {"dof_armature": ((0,), armature)}, device=device)
    return pushed(scene), FORCE * T / (2 + armature)


def friction_losses(device):
    loss = np.array([1.0, 4.0, 8.0])
    model = CART.format(joint='frictionloss="1"', actuator=MOTOR)
    return thrown(start(model, {"dof_frictionloss": ((0,), loss)}, device=device)), 2.0 - loss * T / 2


def stiffnesses(device):
    stiffness = np.array([0.0, 50.0, 400.0])
    scene = start(CART.format(joint="", actuator=MOTOR), {"jnt_stiffness": ((0,), stiffness)}, device=device)
    return thrown(scene), 2.0 * np.cos(np.sqrt(stiffness / 2) * T)


def limits(device):
    """The cart drives against the upper limit of its joint and stays there."""
    limit = np.array([0.1, 0.2, 0.4])
    scene = start(
        CART.format(joint='range="-1 1" damping="3" solreflimit=".01 1"', actuator=MOTOR),
        {"jnt_range": ((0, 1), limit)},
        device=device,
    )
    scene["r"].set_ctrl(FORCE)
    scene.step(30)
    return scene.world.bind("qpos")[:, 0].double().cpu().numpy(), limit


def gains(device):
    kp = np.array([20.0, 80.0, 200.0])
    model = CART.format(joint="", actuator='<position name="m" joint="x" kp="10"/>')
    fields = {"actuator_gainprm": ((0, 0), kp), "actuator_biasprm": ((0, 1), -kp)}
    rate = np.sqrt(kp / 2)
    return pushed(start(model, fields, device=device)), FORCE * rate * np.sin(rate * T)


def force_limits(device):
    limit = np.array([0.5, 1.0, 2.0])
    model = CART.format(joint="", actuator='<motor name="m" joint="x" forcerange="-9 9"/>')
    scene = start(model, {"actuator_forcerange": ((0, 1), limit)}, device=device)
    return pushed(scene), limit * T / 2


def strengths(device):
    gear = np.array([1.0, 2.0, 5.0])
    scene = start(CART.format(joint="", actuator=MOTOR), {"actuator_gear": ((0, 0), gear)}, device=device)
    return pushed(scene), FORCE * gear * T / 2


def control_ranges(device):
    limit = np.array([0.5, 1.0, 2.0])
    model = CART.format(joint="", actuator='<motor name="m" joint="x" ctrlrange="-9 9"/>')
    return pushed(start(model, {"actuator_ctrlrange": ((0, 1), limit)}, device=device)), limit * T / 2


FALLING = """
<mujoco model="f"><worldbody><body name="f" {body}><joint type="slide" axis="0 0 1"/>
<geom size=".1" mass="2"/></body></worldbody></mujoco>
"""


def gravity_compensations(device):
    share = np.array([0.0, 0.5, 1.0])
    fields = {"body_gravcomp": ((1,), share)}
    scene = start(FALLING.format(body=""), fields, device=device, gravity=(0, 0, -G))
    scene.step()
    return speed(scene), -(1 - share) * G * T


def gravities(device):
    gravity = np.array([-1.62, -3.7, -9.81])
    scene = start(FALLING.format(body=""), {"opt.gravity": ((2,), gravity)}, device=device)
    scene.step()
    return speed(scene), gravity * T


def viscosities(device):
    """A cube of 0.2 m and 2 kg in a viscous medium: MuJoCo's drag is 3 π times viscosity, edge and velocity."""
    viscosity = np.array([0.0, 1.0, 5.0])
    scene = start(CART.format(joint="", actuator=MOTOR), {"opt.viscosity": ((), viscosity)}, device=device)
    return thrown(scene), 2.0 * np.exp(-3 * np.pi * viscosity * 0.2 * T / 2)


def densities(device):
    """The same cube in a dense medium: MuJoCo's drag is half of density, face and squared velocity."""
    density = np.array([0.0, 50.0, 200.0])
    scene = start(CART.format(joint="", actuator=MOTOR), {"opt.density": ((), density)}, device=device)
    return thrown(scene), 2.0 / (1 + 0.5 * density * 0.2**2 * 2.0 * T / 2)


def winds(device):
    """The same cube in a viscous medium that moves along x."""
    wind, viscosity = np.array([-1.0, 0.0, 3.0]), 5.0
    change = {"opt.viscosity": ((), viscosity), "opt.wind": ((0,), wind)}
    scene = start(CART.format(joint="", actuator=MOTOR), change, device=device)
    return thrown(scene), wind + (2.0 - wind) * np.exp(-3 * np.pi * viscosity * 0.2 * T / 2)


def sizes(device):
    """Balls of different radius come to rest at the height of their radius."""
    radius = np.array([0.05, 0.1, 0.2])
    scene = sn.Scene(dt=0.02, substeps=10)
    scene.add_object(sn.Plane())
    scene.add_object(sn.Sphere(radius=0.1, mass=1.0), name="ball", pos=(0, 0, 0.25), free=True)
    scene.build(n_envs=3, device=device)
    vary(scene, {"geom_size": ((1, 0), radius)})
    scene.step(50)
    return scene["ball"].get_pose()[0][:, 2].double().cpu().numpy(), radius


def positions(device):
    """A link of a robot that is mounted at another height: a ball on it falls from there."""
    height = np.array([0.0, 0.5, 1.0])
    model = FALLING.format(body='pos="0 0 1"')
    scene = start(model, {"body_pos": ((1, 2), height)}, device=device, gravity=(0, 0, -G))
    scene.forward()
    return scene.world.bind("xpos")[:, 1, 2].double().cpu().numpy(), height


ROWS = {
    "body_mass": masses,
    "body_inertia": inertias,
    "body_iquat": inertia_axes,
    "body_ipos": centres_of_mass,
    "body_pos": positions,
    "body_gravcomp": gravity_compensations,
    "geom_friction": frictions,
    "pair_friction": pair_frictions,
    "geom_size": sizes,
    "dof_damping": dampings,
    "dof_armature": armatures,
    "dof_frictionloss": friction_losses,
    "jnt_stiffness": stiffnesses,
    "jnt_range": limits,
    "actuator_gainprm": gains,
    "actuator_forcerange": force_limits,
    "actuator_gear": strengths,
    "actuator_ctrlrange": control_ranges,
    "opt.gravity": gravities,
    "opt.viscosity": viscosities,
    "opt.density": densities,
    "opt.wind": winds,
}


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("field", ROWS)
def test_a_field_per_env_changes_the_motion_as_the_closed_form_says(field, device):
    measured, expected = ROWS[field](device)
    assert np.ptp(expected) > 0.1 * np.abs(expected).max()
    np.testing.assert_allclose(measured, expected, rtol=0.02, atol=0.005 * np.abs(expected).max())


def test_collision_masks_per_env_let_a_box_through():
    scene = sn.Scene(dt=0.02, substeps=10)
    scene.add_object(sn.Plane(), name="floor")
    scene.add_object(sn.Box(size=(0.2, 0.2, 0.2)), name="box", pos=(0, 0, 0.15), free=True)
    scene.build(n_envs=3)
    vary(scene, {"geom_contype": ((1,), np.array([1, 0, 1])), "geom_conaffinity": ((1,), np.array([1, 0, 0]))})
    scene.step(25)
    height = scene["box"].get_pose()[0][:, 2].numpy()
    np.testing.assert_allclose(height[[0, 2]], 0.1, atol=2e-3)
    assert height[1] == pytest.approx(0.15 - 9.81 * 0.5**2 / 2, rel=0.02)


@pytest.mark.parametrize("device", DEVICES)
def test_the_centre_of_mass_of_a_free_primitive_moves(device):
    measured, expected = free_centres_of_mass(device)
    np.testing.assert_allclose(measured, expected, rtol=1e-3, atol=1e-5)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize(("field", "index"), [("body_ipos", 0), ("body_iquat", 1)])
def test_a_body_compiled_as_simple_keeps_its_centre_of_mass(field, index, device):
    scene = sn.Scene()
    scene.add_object(sn.Box(), name="box", free=True)
    scene.build(n_envs=2, device=device)
    values = scene.world.expand(field)
    scene.world.update_constants()  # nothing differs yet
    values[1, 1, index] += 0.1
    with pytest.raises(sn.OptionError, match=rf"{field} of the link 'box' .*simple_bodies=False"):
        scene.world.update_constants()


@pytest.mark.gpu
@pytest.mark.parametrize(("field", "meant"), [("opt.toleranc", "opt.tolerance"), ("body_mas", "body_mass")])
def test_the_gpu_engine_suggests_fields_that_it_has(field, meant):
    scene = sn.Scene()
    scene.add_object(sn.Box(), name="box", free=True)
    scene.build(n_envs=2, device="cuda")
    with pytest.raises(sn.OptionError, match=rf"no model field '{field}' .*did you mean '{meant}'"):
        scene.world.expand(field)


def test_the_documentation_lists_these_fields():
    text = (Path(__file__).parent.parent / "docs" / "worlds.md").read_text(encoding="utf-8")
    table = text.partition("\n## Model fields per env")[2].partition("\n## ")[0]
    cells = re.findall(r"^\| [^|]+\|([^|]+)\|", table, re.MULTILINE)
    listed = {name for cell in cells for name in re.findall(r"`([\w.]+)`", cell)}
    assert set(ROWS) <= listed


@pytest.mark.parametrize("device", DEVICES)
def test_all_envs_have_the_time_step_of_the_scene(device):
    scene = sn.Scene()
    scene.add_object(sn.Box(), name="box", free=True)
    scene.build(n_envs=2, device=device)
    with pytest.raises(sn.OptionError, match=r"'opt\.timestep' cannot differ per env: .*; set dt and substeps"):
        scene.world.expand("opt.timestep")
    assert not scene.world.expanded


@pytest.mark.parametrize("field", ["body_parentid", "jnt_qposadr", "geom_bodyid", "sensor_type", "dof_jntid"])
def test_the_structure_of_a_model_cannot_differ_per_env(field):
    scene = sn.Scene()
    scene.add_object(sn.Box(), name="box", free=True)
    scene.build(n_envs=2)
    with pytest.raises(sn.OptionError, match=f"{field!r} is part of the structure"):
        scene.world.expand(field)
    with pytest.raises(sn.OptionError, match="field must be the name of a model field, such as 'body_mass', got None"):
        scene.world.expand(None)
    assert not scene.world.expanded
