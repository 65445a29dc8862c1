"""The command line: help of every command, exit codes, one-line errors, and validation of datasets and recordings."""

import json
import re
import signal
import subprocess
import sys
import urllib.request

import pytest
from conftest import ARM, drop_scene

import sensorium as sn
from sensorium import cli
from sensorium.cli import progress
from sensorium.cli.arguments import parse_options

COMMANDS = ["record", "replay", "validate", "generate", "export", "train", "evaluate"]
COMMANDS += ["export-policy", "play", "plot", "fit", "doctor", "compare", "view"]


def test_help_lists_all_commands_with_a_summary_and_examples(capsys):
    assert cli.main(["--help"]) == 0
    text = capsys.readouterr().out
    assert "Examples:" in text
    for name in COMMANDS:
        summary = cli._summary(cli._COMMANDS[name])
        assert f"• {name}" in text
        assert summary in text
        assert len(summary) <= 60  # one line in a terminal of 80 columns
    assert list(cli._COMMANDS) == COMMANDS
    assert cli.main([]) == 0
    assert capsys.readouterr().out == text


@pytest.mark.parametrize("name", COMMANDS)
def test_help_of_a_command_has_a_description_options_and_examples(name, capsys):
    assert cli.main([name, "--help"]) == 0
    text = capsys.readouterr().out
    assert text.startswith(f"usage: sensorium {name} ")
    assert cli._summary(cli._COMMANDS[name]) in text
    assert "Examples:\n" in text
    assert f"    sensorium {name} " in text
    assert "None" not in text  # defaults are described in words
    assert "\noptions:\n  -h, --help" in text
    assert not set("╭╮╰╯│─") & set(text)
    assert "-----" not in text


def test_check_is_an_alias_of_validate(capsys):
    assert cli.main(["check", "--help"]) == 0
    assert "usage: sensorium validate" in capsys.readouterr().out


def test_help_does_not_import_what_only_commands_need():
    heavy = [
        "h5py",
        "av",
        "matplotlib",
        "gymnasium",
        "numba",
        "warp",
        "viser",
        "sensorium.recording",
        "sensorium.tasks",
    ]
    code = (
        "import sys; from sensorium.cli import main; main(['--help'])\n"
        f"print([name for name in {heavy} if name in sys.modules])"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert out.splitlines()[-1] == "[]"


@pytest.mark.parametrize(
    "arguments",
    [["record"], ["record", "--out", "a", "--steps", "many"], ["replay", "a", "--out", "b", "--rbg"], ["--nonsense"]],
)
def test_invalid_options_exit_with_2_and_plain_text(arguments, capsys):
    assert cli.main(arguments) == 2
    out, err = capsys.readouterr()
    assert not out
    assert err.strip()
    assert "Traceback" not in err
    assert not set("╭╮╰╯│─") & set(err)
    assert "----" not in err
    assert all(line == line.rstrip() for line in err.splitlines())


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (
            ["record", "--out", "a", "--stpes", "5"],
            ["there is no option '--stpes' (did you mean '--steps'?)", "record"],
        ),
        (["view", "a", "b"], ["unexpected argument 'b'", "`sensorium view --help`"]),
    ],
)
def test_unknown_arguments_are_one_line(arguments, words, capsys):
    assert cli.main(arguments) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(f"sensorium {arguments[0]}: ")
    assert all(word in line for word in words)


def test_missing_option_is_named_with_its_help(capsys):
    assert cli.main(["record"]) == 2
    first, option, *_ = capsys.readouterr().err.splitlines()
    assert (first, option.strip()) == ("Missing from sensorium record:", "--out PATH")


def test_unknown_command_is_one_line_with_a_hint(capsys):
    assert cli.main(["recrod"]) == 2  # codespell:ignore recrod
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("sensorium: there is no command 'recrod' (did you mean 'record'?)")


@pytest.mark.parametrize(
    "arguments", [["--version"], ["--help"], ["genrate"], *([name, "--help"] for name in COMMANDS)]
)
def test_help_does_not_import_heavy_packages(arguments, tmp_path):
    code = "import sys; from sensorium.__main__ import main; main(); print(*sys.modules, file=open('modules', 'w'))"
    subprocess.run([sys.executable, "-c", code, *arguments], check=True, capture_output=True, cwd=tmp_path)
    heavy = {"torch", "numpy", "mujoco", "numba", "warp", "gymnasium", "h5py", "av", "matplotlib", "pydantic", "scipy"}
    assert not heavy & set((tmp_path / "modules").read_text().split())


@pytest.mark.skipif(sys.platform == "win32", reason="CPU times of child processes need POSIX")
@pytest.mark.parametrize("argument", ["--version", "--help"])
def test_help_is_fast(argument):
    import resource

    times = []
    for _ in range(3):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run([sys.executable, "-m", "sensorium", argument], check=True, capture_output=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        times.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    assert min(times) < 1.0  # 0.2 s on the machine on which it was written; importing torch and MuJoCo takes 4 s


def test_view_of_another_file_says_what_is_a_model(tmp_path, capsys):
    (tmp_path / "README.md").write_text("# Title")
    assert cli.main(["view", str(tmp_path / "README.md")]) == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert line == (
        f"sensorium view: {tmp_path / 'README.md'} is not a model: give an MJCF or URDF file, whose name ends in .xml "
        "or .urdf"
    )


def test_record_says_how_many_envs_fit(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr("sensorium._system.free_memory", lambda: 2**30)
    assert cli.main(["record", "--envs", "100000000", "--steps", "2", "--out", str(tmp_path / "a")]) == 2
    (line,) = [line for line in capsys.readouterr().err.splitlines() if line.startswith("sensorium record")]
    assert re.search(
        r"n_envs=100000000: .* need [\d.,]+ TiB of memory, and 1\.0 GiB are free; use n_envs <= \d+$", line
    )


def test_record_names_the_option_that_replaces_a_recording(tmp_path, capsys):
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "file").touch()
    assert cli.main(["record", "--out", str(tmp_path / "out")]) == 1
    assert "replace the recording with overwrite=True (--overwrite)" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (sn.OptionError("bad value"), 2),
        (sn.errors.NameNotFoundError("no such name"), 2),
        (sn.DatasetError("damaged"), 1),
        (sn.GenerationError("too few"), 1),
        (sn.EpisodeOverError("no episode runs"), 1),
        (sn.DeviceError("no GPU"), 1),
        (PermissionError(13, "Permission denied", "secret.png"), 1),
    ],
)
def test_errors_are_one_line_with_their_exit_code(error, status, capsys, monkeypatch):
    def fail(self):
        raise error

    monkeypatch.setattr(cli.View, "run", fail)
    assert cli.main(["view", "robot.xml"]) == status
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("sensorium view: ")
    assert ("secret.png: Permission denied" if isinstance(error, OSError) else str(error)) in line


def test_validate_detects_recordings_and_reports_damage(tmp_path, capsys):
    scene = drop_scene()
    scene.build()
    with sn.recording.Recorder(scene, tmp_path / "run") as recorder:
        recorder.record(5)
    assert cli.main(["validate", str(tmp_path / "run")]) == 0
    assert "5 complete steps" in capsys.readouterr().out
    (part := tmp_path / "run" / "state" / "common" / "00000005.h5.part").write_bytes(b"\x89HDF")
    assert cli.main(["validate", str(tmp_path / "run")]) == 1
    assert "was not finished" in capsys.readouterr().out
    assert part.exists()
    assert cli.main(["check", str(tmp_path / "run"), "--update"]) == 0
    assert not part.exists()
    (tmp_path / "run" / "scene.xml").write_text("<mujoco/>")
    assert cli.main(["validate", str(tmp_path / "run")]) == 1
    out = capsys.readouterr().out
    assert "scene.xml was changed or truncated" in out
    assert out.endswith("NOT valid: 1 problem(s)\n")
    assert cli.main(["validate", str(tmp_path)]) == 1
    assert "is not a recording" in capsys.readouterr().err


def test_open_returns_what_the_folder_holds(tmp_path):
    scene = drop_scene()
    scene.build()
    with sn.recording.Recorder(scene, tmp_path / "run") as recorder:
        recorder.record(2)
    assert isinstance(sn.datasets.open(tmp_path / "run"), sn.recording.Recording)
    assert not sn.datasets.is_dataset(tmp_path / "run")
    (tmp_path / "data").mkdir()
    header = {"format": "sensorium-dataset", "version": 1, "options": {"task": "pick", "episodes": 0}}
    (tmp_path / "data" / "dataset.json").write_text(json.dumps(header))
    assert sn.datasets.is_dataset(tmp_path / "data")
    assert isinstance(sn.datasets.open(tmp_path / "data"), sn.datasets.Dataset)


@pytest.mark.slow
def test_view_command_shows_a_model(tmp_path):
    model = tmp_path / "arm.xml"
    model.write_text(ARM)
    code = "import sys; from sensorium.cli import main; sys.exit(main(['view', sys.argv[1]]))"
    process = subprocess.Popen([sys.executable, "-c", code, model], stdout=subprocess.PIPE, text=True)
    try:
        address = process.stdout.readline().split()[-1]
        with urllib.request.urlopen(address, timeout=20) as page:
            assert b"<html" in page.read().lower()
        process.send_signal(signal.SIGINT)
        assert process.wait(30) == 130
    finally:
        process.kill()
        process.stdout.close()


def test_options_by_key():
    base = {"rewards": {"torque": 1, "fall": 2}, "dt": 0.02}
    texts = ["rewards.torque=3", "imu.gyro.x=[0, 1]", "imu.acc=text", "name=a.b"]
    assert parse_options("--option", texts, base) == {
        "rewards": {"torque": 3, "fall": 2},
        "dt": 0.02,
        "imu": {"gyro.x": [0, 1], "acc": "text"},
        "name": "a.b",
    }
    assert base == {"rewards": {"torque": 1, "fall": 2}, "dt": 0.02}
    with pytest.raises(sn.OptionError, match=r"^--option dt.x=1: dt is 0.02, which has no keys$"):
        parse_options("--option", ["dt.x=1"], base)


def test_progress_without_a_terminal_is_lines(capsys, monkeypatch):
    with progress.progress("images", 3, "images") as advance:
        advance(1)
    assert capsys.readouterr().err == ""  # neither an empty line nor a bar
    monkeypatch.setattr(progress, "LINE_EVERY", 0.0)
    with progress.progress("images", 3, "images") as advance:
        advance(1)
        advance(2)
    assert capsys.readouterr().err == "images: 1 of 3 images\nimages: 3 of 3 images\n"


def test_an_unknown_task_of_a_training_names_the_option_for_own_tasks(tmp_path, capsys):
    assert cli.main(["train", "wlk", "--out", str(tmp_path / "a")]) != 0
    error = capsys.readouterr().err
    assert "there is no task 'wlk' (did you mean 'walk'?)" in error
    assert "a task of your own must be imported first (--module FILE)" in error
    assert not (tmp_path / "a").exists()
