"""The ``batch`` renderer: MuJoCo Warp's ray tracer, for all cameras and envs at once.

On a GPU it reads the engine's own arrays, and one launch draws every pixel of every camera in every env; nothing passes
through the host. On the CPU it needs no OpenGL: poses are copied from MuJoCo's arrays (as float32), the envs that are
stale are shared out among threads, and each thread traces its own.

The kernels are compiled for a model's kinds of shapes, its number of lights and the views' far plane, when the renderer
is built, and then kept on disk.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, ClassVar

import numpy as np
import torch
import warp as wp

from sensorium._system import cpu_count
from sensorium.cameras.batch.tracer import BYTES, POSES, QUALITIES, Tracer
from sensorium.cameras.renderer import CameraView, RenderSettings
from sensorium.errors import DeviceError, ModelError
from sensorium.worlds import World
from sensorium.worlds import warp_init as warp_init
from sensorium.worlds.device import is_out_of_memory

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
        return None  # what it needs was imported with this module

    def build(self, world: World, views: Sequence[CameraView], look: RenderSettings) -> str:
        on_gpu = world.device.type == "cuda"
        quality = look.quality or ("balanced" if on_gpu else "fast")
        shadows, samples = QUALITIES[quality]
        if look.samples is not None:
            samples = max(look.samples, 1)
        work = _OnDevice(world, views, shadows, samples) if on_gpu else _OnHost(world, views, shadows, samples)
        try:
            work.draw(views, None)  # compiles, and takes the memory
        except BaseException:
            work.close()
            raise
        self._work = work
        return f"MuJoCo Warp, {work.about}, {quality}"

    def render(self, views: Sequence[CameraView], envs: np.ndarray | None) -> None:
        assert self._work is not None
        self._work.draw(views, envs)

    def close(self) -> None:
        if self._work is not None:
            self._work.close()
            self._work = None


class _OnDevice:
    """All envs in one pass, on the GPU where the world is."""

    def __init__(self, world: Any, views: Sequence[CameraView], shadows: bool, samples: int) -> None:
        self._world = world
        self._tracers: list[Tracer] = []
        self.about = str(world.device)

        def start() -> None:
            tracer = Tracer(world.model, world.m, world.n_envs, views, shadows, samples)
            for name in POSES:
                setattr(tracer.poses, name, getattr(world.d, name))
            self._envs = wp.array(np.arange(world.n_envs), dtype=wp.int32)
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
                f"{too_large(views, self._world.n_envs)}; {free / 2**30:.1f} of {total / 2**30:.1f} GiB are free. "
                "Lower n_envs, or the resolution or outputs of cameras"
            ) from error

    def close(self) -> None:
        self._tracers.clear()


class _OnHost:
    """Any envs in one pass, shared out among threads, each with a tracer of its own."""

    def __init__(self, world: Any, views: Sequence[CameraView], shadows: bool, samples: int) -> None:
        self._world = world
        model, n_envs = world.model, world.n_envs
        self._sources = {name: world.bind(name).numpy() for name in POSES if name != "flexvert_xpos" or model.nflex}
        count = max(1, min(cpu_count(), max(n_envs, len(views)), _MOST_THREADS))
        if model.nflex:
            count = 1  # the shapes of flexes are renewed for all envs of a tracer, or none
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
        self._own: list[dict[str, Any]] = [{} for _ in self._tracers]
        self._threads = ThreadPoolExecutor(count, "sensorium-batch")
        self.about = f"CPU, {count} thread{'s' if count > 1 else ''}"

    def draw(self, views: Sequence[CameraView], envs: np.ndarray | None) -> None:
        every = np.arange(self._world.n_envs)
        ids = every if envs is None or self._world.model.nflex else envs
        jobs = self._share_out(views, ids)
        with wp.ScopedDevice("cpu"):
            if len(jobs) == 1:
                self._draw_part(*jobs[0])
            else:
                deque(self._threads.map(lambda job: self._draw_part(*job), jobs), maxlen=0)

    def _share_out(
        self, views: Sequence[CameraView], ids: np.ndarray
    ) -> list[tuple[int, Sequence[CameraView], np.ndarray]]:
        """(tracer, views, envs): envs among tracers; where there are fewer of them, also the views of each env."""
        count = len(self._tracers)
        shares = count // max(len(ids), 1)
        if shares < 2:
            return [(number, views, part) for number, part in enumerate(np.array_split(ids, count)) if len(part)]
        parts = [(views[share::shares], ids[n : n + 1]) for n in range(len(ids)) for share in range(shares)]
        return [(number, *part) for number, part in enumerate(part for part in parts if len(part[0]))]

    def _draw_part(self, number: int, views: Sequence[CameraView], ids: np.ndarray) -> None:
        tracer, count = self._tracers[number], len(ids)
        self._envs[number].numpy()[:count] = ids
        in_a_row = int(ids[-1]) - int(ids[0]) + 1 == count
        rows = slice(int(ids[0]), int(ids[-1]) + 1) if in_a_row else ids
        for name, source in self._sources.items():
            target = getattr(tracer.poses, name).numpy()[:count]
            np.copyto(target, source[rows].reshape(target.shape), casting="same_kind")
        for name, values in self._world.expanded.items():
            if name.startswith(_RANDOMISED):
                target = self._randomised(number, name)[:count]
                np.copyto(target, values.numpy()[rows].reshape(target.shape), casting="unsafe")
        tracer.draw(views, self._envs[number], count)

    def _randomised(self, number: int, name: str) -> np.ndarray:
        """A model field of a tracer, with a row a slot."""
        own, m = self._own[number], self._tracers[number].m
        if name not in own:
            one = getattr(m, name)
            own[name] = wp.zeros((len(self._envs[number]), *one.shape[1:]), dtype=one.dtype)
            setattr(m, name, own[name])
        return own[name].numpy()

    def close(self) -> None:
        self._threads.shutdown()
        self._tracers.clear()


def too_large(views: Sequence[CameraView], n_envs: int) -> str:
    """That the GPU has too little memory for the images of these views, which take so much."""
    size = 0
    for view in views:
        traced = sum(BYTES[name] for name in {*view.caches, "depth"} & BYTES.keys())
        size += view.width * view.height * traced
        size += sum(image[0].numel() * image.element_size() for image in view.caches.values())
    return (
        f"the GPU has too little memory for the images of {len(views)} cameras in n_envs={n_envs}: they take "
        f"{size / 2**20:.2f} MiB per env, {size * n_envs / 2**30:.1f} GiB in all"
    )
