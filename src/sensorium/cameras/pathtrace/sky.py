"""The light from all around, as an emitter of a Mitsuba scene: an environment map, a sky, or ambient light."""

from __future__ import annotations

from collections.abc import Sequence
from types import ModuleType
from typing import TYPE_CHECKING

import mujoco
import numpy as np

from sensorium.cameras.options import RaytracerCamera
from sensorium.cameras.pathtrace.scene import texture_image
from sensorium.worlds.environments import (
    CUBE_AXES,
    MATERIAL,
    ROLE,
    EnvironmentMap,
    environment_textures,
    resize_map,
    shown_environment,
)
from sensorium.worlds.srgb import decode_srgb

if TYPE_CHECKING:
    import mitsuba


def load_maps(environments: Sequence[EnvironmentMap]) -> list[np.ndarray]:
    """Return the radiance of environment maps, of equal size, with a copy of the columns beside the edges.

    A change of the map in Mitsuba keeps its size, and needs these columns.
    """
    maps = [each.read() for each in environments]
    height, width = (max((each.shape[axis] for each in maps), default=0) for axis in (0, 1))
    return [np.pad(resize_map(each, height, width), ((0, 0), (1, 1), (0, 0)), "wrap") for each in maps]


class Sky:
    """The light from all around.

    Args:
        mi: Mitsuba, with its variant set.
        model: the compiled model.
        options: options of the cameras; their ``environment`` takes precedence over what the scene has.
        environments: environment maps of the scene.
        maps: their radiance, see :func:`load_maps`.

    Attributes:
        name: id of the emitter in the scene.
        plugin: the Mitsuba emitter; None if it is dark.
    """

    name = "sky"

    def __init__(
        self,
        mi: ModuleType,
        model: mujoco.MjModel,
        options: RaytracerCamera,
        environments: Sequence[EnvironmentMap],
        maps: Sequence[np.ndarray],
    ) -> None:
        self._rotation, self._multiplier = options.environment_rotation, options.environment_multiplier
        self._environments = environments
        self._maps = maps if options.environment is None else []
        if self._maps:
            self._textures = environment_textures(model)
            self._material = int(model.mat(MATERIAL).id)
            self._shown = int(np.flatnonzero(self._textures == shown_environment(model))[0])
        self.plugin = self._make(mi, model, options)

    def _make(self, mi: ModuleType, model: mujoco.MjModel, options: RaytracerCamera) -> mitsuba.Emitter | None:
        placed = {"scale": self._multiplier, "to_world": self._upright(mi.ScalarTransform4f, self._rotation)}
        if options.environment is not None:
            return mi.load_dict({"type": "envmap", "filename": options.environment, **placed})
        if self._maps:
            chosen = self._environments[self._shown]
            placed = {
                "scale": self._multiplier * chosen.multiplier,
                "to_world": self._upright(mi.ScalarTransform4f, self._rotation + chosen.rotation),
            }
            image = np.ascontiguousarray(self._maps[self._shown][:, 1:-1])
            return mi.load_dict({"type": "envmap", "bitmap": mi.Bitmap(image), **placed})
        skies = np.flatnonzero(model.tex_type == int(mujoco.mjtTexture.mjTEXTURE_SKYBOX))
        if len(skies):
            image = _cube_to_sphere(decode_srgb(texture_image(model, int(skies[0])) / 255.0)).astype(np.float32)
            return mi.load_dict({"type": "envmap", "bitmap": mi.Bitmap(image), **placed})
        ambient = np.asarray(model.vis.headlight.ambient, float) * bool(model.vis.headlight.active)
        ambient = (ambient + model.light_ambient[model.light_active.astype(bool)].sum(0)) * self._multiplier
        if not ambient.any():
            return None
        return mi.load_dict({"type": "constant", "radiance": {"type": "rgb", "value": ambient.tolist()}})

    @staticmethod
    def _upright(transform: type, rotation: float) -> mitsuba.ScalarTransform4f:
        """Return the transform of a map whose y axis is up, turned about the vertical, in degrees."""
        return transform().rotate([0, 0, 1], rotation).rotate([1, 0, 0], 90)  # type: ignore[no-any-return]

    def show(self, mi: ModuleType, parameters: mitsuba.SceneParameters, mat_texid: np.ndarray) -> bool:
        """Show the environment map of an env, and return whether it differs from the one before.

        Args:
            mi: Mitsuba, with its variant set.
            parameters: parameters of the scene.
            mat_texid: textures of the env's materials, (nmat, roles).
        """
        if not self._maps:
            return False
        number = int(np.flatnonzero(self._textures == mat_texid[self._material, ROLE])[0])
        if number == self._shown:
            return False
        self._shown, chosen = number, self._environments[number]
        parameters[f"{self.name}.data"] = mi.TensorXf(self._maps[number])
        parameters[f"{self.name}.scale"] = self._multiplier * chosen.multiplier
        parameters[f"{self.name}.to_world"] = self._upright(mi.Transform4f, self._rotation + chosen.rotation)
        return True


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
