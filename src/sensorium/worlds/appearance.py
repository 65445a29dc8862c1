"""``Appearance``: the methods of a scene that add lights, and change lights, colours and materials while it runs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from sensorium._arguments import is_masked
from sensorium._tensors import plain_tensor
from sensorium.errors import DuplicateNameError, NameNotFoundError, OptionError
from sensorium.worlds.device import upload
from sensorium.worlds.light_writer import LightWriter
from sensorium.worlds.lights import Light, LightType
from sensorium.worlds.names import resolve_name
from sensorium.worlds.scene_options import SceneOptions
from sensorium.worlds.simulation import Simulation
from sensorium.worlds.world import ArrayLike, Envs, env_index

_INHERITED = 0.5
"""Red, green and blue of a geom that has the colour of its material, if it is opaque."""
_DISTINCT = 0.5 + 2.0**-20
"""Red of a geom whose own colour is that grey; no image shows the difference."""


class Appearance(Simulation):
    """The methods of :class:`~sensorium.Scene` that decide what cameras see, and nothing else.

    Lights are added before ``build()``; all other calls are for a scene that runs. Images of the envs that are named
    are rendered again when a camera is next read. Other envs keep their images. The physics, delays, drift, histories
    and random numbers of all sensors continue unchanged. A timed camera shows the change from its next capture on.

    A value is one for all envs that are named, or one row per env. Values in device tensors are not validated, since
    that would synchronise with the GPU. A call that raises changes nothing.
    """

    def __init__(self, options: SceneOptions) -> None:
        super().__init__(options)
        self._light_writer: LightWriter | None = None

    def add_light(self, type: LightType = "directional", **options: Any) -> Light:
        """Add a light for cameras and snapshots.

        A scene without lights is lit by a headlight at the camera. The first light that is added replaces the
        headlight, except for its ambient part.

        Args:
            type: "directional", "point", "spot" or "area".
            **options: see :class:`Light`: pos, direction or lookat, color, intensity, shadow, ...
        """
        self._before_build("add_light")
        light = Light(type=type, **options)
        taken = {*self._lights, *(one.name for one in self._spec.lights)}
        if light.name is None:
            name, number = str(type), 1
            while name in taken:
                number += 1
                name = f"{type}_{number}"
            light = light.model_copy(update={"name": name})
        assert light.name is not None
        if light.name in taken:
            raise DuplicateNameError(f"the scene already has a light named {light.name!r}; choose another name")
        self._lights[light.name] = light
        self._note("add_light", light=light)
        return light

    def touch(self, envs: Envs = None) -> None:
        """Mark the camera images of envs as out of date, after you wrote to fields that images depend on.

        The fields are those of ``scene.world.expand``, such as "geom_rgba", "mat_rgba" and "light_pos". Sensors are not
        restarted, unlike by :meth:`forward`.

        Args:
            envs: which envs; None for all.

        Raises:
            NotBuiltError: the scene is not built.
            OptionError: ``envs`` is out of range.

        Example:
            >>> scene.world.expand("geom_size")[1, ball] *= 2
            >>> scene.touch(envs=[1])
        """
        world = self._world or self._unbuilt("touch")
        world.changes.write(envs)
        self._redraw()

    def set_light(
        self,
        name: str,
        *,
        color: ArrayLike | None = None,
        intensity: ArrayLike | None = None,
        specular: ArrayLike | None = None,
        pos: ArrayLike | None = None,
        direction: ArrayLike | None = None,
        lookat: ArrayLike | None = None,
        envs: Envs = None,
    ) -> None:
        """Change a light in some envs. What is not given stays as ``add_light`` or an earlier call set it.

        Args:
            name: name of the light: of ``add_light``, or of a light of a model.
            color: red, green, blue, (3,) or (n, 3).
            intensity: factor on ``color``, a number or (n,). 0 leaves highlights, which ``specular=0`` removes.
            specular: factor on ``color`` for highlights, a number or (n,).
            pos: position in metres, (3,) or (n, 3), in the frame of the world, or of the body that carries the light.
            direction: direction of the light in that frame, of any length, (3,) or (n, 3).
            lookat: point in that frame that the light is directed at, (3,) or (n, 3), instead of ``direction``.
            envs: which envs; None for all.

        Raises:
            NotBuiltError: the scene is not built.
            NameNotFoundError: the scene has no such light.
            OptionError: a value has the wrong shape or is out of range, or nothing is given.

        Example:
            >>> scene.set_light("sun", intensity=[0.2, 0.9], direction=(1, 0, -1), envs=[0, 1])
        """
        world = self._world or self._unbuilt("set_light")
        model = world.model
        names = [model.light(number).name for number in range(model.nlight)]
        light = names.index(resolve_name(name, names, "light", "set_light"))
        index = self._rows(envs)
        given = {"color": color, "intensity": intensity, "specular": specular, "pos": pos}
        given |= {"direction": direction, "lookat": lookat}
        values = {
            key: self._values("set_light", key, value, len(index)) for key, value in given.items() if value is not None
        }
        if not values:
            raise OptionError(f"set_light({name!r}): set at least one of {', '.join(given)}")
        if "direction" in values and "lookat" in values:
            raise OptionError("set_light: set only one of direction and lookat")
        for key in values.keys() & {"direction", "lookat"}:
            vector = values[key]
            if key == "lookat":
                vector = vector - values.get("pos", self.light_writer.positions(light)[index])
            length = vector.norm(dim=1, keepdim=True)
            if not world.is_gpu and not bool((length > 1e-9).all()):
                why = "not be zero" if key == "direction" else "differ from the position of the light"
                raise OptionError(f"set_light: {key} must {why}, got {given[key]!r}")
            values["direction"] = vector / length.clamp(min=1e-30)
        self.light_writer.write(light, index, values)
        if values.keys() & {"pos", "direction"}:
            world.changes.write(envs)  # the engine computes poses of lights from those in their frames
        else:
            world.changes.repaint(envs)
        self._redraw()

    def set_color(self, name: str, color: ArrayLike, envs: Envs = None) -> None:
        """Change the colour of an entity, link or geom in some envs. Textures are tinted by it.

        Args:
            name: name of an entity ("box"), of a link ("arm/hand") or of a geom.
            color: red, green, blue, or red, green, blue, opacity, each in [0, 1]: (3,), (4,), (n, 3) or (n, 4). Opacity
                0 hides geoms from cameras and, as in MuJoCo, from rays.
            envs: which envs; None for all.

        Raises:
            NotBuiltError: the scene is not built.
            NameNotFoundError: there is nothing of that name with geoms.
            OptionError: a value has the wrong shape or is out of range.

        Example:
            >>> scene.set_color("box", [(1, 0, 0), (0, 0, 1)], envs=[2, 5])
        """
        world = self._world or self._unbuilt("set_color")
        geoms, index = self._geoms(name, "set_color"), self._rows(envs)
        values = self._values("set_color", "color", color, len(index), (3, 4))
        grey = (values[:, :3] == _INHERITED).all(1)
        values[:, 0] = torch.where(grey, _DISTINCT, values[:, 0])  # otherwise materials would replace it
        target, which = world.expand("geom_rgba"), upload(torch.tensor(geoms), world.device)
        target[index[:, None], which, : values.shape[1]] = values.to(target.dtype)[:, None]
        world.changes.repaint(envs)
        self._redraw()

    def set_material(self, name: str, material: str | Sequence[str], envs: Envs = None) -> None:
        """Change the material, with its texture, of an entity, link or geom in some envs.

        A geom with a colour of its own keeps it as a tint.

        Args:
            name: name of an entity ("box"), of a link ("arm/hand") or of a geom.
            material: name of a material of the model such as "robot/wood", or one per env.
            envs: which envs; None for all.

        Raises:
            NotBuiltError: the scene is not built.
            NameNotFoundError: there is nothing of that name with geoms, or no such material.
            OptionError: the number of materials differs from that of the envs.

        Example:
            >>> scene.set_material("crate", ["crate/wood", "crate/steel"], envs=[0, 1])
        """
        world = self._world or self._unbuilt("set_material")
        geoms, index, model = self._geoms(name, "set_material"), self._rows(envs), world.model
        known = [model.mat(number).name for number in range(model.nmat)]
        if not isinstance(material, Sequence):
            raise OptionError(f"set_material: material must be a name or a list of names, got {material!r}")
        asked = [material] * len(index) if isinstance(material, str) else list(material)
        if len(asked) != len(index):
            raise OptionError(
                f"set_material: material must be one name or one for each of the {len(index)} envs, got {len(asked)}"
            )
        numbers = [known.index(resolve_name(each, known, "material", "set_material")) for each in asked]
        target, rows = world.expand("geom_matid"), upload(torch.tensor(numbers), world.device)
        target[index[:, None], upload(torch.tensor(geoms), world.device)] = rows[:, None].to(target.dtype)
        world.changes.repaint(envs)
        self._redraw()

    @property
    def light_writer(self) -> LightWriter:
        """Writes properties of lights to the engine, without marking images as out of date. For code of Sensorium."""
        if self._light_writer is None:
            self._light_writer = LightWriter(self.world, self._lights)
        return self._light_writer

    # -- helpers ------------------------------------------------------------------------------------------------------

    def _rows(self, envs: Envs) -> torch.Tensor:
        world = self.world
        index = env_index(envs, world.n_envs, world.device)
        return torch.arange(world.n_envs, device=world.device) if index is None else index

    def _values(
        self, call: str, name: str, value: ArrayLike, count: int, sizes: tuple[int, ...] = (3,)
    ) -> torch.Tensor:
        """Return a value as a float64 tensor (count, columns) of its own, on the device; ``sizes`` are the columns that
        a vector may have.

        Raises:
            OptionError: its shape is wrong, or a number is out of range.
        """
        device = self.world.device
        if isinstance(value, torch.Tensor):
            tensor = plain_tensor(f"{call}: {name}", value)
        else:
            try:
                tensor = torch.as_tensor(np.asarray(value, float))
            except (TypeError, ValueError, OverflowError, RuntimeError) as error:
                raise OptionError(f"{call}: {name} must be numbers, got {value!r:.80}") from error
        if is_masked(value):
            raise OptionError(f"{call}: {name} must be numbers, got {value!r:.80}")
        tensor = tensor.to(torch.float64)
        shape, is_number = tuple(tensor.shape), name in ("intensity", "specular")
        if is_number:
            sizes, tensor = (1,), tensor.reshape(-1, 1) if tensor.ndim < 2 else tensor
        elif tensor.ndim == 1:
            tensor = tensor.unsqueeze(0)
        if tensor.ndim != 2 or tensor.shape[0] not in (1, count) or tensor.shape[1] not in sizes:
            shapes = [f"({count},)"] if is_number else [f"({n},) or ({count}, {n})" for n in sizes]
            allowed = f"{'be a number, or ' if is_number else ''}have shape {', or '.join(shapes)}"
            raise OptionError(f"{call}: {name} must {allowed}, got {shape}")
        if tensor.device.type == "cpu":
            upper = 1.0 if call == "set_color" else np.inf
            lower = 0.0 if is_number or name == "color" else -np.inf
            if not bool((torch.isfinite(tensor) & (tensor >= lower) & (tensor <= upper)).all()):
                allowed = "in [0, 1]" if upper == 1 else "finite" if lower < 0 else ">= 0 and finite"
                raise OptionError(f"{call}: {name} must be {allowed}, got {value!r}")
        return upload(tensor, device).expand(count, -1).clone()

    def _geoms(self, name: str, call: str) -> list[int]:
        """Return the ids of the geoms of an entity or link, or of one geom.

        Raises:
            NameNotFoundError: there is nothing of that name, or it has no geoms.
        """
        model = self.world.model
        bodies = [model.body(number).name for number in range(model.nbody)]
        geoms = [model.geom(number).name for number in range(model.ngeom)]
        names = [*self._entities, *bodies, *(each for each in geoms if each)]
        full = resolve_name(name, names, "entity, link or geom", call)
        if full in self._entities:
            owned = {number for number, body in enumerate(bodies) if body.split("/")[0] == full}
        elif full in bodies:
            owned = {bodies.index(full)}
        else:
            return [geoms.index(full)]
        found = [geom for geom in range(model.ngeom) if int(model.geom_bodyid[geom]) in owned]
        if not found:
            raise NameNotFoundError(f"{call}: {full!r} has no geoms; name an entity, link or geom that cameras show")
        return found

    def _redraw(self) -> None:
        if self._viewer is not None:
            self._viewer.after_restart()
