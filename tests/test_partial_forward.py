"""The forward pass of some envs in a small batch leaves what a forward pass of all envs leaves."""

import mujoco
import numpy as np
import pytest

pytest.importorskip("warp", reason="Warp is not installed")

import warp as wp

from sensorium.worlds import warp_init as warp_init

import mujoco_warp as mjw  # isort: skip

from sensorium.worlds.partial_forward import PartialForward

MODEL = """
<mujoco>
  <option timestep="0.005"/>
  <worldbody>
    <geom name="ground" type="plane" size="5 5 0.1"/>
    <body name="box" pos="0 0 0.095"><freejoint/><geom name="box" type="box" size="0.1 0.1 0.1" mass="1"/>
      <site name="imu"/></body>
    <body name="upper" pos="1 0 0.6"><joint name="shoulder" axis="0 1 0" damping="0.1"/>
      <geom type="capsule" fromto="0 0 0 0.3 0 0" size="0.03" mass="1"/></body>
  </worldbody>
  <actuator><motor joint="shoulder"/></actuator>
  <sensor><accelerometer site="imu"/><gyro site="imu"/><framepos objtype="body" objname="upper"/>
    <jointactuatorfrc joint="shoulder"/></sensor>
</mujoco>"""
N_ENVS, N_ROWS, ROOM = 10, 4, 16
FIELDS = ("xpos", "xmat", "geom_xpos", "cvel", "qacc", "qfrc_constraint", "actuator_force", "sensordata", "nefc")


def make(model):
    m = mjw.put_model(model)
    return m, mjw.make_data(model, nworld=N_ENVS, nconmax=ROOM, njmax=4 * ROOM)


def randomise(d, envs, seed):
    rng = np.random.default_rng(seed)
    for name, spread in (("qpos", 0.004), ("qvel", 0.2), ("ctrl", 1.0)):
        array = getattr(d, name)
        values = array.numpy()
        values[envs] += rng.normal(0.0, spread, values[envs].shape).astype(np.float32)
        wp.copy(array, wp.array(values, dtype=array.dtype))


def contacts(d):
    """Return env -> sorted (distance, position, normal force row) of the contacts that touch."""
    count = min(int(d.nacon.numpy()[0]), d.naconmax)
    force = d.efc.force.numpy()
    found = {env: [] for env in range(d.nworld)}
    for i in range(count):
        if d.contact.dist.numpy()[i] < 0.1:
            env, row = int(d.contact.worldid.numpy()[i]), int(d.contact.efc_address.numpy()[i, 0])
            found[env].append((*d.contact.pos.numpy()[i].tolist(), float(d.contact.dist.numpy()[i]), force[env, row]))
    return {env: sorted(rows) for env, rows in found.items()}


@pytest.mark.slow
@pytest.mark.parametrize("masses", [False, True], ids=["one model", "masses per env"])
@pytest.mark.parametrize("fresh", [False, True], ids=["forward", "reset"])
def test_a_partial_pass_equals_a_pass_of_all(masses, fresh):
    with wp.ScopedDevice("cpu"):
        model = mujoco.MjModel.from_xml_string(MODEL)
        (m, d), (_, whole) = make(model), make(model)
        if masses:
            values = np.repeat(m.body_mass.numpy(), N_ENVS, axis=0) * np.linspace(1, 2, N_ENVS)[:, None]
            m.body_mass = wp.array(values.astype(np.float32))
        for data in (d, whole):
            randomise(data, slice(None), seed=0)
            mjw.forward(m, data)
        before = {name: getattr(d, name).numpy().copy() for name in FIELDS}
        before_contacts = contacts(d)
        partial = PartialForward(model, m, d, N_ROWS, ROOM, 4 * ROOM)

        chosen = np.array([7, 2, 0])
        mask = np.zeros(N_ENVS, bool)
        mask[chosen] = True
        partial.select(wp.array(mask))
        partial.keep()
        for data in (d, whole):
            if fresh:
                mjw.reset_data(m, data, wp.array(mask))
            randomise(data, chosen, seed=1)
        mjw.forward(m, whole)
        assert [int(flag.numpy()[0]) for flag in (partial.any, partial.few, partial.many)] == [1, 1, 0]
        partial.run(wp.array(mask))

        for name in FIELDS:
            ours, all_of_them = getattr(d, name).numpy(), getattr(whole, name).numpy()
            np.testing.assert_allclose(ours[mask], all_of_them[mask], rtol=1e-5, atol=1e-5, err_msg=name)
            np.testing.assert_array_equal(ours[~mask], before[name][~mask], err_msg=name)
            if name != "nefc":
                assert not np.allclose(ours[mask], before[name][mask]), name
        found, expected = contacts(d), contacts(whole)
        assert sum(map(len, expected.values())) > N_ENVS
        for env in range(N_ENVS):
            want = expected[env] if mask[env] else before_contacts[env]
            np.testing.assert_allclose(found[env], want, rtol=1e-4, atol=1e-4, err_msg=str(env))


@pytest.mark.slow
@pytest.mark.parametrize(("count", "flags"), [(0, [0, 0, 0]), (1, [1, 1, 0]), (N_ROWS, [1, 1, 0]), (5, [1, 0, 1])])
def test_the_flags_say_how_many_envs_are_selected(count, flags):
    with wp.ScopedDevice("cpu"):
        model = mujoco.MjModel.from_xml_string(MODEL)
        m, d = make(model)
        partial = PartialForward(model, m, d, N_ROWS, ROOM, 4 * ROOM)
        for _ in range(2):
            partial.select(wp.array(np.arange(N_ENVS) >= N_ENVS - count))
            assert [int(flag.numpy()[0]) for flag in (partial.any, partial.few, partial.many)] == flags


@pytest.mark.slow
def test_repeated_passes_do_not_fill_the_list_of_contacts():
    with wp.ScopedDevice("cpu"):
        model = mujoco.MjModel.from_xml_string(MODEL)
        m, d = make(model)
        mjw.forward(m, d)
        expected, count = contacts(d), int(d.nacon.numpy()[0])
        assert count >= 4 * N_ENVS
        partial = PartialForward(model, m, d, N_ROWS, ROOM, 4 * ROOM)
        for turn in range(20):
            mask = np.zeros(N_ENVS, bool)
            mask[[turn % N_ENVS, (turn + 3) % N_ENVS]] = True
            partial.select(wp.array(mask))
            partial.keep()
            mjw.reset_data(m, d, wp.array(mask))
            partial.run(wp.array(mask))
        assert int(d.nacon.numpy()[0]) == count
        assert contacts(d).keys() == expected.keys()
        for env, rows in contacts(d).items():
            assert np.allclose(rows, expected[env], atol=1e-4)
