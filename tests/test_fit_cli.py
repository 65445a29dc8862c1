"""``sensorium fit``: files in, table, preset and report out; errors in plain words."""

import h5py
import numpy as np
import pytest
from test_fit_checks import LOG, POSE

import sensorium as sn
from sensorium import cli


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("logs")
    with h5py.File(folder / "log.h5", "w") as file:
        for name, values in (LOG | {"quat": POSE["quat"], "pos": POSE["pos"]}).items():
            file[name] = values
    np.savez(folder / "pose.npz", **POSE)
    step = 2 * np.pi / 2**14
    t = np.arange(2000) / 200
    np.savez(folder / "joints.npz", time=t, dof_pos=np.round(np.sin(t)[:, None] * [1, 0.5] / step) * step)
    return folder


@pytest.mark.slow
def test_a_log_becomes_a_preset_and_a_report(folder, tmp_path, capsys):
    files = [str(folder / "log.h5"), "--out", str(tmp_path / "my_imu.yaml"), "--report", str(tmp_path / "my_imu.html")]
    assert cli.main(["fit", *files, "--sensor", "imu", "--reference", "pose"]) == 0
    out = capsys.readouterr().out
    assert "gyro.noise_density" in out
    assert "gyro prediction" in out
    imu = sn.presets.load(tmp_path / "my_imu.yaml", link="torso")
    np.testing.assert_allclose(imu.gyro.bias, [0.01, -0.01, 0.005], atol=1e-3)
    assert (tmp_path / "my_imu.html").read_text().count("data:image/png") == len(
        list((tmp_path / "my_imu_figures").iterdir())
    )


def test_a_reference_in_a_file_of_its_own(folder, tmp_path, capsys):
    arguments = [str(folder / "log.h5"), "--reference", str(folder / "pose.npz"), "--out", str(tmp_path / "a.yaml")]
    assert cli.main(["fit", *arguments]) == 0
    assert "gyro.misalignment" in capsys.readouterr().out
    assert sn.presets.load(tmp_path / "a.yaml", link="a").gyro.misalignment is not None


def test_problems_are_printed(folder, capsys):
    assert cli.main(["fit", str(folder / "log.h5"), "--units", "acc=g"]) == 0
    assert "! acc." in capsys.readouterr().out


def test_joint_encoders(folder, tmp_path, capsys):
    out = tmp_path / "encoder.yaml"
    assert cli.main(["fit", str(folder / "joints.npz"), "--sensor", "joint_encoder", "--out", str(out)]) == 0
    np.testing.assert_allclose(sn.presets.load(out).resolution, 2 * np.pi / 2**14, rtol=1e-3)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "name the log to fit: sensorium fit log.h5"),
        (["nowhere.h5"], "there is no log file 'nowhere.h5'"),
        (["LOG", "--out", "a.json"], "--out must end in .yaml, got 'a.json'"),
        (["LOG", "--report", "a.doc"], "--report must end in .html or .pdf, got 'a.doc'"),
        (["LOG", "--units", "gyro"], "--units takes channel=value, e.g. gyro=deg/s, got 'gyro'"),
        (["LOG", "--units", "gyro=furlong"], "units['gyro'] must be one of rad/s"),
        (
            ["LOG", "--reference", "nowhere.npz"],
            "--reference must be `pose` or a file, and there is no file 'nowhere.npz'",
        ),
        (["LOG", "LOG", "--sensor", "gps"], "--sensor gps takes one log, got 2"),
        (["LOG", "--sensor", "distance"], "--sensor distance needs --reference"),
        (["LOG", "--sensor", "barometer"], "has no channel"),
        (["LOG", "--channel", "acc"], "--channel is for --sensor channel"),
    ],
)
def test_errors_are_one_line(folder, arguments, message, capsys, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    given = [str(folder / "log.h5") if each == "LOG" else each for each in arguments]
    assert cli.main(["fit", *given]) == 2
    error = capsys.readouterr().err
    assert error.startswith("sensorium fit: ")
    assert message in error
    assert len(error.strip().splitlines()) == 1
    assert list(tmp_path.iterdir()) == []
