"""A full disk or a limit of the file size is an error that says so, and neither a crash nor leftovers."""

import subprocess
import sys
from pathlib import Path

import pytest
from test_recording import ENVIRONMENT

from sensorium.generation import GenerateOptions, generate

WRITERS = """
import resource, sys
from pathlib import Path
import numpy as np
from sensorium.datasets.episode_file import EpisodeFile, Skeleton
from sensorium.datasets.row_buffer import ROWS
from sensorium.errors import DatasetError
from sensorium.files import DiskFullError
from sensorium.hdf5_files import Hdf5File
from sensorium.recording import image_writer
from sensorium.recording.chunk import ChunkWriter
from sensorium.recording.image_files import image_header
from sensorium.recording.rows import Row, RowField

folder, rng = Path(sys.argv[2]), np.random.default_rng(0)
_, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
skeleton = Skeleton()
for i in range(20):
    skeleton.declare(f"obs/x{i}", (7,), np.dtype(np.float32), (7,))
row = Row([RowField(f"x{i}", "float64", (8,)) for i in range(30)])
header = image_header("depth", "float32", (24, 32), 10.0)

def episode():
    file = EpisodeFile(folder / "episode_000000.h5", 0, skeleton)
    try:
        file.add_text("scene", "y" * 3000)
        for block in range(3):
            for i in range(20):
                file.extend(f"obs/x{i}", block * ROWS, rng.normal(size=(ROWS, 7)).astype(np.float32), ROWS)
        file.close()
    finally:
        file.drop()

def images():
    image_writer.finish(folder / "00000000.h5", header, 20)

def chunk():
    writer = ChunkWriter(folder, row, 0, 40)
    for _ in range(25):
        writer.write(rng.integers(0, 255, row.n_bytes).astype(np.uint8), [])
    writer.close()

def plain():
    with Hdf5File(folder / "plain.h5") as file:
        for i in range(30):
            file.create_dataset(f"a/x{i}", data=rng.normal(size=1000), compression="gzip")
            file.check()

if sys.argv[1] == "images":
    writer = image_writer.image_writer(folder / "00000000.h5", header)
    for _ in range(20):
        writer.write(rng.normal(size=(24, 32)).astype(np.float32), True)
    writer.close()
full = whole = 0
for limit in range(0, 400_000, 8000):
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, hard))
    try:
        globals()[sys.argv[1]]()
        whole += 1
    except DiskFullError:
        full += 1
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))
assert full and whole, (full, whole)
"""


@pytest.mark.parametrize(
    "writer", ["episode", *(pytest.param(each, marks=pytest.mark.slow) for each in ("images", "chunk", "plain"))]
)
def test_hdf5_writers_raise_and_do_not_crash(tmp_path, writer):
    command = [sys.executable, "-c", WRITERS, writer, str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, env=ENVIRONMENT)
    assert done.returncode == 0, done.stderr[-2000:]


@pytest.fixture
def small_disk(tmp_path):
    disk = tmp_path / "disk"
    disk.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=200k", "tmpfs", disk], capture_output=True)
    if mounted.returncode:
        pytest.skip("mounting a small disk needs root")
    yield disk
    subprocess.run(["umount", disk], check=True)


SAVE_MEMORY = """
import os, sys
from pathlib import Path
import numpy as np
from gymnasium import spaces
import sensorium as sn

disk = Path(sys.argv[1])
memory = sn.entities.Memory(spaces.Dict({"imu": spaces.Box(-1, 1, (300,))}), spaces.Box(-1, 1, (2,)), 512, 2)
zeros, flags = {"imu": np.zeros((2, 300))}, np.zeros(2, bool)

def add():
    memory.add(zeros, np.zeros((2, 2)), np.zeros(2), zeros, flags, flags)

add()
memory.save(disk / "a")
for _ in range(200):
    add()
try:
    memory.save(disk / "a")
except sn.DatasetError as error:
    assert "No space left on device" in str(error)
else:
    raise AssertionError
assert os.listdir(disk) == ["a"]
assert len(sn.entities.Memory.load(disk / "a")) == 2
"""


def test_a_memory_on_a_full_disk_raises_and_keeps_the_old_save(small_disk):
    command = [sys.executable, "-c", SAVE_MEMORY, str(small_disk)]
    done = subprocess.run(command, capture_output=True, text=True, env=ENVIRONMENT)
    assert done.returncode == 0, done.stderr[-2000:]


@pytest.mark.slow
@pytest.mark.parametrize(("algorithm", "steps"), [("sac", 16), ("ppo", 512)])
def test_training_on_a_full_disk_says_so(tmp_path, algorithm, steps):
    pytest.importorskip("rsl_rl" if algorithm == "ppo" else "stable_baselines3")
    words = ["train", "balance", "--algorithm", algorithm, "--steps", steps, "--envs", "2", "--episodes", "1"]
    limit = 20_000  # less than a checkpoint, more than the pictures and the logs
    done = run(limit, *words, "--evaluate-every", "100000", "--no-tensorboard", "--out", tmp_path / "run")
    assert done.returncode == 1, done.stderr
    assert "File too large" in done.stderr
    assert "Traceback" not in done.stderr
    assert not [path for path in tmp_path.rglob("*") if path.name.startswith(".") or ".part" in path.name]


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    folder = tmp_path_factory.mktemp("full") / "data"
    options = {"max_steps": 150, "fall": 3, "range": 50}
    generate(GenerateOptions(task="balance", policy="random", episodes=4, envs=2, options=options), folder)
    return folder


LIMITED = """
import resource, sys
from sensorium.cli import main
if sys.argv[1] != "0":
    resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[1]), int(sys.argv[1])))
sys.exit(main(sys.argv[2:]))
"""


def run(limit, *words):
    command = [sys.executable, "-c", LIMITED, str(limit), *map(str, words)]
    return subprocess.run(command, capture_output=True, text=True, env=ENVIRONMENT, cwd=Path(__file__).parent)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("format", "package"), [("robomimic", "h5py"), ("minari", "minari"), ("lerobot", "pyarrow"), ("mcap", "mcap")]
)
def test_exports_to_a_full_disk_fail_and_leave_nothing(data, small_disk, tmp_path, format, package):
    pytest.importorskip(package)
    done = run(0, "export", data, "--format", format, "--out", small_disk / "out")
    assert done.returncode == 1, done.stderr
    assert "No space left on device" in done.stderr
    assert "Traceback" not in done.stderr
    assert list(small_disk.iterdir()) == []
    done = run(30_000, "export", data, "--format", format, "--out", tmp_path / "out")
    assert done.returncode == 1, done.stderr
    assert "File too large" in done.stderr
    assert "Traceback" not in done.stderr
    assert sorted(path.name for path in tmp_path.iterdir()) == ["disk"]


@pytest.mark.slow
def test_generate_on_a_full_disk_keeps_what_is_complete(small_disk):
    words = ["generate", "balance", "--policy", "random", "--episodes", "40", "--envs", "2", "--option"]
    done = run(0, *words, "max_steps=150", "fall=3", "range=50", "--out", small_disk / "data")
    assert done.returncode == 1, done.stderr
    assert "No space left on device" in done.stderr
    assert "Traceback" not in done.stderr
    assert not list((small_disk / "data").glob("*.part"))
