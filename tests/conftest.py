"""Shared by all tests: scenes, the selection of slow tests, and the skipping of GPU tests."""

import hashlib
import os
import shutil
import signal
import subprocess
import threading
import time
from pathlib import Path

import pytest
from hypothesis import settings

import sensorium as sn

# A shell ignores Ctrl-C in background jobs, and programs inherit it; those that the tests start must receive Ctrl-C
if signal.getsignal(signal.SIGINT) == signal.SIG_IGN and threading.current_thread() is threading.main_thread():
    signal.signal(signal.SIGINT, signal.default_int_handler)

settings.register_profile("ci", derandomize=True)  # the same examples in every run; outside CI they are random
if os.environ.get("CI"):
    settings.load_profile("ci")

ARM = """
<mujoco model="arm">
  <option timestep="0.1"/>
  <worldbody>
    <body name="upper" pos="0 0 0.5">
      <joint name="shoulder" axis="0 1 0" range="-3 3" damping="0.1"/>
      <geom type="capsule" fromto="0 0 0 0 0 0.3" size="0.03" mass="1"/>
      <body name="lower" pos="0 0 0.3">
        <joint name="elbow" axis="0 1 0" range="-3 3" damping="0.1"/>
        <geom type="capsule" fromto="0 0 0 0 0 0.3" size="0.03" mass="0.5"/>
        <site name="tip" pos="0 0 0.3"/>
      </body>
    </body>
  </worldbody>
  <actuator><motor name="m1" joint="shoulder"/><motor name="m2" joint="elbow"/></actuator>
</mujoco>
"""


def drop_scene(height: float = 0.12, **options) -> sn.Scene:
    """Return an unbuilt scene with a 1 kg box of 0.2 m that falls on a plane."""
    scene = sn.Scene(**{"dt": 0.01, "substeps": 2, **options})
    scene.add_object(sn.Plane())
    scene.add_object(sn.Box(size=(0.2, 0.2, 0.2), mass=1.0), name="box", pos=(0, 0, height), free=True)
    return scene


def arm_scene(**options) -> sn.Scene:
    """Return an unbuilt scene with a two-joint arm."""
    scene = sn.Scene(**{"dt": 0.01, "substeps": 2, **options})
    scene.add_object(sn.Plane())
    scene.add_robot(ARM, name="arm")
    return scene


SOFTWARE_GL = ["--use-gl=angle", "--use-angle=swiftshader", "--enable-unsafe-swiftshader", "--no-sandbox"]


@pytest.fixture(scope="module")
def browser():
    """A headless Chromium, controlled by playwright."""
    path = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    if path is None:
        pytest.skip("no Chromium on this machine: apt-get install chromium")
    api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    with api.sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=path, args=SOFTWARE_GL)
        yield chromium
        chromium.close()


def patiently(page, condition, seconds=60.0):
    """Return whether a condition becomes true within some seconds, while the page runs."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if condition():
            return True
        page.wait_for_timeout(100)
    return False


def pytest_addoption(parser):
    parser.addoption("--all-slow", action="store_true", help="run every slow test, not a sample of them")
    parser.addoption("--gpu-on-cpu", action="store_true", help="run GPU tests on Warp's CPU device; some need CUDA")
    parser.addoption("--slow-seed", default=None, help="seed of the sample of slow tests; default: the commit's tree")


def _slow_seed(config):
    """Return the seed of the sample of slow tests.

    It is the tree of the commit: each test runs every few commits, and the same files give the same sample anywhere.
    """
    if config.getoption("--slow-seed") is not None:
        return config.getoption("--slow-seed")
    words = ["git", "-C", str(config.rootpath), "rev-parse", "HEAD^{tree}"]
    try:
        return subprocess.run(words, capture_output=True, text=True, check=True).stdout.strip()[:12]
    except (OSError, subprocess.CalledProcessError):
        return "no commit"


def pytest_report_header(config):
    if config.getoption("--all-slow"):
        return "slow tests: all"
    return f"slow tests: one in 32, --slow-seed {_slow_seed(config)!r}"


def pytest_terminal_summary(terminalreporter, config):
    reports = [report for key in ("passed", "failed") for report in terminalreporter.getreports(key)]
    ran = sorted({report.nodeid for report in reports if "slow" in getattr(report, "keywords", {})})
    if ran:
        terminalreporter.write_sep("-", f"slow tests that ran: {len(ran)}")
        for name in ran:
            terminalreporter.write_line(name)


SLOW = Path(__file__).parent / "slow.txt"
"""Names of tests that take some seconds: those without a mark of their own."""


def pytest_collection_modifyitems(config, items):
    names = set(SLOW.read_text(encoding="utf-8").splitlines())
    for item in items:
        if item.nodeid in names:
            item.add_marker(pytest.mark.slow)
    slow = [item for item in items if item.get_closest_marker("slow")]
    if slow and not config.getoption("--all-slow"):
        # by a hash of the name, so that the selection of a test does not depend on the others that are collected
        seed = _slow_seed(config)
        for item in slow:
            if hashlib.blake2b(f"{seed} {item.nodeid}".encode()).digest()[0] % 32:
                item.add_marker(
                    pytest.mark.skip(reason="slow test that is not in the sample of this run; --all-slow runs it")
                )
    gpu = [item for item in items if item.get_closest_marker("gpu")]
    if gpu and not config.getoption("--gpu-on-cpu"):
        import torch

        if not torch.cuda.is_available():
            for item in gpu:
                item.add_marker(pytest.mark.skip(reason="no CUDA device on this machine"))


@pytest.fixture(autouse=True)
def _gpu_on_cpu(request):
    """Run GPU tests on Warp's CPU device, if asked to."""
    if request.node.get_closest_marker("gpu") and request.config.getoption("--gpu-on-cpu"):
        from warp_on_cpu import warp_on_cpu

        with warp_on_cpu():
            yield
    else:
        yield
