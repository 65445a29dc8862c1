"""Lights and sky of a model as emitters of a Mitsuba scene, which follow the engine.

A light's intensity says how bright a white surface is that faces it: directional light of intensity i has irradiance
pi * i, which a white surface scatters with radiance i. Lamps at a place fade with the square of the distance, so
theirs is what reaches the point they look at, or without one, the middle of the model.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import mujoco
import numpy as np

from sensorium.cameras.pathtrace.scene import CUBE_AXES, texture_image
from sensorium.cameras.pathtrace.shapes import disc
from sensorium.cameras.tone import decode_srgb
from sensorium.worlds import World
from sensorium.worlds.lights import Light

_DIRECTIONAL = int(mujoco.mjtLightType.mjLIGHT_DIRECTIONAL)
_SPOT = int(mujoco.mjtLightType.mjLIGHT_SPOT)
_WHITE = {"type": "rgb", "value": [1.0, 1.0, 1.0]}
_NEAREST = 0.05
"""Lamps are taken to be at least this far from what they light, m."""


class Lamp:
    """One light of the model."""

    def __init__(self, mi: Any, model: mujoco.MjModel, light: int, options: Light | None) -> None:
        self.light = light
        self.name = f"light_{light}"
        kind = int(model.light_type[light])
        self.is_disc = options is not None and options.type == "area"
        self._kind = "area" if self.is_disc else {_DIRECTIONAL: "directional", _SPOT: "spot"}.get(kind, "point")
        self._target = model.stat.center.copy()
        if options is not None and options.lookat is not None:
            self._target = np.asarray(options.lookat, float)
        self._cutoff = float(np.clip(model.light_cutoff[light], 1.0, 89.0))
        self._written: np.ndarray | None = None
        self.plugin = self._make(mi, options)

    def _make(self, mi: Any, options: Light | None) -> Any:
        if self._kind == "directional":
            return mi.load_dict({"type": "directional", "direction": [0, 0, -1], "irradiance": _WHITE})
        if self._kind == "spot":
            return mi.load_dict({"type": "spot", "cutoff_angle": self._cutoff, "intensity": _WHITE})
        if self._kind == "point":
            return mi.load_dict({"type": "point", "position": [0, 0, 0], "intensity": _WHITE})
        assert options is not None
        self._disc = disc(options.radius)
        self._size = np.pi * options.radius**2
        properties = mi.Properties()
        properties["bsdf"] = mi.load_dict({"type": "diffuse", "reflectance": {"type": "rgb", "value": [0.0] * 3}})
        properties["emitter"] = mi.load_dict({"type": "area", "radiance": _WHITE})
        mesh = mi.Mesh(self.name, len(self._disc.vertices), len(self._disc.faces), props=properties)
        first = mi.traverse(mesh)
        first["faces"] = self._disc.faces.astype(np.uint32).ravel()
        first["vertex_positions"] = self._disc.vertices.astype(np.float32).ravel()
        first.update()
        return mesh

    def shine(self, mi: Any, parameters: Any, position: np.ndarray, along: np.ndarray, colour: np.ndarray) -> bool:
        """Put it somewhere, along a direction, with MuJoCo's diffuse colour; whether anything was written."""
        state = np.concatenate([position, along, colour])
        if self._written is not None and (state == self._written).all():
            return False
        self._written = state
        name = self.name
        if self._kind == "directional":
            parameters[f"{name}.to_world"] = mi.Transform4f(_frame(along, np.zeros(3)))
            parameters[f"{name}.irradiance.value"] = mi.Color3f(*(np.pi * colour).tolist())
            return True
        power = np.pi * colour * max(float(np.sum((self._target - position) ** 2)), _NEAREST**2)
        if self._kind == "area":
            frame = _frame(along, position)
            vertices = self._disc.vertices @ frame[:3, :3].T + position
            parameters[f"{name}.vertex_positions"] = vertices.astype(np.float32).ravel()
            parameters[f"{name}.emitter.radiance.value"] = mi.Color3f(*(power / self._size).tolist())
            return True
        if self._kind == "spot":
            parameters[f"{name}.to_world"] = mi.Transform4f(_frame(along, position))
        else:
            parameters[f"{name}.position"] = mi.Point3f(*position.tolist())
        parameters[f"{name}.intensity.value"] = mi.Color3f(*power.tolist())
        return True


class Headlight:
    """The lamp at the camera, of models that have it."""

    name = "headlight"

    def __init__(self, mi: Any, model: mujoco.MjModel) -> None:
        self._colour = np.asarray(model.vis.headlight.diffuse, float)
        self._target = model.stat.center.copy()
        self.plugin = mi.load_dict({"type": "point", "position": [0, 0, 0], "intensity": _WHITE})

    @staticmethod
    def shines(model: mujoco.MjModel) -> bool:
        """Whether there is one."""
        return bool(model.vis.headlight.active) and bool(np.any(model.vis.headlight.diffuse > 0))

    def follow(self, mi: Any, parameters: Any, camera: np.ndarray) -> None:
        """Put it where a camera is."""
        power = np.pi * self._colour * max(float(np.sum((self._target - camera) ** 2)), _NEAREST**2)
        parameters[f"{self.name}.position"] = mi.Point3f(*camera.tolist())
        parameters[f"{self.name}.intensity.value"] = mi.Color3f(*power.tolist())


def lamps_of(mi: Any, world: World, lights: Sequence[Light]) -> list[Lamp]:
    """All lights of a world that are on. What MuJoCo takes for a point may be an area light here."""
    model = world.model
    options = {light.name: light for light in lights}
    return [
        Lamp(mi, model, light, options.get(model.light(light).name))
        for light in range(model.nlight)
        if model.light_active[light]
    ]


def sky_of(mi: Any, model: mujoco.MjModel, path: str | None, turned: float, multiplier: float) -> Any | None:
    """What shines from all around: an environment map, the model's sky, or its ambient light; None if nothing does.

    Args:
        mi: Mitsuba, with its variant set.
        model: whose sky.
        path: a picture in latitude and longitude, e.g. HDR or EXR; None: what the model has.
        turned: degrees by which it is turned about the vertical.
        multiplier: what its radiance is multiplied with.
    """
    upright = mi.ScalarTransform4f().rotate([0, 0, 1], turned).rotate([1, 0, 0], 90)
    if path is not None:
        return mi.load_dict({"type": "envmap", "filename": path, "scale": multiplier, "to_world": upright})
    skies = np.flatnonzero(model.tex_type == int(mujoco.mjtTexture.mjTEXTURE_SKYBOX))
    if len(skies):
        image = _around(decode_srgb(texture_image(model, int(skies[0])) / 255.0)).astype(np.float32)
        return mi.load_dict({"type": "envmap", "bitmap": mi.Bitmap(image), "scale": multiplier, "to_world": upright})
    ambient = np.asarray(model.vis.headlight.ambient, float) * bool(model.vis.headlight.active)
    ambient = (ambient + model.light_ambient[model.light_active.astype(bool)].sum(0)) * multiplier
    if not ambient.any():
        return None
    return mi.load_dict({"type": "constant", "radiance": {"type": "rgb", "value": ambient.tolist()}})


def _around(image: np.ndarray, rows: int = 256) -> np.ndarray:
    """A sky of six squares, or of one that stands for all, as a picture in latitude and longitude."""
    side = image.shape[1]
    cube = image.reshape(-1, side, side, 3) if image.shape[0] == 6 * side else np.stack([image] * 6)
    theta = (np.arange(rows) + 0.5) * np.pi / rows
    phi = (np.arange(2 * rows) + 0.5) * np.pi / rows
    sine = np.sin(theta)[:, None]
    east, north = sine * np.sin(phi), sine * np.cos(phi)
    up = np.broadcast_to(np.cos(theta)[:, None], east.shape)
    toward = np.stack([east, up, -north], -1)  # the cube's own axes: y is up
    axis = np.abs(toward).argmax(-1)
    face = 2 * axis + (np.take_along_axis(toward, axis[..., None], -1)[..., 0] < 0)
    sky = np.empty((rows, 2 * rows, 3))
    for number, (main, across, down, sign_across, sign_down) in enumerate(CUBE_AXES):
        own = toward[face == number]
        depth = np.abs(own[:, main])
        column = (0.5 + 0.5 * sign_across * own[:, across] / depth) * cube.shape[2]
        row = (0.5 + 0.5 * sign_down * own[:, down] / depth) * cube.shape[1]
        most = (cube.shape[1] - 1, cube.shape[2] - 1)
        sky[face == number] = cube[
            number, np.minimum(row.astype(int), most[0]), np.minimum(column.astype(int), most[1])
        ]
    return sky


def _frame(along: np.ndarray, position: np.ndarray) -> np.ndarray:
    """Homogeneous (4, 4): z runs along a direction."""
    z = along / np.linalg.norm(along)
    x = np.cross(np.eye(3)[np.abs(z).argmin()], z)
    x /= np.linalg.norm(x)
    matrix = np.eye(4)
    matrix[:3, :3] = np.stack([x, np.cross(z, x), z], 1)
    matrix[:3, 3] = position
    return matrix
