"""Lights and sky of a model, as emitters of a Mitsuba scene that follow the engine.

The intensity of a light is the brightness of a white surface that faces it: directional light of intensity i has the
irradiance pi * i, which a white surface scatters with radiance i. The light of lamps with a position falls with the
square of the distance, so their intensity is that at the point they look at, or at the centre of the model if they have
no such point.
"""

from __future__ import annotations

from collections.abc import Sequence
from types import ModuleType
from typing import TYPE_CHECKING

import mujoco
import numpy as np

from sensorium.cameras.pathtrace.scene import CUBE_AXES, texture_image
from sensorium.cameras.pathtrace.shapes import disc
from sensorium.cameras.srgb import decode_srgb
from sensorium.worlds import World
from sensorium.worlds.lights import Light

if TYPE_CHECKING:
    import mitsuba

_DIRECTIONAL = int(mujoco.mjtLightType.mjLIGHT_DIRECTIONAL)
_SPOT = int(mujoco.mjtLightType.mjLIGHT_SPOT)
_WHITE = {"type": "rgb", "value": [1.0, 1.0, 1.0]}
_MIN_DISTANCE = 0.05
"""Minimum distance between a lamp and the point at which its intensity is given, m."""


class Lamp:
    """One light of the model.

    Args:
        mi: Mitsuba, with its variant set.
        model: the compiled model.
        light: id of the light.
        options: options with which ``scene.add_light`` added it, or None.

    Attributes:
        name: id of the emitter in the scene.
        plugin: the Mitsuba emitter, or the shape of an area light.
        disc: the shape of an area light; None for other lights.
    """

    def __init__(self, mi: ModuleType, model: mujoco.MjModel, light: int, options: Light | None) -> None:
        self.light = light
        self.name = f"light_{light}"
        kind = int(model.light_type[light])
        is_area = options is not None and options.type == "area"
        self._kind = "area" if is_area else {_DIRECTIONAL: "directional", _SPOT: "spot"}.get(kind, "point")
        self._target = model.stat.center.copy()
        if options is not None and options.lookat is not None:
            self._target = np.asarray(options.lookat, float)
        self._cutoff = float(np.clip(model.light_cutoff[light], 1.0, 89.0))
        self._written: np.ndarray | None = None
        self.disc: mitsuba.Mesh | None = None
        self.plugin: mitsuba.Object = self._make(mi, options)

    def _make(self, mi: ModuleType, options: Light | None) -> mitsuba.Object:
        if self._kind == "directional":
            return mi.load_dict({"type": "directional", "direction": [0, 0, -1], "irradiance": _WHITE})
        if self._kind == "spot":
            return mi.load_dict({"type": "spot", "cutoff_angle": self._cutoff, "intensity": _WHITE})
        if self._kind == "point":
            return mi.load_dict({"type": "point", "position": [0, 0, 0], "intensity": _WHITE})
        assert options is not None
        self._triangles = disc(options.radius)
        self._size = np.pi * options.radius**2
        properties = mi.Properties()
        properties["bsdf"] = mi.load_dict({"type": "diffuse", "reflectance": {"type": "rgb", "value": [0.0] * 3}})
        properties["emitter"] = mi.load_dict({"type": "area", "radiance": _WHITE})
        mesh = mi.Mesh(self.name, len(self._triangles.vertices), len(self._triangles.faces), props=properties)
        first = mi.traverse(mesh)
        first["faces"] = self._triangles.faces.astype(np.uint32).ravel()
        first["vertex_positions"] = self._triangles.vertices.astype(np.float32).ravel()
        first.update()
        self.disc = mesh
        return mesh

    def update(
        self,
        mi: ModuleType,
        parameters: mitsuba.SceneParameters,
        position: np.ndarray,
        direction: np.ndarray,
        colour: np.ndarray,
    ) -> bool:
        """Set position, direction and MuJoCo's diffuse colour, and return whether anything changed."""
        state = np.concatenate([position, direction, colour])
        if self._written is not None and (state == self._written).all():
            return False
        self._written = state
        name = self.name
        if self._kind == "directional":
            parameters[f"{name}.to_world"] = mi.Transform4f(_frame(direction, np.zeros(3)))
            parameters[f"{name}.irradiance.value"] = mi.Color3f(*(np.pi * colour).tolist())
            return True
        power = np.pi * colour * max(float(np.sum((self._target - position) ** 2)), _MIN_DISTANCE**2)
        if self._kind == "area":
            frame = _frame(direction, position)
            vertices = self._triangles.vertices @ frame[:3, :3].T + position
            parameters[f"{name}.vertex_positions"] = vertices.astype(np.float32).ravel()
            parameters[f"{name}.emitter.radiance.value"] = mi.Color3f(*(power / self._size).tolist())
            return True
        if self._kind == "spot":
            parameters[f"{name}.to_world"] = mi.Transform4f(_frame(direction, position))
        else:
            parameters[f"{name}.position"] = mi.Point3f(*position.tolist())
        parameters[f"{name}.intensity.value"] = mi.Color3f(*power.tolist())
        return True


class Headlight:
    """The light at the camera, if the model has one."""

    name = "headlight"

    def __init__(self, mi: ModuleType, model: mujoco.MjModel) -> None:
        self._colour = np.asarray(model.vis.headlight.diffuse, float)
        self._target = model.stat.center.copy()
        self.plugin = mi.load_dict({"type": "point", "position": [0, 0, 0], "intensity": _WHITE})

    @staticmethod
    def is_on(model: mujoco.MjModel) -> bool:
        """Return whether the model has a headlight that is on."""
        return bool(model.vis.headlight.active) and bool(np.any(model.vis.headlight.diffuse > 0))

    def move_to(self, mi: ModuleType, parameters: mitsuba.SceneParameters, camera: np.ndarray) -> None:
        """Move it to the position of a camera."""
        power = np.pi * self._colour * max(float(np.sum((self._target - camera) ** 2)), _MIN_DISTANCE**2)
        parameters[f"{self.name}.position"] = mi.Point3f(*camera.tolist())
        parameters[f"{self.name}.intensity.value"] = mi.Color3f(*power.tolist())


def make_lamps(mi: ModuleType, world: World, lights: Sequence[Light]) -> list[Lamp]:
    """Return all lights of a world that are on. An area light is a point light in MuJoCo's model."""
    model = world.model
    options = {light.name: light for light in lights}
    return [
        Lamp(mi, model, light, options.get(model.light(light).name))
        for light in range(model.nlight)
        if model.light_active[light]
    ]


def make_sky(
    mi: ModuleType, model: mujoco.MjModel, path: str | None, rotation: float, multiplier: float
) -> mitsuba.Emitter | None:
    """Return the light from all around: an environment map, the model's sky, or its ambient light; None if it is dark.

    Args:
        mi: Mitsuba, with its variant set.
        model: the compiled model.
        path: file of an environment map in latitude-longitude format, e.g. HDR or EXR; None for what the model has.
        rotation: rotation of the map or sky about the vertical, degrees.
        multiplier: factor for the radiance.
    """
    upright = mi.ScalarTransform4f().rotate([0, 0, 1], rotation).rotate([1, 0, 0], 90)
    if path is not None:
        return mi.load_dict({"type": "envmap", "filename": path, "scale": multiplier, "to_world": upright})
    skies = np.flatnonzero(model.tex_type == int(mujoco.mjtTexture.mjTEXTURE_SKYBOX))
    if len(skies):
        image = _cube_to_sphere(decode_srgb(texture_image(model, int(skies[0])) / 255.0)).astype(np.float32)
        return mi.load_dict({"type": "envmap", "bitmap": mi.Bitmap(image), "scale": multiplier, "to_world": upright})
    ambient = np.asarray(model.vis.headlight.ambient, float) * bool(model.vis.headlight.active)
    ambient = (ambient + model.light_ambient[model.light_active.astype(bool)].sum(0)) * multiplier
    if not ambient.any():
        return None
    return mi.load_dict({"type": "constant", "radiance": {"type": "rgb", "value": ambient.tolist()}})


def _cube_to_sphere(image: np.ndarray, rows: int = 256) -> np.ndarray:
    """Convert a skybox of six squares, or of one that is used for all sides, to latitude-longitude format."""
    side = image.shape[1]
    cube = image.reshape(-1, side, side, 3) if image.shape[0] == 6 * side else np.stack([image] * 6)
    theta = (np.arange(rows) + 0.5) * np.pi / rows
    phi = (np.arange(2 * rows) + 0.5) * np.pi / rows
    sine = np.sin(theta)[:, None]
    east, north = sine * np.sin(phi), sine * np.cos(phi)
    up = np.broadcast_to(np.cos(theta)[:, None], east.shape)
    toward = np.stack([east, up, -north], -1)  # in the axes of the cube, whose y is up
    axis = np.abs(toward).argmax(-1)
    face = 2 * axis + (np.take_along_axis(toward, axis[..., None], -1)[..., 0] < 0)
    sky = np.empty((rows, 2 * rows, 3))
    for number, (main, across, down, sign_across, sign_down) in enumerate(CUBE_AXES):
        own = toward[face == number]
        depth = np.abs(own[:, main])
        column = (0.5 + 0.5 * sign_across * own[:, across] / depth) * cube.shape[2]
        row = (0.5 + 0.5 * sign_down * own[:, down] / depth) * cube.shape[1]
        i, j = np.minimum(row.astype(int), cube.shape[1] - 1), np.minimum(column.astype(int), cube.shape[2] - 1)
        sky[face == number] = cube[number, i, j]
    return sky


def _frame(direction: np.ndarray, position: np.ndarray) -> np.ndarray:
    """Return a homogeneous transform (4, 4) whose z axis is ``direction``."""
    z = direction / np.linalg.norm(direction)
    x = np.cross(np.eye(3)[np.abs(z).argmin()], z)
    x /= np.linalg.norm(x)
    matrix = np.eye(4)
    matrix[:3, :3] = np.stack([x, np.cross(z, x), z], 1)
    matrix[:3, 3] = position
    return matrix
