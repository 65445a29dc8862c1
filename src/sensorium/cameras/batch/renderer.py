"""``BatchRenderer``: MuJoCo Warp's ray tracer, for all cameras and envs at once.

On a GPU it reads the engine's own arrays, and one launch draws every pixel of every camera in every env; no data passes
through the host. On the CPU it needs no OpenGL: poses are copied from MuJoCo's arrays (as float32), the stale envs are
distributed over threads, and each thread traces its share.

The kernels are specialised for the shape types of the model, the number of its lights and the far plane of the views.
They are compiled when the renderer is built, and then cached on disk.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import ClassVar, cast

import numpy as np
import torch
import warp as wp

from sensorium._system import cpu_count
from sensorium.cameras.batch.tracer import BYTES, OUTPUTS, POSES, QUALITIES, Tracer, traced_outputs
from sensorium.cameras.light_support import warn_about_lights
from sensorium.cameras.renderer import CameraView, Quality, RenderSettings
from sensorium.errors import DeviceError, ModelError
from sensorium.worlds import GpuWorld, World
from sensorium.worlds import warp_init as warp_init
from sensorium.worlds.device import is_out_of_memory

import mujoco_warp as mjw  # isort: skip

_MAX_THREADS = 8
"""Maximum number of threads; each has its own copy of the meshes."""
_RANDOMISED = ("geom_size", "geom_rgba", "geom_matid", "geom_dataid", "mat_", "light_")
"""Prefixes of the model fields that the tracer reads per env; poses come from the engine."""


class BatchRenderer:
    """Renderer that draws with MuJoCo Warp; see :class:`~sensorium.cameras.renderer.Renderer`."""

    name: ClassVar[str] = "batch"
    outputs: ClassVar[frozenset[str]] = OUTPUTS
    max_resolution: ClassVar[int] = 8192

    def __init__(self) -> None:
        self._backend: _GpuBackend | _CpuBackend | None = None

    @classmethod
    def missing(cls, device: torch.device) -> str | None:
        return None  # everything it needs was imported with this module

    def build(self, world: World, views: Sequence[CameraView], settings: RenderSettings) -> str:
        warn_about_lights(self.name, settings.lights)
        make = _GpuBackend if world.device.type == "cuda" else _CpuBackend
        quality = settings.quality or make.default_quality
        shadows, samples = QUALITIES[quality]
        if settings.samples is not None:
            samples = max(settings.samples, 1)
        backend = make(world, views, shadows, samples)
        try:
            backend.draw(views, None)  # compiles the kernels, and allocates the memory
        except BaseException:
            backend.close()
            raise
        self._backend = backend
        return f"MuJoCo Warp, {backend.runs_on}, {quality}"

    def render(self, views: Sequence[CameraView], envs: np.ndarray | None) -> None:
        assert self._backend is not None
        self._backend.draw(views, envs)

    def close(self) -> None:
        if self._backend is not None:
            self._backend.close()
            self._backend = None


class _GpuBackend:
    """Draws all envs in one launch, on the GPU of the world."""

    default_quality: ClassVar[Quality] = "balanced"

    def __init__(self, world: World, views: Sequence[CameraView], shadows: bool, samples: int) -> None:
        self._world = cast(GpuWorld, world)
        self._tracers: list[Tracer] = []
        self.runs_on = str(world.device)

        def start() -> None:
            engine = self._world
            tracer = Tracer(engine.model, engine.m, engine.n_envs, views, shadows, samples)
            for name in POSES:
                setattr(tracer.poses, name, getattr(engine.d, name))
            self._envs = wp.array(np.arange(engine.n_envs), dtype=wp.int32)
            self._tracers.append(tracer)

        self._run(start, views)

    def draw(self, views: Sequence[CameraView], envs: np.ndarray | None) -> None:
        world, tracer = self._world, self._tracers[0]
        for name in world.expanded:
            if name.startswith(_RANDOMISED):
                setattr(tracer.m, name, getattr(world.m, name))
        self._run(lambda: tracer.draw(views, self._envs, world.n_envs), views)

    def _run(self, body: Callable[[], None], views: Sequence[CameraView]) -> None:
        try:
            self._world.run(body)
        except (RuntimeError, MemoryError) as error:
            if not is_out_of_memory(error):
                raise
            free, total = torch.cuda.mem_get_info(self._world.device)
            raise DeviceError(
                f"{describe_shortage(views, self._world.n_envs)}; {free / 2**30:.1f} of {total / 2**30:.1f} GiB are "
                "free. Lower n_envs, or the resolution or the outputs of cameras"
            ) from error

    def close(self) -> None:
        self._tracers.clear()


class _CpuBackend:
    """Draws any envs, distributed over threads, each with its own tracer."""

    default_quality: ClassVar[Quality] = "fast"

    def __init__(self, world: World, views: Sequence[CameraView], shadows: bool, samples: int) -> None:
        self._world = world
        model, n_envs = world.model, world.n_envs
        self._sources = {name: world.bind(name).numpy() for name in POSES if name != "flexvert_xpos" or model.nflex}
        count = max(1, min(cpu_count(), max(n_envs, len(views)), _MAX_THREADS))
        if model.nflex:
            count = 1  # a tracer updates the shapes of flexes for all of its envs or none
        slots = -(-n_envs // count)
        with wp.ScopedDevice("cpu"):
            try:
                m = mjw.put_model(model)
            except (NotImplementedError, ValueError) as error:
                raise ModelError(f"MuJoCo Warp cannot draw this model: {error}; use renderer='raster'") from error
            self._tracers = [Tracer(model, m, slots, views, shadows, samples) for _ in range(count)]
            self._envs = [wp.zeros(slots, dtype=wp.int32) for _ in self._tracers]
            for tracer in self._tracers:
                for name in POSES:
                    kind = wp.mat33 if name == "geom_xmat" else wp.vec3
                    length = self._sources[name].shape[1] if name in self._sources else 0
                    setattr(tracer.poses, name, wp.zeros((slots, length), dtype=kind))
        self._per_env_fields: list[dict[str, wp.array]] = [{} for _ in self._tracers]
        self._threads = ThreadPoolExecutor(count, "sensorium-batch")
        self.runs_on = f"CPU, {count} thread{'s' if count > 1 else ''}"

    def draw(self, views: Sequence[CameraView], envs: np.ndarray | None) -> None:
        all_envs = np.arange(self._world.n_envs)
        ids = all_envs if envs is None or self._world.model.nflex else envs
        jobs = self._distribute(views, ids)
        with wp.ScopedDevice("cpu"):
            if len(jobs) == 1:
                self._draw_part(*jobs[0])
            else:
                deque(self._threads.map(lambda job: self._draw_part(*job), jobs), maxlen=0)

    def _distribute(
        self, views: Sequence[CameraView], ids: np.ndarray
    ) -> list[tuple[int, Sequence[CameraView], np.ndarray]]:
        """Split envs among tracers, and if there are fewer envs, their views too; return jobs (tracer, views, envs)."""
        count = len(self._tracers)
        shares = count // max(len(ids), 1)
        if shares < 2:
            return [(number, views, part) for number, part in enumerate(np.array_split(ids, count)) if len(part)]
        parts = [(views[share::shares], ids[n : n + 1]) for n in range(len(ids)) for share in range(shares)]
        return [(number, *part) for number, part in enumerate(part for part in parts if len(part[0]))]

    def _draw_part(self, number: int, views: Sequence[CameraView], ids: np.ndarray) -> None:
        tracer, count = self._tracers[number], len(ids)
        self._envs[number].numpy()[:count] = ids
        is_range = int(ids[-1]) - int(ids[0]) + 1 == count
        rows = slice(int(ids[0]), int(ids[-1]) + 1) if is_range else ids
        for name, source in self._sources.items():
            target = getattr(tracer.poses, name).numpy()[:count]
            np.copyto(target, source[rows].reshape(target.shape), casting="same_kind")
        for name, values in self._world.expanded.items():
            if name.startswith(_RANDOMISED):
                target = self._per_env_field(number, name)[:count]
                np.copyto(target, values.numpy()[rows].reshape(target.shape), casting="unsafe")
        tracer.draw(views, self._envs[number], count)

    def _per_env_field(self, number: int, name: str) -> np.ndarray:
        """Return a model field of a tracer with one row per slot."""
        fields, m = self._per_env_fields[number], self._tracers[number].m
        if name not in fields:
            shared = getattr(m, name)
            fields[name] = wp.zeros((len(self._envs[number]), *shared.shape[1:]), dtype=shared.dtype)
            setattr(m, name, fields[name])
        return fields[name].numpy()

    def close(self) -> None:
        self._threads.shutdown()
        self._tracers.clear()


def describe_shortage(views: Sequence[CameraView], n_envs: int) -> str:
    """Return the text of an error: the images of these views need more memory than the GPU has."""
    size = 0
    for view in views:
        traced = sum(BYTES[name] for name in traced_outputs(view))
        size += view.width * view.height * traced
        size += sum(image[0].numel() * image.element_size() for image in view.caches.values())
    return (
        f"the GPU has too little memory for the images of {len(views)} cameras with n_envs={n_envs}: they need "
        f"{size / 2**20:.2f} MiB per env, {size * n_envs / 2**30:.1f} GiB in total"
    )
