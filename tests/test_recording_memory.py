"""Memory of recording: images go to videos frame by frame and never collect in memory."""

import json
import subprocess
import sys

import pytest

_MEASURE = """
import json, sys, tempfile
from pathlib import Path

from sensorium.generation import GenerateOptions
from sensorium.generation.unit import UnitMaker

STEPS = int(sys.argv[2])

def private():
    status = dict(line.split(":", 1) for line in open("/proc/self/status"))
    return int(status["RssAnon"].split()[0]) * 1024 / 1e6

def measure(rig_cameras):
    '''Return the memory in MB when the env runs, and the maximum while each of two episodes is recorded.'''
    options = GenerateOptions(
        task="nav_to_obj", episodes=2, envs=1, successes_only=False, policy="random",
        options={"rig_cameras": rig_cameras, "max_steps": STEPS},
    )
    folder = Path(tempfile.mkdtemp(dir=sys.argv[1]))
    maker = UnitMaker(options, folder)
    observation, _ = maker.task.reset(numbers=[0])
    for _ in range(3):
        maker.task.step(maker.policy.get_action(observation))
    figures = [private()]
    for unit in range(2):
        during = []
        maker.make(unit, [unit], lambda steps: during.append(private()))
        assert len(during) == STEPS
        figures.append(max(during))
    assert len(list(folder.glob("*.mp4"))) == (4 if rig_cameras else 0)
    maker.close()
    return figures

print(json.dumps([measure(False), measure(True)]))
"""


def measure(folder, steps):
    """Return the memory of an env without and with two cameras of 320 x 240, in MB, in a process of its own."""
    done = subprocess.run([sys.executable, "-c", _MEASURE, folder, str(steps)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-2000:]
    return json.loads(done.stdout)


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_recording_two_cameras_takes_less_than_150_mb(tmp_path):
    measure(tmp_path, steps=5)  # compiles the kernels, which takes memory too
    without, (running, first, second) = measure(tmp_path, steps=140)  # more rows than are written together
    print(f"recording {second - running:.0f} MB, cameras and recording {second - max(without):.0f} MB")
    assert max(first, second) - running < 150  # beyond the env that runs and renders
    assert max(first, second) - max(without) < 150  # beyond the same recording without cameras
    assert second - first < 15  # nothing collects from episode to episode
