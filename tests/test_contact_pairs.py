"""Contact parameters of pairs, and excluded contacts."""

import mujoco
import numpy as np
import pytest

import sensorium as sn
from sensorium.errors import AlreadyBuiltError, DuplicateNameError, NameNotFoundError
from sensorium.worlds import ContactPair

DEVICES = ["cpu", pytest.param("cuda", marks=pytest.mark.gpu)]
G = 9.81


def table(**options):
    """Return an unbuilt scene with two boxes of 1 kg on the floor."""
    scene = sn.Scene(**{"dt": 0.1, "substeps": 100, "cone": "elliptic", "impratio": 10.0, **options})
    scene.add_object(sn.Plane(), name="floor")
    for name, y in (("left", 0.5), ("right", -0.5)):
        scene.add_object(sn.Box(size=(0.2, 0.2, 0.1), mass=1.0), name=name, pos=(0, y, 0.05), free=True)
    return scene


@pytest.mark.parametrize("device", DEVICES)
def test_friction_of_a_pair_acts_on_that_pair_only(device):
    scene = table()
    scene.add_contact_pair("floor", "left", friction=0.2)
    scene.build(device=device)
    scene.step(5)
    scene.world.bind("qvel")[:, [0, 6]] = 2.0
    scene.forward()
    scene.step()
    speed = scene.world.bind("qvel")[0, [0, 6]].double().cpu().numpy()
    np.testing.assert_allclose(speed, [2 - 0.2 * G * 0.1, 2 - 1.0 * G * 0.1], rtol=0.02)


@pytest.mark.parametrize("device", DEVICES)
def test_margin_of_a_pair_holds_a_box_above_the_floor(device):
    scene = table(dt=0.02, substeps=10)
    scene.add_contact_pair("floor", "left", margin=0.05, solref=(0.01, 1.0))
    scene.build(device=device)
    scene.step(100)
    heights = [scene[name].get_pose()[0][0, 2].item() for name in ("left", "right")]
    np.testing.assert_allclose(heights, [0.1, 0.05], atol=2e-3)


@pytest.mark.parametrize("device", DEVICES)
def test_a_pair_collides_although_its_geoms_do_not(device):
    scene = sn.Scene(dt=0.02, substeps=10)
    scene.add_object(sn.Plane(), name="floor")
    ghost = """<mujoco><worldbody><body name="b" pos="0 0 .3"><freejoint/>
    <geom name="ball" size=".1" contype="0" conaffinity="0"/></body></worldbody></mujoco>"""
    for name in ("held", "lost"):
        scene.add_object(ghost, name=name)
    scene.add_contact_pair("held/ball", "floor")
    scene.build(device=device)
    scene.step(50)
    assert scene["held"].get_pose()[0][0, 2].item() == pytest.approx(0.1, abs=5e-3)
    assert scene["lost"].get_pose()[0][0, 2].item() < -1


@pytest.mark.parametrize("device", DEVICES)
def test_excluded_links_do_not_touch(device):
    scene = table(dt=0.02, substeps=10)
    scene.exclude_contacts("left", "floor")
    scene.build(device=device)
    scene.step(10)
    heights = [scene[name].get_pose()[0][0, 2].item() for name in ("left", "right")]
    assert heights[0] == pytest.approx(0.05 - G * 0.2**2 / 2, rel=0.02)
    assert heights[1] == pytest.approx(0.05, abs=2e-3)


def random_geom(rng):
    values = {
        "friction": rng.random(3),
        "solref": (rng.uniform(0.01, 0.1), rng.uniform(1, 2)) if rng.random() < 0.8 else (-rng.uniform(10, 1e3), -5.0),
        "solimp": (rng.uniform(0.8, 0.9), 0.95, rng.uniform(0.001, 0.003), 0.5, 2),
        "condim": int(rng.choice([1, 3, 4, 6])),
        "priority": int(rng.integers(2)),
        "solmix": rng.choice([0.0, rng.random()]),
        "margin": rng.uniform(0, 0.01),
        "gap": rng.uniform(0, 0.005),
    }
    return {name: value for name, value in values.items() if rng.random() < 0.8}


@pytest.mark.parametrize("seed", range(12))
def test_what_is_not_given_is_what_mujoco_computes_from_the_geoms(seed):
    rng = np.random.default_rng(seed)
    floor, ball = random_geom(rng), random_geom(rng)
    found = []
    for pair in (False, True):
        spec = mujoco.MjSpec()
        spec.worldbody.add_geom(name="floor", type=mujoco.mjtGeom.mjGEOM_PLANE, size=[0, 0, 1], **floor)
        body = spec.worldbody.add_body(name="ball", pos=[0, 0, 0.099])
        body.add_freejoint()
        body.add_geom(name="ball", size=[0.1, 0, 0], **ball)
        if pair:
            ContactPair(first="floor", second="ball").add_to(spec)
        model = spec.compile()
        data = mujoco.MjData(model)
        mujoco.mj_forward(model, data)
        contact = data.contact[0]
        found.append([contact.dim, contact.includemargin, *contact.friction, *contact.solref, *contact.solimp])
    np.testing.assert_allclose(found[1], found[0], rtol=1e-12)


def test_a_link_stands_for_its_geoms_that_can_collide():
    model = """<mujoco><worldbody><body name="hand" pos="0 0 1"><freejoint/><geom size=".1"/>
    <geom name="tip" size=".1" pos=".2 0 0"/><geom size=".3" contype="0" conaffinity="0"/></body></worldbody>
    </mujoco>"""
    scene = sn.Scene()
    scene.add_object(sn.Plane(), name="floor")
    scene.add_object(model, name="arm")
    pair = scene.add_contact_pair(
        "hand", "floor", friction=(0.5, 0.01, 0.001), condim=4, solimp=(0.8, 0.9, 0.01, 0.4, 3)
    )
    assert (pair.first, pair.condim) == ("hand", 4)
    scene.build()
    pairs = zip(scene.model.pair_geom1, scene.model.pair_geom2, strict=True)
    names = sorted(sorted(scene.model.geom(int(i)).name for i in ids) for ids in pairs)
    assert names == [["arm/hand/geom0", "floor"], ["arm/tip", "floor"]]
    np.testing.assert_allclose(scene.model.pair_friction, [[0.5, 0.5, 0.01, 0.001, 0.001]] * 2)
    np.testing.assert_allclose(scene.model.pair_solimp, [[0.8, 0.9, 0.01, 0.4, 3]] * 2)
    assert scene.model.pair_dim.tolist() == [4, 4]


def test_contents_contain_pairs_and_exclusions():
    scene = table()
    scene.add_contact_pair("floor", "left", friction=(0.3, 0.2, 0.01, 0.001, 0.002), gap=0.01)
    scene.exclude_contacts("left", "right")
    again = sn.Scene.from_contents(scene.contents, {"dt": 0.1, "substeps": 100})
    scene.build()
    again.build()
    assert again.contents == scene.contents
    for field in ("pair_friction", "pair_gap", "pair_dim", "exclude_signature"):
        np.testing.assert_array_equal(getattr(again.model, field), getattr(scene.model, field))
    assert scene.model.pair_friction.tolist() == [[0.3, 0.2, 0.01, 0.001, 0.002]]


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (("floor1", "left"), NameNotFoundError, r"no geom or link named 'floor1' \(did you mean 'floor'\?\)"),
        (("left", "left"), sn.OptionError, "belong to the link 'left'; the two must belong to different links"),
        (("left", "right", {"friction": -1}), sn.OptionError, "friction must be 1, 3 or 5 numbers >= 0, got -1"),
        (("left", "right", {"friction": (1, 2)}), sn.OptionError, "friction must be 1, 3 or 5 numbers >= 0"),
        (("left", "right", {"condim": 2}), sn.OptionError, "condim must be 1, 3, 4, 6 or None, got 2"),
        (("left", "right", {"condim": "3"}), sn.OptionError, "condim must be 1, 3, 4, 6 or None, got '3'$"),
        (("left", "right", {"frction": 1}), sn.OptionError, r"no option 'frction' \(did you mean 'friction'"),
        (("floor", "left"), DuplicateNameError, "'floor' and 'left' are a pair already"),
    ],
)
def test_wrong_pairs_raise_and_change_nothing(call, error, message):
    scene = table()
    scene.add_contact_pair("left", "floor", friction=0.5)
    before = scene.contents
    with pytest.raises(error, match=message):
        scene.add_contact_pair(*call[:2], **(call[2] if len(call) > 2 else {}))
    assert scene.contents == before
    scene.build()
    assert scene.model.npair == 1


def test_wrong_exclusions_raise():
    scene = table()
    with pytest.raises(NameNotFoundError, match=r"exclude_contacts: .*'lft' \(did you mean 'left'\?\)"):
        scene.exclude_contacts("lft", "floor")
    with pytest.raises(sn.OptionError, match="must be different links"):
        scene.exclude_contacts("left", "left")
    scene.build()
    assert scene.model.nexclude == 0
    for call in (scene.add_contact_pair, scene.exclude_contacts):
        with pytest.raises(AlreadyBuiltError):
            call("left", "floor")
