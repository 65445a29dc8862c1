"""Damage is seen: flipped bits and cut files end in a DatasetError or a reported problem, never in silence."""

import json
import shutil
import warnings

import numpy as np
import pytest
from damage import edited_chunk
from test_recording import box_scene

import sensorium as sn
from sensorium.files import json_with_checksum, parse_json
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
