"""Looks that differ per env, drawn from the scene's seed: lights, colours and materials."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

import numpy as np
import torch

from sensorium.errors import NameNotFoundError, OptionError, did_you_mean
from sensorium.pipeline import formula
from sensorium.worlds import Envs, Scene, env_index


def randomize_look(
    scene: Scene,
    *,
    intensity: tuple[float, float] = (1.0, 1.0),
    tint: float = 0.0,
    direction: float = 0.0,
    position: float = 0.0,
    colors: float = 0.0,
    materials: Sequence[str] = (),
    entities: Iterable[str] | None = None,
    draw: int = 0,
    envs: Envs = None,
    seeds: Sequence[int] | None = None,
) -> None:
    """Give every env a look of its own: its lights, and the colours and textures of things.

    Values are drawn uniformly around those of the model, whatever was drawn before, from the scene's seed, the name of
    the light, material or geom, the env, and ``draw`` alone. Cameras see it at once; physics is not touched.

    Args:
        scene: a scene that was built.
        intensity: range of the factor by which lights are brighter.
        tint: most by which red, green and blue of a light change, relative: 0.1 is 10%.
        direction: largest tilt of lights, rad.
        position: most by which lights move along each axis, m.
        colors: most by which red, green and blue of geoms and materials change, of 1; textures are tinted.
        materials: names of materials of the model, as "robot/wood"; each geom takes one of them in each env, with its
            texture. A geom that has a colour of its own keeps that, as a tint. The path tracer keeps the model's.
        entities: whose colours and materials change; default: all.
        draw: another number, from 0 to 2**32 - 1, gives another look.
        envs: which envs; None for all.
        seeds: one for each of those envs, from which its look is drawn, instead of the scene's seed and the env.

    Example:
        >>> randomize_look(scene, intensity=(0.6, 1.4), tint=0.1, direction=0.3, colors=0.2, draw=episode)
    """
    world, model = scene.world, scene.model
    if len(intensity) != 2 or not 0 <= intensity[0] <= intensity[1]:
        raise OptionError(f"intensity must be (least, most), not negative, got {intensity!r}")
    for name, value in (("tint", tint), ("direction", direction), ("position", position), ("colors", colors)):
        if not 0 <= value < math.inf or (name == "direction" and value >= math.pi / 2):
            raise OptionError(f"{name} must be a number that is not negative (direction: below pi / 2), got {value!r}")
    if not isinstance(draw, int) or not 0 <= draw < 2**32:
        raise OptionError(f"draw must be an integer in [0, 2**32), got {draw!r}")
    choices = _materials(scene, materials)
    lit = tuple(intensity) != (1.0, 1.0) or tint or direction or position
    if lit and not model.nlight:
        raise OptionError("the scene has no lights to randomise: add some by scene.add_light(...)")
    geoms = _geoms(scene, entities) if colors or choices else []
    index = env_index(envs, world.n_envs, world.device)
    ids = np.arange(world.n_envs) if index is None else index.numpy(force=True)
    if seeds is not None and len(seeds) != len(ids):
        raise OptionError(f"seeds must be one for each of {len(ids)} envs, got {len(seeds)}")
    rows = torch.from_numpy(ids).to(world.device)

    def uniform(what: str, count: int) -> np.ndarray:
        if seeds is None:
            return _uniform(scene.seed, what, ids, draw, count)
        return np.concatenate([_uniform(seed, what, np.zeros(1, np.int64), draw, count) for seed in seeds])

    def write(field: str, number: int, values: np.ndarray) -> None:
        target = world.expand(field)
        target[rows, number, : values.shape[1]] = torch.from_numpy(values).to(target)

    for light in range(model.nlight if lit else 0):
        u = uniform(f"light:{model.light(light).name or light}", 10)
        low, high = intensity
        factor = (low + (high - low) * u[:, :1]) * (1 + tint * (2 * u[:, 1:4] - 1))
        for field in ("light_diffuse", "light_specular"):
            write(field, light, np.clip(getattr(model, field)[light] * factor, 0, None))
        axis = model.light_dir[light]
        aside = 2 * u[:, 4:7] - 1
        aside -= (aside @ axis)[:, None] * axis
        aside *= math.tan(direction) / np.maximum(np.linalg.norm(aside, axis=1, keepdims=True), 1.0)
        tilted = axis + aside
        write("light_dir", light, tilted / np.linalg.norm(tilted, axis=1, keepdims=True))
        write("light_pos", light, model.light_pos[light] + position * (2 * u[:, 7:10] - 1))
    if choices:
        numbers = world.expand("geom_matid")
        for geom in geoms:
            u = uniform(f"material:{model.geom(geom).name or geom}", 1)[:, 0]
            numbers[rows, geom] = torch.tensor(choices)[(u * len(choices)).astype(np.int64)].to(numbers)
    for field, kind, number in _painted(scene, geoms, choices) if colors else ():
        u = uniform(f"{kind}:{getattr(model, kind)(number).name or number}", 3)
        write(field, number, np.clip(getattr(model, field)[number, :3] + colors * (2 * u - 1), 0, 1))
    world.changes.write(envs)


def _painted(scene: Scene, geoms: Sequence[int], choices: Sequence[int]) -> list[tuple[str, str, int]]:
    """Where the colours of geoms lie: in a material, or in the geom itself."""
    model = scene.model
    given = {int(model.geom_matid[geom]) for geom in geoms if model.geom_matid[geom] >= 0}
    materials = sorted(set(choices) or given)
    own = [] if choices else [geom for geom in geoms if model.geom_matid[geom] < 0]
    return [("mat_rgba", "mat", number) for number in materials] + [("geom_rgba", "geom", number) for number in own]


def _materials(scene: Scene, names: Sequence[str]) -> list[int]:
    model = scene.model
    known = [model.mat(number).name for number in range(model.nmat)]
    for name in names:
        if name not in known:
            raise NameNotFoundError(
                f"the scene has no material {name!r}{did_you_mean(name, known)}; "
                f"materials come with the models of robots and objects: {', '.join(known) or 'there are none'}"
            )
    return [known.index(name) for name in names]


def _geoms(scene: Scene, entities: Iterable[str] | None) -> list[int]:
    model, names = scene.model, None if entities is None else list(entities)
    for name in names or ():
        if name not in scene.entities:
            raise NameNotFoundError(f"the scene has no entity {name!r}{did_you_mean(name, scene.entities)}")
    owner = [model.body(body).name.split("/")[0] for body in range(model.nbody)]
    return [geom for geom in range(model.ngeom) if names is None or owner[model.geom_bodyid[geom]] in names]


def _uniform(seed: int, what: str, envs: np.ndarray, draw: int, count: int) -> np.ndarray:
    """(envs, count) numbers in [0, 1)."""
    from sensorium.pipeline.kernels import threefry  # which starts Numba

    words = np.empty((len(envs), 2 * -(-count // 2)), np.uint32)
    for pair in range(words.shape[1] // 2):
        k0, k1 = (np.uint32(word) for word in formula.key(seed, f"look:{what}", pair))
        for row, env in enumerate(envs):
            words[row, 2 * pair : 2 * pair + 2] = threefry(k0, k1, np.uint32(env), np.uint32(draw))
    return (words[:, :count] >> 8) * 2.0**-24
