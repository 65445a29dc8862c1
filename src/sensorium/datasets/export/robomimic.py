"""robomimic datasets: one HDF5 file, ``demos.hdf5``.

::

    data/                        attributes: total, env_args (JSON), action_names, action_min, action_max
        demo_0/                  attributes: num_samples, number, seed, success, scene (JSON)
            actions (T, n), rewards (T,), dones (T,)
            states               (T, m): poses and velocities of all bodies, joint positions and velocities
            obs/NAME             observations: (T, n) numbers; NAME_image (T, H, W, 3) uint8; NAME_depth (T, H, W, 1)
                                 m, 0: no hit
            next_obs/NAME        the same, one step later
            privileged/NAME      true state of the simulation
            info/NAME            success, fail, terminated, truncated; annotations; texts as JSON
    mask/train, mask/valid       names of demos: every tenth one is for validation, or the last of fewer
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import numpy as np

from sensorium.datasets.dataset import Episode
from sensorium.datasets.export.source import ACTION, ExportSource, ImageSource, Signal, image_note
from sensorium.hdf5_files import Hdf5File

FILE = "demos.hdf5"
_GYM = 2
"""robomimic's number of Gymnasium environments."""
_STATES = "env_states/"
_FOLDERS = {"observation": "obs", "privileged": "privileged", "info": "info"}


def write(source: ExportSource, folder: Path, progress: Callable[[int], None]) -> None:
    """Write a dataset into an empty folder."""
    states = [signal for signal in source.signals if signal.path.startswith(_STATES)]
    low, high = np.full(len(source.action_names), np.inf), np.full(len(source.action_names), -np.inf)
    with Hdf5File(folder / FILE, libver="v110") as file:
        data = file.create_group("data", track_order=True)
        for index, episode in enumerate(source.episodes()):
            demo = data.create_group(f"demo_{index}")
            _write_steps(demo, source, episode, states)
            for signal in source.signals:
                rows = source.read(episode, signal)
                _write_signal(demo, signal, rows.reshape(len(rows), -1))
            file.check()
            for camera in source.cameras:
                _write_images(demo, source, episode, camera)
                file.check()
            low, high = np.minimum(low, demo["actions"][()].min(0)), np.maximum(high, demo["actions"][()].max(0))
            file.check()
            progress(1)
        data.attrs["total"] = source.n_steps
        data.attrs["env_args"] = json.dumps(_environment(source))
        data.attrs["action_names"] = json.dumps(source.action_names)
        data.attrs["action_min"], data.attrs["action_max"] = low, high
        data.attrs["state_columns"] = json.dumps({signal.path: list(signal.shape) for signal in states})
        _write_masks(file, len(source.entries))
    source.note(folder, _kept(source))


def _write_steps(demo: h5py.Group, source: ExportSource, episode: Episode, states: list[Signal]) -> None:
    demo.attrs["num_samples"] = episode.length
    demo.attrs["number"], demo.attrs["seed"] = episode.number, int(episode.attributes["seed"])
    demo.attrs["success"] = episode.success
    demo.attrs["scene"] = json.dumps(episode.scene)
    demo["actions"] = episode[ACTION]
    demo["rewards"] = episode["rewards"]
    demo["dones"] = (episode["terminated"] | episode["truncated"]).astype(np.int64)
    rows = [source.read(episode, signal).reshape(episode.length + 1, -1)[:-1] for signal in states]
    demo["states"] = np.concatenate(rows, axis=1) if rows else np.zeros((episode.length, 0), np.float32)
    for name in ("success", "fail", "terminated", "truncated"):
        demo[f"info/{name}"] = episode[name]
    for uuid, name in source.texts.items():
        texts = [json.dumps(each) for each in episode.text(uuid)]
        demo.create_dataset(f"info/{name}", data=texts[:-1], dtype=h5py.string_dtype())


def _write_signal(demo: h5py.Group, signal: Signal, rows: np.ndarray) -> None:
    options: dict[str, Any] = {"compression": "gzip", "compression_opts": 1, "shuffle": True}
    demo.create_dataset(f"{_FOLDERS[signal.group]}/{signal.name}", data=rows[:-1], **options)
    if signal.group == "observation":
        demo.create_dataset(f"next_obs/{signal.name}", data=rows[1:], **options)


def _write_images(demo: h5py.Group, source: ExportSource, episode: Episode, camera: ImageSource) -> None:
    """Write images once, with obs and next_obs (or one other folder) as virtual datasets of them."""
    name, length = _image_name(camera), episode.length
    shape, dtype = _image_form(camera)
    stored = demo.create_dataset(
        f"images/{name}",
        (length + 1, *shape),
        dtype,
        chunks=(1, *shape),
        compression="lzf",
        shuffle=camera.form.dtype.itemsize > 1,
    )
    for index, image in enumerate(source.frames(episode, camera)):
        stored[index] = (np.where(np.isfinite(image), image, 0.0) if camera.kind == "depth" else image).reshape(shape)
    seen = h5py.VirtualSource(".", stored.name, stored.shape, dtype)
    parts = [(_FOLDERS[camera.group], seen[:length])]
    parts += [("next_obs", seen[1:])] if camera.group == "observation" else []
    for group, part in parts:
        layout = h5py.VirtualLayout((length, *shape), dtype)
        layout[:] = part
        demo.create_virtual_dataset(f"{group}/{name}", layout)


def _image_name(camera: ImageSource) -> str:
    return f"{camera.uuid}_image" if camera.form.is_colour else camera.uuid


def _image_form(camera: ImageSource) -> tuple[tuple[int, ...], np.dtype[Any]]:
    """Return the shape of an image, which has channels, and its dtype."""
    shape = camera.form.shape
    return (*shape, 1) if len(shape) == 2 else shape, camera.form.dtype


def _environment(source: ExportSource) -> dict[str, Any]:
    options = source.options
    return {"env_name": f"sensorium/{options['task']}", "type": _GYM, "env_kwargs": options}


def _write_masks(file: h5py.File, count: int) -> None:
    valid = set(range(9, count, 10)) or ({count - 1} if count > 1 else set())
    for name, numbers in (("train", sorted(set(range(count)) - valid)), ("valid", sorted(valid))):
        names = np.array([f"demo_{number}".encode() for number in numbers], dtype="S")
        file[f"mask/{name}"] = names if len(names) else np.zeros(0, "S6")


def _kept(source: ExportSource) -> dict[str, dict[str, Any]]:
    kept: dict[str, dict[str, Any]] = {
        signal.key: {"name": f"{_FOLDERS[signal.group]}/{signal.name}", "unit": signal.unit, "columns": signal.columns}
        for signal in source.signals
    }
    kept |= {
        camera.uuid: image_note(camera, f"{_FOLDERS[camera.group]}/{_image_name(camera)}") for camera in source.cameras
    }
    kept |= {uuid: {"name": f"info/{name}", "form": "JSON"} for uuid, name in source.texts.items()}
    kept |= {name: {"name": f"info/{name}"} for name in ("success", "fail", "terminated", "truncated")}
    return kept | {ACTION: {"name": "actions"}, "rewards": {"name": "rewards"}}
