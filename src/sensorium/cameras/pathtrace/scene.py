"""A compiled MuJoCo model as a Mitsuba scene, whose shapes and lights follow the engine.

All geoms of one kind of material are one mesh, with colour, roughness and metalness at its vertices: a renderer that
compiles its scene then has few kinds of things to compile for, and moving everything is one write. What stands still
and what moves are meshes apart. Each frame compares poses and colours with those that were written last, and writes
the meshes in which something differs; nothing is ever rebuilt.

MuJoCo's colours are display values, so they are decoded from sRGB. Specular reflection is that of the principled
material: ``specular`` as it is, and from ``shininess`` s the roughness whose highlight is as wide as that of the Blinn
exponent 128 s, unless the material names metallic and roughness itself. Without specular it is plain Lambert.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import mujoco
import numpy as np

from sensorium.cameras.pathtrace.shapes import Triangles, triangles_of
from sensorium.cameras.tone import decode_srgb
from sensorium.worlds import World

_VISIBLE_GROUPS = 3
"""Geoms of groups below this one are seen, as in MuJoCo's own pictures."""
_PLAIN = np.array([0.5, 0.5, 0.5, 1.0], np.float32)
"""The colour that means: that of the material."""
_TEXTURE_ROLES = (int(mujoco.mjtTextureRole.mjTEXROLE_RGB), int(mujoco.mjtTextureRole.mjTEXROLE_RGBA))
_SIDES = np.array([[1, 2], [0, 2], [0, 1]])
"""Axes across and along the sides of a box, by the axis of the side's normal."""
CUBE_AXES = (
    (0, 2, 1, -1, -1),
    (0, 2, 1, 1, -1),
    (1, 0, 2, 1, 1),
    (1, 0, 2, 1, -1),
    (2, 0, 1, 1, -1),
    (2, 0, 1, -1, -1),
)
"""Faces +x, -x, +y, -y, +z, -z of a cube map: axis, the axes along which columns and rows run, and their signs."""


class Kind(NamedTuple):
    """What geoms must share to be one mesh."""

    moves: bool
    texture: int
    tint: tuple[float, float, float]
    """What the texture is multiplied with."""
    specular: float
    see_through: bool
    glow: tuple[float, float, float]


class Surface(NamedTuple):
    """What a geom is made of."""

    kind: Kind
    roughness: float
    metallic: float


def surface_of(model: mujoco.MjModel, geom: int) -> Surface:
    """The material of a geom."""
    material = int(model.geom_matid[geom])
    moves = bool(model.body_weldid[model.geom_bodyid[geom]] != 0)
    rgba = colours(model.geom_rgba, model.mat_rgba, model)[geom]
    texture, specular, shininess, mirror, glow = -1, 0.5, 0.5, 0.0, (0.0, 0.0, 0.0)
    metallic = roughness = -1.0
    if material >= 0:
        texture = max(int(model.mat_texid[material, role]) for role in _TEXTURE_ROLES)
        specular, shininess = float(model.mat_specular[material]), float(model.mat_shininess[material])
        mirror = float(model.mat_reflectance[material])
        metallic, roughness = float(model.mat_metallic[material]), float(model.mat_roughness[material])
        red, green, blue = (float(model.mat_emission[material]) * decode_srgb(rgba[:3])).tolist()
        glow = (red, green, blue)
    if roughness < 0:
        roughness = (2 / (128 * shininess + 2)) ** 0.25 * (1 - mirror)
    if metallic < 0:
        metallic = mirror
    red, green, blue = rgba[:3].tolist() if texture >= 0 else (1.0, 1.0, 1.0)
    dull = specular <= 0 and metallic <= 0
    shine = 0.0 if dull else max(round(specular, 3), 0.01)
    kind = Kind(moves, texture, (red, green, blue), shine, bool(rgba[3] < 1), glow)
    return Surface(kind, float(np.clip(roughness, 0.03, 1.0)), float(metallic))


def colours(geom_rgba: np.ndarray, mat_rgba: np.ndarray, model: mujoco.MjModel) -> np.ndarray:
    """Colours (ngeom, 4) of geoms: their own, or where that is the default, those of their materials."""
    material = model.geom_matid
    if not len(mat_rgba):
        return geom_rgba
    inherits = (material >= 0) & (geom_rgba == _PLAIN).all(1)
    return np.where(inherits[:, None], mat_rgba[np.maximum(material, 0)], geom_rgba)


class MaterialMesh:
    """One mesh of the scene: geoms of one kind."""

    def __init__(
        self, mi: Any, model: mujoco.MjModel, kind: Kind, members: list[tuple[int, Surface, Triangles]]
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
        self.name = f"part_{self.geoms[0]}"
        self._placed = np.empty_like(self._vertices)
        self._turned = np.empty_like(self._normals)
        self._written: dict[str, np.ndarray] = {}
        properties = mi.Properties()
        properties["bsdf"] = mi.load_dict(_bsdf(mi, model, kind))
        if any(kind.glow):
            lamp = {"type": "area", "radiance": {"type": "rgb", "value": list(kind.glow)}}
            properties["emitter"] = mi.load_dict(lamp)
        textured = kind.texture >= 0
        self.mesh = mi.Mesh(
            self.name,
            len(self._vertices),
            len(faces),
            props=properties,
            has_vertex_normals=True,
            has_vertex_texcoords=textured,
        )
        self.mesh.add_attribute("vertex_color", 3, np.zeros(3 * len(self._vertices), np.float32))
        for name in ("roughness", "metallic"):
            values = np.array([getattr(surface, name) for _, surface, _ in members], np.float32)
            self.mesh.add_attribute(f"vertex_{name}", 1, np.repeat(values, sizes))
        if kind.see_through:
            self.mesh.add_attribute("vertex_opacity", 1, np.zeros(len(self._vertices), np.float32))
        first = mi.traverse(self.mesh)
        first["faces"] = faces.astype(np.uint32).ravel()
        first["vertex_positions"] = self._vertices.ravel()
        first["vertex_normals"] = self._normals.ravel()
        if textured:
            first["vertex_texcoords"] = np.concatenate([piece.uv for piece in pieces]).astype(np.float32).ravel()  # type: ignore[arg-type]
        first.update()

    def place(self, parameters: Any, position: np.ndarray, turn: np.ndarray) -> bool:
        """Put its geoms at positions (ngeom, 3) with rotations (ngeom, 3, 3); whether anything was written."""
        pose = np.concatenate([position[self.geoms], turn[self.geoms].reshape(-1, 9)], 1)
        before = self._written.get("pose")
        moved = np.isfinite(pose).all(1)  # what physics has blown up stays where it was
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
            rotation = pose[number, 3:].reshape(3, 3).T.astype(np.float32)
            np.matmul(self._vertices[part], rotation, out=self._placed[part])
            self._placed[part] += pose[number, :3].astype(np.float32)
            np.matmul(self._normals[part], rotation, out=self._turned[part])
        parameters[f"{self.name}.vertex_positions"] = self._placed.ravel()
        return True

    def orient(self, parameters: Any) -> None:
        """Write its normals. To be done after positions were updated, at which Mitsuba makes up normals of its own."""
        parameters[f"{self.name}.vertex_normals"] = self._turned.ravel()

    def paint(self, parameters: Any, rgba: np.ndarray) -> bool:
        """Give its geoms colours (ngeom, 4); whether anything was written. A texture keeps the colour it began with."""
        own = rgba[self.geoms]
        if "rgba" in self._written and (own == self._written["rgba"]).all():
            return False
        self._written["rgba"] = own.copy()
        linear = decode_srgb(own[:, :3]).astype(np.float32)
        parameters[f"{self.name}.vertex_color"] = linear[self._owner].ravel()
        if self.kind.see_through:
            parameters[f"{self.name}.vertex_opacity"] = own[self._owner, 3].astype(np.float32)
        return True


def parts_of(mi: Any, world: World, reach: float) -> list[MaterialMesh]:
    """The meshes of everything in a world that is seen."""
    model = world.model
    rgba = colours(model.geom_rgba, model.mat_rgba, model)
    members: dict[Kind, list[tuple[int, Surface, Triangles]]] = {}
    for geom in range(model.ngeom):
        if model.geom_group[geom] >= _VISIBLE_GROUPS or rgba[geom, 3] <= 0:
            continue
        shape = triangles_of(model, geom, reach)
        if shape is None:
            continue
        surface = surface_of(model, geom)
        if surface.kind.texture >= 0:
            shape = _textured(model, geom, shape, surface.kind.texture)
        members.setdefault(surface.kind, []).append((geom, surface, shape))
    return [MaterialMesh(mi, model, kind, each) for kind, each in members.items()]


def _bsdf(mi: Any, model: mujoco.MjModel, kind: Kind) -> dict[str, Any]:
    def attribute(name: str) -> dict[str, Any]:
        return {"type": "mesh_attribute", "name": f"vertex_{name}"}

    colour = attribute("color") if kind.texture < 0 else _bitmap(mi, model, kind)
    if kind.specular == 0:
        surface: dict[str, Any] = {"type": "diffuse", "reflectance": colour}
    else:
        surface = {"type": "principled", "base_color": colour, "specular": kind.specular}
        surface |= {name: attribute(name) for name in ("roughness", "metallic")}
    both = {"type": "twosided", "front": surface}
    return {"type": "mask", "opacity": attribute("opacity"), "inner": both} if kind.see_through else both


def _bitmap(mi: Any, model: mujoco.MjModel, kind: Kind) -> dict[str, Any]:
    image = decode_srgb(texture_image(model, kind.texture) / 255.0 * kind.tint).astype(np.float32)
    wrap = "repeat" if model.tex_type[kind.texture] == mujoco.mjtTexture.mjTEXTURE_2D else "clamp"
    return {"type": "bitmap", "bitmap": mi.Bitmap(np.ascontiguousarray(image)), "raw": True, "wrap_mode": wrap}


def texture_image(model: mujoco.MjModel, texture: int) -> np.ndarray:
    """A texture as it is kept in the model, (H, W, 3) uint8."""
    height, width, channels = (int(each[texture]) for each in (model.tex_height, model.tex_width, model.tex_nchannel))
    start = int(model.tex_adr[texture])
    image = model.tex_data[start : start + height * width * channels].reshape(height, width, channels)
    return np.repeat(image[..., :1], 3, axis=2) if channels < 3 else image[..., :3]


def _textured(model: mujoco.MjModel, geom: int, shape: Triangles, texture: int) -> Triangles:
    """The shape with texture coordinates as MuJoCo lays them; v runs down from the top of the image."""
    material = int(model.geom_matid[geom])
    repeat = model.mat_texrepeat[material]
    if model.tex_type[texture] != mujoco.mjtTexture.mjTEXTURE_2D:
        return _on_cube(shape)
    if shape.uv is None:
        size = np.where(model.geom_size[geom] > 0, model.geom_size[geom], 1.0)
        axes = np.tile([0, 1], (len(shape.vertices), 1))
        if model.geom_type[geom] == mujoco.mjtGeom.mjGEOM_BOX:  # each side has the whole texture
            axes = _SIDES[np.abs(shape.normals).argmax(1)]
        scale = repeat / (1.0 if model.mat_texuniform[material] else size[axes])
        shape.uv = np.take_along_axis(shape.vertices, axes, 1) * scale * [0.5, -0.5] - 0.5
    else:
        shape.uv = shape.uv * repeat
    return shape


def _on_cube(shape: Triangles) -> Triangles:
    """The shape with coordinates in a cube map: six squares, one below the other; each triangle lies in one of them."""
    shape = shape.unrolled()
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
