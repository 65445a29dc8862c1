"""The two ways in which light is traced through a Mitsuba scene: compiled for whole images, or one ray at a time.

Both give the same two pictures of what a :class:`Lens` sees: the radiance that falls on each pixel, averaged over
random paths; and the first surface along the ray through each pixel's centre.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from sensorium.errors import DeviceError

_INSTALL = "install LLVM 19 or newer (apt install libllvm19)"
_MOST_RAYS = 1 << 22
"""Rays traced at once; more samples take several passes."""


@dataclass(frozen=True)
class Lens:
    """A camera in one env, in pixels and metres. Rotation: world from camera, in GL axes."""

    width: int
    height: int
    fx: float
    fy: float
    cx: float
    cy: float
    near: float
    far: float
    position: np.ndarray
    rotation: np.ndarray
    aperture: float
    focus: float


class Surfaces(NamedTuple):
    """The first surfaces that a camera meets: which shape of the scene, and which triangle of it."""

    depth: np.ndarray
    """(H, W) float32: metres along the optical axis; inf where nothing was hit."""
    shape: np.ndarray
    """(H, W): number of the shape; -1 where nothing was hit."""
    triangle: np.ndarray
    """(H, W)."""
    normals: np.ndarray
    """(H, W, 3) float32, toward the camera, in CV axes; 0 where nothing was hit."""
    albedo: np.ndarray
    """(H, W, 3) float32."""


class VectorTracer:
    """Traces whole images at once, in code that Dr.Jit compiles by LLVM.

    What changes from frame to frame is passed as arrays rather than numbers, so that code is compiled for the first
    frame alone, whatever the resolution.
    """

    def __init__(self, mi: Any, scene: Any, integrator: Any, shapes: list[Any]) -> None:
        import drjit

        self._mi, self._dr, self._scene, self._integrator = mi, drjit, scene, integrator
        self._sampler = mi.load_dict({"type": "independent"})
        pointers: list[Any] = [drjit.reinterpret_array(mi.UInt32, mi.ShapePtr(shape)) for shape in shapes]
        numbers = [int(pointer[0]) for pointer in pointers]
        self._number = np.full(max(numbers, default=0) + 1, -1)
        self._number[numbers] = np.arange(len(numbers))

    def _values(self, lens: Lens) -> tuple[Any, ...]:
        """Position, axes (right, down, forward), focal lengths, principal point, near and far, aperture and focus."""
        mi, turn = self._mi, lens.rotation
        pairs = ((lens.fx, lens.fy), (lens.cx, lens.cy), (lens.near, lens.far), (lens.aperture, lens.focus))
        vectors = (lens.position, turn[:, 0], -turn[:, 1], -turn[:, 2])
        values = (*(mi.Vector3f(*each.tolist()) for each in vectors), *(mi.Vector2f(*each) for each in pairs))
        self._dr.make_opaque(values)
        return values

    def _opaque(self, *numbers: int) -> tuple[Any, ...]:
        values = tuple(self._mi.UInt32(number) for number in numbers)
        self._dr.make_opaque(values)
        return values

    def _rays(self, lens: Lens, x: Any, y: Any, on_lens: Any | None) -> tuple[Any, Any]:
        """Rays through points (x, y) of the image, and how far each goes along itself for 1 m along the axis."""
        mi, dr = self._mi, self._dr
        origin, right, down, forward, focal, centre, planes, blur = self._values(lens)
        across, along = (x - centre.x) / focal.x, (y - centre.y) / focal.y
        direction = right * across + down * along + forward
        start = mi.Vector3f(origin)
        if on_lens is not None:
            disc = mi.warp.square_to_uniform_disk_concentric(on_lens) * blur.x
            offset = right * disc.x + down * disc.y
            start += offset
            direction -= offset / blur.y
        stretch = dr.norm(direction)
        ray = mi.RayDifferential3f(mi.Point3f(start + direction * planes.x), direction / stretch)
        ray.maxt = (planes.y - planes.x) * stretch
        return ray, stretch

    def radiance(self, lens: Lens, samples: int, seed: int) -> np.ndarray:
        """(H, W, 3) float32."""
        everywhere = np.arange(lens.width * lens.height, dtype=np.uint32)
        return self.pixels(lens, everywhere, samples, seed).reshape(lens.height, lens.width, 3)

    def pixels(self, lens: Lens, pixels: np.ndarray, samples: int, seed: int) -> np.ndarray:
        """(N, 3) float32: the radiance of some pixels, which are numbered (N,) row by row."""
        count = len(pixels)
        each = max(n for n in range(1, samples + 1) if samples % n == 0 and (n == 1 or n * count <= _MOST_RAYS))
        total = sum(self._pass(lens, pixels, each, (seed + number) & 0xFFFFFFFF) for number in range(samples // each))
        return (np.asarray(total) / np.float32(samples // each)).reshape(count, 3)

    def _pass(self, lens: Lens, pixels: np.ndarray, samples: int, seed: int) -> np.ndarray:
        mi, dr = self._mi, self._dr
        number, each, width = self._opaque(seed, samples, lens.width)
        sampler = self._sampler
        sampler.seed(number, len(pixels) * samples)
        place = dr.arange(mi.UInt32, len(pixels) * samples) // each
        pixel = dr.gather(mi.UInt32, mi.UInt32(pixels), place)
        row = pixel // width
        within = sampler.next_2d()
        x, y = mi.Float(pixel - row * width) + within.x, mi.Float(row) + within.y
        ray, _ = self._rays(lens, x, y, sampler.next_2d() if lens.aperture > 0 else None)
        light, _, _ = self._integrator.sample(self._scene, sampler, ray)
        image = dr.zeros(mi.Float, 3 * len(pixels))
        for channel in range(3):
            dr.scatter_add(image, light[channel] / mi.Float(each), 3 * place + channel)
        return image.numpy()

    def surfaces(self, lens: Lens) -> Surfaces:
        """What lies behind the centre of each pixel."""
        mi, dr = self._mi, self._dr
        pixel = dr.arange(mi.UInt32, lens.width * lens.height)
        (width,) = self._opaque(lens.width)
        row = pixel // width
        ray, stretch = self._rays(lens, mi.Float(pixel - row * width) + 0.5, mi.Float(row) + 0.5, None)
        hit = self._scene.ray_intersect(ray)
        found = hit.is_valid()
        shape = dr.reinterpret_array(mi.UInt32, hit.shape)
        depth = hit.t / stretch
        normal, albedo = hit.sh_frame.n, hit.bsdf().eval_diffuse_reflectance(hit, found)
        triangle = hit.prim_index
        dr.eval(depth, shape, triangle, normal, albedo, found)
        size = (lens.height, lens.width)
        seen = found.numpy().astype(bool).reshape(size)
        numbers = self._number[np.where(seen, shape.numpy().reshape(size), 0)]
        return Surfaces(
            np.where(seen, depth.numpy().reshape(size) + np.float32(lens.near), np.inf).astype(np.float32),
            np.where(seen, numbers, -1),
            triangle.numpy().reshape(size),
            _toward(lens, np.ascontiguousarray(normal.numpy().T).reshape(*size, 3), seen),
            np.where(seen[..., None], np.ascontiguousarray(albedo.numpy().T).reshape(*size, 3), 0.0).astype(np.float32),
        )


class ScalarTracer:
    """Traces one ray at a time: slower, and needs nothing but Mitsuba. Its pixels are square."""

    def __init__(self, mi: Any, scene: Any, integrator: Any, shapes: list[Any]) -> None:
        self._mi, self._scene, self._integrator = mi, scene, integrator
        aovs = "p:position,n:sh_normal,a:albedo,t:prim_index,s:shape_index"
        self._first = mi.load_dict({"type": "aov", "aovs": aovs})
        order = [str(shape.id()) for shape in scene.shapes()]
        self._number = np.array([-1, *([str(shape.id()) for shape in shapes].index(name) for name in order)])

    def _sensor(self, lens: Lens, samples: int | None) -> Any:
        """A sensor of these samples a pixel; None: one, through its centre."""
        if abs(lens.fx - lens.fy) > 1e-4 * lens.fx:
            raise DeviceError(
                f"without LLVM the path tracer has square pixels, got focal lengths of {lens.fx:g} and {lens.fy:g} "
                f"pixels along x and y; give one focal length, or {_INSTALL}"
            )
        mi = self._mi
        pose = np.eye(4)
        pose[:3, :3] = lens.rotation * [-1, 1, -1]  # Mitsuba looks along +z, with x to the left
        pose[:3, 3] = lens.position
        blurred = lens.aperture > 0 and samples is not None
        sensor: dict[str, Any] = {
            "type": "thinlens" if blurred else "perspective",
            "fov": float(np.degrees(2 * np.arctan(lens.width / (2 * lens.fx)))),
            "fov_axis": "x",
            "near_clip": lens.near,
            "far_clip": lens.far,
            "to_world": mi.ScalarTransform4f(pose),
            "film": {"type": "hdrfilm", "width": lens.width, "height": lens.height, "rfilter": {"type": "box"}},
            "sampler": {"type": "independent", "sample_count": samples}
            if samples
            else {"type": "stratified", "sample_count": 1, "jitter": False},
        }
        offset = 0.5 - lens.cx / lens.width, 0.5 - lens.cy / lens.height
        if blurred:
            if max(map(abs, offset)) > 1e-6:
                raise DeviceError(
                    "without LLVM the path tracer's lenses with an aperture have their principal point in the middle, "
                    f"got ({lens.cx:g}, {lens.cy:g}); leave principal_point or f_number out, or {_INSTALL}"
                )
            sensor |= {"aperture_radius": lens.aperture, "focus_distance": lens.focus}
        else:
            sensor |= {"principal_point_offset_x": offset[0], "principal_point_offset_y": offset[1]}
        return mi.load_dict(sensor)

    def radiance(self, lens: Lens, samples: int, seed: int) -> np.ndarray:
        """(H, W, 3) float32."""
        image = self._integrator.render(self._scene, self._sensor(lens, samples), seed=seed, spp=samples)
        return np.array(image)[..., :3]

    def surfaces(self, lens: Lens) -> Surfaces:
        """What lies behind the centre of each pixel."""
        image = np.array(self._first.render(self._scene, self._sensor(lens, None), spp=1))
        position, normal, albedo, triangle, shape = np.split(image, [3, 6, 9, 10], axis=-1)
        seen = np.abs(normal).max(-1) > 0
        depth = (position - lens.position.astype(np.float32)) @ -lens.rotation[:, 2].astype(np.float32)
        numbers = self._number[np.rint(shape[..., 0]).astype(int)]  # counted from 1; 0 is nothing
        return Surfaces(
            np.where(seen, depth, np.inf).astype(np.float32),
            np.where(seen, numbers, -1),
            np.rint(triangle[..., 0]).astype(int),
            _toward(lens, normal, seen),
            np.where(seen[..., None], albedo, 0.0).astype(np.float32),
        )


def _toward(lens: Lens, normal: np.ndarray, seen: np.ndarray) -> np.ndarray:
    """Normals (H, W, 3) in the world as those that face the camera, in its CV axes."""
    own = normal @ (lens.rotation * [1, -1, -1]).astype(np.float32)
    x = (np.arange(lens.width, dtype=np.float32) + 0.5 - lens.cx) / lens.fx
    y = (np.arange(lens.height, dtype=np.float32)[:, None] + 0.5 - lens.cy) / lens.fy
    away = own[..., 0] * x + own[..., 1] * y + own[..., 2] > 0
    return np.where(seen[..., None], np.where(away[..., None], -own, own), 0.0).astype(np.float32)
