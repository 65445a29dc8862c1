"""Sizes are priced before anything is allocated: too large ones are refused with the figure and what fits."""

import subprocess
import sys
from pathlib import Path

import pytest
import torch
from conftest import drop_scene
from gymnasium import spaces

import sensorium as sn
from sensorium import _system
from sensorium.worlds.capacity import bytes_per_env

GIB = 2**30


@pytest.fixture
def one_gib(monkeypatch):
    monkeypatch.setattr(_system, "free_memory", lambda: GIB)


def built(n_envs=1, sensor=None, **options):
    scene = drop_scene()
    if sensor is not None:
        scene.add_sensor(sensor(**options))
    scene.build(n_envs=n_envs)
    return scene


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: built(n_envs=2**40), ("n_envs must be an integer <= 2147483647", "1099511627776")),
        (lambda: built(n_envs=10**8), ("n_envs=100000000", "GiB of memory", "1.0 GiB are free", "use n_envs <= ")),
        (
            # images of 3 MiB per env, in 90% of 1 GiB
            lambda: built(n_envs=10**8, sensor=sn.Camera, resolution=(1024, 1024), pos=(2, 0, 1)),
            ("n_envs=100000000", "the states and sensors of all envs need", "1.0 GiB are free", "use n_envs <= 307"),
        ),
        (
            lambda: built(sensor=sn.IMU, link="box", uuid="imu", history_length=10**9),
            ("IMU(uuid='imu').history_length=1000000000", "GiB", "use IMU(uuid='imu').history_length <= "),
        ),
        (
            lambda: built(sensor=sn.IMU, link="box", uuid="imu", delay=1e7),
            ("steps of the delay of IMU(uuid='imu')=1000", "steps of 0.01 s", "use "),
        ),
        (
            lambda: built(sensor=sn.IMU, link="box", uuid="imu", max_delay=1e7),
            ("steps of the delay of IMU(uuid='imu')", "use "),
        ),
        (
            lambda: built(4096, sensor=sn.IMU, link="box", uuid="imu", history_length=10**4),
            ("n_envs=4096", "history_length=10000", "use n_envs <= "),
        ),
        (
            lambda: built(sensor=sn.Raycaster, link="box", pattern=sn.GridPattern(size=(100, 100), resolution=0.001)),
            ("values per env of Raycaster", "TiB", "use "),
        ),
        (
            lambda: built(64, sensor=sn.Camera, resolution=(16384, 16384), pos=(2, 0, 1), lookat=(0, 0, 0)),
            ("n_envs=64", "48.0 GiB", "1.0 GiB are free", "use n_envs <= 1"),
        ),
        (
            lambda: built(sensor=sn.Camera, resolution=(8192, 8192), history_length=8, pos=(2, 0, 1)),
            ("history_length=8", "6.6 GiB", "history_length=1 does not fit either"),
        ),
    ],
)
def test_sizes_that_do_not_fit_raise(one_gib, make, words):
    with pytest.raises(sn.OptionError) as caught:
        make()
    for word in words:
        assert word in str(caught.value)


def test_the_largest_size_that_is_named_fits(one_gib):
    with pytest.raises(sn.OptionError) as caught:
        built(n_envs=10**7)
    largest = int(str(caught.value).rsplit("<= ", 1)[1])
    scene = drop_scene()
    scene.build()
    assert largest == int(0.9 * GIB / bytes_per_env(scene.model))
    _system.check_memory("n_envs", largest, "the states", bytes_per_env(scene.model))
    with pytest.raises(sn.OptionError):
        _system.check_memory("n_envs", largest + 1, "the states", bytes_per_env(scene.model))


@pytest.mark.slow
def test_a_scene_that_did_not_fit_can_be_built_smaller(one_gib):
    scene = drop_scene()
    imu = scene.add_sensor(sn.IMU(link="box", history_length=10**4))
    with pytest.raises(sn.OptionError, match="n_envs"):
        scene.build(n_envs=4096)
    scene.build(n_envs=2)
    scene.step()
    assert bool(torch.isfinite(imu.read().lin_acc).all())


def test_memories_are_priced(one_gib):
    space, action = spaces.Dict({"imu": spaces.Box(-1, 1, (6,))}), spaces.Box(-1, 1, (2,))
    with pytest.raises(sn.OptionError, match=r"capacity=1000000000.* need .* GiB of memory.*use capacity <= "):
        sn.entities.Memory(space, action, 10**9, 4)
    memory = sn.entities.Memory(space, action, 100, 4)
    with pytest.raises(sn.OptionError, match=r"batch_size=1000000000.*use batch_size <= "):
        memory.batch(10**9)


def test_free_memory_is_that_of_the_machine_or_less():
    free = _system.free_memory()
    assert free is not None
    with open("/proc/meminfo") as lines:
        available = next(int(line.split()[1]) * 1024 for line in lines if line.startswith("MemAvailable:"))
    assert 0 < free <= available * 1.1


@pytest.mark.parametrize(
    ("names", "limit"),
    [
        (("memory.max", "memory.current", "inactive_file"), "3000000"),
        (("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"), "3000000"),
    ],
)
def test_limits_of_control_groups_count(tmp_path, names, limit):
    group = tmp_path / "job" / "step"
    group.mkdir(parents=True)
    for folder, allowed in ((group, "max"), (tmp_path / "job", limit)):  # the limit is that of the group around
        (folder / names[0]).write_text(f"{allowed}\n")
        (folder / names[1]).write_text("1000000\n")
        (folder / "memory.stat").write_text(f"anon 600000\n{names[2]} 400000\n")
    assert list(_system._left_in_groups(tmp_path, "/job/step", *names)) == [3000000 - 1000000 + 400000]
    assert list(_system._left_in_groups(tmp_path, "/absent", *names)) == []


RESIDENT = """
import os, sys
import sensorium as sn
from sensorium.pipeline import memory_check
from sensorium.worlds.capacity import bytes_per_env

def built(n_envs):
    scene = sn.Scene()
    if sys.argv[1] == "quadruped":
        scene.add_robot("quadruped", name="robot")
    else:
        scene.add_entity("box", sn.Box(size=(0.1, 0.1, 0.1)), pos=(0, 0, 1), free=True)
    if sys.argv[1] == "imu":
        scene.add_sensor(sn.IMU(link="box", delay=0.02, acc_noise=0.1, history_length=3))
    scene.build(n_envs=n_envs)
    for _ in range(2):
        scene.step()
    return scene

def resident():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")

few = built(64)  # libraries and kernels are loaded
before = resident()
scene = built(20_000)
groups = () if scene._sensing is None else scene._sensing.groups
parts = [part for group in groups for sensor in group.sensors for part in memory_check._parts(sensor, group)]
print((resident() - before) / 20_000, bytes_per_env(scene.model) + sum(part.per_env for part in parts))
"""


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="reads the resident memory of Linux")
@pytest.mark.parametrize("kind", ["box", "imu", "quadruped"])
def test_prices_are_those_of_the_resident_memory(kind):
    done = subprocess.run([sys.executable, "-c", RESIDENT, kind], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    resident, priced = map(float, done.stdout.split())
    assert priced == pytest.approx(resident, rel=0.3), (priced, resident)
