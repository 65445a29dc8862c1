"""The GPU engine: MuJoCo Warp, with the physics and sensors of a step in one CUDA graph.

``step()`` replays the graph and reads nothing from the device. Failures (an env that diverged, contacts that exceed the
capacity) are recorded on the device. The graph itself tells the host, and the next ``step()`` that sees it raises: a
few steps late, but without waiting for the device (``warp_watch.py``). ``check()`` waits.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cached_property, partial
from typing import NoReturn

import mujoco
import numpy as np
import torch
import warp as wp

from sensorium.worlds import warp_init as warp_init  # before MuJoCo Warp, which would start Warp itself

import mujoco_warp as mjw  # isort: skip

from sensorium.errors import ModelError, OptionError, did_you_mean
from sensorium.worlds import warp_rays
from sensorium.worlds._mujoco_warp import fields_per_env
from sensorium.worlds.capacity import capacities
from sensorium.worlds.changes import Changes
from sensorium.worlds.device import is_out_of_memory, too_little_memory
from sensorium.worlds.environments import EnvironmentMap
from sensorium.worlds.lights import Light
from sensorium.worlds.model_fields import DERIVED, check_field, check_simple_bodies
from sensorium.worlds.partial_forward import PartialForward
from sensorium.worlds.rays import RayBatch
from sensorium.worlds.warp_device import check_cuda
from sensorium.worlds.warp_graph import Graph
from sensorium.worlds.warp_launches import WarpLaunches
from sensorium.worlds.warp_state import WarpState
from sensorium.worlds.warp_watch import Watch
from sensorium.worlds.world import ArrayLike, Envs, check_mask, env_index

_FLUID = ("opt.density", "opt.viscosity", "opt.wind")
"""Options whose forces the engine skips if they are zero in the model."""


class WarpWorld(WarpLaunches, WarpState):
    """B envs on a CUDA device; implements :class:`sensorium.worlds.GpuWorld`.

    Tensors are float32. The physics is MuJoCo Warp's: close to MuJoCo's, but not bit-identical to it, nor between runs.

    Args:
        model: the compiled model.
        n_envs: B, the number of envs.
        substeps: physics steps in one step.
        exact_sensing: update positions and velocities to time t after each step.
        device: a CUDA device, "cuda" or "cuda:1".
        nconmax: contacts to allocate per env; None chooses from the model.
        njmax: constraint rows to allocate per env; None chooses from the model.

    Raises:
        DeviceError: the device does not exist, its driver is too old, or its memory is too small.
        ModelError: MuJoCo Warp does not support the model.
    """

    is_gpu = True
    can_retrace = False

    def __init__(
        self,
        model: mujoco.MjModel,
        n_envs: int,
        *,
        substeps: int = 1,
        exact_sensing: bool = True,
        device: str = "cuda",
        nconmax: int | None = None,
        njmax: int | None = None,
    ) -> None:
        self.model = model
        self.n_envs = n_envs
        self.substeps = substeps
        self.device = check_cuda(device)
        self.changes = Changes(n_envs)
        self.lights: tuple[Light, ...] = ()
        self.environments: tuple[EnvironmentMap, ...] = ()
        self.expanded: dict[str, torch.Tensor] = {}
        self.before: np.ndarray | None = None
        self.step_count = 0
        self._exact = exact_sensing
        self._dt = model.opt.timestep * substeps
        chosen = capacities(model)
        self.nconmax = chosen[0] if nconmax is None else nconmax
        self.njmax = chosen[1] if njmax is None else njmax
        self._wp_device = wp.device_from_torch(self.device)
        self._on_step: Callable[[], None] = _nothing
        self._after_step: Callable[[], None] = _nothing
        self._on_begin: Callable[[torch.Tensor], None] = _nothing
        self._on_restart: Callable[[torch.Tensor], None] = _nothing
        self._after_restart: Callable[[torch.Tensor], None] = _nothing
        self._on_substep: Callable[[], None] | None = None
        self._delays_substeps = False
        self._write_start: Callable[[torch.Tensor], None] | None = None
        self._graphs: dict[str, Graph] = {}
        self._loops: dict[str, Callable[[], None]] = {}
        self._partial_forward: PartialForward | None = None
        self._bound: dict[str, torch.Tensor] = {}
        # Memory allocated in a capture must belong to the graphs. torch's graph ensures that only until the engine's
        # first conditional node, where Warp ends one capture and begins another.
        self._pool = torch.cuda.MemPool()
        try:
            with self._stream():
                self._allocate(model)
                mjw.forward(self.m, self.d)  # this and the following calls compile the kernels
                self._partial.select(self._mask_wp)
                self._partial.keep()
                self._partial.run(self._mask_wp)
                self._restart_body(True)
                self._restart_body(False)
        except (RuntimeError, MemoryError) as error:
            if not is_out_of_memory(error):
                raise
            what = f"n_envs={n_envs} with nconmax={self.nconmax} and njmax={self.njmax}"
            raise too_little_memory(self.device, what, "Lower n_envs, nconmax or njmax") from error

    def _allocate(self, model: mujoco.MjModel) -> None:
        try:
            self.m = mjw.put_model(model)
        except (NotImplementedError, ValueError) as error:
            raise ModelError(f"MuJoCo Warp cannot run this model: {error}; use device='cpu'") from error
        self.m.opt.warn_overflow = False
        self.d = mjw.make_data(model, nworld=self.n_envs, nconmax=self.nconmax, njmax=self.njmax)
        # sensor data by columns: the sensor kernels then read neighbouring envs from neighbouring addresses
        self.sensed = torch.zeros(max(model.nsensordata, 1), self.n_envs, device=self.device)
        if model.nsensordata:
            self.d.sensordata = wp.from_torch(self.sensed.T, dtype=wp.float32)
        self.mask = torch.ones(self.n_envs, dtype=torch.bool, device=self.device)
        self._left = wp.zeros(1, dtype=int)
        self._always = wp.ones(1, dtype=int)
        room = {"nconmax": self.nconmax, "njmax": self.njmax}
        self._watch = Watch(self.m, self.d, self._dt, room)
        self._status, self.steps = self._watch.status, self._watch.steps
        self._mask_wp = wp.from_torch(self.mask)

    # -- graphs -------------------------------------------------------------------------------------------------------

    def attach(
        self,
        on_step: Callable[[], None],
        after_step: Callable[[], None],
        on_begin: Callable[[torch.Tensor], None],
        on_restart: Callable[[torch.Tensor], None],
        after_restart: Callable[[torch.Tensor], None],
        on_substep: Callable[[], None] | None = None,
        delays_substeps: bool = False,
    ) -> None:
        """Run callbacks in the graphs.

        The graphs capture them, so they must launch the same kernels each time and read no value from the device.

        Args:
            on_step: runs after the physics of every step.
            after_step: runs after ``on_step``, outside conditional nodes. Launches whose capture may fail belong here:
                torch does not recover from a failure within a conditional node.
            on_begin: runs when envs were reset, if any, before their forward pass; takes their mask, (B,) bool.
            on_restart: runs after envs were restarted, if any; takes their mask, (B,) bool.
            after_restart: runs after ``on_restart``, even if no env was restarted, outside conditional nodes.
            on_substep: runs after every substep but the last. Without it, the engine's sensors are off there.
            delays_substeps: whether ``on_substep`` may run after the substep that follows, which is faster. It then
                sees :attr:`substep_sensed` as it should be, but not the other fields of the engine.
        """
        self._on_step, self._after_step = on_step, after_step
        self._on_begin, self._on_restart, self._after_restart = on_begin, on_restart, after_restart
        self._on_substep, self._delays_substeps = on_substep, delays_substeps and self._exact
        self._graphs.clear()

    @property
    def on_reset(self) -> Callable[[torch.Tensor], None] | None:
        return self._write_start

    @on_reset.setter
    def on_reset(self, function: Callable[[torch.Tensor], None] | None) -> None:
        self._write_start = function
        for name in ("reset", *self._loops):  # the graphs that contain it
            self._graphs.pop(name, None)

    def run(self, body: Callable[[], None]) -> None:
        """Run ``body`` outside any graph, on the stream that torch currently uses."""
        with self._stream():
            body()

    def record(self, body: Callable[[], None], if_any: torch.Tensor | None = None) -> Callable[[], None]:
        """Capture ``body``, which has run once before, and return a function that replays it."""
        if if_any is None:
            return Graph(body, self.device, self._pool).launch
        mask, condition = if_any, torch.zeros(1, dtype=torch.int32, device=self.device)
        flag = wp.from_torch(condition)

        def run_if_any() -> None:
            condition.copy_(mask.any())
            wp.capture_if(flag, body)

        condition.copy_(mask.any())  # loads its kernels
        return partial(_launch, Graph(run_if_any, self.device, self._pool), mask, condition)

    def record_loop(
        self, before: Callable[[], None], end: Callable[[], None], ended: torch.Tensor, after: Callable[[], None]
    ) -> Callable[[], dict[int, str]]:
        for role, body in (("before", before), ("end", end), ("after", after)):
            try:
                self.record(body)  # here, since torch does not recover from a failure within a conditional node
            except RuntimeError as error:
                if is_out_of_memory(error):
                    raise
                why = str(error).partition("\n")[0]
                raise OptionError(
                    f"Loop: {role}() cannot be captured in a CUDA graph ({why}). It must make the same operations in "
                    "each call and read no value from the device: no 'if' on a tensor, .item() or boolean indexing"
                ) from error
        name = f"loop {len(self._loops)}"
        self._loops[name] = lambda: self._loop_body(before, end, ended, after)
        self._graph(name)
        return lambda: self._step_by(name)

    def capture(self) -> None:
        """Capture all graphs now rather than at first use."""
        for name in ("step", "reset", "forward"):
            self._graph(name)

    def _body(self, name: str) -> Callable[[], None]:
        if name in ("reset", "forward"):
            return lambda: self._restart_body(name == "reset")
        return self._step_body if name == "step" else self._loops[name]

    def _graph(self, name: str) -> Graph:
        if name not in self._graphs:
            self._partial  # noqa: B018  # allocates before the capture
            self._graphs[name] = Graph(self._body(name), self.device, self._pool)
        return self._graphs[name]

    @contextmanager
    def _stream(self) -> Iterator[None]:
        with wp.ScopedDevice(self._wp_device):
            stream = wp.stream_from_torch(torch.cuda.current_stream(self.device))
            with wp.ScopedStream(stream, sync_enter=False):
                yield

    # -- the World protocol -------------------------------------------------------------------------------------------

    @property
    def substep_sensed(self) -> torch.Tensor:
        return self._substep_data.shown

    @property
    def time(self) -> torch.Tensor:
        return self.bind("time")

    @property
    def diverged(self) -> torch.Tensor:
        return self._watch.held

    def bind(self, field: str) -> torch.Tensor:
        if field == "sensordata":
            return self.sensed.T[:, : self.model.nsensordata]
        if field not in self._bound:
            array = getattr(self.d, field, None)
            if not isinstance(array, wp.array):
                names = [name for name, value in vars(self.d).items() if isinstance(value, wp.array)]
                raise OptionError(f"bind: the GPU engine has no field {field!r}{did_you_mean(field, names)}")
            tensor = wp.to_torch(array)
            self._bound[field] = tensor.flatten(-2) if array.dtype is wp.mat33 else tensor  # (9,), as in MuJoCo
        return self._bound[field]

    def expand(self, field: str) -> torch.Tensor:
        check_field(field)
        owner = self.m.opt if field.startswith("opt.") else self.m
        name = field.removeprefix("opt.")
        many = fields_per_env(owner)
        if name not in many:
            names = [f"opt.{each}" for each in many] if owner is self.m.opt else many
            hint = did_you_mean(field, names)
            raise OptionError(f"expand: the GPU engine has no model field {field!r} that can differ per env{hint}")
        array = getattr(owner, name)
        if field not in self.expanded and array.shape[0] != self.n_envs:
            one = wp.to_torch(array)
            array = wp.from_torch(one[:1].expand(self.n_envs, *one.shape[1:]).clone(), dtype=array.dtype)
            setattr(owner, name, array)
            self._graphs.clear()
            self._partial_forward = None
        if field in _FLUID and not self.m.has_fluid:
            self.m.has_fluid = True
            self._graphs.clear()
            self._partial_forward = None
        values = wp.to_torch(array)
        shape = np.shape(getattr(self.model.opt if owner is self.m.opt else self.model, name, values[0]))
        fits = values.numel() == self.n_envs * math.prod(shape)  # Warp has matrices where MuJoCo has 9 numbers
        self.expanded[field] = values.view(self.n_envs, *shape) if fits else values
        return self.expanded[field]

    def update_constants(self, envs: Envs = None) -> None:
        check_simple_bodies(self)
        if self.expanded:
            for field in ("eq_data", *DERIVED):  # otherwise all envs would share the values of one
                self.expand(field)
        self.run(lambda: mjw.set_const(self.m, self.d))

    def step(self) -> dict[int, str]:
        return self._step_by("step")

    def _step_by(self, name: str) -> dict[int, str]:
        """Launch the graph of a step, or of a loop."""
        try:
            graph = self._graphs[name]
        except KeyError:
            graph = self._graph(name)
        graph.launch()
        self.step_count += 1
        if self._exact:
            self.changes.mark()
        else:
            self.changes.write()
        return self._watch.report() if self._status[0] else {}

    def check(self) -> dict[int, str]:
        """Wait for the device and return env -> message of the failures that were not reported yet."""
        torch.cuda.synchronize(self.device)
        return self._watch.report() if self._status[0] else {}

    def forward(self, envs: Envs = None) -> dict[int, str]:
        self._select(envs)
        return self._restart_from_state(envs)

    def _restart_from_state(self, envs: Envs) -> dict[int, str]:
        self._graph("forward").launch()
        self.changes.mark(envs)
        return {}

    def settle(self) -> None:
        if self.changes.unsettled:
            self.changes.take_unsettled()
            self.run(lambda: mjw.fwd_kinematics(self.m, self.d))

    def reset(self, envs: Envs = None) -> dict[int, str]:
        self._select(envs)
        self._graph("reset").launch()
        self.changes.mark(envs)
        return {}

    def _select(self, envs: Envs) -> None:
        """Write ``envs`` into the mask; a tensor on the device is not read by the host."""
        if envs is None:
            self.mask.fill_(True)
        elif isinstance(envs, torch.Tensor) and envs.device.type != "cpu" and envs.dtype == torch.bool:
            self.mask.copy_(check_mask(envs, self.n_envs))
        else:
            index = env_index(envs, self.n_envs, self.device)
            assert index is not None
            self.mask.fill_(False)
            self.mask.index_fill_(0, index, True)

    def hold(self, envs: Envs) -> NoReturn:
        raise OptionError(f"hold needs the CPU engine: on {self.device} all envs step together")

    def keep_before(self, keep: bool) -> None:
        pass

    def retrace(self, before: np.ndarray | None, after: np.ndarray) -> NoReturn:
        raise OptionError("retrace needs the CPU engine: on a GPU, set_state() sets the recorded states")

    def rays(self, origins: ArrayLike, directions: ArrayLike, **options: object) -> tuple[torch.Tensor, ...]:
        with self._stream():
            return warp_rays.query(self.m, self.d, self.device, origins, directions, **options)

    def cast(self, rays: RayBatch, envs: torch.Tensor) -> None:
        """Cast rays in the envs of a mask (B,) against the current geometry. Can be captured after its first call."""
        warp_rays.cast(self.m, self._meshes, self.d.geom_xpos, self.d.geom_xmat, rays, envs)

    @cached_property
    def _meshes(self) -> warp_rays.MeshTrees:
        return warp_rays.MeshTrees(self.model, self._wp_device)

    def close(self) -> None:
        """Free graphs and tensors."""
        self._graphs.clear()
        self._loops.clear()
        self._bound.clear()
        self._on_step = self._after_step = _nothing
        self._on_begin = self._on_restart = self._after_restart = _nothing
        self._on_substep = self._write_start = self._partial_forward = None


def _nothing(*_: object) -> None:
    """Default callback of :meth:`WarpWorld.attach`."""


def _launch(graph: Graph, *in_use: torch.Tensor) -> None:
    """Replay a graph that reads and writes tensors which, apart from this call's arguments, nothing keeps."""
    graph.launch()
