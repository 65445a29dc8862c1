"""Bad input and damage: what opening and checking a recording report."""

import json
import shutil

import av
import h5py
import numpy as np
import pytest
import torch
from damage import edited_chunk, edited_config
from test_recording import MESH, PARTS, STONE, Notes, box_scene, record

import sensorium as sn
from sensorium.json_files import json_with_checksum
from sensorium.recording import chunk as chunks
from sensorium.recording import image_files
from sensorium.recording.colour import to_frame
from sensorium.recording.image_reader import verify
from sensorium.recording.image_writer import finish, image_writer

# -- bad input --------------------------------------------------------------------------------------------------------


def damaged(tmp_path, **options):
    record(tmp_path / "a", chunk_bytes=10_000, **options)
    return tmp_path / "a"


def test_a_recording_that_cannot_allocate_its_memory_leaves_the_scene_as_it_was(tmp_path, monkeypatch):
    scene = box_scene()
    with monkeypatch.context() as patch:
        patch.setattr(sn.recording.recorder.StepSource, "slot", lambda self: (_ for _ in ()).throw(MemoryError()))
        with pytest.raises(MemoryError):
            sn.recording.Recorder(scene, tmp_path / "a")
    with sn.recording.Recorder(scene, tmp_path / "a") as recorder:
        scene.step()
        recorder.step()
    assert len(sn.recording.Recording(tmp_path / "a")) == 1


def test_open_rejects_folders_that_are_not_recordings(tmp_path):
    with pytest.raises(sn.DatasetError, match="does not exist"):
        sn.datasets.open(tmp_path / "nothing")
    with pytest.raises(sn.DatasetError, match=r"not a recording: it has no config.json"):
        sn.datasets.open(tmp_path)
    (tmp_path / "config.json").write_text('{"name": "something else"}')
    with pytest.raises(sn.DatasetError, match="not written by Sensorium"):
        sn.datasets.open(tmp_path)
    (tmp_path / "config.json").write_text('{"format": "sensor')
    with pytest.raises(sn.DatasetError, match="cannot read"):
        sn.datasets.open(tmp_path)
    (tmp_path / "config.json").write_text('{"format": "sensorium-episode", "version": 1}')
    with pytest.raises(sn.DatasetError, match="damaged"):
        sn.datasets.open(tmp_path)


def test_newer_format_version_is_rejected(tmp_path):
    folder = damaged(tmp_path)
    with edited_config(folder) as config:
        config["version"] = 4
    for call in (sn.datasets.open, sn.recording.check):
        with pytest.raises(sn.DatasetError, match=r"version 4, .* install a newer version"):
            call(folder)


def test_missing_truncated_foreign_and_changed_chunks_are_reported(tmp_path):
    folder = damaged(tmp_path)
    paths = sorted((folder / "state" / "common").glob("*.h5"))
    assert len(paths) > 3
    whole = paths[1].read_bytes()

    paths[1].unlink()
    with pytest.raises(sn.DatasetError, match=r"steps \d+ to \d+ are missing"):
        sn.datasets.open(folder)
    assert "are missing before it" in str(sn.recording.check(folder))

    half = len(whole) // 2
    for data in (whole[:half], b"", b"not HDF5 at all"):
        paths[1].write_bytes(data)
        with pytest.raises(sn.DatasetError, match=rf"cannot read the steps in .*{paths[1].name}"):
            sn.datasets.open(folder)
        report = sn.recording.check(folder)
        assert not report.whole
        assert report.n_steps == int(paths[1].stem)
        assert paths[1].read_bytes() == data  # check does not guess

    record(tmp_path / "other", scene=box_scene(n_envs=2), chunk_bytes=10_000)
    shutil.copy(sorted((tmp_path / "other" / "state" / "common").glob("*.h5"))[1], paths[1])
    assert not sn.recording.check(folder).whole

    paths[1].write_bytes(whole)
    assert sn.recording.check(folder).whole
    flipped = bytearray(whole)
    with h5py.File(paths[1]) as file:
        flipped[file["buffers"]["physics"].id.get_offset() + 5] ^= 1
    paths[1].write_bytes(flipped)
    report = sn.recording.check(folder)
    assert "is damaged" in str(report)
    assert report.n_steps == int(paths[1].stem)


def test_output_folder_must_be_new_or_empty(tmp_path):
    (tmp_path / "file").write_text("")
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "letter.txt").write_text("dear")
    scene = box_scene()
    with pytest.raises(sn.DatasetError, match="is a file"):
        sn.recording.Recorder(scene, tmp_path / "file")
    for overwrite, match in ((False, "is not empty"), (True, "not a recording")):
        with pytest.raises(sn.DatasetError, match=match):
            sn.recording.Recorder(scene, tmp_path / "full", overwrite=overwrite)
    assert (tmp_path / "full" / "letter.txt").read_text() == "dear"
    record(tmp_path / "a", n_steps=3, scene=scene)
    record(tmp_path / "a", n_steps=5, scene=scene, overwrite=True)
    assert len(sn.datasets.open(tmp_path / "a")) == 5
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a", "file", "full"]
    with sn.recording.Recorder(scene, tmp_path / "b"), pytest.raises(sn.DatasetError, match="already being recorded"):
        sn.recording.Recorder(scene, tmp_path / "c")
    assert not (tmp_path / "c").exists()


UNRECORDABLE = {
    "list": ([1, 2], "holds list"),
    "dict": ({"a": 1}, "holds dict"),
    "complex array": (np.zeros(3, complex), "holds complex128, which cannot be recorded"),
    "complex tensor": (torch.zeros(3, dtype=torch.complex64), "is complex, which cannot be recorded"),
    "bfloat16": (torch.zeros(3, dtype=torch.bfloat16), "is torch.bfloat16, which HDF5 cannot store"),
    "float8": (torch.zeros(3, dtype=torch.float8_e4m3fn), "is torch.float8_e4m3fn, which HDF5 cannot store"),
    "sparse": (torch.eye(3).to_sparse(), "is sparse, which cannot be recorded; use value.to_dense"),
}


@pytest.mark.parametrize("kind", UNRECORDABLE)
@pytest.mark.parametrize("later", [False, True])
def test_values_that_cannot_be_recorded_are_refused_at_once(tmp_path, kind, later):
    value, text = UNRECORDABLE[kind]
    scene = box_scene()
    scene.add_child("odd", sn.Buffer(None if later else value))

    def record():
        with sn.recording.Recorder(scene, tmp_path / "a") as recorder:
            scene._children["odd"].value = value
            scene.step()
            recorder.step()

    with pytest.raises(sn.DatasetError, match=f"the buffer 'odd' {text}"):
        record()


@pytest.mark.parametrize(
    ("first", "then"),
    [
        (3, 3.5),
        (True, 2),
        (torch.zeros(2, dtype=torch.int64), torch.full((2,), 1.7)),
        (torch.zeros(2, dtype=torch.int8), torch.full((2,), 300)),
        (torch.zeros(2), torch.zeros(2, dtype=torch.complex64)),
        (np.zeros(2, np.float32), np.zeros(2)),
    ],
)
def test_a_buffer_keeps_the_type_with_which_recording_began(tmp_path, first, then):
    scene = box_scene()
    scene.add_child("odd", sn.Buffer(first))
    recorder = sn.recording.Recorder(scene, tmp_path / "a")
    scene._children["odd"].value = then
    scene.step()
    with pytest.raises(sn.DatasetError, match=r"the buffer 'odd' held \w+ when recording began, now \w+"):
        recorder.step()
    recorder.close()


def test_a_tensor_that_is_resized_in_place_is_refused(tmp_path):
    scene = box_scene()
    scene.add_child("odd", sn.Buffer(torch.zeros(4)))
    recorder = sn.recording.Recorder(scene, tmp_path / "a")
    scene.step()
    recorder.step()
    scene._children["odd"].value.resize_(2)
    scene.step()
    with pytest.raises(sn.DatasetError, match=r"'odd' changed from \(4,\) to \(2,\)"):
        recorder.step()
    recorder.close()


def test_values_of_a_smaller_type_are_recorded(tmp_path):
    scene = box_scene()
    scene.add_child("odd", sn.Buffer(np.zeros(2)))
    recorder = sn.recording.Recorder(scene, tmp_path / "a")
    scene._children["odd"].value = torch.tensor([1.5, 2.5])
    scene.step()
    recorder.step()
    recorder.close()
    assert sn.recording.Recording(tmp_path / "a")[0]["odd"].tolist() == [1.5, 2.5]


def test_unrecordable_buffers_raise(tmp_path):
    scene = box_scene()
    scene.add_child("odd", sn.Buffer([1, 2]))
    with pytest.raises(sn.DatasetError, match="'odd' holds list"):
        sn.recording.Recorder(scene, tmp_path / "a")
    scene._children["odd"].value = np.zeros(3)
    recorder = sn.recording.Recorder(scene, tmp_path / "a")
    scene.step()
    recorder.step()
    scene._children["odd"].value = np.zeros(4)
    scene.step()
    with pytest.raises(sn.DatasetError, match=r"'odd' changed from \(3,\) to \(4,\)"):
        recorder.step()
    recorder.close()
    assert sn.recording.check(tmp_path / "a", repair=True).n_steps == 1


def test_duplicate_buffer_names_raise(tmp_path):
    scene = box_scene()
    scene.things = {"a.b": sn.Buffer(1.0), "a": Notes()}
    scene.things["a"].b = sn.Buffer(2.0)
    with pytest.raises(sn.errors.TreeError, match=r"things\.a\.b"):
        sn.recording.Recorder(scene, tmp_path / "a")
    assert not (tmp_path / "a").exists()


def test_failed_start_leaves_no_folder(tmp_path):
    scene = sn.Scene()
    scene.add_object(sn.Box(), name="box")
    scene.build()
    with pytest.raises(sn.OptionError, match="no JSON form"):
        sn.recording.Recorder(scene, tmp_path / "a", metadata={"scene": object()})
    assert not (tmp_path / "a").exists()
    record(tmp_path / "a", scene=scene)


# -- check ------------------------------------------------------------------------------------------------------------


def test_check_reports_missing_and_changed_scene_files(tmp_path):
    (tmp_path / "stone.xml").write_text(
        STONE.replace('<include file="parts/joint.xml"/>', "").replace("</mujoco>", PARTS.removeprefix("<mujoco>"))
    )
    (tmp_path / "meshes").mkdir()
    (tmp_path / "meshes" / "stone.obj").write_text(MESH)
    scene = sn.Scene()
    scene.add_object(tmp_path / "stone.xml", name="stone")
    scene.build()
    record(tmp_path / "a", scene=scene)
    assert sn.recording.check(tmp_path / "a").whole
    mesh = next((tmp_path / "a" / "assets").rglob("stone.obj"))
    config = tmp_path / "a" / "config.json"
    now = json.loads(config.read_text())
    for form in (now, {key: value for key, value in now.items() if key != "files"} | {"version": 1}):
        config.write_bytes(json_with_checksum(form))
        mesh.unlink()
        assert "stone.obj" in str(sn.recording.check(tmp_path / "a"))
        mesh.write_text(MESH)
        assert sn.recording.check(tmp_path / "a").whole
    config.write_bytes(json_with_checksum(now))
    mesh.write_text(MESH.replace("1", "2", 1))
    assert "stone.obj was changed" in str(sn.recording.check(tmp_path / "a"))


@pytest.mark.parametrize(
    "damage", [lambda text: b"", lambda text: text[:-9], lambda text: text + text, lambda text: b"{"]
)
def test_check_reports_damaged_events(tmp_path, damage):
    record(tmp_path / "a")
    path = tmp_path / "a" / "state" / "common" / "00000000.jsonl"
    path.write_bytes(damage(path.read_bytes()))
    report = sn.recording.check(tmp_path / "a")
    assert "00000000.jsonl was changed or truncated" in str(report)
    assert report.n_steps == 0
    assert "run `sensorium validate" not in str(report)  # it was just run
    with pytest.raises(sn.DatasetError, match="sensorium validate"):
        sn.datasets.open(tmp_path / "a")


@pytest.mark.parametrize("key", ["dt", "fields", "others", "metadata", "scene.n_envs", "scene.contents"])
def test_check_reports_missing_config_keys(tmp_path, key):
    record(tmp_path / "a")
    *above, name = key.split(".")
    with edited_config(tmp_path / "a") as config:
        (config[above[0]] if above else config).pop(name)
    assert f"config.json lacks '{key}'" in str(sn.recording.check(tmp_path / "a"))
    with pytest.raises(sn.DatasetError, match=f"lacks '{key}'"):
        sn.datasets.open(tmp_path / "a")


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("n_steps", []),
        ("files", []),
        ("fields", [{}]),
        ("others", {"a": 3}),
        ("scene.n_envs", 10**9),
        ("scene.n_envs", 0),
        ("replay", {}),
        (
            "replay",
            {"images": {}, "interval": 0, "frames": 1, "options": {"options": {}}, "source": "a", "source_steps": 1},
        ),
    ],
)
def test_check_reports_config_values_that_cannot_be_used(tmp_path, key, value):
    record(tmp_path / "a")
    *above, name = key.split(".")
    with edited_config(tmp_path / "a") as config:
        (config[above[0]] if above else config)[name] = value
    assert f"config.json lacks '{key}" in str(sn.recording.check(tmp_path / "a", repair=True))
    with pytest.raises(sn.DatasetError, match=f"lacks '{key}"):
        sn.recording.Recording(tmp_path / "a")


@pytest.mark.parametrize("change", [{"kind": "../x"}, {"kind": []}, {"shape": [10**9, 2]}, {"fps": 0}, {"dtype": None}])
def test_image_headers_are_checked(change):
    header = image_files.image_header("depth", "float32", (24, 32), 10.0)
    assert image_files.is_image_header(header)
    assert not image_files.is_image_header({**header, **change})
    assert not image_files.is_image_header({name: value for name, value in header.items() if name not in change})


def test_check_reports_permuted_values(tmp_path):
    record(tmp_path / "a")
    with edited_chunk(tmp_path / "a" / "state" / "common" / "00000000.h5") as file:
        data = file["buffers"]["physics"]
        data[5] = np.roll(data[5], 1, axis=1)
    assert "step 5 is damaged" in str(sn.recording.check(tmp_path / "a"))


def test_version_1_recordings_are_read_and_checked(tmp_path):
    record(tmp_path / "a")
    path = tmp_path / "a" / "state" / "common" / "00000000.h5"
    with h5py.File(path, "r+") as file:  # its checksums were sums of 64-bit words
        row = chunks._row_of(file)
        for index in range(len(file["check"])):
            block = np.zeros(row.n_bytes, np.uint8)
            for array, name in zip(row.arrays(block), file["buffers"], strict=True):
                array[...] = file["buffers"][name][index]
            words = block.view(np.uint64)
            file["check"][index] = np.uint64(1 << 63) | np.add.reduce(words) ^ (
                np.bitwise_xor.reduce(words) >> np.uint64(1)
            )
        del file.attrs["version"]
    config = json.loads((tmp_path / "a" / "config.json").read_text())
    del config["files"], config["n_steps"], config["checksum"]
    (tmp_path / "a" / "config.json").write_text(json.dumps(config | {"version": 1}))
    assert sn.recording.check(tmp_path / "a").whole
    assert len(sn.datasets.open(tmp_path / "a")) == 12
    path.rename(path.with_name("00000000.h5.part"))
    path.with_suffix(".jsonl").rename(path.with_name("00000000.events.part"))
    with h5py.File(path.with_name("00000000.h5.part"), "r+") as file:
        file["buffers"]["physics"][9, 1, 2] += 1.0
    assert sn.recording.check(tmp_path / "a", repair=True).n_steps == 9
    assert sn.recording.check(tmp_path / "a").whole


def test_missing_last_steps_are_reported(tmp_path):
    record(tmp_path / "a", n_steps=30, chunk_bytes=4000)
    files = sorted((tmp_path / "a" / "state" / "common").glob("*.h5"))
    assert len(files) > 2
    first = int(files[-1].stem)
    files[-1].unlink()
    report = sn.recording.check(tmp_path / "a")
    assert not report.whole
    assert f"steps {first} to 29 are missing at the end" in str(report)
    with pytest.warns(UserWarning, match=f"recorded steps {first} to 29 are missing at the end"):
        assert len(sn.datasets.open(tmp_path / "a")) == first
    with edited_config(tmp_path / "a") as config:
        del config["n_steps"]  # as after a kill: then the events file shows it
    report = sn.recording.check(tmp_path / "a")
    assert f"{first:08d}.jsonl has no chunk of steps" in str(report)
    files[-1].with_suffix(".jsonl").unlink()
    assert sn.recording.check(tmp_path / "a").whole


FRAMES = np.random.default_rng(0).integers(0, 255, (20, 24, 32, 3), np.uint8)


@pytest.mark.parametrize("size", [(24, 32), (25, 32), (24, 31)])
def test_colour_conversion_matches_ffmpeg(size):
    noise = np.random.default_rng(0).integers(0, 256, (*size, 3)).astype(np.uint8)
    corners = np.stack(np.meshgrid(*[[0, 255]] * 3), -1).reshape(2, 4, 3).repeat(12, 0).repeat(8, 1).astype(np.uint8)
    for image in (noise, corners[: size[0], : size[1]]):
        ours = to_frame(image)
        form = "yuv444p" if image.shape[0] % 2 or image.shape[1] % 2 else "yuv420p"
        frame = av.VideoFrame.from_ndarray(np.ascontiguousarray(image), format="rgb24")
        theirs = av.video.reformatter.VideoReformatter().reformat(frame, format=form, interpolation="AREA")
        assert ours.format.name == form
        apart = ours.to_ndarray().astype(int) - theirs.to_ndarray().astype(int)
        assert np.abs(apart).max() <= 1  # the rounding differs


@pytest.mark.parametrize("kind", ["rgb", "depth"])
def test_verify_reports_damaged_images(tmp_path, kind):
    frames = FRAMES if kind == "rgb" else FRAMES[..., 0].astype(np.float32)
    header = image_files.image_header(kind, str(frames.dtype), frames.shape[1:], fps=10)
    path = tmp_path / f"a{image_files.FORMATS[kind].suffix}"
    writer = image_writer(path, header)
    for number, frame in enumerate(frames):
        writer.write(frame, key=number % 12 == 0)
    writer.close()
    finish(path, header, len(frames))
    whole = path.read_bytes()
    assert verify(path, 2) == 20
    if kind == "rgb":
        with av.open(str(path)) as video:
            assert video.metadata["comment"] == "codec: h264, unit: sRGB, scale: 1.0"
    else:
        with h5py.File(path) as file:
            assert dict(file["frames"].attrs) == {"codec": "hdf5-shuffle-gzip", "unit": "m", "scale": 1.0}
            np.testing.assert_array_equal(file["frames"], frames)
    for place in np.linspace(0.2, 0.8, 7):
        damaged = bytearray(whole)
        damaged[int(place * len(whole))] ^= 16
        path.write_bytes(damaged)
        with pytest.raises(sn.DatasetError, match="replay"):
            verify(path, 2)
    half = len(whole) // 2
    for data in (
        whole[:half],
        b"",
        whole[:-1],
        whole[:half] + bytes(255 - byte for byte in whole[half : half + 200]) + whole[half + 200 :],
    ):
        path.write_bytes(data)
        with pytest.raises(sn.DatasetError, match="replay"):
            verify(path, 2)
    if kind == "rgb":
        path.write_bytes(whole[: -image_files._BOX.size])  # as in version 1: it is decoded
        assert verify(path, 1) == 20
        path.write_bytes((whole[:5000] + b"\0" * 2000 + whole[7000:])[: -image_files._BOX.size])
        with pytest.raises(sn.DatasetError, match="replay"):
            verify(path, 1)
