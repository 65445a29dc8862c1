"""``Imager``: applies the lens, image sensor and compression of a profile to the images of one camera."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
import torch
import warp as wp

from sensorium.cameras.imager import kernels
from sensorium.cameras.imager.launcher import make_launcher
from sensorium.cameras.imager.lens import NO_MARGINS, Intrinsics, Margins, make_map
from sensorium.cameras.imager.parameters import (
    Tables,
    count_blocks,
    depth_params,
    flatten,
    image_params,
    jpeg_params,
    moves_pixels,
    quantisation_table,
)
from sensorium.cameras.imager.profile import CameraProfile
from sensorium.cameras.imager.snippets.depth import NO_SURFACE
from sensorium.errors import OptionError
from sensorium.worlds import Envs, env_index

Tensor = torch.Tensor

_PIXELS_AT_ONCE = 1 << 22
"""Pixels of lens maps that are computed at a time, because their float64 temporaries are ten times as large."""
_MAX_ARRAYS = 64
"""Maximum number of Warp arrays to keep for images."""
_FILL = {"depth": math.inf, "normals": 0.0, "points": math.nan}
"""Value of pixels that show nothing, by output; -1 for ids."""


class _Selection(NamedTuple):
    """A mask of envs, and the kernel parameters that contain it."""

    mask: Tensor
    image: kernels.ImageParams
    jpeg: kernels.JpegParams | None


class Imager:
    """Computes what a camera measures from what a renderer draws.

    Args:
        profile: the camera profile.
        width: width of the measured images, pixels.
        height: height of the measured images, pixels.
        outputs: outputs to measure, e.g. ("rgb", "depth"); memory for others is allocated at their first use.
        intrinsics: intrinsics of the measured images, each (B,) on ``device``. They may change in place. Changes by
            torch are noticed at the next :meth:`apply`; after other changes call :meth:`refresh`.
        n_envs: number of envs, B.
        seed: seed of the scene.
        uuid: name of the camera; noise depends on it, on the seed, and on the env.
        device: device of the images.
        margins: overscan margins: pixels by which rendered images exceed the measured ones, see
            :meth:`CameraProfile.overscan`. Their intrinsics are the same except for the principal point.

    Images are (B, H, W, 3) uint8 for "rgb", (B, H, W) float32 for "depth", and (B, H, W) or (B, H, W, C) int32 or
    float32 for others. In the steady state, no call allocates memory. No call reads values from the device, unless
    intrinsics have changed.
    """

    def __init__(
        self,
        profile: CameraProfile,
        width: int,
        height: int,
        outputs: Sequence[str],
        intrinsics: Intrinsics,
        n_envs: int,
        seed: int,
        uuid: str,
        device: torch.device | str,
        margins: Margins = NO_MARGINS,
    ) -> None:
        self.profile = profile
        self.margins = margins
        self._size, self._n_envs, self._device = (width, height), n_envs, torch.device(device)
        self._launcher = make_launcher(self._device)
        self._given_intrinsics = Intrinsics(*intrinsics)
        self._moves_pixels = moves_pixels(profile)
        self._keeps_positions = not self._moves_pixels and not any(margins)
        self._changes_colour = bool(
            profile.exposure or profile.vignette or profile.full_well is not None or profile.gains != (1.0, 1.0, 1.0)
        )
        self._draw = torch.zeros(n_envs, 2, dtype=torch.int32, device=self._device)
        self._intrinsics = torch.zeros(n_envs, 4, device=self._device)
        self._map = torch.zeros(1, device=self._device)
        self._tables = Tables(self._device)
        self._arrays: dict[tuple[int, int, torch.dtype], wp.array] = {}
        self._quantum: Tensor | None = None
        if profile.jpeg_quality:
            self._quantum = quantisation_table(profile.jpeg_quality).to(self._device)
        all_envs = torch.ones(n_envs, dtype=torch.bool, device=self._device)
        self._all = self._make_selection(all_envs, seed, uuid)
        self._some = self._make_selection(torch.zeros_like(all_envs), seed, uuid)
        self._depth_params = depth_params(profile, seed, uuid)
        self._srgb = kernels.SrgbTables()
        self._srgb.guess, self._srgb.thresholds = flatten(self._tables.guess), flatten(self._tables.thresholds)
        self._planes: Tensor | None = None
        self._shadow: Tensor | None = None
        self._sum: Tensor | None = None
        self._no_shadow = torch.zeros(1, dtype=torch.int32, device=self._device)
        if "rgb" in outputs and profile.jpeg_quality:
            self._allocate_planes()
        if "depth" in outputs and profile.stereo_shadow:
            self._allocate_shadow()
        self.refresh()

    def _make_selection(self, mask: Tensor, seed: int, uuid: str) -> _Selection:
        image = image_params(self.profile, self._size, self.margins, self._tables, seed, uuid)
        image.mask, image.draw, image.intrinsics = flatten(mask), flatten(self._draw), flatten(self._intrinsics)
        image.map, image.map_stride = flatten(self._map), 0
        jpeg = None
        if self._quantum is not None:
            jpeg = jpeg_params(self.profile, self._size, self._quantum)
            jpeg.mask = flatten(mask)
        return _Selection(mask, image, jpeg)

    # -- what the camera calls ----------------------------------------------------------------------------------------

    def apply(
        self, truth: Mapping[str, Tensor], out: Mapping[str, Tensor], draw: int | Tensor, envs: Envs = None
    ) -> None:
        """Fill ``out`` with measured images.

        Args:
            truth: rendered images, by output; at least those of ``out``. Depth is inf if nothing was hit.
            out: images to fill.
            draw: what the noise depends on: ``group.draw``, (2, B) uint32, or a number, to which the env is added.
            envs: which envs; None for all. The images of other envs are not changed.

        Raises:
            OptionError: an image of ``out`` is the same memory as that of ``truth``, and the lens moves pixels.
        """
        if self._current_versions() != self._versions:
            self.refresh()
        if isinstance(draw, Tensor):
            self._draw.copy_(draw.view(torch.int32).T)
        else:
            self._draw[:, 0] = draw
            self._draw[:, 1] = torch.arange(self._n_envs, dtype=torch.int32, device=self._device)
        selection = self._select(envs)
        for name, target in out.items():
            source = truth[name]
            if not self._keeps_positions and source.data_ptr() == target.data_ptr():
                raise OptionError(f"{name}: the lens cannot be applied in place; pass another tensor to fill")
            if name == "rgb":
                self._apply_color(source, target, selection)
            elif name == "depth" and self.profile.measures_depth:
                self._apply_depth(source, target, selection)
            else:
                self._remap(name, source, target, selection)

    def expose(self, frame: Tensor, weights: Tensor, first: bool, envs: Envs = None) -> None:
        """Add a rendered "rgb" image to the current exposure; :meth:`develop` ends it.

        Args:
            frame: rendered image, with overscan margins.
            weights: weight of the frame in each row, (height of the frame,) float32; over all frames they sum to 1.
            first: whether it is the first frame of this exposure.
            envs: which envs; None for all.
        """
        if self._sum is None or self._sum.numel() != frame.numel():
            self._sum = torch.empty(frame.numel(), dtype=torch.float32, device=self._device)
        decode, light = self._array(self._tables.decode), self._array(self._sum)
        mask = self._array(self._select(envs).mask)
        inputs = (self._array(frame), decode, mask, self._array(weights), light, first)
        self._launch_rows(kernels.accumulate, frame, *inputs)

    def develop(self, out: Tensor, envs: Envs = None) -> None:
        """Fill ``out`` with the exposed image: the weighted average of the frames in linear light."""
        assert self._sum is not None
        mask = self._array(self._select(envs).mask)
        self._launch_rows(kernels.develop, out, self._srgb, mask, self._array(self._sum), self._array(out))

    @property
    def n_bytes(self) -> int:
        """Memory of lens maps and of intermediate results, bytes."""
        own = (self._map, self._planes, self._shadow, self._sum)
        return sum(tensor.numel() * tensor.element_size() for tensor in own if tensor is not None)

    def refresh(self) -> None:
        """Compute the lens maps from the current intrinsics: one map, or one per env if the intrinsics differ."""
        self._versions = self._current_versions()
        fx, fy, cx, cy = (value.to(self._device).expand(self._n_envs) for value in self._given_intrinsics)
        margins = self.margins
        shift_x, shift_y = margins.left - 0.5, margins.top - 0.5
        self._intrinsics.copy_(torch.stack([fx, fy, cx + shift_x, cy + shift_y], 1))
        if not (self._moves_pixels or self.profile.vignette):
            return
        shared = all(bool((value == value[0]).all()) for value in (fx, fy, cx, cy))
        n_maps = 1 if shared else self._n_envs
        width, height = self._size
        if self._map.shape[0] != n_maps or self._map.dim() != 4:
            self._map = torch.empty(n_maps, height, width, 3, device=self._device)
        at_once = max(1, _PIXELS_AT_ONCE // (width * height))
        source = (width + margins.left + margins.right, height + margins.top + margins.bottom, margins)
        for first in range(0, n_maps, at_once):
            rows = slice(first, min(first + at_once, n_maps))
            chosen = Intrinsics(fx[rows], fy[rows], cx[rows], cy[rows])
            self._map[rows] = make_map(self.profile, chosen, self._size, source)
        for params in (self._all.image, self._some.image):
            params.map, params.map_stride = flatten(self._map), 0 if shared else self._map[0].numel()

    # -- stages -------------------------------------------------------------------------------------------------------

    def _apply_color(self, source: Tensor, target: Tensor, selection: _Selection) -> None:
        in_place = source.data_ptr() == target.data_ptr()
        some = selection is self._some
        if not self._keeps_positions or self._changes_colour or (some and not in_place):
            inputs = (selection.image, self._array(source), self._array(target))
            self._launcher.launch(kernels.color, self._dim(), *inputs)
        elif not in_place:
            target.copy_(source)
        if selection.jpeg is not None:
            (width, height), n_blocks = self._size, count_blocks(self.profile, self._size)
            planes, image = self._array(self._allocate_planes()), self._array(target)
            self._launcher.launch(kernels.compress, (self._n_envs, n_blocks), selection.jpeg, image, planes)
            dim = (self._n_envs * height, -(-width // 8))
            self._launcher.launch(kernels.expand, dim, selection.jpeg, planes, image)

    def _apply_depth(self, source: Tensor, target: Tensor, selection: _Selection) -> None:
        params, images = selection.image, self._array(source)
        shadow = self._array(self._no_shadow)
        if self.profile.stereo_shadow:
            seen = self._allocate_shadow()
            seen.fill_(NO_SURFACE)
            shadow = self._array(seen)
            dim = (self._n_envs * params.source_height, params.source_width)
            self._launcher.launch(kernels.cast_shadow, dim, params, self._depth_params, images, shadow)
        inputs = (params, self._depth_params, images, shadow, self._array(target))
        self._launcher.launch(kernels.depth, self._dim(), *inputs)

    def _remap(self, name: str, source: Tensor, target: Tensor, selection: _Selection) -> None:
        """Apply the lens alone, without interpolation."""
        if self._keeps_positions and source.data_ptr() == target.data_ptr():
            return
        if self._keeps_positions and selection is self._all:
            target.copy_(source)
            return
        width, height = self._size
        components = target.numel() // (self._n_envs * width * height)
        fill = int(np.float32(_FILL[name]).view(np.int32)) if name in _FILL else -1
        words = [self._array(tensor.view(torch.int32)) for tensor in (source, target)]
        self._launcher.launch(kernels.remap, self._dim(), selection.image, *words, components, fill)

    # -- helpers ------------------------------------------------------------------------------------------------------

    def _allocate_planes(self) -> Tensor:
        if self._planes is None:
            size = self._n_envs * count_blocks(self.profile, self._size) * 64
            self._planes = torch.empty(size, dtype=torch.uint8, device=self._device)
        return self._planes

    def _allocate_shadow(self) -> Tensor:
        if self._shadow is None:
            params = self._all.image
            size = self._n_envs * params.source_height * params.source_width
            self._shadow = torch.empty(size, dtype=torch.int32, device=self._device)
        return self._shadow

    def _current_versions(self) -> tuple[int, ...]:
        """Return torch's versions of the intrinsics, which in-place changes increment; inference tensors have none."""
        return tuple(0 if value.is_inference() else value._version for value in self._given_intrinsics)

    def _select(self, envs: Envs) -> _Selection:
        if envs is None:
            return self._all
        mask = self._some.mask
        if isinstance(envs, Tensor) and envs.dtype == torch.bool:
            mask.copy_(envs)
        else:
            index = env_index(envs, self._n_envs, self._device)
            assert index is not None
            mask.zero_()
            mask[index] = True
        return self._some

    def _dim(self) -> tuple[int, int]:
        width, height = self._size
        return self._n_envs * height, self._launcher.chunks(width)

    def _launch_rows(self, kernel: wp.Kernel, image: Tensor, *inputs: object) -> None:
        """Launch a kernel over all values of an image (B, H, W, ...)."""
        height, length = image.shape[1], image[0, 0].numel()
        many = self._launcher.values_per_thread(length)
        self._launcher.launch(kernel, image.numel() // many, *inputs, many, length, height)

    def _array(self, tensor: Tensor) -> wp.array:
        """Return the tensor's memory for kernels, from a cache, since the same images come in every step."""
        key = (tensor.data_ptr(), tensor.numel(), tensor.dtype)
        if key not in self._arrays:
            if len(self._arrays) >= _MAX_ARRAYS:
                self._arrays.clear()
            self._arrays[key] = flatten(tensor)
        return self._arrays[key]
