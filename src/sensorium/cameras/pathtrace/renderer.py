"""``PathtraceRenderer``: photo-realistic images by Mitsuba 3.

The compiled model is translated once (``scene.py``, ``lights.py``). Each frame writes what has moved to Mitsuba's
scene parameters, and traces light (``tracers.py``). With LLVM 19 or newer on the machine, code for whole images is
compiled at the first frame. Without it, Mitsuba's scalar variant traces ray by ray.

Dr.Jit can also record frames and replay them (``dr.freeze``). With Mitsuba 3.9 and Dr.Jit 1.5, replays after a mesh was
moved gave NaN, and correct replays were not measurably faster, so frames are not recorded.
"""

from __future__ import annotations

import hashlib
import importlib.util
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import ClassVar

import numpy as np
import torch

from sensorium.cameras.options import RaytracerCamera
from sensorium.cameras.pathtrace.denoise import NAMES, choose_denoiser, denoise_oidn, trace_atrous
from sensorium.cameras.pathtrace.lights import Headlight, make_lamps, make_sky
from sensorium.cameras.pathtrace.scene import PluginDict, geom_colours, make_meshes
from sensorium.cameras.pathtrace.tone import to_srgb8
from sensorium.cameras.pathtrace.tracers import FirstHits, ScalarTracer, VectorTracer, Viewpoint
from sensorium.cameras.renderer import CameraView, Quality, RenderSettings
from sensorium.errors import OptionError
from sensorium.worlds import World

_MIN_LLVM = 19
"""Oldest LLVM version known to compile Dr.Jit's code. 15 and 16 end the process; 17 and 18 were not tried."""
_SAMPLES: dict[Quality, int] = {"fast": 16, "balanced": 64, "high": 256}
_FAR_FOCUS = 1e4
"""Focus distance of a lens whose profile sets none, m."""
_SHARED = ("environment", "environment_rotation", "environment_multiplier", "bounces")
"""Options that all path-traced cameras of a scene share."""
_PER_ENV_FIELDS = ("geom_rgba", "mat_rgba", "light_diffuse")
"""Model fields that may differ between envs."""


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
        with _use_variant(variant) as mi:
            meshes = make_meshes(mi, world, reach=max(view.far for view in views))
            lamps = make_lamps(mi, world, settings.lights)
            sky = make_sky(mi, world.model, *(getattr(shared, name) for name in _SHARED[:3]))
            content: PluginDict = {mesh.name: mesh.mesh for mesh in meshes}
            content |= {lamp.name: lamp.plugin for lamp in lamps}
            if sky is not None:
                content["sky"] = sky
            self._headlight = Headlight(mi, world.model) if Headlight.is_on(world.model) else None
            if self._headlight is not None:
                content[self._headlight.name] = self._headlight.plugin
            scene = mi.load_dict({"type": "scene", **content})
            is_transparent = any(mesh.kind.is_transparent for mesh in meshes)
            method = "volpath" if is_transparent else "path"  # "volpath" lets light pass through transparent surfaces
            integrator = mi.load_dict({"type": method, "max_depth": shared.bounces + 1})
            discs = [lamp.disc for lamp in lamps if lamp.disc is not None]
            tracer = ScalarTracer if variant.startswith("scalar") else VectorTracer
            self._tracer: ScalarTracer | VectorTracer = tracer(
                mi, scene, integrator, [*(mesh.mesh for mesh in meshes), *discs]
            )
            self._parameters = mi.traverse(scene)
        self._world, self._meshes, self._lamps, self._variant = world, meshes, lamps, variant
        self._options, self._denoisers, self._seed = options, denoisers, settings.seed
        default_samples = _SAMPLES[settings.quality or "balanced"]
        self._samples = {uuid: each.samples or default_samples for uuid, each in options.items()}
        fields = ("geom_xpos", "geom_xmat", "light_xpos", "light_xdir") if lamps else ("geom_xpos", "geom_xmat")
        self._fields = {name: world.bind(name) for name in fields}
        self._ids = _triangle_ids(world, [mesh.geom_of_face for mesh in meshes], len(discs))
        self._first_id = np.cumsum([0, *(len(mesh.geom_of_face) for mesh in meshes), *([1] * len(discs))])
        counts = [f"{n} samples" for n in sorted({*self._samples.values()})]
        used = [f"denoised by {NAMES[name]}" for name in sorted({name for name in denoisers.values() if name})]
        return ", ".join([f"Mitsuba {mi.__version__}", runs_on, *counts, *used])

    def render(self, views: Sequence[CameraView], envs: np.ndarray | None) -> None:
        world = self._world
        fields = {name: values.numpy(force=True) for name, values in self._fields.items()}
        expanded = {
            name: values.numpy(force=True) for name, values in world.expanded.items() if name in _PER_ENV_FIELDS
        }
        steps = np.rint(world.time.numpy(force=True) / (world.model.opt.timestep * world.substeps)).astype(int)
        poses = [_host_arrays(view) for view in views]
        with _use_variant(self._variant) as mi:
            for env in range(world.n_envs) if envs is None else envs.tolist():
                self._update_scene(mi, env, fields, expanded)
                for view, pose in zip(views, poses, strict=True):
                    if view.caches:
                        self._draw(mi, view, pose, env, int(steps[env]))

    def _update_scene(
        self, mi: ModuleType, env: int, fields: dict[str, np.ndarray], expanded: dict[str, np.ndarray]
    ) -> None:
        """Write the poses and colours of one env to the Mitsuba scene."""
        model, parameters = self._world.model, self._parameters

        def value(name: str) -> np.ndarray:
            return np.asarray(expanded[name][env] if name in expanded else getattr(model, name))

        rgba = geom_colours(value("geom_rgba"), value("mat_rgba"), model)
        position, rotation = fields["geom_xpos"][env], fields["geom_xmat"][env].reshape(-1, 3, 3)
        moved = [mesh for mesh in self._meshes if mesh.set_poses(parameters, position, rotation)]
        changed = bool(moved)
        for mesh in self._meshes:
            changed |= mesh.set_colours(parameters, rgba)
        diffuse = value("light_diffuse")
        for lamp in self._lamps:
            where, direction = fields["light_xpos"][env, lamp.light], fields["light_xdir"][env, lamp.light]
            changed |= lamp.update(mi, parameters, where, direction, diffuse[lamp.light])
        if changed:
            parameters.update()
        if moved:
            for mesh in moved:
                mesh.write_normals(parameters)
            parameters.update()

    def _draw(self, mi: ModuleType, view: CameraView, pose: dict[str, np.ndarray], env: int, step: int) -> None:
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
            hits = self._tracer.first_hits(viewpoint)
            self._fill(caches, hits, env)
        if "rgb" in caches:
            if self._headlight is not None:
                self._headlight.move_to(mi, self._parameters, viewpoint.position)
                self._parameters.update()
            seed = _frame_seed(self._seed, view.uuid, env, step)
            samples = self._samples[view.uuid]
            if denoiser == "atrous":
                light = trace_atrous(self._tracer, viewpoint, samples, seed)
            else:
                light = self._tracer.radiance(viewpoint, samples, seed)
            if denoiser == "oidn":
                assert hits is not None
                light = denoise_oidn(light, hits)
            caches["rgb"][env] = torch.from_numpy(to_srgb8(light, options.tone_mapper)).to(caches["rgb"].device)

    def _fill(self, caches: dict[str, torch.Tensor], hits: FirstHits, env: int) -> None:
        """Fill depth, normals and segmentation of one env."""
        if "depth" in caches:
            caches["depth"][env] = torch.from_numpy(hits.depth).to(caches["depth"].device)
        if "normals" in caches:
            caches["normals"][env] = torch.from_numpy(hits.normals).to(caches["normals"].device)
        if "segmentation" in caches:
            seen = hits.shape >= 0
            is_mesh = hits.shape < len(self._meshes)
            number = self._first_id[hits.shape] + np.where(is_mesh, hits.triangle, 0)
            ids = self._ids[np.where(seen, number, len(self._ids) - 1)]
            caches["segmentation"][env] = torch.from_numpy(ids).to(caches["segmentation"].device)

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
    if one.environment is not None and not Path(one.environment).is_file():
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


def _triangle_ids(world: World, geoms: list[np.ndarray], discs: int) -> np.ndarray:
    """Return (body, geom) ids of all triangles of all meshes, then of the discs of lamps, then of no hit."""
    of_face = np.concatenate([np.zeros(0, int), *geoms])
    known = np.stack([world.model.geom_bodyid[of_face], of_face], 1)
    return np.concatenate([known, np.tile([0, -1], (discs, 1)), [[-1, -1]]]).astype(np.int32)


def _host_arrays(view: CameraView) -> dict[str, np.ndarray]:
    """Return pose and intrinsics of a view as float64 arrays over all envs."""
    names = ("position", "rotation", "fx", "fy", "cx", "cy")
    return {name: getattr(view, name).numpy(force=True).astype(np.float64) for name in names}


def _frame_seed(seed: int, uuid: str, env: int, step: int) -> int:
    """Return the 32-bit seed of one frame."""
    return int.from_bytes(hashlib.blake2b(f"{seed}\0{uuid}\0{env}\0{step}".encode(), digest_size=4).digest(), "little")
