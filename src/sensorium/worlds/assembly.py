"""What a scene is made of: entities, sensors, lights and parts, added one by one before it runs."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, TypeVar

import mujoco

from sensorium.errors import (
    DuplicateNameError,
    ModelError,
    NameNotFoundError,
    OptionError,
    did_you_mean,
    shorten,
)
from sensorium.tree import Module
from sensorium.worlds.compose import Model, add_model, add_primitive, by_name, load_spec, pose
from sensorium.worlds.contents import encode_call
from sensorium.worlds.entity import Entity
from sensorium.worlds.lights import Light, light_scene
from sensorium.worlds.names import Names
from sensorium.worlds.primitives import Primitive
from sensorium.worlds.scene_module import SceneModule
from sensorium.worlds.scene_options import CONES, INTEGRATORS, SceneOptions
from sensorium.worlds.sensing import Sensing, SensorSpec, SensorT

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

SceneModuleT = TypeVar("SceneModuleT", bound=SceneModule[Any])

_RESERVED = ("physics", "world")
"""Names that stand for something else in the tree or the model."""


class Assembly(Module):
    """The half of :class:`~sensorium.Scene` that comes before ``build()``.

    A call that fails leaves everything as it was.
    """

    def __init__(self, options: SceneOptions) -> None:
        self.options = options
        self._spec = mujoco.MjSpec()
        self._spec.modelname = "scene"
        self._entities: dict[str, Entity] = {}
        self._sensors: dict[str, Module] = {}
        self._lights: dict[str, Light] = {}
        self._parts: dict[str, SceneModule[Any]] = {}
        self._attaching: SceneModule[Any] | None = None
        self._added: list[tuple[str, dict[str, Any]]] = []
        self._adapt: Callable[[Any], Any] | None = None
        self._composed: mujoco.MjSpec | None = None
        self._sensing: Sensing | None = None

    def _before_build(self, call: str) -> None:
        """Raise where it is too late for that."""
        raise NotImplementedError

    def add_robot(self, model: Model, **placing: Any) -> Entity:
        """Add a robot. Takes the same arguments as :meth:`add_object`."""
        return self._add("robot", model, **placing)

    def add_object(self, model: Model, **placing: Any) -> Entity:
        """Add an object.

        Args:
            model: a primitive (``sn.Box(...)``), a ``sn.TileMap``, an MJCF or URDF file or XML string, the name of a
                robot that ``sn.robots.register_urdf`` has registered, or a ``mujoco.MjSpec``.
            name: its name; default: the model's, numbered where taken. A primitive is one link of that name; the
                elements of a model get the prefix ``name/``.
            pos: position in metres in the world frame.
            quat: orientation (w, x, y, z); or
            euler: roll, pitch, yaw in radians.
            free: whether its base moves freely. Default: what the model says; primitives are fixed.
        """
        return self._add("object", model, **placing)

    def add_terrain(self, model: Model, **placing: Any) -> Entity:
        """Add terrain: like :meth:`add_object`, always fixed to the world."""
        if placing.pop("free", None):
            raise OptionError("terrain is fixed to the world; use add_object for free=True")
        return self._add("terrain", model, fixed=True, **placing)

    def _add(
        self,
        kind: str,
        model: Model,
        *,
        name: str | None = None,
        pos: tuple[float, float, float] = (0, 0, 0),
        quat: tuple[float, float, float, float] | None = None,
        euler: tuple[float, float, float] | None = None,
        free: bool | None = None,
        fixed: bool = False,
    ) -> Entity:
        self._before_build(f"add_{kind}")
        position, orientation = pose(pos, quat, euler)
        model = by_name(model)
        child = None if isinstance(model, Primitive) else load_spec(model)
        stem = type(model).__name__.lower() if child is None else child.modelname
        if stem in ("", "MuJoCo Model"):  # what MuJoCo calls a model without a name
            stem = kind
        name = self._new_name(name, re.sub(r"[^\w-]+", "_", stem))
        trial = self._spec.copy()  # a failed call must leave the scene as it was
        if isinstance(model, Primitive):
            add_primitive(trial, model, name, position, orientation, bool(free))
            entity = Entity(name, kind, root=name, prefix=None)
        else:
            assert child is not None
            root = add_model(trial, child, name, position, orientation, free, fixed)
            entity = Entity(name, kind, root=root, prefix=f"{name}/")
        if self._attaching is None:
            self.add_child(name, entity)
        self._spec = trial
        self._entities[name] = entity
        placing = {"pos": pos, "quat": quat, "euler": euler, "free": free}
        given = {key: value for key, value in placing.items() if value is not None}
        self._note(f"add_{kind}", model=model, name=name, **given)
        return entity

    def add_light(self, type: str = "directional", **options: Any) -> Light:
        """Add a light for cameras and pictures: "directional", "point", "spot" or "area".

        A scene without lights is lit from where the camera is; the first light that is added takes this lamp's place,
        and leaves its ambient part.

        Args:
            type: what kind of light.
            **options: see :class:`Light`: pos, direction or lookat, color, intensity, shadow, ...
        """
        self._before_build("add_light")
        light = Light(type=type, **options)  # type: ignore[arg-type]
        taken = {*self._lights, *(one.name for one in self._spec.lights)}
        if light.name is None:
            name, number = type, 1
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

    def add_sensor(self, options: SensorSpec[SensorT]) -> SensorT:
        """Add a sensor from its options, e.g. ``scene.add_sensor(sn.IMU(link="box"))``; returns what reads it."""
        self._before_build("add_sensor")
        if not hasattr(options, "make_sensor") or isinstance(options, type):
            raise OptionError(f"add_sensor takes sensor options such as sn.IMU(link=...), got {options!r}")
        if self._adapt is not None:
            options = self._adapt(options)
        sensor = options.make_sensor({*self._sensors, *self._entities, *self._parts})
        uuid = str(sensor.uuid)  # type: ignore[attr-defined]
        if uuid in _RESERVED:
            raise OptionError(f"uuid {uuid!r} is a name of the scene's own; give another uuid")
        for what, things in (("a sensor", self._sensors), ("an entity", self._entities), ("a part", self._parts)):
            if uuid in things:
                raise DuplicateNameError(
                    f"uuid {uuid!r} is already the name of {what} of this scene; give another uuid"
                )
        if self._attaching is None:
            self.add_child(uuid, sensor)
        if self._sensing is None:
            self._sensing = options.make_sensing()
        self._sensing.add(sensor)
        self._sensors[uuid] = sensor
        self._note("add_sensor", options=options)
        return sensor

    def remove_sensor(self, uuid: str) -> None:
        """Take a sensor out again, before ``build()``; also one that a part added, such as those of a robot's rig."""
        self._take_out("remove_sensor", uuid, None)
        self._note("remove_sensor", uuid=uuid)

    def replace_sensor(self, uuid: str, options: SensorSpec[SensorT]) -> SensorT:
        """Put another sensor into the place of one, before ``build()``; also of one that a part added.

        The new one has the uuid of the old one, whatever its options say, and its place in the component tree.
        """
        if not hasattr(options, "make_sensor"):
            raise OptionError(f"replace_sensor takes sensor options such as sn.IMU(link=...), got {options!r}")
        if self._adapt is not None:
            options = self._adapt(options)
        given = {name: getattr(options, name) for name in options.model_fields_set}  # type: ignore[attr-defined]
        options = type(options)(**(given | {"uuid": uuid}))
        sensor = options.make_sensor(set())
        self._take_out("replace_sensor", uuid, sensor)
        self._note("replace_sensor", uuid=uuid, options=options)
        return sensor

    def _take_out(self, call: str, uuid: str, other: Any) -> None:
        self._before_build(call)
        if uuid not in self._sensors:
            hint = did_you_mean(uuid, self._sensors) or f"; there are {shorten(self._sensors)}"
            raise NameNotFoundError(f"{call}: the scene has no sensor {uuid!r}{hint}")
        sensor = self._sensors[uuid]
        for _, module in list(self.named_modules()):
            module.replace_child(sensor, other)
        assert self._sensing is not None
        self._sensing.forget([sensor])
        if other is None:
            del self._sensors[uuid]
        else:
            self._sensing.add(other)
            self._sensors[uuid] = other

    def add_module(self, name: str, part: SceneModuleT) -> SceneModuleT:
        """Add a part: a robot with its sensors (``sn.robots.make``), a room, or a :class:`SceneModule` of your own.

        Args:
            name: its name in the component tree: its buffers are ``name.position``, ``name.rig.imu.measured``, ...
            part: adds what it owns to the scene, at once. If that fails, the scene stays as it was.
        """
        self._before_build("add_module")
        if not isinstance(part, SceneModule):
            raise OptionError(f"add_module takes a part such as sn.robots.make('diffdrive'), got {part!r}")
        if self._attaching is not None:
            raise OptionError(f"add_module({name!r}): a part cannot add further parts to the scene")
        if any(part is other for other in self._parts.values()):
            raise DuplicateNameError(f"add_module({name!r}): this part is in the scene already; make another one")
        name = self._new_name(name, "part")
        before = (self._spec, dict(self._entities), dict(self._sensors), dict(self._lights), self._sensing)
        self._attaching = part
        try:
            part.attach(self, name)  # type: ignore[arg-type]  # the Scene that this is
            held = {id(module) for _, module in part.named_modules()}
            for uuid, sensor in self._sensors.items():
                if uuid not in before[2] and id(sensor) not in held:
                    part.add_child(uuid, sensor)
            self.add_child(name, part)
        except BaseException:
            added = [sensor for uuid, sensor in self._sensors.items() if uuid not in before[2]]
            if self._sensing is not None:
                self._sensing.forget(added)
            self._spec, self._entities, self._sensors, self._lights, self._sensing = before
            raise
        finally:
            self._attaching = None
        self._parts[name] = part
        self._note("add_module", name=name, part=part)
        return part

    def _note(self, call: str, **arguments: Any) -> None:
        """Remember what a user added; what a part adds follows from the part."""
        if self._attaching is None:
            self._added.append((call, arguments))

    @property
    def contents(self) -> list[dict[str, Any]]:
        """Everything that was added, in order, as JSON: what :meth:`from_contents` makes again.

        Models given as text are kept as text, with the files that they name; of model files, the path is kept.
        """
        return [encode_call(call, arguments) for call, arguments in self._added]

    def _new_name(self, name: str | None, stem: str) -> str:
        taken = {*self._entities, *self._sensors, *self._parts}
        if name is None:
            name, number = stem, 1
            while name in taken or name in _RESERVED:
                number += 1
                name = f"{stem}_{number}"
        elif not isinstance(name, str):
            raise OptionError(f"name must be text, got {name!r}")
        elif not name or not name.isprintable() or "/" in name or "." in name:
            raise OptionError(f"name must not be empty or contain '/' or '.', got {name!r}")
        elif name in _RESERVED:
            raise OptionError(f"name {name!r} is one of the scene's own; choose another name")
        elif name in taken:
            raise DuplicateNameError(f"the scene already has something named {name!r}; choose another name")
        return name

    @property
    def entities(self) -> Mapping[str, Entity]:
        """Name -> robot, object or terrain, in the order in which they were added."""
        return dict(self._entities)

    @property
    def sensors(self) -> Mapping[str, Module]:
        """uuid -> sensor, in the order in which they were added."""
        return dict(self._sensors)

    @property
    def parts(self) -> Mapping[str, SceneModule[Any]]:
        """Name -> part that ``add_module`` added, in order."""
        return dict(self._parts)

    def __getitem__(self, name: str) -> Module:
        """The part, entity or sensor of that name."""
        for things in (self._parts, self._entities, self._sensors):
            if name in things:
                return things[name]
        hint = did_you_mean(name, [*self._parts, *self._entities, *self._sensors])
        raise NameNotFoundError(f"the scene has no part, entity or sensor {name!r}{hint}")

    def _compile(self) -> mujoco.MjModel:
        self._composed = self._compose()
        try:
            return self._composed.compile()
        except ValueError as error:
            raise ModelError(f"the scene does not compile: {error}") from error

    def _compose(self) -> mujoco.MjSpec:
        """Everything that was added, with what the sensors need of the engine."""
        spec = self._spec.copy()
        option = spec.option
        option.timestep = self.options.dt / self.options.substeps
        option.gravity = self.options.gravity
        option.magnetic = self.options.magnetic_field
        option.integrator = INTEGRATORS[self.options.integrator]
        option.cone = CONES[self.options.cone]
        option.impratio = self.options.impratio
        light_scene(spec, tuple(self._lights.values()), self.options.sky)
        if self._sensing is not None:
            self._sensing.declare(spec, Names(spec))
        return spec
