"""``PathtraceRenderer``: photo-realistic images by Mitsuba 3.

The compiled model is translated once, and again for envs with other materials (``traced_scene.py``). Each frame writes
what has moved to Mitsuba's scene parameters, and traces light (``tracers.py``). With LLVM 19 or newer on the machine,
code for whole images is compiled at the first frame. Without it, Mitsuba's scalar variant traces ray by ray.

Dr.Jit can also record frames and replay them (``dr.freeze``). With Mitsuba 3.9 and Dr.Jit 1.5, replays after a mesh was
moved gave NaN, and correct replays were not measurably faster, so frames are not recorded.
"""

from __future__ import annotations

import copy
import hashlib
import importlib.util
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from types import ModuleType
from typing import ClassVar

import numpy as np
import torch

from sensorium.cameras.options import RaytracerCamera
from sensorium.cameras.pathtrace.denoise import NAMES, choose_denoiser, denoise_oidn, trace_atrous
from sensorium.cameras.pathtrace.flexes import warn_not_drawn
from sensorium.cameras.pathtrace.sky import load_maps
from sensorium.cameras.pathtrace.tone import to_srgb8
from sensorium.cameras.pathtrace.traced_scene import PER_ENV_FIELDS, TracedScene, materials_key
from sensorium.cameras.pathtrace.tracers import FirstHits, Viewpoint
from sensorium.cameras.renderer import CameraView, Quality, RenderSettings
from sensorium.cameras.round_shapes import trace_round
from sensorium.errors import OptionError
from sensorium.worlds import World

_MIN_LLVM = 19
"""Oldest LLVM version known to compile Dr.Jit's code. 15 and 16 end the process; 17 and 18 were not tried."""
_SAMPLES: dict[Quality, int] = {"fast": 16, "balanced": 64, "high": 256}
_FAR_FOCUS = 1e4
"""Focus distance of a lens whose profile sets none, m."""
_SHARED = ("environment", "environment_rotation", "environment_multiplier", "bounces")
"""Options that all path-traced cameras of a scene share."""


class PathtraceRenderer:
    """Renderer that traces light paths with Mitsuba; see :class:`~sensorium.cameras.renderer.Renderer`."""

    name: ClassVar[str] = "pathtrace"
    outputs: ClassVar[frozenset[str]] = frozenset({"rgb", "depth", "segmentation", "normals"})
    max_resolution: ClassVar[int] = 8192

    @classmethod
    def missing(cls, device: torch.device) -> str | None:
        if importlib.util.find_spec("mitsuba") is None:
            return "Mitsuba is not installed"
        return None

    def build(self, world: World, views: Sequence[CameraView], settings: RenderSettings) -> str:
        options = {view.uuid: _get_options(view) for view in views}
        shared = _check_shared(options)
        denoisers = {uuid: choose_denoiser(each.denoise) for uuid, each in options.items()}
        variant, runs_on = _choose_variant()
        self._world, self._variant, self._shared, self._settings = world, variant, shared, settings
        self._reach = max(view.far for view in views)
        self._maps = [] if shared.environment is not None else load_maps(settings.environments)
        self._options, self._denoisers, self._seed = options, denoisers, settings.seed
        default_samples = _SAMPLES[settings.quality or "balanced"]
        self._samples = {uuid: each.samples or default_samples for uuid, each in options.items()}
        warn_not_drawn(world.model)
        with _use_variant(variant) as mi:
            self._make_scene(mi, {}, materials_key(world.model, {}))
        fields = ["geom_xpos", "geom_xmat", *(["light_xpos", "light_xdir"] if self._scene.lamps else [])]
        fields += ["flexvert_xpos"] if self._scene.flexes else []
        self._fields = {name: world.bind(name) for name in fields}
        counts = [f"{n} samples" for n in sorted({*self._samples.values()})]
        used = [f"denoised by {NAMES[name]}" for name in sorted({name for name in denoisers.values() if name})]
        return ", ".join([f"Mitsuba {mi.__version__}", runs_on, *counts, *used])

    def _make_scene(self, mi: ModuleType, values: dict[str, np.ndarray], key: bytes) -> None:
        """Make the Mitsuba scene of an env, instead of the one before.

        Only one is kept: Dr.Jit compiles code for all objects that exist, so that further scenes would make it slower.

        Args:
            mi: Mitsuba, with its variant set.
            values: model field -> its values in the env, for fields that differ between envs.
            key: what :func:`materials_key` returns for them.
        """
        model = self._world.model
        if values:
            model = copy.copy(model)
            for name, each in values.items():
                getattr(model, name)[:] = each.reshape(getattr(model, name).shape)
        self.__dict__.pop("_scene", None)  # is freed before the new one is made
        is_scalar = self._variant.startswith("scalar")
        self._scene = TracedScene(mi, model, self._reach, self._shared, self._settings, self._maps, is_scalar)
        self._key = key

    def render(self, views: Sequence[CameraView], envs: np.ndarray | None) -> None:
        world = self._world
        fields = {name: values.numpy(force=True) for name, values in self._fields.items()}
        expanded = {name: values.numpy(force=True) for name, values in world.expanded.items() if name in PER_ENV_FIELDS}
        steps = np.rint(world.time.numpy(force=True) / (world.model.opt.timestep * world.substeps)).astype(int)
        poses = [_host_arrays(view) for view in views]
        values = {
            env: {name: each[env] for name, each in expanded.items()}
            for env in (range(world.n_envs) if envs is None else envs.tolist())
        }
        keys = {env: materials_key(world.model, each) for env, each in values.items()}
        with _use_variant(self._variant) as mi:
            for env in sorted(values, key=lambda env: (keys[env] != self._key, keys[env])):  # few scenes are made
                if keys[env] != self._key:
                    self._make_scene(mi, values[env], keys[env])
                self._scene.update(mi, world.model, {name: each[env] for name, each in fields.items()}, values[env])
                self._sizes = np.asarray(values[env].get("geom_size", world.model.geom_size), float).reshape(-1, 3)
                for view, pose in zip(views, poses, strict=True):
                    if view.caches:
                        self._draw(mi, view, pose, env, int(steps[env]), fields)

    def _draw(
        self,
        mi: ModuleType,
        view: CameraView,
        pose: dict[str, np.ndarray],
        env: int,
        step: int,
        fields: dict[str, np.ndarray],
    ) -> None:
        options, caches, profile = self._options[view.uuid], view.caches, view.options.profile
        numbers = {name: float(pose[name][env]) for name in ("fx", "fy", "cx", "cy")}
        viewpoint = Viewpoint(
            view.width,
            view.height,
            near=view.near,
            far=view.far,
            position=pose["position"][env],
            rotation=pose["rotation"][env],
            aperture=0.0 if profile is None else profile.aperture_radius,
            focus=_FAR_FOCUS if profile is None or profile.focus_distance is None else profile.focus_distance,
            **numbers,
        )
        if not (np.isfinite(viewpoint.position).all() and np.isfinite(viewpoint.rotation).all()):
            return  # the physics of this env has diverged, which was reported
        hits, denoiser = None, self._denoisers[view.uuid]
        if denoiser == "oidn" or len(caches) > ("rgb" in caches):
            hits = self._scene.tracer.first_hits(viewpoint)
            self._fill(caches, hits, env, viewpoint, fields)
        if "rgb" in caches:
            tracer = self._scene.tracer
            self._scene.move_headlight(mi, viewpoint.position)
            seed = _frame_seed(self._seed, view.uuid, env, step)
            samples = self._samples[view.uuid]
            if denoiser == "atrous":
                light = trace_atrous(tracer, viewpoint, samples, seed)
            else:
                light = tracer.radiance(viewpoint, samples, seed)
            if denoiser == "oidn":
                assert hits is not None
                light = denoise_oidn(light, hits)
            caches["rgb"][env] = torch.from_numpy(to_srgb8(light, options.tone_mapper)).to(caches["rgb"].device)

    def _fill(
        self,
        caches: dict[str, torch.Tensor],
        hits: FirstHits,
        env: int,
        viewpoint: Viewpoint,
        fields: dict[str, np.ndarray],
    ) -> None:
        """Fill depth, normals and segmentation of one env; for round shapes from the shapes instead of triangles."""
        ids = self._scene.ids(hits)
        images = {"depth": hits.depth.copy(), "normals": hits.normals.copy(), "segmentation": ids}
        model, v = self._world.model, viewpoint
        poses = (fields["geom_xpos"][env].astype(float), fields["geom_xmat"][env].reshape(-1, 9).astype(float))
        shapes = (self._scene.round, model.geom_bodyid, model.geom_type, self._sizes, *poses)
        sides = [-v.cx / v.fx, (v.width - v.cx) / v.fx, (v.cy - v.height) / v.fy, v.cy / v.fy]
        pose = (v.position, v.rotation, np.multiply(sides, v.near))
        lens = (each.astype(np.float32) for each in pose)  # like those of ``raster``, so that one kernel serves both
        trace_round(*shapes, *lens, v.near, v.far, images["depth"], images["segmentation"], images["normals"])
        for name in images.keys() & caches.keys():
            caches[name][env] = torch.from_numpy(images[name]).to(caches[name].device)

    def close(self) -> None:
        self.__dict__.clear()


def _get_options(view: CameraView) -> RaytracerCamera:
    return view.options if isinstance(view.options, RaytracerCamera) else RaytracerCamera()


def _check_shared(options: dict[str, RaytracerCamera]) -> RaytracerCamera:
    """Return the options of the first camera, after checking that all cameras agree in the shared options."""
    (first, one), *others = options.items()
    for uuid, other in others:
        for name in _SHARED:
            if getattr(one, name) != getattr(other, name):
                raise OptionError(
                    f"{name} must be the same for all path-traced cameras, got {getattr(one, name)!r} for {first!r} "
                    f"and {getattr(other, name)!r} for {uuid!r}"
                )
    if one.environment is not None and not os.path.isfile(one.environment):
        raise OptionError(f"Camera(uuid={first!r}).environment must be an existing file, got {one.environment!r}")
    return one


def _choose_variant() -> tuple[str, str]:
    """Return Mitsuba's variant for this machine, and a few words about why."""
    import drjit

    version = drjit.detail.llvm_version()[0]
    if version >= _MIN_LLVM:
        return "llvm_ad_rgb", f"LLVM {version}"
    found = "no LLVM" if version < 0 else f"LLVM {version}, which is too old"
    return "scalar_rgb", f"scalar, with {found} (apt install libllvm19 makes it faster)"


@contextmanager
def _use_variant(variant: str) -> Iterator[ModuleType]:
    """Set Mitsuba's variant, which is global to the process, and restore it afterwards."""
    import mitsuba

    before = mitsuba.variant()
    if before == variant:
        yield mitsuba
        return
    mitsuba.set_variant(variant)
    try:
        yield mitsuba
    finally:
        if before is not None:
            mitsuba.set_variant(before)


def _host_arrays(view: CameraView) -> dict[str, np.ndarray]:
    """Return pose and intrinsics of a view as float64 arrays over all envs."""
    names = ("position", "rotation", "fx", "fy", "cx", "cy")
    return {name: getattr(view, name).numpy(force=True).astype(np.float64) for name in names}


def _frame_seed(seed: int, uuid: str, env: int, step: int) -> int:
    """Return the 32-bit seed of one frame."""
    return int.from_bytes(hashlib.blake2b(f"{seed}\0{uuid}\0{env}\0{step}".encode(), digest_size=4).digest(), "little")
