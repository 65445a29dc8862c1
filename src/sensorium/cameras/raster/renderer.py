"""``RasterRenderer``: MuJoCo's OpenGL renderer, on all CPU cores.

Each of a few threads has one OpenGL context, at the largest resolution of all cameras, with a copy of the model, an
MjData and an MjvScene that it reuses for all envs and cameras. MuJoCo's calls release the GIL. Per env, a thread copies
the positions, runs the kinematics and updates the scene once. Per camera, it only moves the viewpoint. Colour and depth
come from one drawing; segmentation comes from a second, flat drawing of the same scene.

Depth comes from the flat drawing too if the colour drawing would have it wrong: with multi-sampling, which averages
depth at edges; with transparent shapes, which write no depth; and with a skybox, which writes one.

Colour shows round shapes as facets. Depth, segmentation and normals do not: ``cameras/round_shapes.py`` traces the rays
of the pixels that may show a round shape. Other normals are computed from depth.
"""

from __future__ import annotations

import atexit
import contextlib
import threading
import weakref
from collections.abc import Sequence
from queue import SimpleQueue
from typing import ClassVar, Protocol

import mujoco
import numpy as np
import torch

from sensorium._system import cpu_count
from sensorium.cameras.light_support import warn_about_lights
from sensorium.cameras.raster.canvas import Canvas, DrawJob, Shot
from sensorium.cameras.renderer import CameraView, RenderSettings
from sensorium.errors import DeviceError
from sensorium.worlds import World
from sensorium.worlds.opengl import make_context

_VISUAL_FIELDS = (
    "geom_", "mat_", "light_", "body_pos", "body_quat", "site_", "tendon_rgba", "skin_", "flex_rgba", "jnt_pos",
)  # fmt: skip
"""Prefixes of the model fields that images depend on."""

JobQueue = SimpleQueue[DrawJob | object]
"""Jobs of one thread; anything else stops it."""


class RasterRenderer:
    """Renderer that draws with MuJoCo's OpenGL; see :class:`~sensorium.cameras.renderer.Renderer`."""

    name: ClassVar[str] = "raster"
    outputs: ClassVar[frozenset[str]] = frozenset({"rgb", "depth", "segmentation", "normals"})
    max_resolution: ClassVar[int] = 16384

    def __init__(self) -> None:
        self._threads: list[tuple[threading.Thread, JobQueue]] = []
        self._targets: _ImageTargets = _HostTargets()

    @classmethod
    def missing(cls, device: torch.device) -> str | None:
        try:
            _check_opengl()
        except DeviceError as error:
            return str(error)
        return None

    def build(self, world: World, views: Sequence[CameraView], settings: RenderSettings) -> str:
        warn_about_lights(self.name, settings.lights)
        self._world = world
        self._targets = _HostTargets() if world.device.type == "cpu" else _StagedTargets()
        width, height = max(view.width for view in views), max(view.height for view in views)
        far = max(view.far for view in views)
        count = max(1, min(cpu_count(), world.n_envs * len(views)))
        self._mocap = None
        if world.model.nmocap:
            self._mocap = (world.bind("mocap_pos"), world.bind("mocap_quat"))
        self._qpos = world.bind("qpos")
        self._finalizer = weakref.finalize(self, _stop, self._threads)
        self._finalizer.atexit = False
        _OPEN.add(self)
        try:
            for _ in range(count):
                started: SimpleQueue[str | BaseException] = SimpleQueue()
                jobs: JobQueue = SimpleQueue()
                # if this renderer is collected without close(), its weak reference is put into the queue; no Python
                # code runs for that, which Ctrl-C could interrupt as it can the finalizer
                owner = weakref.ref(self, jobs.put)
                arguments = (owner, jobs, started, world.model, (width, height), far, settings)
                thread = threading.Thread(target=_serve, args=arguments, name="sensorium-raster", daemon=True)
                self._threads.append((thread, jobs))  # before it starts: an interrupted build stops it too
                thread.start()
                runs_on = started.get()
                if isinstance(runs_on, BaseException):
                    raise runs_on
        except BaseException:
            self.close()
            raise
        return f"{runs_on}, {count} thread{'s' if count > 1 else ''}"

    def render(self, views: Sequence[CameraView], envs: np.ndarray | None) -> None:
        world = self._world
        ids = np.arange(world.n_envs) if envs is None else envs
        shots = [self._make_shot(view) for view in views if view.caches]
        if not shots or not len(ids):
            return
        fields = [
            (name, values.numpy(force=True))
            for name, values in world.expanded.items()
            if name.startswith(_VISUAL_FIELDS)
        ]
        # with fewer envs than threads, the cameras of one env are distributed over several threads
        parts = [[shot] for shot in shots] if len(ids) < len(self._threads) else [shots]
        work = iter([(int(env), part) for env in ids for part in parts])
        mocap = None
        if self._mocap is not None:
            mocap = (self._mocap[0].numpy(force=True), self._mocap[1].numpy(force=True))
        done: SimpleQueue[BaseException | None] = SimpleQueue()
        job = DrawJob(work, self._qpos.numpy(force=True), mocap, fields, done)
        for _, jobs in self._threads:
            jobs.put(job)
        problems = [problem for _ in self._threads if (problem := done.get()) is not None]
        if problems:
            raise problems[0]
        self._targets.upload(views, envs)

    def _make_shot(self, view: CameraView) -> Shot:
        fx, fy, cx, cy = (value.numpy(force=True) for value in (view.fx, view.fy, view.cx, view.cy))
        sides = np.stack([-cx / fx, (view.width - cx) / fx, (cy - view.height) / fy, cy / fy], 1) * view.near
        images = {name: self._targets.array(image) for name, image in view.caches.items()}
        position, rotation = view.position.numpy(force=True), view.rotation.numpy(force=True)
        return Shot(view.width, view.height, view.near, view.far, position, rotation, sides, images)

    def close(self) -> None:
        _OPEN.discard(self)
        _stop(self._threads)
        self._targets.clear()


# -- memory that the threads write to ---------------------------------------------------------------------------------


class _ImageTargets(Protocol):
    """Host memory for the images of the views, and its way to their device."""

    def array(self, image: torch.Tensor) -> np.ndarray:
        """Return the array that threads write an image to."""
        ...

    def upload(self, views: Sequence[CameraView], envs: np.ndarray | None) -> None:
        """Copy the images of these envs (None: all) to their device."""
        ...

    def clear(self) -> None:
        """Free the memory."""
        ...


class _HostTargets:
    """For images on the CPU: threads write to them directly."""

    def array(self, image: torch.Tensor) -> np.ndarray:
        return image.numpy()

    def upload(self, views: Sequence[CameraView], envs: np.ndarray | None) -> None:
        pass

    def clear(self) -> None:
        pass


class _StagedTargets:
    """For images on a GPU: threads write to pinned host memory, which is kept and then copied."""

    def __init__(self) -> None:
        self._staged: dict[int, np.ndarray] = {}

    def array(self, image: torch.Tensor) -> np.ndarray:
        key = image.data_ptr()
        if key not in self._staged:
            self._staged[key] = torch.zeros(image.shape, dtype=image.dtype, pin_memory=True).numpy()
        return self._staged[key]

    def upload(self, views: Sequence[CameraView], envs: np.ndarray | None) -> None:
        for view in views:
            for image in view.caches.values():
                host = torch.from_numpy(self._staged[image.data_ptr()])
                if envs is None:
                    image.copy_(host)
                else:
                    index = torch.from_numpy(envs.astype(np.int64))
                    image[index.to(image.device)] = host[index].to(image.device)

    def clear(self) -> None:
        self._staged.clear()


# -- threads ----------------------------------------------------------------------------------------------------------

_OPEN: weakref.WeakSet[RasterRenderer] = weakref.WeakSet()
_works = threading.Event()


def _close_all() -> None:
    for renderer in list(_OPEN):
        renderer.close()


def _stop(threads: list[tuple[threading.Thread, JobQueue]]) -> None:
    """Stop threads, which free their contexts."""
    for _, jobs in threads:
        jobs.put(None)
    while threads:
        # Removed first and never joined again: after two interrupts in one join(), the next can wait for ever for a
        # thread that has ended (seen with Python 3.11.7). It ends by itself, since it was told to stop.
        thread, _ = threads.pop()
        if thread is not threading.current_thread() and thread.ident is not None:  # else it did not start
            thread.join()


def _check_opengl() -> None:
    """Check once that an OpenGL context can be created here.

    Raises:
        DeviceError: it cannot.
    """
    if _works.is_set():
        return

    problems: list[BaseException] = []

    def attempt() -> None:  # in its own thread, so that a context of the caller stays current
        try:
            make_context(16, 16)[0].free()
        except DeviceError as error:
            problems.append(error)

    thread = threading.Thread(target=attempt)
    thread.start()
    thread.join()
    if problems:
        raise problems[0]
    # registered after MuJoCo's own handler, so that it runs first, before the display is closed
    atexit.register(_close_all)
    _works.set()


_FIRST_DRAWING = threading.Lock()


def _serve(
    owner: weakref.ref[RasterRenderer],
    jobs: JobQueue,
    started: SimpleQueue[str | BaseException],
    model: mujoco.MjModel,
    size: tuple[int, int],
    far: float,
    settings: RenderSettings,
) -> None:
    """Create a canvas, and draw jobs on it until something else arrives: the body of a thread.

    It holds ``owner``, whose callback stops it, since weak references without an owner have no effect.
    """
    try:
        canvas = Canvas(model, size, far, settings)
    except BaseException as error:
        started.put(error)
        return
    started.put(canvas.runs_on)
    is_first = True
    try:
        while isinstance(job := jobs.get(), DrawJob):
            try:
                for env, shots in job.work:
                    # Software OpenGL compiles shaders at the first drawing. One thread at a time: with Mesa 22.3, two
                    # threads in their first drawing once ended the process (a segmentation fault in mjr_render).
                    with _FIRST_DRAWING if is_first else contextlib.nullcontext():
                        canvas.draw_env(job, env, shots)
                    is_first = False
                problem: BaseException | None = None
            except BaseException as error:
                problem = error
            job.done.put(problem)
            del job
    finally:
        canvas.free()
