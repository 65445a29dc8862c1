"""Datasets: their content, resuming after kills, reproducibility and validation.

One long file, because the tests share a generated dataset.
"""

import gc
import hashlib
import json
import multiprocessing
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
import weakref
from pathlib import Path

import h5py
import numpy as np
import pytest
from damage import edited_json

import sensorium as sn
from sensorium.cli import main
from sensorium.datasets.episode_file import EpisodeFile, Skeleton
from sensorium.datasets.episode_writer import EpisodeWriter
from sensorium.datasets.image_formats import VIDEO_FORMATS, ImageEncoding
from sensorium.datasets.manifest import read_manifest
from sensorium.datasets.row_buffer import ROWS
from sensorium.errors import DatasetError, GenerationError, NameNotFoundError, OptionError
from sensorium.generation import GenerateOptions, cluster, generate, ledger
from sensorium.generation.unit import UnitMaker
from sensorium.suites import decode

OPTIONS = GenerateOptions(task="pick", episodes=6, envs=2, seed=3)


def digests(folder: Path) -> dict[str, str]:
    files = [path for path in folder.iterdir() if path.is_file() and path.name != "index.json"]
    return {path.name: hashlib.md5(path.read_bytes()).hexdigest() for path in files}


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """A dataset that was generated without interruption."""
    folder = tmp_path_factory.mktemp("whole") / "pick"
    generate(OPTIONS, folder)
    return folder


# -- content ----------------------------------------------------------------------------------------------------------


def test_every_sensor_is_in_the_file(whole):
    task = sn.tasks.make("pick", n_envs=2, seed=3)
    task.register_policy(sn.policies.make("planner", task))
    for episode in sn.datasets.open(whole):
        assert set(episode.suite) == set(task.suite)
        with h5py.File(episode.path) as file:
            group = file[f"traj_{episode.number}"]
            for entry in episode.suite.values():
                assert entry["at"] in group
            for name in ("rewards", "terminated", "truncated", "success", "fail"):
                assert group[name].shape == (episode.length,)
            assert group["obs/agent/qpos"].shape == (episode.length + 1, 9)
            assert json.loads(group["obs_scene"][()])["pickup_obj"] in task.objects
            attributes = dict(group.attrs)
        assert attributes["fps"] == "50/1"
        assert {"schema_version", "seed", "options", "versions", "task", "robot", "policy"} <= set(attributes)


def test_file_holds_the_observations_actions_and_rewards(whole):
    """Compare with a manual run of the task, of one episode alone, with another number of envs."""
    task = sn.tasks.make("pick", n_envs=1, seed=3)
    policy = sn.policies.make("planner", task)
    task.register_policy(policy)
    observation, _ = task.reset(numbers=[3])
    observations, actions, rewards = [observation], [], []
    while not task.is_done().all():
        actions.append(policy.get_action(observation)[0])
        observation, reward, *_ = task.step(actions[-1][None])
        observations.append(observation)
        rewards.append(reward[0])
    stored = sn.datasets.open(whole)[3]
    assert stored.number == 3
    assert stored.success == task.judge_success()[0]
    np.testing.assert_array_equal(stored["actions/action"], np.array(actions, np.float32))
    np.testing.assert_array_equal(stored["rewards"], rewards)
    np.testing.assert_array_equal(stored["obs/agent/qpos"][:, :7], [row["qpos"]["arm"][0] for row in observations])
    np.testing.assert_array_equal(stored["obs/extra/tcp_pose"], [row["tcp_pose"][0] for row in observations])
    for name in task.objects:
        rows = [row["env_states"]["actors"][name][0] for row in observations]
        np.testing.assert_array_equal(stored[f"env_states/actors/{name}"], rows)
    assert stored.text("actions/joint_pos")[-1] == {}
    assert stored.text("task_info") == [row["task_info"][0] | {"episode": 3} for row in observations]
    assert stored.text("policy_phase") == [row["policy_phase"][0] for row in observations]
    assert decode(stored["obs/extra/policy_phase"]) == stored.text("policy_phase")


def test_terminated_truncated_and_fail_flags(whole):
    for episode in sn.datasets.open(whole):
        assert episode["terminated"].tolist() == [False] * (episode.length - 1) + [True]
        assert not episode["truncated"].any()
        assert not episode["fail"].any()


def test_videos_have_a_frame_for_every_observation(tmp_path):
    cameras = [{"name": "front", "depth": True, "segmentation": True, "resolution": [96, 64]}]
    options = GenerateOptions(
        task="pick", episodes=2, envs=2, options={"cameras": cameras, "max_steps": 6}, keep_failed=True, max_attempts=2
    )
    with pytest.raises(GenerationError, match="0 of 2 episodes succeeded in 2 attempts"):
        generate(options, tmp_path / "a")
    kept = sorted((tmp_path / "a" / "failed").glob("*.h5"))
    assert len(kept) == 2
    episode = sn.datasets.Episode(kept[0])
    assert episode.cameras == ["front", "front_depth", "front_segmentation"]
    assert not episode.success
    assert episode["fail"].tolist() == [False] * 5 + [True]
    task = sn.tasks.make("pick", n_envs=1, cameras=cameras, max_steps=6)
    policy = sn.policies.make("planner", task)
    task.register_policy(policy)
    observation, _ = task.reset(numbers=[episode.number])
    seen = [observation]
    while not task.is_done().all():
        observation, *_ = task.step(policy.get_action(observation))
        seen.append(observation)
    depth = episode.video("front_depth")
    true = np.stack([row["front_depth"][0] for row in seen])
    assert depth.shape == true.shape == (7, 64, 96)
    hit = np.isfinite(true)
    assert np.abs(depth[hit] - true[hit]).max() <= 0.00051
    np.testing.assert_array_equal(
        episode.video("front_segmentation"), np.stack([row["front_segmentation"][0] for row in seen])
    )
    colour = np.stack([row["front"][0] for row in seen]).astype(int)
    assert np.abs(episode.video("front").astype(int) - colour).mean() < 4
    with h5py.File(kept[0]) as file:
        data = file[f"traj_{episode.number}/obs/sensor_data/front_depth"]
        assert (data.attrs["codec"], data.attrs["unit"], data.attrs["scale"]) == ("ffv1", "m", 0.001)
        assert (kept[0].parent / data[()].decode()).is_file()


@pytest.mark.parametrize("steps", [63, 64, 65])
def test_rows_at_block_boundaries_are_complete(tmp_path, steps):
    task = {"max_steps": steps, "str_max_len": None if steps == 65 else 300}
    options = GenerateOptions(task="pick_and_place", episodes=1, envs=2, options=task, keep_failed=True, max_attempts=2)
    with pytest.raises(GenerationError, match="0 of 1 episodes"):
        generate(options, tmp_path / "a")
    for path in sorted((tmp_path / "a" / "failed").glob("*.h5")):
        episode = sn.datasets.Episode(path)
        assert episode.length == steps
        assert episode["truncated"].tolist() == [False] * (steps - 1) + [True]
        assert [reading["step"] for reading in episode.text("task_info")] == list(range(steps + 1))
        commands = [reading["arm"] for reading in episode.text("actions/commanded_action")[1:-1]]
        np.testing.assert_array_equal(episode["actions/action"][: steps - 1, :7], np.array(commands, np.float32))
        pose = episode["obs/extra/robot_base_pose"]
        assert pose.shape == (steps + 1, 7)
        assert (pose == pose[0]).all()
        moved = np.abs(np.diff(episode["obs/agent/qpos"], axis=0)).max(axis=1)
        assert (moved[1:] > 0).all()


def test_files_of_two_skeletons_are_written_side_by_side(tmp_path):
    skeletons = [Skeleton(), Skeleton()]
    for number, skeleton in enumerate(skeletons):
        skeleton.set_attribute("which", number)
        skeleton.declare("obs/value", (), np.dtype(np.float32), ())
    files = [EpisodeFile(tmp_path / f"{number}.h5", number, skeletons[number % 2]) for number in range(4)]
    for number, file in enumerate(files):
        file.extend("obs/value", 0, np.full(ROWS, number, np.float32), 5)
        file.close()
        with h5py.File(file.part) as stored:
            group = stored[f"traj_{number}"]
            assert group.attrs["which"] == number % 2
            np.testing.assert_array_equal(group["obs/value"], [number] * 5)


@pytest.mark.slow
def test_garbage_collector_state_is_restored(tmp_path):
    frozen = []
    maker = UnitMaker(GenerateOptions(task="pick", envs=1), tmp_path)
    maker.make(0, [0], lambda steps: frozen.append(gc.get_freeze_count() > 0))
    assert all(frozen)
    assert gc.get_freeze_count() == 0
    with pytest.raises(ZeroDivisionError):
        maker.make(0, [0], lambda steps: 1 // 0)
    assert gc.get_freeze_count() == 0
    gc.freeze()
    try:
        maker.make(0, [0])
        assert gc.get_freeze_count() > 0  # frozen by the program
    finally:
        gc.unfreeze()
    maker.close()


def test_cluster_process_frees_the_task_of_the_previous_dataset(tmp_path):
    tasks = []
    for seed in range(2):
        options = GenerateOptions(task="pick", envs=1, seed=seed).model_dump_json()
        cluster.make_unit(options, str(tmp_path / str(seed)), 0, (0,))
        tasks.append(weakref.ref(next(iter(cluster._makers.values())).task))
    gc.collect()
    assert tasks[0]() is None
    assert tasks[1]() is not None
    cluster._makers.popitem()[1].close()


def test_readings_after_the_end_of_an_episode_are_ignored(tmp_path):
    task = sn.tasks.make("pick", n_envs=2, seed=0, max_steps=6)
    sensor = sn.suites.DictSensor("mine", lambda: [{"v": float("nan") if done else 1.0} for done in over], 100)
    over = np.zeros(2, bool)
    task.suite.add(sensor, "test")
    observation, _ = task.reset()
    writer = EpisodeWriter(tmp_path, task, [0, 1], {})
    writer.begin(observation)
    nothing = np.zeros(2, bool)
    for step in range(3):
        running = np.array([step < 1, True])
        over[0] = step >= 1
        observation = task.suite.read()
        ended = np.array([step == 0, step == 2])
        writer.add(observation, np.zeros((2, 8)), np.zeros(2), ended, nothing, nothing, running)
    writer.close([tmp_path, tmp_path])
    for number, steps in enumerate((1, 3)):
        with h5py.File(tmp_path / f"episode_00000{number}.h5") as file:
            assert decode(file[f"traj_{number}/obs/extra/mine"][()]) == [{"v": 1.0}] * (steps + 1)


def test_texts_and_arrays_of_any_width_round_trip(tmp_path):
    texts = [[b"{}"] * ROWS, [b"{%s}" % (b"x" * count) for count in range(50)]]
    skeleton = Skeleton()
    skeleton.declare("obs/extra/none", (0,), np.dtype(np.float32), (0,))
    skeleton.declare("obs/extra/numbers", (2, 3), np.dtype(np.int16), (2, 3), "m")
    file = EpisodeFile(tmp_path / "a.h5", 3, skeleton)
    for number, some in enumerate(texts):
        file.extend_texts("obs/extra/text", number * ROWS, some, 70)
        file.extend_texts("obs/extra/free", number * ROWS, some, None)
        file.extend("obs/extra/none", number * ROWS, np.zeros((ROWS, 0), np.float32), len(some))
        rows = np.zeros((ROWS, 2, 3), np.int16)
        rows[: len(some)] = number + 1
        file.extend("obs/extra/numbers", number * ROWS, rows, len(some))
    file.close()
    with h5py.File(file.part) as stored:
        group = stored["traj_3/obs/extra"]
        expected = [text for some in texts for text in some]
        assert group["text"].shape == (len(expected), 70)
        assert [row.tobytes().rstrip(b"\0") for row in group["text"][()]] == expected
        assert group["free"][()].tolist() == expected
        assert group["none"].shape == (len(expected), 0)
        np.testing.assert_array_equal(group["numbers"][:, 1, 2], [1] * ROWS + [2] * 50)
        assert group["numbers"].attrs["unit"] == "m"
    file.drop()
    assert not list(tmp_path.iterdir())


def test_depth_is_accurate_to_half_a_millimetre():
    depth = np.array([[0.0004, 0.0123456, 0.5, 1.23456, 9.9996, 65.53, np.inf]], np.float32)
    form = ImageEncoding.of_kind("depth", *depth.shape)
    back = form.restore(form.store(depth))
    assert np.isinf(back[0, -1])
    assert np.abs(back[0, 1:-1] - depth[0, 1:-1]).max() <= 0.000501
    assert form.store(np.array([[100.0]]))[0, 0] == 65535
    assert VIDEO_FORMATS["depth"].scale == 0.001


# -- reproducibility --------------------------------------------------------------------------------------------------


def test_second_run_makes_no_episode_again(whole):
    before = {path: path.stat().st_mtime_ns for path in whole.glob("episode_*")}
    made = generate(OPTIONS, whole)
    assert made.made == 0
    assert made.episodes == 6
    assert {path: path.stat().st_mtime_ns for path in whole.glob("episode_*")} == before


def test_more_episodes_are_added_to_existing_ones(whole, tmp_path):
    folder = tmp_path / "more"
    few = generate(OPTIONS.model_copy(update={"episodes": 4}), folder)
    assert few.made == 4
    more = generate(OPTIONS, folder)
    assert more.made == 2
    assert digests(folder) == digests(whole)


@pytest.mark.slow
def test_workers_make_the_same_dataset_and_a_killed_worker_is_replaced(whole, tmp_path):
    killed = []

    def kill_once(ledger, env_steps):
        if not killed and env_steps > 40:
            process = multiprocessing.active_children()[0]
            killed.append(process.pid)
            process.kill()

    made = generate(OPTIONS, tmp_path / "pool", workers=2, progress=kill_once)
    assert killed
    assert made.episodes == 6
    assert digests(tmp_path / "pool") == digests(whole)


@pytest.mark.slow
@pytest.mark.parametrize("moment", [0.2, 0.5, 0.8])
def test_killed_generation_resumes_to_the_same_dataset(whole, tmp_path, moment):
    folder = tmp_path / "killed"
    words = ["generate", "pick", "--episodes", "6", "--envs", "2", "--seed", "3", "--out", str(folder)]
    process = subprocess.Popen([sys.executable, "-m", "sensorium", *words], stderr=subprocess.DEVNULL)
    min_episodes = int(moment * 6)
    deadline = time.monotonic() + 60
    while len(list(folder.glob("episode_*.h5"))) < min_episodes and time.monotonic() < deadline:
        time.sleep(0.01)
    time.sleep(moment / 2)
    process.send_signal(signal.SIGKILL)
    process.wait()
    existing = {path.name: path.stat().st_mtime_ns for path in folder.glob("episode_*.h5")}
    assert len(existing) >= min_episodes
    for name in existing:  # a file under its final name is complete
        sn.datasets.Episode(folder / name)
    assert main(words) == 0
    assert {name: (folder / name).stat().st_mtime_ns for name in existing} == existing
    assert digests(folder) == digests(whole)
    assert main(["validate", str(folder)]) == 0


@pytest.mark.slow
def test_cluster_that_loses_a_node_makes_the_same_dataset(whole, tmp_path):
    ray = pytest.importorskip("ray")
    from ray.cluster_utils import Cluster

    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False})
    lost = cluster.add_node(num_cpus=1)
    try:
        removed = []

        def remove_once(ledger, env_steps):
            if not removed:
                removed.append(1)
                threading.Thread(target=cluster.remove_node, args=(lost,), kwargs={"allow_graceful": False}).start()

        made = generate(OPTIONS, tmp_path / "ray", cluster=cluster.address, progress=remove_once)
        assert removed
        assert made.episodes == 6
        assert digests(tmp_path / "ray") == digests(whole)
    finally:
        ray.shutdown()
        cluster.shutdown()


# -- validate ---------------------------------------------------------------------------------------------------------


@pytest.fixture
def copy(whole, tmp_path):
    folder = tmp_path / "copy"
    shutil.copytree(whole, folder)
    return folder


def test_validate_writes_an_index(copy, capsys):
    assert main(["validate", str(copy)]) == 0
    assert not (copy / "index.json").exists()
    assert main(["validate", str(copy), "--update"]) == 0
    assert "6 episodes" in capsys.readouterr().out
    entries = json.loads((copy / "index.json").read_text())["episodes"]
    assert [entry["number"] for entry in entries] == list(range(6))
    assert all(entry["success"] for entry in entries)


def break_rows(path):
    with h5py.File(path, "a") as file:
        data = file["traj_2/obs/extra/tcp_pose"]
        data.resize(len(data) - 1, axis=0)


def break_sensor(path):
    with h5py.File(path, "a") as file:
        del file["traj_2/obs/extra/task_info"]


def break_text(path):
    with h5py.File(path, "a") as file:
        file["traj_2/obs/extra/task_info"][3, 20:] = 0


def break_end(path):
    with h5py.File(path, "a") as file:
        file["traj_2/terminated"][-1] = False


def break_number(path):
    with h5py.File(path) as file:
        value = file["traj_2/obs/extra/tcp_pose"][5].tobytes()
    data = path.read_bytes()
    assert data.count(value) == 1
    path.write_bytes(data.replace(value, value[::-1]))


def empty_file(path):
    h5py.File(path, "w").close()


def break_file(path):
    with open(path, "r+b") as file:
        file.truncate(path.stat().st_size // 2)


@pytest.mark.parametrize(
    ("how", "text"),
    [
        (break_rows, "tcp_pose has .* rows instead of"),
        (break_sensor, "the sensor 'task_info' is missing"),
        (break_text, ""),
        (break_end, "must end .* at its last step"),
        (break_number, "episode_000002.h5 was changed or damaged after it was written"),
        (break_file, "cannot read"),
        (os.unlink, "there are 5 of 6 episodes"),
    ],
)
def test_validate_reports_damage_by_name(copy, capsys, how, text):
    how(copy / "episode_000002.h5")
    assert main(["validate", str(copy)]) == 1
    out = capsys.readouterr().out
    assert re.search(text, out)
    assert "NOT valid" in out


@pytest.mark.parametrize(
    "how",
    [
        break_file,
        empty_file,
        lambda path: path.write_bytes(b""),
        lambda path: path.write_bytes(path.read_bytes() + b"x"),
    ],
)
def test_damaged_episode_is_generated_again(whole, copy, how):
    how(copy / "episode_000002.h5")
    with pytest.warns(UserWarning, match="episode 2 is made again"):
        assert generate(OPTIONS, copy).made == 1
    assert digests(copy) == digests(whole)


@pytest.mark.slow
def test_episodes_with_videos_are_reproducible_to_the_byte(tmp_path):
    cameras = [
        {"name": name, "depth": True, "segmentation": True, "resolution": [64, 48]} for name in ("front", "wrist")
    ]
    options = GenerateOptions(task="pick", episodes=2, envs=2, seed=3, options={"cameras": cameras})
    folder = tmp_path / "a"
    generate(options, folder)
    before = digests(folder)
    assert sum(name.endswith((".mkv", ".mp4")) for name in before) == 12
    for path in folder.glob("episode_000001*"):
        path.unlink()
    assert generate(options, folder).made == 1
    assert digests(folder) == before
    assert main(["validate", str(folder)]) == 0
    generate(options, tmp_path / "b", workers=2)
    assert digests(tmp_path / "b") == before


def test_checksums_of_regenerated_episodes_are_updated(whole, copy):
    """Also if the file has the same size as before."""
    with edited_json(copy / "manifest.json") as manifest:
        right = manifest["episodes"]["episode_000002"]["episode_000002.h5"]["crc32"]
        manifest["episodes"]["episode_000002"]["episode_000002.h5"]["crc32"] = 1
    (copy / "episode_000002.h5").unlink()
    generate(OPTIONS, copy)
    assert read_manifest(copy)["episode_000002"]["episode_000002.h5"]["crc32"] == right


def test_failed_episodes_can_be_kept_in_a_second_run(tmp_path):
    options = OPTIONS.model_copy(update={"envs": 1, "max_attempts": 1, "options": {"max_steps": 5}})
    with pytest.raises(GenerationError, match="inspect the failures with keep_failed"):
        generate(options, tmp_path / "pick")
    assert [path.name for path in (tmp_path / "pick" / "failed").iterdir()] == ["episode_000000.json"]
    with pytest.raises(GenerationError, match="0 of 6"):
        generate(options.model_copy(update={"keep_failed": True}), tmp_path / "pick")
    assert (tmp_path / "pick" / "failed" / "episode_000000.h5").is_file()


def test_validate_reports_an_episode_missing_in_the_manifest(copy):
    with edited_json(copy / "manifest.json") as manifest:
        name = sorted(manifest["episodes"])[1]
        del manifest["episodes"][name]
    found = sn.datasets.validate(copy)
    assert not found.valid
    assert any(name in problem and "is not in manifest.json" in problem for problem in found.problems)


def test_ambiguous_camera_names_raise():
    for name in ("seen_segmentation", "rgb_depth"):
        with pytest.raises(OptionError, match=f"{name}.*choose another name"):
            sn.tasks.make("pick", cameras=[{"name": name}])


def test_unreadable_manifest_is_reported(copy, capsys):
    (copy / "manifest.json").write_text("{")
    assert main(["validate", str(copy)]) == 1
    assert "cannot read" in capsys.readouterr().out
    with pytest.raises(DatasetError, match=r"cannot read .*manifest.json"):
        generate(OPTIONS, copy)


# -- bad input --------------------------------------------------------------------------------------------------------


def test_other_options_and_foreign_folders_are_rejected(copy, tmp_path):
    before = digests(copy)
    with pytest.raises(DatasetError, match="seed = 3, got 4"):
        generate(OPTIONS.model_copy(update={"seed": 4}), copy)
    with pytest.raises(DatasetError, match="6 episodes, got episodes = 2"):
        generate(OPTIONS.model_copy(update={"episodes": 2}), copy)
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "letter.txt").write_text("keep me")
    with pytest.raises(DatasetError, match="not empty and holds no dataset"):
        generate(OPTIONS, tmp_path / "mine")
    assert [path.name for path in (tmp_path / "mine").iterdir()] == ["letter.txt"]
    assert digests(copy) == before


def test_folder_is_usable_after_invalid_options(tmp_path):
    with pytest.raises(NameNotFoundError, match="did you mean 'planner'"):
        generate(OPTIONS.model_copy(update={"policy": "plannr"}), tmp_path / "pick")
    assert generate(OPTIONS.model_copy(update={"episodes": 1}), tmp_path / "pick").episodes == 1


def test_unknown_names_and_numbers_raise(whole, capsys):
    data = sn.datasets.open(whole)
    assert len(data) == 6
    with pytest.raises(IndexError, match="6 episodes"):
        data[6]
    with pytest.raises(NameNotFoundError, match="did you mean 'obs/agent/qpos'"):
        data[0]["obs/agent/qpo"]
    with pytest.raises(NameNotFoundError, match="no video 'front'"):
        data[0].video("front")
    with pytest.raises(NameNotFoundError, match=r"no sensor 'task_inf' .did you mean 'task_info'"):
        data[0].purpose("task_inf")
    with pytest.raises(NameNotFoundError, match="no camera 'front'"):
        data[0].camera_profile("front")
    for call in (data[0].text, data[0].video, data[0].purpose, data[0].camera_options, data[0].__getitem__):
        with pytest.raises(OptionError, match=r"Episode\..*: (uuid|name|path) must be text, got \['front'\]"):
            call(["front"])
    with pytest.raises(OptionError, match="selects no episodes: slice indices must be integers"):
        data["first":]
    with pytest.raises(DatasetError, match="not a dataset"):
        sn.datasets.Dataset(whole.parent)
    assert main(["generate", "pik", "--out", str(whole.parent / "x")]) == 2
    assert "did you mean 'pick'" in capsys.readouterr().err
    assert main(["generate", "pick", "--out", str(whole.parent / "x"), "--cameras", "frnt"]) == 2
    assert "did you mean 'front'" in capsys.readouterr().err
    with pytest.raises(OptionError, match=r"numbers must be integers in \[0, 2147483647\], one for each"):
        sn.tasks.make("pick", n_envs=2).reset(numbers=[1])


def test_slices_of_a_dataset(whole):
    data = sn.datasets.open(whole)
    assert [each.number for each in data[1:3]] == [each.number for each in list(data)[1:3]]
    assert data[99:] == []
    with pytest.raises(OptionError, match="integers and slices, got 'first'"):
        data["first"]


def test_commands_name_the_file_they_cannot_read_or_write(whole, tmp_path, capsys):
    (tmp_path / "file").write_text("")
    assert main(["replay", str(whole), "--out", str(tmp_path / "r")]) == 1
    assert "is not a recording" in capsys.readouterr().err
    assert main(["plot", "IMU", "--out", str(tmp_path / "file" / "x.png")]) == 1
    assert str(tmp_path / "file") in capsys.readouterr().err


def test_removing_an_episode_keeps_longer_numbers(tmp_path):
    for name in ("episode_100000.h5", "episode_100000_front.mp4", "episode_1000000.h5", "episode_1000000_front.mp4"):
        (tmp_path / name).touch()
    ledger._remove(tmp_path, 100_000)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["episode_1000000.h5", "episode_1000000_front.mp4"]
