"""Defects of the sensor models of other simulators that no other test excludes (docs/truth.md lists all)."""

import math

import numpy as np
import pytest
import torch
from conftest import drop_scene
from probe import HookedProbe, Probe, probe_scene

import sensorium as sn


@pytest.mark.parametrize("kind", [Probe, HookedProbe])
def test_readings_do_not_depend_on_who_reads(kind):
    options = {"noise": 0.1, "random_walk": 0.2, "delay": 0.02, "jitter": 0.02, "rate": 60.0, "history_length": 4}
    often, rarely = (probe_scene(kind(**options), n_envs=3) for _ in range(2))
    for _ in range(30):
        often[0].step()
        for _ in range(3):
            often[1].read()
            often[1].read(envs=[1])
            often[1].read_ground_truth()
            often[1].read(history_length=4)
        rarely[0].step()
    for read in ("read", "read_ground_truth"):
        for length in (None, 4):
            histories = (getattr(probe, read)(history_length=length) for _, probe in (often, rarely))
            assert torch.equal(*histories)


def test_noise_and_random_walk_are_drawn_independently():
    errors = {}
    for name in ("noise", "random_walk"):
        scene, probe = probe_scene(Probe(columns=1, **{name: 1.0}), n_envs=4000)  # the same uuid, so the same key
        readings = []
        for _ in range(3):
            scene.step()
            readings.append((probe.read() - probe.read_ground_truth())[:, 0].double().numpy())
        errors[name] = readings
    increment = errors["random_walk"][2] - errors["random_walk"][1]
    assert increment.std() == pytest.approx(0.1, rel=0.05)
    assert abs(np.corrcoef(errors["noise"][2], increment)[0, 1]) < 4 / math.sqrt(4000)


@pytest.mark.parametrize("drawn", ["noise", "bias_spread", "drift"])
def test_axes_sensors_envs_and_seeds_have_errors_of_their_own(drawn):
    """One number for all axes, all sensors or all envs is the same error everywhere."""
    options = {drawn: 1.0, **({"drift_time": 10.0} if drawn == "drift" else {})}
    errors = []
    for seed in (0, 1):
        scene = sn.Scene(dt=0.01)
        probes = [scene.add_sensor(Probe(uuid=uuid, **options)) for uuid in ("a", "b")]
        scene.build(n_envs=3000, seed=seed)
        scene.step()
        errors += [(probe.read() - probe.read_ground_truth()).double().numpy() for probe in probes]
    columns = np.concatenate(errors, axis=1)  # two seeds x two sensors x three axes, over the envs
    assert columns.std(axis=0) == pytest.approx(np.ones(12), rel=0.1)
    assert abs(np.corrcoef(columns.T) - np.eye(12)).max() < 4.5 / math.sqrt(3000)
    assert len(np.unique(columns)) > 0.99 * columns.size  # a few of the float32 numbers are equal by chance


def test_first_reading_after_a_reset_is_of_the_new_pose():
    scene = drop_scene(height=1.0)
    pose = scene.add_sensor(sn.FramePose(link="box"))
    height = scene.add_sensor(sn.Raycaster(link="box", pattern=sn.ArrayPattern(directions=((0, 0, -1),))))
    scene.build(n_envs=2)
    scene.step(30)
    fallen = height.read().distances.clone()
    scene.reset(envs=[1])
    assert pose.read().pos[1, 2].item() == pytest.approx(1.0)
    assert height.read().distances[1, 0].item() == pytest.approx(1.0, abs=1e-6)
    assert torch.equal(height.read().distances[0], fallen[0])
    scene["box"].set_pose(pos=(0, 0, 2.0), envs=[0])
    scene.forward(envs=[0])
    assert height.read().distances[0, 0].item() == pytest.approx(2.0, abs=1e-6)


@pytest.mark.parametrize("bad", [{"delay": -0.01}, {"delay": 1e3}, {"jitter": -1.0}, {"rate": 1e9}])
def test_a_refused_time_does_not_change_later_readings(bad):
    options = {"delay": 0.03, "jitter": 0.02, "noise": 0.1}
    changed, twin = (probe_scene(Probe(**options), n_envs=2) for _ in range(2))
    for _ in range(10):
        changed[0].step()
        twin[0].step()
        with pytest.raises(sn.OptionError):
            changed[1].set(**bad)
        assert torch.equal(changed[1].read(), twin[1].read())
