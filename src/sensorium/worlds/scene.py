"""The scene: what is there, in B copies, with sensors over it."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

import mujoco
import numpy as np
import torch

from sensorium.errors import (
    AlreadyBuiltError,
    DivergenceError,
    DuplicateNameError,
    ModelError,
    NameNotFoundError,
    NotBuiltError,
    OptionError,
    did_you_mean,
    shorten,
)
from sensorium.tree import Buffer, Module
from sensorium.worlds.compose import Model, add_model, add_primitive, by_name, load_spec, pose
from sensorium.worlds.contents import encode_call, repeat_calls
from sensorium.worlds.entity import Entity
from sensorium.worlds.journal import Journal
from sensorium.worlds.lights import Light, light_scene
from sensorium.worlds.model_fields import ModelFields
from sensorium.worlds.mujoco_world import MujocoWorld
from sensorium.worlds.names import Names
from sensorium.worlds.painter import Painter
from sensorium.worlds.part import Part
from sensorium.worlds.primitives import Primitive
from sensorium.worlds.scene_options import CONES, INTEGRATORS, SceneOptions
from sensorium.worlds.sensing import Sensing, SensorSpec, SensorT
from sensorium.worlds.snapshot import snapshot
from sensorium.worlds.world import Envs, World, env_ids

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from sensorium.viewer import Viewer

PartT = TypeVar("PartT", bound=Part[Any])

_RESERVED = ("physics", "world")
"""Names that stand for something else in the tree or the model."""


class Scene(Module):
    """Robots, objects, terrain and sensors, simulated in B copies.

    Args:
        dt: seconds of one step.
        substeps: physics steps in one step.
        **options: see :class:`SceneOptions`.

    Example:
        >>> scene = Scene(dt=0.01, substeps=5)
        >>> _ = scene.add_object(Plane())
        >>> box = scene.add_object(Box(size=(0.2, 0.2, 0.2)), name="box", pos=(0, 0, 0.5), free=True)
        >>> scene.build(n_envs=4)
        >>> scene.step(count=10)
        >>> scene.time
        tensor([0.1000, 0.1000, 0.1000, 0.1000], dtype=torch.float64)

    After ``build()``: entities and sensors are children of the scene in the component tree, each under its own name;
    ``physics`` is a buffer (tag "physics") of the full physics state, filled by ``update_state()`` and written back by
    ``write_replay_data()``; ``world.body_mass`` and the like (tag "model") are the fields of the model that
    ``scene.world.expand`` has given values per env.
    """

    def __init__(self, dt: float = 0.01, substeps: int = 5, **options: Any) -> None:
        self.options = SceneOptions(dt=dt, substeps=substeps, **options)
        self._spec = mujoco.MjSpec()
        self._spec.modelname = "scene"
        self._entities: dict[str, Entity] = {}
        self._sensors: dict[str, Module] = {}
        self._lights: dict[str, Light] = {}
        self._parts: dict[str, Part[Any]] = {}
        self._attaching: Part[Any] | None = None
        self._added: list[tuple[str, dict[str, Any]]] = []
        self._adapt: Callable[[Any], Any] | None = None
        self._expanded: Mapping[str, np.ndarray | None] = {}
        self._journal = Journal()
        self._composed: mujoco.MjSpec | None = None
        self._sensing: Sensing | None = None
        self._world: World | None = None
        self._failed: dict[int, str] = {}
        self._viewer: Viewer | None = None
        self._sense: Callable[[], None] | None = None
        self._closed = False

    # -- what is there ------------------------------------------------------------------------------------------------

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
        if not hasattr(options, "make_sensor"):
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

    def add_module(self, name: str, part: PartT) -> PartT:
        """Add a part: a robot with its sensors (``sn.robots.make``), a room, or a :class:`Part` of your own.

        Args:
            name: its name in the component tree: its buffers are ``name.position``, ``name.rig.imu.measured``, ...
            part: adds what it owns to the scene, at once. If that fails, the scene stays as it was.
        """
        self._before_build("add_module")
        if not isinstance(part, Part):
            raise OptionError(f"add_module takes a part such as sn.robots.make('diffdrive'), got {part!r}")
        if self._attaching is not None:
            raise OptionError(f"add_module({name!r}): a part cannot add further parts to the scene")
        if any(part is other for other in self._parts.values()):
            raise DuplicateNameError(f"add_module({name!r}): this part is in the scene already; make another one")
        name = self._new_name(name, "part")
        before = (self._spec, dict(self._entities), dict(self._sensors), dict(self._lights), self._sensing)
        self._attaching = part
        try:
            part.attach(self, name)
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

    @classmethod
    def from_contents(
        cls,
        contents: list[dict[str, Any]],
        options: Mapping[str, Any] | None = None,
        folder: str | Path = ".",
        adapt: Callable[[Any], Any] | None = None,
        expanded: Mapping[str, np.ndarray | None] | None = None,
    ) -> Scene:
        """A scene, not built, with the same contents as another.

        Args:
            contents: what :attr:`contents` gave.
            options: options of the scene, by name; see :class:`SceneOptions`.
            folder: where relative model files are.
            adapt: called with the options of every sensor; gives those to use instead.
            expanded: fields of the model that ``build()`` gives values per env, (B, ...); None for the model's own.
        """
        scene = cls(**(options or {}))
        scene._expanded = expanded or {}
        scene._adapt = adapt
        repeat_calls(scene, contents, Path(folder))
        return scene

    def _new_name(self, name: str | None, stem: str) -> str:
        taken = {*self._entities, *self._sensors, *self._parts}
        if name is None:
            name, number = stem, 1
            while name in taken or name in _RESERVED:
                number += 1
                name = f"{stem}_{number}"
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
    def parts(self) -> Mapping[str, Part[Any]]:
        """Name -> part that ``add_module`` added, in order."""
        return dict(self._parts)

    def __getitem__(self, name: str) -> Module:
        """The part, entity or sensor of that name."""
        for things in (self._parts, self._entities, self._sensors):
            if name in things:
                return things[name]
        hint = did_you_mean(name, [*self._parts, *self._entities, *self._sensors])
        raise NameNotFoundError(f"the scene has no part, entity or sensor {name!r}{hint}")

    # -- build --------------------------------------------------------------------------------------------------------

    def build(
        self,
        n_envs: int = 1,
        device: str = "cpu",
        seed: int = 0,
        threads: int = 0,
        nconmax: int | None = None,
        njmax: int | None = None,
    ) -> None:
        """Compile the scene and start it in ``n_envs`` copies; nothing can be added afterwards.

        Args:
            n_envs: B, the number of envs.
            device: "cpu" (MuJoCo) or "cuda", "cuda:1", ... (MuJoCo Warp).
            seed: what all randomness comes from.
            threads: threads of the physics pool on the CPU; 0 uses every core that this process may use.
            nconmax: contacts per env that the GPU allocates room for. Default: chosen from the model.
            njmax: constraint rows per env, likewise.
        """
        self._before_build("build")
        numbers = {"n_envs": (n_envs, 1), "seed": (seed, 0), "threads": (threads, 0)}
        numbers |= {name: (value, 1) for name, value in (("nconmax", nconmax), ("njmax", njmax)) if value is not None}
        for option, (value, least) in numbers.items():
            if not isinstance(value, int | np.integer) or isinstance(value, bool) or value < least:
                raise OptionError(f"{option} must be an integer of at least {least}, got {value!r}")
        world = self._start_world(device, int(n_envs), int(threads), nconmax, njmax)
        world.lights = tuple(self._lights.values())
        try:
            self._expand(world)
            if self._sensing is not None:
                self._sensing.build(world, int(seed), self.options.dt)
        except BaseException:
            world.close()
            raise
        for entity in self._entities.values():
            entity.attach_world(world)
        self.physics = Buffer(world.get_state(), {"physics", "state"})
        self.__dict__.setdefault("_children", {})["world"] = ModelFields(world)
        self._seed = int(seed)
        self._world = world
        self._journal = Journal()
        if self._sensing is not None and self._sensing.on_host:
            self._sense = self._sensing.step
        if self._sensing is not None and not world.captures:
            self._sensing.on_change = self._journal.call
        try:
            for part in self._parts.values():
                part.start(self)
        except BaseException:
            self._stop()
            raise

    def _start_world(self, device: str, n_envs: int, threads: int, nconmax: int | None, njmax: int | None) -> World:
        try:
            kind = torch.device(device).type
        except RuntimeError as error:
            raise OptionError(f"device must be 'cpu' or 'cuda', got {device!r}") from error
        common: dict[str, Any] = {"substeps": self.options.substeps, "exact_sensing": self.options.exact_sensing}
        if kind == "cpu":
            if nconmax is not None or njmax is not None:
                raise OptionError("nconmax and njmax are for device='cuda'; the CPU engine allocates as it goes")
            return MujocoWorld(self._compile(), n_envs, threads=threads, **common)
        if kind != "cuda":
            raise OptionError(f"device must be 'cpu' or 'cuda', got {device!r}")
        if not torch.cuda.is_available():
            from sensorium.worlds.device import no_cuda

            raise no_cuda(device)
        from sensorium.worlds.warp_world import WarpWorld  # Warp is imported when it is used, not before

        return WarpWorld(self._compile(), n_envs, device=device, nconmax=nconmax, njmax=njmax, **common)

    def _expand(self, world: World) -> None:
        for name, values in self._expanded.items():
            target = world.expand(name)
            if values is not None and tuple(values.shape) != tuple(target.shape):
                raise OptionError(
                    f"the model field {name!r} has values of shape {tuple(values.shape)}, and {tuple(target.shape)} is "
                    "needed; build the scene with as many envs as they are for"
                )
            if values is not None:
                target.copy_(torch.from_numpy(values))
        if self._expanded:
            world.reset()

    def to_xml(self) -> str:
        """The scene as one MJCF document, for other tools: rounded to six digits, without the files that it names."""
        return str((self._composed or self._unbuilt("to_xml")).to_xml())

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

    # -- running ------------------------------------------------------------------------------------------------------

    def step(self, count: int = 1) -> None:
        """Advance every env by ``count`` steps of ``dt`` seconds, sensing after each.

        Raises:
            DivergenceError: the physics of some envs failed; raised when all steps are done. Those envs hold still, and
                are listed in :attr:`failed`, until they are reset; the others went on.
        """
        if (world := self._world) is None:
            self._unbuilt("step")
        if count != 1 and (not isinstance(count, int) or count < 0):
            raise OptionError(f"count must be an integer that is not negative, got {count!r}")
        failed: dict[int, str] = {}
        # It touches as little as it can: on a GPU this is all that the host does, from a core that may have waited for
        # the device until then, with nothing of this left in its caches.
        while count > 0:
            count -= 1
            if now := world.step():
                failed |= now
            if self._journal.fresh:
                self._journal.step()
            if self._sense is not None:
                self._sense()
            if self._viewer is not None:
                self._viewer.after_step()
        if failed:
            self._report(failed)

    def hold(self, envs: Envs) -> None:
        """Let some envs stand still, time included, until ``reset``, ``forward`` or ``set_state`` names them.

        Their sensors go on sensing what is there. On the CPU alone.
        """
        world: Any = self._world or self._unbuilt("hold")
        if world.captures:
            raise OptionError(f"hold needs the CPU engine; on {world.device} all envs step together")
        world.hold(envs)

    def check(self) -> None:
        """Wait for the device, and raise what went wrong there and was not reported yet. Does nothing on the CPU.

        On a GPU ``step()`` never waits, so it reports a failure (DivergenceError, CapacityError) a few steps late.
        """
        self._report((self._world or self._unbuilt("check")).check())

    def _report(self, failed: dict[int, str]) -> None:
        if failed:
            self._failed |= failed
            raise DivergenceError(failed)

    def snapshot(
        self,
        env: int = 0,
        width: int = 640,
        height: int = 480,
        camera: str | int | mujoco.MjvCamera = -1,
        path: str | Path | None = None,
    ) -> np.ndarray:
        """A picture of one env as it is now, with what the sensors that have ``draw_debug=True`` look at and feel.

        For people to look at, drawn anew at every call; what robots see are camera sensors.

        Args:
            env: which env.
            width, height: pixels.
            camera: a camera of the scene by name or number, or a free one; default: one that shows everything.
            path: where to save it too, e.g. "out/scene.png".

        Returns:
            (height, width, 3) uint8.
        """
        world = self._world or self._unbuilt("snapshot")
        if not isinstance(env, int) or not 0 <= env < world.n_envs:
            raise OptionError(f"env must be an integer in [0, {world.n_envs}), got {env!r}")
        if min(width, height) < 1 or max(width, height) > 16384:
            raise OptionError(f"width and height must lie in [1, 16384], got {width!r} and {height!r}")
        painter = Painter()
        self.draw_debug(painter, env)
        image = snapshot(world, env, painter, width, height, camera)
        if path is not None:
            from matplotlib.image import imsave

            Path(path).parent.mkdir(parents=True, exist_ok=True)
            imsave(path, image)
        return image

    def draw_debug(self, painter: Painter, env: int = 0) -> None:
        """Paint what the sensors that have ``draw_debug=True`` look at and feel in one env."""
        self._world or self._unbuilt("draw_debug")
        if self._sensing is not None:
            self._sensing.draw(painter, env)

    def view(
        self,
        port: int | None = None,
        host: str = "127.0.0.1",
        env: int = 0,
        open_browser: bool = False,
        native: bool = False,
    ) -> Viewer:
        """Open a live window on the scene: in the browser, at the address that is printed.

        It follows ``scene.step()`` by itself; while paused, ``step()`` does not return. ``viewer.run()`` steps the
        scene in real time until the window is closed. ``close()`` of either closes it.

        Args:
            port: where to serve it. Default: 8080, or the next that is free.
            host: address to serve it at. The default is reached from this machine alone (and through
                ``ssh -L 8080:localhost:8080``); whoever can reach it can pause and reset the scene.
            env: which env is shown first.
            open_browser: whether to open it in this machine's browser too.
            native: open MuJoCo's own viewer instead, which needs a display.
        """
        self._world or self._unbuilt("view")
        if self._viewer is not None and not self._viewer.closed:
            raise OptionError("view(): this scene has a window already; close that first (viewer.close())")
        from sensorium.viewer import open_viewer  # what it needs is imported when it is used, not before

        self._viewer = open_viewer(self, port, host, env, open_browser, native)
        return self._viewer

    def reset(self, envs: Envs = None) -> None:
        """Put envs (default: all) back to the initial state; their sensors start afresh from it."""
        self._restart("reset", envs)

    def forward(self, envs: Envs = None) -> None:
        """Recompute what depends on the state after it was written; the sensors of those envs start afresh from it."""
        self._restart("forward", envs)

    def _restart(self, call: str, envs: Envs) -> None:
        world = self._world or self._unbuilt(call)
        self._note_restart(envs, None if call == "reset" else world.get_state)
        failed = getattr(world, call)(envs)
        parts = [part for part in self._parts.values() if type(part).on_reset is not Part.on_reset]
        if call == "reset" and parts:
            for part in parts:
                part.on_reset(envs)
            failed |= world.forward(envs)
        self._after_restart(envs, failed)

    def _note_restart(self, envs: Envs, state: Callable[[], torch.Tensor] | None) -> None:
        if self.world.captures:  # looking at envs and states would wait for the device
            return
        ids = env_ids(envs, self.n_envs)
        rows = None if state is None else state().numpy()
        if rows is not None and ids is not None:
            rows = rows[ids]
        self._journal.restart("reset" if rows is None else "state", ids, rows)

    def _after_restart(self, envs: Envs, failed: dict[int, str]) -> None:
        if self._failed:
            ids = env_ids(envs, self.n_envs)
            alive = set(range(self.n_envs)) if ids is None else set(ids.tolist())
            self._failed = {env: text for env, text in self._failed.items() if env not in alive}
        if self._sensing is not None:
            self._sensing.reset(envs)
        if self._viewer is not None:
            self._viewer.after_restart()
        self._report(failed)

    def get_state(self) -> torch.Tensor:
        """A copy of the full physics state, (B, n_state) in the engine's precision."""
        return (self._world or self._unbuilt("get_state")).get_state()

    def set_state(self, state: torch.Tensor, envs: Envs = None) -> None:
        """Set the full physics state of envs, as :meth:`get_state` gave it; their sensors start afresh from it."""
        failed = (self._world or self._unbuilt("set_state")).set_state(state, envs)
        self._note_restart(envs, self.world.get_state)  # which computing what depends on it has left as it is
        self._after_restart(envs, failed)

    def retrace(self, before: np.ndarray, after: np.ndarray, step: int) -> None:
        """Be as after a recorded step, and sense that: for replay of sensors that remember, step by step.

        On a GPU sensing is part of the engine's step, so there the state is set, and sensors start afresh from it.

        Args:
            before: the states before the last substep, (B, n_state).
            after: the states after it.
            step: the number of the step, of which randomness is a function.
        """
        world = self._world or self._unbuilt("retrace")
        if not isinstance(world, MujocoWorld):
            self.set_state(torch.as_tensor(after))
            return
        world.retrace(before, after)
        world.step_count = step
        if self._sensing is not None:
            self._sensing.step_count = step - 1
            self._sensing.step()
        if self._viewer is not None:
            self._viewer.after_step()

    def read_sensors(self, envs: Envs = None) -> dict[str, torch.Tensor]:
        """Class name -> a fresh tensor (B, columns) of the readings of all sensors of that class, in order.

        Cameras, whose images have no columns, are not among them: read each.
        """
        self._world or self._unbuilt("read_sensors")
        return {} if self._sensing is None else self._sensing.read(envs)

    def describe(self) -> str:
        """The sensors as a table: uuid, class, shape, dtype, rate, delay, memory, and how each runs."""
        world = self._world or self._unbuilt("describe")
        rows = [] if self._sensing is None else self._sensing.describe()
        title = f"{world.n_envs} envs on {world.device}, dt {self.dt:g} s in {world.substeps} substeps"
        if not rows:
            return f"{title}; no sensors"
        names = list(rows[0])
        widths = {name: max(len(name), *(len(row[name]) for row in rows)) for name in names}
        lines = ["  ".join(row[name].ljust(widths[name]) for name in names).rstrip() for row in rows]
        head = "  ".join(name.ljust(widths[name]) for name in names).rstrip()
        return "\n".join([title, head, "  ".join("-" * widths[name] for name in names), *lines])

    def close(self) -> None:
        """Stop the engine and free its memory; the scene can be used no more."""
        if self._world is None:
            return
        if self._viewer is not None:
            self._viewer.close()
        self._stop()
        self._closed = True

    def _stop(self) -> None:
        assert self._world is not None
        if self._sensing is not None:
            self._sensing.close()
        for entity in self._entities.values():
            entity.detach_world()
        self._world.close()
        self._world = None

    # -- facts --------------------------------------------------------------------------------------------------------

    @property
    def world(self) -> World:
        """The running engine."""
        return self._world or self._unbuilt("world")

    @property
    def model(self) -> mujoco.MjModel:
        """The compiled MuJoCo model."""
        return self.world.model

    @property
    def n_envs(self) -> int:
        """B, the number of envs."""
        return self.world.n_envs

    @property
    def device(self) -> torch.device:
        """Where the tensors live."""
        return self.world.device

    @property
    def dt(self) -> float:
        """Seconds of one step."""
        return self.options.dt

    @property
    def seed(self) -> int:
        """What all randomness comes from."""
        self._world or self._unbuilt("seed")
        return self._seed

    @property
    def step_count(self) -> int:
        """Steps that the sensors have made since ``build()``: with the seed, all that randomness depends on."""
        world = self._world or self._unbuilt("step_count")
        return world.step_count if self._sensing is None else self._sensing.step_count

    @step_count.setter
    def step_count(self, count: int) -> None:
        if self._sensing is None:
            self.world.step_count = count
        elif not self.world.captures:  # a graph's clock cannot be set
            self._sensing.step_count = count

    @property
    def time(self) -> torch.Tensor:
        """Simulated seconds since each env's reset, (B,)."""
        return self.world.time.clone()

    @property
    def failed(self) -> dict[int, str]:
        """Env -> message of the envs whose physics failed and which wait for a reset."""
        return dict(self._failed)

    # -- tree ---------------------------------------------------------------------------------------------------------

    def _update_state(self) -> None:
        self.physics.load((self._world or self._unbuilt("update_state")).get_state())
        self.physics.loaded = False

    def _write_replay_data(self) -> None:
        if self.physics.loaded:
            self.set_state(self.physics.value)
            self.physics.loaded = False

    def write_replay_data(self) -> int:
        """Write what ``load_state_dict`` put into the buffers back into the simulation.

        First the full state (``physics``), then what the buffers of entities say otherwise. Values that were changed in
        a buffer by other means are not written.
        """
        self._world or self._unbuilt("write_replay_data")
        called = super().write_replay_data()
        written: set[int] = set()
        for entity in self._entities.values():
            written |= entity.take_written()
        if written:
            self.forward(envs=sorted(written))
        return called

    # -- helpers ------------------------------------------------------------------------------------------------------

    def _before_build(self, call: str) -> None:
        if self._closed:
            raise AlreadyBuiltError(f"{call}(): this scene was closed; make a new Scene")
        if self._world is not None:
            raise AlreadyBuiltError(
                f"{call}() must come before build(): this scene is already running; make a new Scene"
            )

    def _unbuilt(self, call: str) -> NoReturn:
        why = "this one was closed; make a new Scene" if self._closed else "call scene.build() first"
        raise NotBuiltError(f"{call} needs a running scene: {why}")

    def __repr__(self) -> str:
        envs = "not built" if self._world is None else f"{self._world.n_envs} envs"
        return f"<Scene {envs}, entities {list(self._entities)}, sensors {list(self._sensors)}>"
