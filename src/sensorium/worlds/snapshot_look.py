"""What makes snapshots pleasant for people: light with shadows, a sky, haze before the horizon, and a view that fits.

None of it changes the scene: camera sensors see the lights and colours of the scene alone.
"""

from __future__ import annotations

import mujoco
import numpy as np

SAMPLES = 2
"""Pixels rendered along each side of a pixel of the image, which is their mean."""
_SKY_TOP, _HORIZON = np.array((0.52, 0.66, 0.84)), np.array((0.93, 0.95, 0.97))
"""Colours of the sky, upwards and at the horizon."""
_AMBIENT, _KEY, _FILL = 0.48, 0.56, 0.1
"""Brightness of ambient light, of the sun, and of the light at the camera, in scenes without lights of their own."""
_SUN = (0.2, 0.15, -1.0)
"""Direction of the sunlight."""
_MIN_AMBIENT = 0.3
"""Brightness of ambient light in scenes with lights of their own, at least."""
_HAZE = (2.5, 6.0)
"""Distances at which haze begins and hides everything, as multiples of the distance to what is shown."""
_MARGIN = 1.12
"""Size of the default view relative to the sphere around everything."""


def brighten(scene: mujoco.MjvScene, model: mujoco.MjModel, sun: bool) -> None:
    """Light a scene for people, after ``mjv_updateScene``.

    Args:
        scene: the scene to draw.
        model: its model.
        sun: whether to add a light from above that casts shadows: in scenes without lights of their own.
    """
    for light in scene.lights[: scene.nlight]:
        if light.headlight:
            light.ambient[:] = np.maximum(light.ambient, _AMBIENT if sun else _MIN_AMBIENT)
            if sun:
                light.diffuse[:], light.specular[:] = _FILL, 0.05
    if not sun or scene.nlight >= len(scene.lights):
        return
    light = scene.lights[scene.nlight]
    centre, extent = np.asarray(model.stat.center), float(model.stat.extent)
    direction = np.array(_SUN) / np.linalg.norm(_SUN)
    light.pos[:], light.dir[:] = centre - 4 * extent * direction, direction
    light.type = int(mujoco.mjtLightType.mjLIGHT_DIRECTIONAL)
    light.headlight, light.castshadow, light.texid = 0, 1, -1
    light.ambient[:], light.diffuse[:], light.specular[:] = 0.0, _KEY, 0.25
    light.attenuation[:] = (1.0, 0.0, 0.0)
    scene.nlight += 1


def has_own_lights(model: mujoco.MjModel) -> bool:
    """Return whether a scene has a light besides the one at the camera."""
    return bool(np.any(model.light_active)) if model.nlight else False


def add_sky(image: np.ndarray, distances: np.ndarray, reach: float, fovy: float, pitch: float) -> np.ndarray:
    """Return an image with a sky where nothing was drawn, and haze that hides the far ground.

    Args:
        image: colours, (H, W, 3) uint8.
        distances: distance along the optical axis, (H, W) m; inf where nothing was drawn.
        reach: distance from the camera to what is shown, m.
        fovy: vertical field of view, rad.
        pitch: elevation of the optical axis, rad.
    """
    height = len(image)
    offsets = np.arctan((1 - 2 * (np.arange(height) + 0.5) / height) * np.tan(fovy / 2))
    blue = np.clip(np.sin(np.clip(pitch + offsets, 0, np.pi / 2)) * 1.6, 0, 1)[:, None]
    sky = _HORIZON * (1 - blue) + _SKY_TOP * blue  # (H, 3)
    near, far = (reach * factor for factor in _HAZE)
    haze = np.clip((distances - near) / (far - near), 0, 1)[..., None]
    haze = haze * haze * (3 - 2 * haze)
    mixed = image * (1 - haze) + 255 * sky[:, None] * haze
    return np.rint(mixed).astype(np.uint8)


def shrink(image: np.ndarray, factor: int) -> np.ndarray:
    """Return an image (H, W, 3) uint8 whose pixels are means of ``factor`` x ``factor`` pixels."""
    height, width = (side // factor for side in image.shape[:2])
    blocks = image.reshape(height, factor, width, factor, 3).astype(np.float32)
    return np.rint(blocks.mean(axis=(1, 3))).astype(np.uint8)


def linear_depth(model: mujoco.MjModel, buffer: np.ndarray) -> np.ndarray:
    """Return the distances along the optical axis of a depth buffer, m; inf where nothing was drawn."""
    near = float(model.vis.map.znear * model.stat.extent)
    far = float(model.vis.map.zfar * model.stat.extent)
    with np.errstate(divide="ignore"):
        distances = near / (1 - buffer * (1 - near / far))
    return np.where(buffer < 1, distances, np.inf)


def fit_view(view: mujoco.MjvCamera, model: mujoco.MjModel, data: mujoco.MjData, aspect: float) -> None:
    """Move a free camera so that all geoms except for planes are in the image, in their current poses.

    Args:
        view: the camera, whose direction is kept.
        model: the model.
        data: its state, with kinematics.
        aspect: width of the image divided by its height.
    """
    shown = (model.geom_type != int(mujoco.mjtGeom.mjGEOM_PLANE)) & (model.geom_rgba[:, 3] > 0)
    if not shown.any():
        return
    frames = data.geom_xmat[shown].reshape(-1, 3, 3)
    boxes = model.geom_aabb[shown]
    signs = np.array([[x, y, z] for x in (-1, 1) for y in (-1, 1) for z in (-1, 1)])
    local = boxes[:, None, :3] + signs * boxes[:, None, 3:]
    corners = (data.geom_xpos[shown][:, None] + np.einsum("nij,nkj->nki", frames, local)).reshape(-1, 3)
    low, high = corners.min(axis=0), corners.max(axis=0)
    view.lookat[:] = (low + high) / 2
    radius = max(float(np.linalg.norm(high - low)) / 2, 0.02)
    half = np.radians(float(model.vis.global_.fovy)) / 2
    view.distance = _MARGIN * radius / np.sin(min(half, np.arctan(np.tan(half) * aspect)))
