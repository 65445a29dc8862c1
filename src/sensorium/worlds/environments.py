"""``EnvironmentMap``: images of the surroundings of a scene, one of which each env shows.

Every map becomes a skybox texture of the model, in 8 bits, for renderers that show a sky. The path tracer reads the
file itself and lights the scene with it. The material :data:`MATERIAL` has the texture of the map that is shown, so
the choice is a model field that can differ per env: ``mat_texid``. Recordings keep it like any other model field.
"""

from __future__ import annotations

import os
import struct
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import mujoco
import numpy as np
import torch
from pydantic import Field, model_validator

from sensorium._arguments import as_array
from sensorium.errors import OptionError
from sensorium.options import Options
from sensorium.worlds.srgb import decode_srgb, encode_srgb
from sensorium.worlds.world import Envs, World, env_index

if TYPE_CHECKING:
    from av import VideoFrame

MATERIAL = "environment"
"""Material whose texture is the map that an env shows."""
ROLE = int(mujoco.mjtTextureRole.mjTEXROLE_RGB)
"""Role of that texture in the material."""
CUBE_AXES = (
    (0, 2, 1, -1, -1),
    (0, 2, 1, 1, -1),
    (1, 0, 2, 1, 1),
    (1, 0, 2, 1, -1),
    (2, 0, 1, 1, -1),
    (2, 0, 1, -1, -1),
)
"""Faces +x, -x, +y, -y, +z, -z of a cube map: normal axis, axes of columns and rows, and signs of these axes."""
_MIN_SIDE, _MAX_SIDE = 16, 1024
"""Pixels along a side of a skybox."""


class EnvironmentMap(Options):
    """Options of an image of the surroundings, in latitude-longitude format.

    The middle row is the horizon, and the top row is straight up. The left and right edges are the direction +y of the
    world; columns to the right turn clockwise, seen from above: +x at a quarter of the width, -y in the middle.

    Example:
        >>> scene = sn.Scene(environments=["forest.hdr", sn.EnvironmentMap(file="studio.exr", rotation=90)])
    """

    file: str = Field(min_length=1)
    """Image file: HDR or EXR with radiance, or PNG, JPEG, ... with sRGB colours, where white is radiance 1."""
    rotation: float = 0.0
    """Rotation about the vertical, degrees, counter-clockwise seen from above."""
    multiplier: float = Field(default=1.0, ge=0)
    """Factor for the radiance."""

    @model_validator(mode="before")
    @classmethod
    def _accept_file(cls, value: Any) -> Any:
        return {"file": str(value)} if isinstance(value, str | Path) else value

    def read(self) -> np.ndarray:
        """Return the radiance of the map, without rotation and multiplier, (H, W, 3) float32.

        Raises:
            OptionError: the file does not exist, or is not an image.
        """
        return read_radiance(self.file, "EnvironmentMap.file")


def read_radiance(file: str, option: str) -> np.ndarray:
    """Return an image as linear light, (H, W, 3) float32; sRGB colours are decoded.

    Args:
        file: HDR, EXR, PNG, JPEG, ...
        option: name of the option that has the file, for messages.

    Raises:
        OptionError: the file does not exist, or is not an image.
    """
    import av

    if not os.path.isfile(file):
        raise OptionError(f"{option} must be an existing file, got {file!r}")
    try:
        with av.open(file) as container:
            frame: VideoFrame = next(container.decode(video=0))
            is_float = "f32" in frame.format.name or "f16" in frame.format.name
            image = frame.to_ndarray(format="gbrpf32le" if is_float else "rgb24")
    except (OSError, ValueError, StopIteration, IndexError) as error:
        raise OptionError(f"{option} must be an image (HDR, EXR, PNG, JPEG), got {file!r}: {error}") from error
    if is_float:
        return np.ascontiguousarray(image, np.float32)
    return decode_srgb(image / 255.0).astype(np.float32)


def add_environments(spec: mujoco.MjSpec, maps: Sequence[EnvironmentMap]) -> None:
    """Add the maps to a spec as skyboxes, and the material that chooses the first of them."""
    names = [f"{MATERIAL}_{number}" for number in range(len(maps))]
    files = {f"{name}.png": _png(to_skybox(each)) for name, each in zip(names, maps, strict=True)}
    spec.assets = {**(spec.assets or {}), **files}
    for name, file in zip(names, files, strict=True):
        spec.add_texture(
            name=name,
            type=mujoco.mjtTexture.mjTEXTURE_SKYBOX,
            file=file,
            gridsize=[6, 1],
            gridlayout=[*"RLUDFB", *"......"],
        )
    textures = [""] * int(mujoco.mjtTextureRole.mjNTEXROLE)
    textures[ROLE] = names[0]
    spec.add_material(name=MATERIAL, textures=textures)


def choose_environment(world: World, number: int | Sequence[int] | np.ndarray, envs: Envs) -> None:
    """Choose the environment map of some envs; see ``Scene.set_environment``."""
    names = environment_textures(world.model)
    index = env_index(envs, world.n_envs, world.device)
    count = world.n_envs if index is None else len(index)
    numbers = as_array(number)
    if not len(names):
        raise OptionError("set_environment: the scene has no environment maps; make it with Scene(environments=[...])")
    if numbers.dtype.kind not in "iu" or numbers.shape not in ((), (count,)):
        raise OptionError(
            f"set_environment: number must be an integer, or one for each of {count} envs, got {number!r}"
        )
    if count and (numbers.min() < 0 or numbers.max() >= len(names)):
        raise OptionError(f"set_environment: number must be from 0 to {len(names) - 1}, got {number!r}")
    chosen = torch.from_numpy(np.broadcast_to(names[numbers], (count,)).copy())
    target = world.expand("mat_texid")
    target[slice(None) if index is None else index, int(world.model.mat(MATERIAL).id), ROLE] = chosen.to(target)
    world.changes.write(envs)


def environment_textures(model: mujoco.MjModel) -> np.ndarray:
    """Return the ids of the textures of the environment maps, in their order; empty without maps."""
    found = [mujoco.mj_name2id(model, mujoco.mjtObj.mjOBJ_TEXTURE, f"{MATERIAL}_{n}") for n in range(model.ntex)]
    return np.array([number for number in found if number >= 0], np.int64)


def shown_environment(model: mujoco.MjModel) -> int:
    """Return the id of the texture that the model's material :data:`MATERIAL` has now."""
    return int(model.mat_texid[model.mat(MATERIAL).id, ROLE])


def show_environment(context: mujoco.MjrContext, model: mujoco.MjModel, textures: np.ndarray) -> None:
    """Make the map that the model's material has the only skybox of an OpenGL context. MuJoCo 4.0 draws the first one.

    Args:
        context: the context, made for this model.
        model: the model, with the values of the env that is drawn.
        textures: ids of the textures of all environment maps; see :func:`environment_textures`.
    """
    if len(textures):
        context.textureType[textures] = int(mujoco.mjtTexture.mjTEXTURE_CUBE)
        context.textureType[shown_environment(model)] = int(mujoco.mjtTexture.mjTEXTURE_SKYBOX)


def to_skybox(environment: EnvironmentMap) -> np.ndarray:
    """Return a map as the six squares of a skybox in a column, (6 n, n, 3) uint8 sRGB; radiance above 1 is white."""
    light = np.clip(environment.read() * environment.multiplier, 0, 1)  # first: a bright pixel must not grow
    side = int(np.clip(1 << (len(light) - 1).bit_length(), _MIN_SIDE, _MAX_SIDE))  # half as wide as pixels of the map
    colours = np.empty((6, side, side, 3))
    step = (2 * np.arange(side) + 1) / side - 1
    for face, (main, across, down, sign_across, sign_down) in enumerate(CUBE_AXES):
        toward = np.empty((side, side, 3))
        toward[..., main] = 1 - 2 * (face % 2)
        toward[..., across], toward[..., down] = sign_across * step, sign_down * step[:, None]
        east, up, south = np.moveaxis(toward, -1, 0)  # the y axis of a cube map points up
        colours[face] = _sample(light, east, -south, up, environment.rotation)
    return np.rint(encode_srgb(colours.reshape(6 * side, side, 3)) * 255).astype(np.uint8)


def resize_map(radiance: np.ndarray, height: int, width: int) -> np.ndarray:
    """Return a map (H, W, 3) with another number of pixels, interpolated."""
    if radiance.shape[:2] == (height, width):
        return radiance
    azimuth = (np.arange(width) + 0.5) * (2 * np.pi / width)
    polar = ((np.arange(height) + 0.5) * (np.pi / height))[:, None]
    sine, up = np.sin(polar), np.broadcast_to(np.cos(polar), (height, width))
    return _sample(radiance, sine * np.sin(azimuth), sine * np.cos(azimuth), up, 0.0).astype(np.float32)


def _sample(radiance: np.ndarray, x: np.ndarray, y: np.ndarray, z: np.ndarray, rotation: float) -> np.ndarray:
    """Return the radiance from directions (x, y, z) of the world, interpolated between pixels."""
    height, width = radiance.shape[:2]
    turn = (np.arctan2(x, y) + np.radians(rotation)) / (2 * np.pi)
    column = (turn % 1.0) * width - 0.5
    row = np.arccos(z / np.sqrt(x * x + y * y + z * z)) / np.pi * height - 0.5
    left, top = np.floor(column).astype(int), np.clip(np.floor(row).astype(int), 0, height - 1)
    low = np.minimum(top + 1, height - 1)
    right = ((column - left)[..., None]).astype(np.float32)
    below = np.clip(row - top, 0, 1)[..., None].astype(np.float32)
    left, other = left % width, (left + 1) % width
    upper = radiance[top, left] * (1 - right) + radiance[top, other] * right
    lower = radiance[low, left] * (1 - right) + radiance[low, other] * right
    return np.asarray(upper * (1 - below) + lower * below)


def _png(image: np.ndarray) -> bytes:
    """Return an image (H, W, 3) uint8 as a PNG file."""
    height, width = image.shape[:2]
    rows = np.concatenate([np.zeros((height, 1), np.uint8), image.reshape(height, -1)], 1)

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    parts = (chunk(b"IHDR", header), chunk(b"IDAT", zlib.compress(rows.tobytes(), 1)), chunk(b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(parts)
