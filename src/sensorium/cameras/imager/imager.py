"""``Imager``: the lens, imager and compression of one camera, on the images of all envs, as its profile says."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
import warp as wp

from sensorium.cameras.imager import kernels
from sensorium.cameras.imager.lens import NO_MARGINS, Intrinsics, Margins, make_map
from sensorium.cameras.imager.profile import CameraProfile
from sensorium.cameras.imager.snippets import LANES, LINEAR_STEPS, MOST, NO_PIXEL
from sensorium.cameras.tone import decode_srgb
from sensorium.errors import OptionError
from sensorium.pipeline import formula
from sensorium.worlds import Envs, env_index

Tensor = torch.Tensor

_RGB, _DEPTH = 0, 1
"""Elements whose keys the noise of colour and of depth draws with."""
_PIXELS_AT_ONCE = 1 << 22
"""Pixels of maps that are made at a time: float64 temporaries are ten times as large."""
_KEPT_ARRAYS = 64
_FILL = {"depth": math.inf, "normals": 0.0, "points": math.nan}
"""What pixels that show nothing hold; ids: -1."""

_LUMA = (
    (16, 11, 10, 16, 24, 40, 51, 61),
    (12, 12, 14, 19, 26, 58, 60, 55),
    (14, 13, 16, 24, 40, 57, 69, 56),
    (14, 17, 22, 29, 51, 87, 80, 62),
    (18, 22, 37, 56, 68, 109, 103, 77),
    (24, 35, 55, 64, 81, 104, 113, 92),
    (49, 64, 78, 87, 103, 121, 120, 101),
    (72, 92, 95, 98, 112, 100, 103, 99),
)
_CHROMA = (
    (17, 18, 24, 47, 99, 99, 99, 99),
    (18, 21, 26, 66, 99, 99, 99, 99),
    (24, 26, 56, 99, 99, 99, 99, 99),
    (47, 66, 99, 99, 99, 99, 99, 99),
    *(((99,) * 8,) * 4),
)
"""Quantisation tables K.1 and K.2 of the JPEG standard."""


class Imager:
    """What a camera measures of what a renderer shows.

    Args:
        profile: the camera.
        width: pixels of a row of the measured images.
        height: rows of them.
        outputs: what is measured, e.g. ("rgb", "depth"); memory for others is allocated at their first use.
        intrinsics: of the measured images, each (B,) on ``device``. They may change in place: what torch changes is
            noticed at the next :meth:`apply`; after others' changes call :meth:`refresh`.
        n_envs: B.
        seed: of the scene.
        uuid: of the camera; with the seed and an env's number it fixes all noise.
        device: where the images are.
        margins: pixels by which the images of the renderer are larger than the measured ones, see
            :meth:`CameraProfile.overscan`; their intrinsics are the same but for the principal point.

    Images are (B, H, W, 3) uint8 "rgb", (B, H, W) float32 "depth", and (B, H, W) or (B, H, W, C) int32 or float32
    others. No call allocates memory in the steady state, none looks at the device's values unless intrinsics changed.
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
        self._given = Intrinsics(*intrinsics)
        self._moved = profile.distorts or any(profile.chromatic_aberration)
        self._plain = not self._moved and not any(margins)
        self._colored = bool(
            profile.exposure or profile.vignette or profile.full_well is not None or profile.gains != (1.0, 1.0, 1.0)
        )
        self._everyone = torch.ones(n_envs, dtype=torch.bool, device=self._device)
        self._mask = torch.zeros_like(self._everyone)
        self._step = torch.zeros(1, dtype=torch.int32, device=self._device)
        self._intrinsics = torch.zeros(n_envs, 4, device=self._device)
        self._map = torch.zeros(1, device=self._device)
        self._tables = [torch.from_numpy(table).to(self._device) for table in (*_srgb_tables(), _reciprocals())]
        self._arrays: dict[tuple[int, int, torch.dtype], Any] = {}
        self._frames = [self._frame(mask, seed, uuid) for mask in (self._everyone, self._mask)]
        self._depth = _depth_struct(profile, seed, uuid)
        self._codes = kernels.Codes()
        self._codes.guess, self._codes.thresholds = (_flat(table) for table in self._tables[1:3])
        self._jpegs = [self._jpeg(mask) for mask in (self._everyone, self._mask)] if profile.jpeg_quality else []
        self._planes: Tensor | None = None
        self._shadow: Tensor | None = None
        self._sum: Tensor | None = None
        self._no_shadow = torch.zeros(1, dtype=torch.int32, device=self._device)
        if "rgb" in outputs and self._jpegs:
            self._allocate_planes()
        if "depth" in outputs and profile.stereo_shadow:
            self._allocate_shadow()
        self.refresh()

    # -- what the camera calls ----------------------------------------------------------------------------------------

    def apply(
        self, truth: Mapping[str, Tensor], out: Mapping[str, Tensor], step: int | Tensor, envs: Envs = None
    ) -> None:
        """Fill ``out`` with what is measured of ``truth``.

        Args:
            truth: images of the renderer, by output; at least those of ``out``. Depth is inf where nothing was hit.
            out: images to fill.
            step: steps since build, as a number or as one element on the device; noise depends on it.
            envs: which envs, None for all; the images of others are left alone.
        """
        self._notice()
        if isinstance(step, Tensor):
            self._step.copy_(step.reshape(1))
        else:
            self._step.fill_(step)
        part = 0 if envs is None else 1
        if envs is not None:
            self._select(envs)
        for name, target in out.items():
            source = truth[name]
            if not self._plain and source.data_ptr() == target.data_ptr():
                raise OptionError(f"{name}: a lens cannot work in place; give another tensor to fill")
            if name == "rgb":
                self._color(source, target, part)
            elif name == "depth" and self.profile.measures_depth:
                self._range(source, target, part)
            else:
                self._move(name, source, target, part)

    def expose(self, frame: Tensor, weights: Tensor, first: bool, envs: Envs = None) -> None:
        """Let an "rgb" image of the renderer act while the shutter is open; :meth:`develop` ends the exposure.

        Args:
            frame: as large as images of the renderer.
            weights: share that it has in each row, (height of the frame,) float32; over all frames they sum to 1.
            first: whether it is the first of this exposure.
            envs: which envs, None for all.
        """
        if self._sum is None or self._sum.numel() != frame.numel():
            self._sum = torch.empty(frame.numel(), dtype=torch.float32, device=self._device)
        decode, light = self._array(self._tables[0]), self._array(self._sum)
        mask = self._masked(envs)
        self._by_rows(kernels.accumulate, frame, self._array(frame), decode, mask, self._array(weights), light, first)

    def develop(self, out: Tensor, envs: Envs = None) -> None:
        """The image, in ``out``, of what was exposed: the average of the frames in linear light."""
        assert self._sum is not None
        mask = self._masked(envs)
        self._by_rows(kernels.develop, out, self._codes, mask, self._array(self._sum), self._array(out))

    def _masked(self, envs: Envs) -> Any:
        if envs is None:
            return self._array(self._everyone)
        self._select(envs)
        return self._array(self._mask)

    def _by_rows(self, kernel: Any, image: Tensor, *inputs: Any) -> None:
        """On the CPU a thread does a row, on a GPU a value."""
        height, length = image.shape[1], image[0, 0].numel()
        many = 1 if self._device.type == "cuda" else length
        self._launch(kernel, image.numel() // many, *inputs, many, length, height)

    @property
    def n_bytes(self) -> int:
        """Memory that it takes: maps of the lens, and what stages need between them."""
        own = (self._map, self._planes, self._shadow, self._sum)
        return sum(tensor.numel() * tensor.element_size() for tensor in own if tensor is not None)

    def refresh(self) -> None:
        """Take the intrinsics as they are now. Makes the lens' maps anew: one, or one an env where they differ."""
        self._versions = self._current_versions()
        fx, fy, cx, cy = (value.to(self._device).expand(self._n_envs) for value in self._given)
        shift_x, shift_y = self.margins.left - 0.5, self.margins.top - 0.5
        self._intrinsics.copy_(torch.stack([fx, fy, cx + shift_x, cy + shift_y], 1))
        if not (self._moved or self.profile.vignette):
            return
        shared = all(bool((value == value[0]).all()) for value in (fx, fy, cx, cy))
        many = 1 if shared else self._n_envs
        (width, height), left = self._size, self.margins
        if self._map.shape[0] != many or self._map.dim() != 4:
            self._map = torch.empty(many, height, width, 3, device=self._device)
        at_once = max(1, _PIXELS_AT_ONCE // (width * height))
        source = (width + left.left + left.right, height + left.top + left.bottom, left)
        for first in range(0, many, at_once):
            rows = slice(first, min(first + at_once, many))
            chosen = Intrinsics(fx[rows], fy[rows], cx[rows], cy[rows])
            self._map[rows] = make_map(self.profile, chosen, self._size, source)
        for frame in self._frames:
            frame.map, frame.map_stride = _flat(self._map), 0 if shared else self._map[0].numel()

    # -- stages -------------------------------------------------------------------------------------------------------

    def _color(self, source: Tensor, target: Tensor, part: int) -> None:
        if not self._plain or self._colored or (part and source.data_ptr() != target.data_ptr()):
            self._launch(kernels.color, self._dim(), self._frames[part], self._array(source), self._array(target))
        elif source.data_ptr() != target.data_ptr():
            target.copy_(source)
        if self._jpegs:
            (width, height), jpeg = self._size, self._jpegs[part]
            planes, image = self._array(self._allocate_planes()), self._array(target)
            self._launch(kernels.compress, (self._n_envs, self._n_blocks()), jpeg, image, planes)
            self._launch(kernels.expand, (self._n_envs * height, -(-width // 8)), jpeg, planes, image)

    def _range(self, source: Tensor, target: Tensor, part: int) -> None:
        frame, images = self._frames[part], self._array(source)
        shadow = self._array(self._no_shadow)
        if self.profile.stereo_shadow:
            seen = self._allocate_shadow()
            seen.fill_(NO_PIXEL)
            shadow = self._array(seen)
            dim = (self._n_envs * frame.source_height, frame.source_width)
            self._launch(kernels.cast_shadow, dim, frame, self._depth, images, shadow)
        self._launch(kernels.depth, self._dim(), frame, self._depth, images, shadow, self._array(target))

    def _move(self, name: str, source: Tensor, target: Tensor, part: int) -> None:
        if self._plain and source.data_ptr() == target.data_ptr():
            return
        if self._plain and not part:
            target.copy_(source)
            return
        width, height = self._size
        components = target.numel() // (self._n_envs * width * height)
        fill = int(np.float32(_FILL[name]).view(np.int32)) if name in _FILL else -1
        words = [self._array(tensor.view(torch.int32)) for tensor in (source, target)]
        self._launch(kernels.move, self._dim(), self._frames[part], *words, components, fill)

    # -- memory -------------------------------------------------------------------------------------------------------

    def _allocate_planes(self) -> Tensor:
        if self._planes is None:
            self._planes = torch.empty(self._n_envs * self._n_blocks() * 64, dtype=torch.uint8, device=self._device)
        return self._planes

    def _allocate_shadow(self) -> Tensor:
        if self._shadow is None:
            frame = self._frames[0]
            size = self._n_envs * frame.source_height * frame.source_width
            self._shadow = torch.empty(size, dtype=torch.int32, device=self._device)
        return self._shadow

    def _n_blocks(self) -> int:
        width, height = self._size
        half = 2 if self.profile.jpeg_subsampling == "4:2:0" else 1
        luma, chroma = (math.ceil(width / 8 / n) * math.ceil(height / 8 / n) for n in (1, half))
        return luma + 2 * chroma

    def _frame(self, mask: Tensor, seed: int, uuid: str) -> Any:
        profile, (width, height), beyond = self.profile, self._size, self.margins
        frame = kernels.Frame()
        frame.mask, frame.step, frame.intrinsics = _flat(mask), _flat(self._step), _flat(self._intrinsics)
        frame.map, frame.map_stride = _flat(self._map), 0
        frame.decode, frame.guess, frame.thresholds, frame.reciprocal = (_flat(table) for table in self._tables)
        frame.width, frame.height, frame.left, frame.top = width, height, beyond.left, beyond.top
        frame.source_width = width + beyond.left + beyond.right
        frame.source_height = height + beyond.top + beyond.bottom
        frame.moved, frame.shaded = int(self._moved), int(profile.vignette > 0)
        frame.key0, frame.key1 = formula.key(seed, uuid, _RGB)
        frame.red, frame.blue = (1 / (1 + part) - 1 for part in profile.chromatic_aberration)  # of the source
        frame.exposure = 2.0**profile.exposure
        frame.gain_red, frame.gain_green, frame.gain_blue = profile.gains
        frame.noisy = int(profile.full_well is not None)
        if profile.full_well is not None:
            frame.electrons = profile.full_well * 100.0 / profile.iso
            frame.full_scale = 2.0**profile.bit_depth - 1
            frame.per_electron = frame.full_scale / frame.electrons
            frame.read_noise = profile.read_noise
        return frame

    def _jpeg(self, mask: Tensor) -> Any:
        quality = self.profile.jpeg_quality
        assert quality is not None
        scale = 5000 // quality if quality < 50 else 200 - 2 * quality
        tables = np.clip((np.array([_LUMA, _CHROMA]) * scale + 50) // 100, 1, 255).astype(np.float32)
        self._quantum = torch.from_numpy(tables).to(self._device)
        jpeg = kernels.Jpeg()
        jpeg.mask, jpeg.quantum = _flat(mask), _flat(self._quantum)
        jpeg.width, jpeg.height = self._size
        jpeg.half = int(self.profile.jpeg_subsampling == "4:2:0")
        return jpeg

    # -- helpers ------------------------------------------------------------------------------------------------------

    def _current_versions(self) -> tuple[int, ...]:
        return tuple(0 if value.is_inference() else value._version for value in self._given)

    def _notice(self) -> None:
        if self._current_versions() != self._versions:
            self.refresh()

    def _select(self, envs: Envs) -> None:
        if isinstance(envs, Tensor) and envs.dtype == torch.bool:
            self._mask.copy_(envs)
            return
        index = env_index(envs, self._n_envs, self._device)
        assert index is not None
        self._mask.zero_()
        self._mask[index] = True

    def _dim(self) -> tuple[int, int]:
        width, height = self._size
        return self._n_envs * height, width if self._device.type == "cuda" else -(-width // LANES)

    def _array(self, tensor: Tensor) -> Any:
        """The tensor's memory for kernels; those of images that come again and again are kept."""
        key = (tensor.data_ptr(), tensor.numel(), tensor.dtype)
        if key not in self._arrays:
            if len(self._arrays) >= _KEPT_ARRAYS:
                self._arrays.clear()
            self._arrays[key] = _flat(tensor)
        return self._arrays[key]

    def _launch(self, kernel: Any, dim: Any, *inputs: Any) -> None:
        stream = None
        if self._device.type == "cuda":  # in order with what torch does
            stream = wp.stream_from_torch(torch.cuda.current_stream(self._device))
        wp.launch(kernel, dim=dim, inputs=list(inputs), device=str(self._device), stream=stream)


def _depth_struct(profile: CameraProfile, seed: int, uuid: str) -> Any:
    depth = kernels.Depth()
    depth.noisy = int(any(profile.depth_noise) or profile.disparity_noise > 0)
    depth.shadowed, depth.edge_width = int(profile.stereo_shadow), profile.edge_width
    depth.key0, depth.key1 = formula.key(seed, uuid, _DEPTH)
    depth.constant, depth.linear, depth.square = profile.depth_noise
    for name in ("baseline", "disparity_noise", "disparity_step", "edge_dropout", "edge_threshold", "min_range"):
        setattr(depth, name, getattr(profile, name))
    depth.max_range = math.inf if profile.max_range is None else profile.max_range
    return depth


def _flat(tensor: Tensor) -> Any:
    """The tensor's memory as a flat Warp array, without a copy."""
    if not tensor.is_contiguous():
        raise OptionError(f"images must be contiguous, got shape {tuple(tensor.shape)}, strides {tensor.stride()}")
    return wp.from_torch(tensor.view(-1), dtype=wp.dtype_from_torch(tensor.dtype))


def _srgb_tables() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """sRGB to linear light (256,), linear light in steps to sRGB or one less, and where each next sRGB value begins."""
    codes = np.arange(256)
    begins = decode_srgb((codes + 0.5) / 255)
    # an entry is for the least light of its cell, and the light's cell may have been rounded up
    least = (np.arange(LINEAR_STEPS + 1) - 0.01) / LINEAR_STEPS
    guess = np.searchsorted(begins, least, side="right").clip(0, 255)
    begins[255] = 2.0
    return decode_srgb(codes / 255).astype(np.float32), guess.astype(np.uint8), begins.astype(np.float32)


def _reciprocals() -> np.ndarray:
    """1 / i for electron counts i; that of 0 is not used."""
    return (1 / np.maximum(np.arange(MOST + 1), 1)).astype(np.float32)
