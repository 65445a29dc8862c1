"""One picture of one env by MuJoCo's own renderer, to look at: not a camera sensor, which has a life of its own."""

from __future__ import annotations

from typing import Any

import mujoco
import numpy as np

from sensorium.errors import NameNotFoundError, OptionError, did_you_mean, shorten
from sensorium.worlds.opengl import make_context
from sensorium.worlds.painter import Painter
from sensorium.worlds.world import World

_ROOM = 20_000
"""Shapes that fit into a picture."""


def snapshot(world: World, env: int, painter: Painter, width: int, height: int, camera: Any) -> np.ndarray:
    """The scene of one env as it is now, with what was painted, (height, width, 3) uint8."""
    model, data = world.model, mujoco.MjData(world.model)
    viewpoint = _viewpoint(model, camera)
    state = world.get_state()[env].double().numpy(force=True)
    mujoco.mj_setState(model, data, state, int(mujoco.mjtState.mjSTATE_INTEGRATION))
    mujoco.mj_forward(model, data)
    scene, (context, _) = mujoco.MjvScene(model, _ROOM), make_context(width, height)
    try:
        pixels = mujoco.MjrContext(model, int(mujoco.mjtFontScale.mjFONTSCALE_100))
        mujoco.mjr_resizeOffscreen(width, height, pixels)
        mujoco.mjr_setBuffer(int(mujoco.mjtFramebuffer.mjFB_OFFSCREEN), pixels)
        everything = int(mujoco.mjtCatBit.mjCAT_ALL)
        option = mujoco.MjvOption()
        option.flags[mujoco.mjtVisFlag.mjVIS_TRANSPARENT] = len(painter) > 0  # what is painted may lie inside bodies
        mujoco.mjv_updateCamera(model, data, viewpoint, scene)  # endless planes are centred on it
        mujoco.mjv_updateScene(model, data, option, None, viewpoint, everything, scene)
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
