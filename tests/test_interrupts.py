"""Ctrl-C and SIGTERM end every command alike; workers end with their parent."""

import contextlib
import gc
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from gl import needs_gl
from test_recording import ENVIRONMENT, record

import sensorium as sn
from sensorium.cli import main
from sensorium.cli.train import Train
from sensorium.generation import GenerateOptions, generate
from sensorium.recording.output_folder import has_step

RUN = "import sys; from sensorium.cli import main; sys.exit(main())"
LONG = ["--option", "max_steps=400", "fall=3", "range=50", "--episodes", "100000", "--envs", "4"]


STARTED = []


def start(*words, code=RUN):
    command = [sys.executable, "-c", code, *map(str, words)]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    STARTED.append(subprocess.Popen(command, **pipes, text=True, env=ENVIRONMENT))
    return STARTED[-1]


@pytest.fixture(autouse=True)
def end_processes():
    """End the processes of a test that failed."""
    yield
    for process in STARTED:
        if process.poll() is None:
            process.kill()
            process.communicate()
    STARTED.clear()


def wait_for(condition, process, seconds=60):
    end = time.monotonic() + seconds
    while not condition():
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < end
        time.sleep(0.05)


def interrupt(process, number):
    process.send_signal(number)
    return last_line(process, number)


def last_line(process, number):
    """Return the last line of a process that a signal ended."""
    _, text = process.communicate(timeout=60)
    assert process.returncode == {signal.SIGINT: 130, signal.SIGTERM: 143}[number], text
    lines = [line for line in text.splitlines() if line.strip()]
    assert "Traceback" not in text, text
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
    wait_for(lambda: has_step(out), process)
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
    wait_for(lambda: list(tmp_path.glob("b.*.part")), process)
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


COMPILING = """
import pickle, time
from sensorium import compiling
worker = compiling._start_worker()
worker.stdin.write(pickle.dumps(("tokenize", "re", "a")))  # re.compile("a")
worker.stdin.flush()
assert worker.stdout.read(1) == b"."
print(worker.pid, worker.stdin.fileno(), flush=True)
time.sleep(60)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_workers_that_compile_end_with_a_killed_parent():
    """Also while they compile a kernel and do not read their input, as if it stayed open."""
    process = start(code=COMPILING)
    worker, descriptor = map(int, process.stdout.readline().split())
    held = os.open(f"/proc/{process.pid}/fd/{descriptor}", os.O_WRONLY)
    try:
        assert running(worker)
        process.kill()
        process.communicate()
        end = time.monotonic() + 5
        while running(worker) and time.monotonic() < end:
            time.sleep(0.05)
        assert not running(worker)
    finally:
        os.close(held)


INTERRUPT_AT_IMPORT = """
import os, signal, sys
class Finder:
    def find_spec(self, name, path=None, target=None):
        if name == first:
            sys.meta_path.remove(self)
            os.kill(os.getpid(), {number})
first = sys.argv.pop(1)
sys.meta_path.insert(0, Finder())
from sensorium.__main__ import main
sys.exit(main())
"""


@SIGNALS
@pytest.mark.parametrize("module", ["sensorium.cli", "tyro", "sensorium.cli.view"])
def test_interrupts_while_a_command_imports_its_modules(tmp_path, module, number):
    code = INTERRUPT_AT_IMPORT.format(number=int(number))
    process = start(module, "plot", "IMU", "--out", tmp_path / "a.png", code=code)
    assert "nothing was kept" in last_line(process, number)


@pytest.mark.slow
@SIGNALS
@pytest.mark.parametrize("module", ["numpy", "torch", "mujoco", "numba", "sensorium.worlds.scene", "matplotlib"])
def test_interrupts_while_a_command_imports_other_packages(tmp_path, module, number):
    code = INTERRUPT_AT_IMPORT.format(number=int(number))
    process = start(module, "plot", "IMU", "--out", tmp_path / "a.png", code=code)
    assert "nothing was kept" in last_line(process, number)


@SIGNALS
def test_interrupts_while_options_are_parsed(monkeypatch, capsys, number):
    monkeypatch.setattr("sensorium.cli._parse", lambda *_: os.kill(os.getpid(), number))
    assert main(["plot", "IMU"]) == 128 + number
    assert capsys.readouterr().err == "sensorium plot: interrupted; nothing was kept; run it again\n"


KEPT = """
import sys
from sensorium.cli import _COMMANDS, _parse
words = {
    "record": "record --out a", "replay": "replay a --out b", "generate": "generate pick --out a",
    "export": "export a --format robomimic --out b", "train": "train balance --out a", "play": "play a --out b.mp4",
    "view": "view a",
}
assert {name for name, command in _COMMANDS.items() if hasattr(command, "interrupted")} == words.keys()
commands = [_parse(line.split(), name)[0] for name, line in words.items()]
before = set(sys.modules)
for command in commands:
    print(command.interrupted)
assert set(sys.modules) == before, set(sys.modules) - before
"""


def test_what_was_kept_is_said_without_imports(tmp_path):
    """torch cannot be imported again after its import was interrupted."""
    process = subprocess.run(
        [sys.executable, "-c", KEPT], cwd=tmp_path, env=ENVIRONMENT, capture_output=True, text=True
    )
    assert process.returncode == 0, process.stderr
    record, replay, generated, *_ = process.stdout.splitlines()
    assert {record, replay, generated} == {"nothing was kept; run it again"}


class _Interrupting:
    """An object in whose destructor a signal comes."""

    def __init__(self, number):
        self.number = number

    def __del__(self):
        os.kill(os.getpid(), self.number)
        sum(range(10))


@SIGNALS
def test_an_interrupt_in_a_destructor_is_not_lost(monkeypatch, capsys, number):
    def parse(*_):
        objects = [_Interrupting(number)]
        objects.clear()
        time.sleep(10)

    monkeypatch.setattr("sensorium.cli._parse", parse)
    start = time.monotonic()
    assert main(["plot", "IMU"]) == 128 + number
    assert time.monotonic() - start < 5
    assert capsys.readouterr().err == "sensorium plot: interrupted; nothing was kept; run it again\n"


@SIGNALS
def test_an_interrupt_that_a_library_replaces_by_its_own_error(monkeypatch, capsys, number):
    def parse(*_):
        try:
            os.kill(os.getpid(), number)
        except KeyboardInterrupt:
            raise TypeError("incompatible function arguments") from None

    monkeypatch.setattr("sensorium.cli._parse", parse)
    assert main(["plot", "IMU"]) == 128 + number
    assert capsys.readouterr().err == "sensorium plot: interrupted; nothing was kept; run it again\n"


@SIGNALS
def test_a_second_interrupt_does_not_disturb_the_report(monkeypatch, capsys, number):
    def describe(_):
        os.kill(os.getpid(), number)
        os.kill(os.getpid(), signal.SIGINT)
        return "everything is kept"

    def run(_):
        os.kill(os.getpid(), number)

    monkeypatch.setattr("sensorium.cli.plot.Plot.run", run)
    monkeypatch.setattr("sensorium.cli.plot.Plot.interrupted", property(describe), raising=False)
    handlers = [signal.getsignal(each) for each in (signal.SIGINT, signal.SIGTERM)]
    assert main(["plot", "IMU"]) == 128 + number
    assert capsys.readouterr().err == "sensorium plot: interrupted; everything is kept\n"
    assert [signal.getsignal(each) for each in (signal.SIGINT, signal.SIGTERM)] == handlers


INTERRUPT_AT_EXIT = """
import atexit, os, signal, sys, threading, time
from sensorium.__main__ import main
def interrupt():
    os.kill(os.getpid(), {number})
moment = sys.argv.pop(1)
class Last:
    def __del__(self):
        interrupt()
if moment == "atexit":
    atexit.register(interrupt)
elif moment == "end":
    sys.modules["last"] = Last()
status = main()
if moment == "return":
    interrupt()
elif moment == "threads":  # Python waits for them
    threading.Thread(target=time.sleep, args=(60,)).start()
    threading.Timer(0.5, interrupt).start()
sys.exit(status)
"""


@SIGNALS
@pytest.mark.parametrize("moment", ["return", "threads", "atexit", "end"])
def test_a_signal_after_a_command_does_not_change_its_exit_code(number, moment):
    process = start(moment, "--version", code=INTERRUPT_AT_EXIT.format(number=int(number)))
    out, text = process.communicate(timeout=30)
    assert (process.returncode, out.strip(), text) == (0, sn.__version__, "")


def test_ignored_signals_stay_ignored():
    """A shell lets background jobs ignore Ctrl-C."""
    code = (
        "import os, signal; signal.signal(signal.SIGINT, signal.SIG_IGN); import sensorium.cli; "
        "sensorium.cli._parse = lambda *_: os.kill(os.getpid(), signal.SIGINT) or exit(0); "
        "from sensorium.__main__ import main; exit(main())"
    )
    process = start("plot", "IMU", code=code)
    _, text = process.communicate(timeout=60)
    assert (process.returncode, text) == (0, "")


def blocks_ctrl_c(process):
    lines = (Path("/proc") / str(process) / "status").read_text().splitlines()
    mask = next(int(line.split()[1], 16) for line in lines if line.startswith("SigBlk:"))
    return bool(mask & 1 << (signal.SIGINT - 1))


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
@pytest.mark.parametrize("after", [0.0, 0.05, 0.5])
def test_ctrl_c_in_a_terminal_leaves_workers_quiet_while_they_start(tmp_path, after):
    words = ["generate", "balance", "--policy", "random", *LONG, "--workers", "2", "--out", tmp_path / "data"]
    process = start(*words, code="import os; os.setpgid(0, 0); " + RUN)
    wait_for(lambda: family(process.pid), process)
    time.sleep(after)
    assert all(blocks_ctrl_c(child) for child in family(process.pid))
    os.killpg(process.pid, signal.SIGINT)
    text = last_line(process, signal.SIGINT)
    assert "run the same command again" in text or "nothing was kept; run it again" in text


INTERRUPT_THE_GROUP = """
import os, signal, subprocess, sys, time
os.setpgid(0, 0)
os.environ["PYGLFW_LIBRARY"] = ""  # then glfw starts a process to find its library
class Popen(subprocess.Popen):
    def __init__(self, command, **options):
        if "-c" not in command:
            return super().__init__(command, **options)
        slow = "import time; time.sleep(1.0)\\n"
        super().__init__([*command[:-1], slow + command[-1]], **options)
        time.sleep(0.5)
        os.killpg(0, signal.SIGINT)
subprocess.Popen = Popen
from sensorium.__main__ import main
sys.exit(main())
"""


def test_ctrl_c_in_a_terminal_leaves_the_processes_of_libraries_quiet(tmp_path):
    process = start("validate", tmp_path, code=INTERRUPT_THE_GROUP)
    assert "nothing was kept" in last_line(process, signal.SIGINT)


@pytest.mark.skipif(sys.platform != "linux", reason="other wheels of glfw have their library elsewhere")
def test_imports_of_a_command_start_no_process_of_python(tmp_path):
    code = """
import subprocess, sys
class Popen(subprocess.Popen):
    def __init__(self, command, **options):
        assert command[0] != sys.executable
        super().__init__(command, **options)
subprocess.Popen = Popen
from sensorium.__main__ import main
sys.exit(main())
"""
    _, text = start("validate", tmp_path, code=code).communicate(timeout=60)
    assert text == f"sensorium validate: {tmp_path} is not a recording: it has no config.json\n"


def test_an_interrupted_training_says_what_is_kept(tmp_path):
    command = Train("balance", tmp_path)
    assert command.interrupted == "nothing was kept; run it again"
    (tmp_path / "config.json").touch()
    assert "no checkpoint yet; begin again with --resume" in command.interrupted
    (tmp_path / "checkpoints" / "000000000016").mkdir(parents=True)
    assert "are kept; continue with --resume" in command.interrupted


INTERRUPTED_BUILDS = """
import gc, os, random, signal, threading, time
import sensorium as sn

def build():
    scene = sn.Scene()
    scene.add_object(sn.Box(size=(0.2, 0.2, 0.2), mass=1.0), name="box", free=True)
    scene.add_sensor(sn.IMU(link="box", uuid="imu"))
    scene.add_sensor(sn.Camera(pos=(2, 0, 1), lookat=(0, 0, 0), resolution=(16, 12), uuid="camera", renderer="raster"))
    try:
        scene.build(n_envs=4)
        scene.sensors["camera"].read()
    finally:
        scene.close()

def interrupt(*_):
    raise KeyboardInterrupt

signal.signal(signal.SIGALRM, interrupt)
build()
start = time.perf_counter()
build()
seconds, rng, hits = time.perf_counter() - start, random.Random(0), 0
for _ in range(40):
    signal.setitimer(signal.ITIMER_REAL, rng.uniform(1e-4, seconds))
    try:
        build()
        signal.setitimer(signal.ITIMER_REAL, 0)
    except KeyboardInterrupt:
        hits += 1
    except TypeError as error:  # MuJoCo's bindings report an interrupt in a conversion so
        assert "incompatible function arguments" in str(error)
        hits += 1
    gc.collect()
end = time.perf_counter() + 20
while threading.active_count() > 1 and time.perf_counter() < end:
    time.sleep(0.01)  # a thread whose start was interrupted ends by itself
print(hits, [thread.name for thread in threading.enumerate()])
"""


@needs_gl
@pytest.mark.slow
def test_interrupted_builds_leave_no_thread():
    process = start(code=INTERRUPTED_BUILDS)
    out, text = process.communicate(timeout=120)
    assert process.returncode == 0, text
    hits, _, threads = out.partition(" ")
    assert int(hits) >= 10
    assert threads.strip() == "['MainThread']"


def python_threads():
    return sorted(thread.name for thread in threading.enumerate() if thread.name.startswith(("sensorium", "rays")))


@pytest.fixture
def no_collection():
    """What is left is not hidden by a garbage collection."""
    gc.collect()
    gc.disable()
    yield
    gc.enable()


def scene_with(sensor):
    scene = sn.Scene()
    scene.add_object(sn.Plane())
    scene.add_object(sn.Box(size=(0.2, 0.2, 0.2)), name="box", pos=(0, 0, 0.5), free=True)
    scene.add_sensor(sensor)
    return scene


def camera():
    return sn.Camera(pos=(2, 0, 1), lookat=(0, 0, 0), resolution=(16, 12), uuid="camera", renderer="raster")


@needs_gl
@pytest.mark.parametrize("where", ["Entity.attach_world", "scene.ModelFields", "scene.Journal"])
def test_builds_that_are_interrupted_after_their_cameras_stop_the_threads(no_collection, monkeypatch, where):
    def interrupt(*_):
        assert python_threads() != before
        raise KeyboardInterrupt

    before = python_threads()
    scene = scene_with(camera())
    monkeypatch.setattr(f"sensorium.worlds.{where}", interrupt)
    with pytest.raises(KeyboardInterrupt):
        scene.build(n_envs=4)
    assert python_threads() == before
    monkeypatch.undo()
    scene.build(n_envs=4)
    assert scene.sensors["camera"].read().rgb.shape == (4, 12, 16, 3)
    scene.close()
    assert python_threads() == before


@needs_gl
def test_a_close_that_was_interrupted_can_be_repeated(no_collection, monkeypatch):
    def interrupt(*_):
        raise KeyboardInterrupt

    before = python_threads()
    scene = scene_with(camera())
    scene.build(n_envs=4)
    monkeypatch.setattr("sensorium.cameras.raster.renderer._stop", interrupt)
    with pytest.raises(KeyboardInterrupt):
        scene.close()
    monkeypatch.undo()
    assert python_threads() != before
    scene.close()
    assert python_threads() == before


@needs_gl
def test_a_thread_is_not_joined_again_after_an_interrupt(monkeypatch):
    """After two interrupts in one ``join()``, the next can wait for ever."""
    joined = []

    def interrupt(thread, timeout=None):
        joined.append(thread)
        raise KeyboardInterrupt

    before = python_threads()
    scene = scene_with(camera())
    scene.build(n_envs=4)
    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "join", interrupt)
        for _ in range(3):
            with contextlib.suppress(KeyboardInterrupt):
                scene.close()
    assert joined
    assert len(set(joined)) == len(joined)
    end = time.monotonic() + 10
    while python_threads() != before and time.monotonic() < end:
        time.sleep(0.01)
    assert python_threads() == before


@needs_gl
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_threads_end_if_the_finalizer_of_their_renderer_is_interrupted(monkeypatch):
    def interrupt(*_):
        raise KeyboardInterrupt

    gc.collect()
    before = python_threads()
    monkeypatch.setattr("sensorium.cameras.raster.renderer._stop", interrupt)
    scene = scene_with(camera())
    scene.build(n_envs=4)
    assert python_threads() != before
    del scene
    gc.collect()
    end = time.monotonic() + 10
    while python_threads() != before and time.monotonic() < end:
        time.sleep(0.01)
    assert python_threads() == before


def test_close_stops_the_threads_of_rays(no_collection, monkeypatch):
    monkeypatch.setattr("sensorium.sensors.rays.cpu_rays._MIN_RAYS", 1)
    before = python_threads()
    scene = scene_with(sn.Lidar(link="box", uuid="lidar"))
    scene.build(n_envs=64, threads=2)
    scene.step()
    assert python_threads() != before
    scene.close()
    assert python_threads() == before
