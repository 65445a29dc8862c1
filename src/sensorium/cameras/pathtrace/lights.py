"""Lights of a model, as emitters of a Mitsuba scene that follow the engine.

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

from sensorium.cameras.pathtrace.scene import PluginDict
from sensorium.cameras.pathtrace.shapes import disc
from sensorium.worlds.environments import read_radiance
from sensorium.worlds.lights import Light

if TYPE_CHECKING:
    import mitsuba

_DIRECTIONAL = int(mujoco.mjtLightType.mjLIGHT_DIRECTIONAL)
_SPOT = int(mujoco.mjtLightType.mjLIGHT_SPOT)
_WHITE: PluginDict = {"type": "rgb", "value": [1.0, 1.0, 1.0]}
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
        self._image = None
        radiance: PluginDict = _WHITE
        if options.texture is not None:
            self._image = read_radiance(options.texture, f"Light(name={options.name!r}).texture")
            radiance = {"type": "bitmap", "bitmap": mi.Bitmap(self._image), "raw": True, "wrap_mode": "clamp"}
        properties = mi.Properties()
        properties["bsdf"] = mi.load_dict({"type": "diffuse", "reflectance": {"type": "rgb", "value": [0.0] * 3}})
        properties["emitter"] = mi.load_dict({"type": "area", "radiance": radiance})
        shape = (len(self._triangles.vertices), len(self._triangles.faces))
        mesh = mi.Mesh(self.name, *shape, props=properties, has_vertex_texcoords=self._image is not None)
        first = mi.traverse(mesh)
        first["faces"] = self._triangles.faces.astype(np.uint32).ravel()
        first["vertex_positions"] = self._triangles.vertices.astype(np.float32).ravel()
        if self._image is not None:  # seen from the front, x of the disc points to the right, and y up
            across = self._triangles.vertices[:, :2] / (2 * options.radius)
            first["vertex_texcoords"] = (0.5 + across * [1, -1]).astype(np.float32).ravel()
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
            frame = _upright_frame(direction, position)
            vertices = self._triangles.vertices @ frame[:3, :3].T + position
            parameters[f"{name}.vertex_positions"] = vertices.astype(np.float32).ravel()
            radiance = power / self._size
            if self._image is None:
                parameters[f"{name}.emitter.radiance.value"] = mi.Color3f(*radiance.tolist())
            else:
                parameters[f"{name}.emitter.radiance.data"] = mi.TensorXf(self._image * radiance.astype(np.float32))
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


def make_lamps(mi: ModuleType, model: mujoco.MjModel, lights: Sequence[Light]) -> list[Lamp]:
    """Return all lights of a model that are on. An area light is a point light in MuJoCo's model."""
    options = {light.name: light for light in lights}
    return [
        Lamp(mi, model, light, options.get(model.light(light).name))
        for light in range(model.nlight)
        if model.light_active[light]
    ]


def _upright_frame(direction: np.ndarray, position: np.ndarray) -> np.ndarray:
    """Return a homogeneous transform (4, 4) whose z axis is ``direction``, and whose y axis points up, or to +y."""
    z = direction / np.linalg.norm(direction)
    x = np.cross([0.0, 0.0, 1.0] if abs(z[2]) < 0.999 else [0.0, 1.0, 0.0], z)
    x /= np.linalg.norm(x)
    matrix = np.eye(4)
    matrix[:3, :3] = np.stack([x, np.cross(z, x), z], 1)
    matrix[:3, 3] = position
    return matrix


def _frame(direction: np.ndarray, position: np.ndarray) -> np.ndarray:
    """Return a homogeneous transform (4, 4) whose z axis is ``direction``."""
    z = direction / np.linalg.norm(direction)
    x = np.cross(np.eye(3)[np.abs(z).argmin()], z)
    x /= np.linalg.norm(x)
    matrix = np.eye(4)
    matrix[:3, :3] = np.stack([x, np.cross(z, x), z], 1)
    matrix[:3, 3] = position
    return matrix
