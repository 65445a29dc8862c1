"""Randomisation of the appearance per env: lights, colours and materials, drawn from the scene's seed."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

import numpy as np
import torch

from sensorium._arguments import checked, checked_numbers
from sensorium._tensors import check_plain
from sensorium.errors import NameNotFoundError, OptionError, did_you_mean
from sensorium.pipeline import formula
from sensorium.worlds import Envs, Scene, env_index


@checked
def randomize_look(
    scene: Scene,
    *,
    intensity: tuple[float, float] = (1.0, 1.0),
    tint: float = 0.0,
    direction: float = 0.0,
    position: float = 0.0,
    colors: float = 0.0,
    materials: Sequence[str] = (),
    environments: bool = False,
    entities: Iterable[str] | None = None,
    draw: int = 0,
    envs: Envs = None,
    seeds: Sequence[int] | None = None,
) -> None:
    """Randomise lights, colours and textures separately in each env.

    Values are drawn uniformly around those of the model, independently of earlier calls. They depend only on the
    scene's seed, the name of the light, material or geom, the env, and ``draw``. The next read of a camera shows them.
    Physics is not changed.

    Args:
        scene: a scene that is built.
        intensity: (min, max) of the factor for the brightness of lights.
        tint: maximum relative change of red, green and blue of a light: 0.1 is 10%.
        direction: maximum tilt of lights, rad, below pi / 2.
        position: maximum displacement of lights along each axis, m.
        colors: maximum change of red, green and blue of geoms and materials, where 1 is the full range; textures are
            tinted.
        materials: names of materials of the model, such as "robot/wood". In each env, every geom gets one of them, with
            its texture. A geom that has its own colour keeps it as a tint.
        environments: whether to choose one of the scene's environment maps in each env.
        entities: names of the entities whose colours and materials change; default: all.
        draw: number of the draw, from 0 to 2**32 - 1; another number gives another appearance.
        envs: which envs; None for all.
        seeds: one seed for each of these envs, used instead of the scene's seed and the env.

    Raises:
        OptionError: a value is out of range, or the scene has no lights or environment maps to randomise.
        NameNotFoundError: a material or an entity does not exist.

    Example:
        >>> randomize_look(scene, intensity=(0.6, 1.4), tint=0.1, direction=0.3, colors=0.2, draw=episode)
    """
    world, model = scene.world, scene.model
    low, high = checked_numbers("intensity", intensity, (2,), finite=True)
    if not 0 <= low <= high:
        raise OptionError(f"intensity must be (min, max) with 0 <= min <= max, got {intensity!r}")
    for name, value in (("tint", tint), ("direction", direction), ("position", position), ("colors", colors)):
        limit = math.pi / 2 if name == "direction" else math.inf
        if not 0 <= value < limit:
            allowed = "in [0, pi / 2)" if name == "direction" else ">= 0 and finite"
            raise OptionError(f"{name} must be {allowed}, got {value!r}")
    if not isinstance(draw, int) or not 0 <= draw < 2**32:
        raise OptionError(f"draw must be an integer in [0, 2**32), got {draw!r}")
    choices = _find_materials(scene, materials)
    lit = tuple(intensity) != (1.0, 1.0) or tint or direction or position
    if lit and not model.nlight:
        raise OptionError("the scene has no lights to randomise; add one with scene.add_light(...)")
    n_maps = len(world.environments)
    if environments and not n_maps:
        raise OptionError("the scene has no environment maps to choose from; make it with Scene(environments=[...])")
    geoms = _find_geoms(scene, entities) if colors or choices else []
    index = env_index(envs, world.n_envs, world.device)
    ids = np.arange(world.n_envs) if index is None else index.numpy(force=True)
    if isinstance(seeds, torch.Tensor):
        check_plain("seeds", seeds)
    if seeds is not None and len(seeds) != len(ids):
        raise OptionError(f"seeds must have one value for each of the {len(ids)} envs, got {len(seeds)}")
    rows = torch.from_numpy(ids).to(world.device)

    def uniform(name: str, count: int) -> np.ndarray:
        if seeds is None:
            return _uniform(scene.seed, name, ids, draw, count)
        return np.concatenate([_uniform(seed, name, np.zeros(1, np.int64), draw, count) for seed in seeds])

    def write(field: str, number: int, values: np.ndarray) -> None:
        target = world.expand(field)
        target[rows, number, : values.shape[1]] = torch.from_numpy(values).to(target)

    writer = scene.light_writer
    for light in range(model.nlight if lit else 0):
        u = uniform(f"light:{model.light(light).name or light}", 10)
        low, high = intensity
        factor = low + (high - low) * u[:, :1]
        axis = model.light_dir[light]
        aside = 2 * u[:, 4:7] - 1
        aside -= (aside @ axis)[:, None] * axis
        aside *= math.tan(direction) / np.maximum(np.linalg.norm(aside, axis=1, keepdims=True), 1.0)
        tilted = axis + aside
        base = writer.initial(light)
        look = {
            "color": np.clip(base["color"] * (1 + tint * (2 * u[:, 1:4] - 1)), 0, None),
            "intensity": base["intensity"] * factor,
            "specular": base["specular"] * factor,
            "direction": tilted / np.linalg.norm(tilted, axis=1, keepdims=True),
            "pos": model.light_pos[light] + position * (2 * u[:, 7:10] - 1),
        }
        writer.write(light, rows, {name: torch.from_numpy(each).to(world.device) for name, each in look.items()})
    if choices:
        numbers = world.expand("geom_matid")
        for geom in geoms:
            u = uniform(f"material:{model.geom(geom).name or geom}", 1)[:, 0]
            numbers[rows, geom] = torch.tensor(choices)[(u * len(choices)).astype(np.int64)].to(numbers)
    for field, kind, number in _colour_fields(scene, geoms, choices) if colors else ():
        u = uniform(f"{kind}:{getattr(model, kind)(number).name or number}", 3)
        write(field, number, np.clip(getattr(model, field)[number, :3] + colors * (2 * u - 1), 0, 1))
    if environments:
        scene.set_environment((uniform("environment", 1)[:, 0] * n_maps).astype(np.int64), envs=ids)
    scene.touch(envs)


def _colour_fields(scene: Scene, geoms: Sequence[int], choices: Sequence[int]) -> list[tuple[str, str, int]]:
    """Return (model field, kind, id) of the colours of geoms: those of their materials, or their own."""
    model = scene.model
    given = {int(model.geom_matid[geom]) for geom in geoms if model.geom_matid[geom] >= 0}
    materials = sorted(set(choices) or given)
    own = [] if choices else [geom for geom in geoms if model.geom_matid[geom] < 0]
    return [("mat_rgba", "mat", number) for number in materials] + [("geom_rgba", "geom", number) for number in own]


def _find_materials(scene: Scene, names: Sequence[str]) -> list[int]:
    model = scene.model
    known = [model.mat(number).name for number in range(model.nmat)]
    for name in names:
        if name not in known:
            raise NameNotFoundError(
                f"the scene has no material {name!r}{did_you_mean(name, known)}; "
                f"its robots and objects define: {', '.join(known) or 'no materials'}"
            )
    return [known.index(name) for name in names]


def _find_geoms(scene: Scene, entities: Iterable[str] | None) -> list[int]:
    model, names = scene.model, None if entities is None else list(entities)
    for name in names or ():
        if name not in scene.entities:
            raise NameNotFoundError(f"the scene has no entity {name!r}{did_you_mean(name, scene.entities)}")
    owner = [model.body(body).name.split("/")[0] for body in range(model.nbody)]
    return [geom for geom in range(model.ngeom) if names is None or owner[model.geom_bodyid[geom]] in names]


def _uniform(seed: int, name: str, envs: np.ndarray, draw: int, count: int) -> np.ndarray:
    """Return (envs, count) numbers in [0, 1)."""
    from sensorium.pipeline.kernels import threefry  # imports Numba

    words = np.empty((len(envs), 2 * -(-count // 2)), np.uint32)
    for pair in range(words.shape[1] // 2):
        k0, k1 = (np.uint32(word) for word in formula.key(seed, f"look:{name}", pair))
        for row, env in enumerate(envs):
            words[row, 2 * pair : 2 * pair + 2] = threefry(k0, k1, np.uint32(env), np.uint32(draw))
    return (words[:, :count] >> 8) * 2.0**-24
