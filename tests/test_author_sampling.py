"""``_post_process`` runs on samples: its measured output and its states change only where a sample is due."""

import pytest
import torch
from probe import HookedProbe, HookedProbeSensor, Probe, ProbeSensor
from test_author_contract import build

from sensorium.jit import kernel
from sensorium.sensors import launch, replayable
from sensorium.worlds import scene

STEPS = 40


class Low(Probe):
    """Low-pass of its output, by means of the previous output."""


class LowSensor(ProbeSensor, options=Low):
    @classmethod
    def _post_process(cls, group, data, out, is_measured):
        out += 0.1 * (data - out)


class HookedLow(HookedProbe):
    pass


class HookedLowSensor(HookedProbeSensor, options=HookedLow):
    @classmethod
    def _post_process(cls, group, data, out, is_measured):
        out += 0.1 * (data - out)


class HalfLow(Probe):
    pass


class HalfLowSensor(LowSensor, options=HalfLow):
    @classmethod
    def _get_cache_dtype(cls):
        return torch.bfloat16


class Count(Probe):
    """Number of samples so far, which it keeps in states, one of each branch and size."""


class CountSensor(ProbeSensor, options=Count):
    @classmethod
    def _build_group(cls, group):
        for is_measured in (False, True):
            group.state(f"count {is_measured}", fill=-1)
            group.state(f"per sensor {is_measured}", len(group.sensors), fill=-1)
        return super()._build_group(group)

    @classmethod
    def _post_process(cls, group, data, out, is_measured):
        count, per_sensor = group.state(f"count {is_measured}"), group.state(f"per sensor {is_measured}")
        count += 1
        per_sensor += 1
        for part, sensor in zip(group.slices, per_sensor, strict=True):
            assert torch.equal(count[part.start], sensor)
        out.copy_(count)


@kernel
def add_tenth(data, out):
    out += 0.1 * (data - out)


class Native(Probe):
    pass


class NativeSensor(ProbeSensor, options=Native):
    """The low-pass as a launch, which is captured."""

    @classmethod
    @replayable
    def _post_process(cls, group, data, out, is_measured):
        launch(add_tenth, group.array(data), group.array(out))


TIMINGS = [{"rate": 25.0}, {"dropout": 0.5}, {"stuck": 5.0}, {"rate": 40.0, "dropout": 0.3}]


@pytest.fixture(params=["cpu", "graph"])
def engine(request, monkeypatch):
    """Build scenes on the CPU path, and on the GPU path run on the CPU."""
    if request.param == "graph":
        pytest.importorskip("warp")
        from test_graph_path import GraphWorld

        monkeypatch.setattr(scene, "MujocoWorld", GraphWorld)
    return request.param


@pytest.mark.parametrize("timing", TIMINGS)
@pytest.mark.parametrize("options", [Low, HookedLow, HalfLow])
@pytest.mark.usefixtures("engine")
@pytest.mark.slow
def test_a_filter_in_post_process_advances_once_per_sample(options, timing):
    """The reference filters the samples of a probe with the same uuid, where they are due."""
    running, low, slow = build(options(uuid="a", noise=0.1, **timing), options(uuid="b", rate=10.0))
    twin, plain = build(Probe(uuid="a", noise=0.1, **timing))
    dtype = low.read().dtype
    expected, truth = plain.read().to(dtype), plain.read_ground_truth().to(dtype)
    expected = expected + 0.1 * (plain.read() - expected)  # the call of the reset
    truth = truth + 0.1 * (plain.read_ground_truth() - truth)
    held = 0
    for step in range(STEPS):
        slow_before = slow.read()[0].clone()
        running.step()
        twin.step()
        due = plain.group.timing(plain).due[:, None]
        held += int((~due).sum())
        expected = torch.where(due, (expected + 0.1 * (plain.read() - expected)).to(dtype), expected.to(dtype))
        truth = (truth + 0.1 * (plain.read_ground_truth() - truth)).to(dtype)
        tolerance = 1e-6 if dtype == torch.float32 else 0.05
        torch.testing.assert_close(low.read(), expected, rtol=0, atol=tolerance)
        torch.testing.assert_close(low.read_ground_truth(), truth, rtol=0, atol=tolerance)
        assert torch.equal(slow.read()[0], slow_before) == bool((step + 1) % 10)
        if step == 20:
            for one in (running, twin):
                one.reset(envs=[1])
            expected[1] = (plain.read()[1].to(dtype) + 0.1 * (plain.read()[1] - plain.read()[1].to(dtype))).to(dtype)
            truth[1] = plain.read_ground_truth()[1]
    assert held > STEPS // 2


@pytest.mark.usefixtures("engine")
def test_states_of_post_process_advance_once_per_sample():
    """Sensors of one class with different rates and columns count their samples, per env and since the reset."""
    running, fast, slow = build(Count(uuid="a", columns=2), Count(uuid="b", columns=1, rate=25.0))
    running.step(count=20)
    assert slow.read()[:, 0].tolist() == [5, 5, 5]
    assert fast.read().tolist() == [[20, 20]] * 3
    assert slow.read_ground_truth()[:, 0].tolist() == [20, 20, 20]
    running.reset(envs=[1])
    running.step(count=8)
    assert slow.read()[:, 0].tolist() == [7, 2, 7]
    slow.set(rate=50.0, envs=[0])
    running.step(count=4)
    assert slow.read()[:, 0].tolist() == [9, 3, 8]


def test_captured_hooks_hold_their_output():
    """A hook that is launched natively is held as one that runs in Python."""
    options = {"uuid": "a", "noise": 0.1, "rate": 25.0, "delay": 0.02}
    running, native = build(Native(**options))
    twin, low = build(Low(**options))
    for _ in range(STEPS):
        running.step()
        twin.step()
        torch.testing.assert_close(native.read(), low.read())


def test_a_rate_that_is_set_later_holds_the_output():
    running, low = build(Low(noise=0.1))
    running.step(count=3)
    low.set(rate=25.0)
    changes = []
    for _ in range(8):
        before = low.read().clone()
        running.step()
        changes.append(not torch.equal(before, low.read()))
    assert changes == [step % 4 == 3 for step in range(3, 11)]
    low.set(rate=None)
    before = low.read().clone()
    running.step()
    assert not torch.equal(before, low.read())
