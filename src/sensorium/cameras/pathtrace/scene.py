"""Materials and meshes: a compiled MuJoCo model as a Mitsuba scene that follows the engine.

All geoms of one material kind are one mesh, with colour, roughness and metalness as vertex attributes. So the scene has
few objects to compile for, and moving everything is one write. Fixed and moving geoms are separate meshes. Each frame
compares poses and colours with those that were written last, and writes only the meshes in which something differs.
Nothing is rebuilt.

MuJoCo's colours are display values, so they are decoded from sRGB. Specular reflection uses Mitsuba's principled
material: ``specular`` as it is, and for ``shininess`` s the roughness whose highlight is as wide as that of the Blinn
exponent 128 s, unless the material sets metallic and roughness itself. Without specular reflection it is Lambertian.
"""

from __future__ import annotations

from types import ModuleType
from typing import TYPE_CHECKING, NamedTuple

import mujoco
import numpy as np

from sensorium.cameras.pathtrace.shapes import Triangles, triangulate
from sensorium.worlds.environments import CUBE_AXES
from sensorium.worlds.srgb import decode_srgb

if TYPE_CHECKING:
    import mitsuba

PluginDict = dict[str, object]
"""Description of a Mitsuba plugin, for ``mitsuba.load_dict``."""

VISIBLE_GROUPS = 3
"""Geoms, flexes and skins of groups below this one are visible, as in MuJoCo's own renderer."""
_DEFAULT_RGBA = np.array([0.5, 0.5, 0.5, 1.0], np.float32)
"""MuJoCo's default colour of a geom; it means that the geom has the colour of its material."""
_TEXTURE_ROLES = (int(mujoco.mjtTextureRole.mjTEXROLE_RGB), int(mujoco.mjtTextureRole.mjTEXROLE_RGBA))
_SIDE_AXES = np.array([[1, 2], [0, 2], [0, 1]])
"""The two axes in the side of a box, by the axis of the side's normal."""


class MaterialKind(NamedTuple):
    """Properties that geoms must share to be in one mesh."""

    moves: bool
    texture: int
    tint: tuple[float, float, float]
    """Factor for the texture."""
    specular: float
    is_transparent: bool
    emission: tuple[float, float, float]


class SurfaceMaterial(NamedTuple):
    """Material of one geom or flex."""

    kind: MaterialKind
    roughness: float
    metallic: float


def geom_material(model: mujoco.MjModel, geom: int) -> SurfaceMaterial:
    """Return the material of a geom."""
    moves = bool(model.body_weldid[model.geom_bodyid[geom]] != 0)
    rgba = geom_colours(model.geom_rgba, model.mat_rgba, model)[geom]
    return surface_material(model, int(model.geom_matid[geom]), rgba, moves)


def surface_material(
    model: mujoco.MjModel, material: int, rgba: np.ndarray, moves: bool, can_be_textured: bool = True
) -> SurfaceMaterial:
    """Return the material of a geom or flex.

    Args:
        model: the compiled model.
        material: id of MuJoCo's material; -1 for none.
        rgba: colour, (4,).
        moves: whether the surface moves.
        can_be_textured: whether the surface has texture coordinates.
    """
    texture, specular, shininess, reflectance, emission = -1, 0.5, 0.5, 0.0, (0.0, 0.0, 0.0)
    metallic = roughness = -1.0
    if material >= 0:
        if can_be_textured:
            texture = int(material_textures(model)[material])
        specular, shininess = float(model.mat_specular[material]), float(model.mat_shininess[material])
        reflectance = float(model.mat_reflectance[material])
        metallic, roughness = float(model.mat_metallic[material]), float(model.mat_roughness[material])
        red, green, blue = (float(model.mat_emission[material]) * decode_srgb(rgba[:3])).tolist()
        emission = (red, green, blue)
    if roughness < 0:
        roughness = (2 / (128 * shininess + 2)) ** 0.25 * (1 - reflectance)
    if metallic < 0:
        metallic = reflectance
    red, green, blue = rgba[:3].tolist() if texture >= 0 else (1.0, 1.0, 1.0)
    is_lambertian = specular <= 0 and metallic <= 0
    strength = 0.0 if is_lambertian else max(round(specular, 3), 0.01)
    kind = MaterialKind(moves, texture, (red, green, blue), strength, bool(rgba[3] < 1), emission)
    return SurfaceMaterial(kind, float(np.clip(roughness, 0.03, 1.0)), float(metallic))


def material_textures(model: mujoco.MjModel) -> np.ndarray:
    """Return the texture of each material, (nmat,); -1 for none."""
    return np.asarray(model.mat_texid[:, _TEXTURE_ROLES].max(1))


def geom_colours(geom_rgba: np.ndarray, mat_rgba: np.ndarray, model: mujoco.MjModel) -> np.ndarray:
    """Return the colours (ngeom, 4) of geoms: their own, or if that is the default, those of their materials."""
    return surface_colours(geom_rgba, model.geom_matid, mat_rgba)


def surface_colours(rgba: np.ndarray, material: np.ndarray, mat_rgba: np.ndarray) -> np.ndarray:
    """Return the colours (n, 4) of surfaces with their own ``rgba`` (n, 4) and ``material`` (n,)."""
    if not len(mat_rgba):
        return rgba
    inherits = (material >= 0) & (rgba == _DEFAULT_RGBA).all(1)
    return np.where(inherits[:, None], mat_rgba[np.maximum(material, 0)], rgba)


class MaterialMesh:
    """One mesh of the scene: all geoms of one material kind.

    Args:
        mi: Mitsuba, with its variant set.
        model: the compiled model.
        kind: what the geoms share.
        members: id, material and surface of each geom.

    Attributes:
        geoms: ids of the geoms.
        geom_of_face: id of the geom of each triangle.
        name: id of the mesh in the scene.
        mesh: the Mitsuba shape.
    """

    def __init__(
        self,
        mi: ModuleType,
        model: mujoco.MjModel,
        kind: MaterialKind,
        members: list[tuple[int, SurfaceMaterial, Triangles]],
    ) -> None:
        self.kind = kind
        self.geoms = np.array([geom for geom, _, _ in members])
        pieces = [piece for _, _, piece in members]
        sizes = [len(piece.vertices) for piece in pieces]
        self._starts = np.cumsum([0, *sizes])
        self._owner = np.repeat(np.arange(len(members)), sizes)
        self._vertices = np.concatenate([piece.vertices for piece in pieces]).astype(np.float32)
        self._normals = np.concatenate([piece.normals for piece in pieces]).astype(np.float32)
        faces = np.concatenate([piece.faces + start for piece, start in zip(pieces, self._starts[:-1], strict=True)])
        self.geom_of_face = np.repeat(self.geoms, [len(piece.faces) for piece in pieces])
        self.name = f"mesh_{self.geoms[0]}"
        self._placed = np.empty_like(self._vertices)
        self._turned = np.empty_like(self._normals)
        self._written: dict[str, np.ndarray] = {}
        roughness, metallic = (
            np.repeat([getattr(material, name) for _, material, _ in members], sizes)
            for name in ("roughness", "metallic")
        )
        uv = np.concatenate([piece.uv for piece in pieces]) if kind.texture >= 0 else None  # type: ignore[arg-type]
        surface = Triangles(self._vertices, self._normals, faces, uv)
        self.mesh = make_mesh(mi, model, self.name, kind, surface, roughness, metallic)

    def set_poses(self, parameters: mitsuba.SceneParameters, position: np.ndarray, rotation: np.ndarray) -> bool:
        """Move the geoms to positions (ngeom, 3) and rotations (ngeom, 3, 3), and return whether anything changed.

        Call :meth:`write_normals` after the parameters were updated.
        """
        pose = np.concatenate([position[self.geoms], rotation[self.geoms].reshape(-1, 9)], 1)
        before = self._written.get("pose")
        moved = np.isfinite(pose).all(1)  # geoms of a diverged env stay where they were
        if before is not None:
            moved &= (pose != before).any(1)
        changed = np.flatnonzero(moved)
        if not len(changed):
            return False
        if before is None:
            self._written["pose"] = before = np.full_like(pose, np.nan)
        before[changed] = pose[changed]
        for number in changed:
            part = slice(self._starts[number], self._starts[number + 1])
            turn = pose[number, 3:].reshape(3, 3).T.astype(np.float32)
            np.matmul(self._vertices[part], turn, out=self._placed[part])
            self._placed[part] += pose[number, :3].astype(np.float32)
            np.matmul(self._normals[part], turn, out=self._turned[part])
        parameters[f"{self.name}.vertex_positions"] = self._placed.ravel()
        return True

    def write_normals(self, parameters: mitsuba.SceneParameters) -> None:
        """Write the normals; call it after positions were updated, because Mitsuba then computes its own normals."""
        parameters[f"{self.name}.vertex_normals"] = self._turned.ravel()

    def set_colours(self, parameters: mitsuba.SceneParameters, rgba: np.ndarray) -> bool:
        """Set the colours of the geoms from ``rgba`` (ngeom, 4), and return whether anything changed."""
        own = rgba[self.geoms]
        if "rgba" in self._written and (own == self._written["rgba"]).all():
            return False
        self._written["rgba"] = own.copy()
        linear = decode_srgb(own[:, :3]).astype(np.float32)
        parameters[f"{self.name}.vertex_color"] = linear[self._owner].ravel()
        if self.kind.is_transparent:
            parameters[f"{self.name}.vertex_opacity"] = own[self._owner, 3].astype(np.float32)
        return True


def make_mesh(
    mi: ModuleType,
    model: mujoco.MjModel,
    name: str,
    kind: MaterialKind,
    surface: Triangles,
    roughness: np.ndarray,
    metallic: np.ndarray,
) -> mitsuba.Mesh:
    """Return a Mitsuba mesh of a material kind, in black.

    Args:
        mi: Mitsuba, with its variant set.
        model: the compiled model.
        name: id of the mesh in the scene.
        kind: material of the whole mesh.
        surface: its triangles; with ``uv`` if the kind has a texture.
        roughness: roughness of each vertex, (n,).
        metallic: metalness of each vertex, (n,).
    """
    count = len(surface.vertices)
    properties = mi.Properties()
    properties["bsdf"] = mi.load_dict(_bsdf(mi, model, kind))
    if any(kind.emission):
        emitter = {"type": "area", "radiance": {"type": "rgb", "value": list(kind.emission)}}
        properties["emitter"] = mi.load_dict(emitter)
    textured = kind.texture >= 0
    mesh: mitsuba.Mesh = mi.Mesh(
        name, count, len(surface.faces), props=properties, has_vertex_normals=True, has_vertex_texcoords=textured
    )
    attributes = {"color": np.zeros(3 * count), "roughness": roughness, "metallic": metallic}
    if kind.is_transparent:
        attributes["opacity"] = np.zeros(count)
    for each, values in attributes.items():
        size = len(values) // count
        mesh.add_attribute(f"vertex_{each}", size, values.astype(np.float32))  # type: ignore[arg-type]
    first = mi.traverse(mesh)
    first["faces"] = surface.faces.astype(np.uint32).ravel()
    first["vertex_positions"] = surface.vertices.astype(np.float32).ravel()
    first["vertex_normals"] = surface.normals.astype(np.float32).ravel()
    if textured:
        assert surface.uv is not None
        first["vertex_texcoords"] = surface.uv.astype(np.float32).ravel()
    first.update()
    return mesh


def make_meshes(mi: ModuleType, model: mujoco.MjModel, reach: float) -> list[MaterialMesh]:
    """Return the meshes of all visible geoms of a model; ``reach`` is the half size of infinite planes, m."""
    rgba = geom_colours(model.geom_rgba, model.mat_rgba, model)
    members: dict[MaterialKind, list[tuple[int, SurfaceMaterial, Triangles]]] = {}
    for geom in range(model.ngeom):
        if model.geom_group[geom] >= VISIBLE_GROUPS or rgba[geom, 3] <= 0:
            continue
        shape = triangulate(model, geom, reach)
        if shape is None:
            continue
        material = geom_material(model, geom)
        if material.kind.texture >= 0:
            shape = _add_texture_coordinates(model, geom, shape, material.kind.texture)
        members.setdefault(material.kind, []).append((geom, material, shape))
    return [MaterialMesh(mi, model, kind, each) for kind, each in members.items()]


def _bsdf(mi: ModuleType, model: mujoco.MjModel, kind: MaterialKind) -> PluginDict:
    def attribute(name: str) -> PluginDict:
        return {"type": "mesh_attribute", "name": f"vertex_{name}"}

    colour = attribute("color") if kind.texture < 0 else _bitmap(mi, model, kind)
    if kind.specular == 0:
        surface: PluginDict = {"type": "diffuse", "reflectance": colour}
    else:
        surface = {"type": "principled", "base_color": colour, "specular": kind.specular}
        surface |= {name: attribute(name) for name in ("roughness", "metallic")}
    both_sides: PluginDict = {"type": "twosided", "front": surface}
    if kind.is_transparent:
        return {"type": "mask", "opacity": attribute("opacity"), "inner": both_sides}
    return both_sides


def _bitmap(mi: ModuleType, model: mujoco.MjModel, kind: MaterialKind) -> PluginDict:
    image = decode_srgb(texture_image(model, kind.texture) / 255.0 * kind.tint).astype(np.float32)
    wrap = "repeat" if model.tex_type[kind.texture] == mujoco.mjtTexture.mjTEXTURE_2D else "clamp"
    return {"type": "bitmap", "bitmap": mi.Bitmap(np.ascontiguousarray(image)), "raw": True, "wrap_mode": wrap}


def texture_image(model: mujoco.MjModel, texture: int) -> np.ndarray:
    """Return a texture of the model, (H, W, 3) uint8."""
    height, width, channels = (int(each[texture]) for each in (model.tex_height, model.tex_width, model.tex_nchannel))
    start = int(model.tex_adr[texture])
    image = model.tex_data[start : start + height * width * channels].reshape(height, width, channels)
    return np.repeat(image[..., :1], 3, axis=2) if channels < 3 else image[..., :3]


def _add_texture_coordinates(model: mujoco.MjModel, geom: int, shape: Triangles, texture: int) -> Triangles:
    """Return the shape with MuJoCo's texture coordinates; v runs down from the top of the image."""
    material = int(model.geom_matid[geom])
    repeat = model.mat_texrepeat[material]
    if model.tex_type[texture] != mujoco.mjtTexture.mjTEXTURE_2D:
        return _add_cube_coordinates(shape)
    if shape.uv is None:
        size = np.where(model.geom_size[geom] > 0, model.geom_size[geom], 1.0)
        axes = np.tile([0, 1], (len(shape.vertices), 1))
        if model.geom_type[geom] == mujoco.mjtGeom.mjGEOM_BOX:  # each side has the whole texture
            axes = _SIDE_AXES[np.abs(shape.normals).argmax(1)]
        scale = repeat / (1.0 if model.mat_texuniform[material] else size[axes])
        shape.uv = np.take_along_axis(shape.vertices, axes, 1) * scale * [0.5, -0.5] - 0.5
    else:
        shape.uv = shape.uv * repeat
    return shape


def _add_cube_coordinates(shape: Triangles) -> Triangles:
    """Return the shape with coordinates in a cube map: six squares in a column; each triangle is in one of them."""
    shape = shape.split_vertices()
    corners = shape.vertices.reshape(-1, 3, 3)
    middle = corners.mean(1)
    axis = np.abs(middle).argmax(1)
    face = 2 * axis + (middle[np.arange(len(axis)), axis] < 0)
    uv = np.empty((len(face), 3, 2))
    for number, (main, across, down, sign_across, sign_down) in enumerate(CUBE_AXES):
        own = corners[face == number]
        depth = np.maximum(np.abs(own[..., main]), 1e-9)
        column = 0.5 + 0.5 * np.clip(sign_across * own[..., across] / depth, -0.99, 0.99)
        row = 0.5 + 0.5 * np.clip(sign_down * own[..., down] / depth, -0.99, 0.99)
        uv[face == number] = np.stack([column, (number + row) / 6], -1)
    shape.uv = uv.reshape(-1, 2)
    return shape
