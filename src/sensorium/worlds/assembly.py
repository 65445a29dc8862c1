"""``Assembly``: what a scene consists of (entities, robots, sensors, lights and modules), before it is built."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar, Unpack, cast, overload

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
from sensorium.worlds.compose import (
    Model,
    Position,
    Quaternion,
    add_model,
    add_primitive,
    by_name,
    compose_scene,
    load_spec,
    name_elements,
    pose,
)
from sensorium.worlds.contents import Json, encode_call
from sensorium.worlds.entity import Entity
from sensorium.worlds.initial_pose import INITIAL, JointPositions, are_given, find_pose, write_poses
from sensorium.worlds.lights import Light
from sensorium.worlds.names import RESERVED, ByName, Names, model_name, new_name
from sensorium.worlds.primitives import Primitive
from sensorium.worlds.scene_module import SceneModule
from sensorium.worlds.scene_options import SceneOptions
from sensorium.worlds.scene_robot import Placement, RobotModel, SceneRobot, SceneRobotT, make_robot
from sensorium.worlds.sensing import Sensing, SensorSpec, SensorT
from sensorium.worlds.tile_map import TileMap

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from sensorium.worlds.scene import Scene

SceneModuleT = TypeVar("SceneModuleT", bound=SceneModule)


class Assembly(Module):
    """The methods of :class:`~sensorium.Scene` that come before ``build()``.

    A call that raises leaves the scene as it was.
    """

    def __init__(self, options: SceneOptions) -> None:
        self.options = options
        self._spec = mujoco.MjSpec()
        self._spec.modelname = "scene"
        self._entities: dict[str, Entity] = {}
        self._sensors: dict[str, Module] = {}
        self._lights: dict[str, Light] = {}
        self._modules: dict[str, SceneModule] = {}
        self._attaching: SceneModule | None = None
        self._added: list[tuple[str, dict[str, Any]]] = []
        self._adapt: Callable[[Any], Any] | None = None
        self._composed: mujoco.MjSpec | None = None
        self._sensing: Sensing | None = None

    def _before_build(self, call: str) -> None:
        """Raise AlreadyBuiltError if the scene was built."""
        raise NotImplementedError

    # -- robots, objects, terrain -------------------------------------------------------------------------------------

    @overload
    def add_robot(
        self, robot: SceneRobotT, *, name: str | None = ..., **placement: Unpack[Placement]
    ) -> SceneRobotT: ...

    @overload
    def add_robot(self, robot: RobotModel, *, name: str | None = ..., **options: Any) -> SceneRobot: ...

    def add_robot(
        self,
        robot: SceneRobot | RobotModel,
        *,
        name: str | None = None,
        pos: Position | None = None,
        quat: Quaternion | None = None,
        euler: Position | None = None,
        free: bool | None = None,
        joint_positions: JointPositions | None = None,
        keyframe: str | None = None,
        **options: object,
    ) -> SceneRobot:
        """Add a robot with its sensors, actions and state.

        Args:
            robot: a catalogue name ("franka", see ``sn.robots.names()``) or a name that ``sn.robots.register_urdf``
                registered; a robot that ``sn.robots.make`` created, which is in no scene yet; or a model: an MJCF or
                URDF file or text, or a ``mujoco.MjSpec``.
            name: name of the robot and prefix of its elements (``name/link``). Default: the name of the model,
                numbered if it is taken.
            pos: position in metres in the world frame. Default: that of the robot, which is the origin for a model.
            quat: orientation (w, x, y, z) in the world frame; or
            euler: roll, pitch, yaw in radians. Default: that of the robot.
            free: whether the root link moves freely. Default: what the model says.
            joint_positions: positions that a reset returns to: joint -> rad or m, or (w, x, y, z) for a ball joint. A
                name is a regular expression, which the whole name of a joint must match. Position servos of these
                joints hold them. Default: those of the keyframe or of the model.
            keyframe: a keyframe of the model whose joint positions and controls a reset returns to. A free root link
                gets its pose in the frame that ``pos`` and ``quat`` place. Velocities are 0.
            **options: of ``sn.robots.make``, for a name or a model: ``rig``, ``actions``, ``move_groups``, ...

        Returns:
            The robot, a :class:`sensorium.robots.Robot`. A model without options gets one action for each actuator and
            no sensors.

        Example:
            >>> arm = scene.add_robot("franka", name="arm", pos=(0, 0.5, 0))
            >>> dog = scene.add_robot("dog.xml", keyframe="home", joint_positions={".*_hip": 0.1})
        """
        self._before_build("add_robot")
        if isinstance(robot, Primitive | TileMap):
            kind = type(robot).__name__
            raise OptionError(f"add_robot takes a robot or its model, got sn.{kind}; use add_object for a {kind}")
        if self._attaching is not None:
            raise OptionError("a module cannot add robots to the scene; derive from sn.robots.Robot instead")
        if isinstance(robot, SceneRobot) and options:
            raise OptionError(f"add_robot: give {shorten(list(options))} to sn.robots.make, which created this robot")
        made = robot if isinstance(robot, SceneRobot) else make_robot(robot, **options)
        name = new_name(name, made.default_name(), self._names)
        self._attach(name, made, lambda: made.set_placement(pos, quat, euler, free, joint_positions, keyframe))
        model = made.plain_model
        if model is None:
            self._note("add_module", name=name, module=made)
        else:
            self._note("add_robot", model=model, name=name, **made.placement)
        return made

    def add_object(
        self,
        model: Model,
        *,
        name: str | None = None,
        pos: Position = (0, 0, 0),
        quat: Quaternion | None = None,
        euler: Position | None = None,
        free: bool | None = None,
        joint_positions: JointPositions | None = None,
        keyframe: str | None = None,
    ) -> Entity:
        """Add an object.

        Args:
            model: a primitive (``sn.Box(...)``), a ``sn.TileMap``, an MJCF or URDF file or text, the name of a robot
                that ``sn.robots.register_urdf`` registered, or a ``mujoco.MjSpec``.
            name: name of the object. A primitive becomes one link of that name; the elements of a model get the prefix
                ``name/``. Default: the name of the model, numbered if it is taken.
            pos: position in metres in the world frame.
            quat: orientation (w, x, y, z) in the world frame; or
            euler: roll, pitch, yaw in radians.
            free: whether the root link moves freely. Default: what the model says; primitives are fixed.
            joint_positions: positions of joints that a reset returns to; see :meth:`add_robot`.
            keyframe: a keyframe of the model that a reset returns to; see :meth:`add_robot`.
        """
        return self.add_entity("object", model, name, pos, quat, euler, free, joint_positions, keyframe)

    def add_terrain(
        self,
        model: Model,
        *,
        name: str | None = None,
        pos: Position = (0, 0, 0),
        quat: Quaternion | None = None,
        euler: Position | None = None,
        free: bool | None = None,
    ) -> Entity:
        """Add terrain, which is always fixed to the world. The other arguments are those of :meth:`add_object`."""
        if free is not None and free is not False:
            raise OptionError("terrain is fixed to the world; use add_object for free=True")
        return self.add_entity("terrain", model, name=name, pos=pos, quat=quat, euler=euler)

    def add_entity(
        self,
        kind: str,
        model: Model,
        name: str | None = None,
        pos: Position = (0, 0, 0),
        quat: Quaternion | None = None,
        euler: Position | None = None,
        free: bool | None = None,
        joint_positions: JointPositions | None = None,
        keyframe: str | None = None,
    ) -> Entity:
        """Add an entity of any kind: "robot", "object" or "terrain".

        For :meth:`SceneModule.attach` of robots. Elsewhere use :meth:`add_robot`, :meth:`add_object` and
        :meth:`add_terrain`.
        """
        self._before_build(f"add_{kind}")
        if free is not None and not isinstance(free, bool):
            raise OptionError(f"free must be True, False or None, got {free!r}")
        position, orientation = pose(pos, quat, euler)
        model = by_name(model)
        child = None if isinstance(model, Primitive) else load_spec(model)
        stem = type(model).__name__.lower() if child is None else model_name(child, kind)
        name = new_name(name, stem, self._names)
        trial = self._spec.copy()  # a call that raises must leave the scene as it was
        if isinstance(model, Primitive):
            if are_given(joint_positions) or keyframe is not None:
                raise OptionError(f"{name!r} is a primitive and has no joints; remove joint_positions and keyframe")
            add_primitive(trial, model, name, position, orientation, bool(free))
            entity = Entity(name, kind, root=name, prefix=None)
        else:
            assert child is not None
            name_elements(child)
            start = find_pose(child, joint_positions, keyframe, f"add_{kind}", position, orientation)
            root = add_model(trial, child, name, position, orientation, free, fixed=kind == "terrain")
            entity = Entity(name, kind, root=root, prefix=f"{name}/", initial_pose=start)
        if self._attaching is None:
            self.add_child(name, entity)
        self._spec = trial
        self._entities[name] = entity
        placing: dict[str, object] = {"pos": pos, "quat": quat, "euler": euler, "free": free}
        placing |= {"joint_positions": joint_positions or None, "keyframe": keyframe}
        given = {key: value for key, value in placing.items() if value is not None}
        self._note(f"add_{kind}", model=model, name=name, **given)
        return entity

    # -- sensors ------------------------------------------------------------------------------------------------------

    def add_sensor(self, options: SensorSpec[SensorT]) -> SensorT:
        """Add a sensor from its options and return it.

        Example:
            >>> imu = scene.add_sensor(sn.IMU(link="box"))
        """
        self._before_build("add_sensor")
        if not hasattr(options, "make_sensor") or isinstance(options, type):
            raise OptionError(f"add_sensor takes sensor options such as sn.IMU(link=...), got {options!r}")
        if self._adapt is not None:
            options = self._adapt(options)
        sensor = options.make_sensor(self._names)
        uuid = str(sensor.uuid)  # type: ignore[attr-defined]
        if uuid in RESERVED:
            raise OptionError(f"uuid {uuid!r} is reserved; choose another uuid")
        for what, named in (("a sensor", self._sensors), ("an entity", self._entities), ("a module", self._modules)):
            if uuid in named:
                raise DuplicateNameError(
                    f"uuid {uuid!r} is already the name of {what} of this scene; choose another uuid"
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
        """Remove a sensor before ``build()``, also one of a module, such as a sensor of a robot's rig."""
        self._swap_sensor("remove_sensor", uuid, None)
        self._note("remove_sensor", uuid=uuid)

    def replace_sensor(self, uuid: str, options: SensorSpec[SensorT]) -> SensorT:
        """Replace a sensor before ``build()``, also one of a module.

        The new sensor keeps the uuid of the old one and its place in the component tree. A ``uuid`` in the options is
        ignored.
        """
        if not hasattr(options, "make_sensor"):
            raise OptionError(f"replace_sensor takes sensor options such as sn.IMU(link=...), got {options!r}")
        if self._adapt is not None:
            options = self._adapt(options)
        given = {name: getattr(options, name) for name in options.model_fields_set}  # type: ignore[attr-defined]
        options = type(options)(**(given | {"uuid": uuid}))
        sensor = options.make_sensor(set())
        self._swap_sensor("replace_sensor", uuid, sensor)
        self._note("replace_sensor", uuid=uuid, options=options)
        return sensor

    def _swap_sensor(self, call: str, uuid: str, other: Module | None) -> None:
        """Replace a sensor by another, or remove it."""
        self._before_build(call)
        if not isinstance(uuid, str) or uuid not in self._sensors:
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

    # -- modules ------------------------------------------------------------------------------------------------------

    def add_module(self, name: str, module: SceneModuleT) -> SceneModuleT:
        """Add a module, which adds what it owns to the scene: a room, a robot, or a :class:`SceneModule` of your own.

        Args:
            name: name in the component tree. The buffers of the module are ``name.position``,
                ``name.rig.imu.measured``, ...
            module: the module, which is in no scene yet. If it raises while it adds itself, the scene stays as it was.
        """
        self._before_build("add_module")
        if not isinstance(module, SceneModule):
            raise OptionError(f"add_module takes a sn.SceneModule such as sn.scenarios.Room(), got {module!r}")
        if self._attaching is not None:
            raise OptionError(f"add_module({name!r}): a module cannot add further modules to the scene")
        name = new_name(name, "module", self._names)
        self._attach(name, module)
        self._note("add_module", name=name, module=module)
        return module

    def _attach(self, name: str, module: SceneModule, prepare: Callable[[], None] = lambda: None) -> None:
        module.check_unused(name)
        before = (self._spec, dict(self._entities), dict(self._sensors), dict(self._lights), self._sensing)
        options, self._attaching = module.options, module
        try:
            prepare()
            module.attach(cast("Scene", self), name)
            held = {id(child) for _, child in module.named_modules()}
            for uuid, sensor in self._sensors.items():
                if uuid not in before[2] and id(sensor) not in held:
                    module.add_child(uuid, sensor)
            self.add_child(name, module)
        except BaseException:
            added = [sensor for uuid, sensor in self._sensors.items() if uuid not in before[2]]
            if self._sensing is not None:
                self._sensing.forget(added)
            self._spec, self._entities, self._sensors, self._lights, self._sensing = before
            module.options = options
            raise
        finally:
            self._attaching = None
        self._modules[name] = module
        module.note_added(name)

    # -- contents -----------------------------------------------------------------------------------------------------

    def _note(self, call: str, **arguments: object) -> None:
        """Remember a call of the user. What a module adds follows from the module."""
        if self._attaching is None:
            self._added.append((call, arguments))

    @property
    def contents(self) -> list[dict[str, Json]]:
        """All calls that added something, in order, as JSON. :meth:`from_contents` repeats them.

        Models given as text are stored as text, with the files that they name; of model files, the path is stored.
        """
        return [encode_call(call, arguments) for call, arguments in self._added]

    @property
    def _names(self) -> set[str]:
        return {*self._entities, *self._sensors, *self._modules}

    @property
    def entities(self) -> Mapping[str, Entity]:
        """Name -> entity (robot, object or terrain), in the order in which they were added."""
        return ByName(self._entities, "entity")

    @property
    def sensors(self) -> Mapping[str, Module]:
        """uuid -> sensor, in the order in which they were added."""
        return ByName(self._sensors, "sensor")

    @property
    def modules(self) -> Mapping[str, SceneModule]:
        """Name -> module, robots included, in the order in which they were added."""
        return ByName(self._modules, "module")

    def __getitem__(self, name: str) -> Module:
        """Return the module, entity or sensor of that name."""
        for named in (self._modules, self._entities, self._sensors):
            if isinstance(name, str) and name in named:
                return named[name]
        hint = did_you_mean(name, [*self._modules, *self._entities, *self._sensors])
        raise NameNotFoundError(f"the scene has no module, entity or sensor {name!r}{hint}")

    def _compile(self, options: SceneOptions) -> mujoco.MjModel:
        self._composed = compose_scene(self._spec, options, tuple(self._lights.values()))
        if self._sensing is not None:
            self._sensing.declare(self._composed, Names(self._composed))
        poses = {f"{name}/": each.initial_pose for name, each in self._entities.items() if each.initial_pose}
        key = self._composed.add_key(name=INITIAL) if poses else None
        try:
            model = self._composed.compile()
        except ValueError as error:
            raise ModelError(f"the scene does not compile: {error}") from error
        if key is not None:
            write_poses(model, key, poses)
        return model
