"""Errors and files: pickling, and writing beside hostile links."""

import inspect
import multiprocessing
import os
import pickle

import pytest

import sensorium as sn
from sensorium import errors
from sensorium.files import create, write_whole

ARGUMENTS = {
    "StateDictError": (["a"], ["b"], {"c": "shape"}),
    "DivergenceError": ({3: "Nan in QPOS", 1: "Inf"},),
    "CapacityError": ("too many contacts", [4, 2], {2: "Nan"}),
    "StaleInputError": ("stale", "imu", "/imu", None, 0.1),
}
CLASSES = [each for each in vars(errors).values() if inspect.isclass(each) and issubclass(each, BaseException)]


@pytest.mark.parametrize("kind", CLASSES, ids=lambda kind: kind.__name__)
def test_errors_survive_pickling(kind):
    error = kind(*ARGUMENTS.get(kind.__name__, ("a message",)))
    again = pickle.loads(pickle.dumps(error))
    assert type(again) is kind
    assert str(again) == str(error)
    assert vars(again) == vars(error)


def test_hints_name_only_what_is_about_as_close_as_the_closest():
    assert errors.did_you_mean("Lidr", sn.__all__) == " (did you mean 'Lidar'?)"
    assert errors.did_you_mean("genrate", ["generate", "evaluate", "train"]) == " (did you mean 'generate'?)"
    assert errors.did_you_mean("m3", ["m2", "m1", "other"]) == " (did you mean 'm2' or 'm1'?)"
    assert errors.did_you_mean("IMU", ["imu", "gps"]) == " (did you mean 'imu'?)"
    assert errors.did_you_mean("xyz", ["imu", "gps"]) == ""
    with pytest.raises(AttributeError, match=r"'sensorium' has no attribute 'Lidr' \(did you mean 'Lidar'\?\)$"):
        _ = sn.Lidr


def fail(number):
    raise errors.DivergenceError({number: "Nan"})


def test_a_pool_returns_the_error_of_its_worker():
    with (
        multiprocessing.get_context("spawn").Pool(1) as pool,
        pytest.raises(errors.DivergenceError, match="env 7: Nan") as caught,
    ):
        pool.apply_async(fail, (7,)).get(timeout=60)
    assert caught.value.envs == [7]


@pytest.mark.skipif(not hasattr(os, "symlink"), reason="this system has no symbolic links")
@pytest.mark.parametrize("exists", [True, False])
def test_files_are_not_written_through_links(tmp_path, exists):
    victim = tmp_path / "victim"
    if exists:
        victim.write_text("mine")
    folder = tmp_path / "received"
    folder.mkdir()
    (folder / "index.json.part").symlink_to(victim)
    write_whole(folder / "index.json", b"{}")
    assert (folder / "index.json").read_bytes() == b"{}"
    assert not (folder / "index.json").is_symlink()
    assert victim.read_text() == "mine" if exists else not victim.exists()
    (folder / "a.part").symlink_to(victim)
    with create(folder / "a.part") as file:
        file.write(b"x")
    assert victim.read_text() == "mine" if exists else not victim.exists()
