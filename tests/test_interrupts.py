"""Ctrl-C and SIGTERM end every command alike; workers end with their parent."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from test_recording import ENVIRONMENT, record

import sensorium as sn
from sensorium.generation import GenerateOptions, generate

RUN = "import sys; from sensorium.cli import main; sys.exit(main())"
LONG = ["--option", "max_steps=400", "fall=3", "range=50", "--episodes", "100000", "--envs", "4"]


def start(*words, code=RUN):
    command = [sys.executable, "-c", code, *map(str, words)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=ENVIRONMENT)


def wait_for(condition, process, seconds=60):
    end = time.monotonic() + seconds
    while not condition():
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < end
        time.sleep(0.05)


def interrupt(process, number):
    process.send_signal(number)
    _, text = process.communicate(timeout=60)
    assert process.returncode == {signal.SIGINT: 130, signal.SIGTERM: 143}[number], text
    lines = [line for line in text.splitlines() if line.strip()]
    assert "Traceback" not in text
    assert "interrupted; " in lines[-1], text
    return lines[-1]


SIGNALS = pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=["ctrl-c", "sigterm"])


@pytest.mark.slow
@SIGNALS
@pytest.mark.parametrize("workers", [1, 2])
def test_generate_keeps_finished_episodes(tmp_path, number, workers):
    out = tmp_path / "data"
    process = start("generate", "balance", "--policy", "random", *LONG, "--workers", workers, "--out", out)
    wait_for(lambda: len(list(out.glob("episode_*.h5"))) >= 4, process)
    assert "run the same command again" in interrupt(process, number)
    assert len(sn.datasets.Dataset(out)) >= 4
    if workers == 1:  # workers are terminated; what they leave is removed by the next run
        assert not list(out.glob("*.part"))


@pytest.mark.slow
@SIGNALS
def test_record_keeps_the_steps(tmp_path, number):
    out = tmp_path / "a"
    process = start("record", "--robot", "diffdrive", "--steps", "1000000", "--out", out)
    wait_for(lambda: list(out.glob("state/common/*.jsonl")) or list(out.glob("state/common/*.events.part")), process)
    time.sleep(0.5)
    interrupt(process, number)
    assert sn.recording.check(out).n_steps > 0


@pytest.mark.slow
@SIGNALS
def test_replay_keeps_the_frames(tmp_path, number):
    record(tmp_path / "a", n_steps=6000)
    out = tmp_path / "b"
    process = start("replay", tmp_path / "a", "--out", out)
    wait_for(lambda: list(out.glob("state/common/*.part")), process)
    assert "--resume" in interrupt(process, number)
    assert len(sn.recording.replay(tmp_path / "a", out, resume=True)) == 6000


SLOW_EXPORT = """
import sys, time
from sensorium.datasets.export.source import ExportSource
read = ExportSource.read
ExportSource.read = lambda *arguments: time.sleep(0.2) or read(*arguments)
from sensorium.cli import main
sys.exit(main())
"""


@pytest.mark.slow
@SIGNALS
def test_export_leaves_nothing(tmp_path, number):
    generate(
        GenerateOptions(task="balance", policy="random", episodes=8, envs=2, options={"max_steps": 5}), tmp_path / "a"
    )
    process = start("export", tmp_path / "a", "--format", "robomimic", "--out", tmp_path / "b", code=SLOW_EXPORT)
    wait_for(lambda: (tmp_path / "b.part").exists(), process)
    assert "nothing was left" in interrupt(process, number)
    assert [path.name for path in tmp_path.iterdir()] == ["a"]


def family(parent):
    """Return the ids of the running children of a process."""
    children = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            fields = (entry / "stat").read_text().rpartition(")")[2].split()
            words = (entry / "cmdline").read_bytes().split(b"\0")
        except OSError:
            continue
        if int(fields[1]) == parent and b"spawn_main" in b" ".join(words):
            children.append(int(entry.name))
    return children


def running(process):
    try:
        return (Path("/proc") / str(process) / "stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
@pytest.mark.parametrize("after", [0.0, 0.3, 1.0, 6.0])
def test_workers_end_with_a_killed_parent(tmp_path, after):
    """Also while they import, which takes seconds."""
    process = start("generate", "balance", "--policy", "random", *LONG, "--workers", "2", "--out", tmp_path / "data")
    wait_for(lambda: len(family(process.pid)) >= 2, process)
    time.sleep(after)
    children = family(process.pid)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    end = time.monotonic() + 5
    while any(map(running, children)) and time.monotonic() < end:
        time.sleep(0.05)
    assert not any(map(running, children))
    process.stdout.close()
    process.stderr.close()
