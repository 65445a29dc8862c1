"""Mesh files that MuJoCo does not read: text STL, and the conversion of triangles to MuJoCo's binary format."""

from __future__ import annotations

import os
import re
from pathlib import Path

import numpy as np

from sensorium.worlds.urdf.collada import MAX_COORDINATE, ColouredMesh

_HEADER = 84
"""Bytes of a binary STL file before its triangles, which have 50 bytes each."""
_NUMBER = rb"([-+0-9.eE]+)"


def as_msh(mesh: ColouredMesh) -> bytes:
    """Return triangles as a .msh file of MuJoCo: the counts of vertices, normals, texture coordinates and faces first.

    MuJoCo computes the normals. It needs four vertices, so that a single triangle repeats its last one.
    """
    vertices = np.concatenate([mesh.vertices, mesh.vertices[-1:].repeat(max(0, 4 - len(mesh.vertices)), axis=0)])
    counts = np.array([len(vertices), 0, 0, len(mesh.faces)], dtype="<i4")
    return counts.tobytes() + vertices.astype("<f4").tobytes() + mesh.faces.astype("<i4").tobytes()


def is_text_stl(content: bytes) -> bool:
    """Return whether an STL file is text. Binary files may begin with the same word, but have a size that fits."""
    count = int.from_bytes(content[_HEADER - 4 : _HEADER], "little")
    return content.lstrip()[:5] == b"solid" and len(content) != _HEADER + 50 * count


def read_text_stl(content: bytes) -> ColouredMesh:
    """Return the triangles of a text STL file.

    Raises:
        ValueError: it has no triangles, or numbers that cannot be read.
    """
    found = re.findall(rb"vertex\s+" + rb"\s+".join([_NUMBER] * 3), content)
    vertices = np.array([[float(word) for word in words] for words in found]).reshape(-1, 3)
    if not len(vertices) or len(vertices) % 3 or not (np.abs(vertices) < MAX_COORDINATE).all():
        raise ValueError("it is not a valid text STL file: it needs three finite vertices for each triangle")
    unique, faces = np.unique(vertices, axis=0, return_inverse=True)
    return ColouredMesh(unique, faces.reshape(-1, 3))


def mean_colour(mesh: Path, texture: str) -> tuple[float, ...] | None:
    """Return the mean colour of a texture, rgba; None if the mesh has no texture or its image cannot be read.

    Args:
        mesh: the mesh file.
        texture: the image as the mesh file names it.
    """
    if not texture:
        return None
    from PIL import Image

    try:
        path = mesh.parent / texture.removeprefix("file://")
        if not os.path.isfile(path):  # reading a pipe would wait forever
            return None
        with Image.open(path) as image:
            red, green, blue = np.asarray(image.convert("RGB")).mean((0, 1)) / 255
    except Exception:  # Pillow raises nearly anything for damaged files
        return None
    return float(red), float(green), float(blue), 1.0
