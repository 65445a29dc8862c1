"""Parts of the GPU engine that run without a GPU: its own kernels on Warp's CPU device, and allocated capacities."""

import contextlib

import mujoco
import numpy as np
import pytest
import torch
from conftest import ARM

import sensorium as sn
from sensorium.worlds.capacity import capacities, contact_bound
from sensorium.worlds.model_fields import expand_fields

wp = pytest.importorskip("warp")


def array(values, dtype=float):
    return wp.array(np.asarray(values), dtype=dtype, device="cpu")


BOX = """
<mujoco><worldbody><geom type="plane" size="0 0 1"/><body pos="0 0 0.5"><freejoint/>
<geom name="box" type="box" size="0.1 0.1 0.1" mass="1"/><site name="s"/></body></worldbody>
<actuator><general site="s" dyntype="integrator"/></actuator><sensor><accelerometer site="s"/></sensor></mujoco>
"""
LOST = {"NEFC": 1, "NARROWPHASE": 8, "HFIELD": 32, "ITERATIONS": 512}


@pytest.fixture
def watched():
    """A Watch over 4 envs of a box, on Warp's CPU device; no physics runs."""
    import mujoco_warp as mjw

    from sensorium.worlds.warp_watch import Watch

    model = mujoco.MjModel.from_xml_string(BOX)
    with wp.ScopedDevice("cpu"):
        m, d = mjw.put_model(model), mjw.make_data(model, nworld=4, nconmax=5, njmax=20)
        for name, value in (("qpos", 1.0), ("ctrl", 3.0), ("act", 2.0), ("qacc_warmstart", 9.0)):
            getattr(d, name).fill_(value)
        yield m, d, Watch(m, d, 0.01, {"nconmax": 5, "njmax": 20})


def put(field, env, value):
    """Write the first value of an env, as the engine could have."""
    array = wp.to_torch(field)
    array[env].flatten()[0] = value


def restart(m, d, watch, envs, fresh=True):
    import mujoco_warp as mjw

    mask = array([env in envs for env in range(4)], bool)
    watch.keep()
    if fresh:
        mjw.reset_data(m, d, mask)
    d.qacc_warmstart.fill_(5.0)  # as a forward pass of all envs does
    watch.restart(mask, fresh)


def test_steps_are_counted_and_diverged_envs_are_held(watched):
    _m, d, watch = watched
    watch.steps.fill_(4)
    put(d.qpos, 1, np.nan)
    put(d.qvel, 2, 2e10)
    put(d.sensordata, 1, np.nan)
    put(d.sensordata, 0, 7.0)
    for force in (d.actuator_force, d.qfrc_actuator, d.qfrc_passive, d.qfrc_constraint):
        put(force, 1, np.nan)
        put(force, 0, np.nan)  # env 0 did not diverge, so this value stays
    put(d.xfrc_applied, 1, np.inf)
    for round_ in range(2):
        watch.check_step()
        assert watch.steps.tolist() == [5 + round_, 4, 4, 5 + round_]
        np.testing.assert_allclose(d.time.numpy(), np.array([5 + round_, 4, 4, 5 + round_]) * 0.01, rtol=1e-6)
        assert watch.status[0] == (round_ == 0)
        if round_ == 0:
            assert watch.report() == dict.fromkeys((1, 2), "position or velocity is NaN, infinite or huge")
        d.ctrl.fill_(np.nan)  # as a policy would after reading NaN
        d.qvel.fill_(1.0)
    assert watch.held.tolist() == [0, 1, 1, 0]
    assert np.isnan(d.qfrc_actuator.numpy()[0, 0])
    for env in (1, 2):
        for name in ("actuator_force", "qfrc_actuator", "qfrc_passive", "qfrc_constraint"):
            assert np.isfinite(getattr(d, name).numpy()[env]).all()
        np.testing.assert_allclose(d.qpos.numpy()[env], [0, 0, 0.5, 1, 0, 0, 0])
        for name in ("act", "xfrc_applied", "qacc_warmstart", "sensordata"):
            assert not getattr(d, name).numpy()[env].any()
    assert d.qpos.numpy()[0].tolist() == [1.0] * 7
    assert d.sensordata.numpy()[0, 0] == 7
    watch.check_step()
    assert not d.ctrl.numpy()[1:3].any()  # the same controls do not reach a held env again
    assert np.isnan(d.ctrl.numpy()[[0, 3]]).all()


def test_a_restart_does_not_change_other_envs(watched):
    m, d, watch = watched
    for fresh, expected in ((True, 0), (False, 3)):
        d.qacc_warmstart.fill_(9.0)
        d.time.fill_(0.03)
        watch.steps.fill_(9)
        watch.held.fill_(1)
        restart(m, d, watch, [0], fresh)
        assert watch.steps.tolist() == [expected, 9, 9, 9]
        assert watch.held.tolist() == [0, 1, 1, 1]
        assert d.qacc_warmstart.numpy()[:, 0].tolist() == [5, 9, 9, 9]


@pytest.mark.parametrize("resets", [[], [2], [0, 1, 2, 3]])
def test_lost_contacts_are_reported_even_if_the_env_was_reset(watched, resets):
    m, d, watch = watched
    put(d.overflow, 2, LOST["NEFC"] | LOST["ITERATIONS"])
    watch.check_step()
    assert watch.status[0]
    restart(m, d, watch, resets)
    with pytest.raises(sn.CapacityError, match=r"env 2 and 0 more .*\(NEFC\).*more than njmax=20$") as raised:
        watch.report()
    assert raised.value.envs == [2]
    watch.check_step()
    assert not watch.status[0]


@pytest.mark.parametrize(
    ("field", "index", "kind"),
    [("nefc", 3, "NEFC"), ("ncollision", 0, "BROADPHASE"), ("nacon", 0, "NARROWPHASE"), ("overflow", 3, "HFIELD")],
)
def test_contacts_lost_in_a_restart_are_reported(watched, field, index, kind):
    """The engine itself checks most of them in steps only."""
    m, d, watch = watched
    restart(m, d, watch, [1])
    assert not watch.status[0]
    put(getattr(d, field), index, LOST[kind] if field == "overflow" else 21)
    restart(m, d, watch, [1])
    with pytest.raises(sn.CapacityError, match=kind) as raised:
        watch.report()
    assert 3 in raised.value.envs


def test_all_overflows_but_iteration_limits_are_named(watched):
    _m, d, watch = watched
    for env, kind in enumerate(("ITERATIONS", "NARROWPHASE", "NEFC", "HFIELD")):
        put(d.overflow, env, LOST[kind])
    watch.check_step()
    with pytest.raises(sn.CapacityError, match=r"\(NEFC \| NARROWPHASE \| HFIELD\).*njmax=20 and nconmax=5") as raised:
        watch.report()
    assert raised.value.envs == [1, 2, 3]
    put(d.overflow, 0, LOST["HFIELD"])
    watch.check_step()
    with pytest.raises(sn.CapacityError, match="MuJoCo Warp fixes this capacity"):
        watch.report()


def test_a_capacity_error_names_envs_that_diverged_too(watched):
    _m, d, watch = watched
    put(d.overflow, 1, LOST["NEFC"])
    put(d.qvel, 3, np.nan)
    watch.check_step()
    with pytest.raises(sn.CapacityError) as raised:
        watch.report()
    assert (raised.value.envs, list(raised.value.failed)) == ([1], [3])
    watch.check_step()
    assert not watch.status[0]


def test_a_scene_reports_the_failures_of_all_steps(monkeypatch):
    scene = sn.Scene()
    scene.add_object(sn.Sphere(), name="ball", free=True)
    scene.build(n_envs=5)
    news = iter([{0: "gone"}, sn.CapacityError("room", [1]), {}, sn.CapacityError("more room", [3], {2: "huge"}), {}])

    def step():
        now = next(news)
        if isinstance(now, Exception):
            raise now
        return now

    monkeypatch.setattr(scene.world, "step", step)
    with pytest.raises(sn.CapacityError, match="more room") as raised:
        scene.step(5)
    assert raised.value.envs == [1, 3]
    assert raised.value.failed == scene.failed == {0: "gone", 2: "huge"}
    assert next(news, None) is None  # all five steps were made
    news = iter([sn.CapacityError("room", [1], {4: "nan"})])
    monkeypatch.setattr(scene.world, "check", step)
    with pytest.raises(sn.CapacityError):
        scene.check()
    assert scene.failed.keys() == {0, 2, 4}


def test_an_env_that_diverged_and_was_reset_gives_a_warning(watched):
    m, d, watch = watched
    put(d.qvel, 3, np.nan)
    watch.check_step()
    restart(m, d, watch, [3])
    with pytest.warns(UserWarning, match="env 3 and 0 more diverged .* reset before this was reported; 1 so far"):
        assert watch.report() == {}
    assert not watch.status[0]


@pytest.fixture
def still_world():
    """A WarpWorld of a box in 3 envs on Warp's CPU device, without physics."""
    import mujoco_warp as mjw

    from sensorium.worlds.warp_world import WarpWorld

    world = object.__new__(WarpWorld)
    with wp.ScopedDevice("cpu"):
        world.model = mujoco.MjModel.from_xml_string(BOX)
        world.m = mjw.put_model(world.model)
        world.d = mjw.make_data(world.model, nworld=3)
        world.n_envs, world.expanded, world._graphs, world._bound = 3, {}, {}, {}
        yield world


def test_model_fields_that_can_differ_per_env(still_world):
    still_world._graphs["step"] = None
    mass = still_world.expand("body_mass")
    assert mass.shape == (3, 2)
    assert not still_world._graphs  # they will be captured again
    mass[1] = 5.0
    assert wp.to_torch(still_world.m.body_mass)[1].tolist() == [5, 5]
    assert still_world.expand("body_mass").data_ptr() == mass.data_ptr()
    assert not still_world.m.has_fluid
    still_world.expand("opt.density")
    assert still_world.m.has_fluid  # otherwise the engine would skip fluid forces


@pytest.mark.parametrize(
    "field", ["geom_contype", "body_parentid", "jnt_type", "body_mas", "opt.densty", "opt.timestep", "nbody"]
)
def test_model_fields_that_cannot_differ_per_env(still_world, field):
    """Also if the number of geoms happens to be that of envs, or if there is one joint."""
    still_world.n_envs = 2
    with pytest.raises(sn.OptionError, match=r"can(not)? differ per env|which all envs share"):
        still_world.expand(field)


def test_derived_fields_differ_per_env_too(still_world, monkeypatch):
    from sensorium.worlds import warp_world

    whole = warp_world.mjw.set_const
    fixed = {"groups": warp_world.mjw.SetConstGroup.FIXED, "restore": False}
    monkeypatch.setattr(warp_world.mjw, "set_const", lambda m, d: whole(m, d, **fixed))  # without physics
    still_world.run = lambda body: body()
    still_world.expand("body_mass")[:, 1] = torch.tensor([1.0, 2.0, 3.0])
    still_world.expand("geom_size")[:, 1] = torch.tensor([[0.1], [0.2], [0.3]])
    still_world.update_constants()
    assert still_world.expanded["body_subtreemass"][:, 1].tolist() == [1, 2, 3]
    np.testing.assert_allclose(still_world.expanded["geom_rbound"][:, 1], np.array([0.1, 0.2, 0.3]) * 3**0.5, rtol=1e-6)
    assert {"dof_invweight0", "body_invweight0", "actuator_acc0"} <= still_world.expanded.keys()


def test_recorded_fields_are_set_and_derived_fields_are_recomputed(still_world):
    """Fields recorded by the CPU engine, some of which MuJoCo Warp does not have."""
    still_world.is_gpu, calls = True, []
    still_world.update_constants = lambda: calls.append("constants")
    still_world.reset = lambda: calls.append("reset")
    mass = np.arange(6.0).reshape(3, 2)
    expand_fields(
        still_world, {"body_mass": mass, "dof_length": np.ones((3, 6)), "geom_rbound": None, "geom_size": None}
    )
    assert calls == ["constants", "reset"]
    assert still_world.expanded.keys() == {"body_mass", "geom_size"}
    assert wp.to_torch(still_world.m.body_mass).tolist() == mass.tolist()
    with pytest.raises(sn.OptionError, match=r"'body_mass' must have shape \(3, 2\), got \(2, 2\)"):
        expand_fields(still_world, {"body_mass": mass[:2]})


def test_fields_have_the_shapes_of_mujoco(still_world):
    for field in ("geom_aabb", "body_inertia", "opt.gravity", "opt.density", "jnt_range", "actuator_gear", "eq_data"):
        name = field.removeprefix("opt.")
        owner = still_world.model.opt if name != field else still_world.model
        assert still_world.expand(field).shape == (3, *np.shape(getattr(owner, name)))


def test_matrices_have_the_shape_of_mujoco(still_world):
    for field in ("xmat", "geom_xmat", "ximat"):
        assert still_world.bind(field).shape == (3, 2, 9)
    still_world.bind("xmat")[1, 1, 0] = 7.0
    assert wp.to_torch(still_world.d.xmat)[1, 1, 0, 0] == 7


def test_capacities_are_sufficient():
    """They cover every contact that MuJoCo finds in a heap of all shapes."""
    shapes = ("box", "sphere", "capsule", "cylinder", "ellipsoid")
    bodies = "".join(
        f'<body pos="0 0 {0.12 + 0.05 * i}"><freejoint/><geom type="{shape}" size="0.1 0.1 0.1"/></body>'
        for i, shape in enumerate(shapes)
    )
    xml = f'<mujoco><worldbody><geom type="plane" size="0 0 1"/>{bodies}</worldbody></mujoco>'
    model = mujoco.MjModel.from_xml_string(xml)
    data = mujoco.MjData(model)
    contacts, rows = contact_bound(model)
    nconmax, njmax = capacities(model)
    most = 0
    for _ in range(200):
        mujoco.mj_step(model, data)
        most = max(most, data.ncon)
        assert data.ncon <= contacts
        assert data.nefc <= rows
        assert data.ncon <= nconmax
        assert data.nefc <= njmax
    assert most > 4


def test_capacities_exclude_pairs_that_cannot_collide():
    model = mujoco.MjModel.from_xml_string(ARM)
    assert contact_bound(model) == (0, 0), "parent and child do not collide"
    assert capacities(model) == (8, 8)


@pytest.mark.parametrize(
    ("name", "in_warp", "graphs", "message"),
    [
        ("cuda:3", 1, True, "device='cuda:3' does not exist: there are 1 CUDA devices"),
        ("cuda", 0, True, "torch finds a GPU, but Warp finds none"),
        ("cuda", 1, False, r"driver is too old \(it supports CUDA \(12, 2\)\); install one for CUDA 12\.4 or newer"),
        ("cuda", 1, True, None),
    ],
)
def test_unusable_devices_and_drivers_raise(monkeypatch, name, in_warp, graphs, message):
    """With the answers that torch and Warp give on such machines."""
    from sensorium.worlds.warp_device import check_cuda

    for owner, function, answer in (
        (torch.cuda, "current_device", 0),
        (torch.cuda, "device_count", 1),
        (wp, "get_cuda_device_count", in_warp),
        (wp, "is_conditional_graph_supported", graphs),
        (wp, "get_cuda_driver_version", (12, 2)),
    ):
        monkeypatch.setattr(owner, function, lambda answer=answer: answer)
    if message is None:
        assert check_cuda(name) == torch.device("cuda", 0)
        return
    with pytest.raises(sn.DeviceError, match=message):
        check_cuda(name)


def test_too_little_memory_names_what_to_lower(monkeypatch):
    from sensorium.worlds import warp_world

    def full(world, model):
        raise RuntimeError("Failed to allocate 12345678 bytes on device 'cuda:0'")

    monkeypatch.setattr(warp_world, "check_cuda", lambda device: torch.device("cpu"))
    monkeypatch.setattr(warp_world.WarpWorld, "_allocate", full)
    monkeypatch.setattr(warp_world.WarpWorld, "_stream", lambda world: contextlib.nullcontext())
    monkeypatch.setattr(torch.cuda, "MemPool", lambda: None)
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda device: (2**30, 8 * 2**30))
    model = mujoco.MjModel.from_xml_string(BOX)
    with pytest.raises(sn.DeviceError, match=r"n_envs=9 with nconmax=5 and njmax=\d+: 1\.0 of 8\.0 GiB.*Lower n_envs"):
        warp_world.WarpWorld(model, 9, nconmax=5)
