"""Motion blur and rolling shutters, from sub-frames of recent states of the world."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import torch

from sensorium.cameras.imager.motion import Motion
from sensorium.cameras.renderer import CameraView

if TYPE_CHECKING:
    from sensorium.cameras.imager.imager import Imager

_DEFAULT_BLUR_FRAMES = 8
"""Sub-frames of motion blur if the profile sets none."""

ImageDict = dict[str, torch.Tensor]
"""Output -> (B, H, W, ...)."""


class Shutter:
    """When the rows of an image are exposed, and which sub-frames that needs.

    Ages are seconds before now. A row is exposed from ``age`` + ``exposure`` to ``age``, where ``age`` falls from
    ``rolling`` in the first row to 0 in the last. Sub-frames are evenly spaced over the whole time, and rows share
    them: each row takes the sub-frames within its exposure, weighted by their overlap, or the nearest one if the
    exposure is 0.

    Args:
        exposure: exposure time, s.
        rolling: time from the first row to the last, s.
        blur_frames: sub-frames for the exposure; 1 for the default number.
        rolling_frames: sub-frames for the rolling shutter.

    Attributes:
        ages: ages of the sub-frames; the first is 0.
    """

    def __init__(self, exposure: float, rolling: float, blur_frames: int, rolling_frames: int) -> None:
        self.exposure, self.rolling = exposure, rolling
        blur_count = (blur_frames if blur_frames > 1 else _DEFAULT_BLUR_FRAMES) if exposure else 1
        count = (rolling_frames if rolling else 1) + blur_count - 1
        self.step = (exposure + rolling) / (count - 1)
        self.ages = [number * self.step for number in range(count)]

    def weights(self, height: int) -> torch.Tensor:
        """Return the weight of each sub-frame in each row, (sub-frames, height) float32."""
        age = self._row_ages(height)[None]
        if not self.exposure:
            return torch.nn.functional.one_hot(self.nearest(height), len(self.ages)).T.float().contiguous()
        middle = torch.tensor(self.ages, dtype=torch.float64)[:, None]
        start, end = (middle - self.step / 2).maximum(age), (middle + self.step / 2).minimum(age + self.exposure)
        return ((end - start).clamp(min=0) / self.exposure).float().contiguous()

    def nearest(self, height: int) -> torch.Tensor:
        """Return the number of the sub-frame nearest to the end of each row's exposure, (height,)."""
        return torch.floor(self._row_ages(height) / self.step + 0.5 + 1e-9).long()

    def _row_ages(self, height: int) -> torch.Tensor:
        return self.rolling * (1 - torch.arange(height, dtype=torch.float64) / max(height - 1, 1))


class Exposure:
    """The images of one camera through its shutter.

    Colour is the average over each row's exposure, in linear light. Other outputs are those at the end of the exposure:
    now, or with a rolling shutter for all outputs, the age of the row. Sub-frames are rendered into separate memory,
    so the rendered images of the current state are kept. On a CPU, envs in which nothing
    moved have no sub-frames: all of them would be the rendered image.

    Args:
        shutter: shutter of the camera.
        motion: positions of the last steps, as far back as the shutter reaches.
        imager: imager of the camera, which averages colour.
        view: view of the camera.
        rendered: output -> (B, H, W, ...) rendered images, with overscan margins.
        rolls_all: whether the rolling shutter acts on all outputs, or on "rgb" only.
    """

    def __init__(
        self, shutter: Shutter, motion: Motion, imager: Imager, view: CameraView, rendered: ImageDict, rolls_all: bool
    ) -> None:
        self._shutter, self._motion, self._imager, self._view, self._rendered = shutter, motion, imager, view, rendered
        affected = [name for name in rendered if name == "rgb" or (shutter.rolling and rolls_all)]
        caches = view.caches if affected != ["rgb"] else {"rgb": view.caches["rgb"]}
        self._caches = {name: torch.zeros_like(image) for name, image in caches.items()} if affected else {}
        self._frame = {
            name: self._caches[name] if name in self._caches else torch.zeros_like(rendered[name]) for name in affected
        }
        self._exposed = {name: torch.zeros_like(rendered[name]) for name in affected}
        self._weights = shutter.weights(view.height).to(view.fx.device)
        nearest = shutter.nearest(view.height)
        self._rows = [(nearest == number).nonzero().flatten().tolist() for number in range(len(shutter.ages))]

    @property
    def n_sub_frames(self) -> int:
        """Number of renders for an image while anything moves."""
        return len(self._shutter.ages) if self._exposed else 1

    @property
    def n_bytes(self) -> int:
        """Memory of sub-frames and exposed images, bytes."""
        own = (*self._caches.values(), *self._frame.values(), *self._exposed.values())
        return sum({image.data_ptr(): image.numel() * image.element_size() for image in own}.values())

    def take(
        self,
        envs: torch.Tensor | None,
        redraw: Callable[[torch.Tensor | None], None],
        derive: Callable[[torch.Tensor | None, ImageDict, ImageDict], None],
    ) -> ImageDict:
        """Return the images that the shutter exposes in these envs.

        Args:
            envs: ids of the envs; None for all.
            redraw: renders the camera in the world's temporary state in some envs (None: all), into the caches of its
                view.
            derive: fills derived outputs of some envs in its third argument from the caches in its second.
        """
        if not self._exposed:
            return self._rendered
        self._motion.check_written()
        if self._motion.on_cpu:  # on a GPU the host would have to wait for the answer
            moved = self._motion.moved()
            moved = moved if envs is None else moved[envs]
            if not bool(moved.any()):
                return self._rendered
            if not bool(moved.all()):
                ids = torch.arange(len(moved)) if envs is None else envs
                for name, image in self._exposed.items():
                    image[ids[~moved]] = self._rendered[name][ids[~moved]]
                envs = ids[moved]
        self._gather(0, self._rendered, envs)
        kept = self._view.caches
        self._view.caches = self._caches
        try:
            for number, age in enumerate(self._shutter.ages[1:], 1):
                with self._motion.rewind(age):
                    redraw(envs)
                    derive(envs, self._caches, self._frame)
                self._gather(number, self._frame, envs)
        finally:
            self._view.caches = kept
        if "rgb" in self._exposed:
            self._imager.develop(self._exposed["rgb"], envs)
        return {**self._rendered, **self._exposed}

    def _gather(self, number: int, frame: ImageDict, envs: torch.Tensor | None) -> None:
        """Add a sub-frame to the exposed images, in the rows that it contributes to."""
        rows = self._rows[number]
        for name, image in self._exposed.items():
            if name == "rgb":
                self._imager.expose(frame[name], self._weights[number], number == 0, envs)
            elif rows:
                part = slice(rows[0], rows[-1] + 1)
                if envs is None:
                    image[:, part] = frame[name][:, part]
                else:
                    image[envs, part] = frame[name][envs, part]
