"""``TracedScene``: a Mitsuba scene of one set of materials, which follows the engine.

Poses, colours, lights and environment maps are parameters of the scene. Materials, the tint of textures, emission,
which geoms are visible or transparent, and sizes are its structure: envs that differ in them have different scenes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import ModuleType

import mujoco
import numpy as np

from sensorium.cameras.options import RaytracerCamera
from sensorium.cameras.pathtrace.flexes import FlexMesh, make_flexes
from sensorium.cameras.pathtrace.lights import Headlight, make_lamps
from sensorium.cameras.pathtrace.scene import (
    MaterialMesh,
    PluginDict,
    make_meshes,
    material_textures,
    surface_colours,
)
from sensorium.cameras.pathtrace.sky import Sky
from sensorium.cameras.pathtrace.tracers import FirstHits, ScalarTracer, VectorTracer
from sensorium.cameras.renderer import RenderSettings
from sensorium.cameras.round_shapes import ROUND

PER_ENV_FIELDS = ("geom_rgba", "geom_matid", "geom_size", "mat_rgba", "mat_texid", "light_diffuse")
"""Model fields that may differ between envs."""


def materials_key(model: mujoco.MjModel, values: Mapping[str, np.ndarray]) -> bytes:
    """Return what the structure of the scene of an env depends on: equal keys, equal structure.

    Args:
        model: the compiled model.
        values: model field -> its values in the env, for fields that differ between envs.
    """
    material = np.asarray(values.get("geom_matid", model.geom_matid)).ravel()
    rgba = _colours(model, values)
    # tints of textures, and emission, are written to the scene when it is made
    fixed = np.append((material_textures(model) >= 0) | (model.mat_emission > 0), False)[material]
    parts = [material, np.sign(rgba[:, 3]), rgba[:, 3] < 1, np.where(fixed[:, None], rgba[:, :3], 0)]
    parts.append(np.asarray(values.get("geom_size", ())))
    return b"".join(np.ascontiguousarray(part).tobytes() for part in parts)


class TracedScene:
    """A Mitsuba scene, its tracer, and the parts of it that follow the engine.

    Args:
        mi: Mitsuba, with its variant set.
        model: the compiled model, with the materials, colours and sizes of the envs that the scene is for.
        reach: half size of infinite planes, m.
        options: options that all path-traced cameras share.
        settings: lights and environment maps.
        maps: the environment maps, as ``load_maps`` returns them.
        scalar: whether to trace ray by ray.

    Attributes:
        tracer: traces light through it.
        lamps: its lights.
        flexes: its deformables.
        round: ids of the visible round geoms.
    """

    def __init__(
        self,
        mi: ModuleType,
        model: mujoco.MjModel,
        reach: float,
        options: RaytracerCamera,
        settings: RenderSettings,
        maps: Sequence[np.ndarray],
        scalar: bool,
    ) -> None:
        meshes = make_meshes(mi, model, reach)
        self.flexes, self.lamps = make_flexes(mi, model), make_lamps(mi, model, settings.lights)
        self._sky = Sky(mi, model, options, settings.environments, maps)
        surfaces: list[MaterialMesh | FlexMesh] = [*meshes, *self.flexes]
        content: PluginDict = {each.name: each.mesh for each in surfaces}
        content |= {lamp.name: lamp.plugin for lamp in self.lamps}
        if self._sky.plugin is not None:
            content[self._sky.name] = self._sky.plugin
        self._headlight = Headlight(mi, model) if Headlight.is_on(model) else None
        if self._headlight is not None:
            content[self._headlight.name] = self._headlight.plugin
        scene = mi.load_dict({"type": "scene", **content})
        is_transparent = any(each.kind.is_transparent for each in surfaces)
        method = "volpath" if is_transparent else "path"  # "volpath" lets light pass through transparent surfaces
        integrator = mi.load_dict({"type": method, "max_depth": options.bounces + 1})
        others = [flex.mesh for flex in self.flexes] + [lamp.disc for lamp in self.lamps if lamp.disc is not None]
        tracer = ScalarTracer if scalar else VectorTracer
        self.tracer: ScalarTracer | VectorTracer = tracer(
            mi, scene, integrator, [*(mesh.mesh for mesh in meshes), *others]
        )
        self._parameters = mi.traverse(scene)
        self._meshes = meshes
        self._ids = _triangle_ids(model, [mesh.geom_of_face for mesh in meshes], len(others))
        self._first_id = np.cumsum([0, *(len(mesh.geom_of_face) for mesh in meshes), *([1] * len(others))])
        drawn = np.unique(self._ids[:, 1])
        drawn = drawn[drawn >= 0]
        self.round = drawn[np.isin(model.geom_type[drawn], ROUND)].astype(np.int32)

    def update(
        self,
        mi: ModuleType,
        model: mujoco.MjModel,
        fields: Mapping[str, np.ndarray],
        values: Mapping[str, np.ndarray],
    ) -> None:
        """Write poses, colours, lights and environment map of one env to the scene.

        Args:
            mi: Mitsuba, with its variant set.
            model: the compiled model.
            fields: poses of geoms and lights, and vertices of flexes, in the env.
            values: model field -> its values in the env, for fields that differ between envs.
        """
        parameters = self._parameters
        position, rotation = fields["geom_xpos"], fields["geom_xmat"].reshape(-1, 3, 3)
        moved: list[MaterialMesh | FlexMesh] = []
        moved += [mesh for mesh in self._meshes if mesh.set_poses(parameters, position, rotation)]
        moved += [flex for flex in self.flexes if flex.set_vertices(parameters, fields["flexvert_xpos"])]
        changed, rgba = bool(moved), _colours(model, values)
        for mesh in self._meshes:
            changed |= mesh.set_colours(parameters, rgba)
        changed |= self._sky.show(mi, parameters, values.get("mat_texid", model.mat_texid))
        diffuse = values.get("light_diffuse", model.light_diffuse)
        for lamp in self.lamps:
            where, direction = fields["light_xpos"][lamp.light], fields["light_xdir"][lamp.light]
            changed |= lamp.update(mi, parameters, where, direction, diffuse[lamp.light])
        if changed:
            parameters.update()
        if moved:
            for each in moved:
                each.write_normals(parameters)
            parameters.update()

    def move_headlight(self, mi: ModuleType, position: np.ndarray) -> None:
        """Move the light at the camera, if there is one, to the position of a camera, (3,) m."""
        if self._headlight is not None:
            self._headlight.move_to(mi, self._parameters, position)
            self._parameters.update()

    def ids(self, hits: FirstHits) -> np.ndarray:
        """Return the body and geom ids of the surfaces that pixels show, (H, W, 2) int32."""
        is_mesh = hits.shape < len(self._meshes)
        number = self._first_id[hits.shape] + np.where(is_mesh, hits.triangle, 0)
        return np.asarray(self._ids[np.where(hits.shape >= 0, number, len(self._ids) - 1)])


def _colours(model: mujoco.MjModel, values: Mapping[str, np.ndarray]) -> np.ndarray:
    """Return the colours of the geoms in an env, (ngeom, 4)."""
    rgba, material, of_material = (
        np.asarray(values.get(name, getattr(model, name))) for name in ("geom_rgba", "geom_matid", "mat_rgba")
    )
    return surface_colours(rgba, material.ravel(), of_material)


def _triangle_ids(model: mujoco.MjModel, geoms: list[np.ndarray], others: int) -> np.ndarray:
    """Return (body, geom) ids of all triangles of all meshes, then of flexes and discs of lamps, then of no hit."""
    of_face = np.concatenate([np.zeros(0, int), *geoms])
    known = np.stack([model.geom_bodyid[of_face], of_face], 1)
    return np.concatenate([known, np.tile([0, -1], (others, 1)), [[-1, -1]]]).astype(np.int32)
