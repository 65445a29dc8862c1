"""Observations of cameras: images, camera parameters, and the image points of the task's objects."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from sensorium._arguments import checked
from sensorium.jit import kernel
from sensorium.suites.observation import ArraySensor, SensedBox

if TYPE_CHECKING:
    from sensorium.cameras.camera import CameraSensor

POINTS = 10
"""Number of visible pixels that are kept for each object."""
_IMAGES: dict[str, tuple[tuple[int, ...], type[np.generic], float, float]] = {
    "rgb": ((3,), np.uint8, 0, 255),
    "depth": ((), np.float32, 0, np.inf),
    "segmentation": ((2,), np.int32, -1, np.inf),
    "instance": ((), np.int32, -1, np.inf),
    "normals": ((3,), np.float32, -1, 1),
    "points": ((3,), np.float32, -np.inf, np.inf),
}
"""Camera output -> shape after (H, W), dtype, lower and upper bound."""


@checked
def camera_images(name: str, camera: CameraSensor, outputs: Sequence[str] | None = None) -> list[ArraySensor]:
    """Return a sensor for each image that a camera records.

    The sensors are ``NAME`` (H, W, 3) uint8, ``NAME_depth`` (H, W) float32, ``NAME_segmentation`` (H, W, 2) int32,
    ``NAME_instance`` (H, W) int32, ``NAME_normals`` and ``NAME_points`` (H, W, 3) float32, with the values of
    ``camera.read()``. A camera with a history reads its last N images, newest first: (N, H, W, ...). One render pass
    serves all of them.

    Args:
        name: NAME of the sensors.
        camera: the camera, in a built scene.
        outputs: the outputs to observe. Default: all that the camera renders.
    """
    sensors = []
    width, height = camera.resolution
    length = camera.options.history_length
    for output, (rest, dtype, low, high) in _IMAGES.items():
        if output in camera.outputs and (outputs is None or output in outputs):

            def read(output: str = output) -> np.ndarray:
                image: np.ndarray = getattr(camera.read(), output).cpu().numpy()
                return image

            uuid = name if output == "rgb" else f"{name}_{output}"
            shape = (*(() if length is None else (length,)), height, width, *rest)
            sensor = ArraySensor(uuid, read, shape, dtype, low, high, is_image=True)
            if output == "points":  # NaN where nothing was hit
                sensor.space = SensedBox(-np.inf, np.inf, shape, np.float32)
            sensors.append(sensor)
    return sensors


def camera_parameters(name: str, camera: CameraSensor) -> ArraySensor:
    """Return the sensor ``sensor_param_NAME``: the intrinsic and extrinsic parameters of a camera.

    ``intrinsic`` (3, 3) is in pixels. ``extrinsic`` (3, 4) maps the world frame to the camera frame in OpenCV axes (x
    right, y down, z forward). ``cam2world`` (4, 4) maps the camera frame in OpenGL axes (x right, y up, z backward) to
    the world frame.
    """

    def read() -> dict[str, np.ndarray]:
        return {
            "intrinsic": camera.intrinsics.cpu().numpy(),
            "extrinsic": camera.extrinsics_cv.cpu().numpy(),
            "cam2world": camera.cam2world_gl.cpu().numpy(),
        }

    return ArraySensor(f"sensor_param_{name}", read, {"intrinsic": (3, 3), "extrinsic": (3, 4), "cam2world": (4, 4)})


@checked
def object_image_points(
    cameras: Mapping[str, CameraSensor], roles: Callable[[], np.ndarray], names: tuple[str, ...], n_envs: int
) -> ArraySensor:
    """Return the sensor ``object_image_points``: visible pixels of the task's objects in each camera.

    It reads ``{camera: {role: {"points": (10, 2), "visible": (1,)}}}``. ``points`` are pixels (x, y) divided by width
    and height, spread evenly over the object's visible pixels in row order, and -1 if the object has fewer visible
    pixels. ``visible`` is the number of visible pixels. Both come from the ground-truth segmentation.

    Args:
        cameras: cameras that record segmentation, by name.
        roles: returns (B, bodies) int: the index into ``names`` of the role that each body plays in each env, or -1.
        names: the roles, for example ``("pickup_obj",)``.
        n_envs: number of envs, B.
    """
    points = np.empty((n_envs, len(names), POINTS, 2), np.float32)
    visible = np.empty((n_envs, len(names)), np.int32)

    def read() -> dict[str, Any]:
        result: dict[str, Any] = {}
        if not cameras:
            return result
        table = roles()
        for name, camera in cameras.items():
            segmentation = camera.read_ground_truth().segmentation
            assert segmentation is not None, "the cameras record segmentation"
            if camera.options.history_length is not None:
                segmentation = segmentation[:, 0]
            find_pixels(segmentation.cpu().numpy(), table, points, visible)
            result[name] = {
                role: {"points": points[:, i].copy(), "visible": visible[:, i : i + 1].astype(np.float32)}
                for i, role in enumerate(names)
            }
        return result

    each = {"points": (POINTS, 2), "visible": (1,)}
    return ArraySensor("object_image_points", read, {name: dict.fromkeys(names, each) for name in cameras}, low=-1)


@kernel
def find_pixels(segmentation: np.ndarray, table: np.ndarray, points: np.ndarray, visible: np.ndarray) -> None:
    """Count the visible pixels of each role, and select some of them evenly in row order.

    Args:
        segmentation: (B, H, W, 2) int32, body and geom ids, -1 where nothing is hit.
        table: (B, bodies) int, the role of each body, or -1.
        points: (B, roles, n, 2) float32, filled with the selected pixels divided by width and height, else -1.
        visible: (B, roles) int32, filled with the number of visible pixels.
    """
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
                # pixel k is in the middle of part k of `kept` equal parts
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
