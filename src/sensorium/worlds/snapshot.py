"""One picture of one env by MuJoCo's own renderer, to look at: not a camera sensor, which has a life of its own."""

from __future__ import annotations

import importlib
import warnings
from typing import Any

import mujoco
import numpy as np

from sensorium.errors import DeviceError, NameNotFoundError, OptionError, did_you_mean, shorten
from sensorium.worlds.painter import Painter
from sensorium.worlds.world import World

_ROOM = 20_000
"""Shapes that fit into a picture."""


def snapshot(world: World, env: int, painter: Painter, width: int, height: int, camera: Any) -> np.ndarray:
    """The scene of one env as it is now, with what was painted, (height, width, 3) uint8."""
    model, data = world.model, mujoco.MjData(world.model)
    state = world.get_state()[env].double().numpy(force=True)
    mujoco.mj_setState(model, data, state, int(mujoco.mjtState.mjSTATE_INTEGRATION))
    mujoco.mj_forward(model, data)
    scene, context = mujoco.MjvScene(model, _ROOM), _context(width, height)
    try:
        pixels = mujoco.MjrContext(model, int(mujoco.mjtFontScale.mjFONTSCALE_100))
        mujoco.mjr_resizeOffscreen(width, height, pixels)
        mujoco.mjr_setBuffer(int(mujoco.mjtFramebuffer.mjFB_OFFSCREEN), pixels)
        everything = int(mujoco.mjtCatBit.mjCAT_ALL)
        option = mujoco.MjvOption()
        option.flags[mujoco.mjtVisFlag.mjVIS_TRANSPARENT] = len(painter) > 0  # what is painted may lie inside bodies
        mujoco.mjv_updateScene(model, data, option, None, _viewpoint(model, camera), everything, scene)
        if scene.nlight == 1:  # the headlight alone, which is dim
            scene.lights[0].ambient[:], scene.lights[0].diffuse[:] = 0.35, 0.6
        painter.add_to(scene)
        image, area = np.empty((height, width, 3), np.uint8), mujoco.MjrRect(0, 0, width, height)
        mujoco.mjr_render(area, scene, pixels)
        mujoco.mjr_readPixels(image, None, area, pixels)
        pixels.free()
    finally:
        context.free()
    return np.ascontiguousarray(image[::-1])


def _viewpoint(model: mujoco.MjModel, camera: Any) -> mujoco.MjvCamera:
    if isinstance(camera, mujoco.MjvCamera):
        return camera
    view = mujoco.MjvCamera()
    mujoco.mjv_defaultFreeCamera(model, view)
    view.azimuth, view.elevation = 130.0, -25.0
    names = [model.camera(i).name for i in range(model.ncam)]
    if isinstance(camera, str) and camera not in names:
        raise NameNotFoundError(f"there is no camera named {camera!r}{did_you_mean(camera, names)}; {shorten(names)}")
    number = names.index(camera) if isinstance(camera, str) else camera
    if not isinstance(number, int) or number >= model.ncam:
        raise OptionError(
            f"camera must be a name, or a number below {model.ncam}, the cameras there are; got {camera!r}"
        )
    if number >= 0:
        view.type, view.fixedcamid = int(mujoco.mjtCamera.mjCAMERA_FIXED), number
    return view


def _context(width: int, height: int) -> Any:
    """An OpenGL context without a window, by the first way that works here."""
    tried = []
    for way in ("egl", "osmesa", "glfw"):
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                context = importlib.import_module(f"mujoco.{way}").GLContext(width, height)
                context.make_current()
            return context
        except Exception as error:  # each fails in its own way where its library is missing
            tried.append(f"{way}: {error}")
    raise DeviceError(f"no OpenGL for pictures ({'; '.join(tried)}); install libegl1 and libgl1")
