"""Damage is seen: flipped bits and cut files end in a DatasetError or a reported problem, never in silence."""

import json
import shutil
import subprocess
import warnings
from contextlib import suppress
from fractions import Fraction

import numpy as np
import pytest
from damage import edited_chunk, edited_config, edited_json
from test_recording import box_scene

import sensorium as sn
from sensorium.cli import main
from sensorium.datasets.image_formats import ImageEncoding
from sensorium.datasets.video_streams import VideoStream, read_video
from sensorium.generation import GenerateOptions, generate
from sensorium.json_files import json_with_checksum, parse_json
from sensorium.recording.chunk import Chunk

STATE = "state/common/00000000.h5"


def flip(path, place, bit):
    """Flip one bit of a file."""
    data = bytearray(path.read_bytes())
    data[place] ^= 1 << bit
    path.write_bytes(bytes(data))


def flips(path, count, seed):
    """Return random places and bits of a file."""
    rng = np.random.default_rng(seed)
    return zip(rng.integers(0, path.stat().st_size, count).tolist(), rng.integers(0, 8, count).tolist(), strict=True)


@pytest.fixture(scope="module")
def recorded(tmp_path_factory):
    folder = tmp_path_factory.mktemp("recorded") / "a"
    with sn.recording.Recorder(box_scene(), folder) as recorder:
        recorder.record(20)
    return folder


def test_every_flipped_bit_of_json_is_seen():
    data = json_with_checksum({"version": 3, "names": ["a", "b"], "x": 1.5, "checksum": "stale"})
    assert parse_json(data) == ({"version": 3, "names": ["a", "b"], "x": 1.5}, True)
    for place in range(len(data)):
        for bit in range(8):
            changed = data[:place] + bytes([data[place] ^ 1 << bit]) + data[place + 1 :]
            try:
                _, checked = parse_json(changed)
            except ValueError:
                continue
            assert not checked, (place, bit)  # the key of the checksum itself, which readers require


@pytest.mark.parametrize("seed", range(3))
def test_flipped_bits_of_config_are_seen(recorded, tmp_path, seed):
    folder = shutil.copytree(recorded, tmp_path / "a")
    whole = (folder / "config.json").read_bytes()
    for place, bit in flips(folder / "config.json", 100, seed):
        flip(folder / "config.json", place, bit)
        with pytest.raises(sn.DatasetError):
            sn.recording.check(folder)
        with pytest.raises(sn.DatasetError):
            sn.recording.Recording(folder)
        (folder / "config.json").write_bytes(whole)
    assert sn.recording.check(folder).whole


@pytest.mark.parametrize("seed", range(3))
def test_flipped_bits_of_chunks_are_seen(recorded, tmp_path, seed):
    folder = shutil.copytree(recorded, tmp_path / "a")
    whole = (folder / STATE).read_bytes()
    for place, bit in flips(folder / STATE, 200, seed):
        flip(folder / STATE, place, bit)
        try:
            report = sn.recording.check(folder)
        except sn.DatasetError:
            continue
        finally:
            (folder / STATE).write_bytes(whole)
        assert not report.whole, (place, bit)


def test_metadata_of_earlier_versions_raises_only_our_errors(recorded, tmp_path):
    """Chunks of version 2 have no checksum of their metadata."""
    path = shutil.copy(recorded / STATE, tmp_path / "00000000.h5")
    shutil.copy((recorded / STATE).with_suffix(".jsonl"), tmp_path)
    with edited_chunk(path) as file:
        file.attrs["version"] = 2
        first = file["buffers/@step"].id.get_offset()
    path.write_bytes(path.read_bytes()[:-12])
    assert Chunk(path).is_whole(3)
    whole = path.read_bytes()
    for place in range(0, first, 3):
        flip(path, place, place % 8)
        try:
            chunk = Chunk(path)
            for row in range(len(chunk)):
                chunk.is_whole(row)
        except sn.DatasetError:
            pass
        path.write_bytes(whole)


def test_replay_sees_a_damaged_step(recorded, tmp_path):
    folder = shutil.copytree(recorded, tmp_path / "a")
    with edited_chunk(folder / STATE) as file:
        file["buffers"]["physics"][7, 1, 2] += 1e-12
    with pytest.raises(sn.DatasetError, match=r"00000000.h5: step 7 is damaged: its checksum differs"):
        sn.recording.replay(folder, tmp_path / "b")
    assert sn.recording.check(tmp_path / "b", repair=True).n_steps == 7  # what was made before is right


def test_replay_sees_a_damaged_scene(recorded, tmp_path):
    folder = shutil.copytree(recorded, tmp_path / "a")
    flip(folder / "scene.xml", 40, 0)
    with pytest.raises(sn.DatasetError, match=r"scene.xml was changed"):
        sn.recording.replay(folder, tmp_path / "b")
    (folder / "scene.xml").unlink()
    with pytest.raises(sn.DatasetError, match=r"scene.xml is missing"):
        sn.recording.replay(folder, tmp_path / "b")


def test_recordings_without_the_new_checksums_are_read(recorded, tmp_path):
    """Version 2: no checksum of config.json and of the metadata of chunks."""
    folder = shutil.copytree(recorded, tmp_path / "a")
    config, _ = parse_json((folder / "config.json").read_bytes())
    (folder / "config.json").write_text(json.dumps(config | {"version": 2}))
    with edited_chunk(folder / STATE) as file:
        file.attrs["version"] = 2
    (folder / STATE).write_bytes((folder / STATE).read_bytes()[:-12])
    assert sn.recording.check(folder).whole
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert len(sn.recording.replay(folder, tmp_path / "b")) == 20


# -- datasets ---------------------------------------------------------------------------------------------------------

OPTIONS = GenerateOptions(task="balance", policy="random", episodes=4, envs=2, options={"max_steps": 12})


@pytest.fixture(scope="module")
def generated(tmp_path_factory):
    folder = tmp_path_factory.mktemp("generated") / "data"
    generate(OPTIONS, folder)
    return folder


@pytest.fixture
def data(generated, tmp_path):
    return shutil.copytree(generated, tmp_path / "data")


def contents(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}


@pytest.mark.slow
@pytest.mark.parametrize("name", ["dataset.json", "manifest.json", "episode_000001.h5"])
def test_flipped_bits_of_datasets_are_seen(data, name):
    whole = (data / name).read_bytes()
    assert sn.datasets.validate(data).valid
    for place, bit in flips(data / name, 60, 0):
        flip(data / name, place, bit)
        with suppress(sn.DatasetError):
            assert not sn.datasets.validate(data).valid, (place, bit)
        (data / name).write_bytes(whole)


def test_validate_and_check_write_nothing_unless_asked(data, recorded, tmp_path):
    folder = shutil.copytree(recorded, tmp_path / "recording")
    (folder / STATE).rename(folder / f"{STATE}.part")
    (folder / "state/common/00000000.jsonl").rename(folder / "state/common/00000000.events.part")
    with edited_config(folder) as config:
        del config["n_steps"]
    before = {path: path.read_bytes() for path in (*data.rglob("*"), *folder.rglob("*")) if path.is_file()}
    assert sn.datasets.validate(data).valid
    assert not sn.recording.check(folder).whole
    assert {path: path.read_bytes() for path in (*data.rglob("*"), *folder.rglob("*")) if path.is_file()} == before
    assert sn.recording.check(folder, repair=True).n_steps == 20
    sn.datasets.validate(data, update=True)
    assert (data / "index.json").is_file()


def test_validate_reads_read_only_media(generated, recorded, tmp_path):
    mounts = []
    for number, source in enumerate((generated, recorded)):
        place = tmp_path / str(number)
        place.mkdir()
        done = subprocess.run(["mount", "--bind", "-o", "ro", source, place], capture_output=True)
        if done.returncode:
            pytest.skip("mounting needs root")
        mounts.append(place)
    try:
        for place in mounts:
            with pytest.raises(OSError, match="Read-only"):
                (place / "x").touch()
            assert main(["validate", str(place)]) == 0
    finally:
        for place in mounts:
            subprocess.run(["umount", place], check=True)


def test_a_dataset_without_its_manifest_is_not_valid(data, tmp_path):
    (data / "manifest.json").unlink()
    assert "manifest.json is missing" in sn.datasets.validate(data).problems[0]
    with pytest.raises(sn.DatasetError, match=r"no manifest.json"):
        sn.datasets.export(data, "robomimic", tmp_path / "out")
    with pytest.warns(UserWarning, match="the checksums of 4 episodes are made from their files"):
        assert generate(OPTIONS, data).made == 0
    assert sn.datasets.validate(data).valid


def test_names_in_the_manifest_must_exist(data):
    with edited_json(data / "manifest.json") as manifest:
        manifest["episodes"]["episode_000009"] = {"episode_000009.h5": {"bytes": 1, "crc32": 1}}
        manifest["episodes"]["episode_000001"]["episode_000001_front.mp4"] = {"bytes": 1, "crc32": 1}
    problems = "\n".join(sn.datasets.validate(data).problems)
    assert "episode_000009 is in manifest.json, but has no file" in problems
    assert "episode_000001_front.mp4 is missing; manifest.json lists it" in problems


def test_export_sees_a_damaged_episode(data, tmp_path):
    path = data / "episode_000002.h5"
    flip(path, path.stat().st_size // 2, 3)
    with pytest.raises(sn.DatasetError, match=r"episode_000002.h5 was changed or damaged"):
        sn.datasets.export(data, "robomimic", tmp_path / "out")
    assert sorted(each.name for each in tmp_path.iterdir()) == ["data"]


def test_episodes_damaged_while_generation_was_interrupted_are_made_again(generated, tmp_path):
    class StopError(Exception):
        pass

    def stop(ledger, steps):
        if len(ledger.done) >= 2:
            raise StopError

    folder = tmp_path / "data"
    with pytest.raises(StopError):
        generate(OPTIONS, folder, progress=stop)
    assert not (folder / "manifest.json").exists()
    path = folder / "episode_000001.h5"
    flip(path, path.stat().st_size // 2, 3)
    with pytest.warns(UserWarning, match="episode 1 is made again"):
        assert generate(OPTIONS, folder).made == 3
    assert contents(folder) == contents(generated)


def test_datasets_of_version_1_are_read_and_continued(data, generated, tmp_path):
    """They have no checksums of dataset.json and manifest.json."""
    header, _ = parse_json((data / "dataset.json").read_bytes())
    manifest, _ = parse_json((data / "manifest.json").read_bytes())
    (data / "dataset.json").write_text(json.dumps(header | {"version": 1}))
    (data / "manifest.json").write_text(json.dumps(manifest["episodes"]))
    assert sn.datasets.validate(data).valid
    sn.datasets.export(data, "robomimic", tmp_path / "out")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert generate(OPTIONS, data).made == 0
    assert contents(data) == contents(generated)


# -- videos -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["rgb", "depth", "segmentation"])
def test_truncated_and_damaged_videos_raise(tmp_path, kind):
    form = ImageEncoding.of_kind(kind, 48, 64)
    path = tmp_path / f"front{form.video.suffix}"
    stream = VideoStream(path, form, Fraction(50))
    rng = np.random.default_rng(0)
    for _ in range(40):
        stream.write((rng.random(form.shape) * 200).astype(form.dtype))
    stream.close(tmp_path)
    whole = path.read_bytes()
    assert len(read_video(path, form)) == 40
    for part in (0.2, 0.5, 0.9, 0.99):
        path.write_bytes(whole[: int(part * len(whole))])
        with pytest.raises((ValueError, EOFError, OSError)):
            read_video(path, form)
    if kind == "rgb":  # H.264 has no checksums: its manifest sees the rest
        path.write_bytes(whole[:2000] + bytes(3000) + whole[5000:])
        with pytest.raises((ValueError, EOFError, OSError)):
            read_video(path, form)
