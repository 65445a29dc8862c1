"""The scene: what was put together, running in B copies, with sensors over it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import mujoco
import numpy as np
import torch

from sensorium._viewing import scene_viewer
from sensorium.errors import AlreadyBuiltError, CapacityError, DivergenceError, NotBuiltError, OptionError
from sensorium.tree import Buffer
from sensorium.worlds.assembly import Assembly
from sensorium.worlds.contents import repeat_calls
from sensorium.worlds.device import is_out_of_memory, no_cuda, too_little_memory
from sensorium.worlds.journal import Journal
from sensorium.worlds.model_fields import ModelFields, give
from sensorium.worlds.mujoco_world import MujocoWorld
from sensorium.worlds.painter import Painter
from sensorium.worlds.scene_module import SceneModule
from sensorium.worlds.scene_options import SceneOptions
from sensorium.worlds.snapshot import snapshot
from sensorium.worlds.world import Envs, World, env_ids

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from sensorium._viewing import SceneViewer

_LOWER = "Lower n_envs, or the sensors' max_delay, history_length and number of rays"
_PICTURES = (".png", ".jpg", ".jpeg", ".tiff", ".webp")


class Scene(Assembly):
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
        super().__init__(SceneOptions(dt=dt, substeps=substeps, **options))
        self._expanded: Mapping[str, np.ndarray | None] = {}
        self._journal = Journal(0)
        self._world: World | None = None
        self._sense: Callable[[], None] | None = None
        self._failed: dict[int, str] = {}
        self._viewer: SceneViewer | None = None
        self._closed = False

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
            give(world, self._expanded)
            if self._sensing is not None:
                self._sensing.build(world, int(seed), self.options.dt)
        except BaseException as error:
            lacking = world.is_gpu and is_out_of_memory(error)
            what = f"the sensors and model fields of {n_envs} envs"
            why = too_little_memory(world.device, what, _LOWER) if lacking else None
            world.close()
            if why is not None:
                raise why from error
            raise
        for entity in self._entities.values():
            entity.attach_world(world)
        self.physics = Buffer(world.get_state(), {"physics", "state"})
        self.__dict__.setdefault("_children", {})["world"] = ModelFields(world)
        self._seed = int(seed)
        self._world = world
        self._journal = Journal(world.n_envs)
        if self._sensing is not None and self._sensing.on_host:
            self._sense = self._sensing.step
        if self._sensing is not None and not world.is_gpu:
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
        except (RuntimeError, TypeError) as error:
            raise OptionError(f"device must be 'cpu', 'cuda', or one of several as 'cuda:1'; got {device!r}") from error
        common: dict[str, Any] = {"substeps": self.options.substeps, "exact_sensing": self.options.exact_sensing}
        if kind == "cpu":
            if nconmax is not None or njmax is not None:
                raise OptionError("nconmax and njmax are for device='cuda'; the CPU engine allocates as it goes")
            return MujocoWorld(self._compile(), n_envs, threads=threads, **common)
        if kind != "cuda":
            raise OptionError(f"device must be 'cpu', 'cuda', or one of several as 'cuda:1'; got {device!r}")
        if not torch.cuda.is_available():
            raise no_cuda(device)
        from sensorium.worlds.warp_world import WarpWorld  # Warp is imported when it is used, not before

        return WarpWorld(self._compile(), n_envs, device=device, nconmax=nconmax, njmax=njmax, **common)

    def to_xml(self) -> str:
        """The scene as one MJCF document, for other tools: rounded to six digits, without the files that it names."""
        return str((self._composed or self._unbuilt("to_xml")).to_xml())

    # -- running ------------------------------------------------------------------------------------------------------

    def step(self, count: int = 1) -> None:
        """Advance every env by ``count`` steps of ``dt`` seconds, sensing after each.

        Raises:
            DivergenceError: the physics of some envs failed; raised when all steps are done. Those envs hold still, and
                are listed in :attr:`failed`, until they are reset; the others went on.
            CapacityError: on a GPU, contacts were lost; likewise. Its ``failed`` names envs that failed besides.
        """
        if (world := self._world) is None:
            self._unbuilt("step")
        if count != 1 and (not isinstance(count, int) or count < 0):
            raise OptionError(f"count must be an integer that is not negative, got {count!r}")
        failed: dict[int, str] = {}
        crowded: CapacityError | None = None
        # It touches as little as it can: on a GPU this is all that the host does, from a core that may have waited for
        # the device until then, with nothing of this left in its caches.
        while count > 0:
            count -= 1
            try:
                if now := world.step():
                    failed |= now
            except CapacityError as error:  # of a step that was made
                crowded = _together(crowded, error)
            if self._journal.fresh:
                self._journal.step()
            if self._sense is not None:
                self._sense()
            if self._viewer is not None:
                self._viewer.after_step()
        if failed or crowded:
            self._report(failed, crowded)

    def hold(self, envs: Envs) -> None:
        """Let some envs stand still, time included, until ``reset``, ``forward`` or ``set_state`` names them.

        Their sensors go on sensing what is there. On the CPU alone.
        """
        world: Any = self._world or self._unbuilt("hold")
        if world.is_gpu:
            raise OptionError(f"hold needs the CPU engine; on {world.device} all envs step together")
        world.hold(envs)

    def check(self) -> None:
        """Wait for the device, and raise what went wrong there and was not reported yet. Does nothing on the CPU.

        On a GPU ``step()`` never waits, so it reports a failure (DivergenceError, CapacityError) a few steps late.
        """
        world, crowded = self._world or self._unbuilt("check"), None
        failed: dict[int, str] = {}
        try:
            failed = world.check()
        except CapacityError as error:
            crowded = error
        self._report(failed, crowded)

    def _report(self, failed: dict[int, str], crowded: CapacityError | None = None) -> None:
        if crowded is not None:
            crowded.failed = failed = failed | crowded.failed
        self._failed |= failed
        if crowded is not None:
            raise crowded
        if failed:
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
        if not all(isinstance(side, int) and 1 <= side <= 16384 for side in (width, height)):
            raise OptionError(f"width and height must be integers in [1, 16384], got {width!r} and {height!r}")
        if path is not None and Path(path).suffix.lower() not in _PICTURES:
            raise OptionError(f"path must end in {', '.join(_PICTURES)}, got {str(path)!r}")
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
    ) -> SceneViewer:
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
        self._viewer = scene_viewer()(self, port, host, env, open_browser, native)
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
        parts = [part for part in self._parts.values() if type(part).on_reset is not SceneModule.on_reset]
        written = [part.on_reset(envs) is not False for part in parts] if call == "reset" else []
        if any(written):
            failed |= world.forward(envs)
        self._after_restart(envs, failed)

    def _note_restart(self, envs: Envs, state: Callable[[], torch.Tensor] | None) -> None:
        if self.world.is_gpu:  # looking at envs and states would wait for the device
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

    def retrace(self, before: np.ndarray | None, after: np.ndarray, step: int) -> None:
        """Be as after a recorded step, and sense that: for replay of sensors that remember, step by step.

        On a GPU sensing is part of the engine's step, so there the state is set, and sensors start afresh from it.

        Args:
            before: the states before the last substep, (B, n_state); None where they are not known.
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
        """Steps that the sensors have made since ``build()``: with the seed, all that randomness depends on.

        It can be set, on the CPU, to have other noise; reset all envs after it, for delays and histories go by it too.
        """
        world = self._world or self._unbuilt("step_count")
        return world.step_count if self._sensing is None else self._sensing.step_count

    @step_count.setter
    def step_count(self, count: int) -> None:
        if self._sensing is None:
            self.world.step_count = count
        elif not self.world.is_gpu:  # a graph's clock cannot be set
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


def _together(first: CapacityError | None, then: CapacityError) -> CapacityError:
    """Losses of several steps as one error."""
    if first is None:
        return then
    return CapacityError(str(then), {*first.envs, *then.envs}, first.failed | then.failed)
