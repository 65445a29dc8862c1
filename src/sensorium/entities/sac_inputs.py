"""``NetworkInputs``: which observations the actor and the critics of a brain receive, and in which form."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any, NoReturn

import numpy as np
import torch
from gymnasium import spaces

from sensorium.entities.nesting import Rows, flat_space
from sensorium.entities.normalizer import MAX_NORMALIZED, RunningNormalizer
from sensorium.errors import OptionError, shorten
from sensorium.suites import BatchedDict
from sensorium.suites.observation import PRIVILEGED
from sensorium.suites.purposes import default_purpose

VECTOR = "vector"
"""Input of the networks that holds all observations that are not images."""
_MIN_PIXELS = 36
"""Minimum size of an image along its shorter side, pixels: the CNN needs it."""
_MAX_CHANNELS = 4
"""Maximum number of channels of a float image."""
_NUMBERS = "fiub"
"""Kinds of the dtypes of numbers."""
_FAR = 1e6
"""Value of infinite pixels, before they are scaled."""


class NetworkInputs:
    """The inputs of the networks of a brain: images, and all other observations as normalised vectors.

    Inputs whose names begin with "privileged/" are for the critics only.

    Args:
        observation_space: space of one env, a Dict of Boxes that may nest.
        privileged: patterns of further keys of the space that are for the critics only.
        device: device of the networks.

    Attributes:
        boxes: dotted name -> box of each observation.
        actor_names: names of the observations that the actor receives.
        float_images: names of the images of floats, for example depth.
        normalizers: input -> its normaliser.
        space: space of the inputs; images have the shape (C, H, W).

    Raises:
        OptionError: the space is not that of one env, or holds images that the networks cannot receive.
    """

    def __init__(self, observation_space: spaces.Dict, privileged: Sequence[str], device: torch.device) -> None:
        _check_space(observation_space)
        self._device = device
        self.boxes = flat_space(observation_space)
        keys = {name: key for key, space in observation_space.spaces.items() for name in flat_space(space, key)}
        images = [name for name, box in self.boxes.items() if _is_image(name, box)]
        truth = [name for name, key in keys.items() if _is_privileged(key, privileged)]
        self.actor_names = [name for name in self.boxes if name not in truth]
        self.float_images = [name for name in images if self.boxes[name].dtype != np.uint8]
        if not self.actor_names:
            raise OptionError(
                f"observation_space has nothing that the actor may observe, only privileged {shorten(truth)}; give "
                "the entity sensors"
            )
        self._images: dict[str, str] = {}
        self._vectors: dict[str, list[str]] = {}
        inputs: list[tuple[str, spaces.Box]] = []
        self.normalizers: dict[str, RunningNormalizer] = {}
        for prefix, names in (("", self.actor_names), (PRIVILEGED, truth)):
            for name in (name for name in names if name in images):
                key = prefix + name.removeprefix(prefix).replace(".", "_")
                self._images[key] = name
                inputs.append((key, _image_space(self.boxes[name])))
            vectors = [name for name in names if name not in images]
            width = sum(int(np.prod(self.boxes[name].shape)) for name in vectors)
            if width:
                key = prefix + VECTOR
                self._vectors[key] = vectors
                self.normalizers[key] = RunningNormalizer(width, device)
                inputs.append((key, spaces.Box(-MAX_NORMALIZED, MAX_NORMALIZED, (width,), np.float32)))
        self.space = spaces.Dict(inputs)  # type: ignore[arg-type]

    def of_actor(self, observation: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
        """Return the inputs of the actor, from the observations of B envs by dotted name."""
        return self._of(observation, [key for key in self.space.spaces if not key.startswith(PRIVILEGED)])

    def of_all(self, observation: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
        """Return the inputs of actor and critics, from the observations of B envs by dotted name."""
        return self._of(observation, list(self.space.spaces))

    def _of(self, observation: Mapping[str, torch.Tensor], keys: Sequence[str]) -> dict[str, torch.Tensor]:
        inputs: dict[str, torch.Tensor] = {}
        for key in keys:
            if key in self._images:
                inputs[key] = self._image(observation[self._images[key]].to(self._device))
            else:
                flat = torch.cat([observation[name].flatten(1) for name in self._vectors[key]], dim=1)
                inputs[key] = self.normalizers[key].normalize(flat)
        return inputs

    @staticmethod
    def _image(image: torch.Tensor) -> torch.Tensor:
        """Return images as (B, C, H, W). A float value x, for example a depth in metres, becomes x / (1 + |x|)."""
        if image.ndim == 3:
            image = image[..., None]
        if image.dtype != torch.uint8:
            image = torch.nn.functional.softsign(image.float().nan_to_num(nan=0.0, posinf=_FAR, neginf=-_FAR))
        return image.permute(0, 3, 1, 2)

    def observe(self, observation: Mapping[str, Rows]) -> None:
        """Update the running mean and standard deviation of the vectors with the observations of B envs."""
        try:
            vectors = {key: self._vector(key, observation) for key in self._vectors}
            for name in self._images.values():
                if observation[name].shape[1:] != self.boxes[name].shape:
                    raise ValueError(name)
        except (LookupError, TypeError, ValueError, RuntimeError) as error:
            self.refuse(observation, list(self.boxes), error)
        for key, vector in vectors.items():  # once all of them are known to fit
            if isinstance(vector, torch.Tensor):
                self.normalizers[key].update_tensors(vector)
            else:
                self.normalizers[key].update(vector)

    def _vector(self, key: str, observation: Mapping[str, Rows]) -> Rows:
        """Return the observations of an input as one vector (B, k) of numbers."""
        values = [observation[name].reshape(len(observation[name]), -1) for name in self._vectors[key]]
        tensors = [value for value in values if isinstance(value, torch.Tensor)]
        vector: Rows
        if len(tensors) == len(values):
            vector = torch.cat(tensors, dim=1)
        else:
            vector = np.concatenate([np.asarray(value) for value in values], axis=1)
            if vector.dtype.kind not in _NUMBERS:
                raise TypeError(vector.dtype)
        if vector.shape[1:] != self.space.spaces[key].shape:
            raise ValueError(vector.shape)
        return vector

    def refuse(self, observation: Mapping[str, Rows], names: Sequence[str], error: Exception) -> NoReturn:
        """Raise an error that says which observation of several envs caused an error.

        Args:
            observation: by dotted name.
            names: names of the observations that are needed.
            error: the error, which is raised again if it has another cause and is no wrong value.

        Raises:
            OptionError: an observation is missing, or has another shape or type.
        """
        rows: dict[str, int] = {}
        for name in names:
            box = self.boxes[name]
            if name not in observation:
                raise OptionError(f"the observation lacks {name!r}; it has {shorten(observation)}") from error
            value = observation[name]
            if isinstance(value, np.ndarray) and value.dtype.kind not in _NUMBERS:
                raise OptionError(f"the observation {name!r} must be numbers, got {value!r:.80}") from error
            shape = tuple(value.shape)
            if not shape or shape[1:] != box.shape:
                one, several = "; use decide for one env", "; use decide_batch for several envs"
                hint = one if shape == box.shape else several if shape[2:] == box.shape else ""
                raise OptionError(f"{name!r} must have shape {box.shape} in each env, got {shape[1:]}{hint}") from error
            rows[name] = len(value)
        if len(set(rows.values())) > 1:
            raise OptionError(f"the observations must have the same number of envs, got {rows}") from error
        if isinstance(error, RuntimeError):  # for example too little memory
            raise error
        raise OptionError(f"the observation cannot be used: {error}") from error


def _check_space(space: spaces.Space[Any]) -> None:
    if isinstance(space, BatchedDict):
        raise OptionError(
            f"observation_space must be the space of one env, got the space of {space.n_envs} envs; pass "
            "entity.observation_space or suite.single_space"
        )
    if not isinstance(space, spaces.Dict):
        raise OptionError(
            f"observation_space must be a Dict of Boxes, got {space}; pass spaces.Dict({{'camera': space}})"
        )
    if not space.spaces:
        raise OptionError("observation_space is empty: the entity has no sensors; give it some")


def _is_privileged(key: str, patterns: Sequence[str]) -> bool:
    return default_purpose(key) == "privileged" or any(fnmatchcase(key, pattern) for pattern in patterns)


def _is_image(name: str, box: spaces.Box) -> bool:
    """Return whether an observation goes through a CNN.

    Images are uint8 (H, W, C), and floats of at least 36 x 36 pixels: (H, W, C) with at most 4 channels, or (H, W) if
    it is named "depth". Smaller floats, such as the 8 x 8 zones of a range sensor, are vectors.

    Raises:
        OptionError: it is an image that the networks cannot receive.
    """
    shape, is_float = box.shape, box.dtype is not None and box.dtype.kind == "f"
    is_depth = is_float and name.rpartition(".")[2] == "depth"
    n_axes = len(shape)
    if n_axes > 3 or (is_depth and n_axes == 3 and shape[2] != 1):
        raise OptionError(
            f"{name} has the shape {shape}, which is not one image: pass the space of one env "
            "(entity.observation_space or suite.single_space), and set the camera's history_length to 0"
        )
    if n_axes == 3 and box.dtype == np.uint8:
        height, width = shape[:2]
        if min(height, width) < _MIN_PIXELS:
            raise OptionError(
                f"{name} has {width} x {height} pixels, and the network needs at least {_MIN_PIXELS} x "
                f"{_MIN_PIXELS}; raise the camera's resolution"
            )
        return True
    if n_axes < 2 or min(shape[:2]) < _MIN_PIXELS:
        return False
    if n_axes == 3 and not is_float:
        raise OptionError(
            f"{name} is an image of {box.dtype}, and the network needs uint8 or float; remove it from the camera's "
            "outputs"
        )
    return (is_depth and n_axes == 2) or (n_axes == 3 and shape[2] <= _MAX_CHANNELS)


def _image_space(box: spaces.Box) -> spaces.Box:
    """Return the space of :meth:`NetworkInputs._image` for one env."""
    height, width, channels = box.shape if len(box.shape) == 3 else (*box.shape, 1)
    if box.dtype == np.uint8:
        return spaces.Box(0, 255, (channels, height, width), np.uint8)
    return spaces.Box(-1.0, 1.0, (channels, height, width), np.float32)
