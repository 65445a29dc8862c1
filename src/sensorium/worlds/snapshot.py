"""Images of one env by MuJoCo's own renderer, for people; robots see through camera sensors."""

from __future__ import annotations

import copy
from contextlib import closing
from io import BytesIO
from pathlib import Path
from typing import TypeAlias

import mujoco
import numpy as np

from sensorium.errors import NameNotFoundError, OptionError, did_you_mean, shorten
from sensorium.files import made_folder, write_whole
from sensorium.worlds.environments import environment_textures, show_environment
from sensorium.worlds.model_fields import model_of_env
from sensorium.worlds.opengl import make_context
from sensorium.worlds.painter import Painter
from sensorium.worlds.snapshot_look import SAMPLES, add_sky, brighten, fit_view, has_own_lights, linear_depth, shrink
from sensorium.worlds.world import World

_MAX_SHAPES = 20_000
"""Shapes that one image can show."""
_FORMATS = (".png", ".jpg", ".jpeg", ".tiff", ".webp")
CameraChoice: TypeAlias = str | int | mujoco.MjvCamera
"""A camera of the model by name or number, a free camera, or -1 for a view of everything."""


def check_arguments(world: World, env: int, width: int, height: int, path: str | Path | None) -> None:
    """Raise OptionError for arguments of ``scene.snapshot`` that are out of range."""
    if not isinstance(env, int) or not 0 <= env < world.n_envs:
        raise OptionError(f"env must be an integer in [0, {world.n_envs}), got {env!r}")
    if not all(isinstance(side, int) and 1 <= side <= 16384 for side in (width, height)):
        raise OptionError(f"width and height must be integers in [1, 16384], got {width!r} and {height!r}")
    if path is not None and Path(path).suffix.lower() not in _FORMATS:
        raise OptionError(f"path must end in {', '.join(_FORMATS)}, got {str(path)!r}")


def save_image(image: np.ndarray, path: str | Path) -> None:
    """Write an image (height, width, 3) uint8 to a file; its folder is created.

    Raises:
        DatasetError: the file cannot be written.
    """
    from matplotlib.image import imsave

    file, data = Path(path), BytesIO()
    imsave(data, image, format=file.suffix.lower().removeprefix("."))
    with made_folder(file.parent, file):
        write_whole(file, data.getvalue())


def snapshot(world: World, env: int, painter: Painter, width: int, height: int, camera: CameraChoice) -> np.ndarray:
    """Render the current state of one env, with the shapes of ``painter``, as (height, width, 3) uint8."""
    with closing(SnapshotRenderer(world, env, width, height)) as renderer:
        return renderer.render(camera, painter)


class SnapshotRenderer:
    """Renders one env many times, with one OpenGL context. The colours and lights stay those at its creation.

    Images are made for people: smoothed, lit everywhere, with a sun if the scene has no lights, and with a sky if it
    has no skybox. Debug shapes inside a body shine through it.

    Args:
        world: the engine.
        env: which env.
        width, height: size of the images in pixels.
    """

    def __init__(self, world: World, env: int, width: int, height: int) -> None:
        self._world, self._env = world, env
        self._model = copy.copy(model_of_env(world, env))
        self._model.vis.quality.offsamples = 0  # smoothed by SAMPLES instead: mixed depths have no distance
        self._model.vis.map.shadowclip = 8.0
        self._data = mujoco.MjData(self._model)
        self._area = mujoco.MjrRect(0, 0, SAMPLES * width, SAMPLES * height)
        self._scene = mujoco.MjvScene(self._model, _MAX_SHAPES)
        self._has_sky = bool((self._model.tex_type == int(mujoco.mjtTexture.mjTEXTURE_SKYBOX)).any())
        self._context, _ = make_context(self._area.width, self._area.height)
        try:
            self._pixels = mujoco.MjrContext(self._model, int(mujoco.mjtFontScale.mjFONTSCALE_100))
            show_environment(self._pixels, self._model, environment_textures(self._model))
            mujoco.mjr_resizeOffscreen(self._area.width, self._area.height, self._pixels)
            mujoco.mjr_setBuffer(int(mujoco.mjtFramebuffer.mjFB_OFFSCREEN), self._pixels)
        except BaseException:
            self._context.free()
            raise

    def render(self, camera: CameraChoice = -1, painter: Painter | None = None) -> np.ndarray:
        """Return an image of the current state, (height, width, 3) uint8, with the shapes of ``painter``."""
        model, data, scene = self._model, self._data, self._scene
        state = self._world.get_state()[self._env].double().numpy(force=True)
        mujoco.mj_setState(model, data, state, int(mujoco.mjtState.mjSTATE_INTEGRATION))
        mujoco.mj_forward(model, data)
        viewpoint = _viewpoint(model, camera)
        if viewpoint.type == int(mujoco.mjtCamera.mjCAMERA_FREE) and viewpoint is not camera:
            fit_view(viewpoint, model, data, self._area.width / self._area.height)
        everything = int(mujoco.mjtCatBit.mjCAT_ALL)
        mujoco.mjv_updateCamera(model, data, viewpoint, scene)  # infinite planes are centred on it
        mujoco.mjv_updateScene(model, data, mujoco.MjvOption(), None, viewpoint, everything, scene)
        brighten(scene, model, sun=not has_own_lights(model))
        first = scene.ngeom
        if painter is not None:
            painter.add_to(scene)
        image, distances = self._draw()
        if scene.ngeom > first:
            image = self._show_hidden(image, distances, first)
        if not self._has_sky:
            image = self._with_sky(image, distances, viewpoint)
        return shrink(image[::-1], SAMPLES)

    def _draw(self) -> tuple[np.ndarray, np.ndarray]:
        """Return colours (H, W, 3) uint8 and distances (H, W) m, inf where nothing was drawn; rows from the bottom."""
        image = np.empty((self._area.height, self._area.width, 3), np.uint8)
        depth = np.empty((self._area.height, self._area.width), np.float32)
        mujoco.mjr_render(self._area, self._scene, self._pixels)
        mujoco.mjr_readPixels(image, depth, self._area, self._pixels)
        return image, linear_depth(self._model, depth)

    def _show_hidden(self, image: np.ndarray, distances: np.ndarray, first: int) -> np.ndarray:
        """Return the image with shapes from geom ``first`` on shining through the bodies that they lie in."""
        scene, model = self._scene, self._model
        moving = model.body_dofnum[model.body_rootid[model.geom_bodyid]] > 0
        if not moving.any():
            return image
        for geom in scene.geoms[:first]:
            geom.rgba[3] = 0.0
        shapes, beyond = self._draw()
        drawn = np.isfinite(beyond)
        behind = np.where(drawn, beyond, 0) - np.where(drawn, distances, 0)
        # a shape in a body is at most its diameter behind its surface
        hidden = drawn & (behind > 1e-3) & (behind < 2 * float(model.geom_rbound[moving].max()))
        mixed = image.copy()
        mixed[hidden] = np.rint(0.3 * image[hidden] + 0.7 * shapes[hidden]).astype(np.uint8)
        return mixed

    def _with_sky(self, image: np.ndarray, distances: np.ndarray, viewpoint: mujoco.MjvCamera) -> np.ndarray:
        view = self._scene.camera[0]
        forward = np.asarray(view.forward)
        fovy = 2 * np.arctan((view.frustum_top - view.frustum_bottom) / 2 / view.frustum_near)
        is_free = viewpoint.type != int(mujoco.mjtCamera.mjCAMERA_FIXED)
        reach = max(float(viewpoint.distance) if is_free else 0.0, float(self._model.stat.extent))
        pitch = float(np.arcsin(np.clip(forward[2], -1, 1)))
        return add_sky(image[::-1], distances[::-1], reach, float(fovy), pitch)[::-1]

    def close(self) -> None:
        """Free the OpenGL context."""
        self._pixels.free()
        self._context.free()


def _viewpoint(model: mujoco.MjModel, camera: CameraChoice) -> mujoco.MjvCamera:
    if isinstance(camera, mujoco.MjvCamera):
        return camera
    view = mujoco.MjvCamera()
    mujoco.mjv_defaultFreeCamera(model, view)
    view.azimuth, view.elevation = 130.0, -25.0
    names = [model.camera(i).name for i in range(model.ncam)]
    if isinstance(camera, str) and camera not in names:
        hint = did_you_mean(camera, names)
        raise NameNotFoundError(f"the model has no camera named {camera!r}{hint}; it has {shorten(names)}")
    number = names.index(camera) if isinstance(camera, str) else camera
    if not isinstance(number, int) or number >= model.ncam:
        raise OptionError(
            f"camera must be the name of a camera or a number below {model.ncam}, the number of cameras; got {camera!r}"
        )
    if number >= 0:
        view.type, view.fixedcamid = int(mujoco.mjtCamera.mjCAMERA_FIXED), number
    return view
