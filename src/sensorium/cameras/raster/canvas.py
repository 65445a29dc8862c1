"""An OpenGL context with all that one thread of ``raster`` needs to paint envs."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from dataclasses import dataclass
from queue import SimpleQueue
from typing import Any

import mujoco
import numpy as np

from sensorium.cameras.raster.kernels import flip_depth, flip_ids
from sensorium.cameras.renderer import Quality, RenderSettings
from sensorium.errors import OptionError
from sensorium.worlds.opengl import make_context

_QUALITIES: dict[Quality, tuple[int, float, int, int]] = {
    "fast": (0, 1.0, 0, 0),
    "balanced": (512, 4.0, 0, 40),
    "high": (4096, 4.0, 4, 96),
}
"""Pixels of a shadow map, metres around a directional light that it covers at least, samples a pixel, and facets around
what is round, at least."""
_SOFTWARE = ("llvmpipe", "softpipe", "swrast", "swiftshader", "software")
_ROOM = 10_000
"""Shapes that an image can show beyond those of the model: flexes and tendons take many."""
_SEGMENT, _IDCOLOR = int(mujoco.mjtRndFlag.mjRND_SEGMENT), int(mujoco.mjtRndFlag.mjRND_IDCOLOR)
_GEOM = int(mujoco.mjtObj.mjOBJ_GEOM)


@dataclass
class Shot:
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
class DrawJob:
    """One pass, shared by all threads: what to draw, and what is left to do."""

    work: Iterator[tuple[int, list[Shot]]]
    qpos: np.ndarray
    mocap: tuple[np.ndarray, np.ndarray] | None
    fields: list[tuple[str, np.ndarray]]
    done: SimpleQueue[BaseException | None]


class Canvas:
    """An OpenGL context with all that one thread needs to paint envs. Lives in that thread."""

    def __init__(self, model: mujoco.MjModel, size: tuple[int, int], far: float, look: RenderSettings) -> None:
        self._gl, way = make_context(*size)
        try:
            self._start(model, size, far, look, way)
        except BaseException:
            self._gl.free()
            raise

    def _start(self, model: mujoco.MjModel, size: tuple[int, int], far: float, look: RenderSettings, way: str) -> None:
        from OpenGL import GL  # type: ignore[import-untyped]

        driver = GL.glGetString(GL.GL_RENDERER).decode()
        soft = any(name in driver.lower() for name in _SOFTWARE)
        quality = look.quality or ("fast" if soft else "high")
        shadow, reach, samples, facets = _QUALITIES[quality]
        samples = samples if look.samples is None else look.samples
        most = int(GL.glGetIntegerv(GL.GL_MAX_RENDERBUFFER_SIZE))
        if max(size) > most:
            raise OptionError(f"resolution {size} is beyond what this OpenGL ({driver}) can draw: {most} pixels a side")
        self.about = f"{way.upper()}, {driver.split(' (')[0]}, {quality}"
        self.model = copy.copy(model)
        self.model.vis.global_.offwidth, self.model.vis.global_.offheight = size
        self.model.vis.quality.shadowsize = max(shadow, 1)
        self.model.vis.quality.offsamples = samples
        self.model.vis.quality.numslices = max(facets, model.vis.quality.numslices)
        self.model.vis.quality.numstacks = max(facets, model.vis.quality.numstacks)
        self.model.vis.map.shadowclip = max(reach / model.stat.extent, model.vis.map.shadowclip)
        # a slanted plane shadows itself in specks, and there is rarely anything behind it to be shadowed
        self.model.geom_castshadow[model.geom_type == int(mujoco.mjtGeom.mjGEOM_PLANE)] = False
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
        planes = model.geom_size[model.geom_type == int(mujoco.mjtGeom.mjGEOM_PLANE)]
        self._endless = bool((planes[:, :2] <= 0).any())

    def paint(self, job: DrawJob, env: int, shots: list[Shot]) -> None:
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
        for number, shot in enumerate(shots):
            if number == 0 or self._endless:
                self._look_from(shot, env)  # where endless planes are centred on
                everything = int(mujoco.mjtCatBit.mjCAT_ALL)
                mujoco.mjv_updateScene(model, data, self._option, None, self._viewpoint, everything, scene)
            if number == 0 and (self._ids is None or len(self._ids) != scene.ngeom + 1 or recoloured):
                self._ids = self._segment_ids()
                self._spoilt = _spoils_depth(model)
            self._look_from(shot, env)
            self._draw(shot, env)

    def _look_from(self, shot: Shot, env: int) -> None:
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

    def _draw(self, shot: Shot, env: int) -> None:
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
