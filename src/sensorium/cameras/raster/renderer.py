"""The renderer ``raster``: MuJoCo's own OpenGL, on every core.

A few threads hold one OpenGL context each, at the largest resolution of all cameras, with a copy of the model, an
MjData and an MjvScene that are used again for all envs and cameras; MuJoCo's calls release the GIL. Per env a thread
takes over positions, runs the kinematics and updates the scene once; per camera it only moves the viewpoint. Colour and
depth come from one drawing, segmentation from a second one of the same scene that is drawn flat.

Depth is taken from the flat drawing as well where the first would have it wrong: with multi-sampling, which averages it
at edges, with transparent shapes, which leave no depth, and with a sky, which leaves one.
"""

from __future__ import annotations

import atexit
import contextlib
import threading
import weakref
from collections.abc import Sequence
from queue import SimpleQueue
from typing import ClassVar

import mujoco
import numpy as np
import torch

from sensorium._system import cpu_count
from sensorium.cameras.raster.canvas import Canvas, DrawJob, Shot
from sensorium.cameras.renderer import CameraView, RenderSettings
from sensorium.errors import DeviceError
from sensorium.worlds import World
from sensorium.worlds.opengl import make_context

_FIELDS = ("geom_", "mat_", "light_", "body_pos", "body_quat", "site_", "tendon_rgba", "skin_", "flex_rgba", "jnt_pos")
"""Beginnings of the model fields that images depend on."""


class RasterRenderer:
    """See the module."""

    name: ClassVar[str] = "raster"
    outputs: ClassVar[frozenset[str]] = frozenset({"rgb", "depth", "segmentation"})
    max_resolution: ClassVar[int] = 16384

    def __init__(self) -> None:
        self._threads: list[tuple[threading.Thread, SimpleQueue[DrawJob | None]]] = []
        self._host: dict[int, np.ndarray] = {}

    @classmethod
    def missing(cls, device: torch.device) -> str | None:
        try:
            _try_opengl()
        except DeviceError as error:
            return str(error)
        return None

    def build(self, world: World, views: Sequence[CameraView], look: RenderSettings) -> str:
        self._world, self._look = world, look
        width, height = max(view.width for view in views), max(view.height for view in views)
        far = max(view.far for view in views)
        count = max(1, min(cpu_count(), world.n_envs * len(views)))
        self._mocap = None
        if world.model.nmocap:
            self._mocap = (world.bind("mocap_pos"), world.bind("mocap_quat"))
        self._qpos = world.bind("qpos")
        self._close = weakref.finalize(self, _stop, self._threads)
        self._close.atexit = False
        _OPEN.add(self)
        try:
            for _ in range(count):
                started: SimpleQueue[str | BaseException] = SimpleQueue()
                tasks: SimpleQueue[DrawJob | None] = SimpleQueue()
                arguments = (tasks, started, world.model, (width, height), far, look)
                thread = threading.Thread(target=_serve, args=arguments, name="sensorium-raster", daemon=True)
                thread.start()
                about = started.get()
                if isinstance(about, BaseException):
                    raise about
                self._threads.append((thread, tasks))
        except BaseException:
            self.close()
            raise
        return f"{about}, {count} thread{'s' if count > 1 else ''}"

    def render(self, views: Sequence[CameraView], envs: np.ndarray | None) -> None:
        world = self._world
        ids = np.arange(world.n_envs) if envs is None else envs
        shots = [self._shot(view) for view in views if view.caches]
        if not shots or not len(ids):
            return
        fields = [
            (name, values.numpy(force=True)) for name, values in world.expanded.items() if name.startswith(_FIELDS)
        ]
        several = len(ids) < len(self._threads)  # then one env keeps several threads busy
        parts = [[shot] for shot in shots] if several else [shots]
        work = iter([(int(env), part) for env in ids for part in parts])
        mocap = None if self._mocap is None else tuple(one.numpy(force=True) for one in self._mocap)
        done: SimpleQueue[BaseException | None] = SimpleQueue()
        job = DrawJob(work, self._qpos.numpy(force=True), mocap, fields, done)  # type: ignore[arg-type]
        for _, tasks in self._threads:
            tasks.put(job)
        problems = [problem for _ in self._threads if (problem := done.get()) is not None]
        if problems:
            raise problems[0]
        if world.device.type != "cpu":
            for view in views:
                for image in view.caches.values():
                    self._upload(image, envs)

    def _shot(self, view: CameraView) -> Shot:
        fx, fy, cx, cy = (value.numpy(force=True) for value in (view.fx, view.fy, view.cx, view.cy))
        sides = np.stack([-cx / fx, (view.width - cx) / fx, (cy - view.height) / fy, cy / fy], 1) * view.near
        images = {name: self._on_host(image) for name, image in view.caches.items()}
        position, turned = view.position.numpy(force=True), view.rotation.numpy(force=True)
        return Shot(view.width, view.height, view.near, view.far, position, turned, sides, images)

    def _on_host(self, image: torch.Tensor) -> np.ndarray:
        """Where threads write an image: into itself, or where it is on a GPU, into a copy that is kept."""
        if image.device.type == "cpu":
            return image.numpy()
        key = image.data_ptr()
        if key not in self._host:
            self._host[key] = torch.zeros(image.shape, dtype=image.dtype, pin_memory=True).numpy()
        return self._host[key]

    def _upload(self, image: torch.Tensor, envs: np.ndarray | None) -> None:
        host = torch.from_numpy(self._host[image.data_ptr()])
        if envs is None:
            image.copy_(host)
        else:
            index = torch.from_numpy(envs.astype(np.int64))
            image[index.to(image.device)] = host[index].to(image.device)

    def close(self) -> None:
        _OPEN.discard(self)
        _stop(self._threads)
        self._host.clear()


# -- threads ----------------------------------------------------------------------------------------------------------

_OPEN: weakref.WeakSet[RasterRenderer] = weakref.WeakSet()
_works = threading.Event()


def _close_all() -> None:
    for renderer in list(_OPEN):
        renderer.close()


def _stop(threads: list[tuple[threading.Thread, SimpleQueue[DrawJob | None]]]) -> None:
    """End threads, which free what they hold."""
    for _, tasks in threads:
        tasks.put(None)
    for thread, _ in threads:
        if thread is not threading.current_thread():
            thread.join()
    threads.clear()


def _try_opengl() -> None:
    """Make sure, once, that a context can be made here."""
    if _works.is_set():
        return

    problems: list[BaseException] = []

    def attempt() -> None:  # in a thread of its own: the context that the caller may have stays current
        try:
            make_context(16, 16)[0].free()
        except DeviceError as error:
            problems.append(error)

    thread = threading.Thread(target=attempt)
    thread.start()
    thread.join()
    if problems:
        raise problems[0]
    # registered after MuJoCo's own, so that it runs before the display is gone
    atexit.register(_close_all)
    _works.set()


_FIRST_DRAWING = threading.Lock()


def _serve(
    tasks: SimpleQueue[DrawJob | None],
    started: SimpleQueue[str | BaseException],
    model: mujoco.MjModel,
    size: tuple[int, int],
    far: float,
    look: RenderSettings,
) -> None:
    """What a thread does: hold a canvas, and paint on it until told to stop."""
    try:
        canvas = Canvas(model, size, far, look)
    except BaseException as error:
        started.put(error)
        return
    started.put(canvas.about)
    fresh = True
    try:
        while (job := tasks.get()) is not None:
            try:
                for env, shots in job.work:
                    # Software OpenGL compiles shaders at the first drawing. One thread at a time: with Mesa 22.3, two
                    # threads in their first drawing once ended the process (a segmentation fault in mjr_render).
                    with _FIRST_DRAWING if fresh else contextlib.nullcontext():
                        canvas.paint(job, env, shots)
                    fresh = False
                problem: BaseException | None = None
            except BaseException as error:
                problem = error
            job.done.put(problem)
            del job
    finally:
        canvas.free()
