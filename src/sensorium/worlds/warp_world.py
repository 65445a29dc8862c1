"""The GPU engine: MuJoCo Warp, with physics and sensors of one step in one CUDA graph.

``scene.step()`` replays the graph and looks at nothing on the device. What must not pass in silence (an env that
diverged, contacts for which there was no room) is noted on the device, told to the host by the graph itself, and raised
by the next step that finds it told: a few steps late, without ever waiting (``warp_watch.py``). ``check()`` waits.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cached_property
from typing import Any

import mujoco
import numpy as np
import torch
import warp as wp

from sensorium.worlds import warp_init as warp_init  # before MuJoCo Warp, which would start Warp itself

import mujoco_warp as mjw  # isort: skip

from sensorium.errors import DeviceError, ModelError, OptionError, did_you_mean
from sensorium.worlds import warp_rays
from sensorium.worlds._mujoco_warp import fields_per_env, vec6
from sensorium.worlds.capacity import capacities
from sensorium.worlds.changes import Changes
from sensorium.worlds.device import is_out_of_memory, too_little_memory, upload
from sensorium.worlds.lights import Light
from sensorium.worlds.model_fields import DERIVED
from sensorium.worlds.rays import RayBatch
from sensorium.worlds.warp_graph import Graph
from sensorium.worlds.warp_watch import Watch
from sensorium.worlds.world import Envs, check_mask, env_index

_SENSOR = int(mujoco.mjtDisableBit.mjDSBL_SENSOR)
_FLUID = ("opt.density", "opt.viscosity", "opt.wind")
"""Options whose forces the engine leaves out altogether where they are zero in the model."""

# the full physics state, in the order of MuJoCo's mjSTATE_INTEGRATION
_STATE = (
    "time",
    "qpos",
    "qvel",
    "act",
    "history",
    "qacc_warmstart",
    "ctrl",
    "qfrc_applied",
    "xfrc_applied",
    "eq_active",
    "mocap_pos",
    "mocap_quat",
    "userdata",
    "plastic",
)


@wp.kernel(enable_backward=False)
def _count_down(left: wp.array(dtype=int)):
    """One substep less to do."""
    left[0] = left[0] - 1


class WarpWorld:
    """B envs on a CUDA device. See :class:`sensorium.worlds.World` for the contract.

    Tensors are float32. Physics is MuJoCo Warp's: close to MuJoCo's, not the same to the bit, nor from run to run.

    Args:
        model: the compiled model.
        n_envs: B.
        substeps: physics steps in one step.
        exact_sensing: bring positions and velocities up to date after each step.
        device: a CUDA device, "cuda" or "cuda:1".
        nconmax: contacts to allocate per env; None chooses from the model.
        njmax: constraint rows to allocate per env; None chooses from the model.
    """

    is_gpu = True
    can_retrace = False
    before: np.ndarray | None = None

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
        self.expanded: dict[str, torch.Tensor] = {}
        self.step_count = 0
        self._exact = exact_sensing
        self._dt = model.opt.timestep * substeps
        chosen = capacities(model)
        self.nconmax = chosen[0] if nconmax is None else nconmax
        self.njmax = chosen[1] if njmax is None else njmax
        self._wp_device = wp.device_from_torch(self.device)
        self._on_step: Callable[[], None] = _nothing
        self._after_step: Callable[[], None] = _nothing
        self._on_restart: Callable[[torch.Tensor], None] = _nothing
        self._graphs: dict[str, Graph] = {}
        self._bound: dict[str, torch.Tensor] = {}
        # What is allocated in a capture must stay the graphs' own. torch's graph sees to that only until the engine's
        # first conditional node, where Warp ends one capture and begins another.
        self._pool = torch.cuda.MemPool()
        try:
            with self._stream():
                self._allocate(model)
                for body in (lambda: self._restart_body(True), lambda: self._restart_body(False)):
                    body()  # compiles the kernels
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
        # sensor data by columns, so that the sensor kernels read neighbouring envs from neighbouring addresses
        self.sensed = torch.zeros(max(model.nsensordata, 1), self.n_envs, device=self.device)
        if model.nsensordata:
            self.d.sensordata = wp.from_torch(self.sensed.T, dtype=wp.float32)
        self.mask = torch.ones(self.n_envs, dtype=torch.bool, device=self.device)
        self._left = wp.zeros(1, dtype=int)
        self._always = wp.ones(1, dtype=int)
        room = {"nconmax": self.nconmax, "njmax": self.njmax}
        self._watch = Watch(self.m, self.d, self._dt, room)
        self._told, self.steps = self._watch.told, self._watch.steps
        self._mask_wp = wp.from_torch(self.mask)

    # -- graphs -------------------------------------------------------------------------------------------------------

    def attach(
        self,
        on_step: Callable[[], None],
        after_step: Callable[[], None],
        on_restart: Callable[[torch.Tensor], None],
    ) -> None:
        """Have ``on_step()`` and then ``after_step()`` run after the physics of every step, and ``on_restart(mask)``
        when envs are restarted.

        All are captured in the graphs, so they must launch the same kernels each time and look at no value. What might
        fail to be captured belongs into ``after_step``: torch does not survive a failure within a conditional node.
        """
        self._on_step, self._after_step, self._on_restart = on_step, after_step, on_restart
        self._graphs.clear()

    def run(self, body: Callable[[], None]) -> None:
        """Run ``body`` outside any graph, on the stream that torch uses now."""
        with self._stream():
            body()

    def capture(self) -> None:
        """Capture all graphs now, rather than at first use."""
        for name in ("step", "reset", "forward"):
            self._graph(name)

    def _body(self, name: str) -> Callable[[], None]:
        if name == "step":
            return self._step_body
        return lambda: self._restart_body(name == "reset")

    def _graph(self, name: str) -> Graph:
        if name not in self._graphs:
            self._graphs[name] = Graph(self._body(name), self.device, self._pool)
        return self._graphs[name]

    @contextmanager
    def _stream(self) -> Iterator[None]:
        with wp.ScopedDevice(self._wp_device):
            stream = wp.stream_from_torch(torch.cuda.current_stream(self.device))
            with wp.ScopedStream(stream, sync_enter=False):
                yield

    # -- what the graphs hold -----------------------------------------------------------------------------------------

    def _step_body(self) -> None:
        # in a conditional node, which the device unfolds: the host then launches two nodes instead of a hundred
        wp.capture_if(self._always, self._whole_body)
        self._after_step()

    def _whole_body(self) -> None:
        if self.substeps > 1:
            # a loop on the device, so that launching does not take longer with every substep
            self._left.fill_(self.substeps - 1)
            wp.capture_while(self._left, self._substep_body)
        mjw.step(self.m, self.d)
        self._watch.look()  # before sensors see what diverged
        if self._exact:
            self._velocity_stage()
        self._on_step()

    def _substep_body(self) -> None:
        """A substep that is not the last one; nobody would see the samples of its sensors."""
        flags = self.m.opt.disableflags
        self.m.opt.disableflags = flags | _SENSOR
        mjw.step(self.m, self.d)
        self.m.opt.disableflags = flags
        wp.launch(_count_down, dim=1, inputs=[self._left])

    def _velocity_stage(self) -> None:
        """Positions, velocities and their sensors at the new state; accelerations and forces stay those that acted."""
        mjw.fwd_kinematics(self.m, self.d)
        mjw.transmission(self.m, self.d)
        mjw.fwd_velocity(self.m, self.d)
        mjw.sensor_pos(self.m, self.d)
        mjw.sensor_vel(self.m, self.d)

    def _restart_body(self, fresh: bool) -> None:
        self._watch.keep()
        if fresh:
            mjw.reset_data(self.m, self.d, self._mask_wp)
        mjw.forward(self.m, self.d)
        self._watch.restart(self._mask_wp, fresh)
        self._on_restart(self.mask)

    # -- the World protocol -------------------------------------------------------------------------------------------

    @property
    def time(self) -> torch.Tensor:
        return self.bind("time")

    def bind(self, field: str) -> torch.Tensor:
        if field == "sensordata":
            return self.sensed.T[:, : self.model.nsensordata]
        if field not in self._bound:
            array = getattr(self.d, field, None)
            if not isinstance(array, wp.array):
                names = [name for name, value in vars(self.d).items() if isinstance(value, wp.array)]
                raise OptionError(f"the engine has no field {field!r}{did_you_mean(field, names)}")
            tensor = wp.to_torch(array)
            self._bound[field] = tensor.flatten(-2) if array.dtype is wp.mat33 else tensor  # 9 numbers, as in MuJoCo
        return self._bound[field]

    def expand(self, field: str) -> torch.Tensor:
        owner = self.m.opt if field.startswith("opt.") else self.m
        name = field.removeprefix("opt.")
        many = fields_per_env(owner)
        if field == "opt.timestep":
            raise OptionError("opt.timestep cannot differ per env on a GPU, where all envs step together")
        if name not in many:
            raise OptionError(
                f"the GPU engine has no model field {field!r} that can differ per env{did_you_mean(name, many)}"
            )
        array = getattr(owner, name)
        if field not in self.expanded and array.shape[0] != self.n_envs:
            one = wp.to_torch(array)
            array = wp.from_torch(one[:1].expand(self.n_envs, *one.shape[1:]).clone(), dtype=array.dtype)
            setattr(owner, name, array)
            self._graphs.clear()
        if field in _FLUID and not self.m.has_fluid:
            self.m.has_fluid = True
            self._graphs.clear()
        values = wp.to_torch(array)
        shape = np.shape(getattr(self.model.opt if owner is self.m.opt else self.model, name, values[0]))
        fits = values.numel() == self.n_envs * math.prod(shape)  # a matrix is 9 numbers there
        self.expanded[field] = values.view(self.n_envs, *shape) if fits else values
        return self.expanded[field]

    def update_constants(self, envs: Envs = None) -> None:
        if self.expanded:
            for field in ("eq_data", *DERIVED):  # else they would be those of one env in all
                self.expand(field)
        self.run(lambda: mjw.set_const(self.m, self.d))

    def step(self) -> dict[int, str]:
        try:
            graph = self._graphs["step"]
        except KeyError:
            graph = self._graph("step")
        graph.launch()
        self.step_count += 1
        if self._exact:
            self.changes.mark()
        else:
            self.changes.write()
        return self._watch.report() if self._told[0] else {}

    def keep_before(self, keep: bool) -> None:
        """Do nothing: the substeps of a step are inside one CUDA graph."""

    def check(self) -> dict[int, str]:
        """Wait for the device, and return env -> message of what failed and was not reported yet."""
        torch.cuda.synchronize(self.device)
        return self._watch.report() if self._told[0] else {}

    def forward(self, envs: Envs = None) -> dict[int, str]:
        self._select(envs)
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
        """Put ``envs`` into the mask, without looking at them where they are on the device already."""
        if envs is None:
            self.mask.fill_(True)
        elif isinstance(envs, torch.Tensor) and envs.device.type != "cpu" and envs.dtype == torch.bool:
            self.mask.copy_(check_mask(envs, self.n_envs))
        else:
            index = env_index(envs, self.n_envs, self.device)
            assert index is not None
            self.mask.fill_(False)
            self.mask.index_fill_(0, index, True)

    def _state_parts(self) -> list[torch.Tensor]:
        parts = [self.bind(name) for name in _STATE if isinstance(getattr(self.d, name, None), wp.array)]
        return [part for part in parts if part.numel()]

    def get_state(self) -> torch.Tensor:
        return torch.cat([part.reshape(self.n_envs, -1).float() for part in self._state_parts()], dim=1)

    def set_state(self, state: torch.Tensor, envs: Envs = None) -> dict[int, str]:
        given = torch.as_tensor(state, dtype=torch.float32)
        index = env_index(envs, self.n_envs, self.device)
        rows = self.n_envs if index is None else len(index)
        width = sum(part[0].numel() for part in self._state_parts())
        if given.shape != (rows, width):
            raise OptionError(f"state must have shape {(rows, width)} for these envs, got {tuple(given.shape)}")
        if given.device.type == "cpu" and not bool(given.isfinite().all()):
            raise OptionError("state must be finite, got NaN or infinity")
        values = upload(given, self.device)
        self._select(envs)
        if index is None:
            full = values
        else:
            full = self.get_state()
            full[index] = values
        start = 0
        for part in self._state_parts():
            count = part[0].numel()
            part.copy_(full[:, start : start + count].reshape(part.shape))
            start += count
        self._graph("forward").launch()
        self.changes.mark(envs)
        return {}

    def rays(self, origins: Any, directions: Any, **options: Any) -> tuple[torch.Tensor, ...]:
        points, vectors = (
            torch.as_tensor(given, device=self.device, dtype=torch.float32) for given in (origins, directions)
        )
        shape = torch.broadcast_shapes(points.shape, vectors.shape, (self.n_envs, 1, 3))
        length = vectors.norm(dim=-1, keepdim=True)  # MuJoCo Warp's triangles want unit directions
        points, vectors = (tensor.expand(shape).contiguous() for tensor in (points, vectors / length))
        distance, normal = torch.zeros(shape[:2], device=self.device), torch.zeros(shape, device=self.device)
        geom = torch.zeros(shape[:2], dtype=torch.int32, device=self.device)
        exclude = torch.as_tensor(options.pop("bodyexclude", -1), dtype=torch.int32, device=self.device)
        exclude = exclude.expand(shape[1]).contiguous()
        group, static = options.pop("geomgroup", None), bool(options.pop("flg_static", True))
        groups = vec6(*([-1] * 6 if group is None else [int(g) for g in group]))
        asked = options.pop("normal", False)
        if options:
            raise OptionError(f"rays(): there is no option {next(iter(options))!r} on the GPU")

        def cast() -> None:
            inputs = [wp.from_torch(tensor, dtype=wp.vec3) for tensor in (points, vectors)]
            outputs = [wp.from_torch(distance), wp.from_torch(geom), wp.from_torch(normal, dtype=wp.vec3)]
            mjw.rays(self.m, self.d, *inputs, groups, static, wp.from_torch(exclude), *outputs)

        self.run(cast)
        distance = torch.where(distance < 0, distance, distance / length[..., 0])
        return (distance, geom, normal) if asked else (distance, geom)

    def cast(self, rays: RayBatch, envs: torch.Tensor) -> None:
        """Cast rays in the envs of a mask (B,), by the geoms as they are now. Can be captured after its first call."""
        warp_rays.cast(self.m, self._meshes, self.d.geom_xpos, self.d.geom_xmat, rays, envs)

    @cached_property
    def _meshes(self) -> warp_rays.MeshTrees:
        return warp_rays.MeshTrees(self.model, self._wp_device)

    def close(self) -> None:
        """Drop graphs and tensors."""
        self._graphs.clear()
        self._bound.clear()
        self._on_step = self._after_step = self._on_restart = _nothing


def _nothing(*_: Any) -> None:
    """What runs in a graph while nobody is attached."""


def check_cuda(device: str) -> torch.device:
    """The CUDA device of that name, or a DeviceError that says what to change."""
    found = torch.device(device)
    index = torch.cuda.current_device() if found.index is None else found.index
    if index >= torch.cuda.device_count():
        raise DeviceError(f"device={device!r} does not exist: there are {torch.cuda.device_count()} CUDA devices")
    if wp.get_cuda_device_count() == 0:
        raise DeviceError(
            f"device={device!r}: torch finds a GPU, but Warp finds none; install a build of warp-lang with CUDA, or "
            "build with device='cpu'"
        )
    if not wp.is_conditional_graph_supported():
        raise DeviceError(
            f"device={device!r}: the NVIDIA driver is too old (it supports CUDA {wp.get_cuda_driver_version()}); "
            "install one for CUDA 12.4 or newer, or build with device='cpu'"
        )
    return torch.device("cuda", index)
