"""``Scene``: robots, objects, terrain and sensors, simulated in B copies."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypedDict

import mujoco
import numpy as np
import torch

from sensorium import _notebook
from sensorium._arguments import checked
from sensorium._system import check_memory
from sensorium._viewing import scene_viewer
from sensorium.errors import OptionError
from sensorium.tree import Buffer
from sensorium.worlds.appearance import Appearance
from sensorium.worlds.capacity import bytes_per_env
from sensorium.worlds.contents import Json, repeat_calls
from sensorium.worlds.device import is_out_of_memory, no_cuda, too_little_memory
from sensorium.worlds.environments import choose_environment
from sensorium.worlds.journal import Journal
from sensorium.worlds.model_fields import ModelFields, expand_fields
from sensorium.worlds.mujoco_world import MujocoWorld
from sensorium.worlds.painter import Painter
from sensorium.worlds.physics_options import check_gpu_options, on_device
from sensorium.worlds.scene_options import SceneOptions
from sensorium.worlds.sensing import sensor_table
from sensorium.worlds.snapshot import CameraChoice, check_arguments, save_image, snapshot
from sensorium.worlds.world import Envs, World

if TYPE_CHECKING:
    from collections.abc import Callable

    from sensorium._viewing import SceneViewer

_MEMORY_ADVICE = "Lower n_envs, or max_delay, history_length and number of rays of the sensors"
_MAX_ENVS = 2**31 - 1
"""Upper bound of the number of envs: their ids are 32-bit integers."""
_DEVICES = "device must be 'cpu', 'cuda' or one of several such as 'cuda:1'"


class _WorldOptions(TypedDict):
    substeps: int
    exact_sensing: bool


class Scene(Appearance):
    """Robots, objects, terrain and sensors, simulated in B copies.

    Args:
        dt: seconds of one step.
        substeps: physics steps in one step.
        **options: see :class:`SceneOptions`.

    Example:
        >>> scene = sn.Scene(dt=0.01, substeps=5)
        >>> _ = scene.add_object(sn.Plane())
        >>> box = scene.add_object(sn.Box(size=(0.2, 0.2, 0.2)), name="box", pos=(0, 0, 0.5), free=True)
        >>> scene.build(n_envs=4)
        >>> scene.step(count=10)
        >>> scene.time
        tensor([0.1000, 0.1000, 0.1000, 0.1000], dtype=torch.float64)

    Robots, entities, modules and sensors are children of the scene in the component tree, under their names. After
    ``build()`` there are two more: the buffer ``physics`` (tag "physics") holds the full physics state. It is filled by
    ``update_state()`` and written back by ``write_replay_data()``. ``world`` holds the model fields that
    ``scene.world.expand`` gave values per env, such as ``world.body_mass`` (tag "model").
    """

    def __init__(self, dt: float = 0.01, substeps: int = 5, **options: Any) -> None:
        super().__init__(SceneOptions(dt=dt, substeps=substeps, **options))
        self._expanded: Mapping[str, np.ndarray | None] = {}

    @classmethod
    def from_contents(
        cls,
        contents: list[dict[str, Json]],
        options: Mapping[str, Any] | None = None,
        folder: str | Path = ".",
        adapt: Callable[[Any], Any] | None = None,
        expanded: Mapping[str, np.ndarray | None] | None = None,
    ) -> Scene:
        """Create a scene with the contents of another; it is not built.

        Args:
            contents: :attr:`contents` of the other scene.
            options: options of the scene by name; see :class:`SceneOptions`.
            folder: where relative model files are.
            adapt: called with the options of every sensor; returns the options to use instead.
            expanded: model fields that ``build()`` gives values per env, (B, ...); None for the value of the model.
        """
        for name, given in (("options", options), ("expanded", expanded)):
            if given is not None and not isinstance(given, Mapping):
                raise OptionError(f"from_contents: {name} must be a mapping or None, got {given!r:.80}")
        if adapt is not None and not callable(adapt):
            raise OptionError(f"from_contents: adapt must be a function or None, got {adapt!r:.80}")
        if not isinstance(folder, str | Path):
            raise OptionError(f"from_contents: folder must be a path, got {folder!r:.80}")
        scene = cls(**(options or {}))
        scene._expanded = expanded or {}
        scene._adapt = adapt
        repeat_calls(scene, contents, Path(folder))
        return scene

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
        """Compile the scene and start it in ``n_envs`` copies. Nothing can be added afterwards.

        Args:
            n_envs: B, the number of envs.
            device: "cpu" (MuJoCo) or "cuda", "cuda:1", ... (MuJoCo Warp).
            seed: seed of all randomness.
            threads: threads of the physics pool on the CPU; 0 uses every core that this process may use.
            nconmax: contacts per env to allocate on a GPU. Default: chosen from the model.
            njmax: constraint rows per env to allocate on a GPU. Default: chosen from the model.

        Raises:
            AlreadyBuiltError: the scene was built or closed.
            OptionError: an argument is out of range, the engine of the device lacks an option of the scene, or envs,
                sensors or images need more memory than is free.
            ModelError: the scene does not compile.
            DeviceError: the device does not exist, or has too little memory.
        """
        self._before_build("build")
        numbers = {"n_envs": (n_envs, 1), "seed": (seed, 0), "threads": (threads, 0)}
        numbers |= {name: (value, 1) for name, value in (("nconmax", nconmax), ("njmax", njmax)) if value is not None}
        for option, (value, minimum) in numbers.items():
            if not isinstance(value, int | np.integer) or isinstance(value, bool) or value < minimum:
                raise OptionError(f"{option} must be an integer >= {minimum}, got {value!r}")
        if n_envs > _MAX_ENVS:
            raise OptionError(f"n_envs must be an integer <= {_MAX_ENVS}, got {n_envs}")
        for option, room in (("nconmax", nconmax), ("njmax", njmax)):
            if room is not None and room > _MAX_ENVS // n_envs:  # all are elements of one array
                raise OptionError(f"{option} must be <= {_MAX_ENVS // n_envs} in {n_envs} envs, got {room}")
        world, options = self._start_world(device, int(n_envs), int(threads), nconmax, njmax)
        try:
            world.lights, world.environments = tuple(self._lights.values()), self.options.environments
            expand_fields(world, self._expanded)
            if self._sensing is not None:
                self._sensing.build(world, int(seed), self.options.dt)
            for entity in self._entities.values():
                entity.attach_world(world)
            self.physics = Buffer(world.get_state(), {"physics", "state"})
            # not add_child(): the name exists already if an earlier build() failed
            self.__dict__.setdefault("_children", {})["world"] = ModelFields(world)
            self._seed = int(seed)
            self._world, self.options = world, options
            self._journal = Journal(world.n_envs)
            if self._sensing is not None and self._sensing.on_host:
                self._sense = self._sensing.step
            if self._sensing is not None and not world.is_gpu:
                self._sensing.on_change = self._journal.call
            for module in self._modules.values():
                module.start(self)
        except BaseException as error:
            lacking = world.is_gpu and is_out_of_memory(error)
            what = f"the sensors and model fields of {n_envs} envs"
            why = too_little_memory(world.device, what, _MEMORY_ADVICE) if lacking else None
            self._world = world
            self._stop()
            if why is not None:
                raise why from error
            raise

    def _start_world(
        self, device: str, n_envs: int, threads: int, nconmax: int | None, njmax: int | None
    ) -> tuple[World, SceneOptions]:
        """Return the running engine, and the options of the scene with the defaults of that engine."""
        try:
            kind = torch.device(device).type
        except (RuntimeError, TypeError) as error:
            raise OptionError(f"{_DEVICES}, got {device!r}") from error
        common = _WorldOptions(substeps=self.options.substeps, exact_sensing=self.options.exact_sensing)
        if kind == "cpu":
            if nconmax is not None or njmax is not None:
                raise OptionError("nconmax and njmax need device='cuda'; the CPU engine allocates on demand")
            options = on_device(self.options, is_gpu=False)
            model = self._compile(options)
            self._check_memory(model, n_envs)
            return MujocoWorld(model, n_envs, threads=threads, **common), options
        if kind != "cuda":
            raise OptionError(f"{_DEVICES}, got {device!r}")
        if not torch.cuda.is_available():
            raise no_cuda(device)
        from sensorium.worlds.warp_world import WarpWorld  # imports Warp, which the CPU engine does not need

        check_gpu_options(self.options)
        options = on_device(self.options, is_gpu=True)
        model = self._compile(options)
        return WarpWorld(model, n_envs, device=device, nconmax=nconmax, njmax=njmax, **common), options

    def _check_memory(self, model: mujoco.MjModel, n_envs: int) -> None:
        """Raise OptionError if the states of all envs do not fit into memory; it says how many fit with sensors."""
        states = bytes_per_env(model)
        try:
            check_memory("n_envs", n_envs, "the states of all envs", states)
        except OptionError:
            check_memory("n_envs", n_envs, "the states and sensors of all envs", states + self.sensor_bytes())
            raise

    def sensor_bytes(self) -> int:
        """Return the bytes that the sensors of one env take."""
        return 0 if self._sensing is None else self._sensing.bytes_per_env()

    def set_environment(self, number: int | Sequence[int] | np.ndarray, envs: Envs = None) -> None:
        """Choose which of the scene's environment maps some envs show. The next read of a camera shows it.

        Args:
            number: index into the option ``environments``, for all of these envs, or one for each.
            envs: which envs; None for all.

        Raises:
            NotBuiltError: the scene is not built.
            OptionError: the scene has no environment maps, or no map of this number.

        Example:
            >>> scene = sn.Scene(environments=["forest.hdr", "studio.hdr"])
            >>> scene.build(n_envs=4)
            >>> scene.set_environment([0, 1, 0, 1])
        """
        choose_environment(self._world or self._unbuilt("set_environment"), number, envs)

    def to_xml(self) -> str:
        """Return the scene as one MJCF document for other tools, with six digits and without the files it names."""
        return str((self._composed or self._unbuilt("to_xml")).to_xml())

    def close(self) -> None:
        """Stop the engine and free its memory. The scene cannot be used afterwards."""
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

    # -- views --------------------------------------------------------------------------------------------------------

    @checked
    def snapshot(
        self,
        env: int = 0,
        width: int = 960,
        height: int = 720,
        camera: CameraChoice = -1,
        path: str | Path | None = None,
    ) -> np.ndarray:
        """Render the current state of one env, with what the sensors with ``draw_debug=True`` measure.

        The image is for people and is rendered in every call, with a sun in scenes without lights, ambient light in all
        scenes, and a sky in scenes without a skybox. Add a camera sensor for images that a robot sees.

        Args:
            env: which env.
            width, height: size in pixels.
            camera: a camera of the scene by name or number, or a free one. Default: a view of everything.
            path: file to save the image to, e.g. "out/scene.png".

        Returns:
            (height, width, 3) uint8.
        """
        world = self._world or self._unbuilt("snapshot")
        check_arguments(world, env, width, height, path)
        painter = Painter()
        self.draw_debug(painter, env)
        image = snapshot(world, env, painter, width, height, camera)
        if path is not None:
            save_image(image, path)
        return image

    def draw_debug(self, painter: Painter, env: int = 0) -> None:
        """Draw what the sensors with ``draw_debug=True`` measure in one env."""
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
    ) -> SceneViewer:
        """Open a live window on the scene in the browser, at the address that is printed.

        The window follows ``scene.step()``. While it is paused, ``step()`` does not return. ``viewer.run()`` steps the
        scene in real time until the window is closed. ``close()`` of the scene or the viewer closes it.

        Args:
            port: port to serve the window at. Default: the first free port from 8080 on.
            host: address to serve the window at. The default can be reached from this machine only, and through
                ``ssh -L 8080:localhost:8080``. Everyone who can reach it can pause and reset the scene.
            env: which env is shown first.
            open_browser: whether to open the browser of this machine too.
            native: open MuJoCo's own viewer instead, which needs a display.

        Raises:
            DeviceError: viser is not installed, or there is no display.
        """
        self._world or self._unbuilt("view")
        if self._viewer is not None and not self._viewer.closed:
            raise OptionError("view: this scene already has a window; close it first (viewer.close())")
        self._viewer = scene_viewer()(self, port, host, env, open_browser, native)
        return self._viewer

    def describe(self) -> str:
        """Return the sensors as a table: uuid, class, shape, dtype, rate, delay, memory, and how each runs."""
        world = self._world or self._unbuilt("describe")
        return sensor_table(self._title(world), [] if self._sensing is None else self._sensing.describe())

    def _title(self, world: World) -> str:
        return f"{world.n_envs} envs on {world.device}, dt {self.dt:g} s in {world.substeps} substeps"

    def _repr_html_(self) -> str:
        """Return the table of :meth:`describe` for a notebook; before ``build()``, what was added so far."""
        entities = ", ".join(self._entities) or "none"
        if self._world is None:
            title, about = "Scene, not built", [("entities", entities)]
            rows = [{"uuid": uuid, "class": type(sensor).__name__} for uuid, sensor in self._sensors.items()]
        else:
            title = self._title(self._world)
            about = [("time in env 0", f"{float(self.time[0]):.4g} s"), ("entities", entities)]
            rows = [] if self._sensing is None else self._sensing.describe()
        html = _notebook.heading(title) + _notebook.table([name for name, _ in about], [[text for _, text in about]])
        return html + (_notebook.table(list(rows[0]), (list(row.values()) for row in rows)) if rows else "")

    def __repr__(self) -> str:
        envs = "not built" if self._world is None else f"{self._world.n_envs} envs"
        return f"<Scene {envs}, entities {list(self._entities)}, sensors {list(self._sensors)}>"
