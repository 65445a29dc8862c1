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
import copy
import os
import threading
import weakref
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from queue import SimpleQueue
from typing import Any, ClassVar

import mujoco
import numpy as np
import torch

from sensorium.cameras.raster_kernels import flip_depth, flip_ids
from sensorium.cameras.renderer import Look, Quality, View
from sensorium.errors import DeviceError, OptionError
from sensorium.worlds import World
from sensorium.worlds.opengl import make_context

_QUALITIES: dict[Quality, tuple[int, int]] = {"fast": (0, 0), "balanced": (512, 0), "high": (4096, 4)}
"""Pixels of a shadow map, and samples a pixel."""
_SOFTWARE = ("llvmpipe", "softpipe", "swrast", "swiftshader", "software")
_ROOM = 10_000
"""Shapes that an image can show beyond those of the model: flexes and tendons take many."""
_FIELDS = ("geom_", "mat_", "light_", "body_pos", "body_quat", "site_", "tendon_rgba", "skin_", "flex_rgba", "jnt_pos")
"""Beginnings of the model fields that images depend on."""
_SEGMENT, _IDCOLOR = int(mujoco.mjtRndFlag.mjRND_SEGMENT), int(mujoco.mjtRndFlag.mjRND_IDCOLOR)
_GEOM = int(mujoco.mjtObj.mjOBJ_GEOM)


@dataclass
class _Shot:
    """One camera in one pass: its viewpoints, and what to fill, as arrays."""

    width: int
    height: int
    near: float
    far: float
    position: np.ndarray
    rotation: np.ndarray
    sides: np.ndarray
    """Left, right, bottom and top of the frustum at the near plane, (B, 4)."""
    images: dict[str, np.ndarray]


@dataclass
class _Job:
    """One pass, shared by all threads: what to draw, and what is left to do."""

    work: Iterator[tuple[int, list[_Shot]]]
    qpos: np.ndarray
    mocap: tuple[np.ndarray, np.ndarray] | None
    fields: list[tuple[str, np.ndarray]]
    done: SimpleQueue[BaseException | None]


class RasterRenderer:
    """See the module."""

    name: ClassVar[str] = "raster"
    outputs: ClassVar[frozenset[str]] = frozenset({"rgb", "depth", "segmentation"})
    max_resolution: ClassVar[int] = 16384

    def __init__(self) -> None:
        self._threads: list[tuple[threading.Thread, SimpleQueue[_Job | None]]] = []
        self._host: dict[int, np.ndarray] = {}

    @classmethod
    def missing(cls, device: torch.device) -> str | None:
        try:
            _try_opengl()
        except DeviceError as error:
            return str(error)
        return None

    def build(self, world: World, views: Sequence[View], look: Look) -> str:
        self._world, self._look = world, look
        width, height = max(view.width for view in views), max(view.height for view in views)
        far = max(view.far for view in views)
        count = max(1, min(len(os.sched_getaffinity(0)), world.n_envs * len(views)))
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
                tasks: SimpleQueue[_Job | None] = SimpleQueue()
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

    def render(self, views: Sequence[View], envs: np.ndarray | None) -> None:
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
        job = _Job(work, self._qpos.numpy(force=True), mocap, fields, done)  # type: ignore[arg-type]
        for _, tasks in self._threads:
            tasks.put(job)
        problems = [problem for _ in self._threads if (problem := done.get()) is not None]
        if problems:
            raise problems[0]
        if world.device.type != "cpu":
            for view in views:
                for image in view.caches.values():
                    self._upload(image, envs)

    def _shot(self, view: View) -> _Shot:
        fx, fy, cx, cy = (value.numpy(force=True) for value in (view.fx, view.fy, view.cx, view.cy))
        sides = np.stack([-cx / fx, (view.width - cx) / fx, (cy - view.height) / fy, cy / fy], 1) * view.near
        images = {name: self._on_host(image) for name, image in view.caches.items()}
        position, turned = view.position.numpy(force=True), view.rotation.numpy(force=True)
        return _Shot(view.width, view.height, view.near, view.far, position, turned, sides, images)

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


def _stop(threads: list[tuple[threading.Thread, SimpleQueue[_Job | None]]]) -> None:
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


def _serve(
    tasks: SimpleQueue[_Job | None],
    started: SimpleQueue[str | BaseException],
    model: mujoco.MjModel,
    size: tuple[int, int],
    far: float,
    look: Look,
) -> None:
    """What a thread does: hold a canvas, and paint on it until told to stop."""
    try:
        canvas = _Canvas(model, size, far, look)
    except BaseException as error:
        started.put(error)
        return
    started.put(canvas.about)
    try:
        while (job := tasks.get()) is not None:
            try:
                for env, shots in job.work:
                    canvas.paint(job, env, shots)
                problem: BaseException | None = None
            except BaseException as error:
                problem = error
            job.done.put(problem)
            del job
    finally:
        canvas.free()


class _Canvas:
    """An OpenGL context with all that one thread needs to paint envs. Lives in that thread."""

    def __init__(self, model: mujoco.MjModel, size: tuple[int, int], far: float, look: Look) -> None:
        self._gl, way = make_context(*size)
        try:
            self._start(model, size, far, look, way)
        except BaseException:
            self._gl.free()
            raise

    def _start(self, model: mujoco.MjModel, size: tuple[int, int], far: float, look: Look, way: str) -> None:
        from OpenGL import GL  # type: ignore[import-untyped]

        driver = GL.glGetString(GL.GL_RENDERER).decode()
        soft = any(name in driver.lower() for name in _SOFTWARE)
        quality = look.quality or ("fast" if soft else "high")
        shadow, samples = _QUALITIES[quality]
        samples = samples if look.samples is None else look.samples
        most = int(GL.glGetIntegerv(GL.GL_MAX_RENDERBUFFER_SIZE))
        if max(size) > most:
            raise OptionError(f"resolution {size} is beyond what this OpenGL ({driver}) can draw: {most} pixels a side")
        self.about = f"{way.upper()}, {driver.split(' (')[0]}, {quality}"
        self.model = copy.copy(model)
        self.model.vis.global_.offwidth, self.model.vis.global_.offheight = size
        self.model.vis.quality.shadowsize = max(shadow, 1)
        self.model.vis.quality.offsamples = samples
        self.model.vis.map.zfar = max(far / model.stat.extent, 1.0)  # how far planes reach
        self.data = mujoco.MjData(self.model)
        self.scene = mujoco.MjvScene(self.model, model.ngeom + _ROOM)
        self.scene.flags[mujoco.mjtRndFlag.mjRND_SHADOW] = shadow > 0
        self.scene.flags[mujoco.mjtRndFlag.mjRND_REFLECTION] = quality != "fast"
        self._cameras = tuple(self.scene.camera)
        self._viewpoint = mujoco.MjvCamera()
        self._option = mujoco.MjvOption()
        self._option.sitegroup[:] = 0  # what has no body is not seen
        self._option.flags[mujoco.mjtVisFlag.mjVIS_RANGEFINDER] = False
        self._option.flags[mujoco.mjtVisFlag.mjVIS_FLEXEDGE] = False
        self._pixels = mujoco.MjrContext(self.model, int(mujoco.mjtFontScale.mjFONTSCALE_100))
        mujoco.mjr_setBuffer(int(mujoco.mjtFramebuffer.mjFB_OFFSCREEN), self._pixels)
        self._pixels.readDepthMap = int(mujoco.mjtDepthMap.mjDEPTH_ZEROFAR)
        self._smooth = int(self._pixels.offSamples) > 0
        self._room = np.empty(size[0] * size[1] * 3, np.uint8), np.empty(size[0] * size[1], np.float32)
        self._ids: np.ndarray | None = None

    def paint(self, job: _Job, env: int, shots: list[_Shot]) -> None:
        """All shots of one env."""
        model, data, scene = self.model, self.data, self.scene
        data.qpos[:] = job.qpos[env]
        if job.mocap is not None:
            data.mocap_pos[:], data.mocap_quat[:] = job.mocap[0][env], job.mocap[1][env]
        recoloured = False
        for name, values in job.fields:
            getattr(model, name)[...] = values[env]
            recoloured = recoloured or name.endswith("rgba")
        mujoco.mj_kinematics(model, data)
        mujoco.mj_comPos(model, data)
        mujoco.mj_camlight(model, data)
        if model.nflex:
            mujoco.mj_flex(model, data)
        if model.ntendon:
            mujoco.mj_tendon(model, data)
        mujoco.mjv_updateScene(model, data, self._option, None, self._viewpoint, int(mujoco.mjtCatBit.mjCAT_ALL), scene)
        if self._ids is None or len(self._ids) != scene.ngeom + 1 or recoloured:
            self._ids = self._segment_ids()
            self._spoilt = _spoils_depth(model)
        for shot in shots:
            self._look_from(shot, env)
            self._draw(shot, env)

    def _look_from(self, shot: _Shot, env: int) -> None:
        position, turned, sides = shot.position[env], shot.rotation[env], shot.sides[env]
        left, right, bottom, top = sides
        for camera in self._cameras:  # MuJoCo draws from the mean of a left and a right eye
            camera.pos, camera.forward, camera.up = position, -turned[:, 2], turned[:, 1]
            camera.frustum_center, camera.frustum_width = (left + right) / 2, (right - left) / 2
            camera.frustum_bottom, camera.frustum_top = bottom, top
            camera.frustum_near, camera.frustum_far = shot.near, shot.far
        if self.scene.nlight and self.scene.lights[0].headlight:
            lamp = self.scene.lights[0]
            lamp.pos, lamp.dir = position, -turned[:, 2]

    def _draw(self, shot: _Shot, env: int) -> None:
        area, scene, flags = mujoco.MjrRect(0, 0, shot.width, shot.height), self.scene, self.scene.flags
        count = shot.width * shot.height
        colours = self._room[0][: count * 3].reshape(shot.height, shot.width, 3)
        levels = self._room[1][:count].reshape(shot.height, shot.width)
        rgb, depth, ids = (shot.images.get(name) for name in ("rgb", "depth", "segmentation"))
        flat_depth = depth is not None and (rgb is None or ids is not None or self._smooth or self._spoilt)
        if rgb is not None:
            mujoco.mjr_render(area, scene, self._pixels)
            mujoco.mjr_readPixels(colours, None if depth is None or flat_depth else levels, area, self._pixels)
            np.copyto(rgb[env], colours[::-1])
        if ids is not None or flat_depth:
            flags[_SEGMENT] = flags[_IDCOLOR] = True
            mujoco.mjr_render(area, scene, self._pixels)
            flags[_SEGMENT] = flags[_IDCOLOR] = False
            mujoco.mjr_readPixels(None if ids is None else colours, levels if flat_depth else None, area, self._pixels)
            if ids is not None:
                flip_ids(colours, self._ids, ids[env])
        if depth is not None:
            flip_depth(levels, shot.near, shot.far, depth[env])

    def _segment_ids(self) -> np.ndarray:
        """Colour of the flat drawing -> (body, geom): those of the shape with that number less one."""
        ids = np.full((self.scene.ngeom + 1, 2), -1, np.int32)
        for shape in self.scene.geoms[: self.scene.ngeom]:
            if shape.segid >= 0:
                is_geom = shape.objtype == _GEOM
                ids[shape.segid + 1] = (self.model.geom_bodyid[shape.objid], shape.objid) if is_geom else (0, -1)
        return ids

    def free(self) -> None:
        """Give everything back."""
        self._pixels.free()
        self._gl.free()


def _spoils_depth(model: mujoco.MjModel) -> bool:
    """Whether something leaves no depth when it is drawn in colour, or, as the sky does, one that it has not."""
    alphas: list[Any] = [model.geom_rgba[:, 3], model.mat_rgba[:, 3], model.skin_rgba[:, 3], model.flex_rgba[:, 3]]
    clear = any(bool(((alpha > 0) & (alpha < 1)).any()) for alpha in alphas)
    return clear or bool((model.tex_type == int(mujoco.mjtTexture.mjTEXTURE_SKYBOX)).any())
