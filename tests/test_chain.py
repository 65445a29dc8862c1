"""Captured hooks: the whole suite as one native call gives the bits of the calls one by one."""

import numba
import numpy as np
import pytest
import torch

import sensorium as sn
from sensorium.pipeline.chain import Chain, chain
from sensorium.pipeline.cpu import CpuKernels
from sensorium.pipeline.launch import Launch, Live, capture, launch
from sensorium.sensors.contact_probe import ContactDepthProbeSensor

ROVER = """
<mujoco><worldbody><body name="base" pos="0 0 0.12"><freejoint/>
  <geom type="box" size="0.15 0.1 0.04" mass="3"/>
  <body name="left" pos="0 0.13 -0.02"><joint name="left" axis="0 1 0"/>
    <geom type="cylinder" size="0.06 0.02" euler="90 0 0" mass="0.3"/></body>
  <body name="right" pos="0 -0.13 -0.02"><joint name="right" axis="0 1 0"/>
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


@pytest.mark.parametrize("n_envs", [1, 3])
@pytest.mark.parametrize("extra", [{}, {"delay": 0.02, "history_length": 2}, {"rate": 30.0}], ids=str)
def test_the_bits_are_those_of_the_calls_one_by_one(n_envs, extra, monkeypatch):
    chained = rover(suite(**extra), n_envs)
    monkeypatch.setattr(CpuKernels, "threaded", True)
    plain = rover(suite(**extra), n_envs)
    assert any(isinstance(call, Chain) for call in chained._sensing._steps)
    assert not any(isinstance(call, Chain) for call in plain._sensing._steps)
    moved = False
    for step in range(60):
        for scene in (chained, plain):
            scene.step()
            if step == 20:
                scene.reset([n_envs - 1])
            if step == 30:  # the hardware stage of the probe has something to do from now on, and then nothing again
                scene.sensors["depth"].set(noise=1e-3)
            if step == 45:
                scene.sensors["depth"].set(noise=0.0)
        got, expected = readings(chained), readings(plain)
        for name, tensor in expected.items():
            torch.testing.assert_close(got[name], tensor, rtol=0, atol=0, equal_nan=True, msg=f"{name} at {step}")
        moved |= bool((got[next(name for name in got if name.startswith("depth"))] != 0).any())
    assert moved


def test_a_step_of_a_suite_is_one_native_call():
    scene = rover(suite(), 1)
    assert [type(call) for call in scene._sensing._steps] == [Chain]


def test_plans_are_laid_out_once():
    scene = rover(suite(), 1)
    first = scene._sensing._steps
    for noise in (0.1, 0.0, 0.2, 0.0):
        scene.sensors["depth"].set(noise=noise)
        assert (scene._sensing._steps is first) == (noise == 0)
    assert len(scene._sensing._plans) == 2


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


@numba.njit
def add(values, amount, times, counted, flag):
    for i in range(values.shape[0]):
        values[i] += amount * times + counted[0].sum() + (100 if flag else 0)
    if times == 13:
        raise ValueError("thirteen")


def test_arguments_arrive_as_they_are():
    values, numbers = np.zeros(6, np.float32)[::2], np.arange(12).reshape(3, 4)[:, 1]
    live = Live(np.array([2], np.int64))
    arguments = (values, 0.1, live, (numbers,), np.bool_(True))
    call = chain(capture(lambda: launch(add, *arguments)))
    assert isinstance(call, Chain)
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
    assert not isinstance(call, Chain)
    call()
    assert out[0] == 4
