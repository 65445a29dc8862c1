"""The path tracer: photo-real pictures by Mitsuba 3.

The compiled model is translated once (``scene.py``, ``lights.py``); each frame writes what moved through
Mitsuba's parameters and traces light (``tracers.py``). With LLVM 19 or newer on the machine, code for whole images
is compiled at the first frame; without it, Mitsuba's scalar variant traces ray by ray.

Dr.Jit can also record frames and replay them (``dr.freeze``). With Mitsuba 3.9 and Dr.Jit 1.5, replays after a mesh had
been moved gave NaN, and those that were right were not measurably faster, so frames are not recorded.
"""

from __future__ import annotations

import hashlib
import importlib.util
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch

from sensorium.cameras.options import RaytracerCamera
from sensorium.cameras.pathtrace.denoise import NAMES, atrous, denoiser_of, oidn
from sensorium.cameras.pathtrace.lights import Headlight, lamps_of, sky_of
from sensorium.cameras.pathtrace.scene import colours, parts_of
from sensorium.cameras.pathtrace.tracers import Lens, ScalarTracer, Surfaces, VectorTracer
from sensorium.cameras.renderer import CameraView, Quality, RenderSettings
from sensorium.cameras.tone import picture
from sensorium.errors import OptionError
from sensorium.worlds import World

_LLVM = 19
"""The oldest LLVM known to compile what Dr.Jit asks for. 15 and 16 end the process; 17 and 18 were not tried."""
_SAMPLES: dict[Quality, int] = {"fast": 16, "balanced": 64, "high": 256}
_FAR = 1e4
"""Metres at which a lens without a focus distance is sharp."""
_SHARED = ("environment", "environment_rotation", "environment_multiplier", "bounces")


class PathtraceRenderer:
    """See :class:`sensorium.cameras.renderer.Renderer` for the contract."""

    name: ClassVar[str] = "pathtrace"
    outputs: ClassVar[frozenset[str]] = frozenset({"rgb", "depth", "segmentation", "normals"})
    max_resolution: ClassVar[int] = 8192

    @classmethod
    def missing(cls, device: torch.device) -> str | None:
        if importlib.util.find_spec("mitsuba") is None:
            return "Mitsuba is not installed"
        return None

    def build(self, world: World, views: Sequence[CameraView], look: RenderSettings) -> str:
        options = {view.uuid: _options(view) for view in views}
        shared = _shared(options)
        denoisers = {uuid: denoiser_of(each.denoise) for uuid, each in options.items()}
        variant, about = _variant()
        with _using(variant) as mi:
            parts = parts_of(mi, world, reach=max(view.far for view in views))
            lamps = lamps_of(mi, world, look.lights)
            sky = sky_of(mi, world.model, *(getattr(shared, name) for name in _SHARED[:3]))
            content: dict[str, Any] = {part.name: part.mesh for part in parts}
            content |= {lamp.name: lamp.plugin for lamp in lamps}
            if sky is not None:
                content["sky"] = sky
            self._headlight = Headlight(mi, world.model) if Headlight.shines(world.model) else None
            if self._headlight is not None:
                content[self._headlight.name] = self._headlight.plugin
            scene = mi.load_dict({"type": "scene", **content})
            see_through = any(part.kind.see_through for part in parts)
            way = "volpath" if see_through else "path"  # the former lets light through what is half seen through
            integrator = mi.load_dict({"type": way, "max_depth": shared.bounces + 1})
            discs = [lamp.plugin for lamp in lamps if lamp.is_disc]
            tracer = ScalarTracer if variant.startswith("scalar") else VectorTracer
            self._tracer: ScalarTracer | VectorTracer = tracer(
                mi, scene, integrator, [*(part.mesh for part in parts), *discs]
            )
            self._parameters = mi.traverse(scene)
        self._world, self._parts, self._lamps, self._variant = world, parts, lamps, variant
        self._options, self._denoisers, self._seed = options, denoisers, look.seed
        self._samples = {uuid: each.samples or _SAMPLES[look.quality or "balanced"] for uuid, each in options.items()}
        fields = ("geom_xpos", "geom_xmat", "light_xpos", "light_xdir") if lamps else ("geom_xpos", "geom_xmat")
        self._fields = {name: world.bind(name) for name in fields}
        self._ids = _ids(world, [part.geom_of_face for part in parts], len(discs))
        self._first_id = np.cumsum([0, *(len(part.geom_of_face) for part in parts), *([1] * len(discs))])
        counts = [f"{n} samples" for n in sorted({*self._samples.values()})]
        used = [f"denoised by {NAMES[name]}" for name in sorted({name for name in denoisers.values() if name})]
        return ", ".join([f"Mitsuba {mi.__version__}", about, *counts, *used])

    def render(self, views: Sequence[CameraView], envs: np.ndarray | None) -> None:
        world = self._world
        fields = {name: values.numpy(force=True) for name, values in self._fields.items()}
        expanded = {name: values.numpy(force=True) for name, values in world.expanded.items() if name in _PER_ENV}
        steps = np.rint(world.time.numpy(force=True) / (world.model.opt.timestep * world.substeps)).astype(int)
        poses = [_pose(view) for view in views]
        with _using(self._variant) as mi:
            for env in range(world.n_envs) if envs is None else envs.tolist():
                self._move(mi, env, fields, expanded)
                for view, pose in zip(views, poses, strict=True):
                    if view.caches:
                        self._draw(mi, view, pose, env, int(steps[env]))

    def _move(self, mi: Any, env: int, fields: dict[str, np.ndarray], expanded: dict[str, np.ndarray]) -> None:
        """Bring shapes and lights to where they are in an env."""
        model, parameters = self._world.model, self._parameters

        def value(name: str) -> np.ndarray:
            return np.asarray(expanded[name][env] if name in expanded else getattr(model, name))

        rgba = colours(value("geom_rgba"), value("mat_rgba"), model)
        position, turn = fields["geom_xpos"][env], fields["geom_xmat"][env].reshape(-1, 3, 3)
        moved = [part for part in self._parts if part.place(parameters, position, turn)]
        changed = bool(moved)
        for part in self._parts:
            changed |= part.paint(parameters, rgba)
        diffuse = value("light_diffuse")
        for lamp in self._lamps:
            at, along = fields["light_xpos"][env, lamp.light], fields["light_xdir"][env, lamp.light]
            changed |= lamp.shine(mi, parameters, at, along, diffuse[lamp.light])
        if changed:
            parameters.update()
        if moved:
            for part in moved:
                part.orient(parameters)
            parameters.update()

    def _draw(self, mi: Any, view: CameraView, pose: dict[str, np.ndarray], env: int, step: int) -> None:
        options, caches, profile = self._options[view.uuid], view.caches, view.options.profile
        numbers = {name: float(pose[name][env]) for name in ("fx", "fy", "cx", "cy")}
        lens = Lens(
            view.width,
            view.height,
            near=view.near,
            far=view.far,
            position=pose["position"][env],
            rotation=pose["rotation"][env],
            aperture=0.0 if profile is None else profile.aperture_radius,
            focus=_FAR if profile is None or profile.focus_distance is None else profile.focus_distance,
            **numbers,
        )
        if not (np.isfinite(lens.position).all() and np.isfinite(lens.rotation).all()):
            return  # the link that carries it has left this world; its env was reported to have failed
        surfaces, denoiser = None, self._denoisers[view.uuid]
        if denoiser == "oidn" or len(caches) > ("rgb" in caches):
            surfaces = self._tracer.surfaces(lens)
            self._fill(caches, surfaces, env)
        if "rgb" in caches:
            if self._headlight is not None:
                self._headlight.follow(mi, self._parameters, lens.position)
                self._parameters.update()
            seed = _seed(self._seed, view.uuid, env, step)
            samples = self._samples[view.uuid]
            if denoiser == "atrous":
                light = atrous(self._tracer, lens, samples, seed)
            else:
                light = self._tracer.radiance(lens, samples, seed)
            if denoiser == "oidn":
                assert surfaces is not None
                light = oidn(light, surfaces)
            caches["rgb"][env] = torch.from_numpy(picture(light, options.tone_mapper)).to(caches["rgb"].device)

    def _fill(self, caches: dict[str, torch.Tensor], surfaces: Surfaces, env: int) -> None:
        if "depth" in caches:
            caches["depth"][env] = torch.from_numpy(surfaces.depth).to(caches["depth"].device)
        if "normals" in caches:
            caches["normals"][env] = torch.from_numpy(surfaces.normals).to(caches["normals"].device)
        if "segmentation" in caches:
            seen = surfaces.shape >= 0
            is_part = surfaces.shape < len(self._parts)
            number = self._first_id[surfaces.shape] + np.where(is_part, surfaces.triangle, 0)
            ids = self._ids[np.where(seen, number, len(self._ids) - 1)]
            caches["segmentation"][env] = torch.from_numpy(ids).to(caches["segmentation"].device)

    def close(self) -> None:
        self.__dict__.clear()


_PER_ENV = ("geom_rgba", "mat_rgba", "light_diffuse")
"""Fields of the model that may differ between envs."""


def _options(view: CameraView) -> RaytracerCamera:
    return view.options if isinstance(view.options, RaytracerCamera) else RaytracerCamera()


def _shared(options: dict[str, RaytracerCamera]) -> RaytracerCamera:
    """The options of the first camera, with which the others agree in what is the scene's."""
    (first, one), *others = options.items()
    for uuid, other in others:
        for name in _SHARED:
            if getattr(one, name) != getattr(other, name):
                raise OptionError(
                    f"{name}: the cameras of the path tracer share one, but {first!r} wants {getattr(one, name)!r} and "
                    f"{uuid!r} wants {getattr(other, name)!r}; give both the same"
                )
    if one.environment is not None and not Path(one.environment).is_file():
        raise OptionError(f"Camera(uuid={first!r}).environment: there is no file {one.environment!r}")
    return one


def _variant() -> tuple[str, str]:
    """Mitsuba's variant for this machine, and why."""
    import drjit

    version = drjit.detail.llvm_version()[0]
    if version >= _LLVM:
        return "llvm_ad_rgb", f"LLVM {version}"
    found = "no LLVM" if version < 0 else f"LLVM {version}, which is too old"
    return "scalar_rgb", f"scalar, with {found} (apt install libllvm19 makes it faster)"


@contextmanager
def _using(variant: str) -> Iterator[Any]:
    """Mitsuba with a variant, which is that of the whole process meanwhile."""
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


def _ids(world: World, geoms: list[np.ndarray], discs: int) -> np.ndarray:
    """(body, geom) of all triangles of all parts, then of lamps, then of nothing."""
    of_face = np.concatenate([np.zeros(0, int), *geoms])
    known = np.stack([world.model.geom_bodyid[of_face], of_face], 1)
    return np.concatenate([known, np.tile([0, -1], (discs, 1)), [[-1, -1]]]).astype(np.int32)


def _pose(view: CameraView) -> dict[str, np.ndarray]:
    names = ("position", "rotation", "fx", "fy", "cx", "cy")
    return {name: getattr(view, name).numpy(force=True).astype(np.float64) for name in names}


def _seed(seed: int, uuid: str, env: int, step: int) -> int:
    """32 bits that belong to one frame."""
    return int.from_bytes(hashlib.blake2b(f"{seed}\0{uuid}\0{env}\0{step}".encode(), digest_size=4).digest(), "little")
