"""Captured hooks: the whole suite as one native call gives the bits of the calls one by one."""

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
from sensorium.pipeline import manager
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


def readings(scene):
    out = {}
    for sensor in scene.sensors.values():
        for branch in (sensor.read(), sensor.read_ground_truth()):
            for tensor in branch if isinstance(branch, tuple) else (branch,):
                out[f"{sensor.uuid} {len(out)}"] = tensor.clone()
    return out


@pytest.fixture
def undecided():
    """Whether chains can be trusted is found out again, in the test and after it."""
    chains._trusted.cache_clear()
    yield
    chains._trusted.cache_clear()


def _increment():
    x = np.zeros(3)
    return x, [Launch(numba.njit(lambda x: add_one(x)), (x,))]


@numba.njit
def add_one(x):
    x += 1


def test_chains_pass_their_self_test_here(undecided):
    x, launches = _increment()
    made = chain(launches)
    assert isinstance(made, KernelChain)
    made()
    assert x.tolist() == [1, 1, 1]


def test_an_environment_variable_switches_chains_off(undecided, monkeypatch):
    monkeypatch.setenv("SENSORIUM_CHAIN", "0")
    x, launches = _increment()
    made = chain(launches)
    assert isinstance(made, Calls)
    made()
    assert x.tolist() == [1, 1, 1]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda patch: patch.setattr(numba, "__version__", "0.99.1"), "Numba 0.99.1 was not tested"),
        (lambda patch: patch.setattr(KernelChain, "__call__", lambda self: None), "differs from the plain one"),
        (lambda patch: patch.setattr(chains, "_native", lambda one: None), "differs from the plain one"),
    ],
)
def test_chains_that_cannot_be_trusted_are_calls_with_one_warning(undecided, monkeypatch, change, said):
    change(monkeypatch)
    with pytest.warns(UserWarning, match=said):
        made = chain(_increment()[1])
    assert isinstance(made, Calls)
    x, launches = _increment()
    chain(launches)()  # no further warning, which would be an error
    assert x.tolist() == [1, 1, 1]


@pytest.mark.parametrize("n_envs", [1, 3])
@pytest.mark.parametrize("extra", [{}, {"delay": 0.02, "history_length": 2}, {"rate": 30.0}], ids=str)
def test_the_bits_are_those_of_the_calls_one_by_one(n_envs, extra, monkeypatch):
    chained = rover(suite(**extra), n_envs)
    monkeypatch.setattr(CpuKernels, "threaded", True)
    plain = rover(suite(**extra), n_envs)
    assert any(isinstance(call, KernelChain) for call in chained._sensing._steps)
    assert not any(isinstance(call, KernelChain) for call in plain._sensing._steps)
    moved = False
    for step in range(60):
        for scene in (chained, plain):
            scene.world.bind("ctrl")[:] = torch.tensor([3.0, 2.0])
            scene.step()
            if step == 20:
                scene.reset([n_envs - 1])
            if step == 30:  # the hardware stage of the probe has something to do from now on, and then nothing again
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
    """Several sensors of one class, of which some are held, late or imperfect, and others are not."""
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


def disturb(scene, draw, state):
    """Do something to a scene that users may do between steps."""
    n = scene.n_envs
    envs = sorted(draw.sample(range(n), draw.randint(1, n))) if draw.random() < 0.5 else None
    deed = draw.choice(["set"] * 6 + ["reset", "forward", "set_state", "count"])
    if deed == "set":
        sensor = scene.sensors[draw.choice(sorted(scene.sensors))]
        if not sensor.parameter_names:
            return
        name = draw.choice(sensor.parameter_names)
        values = {"rate": (None, 20.0, 37.0), "delay": (0.0, 0.01, 0.015), "dropout": (0.0, 0.3), "stuck": (0.0, 0.5)}
        value = draw.choice(values.get(name, (0.0, 0.02, 0.3, None)))
        if value and draw.random() < 0.4:  # one for each env
            count = n if envs is None else len(envs)
            value = value * np.arange(1, count + 1)[:, None] / count
        try:
            sensor.set(envs=envs, **{name: value})
        except sn.OptionError:
            return
    elif deed == "set_state":
        scene.set_state(state if envs is None else state[envs], envs)
    elif deed == "count":
        scene.step_count = draw.choice([0, 7, 1000])
    else:
        getattr(scene, deed)(envs)


@pytest.mark.parametrize(("n_envs", "seed"), [(1, 0), (2, 1), (7, 2)])
def test_the_bits_stay_the_same_whatever_users_do(n_envs, seed, monkeypatch):
    chained = rover(mixed_suite(), n_envs)
    monkeypatch.setattr(CpuKernels, "threaded", True)
    plain = rover(mixed_suite(), n_envs)
    monkeypatch.undo()
    state = chained.get_state()
    for step in range(50):
        for scene in (chained, plain):
            draw = random.Random(f"{seed} {step}")
            monkeypatch.setattr(CpuKernels, "threaded", scene is plain)
            for _ in range(draw.randint(0, 2)):
                disturb(scene, draw, state)
            scene.world.bind("ctrl")[:] = draw.uniform(-4, 4)
            scene.step()
        assert_same_bits(chained, plain, step)
    assert any(isinstance(call, KernelChain) for call in chained._sensing._steps)
    assert not any(isinstance(call, KernelChain) for call in plain._sensing._steps)


def test_a_step_of_a_suite_is_one_native_call():
    scene = rover(suite(), 1)
    assert [type(call) for call in scene._sensing._steps] == [KernelChain]


def test_plans_are_laid_out_once():
    scene = rover(suite(), 1)
    first = scene._sensing._steps
    for noise in (0.1, 0.0, 0.2, 0.0):
        scene.sensors["depth"].set(noise=noise)
        scene.step()
        assert (scene._sensing._steps is first) == (noise == 0)
    assert len(scene._sensing._plans) == 2


def test_settings_of_fused_classes_need_no_other_plan():
    """Whether an IMU is held is the fused kernel's business."""
    scene = rover([sn.IMU(link="base", uuid="imu"), sn.JointEncoder(robot="rover", rate=20.0)], 1)
    first = scene._sensing._steps
    for rate in (50.0, None, 30.0):
        scene.sensors["imu"].set(rate=rate)
        scene.step()
        assert scene._sensing._steps is first


def test_plans_do_not_pile_up(monkeypatch):
    monkeypatch.setattr(manager, "_MOST_PLANS", 2)
    probes = {"link": "base", "pos": (0, 0, 0.04)}
    scene = rover([sn.ContactDepthProbe(**probes, uuid="a"), sn.ContactProbe(**probes, uuid="b")], 1)
    for noise in ((0, 0), (1, 0), (1, 1), (0, 1), (0, 0)):
        for uuid, amount in zip("ab", noise, strict=True):
            scene.sensors[uuid].set(noise=1e-3 * amount)
        scene.step()
        assert len(scene._sensing._plans) <= 2
        assert list(scene._sensing._plans.values())[-1] is scene._sensing._steps


def test_gps_goes_on_when_it_is_no_longer_held():
    """Nobody renews whether a sensor without a rate is due, so it must not stay as the last step left it."""
    scene = rover([sn.GPS(link="base", rate=20.0, uuid="gps")], 2)
    gps = scene.sensors["gps"]
    scene.step(7)
    assert not gps.group.timing(gps)[0].any()
    gps.set(rate=None)
    assert gps.group.timing(gps)[0].all()
    for _ in range(5):
        scene.step()
        assert torch.equal(gps.read().altitude, gps.read_ground_truth().altitude)


class Shaken(sn.WheelOdometry):
    """Odometry whose class draws how much another sensor errs whenever an env is reset."""


class ShakenSensor(WheelOdometrySensor, options=Shaken):
    @classmethod
    def _reset_group(cls, group, mask):
        super()._reset_group(group, mask)
        group._manager._sensors[0].set(noise=1e-3)


def test_what_a_reset_sets_is_for_the_steps_after_it():
    wheels = {"left": "left", "right": "right", "radius": 0.06, "track": 0.26}
    scene = rover([sn.ContactDepthProbe(link="base"), Shaken(**wheels, uuid="odometry")], 1)
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
        data *= 0.5  # in torch, which no capture would see


def test_a_hook_that_overrides_a_replayable_one_runs_in_every_step():
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
    @functools.wraps(BarometerSensor._update_raw_data.__func__)  # which copies the mark, too
    def _update_raw_data(cls, group, out):
        super()._update_raw_data(group, out)
        out *= 0.5


def test_a_copied_mark_is_none():
    scene = rover([sn.Barometer(link="base", uuid="whole"), Vacuum(link="base", uuid="half")], 1)
    for _ in range(3):
        scene.step()
        whole, half = (scene.sensors[uuid].read_ground_truth().pressure for uuid in ("whole", "half"))
        assert torch.equal(half, whole * 0.5)


def test_scenes_are_built_while_others_step():
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


def test_arguments_arrive_as_they_are():
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


def test_what_a_kernel_raises_is_raised():
    call = chain([Launch(add, (np.zeros(1), 0.0, 13, (np.zeros(1),), False))])
    with pytest.raises(ValueError, match="thirteen"):
        call()


@numba.njit
def name_length(out, name):
    out[0] = len(name)


def test_arguments_of_unknown_kinds_are_passed_by_numba():
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
        (spread_out, (), 1.0),  # what it returns is larger than any room that is there for it
        (add_short, (2,), 2.0),  # Numba converts the int64
        (add_default, (), 3.0),
        (np.add.at, (0, 5.0), 5.0),  # none of Numba's
    ],
    ids=["returns", "declared", "default", "numpy"],
)
def test_kernels_of_other_kinds_are_called_as_they_are(kernel, arguments, expected):
    out = np.zeros(1)
    call = chain(capture(lambda: launch(kernel, out, *arguments)))
    assert not isinstance(call, KernelChain)
    for times in range(1, 4):
        call()
        assert out[0] == times * expected
