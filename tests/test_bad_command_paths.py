"""Commands with paths that cannot be used: one line that names the path, exit code 1 or 2, and nothing left behind."""

import io
import os
import subprocess
import sys

import pytest
from fuzz_paths import listing, make_files

from sensorium.cli import main

GENERATE = "generate balance --policy random --episodes 2 --envs 2 --option max_steps=6 --out"
WRITE = {
    "record": ("record --robot diffdrive --steps 3 --out", ""),
    "record mcap": ("record --robot diffdrive --steps 3 --format mcap --out", ""),
    "generate": (GENERATE, ""),
    "train": ("train balance --steps 64 --envs 2 --out", ""),
    "train walk": ("train walk --steps 64 --envs 2 --out", ""),
    "plot": ("plot IMU --seconds 0.1 --out", ".png"),
}
READ = ("replay", "validate", "export", "evaluate", "export-policy", "play", "fit", "doctor", "compare", "view")
MORE = {
    "replay": ["--out", "seen"],
    "export": ["--out", "exported"],
    "play": ["--out", "play.mp4"],
    "compare": ["--robot", "diffdrive"],
}


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    make_files(("", ".png"))


@pytest.mark.parametrize("name", WRITE)
@pytest.mark.parametrize(
    ("path", "words"),
    [
        ("file/name{}", "file/name"),
        ("fifo{}", "fifo"),
        ("folder{}", "folder"),
        (f"new/{'x' * 300}{{}}", "at most 255 bytes"),
        ("new/name\udce9{}", "a path of valid characters"),
    ],
)
def test_output_that_cannot_be_written_is_named(capsys, name, path, words):
    command, suffix = WRITE[name]
    before = listing()
    assert main([*command.split(), path.format(suffix)]) in (1, 2)
    error = capsys.readouterr().err.strip().splitlines()[-1]
    assert error.startswith(f"sensorium {command.split()[0]}: ")
    assert words in error
    assert listing() == before


@pytest.mark.parametrize("command", READ)
@pytest.mark.parametrize("path", ["file/name", "fifo", "folder", "file", "x" * 300, "name\udce9"])
def test_input_that_cannot_be_read_is_named(capsys, command, path):
    before = listing()
    assert main([command, path, *MORE.get(command, ())]) in (1, 2)
    assert capsys.readouterr().err.startswith(f"sensorium {command}: ")
    assert listing() == before


def test_names_that_cannot_be_encoded_are_printed():
    """Paths are checked, but a folder may hold files with any names."""
    os.mkdir("recording")
    with open(b"recording/name\xe9", "wb"):
        pass
    code = "import os, sys; from sensorium import cli; cli._run = lambda *_: print(os.listdir('recording')[0]) or 0; "
    command = [sys.executable, "-c", f"{code}sys.exit(cli.main())", "validate", "recording"]
    found = subprocess.run(command, capture_output=True, text=True, env={**os.environ, "PYTHONIOENCODING": "utf-8"})
    assert (found.returncode, found.stdout) == (0, "name\\udce9\n")


def test_output_without_an_encoding_is_left_alone(monkeypatch):
    monkeypatch.setattr(sys, "argv", ["sensorium", "--version"])
    monkeypatch.setattr(sys, "stdout", io.StringIO())
    monkeypatch.setenv("PYTHONSAFEPATH", "1")
    assert main() == 0
    assert sys.stdout.getvalue().strip()
