"""Sensing at substeps and at the end of a step has the bits of short steps, and of a loop of ``mj_step``."""

from __future__ import annotations

import mujoco
import numpy as np
import pytest
import torch

import sensorium as sn
from sensorium.worlds import MujocoWorld

PENDULUM = """
<mujoco model="pendulum">
  <worldbody>
    <body name="base" pos="1 0 1">
      <geom type="sphere" size="0.02" contype="0" conaffinity="0"/>
      <body name="rod">
        <joint name="hinge" axis="0 1 0" damping="0.02"/>
        <geom type="capsule" fromto="0 0 0 0.4 0 0" size="0.02" mass="0.5" contype="0" conaffinity="0"/>
      </body>
    </body>
  </worldbody>
</mujoco>
"""
SUBSTEPS = 5
STEPS = 12
MANY, FEW = 12, 3  # envs: the CPU engine divides a step into several calls from 8 envs on, and substeps at 1
UUIDS = ("imu", "force", "joint", "pose", "rays")


def scene(n_envs: int, n_substeps: int, **capture: bool) -> sn.Scene:
    """Return balls that fall on the ground from different heights, and a swinging pendulum, with substeps of 2 ms."""
    made = sn.Scene(dt=0.002 * n_substeps, substeps=n_substeps)
    made.add_object(sn.Plane())
    made.add_object(sn.Sphere(radius=0.1, mass=0.3), name="ball", pos=(0, 0, 0.13), free=True)
    made.add_robot(PENDULUM, name="pendulum")
    made.add_sensor(sn.IMU(link="rod", uuid="imu", pos=(0.3, 0, 0.1), **capture))
    made.add_sensor(sn.ContactForce(link="ball", uuid="force", **capture))
    made.add_sensor(sn.JointEncoder(joints=("hinge",), uuid="joint", **capture))
    made.add_sensor(sn.FramePose(link="ball", uuid="pose", **capture))
    pattern = sn.SphericalPattern(fov=(360, 100), n_points=(6, 3))
    made.add_sensor(sn.Raycaster(link="ball", uuid="rays", pattern=pattern, **capture))
    made.build(n_envs=n_envs)
    state = made.get_state()
    state[:, 3] += torch.linspace(0.0, 0.05, n_envs)  # time, then qpos: x, y, z of the ball
    made.set_state(state)
    return made


def tensors(reading: object) -> list[torch.Tensor]:
    """Return the fields of a reading."""
    return [reading] if isinstance(reading, torch.Tensor) else [field for field in reading if field is not None]


@pytest.mark.parametrize("n_envs", [MANY, FEW, 1])
def test_samples_of_substeps_have_the_bits_of_short_steps(n_envs):
    fast, short = scene(n_envs, SUBSTEPS, substeps=True), scene(n_envs, 1)
    touched = 0.0
    for step in range(STEPS):
        fast.step()
        arrived = {uuid: fast.sensors[uuid].read_samples() for uuid in UUIDS}
        for substep in range(SUBSTEPS):
            short.step()
            for uuid, samples in arrived.items():
                assert (samples.count == SUBSTEPS).all()
                for ours, exact in zip(tensors(samples.values), tensors(short.sensors[uuid].read()), strict=True):
                    assert torch.equal(ours[:, substep], exact), (uuid, step, substep)
        touched = max(touched, float(short.sensors["force"].read().norm(dim=1).max()))
    assert torch.equal(fast.get_state(), short.get_state())
    assert touched > 1.0  # the ball has hit the ground, so the forces compared are not all zero


def test_a_mixed_scene_reads_slow_sensors_at_steps():
    mixed, slow = (sn.Scene(dt=0.01, substeps=SUBSTEPS) for _ in range(2))
    for made, fast in ((mixed, True), (slow, False)):
        made.add_object(sn.Plane())
        made.add_object(sn.Sphere(radius=0.1, mass=0.3), name="ball", pos=(0, 0, 0.13), free=True)
        made.add_sensor(sn.IMU(link="ball", uuid="imu", substeps=fast))
        made.add_sensor(sn.ContactForce(link="ball", uuid="force"))
        made.build(n_envs=MANY)
    for _ in range(STEPS):
        mixed.step()
        slow.step()
        for uuid in ("imu", "force"):
            ours, exact = (tensors(made.sensors[uuid].read()) for made in (mixed, slow))
            assert all(torch.equal(*pair) for pair in zip(ours, exact, strict=True))


MODEL = """
<mujoco>
  <option timestep="0.002" cone="elliptic" integrator="implicitfast"/>
  <worldbody>
    <geom type="plane" size="2 2 .1"/>
    <body name="box" pos="0 0 .12"><freejoint/><geom type="box" size=".1 .1 .1"/><site name="centre"/>
      <body pos="0 0 .2"><joint name="lid" axis="0 1 0" range="-20 20" limited="true"/>
        <geom type="box" size=".05 .02 .1"/><site name="tip" pos="0 0 .1"/></body></body>
    <body pos=".25 0 .1"><freejoint/><geom type="sphere" size=".1"/></body>
  </worldbody>
  <actuator><motor joint="lid" gear="2"/></actuator>
  <sensor>
    <framepos objtype="site" objname="tip"/><accelerometer site="tip"/><gyro site="tip"/>
    <contact body2="box" data="force" reduce="netforce"/><jointpos joint="lid"/><force site="tip"/>{extra}
  </sensor>
</mujoco>
"""
FIELDS = ("sensordata", "xpos", "cvel", "site_xmat", "subtree_com", "qacc", "actuator_force", "qfrc_constraint", "cacc")


@pytest.mark.parametrize("senses_substeps", [False, True])
@pytest.mark.parametrize("n_envs", [MANY, FEW])
@pytest.mark.parametrize(
    ("extra", "fields"),
    [("", FIELDS), ("", (*FIELDS, "ncon")), ('<jointlimitpos joint="lid"/>', FIELDS)],
    ids=["plain", "contacts bound", "limit sensor"],
)
def test_outputs_have_the_bits_of_a_loop_of_mj_step(extra, fields, n_envs, senses_substeps):
    model = mujoco.MjModel.from_xml_string(MODEL.format(extra=extra))
    world = MujocoWorld(model, n_envs, substeps=SUBSTEPS, threads=2)
    outputs = {field: world.bind(field).numpy() for field in fields}
    seen: list[dict[str, np.ndarray]] = []
    if senses_substeps:
        world.on_substep = lambda: seen.append({name: array.copy() for name, array in outputs.items()})
    control = np.random.default_rng(0).uniform(-1, 1, (STEPS, n_envs))
    loops = [mujoco.MjData(model) for _ in range(n_envs)]
    world.bind("qpos").numpy()[:, 2] += np.linspace(0, 0.03, n_envs)
    for env, data in enumerate(loops):
        data.qpos[2] += np.linspace(0, 0.03, n_envs)[env]
    world.hold([1])
    for step in range(STEPS):
        world.bind("ctrl").numpy()[:, 0] = control[step]
        seen.clear()
        assert not world.step()
        seen.append(outputs)
        for env, data in enumerate(loops):
            if env == 1:
                continue
            data.ctrl[0] = control[step, env]
            for substep in range(SUBSTEPS):
                mujoco.mj_step(model, data)
                if senses_substeps or substep == SUBSTEPS - 1:
                    mujoco.mj_step1(model, data)
                    shown = seen[substep if senses_substeps else 0]
                    for name in fields:
                        assert np.array_equal(shown[name][env], getattr(data, name)), (name, step, env, substep)
    held = model.qpos0[2] + np.linspace(0, 0.03, n_envs)[1]
    assert world.bind("qpos")[1, 2] == held
    assert world.time[1] == 0.0
    assert any(data.ncon > 0 for data in loops)


def test_a_field_that_is_bound_later_leaves_accelerations_of_other_envs():
    model = mujoco.MjModel.from_xml_string(MODEL.format(extra=""))
    world = MujocoWorld(model, MANY, threads=1)
    world.bind("qpos").numpy()[:, 2] += np.linspace(0, 0.03, MANY)
    for _ in range(50):  # some boxes have hit the ground
        world.step()
    before = world.bind("sensordata").clone()
    assert len(before[:, 3:6].unique(dim=0)) > 1
    world.bind("xpos")
    assert torch.equal(world.bind("sensordata"), before)


SMALL = """
<mujoco>
  <size memory="{memory}"/>
  <option timestep="0.002"/>
  <worldbody>
    <geom type="plane" size="2 2 .1"/>
    <body pos="0 0 .12"><freejoint/><geom type="box" size=".1 .1 .1"/><site name="centre"/></body>
  </worldbody>
  <sensor><framepos objtype="site" objname="centre"/><accelerometer site="centre"/></sensor>
</mujoco>
"""


@pytest.mark.parametrize("n_envs", [MANY, FEW, 1])
def test_an_env_with_warnings_makes_all_substeps(n_envs):
    model = mujoco.MjModel.from_xml_string(SMALL.format(memory="4K"))  # too little for the constraints of 4 contacts
    world = MujocoWorld(model, n_envs, substeps=SUBSTEPS, threads=1)
    world.on_substep = lambda: None
    world.bind("qpos").numpy()[:, 2] += np.linspace(0, 0.5, n_envs)  # only the lowest boxes touch the ground
    loops = [mujoco.MjData(model) for _ in range(n_envs)]
    for data, qpos in zip(loops, world.bind("qpos").numpy(), strict=True):
        data.qpos[:] = qpos
    for _ in range(STEPS):
        assert not world.step()
        for data in loops:
            mujoco.mj_step(model, data, SUBSTEPS)
    assert world.batch.warning[0, int(mujoco.mjtWarning.mjWARN_CNSTRFULL), 1] > 0
    for env, data in enumerate(loops):
        assert world.time[env] == data.time
        assert np.array_equal(world.bind("qpos")[env].numpy(), data.qpos)
        mujoco.mj_step1(model, data)
        assert np.array_equal(world.bind("sensordata")[env].numpy(), data.sensordata)


@pytest.mark.parametrize("n_envs", [MANY, FEW])
def test_an_env_that_fails_leaves_the_others_exact(n_envs):
    model = mujoco.MjModel.from_xml_string(SMALL.format(memory="6K"))  # MuJoCo raises in the first contact
    world = MujocoWorld(model, n_envs, substeps=SUBSTEPS, threads=1)
    world.on_substep = lambda: None
    world.bind("qpos").numpy()[1:, 2] += np.linspace(0.5, 1.0, n_envs - 1)  # env 0 alone touches the ground
    loops = [mujoco.MjData(model) for _ in range(1, n_envs)]
    for data, qpos in zip(loops, world.bind("qpos").numpy()[1:], strict=True):
        data.qpos[:] = qpos
    failed: dict[int, str] = {}
    for _ in range(STEPS):
        failed |= world.step()
        for data in loops:
            mujoco.mj_step(model, data, SUBSTEPS)
    assert list(failed) == [0]
    assert "out of memory" in failed[0]
    for env, data in enumerate(loops, 1):
        mujoco.mj_step1(model, data)
        assert np.array_equal(world.bind("qpos")[env].numpy(), data.qpos)
        assert np.array_equal(world.bind("sensordata")[env].numpy(), data.sensordata)
