"""``Loop``: a step with code around it and resets, as separate calls on the CPU and as one graph on a GPU."""

import re

import numpy as np
import pytest
import torch
from conftest import drop_scene
from test_graph_path import GraphWorld

import sensorium as sn
from sensorium.testing import flat
from sensorium.worlds import Loop, scene


def parts(made, period=4):
    """Return the four arguments of a Loop: pushes up, ends every env after a number of steps, and reads an IMU."""
    count = torch.zeros(made.n_envs, dtype=torch.int32, device=made.device)
    ended = torch.zeros(made.n_envs, dtype=torch.bool, device=made.device)
    periods = period + torch.arange(made.n_envs, device=made.device)
    seen = torch.zeros(made.n_envs, 9, device=made.device)
    velocity = made.world.bind("qvel")

    def before():
        velocity[:, 0].add_(0.01)

    def end():
        count.add_(1)
        torch.ge(count, periods, out=ended)
        count.masked_fill_(ended, 0)

    def after():
        seen.copy_(flat(made["imu"].read()))

    return before, end, ended, after, seen


def build(device="cpu"):
    made = drop_scene()
    made.add_sensor(sn.IMU(link="box", uuid="imu", acc_noise=0.1, delay=0.02))
    made.build(n_envs=3, seed=1, device=device)
    return made


def readings(made, steps=15):
    *arguments, seen = parts(made)
    loop = Loop(made, *arguments)
    rows = []
    for _ in range(steps):
        loop()
        rows.append(torch.cat((seen, made.time[:, None].to(seen)), dim=1).cpu())
    return torch.stack(rows)


def by_hand(made, steps=15):
    before, end, ended, after, seen = parts(made)
    rows = []
    for _ in range(steps):
        before()
        made.step()
        end()
        made.reset(ended)
        after()
        rows.append(torch.cat((seen, made.time[:, None].float()), dim=1))
    return torch.stack(rows)


def test_a_loop_does_what_separate_calls_do():
    expected = by_hand(build())
    assert torch.equal(readings(build()), expected)
    assert expected[3:6, 0, -1].tolist() == pytest.approx([0, 0.01, 0.02])  # env 0 was reset after its fourth step


def test_captured_loop_does_what_separate_calls_do(monkeypatch):
    expected = by_hand(build())
    monkeypatch.setattr(scene, "MujocoWorld", GraphWorld)
    assert torch.equal(readings(build()), expected)


@pytest.mark.parametrize("is_captured", [False, True])
@pytest.mark.filterwarnings("ignore:.*Nan, Inf")
def test_a_loop_raises_failures_after_everything_else(monkeypatch, is_captured):
    if is_captured:
        monkeypatch.setattr(scene, "MujocoWorld", GraphWorld)
    made = build()
    before, end, ended, after, seen = parts(made, period=100)
    loop = Loop(made, before, end, ended, after)
    loop()
    loop()
    seen.fill_(np.nan)
    made.world.bind("qvel")[1] = 1e12
    with pytest.raises(sn.DivergenceError):
        loop()
    assert torch.isfinite(seen).all()
    assert list(made.failed) == [1]


class Host(sn.worlds.SceneModule):
    """A module whose reset runs on the host."""

    def attach(self, scene, name):
        self.resets = []

    def on_reset(self, envs):
        self.resets.append(envs.clone())
        return False


def test_a_reset_on_the_host_is_never_captured(monkeypatch):
    monkeypatch.setattr(scene, "MujocoWorld", GraphWorld)
    monkeypatch.setattr(GraphWorld, "record_loop", lambda *_: pytest.fail("captured"))
    made = drop_scene()
    made.add_sensor(sn.IMU(link="box", uuid="imu"))
    host = made.add_module("host", Host())
    made.build(n_envs=3)
    readings(made, steps=4)
    assert [reset.tolist() for reset in host.resets[-2:]] == [[False] * 3, [True, False, False]]


@pytest.mark.gpu
def test_loop_on_a_gpu():
    expected, found = by_hand(build()), readings(build("cuda"))
    torch.testing.assert_close(found[..., -1], expected[..., -1])
    assert (found[..., :3] - expected[..., :3]).abs().median() < 1e-3


def nothing():
    pass


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"before": None}, "before must be a function without arguments, got None"),
        ({"ended": [False] * 3}, "ended must be a tensor that end() writes in place, got [False, False, False]"),
        ({"ended": torch.zeros(3, dtype=torch.int64)}, "a mask of torch.bool, (3,), on cpu; got torch.int64"),
        ({"ended": torch.zeros(3, 1, dtype=torch.bool)}, "got torch.bool of shape (3, 1) on cpu"),
    ],
)
def test_wrong_arguments_are_refused(changed, message):
    ended = torch.zeros(3, dtype=torch.bool)
    arguments = {"before": nothing, "end": nothing, "ended": ended, "after": nothing, **changed}
    with pytest.raises(sn.OptionError, match=re.escape(message)):
        Loop(build(), **arguments)


@pytest.mark.parametrize("calls", [0, 1, 3])
def test_a_loop_ends_with_its_scene(monkeypatch, calls):
    monkeypatch.setattr(scene, "MujocoWorld", GraphWorld)
    made = build()
    *arguments, _seen = parts(made)
    loop = Loop(made, *arguments)
    for _ in range(calls):
        loop()
    made.close()
    with pytest.raises(sn.NotBuiltError, match="Loop needs a running scene: this one was closed"):
        loop()
    with pytest.raises(sn.NotBuiltError, match="this one was closed"):
        Loop(made, *arguments)


def test_a_loop_is_captured_after_a_whole_call(monkeypatch):
    monkeypatch.setattr(scene, "MujocoWorld", GraphWorld)
    record, captured = GraphWorld.record_loop, []
    monkeypatch.setattr(GraphWorld, "record_loop", lambda *given: captured.append(1) or record(*given))
    made = build()
    before, end, ended, after, seen = parts(made)
    faults = [ValueError("first call")]

    def fail_once():
        if faults:
            raise faults.pop()
        after()

    loop = Loop(made, before, end, ended, fail_once)
    with pytest.raises(ValueError, match="first call"):
        loop()
    loop()
    assert not captured
    loop()
    assert captured
    assert torch.isfinite(seen).all()


@pytest.mark.gpu
def test_a_captured_loop_sees_a_new_function_at_resets():
    made = build("cuda")
    *arguments, _seen = parts(made, period=2)
    loop = Loop(made, *arguments)
    for _ in range(3):
        loop()
    height = made.world.bind("qpos")[:, 2]

    def lift(mask):
        height.masked_fill_(mask, 5.0)

    made.world.run(lambda: lift(torch.zeros_like(made.world.mask)))
    made.world.on_reset = lift
    for _ in range(8):
        loop()
    assert bool((height > 4.0).all())
    made.world.on_reset = None
    for _ in range(8):
        loop()
    assert bool((height < 4.0).all())


@pytest.mark.gpu
def test_a_function_that_reads_the_device_is_named():
    made = build("cuda")
    before, end, ended, after, _seen = parts(made)

    if made.device.type == "cpu":
        pytest.skip("Warp's CPU device captures nothing")

    def read():
        assert bool(ended.any()) in (False, True)

    loop = Loop(made, before, read, ended, after)
    loop()
    with pytest.raises(sn.OptionError, match=r"Loop: end\(\) cannot be captured in a CUDA graph"):
        loop()
    for _ in range(3):  # the scene and other loops continue
        made.step()
    other = Loop(made, before, end, ended, after)
    for _ in range(3):
        other()
    made.check()
