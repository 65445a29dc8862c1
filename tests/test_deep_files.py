"""Files that are nested too deeply or have values of other types: each reader raises an error that names the file."""

import json
import time
from os import PathLike
from pathlib import Path

import h5py
import numpy as np
import pytest

import sensorium as sn
from sensorium import yaml_files
from sensorium.deploy.contract import Contract
from sensorium.doctor.links import _parsed
from sensorium.errors import DatasetError
from sensorium.generation.generate import _first_error
from sensorium.logs.message_arrays import RawMessages, parse_json
from sensorium.training import checkpoints
from sensorium.training.policy_file import _steps_evaluated

DEEP = "[" * 100_000


# -- JSON --------------------------------------------------------------------------------------------------------------


def test_state_of_a_training(tmp_path):
    path = tmp_path / "state.json"
    for text in (DEEP, "{", "[]"):
        path.write_text(text)
        with pytest.raises(DatasetError, match=r"state\.json"):
            checkpoints.read_state(tmp_path)
    path.unlink()
    with pytest.raises(DatasetError, match=r"state\.json cannot be read"):
        checkpoints.read_state(tmp_path)


@pytest.mark.parametrize(("state", "text"), [({}, "it lacks 'steps'"), ({"steps": [1, 2]}, "int")])
def test_state_with_other_values(tmp_path, state, text):
    expected = pytest.raises(DatasetError, match=rf"state\.json cannot be used: .*{text}")
    with expected, checkpoints.explain_wrong_state(tmp_path):
        int(state["steps"])


@pytest.mark.parametrize("text", [DEEP, "{", "[]", "[{}]", "{}"])
def test_evaluations_of_a_training(tmp_path, text):
    path = tmp_path / "evaluations.json"
    path.write_text(text)
    with pytest.raises(DatasetError, match=r"evaluations\.json cannot be read"):
        _steps_evaluated(path)


def test_contract():
    with pytest.raises(DatasetError, match="policy is not JSON: it is nested too deeply"):
        Contract.from_json(DEEP, "policy")


def test_messages_of_a_log():
    raw = RawMessages(*([DEEP.encode()] if name == "data" else [0] for name in RawMessages._fields))
    with pytest.raises(DatasetError, match="message 0 is no JSON: it is nested too deeply"):
        parse_json(raw)


def test_options_of_sensors_in_a_log():
    assert _parsed(DEEP) is None


@pytest.mark.parametrize("text", [DEEP, "{", "[]"])
def test_notes_of_failed_episodes(tmp_path, text):
    (tmp_path / "failed").mkdir()
    (tmp_path / "failed" / "episode_000000.json").write_text(text)
    assert _first_error(tmp_path) == ""


def test_stored_dicts():
    with pytest.raises(sn.OptionError, match="decode: stored must be a result of encode"):
        sn.suites.decode([DEEP])


@pytest.mark.parametrize("value", [DEEP, "5", "{", None])
def test_attributes_of_episodes(tmp_path, value):
    options = {"task": "balance", "policy": "random", "episodes": 1, "envs": 1, "options": {"max_steps": 2}}
    sn.generation.generate(sn.generation.GenerateOptions(**options, keep_failed=True), tmp_path / "a")
    (path,) = (tmp_path / "a").rglob("*.h5")
    with h5py.File(path, "r+") as file:
        (group,) = (each for name, each in file.items() if name.startswith("traj_"))
        for name in ("action_names", "fps"):
            del group.attrs[name]
            if value is not None:
                group.attrs[name] = value[:1000] if name == "fps" else np.bytes_(value[:60000])
    episode = sn.datasets.Dataset(tmp_path / "a")[0]
    with pytest.raises(DatasetError, match="attribute action_names"):
        _ = episode.action_names
    if value != "5":
        with pytest.raises(DatasetError, match="attribute fps"):
            _ = episode.fps


# -- YAML --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text", ["[" * 20000, "{a: " * 20000, "\n".join(" " * i + "a:" for i in range(2000)), "- " * 20000, "? " * 20000]
)
def test_deep_yaml_is_refused_at_once(text):
    start = time.perf_counter()
    with pytest.raises(sn.OptionError, match="nested too deeply, more than 100 levels"):
        sn.entities.TrainableEntity.from_yaml(f"sensors:\n  {text}\n" if text[0] in "[{" else f"{text}\n")
    assert time.perf_counter() - start < 5.0


def test_yaml_of_many_levels_is_read():
    text = "[" * 90 + "1" + "]" * 90
    value = yaml_files.load(f"a: {text}\nb: 1e-3\nc:\n- d: [1, {{e: 2}}]")
    assert json.dumps(value["a"]) == text
    assert (value["b"], value["c"]) == (0.001, [{"d": [1, {"e": 2}]}])


# -- arguments ---------------------------------------------------------------------------------------------------------


def endless():
    found: list[object] = []
    found.append(found)
    return found


def endless_dict():
    found: dict[str, object] = {}
    found["a"] = found
    return found


@pytest.mark.parametrize(
    "make",
    [
        lambda value: sn.Box(size=value),
        lambda value: sn.IMU(link="box", acc_noise=value),
        lambda value: sn.Camera(uuid="a", pos=value),
    ],
)
def test_options_that_contain_themselves(make):
    with pytest.raises(sn.OptionError, match=r"\w+\.\w+ contains itself, or is nested too deeply"):
        make(endless())


def test_readings_that_contain_themselves():
    value = endless_dict()
    with pytest.raises(sn.OptionError, match="flatten_reading"):
        sn.suites.flatten_reading(value)
    with pytest.raises(sn.OptionError, match="pick_env"):
        sn.suites.pick_env(value, 0)
    with pytest.raises(sn.OptionError, match="shape contains itself"):
        sn.suites.ArraySensor("a", lambda: 0, value)
    assert not sn.suites.JsonSpace().contains(value)


@pytest.mark.parametrize(
    "read",
    [
        lambda path: sn.Scene().add_object(path),
        lambda path: sn.Scene().add_robot(path),
        lambda path: sn.TileMap.from_xml(path),
    ],
)
@pytest.mark.parametrize("value", [5, None, b"bytes.xml"])
def test_models_of_paths_that_are_no_text(read, value):
    class Odd(PathLike):
        def __fspath__(self):
            return value

    with pytest.raises(sn.OptionError, match="must be a path of text"):
        read(Odd())


# -- output folders of commands ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "words",
    [
        ["doctor", "missing.onnx", "missing.mcap", "--plots", "out/plots"],
        ["doctor", "missing.mcap", "--json", "out/found.json"],
        ["compare", "missing.mcap", "--robot", "quadruped", "--out", "out/compare"],
    ],
)
def test_no_folder_is_made_before_the_log_was_read(tmp_path, monkeypatch, capsys, words):
    from sensorium.cli import main

    monkeypatch.chdir(tmp_path)
    assert main(words) == 2
    assert "missing" in capsys.readouterr().err
    assert not list(Path().iterdir())


def test_json_of_the_doctor_makes_its_folder(tmp_path):
    log = tmp_path / "log.csv"
    times = np.arange(0, 2, 0.01)
    rows = "\n".join(f"{t:.2f},0,0,9.81,0,0,0" for t in times)
    log.write_text(f"time,lin_acc_x,lin_acc_y,lin_acc_z,ang_vel_x,ang_vel_y,ang_vel_z\n{rows}\n")
    from sensorium.cli import main

    main(["doctor", str(log), "--json", str(tmp_path / "new" / "found.json")])
    assert (tmp_path / "new" / "found.json").is_file()
