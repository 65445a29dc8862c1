"""The ``batch`` renderer: MuJoCo Warp's ray tracer, for all cameras and envs at once.

On a GPU it reads the engine's own arrays, and one launch draws every pixel of every camera in every env; nothing passes
through the host. On the CPU it needs no OpenGL: poses are copied from MuJoCo's arrays (as float32), the envs that are
stale are shared out among threads, and each thread traces its own.

The kernels are compiled for a model's kinds of shapes, its number of lights and the views' far plane, when the renderer
is built, and then kept on disk.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from typing import Any, ClassVar

import numpy as np
import torch
import warp as wp

from sensorium.cameras.renderer import Look, View
from sensorium.cameras.tracer import BYTES, POSES, QUALITIES, Tracer
from sensorium.errors import DeviceError, ModelError
from sensorium.worlds import World
from sensorium.worlds import warp_init as warp_init

import mujoco_warp as mjw  # isort: skip

_MOST_THREADS = 8
"""Each has its own copy of the meshes."""
_RANDOMISED = ("geom_size", "geom_rgba", "geom_matid", "geom_dataid", "mat_", "light_")
"""Beginnings of the model fields that the tracer reads for every env; poses come from the engine."""


class BatchRenderer:
    """See the module."""

    name: ClassVar[str] = "batch"
    outputs: ClassVar[frozenset[str]] = frozenset(BYTES)
    max_resolution: ClassVar[int] = 8192

    def __init__(self) -> None:
        self._work: _OnDevice | _OnHost | None = None

    @classmethod
    def missing(cls, device: torch.device) -> str | None:
        return None  # this module has imported all that it needs

    def build(self, world: World, views: Sequence[View], look: Look) -> str:
        on_gpu = world.device.type == "cuda"
        quality = look.quality or ("balanced" if on_gpu else "fast")
        shadows, samples = QUALITIES[quality]
        if look.samples is not None:
            samples = max(look.samples, 1)
        work = (_OnDevice if on_gpu else _OnHost)(world, views, shadows, samples)
        work.draw(views, None)  # compiles, and takes the memory
        self._work = work
        return f"MuJoCo Warp, {work.about}, {quality}"

    def render(self, views: Sequence[View], envs: np.ndarray | None) -> None:
        assert self._work is not None
        self._work.draw(views, envs)

    def close(self) -> None:
        if self._work is not None:
            self._work.close()
            self._work = None


class _OnDevice:
    """All envs in one pass, on the GPU where the world is."""

    def __init__(self, world: Any, views: Sequence[View], shadows: bool, samples: int) -> None:
        self._world = world
        self.about = str(world.device)
        self._tracer: Tracer | None = None

        def start() -> None:
            self._tracer = Tracer(world.model, world.m, world.n_envs, views, shadows, samples)
            for name in POSES:
                setattr(self._tracer.poses, name, getattr(world.d, name))
            self._envs = wp.array(np.arange(world.n_envs), dtype=wp.int32)

        self._guarded(start, views)

    def draw(self, views: Sequence[View], envs: np.ndarray | None) -> None:
        world, tracer = self._world, self._tracer
        assert tracer is not None
        for name in world.expanded:
            if name.startswith(_RANDOMISED):
                setattr(tracer.m, name, getattr(world.m, name))
        self._guarded(lambda: tracer.draw(views, self._envs, world.n_envs), views)

    def _guarded(self, body: Any, views: Sequence[View]) -> None:
        try:
            self._world.run(body)
        except (RuntimeError, MemoryError) as error:
            if "memory" not in str(error).lower() and not isinstance(error, MemoryError):
                raise
            free, total = torch.cuda.mem_get_info(self._world.device)
            raise DeviceError(f"{too_large(views, self._world.n_envs)}: {free / 2**30:.1f} of {total / 2**30:.1f} GiB are "
                              "free. Lower n_envs, the resolution, or the outputs of cameras") from error

    def close(self) -> None:
        self._tracer = None


class _OnHost:
    """Some envs in one pass, shared out among threads, each with a tracer of its own."""

    def __init__(self, world: Any, views: Sequence[View], shadows: bool, samples: int) -> None:
        self._world = world
        model, n_envs = world.model, world.n_envs
        self._sources = {name: world.bind(name).numpy() for name in POSES if name != "flexvert_xpos" or model.nflex}
        count = max(1, min(len(os.sched_getaffinity(0)), n_envs, _MOST_THREADS))
        slots = -(-n_envs // count)
        with _cpu():
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
        self._threads = ThreadPoolExecutor(count, "sensorium-batch") if count > 1 else None
        self.about = f"CPU, {count} thread{'s' if count > 1 else ''}"

    def draw(self, views: Sequence[View], envs: np.ndarray | None) -> None:
        if envs is None or self._world.model.nflex:  # whose BVH is refitted for all envs or none
            envs = np.arange(self._world.n_envs)
        ids = np.array_split(envs, len(self._tracers))
        jobs = [(views, number, part) for number, part in enumerate(ids) if len(part)]
        with _cpu():
            if self._threads is None or len(jobs) < 2 or not self._drawn:
                for job in jobs:
                    self._draw_part(*job)
                self._drawn = True
            else:
                for _ in self._threads.map(lambda job: self._draw_part(*job), jobs):
                    pass

    _drawn = False
    """Whether the kernels are compiled, which two threads must not do at once."""

    def _draw_part(self, views: Sequence[View], number: int, ids: np.ndarray) -> None:
        tracer, count = self._tracers[number], len(ids)
        self._envs[number].numpy()[:count] = ids
        for name, source in self._sources.items():
            target = getattr(tracer.poses, name).numpy()[:count]
            np.copyto(target, source[ids].reshape(target.shape), casting="same_kind")
        for name, values in self._world.expanded.items():
            if name.startswith(_RANDOMISED) and hasattr(tracer.m, name):
                self._randomise(tracer, name, values.numpy()[ids])
        tracer.draw(views, self._envs[number], count)

    def _randomise(self, tracer: Tracer, name: str, values: np.ndarray) -> None:
        array = getattr(tracer.m, name)
        slots = tracer.poses.cam_xpos.shape[0]
        if array.shape[0] != slots or array is getattr(self, "_shared", None):
            array = wp.zeros((slots, *array.shape[1:]), dtype=array.dtype)
            setattr(tracer.m, name, array)
        target = array.numpy()[: len(values)]
        np.copyto(target, values.reshape(target.shape), casting="unsafe")

    def close(self) -> None:
        if self._threads is not None:
            self._threads.shutdown()
        self._tracers.clear()


def _cpu() -> AbstractContextManager[Any]:
    return wp.ScopedDevice("cpu")


def too_large(views: Sequence[View], n_envs: int) -> str:
    """That the images of these views take so much memory."""
    traced = sum(view.width * view.height * sum(BYTES[name] for name in {*view.caches, "depth"} & BYTES.keys()) for view in views)
    kept = sum(image[0].numel() * image.element_size() for view in views for image in view.caches.values())
    return (
        f"the GPU has too little memory for the images of {len(views)} cameras with n_envs={n_envs}: they take "
        f"{(traced + kept) / 2**20:.2f} MiB per env, {(traced + kept) * n_envs / 2**30:.1f} GiB in all"
    )
