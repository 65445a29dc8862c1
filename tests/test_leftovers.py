"""A process that is killed at its very start leaves a folder that the same command can use."""

import re
import shutil
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest

import sensorium as sn
from sensorium import _system
from sensorium.datasets.export.folder import whole_folder
from sensorium.files import create, temporary_path, write_whole, written_name
from sensorium.generation import GenerateOptions, generate
from sensorium.recording.folder import check_new
from sensorium.training import recipe, train

CONFIG_PART = "config.json.part"
"""Name in versions before 0.2."""
NEW_PART = "config.json.0123456789abcdef.part"


def scene():
    made = sn.Scene()
    made.add_object(sn.Box(size=(0.2, 0.2, 0.2), mass=1.0), name="box", free=True)
    made.build()
    return made


def leave(folder, *names):
    """Make the entries that a killed process left: names that end in / are folders."""
    folder.mkdir()
    for name in names:
        path = folder / name
        (path if name.endswith("/") else path.parent).mkdir(parents=True, exist_ok=True)
        if not name.endswith("/"):
            path.write_text("{")
    return folder


STARTS = [
    ("state/",),
    ("state/common/",),
    ("state/common/", "scene.xml.part"),
    ("state/common/", "assets/000_box/box.obj", "scene.xml", CONFIG_PART),
    (CONFIG_PART,),
    (NEW_PART,),
    ("state/common/", "scene.xml", NEW_PART),
    ("state/common/", "scene.xml.0123456789abcdef.part"),
]


@pytest.mark.parametrize("names", STARTS)
def test_recordings_begin_again(tmp_path, names):
    folder = leave(tmp_path / "a", *names)
    with sn.recording.Recorder(scene(), folder) as recorder:
        recorder.record(3)
    assert sn.recording.check(folder).whole
    assert not list(folder.rglob("*.part"))
    assert not (tmp_path / ".a.replaced").exists()
    assert not (folder / "assets" / "000_box" / "box.obj").exists()


@pytest.mark.parametrize(
    "names", [("assets/model.xml",), ("state/notes.txt",), ("scene.xml", CONFIG_PART), ("x",), ("config.json.01.part",)]
)
def test_other_files_are_not_replaced(tmp_path, names):
    folder = leave(tmp_path / "a", *names)
    with pytest.raises(sn.DatasetError, match="is not empty"):
        check_new(folder)
    with pytest.raises(sn.DatasetError, match="is not empty and holds no dataset"):
        generate(GenerateOptions(task="balance", policy="random", episodes=1, envs=1), folder)


@pytest.mark.parametrize("names", STARTS)
def test_replays_begin_again_with_resume(tmp_path, names):
    with sn.recording.Recorder(scene(), tmp_path / "a") as recorder:
        recorder.record(3)
    folder = leave(tmp_path / "b", *names)
    assert len(sn.recording.replay(tmp_path / "a", folder, resume=True)) == 3
    assert sn.recording.check(folder).whole


@pytest.mark.parametrize("name", ["dataset.json.part", "dataset.json.0123456789abcdef.part"])
def test_datasets_begin_again(tmp_path, name):
    folder = leave(tmp_path / "a", name)
    options = {"max_steps": 3}
    generate(GenerateOptions(task="balance", policy="random", episodes=1, envs=1, options=options), folder)
    assert sn.datasets.validate(folder).valid
    assert not list(folder.glob("*.part"))


@pytest.mark.parametrize("name", [CONFIG_PART, NEW_PART])
@pytest.mark.parametrize("resume", [False, True])
def test_trainings_begin_again(tmp_path, resume, name):
    folder = leave(tmp_path / "a", name)
    options = recipe("balance").model_copy(update={"steps": 8, "n_envs": 2, "warmup": 4, "episodes": 1})
    train(options, folder, resume=resume, stop=lambda: True)
    assert (folder / "config.json").is_file()
    assert not list(folder.glob("*.part"))


# -- temporary files --------------------------------------------------------------------------------------------------


def test_temporary_names_cannot_be_predicted(tmp_path):
    names = {temporary_path(tmp_path / "a.json").name for _ in range(100)}
    assert len(names) == 100
    assert all(re.fullmatch(r"a\.json\.[0-9a-f]{16}\.part", name) for name in names)
    assert {written_name(name) for name in names} == {"a.json"}
    assert written_name("a.json.part") == "a.json"
    assert written_name("a.json") is None


def test_leftovers_of_a_file_are_removed_when_it_is_written(tmp_path):
    path = tmp_path / "a.json"
    left, other = temporary_path(path), temporary_path(tmp_path / "b.json")
    for each in (left, other, tmp_path / "a.json.part"):
        each.write_text("left")
    temporary_path(path).symlink_to(other)
    write_whole(path, b"new")
    assert path.read_bytes() == b"new"
    assert sorted(each.name for each in tmp_path.iterdir()) == sorted(["a.json", other.name, "a.json.part"])
    assert other.read_text() == "left"


@pytest.mark.skipif(sys.platform == "win32", reason="files are not locked")
def test_files_that_another_process_writes_are_kept(tmp_path):
    path = tmp_path / "a.json"
    part = temporary_path(path)
    with create(part) as file:
        _system.lock_file(file.fileno())
        write_whole(path, b"new")
        assert part.exists()
    write_whole(path, b"newer")
    assert not part.exists()


def test_folders_of_killed_exports_are_removed(tmp_path):
    left = temporary_path(tmp_path / "out")
    left.mkdir()
    (left / "rest").touch()
    with whole_folder(tmp_path / "out") as part:
        assert written_name(part.name) == "out"
        with whole_folder(tmp_path / "out") as second:  # of another process: the first one is locked
            assert part.exists()
            assert second != part
            (second / "file").touch()
            shutil.rmtree(part)
            part.mkdir()
        shutil.rmtree(tmp_path / "out")
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


def test_concurrent_writers_of_a_file_all_succeed(tmp_path):
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda number: write_whole(tmp_path / "a.json", b"%03d" % number), range(200)))
    assert len((tmp_path / "a.json").read_bytes()) == 3
    assert [path.name for path in tmp_path.iterdir()] == ["a.json"]
