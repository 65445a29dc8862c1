"""Systems other than Linux, imitated on Linux: modules and functions that they lack are hidden.

A subprocess first imports everything, so that other packages are loaded for the real system. Then, in one fork per
system, it hides what that system lacks, removes Sensorium's modules, imports them again, and runs the test.
"""

import json
import os
import subprocess
import sys

import pytest

from sensorium import _system

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="other systems are imitated on Linux")

IMITATE = '''
import ctypes, fcntl, importlib, json, multiprocessing.reduction, os, pkgutil, platform, signal, sys, traceback, types
import warnings
from pathlib import Path

PACKAGES = (
    "worlds pipeline sensors cameras suites tasks robots policies scenarios datasets generation entities training "
    "viewer cli"
).split()
MODULES = {"fcntl", "termios", "tty", "pty", "resource", "pwd", "grp", "syslog", "curses"}
MACOS = {"os": "sched_getaffinity sched_setaffinity posix_fallocate posix_fadvise memfd_create pidfd_open splice"}
WINDOWS = {
    "os": MACOS["os"] + " pread pwrite preadv pwritev readv writev uname statvfs fstatvfs fork forkpty register_at_fork"
    " getuid geteuid getgid getpgid killpg setsid mkfifo O_NONBLOCK O_DIRECTORY O_CLOEXEC O_NOFOLLOW O_SYNC wait wait3"
    " WNOHANG WIFEXITED sched_yield",
    "signal": "SIGKILL SIGSTOP SIGCONT SIGUSR1 SIGUSR2 SIGCHLD SIGHUP SIGALRM SIGPIPE pthread_sigmask sigwait",
    "multiprocessing.reduction": "DupFd",
}


class Hidden:
    def find_spec(self, name, path=None, target=None):
        if name in MODULES:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)


def import_all():
    for name in PACKAGES:
        package = importlib.import_module(f"sensorium.{name}")
        for module in pkgutil.iter_modules(package.__path__):
            if module.name != "__main__":
                importlib.import_module(f"sensorium.{name}.{module.name}")


def fake_msvcrt():
    """Imitate the locks of Windows by flock."""
    lock = fcntl.flock

    def locking(descriptor, mode, size):
        try:
            lock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise PermissionError(13, "Permission denied") from None

    return types.SimpleNamespace(locking=locking, LK_NBLCK=2)


def no_library(name=None, *args, real=ctypes.CDLL, **options):
    if name is None:
        raise TypeError("argument of type 'NoneType' is not iterable")
    return real(name, *args, **options)


def imitate(system, bare):
    """Imitate another system; ``bare`` hides the POSIX modules, which a real macOS has."""
    drop().step()  # loads modules that are imported at first use
    platform.uname()
    for name in [name for name in sys.modules if name.split(".")[0] == "sensorium"]:
        del sys.modules[name]
    if system == "win32":
        sys.modules["msvcrt"] = fake_msvcrt()
        ctypes.CDLL = no_library
    if bare:
        for name in MODULES:
            sys.modules.pop(name, None)
        sys.meta_path.insert(0, Hidden())
    for module, names in (WINDOWS if system == "win32" else MACOS).items():
        for name in names.split():
            if hasattr(sys.modules[module], name):
                delattr(sys.modules[module], name)
    sys.platform = system


def drop():
    import sensorium as sn

    scene = sn.Scene(dt=0.01, substeps=2)
    scene.add_object(sn.Plane())
    scene.add_object(sn.Box(size=(0.2, 0.2, 0.2), mass=1.0), name="box", pos=(0, 0, 0.5), free=True)
    scene.add_sensor(sn.IMU(link="box", uuid="imu", acc_noise=0.02, delay=0.02))
    scene.build(n_envs=2)
    return scene
'''


BODY = """
def report(folder):
    import sensorium as sn

    found = {}
    scene = drop()
    scene.step()
    assert scene["imu"].read().lin_acc.isfinite().all()
    found["threads"] = scene.world.threads

    driven = sn.Scene(dt=0.05, substeps=2)
    driven.add_object(sn.Plane())
    robot = driven.add_robot("diffdrive", name="robot")
    driven.build()
    for name in ("keyboard", "gamepad"):
        try:
            sn.scenarios.make(name, driven, robot)
        except sn.DeviceError as error:
            found[name] = str(error)

    def others():
        return sorted(path.name for path in folder.parent.iterdir())

    try:
        with sn.recording.Recorder(scene, folder) as recorder:
            found["while recording"] = others()
            try:
                with sn.files.lock_folder(folder):
                    pass
            except sn.DatasetError as error:
                found["second writer"] = str(error)
            for _ in range(5):
                scene.step()
                recorder.step()
        found["steps"], found["problems"] = len(sn.datasets.open(folder)), sn.recording.check(folder).problems
        found["replayed"] = len(sn.recording.replay(folder, folder.with_name("copy")))
        scene = drop()
        with sn.recording.Recorder(scene, folder, overwrite=True) as recorder:
            scene.step()
            recorder.step()
        found["steps after overwrite"] = len(sn.datasets.open(folder))
        found["afterwards"] = others()
    except sn.DatasetError as error:
        found["recording"] = str(error)
    return found


with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    import_all()
    import h5py, av, PIL.Image, tyro, rich.progress, multiprocessing.shared_memory
for case in ("macos", "macos-bare", "windows"):  # each in a fork, so that packages are imported once
    out = Path(sys.argv[1]) / case
    out.mkdir()
    if child := os.fork():
        os.waitpid(child, 0)
        continue
    try:
        imitate("win32" if case == "windows" else "darwin", bare=case != "macos")
        import_all()
        out.with_suffix(".json").write_text(json.dumps(report(out / "drive")))
    except BaseException:
        traceback.print_exc()
    sys.stderr.flush()
    os._exit(0)
"""


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """The folder with the reports of all systems, and the error output."""
    folder = tmp_path_factory.mktemp("out")
    command = [sys.executable, "-c", IMITATE + BODY, str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=900)
    return folder, done.stderr


@pytest.fixture(params=["macos", "macos-bare", "windows"])
def report(request, run):
    """The system and its report. On "macos-bare" the POSIX modules are hidden too, which a real macOS has."""
    folder, errors = run
    file = folder / f"{request.param}.json"
    assert file.exists(), errors
    return request.param, json.loads(file.read_text())


@pytest.mark.slow
def test_all_modules_import_and_a_scene_steps(report):
    assert report[1]["threads"] == os.cpu_count()


@pytest.mark.slow
def test_unsupported_scenarios_raise_with_the_name_of_the_system(report):
    system, found = report
    name = "Windows" if system == "windows" else "macOS"
    if system == "macos":  # it has POSIX terminals, but here standard input is not a terminal
        assert found["keyboard"].startswith("keyboard needs a terminal")
    else:
        needs = "the scenario 'keyboard' needs a POSIX terminal (Linux, macOS)"
        assert found["keyboard"] == f"{needs}; this system is {name}. Use the scenario 'random-path'"
    assert found["gamepad"].startswith(f"the scenario 'gamepad' needs Linux's joystick device; this system is {name}.")


@pytest.mark.slow
def test_recordings_are_locked_written_and_read(report):
    system, found = report
    if system == "macos-bare":
        assert (
            "needs fcntl (Linux, macOS) or msvcrt (Windows), and this Python for macOS has neither"
            in found["recording"]
        )
        return
    assert found["while recording"] == ([".drive.lock"] if system == "windows" else []) + ["drive"]
    assert "is being written by another process" in found["second writer"]
    assert (found["steps"], found["problems"], found["replayed"]) == (5, [], 5)
    assert found["steps after overwrite"] == 1
    assert found["afterwards"] == ["copy", "drive"]


def test_name_and_processors_of_this_system():
    assert _system.name() == "Linux"
    assert _system.cpu_count() >= 1
    assert _system.is_alive(os.getpid())


def test_ended_processes_are_not_alive():
    done = subprocess.Popen([sys.executable, "-c", ""])
    done.wait()
    assert not _system.is_alive(done.pid)


def test_writing_at_a_position_without_pwrite(tmp_path):
    path = tmp_path / "file"
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT)
    try:
        assert _system._join_and_write(descriptor, [b"ab", b"cdef"]) == 6
        assert _system._seek_and_write(descriptor, b"XY", 2) == 2
        assert _system._seek_and_read(descriptor, 3, 1) == b"bXY"
    finally:
        os.close(descriptor)
    assert path.read_bytes() == b"abXYef"
