"""Damaged files: every kind of file that Sensorium reads, with flipped bits, cut, and with values of other types.

``script/fuzz --files`` reads many of each kind, tests/test_fuzz_files.py a seeded sample.
"""

import csv
import json
import random
import re
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import fuzz_calls
import h5py
import numpy as np
import torch
import yaml
from conftest import ARM
from gymnasium import spaces
from PIL import Image
from test_recording import box_scene
from test_urdf_lenient import painted, text_stl

import sensorium as sn
from sensorium.deploy import onnx_file
from sensorium.deploy.contract import METADATA
from sensorium.json_files import json_with_checksum, parse_json
from sensorium.worlds.urdf import read_urdf

WALK = Path(__file__).parent / "data" / "walk"
IMAGES = ("rgb", "depth")
CONTRACT = WALK.parent / "balance_contract.json"
OTHER_VALUES = (None, True, -1, 0, 10**18, 0.5, 1e308, "", "x", "../x", "no\0name", [], {}, [None], [[]], {"a": None})
"""Values that replace one value of a JSON or YAML file."""
OTHER_WORDS = (b"", b"x", b"#x", b"0", b"-1", b"1e308", b"nan", b"9" * 30, b"1000000000000", b"4 -3000000000000")
"""Words that replace one word of an XML or STL file."""


@dataclass(frozen=True)
class FileKind:
    """A kind of file, or of a folder of files."""

    make: Callable[[Path], object]
    """Writes whole files into an empty folder."""
    read: Callable[[Path], object]
    """Reads everything in the folder."""
    damaged: str = "*"
    """Pattern of the files that are damaged."""


def make_recording(folder: Path) -> None:
    with sn.recording.Recorder(box_scene(), folder / "a", metadata={"who": "me"}) as recorder:
        recorder.record(4)


def read_recording(folder: Path) -> None:
    sn.recording.check(folder / "a")
    recording = sn.recording.Recording(folder / "a")
    for step in recording:
        assert step
    scene = recording.load_scene()
    scene.build(n_envs=recording.n_envs)
    with closing(scene):
        recording.seek(scene, 2)


def make_replay(folder: Path) -> None:
    scene = sn.Scene()
    scene.add_object(sn.Box(size=(0.2, 0.2, 0.2), mass=1.0), name="box", free=True)
    scene.add_sensor(sn.Camera(uuid="a", pos=(2, 0, 1), lookat=(0, 0, 0), resolution=(16, 12), outputs=IMAGES))
    scene.build()
    with sn.recording.Recorder(scene, folder / "a") as recorder:
        recorder.record(3)
    sn.recording.replay(folder / "a", folder / "b", sn.recording.ReplayOptions(images=IMAGES))
    shutil.rmtree(folder / "a")


def read_replay(folder: Path) -> None:
    sn.recording.check(folder / "b")
    replayed = sn.recording.Recording(folder / "b")
    for number in range(len(replayed)):
        replayed.read_rgb("a", number)
        replayed.read_depth("a", number)


def make_dataset(folder: Path) -> None:
    options = sn.generation.GenerateOptions(
        task="balance", policy="random", episodes=2, envs=2, options={"max_steps": 4}
    )
    sn.generation.generate(options, folder / "a")


def make_image_dataset(folder: Path) -> None:
    camera = {"name": "front", "resolution": (32, 32), "depth": True}
    options = {"max_steps": 3, "cameras": [camera]}
    task = {"task": "pick", "policy": "random", "options": options}
    sn.generation.generate(sn.generation.GenerateOptions(**task, episodes=1, envs=1, keep_failed=True), folder / "a")


def read_dataset(folder: Path) -> None:
    sn.datasets.validate(folder / "a")
    data = sn.datasets.Dataset(folder / "a")
    for episode in data:
        for path in episode.paths():
            episode[path]
        for name in episode.cameras:
            episode.video(name)
    sn.datasets.TorchDataset(folder / "a")[0]


def make_memory(folder: Path) -> None:
    memory = sn.entities.Memory(spaces.Dict({"imu": spaces.Box(-1, 1, (3,))}), spaces.Box(-1, 1, (2,)), 16, 2)
    zeros, flags = {"imu": np.zeros((2, 3))}, np.zeros(2, bool)
    memory.add(zeros, np.zeros((2, 2)), np.zeros(2), zeros, flags, flags)
    memory.save(folder / "a")


def make_cluster_buffer(folder: Path) -> None:
    options = sn.entities.ClusterOptions(capacity=16, clusters=2, warmup=4)
    buffer = sn.entities.VectorizedClusterBuffer(*SPACES, options)
    observation, flags = {"imu": np.arange(18.0).reshape(6, 3) ** 2}, np.zeros(6, bool)
    buffer.add(observation, np.zeros((6, 2)), np.zeros(6), observation, flags, flags)
    buffer.save(folder / "a")


SPACES = spaces.Dict({"imu": spaces.Box(-1, 1, (3,))}), spaces.Box(-1, 1, (2,))


def make_brain(folder: Path) -> None:
    sn.SACMLPBrain(*SPACES, hidden=(4,)).save(folder)


def make_weights(folder: Path) -> None:
    torch.save(torch.nn.Linear(9, 8).state_dict(), folder / "a.pt")


@cache
def pick_task() -> sn.tasks.Task:
    return sn.tasks.make("pick")


def read_weights(folder: Path) -> None:
    network = torch.nn.Linear(9, 8)
    sn.policies.make("checkpoint", pick_task(), module=network, keys=["qpos"], path=folder / "a.pt")


def make_walk(folder: Path) -> None:
    shutil.copytree(WALK, folder, dirs_exist_ok=True)


def contract_text() -> str:
    return json.dumps({**json.loads(CONTRACT.read_bytes()), "versions": {}, "hash": "0" * 64})


class Session:
    """A session of onnxruntime that is not used."""

    def run(self) -> None: ...


def make_onnx(folder: Path) -> None:
    """Write the contract of a policy into a small ONNX file."""
    from test_onnx_policy import FLOAT, save_linear

    save_linear(folder / "a.onnx", {"vector": ((4,), FLOAT)}, 2)
    network, _ = onnx_file.split((folder / "a.onnx").read_bytes())
    contract = sn.deploy.Contract.from_json(contract_text()).hashed(network)
    (folder / "a.onnx").write_bytes(onnx_file.join(network, {METADATA: contract.to_json()}))


def make_mcap(folder: Path) -> None:
    scene = box_scene()
    with sn.ros.McapRecorder(scene, folder / "a") as recorder:
        for _ in range(5):
            scene.step()
            recorder.step()
    recorder.files[0].rename(folder / "a.mcap")
    shutil.rmtree(folder / "a")


def columns() -> dict[str, np.ndarray]:
    return {"time": np.arange(20) * 0.01, "gyro": np.ones((20, 3)), "acc": np.ones((20, 3))}


def make_csv(folder: Path) -> None:
    with open(folder / "a.csv", "w", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(["time", "wx", "wy", "wz"])
        rows.writerows([[0.01 * number, 1, 2, 3] for number in range(20)])


def make_hdf5(folder: Path) -> None:
    with h5py.File(folder / "a.h5", "w") as file:
        for name, values in columns().items():
            file[f"imu/{name}"] = values


def make_map(folder: Path) -> None:
    sn.scenarios.OccupancyMap(np.zeros((6, 8), np.uint8), 0.1).save(folder)


def make_yaml(values: object) -> Callable[[Path], object]:
    return lambda folder: (folder / "a.yaml").write_text(yaml.safe_dump(values))


def make_model(folder: Path) -> None:
    (folder / "a.xml").write_text(ARM)


URDF = """<robot name="r"><link name="base"><inertial><mass value="1"/><inertia ixx="1" ixy="0" ixz="0" iyy="1" iyz="0"
izz="1"/></inertial><collision><geometry><box size="1 1 1"/></geometry></collision></link><link name="tip"><inertial>
<mass value="1"/><inertia ixx="1" ixy="0" ixz="0" iyy="1" iyz="0" izz="1"/></inertial></link><joint name="j"
type="revolute"><parent link="base"/><child link="tip"/><axis xyz="0 0 1"/><limit lower="-1" upper="1" effort="1"
velocity="1"/></joint></robot>"""
MESH = """<robot name="r"><link name="base"><inertial><mass value="1"/><inertia ixx="1" ixy="0" ixz="0" iyy="1" iyz="0"
izz="1"/></inertial><visual><geometry><mesh filename="a.{0}"/></geometry></visual><collision><geometry><mesh
filename="a.{0}"/></geometry></collision></link></robot>"""
TILES = '<tile_map tile_size="0.5"><tile kind="a" height="0.1"/><row>aa</row><row>aa</row></tile_map>'


def make_mesh(suffix: str, content: Callable[[], bytes]) -> Callable[[Path], object]:
    def make(folder: Path) -> None:
        (folder / "robot.urdf").write_text(MESH.format(suffix))
        (folder / f"a.{suffix}").write_bytes(content())
        Image.fromarray(np.full((4, 4, 3), 200, np.uint8)).save(folder / "photo.png")

    return make


def read_mesh(folder: Path) -> None:
    read_urdf(folder / "robot.urdf", strict=False).spec().compile()


def read_robot(name: str) -> Callable[[Path], object]:
    def read(folder: Path) -> None:
        scene = sn.Scene()
        scene.add_robot(folder / name, name="robot")
        scene.build()
        scene.close()

    return read


KINDS = {
    "recording": FileKind(make_recording, read_recording),
    "replay": FileKind(make_replay, read_replay),
    "replayed recording": FileKind(
        make_recording, lambda folder: sn.recording.replay(folder / "a", folder / "b", overwrite=True), "[cs]*.[jx]*"
    ),
    "exported dataset": FileKind(
        make_dataset, lambda folder: sn.datasets.export(folder / "a", "robomimic", folder / f"{time.time_ns()}.hdf5")
    ),
    "dataset": FileKind(make_dataset, read_dataset),
    "dataset with images": FileKind(make_image_dataset, read_dataset),
    "memory": FileKind(make_memory, lambda folder: sn.entities.Memory.load(folder / "a")),
    "cluster buffer": FileKind(
        make_cluster_buffer, lambda folder: sn.entities.VectorizedClusterBuffer.load(folder / "a")
    ),
    "brain": FileKind(make_brain, lambda folder: sn.SACMLPBrain.load(folder, *SPACES)),
    "weights": FileKind(make_weights, read_weights),
    "training": FileKind(make_walk, lambda folder: sn.training.PPOOptions.load(folder), "config.json"),
    "policy": FileKind(make_onnx, lambda folder: sn.deploy.read_contract(folder / "a.onnx")),
    "contract": FileKind(
        lambda folder: (folder / "a.json").write_text(contract_text()),
        lambda folder: sn.deploy.Policy(sn.deploy.Contract.from_json((folder / "a.json").read_bytes()), Session()),
    ),
    "mcap": FileKind(make_mcap, lambda folder: sn.logs.read(folder / "a.mcap")),
    "csv log": FileKind(make_csv, lambda folder: sn.fit.as_log(folder / "a.csv")),
    "hdf5 log": FileKind(make_hdf5, lambda folder: sn.fit.as_log(folder / "a.h5", group="imu")),
    "npz log": FileKind(
        lambda folder: np.savez(folder / "a.npz", **columns()), lambda folder: sn.fit.as_log(folder / "a.npz")
    ),
    "map": FileKind(make_map, lambda folder: sn.scenarios.OccupancyMap.load(folder)),
    "rig": FileKind(
        make_yaml({"sensors": [{"name": "imu", "type": "IMU", "mount": {"pos": [0, 0, 1]}, "options": {"rate": 50}}]}),
        lambda folder: sn.robots.SensorRig.load(folder / "a.yaml"),
    ),
    "preset": FileKind(
        make_yaml({"sensors": [{"name": "imu", "type": "IMU", "options": {"acc": {"noise": 0.1}}}], "provenance": {}}),
        lambda folder: sn.presets.load(folder / "a.yaml", link="a"),
    ),
    "sensors": FileKind(
        make_yaml([{"type": "Camera", "uuid": "top", "pos": [0, 0, 6], "lookat": [0, 0.1, 0], "resolution": [64, 48]}]),
        lambda folder: sn.recording.load_sensors(folder / "a.yaml"),
    ),
    "task cameras": FileKind(
        make_yaml({"cameras": [{"name": "top", "pos": [0, 0, 2], "lookat": [0, 0.1, 0], "resolution": [64, 48]}]}),
        lambda folder: sn.tasks.load_cameras(folder / "a.yaml"),
    ),
    "entity": FileKind(
        make_yaml({"robot": "balancer", "rate": 50, "sensors": [{"IMU": {"link": "torso"}}], "memory": 100}),
        lambda folder: sn.TrainableEntity.from_yaml(folder / "a.yaml"),
    ),
    "camera profile": FileKind(
        lambda folder: sn.CameraProfile.named(sn.CameraProfile.names()[0]).save(folder / "a.json"),
        lambda folder: sn.CameraProfile.load(folder / "a.json"),
    ),
    "MJCF model": FileKind(make_model, read_robot("a.xml")),
    "URDF model": FileKind(lambda folder: (folder / "a.urdf").write_text(URDF), read_robot("a.urdf")),
    "COLLADA mesh": FileKind(make_mesh("dae", painted), read_mesh, "[ap]*.[dp]*"),
    "STL mesh": FileKind(make_mesh("stl", text_stl), read_mesh, "a.stl"),
    "tile map": FileKind(
        lambda folder: (folder / "a.xml").write_text(TILES), lambda folder: sn.TileMap.from_xml(folder / "a.xml")
    ),
}
"""Name -> kind of file."""


@cache
def whole(name: str) -> Path:
    """Return a folder with whole files of a kind, which can be read."""
    folder = Path(tempfile.mkdtemp(prefix="fuzz_files_"))
    with fuzz_calls.quiet():
        KINDS[name].make(folder)
        KINDS[name].read(folder)
    return folder


def files_of(name: str) -> list[Path]:
    """Return the files of a kind that are damaged, relative to its folder."""
    folder = whole(name)
    return sorted(path.relative_to(folder) for path in folder.rglob(KINDS[name].damaged) if path.is_file())


def damage(data: bytes, suffix: str, rng: random.Random) -> tuple[bytes, str]:
    """Return damaged content of a file, and what was done to it."""
    ways = ["flip", "flip", "cut", "zeros", "repeat"]
    if suffix in (".json", ".yaml", ".jsonl"):
        ways += ["value"] * 5
    if suffix in (".xml", ".urdf", ".dae", ".stl"):
        ways += ["word"] * 5
    way = rng.choice(ways)
    place = rng.randrange(len(data)) if data else 0
    if way == "value":
        try:
            return change_value(data, suffix, rng)
        except (ValueError, IndexError):
            way = "flip"
    if way == "word":
        found = rng.choice(list(re.finditer(rb"[-+\w.#]+", data)))
        word = rng.choice(OTHER_WORDS)
        return data[: found.start()] + word + data[found.end() :], f"{found[0]!r} at {found.start()} = {word!r}"
    if way == "flip" and data:
        bit = rng.randrange(8)
        return data[:place] + bytes([data[place] ^ 1 << bit]) + data[place + 1 :], f"bit {bit} of byte {place}"
    if way == "zeros":
        return data[:place] + bytes(len(data[place : place + 16])) + data[place + 16 :], f"zeros at {place}"
    if way == "repeat":
        return data[:place] + data[max(0, place - 16) :], f"repeated before {place}"
    return data[:place], f"cut at {place}"


def change_value(data: bytes, suffix: str, rng: random.Random) -> tuple[bytes, str]:
    """Return a JSON or YAML file with one value replaced or removed, and a checksum that is right."""
    lines = data.splitlines() if suffix == ".jsonl" else [data]
    number = rng.randrange(len(lines))
    checksum = False
    if suffix == ".yaml":
        content = yaml.safe_load(lines[number])
    else:
        content = json.loads(lines[number])
        checksum = isinstance(content, dict) and parse_json(lines[number])[1]
    places = list(_places(content))
    holder, key, path = rng.choice(places)
    if rng.random() < 0.2:
        del holder[key]
        text = f"without {path}"
    else:
        value = rng.choice(OTHER_VALUES)
        holder[key] = value
        text = f"{path} = {value!r}"
    if suffix == ".yaml":
        return yaml.safe_dump(content).encode(), text
    lines[number] = json_with_checksum(content) if checksum else json.dumps(content).encode()
    return b"\n".join(lines), text


def _places(content: object, path: str = "") -> Iterator[tuple[dict | list, object, str]]:
    """Yield every value of a document as its container, its key and its path."""
    keys = list(content) if isinstance(content, dict) else range(len(content)) if isinstance(content, list) else ()
    for key in keys:
        yield content, key, f"{path}/{key}"
        yield from _places(content[key], f"{path}/{key}")


def read_damaged(name: str, seed: int) -> tuple[str, str | None]:
    """Damage one file of a kind and read it.

    Returns:
        What was damaged, and why the outcome is not allowed; None if it is.
    """
    rng = random.Random(f"{name}/{seed}")
    file = rng.choice(files_of(name))
    with tempfile.TemporaryDirectory() as parent:
        folder = Path(shutil.copytree(whole(name), Path(parent) / "copy"))
        data, what = damage((folder / file).read_bytes(), file.suffix, rng)
        (folder / file).write_bytes(data)
        return f"{name} {seed}: {file}, {what}", fuzz_calls.outcome(lambda: KINDS[name].read(folder))
