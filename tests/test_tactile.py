"""Tactile arrays and their skins against physics and closed forms."""

import numpy as np
import pytest
import torch
from touch_scenes import DT, G, height, place, positions, press_scene

import sensorium as sn
from sensorium.sensors.touch.contact_probe import ContactDepthProbe
from sensorium.sensors.touch.tactile_array import KinematicTaxel, TactileArray

# -- forces of the engine ----------------------------------------------------------------------------------------------


LOPSIDED = """<mujoco><worldbody><body name="crate"><freejoint/>
  <geom type="box" size="0.05 0.05 0.02" mass="0.2"/>
  <geom type="sphere" size="0.005" pos="{x} {y} 0.01" mass="0.6" contype="0" conaffinity="0"/>
</body></worldbody></mujoco>"""


def rest_scene(load: str, tilt: float = 0.0, height: float = 0.025, **options):
    """Return a scene in which a crate rests on a pad tilted about y, its tactile array, and the total contact force."""
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


@pytest.mark.parametrize("where", [(0.0, 0.0), (0.03, -0.01), (0.045, 0.04)])
def test_taxels_carry_the_weight_at_its_centre_of_pressure(where):
    """The sum is the weight to 1e-4, and the centre of pressure is below the centre of mass to 0.1 mm."""
    _, pad, _ = rest_scene(LOPSIDED.format(x=where[0], y=where[1]))
    force = pad.read().force.double().numpy()
    assert force.sum(1) == pytest.approx(np.tile([0, 0, -0.8 * G], (2, 1)), abs=0.8 * G * 1e-4)
    assert (force[..., 2] <= 0).all()  # no taxel pulls
    centre = (force[0, :, 2:] * positions(pad)).sum(0) / force[0, :, 2].sum()
    expected = 0.75 * np.array(where)
    assert centre[:2] == pytest.approx(expected, abs=1e-4)
    loaded = force[0, :, 2] < 0
    assert (np.abs(positions(pad)[loaded]) <= 0.051).all()  # only below the crate
    assert loaded.sum() > 20


def test_taxels_carry_the_wrench_of_a_load_on_a_slope():
    """Force and moment of all taxels are those of the weight at its centre of mass, including shear."""
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
    assert abs(moment[2]) > 0.01  # shear of the eccentric weight


def test_taxels_carry_a_torque_about_the_normal():
    """Friction holds a crate under torque: shear is circular, and every taxel is twisted."""
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
    # twist over shear is r² / 2 over the distance, from the area of a taxel's disc
    assert torque[corner, 2] / shear[corner] == pytest.approx(0.001**2 / 2 / np.linalg.norm(x[corner]), rel=0.05)


def test_only_contacts_with_tracked_links_count():
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
    assert not both.read().force.any()  # 0.5 mm above the pad
    scene.step(count=100)
    assert both.read().force[0].sum(0).tolist() == pytest.approx([0, 0, -0.8 * G], abs=1e-2)
    assert right.read().force[0].sum(0).tolist() == pytest.approx([0, 0, -0.5 * G], abs=1e-2)
    pressed = positions(right)[right.read().force[0, :, 2].numpy() < 0]
    assert (pressed[:, 0] > 0.02).all()
    under = right.read().force[0, :, 2] < 0
    assert torch.equal(springs.read().force[0, :, 2] < 0, under)  # both models in one group
    assert springs.read().force[0, under, 2].numpy() == pytest.approx(-100 * 0.001, rel=0.2)  # the skin's thickness
    assert not low.read().force.any()  # the lower side of the pad


def test_forces_on_a_curved_skin_add_up_to_the_contact_force():
    """Taxels with different normals on a ball at rest add up to its weight."""
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
    # in a taxel's own frame, z is its normal
    assert own.read().force[0, :, 2].numpy() == pytest.approx((force * normals).sum(1), abs=1e-5)
    assert np.linalg.norm(own.read().force[0].numpy(), axis=1) == pytest.approx(np.linalg.norm(force, axis=1), abs=1e-5)


# -- springs -----------------------------------------------------------------------------------------------------------


def spring(scene: sn.Scene, **options):
    given = {"positions": ((0.0, 0.0, 0.0),), "radius": 0.002, "stiffness": 2000.0} | options
    return scene.add_sensor(TactileArray(link="pad", pos=(0, 0, 0.01), **given))


def test_spring_and_damper_along_the_normal():
    """The force is max(0, k * depth**p + c * rate)."""
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


def test_shear_sticks_until_it_slips_on_the_friction_cone():
    """Shear is k_t times the displacement, at most friction times the normal force, and elastic on the way back."""
    scene = press_scene('type="box" size="0.03 0.03 0.01"')
    taxel = spring(scene, shear_stiffness=500.0, friction=0.4)
    scene.build()
    place(scene, z=0.011, velocity=(0.03, 0.04, 0, 0))  # 1 mm deep: 2 N
    way = 0.0
    for step in range(8):
        scene.step()
        force = taxel.read().force[0, 0].tolist()
        way = 0.05 * DT * step  # since the step of the first touch
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
    assert taxel.read().force[0, 0].tolist() == pytest.approx([0, 0, -2.0], abs=1e-4)  # lifting clears the displacement


def test_twist_about_the_normal_slips_at_its_limit():
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


def test_springs_follow_the_relative_motion():
    """A pad that moves below a body at rest feels the opposite shear."""
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


# -- skin --------------------------------------------------------------------------------------------------------------


def skin_scene(n_envs: int = 1, geom: str = 'type="box" size="0.05 0.05 0.01"', seed: int = 0, **options):
    scene = press_scene(geom)
    given = {"grid": (9, 9), "spacing": 0.004, "radius": 0.002, "stiffness": 1000.0, "uuid": "skin"} | options
    skin = scene.add_sensor(TactileArray(link="pad", pos=(0, 0, 0.01), **given))
    scene.build(n_envs=n_envs, seed=seed)
    return scene, skin


def test_step_response_of_the_maxwell_branch():
    """After a step to the load x, the reading is x * (1 + a * exp(-t / tau)); ground truth is x."""
    scene, skin = skin_scene(relaxation_fraction=0.6, relaxation_time=0.07)
    scene.step(count=3)
    place(scene, z=0.011)
    for step in range(40):
        scene.step()
        assert skin.read_ground_truth().force[..., 2].numpy() == pytest.approx(-np.ones((1, 81)), abs=1e-5)
        expected = -(1 + 0.6 * np.exp(-step * DT / 0.07))
        assert skin.read().force[..., 2].numpy() == pytest.approx(np.full((1, 81), expected), abs=1e-5)
    scene.forward()  # a skin that starts under load is relaxed
    assert skin.read().force[..., 2].numpy() == pytest.approx(-np.ones((1, 81)), abs=1e-5)


def test_crosstalk_keeps_a_uniform_load_and_spreads_a_point():
    length = 0.005
    scene, skin = skin_scene(crosstalk_length=length)
    place(scene, z=0.011)
    scene.step()
    assert skin.read().force[..., 2].numpy() == pytest.approx(-np.ones((1, 81)), abs=1e-5)

    scene, skin = skin_scene(geom='type="sphere" size="0.003"', radius=0.001, crosstalk_length=length)
    place(scene, z=0.0035)
    scene.step()
    truth, read = (r.force[0, :, 2].double().numpy() for r in (skin.read_ground_truth(), skin.read()))
    assert np.flatnonzero(truth).tolist() == [40]  # only the middle taxel
    x = positions(skin)
    apart = np.linalg.norm(x[:, None] - x[None], axis=2)
    weight = np.exp(-(apart**2) / (2 * length**2)) * (apart <= 3 * length)
    assert read == pytest.approx(weight[:, 40] / weight.sum(1) * truth[40], rel=1e-5)
    assert (read < 0).sum() > 30

    # away from the edges, the sum is conserved
    scene, skin = skin_scene(geom='type="sphere" size="0.003"', radius=0.001, crosstalk_length=0.002)
    place(scene, z=0.0035)
    scene.step()
    assert skin.read().force.sum().item() == pytest.approx(skin.read_ground_truth().force.sum().item(), rel=1e-5)


def test_crosstalk_kernel_is_applied_with_normalised_rows():
    kernel = ((2.0, 1.0, 1.0), (0.0, 1.0, 0.0), (1.0, 0.0, 3.0))
    three = {"grid": None, "spacing": None, "positions": ((0, 0, 0), (0.004, 0, 0), (0.008, 0, 0))}
    scene, skin = skin_scene(geom='type="sphere" size="0.02"', crosstalk_kernel=kernel, **three)
    place(scene, z=0.0205)
    scene.step()
    truth, read = (r.force[0, :, 2].double().numpy() for r in (skin.read_ground_truth(), skin.read()))
    assert len(set(truth.round(6))) == 3
    assert read == pytest.approx(np.array(kernel) @ truth / np.array(kernel).sum(1), rel=1e-5)


def test_gains_are_drawn_once_per_taxel_and_env():
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


def test_dead_taxels_read_zero():
    scene, skin = skin_scene(n_envs=40, dead_taxels=(0, 17), dead_fraction=0.2, noise=0.01)
    place(scene, z=0.011)
    scene.step()
    silent = (skin.read().force == 0).all(dim=2).numpy()
    assert silent[:, [0, 17]].all()
    others = np.delete(silent, [0, 17], axis=1)
    assert others.mean() == pytest.approx(0.2, abs=0.03)
    assert len({row.tobytes() for row in others}) == 40  # they differ between envs
    assert (skin.read_ground_truth().force[..., 2] < 0).all()
    scene.step()
    assert np.array_equal((skin.read().force == 0).all(dim=2).numpy(), silent)
    skin.set(dead_fraction=0.0, envs=[5])
    scene.step()
    assert (skin.read().force[5] == 0).all(dim=1).nonzero().flatten().tolist() == [0, 17]


@pytest.mark.parametrize(
    "options",
    [
        TactileArray(link="pad", pos=(0, 0, 0.01), grid=(2, 2), spacing=0.01),
        ContactDepthProbe(link="pad", pos=(0, 0, 0.01)),
    ],
)
def test_ideal_skin_skips_the_hardware_stage_until_an_imperfection_is_set(options, monkeypatch):
    """With one env, an unneeded hardware stage would cost a tenth of the step of all sensors."""
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
