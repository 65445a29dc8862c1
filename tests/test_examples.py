"""Every example runs, prints what it promises and draws its figure."""

import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parent.parent / "examples"
RUNS = {
    "cameras": (("--width", "80"), "(2, 60, 80, 3) images by", "cameras.png"),
    "custom_sensor": ((), "reads", "thermometer.png"),
    "dataset_to_lerobot": (("--episodes", "1", "--envs", "1"), "LeRobot v3.0: 1 episodes", None),
    "drop_test": (("--envs", "3"), "env 0 of 3: measured (ground truth)", "drop.png"),
    "gpu_scene": (("--envs", "64", "--steps", "20", "--device", "cpu"), "env steps per second on cpu", None),
    "gymnasium_sb3": (("--steps", "256", "--episodes", "1"), "return after 256 steps", None),
    "imitate": (("--episodes", "2", "--epochs", "1", "--trials", "2"), "the clone picks up the object in", None),
    "pick": ((), "contact sheet", None),
    "record_replay": (("--steps", "20"), "reads the same bits at the last step: True", None),
    "rover": (("--envs", "2"), "nearest return", None),
    "training": (("--steps", "200", "--envs", "2"), "200 steps: mean return", None),
}
"""Example -> arguments besides --out, a text that it prints, and the figure that --out names."""
NOT_RUN = {"ros2_node": "tests/test_deploy.py tests what does not need ROS 2, which is not installed"}
"""Example -> why it is not run."""
NO_OUT = ("gpu_scene", "gymnasium_sb3")
SLOW = ("imitate", "pick", "dataset_to_lerobot", "training", "rover", "gymnasium_sb3")


def test_every_example_is_run():
    assert {path.stem for path in EXAMPLES.glob("*.py")} == RUNS.keys() | NOT_RUN.keys()


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.slow) if name in SLOW else name for name in RUNS]
)
def test_example_runs(name, tmp_path):
    arguments, text, figure = RUNS[name]
    out = tmp_path / "sub" / (figure or name)
    command = [sys.executable, EXAMPLES / f"{name}.py", *arguments, *(() if name in NO_OUT else ("--out", out))]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert text in done.stdout
    if figure:
        assert out.read_bytes().startswith(b"\x89PNG")
        assert out.stat().st_size > 5_000


@pytest.mark.slow
def test_example_of_the_drop_test_prints_a_table(tmp_path):
    command = [sys.executable, EXAMPLES / "drop_test.py", "--envs", "2", "--out", tmp_path / "drop.png"]
    lines = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
    rows = [line.split("│") for line in lines if line.startswith("│")]
    assert len(rows) == 12
    heights = [float(row[4].split("(")[1].strip(" )")) for row in rows]
    assert heights[0] > 0.7
    assert heights[-1] < 0.2  # it has fallen


@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*.py")), ids=lambda path: path.stem)
def test_examples_are_short(path):
    text = path.read_text()
    assert len(text.splitlines()) <= (60 if path.stem == "ros2_node" else 80)
    assert text.count("class Options") == 1
