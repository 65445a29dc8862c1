"""Chained kernel launches: a suite that runs as one native call reads the same bits as with separate calls."""

import functools
import gc
import random
import threading

import numba
import numpy as np
import pytest
import torch

import sensorium as sn
from sensorium.pipeline import chain as chains
from sensorium.pipeline import plan
from sensorium.pipeline.chain import Calls, KernelChain, chain
from sensorium.pipeline.cpu import CpuKernels
from sensorium.pipeline.launch import Launch, StepCounter, capture, launch
from sensorium.sensors.robot.barometer import BarometerSensor
from sensorium.sensors.robot.wheel_odometry import WheelOdometrySensor
from sensorium.sensors.touch.contact_probe import ContactDepthProbeSensor

ROVER = """
<mujoco><worldbody><body name="base" pos="0 0 0.12"><freejoint/>
  <geom type="box" size="0.15 0.1 0.04" mass="3"/>
  <body name="left" pos="0 0.13 -0.02"><joint name="left" axis="0 1 0" armature="0.02" damping="0.01"/>
    <geom type="cylinder" size="0.06 0.02" euler="90 0 0" mass="0.3"/></body>
  <body name="right" pos="0 -0.13 -0.02"><joint name="right" axis="0 1 0" armature="0.02" damping="0.01"/>
    <geom type="cylinder" size="0.06 0.02" euler="90 0 0" mass="0.3"/></body>
</body></worldbody>
<actuator><velocity joint="left" kv="0.5"/><velocity joint="right" kv="0.5"/></actuator></mujoco>"""


def suite(**extra):
    base = {"link": "base"} | extra
    on_top = {"link": "base", "pos": (0, 0, 0.04)} | extra
    return [
        sn.presets.imu("consumer_mems", **base),
        sn.Contact(link="left", **extra),
        sn.ContactForce(**base, noise=0.1),
        sn.JointEncoder(robot="rover", noise=0.01, **extra),
        sn.FramePose(**base, pos_noise=0.01),
        sn.JointTorque(robot="rover", **extra),
        sn.ForceTorque(link="left", tool_mass=0.1, **extra),
        sn.Barometer(**base),
        sn.GPS(**base, loss_rate=2.0),
        sn.Magnetometer(**base),
        sn.OpticalFlow(**base),
        sn.WheelOdometry(left="left", right="right", radius=0.06, track=0.26, **extra),
        sn.BatteryState(**extra),
        sn.Clock(),
        sn.Proximity(**base, positions=((0.15, 0, 0), (0, 0.1, 0))),
        sn.ContactProbe(**on_top),
        sn.ContactDepthProbe(**on_top, uuid="depth"),
        sn.TactileArray(**on_top, grid=(4, 4), spacing=0.01, gain_spread=0.1),
        sn.TactileArray(**on_top, grid=(2, 2), spacing=0.01, stiffness=1e3, uuid="springs"),
        sn.ElastomerDisplacement(**on_top, relaxation_fraction=0.3),
    ]


def rover(sensors, n_envs):
    scene = sn.Scene(dt=0.01, substeps=2)
    scene.add_object(sn.Plane(), name="ground")
    scene.add_robot(ROVER, name="rover")
    scene.add_object(sn.Box(size=(0.05, 0.05, 0.05), mass=0.2), name="cargo", pos=(0, 0, 0.19), free=True)
    for options in sensors:
        scene.add_sensor(options)
    scene.build(n_envs=n_envs, seed=3)
    return scene


def calls_of(scene):
    """The calls that a step of the scene makes for its sensors."""
    return plan_of(scene)._calls


def plan_of(scene):
    return scene._sensing._plan._plans[-1]


def readings(scene):
    out = {}
    for sensor in scene.sensors.values():
        for branch in (sensor.read(), sensor.read_ground_truth()):
            for tensor in branch if isinstance(branch, tuple) else (branch,):
                out[f"{sensor.uuid} {len(out)}"] = tensor.clone()
    return out


@pytest.fixture
def fresh_self_test():
    """Repeat the self-test of chains in the test and after it."""
    chains._trusted.cache_clear()
    yield
    chains._trusted.cache_clear()


def _increment():
    x = np.zeros(3)
    return x, [Launch(numba.njit(lambda x: add_one(x)), (x,))]


@numba.njit
def add_one(x):
    x += 1


def test_chains_pass_the_self_test_on_this_machine(fresh_self_test):
    x, launches = _increment()
    made = chain(launches)
    assert isinstance(made, KernelChain)
    made()
    assert x.tolist() == [1, 1, 1]


def test_environment_variable_disables_chains(fresh_self_test, monkeypatch):
    monkeypatch.setenv("SENSORIUM_CHAIN", "0")
    x, launches = _increment()
    made = chain(launches)
    assert isinstance(made, Calls)
    made()
    assert x.tolist() == [1, 1, 1]


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda patch: patch.setattr(numba, "__version__", "0.99.1"), "Numba 0.99.1 was not tested"),
        (lambda patch: patch.setattr(KernelChain, "__call__", lambda self: None), "differs from the plain call"),
        (lambda patch: patch.setattr(chains, "_native", lambda one: None), "differs from the plain call"),
    ],
)
def test_failed_self_test_warns_once_and_uses_separate_calls(fresh_self_test, monkeypatch, change, reason):
    change(monkeypatch)
    with pytest.warns(UserWarning, match=reason):
        made = chain(_increment()[1])
    assert isinstance(made, Calls)
    x, launches = _increment()
    chain(launches)()  # a second warning would raise
    assert x.tolist() == [1, 1, 1]


@pytest.mark.parametrize("n_envs", [1, 3])
@pytest.mark.parametrize("extra", [{}, {"delay": 0.02, "history_length": 2}, {"rate": 30.0}], ids=str)
def test_chained_suite_reads_the_same_bits_as_separate_calls(n_envs, extra, monkeypatch):
    chained = rover(suite(**extra), n_envs)
    monkeypatch.setattr(CpuKernels, "threaded", True)
    plain = rover(suite(**extra), n_envs)
    assert any(isinstance(call, KernelChain) for call in calls_of(chained))
    assert not any(isinstance(call, KernelChain) for call in calls_of(plain))
    moved = False
    for step in range(60):
        for scene in (chained, plain):
            scene.world.bind("ctrl")[:] = torch.tensor([3.0, 2.0])
            scene.step()
            if step == 20:
                scene.reset([n_envs - 1])
            if step == 30:  # the hardware stage of the probe has work to do until step 45
                scene.sensors["depth"].set(noise=1e-3)
            if step == 45:
                scene.sensors["depth"].set(noise=0.0)
        got = assert_same_bits(chained, plain, step)
        moved |= bool((got[next(name for name in got if name.startswith("depth"))] != 0).any())
    assert moved


def assert_same_bits(one, other, step):
    got, expected = readings(one), readings(other)
    for name, tensor in expected.items():
        torch.testing.assert_close(got[name], tensor, rtol=0, atol=0, equal_nan=True, msg=f"{name} at {step}")
    return got


def mixed_suite():
    """Several sensors per class. Some of them have a rate, a delay or imperfections, others do not."""
    on_top = {"link": "base", "pos": (0, 0, 0.04)}
    return [
        *suite(max_delay=0.03, history_length=2),
        sn.GPS(link="base", rate=25.0, uuid="slow gps", loss_rate=3.0),
        sn.Barometer(link="base", rate=33.0, uuid="slow barometer"),
        sn.ContactProbe(**on_top, rate=40.0, noise=1e-4),
        sn.TactileArray(**on_top, grid=(3, 3), spacing=0.01, crosstalk_length=0.01, bias_spread=0.1, bandwidth=10.0),
        sn.WheelOdometry(left="left", right="right", radius=0.06, track=0.26, dropout=0.2),
        sn.BatteryState(rate=20.0, stuck=0.1),
        sn.IMU(link="base", delay=0.025, interpolate=True),
    ]


def disturb(scene, rng, state):
    """Make a random change that users may make between steps."""
    n = scene.n_envs
    envs = sorted(rng.sample(range(n), rng.randint(1, n))) if rng.random() < 0.5 else None
    action = rng.choice(["set"] * 6 + ["reset", "forward", "set_state", "count"])
    if action == "set":
        sensor = scene.sensors[rng.choice(sorted(scene.sensors))]
        if not sensor.parameter_names:
            return
        name = rng.choice(sensor.parameter_names)
        values = {"rate": (None, 20.0, 37.0), "delay": (0.0, 0.01, 0.015), "dropout": (0.0, 0.3), "stuck": (0.0, 0.5)}
        value = rng.choice(values.get(name, (0.0, 0.02, 0.3, None)))
        if value and rng.random() < 0.4:  # one value per env
            count = n if envs is None else len(envs)
            value = value * np.arange(1, count + 1)[:, None] / count
        try:
            sensor.set(envs=envs, **{name: value})
        except sn.OptionError:
            return
    elif action == "set_state":
        scene.set_state(state if envs is None else state[envs], envs)
    elif action == "count":
        scene.step_count = rng.choice([0, 7, 1000])
    else:
        getattr(scene, action)(envs)


@pytest.mark.parametrize(("n_envs", "seed"), [(1, 0), (2, 1), (7, 2)])
def test_chained_suite_reads_the_same_bits_after_random_changes(n_envs, seed, monkeypatch):
    chained = rover(mixed_suite(), n_envs)
    monkeypatch.setattr(CpuKernels, "threaded", True)
    plain = rover(mixed_suite(), n_envs)
    monkeypatch.undo()
    state = chained.get_state()
    for step in range(50):
        for scene in (chained, plain):
            rng = random.Random(f"{seed} {step}")
            monkeypatch.setattr(CpuKernels, "threaded", scene is plain)
            for _ in range(rng.randint(0, 2)):
                disturb(scene, rng, state)
            scene.world.bind("ctrl")[:] = rng.uniform(-4, 4)
            scene.step()
        assert_same_bits(chained, plain, step)
    assert any(isinstance(call, KernelChain) for call in calls_of(chained))
    assert not any(isinstance(call, KernelChain) for call in calls_of(plain))


def test_a_step_of_a_suite_is_one_native_call():
    scene = rover(suite(), 1)
    assert [type(call) for call in calls_of(scene)] == [KernelChain]


def test_plans_are_kept_and_used_again():
    scene = rover(suite(), 1)
    first = calls_of(scene)
    for noise in (0.1, 0.0, 0.2, 0.0):
        scene.sensors["depth"].set(noise=noise)
        scene.step()
        assert (calls_of(scene) is first) == (noise == 0)
    assert len(plan_of(scene)._plans) == 2


def test_settings_of_fused_classes_need_no_new_plan():
    """The fused kernel itself holds the reading of an IMU with a rate."""
    scene = rover([sn.IMU(link="base", uuid="imu"), sn.JointEncoder(robot="rover", rate=20.0)], 1)
    first = calls_of(scene)
    for rate in (50.0, None, 30.0):
        scene.sensors["imu"].set(rate=rate)
        scene.step()
        assert calls_of(scene) is first


def test_number_of_kept_plans_is_limited(monkeypatch):
    monkeypatch.setattr(plan, "_MAX_PLANS", 2)
    probes = {"link": "base", "pos": (0, 0, 0.04)}
    scene = rover([sn.ContactDepthProbe(**probes, uuid="a"), sn.ContactProbe(**probes, uuid="b")], 1)
    for noise in ((0, 0), (1, 0), (1, 1), (0, 1), (0, 0)):
        for uuid, amount in zip("ab", noise, strict=True):
            scene.sensors[uuid].set(noise=1e-3 * amount)
        scene.step()
        assert len(plan_of(scene)._plans) <= 2
        assert list(plan_of(scene)._plans.values())[-1] is calls_of(scene)


def test_gps_samples_in_every_step_after_its_rate_is_removed():
    """Steps do not update ``due`` of a sensor without a rate, so ``set`` must reset it."""
    scene = rover([sn.GPS(link="base", rate=20.0, uuid="gps")], 2)
    gps = scene.sensors["gps"]
    scene.step(7)
    assert not gps.group.timing(gps)[0].any()
    gps.set(rate=None)
    assert gps.group.timing(gps)[0].all()
    for _ in range(5):
        scene.step()
        assert torch.equal(gps.read().altitude, gps.read_ground_truth().altitude)


class RandomizingOdometry(sn.WheelOdometry):
    """Odometry whose reset hook sets the noise of another sensor, as domain randomisation does."""


class RandomizingOdometrySensor(WheelOdometrySensor, options=RandomizingOdometry):
    @classmethod
    def _reset_group(cls, group, mask):
        super()._reset_group(group, mask)
        group.sensors[0]._manager._sensors[0].set(noise=1e-3)


def test_parameters_set_in_a_reset_hook_act_in_the_next_step():
    wheels = {"left": "left", "right": "right", "radius": 0.06, "track": 0.26}
    scene = rover([sn.ContactDepthProbe(link="base"), RandomizingOdometry(**wheels, uuid="odometry")], 1)
    scene.reset()
    for _ in range(30):
        scene.world.bind("ctrl")[:] = 2.0
        scene.step()
    reading = scene.sensors["odometry"].read()
    assert float(reading.speed) > 0.02
    assert float(reading.pos[0, 0]) > 0.005  # time has passed


class Halved(sn.ContactDepthProbe):
    """Probes that read half the depth."""


class HalvedSensor(ContactDepthProbeSensor, options=Halved):
    @classmethod
    def _apply_hardware_imperfections(cls, group, data):
        super()._apply_hardware_imperfections(group, data)
        data *= 0.5  # a torch operation, which a capture would miss


def test_override_of_a_replayable_hook_runs_in_every_step():
    probes = {"link": "base", "pos": (0, 0, 0.04), "radius": 0.02}
    scene = rover([sn.ContactDepthProbe(**probes, uuid="whole"), Halved(**probes, uuid="half")], 1)
    seen = []
    for _ in range(40):
        scene.step()
        whole, half = scene.sensors["whole"].read(), scene.sensors["half"].read()
        assert torch.equal(half, whole * 0.5)
        seen.append(float(whole))
    assert len(set(seen)) > 3


class Vacuum(sn.Barometer):
    """A barometer at half the pressure."""


class VacuumSensor(BarometerSensor, options=Vacuum):
    @classmethod
    @functools.wraps(BarometerSensor._update_raw_data.__func__)  # copies the replayable mark too
    def _update_raw_data(cls, group, out):
        super()._update_raw_data(group, out)
        out *= 0.5


def test_copied_replayable_mark_is_ignored():
    scene = rover([sn.Barometer(link="base", uuid="whole"), Vacuum(link="base", uuid="half")], 1)
    for _ in range(3):
        scene.step()
        whole, half = (scene.sensors[uuid].read_ground_truth().pressure for uuid in ("whole", "half"))
        assert torch.equal(half, whole * 0.5)


def test_scenes_can_be_built_while_others_step():
    steps = 300
    scenes = [rover(suite(), 1) for _ in range(2)]
    threads = [threading.Thread(target=scene.step, args=(steps,)) for scene in scenes]
    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads):
        other = rover(suite(), 2)
        other.sensors["depth"].set(noise=0.1)
        other.step()
        other.close()
        del other
        gc.collect()
    alone = rover(suite(), 1)
    alone.step(steps)
    for scene in scenes:
        assert_same_bits(scene, alone, steps)


@numba.njit
def add(values, amount, times, counted, flag):
    for i in range(values.shape[0]):
        values[i] += amount * times + counted[0].sum() + (100 if flag else 0)
    if times == 13:
        raise ValueError("thirteen")


def test_chain_passes_arguments_unchanged():
    values, numbers = np.zeros(6, np.float32)[::2], np.arange(12).reshape(3, 4)[:, 1]
    live = StepCounter(np.array([2], np.int64))
    arguments = (values, 0.1, live, (numbers,), np.bool_(True))
    call = chain(capture(lambda: launch(add, *arguments)))
    assert isinstance(call, KernelChain)
    assert not values.any()  # captured, not called
    expected = values.copy()
    for times in (2, 5):
        live.cell[0] = times
        call()
        add(expected, 0.1, times, (numbers,), np.bool_(True))
        np.testing.assert_array_equal(values, expected)


def test_chain_raises_the_exception_of_a_kernel():
    call = chain([Launch(add, (np.zeros(1), 0.0, 13, (np.zeros(1),), False))])
    with pytest.raises(ValueError, match="thirteen"):
        call()


@numba.njit
def name_length(out, name):
    out[0] = len(name)


def test_unsupported_arguments_are_passed_by_numba():
    out = np.zeros(1)
    call = chain([Launch(name_length, (out, "four"))])
    assert not isinstance(call, KernelChain)
    call()
    assert out[0] == 4


@numba.njit
def spread_out(out):
    out[0] += 1
    return out[0], out, out, out, out, out


@numba.njit("void(float64[:], int32)")
def add_short(out, amount):
    out[0] += amount


@numba.njit
def add_default(out, amount=3.0):
    out[0] += amount


@pytest.mark.parametrize(
    ("kernel", "arguments", "expected"),
    [
        (spread_out, (), 1.0),  # its result does not fit in the memory that a chain has for results
        (add_short, (2,), 2.0),  # Numba converts the int64
        (add_default, (), 3.0),
        (np.add.at, (0, 5.0), 5.0),  # not a Numba kernel
    ],
    ids=["returns", "declared", "default", "numpy"],
)
def test_unsupported_kernels_are_called_directly(kernel, arguments, expected):
    out = np.zeros(1)
    call = chain(capture(lambda: launch(kernel, out, *arguments)))
    assert not isinstance(call, KernelChain)
    for times in range(1, 4):
        call()
        assert out[0] == times * expected
