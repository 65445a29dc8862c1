"""MuJoCo Warp's ray tracer, with cameras that the model knows nothing of.

The tracer draws cameras of a model. Ours are no part of it: they can be anywhere, each with its own lens in every env.
So the tracer is given a shallow copy of the model whose camera arrays are ours, and a render context without cameras,
which is told of ours: their resolutions, which images are wanted, and where those go in its buffers.

Rays are made ahead, which saves up to a sixth of the time, while a camera's lens is the same in all envs; else in the
kernel. That is another kernel, compiled when it is first needed.
"""

from __future__ import annotations

import copy
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import mujoco
import numpy as np
import torch
import warp as wp

from sensorium.cameras.batch.kernels import add_sample, aim, develop
from sensorium.cameras.renderer import CameraView, Quality
from sensorium.worlds import warp_init as warp_init

import mujoco_warp as mjw  # isort: skip

QUALITIES: dict[Quality, tuple[bool, int]] = {"fast": (False, 1), "balanced": (True, 1), "high": (True, 4)}
"""Whether there are shadows, and samples a pixel."""
POSES = ("geom_xpos", "geom_xmat", "light_xpos", "light_xdir", "flexvert_xpos")
"""What the tracer reads of the state."""
BYTES = {"rgb": 4, "depth": 4, "segmentation": 8}
"""Size of a pixel in the tracer's buffers."""
_BUFFERS = {"rgb": "rgb_data", "depth": "depth_data", "segmentation": "seg_data"}
"""What the tracer calls them."""
_COMPILING = threading.Lock()
"""Two threads must not compile at once."""


_KEPT_PLANS = 2
"""Of the same views: for their images, and for those of their shutters."""


@dataclass
class _Lens:
    """A view as Warp sees it."""

    view: CameraView
    number: int
    arrays: list[Any]
    """Position, rotation, fx, fy, cx and cy."""


@dataclass
class _TracePlan:
    """What to draw in a pass: some views, and some of their images."""

    caches: list[tuple[str, int]]
    """For which images it was made: output and address."""
    lenses: list[_Lens]
    images: list[dict[str, Any]]
    """For each, output -> its image as a Warp array."""
    starts: list[dict[str, int]]
    """For each, buffer -> where its pixels begin there."""
    widths: dict[str, int]
    """Pixels in a row of each buffer."""
    context: dict[str, Any]
    """Fields of the render context."""
    unwanted: Any
    """A flag for each view: False."""
    versions: list[int]
    """Of the lenses, when the rays were made."""
    rays: list[Any]
    """Directions of all pixels, through their centres and then for each sample; empty while lenses differ per env."""


class Tracer:
    """Draws views in ``slots`` envs at a time. Call everything with its Warp device as the current one.

    Args:
        model: the compiled model.
        m: MuJoCo Warp's model.
        slots: the most envs in a pass.
        views: all cameras.
        shadows: whether lights cast shadows.
        samples: rays a pixel for colours.

    Attributes:
        m: a copy of ``m`` with cameras of its own; other fields may be replaced by those that differ per env.
        poses: arrays of :data:`POSES`, a row a slot, to be set by the owner.
    """

    def __init__(
        self, model: mujoco.MjModel, m: Any, slots: int, views: Sequence[CameraView], shadows: bool, samples: int
    ) -> None:
        count = len(views)
        self.m = copy.copy(m)
        self.m.cam_projection = wp.zeros(count, dtype=int)  # perspective
        self.m.cam_fovy = wp.zeros((1, count), dtype=float)
        self.m.cam_sensorsize = wp.array([(view.width, view.height) for view in views], dtype=wp.vec2)
        self.m.cam_intrinsic = wp.zeros((slots, count), dtype=wp.vec4)
        self.poses = SimpleNamespace(
            nworld=slots,
            cam_xpos=wp.zeros((slots, count), dtype=wp.vec3),
            cam_xmat=wp.zeros((slots, count), dtype=wp.mat33),
        )
        self._rc = mjw.create_render_context(
            model, nworld=slots, cam_active=[], use_textures=model.ntex > 0, use_shadows=shadows, render_skybox=True
        )
        # constants of the compiled kernel: the first cancels out, the second hides what no view sees
        self._rc.znear, self._rc.zfar = 1.0, max(view.far for view in views)
        self._rc_free = copy.copy(self._rc)  # for lenses that differ per env
        self._rc_free.use_precomputed_rays = False
        self._buffers = {name: getattr(self._rc, name) for name in _BUFFERS.values()}
        self._compiled: set[bool] = set()
        self._lenses = {id(view): _lens(view, number) for number, view in enumerate(views)}
        self._samples = samples
        self._shifts = [(0.0, 0.0), *sample_positions(samples)] if samples > 1 else [(0.0, 0.0)]
        self._total = wp.zeros((slots, 0), dtype=wp.vec3)
        self._bodies = wp.array(model.geom_bodyid, dtype=wp.int32)
        self._plans: dict[tuple[int, ...], list[_TracePlan]] = {}

    def draw(self, views: Sequence[CameraView], envs: Any, count: int) -> None:
        """Fill the images of these views for the env in each of the first ``count`` slots: ``envs``, a Warp array.

        ``poses`` must be those of these envs.
        """
        plan = self._plan(views)
        if not plan.lenses or not count:
            return
        ahead = bool(plan.rays)
        if ahead in self._compiled:
            self._draw(plan, envs, count)
        else:
            with _COMPILING:
                self._draw(plan, envs, count)
            self._compiled.add(ahead)

    def _draw(self, plan: _TracePlan, envs: Any, count: int) -> None:
        rc, self.poses.nworld = self._rc if plan.rays else self._rc_free, count
        for name, value in (*plan.context.items(), *self._buffers.items()):
            setattr(rc, name, value)
        mjw.refit_bvh(self.m, self.poses, rc)
        colours = plan.widths["rgb"]
        if self._samples > 1 and colours:
            # depth and ids are those of the pixels' centres, drawn last: every pass begins by clearing the ids
            rc.render_depth = rc.render_seg = plan.unwanted
            for number in range(self._samples):
                self._aim(plan, rc, envs, count, number + 1)
                mjw.render(self.m, self.poses, rc)
                inputs = [rc.rgb_data, number == 0, self._total]
                wp.launch(add_sample, dim=(count, colours), inputs=inputs)
            rc.render_rgb = plan.unwanted
            rc.render_depth, rc.render_seg = plan.context["render_depth"], plan.context["render_seg"]
        self._aim(plan, rc, envs, count, 0)
        mjw.render(self.m, self.poses, rc)
        for lens, images, starts in zip(plan.lenses, plan.images, plan.starts, strict=True):
            view = lens.view
            inputs = [envs, view.near, view.far, self._samples, self._bodies]
            inputs += [rc.rgb_data, self._total, rc.depth_data, rc.seg_data]
            inputs += [starts.get(name, 0) for name in BYTES]
            inputs += [images.get(name) for name in BYTES]
            wp.launch(develop, dim=(count, view.width * view.height), inputs=inputs)

    def _aim(self, plan: _TracePlan, rc: Any, envs: Any, count: int, sample: int) -> None:
        """Turn all cameras where they look, at the pixels' centres (0) or one of their samples."""
        if plan.rays:
            rc.ray = plan.rays[sample]
        outputs = [self.poses.cam_xpos, self.poses.cam_xmat, self.m.cam_intrinsic]
        for lens in plan.lenses:
            size, shift = (lens.view.width, lens.view.height), self._shifts[sample]
            wp.launch(aim, dim=count, inputs=[envs, *lens.arrays, *size, *shift, lens.number], outputs=outputs)

    def _plan(self, views: Sequence[CameraView]) -> _TracePlan:
        wanted = [view for view in views if view.caches.keys() & BYTES.keys()]
        key = tuple(id(view) for view in wanted)
        caches = [(name, image.data_ptr()) for view in wanted for name, image in view.caches.items()]
        plans = self._plans.setdefault(key, [])
        plan = next((one for one in plans if one.caches == caches), None)
        if plan is None:  # outputs can be switched while running
            plan = self._make_plan(wanted, caches)
            self._make_room(plan.widths)
            plans.insert(0, plan)
            del plans[_KEPT_PLANS:]
        versions = [view.lens for view in wanted]
        if plan.versions != versions:
            plan.versions, plan.rays = versions, self._make_rays(wanted)
        return plan

    def _make_rays(self, views: list[CameraView]) -> list[Any]:
        lenses = [np.stack([one.numpy(force=True) for one in (v.fx, v.fy, v.cx, v.cy)]).astype(float) for v in views]
        if any((lens != lens[:, :1]).any() for lens in lenses):
            return []
        rays = []
        for right, down in self._shifts:
            parts = []
            for view, (fx, fy, cx, cy) in zip(views, (lens[:, 0] for lens in lenses), strict=True):
                x = (np.arange(view.width) + 0.5 + right - cx) / fx
                y = (cy - np.arange(view.height) - 0.5 - down) / fy
                part = np.stack([*np.meshgrid(x, y), np.full((view.height, view.width), -1.0)], -1).reshape(-1, 3)
                parts.append(part / np.linalg.norm(part, axis=1, keepdims=True))
            rays.append(wp.array(np.concatenate(parts), dtype=wp.vec3))
        return rays

    def _make_plan(self, views: list[CameraView], caches: list[tuple[str, int]]) -> _TracePlan:
        lenses = [self._lenses[id(view)] for view in views]
        images, starts, widths = [], [], dict.fromkeys(BYTES, 0)
        for view in views:
            images.append({name: _flat(image) for name, image in view.caches.items() if name in BYTES})
            start = {}
            for name in {*images[-1], "depth"}:  # which says what lies between near and far
                start[name] = widths[name]
                widths[name] += view.width * view.height
            starts.append(start)
        pixels = sum(view.width * view.height for view in views)
        addresses = {name: [start.get(name, -1) for start in starts] for name in BYTES}
        flags = {name: wp.array([name in start for start in starts], dtype=wp.bool) for name in BYTES}
        context: dict[str, Any] = {
            "nrender": len(views),
            "cam_res": wp.array([(view.width, view.height) for view in views], dtype=wp.vec2i),
            "cam_id_map": wp.array([lens.number for lens in lenses], dtype=int),
            "total_rays": pixels,
            "ray_offset": wp.zeros(pixels, dtype=wp.vec3),
        }
        for name, short in (("rgb", "rgb"), ("depth", "depth"), ("segmentation", "seg")):
            context[f"{short}_adr"] = wp.array(addresses[name], dtype=int)
            context[f"render_{short}"] = flags[name]
        return _TracePlan(caches, lenses, images, starts, widths, context, wp.zeros(len(views), dtype=wp.bool), [], [])

    def _make_room(self, widths: dict[str, int]) -> None:
        slots = self.poses.cam_xpos.shape[0]
        for name, buffer in _BUFFERS.items():
            old = self._buffers[buffer]
            if old.shape[1] < widths[name]:
                self._buffers[buffer] = wp.zeros((slots, widths[name]), dtype=old.dtype)
        if self._samples > 1 and self._total.shape[1] < widths["rgb"]:
            self._total = wp.zeros((slots, widths["rgb"]), dtype=wp.vec3)


def _lens(view: CameraView, number: int) -> _Lens:
    scalars = [wp.from_torch(one, dtype=wp.float32) for one in (view.fx, view.fy, view.cx, view.cy)]
    pose = [wp.from_torch(view.position, dtype=wp.vec3), wp.from_torch(view.rotation, dtype=wp.mat33)]
    return _Lens(view, number, [*pose, *scalars])


def _flat(image: torch.Tensor) -> Any:
    """An image (B, H, W, ...) as a Warp array (B, H * W, ...)."""
    flat = image.view(image.shape[0], -1, *image.shape[3:])
    return wp.from_torch(flat, dtype=wp.vec2i) if image.dtype == torch.int32 else wp.from_torch(flat)


def sample_positions(count: int) -> list[tuple[float, float]]:
    """Where to sample a pixel, right and down of its centre: one in each of ``count`` rows and columns, scattered."""
    reversed_bits = [int(f"{number:016b}"[::-1], 2) for number in range(count)]
    rows = np.argsort(np.argsort(reversed_bits))
    return [((number + 0.5) / count - 0.5, (float(row) + 0.5) / count - 0.5) for number, row in enumerate(rows)]
