"""Observations of cameras: images, parameters, and where the task's objects are seen."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from sensorium.jit import kernel
from sensorium.suites.observation import ArraySensor

POINTS = 10
"""How many visible pixels of an object are kept."""
_BOUNDS: dict[str, tuple[Any, float, float]] = {
    "rgb": (np.uint8, 0, 255),
    "depth": (np.float32, 0, np.inf),
    "segmentation": (np.int32, -1, np.inf),
}


def camera_images(name: str, camera: Any) -> list[ArraySensor]:
    """``NAME`` (H, W, 3) uint8, ``NAME_depth`` (H, W) float32 m and ``NAME_segmentation`` (H, W, 2) int32.

    Each where the camera records it. Depth is along the optical axis, infinite where nothing is; segmentation is body
    and geom id, -1 where nothing is. One pass of the renderer serves them all.
    """
    sensors = []
    width, height = camera.resolution
    for output, suffix, rest in (("rgb", "", (3,)), ("depth", "_depth", ()), ("segmentation", "_segmentation", (2,))):
        if output in camera.outputs:
            dtype, low, high = _BOUNDS[output]

            def read(output: str = output) -> np.ndarray:
                image: np.ndarray = getattr(camera.read(), output).cpu().numpy()
                return image

            sensors.append(
                ArraySensor(f"{name}{suffix}", read, (height, width, *rest), dtype, low, high, is_image=True)
            )
    return sensors


def camera_parameters(name: str, camera: Any) -> ArraySensor:
    """``sensor_param_NAME``: where the camera is, and how it sees.

    ``intrinsic`` (3, 3) in pixels; ``extrinsic`` (3, 4) from the world to the camera in OpenCV axes (x right, y down, z
    forward); ``cam2world`` (4, 4) from the camera in OpenGL axes (x right, y up, z backward) to the world.
    """

    def read() -> dict[str, np.ndarray]:
        return {
            "intrinsic": camera.intrinsics.cpu().numpy(),
            "extrinsic": camera.extrinsics_cv.cpu().numpy(),
            "cam2world": camera.cam2world_gl.cpu().numpy(),
        }

    return ArraySensor(f"sensor_param_{name}", read, {"intrinsic": (3, 3), "extrinsic": (3, 4), "cam2world": (4, 4)})


def object_image_points(
    cameras: Mapping[str, Any], roles: Callable[[], np.ndarray], names: tuple[str, ...], n_envs: int
) -> ArraySensor:
    """``object_image_points``: visible pixels of the task's objects in each camera, from its segmentation.

    ``{camera: {role: {"points": (10, 2), "visible": (1,)}}}``: pixels (x, y) divided by width and height, spread evenly
    over the object's visible pixels, row by row, and -1 where there are fewer; and how many pixels are visible.

    Args:
        cameras: those that record segmentation, by name.
        roles: gives (B, bodies): of each body, which of ``names`` it belongs to in each env, or -1.
        names: the roles, as "pickup_obj".
        n_envs: B.
    """
    points = np.empty((n_envs, len(names), POINTS, 2), np.float32)
    visible = np.empty((n_envs, len(names)), np.int32)

    def read() -> dict[str, Any]:
        result: dict[str, Any] = {}
        if not cameras:
            return result
        table = roles()
        for name, camera in cameras.items():
            find_pixels(camera.read_ground_truth().segmentation.cpu().numpy(), table, points, visible)
            result[name] = {
                role: {"points": points[:, i].copy(), "visible": visible[:, i : i + 1].astype(np.float32)}
                for i, role in enumerate(names)
            }
        return result

    each = {"points": (POINTS, 2), "visible": (1,)}
    return ArraySensor("object_image_points", read, {name: dict.fromkeys(names, each) for name in cameras}, low=-1)


@kernel
def find_pixels(segmentation: np.ndarray, table: np.ndarray, points: np.ndarray, visible: np.ndarray) -> None:
    """Count the pixels of each role in (B, H, W, 2) body and geom ids, and pick some of them, evenly in their order."""
    n_envs, height, width = segmentation.shape[:3]
    n_roles, n_points = points.shape[1:3]
    role_of = np.empty(table.shape[1] + 1, np.int64)
    counts = np.empty((height, n_roles), np.int64)
    for env in range(n_envs):
        role_of[0] = -1
        role_of[1:] = table[env]
        counts[:] = 0
        for y in range(height):
            for x in range(width):
                role = role_of[np.uint32(segmentation[env, y, x, 0] + 1)]
                if role >= 0:
                    counts[y, role] += 1
        points[env] = -1
        for role in range(n_roles):
            total = counts[:, role].sum()
            visible[env, role] = total
            kept = min(n_points, total)
            before, k = 0, 0
            for y in range(height):
                seen = before
                before += counts[y, role]
                # the k-th is the pixel in the middle of the k-th of `kept` equal parts
                if k == kept or (2 * k + 1) * total // (2 * kept) >= before:
                    continue
                for x in range(width):
                    if role_of[segmentation[env, y, x, 0] + 1] != role:
                        continue
                    if k < kept and seen == (2 * k + 1) * total // (2 * kept):
                        points[env, role, k, 0] = (x + 0.5) / width
                        points[env, role, k, 1] = (y + 0.5) / height
                        k += 1
                    seen += 1
