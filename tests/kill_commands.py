"""Commands that are killed (SIGKILL) at random moments while they write, and run again.

``script/kills`` kills every command many times, tests/test_kills.py a few times.
"""

import contextlib
import multiprocessing
import os
import random
import re
import shutil
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np

from sensorium import cli

PRELOADED = (
    "sensorium.cli",
    "sensorium.recording",
    "sensorium.generation",
    "sensorium.training",
    "sensorium.scenarios",
    "sensorium.fit",
    "sensorium.doctor",
    "sensorium.pipeline.kernels.hardware",
    "stable_baselines3",
    "matplotlib.figure",
)
"""Modules of the process of which the commands are forks, so that they start in milliseconds."""
SECONDS = 120
"""A command that takes longer fails."""
ADVICE = re.compile(
    r"--overwrite|--resume|--update|choose another|remove it|run it again|generate it again|remove the old|change --out"
)
"""What a command must say that cannot begin again."""
RECORD = "record --robot diffdrive --steps 30 --envs 2 --out rec"
GENERATE = "generate balance --policy random --episodes 6 --envs 2 --option max_steps=6 --out data"
TRAIN = (
    "train balance --steps 64 --envs 2 --evaluate-every 32 --checkpoint-every 16 --episodes 1 --brain hidden=[8] "
    "batch_size=8 --out run --no-tensorboard"
)


@dataclass(frozen=True)
class Killed:
    """A command that writes files, in a folder with the results of other commands."""

    words: str
    """The command line."""
    needs: tuple[str, ...] = ()
    """Command lines that are run before, once."""
    again: tuple[str, ...] = ()
    """Command lines of which the first that ends with 0 is how to go on. Default: the same command."""
    check: str = ""
    """Command line that must end with 0 afterwards."""
    prepare: Callable[[Path], object] = lambda folder: None
    """Writes other files before."""


def write_log(folder: Path) -> None:
    rng = np.random.default_rng(0)
    time_of = np.arange(4000) * 0.01
    np.savez(
        folder / "log.npz",
        time=time_of,
        gyro=rng.normal(0, 0.01, (4000, 3)),
        acc=rng.normal((0, 0, 9.8), 0.1, (4000, 3)),
    )


def copy_walk(folder: Path) -> None:
    shutil.copytree(Path(__file__).parent / "data" / "walk", folder / "walk")


def interrupt_recording(folder: Path) -> None:
    """Leave a recording as a killed process does."""
    code, text = run(RECORD, folder)
    assert code == 0, text
    state = folder / "rec" / "state" / "common"
    for path in state.glob("*.h5"):
        path.rename(path.with_name(path.name + ".part"))


EXPORT = "export data --format robomimic --out out"
RESUME = "train balance --out run --resume --no-tensorboard"
MCAP = "record --robot diffdrive --steps 300 --format mcap --out log"
COMMANDS = {
    "record": Killed(RECORD, again=(RECORD, f"{RECORD} --overwrite"), check="validate rec"),
    "record mcap": Killed(MCAP, again=(MCAP, f"{MCAP}_2")),
    "replay": Killed("replay rec --out seen", (RECORD,), ("replay rec --out seen --resume",), "validate seen"),
    "validate": Killed(
        "validate rec --update", again=("validate rec --update", f"{RECORD} --overwrite"), prepare=interrupt_recording
    ),
    "generate": Killed(GENERATE, check="validate data"),
    "export": Killed(EXPORT, (GENERATE,), (EXPORT, EXPORT + "_2")),
    "train": Killed(TRAIN, again=(RESUME, TRAIN), check="evaluate run --episodes 1 --which last"),
    "evaluate": Killed("evaluate run --episodes 2 --which last --json result.json", (TRAIN,)),
    "export-policy": Killed("export-policy run --which last --out policy.onnx", (TRAIN,)),
    "play": Killed("play walk --seconds 0.2 --out play.mp4", prepare=copy_walk),
    "plot": Killed("plot IMU --seconds 0.2 --out plot.png"),
    "fit": Killed("fit log.npz --no-validate --out imu.yaml --report report.html", prepare=write_log),
    "doctor": Killed("doctor log/env_0.mcap --json doctor.json", (MCAP,)),
    "compare": Killed("compare log/env_0.mcap --robot diffdrive --out compared", (MCAP,)),
}
"""Name -> command. Those that write nothing (view) are left out."""
WRITE_NOTHING = {"view"}


def _main(words: list[str], folder: Path, output: Path) -> None:
    """Run a command in this process and end it."""
    os.chdir(folder)
    descriptor = os.open(output, os.O_CREAT | os.O_WRONLY | os.O_TRUNC)
    os.dup2(descriptor, 1)
    os.dup2(descriptor, 2)
    code = cli.main(words)
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


@cache
def _context() -> multiprocessing.context.BaseContext:
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(list(PRELOADED))
    return context


def _start(words: str, folder: Path) -> tuple[multiprocessing.process.BaseProcess, Path]:
    output = folder.parent / f"{folder.name}.txt"
    process = _context().Process(target=_main, args=(words.split(), folder, output))
    process.start()
    return process, output


def run(words: str, folder: Path) -> tuple[int | None, str]:
    """Run a command to its end; return its exit code and what it printed."""
    process, output = _start(words, folder)
    process.join(SECONDS)
    if process.exitcode is None:
        process.kill()
        process.join()
        return None, "it takes too long"
    return process.exitcode, output.read_text(errors="replace")


def entries(folder: Path) -> set[tuple[str, int]]:
    """Return the names and sizes of all files."""
    found = set()
    for path in folder.rglob("*"):
        with contextlib.suppress(OSError):
            found.add((str(path), path.stat().st_size))
    return found


@cache
def prepared(name: str) -> Path:
    """Return a folder in which a command can run, with the seconds that it writes, as the file "seconds"."""
    command, folder = COMMANDS[name], Path(tempfile.mkdtemp(prefix="kill_commands_")) / "work"
    folder.mkdir()
    for words in command.needs:
        shutil.copytree(_result(words), folder, dirs_exist_ok=True)
    command.prepare(folder)
    return folder


@cache
def _result(words: str) -> Path:
    folder = Path(tempfile.mkdtemp(prefix="kill_commands_"))
    code, text = run(words, folder)
    assert code == 0, text
    return folder


@cache
def writing_seconds(name: str) -> float:
    """Return how long a command writes, from its first file to its end."""
    folder = Path(shutil.copytree(prepared(name), Path(tempfile.mkdtemp(prefix="kill_commands_")) / "work"))
    before, (process, output) = entries(folder), _start(COMMANDS[name].words, folder)
    while process.is_alive() and entries(folder) == before:
        time.sleep(0.002)
    start = time.monotonic()
    process.join(SECONDS)
    assert process.exitcode == 0, (process.exitcode, output.read_text())
    return time.monotonic() - start


def kill(name: str, seed: int) -> str | None:
    """Kill a command at a random moment and run it again; return what is wrong then, or None."""
    command, rng = COMMANDS[name], random.Random(f"{name}/{seed}")
    with tempfile.TemporaryDirectory(prefix="kill_commands_") as parent:
        folder = Path(shutil.copytree(prepared(name), Path(parent) / "work"))
        before, (process, _) = entries(folder), _start(command.words, folder)
        while process.is_alive() and entries(folder) == before:
            time.sleep(0.001)
        time.sleep(rng.uniform(0, writing_seconds(name)))
        process.kill()
        process.join()
        left = sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())
        for words in command.again or (command.words,):
            code, text = run(words, folder)
            if code == 0:
                break
            if code is None or "Traceback" in text or not ADVICE.search(text):
                return f"`{words}` after {left} ended with {code}: {text[-300:]}"
        else:
            return f"nothing helps after {left}: {text[-300:]}"
        if command.check:
            code, text = run(command.check, folder)
            if code != 0:
                return f"`{command.check}` after {left} ended with {code}: {text[-300:]}"
        names = [path.name for path in folder.rglob("*")]
        parts = [name for name in names if ".part" in name or name.startswith(".")]
        parts = [name for name in parts if not name.endswith(".mcap.part")]  # a draft that can be read
        return f"{parts} are left after {left}" if parts else None
