"""Shutters that take their time: motion blur and rolling shutters, from frames of the world a little while ago."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from sensorium.cameras.imager.motion import Motion
from sensorium.cameras.renderer import CameraView

_BLUR = 8
"""Sub-frames of motion blur, where the profile says nothing."""

Images = dict[str, torch.Tensor]


class Shutter:
    """When the rows of an image are exposed, and which frames that takes.

    With ages in seconds before now, a row is exposed from ``age`` + ``exposure`` to ``age``, where ``age`` falls from
    ``rolling`` in the first row to 0 in the last. Frames are evenly spaced over all of that, and rows share them: each
    takes the part that lies in its exposure, or the nearest where there is none.

    Args:
        exposure: seconds that the shutter is open.
        rolling: seconds from the first row to the last.
        blurs: frames for the exposure; 1 for as many as are usual.
        rolls: frames for the rolling shutter.

    Attributes:
        ages: of the frames, the first of which is now.
    """

    def __init__(self, exposure: float, rolling: float, blurs: int, rolls: int) -> None:
        self.exposure, self.rolling = exposure, rolling
        count = (rolls if rolling else 1) + ((blurs if blurs > 1 else _BLUR) if exposure else 1) - 1
        self.step = (exposure + rolling) / (count - 1)
        self.ages = [number * self.step for number in range(count)]

    def weights(self, height: int) -> torch.Tensor:
        """Share of each frame in each row, (frames, height) float32."""
        age = self._age(height)[None]
        if not self.exposure:
            return torch.nn.functional.one_hot(self.nearest(height), len(self.ages)).T.float().contiguous()
        middle = torch.tensor(self.ages, dtype=torch.float64)[:, None]
        start, end = (middle - self.step / 2).maximum(age), (middle + self.step / 2).minimum(age + self.exposure)
        return ((end - start).clamp(min=0) / self.exposure).float().contiguous()

    def nearest(self, height: int) -> torch.Tensor:
        """Number of the frame nearest to the end of each row's exposure, (height,)."""
        return torch.floor(self._age(height) / self.step + 0.5 + 1e-9).long()

    def _age(self, height: int) -> torch.Tensor:
        return self.rolling * (1 - torch.arange(height, dtype=torch.float64) / max(height - 1, 1))


class Exposure:
    """The images of one camera through its shutter.

    Colour is the average over each row's exposure, in linear light; other outputs are those of its end, which is now
    unless the shutter rolls and is theirs as well. Frames are drawn into memory of their own: what was rendered of the
    world as it is now stays.

    Args:
        shutter: of the camera.
        motion: positions of the last steps, as far back as the shutter reaches.
        imager: that of the camera, which adds up light.
        view: of the camera.
        rendered: output -> (B, H, W, ...) as rendered, with margins.
        rolls_all: whether a rolling shutter is that of all outputs, rather than of "rgb" alone.
    """

    def __init__(
        self, shutter: Shutter, motion: Motion, imager: Any, view: CameraView, rendered: Images, rolls_all: bool
    ) -> None:
        self._shutter, self._motion, self._imager, self._view, self._rendered = shutter, motion, imager, view, rendered
        late = [name for name in rendered if name == "rgb" or (shutter.rolling and rolls_all)]
        caches = view.caches if late != ["rgb"] else {"rgb": view.caches["rgb"]}
        self._caches = {name: torch.zeros_like(image) for name, image in caches.items()} if late else {}
        self._frame = {
            name: self._caches[name] if name in self._caches else torch.zeros_like(rendered[name]) for name in late
        }
        self._exposed = {name: torch.zeros_like(rendered[name]) for name in late}
        self._weights = shutter.weights(view.height).to(view.fx.device)
        nearest = shutter.nearest(view.height)
        self._rows = [(nearest == number).nonzero().flatten().tolist() for number in range(len(shutter.ages))]

    @property
    def n_bytes(self) -> int:
        """Memory that it takes."""
        own = (*self._caches.values(), *self._frame.values(), *self._exposed.values())
        return sum({image.data_ptr(): image.numel() * image.element_size() for image in own}.values())

    def take(
        self, envs: torch.Tensor | None, redraw: Callable[[], None], derive: Callable[[Images, Images], None]
    ) -> Images:
        """What the shutter lets through in these envs (None: all).

        Args:
            envs: ids.
            redraw: draws the camera's view of the world as it is put back, into the caches of its view.
            derive: fills images, the second argument, with what follows from caches, the first.
        """
        if not self._exposed:
            return self._rendered
        self._motion.check()
        self._gather(0, self._rendered, envs)
        kept = self._view.caches
        self._view.caches = self._caches
        try:
            for number, age in enumerate(self._shutter.ages[1:], 1):
                with self._motion.ago(age):
                    redraw()
                    derive(self._caches, self._frame)
                self._gather(number, self._frame, envs)
        finally:
            self._view.caches = kept
        if "rgb" in self._exposed:
            self._imager.develop(self._exposed["rgb"], envs)
        return {**self._rendered, **self._exposed}

    def _gather(self, number: int, frame: Images, envs: torch.Tensor | None) -> None:
        """Take of a frame what it has in the rows."""
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
