"""Policies in ONNX files, whose inputs are named like the observations of ``TorchDataset``."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from math import prod
from pathlib import Path
from types import ModuleType
from typing import Any, Protocol, cast

import numpy as np
import torch

from sensorium.datasets.export.source import dotted
from sensorium.datasets.image_formats import boxes_of, image_streams
from sensorium.datasets.observation_layout import AGENT
from sensorium.errors import OptionError, did_you_mean, shorten
from sensorium.policies import Policy
from sensorium.tasks import Task
from sensorium.tasks.tensor import TensorTask
from sensorium.tasks.tensor.episodes import TensorEpisodes

_DTYPES = {
    "tensor(float)": np.float32,
    "tensor(double)": np.float64,
    "tensor(float16)": np.float16,
    "tensor(uint8)": np.uint8,
    "tensor(int32)": np.int32,
    "tensor(int64)": np.int64,
    "tensor(bool)": np.bool_,
}
"""ONNX's name of an element type -> the dtype that an input gets."""

Keys = tuple[str, ...]

_ACTOR = "obs"
"""Name of an input that gets all that the actor of a tensor task observes. rsl_rl gives it to the files it exports."""


class OnnxPolicy(Policy):
    """A policy that runs an ONNX file on the CPU. It needs onnxruntime.

    Inputs have the names and the layout of :class:`sensorium.datasets.TorchDataset` for one step: ``qpos`` is the move
    groups side by side, without a driving base; ``object_poses.pickup_obj`` is one array of a nested sensor; images are
    (B, C, H, W). In a tensor task, ``obs`` is all that its actor observes, with the history, and ``image_NAME`` are the
    cameras that it observes, (B, 3, H, W): the inputs of files that rsl_rl exports. Values are cast to the dtype of the
    input, and reshaped to its shape. The first output is the action (B, n).

    Args:
        task: the task in which it acts.
        path: the file.

    Raises:
        OptionError: onnxruntime is not installed, the file cannot be read, an input is no sensor of the suite, or a
            shape does not fit.
    """

    def __init__(self, task: Task[Any] | TensorEpisodes, path: Path) -> None:
        super().__init__(cast("Task[Any]", task))  # it uses what both have
        try:
            runtime: ModuleType = importlib.import_module("onnxruntime")
        except ImportError:
            raise OptionError(f"policy: {path} needs onnxruntime: pip install 'sensorium[deploy]'") from None
        options = runtime.SessionOptions()
        options.intra_op_num_threads = 1  # the workers share the cores; actions do not depend on the number of threads
        try:
            self._session = runtime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
        except Exception as error:  # every exception class of onnxruntime derives from Exception alone
            raise OptionError(f"policy: cannot load {path}: {error}") from None
        self._path, known = path, _observations(task)
        self._inputs = {each.name: self._input(each, known) for each in self._session.get_inputs()}

    def _input(self, given: Any, known: Mapping[str, _Observation]) -> tuple[_Observation, tuple[int, ...], type]:
        """Return the observation of an input, the shape of its batch and its dtype."""
        where, n_envs = f"policy: the input {given.name!r} of {self._path}", self.task.n_envs
        if given.name not in known:
            hint = did_you_mean(given.name, known) or f"; there are {shorten(known)}"
            raise OptionError(f"{where} is no observation of the task{hint}")
        if given.type not in _DTYPES:
            raise OptionError(f"{where} is a {given.type}; it must be one of {', '.join(_DTYPES)}")
        batch, *shape = given.shape or [None]
        if isinstance(batch, int) and batch != n_envs:
            raise OptionError(
                f"{where} takes {batch} envs at a time, and the task has {n_envs}: export it with a dynamic batch "
                f"axis, or set envs={batch}"
            )
        observation = known[given.name]
        size = prod(observation.shape)
        fixed = [each if isinstance(each, int) else -1 for each in shape]
        fits = fixed == [-1] or (prod(fixed) == size if -1 not in fixed else len(fixed) == len(observation.shape))
        if not fits:
            raise OptionError(
                f"{where} has shape (B, {', '.join(map(str, shape))}), but the sensor {observation.shape}"
            )
        final = observation.shape if -1 in fixed and len(fixed) > 1 else (size,) if -1 in fixed else tuple(fixed)
        return observation, (n_envs, *final), _DTYPES[given.type]

    def get_action(self, observation: dict[str, Any]) -> np.ndarray:
        """Return the first output of the file for the current observation, (B, n)."""
        values: dict[str, np.ndarray] = {
            name: np.ascontiguousarray(source.read(observation).reshape(shape), dtype)
            for name, (source, shape, dtype) in self._inputs.items()
        }
        action = np.asarray(self._session.run(None, values)[0], np.float64)
        wanted = self.task.n_envs, self.task.robot.n_actions
        if action.size != prod(wanted):
            raise OptionError(f"policy: the first output of {self._path} has shape {action.shape} instead of {wanted}")
        return action.reshape(wanted)


class _Observation(Protocol):
    """An observation that an input can name."""

    shape: tuple[int, ...]
    """Shape of one env."""

    def read(self, observation: Mapping[str, Any]) -> np.ndarray:
        """Return its value in an observation of all envs, (B, *shape)."""


class _TensorObservation:
    """An observation of the actor of a tensor task, whose current value is read.

    Args:
        shape: shape of one env.
        read: returns the value, (B, *shape).
    """

    def __init__(self, shape: Sequence[int], read: Callable[[], torch.Tensor]) -> None:
        self.shape, self._read = tuple(shape), read

    def read(self, observation: Mapping[str, Any]) -> np.ndarray:
        """Return the value after the last step, like that of the suite, (B, *shape)."""
        return np.asarray(self._read().numpy())


class _SuiteObservation:
    """One observation as ``TorchDataset`` gives it.

    Args:
        uuid: the sensor.
        parts: keys of its arrays in the reading, and their shapes; several are concatenated.
        is_image: whether it is an image with channels, which come first.
    """

    def __init__(self, uuid: str, parts: Sequence[tuple[Keys, tuple[int, ...]]], is_image: bool = False) -> None:
        self._uuid, self._keys, self._is_image = uuid, [keys for keys, _ in parts], is_image
        shape = parts[0][1] if len(parts) == 1 else (sum(prod(each) for _, each in parts),)
        self.shape = (shape[-1], *shape[:-1]) if is_image else shape

    def read(self, observation: Mapping[str, Any]) -> np.ndarray:
        """Return its value in an observation of all envs, (B, *shape)."""
        arrays = []
        for keys in self._keys:
            value = observation[self._uuid]
            for key in keys:
                value = value[key]
            arrays.append(np.asarray(value))
        if len(arrays) > 1:
            return np.concatenate([each.reshape(len(each), -1) for each in arrays], axis=1)
        return np.moveaxis(arrays[0], -1, 1) if self._is_image else arrays[0]


def _image(task: TensorTask[Any], name: str) -> torch.Tensor:
    return task.images()[name]


def _observations(task: Task[Any] | TensorEpisodes) -> dict[str, _Observation]:
    """Return what a file can name, by name."""
    found: dict[str, _Observation] = {}
    if isinstance(task, TensorEpisodes):
        tensors = task.task
        found[_ACTOR] = _TensorObservation(tensors.groups()["actor"].shape[1:], lambda: tensors.groups()["actor"])
        for name in tensors.config.observe_cameras:
            width, height = tensors.cameras[name].options.resolution
            image = f"image_{name}"
            found[image] = _TensorObservation((3, height, width), partial(_image, tensors, image))
    bases = {name for name, group in task.robot.groups.items() if group.description.kind == "base"}
    for uuid, sensor in (task.suite or {}).items():
        if sensor.is_dict:
            continue
        parts = [(keys, tuple(box.shape)) for keys, box in boxes_of(sensor.space)]
        for keys, shape in parts:
            found[dotted("/".join((uuid, *keys)))] = _SuiteObservation(uuid, [(keys, shape)])
        if uuid in AGENT:  # the groups in the robot's order, which the space does not keep
            of_group = dict(parts)
            rest = [name for name in task.robot.groups if name not in bases] or list(task.robot.groups)
            parts = [((name,), of_group[name,]) for name in rest]
        if parts:
            found[dotted(uuid)] = _SuiteObservation(uuid, parts)
        for stream in image_streams(sensor):
            shape = tuple(stream.form.shape)
            found[dotted(stream.name)] = _SuiteObservation(uuid, [(stream.keys, shape)], len(shape) == 3)
    return found
