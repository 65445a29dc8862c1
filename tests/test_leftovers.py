"""A process that is killed at its very start leaves a folder that the same command can use."""

import pytest

import sensorium as sn
from sensorium.generation import GenerateOptions, generate
from sensorium.recording.folder import check_new
from sensorium.training import recipe, train

CONFIG_PART = "config.json.part"


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


@pytest.mark.parametrize("names", [("assets/model.xml",), ("state/notes.txt",), ("scene.xml", CONFIG_PART), ("x",)])
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


def test_datasets_begin_again(tmp_path):
    folder = leave(tmp_path / "a", "dataset.json.part")
    options = {"max_steps": 3}
    generate(GenerateOptions(task="balance", policy="random", episodes=1, envs=1, options=options), folder)
    assert sn.datasets.validate(folder).valid
    assert not list(folder.glob("*.part"))


@pytest.mark.parametrize("resume", [False, True])
def test_trainings_begin_again(tmp_path, resume):
    folder = leave(tmp_path / "a", CONFIG_PART)
    options = recipe("balance").model_copy(update={"steps": 8, "n_envs": 2, "warmup": 4, "episodes": 1})
    train(options, folder, resume=resume, stop=lambda: True)
    assert (folder / "config.json").is_file()
    assert not (folder / CONFIG_PART).exists()
