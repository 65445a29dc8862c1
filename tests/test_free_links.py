"""Sensors of links with a free joint, which are computed without the engine: they agree with the engine's own."""

import mujoco
import numpy as np
import pytest
import torch

import sensorium as sn
from sensorium.worlds import MujocoWorld
from sensorium.worlds.free_links import free_link_sensors

MODEL = """
<mujoco>
  <option timestep="0.004" integrator="{integrator}" cone="{cone}" gravity="0.3 -0.5 -9"/>
  <worldbody>
    <geom type="plane" size="0 0 1"/>
    <body name="brick" pos="0 0 0.3">
      <freejoint/>
      <geom type="box" size="0.1 0.12 0.15" pos="0.02 0.01 0"/>
      <site name="corner" pos="0.1 -0.05 0.2" euler="20 40 70"/>
    </body>
    <body name="robot" pos="1 0 0.5">
      <freejoint/>
      <geom type="capsule" size="0.1 0.2"/>
      <site name="base" pos="0.1 0.02 0.2" euler="120 40 70"/>
      <body name="arm" pos="0.2 0 0">
        <joint name="shoulder" axis="0 1 0" damping="0.1"/>
        <geom type="capsule" size="0.04 0.2" pos="0 0 -0.3"/>
        <site name="wrist"/>
      </body>
    </body>
    {bodies}
  </worldbody>
  <sensor>
    <gyro name="gyro" site="corner"/>
    <accelerometer name="accelerometer" site="corner"/>
    <magnetometer name="magnetometer" site="corner"/>
    <framequat name="quat" objtype="site" objname="corner"/>
    <contact name="net" body2="brick" data="force" reduce="netforce"/>
    <accelerometer name="base" site="base"/>
    <contact name="base_net" body2="robot" data="force" reduce="netforce"/>
    <framezaxis name="up" objtype="xbody" objname="world" reftype="site" refname="base"/>
    <jointpos name="angle" joint="shoulder"/>
    <jointvel name="speed" joint="shoulder"/>
    {sensors}
  </sensor>
</mujoco>
"""
NAMES = ["gyro", "accelerometer", "magnetometer", "quat", "net", "base", "up", "angle", "speed"]


def model(integrator="implicitfast", cone="pyramidal", bodies="", sensors=""):
    text = MODEL.format(integrator=integrator, cone=cone, bodies=bodies, sensors=sensors)
    return mujoco.MjModel.from_xml_string(text)


def thrown(world, seed=0):
    """Throw the bodies of each env with velocities of its own."""
    velocities = np.random.default_rng(seed).normal(size=(world.n_envs, world.model.nv)) * 4
    world.bind("qvel")[:] = torch.from_numpy(velocities)
    world.forward()


class Engine:
    """Plain MuJoCo: one MjData per env, stepped as the world is."""

    def __init__(self, world, models=None):
        self.world = world
        self.models = models or [world.model] * world.n_envs
        self.data = [mujoco.MjData(m) for m in self.models]
        for d, qvel in zip(self.data, world.bind("qvel").numpy(), strict=True):
            d.qvel[:] = qvel

    def step(self, substeps=1):
        """Return the sensor data: accelerations and forces of the last substep, all else at the new state."""
        for m, d in zip(self.models, self.data, strict=True):
            mujoco.mj_step(m, d, substeps)
        return np.stack([self.sensed(m, d) for m, d in zip(self.models, self.data, strict=True)])

    def sensed(self, m, d):
        now = mujoco.MjData(m)
        now.qpos[:], now.qvel[:] = d.qpos, d.qvel
        mujoco.mj_forward(m, now)
        data = d.sensordata.copy()
        for sensor in np.flatnonzero(m.sensor_needstage != mujoco.mjtStage.mjSTAGE_ACC):
            part = slice(m.sensor_adr[sensor], m.sensor_adr[sensor] + m.sensor_dim[sensor])
            data[part] = now.sensordata[part]
        return data


def assert_close(ours, engine, scale=None):
    size = np.abs(engine).max(axis=0) if scale is None else scale
    assert (np.abs(ours - engine) <= 2e-12 * (1 + size)).all()


@pytest.mark.parametrize("integrator", ["Euler", "implicit", "implicitfast", "RK4"])
@pytest.mark.parametrize(("cone", "n_envs", "substeps"), [("pyramidal", 9, 1), ("elliptic", 9, 3), ("pyramidal", 2, 2)])
def test_sensors_agree_with_the_engine_in_flight_and_in_contact(integrator, cone, n_envs, substeps):
    world = MujocoWorld(model(integrator, cone), n_envs, substeps=substeps)
    thrown(world)
    engine = Engine(world)
    peak = 0
    for _ in range(90 // substeps):
        world.step()
        expected = engine.step(substeps)
        assert (world.bind("qpos").numpy() == np.stack([d.qpos for d in engine.data])).all()
        assert_close(world.bind("sensordata").numpy(), expected)
        peak = np.maximum(peak, np.abs(expected))
    assert (peak.max(axis=0) > 0.5)[[0, 1, 2, 3, 4, 5, 13, 14, 15]].all()  # they turned, fell and hit the ground
    assert (len(free_link_sensors(world.model, True)) == 0) == (integrator == "RK4")


def test_which_sensors_are_computed_without_the_engine():
    def names(m, exact=True):
        return [m.sensor(int(sensor)).name for sensor in free_link_sensors(m, exact)]

    assert names(model()) == NAMES
    assert names(model(), exact=False) == ["accelerometer", "net", "base"]
    wrist = '<accelerometer name="wrist" site="wrist"/><gyro name="relative" site="wrist"/>'
    assert names(model(sensors=wrist)) == NAMES  # other sensors change nothing
    weld = '<body name="rider" pos="0 0 3"><joint type="slide"/><geom size="0.1"/></body>'
    m = mujoco.MjSpec.from_string(MODEL.format(integrator="Euler", cone="elliptic", bodies=weld, sensors=""))
    m.add_equality(type=mujoco.mjtEq.mjEQ_WELD, objtype=mujoco.mjtObj.mjOBJ_BODY, name1="brick", name2="rider")
    assert names(m.compile()) == [name for name in NAMES if name != "net"]
    rubbed = model()
    rubbed.dof_frictionloss[0] = 1
    assert names(rubbed) == [name for name in NAMES if name != "net"]
    per_env = free_link_sensors(model(), True, {"geom_adhesion"})
    assert [model().sensor(int(sensor)).name for sensor in per_env] == [name for name in NAMES if name != "net"]
    assert not len(free_link_sensors(model(), True, {"site_pos"}))
    tilted = '<framezaxis name="of_brick" objtype="body" objname="brick" reftype="site" refname="base"/>'
    tilted += '<framezaxis name="of_wrist" objtype="site" objname="wrist" reftype="body" refname="robot"/>'
    assert names(model(sensors=tilted)) == NAMES  # not the z axis of the world, or not in the frame of a site
    near = '<contact name="near" body1="robot" body2="brick" data="force" reduce="netforce"/>'
    assert names(model(sensors=near)) == NAMES


def test_net_force_of_more_contacts_than_a_contact_sensor_reports():
    feet = "".join(f'<geom size="0.02" pos="{0.05 * (i % 5)} {0.05 * (i // 5)} 0"/>' for i in range(20))
    bodies = f'<body name="table" pos="3 0 0.021"><freejoint/>{feet}</body>'
    net = '<contact name="table_net" body2="table" data="force" reduce="netforce"/>'
    world = MujocoWorld(model(bodies=bodies, sensors=net), 9)
    engine = Engine(world)
    contacts = 0
    for _ in range(40):
        world.step()
        assert_close(world.bind("sensordata").numpy(), engine.step())
        contacts = max(contacts, engine.data[0].ncon)
    assert "table_net" in [world.model.sensor(int(i)).name for i in free_link_sensors(world.model, True)]
    assert contacts > 16


@pytest.mark.parametrize("n_envs", [2, 9])
def test_gravity_and_magnetic_field_per_env(n_envs):
    world = MujocoWorld(model(), n_envs)
    gravity, magnetic = world.expand("opt.gravity"), world.expand("opt.magnetic")
    rng = np.random.default_rng(1)
    gravity[:], magnetic[:] = (
        torch.from_numpy(rng.normal(size=(n_envs, 3)) * 9),
        torch.from_numpy(rng.normal(size=(n_envs, 3))),
    )
    models = [model() for _ in range(n_envs)]
    for m, g, b in zip(models, gravity.numpy(), magnetic.numpy(), strict=True):
        m.opt.gravity, m.opt.magnetic = g, b
    thrown(world)
    engine = Engine(world, models)
    for _ in range(20):
        world.step()
        assert_close(world.bind("sensordata").numpy(), engine.step())


@pytest.mark.parametrize("flag", ["GRAVITY", "WARMSTART", "CONTACT", "ISLAND"])
def test_without_parts_of_the_physics(flag):
    m = model()
    m.opt.disableflags |= getattr(mujoco.mjtDisableBit, f"mjDSBL_{flag}")
    world = MujocoWorld(m, 9)
    thrown(world)
    engine = Engine(world)
    for _ in range(40):
        world.step()
        assert_close(world.bind("sensordata").numpy(), engine.step())


@pytest.mark.parametrize("solver", ["PGS", "CG"])
def test_with_other_solvers(solver):
    m = model(cone="elliptic")
    m.opt.solver, m.opt.noslip_iterations = getattr(mujoco.mjtSolver, f"mjSOL_{solver}"), 3
    world = MujocoWorld(m, 9)
    thrown(world)
    engine = Engine(world)
    for _ in range(40):
        world.step()
        assert_close(world.bind("sensordata").numpy(), engine.step())


def test_sites_that_differ_per_env_are_left_to_the_engine():
    world = MujocoWorld(model(), 9)
    offset = torch.linspace(0, 0.2, 9, dtype=torch.float64)
    world.expand("site_pos")[:, 0, 0] += offset
    models = [model() for _ in range(9)]
    for m, dx in zip(models, offset.tolist(), strict=True):
        m.site_pos[0, 0] += dx
    thrown(world)
    engine = Engine(world, models)
    for _ in range(20):
        world.step()
        assert (world.bind("sensordata").numpy() == engine.step()).all()


def test_bits_do_not_depend_on_envs_threads_and_other_sensors():
    touch = '<touch name="touch" site="wrist"/><accelerometer name="wrist" site="wrist"/>'
    worlds = [
        MujocoWorld(model(), 12, threads=2),
        MujocoWorld(model(), 1),
        MujocoWorld(model(sensors=touch), 9, threads=1),
    ]
    columns = worlds[0].model.nsensordata
    start = np.random.default_rng(0).normal(size=worlds[0].model.nv) * 4
    for world in worlds:
        world.bind("qvel")[:] = torch.from_numpy(start)
        world.forward()
    for _ in range(60):
        for world in worlds:
            world.step()
        first, *others = (world.bind("sensordata").numpy()[0, :columns] for world in worlds)
        assert all((first == other).all() for other in others)


@pytest.mark.parametrize("n_envs", [2, 9])
def test_held_envs_keep_their_values(n_envs):
    world = MujocoWorld(model(), n_envs)
    thrown(world)
    world.step()
    before = world.bind("sensordata").clone()
    world.hold([1])
    world.step()
    after = world.bind("sensordata")
    assert (after[1] == before[1]).all()
    assert (after[0, :6] != before[0, :6]).all()


@pytest.mark.parametrize("n_envs", [2, 9])
def test_fields_that_only_sensors_need_are_still_computed(n_envs):
    world = MujocoWorld(model(), n_envs)
    cacc = world.bind("cacc")
    thrown(world)
    engine = Engine(world)
    for _ in range(5):
        world.step()
        assert_close(world.bind("sensordata").numpy(), engine.step())
    assert (cacc.numpy() == np.stack([d.cacc for d in engine.data])).all()


@pytest.mark.parametrize("n_envs", [2, 9])
def test_fields_bound_later_show_the_current_state(n_envs):
    world = MujocoWorld(model(), n_envs)
    thrown(world)
    for _ in range(3):
        world.step()  # nothing that the stages at the new state compute is bound
    sensed = world.bind("sensordata").clone()
    for _ in range(2):
        xpos, data = world.bind("xpos").numpy(), mujoco.MjData(world.model)
        for env in range(n_envs):
            data.qpos[:] = world.bind("qpos")[env].numpy()
            mujoco.mj_kinematics(world.model, data)
            assert (xpos[env] == data.xpos).all()
        assert (world.bind("sensordata") == sensed).all()
        world.step()
        sensed = world.bind("sensordata").clone()


@pytest.mark.parametrize("n_envs", [1, 9])
def test_imu_at_every_substep_agrees_with_the_engine(n_envs):
    scene = sn.Scene(dt=0.01, substeps=5)
    scene.add_object(sn.Plane())
    scene.add_object(sn.Box(size=(0.2, 0.3, 0.2), mass=1.0), name="box", pos=(0, 0, 0.3), free=True)
    imu = scene.add_sensor(sn.IMU(link="box", pos=(0.1, 0.05, 0), euler=(10, 20, 30), substeps=True))
    force = scene.add_sensor(sn.ContactForce(link="box", substeps=True))
    scene.build(n_envs=n_envs)
    scene.world.bind("qvel")[:] = torch.tensor([1.0, -2.0, -1.0, 4.0, 5.0, -3.0])
    scene.forward()
    engine = Engine(scene.world)
    m = scene.model
    for _ in range(30):
        scene.step()
        felt, pushed = imu.read_samples().values.lin_acc, force.read_samples().values
        for k in range(5):
            data = engine.step()[0]
            acc, net = (data[m.sensor(name).adr[0] :][:3] for name in ("imu_box:acc", "contact_force_box:contact0"))
            assert felt[0, k].numpy() == pytest.approx(acc, rel=1e-5, abs=1e-4)
            assert np.linalg.norm(pushed[0, k].numpy()) == pytest.approx(np.linalg.norm(net), rel=1e-5, abs=1e-3)


def test_encoders_of_an_arm_on_a_fixed_base_are_left_to_the_engine():
    m = mujoco.MjModel.from_xml_string(
        "<mujoco><worldbody><body><joint name='hinge'/><geom size='0.1'/></body></worldbody>"
        "<sensor><jointpos joint='hinge'/></sensor></mujoco>"
    )
    assert not len(free_link_sensors(m, True))


def test_steps_of_a_walking_robot_end_with_the_state():
    """A pass of the engine over positions and velocities would cost a twelfth of the step, and nothing reads it."""
    task = sn.tasks.make("walk", n_envs=16, seed=0)
    world, passes = task.scene.world, []
    task.reset()
    world._make_current = lambda ids: passes.append(ids) or {}
    for _ in range(5):
        task.step(torch.full((16, 12), 0.2))
    assert not passes
    truth = task.robot.rig["joints"].read_ground_truth().positions
    assert torch.equal(truth, world.bind("qpos")[:, 7:].float())
    task.close()


def random_robots(rng):
    """Return a model, and the names of the sensors that are computed without the engine.

    It has one to three robots, most of them with a free base, attached at an offset and rotated. Each has a welded
    link, joints with a reference and a spring, and sensors at all of its sites.
    """
    spec, kinds, objects = mujoco.MjSpec(), mujoco.mjtSensor, mujoco.mjtObj
    spec.option.timestep, spec.option.integrator = 0.004, mujoco.mjtIntegrator(int(rng.choice([0, 2, 3])))
    spec.option.gravity = rng.normal(size=3) * 5
    spec.worldbody.add_geom(type=mujoco.mjtGeom.mjGEOM_PLANE, size=[0, 0, 1])
    mocap = spec.worldbody.add_body(name="mocap", mocap=True, pos=[3, 3, 1], quat=rng.normal(size=4))
    mocap.add_site(name="mocap_site", quat=rng.normal(size=4))
    sites, free, joints = ["mocap_site"], list[str](), list[str]()
    for number in range(int(rng.integers(1, 4))):
        body = mujoco.MjSpec().worldbody.add_body(name="base", pos=rng.normal(size=3), quat=rng.normal(size=4))
        root = body
        if rng.random() < 0.8:
            body.add_freejoint()
            free.append(f"{number}/site")
        else:
            body.add_joint(type=mujoco.mjtJoint.mjJNT_SLIDE)
        body.add_geom(type=mujoco.mjtGeom.mjGEOM_BOX, size=rng.uniform(0.05, 0.2, 3), pos=rng.normal(size=3) * 0.1)
        body.add_site(name="site", pos=rng.normal(size=3) * 0.2, quat=rng.normal(size=4))
        rider = body.add_body(name="rider", pos=rng.normal(size=3) * 0.1, quat=rng.normal(size=4))
        rider.add_geom(size=[0.03] * 3)
        rider.add_site(name="rider_site", quat=rng.normal(size=4))
        sites += [f"{number}/site", f"{number}/rider_site"]
        for k in range(int(rng.integers(0, 4))):
            body = body.add_body(name=f"link{k}", pos=rng.normal(size=3) * 0.2, quat=rng.normal(size=4))
            kind = mujoco.mjtJoint.mjJNT_HINGE if rng.random() < 0.6 else mujoco.mjtJoint.mjJNT_SLIDE
            joint = body.add_joint(name=f"joint{k}", type=kind, axis=rng.normal(size=3), stiffness=rng.uniform(0, 5))
            joint.ref, joint.springref = rng.normal(size=2)
            body.add_geom(size=[0.05] * 3, pos=rng.normal(size=3) * 0.1)
            body.add_site(name=f"site{k}", pos=rng.normal(size=3) * 0.1, quat=rng.normal(size=4))
            sites.append(f"{number}/site{k}")
            joints.append(f"{number}/joint{k}")
        spec.worldbody.add_frame(pos=[1.5 * number, 0, 1], quat=rng.normal(size=4)).attach_body(root, f"{number}/", "")
    own = []
    for site in sites:
        for number, kind in enumerate((kinds.mjSENS_GYRO, kinds.mjSENS_ACCELEROMETER, kinds.mjSENS_MAGNETOMETER)):
            spec.add_sensor(name=f"{site} {number}", type=kind, objtype=objects.mjOBJ_SITE, objname=site)
        for name, kind in (("quat", kinds.mjSENS_FRAMEQUAT), ("axis", kinds.mjSENS_FRAMEZAXIS)):
            spec.add_sensor(name=f"{site} {name}", type=kind, objtype=objects.mjOBJ_SITE, objname=site)
        for name, of in (("up", objects.mjOBJ_BODY), ("upwards", objects.mjOBJ_XBODY)):
            up = spec.add_sensor(name=f"{site} {name}", type=kinds.mjSENS_FRAMEZAXIS, objtype=of, objname="world")
            up.reftype, up.refname = objects.mjOBJ_SITE, site
        own += [f"{site} {each}" for each in (0, 1, 2, "quat", "up", "upwards") if site in free]
    for joint in joints:
        for name, kind in (("pos", kinds.mjSENS_JOINTPOS), ("vel", kinds.mjSENS_JOINTVEL)):
            cutoff = 0.3 if rng.random() < 0.2 else 0.0
            objtype = objects.mjOBJ_JOINT
            spec.add_sensor(name=f"{joint} {name}", type=kind, objtype=objtype, objname=joint, cutoff=cutoff)
            own += [f"{joint} {name}"] if free and not cutoff else []
    return spec.compile(), own


@pytest.mark.parametrize("seed", range(12))
def test_sensors_of_random_robots_agree_with_the_engine(seed):
    rng = np.random.default_rng(seed)
    m, own = random_robots(rng)
    n_envs, substeps = ((3, 1), (9, 2))[seed % 2]
    world = MujocoWorld(m, n_envs, substeps=substeps)
    world.bind("qvel")[:] = torch.from_numpy(rng.normal(size=(n_envs, m.nv)) * 3)
    world.forward()
    engine = Engine(world)
    for _ in range(15):
        world.step()
        expected = engine.step(substeps)
        assert_close(world.bind("sensordata").numpy(), expected, 1e3 * (1 + np.abs(expected).max()))
    assert {m.sensor(int(sensor)).name for sensor in free_link_sensors(m, True)} == set(own)
