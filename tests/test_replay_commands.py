"""The commands record, validate and replay."""

import numpy as np
import pytest
from conftest import drop_scene
from gl import needs_gl

import sensorium as sn
from sensorium.cli import main


@needs_gl
def test_record_check_and_replay_commands(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    words = "record --robot diffdrive --scenario random-path --steps 12 --envs 2 --seed 0 --out runs/a"
    assert main(words.split()) == 0
    assert "12 steps of 2 envs" in capsys.readouterr().out
    assert main(words.split()) == 1
    error = capsys.readouterr().err
    assert "is not empty" in error
    assert "--overwrite" in error
    assert main(["check", "runs/a"]) == main(["validate", "runs/a"]) == 0
    assert (tmp_path / "runs" / "a" / "occupancy_map" / "map.yaml").is_file()
    replayed = "replay runs/a --out runs/seen --rgb --instance-segmentation --interval 5 --resolution 32 24"
    assert main(replayed.split()) == 0
    assert main([*replayed.split(), "--resume"]) == 0
    assert main(["check", "runs/seen"]) == 0
    seen, recording = sn.datasets.open("runs/seen"), sn.datasets.open("runs/a")
    assert seen.read_instance("robot.rig.front_left", 2).shape == (2, 24, 32)
    assert any(name.startswith("scenario.") for name in seen.names)
    for name in recording.names:
        np.testing.assert_array_equal(seen[2][name], recording[10][name], err_msg=name)
    scene = recording.build_scene()
    scene.load_state_dict(recording.read_state_dict(7))
    scene.write_replay_data()
    np.testing.assert_array_equal(scene.get_state(), recording[7]["physics"])
    next((tmp_path / "runs" / "seen" / "rgb").rglob("*.mp4")).unlink()
    capsys.readouterr()
    assert main(["check", "runs/seen"]) == 1
    assert ".mp4 is missing" in capsys.readouterr().out
    assert main(["replay", "runs/a", "--out", "runs/b", "--rgb", "--cameras", "robot.rig.front_lift"]) == 2
    assert "did you mean" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "status", "match"),
    [
        ("check nothing", 1, "the folder 'nothing' does not exist"),
        ("validate nothing", 1, "the folder 'nothing' does not exist"),
        ("replay nothing --out b", 1, "the folder 'nothing' does not exist"),
        ("record --steps 0 --out b", 2, "--steps must be >= 1, got 0"),
        ("record --robot difdrive --out b", 2, "did you mean 'diffdrive'"),
        ("record --scenario random --out b", 2, "random-path"),
        ("record --world nothing.xml --out b", 1, "nothing.xml"),
        ("replay nothing --out b --modules nothing.at.all", 2, "cannot import 'nothing.at.all'"),
    ],
)
def test_invalid_commands_print_one_line_and_a_status(tmp_path, capsys, monkeypatch, words, status, match):
    monkeypatch.chdir(tmp_path)
    assert main(words.split()) == status
    text = capsys.readouterr().err
    assert match in text
    assert text.startswith(f"sensorium {words.split()[0]}: ")
    assert len(text.splitlines()) == 1
    assert not (tmp_path / "b").exists()


def test_ctrl_c_keeps_the_recorded_steps(tmp_path, capsys, monkeypatch):
    step = sn.recording.Recorder.step

    def interrupted(self):
        if self.n_steps == 5:
            raise KeyboardInterrupt
        step(self)

    monkeypatch.setattr(sn.recording.Recorder, "step", interrupted)
    assert main(["record", "--scenario", "random-acceleration", "--out", str(tmp_path / "a")]) == 130
    assert f"interrupted; the recorded steps in {tmp_path / 'a'} are kept" in capsys.readouterr().err
    assert sn.recording.check(tmp_path / "a").n_steps == 5


@needs_gl
def test_cameras_from_files_are_rendered_beside_named_ones(tmp_path):
    scene = drop_scene()
    scene.add_sensor(sn.Camera(uuid="eye", pos=(1, 0, 1), lookat=(0, 0, 0), resolution=(16, 12)))
    scene.add_sensor(sn.Camera(uuid="other", pos=(0, 1, 1), lookat=(0, 0, 0), resolution=(16, 12)))
    scene.build()
    with sn.recording.Recorder(scene, tmp_path / "a") as recorder:
        scene.step()
        recorder.step()
    (tmp_path / "top.yaml").write_text(
        "- {type: Camera, uuid: top, pos: [0, 0, 2], lookat: [0, 0.1, 0], resolution: [16, 12]}\n"
    )
    cameras = ["--cameras", str(tmp_path / "top.yaml"), "eye"]
    assert main(["replay", str(tmp_path / "a"), "--out", str(tmp_path / "b"), "--rgb", *cameras]) == 0
    assert sorted(sn.datasets.open(tmp_path / "b").images) == ["eye.rgb", "top.rgb"]
