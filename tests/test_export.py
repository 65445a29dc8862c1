"""Exports hold every number and frame of the episodes, and the loaders of other projects read them.

One long file, because the tests share a dataset and its exports, which take time to make.
"""

import json
import shutil
import sys
from fractions import Fraction
from pathlib import Path

import h5py
import numpy as np
import pytest
from damage import list_files

import sensorium as sn
from sensorium.cli import main
from sensorium.datasets.image_formats import VIDEO_FORMATS, ImageEncoding
from sensorium.datasets.video_streams import VideoStream, read_video
from sensorium.errors import DatasetError, OptionError

QUANTILES = {"q01": 0.01, "q10": 0.1, "q50": 0.5, "q90": 0.9, "q99": 0.99}
FPS = Fraction(50)
SIZE = (48, 64)


def picture(kind: str, step: int, number: int = 0) -> np.ndarray:
    """Return an image that identifies its step: an edge that moves over a gradient."""
    height, width = SIZE
    rows, columns = np.mgrid[:height, :width]
    if kind == "depth":
        return np.where(columns < step % width, np.inf, 0.5 + 0.01 * rows + 0.001 * step).astype(np.float32)
    if kind == "segmentation":
        return np.stack([np.full(SIZE, step % 50), columns - 1], axis=-1).astype(np.int32)
    image = np.stack([rows * 4, columns * 3, np.full(SIZE, 40 + 60 * number)], axis=-1)
    image[:, : abs((3 * step) % (2 * width) - width)] += 40
    return np.minimum(image, 255).astype(np.uint8)


def encode(path: Path, images: list[np.ndarray], kind: str = "rgb") -> Path:
    stream = VideoStream(path, ImageEncoding.of_kind(kind, *images[0].shape[:2]), FPS)
    for image in images:
        stream.write(image)
    stream.close(path.parent)
    return path


def add_camera(path: Path, name: str, kinds: tuple[str, ...]) -> None:
    """Add a camera to an episode as the writer would; rendering would take a minute."""
    number = int(path.stem.removeprefix("episode_"))
    with h5py.File(path, "r+") as file:
        group = file[f"traj_{number}"]
        suite, length = json.loads(group["suite"][()]), len(group["rewards"])
        for kind in kinds:
            uuid = name if kind == "rgb" else f"{name}_{kind}"
            images = [picture(kind, step, number) for step in range(length + 1)]
            video = encode(path.with_name(f"{path.stem}_{uuid}{VIDEO_FORMATS[kind].suffix}"), images, kind)
            group[f"obs/sensor_data/{uuid}"] = video.name
            space = f"Box of {images[0].shape}"
            suite[uuid] = {"at": f"obs/sensor_data/{uuid}", "space": space, "text": False, "owner": "task"}
        suite[f"sensor_param_{name}"] = {"at": f"obs/sensor_param/{name}", "space": "", "text": False, "owner": "task"}
        turn = np.array([[0, -1, 0, 1.5], [1, 0, 0, 0.2], [0, 0, 1, 1.1], [0, 0, 0, 1]], np.float32)
        lens = np.array([[60, 0, 32], [0, 61, 24], [0, 0, 1]], np.float32)
        for leaf, value in (("cam2world_gl", turn), ("extrinsic_cv", turn[:3]), ("intrinsic_cv", lens)):
            group[f"obs/sensor_param/{name}/{leaf}"] = np.tile(value, (length + 1, 1, 1))
        del group["suite"]
        group["suite"] = json.dumps(suite)


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """A valid dataset of two episodes, with a camera of every image kind."""
    from sensorium.generation import GenerateOptions, generate

    folder = tmp_path_factory.mktemp("export") / "pick"
    generate(GenerateOptions(task="pick", robot="franka", policy="planner", episodes=2, envs=2, seed=3), folder)
    for path in sorted(folder.glob("*.h5")):
        add_camera(path, "front", ("rgb", "depth", "segmentation"))
    list_files(folder)  # the manifest lists the files without cameras
    assert sn.datasets.validate(folder).valid
    return sn.datasets.open(folder)


@pytest.fixture(scope="module")
def exported(data, tmp_path_factory):
    """Exports of the dataset, each made once: ``exported("lerobot")``."""
    folder, made = tmp_path_factory.mktemp("exported"), {}

    def get(name: str) -> Path:
        if name not in made:
            made[name] = sn.datasets.export(data, name, folder / name)
        return made[name]

    return get


def everything(data) -> set[str]:
    """Paths of arrays and uuids of texts, images and sensors without data: all that an export must account for."""
    episode = data[0]
    texts = {uuid for uuid, entry in episode.suite.items() if entry["text"]}
    arrays = set(episode.paths()) - {episode.suite[uuid]["at"] for uuid in texts}
    empty = {"object_image_points"}  # the task had no camera for it
    return arrays | texts | empty | set(episode.cameras)


def key_frames(path: Path, length: int) -> np.ndarray:
    """Return the key frames among the first frames of a video."""
    import av

    with av.open(str(path)) as file:
        return np.stack([f.to_ndarray(format="rgb24") for f in list(file.decode(video=0))[:length] if f.key_frame])


# -- LeRobot ----------------------------------------------------------------------------------------------------------


def as_array(column, shape) -> np.ndarray:
    return np.array(column.to_pylist()).reshape(-1, *shape)


def test_lerobot_has_every_number_of_every_step(data, exported):
    pq = pytest.importorskip("pyarrow.parquet")
    folder = exported("lerobot")
    table = pq.read_table(folder / "data" / "chunk-000" / "file-000.parquet")
    info = json.loads((folder / "meta" / "info.json").read_text())
    notes = json.loads((folder / "meta" / "sensorium.json").read_text())
    lengths = [episode.length for episode in data]
    assert info["codebase_version"] == "v3.0"
    assert (info["total_episodes"], info["total_frames"], info["fps"]) == (2, sum(lengths), 50)
    assert info["splits"] == {"train": "0:2"}
    assert table.num_rows == sum(lengths)
    videos = {"observation.images.front", "observation.images.front_depth"}
    assert set(table.column_names) | videos == set(info["features"])
    assert not any("/" in name for name in info["features"])

    def of_all(path: str) -> np.ndarray:
        return np.concatenate([episode[path][: episode.length] for episode in data])

    for path, kept in notes["kept"].items():
        if path in ("front", "front_depth") or "form" in kept:
            continue
        feature = info["features"][kept["name"]]
        rows = as_array(table[kept["name"]], feature["shape"])
        assert np.array_equal(rows, of_all(path).reshape(rows.shape)), path
        observed = kept["name"].startswith("observation.")
        assert feature["dtype"] == ("float32" if observed else of_all(path).dtype.name)
    for uuid in ("task_info", "actions/joint_pos"):
        readings = [json.loads(text) for text in table[notes["kept"][uuid]["name"]].to_pylist()]
        assert readings == [each for episode in data for each in episode.text(uuid)[:-1]]
    assert table["index"].to_pylist() == list(range(sum(lengths)))
    assert table["episode_index"].to_pylist() == [n for n, length in enumerate(lengths) for _ in range(length)]
    frames = [step for length in lengths for step in range(length)]
    assert table["frame_index"].to_pylist() == frames
    assert np.array_equal(as_array(table["timestamp"], ()), np.float32(np.array(frames) / 50))
    done = np.flatnonzero(as_array(table["next.done"], ()))
    assert done.tolist() == (np.cumsum(lengths) - 1).tolist()
    assert info["features"]["observation.state"]["names"][:2] == ["arm.joint1", "arm.joint2"]
    assert info["features"]["observation.state"]["unit"] == "rad or m"
    assert info["features"]["action"]["names"][-1] == "gripper.opening"


SENSED = {"qpos", "qvel", "tcp_pose"}
"""What the robot of the dataset could sense, besides its camera."""


def test_only_what_a_robot_senses_is_an_observation(data, exported):
    pytest.importorskip("pyarrow")
    features = json.loads((exported("lerobot") / "meta" / "info.json").read_text())["features"]
    observed = {name for name in features if name.startswith("observation")}
    assert observed == {
        "observation.state",
        "observation.qvel",
        "observation.tcp_pose",
        "observation.images.front",
        "observation.images.front_depth",
    }
    assert {"privileged.env_states.actors.robot", "privileged.object_poses.pickup_obj"} <= set(features)
    assert features["privileged.grasp_state_pickup_obj.gripper.held"]["dtype"] == "bool"
    assert {"info.sensor_param_front.intrinsic_cv", "info.policy_num_retries"} <= set(features)
    with h5py.File(exported("robomimic") / "demos.hdf5") as file:
        demo = file["data/demo_0"]
        assert set(demo["obs"]) == SENSED | {"front_image", "front_depth"}
        assert {"env_states.actors.robot", "obj_end_pose"} <= set(demo["privileged"])
        assert {"front_segmentation", "policy_num_retries", "success"} <= set(demo["info"])


def test_lerobot_features_are_what_its_normaliser_accepts(exported):
    """LeRobot 0.4 to 0.6 casts the statistics to the dtype of a feature, subtracts, and divides."""
    torch = pytest.importorskip("torch")
    pq = pytest.importorskip("pyarrow.parquet")
    folder = exported("lerobot")
    table = pq.read_table(folder / "data" / "chunk-000" / "file-000.parquet")
    features = json.loads((folder / "meta" / "info.json").read_text())["features"]
    stats = json.loads((folder / "meta" / "stats.json").read_text())
    for name, feature in features.items():
        if not name.startswith(("observation", "action")) or feature["dtype"] == "video":
            continue
        rows = as_array(table[name], feature["shape"])
        values = torch.as_tensor(rows.astype(feature["dtype"]))
        low, high, mean, std = (
            torch.as_tensor(np.asarray(stats[name][key])).to(values.dtype) for key in ("min", "max", "mean", "std")
        )
        scaled = 2 * (values - low) / torch.where(high == low, torch.tensor(1e-8, dtype=values.dtype), high - low) - 1
        assert scaled.min() >= -1.001, name
        assert scaled.max() <= 1.001, name
        normal = (values - mean) / (std + 1e-8)
        assert torch.isfinite(normal).all(), name
        assert (normal.mean(0).abs() < 0.01).all() or (std < 1e-4).any(), name


def test_lerobot_depth_is_lossless_12_bit_hevc(data, exported):
    """Decoded with PyAV and compared with the quantisation of LeRobot 0.6 (depth_utils.py), written out here."""
    av = pytest.importorskip("av")
    pytest.importorskip("pyarrow")
    folder = exported("lerobot")
    feature = json.loads((folder / "meta" / "info.json").read_text())["features"]["observation.images.front_depth"]
    info = feature["info"]
    assert (info["is_depth_map"], info["depth_unit"], info["video.use_log"]) == (True, "m", True)
    assert feature["shape"] == [*SIZE, 1]
    with av.open(str(folder / "videos/observation.images.front_depth/chunk-000/file-000.mp4")) as file:
        stream = file.streams.video[0]
        assert (stream.codec_context.name, stream.pix_fmt) == ("hevc", "gray12le")
        frames = list(file.decode(stream))
    assert [round(float(frame.time) * 50) for frame in frames] == list(range(len(frames)))
    codes = np.stack([frame.to_ndarray(format="gray12le") for frame in frames])
    depth = np.concatenate([episode.video("front_depth")[:-1] for episode in data]).astype(np.float64)
    shift, nearest, farthest = info["video.shift"], info["video.depth_min"], info["video.depth_max"]
    low, high = np.log(nearest + shift), np.log(farthest + shift)
    expected = np.rint((np.log(np.minimum(depth, farthest) + shift) - low) / (high - low) * 4095)
    assert codes.shape == depth.shape
    assert np.array_equal(codes, expected)
    read = np.exp(codes / 4095 * (high - low) + low) - shift
    hit = np.isfinite(depth)
    assert (~hit).any()
    assert np.abs(read - depth)[hit].max() < 0.5 * (high - low) / 4095 * (depth[hit].max() + shift) * 1.01
    stats = json.loads((folder / "meta" / "stats.json").read_text())["observation.images.front_depth"]
    assert np.ravel(stats["mean"])[0] == pytest.approx(read.mean(), abs=1e-6)
    assert np.shape(stats["max"]) == (1, 1, 1)


def test_patterns_select_what_is_exported(data, tmp_path, capsys):
    out = sn.datasets.export(
        data, "robomimic", tmp_path / "a", include=["observation.*", "env_states"], exclude=["front*"]
    )
    with h5py.File(out / "demos.hdf5") as file:
        demo = file["data/demo_0"]
        assert set(demo["obs"]) == SENSED
        assert all(name.startswith("env_states.") for name in demo["privileged"])
        assert set(demo["info"]) == {"success", "fail", "terminated", "truncated"}
    notes = json.loads((out / "sensorium.json").read_text())
    assert notes["left_out"]["obs/extra/obj_end_pose"] == "it was not selected"
    with pytest.raises(OptionError, match=r"the pattern 'tpc_pose' matches nothing in the dataset \(did you mean"):
        sn.datasets.export(data, "robomimic", tmp_path / "b", include=["tpc_pose"])
    with pytest.raises(OptionError, match=r"write include=\['qpos'\]"):
        sn.datasets.export(data, "robomimic", tmp_path / "b", include="qpos")
    arguments = ["export", str(data.folder), "--format", "robomimic", "--out", str(tmp_path / "c")]
    assert main([*arguments, "--exclude", "privileged.*", "info.*", "front*"]) == 0
    with h5py.File(tmp_path / "c" / "demos.hdf5") as file:
        assert "privileged" not in file["data/demo_0"]
        assert set(file["data/demo_0/info"]) == {"success", "fail", "terminated", "truncated"}  # no texts
    capsys.readouterr()


def test_pose_of_a_driving_base_is_privileged(data, tmp_path):
    folder = tmp_path / "moved"
    shutil.copytree(data.folder, folder)
    for path in folder.glob("*.h5"):
        with h5py.File(path, "r+") as file:
            (group,) = file.values()
            scene = json.loads(group["obs_scene"][()])
            scene["group_kinds"] = {"arm": "arm", "gripper": "base"}
            del group["obs_scene"]
            group["obs_scene"] = json.dumps(scene)
    list_files(folder)
    moved = sn.datasets.Dataset(folder)
    out = sn.datasets.export(moved, "robomimic", tmp_path / "out", images=False)
    with h5py.File(out / "demos.hdf5") as file:
        demo, stored = file["data/demo_0"], moved[0]["obs/agent/qpos"][:-1]
        assert np.array_equal(demo["obs/qpos"], stored[:, :7])
        assert np.array_equal(demo["privileged/qpos.gripper"], stored[:, 7:])


def test_lerobot_statistics_and_locations(data, exported):
    pq = pytest.importorskip("pyarrow.parquet")
    folder = exported("lerobot")
    stats = json.loads((folder / "meta" / "stats.json").read_text())
    info = json.loads((folder / "meta" / "info.json").read_text())
    notes = json.loads((folder / "meta" / "sensorium.json").read_text())["kept"]
    episodes = pq.read_table(folder / "meta" / "episodes" / "chunk-000" / "file-000.parquet").to_pylist()
    assert set(stats) == {name for name, feature in info["features"].items() if feature["dtype"] != "string"}
    for path in ("obs/agent/qpos", "actions/action", "env_states/actors/robot", "obs/sensor_param/front/intrinsic_cv"):
        name = notes[path]["name"]
        each = [episode[path][: episode.length].astype(np.float64) for episode in data]
        stored = [
            {key.rpartition("/")[2]: row[key] for key in row if key.startswith(f"stats/{name}/")} for row in episodes
        ]
        for rows, found in ((np.concatenate(each), stats[name]), (each[0], stored[0]), (each[1], stored[1])):
            assert found["count"] == [len(rows)]
            np.testing.assert_allclose(found["mean"], rows.mean(0), atol=1e-9)
            np.testing.assert_allclose(found["std"], rows.std(0), atol=1e-9)
            assert np.array_equal(found["min"], rows.min(0))
            assert np.array_equal(found["max"], rows.max(0))
            for quantile, which in QUANTILES.items():
                np.testing.assert_allclose(found[quantile], np.quantile(rows, which, axis=0), atol=1e-9)
    keys = [key_frames(episode.video_path("front"), episode.length) / 255.0 for episode in data]
    seen = stats["observation.images.front"]
    assert seen["count"] == [sum(map(len, keys))]
    np.testing.assert_allclose(np.ravel(seen["mean"]), np.concatenate(keys).mean((0, 1, 2)), atol=1e-9)
    np.testing.assert_allclose(np.ravel(seen["std"]), np.concatenate(keys).std((0, 1, 2)), atol=1e-9)

    start = 0
    for number, (row, episode) in enumerate(zip(episodes, data, strict=True)):
        assert (row["episode_index"], row["length"]) == (number, episode.length)
        assert (row["dataset_from_index"], row["dataset_to_index"]) == (start, start + episode.length)
        assert row["tasks"] == [episode.scene["instruction"]]
        key = "videos/observation.images.front"
        seconds = (row[f"{key}/from_timestamp"], row[f"{key}/to_timestamp"])
        assert seconds == pytest.approx((start / 50, (start + episode.length) / 50))
        start += episode.length
    tasks = pq.read_table(folder / "meta" / "tasks.parquet").to_pydict()
    assert tasks["task"] == list(dict.fromkeys(episode.scene["instruction"] for episode in data))


def test_lerobot_video_frames_match_their_rows(data, exported):
    pytest.importorskip("pyarrow")
    frames = read_video(exported("lerobot") / "videos" / "observation.images.front" / "chunk-000" / "file-000.mp4")
    source = np.concatenate([episode.video("front")[:-1] for episode in data])
    assert frames.shape == source.shape
    error = np.abs(frames.astype(int) - source).mean(axis=(1, 2, 3))
    assert error.max() < 1.5  # one step off would be 1.9
    assert (error == 0).mean() > 0.8


@pytest.mark.filterwarnings("ignore")
def test_lerobot_loader_reads_the_export(data, exported, tmp_path, monkeypatch):
    pytest.importorskip("pyarrow")
    pytest.importorskip("lerobot")
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setenv("HF_HOME", str(tmp_path))
    torch = pytest.importorskip("torch")
    loader = pytest.importorskip("lerobot.datasets.lerobot_dataset")
    stats = pytest.importorskip("lerobot.datasets.compute_stats")
    ahead = {"action": [0.0, 0.02, 0.04]}
    read = loader.LeRobotDataset("sensorium/pick", root=exported("lerobot"), delta_timestamps=ahead)
    assert (read.num_episodes, read.num_frames, read.fps) == (2, sum(len(episode) for episode in data), 50)
    start = 0
    for episode in data:
        images = episode.video("front") / 255.0
        for step in (0, 30, episode.length - 1):
            item = read[start + step]
            assert torch.equal(item["observation.state"], torch.from_numpy(episode["obs/agent/qpos"][step]))
            assert torch.equal(item["action"][0], torch.from_numpy(episode["actions/action"][step]))
            assert (
                np.abs(item["observation.images.front"].permute(1, 2, 0).numpy() - images[step]).mean() < 0.006
            )  # one step off would be 0.0075
            assert item["task"] == episode.scene["instruction"]
            assert item["action_is_pad"].tolist() == [False] + [step == episode.length - 1] * 2
        start += episode.length
    known = {key: each for key, each in read.meta.stats.items() if not key.endswith("_depth")}  # 0.4 has colours only
    merged = stats.aggregate_stats([known, known])  # raises if a statistic has an unexpected shape
    np.testing.assert_allclose(merged["action"]["mean"], read.meta.stats["action"]["mean"])


# -- robomimic --------------------------------------------------------------------------------------------------------


def test_robomimic_has_every_number_and_image(data, exported):
    folder = exported("robomimic")
    notes = json.loads((folder / "sensorium.json").read_text())["kept"]
    with h5py.File(folder / "demos.hdf5") as file:
        assert file["data"].attrs["total"] == sum(len(episode) for episode in data)
        assert json.loads(file["data"].attrs["env_args"])["env_kwargs"]["robot"] == "franka"
        assert file["mask/train"][()].tolist() == [b"demo_0"]
        assert file["mask/valid"][()].tolist() == [b"demo_1"]
        actions = np.concatenate([episode["actions/action"] for episode in data])
        assert np.array_equal(file["data"].attrs["action_max"], actions.max(0))
        for number, episode in enumerate(data):
            demo, length = file[f"data/demo_{number}"], episode.length
            assert demo.attrs["num_samples"] == length
            assert np.array_equal(demo["actions"], episode["actions/action"])
            assert np.array_equal(demo["rewards"], episode["rewards"])
            assert demo["dones"][()].tolist() == [0] * (length - 1) + [1]
            for path, kept in notes.items():
                if path.startswith(("obs/", "env_states/")):
                    rows = episode[path].reshape(length + 1, -1)
                    assert np.array_equal(demo[kept["name"]], rows[:-1]), path
                    if kept["name"].startswith("obs/"):
                        assert np.array_equal(demo[f"next_{kept['name']}"], rows[1:]), path
            assert np.array_equal(demo["obs/front_image"], episode.video("front")[:-1])
            assert np.array_equal(demo["next_obs/front_image"], episode.video("front")[1:])
            depth = episode.video("front_depth")
            assert np.array_equal(demo["obs/front_depth"][..., 0], np.where(np.isinf(depth), 0, depth)[:-1])
            assert np.array_equal(demo["info/front_segmentation"], episode.video("front_segmentation")[:-1])
            bodies = sum(np.prod(shape) for shape in json.loads(file["data"].attrs["state_columns"]).values())
            assert demo["states"].shape == (length, bodies)
            assert [json.loads(text) for text in demo["info/task_info"]] == episode.text("task_info")[:-1]


@pytest.mark.filterwarnings("ignore")
def test_robomimic_loader_reads_the_export(data, exported):
    pytest.importorskip("robomimic")
    utils = pytest.importorskip("robomimic.utils.obs_utils")
    loader = pytest.importorskip("robomimic.utils.dataset")
    utils.initialize_obs_utils_with_obs_specs({"obs": {"low_dim": ["qpos", "tcp_pose"], "rgb": ["front_image"]}})
    read = loader.SequenceDataset(
        str(exported("robomimic") / "demos.hdf5"),
        obs_keys=["qpos", "tcp_pose", "front_image"],
        dataset_keys=["actions", "rewards", "dones"],
        seq_length=4,
        filter_by_attribute="valid",
    )
    episode = data[1]
    assert len(read) == episode.length
    item = read[7]
    assert np.array_equal(item["obs"]["qpos"], episode["obs/agent/qpos"][7:11])
    assert np.array_equal(item["next_obs"]["front_image"], episode.video("front")[8:12])
    assert np.array_equal(item["actions"], episode["actions/action"][7:11])


# -- Minari and Rerun -------------------------------------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore")
def test_minari_loads_the_export(data, exported, monkeypatch):
    minari = pytest.importorskip("minari")
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(exported("minari")))
    assert list(minari.list_local_datasets()) == ["sensorium/pick/franka-planner-v0"]
    read = minari.load_dataset("sensorium/pick/franka-planner-v0")
    assert (read.total_episodes, read.total_steps) == (2, sum(len(episode) for episode in data))
    notes = json.loads((exported("minari") / "sensorium.json").read_text())
    assert set(notes["left_out"]) == {"front_depth", "front_segmentation", "object_image_points"}
    for found, episode in zip(read.iterate_episodes(), data, strict=True):
        assert np.array_equal(found.actions, episode["actions/action"])
        assert np.array_equal(found.rewards, episode["rewards"])
        assert np.array_equal(found.terminations | found.truncations, episode["terminated"] | episode["truncated"])
        for path, kept in notes["kept"].items():
            if path.startswith(("obs/", "env_states/")):
                group, _, name = kept["name"].partition("/")
                assert np.array_equal(getattr(found, group)[name], episode[path])
        assert np.abs(found.observations["front"].astype(int) - episode.video("front")).mean() < 4
        assert [json.loads(text) for text in found.infos["task_info"]] == episode.text("task_info")
        assert found.infos["success"].tolist() == [False, *episode["success"].tolist()]
        first = {name: values[0] for name, values in found.observations.items()}
        assert read.observation_space.contains(first)


@pytest.mark.filterwarnings("ignore")
def test_rerun_reads_the_export(data, exported):
    pytest.importorskip("rerun")
    reader = pytest.importorskip("rerun.chunk")
    for episode in data:
        recording = reader.RrdReader(exported("rerun") / f"{episode.path.stem}.rrd")
        columns: dict[str, list] = {}
        for chunk in recording.stream():
            batch = chunk.to_record_batch()
            for name in batch.schema.names:
                columns.setdefault(f"{chunk.entity_path} {name}", []).extend(batch.column(name).to_pylist())
        assert np.array_equal(columns["/observation/qpos Scalars:scalars"], episode["obs/agent/qpos"])
        assert np.array_equal(columns["/action Scalars:scalars"], episode["actions/action"])
        assert columns["/action step"] == list(range(1, episode.length + 1))
        turned = np.array(columns["/world/robot_base/tcp_pose Transform3D:quaternion"])[:, 0]
        assert np.array_equal(turned[:, [3, 0, 1, 2]], episode["obs/extra/tcp_pose"][:, 3:])
        moved = np.array(columns["/world/actors/soda_can Transform3D:translation"])[:, 0]
        assert np.array_equal(moved, episode["env_states/actors/soda_can"][:, :3])
        pose = np.array(columns["/world/cameras/front Transform3D:mat3x3"])[0].reshape(3, 3).T
        assert np.array_equal(pose, episode["obs/sensor_param/front/cam2world_gl"][0, :3, :3])
        assert len(columns["/world/cameras/front/rgb VideoFrameReference:timestamp"]) == episode.length + 1
        assert (
            bytes(columns["/world/cameras/front/rgb AssetVideo:blob"][0][0]) == episode.video_path("front").read_bytes()
        )
        depths = columns["/world/cameras/front/depth DepthImage:buffer"]
        assert len(depths) == episode.length + 1
        stored = np.frombuffer(bytes(depths[9][0]), np.uint16).reshape(SIZE) * 0.001
        depth = episode.video("front_depth")[9]
        np.testing.assert_allclose(stored, np.where(np.isinf(depth), 0, depth), atol=1e-6)
        assert [json.loads(text) for [text] in columns["/text/task_info TextDocument:text"]] == episode.text(
            "task_info"
        )


# -- MCAP -------------------------------------------------------------------------------------------------------------


def test_mcap_has_every_number_and_image(data, exported):
    """Decoded by the package mcap-ros2-support."""
    from mcap.reader import make_reader
    from mcap_ros2.decoder import DecoderFactory

    episode, found = data[1], {}
    with open(exported("mcap") / "episode_000001.mcap", "rb") as file:
        reader = make_reader(file, decoder_factories=[DecoderFactory()])
        for _, channel, message, decoded in reader.iter_decoded_messages():
            found.setdefault(channel.topic, []).append((message.log_time * 1e-9, decoded))
    times = np.array([time for time, _ in found["/joint_states"]])
    np.testing.assert_allclose(times, np.arange(episode.length + 1) / 50, atol=1e-9)
    action = np.array([message.position for _, message in found["/action"]])
    np.testing.assert_array_equal(action, episode["actions/action"])
    assert found["/action"][0][0] == pytest.approx(0.02)  # at the end of its step
    rewards = [message.data for _, message in found["/step/rewards"]]
    np.testing.assert_array_equal(rewards, episode["rewards"])
    cube = episode["env_states/actors/red_cube"]
    poses = [message.pose for _, message in found["/truth/env_states/actors/red_cube"]]
    np.testing.assert_array_equal([pose.position.z for pose in poses], cube[:, 2])
    np.testing.assert_array_equal([pose.orientation.w for pose in poses], cube[:, 3])
    twists = [message.twist for _, message in found["/truth/env_states/actors/red_cube/twist"]]
    np.testing.assert_array_equal([twist.angular.z for twist in twists], cube[:, 12])
    for topic, uuid in (("/front/rgb", "front"), ("/front/depth", "front_depth")):
        for (_, message), image in zip(found[topic], episode.video(uuid), strict=True):
            dtype = np.uint8 if message.encoding == "rgb8" else np.float32
            got = np.frombuffer(message.data, dtype).reshape(message.height, message.width, -1)
            np.testing.assert_array_equal(got, np.asarray(image).reshape(got.shape))
    assert json.loads(found["/episode"][0][1].data) == {"episode": 1}


# -- all formats ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "package"),
    [("lerobot", "pyarrow"), ("robomimic", "h5py"), ("minari", "minari"), ("rerun", "rerun"), ("mcap", "mcap")],
)
@pytest.mark.filterwarnings("ignore")
def test_everything_is_kept_or_listed_as_skipped(name, package, data, exported):
    pytest.importorskip(package)
    (notes,) = [json.loads(path.read_text()) for path in exported(name).rglob("sensorium.json")]
    assert notes["kept"].keys() | notes["left_out"].keys() == everything(data)
    assert not notes["kept"].keys() & notes["left_out"].keys()
    assert all(notes["left_out"].values())


def test_arrays_missing_in_an_episode_are_skipped_and_listed(data, tmp_path):
    folder = shutil.copytree(data.folder, tmp_path / "data")
    with h5py.File(folder / "episode_000001.h5", "r+") as file:
        del file["traj_1/env_states/actors/soda_can"]
        rows = file["traj_1/obs/extra/tcp_pose"][()]
        del file["traj_1/obs/extra/tcp_pose"]
        file["traj_1/obs/extra/tcp_pose"] = rows[:, :3]
    list_files(folder)
    assert sn.datasets.validate(folder).valid
    out = sn.datasets.export(folder, "robomimic", tmp_path / "out", images=False)
    skipped = json.loads((out / "sensorium.json").read_text())["left_out"]
    assert skipped["env_states/actors/soda_can"] == "not every episode has it"
    assert skipped["obs/extra/tcp_pose"] == "its shape or type differs between episodes"
    assert skipped["front"] == "images were not requested"
    with h5py.File(out / "demos.hdf5") as file:
        assert "env_states.actors.soda_can" not in file["data/demo_0/obs"]
        assert "front_image" not in file["data/demo_0/obs"]


def test_lerobot_skips_depth_that_hevc_cannot_store(data, tmp_path):
    folder = shutil.copytree(data.folder, tmp_path / "data")
    for path in sorted(folder.glob("*.h5")):
        number = int(path.stem.removeprefix("episode_"))
        with h5py.File(path, "r+") as file:
            group = file[f"traj_{number}"]
            suite = json.loads(group["suite"][()])
            images = [np.full((8, 8), 1.5, np.float32)] * (len(group["rewards"]) + 1)
            encode(folder / f"{path.stem}_tof_depth.mkv", images, "depth")
            group["obs/sensor_data/tof_depth"] = f"{path.stem}_tof_depth.mkv"
            suite["tof_depth"] = {**suite["front_depth"], "at": "obs/sensor_data/tof_depth"}
            del group["suite"]
            group["suite"] = json.dumps(suite)
    list_files(folder)
    assert sn.datasets.validate(folder).valid
    out = sn.datasets.export(folder, "lerobot", tmp_path / "out")
    assert "16 x 16 pixels" in json.loads((out / "meta/sensorium.json").read_text())["left_out"]["tof_depth"]
    features = json.loads((out / "meta/info.json").read_text())["features"]
    assert "observation.images.front_depth" in features
    assert "observation.images.tof_depth" not in features


def test_export_is_atomic(data, tmp_path):
    def stop(count: int) -> None:
        raise KeyboardInterrupt

    out = tmp_path / "out"
    with pytest.raises(KeyboardInterrupt):
        sn.datasets.export(data, "robomimic", out, images=False, progress=stop)
    assert list(tmp_path.iterdir()) == []
    (tmp_path / "out.part").mkdir()
    (tmp_path / "out.part" / "rest").write_text("of a process that was killed")
    out.mkdir()
    done: list[int] = []
    assert sn.datasets.export(data.folder, "robomimic", out, images=False, progress=done.append) == out
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["demos.hdf5", "out", "sensorium.json"]
    assert done == [1, 1]
    with pytest.raises(DatasetError, match="out is not empty"):
        sn.datasets.export(data, "robomimic", out)
    with pytest.raises(DatasetError, match=r"demos.hdf5 is a file"):
        sn.datasets.export(data, "robomimic", out / "demos.hdf5")


def test_invalid_datasets_are_rejected(data, tmp_path):
    folder, out = shutil.copytree(data.folder, tmp_path / "data"), tmp_path / "out"
    (folder / "manifest.json").unlink()
    with pytest.raises(DatasetError, match=r"has no manifest.json, .*run `sensorium validate"):
        sn.datasets.export(folder, "robomimic", out)
    assert not sn.datasets.validate(folder).valid
    shutil.copy(data.folder / "manifest.json", folder)
    images = [picture("rgb", step) for step in range(5)]
    encode(folder / "episode_000001_front.mp4", images)
    with pytest.raises(DatasetError, match=r"episode_000001_front.mp4 was changed .*run `sensorium validate"):
        sn.datasets.export(folder, "robomimic", out)
    list_files(folder)
    with pytest.raises(DatasetError, match=r"episode_000001_front.mp4 has 5 frames.*run `sensorium validate"):
        sn.datasets.export(folder, "robomimic", out)
    (folder / "episode_000001_front.mp4").write_bytes(b"no video")
    list_files(folder)
    with pytest.raises(DatasetError, match=r"cannot export .*episode_000001_front.mp4.* run `sensorium validate"):
        sn.datasets.export(folder, "robomimic", out)
    assert not sn.datasets.validate(folder).valid
    for path in folder.glob("episode_000001*"):
        path.unlink()
    with pytest.raises(DatasetError, match="has 1 of 2 episodes"):
        sn.datasets.export(folder, "robomimic", out)
    with pytest.raises(DatasetError, match="is not a dataset"):
        sn.datasets.export(tmp_path, "robomimic", out)
    assert not out.exists()


def test_unknown_formats_and_missing_packages_raise(data, tmp_path, monkeypatch):
    with pytest.raises(OptionError, match=r"no export format 'robomimik' \(did you mean 'robomimic'\?\)"):
        sn.datasets.export(data, "robomimik", tmp_path / "out")
    with pytest.raises(OptionError, match="the formats are lerobot, robomimic, minari, rerun"):
        sn.datasets.export(data, "xyz", tmp_path / "out")
    for name, package, extra in (("lerobot", "pyarrow", "export"), ("rerun", "rerun", "rerun")):
        monkeypatch.setitem(sys.modules, package, None)
        with pytest.raises(OptionError, match=rf"needs {package}: pip install 'sensorium\[{extra}\]'"):
            sn.datasets.export(data, name, tmp_path / "out")
    assert list(tmp_path.iterdir()) == []


def test_export_command(data, tmp_path, capsys):
    out = tmp_path / "out"
    assert main(["export", str(data.folder), "--format", "robomimic", "--no-images", "--out", str(out)]) == 0
    shown = capsys.readouterr().out
    assert f"{out}: 2 episodes as robomimic" in shown
    assert "skipped" not in shown  # the images were not requested
    assert (out / "demos.hdf5").is_file()
    chosen = ["--format", "lerobot", "--exclude", "front", "--out", str(tmp_path / "lerobot")]
    assert main(["export", str(data.folder), *chosen]) == 0
    shown = capsys.readouterr().out.replace("\\", "/")
    assert "skipped, as meta/sensorium.json explains: 'front_segmentation'\n" in shown
    assert main(["export", str(data.folder), "--format", "robomimic", "--out", str(out)]) == 1
    assert "not empty" in capsys.readouterr().err
