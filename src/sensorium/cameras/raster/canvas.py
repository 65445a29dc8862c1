"""``Canvas``: an OpenGL context with everything that one thread of the ``raster`` renderer needs to draw envs."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from dataclasses import dataclass
from queue import SimpleQueue

import mujoco
import numpy as np

from sensorium.cameras.raster.kernels import fill_normals, flip_depth, flip_ids
from sensorium.cameras.renderer import Quality, RenderSettings
from sensorium.cameras.round_shapes import ROUND, trace_round
from sensorium.errors import OptionError
from sensorium.worlds.environments import environment_textures, show_environment
from sensorium.worlds.opengl import make_context


@dataclass(frozen=True)
class _QualityLevel:
    shadow_size: int
    """Pixels per side of a shadow map; 0 for no shadows."""
    shadow_reach: float
    """Minimum distance that the shadow map of a directional light covers, m."""
    samples: int
    """Samples per pixel."""
    facets: int
    """Minimum number of facets around round shapes."""


_QUALITIES: dict[Quality, _QualityLevel] = {
    "fast": _QualityLevel(shadow_size=0, shadow_reach=1.0, samples=0, facets=0),
    "balanced": _QualityLevel(shadow_size=512, shadow_reach=4.0, samples=0, facets=40),
    "high": _QualityLevel(shadow_size=4096, shadow_reach=4.0, samples=4, facets=96),
}
_SOFTWARE = ("llvmpipe", "softpipe", "swrast", "swiftshader", "software")
"""Names of OpenGL drivers that render on the CPU."""
_EXTRA_SHAPES = 10_000
"""Shapes that a scene can hold in addition to the model's geoms: flexes and tendons need many."""
_SEGMENT, _IDCOLOR = int(mujoco.mjtRndFlag.mjRND_SEGMENT), int(mujoco.mjtRndFlag.mjRND_IDCOLOR)
_GEOM = int(mujoco.mjtObj.mjOBJ_GEOM)
_NO_IDS, _NO_NORMALS = np.empty((0, 0, 2), np.int32), np.empty((0, 0, 3), np.float32)


@dataclass
class Shot:
    """One camera in one render call: its poses and frustums, and the images to fill, as arrays over all envs."""

    width: int
    height: int
    near: float
    far: float
    position: np.ndarray
    """Position in the world, m, (B, 3)."""
    rotation: np.ndarray
    """World from camera in GL axes, (B, 3, 3)."""
    sides: np.ndarray
    """Left, right, bottom and top of the frustum at the near plane, m, (B, 4)."""
    images: dict[str, np.ndarray]
    """Output -> (B, H, W, ...)."""


@dataclass
class DrawJob:
    """One render call, shared by all threads."""

    work: Iterator[tuple[int, list[Shot]]]
    """What is left to draw: (env, shots). Threads take the next item from it."""
    qpos: np.ndarray
    """Positions, (B, nq)."""
    mocap: tuple[np.ndarray, np.ndarray] | None
    """Positions and quaternions of mocap bodies, (B, nmocap, 3) and (B, nmocap, 4)."""
    fields: list[tuple[str, np.ndarray]]
    """Model fields that differ per env: name, and values (B, ...)."""
    done: SimpleQueue[BaseException | None]
    """Each thread puts None, or the error that it ran into."""


class Canvas:
    """OpenGL context, model copy and scene of one thread. It must be created and used in that thread.

    Args:
        model: the compiled model; it is copied.
        size: largest width and height of all cameras.
        far: largest distance of a far plane, m.
        settings: what all cameras share.

    Attributes:
        runs_on: the OpenGL platform, driver and quality, in a few words.
    """

    def __init__(self, model: mujoco.MjModel, size: tuple[int, int], far: float, settings: RenderSettings) -> None:
        self._gl, platform = make_context(*size)
        try:
            self._start(model, size, far, settings, platform)
        except BaseException:
            self._gl.free()
            raise

    def _start(
        self, model: mujoco.MjModel, size: tuple[int, int], far: float, settings: RenderSettings, platform: str
    ) -> None:
        from OpenGL import GL  # type: ignore[import-untyped]

        driver = GL.glGetString(GL.GL_RENDERER).decode()
        is_software = any(name in driver.lower() for name in _SOFTWARE)
        quality = settings.quality or ("fast" if is_software else "high")
        level = _QUALITIES[quality]
        limit = int(GL.glGetIntegerv(GL.GL_MAX_RENDERBUFFER_SIZE))
        if max(size) > limit:
            raise OptionError(f"resolution must be <= {limit} pixels per side for OpenGL on {driver}, got {size}")
        self.runs_on = f"{platform.upper()}, {driver.split(' (')[0]}, {quality}"
        self.model = copy.copy(model)
        self.model.vis.global_.offwidth, self.model.vis.global_.offheight = size
        self.model.vis.quality.shadowsize = max(level.shadow_size, 1)
        self.model.vis.quality.offsamples = level.samples if settings.samples is None else settings.samples
        self.model.vis.quality.numslices = max(level.facets, model.vis.quality.numslices)
        self.model.vis.quality.numstacks = max(level.facets, model.vis.quality.numstacks)
        self.model.vis.map.shadowclip = max(level.shadow_reach / model.stat.extent, model.vis.map.shadowclip)
        # A slanted plane casts specks of shadow on itself, and there is rarely anything behind a plane to shadow.
        self.model.geom_castshadow[model.geom_type == int(mujoco.mjtGeom.mjGEOM_PLANE)] = False
        self.model.vis.map.zfar = max(far / model.stat.extent, 1.0)  # how far infinite planes reach
        self.data = mujoco.MjData(self.model)
        self.scene = mujoco.MjvScene(self.model, model.ngeom + _EXTRA_SHAPES)
        self.scene.flags[mujoco.mjtRndFlag.mjRND_SHADOW] = level.shadow_size > 0
        self.scene.flags[mujoco.mjtRndFlag.mjRND_REFLECTION] = quality != "fast"
        self._cameras = tuple(self.scene.camera)
        self._viewpoint = mujoco.MjvCamera()
        self._option = mujoco.MjvOption()
        self._option.sitegroup[:] = 0  # sites are markers, not surfaces
        self._option.flags[mujoco.mjtVisFlag.mjVIS_RANGEFINDER] = False
        self._option.flags[mujoco.mjtVisFlag.mjVIS_FLEXEDGE] = False
        self._context = mujoco.MjrContext(self.model, int(mujoco.mjtFontScale.mjFONTSCALE_100))
        mujoco.mjr_setBuffer(int(mujoco.mjtFramebuffer.mjFB_OFFSCREEN), self._context)
        self._context.readDepthMap = int(mujoco.mjtDepthMap.mjDEPTH_ZEROFAR)
        self._is_multisampled = int(self._context.offSamples) > 0
        self._colour_buffer = np.empty(size[0] * size[1] * 3, np.uint8)
        self._depth_buffer = np.empty(size[0] * size[1], np.float32)
        self._distances = np.empty(size[0] * size[1], np.float32)
        self._depth_scales: dict[tuple[float, float], tuple[float, float]] = {}
        self._ids: np.ndarray | None = None
        self._skies = environment_textures(model)
        planes = model.geom_size[model.geom_type == int(mujoco.mjtGeom.mjGEOM_PLANE)]
        self._has_infinite_planes = bool((planes[:, :2] <= 0).any())

    def draw_env(self, job: DrawJob, env: int, shots: list[Shot]) -> None:
        """Draw all shots of one env."""
        model, data, scene = self.model, self.data, self.scene
        data.qpos[:] = job.qpos[env]
        if job.mocap is not None:
            data.mocap_pos[:], data.mocap_quat[:] = job.mocap[0][env], job.mocap[1][env]
        recoloured = False
        for name, values in job.fields:
            getattr(model, name)[...] = values[env]
            recoloured = recoloured or name.endswith(("rgba", "matid"))
        show_environment(self._context, model, self._skies)
        mujoco.mj_kinematics(model, data)
        mujoco.mj_comPos(model, data)
        mujoco.mj_camlight(model, data)
        if model.nflex:
            mujoco.mj_flex(model, data)
        if model.ntendon:
            mujoco.mj_tendon(model, data)
        for number, shot in enumerate(shots):
            if number == 0 or self._has_infinite_planes:
                self._set_viewpoint(shot, env)  # infinite planes are centred on the viewpoint
                everything = int(mujoco.mjtCatBit.mjCAT_ALL)
                mujoco.mjv_updateScene(model, data, self._option, None, self._viewpoint, everything, scene)
            if number == 0 and (self._ids is None or len(self._ids) != scene.ngeom + 1 or recoloured):
                self._ids, self._round = self._list_shapes()
                self._colour_pass_lacks_depth = _colour_pass_lacks_depth(model)
            self._set_viewpoint(shot, env)
            self._draw_shot(shot, env)

    def _set_viewpoint(self, shot: Shot, env: int) -> None:
        position, rotation, sides = shot.position[env], shot.rotation[env], shot.sides[env]
        left, right, bottom, top = sides
        for camera in self._cameras:  # MuJoCo draws from the mean of the left and the right eye
            camera.pos, camera.forward, camera.up = position, -rotation[:, 2], rotation[:, 1]
            camera.frustum_center, camera.frustum_width = (left + right) / 2, (right - left) / 2
            camera.frustum_bottom, camera.frustum_top = bottom, top
            camera.frustum_near, camera.frustum_far = shot.near, shot.far
        if self.scene.nlight and self.scene.lights[0].headlight:
            headlight = self.scene.lights[0]
            headlight.pos, headlight.dir = position, -rotation[:, 2]

    def _draw_shot(self, shot: Shot, env: int) -> None:
        area, scene, flags = mujoco.MjrRect(0, 0, shot.width, shot.height), self.scene, self.scene.flags
        context, count = self._context, shot.width * shot.height
        colours = self._colour_buffer[: count * 3].reshape(shot.height, shot.width, 3)
        levels = self._depth_buffer[:count].reshape(shot.height, shot.width)
        rgb, depth, ids, normals = (shot.images.get(name) for name in ("rgb", "depth", "segmentation", "normals"))
        has_round = len(self._round) > 0
        needs_depth = depth is not None or normals is not None or (ids is not None and has_round)
        # depth from the flat drawing: if there is a flat one anyway, or the colour drawing would have it wrong
        wrong_in_colour = self._is_multisampled or self._colour_pass_lacks_depth
        flat_depth = needs_depth and (rgb is None or ids is not None or wrong_in_colour)
        if rgb is not None:
            mujoco.mjr_render(area, scene, context)
            mujoco.mjr_readPixels(colours, levels if needs_depth and not flat_depth else None, area, context)
            np.copyto(rgb[env], colours[::-1])
        if ids is not None or flat_depth:
            flags[_SEGMENT] = flags[_IDCOLOR] = True
            mujoco.mjr_render(area, scene, context)
            flags[_SEGMENT] = flags[_IDCOLOR] = False
            mujoco.mjr_readPixels(None if ids is None else colours, levels if flat_depth else None, area, context)
            if ids is not None:
                flip_ids(colours, self._ids, ids[env])
        if not needs_depth:
            return
        distances = self._distances[:count].reshape(shot.height, shot.width) if depth is None else depth[env]
        flip_depth(levels, *self._depth_scale(shot.near, shot.far), distances)
        if normals is not None:
            normals[env] = 0.0
        if has_round:
            model, data = self.model, self.data
            shapes = (self._round, model.geom_bodyid, model.geom_type, model.geom_size, data.geom_xpos, data.geom_xmat)
            lens = (shot.position[env], shot.rotation[env], shot.sides[env], shot.near, shot.far)
            found = (_NO_IDS if ids is None else ids[env], _NO_NORMALS if normals is None else normals[env])
            trace_round(*shapes, *lens, distances, *found)
        if normals is not None:
            fill_normals(distances, shot.sides[env], shot.near, normals[env])

    def _depth_scale(self, near: float, far: float) -> tuple[float, float]:
        """Return the numbers by which OpenGL computed the levels of the last drawing: level = scale / depth - offset.

        MuJoCo derives its projection matrix from (far + near) / (far - near) in float32. That is so close to 1 that the
        offset is rounded by up to 3e-8, which moves surfaces by that part of depth² / near: 0.04% of the depth at 30 m
        with a near plane at 1 mm. So the numbers are read from the matrix. (Checked with MuJoCo 4.0.0 and Mesa 22.3; an
        unknown matrix is ignored.)
        """
        if (near, far) not in self._depth_scales:
            from OpenGL import GL

            matrix = np.asarray(GL.glGetFloatv(GL.GL_PROJECTION_MATRIX), np.float64)
            scale, offset = near * far / (far - near), near / (far - near)
            is_known = matrix[2, 3] == -1 and abs(matrix[2, 2] - offset) < 2e-7 and abs(matrix[3, 2] / scale - 1) < 1e-6
            known = (float(matrix[3, 2]), float(matrix[2, 2])) if is_known else (scale, offset)
            self._depth_scales[near, far] = known
        return self._depth_scales[near, far]

    def _list_shapes(self) -> tuple[np.ndarray, np.ndarray]:
        """Return what the scene draws, by colour and by type.

        Returns:
            (body, geom) by the colour of the flat drawing: row i + 1 is for the shape with segmentation id i; and the
            ids of the geoms with a type of ``ROUND``.
        """
        ids, found = np.full((self.scene.ngeom + 1, 2), -1, np.int32), []
        for shape in self.scene.geoms[: self.scene.ngeom]:
            if shape.segid >= 0:
                is_geom = shape.objtype == _GEOM
                ids[shape.segid + 1] = (self.model.geom_bodyid[shape.objid], shape.objid) if is_geom else (0, -1)
                if is_geom and shape.type in ROUND:
                    found.append(shape.objid)
        return ids, np.array(found, np.int32)

    def free(self) -> None:
        """Free the OpenGL context."""
        self._context.free()
        self._gl.free()


def _colour_pass_lacks_depth(model: mujoco.MjModel) -> bool:
    """Return whether colour drawings have wrong depth: transparent shapes write none, and a skybox writes one."""
    alphas = [model.geom_rgba[:, 3], model.mat_rgba[:, 3], model.skin_rgba[:, 3], model.flex_rgba[:, 3]]
    is_transparent = any(bool(((alpha > 0) & (alpha < 1)).any()) for alpha in alphas)
    return is_transparent or bool((model.tex_type == int(mujoco.mjtTexture.mjTEXTURE_SKYBOX)).any())
