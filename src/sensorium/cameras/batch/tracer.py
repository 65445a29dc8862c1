"""``Tracer``: MuJoCo Warp's ray tracer, with cameras that are not part of the model.

MuJoCo Warp's tracer draws cameras of the model. Ours can be anywhere, with different intrinsics in every env. So the
tracer gets a shallow copy of the model with our own camera arrays, and a render context that was created without
cameras, whose fields are then set for ours: resolutions, enabled outputs, and offsets in the buffers.

While a camera has the same intrinsics in all envs, its rays are precomputed, which saves up to a sixth of the time.
Otherwise the kernel computes them. That is a different kernel, which is compiled at first use.
"""

from __future__ import annotations

import copy
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from types import SimpleNamespace

import mujoco
import numpy as np
import torch
import warp as wp

from sensorium.cameras.batch.kernels import add_sample, aim, choose_sky, develop, fill_normals
from sensorium.cameras.renderer import CameraView, Quality
from sensorium.worlds import warp_init as warp_init
from sensorium.worlds.environments import MATERIAL, environment_textures

import mujoco_warp as mjw  # isort: skip

QUALITIES: dict[Quality, tuple[bool, int]] = {"fast": (False, 1), "balanced": (True, 1), "high": (True, 4)}
"""Whether there are shadows, and samples per pixel."""
POSES = ("geom_xpos", "geom_xmat", "light_xpos", "light_xdir", "flexvert_xpos")
"""Fields of the state that the tracer reads."""
BYTES = {"rgb": 4, "depth": 4, "segmentation": 8}
"""Bytes per pixel in the tracer's buffers, by output."""
OUTPUTS = frozenset({*BYTES, "normals"})
"""Outputs that the tracer fills; normals are computed from depth and ids."""
_BUFFERS = {"rgb": "rgb_data", "depth": "depth_data", "segmentation": "seg_data"}
"""Names of the buffers in the render context."""
_SHORT_NAMES = {"rgb": "rgb", "depth": "depth", "segmentation": "seg"}
"""Names of the outputs in other fields of the render context."""
_COMPILE_LOCK = threading.Lock()
"""Two threads must not compile at the same time."""
_MAX_PLANS = 2
"""Plans to keep per set of views: one for their images, and one for the sub-frames of their shutters."""


@dataclass
class _WarpView:
    """A view, and its tensors as Warp arrays."""

    view: CameraView
    camera: int
    """Index of the camera in the tracer's arrays."""
    arrays: list[wp.array]
    """Position, rotation, fx, fy, cx and cy."""


@dataclass
class _TracePlan:
    """What to draw in one call: some views, and some of their images."""

    caches: list[tuple[str, int]]
    """Images for which the plan was made: output and address."""
    views: list[_WarpView]
    images: list[dict[str, wp.array]]
    """For each view: output -> its image."""
    starts: list[dict[str, int]]
    """For each view: output -> index of its first pixel in the buffer."""
    widths: dict[str, int]
    """Output -> pixels per row of its buffer."""
    context: dict[str, int | wp.array]
    """Fields of the render context."""
    all_off: wp.array
    """One flag per view, all False."""
    lens_versions: list[int]
    """``lens_version`` of the views when the rays were computed."""
    rays: list[wp.array]
    """Directions of all pixels, through their centres and then for each sample; empty if intrinsics differ per env."""


class Tracer:
    """Draws views in up to ``slots`` envs at a time. Its Warp device must be the current one in every call.

    Args:
        model: the compiled model.
        m: MuJoCo Warp's model.
        slots: maximum number of envs per call.
        views: all cameras.
        shadows: whether lights cast shadows.
        samples: rays per pixel for colour.

    Attributes:
        m: a copy of ``m`` with our cameras; the owner may replace other fields by ones that differ per env.
        poses: arrays of :data:`POSES`, one row per slot, which the owner sets.
    """

    def __init__(
        self,
        model: mujoco.MjModel,
        m: mjw.Model,
        slots: int,
        views: Sequence[CameraView],
        shadows: bool,
        samples: int,
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
        self._context = mjw.create_render_context(
            model, nworld=slots, cam_active=[], use_textures=model.ntex > 0, use_shadows=shadows, render_skybox=True
        )
        # constants of the compiled kernel: znear cancels out, and zfar hides what no view can see
        self._context.znear, self._context.zfar = 1.0, max(view.far for view in views)
        self._sky_material = -1
        if len(environment_textures(model)):
            self._sky_material = int(model.mat(MATERIAL).id)
            self._texture_widths = wp.array(model.tex_width, dtype=int)
            self._context.skybox_tex_id = wp.zeros(slots, dtype=int)
            self._context.skybox_face_width = wp.zeros(slots, dtype=int)
        self._context_per_env = copy.copy(self._context)  # for intrinsics that differ per env
        self._context_per_env.use_precomputed_rays = False
        self._buffers = {name: getattr(self._context, name) for name in _BUFFERS.values()}
        self._compiled: set[bool] = set()
        self._views = {id(view): _to_warp(view, number) for number, view in enumerate(views)}
        self._samples = samples
        self._shifts = [(0.0, 0.0), *sample_positions(samples)] if samples > 1 else [(0.0, 0.0)]
        self._total = wp.zeros((slots, 0), dtype=wp.vec3)
        self._geom_body = wp.array(model.geom_bodyid, dtype=wp.int32)
        self._plans: dict[tuple[int, ...], list[_TracePlan]] = {}

    def draw(self, views: Sequence[CameraView], envs: wp.array, count: int) -> None:
        """Fill the images of these views for the first ``count`` slots.

        Args:
            views: some or all of the views that the tracer was created with.
            envs: int32 array, the env in each slot. ``poses`` must be those of these envs.
            count: number of slots to draw.
        """
        plan = self._find_plan(views)
        if not plan.views or not count:
            return
        precomputed = bool(plan.rays)
        if precomputed in self._compiled:
            self._draw(plan, envs, count)
        else:
            with _COMPILE_LOCK:
                self._draw(plan, envs, count)
            self._compiled.add(precomputed)

    def _draw(self, plan: _TracePlan, envs: wp.array, count: int) -> None:
        rc, self.poses.nworld = self._context if plan.rays else self._context_per_env, count
        for name, value in (*plan.context.items(), *self._buffers.items()):
            setattr(rc, name, value)
        mjw.refit_bvh(self.m, self.poses, rc)
        if self._sky_material >= 0:
            inputs = [self.m.mat_texid, self._sky_material, self._texture_widths]
            wp.launch(choose_sky, dim=count, inputs=inputs, outputs=[rc.skybox_tex_id, rc.skybox_face_width])
        colours = plan.widths["rgb"]
        if self._samples > 1 and colours:
            # depth and ids are those of the pixel centres; they are drawn last, since every draw begins by clearing ids
            rc.render_depth = rc.render_seg = plan.all_off
            for number in range(self._samples):
                self._aim(plan, rc, envs, count, number + 1)
                mjw.render(self.m, self.poses, rc)
                inputs = [rc.rgb_data, number == 0, self._total]
                wp.launch(add_sample, dim=(count, colours), inputs=inputs)
            rc.render_rgb = plan.all_off
            rc.render_depth, rc.render_seg = plan.context["render_depth"], plan.context["render_seg"]
        self._aim(plan, rc, envs, count, 0)
        mjw.render(self.m, self.poses, rc)
        for drawn, images, starts in zip(plan.views, plan.images, plan.starts, strict=True):
            view = drawn.view
            inputs = [envs, view.near, view.far, self._samples, self._geom_body]
            inputs += [rc.rgb_data, self._total, rc.depth_data, rc.seg_data]
            inputs += [starts.get(name, 0) for name in BYTES]
            inputs += [images.get(name) for name in BYTES]
            wp.launch(develop, dim=(count, view.width * view.height), inputs=inputs)
            if "normals" in images:
                inputs = [envs, *drawn.arrays, view.width, view.height, view.near, view.far]
                inputs += [self.m.geom_type, self.m.geom_size, self.poses.geom_xpos, self.poses.geom_xmat]
                inputs += [rc.depth_data, rc.seg_data, starts["depth"], starts["segmentation"]]
                wp.launch(fill_normals, dim=(count, view.width * view.height), inputs=[*inputs, images["normals"]])

    def _aim(self, plan: _TracePlan, rc: mjw.RenderContext, envs: wp.array, count: int, sample: int) -> None:
        """Write all cameras into the slots, with rays through the pixel centres (0) or through one of the samples."""
        if plan.rays:
            rc.ray = plan.rays[sample]
        outputs = [self.poses.cam_xpos, self.poses.cam_xmat, self.m.cam_intrinsic]
        for drawn in plan.views:
            size, shift = (drawn.view.width, drawn.view.height), self._shifts[sample]
            wp.launch(aim, dim=count, inputs=[envs, *drawn.arrays, *size, *shift, drawn.camera], outputs=outputs)

    def _find_plan(self, views: Sequence[CameraView]) -> _TracePlan:
        enabled = [view for view in views if view.caches.keys() & OUTPUTS]
        key = tuple(id(view) for view in enabled)
        caches = [(name, image.data_ptr()) for view in enabled for name, image in view.caches.items()]
        plans = self._plans.setdefault(key, [])
        plan = next((one for one in plans if one.caches == caches), None)
        if plan is None:  # outputs can be switched at run time
            plan = self._make_plan(enabled, caches)
            self._grow_buffers(plan.widths)
            plans.insert(0, plan)
            del plans[_MAX_PLANS:]
        versions = [view.lens_version for view in enabled]
        if plan.lens_versions != versions:
            plan.lens_versions, plan.rays = versions, self._make_rays(enabled)
        return plan

    def _make_rays(self, views: list[CameraView]) -> list[wp.array]:
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
        drawn = [self._views[id(view)] for view in views]
        images, starts, widths = [], [], dict.fromkeys(BYTES, 0)
        for view in views:
            images.append({name: _flatten(image) for name, image in view.caches.items() if name in OUTPUTS})
            start = {}
            for name in traced_outputs(view):
                start[name] = widths[name]
                widths[name] += view.width * view.height
            starts.append(start)
        pixels = sum(view.width * view.height for view in views)
        context: dict[str, int | wp.array] = {
            "nrender": len(views),
            "cam_res": wp.array([(view.width, view.height) for view in views], dtype=wp.vec2i),
            "cam_id_map": wp.array([one.camera for one in drawn], dtype=int),
            "total_rays": pixels,
            "ray_offset": wp.zeros(pixels, dtype=wp.vec3),
        }
        for name, short in _SHORT_NAMES.items():
            context[f"{short}_adr"] = wp.array([start.get(name, -1) for start in starts], dtype=int)
            context[f"render_{short}"] = wp.array([name in start for start in starts], dtype=wp.bool)
        return _TracePlan(caches, drawn, images, starts, widths, context, wp.zeros(len(views), dtype=wp.bool), [], [])

    def _grow_buffers(self, widths: dict[str, int]) -> None:
        slots = self.poses.cam_xpos.shape[0]
        for name, buffer in _BUFFERS.items():
            old = self._buffers[buffer]
            if old.shape[1] < widths[name]:
                self._buffers[buffer] = wp.zeros((slots, widths[name]), dtype=old.dtype)
        if self._samples > 1 and self._total.shape[1] < widths["rgb"]:
            self._total = wp.zeros((slots, widths["rgb"]), dtype=wp.vec3)


def _to_warp(view: CameraView, camera: int) -> _WarpView:
    scalars = [wp.from_torch(one, dtype=wp.float32) for one in (view.fx, view.fy, view.cx, view.cy)]
    pose = [wp.from_torch(view.position, dtype=wp.vec3), wp.from_torch(view.rotation, dtype=wp.mat33)]
    return _WarpView(view, camera, [*pose, *scalars])


def _flatten(image: torch.Tensor) -> wp.array:
    """Return an image (B, H, W, ...) as a Warp array (B, H * W, ...), without a copy."""
    flat = image.view(image.shape[0], -1, *image.shape[3:])
    if image.dtype == torch.int32:
        return wp.from_torch(flat, dtype=wp.vec2i)
    return wp.from_torch(flat, dtype=wp.vec3 if image.dtype == torch.float32 and flat.dim() == 3 else None)


def traced_outputs(view: CameraView) -> set[str]:
    """Return the outputs for which the tracer needs buffers.

    Depth is always one of them: it decides what lies between the near and the far plane.
    """
    ids = {"segmentation"} if "normals" in view.caches else set()
    return (view.caches.keys() & BYTES.keys()) | {"depth"} | ids


def sample_positions(count: int) -> list[tuple[float, float]]:
    """Return where to sample a pixel, as offsets to the right and down from its centre, in pixels.

    The samples are scattered, with one in each of ``count`` rows and columns.
    """
    reversed_bits = [int(f"{number:016b}"[::-1], 2) for number in range(count)]
    rows = np.argsort(np.argsort(reversed_bits))
    return [((number + 0.5) / count - 0.5, (float(row) + 0.5) / count - 0.5) for number, row in enumerate(rows)]
