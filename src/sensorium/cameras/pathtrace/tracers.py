"""The two tracers of light through a Mitsuba scene: compiled for whole images, or one ray at a time.

Both compute the same two images of a :class:`Viewpoint`: the radiance of each pixel, averaged over random paths, and
the first surface along the ray through each pixel's centre.
"""

from __future__ import annotations

from dataclasses import dataclass
from types import ModuleType
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np

from sensorium.errors import DeviceError

if TYPE_CHECKING:
    import mitsuba

DrJitArray: TypeAlias = Any
"""An array of Dr.Jit, whose stubs (1.5) do not describe arithmetic between array types."""

_INSTALL = "install LLVM 19 or newer (apt install libllvm19)"
_MAX_RAYS = 1 << 22
"""Maximum number of rays per pass; more samples need several passes."""


@dataclass(frozen=True)
class Viewpoint:
    """A camera in one env: intrinsics in pixels, pose and lens in metres."""

    width: int
    height: int
    fx: float
    fy: float
    cx: float
    cy: float
    near: float
    far: float
    position: np.ndarray
    """Position in the world, (3,)."""
    rotation: np.ndarray
    """World from camera in GL axes, (3, 3)."""
    aperture: float
    """Radius of the aperture; 0 for a pinhole, with everything in focus."""
    focus: float
    """Distance that is in focus."""


class FirstHits(NamedTuple):
    """The first surface along the ray through each pixel's centre."""

    depth: np.ndarray
    """(H, W) float32, metres along the optical axis; inf if nothing was hit."""
    shape: np.ndarray
    """(H, W), number of the shape in the scene; -1 if nothing was hit."""
    triangle: np.ndarray
    """(H, W), number of the triangle in the shape."""
    normals: np.ndarray
    """(H, W, 3) float32, facing the camera, in CV axes; 0 if nothing was hit."""
    albedo: np.ndarray
    """(H, W, 3) float32; 0 if nothing was hit."""


class VectorTracer:
    """Traces whole images at once, with code that Dr.Jit compiles by LLVM.

    Values that change from frame to frame are passed as arrays, not as numbers, so that the code is compiled only for
    the first frame, at any resolution.

    Args:
        mi: Mitsuba, with its variant set.
        scene: the scene.
        integrator: computes the radiance along a ray.
        shapes: shapes of the scene, in the order of their numbers in :class:`FirstHits`.
    """

    def __init__(
        self,
        mi: ModuleType,
        scene: mitsuba.Scene,
        integrator: mitsuba.SamplingIntegrator,
        shapes: list[mitsuba.Shape],
    ) -> None:
        import drjit

        self._mi, self._dr, self._scene, self._integrator = mi, drjit, scene, integrator
        self._sampler = mi.load_dict({"type": "independent"})
        pointers: list[DrJitArray] = [drjit.reinterpret_array(mi.UInt32, mi.ShapePtr(shape)) for shape in shapes]
        numbers = [int(pointer[0]) for pointer in pointers]
        self._number = np.full(max(numbers, default=0) + 1, -1)
        self._number[numbers] = np.arange(len(numbers))

    def _values(self, viewpoint: Viewpoint) -> tuple[DrJitArray, ...]:
        """Return position, axes (right, down, forward), focal lengths, principal point, clip planes, and lens."""
        mi, turn = self._mi, viewpoint.rotation
        pairs = (
            (viewpoint.fx, viewpoint.fy),
            (viewpoint.cx, viewpoint.cy),
            (viewpoint.near, viewpoint.far),
            (viewpoint.aperture, viewpoint.focus),
        )
        vectors = (viewpoint.position, turn[:, 0], -turn[:, 1], -turn[:, 2])
        values = (*(mi.Vector3f(*each.tolist()) for each in vectors), *(mi.Vector2f(*each) for each in pairs))
        self._dr.make_opaque(values)
        return values

    def _opaque(self, *numbers: int) -> tuple[DrJitArray, ...]:
        values = tuple(self._mi.UInt32(number) for number in numbers)
        self._dr.make_opaque(values)
        return values

    def _rays(
        self, viewpoint: Viewpoint, x: DrJitArray, y: DrJitArray, on_lens: DrJitArray | None
    ) -> tuple[mitsuba.RayDifferential3f, DrJitArray]:
        """Return the rays through image points (x, y), and the length along each ray per metre along the axis."""
        mi, dr = self._mi, self._dr
        origin, right, down, forward, focal, centre, planes, lens = self._values(viewpoint)
        across, along = (x - centre.x) / focal.x, (y - centre.y) / focal.y
        direction = right * across + down * along + forward
        start = mi.Vector3f(origin)
        if on_lens is not None:
            disc = mi.warp.square_to_uniform_disk_concentric(on_lens) * lens.x
            offset = right * disc.x + down * disc.y
            start += offset
            direction -= offset / lens.y
        stretch = dr.norm(direction)
        ray = mi.RayDifferential3f(mi.Point3f(start + direction * planes.x), direction / stretch)
        ray.maxt = (planes.y - planes.x) * stretch
        return ray, stretch

    def radiance(self, viewpoint: Viewpoint, samples: int, seed: int) -> np.ndarray:
        """Return the radiance of all pixels, (H, W, 3) float32."""
        all_pixels = np.arange(viewpoint.width * viewpoint.height, dtype=np.uint32)
        return self.pixels(viewpoint, all_pixels, samples, seed).reshape(viewpoint.height, viewpoint.width, 3)

    def pixels(self, viewpoint: Viewpoint, pixels: np.ndarray, samples: int, seed: int) -> np.ndarray:
        """Return the radiance of some pixels, (N, 3) float32; ``pixels`` (N,) are numbered row by row."""
        count = len(pixels)
        each = max(n for n in range(1, samples + 1) if samples % n == 0 and (n == 1 or n * count <= _MAX_RAYS))
        n_passes = samples // each
        total = sum(self._pass(viewpoint, pixels, each, (seed + number) & 0xFFFFFFFF) for number in range(n_passes))
        return (np.asarray(total) / np.float32(n_passes)).reshape(count, 3)

    def _pass(self, viewpoint: Viewpoint, pixels: np.ndarray, samples: int, seed: int) -> np.ndarray:
        mi, dr = self._mi, self._dr
        number, each, width = self._opaque(seed, samples, viewpoint.width)
        sampler = self._sampler
        sampler.seed(number, len(pixels) * samples)
        place = dr.arange(mi.UInt32, len(pixels) * samples) // each
        pixel = dr.gather(mi.UInt32, mi.UInt32(pixels), place)
        row = pixel // width
        within = sampler.next_2d()
        x, y = mi.Float(pixel - row * width) + within.x, mi.Float(row) + within.y
        ray, _ = self._rays(viewpoint, x, y, sampler.next_2d() if viewpoint.aperture > 0 else None)
        light, _, _ = self._integrator.sample(self._scene, sampler, ray)
        image = dr.zeros(mi.Float, 3 * len(pixels))
        for channel in range(3):
            dr.scatter_add(image, light[channel] / mi.Float(each), 3 * place + channel)
        return image.numpy()

    def first_hits(self, viewpoint: Viewpoint) -> FirstHits:
        """Return the surface behind the centre of each pixel."""
        mi, dr = self._mi, self._dr
        pixel = dr.arange(mi.UInt32, viewpoint.width * viewpoint.height)
        (width,) = self._opaque(viewpoint.width)
        row = pixel // width
        ray, stretch = self._rays(viewpoint, mi.Float(pixel - row * width) + 0.5, mi.Float(row) + 0.5, None)
        hit = self._scene.ray_intersect(ray)
        found = hit.is_valid()
        shape = dr.reinterpret_array(mi.UInt32, hit.shape)
        depth = hit.t / stretch
        normal, albedo = hit.sh_frame.n, hit.bsdf().eval_diffuse_reflectance(hit, found)
        triangle = hit.prim_index
        dr.eval(depth, shape, triangle, normal, albedo, found)
        size = (viewpoint.height, viewpoint.width)
        seen = found.numpy().astype(bool).reshape(size)
        numbers = self._number[np.where(seen, shape.numpy().reshape(size), 0)]
        return FirstHits(
            np.where(seen, depth.numpy().reshape(size) + np.float32(viewpoint.near), np.inf).astype(np.float32),
            np.where(seen, numbers, -1),
            triangle.numpy().reshape(size),
            _face_camera(viewpoint, np.ascontiguousarray(normal.numpy().T).reshape(*size, 3), seen),
            np.where(seen[..., None], np.ascontiguousarray(albedo.numpy().T).reshape(*size, 3), 0.0).astype(np.float32),
        )


class ScalarTracer:
    """Traces one ray at a time: slower, but needs only Mitsuba. It supports only square pixels.

    Args:
        mi: Mitsuba, with its variant set.
        scene: the scene.
        integrator: computes the radiance along a ray.
        shapes: shapes of the scene, in the order of their numbers in :class:`FirstHits`.
    """

    def __init__(
        self,
        mi: ModuleType,
        scene: mitsuba.Scene,
        integrator: mitsuba.SamplingIntegrator,
        shapes: list[mitsuba.Shape],
    ) -> None:
        self._mi, self._scene, self._integrator = mi, scene, integrator
        aovs = "p:position,n:sh_normal,a:albedo,t:prim_index,s:shape_index"
        self._first = mi.load_dict({"type": "aov", "aovs": aovs})
        order = [str(shape.id()) for shape in scene.shapes()]
        self._number = np.array([-1, *([str(shape.id()) for shape in shapes].index(name) for name in order)])

    def _sensor(self, viewpoint: Viewpoint, samples: int | None) -> mitsuba.Sensor:
        """Return a Mitsuba sensor with this many samples per pixel; None for one, through the centre."""
        if abs(viewpoint.fx - viewpoint.fy) > 1e-4 * viewpoint.fx:
            raise DeviceError(
                f"without LLVM the path tracer supports only square pixels, got focal lengths of {viewpoint.fx:g} and "
                f"{viewpoint.fy:g} pixels along x and y; set one focal length, or {_INSTALL}"
            )
        mi = self._mi
        pose = np.eye(4)
        pose[:3, :3] = viewpoint.rotation * [-1, 1, -1]  # Mitsuba looks along +z, with x to the left
        pose[:3, 3] = viewpoint.position
        blurred = viewpoint.aperture > 0 and samples is not None
        film = {"type": "hdrfilm", "width": viewpoint.width, "height": viewpoint.height, "rfilter": {"type": "box"}}
        sensor: dict[str, object] = {
            "type": "thinlens" if blurred else "perspective",
            "fov": float(np.degrees(2 * np.arctan(viewpoint.width / (2 * viewpoint.fx)))),
            "fov_axis": "x",
            "near_clip": viewpoint.near,
            "far_clip": viewpoint.far,
            "to_world": mi.ScalarTransform4f(pose),
            "film": film,
            "sampler": {"type": "independent", "sample_count": samples}
            if samples
            else {"type": "stratified", "sample_count": 1, "jitter": False},
        }
        offset = 0.5 - viewpoint.cx / viewpoint.width, 0.5 - viewpoint.cy / viewpoint.height
        if blurred:
            if max(map(abs, offset)) > 1e-6:
                raise DeviceError(
                    "without LLVM the path tracer supports an aperture only with the principal point in the image "
                    f"centre, got ({viewpoint.cx:g}, {viewpoint.cy:g}); remove principal_point or f_number, or "
                    f"{_INSTALL}"
                )
            sensor |= {"aperture_radius": viewpoint.aperture, "focus_distance": viewpoint.focus}
        else:
            sensor |= {"principal_point_offset_x": offset[0], "principal_point_offset_y": offset[1]}
        return mi.load_dict(sensor)

    def radiance(self, viewpoint: Viewpoint, samples: int, seed: int) -> np.ndarray:
        """Return the radiance of all pixels, (H, W, 3) float32."""
        sensor = self._sensor(viewpoint, samples)
        image = self._integrator.render(self._scene, sensor, seed=self._mi.UInt32(seed), spp=samples)
        return np.array(image)[..., :3]

    def first_hits(self, viewpoint: Viewpoint) -> FirstHits:
        """Return the surface behind the centre of each pixel."""
        image = np.array(self._first.render(self._scene, self._sensor(viewpoint, None), spp=1))
        position, normal, albedo, triangle, shape = np.split(image, [3, 6, 9, 10], axis=-1)
        seen = np.abs(normal).max(-1) > 0
        forward = -viewpoint.rotation[:, 2].astype(np.float32)
        depth = (position - viewpoint.position.astype(np.float32)) @ forward
        numbers = self._number[np.rint(shape[..., 0]).astype(int)]  # counted from 1; 0 means no shape
        return FirstHits(
            np.where(seen, depth, np.inf).astype(np.float32),
            np.where(seen, numbers, -1),
            np.rint(triangle[..., 0]).astype(int),
            _face_camera(viewpoint, normal, seen),
            np.where(seen[..., None], albedo, 0.0).astype(np.float32),
        )


def _face_camera(viewpoint: Viewpoint, normal: np.ndarray, seen: np.ndarray) -> np.ndarray:
    """Return world normals (H, W, 3) in the camera's CV axes, turned to face the camera."""
    local = normal @ (viewpoint.rotation * [1, -1, -1]).astype(np.float32)
    x = (np.arange(viewpoint.width, dtype=np.float32) + 0.5 - viewpoint.cx) / viewpoint.fx
    y = (np.arange(viewpoint.height, dtype=np.float32)[:, None] + 0.5 - viewpoint.cy) / viewpoint.fy
    away = local[..., 0] * x + local[..., 1] * y + local[..., 2] > 0
    return np.where(seen[..., None], np.where(away[..., None], -local, local), 0.0).astype(np.float32)
