"""Contact probes, tactile arrays and elastomer pads against physics and closed forms."""

from typing import ClassVar

import numpy as np
import pytest
import torch
from conftest import drop_scene

import sensorium as sn
from sensorium.errors import OptionError
from sensorium.sensors.touch.contact_probe import ContactDepthProbe, ContactProbe, KinematicContactProbe
from sensorium.sensors.touch.elastomer import ElastomerDisplacement, ElastomerTaxel
from sensorium.sensors.touch.proximity import Proximity
from sensorium.sensors.touch.tactile_array import KinematicTaxel, TactileArray
from sensorium.testing import SensorContract

DT = 0.01
G = 9.81
AWAY = 0.5


def press_scene(geom: str = 'type="sphere" size="0.01"') -> sn.Scene:
    """A pad whose upper face is z = 0, and an indenter that goes where it is told: the two do not collide.

    Its joints are x, y, z and a turn about z; nothing acts on it, so that it keeps its velocity. It starts far above.
    """
    scene = sn.Scene(dt=DT, substeps=1, gravity=(0, 0, 0))
    scene.add_object(sn.Box(size=(0.1, 0.1, 0.02)), name="pad", pos=(0, 0, -0.01))
    scene.add_robot(
        f"""<mujoco><worldbody><body name="tip" pos="0 0 {AWAY}">
          <joint name="x" type="slide" axis="1 0 0"/><joint name="y" type="slide" axis="0 1 0"/>
          <joint name="z" type="slide" axis="0 0 1"/><joint name="turn" type="hinge" axis="0 0 1"/>
          <geom {geom} contype="2" conaffinity="2" mass="1"/></body></worldbody></mujoco>""",
        name="indenter",
    )
    return scene


def place(scene: sn.Scene, x=0.0, y=0.0, z=0.0, velocity=(0, 0, 0, 0)) -> None:
    """Put the indenter's middle there now; the sensors see it from the next step on."""
    scene["indenter"].set_joint_positions([x, y, z - AWAY, 0.0])
    scene["indenter"].set_joint_velocities(velocity)


def height(scene: sn.Scene) -> np.ndarray:
    return scene.world.bind("qpos")[:, 2].numpy() + AWAY


# -- contact probes ---------------------------------------------------------------------------------------------------


def test_depth_is_how_far_the_probe_sphere_goes_in():
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


def test_switch_closes_and_opens_at_its_two_thresholds():
    """Down and up again, at a different speed in each env; both branches."""
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
    assert kept > 2  # between the thresholds it stayed closed
    assert not closed.any()


def test_hysteresis_keeps_a_noisy_switch_from_bouncing():
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
    assert changes[0] > 1000  # half of all steps
    assert changes[1] <= 50  # each closes once


def test_switch_state_of_other_envs_survives_a_reset():
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


# -- tactile array, forces of the engine ------------------------------------------------------------------------------


LOPSIDED = """<mujoco><worldbody><body name="crate"><freejoint/>
  <geom type="box" size="0.05 0.05 0.02" mass="0.2"/>
  <geom type="sphere" size="0.005" pos="{x} {y} 0.01" mass="0.6" contype="0" conaffinity="0"/>
</body></worldbody></mujoco>"""


def rest_scene(load: str, tilt: float = 0.0, height: float = 0.025, **options):
    """A crate on a pad that is tilted about y; everything has settled."""
    scene = sn.Scene(dt=DT, substeps=5)
    scene.add_object(sn.Plane())
    up = np.array([np.sin(tilt), 0, np.cos(tilt)])
    scene.add_object(sn.Box(size=(0.2, 0.2, 0.02)), name="pad", pos=(0, 0, 0.5), euler=(0, tilt, 0))
    scene.add_robot(load, name="load", pos=tuple(np.array([0, 0, 0.5]) + up * (0.01 + height)), euler=(0, tilt, 0))
    pad = scene.add_sensor(
        TactileArray(link="pad", pos=(0, 0, 0.01), grid=(16, 16), spacing=0.01, uuid="skin", **options)
    )
    total = scene.add_sensor(sn.ContactForce(link="pad", pos=(0, 0, 0.01), uuid="total"))
    scene.build(n_envs=2)
    scene.step(count=150)
    return scene, pad, total


def positions(sensor) -> np.ndarray:
    return sensor._local()[0]


@pytest.mark.parametrize("where", [(0.0, 0.0), (0.03, -0.01), (0.045, 0.04)])
def test_taxels_carry_the_weight_where_it_rests(where):
    """Their sum is the weight to 1e-4 of it, and the centre of pressure lies under the centre of mass to 0.1 mm."""
    _, pad, _ = rest_scene(LOPSIDED.format(x=where[0], y=where[1]))
    force = pad.read().force.double().numpy()
    assert force.sum(1) == pytest.approx(np.tile([0, 0, -0.8 * G], (2, 1)), abs=0.8 * G * 1e-4)
    assert (force[..., 2] <= 0).all()  # nothing pulls
    centre = (force[0, :, 2:] * positions(pad)).sum(0) / force[0, :, 2].sum()
    expected = 0.75 * np.array(where)
    assert centre[:2] == pytest.approx(expected, abs=1e-4)
    loaded = force[0, :, 2] < 0
    assert (np.abs(positions(pad)[loaded]) <= 0.051).all()  # under the crate alone
    assert loaded.sum() > 20


def test_taxels_carry_the_whole_wrench_of_a_load_on_a_slope():
    """Force and moment of all taxels are those of the weight at its centre of mass, shear included."""
    tilt = 0.2
    scene, pad, total = rest_scene(LOPSIDED.format(x=0.02, y=0.015), tilt)
    force, torque = (tensor[0].double().numpy() for tensor in pad.read())
    weight = 0.8 * G * np.array([np.sin(tilt), 0, -np.cos(tilt)])  # in the pad's frame
    assert force.sum(0) == pytest.approx(weight, abs=2e-3)
    assert force.sum(0) == pytest.approx(total.read()[0].double().numpy(), abs=1e-4)
    moment = np.cross(positions(pad), force).sum(0) + torque.sum(0)
    com = scene.world.bind("subtree_com")[0, scene.model.body("load/crate").id].numpy()
    frame = scene.world.bind("xmat")[0, scene.model.body("pad").id].numpy().reshape(3, 3)
    origin = scene.world.bind("xpos")[0, scene.model.body("pad").id].numpy() + frame @ (0, 0, 0.01)
    assert moment == pytest.approx(np.cross(frame.T @ (com - origin), weight), abs=2e-4)
    assert abs(moment[2]) > 0.01  # the weight's shear off centre turns the pad


def test_taxels_carry_a_torque_about_the_normal():
    """A crate that is turned but held by friction: shear runs round, and every taxel is twisted a little."""
    scene, pad, _ = rest_scene(LOPSIDED.format(x=0.0, y=0.0))
    scene.world.bind("xfrc_applied")[:, scene.model.body("load/crate").id, 5] = 0.05
    scene.step(count=50)
    force, torque = (tensor[0].double().numpy() for tensor in pad.read())
    assert force.sum(0) == pytest.approx([0, 0, -0.8 * G], abs=1e-2)
    x = positions(pad)
    moment = np.cross(x, force).sum(0) + torque.sum(0)
    assert moment[2] == pytest.approx(0.05, rel=0.01)
    loaded = force[:, 2] < 0
    assert (torque[loaded, 2] > 0).all()
    assert not torque[:, :2].any()
    shear = np.hypot(force[:, 0], force[:, 1])
    middle, corner = (np.linalg.norm(x - (at, at, 0), axis=1).argmin() for at in (0.005, 0.045))
    assert shear[corner] > 3 * shear[middle] > 0
    # the disc of a taxel carries as much per rotation as its area says: twist over shear is r² / 2 over the distance
    assert torque[corner, 2] / shear[corner] == pytest.approx(0.001**2 / 2 / np.linalg.norm(x[corner]), rel=0.05)


def test_no_force_without_contact_and_only_from_what_is_tracked():
    scene = sn.Scene(dt=DT)
    scene.add_object(sn.Box(size=(0.2, 0.2, 0.02)), name="pad", pos=(0, 0, 0.5))
    scene.add_object(sn.Box(size=(0.03, 0.03, 0.03), mass=0.3), name="left", pos=(-0.04, 0, 0.5255), free=True)
    scene.add_object(sn.Box(size=(0.03, 0.03, 0.03), mass=0.5), name="right", pos=(0.04, 0, 0.5255), free=True)
    common = {"link": "pad", "pos": (0, 0, 0.01), "grid": (8, 16), "spacing": 0.01}
    both = scene.add_sensor(TactileArray(uuid="both", tracked=("left", "right"), **common))
    right = scene.add_sensor(KinematicTaxel(uuid="right only", tracked="right", **common))
    springs = scene.add_sensor(TactileArray(uuid="springs", tracked="right", stiffness=100.0, **common))
    low = scene.add_sensor(TactileArray(uuid="below", **(common | {"pos": (0, 0, -0.01), "euler": (np.pi, 0, 0)})))
    scene.build()
    assert not both.read().force.any()  # half a millimetre above the pad
    scene.step(count=100)
    assert both.read().force[0].sum(0).tolist() == pytest.approx([0, 0, -0.8 * G], abs=1e-2)
    assert right.read().force[0].sum(0).tolist() == pytest.approx([0, 0, -0.5 * G], abs=1e-2)
    pressed = positions(right)[right.read().force[0, :, 2].numpy() < 0]
    assert (pressed[:, 0] > 0.02).all()
    under = right.read().force[0, :, 2] < 0
    assert torch.equal(springs.read().force[0, :, 2] < 0, under)  # both models in one class
    assert springs.read().force[0, under, 2].numpy() == pytest.approx(-100 * 0.001, rel=0.2)  # the skin's thickness
    assert not low.read().force.any()  # the pad's other side


def test_curved_skin_sums_to_the_contact_force():
    """Taxels on a ball that lies on the ground: normals differ, the sum is the weight all the same."""
    scene = sn.Scene(dt=DT)
    scene.add_object(sn.Plane())
    scene.add_object(sn.Sphere(radius=0.05, mass=1.0), name="ball", pos=(0, 0, 0.05), free=True)
    rng = np.random.default_rng(0)
    normals = rng.normal(size=(300, 3))
    normals /= np.linalg.norm(normals, axis=1, keepdims=True)
    rows = tuple(tuple(map(float, row)) for row in normals)
    skin = scene.add_sensor(
        TactileArray(
            link="ball", positions=tuple(tuple(0.05 * v for v in row) for row in rows), normals=rows, radius=0.004
        )
    )
    own = scene.add_sensor(
        TactileArray(
            link="ball",
            uuid="own",
            positions=tuple(tuple(0.05 * v for v in row) for row in rows),
            normals=rows,
            radius=0.004,
            frame="taxel",
        )
    )
    scene.build()
    scene.step(count=100)
    force = skin.read().force[0].double().numpy()
    assert force.sum(0) == pytest.approx([0, 0, G], abs=5e-3)
    loaded = np.abs(force).sum(1) > 0
    assert 3 < loaded.sum() < 60
    assert (normals[loaded, 2] < -0.8).all()
    # in its own frame, a taxel's z is its normal
    assert own.read().force[0, :, 2].numpy() == pytest.approx((force * normals).sum(1), abs=1e-5)
    assert np.linalg.norm(own.read().force[0].numpy(), axis=1) == pytest.approx(np.linalg.norm(force, axis=1), abs=1e-5)


# -- tactile array, springs -------------------------------------------------------------------------------------------


def spring(scene: sn.Scene, **options):
    given = {"positions": ((0.0, 0.0, 0.0),), "radius": 0.002, "stiffness": 2000.0} | options
    return scene.add_sensor(TactileArray(link="pad", pos=(0, 0, 0.01), **given))


def test_spring_and_damper():
    """k * depth**p + c * rate, and never a pull."""
    scene = press_scene()
    linear = spring(scene, uuid="linear")
    hertz = spring(scene, uuid="hertz", stiffness=3e4, exponent=1.5)
    damped = spring(scene, uuid="damped", damping=30.0)
    scene.build()
    assert not linear.read().force.any()
    place(scene, z=0.0128, velocity=(0, 0, -0.05, 0))
    pulled = False
    for step in range(12):
        if step == 6:
            scene["indenter"].set_joint_velocities([0, 0, 0.1, 0])
        scene.step()
        depth, rate = max(0.012 - height(scene)[0], 0), (0.05 if step < 6 else -0.1)
        assert linear.read().force[0, 0].tolist() == pytest.approx([0, 0, -2000 * depth], abs=1e-4)
        assert hertz.read().force[0, 0, 2].item() == pytest.approx(-3e4 * depth**1.5, abs=1e-4)
        law = 2000 * depth + 30 * rate
        pulled |= depth > 0 and law < 0
        assert damped.read().force[0, 0, 2].item() == pytest.approx(-max(law, 0) if depth > 0 else 0, abs=1e-4)
    assert pulled


def test_shear_sticks_then_slips_on_the_friction_cone():
    """Along the motion, k_t times the way until friction times the normal force, and back again elastically."""
    scene = press_scene('type="box" size="0.03 0.03 0.01"')
    taxel = spring(scene, shear_stiffness=500.0, friction=0.4)
    scene.build()
    place(scene, z=0.011, velocity=(0.03, 0.04, 0, 0))  # 1 mm deep: 2 N
    way = 0.0
    for step in range(8):
        scene.step()
        force = taxel.read().force[0, 0].tolist()
        way = 0.05 * DT * step  # since the step in which it touched
        pull = min(500 * way, 0.4 * 2.0)
        assert force == pytest.approx([0.6 * pull, 0.8 * pull, -2.0], abs=1e-4)
    assert 500 * way > 0.8  # it has slipped
    scene["indenter"].set_joint_velocities([-0.03, -0.04, 0, 0])
    scene.step()
    back = 0.8 - 500 * 0.05 * DT
    assert taxel.read().force[0, 0].tolist() == pytest.approx([0.6 * back, 0.8 * back, -2.0], abs=1e-4)
    place(scene, z=0.02)
    scene.step()
    place(scene, z=0.011)
    scene.step()
    assert taxel.read().force[0, 0].tolist() == pytest.approx([0, 0, -2.0], abs=1e-4)  # lifted: it has forgotten


def test_twist_about_the_normal():
    scene = press_scene('type="box" size="0.03 0.03 0.01"')
    taxel = spring(scene, twist_stiffness=0.02, friction=0.5)
    scene.build()
    place(scene, z=0.011, velocity=(0, 0, 0, 2.0))
    for step in range(8):
        scene.step()
        limit = 0.5 * 2.0 * 0.002 * 2 / 3
        torque = taxel.read().torque[0, 0].tolist()
        assert torque == pytest.approx([0, 0, min(0.02 * 2.0 * DT * step, limit)], abs=1e-7)
    assert torque[2] == pytest.approx(limit, abs=1e-7)


def test_springs_see_the_relative_motion():
    """A pad that moves under a thing at rest feels the opposite shear."""
    scene = sn.Scene(dt=DT, substeps=1, gravity=(0, 0, 0))
    scene.add_robot(
        """<mujoco><worldbody><body name="finger" pos="0.3 0 0"><joint name="slide" type="slide" axis="0 1 0"/>
          <geom type="box" size="0.02 0.02 0.02" mass="1" contype="2" conaffinity="2"/></body></worldbody></mujoco>""",
        name="hand",
    )
    scene.add_object(sn.Box(size=(0.1, 0.1, 0.1)), name="wall", pos=(0.3, 0, 0.0695))
    taxel = scene.add_sensor(
        TactileArray(link="finger", pos=(0, 0, 0.02), positions=((0, 0, 0),), stiffness=1000.0, shear_stiffness=100.0)
    )
    scene.build()
    scene["hand"].set_joint_velocities([0.02])
    scene.step(count=5)
    assert taxel.read().force[0, 0].tolist() == pytest.approx([0, -100 * 0.02 * 5 * DT, -1.5], abs=1e-4)


# -- what is wrong with skins -----------------------------------------------------------------------------------------


def skin_scene(n_envs: int = 1, geom: str = 'type="box" size="0.05 0.05 0.01"', seed: int = 0, **options):
    scene = press_scene(geom)
    given = {"grid": (9, 9), "spacing": 0.004, "radius": 0.002, "stiffness": 1000.0, "uuid": "skin"} | options
    skin = scene.add_sensor(TactileArray(link="pad", pos=(0, 0, 0.01), **given))
    scene.build(n_envs=n_envs, seed=seed)
    return scene, skin


def test_maxwell_branch_has_its_closed_step_response():
    """x * (1 + a * exp(-t / tau)) from the step in which a load comes; ground truth is x."""
    scene, skin = skin_scene(relaxation_fraction=0.6, relaxation_time=0.07)
    scene.step(count=3)
    place(scene, z=0.011)
    for step in range(40):
        scene.step()
        assert skin.read_ground_truth().force[..., 2].numpy() == pytest.approx(-np.ones((1, 81)), abs=1e-5)
        expected = -(1 + 0.6 * np.exp(-step * DT / 0.07))
        assert skin.read().force[..., 2].numpy() == pytest.approx(np.full((1, 81), expected), abs=1e-5)
    scene.forward()  # a skin that starts under load is at rest
    assert skin.read().force[..., 2].numpy() == pytest.approx(-np.ones((1, 81)), abs=1e-5)


def test_crosstalk_keeps_an_even_load_and_spreads_a_point():
    length = 0.005
    scene, skin = skin_scene(crosstalk_length=length)
    place(scene, z=0.011)
    scene.step()
    assert skin.read().force[..., 2].numpy() == pytest.approx(-np.ones((1, 81)), abs=1e-5)

    scene, skin = skin_scene(geom='type="sphere" size="0.003"', radius=0.001, crosstalk_length=length)
    place(scene, z=0.0035)
    scene.step()
    truth, read = (r.force[0, :, 2].double().numpy() for r in (skin.read_ground_truth(), skin.read()))
    assert np.flatnonzero(truth).tolist() == [40]  # the middle one alone
    x = positions(skin)
    apart = np.linalg.norm(x[:, None] - x[None], axis=2)
    weight = np.exp(-(apart**2) / (2 * length**2)) * (apart <= 3 * length)
    assert read == pytest.approx(weight[:, 40] / weight.sum(1) * truth[40], rel=1e-5)
    assert (read < 0).sum() > 30

    # far from the edges nothing is lost
    scene, skin = skin_scene(geom='type="sphere" size="0.003"', radius=0.001, crosstalk_length=0.002)
    place(scene, z=0.0035)
    scene.step()
    assert skin.read().force.sum().item() == pytest.approx(skin.read_ground_truth().force.sum().item(), rel=1e-5)


def test_measured_crosstalk_kernel():
    kernel = ((2.0, 1.0, 1.0), (0.0, 1.0, 0.0), (1.0, 0.0, 3.0))
    three = {"grid": None, "spacing": None, "positions": ((0, 0, 0), (0.004, 0, 0), (0.008, 0, 0))}
    scene, skin = skin_scene(geom='type="sphere" size="0.02"', crosstalk_kernel=kernel, **three)
    place(scene, z=0.0205)
    scene.step()
    truth, read = (r.force[0, :, 2].double().numpy() for r in (skin.read_ground_truth(), skin.read()))
    assert len(set(truth.round(6))) == 3
    assert read == pytest.approx(np.array(kernel) @ truth / np.array(kernel).sum(1), rel=1e-5)


def test_gains_are_drawn_once_for_each_taxel_and_env():
    scene, skin = skin_scene(n_envs=50, gain_spread=0.1)
    place(scene, z=0.011)
    scene.step()
    first = -skin.read().force[..., 2].double().numpy()
    assert first.std() == pytest.approx(0.1, rel=0.05)
    assert first.mean() == pytest.approx(1.0, abs=0.005)
    assert abs(np.corrcoef(first[0], first[1])[0, 1]) < 0.4
    assert np.abs(np.corrcoef(first.T)[0, 1:]).mean() < 0.2
    scene.step(count=5)
    scene.reset(envs=[3])
    place(scene, z=0.011)
    scene.step()
    assert -skin.read().force[..., 2].double().numpy() == pytest.approx(first, abs=1e-12)
    alone, other = skin_scene(gain_spread=0.1), skin_scene(gain_spread=0.1, seed=1)
    for scene, _ in (alone, other):
        place(scene, z=0.011)
        scene.step()
    assert -alone[1].read().force[0, :, 2].double().numpy() == pytest.approx(first[0], abs=1e-12)
    assert not np.allclose(-other[1].read().force[0, :, 2].numpy(), first[0], atol=1e-3)


def test_dead_taxels_read_nothing():
    scene, skin = skin_scene(n_envs=40, dead_taxels=(0, 17), dead_fraction=0.2, noise=0.01)
    place(scene, z=0.011)
    scene.step()
    silent = (skin.read().force == 0).all(dim=2).numpy()
    assert silent[:, [0, 17]].all()
    others = np.delete(silent, [0, 17], axis=1)
    assert others.mean() == pytest.approx(0.2, abs=0.03)
    assert len({row.tobytes() for row in others}) == 40  # each env its own
    assert (skin.read_ground_truth().force[..., 2] < 0).all()
    scene.step()
    assert np.array_equal((skin.read().force == 0).all(dim=2).numpy(), silent)
    skin.set(dead_fraction=0.0, envs=[5])
    scene.step()
    assert (skin.read().force[5] == 0).all(dim=1).nonzero().flatten().tolist() == [0, 17]


# -- elastomer --------------------------------------------------------------------------------------------------------


def gel_scene(geom: str = 'type="sphere" size="0.004"', **options):
    scene = press_scene(geom)
    gel = scene.add_sensor(
        ElastomerDisplacement(
            **({"link": "pad", "pos": (0, 0, 0.01), "grid": (17, 21), "size": (0.021, 0.017)} | options)
        )
    )
    scene.build()
    return scene, gel


def test_gel_is_flat_without_contact():
    scene, gel = gel_scene()
    place(scene, z=0.0041)
    scene.step()
    assert gel.read().shape == (1, 17, 21, 3)
    assert not gel.read().any()


def test_gel_dilates_outward_symmetrically_and_decays():
    scene, gel = gel_scene(dilation_length=0.0015)
    place(scene, z=0.0035)
    scene.step()
    u = gel.read()[0].double().numpy()
    assert u[8, 10, 2] == pytest.approx(-0.0005, abs=1e-8)  # half a millimetre deep in the middle
    assert u[..., 0] == pytest.approx(-u[:, ::-1, 0], abs=1e-9)
    assert u[..., 0] == pytest.approx(u[::-1, :, 0], abs=1e-9)
    assert u[..., 1] == pytest.approx(-u[::-1, :, 1], abs=1e-9)
    assert u[4:13, 6:15, 0] == pytest.approx(np.swapaxes(u[4:13, 6:15, 1], 0, 1), abs=1e-9)  # x and y are alike
    along = u[8, 11:, 0]
    assert (along > 0).all()
    peak = int(along.argmax())
    assert 0 < peak < 4
    assert (np.diff(along[peak:]) < 0).all()
    assert along[-1] < 1e-3 * along[peak]


def test_gel_of_one_indented_marker_has_the_stated_kernel():
    """A needle that presses one marker alone: the formula of the options, everywhere."""
    nu, thickness, length = 0.45, 0.003, 0.002
    scene, gel = gel_scene(
        'type="box" size="0.0004 0.0004 0.001"', poisson_ratio=nu, thickness=thickness, dilation_length=length
    )
    depth = 0.0002
    place(scene, z=0.001 - depth)
    scene.step()
    u = gel.read()[0].double().numpy()
    assert (u[..., 2] != 0).sum() == 1
    y, x = np.meshgrid((np.arange(17) - 8) * 0.001, (np.arange(21) - 10) * 0.001, indexing="ij")
    scale = 2 * nu * 1e-6 / (2 * np.pi * thickness) * depth / length**2 * np.exp(-(x**2 + y**2) / (2 * length**2))
    assert u[..., 0] == pytest.approx(scale * x, abs=1e-11)
    assert u[..., 1] == pytest.approx(scale * y, abs=1e-11)


def test_gel_is_linear_in_depth_and_follows_thickness_and_poisson():
    needle = 'type="box" size="0.003 0.003 0.002"'

    def at(depth, **options):
        scene, gel = gel_scene(needle, **options)
        place(scene, z=0.002 - depth)
        scene.step()
        return gel.read()[0].double().numpy()

    base = at(0.0001)
    assert at(0.0003) == pytest.approx(3 * base, rel=1e-3, abs=1e-12)
    assert at(0.0001, thickness=0.008)[..., :2] == pytest.approx(base[..., :2] / 2, rel=1e-4, abs=1e-12)
    assert at(0.0001, poisson_ratio=0.24)[..., :2] == pytest.approx(base[..., :2] / 2, rel=1e-4, abs=1e-12)
    assert not at(0.0001, poisson_ratio=0.0)[..., :2].any()
    assert at(0.0015, thickness=0.001)[8, 10, 2] == pytest.approx(-0.001, abs=1e-9)  # at most its thickness


def test_gel_is_dragged_along_until_it_slips():
    scene, gel = gel_scene('type="box" size="0.006 0.006 0.002"', poisson_ratio=0.0, shear_length=0.001, friction=0.5)
    place(scene, z=0.0018, velocity=(0.003, 0.004, 0, 0))  # 0.2 mm deep
    limit = 0.5 * 2 * 0.0002
    for step in range(7):
        scene.step()
        u = gel.read()[0].double().numpy()
        way = min(0.005 * DT * step, limit)
        assert u[8, 10, :2] == pytest.approx([0.6 * way, 0.8 * way], rel=1e-3, abs=1e-12)
    assert way == limit
    assert np.linalg.norm(u[0, 0, :2]) < 0.05 * limit  # away from the contact it decays
    scene, gel = gel_scene('type="box" size="0.006 0.006 0.002"', poisson_ratio=0.0, shear_length=0.001)
    place(scene, z=0.0018, velocity=(0, 0, 0, 0.5))
    scene.step(count=4)
    u = gel.read()[0].double().numpy()
    turn = 0.5 * DT * 3
    assert u[8, 13, 1] == pytest.approx(turn * 0.003, rel=0.02)  # turned about the middle
    assert u[11, 10, 0] == pytest.approx(-turn * 0.003, rel=0.02)


def test_sensors_of_different_sizes_in_one_class():
    """Each has its own columns, switches, weights and gains: the same as if it were alone."""
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


# -- options ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda: TactileArray(link="pad"), "grid=.rows, columns. with a spacing, or as positions"),
        (lambda: TactileArray(link="pad", grid=(4, 4)), "grid and spacing belong together"),
        (lambda: TactileArray(link="pad", grid=(4, 0), spacing=0.1), "at least one row"),
        (lambda: TactileArray(link="pad", grid=(2, 2), spacing=0.1, friction=0.3), "friction needs a stiffness"),
        (lambda: TactileArray(link="pad", grid=(2, 2), spacing=0.1, dead_taxels=(4,)), r"lie in \[0, 4\), got 4"),
        (lambda: TactileArray(link="pad", grid=(2, 2), spacing=0.1, normals=(0, 0, 0)), "zero vectors"),
        (lambda: TactileArray(link="pad", grid=(2, 2), spacing=0.1, crosstalk_kernel=((1.0,),)), "must be 4 x 4"),
        (
            lambda: TactileArray(link="p", positions=((0, 0, 0),), crosstalk_kernel=((1.0,),), crosstalk_length=0.1),
            "give one",
        ),
        (lambda: ContactProbe(link="pad", release_threshold=0.1), "must not exceed contact_threshold"),
        (lambda: ContactDepthProbe(link="pad", radius=(0.1, 0.2)), "one for each of the 1 probes, got 2"),
        (lambda: ContactDepthProbe(link="pad", radius=-0.1), "must not be negative"),
        (lambda: ElastomerTaxel(link="pad", poisson_ratio=0.6), "poisson_ratio"),
        (lambda: ElastomerTaxel(link="pad", size=(0.0, 0.1)), "size must be greater than 0"),
    ],
)
def test_bad_options_say_what_is_wrong(make, text):
    with pytest.raises(OptionError, match=text):
        make()


# -- contract ---------------------------------------------------------------------------------------------------------


class Falling:
    """A box that falls on the ground, with sensors on its lower face."""

    below: ClassVar = {"link": "box", "pos": (0, 0, -0.1), "euler": (np.pi, 0, 0)}
    steps = 25

    def make_scene(self):
        return drop_scene(height=0.13)


class TestProximity(Falling, SensorContract):
    imperfections: ClassVar = {"noise": 0.01, "random_walk": 0.01}

    def make_options(self, **options):
        return Proximity(**self.below, positions=((0, 0, 0), (0.1, 0, 0)), frame="sensor", **options)


class TestContactDepthProbe(Falling, SensorContract):
    imperfections: ClassVar = {"noise": 0.001, "relaxation_fraction": 0.5, "gain_spread": 0.1}

    def make_options(self, **options):
        return ContactDepthProbe(**self.below, positions=((0, 0, 0), (0.1, 0, 0)), radius=0.01, **options)


class TestContactProbe(Falling, SensorContract):
    imperfections: ClassVar = {"noise": 0.004, "bias": 0.001}

    def make_options(self, **options):
        thresholds = {"contact_threshold": 0.006, "release_threshold": 0.003}
        probes = {"positions": ((0, 0, 0), (0.1, 0, 0)), "normals": (0, 0, 1.0), "radius": 0.01}
        return ContactProbe(**self.below, **thresholds, **probes, **options)


class TestTactileArray(Falling, SensorContract):
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


class TestElastomer(Falling, SensorContract):
    imperfections: ClassVar = {"noise": 1e-4, "relaxation_fraction": 0.5, "dead_fraction": 0.2}

    def make_options(self, **options):
        return ElastomerDisplacement(**(self.below | {"pos": (0, 0, -0.101)}), grid=(3, 4), size=(0.1, 0.1), **options)


@pytest.mark.parametrize(
    "options",
    [
        TactileArray(link="pad", pos=(0, 0, 0.01), grid=(2, 2), spacing=0.01),
        ContactDepthProbe(link="pad", pos=(0, 0, 0.01)),
    ],
)
def test_skin_without_imperfections_skips_the_hardware_stage_and_takes_it_up_when_set(options, monkeypatch):
    """At one env, going through that stage for nothing costs a tenth of all sensors together."""
    from sensorium.pipeline.cpu import CpuKernels

    runs = []
    stage = CpuKernels.hardware
    monkeypatch.setattr(CpuKernels, "hardware", lambda *args: (runs.append(1), stage(*args)))
    scene = press_scene()
    sensor = scene.add_sensor(options)
    scene.build(n_envs=2)
    place(scene, z=0.009)
    scene.step()
    assert not runs

    def measured():
        reading = sensor.read()
        return reading if isinstance(reading, torch.Tensor) else reading[0]

    before = measured().clone()
    sensor.set(bias=0.25)
    scene.step()
    assert runs
    assert torch.allclose(measured(), before + 0.25)
    sensor.set(bias=0.0)
    runs.clear()
    scene.step()
    assert not runs
    assert torch.equal(measured(), before)
