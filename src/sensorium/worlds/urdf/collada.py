"""Reader of COLLADA files (.dae): the triangles of a scene, in metres, with one colour per material.

As RViz and Gazebo do, it applies the unit of the file and the transforms of its nodes, and ignores ``<up_axis>``.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from sensorium.errors import ModelError
from sensorium.worlds.markup import Node, parse

_MAX_DEPTH = 64
"""Max nesting depth of nodes of a scene."""
_MAX_NODES = 10_000
"""Max number of nodes of a scene and of their geometries. A small file can instance the same ones many times."""
MAX_COORDINATE = 1e6
"""Max coordinate of a vertex, m: MuJoCo stores them in single precision."""
_MAX_TRIANGLES = 10_000_000
"""Max number of triangles of a scene, since nodes can instance the same geometry."""


@dataclass(frozen=True)
class ColouredMesh:
    """Triangles of one material.

    Attributes:
        vertices: corners of the triangles, (n, 3) m.
        faces: indices of the corners of each triangle, (m, 3).
        rgba: colour of the material; None if it has a texture or no colour.
        texture: image file of the material as the COLLADA file names it; empty without one.
    """

    vertices: np.ndarray
    faces: np.ndarray
    rgba: tuple[float, ...] | None = None
    texture: str = ""


def read_collada(content: bytes, source: str) -> list[ColouredMesh]:
    """Return the triangles of a COLLADA file, one mesh for each material.

    Args:
        content: content of the file.
        source: its name, for messages.

    Raises:
        ValueError: the file is not valid, or has no triangles.
    """
    try:
        with np.errstate(all="ignore"):  # numbers that overflow are found by the check of the vertices
            parts = _Document(parse(content, source)).parts()
    except (LookupError, TypeError, ArithmeticError, ModelError, ValueError) as error:
        plain = isinstance(error, ValueError | ModelError)
        why = str(error) if plain else f"{type(error).__name__} {error}"
        raise ValueError(f"it is not a valid COLLADA file: {why}") from error
    if not parts:
        raise ValueError("it has no triangles")
    merged: dict[tuple[tuple[float, ...] | None, str], list[ColouredMesh]] = {}
    for part in parts:
        merged.setdefault((part.rgba, part.texture), []).append(part)
    return [merge(same) for same in merged.values()]


def merge(parts: list[ColouredMesh]) -> ColouredMesh:
    """Return one mesh of several ones, with the colour of the first."""
    starts = np.cumsum([0, *(len(part.vertices) for part in parts[:-1])])
    faces = np.concatenate([part.faces + start for part, start in zip(parts, starts, strict=True)])
    vertices = np.concatenate([part.vertices for part in parts])
    return ColouredMesh(vertices, faces, parts[0].rgba, parts[0].texture)


class _Document:
    """The elements of a COLLADA document by id."""

    def __init__(self, root: Node) -> None:
        if root.tag != "COLLADA":
            raise ValueError(f"its root is <{root.tag}>, not <COLLADA>")
        self._root, self._n_nodes, self._n_triangles = root, 0, 0
        self._ids = {node.attributes["id"]: node for node in _walk(root) if "id" in node.attributes}
        asset = root.first("asset")
        unit = None if asset is None else asset.first("unit")
        self._metre = 1.0 if unit is None else float(unit.attributes.get("meter", 1.0))

    def parts(self) -> list[ColouredMesh]:
        """Return the meshes of the scene."""
        chosen = self._root.first("scene")
        instance = None if chosen is None else chosen.first("instance_visual_scene")
        library = self._root.first("library_visual_scenes")
        scene = self._target(instance, "url") if instance is not None else library and library.first("visual_scene")
        scale = np.diag([self._metre, self._metre, self._metre, 1.0])
        if scene is not None:
            return [part for node in scene.all("node") for part in self._node(node, scale, 0)]
        geometries = self._root.first("library_geometries")
        found = [] if geometries is None else geometries.all("geometry")
        return [part for geometry in found for part in self._geometry(geometry, scale, {})]

    def _target(self, node: Node, attribute: str) -> Node:
        return self._ids[node.attributes[attribute].removeprefix("#")]

    def _node(self, node: Node, above: np.ndarray, depth: int) -> Iterator[ColouredMesh]:
        self._n_nodes += 1 + len(node.all("instance_geometry"))
        if depth > _MAX_DEPTH or self._n_nodes > _MAX_NODES:
            raise ValueError("its nodes are nested too deeply, or too many")
        pose = above @ _transform(node)
        for child in node.children:
            if child.tag == "node":
                yield from self._node(child, pose, depth + 1)
            elif child.tag == "instance_node":
                yield from self._node(self._target(child, "url"), pose, depth + 1)
            elif child.tag == "instance_geometry":
                bound = {
                    each.attributes["symbol"]: each.attributes["target"].removeprefix("#")
                    for each in _walk(child)
                    if each.tag == "instance_material"
                }
                yield from self._geometry(self._target(child, "url"), pose, bound)

    def _geometry(self, geometry: Node, pose: np.ndarray, bound: dict[str, str]) -> Iterator[ColouredMesh]:
        mesh = geometry.first("mesh")
        for primitive in [] if mesh is None else mesh.children:
            if primitive.tag not in _TRIANGLES:
                continue
            inputs = {each.attributes["semantic"]: each for each in primitive.all("input")}
            stride = 1 + max(int(each.attributes.get("offset", 0)) for each in inputs.values())
            column = int(inputs["VERTEX"].attributes.get("offset", 0))
            lists = [np.array(each.text.split(), dtype=np.int64) for each in primitive.all("p")]
            corners = [values.reshape(-1, stride)[:, column] for values in lists]
            faces = _TRIANGLES[primitive.tag](primitive, corners)
            if not len(faces):
                continue
            self._n_triangles += len(faces)
            if self._n_triangles > _MAX_TRIANGLES:
                raise ValueError(f"it has more than {_MAX_TRIANGLES:,} triangles")
            points = self._positions(inputs["VERTEX"])
            if faces.min() < 0 or faces.max() >= len(points):
                raise ValueError(f"an index of <{primitive.tag}> is out of range")
            used, faces = np.unique(faces, return_inverse=True)
            vertices = points[used] @ pose[:3, :3].T + pose[:3, 3]
            if not (np.abs(vertices) < MAX_COORDINATE).all():
                raise ValueError("its unit or a transform makes positions that are not finite, or too large")
            faces = faces.reshape(-1, 3)
            if np.linalg.det(pose[:3, :3]) < 0:  # mirrored: keep the outside outside
                faces = faces[:, ::-1]
            symbol = primitive.attributes.get("material", "")
            yield ColouredMesh(vertices, faces, *self._material(bound.get(symbol, symbol)))

    def _positions(self, vertex: Node) -> np.ndarray:
        """Return the positions that the input VERTEX names, (n, 3)."""
        vertices = self._target(vertex, "source")
        position = [each for each in vertices.all("input") if each.attributes["semantic"] == "POSITION"]
        if not position:
            raise ValueError("<vertices> needs an input POSITION")
        source = self._target(position[0], "source")
        array = source.first("float_array")
        technique = source.first("technique_common")
        accessor = None if technique is None else technique.first("accessor")
        if array is None or accessor is None:
            raise ValueError("positions need <float_array> and <accessor>")
        start, stride = (int(accessor.attributes.get(name, value)) for name, value in (("offset", 0), ("stride", 3)))
        values = np.array(array.text.split(), dtype=np.float64)[start:]
        points = values[: len(values) // stride * stride].reshape(-1, stride)[:, :3]
        if points.shape[1] != 3 or not np.isfinite(points).all():
            raise ValueError("positions must be three finite numbers each")
        return points

    def _material(self, name: str) -> tuple[tuple[float, ...] | None, str]:
        """Return the diffuse colour of a material, and the file of its texture."""
        material = self._ids.get(name)
        instance = None if material is None else material.first("instance_effect")
        if instance is None:
            return None, ""
        effect = self._target(instance, "url")
        diffuse = next((node for node in _walk(effect) if node.tag == "diffuse"), None)
        color = None if diffuse is None else diffuse.first("color")
        if color is not None:
            rgb = np.array(color.text.split()[:3], dtype=np.float64)
            if len(rgb) != 3 or not np.isfinite(rgb).all():
                raise ValueError("<color> must be three finite numbers")
            return (*np.clip(rgb, 0.0, 1.0).tolist(), 1.0), ""
        texture = None if diffuse is None else diffuse.first("texture")
        return None, "" if texture is None else self._image(effect, texture.attributes.get("texture", ""))

    def _image(self, effect: Node, name: str) -> str:
        """Return the file of a texture: a sampler names a surface, which names an image."""
        parameters = {node.attributes.get("sid", ""): node for node in _walk(effect) if node.tag == "newparam"}
        for _ in range(2):
            inner = [node for node in _walk(parameters.get(name, effect)) if node.tag in ("source", "init_from")]
            if name not in parameters or not inner:
                break
            name = inner[0].text.strip()
        image = self._ids.get(name)
        file = None if image is None else image.first("init_from")
        return "" if file is None else file.text.strip()


def _walk(node: Node) -> Iterator[Node]:
    yield node
    for child in node.children:
        yield from _walk(child)


def _transform(node: Node) -> np.ndarray:
    """Return the transform of a node to its parent, (4, 4): the product of its elements in their order."""
    pose = np.eye(4)
    for element in node.children:
        if element.tag not in ("matrix", "translate", "rotate", "scale", "lookat", "skew"):
            continue
        values = np.array(element.text.split(), dtype=np.float64)
        step = np.eye(4)
        if element.tag == "matrix":
            step = values.reshape(4, 4)
        elif element.tag == "translate":
            step[:3, 3] = values
        elif element.tag == "scale":
            step[:3, :3] = np.diag(values)
        elif element.tag == "rotate":
            step[:3, :3] = _rotation(values[:3], math.radians(values[3]))
        else:
            raise ValueError(f"<{element.tag}> is not supported")
        pose = pose @ step
    return pose


def _rotation(axis: np.ndarray, angle: float) -> np.ndarray:
    """Return the rotation matrix (3, 3) about an axis, by Rodrigues' formula."""
    x, y, z = axis / np.linalg.norm(axis)
    cross = np.array([[0, -z, y], [z, 0, -x], [-y, x, 0]])
    return np.eye(3) + math.sin(angle) * cross + (1 - math.cos(angle)) * cross @ cross


def _fans(_: Node, polygons: list[np.ndarray]) -> np.ndarray:
    """Split polygons into fans of triangles around their first corner."""
    fans = [np.column_stack([np.full(len(p) - 2, p[0]), p[1:-1], p[2:]]) for p in polygons if len(p) > 2]
    return np.concatenate(fans) if fans else np.zeros((0, 3), np.int64)


def _strips(_: Node, strips: list[np.ndarray]) -> np.ndarray:
    """Split strips into triangles, of which every second one is turned over."""
    found = [np.column_stack([strip[:-2], strip[1:-1], strip[2:]]) for strip in strips if len(strip) > 2]
    for faces in found:
        faces[1::2] = faces[1::2, ::-1]
    return np.concatenate(found) if found else np.zeros((0, 3), np.int64)


def _polylist(primitive: Node, corners: list[np.ndarray]) -> np.ndarray:
    counts = primitive.first("vcount")
    sizes = np.array([] if counts is None else counts.text.split(), dtype=np.int64)
    flat = np.concatenate(corners) if corners else np.zeros(0, np.int64)
    if (sizes < 0).any() or sizes.sum() != len(flat):
        raise ValueError("<vcount> does not fit <p>")
    starts = np.cumsum(sizes) - sizes
    faces = [np.zeros((0, 3), np.int64)]
    for size in np.unique(sizes[sizes > 2]):  # all polygons of a size at once
        polygons = flat[starts[sizes == size][:, None] + np.arange(size)]
        faces += [polygons[:, [0, corner, corner + 1]] for corner in range(1, size - 1)]
    return np.concatenate(faces)


def _triangles(_: Node, corners: list[np.ndarray]) -> np.ndarray:
    return np.concatenate([values.reshape(-1, 3) for values in corners or [np.zeros(0, np.int64)]])


_TRIANGLES = {
    "triangles": _triangles,
    "polylist": _polylist,
    "polygons": _fans,
    "trifans": _fans,
    "tristrips": _strips,
}
"""Elements with triangles -> function that returns their triangles (n, 3) from the corners of each ``<p>``."""
