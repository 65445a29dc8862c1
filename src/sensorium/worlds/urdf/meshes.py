"""Mesh files of a URDF: where they are, and their vertices."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import mujoco
import numpy as np

from sensorium.worlds.markup import Problems
from sensorium.worlds.urdf.collada import ColouredMesh, merge, read_collada
from sensorium.worlds.urdf.description import Description, Link, Shape
from sensorium.worlds.urdf.mesh_files import as_msh, is_text_stl, mean_colour, read_text_stl

FORMATS = (".stl", ".obj", ".msh", ".dae")
"""File formats: those that MuJoCo reads, and COLLADA. MuJoCo itself does not read STL as text either."""


class Meshes:
    """The mesh files of a robot, each under a unique name.

    Args:
        robot: the content of the URDF.
        folder: folder of the URDF file; None for text.
        search: folders that contain packages, or that are packages themselves.

    Attributes:
        assets: name -> content.
        notes: textures that are replaced by their mean colour.
    """

    def __init__(self, robot: Description, folder: Path | None, search: Sequence[str | os.PathLike[str]]) -> None:
        self._meshdir = robot.compiler.get("meshdir", "")
        self._strip = robot.compiler.get("strippath") == "true"
        self._folder = folder
        environment = os.environ.get("ROS_PACKAGE_PATH", "").split(os.pathsep)
        self._search = [Path(each) for each in (*search, *environment) if os.fspath(each)]
        self._names: dict[tuple[Path, int | None], str] = {}
        self._parts: dict[Path, list[ColouredMesh]] = {}
        self.assets: dict[str, bytes] = {}
        self.notes: list[str] = []

    def load(self, shape: Shape, problems: Problems, visual: bool) -> list[Shape]:
        """Find and read the file of a mesh, or add a problem.

        Args:
            shape: the mesh.
            problems: where problems are added.
            visual: whether the mesh is only rendered. It is tolerated then that it cannot be read, and a file with
                several colours is several shapes.

        Returns:
            The shapes of the mesh: none if it cannot be used.
        """
        if Path(shape.file).suffix.lower() not in FORMATS:
            why = f"its format is not supported; convert it to {', '.join(FORMATS)}"
            return _cannot_use(shape, why, visual, problems)
        places = self._places(shape.file)
        try:
            path = next((place for place in places if os.path.isfile(place)), None)
            content = None if path is None else path.read_bytes()
        except (OSError, ValueError) as error:
            problems.add(shape.node, f"mesh {shape.file!r} cannot be read: {error}")
            return []
        if path is None or content is None:
            searched = ", ".join(str(place) for place in places[:4]) + (", ..." if len(places) > 4 else "")
            where = f"searched {searched}" if places else "there is no folder to search"
            problems.add(shape.node, f"mesh {shape.file!r} does not exist; {where}. Give its folder with search=[...]")
            return []
        try:
            return self._store(shape, path, content, visual)
        except ValueError as error:
            return _cannot_use(shape, str(error), visual, problems)

    def _store(self, shape: Shape, path: Path, content: bytes, visual: bool) -> list[Shape]:
        """Add the assets of a file, and return its shapes."""
        suffix = path.suffix.lower()
        if suffix == ".dae":
            if path not in self._parts:
                self._parts[path] = read_collada(content, str(path))
            parts = self._parts[path]
            if visual and shape.rgba is None:  # the material of a URDF applies to the whole mesh
                for number, part in enumerate(parts):
                    self._add(path, number, ".msh", as_msh(part))
                colours = [part.rgba or self._mean_colour(path, part.texture) for part in parts]
                return [replace(shape, part=number, rgba=colour) for number, colour in enumerate(colours)]
            self._add(path, None, ".msh", as_msh(merge(parts)))
        elif suffix == ".stl" and is_text_stl(content):
            self._add(path, None, ".msh", as_msh(read_text_stl(content)))
        else:
            self._add(path, None, suffix, content)
        return [shape]

    def _mean_colour(self, path: Path, texture: str) -> tuple[float, ...] | None:
        colour = mean_colour(path, texture)
        note = f"rendered in its mean colour: the texture {texture} of {path.name}"
        if colour is not None and note not in self.notes:
            self.notes.append(note)
        return colour

    def _add(self, path: Path, part: int | None, suffix: str, content: bytes) -> None:
        if (path, part) not in self._names:
            stem, number = re.sub(r"[^\w-]+", "_", path.stem) or "mesh", 1
            name = f"{stem}{suffix}"
            while name in self.assets:
                number += 1
                name = f"{stem}_{number}{suffix}"
            self._names[path, part] = name
            self.assets[name] = content

    def name(self, shape: Shape) -> str:
        """Return the asset name of a loaded mesh."""
        places = ((place, shape.part) for place in self._places(shape.file))
        return next(self._names[place] for place in places if place in self._names)

    def vertices(self, shape: Shape) -> np.ndarray:
        """Return the vertices of a loaded mesh, scaled, in the frame of its file, (n, 3) m.

        Raises:
            ValueError: MuJoCo cannot read the mesh.
        """
        model = self.compile(shape, collides=False)
        turn = np.zeros(9)
        mujoco.mju_quat2Mat(turn, model.mesh_quat[0])
        return model.mesh_vert.astype(np.float64) @ turn.reshape(3, 3).T + model.mesh_pos[0]

    def compile(self, shape: Shape, collides: bool) -> mujoco.MjModel:
        """Compile a model with one loaded mesh, and with its convex hull if it collides."""
        name, spec = self.name(shape), mujoco.MjSpec()
        mesh = spec.add_mesh(name="mesh", file=name, scale=shape.size)
        mesh.inertia = mujoco.mjtMeshInertia.mjMESH_INERTIA_SHELL  # defined for open and flat meshes too
        geom = spec.worldbody.add_geom(type=mujoco.mjtGeom.mjGEOM_MESH, meshname="mesh")
        geom.contype = geom.conaffinity = int(collides)
        spec.assets = {name: self.assets[name]}
        return spec.compile()

    def _places(self, file: str) -> list[Path]:
        """Return the paths where a file may be, in the order in which they are tried."""
        above = [] if self._folder is None else list((self._folder / "file").parents)
        package = re.match(r"(?:package|model):/+([^/]+)/(.+)", file)
        if package is not None:
            name, inner = package.groups()
            own = [root / inner for root in self._search if root.name == name]
            return [*own, *(root / name / inner for root in (*self._search, *above)), *_shared(name, inner)]
        if file.startswith("file://"):
            return [Path(file.removeprefix("file://"))]
        if self._strip:
            file = Path(file).name
        here = [] if self._folder is None else [self._folder]
        return [root / self._meshdir / file for root in (*here, *self._search)] or [Path(self._meshdir, file)]


def _shared(package: str, inner: str) -> list[Path]:
    """Return the paths where ROS 2 installs a file of a package."""
    prefixes = os.environ.get("AMENT_PREFIX_PATH", "").split(os.pathsep)
    return [Path(prefix, "share", package, inner) for prefix in prefixes if prefix]


def _cannot_use(shape: Shape, why: str, visual: bool, problems: Problems) -> list[Shape]:
    """Add the problem of a mesh that cannot be used, and return its shapes: none."""
    text = f"mesh {shape.file!r} cannot be used: {why}"
    if visual:
        problems.tolerate(shape.node, text, "it is not rendered", ", or remove visual shapes with visuals=False")
    else:
        problems.add(shape.node, text)
    return []


def without_unusable(links: Sequence[Link], meshes: Meshes, problems: Problems) -> list[Link]:
    """Return the links without visual meshes that MuJoCo cannot compile; add a problem for each mesh."""

    def usable(shape: Shape, visual: bool) -> bool:
        try:
            if shape.kind == "mesh":
                meshes.compile(shape, collides=not visual)
        except ValueError as error:
            _cannot_use(shape, " ".join(str(error).split()), visual, problems)
            return False
        return True

    for link in links:
        for shape in link.collisions:
            usable(shape, visual=False)
    return [replace(link, visuals=[each for each in link.visuals if usable(each, visual=True)]) for link in links]
