"""Normal forces of links that touch planes only, which are computed without the engine's contact sensor."""

import mujoco
import numpy as np
import pytest
import torch

import sensorium as sn
from sensorium.worlds import MujocoWorld
from sensorium.worlds.free_links import free_link_sensors

MODEL = """
<mujoco>
  <option timestep="0.004" cone="{cone}"/>
  <worldbody>
    <body name="slope" euler="0 10 0"><geom name="ground" type="plane" size="0 0 1" euler="5 0 0"/></body>
    <body name="brick" pos="0 0 0.3">
      <freejoint/>
      <geom name="brick" type="box" size="0.1 0.12 0.15" pos="0.02 0.01 0"/>
      {geoms}
      <site name="corner" pos="0.1 -0.05 0.2" euler="20 40 70"/>
    </body>
    {bodies}
  </worldbody>
  {rest}
  <sensor>
    <accelerometer name="accelerometer" site="corner"/>
    <contact name="pressed" {objects} body2="brick" data="force" reduce="maxforce" num="8"/>
    <gyro name="gyro" site="corner"/>
  </sensor>
</mujoco>
"""
PRESSED = slice(3, 27)


def model(cone="pyramidal", geoms="", bodies="", rest="", objects=""):
    text = MODEL.format(cone=cone, geoms=geoms, bodies=bodies, rest=rest, objects=objects)
    return mujoco.MjModel.from_xml_string(text)


def is_replaced(m, expanded=frozenset()):
    return "pressed" in [m.sensor(int(sensor)).name for sensor in free_link_sensors(m, True, expanded)]


def thrown(world):
    """Throw the brick of each env with a velocity of its own; return plain MuJoCo's data of each env."""
    velocities = np.random.default_rng(0).normal(size=(world.n_envs, world.model.nv)) * 3
    world.bind("qvel")[:] = torch.from_numpy(velocities)
    world.forward()
    engines = [mujoco.MjData(world.model) for _ in range(world.n_envs)]
    for data, velocity in zip(engines, velocities, strict=True):
        data.qvel[:] = velocity
    return engines


def normal_force(data):
    return np.asarray(data)[..., PRESSED][..., ::3].sum(axis=-1)


@pytest.mark.parametrize(("cone", "n_envs", "substeps"), [("pyramidal", 9, 1), ("elliptic", 9, 3), ("pyramidal", 2, 2)])
@pytest.mark.parametrize("objects", ["", 'body1="slope"'])
def test_sum_of_normal_forces_agrees_with_the_engine(cone, n_envs, substeps, objects):
    m = model(cone, '<geom type="capsule" size="0.03 0.05" pos="0 0.1 0.16" euler="90 0 0"/>', objects=objects)
    assert is_replaced(m)
    world = MujocoWorld(m, n_envs, substeps=substeps)
    engines, peak, contacts = thrown(world), 0.0, 0
    for _ in range(150 // substeps):
        world.step()
        for data in engines:
            mujoco.mj_step(m, data, substeps)
        ours, engine = (normal_force(each) for each in (world.bind("sensordata"), [d.sensordata for d in engines]))
        assert np.allclose(ours, engine, rtol=1e-10, atol=1e-10)
        assert ((ours > 0) == (engine > 0)).all()
        peak, contacts = max(peak, engine.max()), max(contacts, *(data.ncon for data in engines))
        assert not world.bind("sensordata").numpy()[:, PRESSED][:, 1:].any()
    assert peak > 100
    assert contacts >= 2


BALL = '<body name="ball" pos="1 0 1"><freejoint/><geom name="ball" size="0.1" {}/></body>'
WALL = '<geom name="wall" type="plane" size="0 0 1" pos="-2 0 0" euler="0 90 0"/>'
FLOOR = '<body name="floor" euler="0 10 0" pos="0 0 -1"><geom type="plane" size="0 0 1" euler="5 0 0"/></body>'


@pytest.mark.parametrize(
    ("change", "replaced"),
    [
        ({}, True),
        ({"bodies": FLOOR}, True),  # parallel to the slope
        ({"bodies": BALL.format('contype="2" conaffinity="2"')}, True),  # cannot touch the brick
        ({"bodies": BALL.format("")}, False),
        (
            {
                "bodies": BALL.format('contype="0" conaffinity="0"'),
                "rest": '<contact><pair geom1="ball" geom2="brick"/></contact>',
            },
            False,
        ),
        ({"bodies": WALL}, False),
        ({"bodies": FLOOR, "objects": 'body1="slope"'}, False),  # one of two bodies that it can touch
        ({"bodies": FLOOR.replace("<body", '<body mocap="true"')}, False),
        ({"geoms": '<geom type="box" size="0.1 0.1 0.1"/>'}, True),  # 8 contacts
        ({"geoms": '<geom type="box" size="0.1 0.1 0.1"/><geom size="0.1"/>'}, False),  # 9 contacts
        ({"geoms": '<body pos="0 0 1"><geom size="0.1"/></body>'}, False),  # a child link has contacts of its own
    ],
)
def test_which_links_are_pressed_by_planes_only(change, replaced):
    assert is_replaced(model(**change)) == replaced


def test_directions_that_differ_per_env_are_left_to_the_engine():
    assert not is_replaced(model(), {"geom_quat"})
    world = MujocoWorld(model(), 9)
    assert is_replaced(world.model)
    world.step()
    world.expand("geom_quat")
    thrown(world)
    world.reset()
    engines = [mujoco.MjData(world.model) for _ in range(9)]
    for _ in range(60):
        world.step()
        for data in engines:
            mujoco.mj_step(world.model, data)
        pressed = world.bind("sensordata").numpy()[:, PRESSED]
        assert (pressed == np.stack([data.sensordata[PRESSED] for data in engines])).all()
    assert normal_force(engines[0].sensordata) > 0


@pytest.mark.parametrize("n_envs", [2, 9])
def test_reset_shows_the_sensors_of_the_initial_state(n_envs):
    """The engine computes no sensor of this model in a step, but all of them at a reset."""
    m = model()
    world = MujocoWorld(m, n_envs)
    first = world.bind("sensordata").clone()
    data = mujoco.MjData(m)
    mujoco.mj_forward(m, data)
    assert (first.numpy() == data.sensordata).all()
    for _ in range(80):
        world.step()
    moved = world.bind("sensordata").clone()
    world.reset([1])
    assert (world.bind("sensordata")[1] == first[1]).all()
    assert (world.bind("sensordata")[0] == moved[0]).all()
    assert normal_force(moved)[0] > 0


@pytest.mark.parametrize("n_envs", [1, 16])
def test_contact_switch_on_the_ground_reads_the_weight(n_envs):
    scene = sn.Scene(dt=0.01, substeps=1)
    scene.add_object(sn.Plane(), name="ground")
    scene.add_object(sn.Box(size=(0.2, 0.2, 0.2), mass=1.0), name="box", pos=(0, 0, 0.12), free=True)
    switches = {
        threshold: scene.add_sensor(
            sn.Contact(link="box", threshold=threshold, touching=touching, uuid=f"c{round(10 * threshold)}")
        )
        for threshold, touching in ((0.0, ()), (9.7, "ground"), (9.9, ()))
    }
    scene.build(n_envs=n_envs)
    assert len(scene.world.free_links.skipped(set())) == 3
    assert not switches[0.0].read().any()
    scene.step(100)
    assert switches[0.0].read().all()
    assert switches[9.7].read().all()
    assert not switches[9.9].read().any()
    scene.close()
