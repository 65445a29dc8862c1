"""Other systems than Linux, as far as they can be imitated here: what they lack is hidden, and then imported anew.

A subprocess first imports everything as it is, so that other packages are loaded for the real system. Then, in a fork
for each system, it hides what that system lacks, forgets Sensorium's modules, and runs the test with fresh ones.
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
    """Windows' locks, by flock."""
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
    """Become another system; ``bare``: without the POSIX modules, which macOS has."""
    drop().step()  # imports what is imported when it is used
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
def tell(folder):
    import sensorium as sn

    said = {}
    scene = drop()
    scene.step()
    assert scene["imu"].read().lin_acc.isfinite().all()
    said["threads"] = scene.world.threads

    driven = sn.Scene(dt=0.05, substeps=2)
    driven.add_object(sn.Plane())
    robot = driven.add_robot("diffdrive", name="robot")
    driven.build()
    for name in ("keyboard", "gamepad"):
        try:
            sn.scenarios.make(name, driven, robot)
        except sn.DeviceError as error:
            said[name] = str(error)

    def others():
        return sorted(path.name for path in folder.parent.iterdir())

    try:
        with sn.recording.Recorder(scene, folder) as recorder:
            said["while recording"] = others()
            try:
                with sn.files.writing(folder):
                    pass
            except sn.DatasetError as error:
                said["second writer"] = str(error)
            for _ in range(5):
                scene.step()
                recorder.step()
        said["steps"], said["problems"] = len(sn.datasets.open(folder)), sn.recording.check(folder).problems
        said["replayed"] = len(sn.recording.replay(folder, folder.with_name("copy")))
        scene = drop()
        with sn.recording.Recorder(scene, folder, overwrite=True) as recorder:
            scene.step()
            recorder.step()
        said["steps after overwrite"] = len(sn.datasets.open(folder))
        said["afterwards"] = others()
    except sn.DatasetError as error:
        said["recording"] = str(error)
    return said


with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    import_all()
    import h5py, av, PIL.Image, tyro, rich.progress, multiprocessing.shared_memory
for case in ("macos", "macos-bare", "windows"):  # each in a process of its own, forked so that imports are made once
    out = Path(sys.argv[1]) / case
    out.mkdir()
    if child := os.fork():
        os.waitpid(child, 0)
        continue
    try:
        imitate("win32" if case == "windows" else "darwin", bare=case != "macos")
        import_all()
        out.with_suffix(".json").write_text(json.dumps(tell(out / "drive")))
    except BaseException:
        traceback.print_exc()
    sys.stderr.flush()
    os._exit(0)
"""


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """The folder of what all systems said, and what went wrong."""
    folder = tmp_path_factory.mktemp("out")
    command = [sys.executable, "-c", IMITATE + BODY, str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=900)
    return folder, done.stderr


@pytest.fixture(params=["macos", "macos-bare", "windows"])
def said(request, run):
    """System, and what it said. On "macos-bare" the POSIX modules are hidden too, which a real macOS has."""
    folder, errors = run
    file = folder / f"{request.param}.json"
    assert file.exists(), errors
    return request.param, json.loads(file.read_text())


def test_everything_is_imported_and_a_scene_steps(said):
    assert said[1]["threads"] == os.cpu_count()


def test_scenarios_that_need_another_system_say_so(said):
    system, said = said
    name = "Windows" if system == "windows" else "macOS"
    if system == "macos":  # which has POSIX terminals; here standard input is none
        assert said["keyboard"].startswith("keyboard needs a terminal")
    else:
        needs = "the scenario 'keyboard' needs a POSIX terminal (Linux, macOS)"
        assert said["keyboard"] == f"{needs}; this system is {name}. Use the scenario 'random-path'"
    assert said["gamepad"].startswith(f"the scenario 'gamepad' needs Linux's joystick device; this system is {name}.")


def test_recordings_are_locked_written_and_read(said):
    system, said = said
    if system == "macos-bare":
        assert (
            "needs fcntl (Linux, macOS) or msvcrt (Windows), and this Python for macOS has neither" in said["recording"]
        )
        return
    assert said["while recording"] == ([".drive.lock"] if system == "windows" else []) + ["drive"]
    assert "is being written by another process" in said["second writer"]
    assert (said["steps"], said["problems"], said["replayed"]) == (5, [], 5)
    assert said["steps after overwrite"] == 1
    assert said["afterwards"] == ["copy", "drive"]


def test_this_system_is_named():
    assert _system.name() == "Linux"
    assert _system.cpu_count() >= 1
    assert _system.is_alive(os.getpid())


def test_processes_that_have_ended_are_not_alive():
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
