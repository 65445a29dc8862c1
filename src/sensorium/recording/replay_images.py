"""The images of a replay, by buffer, frame and env."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from sensorium.errors import NameNotFoundError, OptionError, did_you_mean, shorten
from sensorium.files import quote
from sensorium.options import checked_integer
from sensorium.recording.image_files import ImageHeader
from sensorium.recording.image_reader import read_image


class ReplayImages:
    """Reads the images in the folder of a replay.

    Args:
        folder: the folder.
        headers: dotted name of a buffer -> header.
        n_envs: number of envs.
    """

    def __init__(self, folder: Path, headers: dict[str, ImageHeader], n_envs: int) -> None:
        self._folder, self._headers, self._n_envs = folder, headers, n_envs

    def check(self, kind: str, name: str, env: int | None) -> str:
        """Return the dotted name of an image buffer.

        Args:
            kind: image kind, "rgb", "depth", ...
            name: dotted name of the buffer, or of its camera.
            env: number of an env, or None.

        Raises:
            NameNotFoundError: there is no such buffer.
            OptionError: there is no such env.
        """
        if not isinstance(name, str):
            raise OptionError(f"name must be the name of an image buffer or of a camera, got {name!r:.80}")
        full = next((each for each in (name, f"{name}.{kind}") if each in self._headers), None)
        known = [each for each, header in self._headers.items() if header["kind"] == kind]
        if full is None or full not in known:
            hint = did_you_mean(name, known) or f"; it has {shorten(known)}"
            advice = f"; render them with `sensorium replay {self._folder} --{kind}`" if not known else hint
            raise NameNotFoundError(f"{self._folder} has no {kind} images {name!r}{advice}")
        if env is not None:
            checked_integer("env", env, 0, self._n_envs - 1)
        return full

    def read(self, name: str, first: int, row: int, env: int | None) -> np.ndarray:
        """Return one frame, (B, H, W, ...), or (H, W, ...) of one env.

        Args:
            name: dotted name of the buffer.
            first: first frame of the file.
            row: number of the frame in the file.
            env: number of the env; None for all.

        Raises:
            DatasetError: the file is missing or damaged.
        """
        header = self._headers[name]
        folder = self._folder / header["kind"] / quote(name)
        envs = range(self._n_envs) if env is None else [env]
        frames = [read_image(folder / f"env{each:04d}" / f"{first:08d}", header, row) for each in envs]
        return np.stack(frames) if env is None else frames[0]
