"""Mesh files of a URDF: where they are, and their vertices."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from pathlib import Path

import mujoco
import numpy as np

from sensorium.worlds.markup import Problems
from sensorium.worlds.urdf.description import Description, Link, Shape

FORMATS = (".stl", ".obj", ".msh")
"""File formats that MuJoCo reads."""


class Meshes:
    """The mesh files of a robot, each under a unique name.

    Args:
        robot: the content of the URDF.
        folder: folder of the URDF file; None for text.
        search: folders that contain packages, or that are packages themselves.

    Attributes:
        assets: name -> content.
    """

    def __init__(self, robot: Description, folder: Path | None, search: Sequence[str | os.PathLike[str]]) -> None:
        self._meshdir = robot.compiler.get("meshdir", "")
        self._strip = robot.compiler.get("strippath") == "true"
        self._folder = folder
        environment = os.environ.get("ROS_PACKAGE_PATH", "").split(os.pathsep)
        self._search = [Path(each) for each in (*search, *environment) if os.fspath(each)]
        self._names: dict[Path, str] = {}
        self.assets: dict[str, bytes] = {}

    def load(self, shape: Shape, problems: Problems, fix: str) -> None:
        """Find and read the file of a mesh, or add a problem.

        Args:
            shape: the mesh.
            problems: where problems are added.
            fix: further advice for a format that is not supported.
        """
        if Path(shape.file).suffix.lower() not in FORMATS:
            problems.add(
                shape.node,
                f"mesh {shape.file!r}: its format is not supported; convert it to {', '.join(FORMATS)}{fix}",
            )
            return
        places = self._places(shape.file)
        try:
            path = next((place for place in places if place.is_file()), None)
            content = None if path is None else path.read_bytes()
        except (OSError, ValueError) as error:
            problems.add(shape.node, f"mesh {shape.file!r} cannot be read: {error}")
            return
        if path is None or content is None:
            searched = ", ".join(str(place) for place in places[:4]) + (", ..." if len(places) > 4 else "")
            where = f"searched {searched}" if places else "there is no folder to search"
            problems.add(shape.node, f"mesh {shape.file!r} does not exist; {where}. Give its folder with search=[...]")
        elif path not in self._names:
            self._names[path] = self._new_name(path)
            self.assets[self._names[path]] = content

    def name(self, shape: Shape) -> str:
        """Return the asset name of a loaded mesh."""
        return next(self._names[place] for place in self._places(shape.file) if place in self._names)

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

    def _new_name(self, path: Path) -> str:
        stem, suffix = re.sub(r"[^\w-]+", "_", path.stem) or "mesh", path.suffix.lower()
        name, number = f"{stem}{suffix}", 1
        while name in self.assets:
            number += 1
            name = f"{stem}_{number}{suffix}"
        return name


def _shared(package: str, inner: str) -> list[Path]:
    """Return the paths where ROS 2 installs a file of a package."""
    prefixes = os.environ.get("AMENT_PREFIX_PATH", "").split(os.pathsep)
    return [Path(prefix, "share", package, inner) for prefix in prefixes if prefix]


def explain(links: Sequence[Link], meshes: Meshes, problems: Problems) -> None:
    """Add a problem for every mesh that MuJoCo cannot compile."""
    for link in links:
        for collides, shapes in ((False, link.visuals), (True, link.collisions)):
            for shape in (each for each in shapes if each.kind == "mesh"):
                try:
                    meshes.compile(shape, collides)
                except ValueError as error:
                    problems.add(shape.node, f"mesh {shape.file!r} cannot be used: {' '.join(str(error).split())}")
