"""The ``World`` protocol: what the layers above need from a physics engine."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Protocol, TypeAlias

import mujoco
import numpy as np
import numpy.typing as npt
import torch

from sensorium._arguments import as_array, is_masked
from sensorium._tensors import host_array
from sensorium.errors import OptionError
from sensorium.worlds.device import upload
from sensorium.worlds.rays import RayBatch

if TYPE_CHECKING:
    import mujoco_warp as mjw

    from sensorium.worlds.changes import Changes
    from sensorium.worlds.environments import EnvironmentMap
    from sensorium.worlds.free_links import FreeLinkSensors
    from sensorium.worlds.lights import Light

Envs: TypeAlias = torch.Tensor | np.ndarray | Sequence[int] | int | None
"""A choice of envs: ids, a boolean mask of shape (B,), one id, or None for all."""
ArrayLike: TypeAlias = torch.Tensor | npt.ArrayLike
"""Numbers: a tensor, an array, nested sequences, or one number."""


class World(Protocol):
    """B copies of one compiled model, stepped together.

    :meth:`bind` returns live tensors: their content changes with every call, their address never does. Methods that
    return ``dict[int, str]`` return env -> message of the envs whose physics failed in that call.
    """

    model: mujoco.MjModel
    n_envs: int
    device: torch.device
    substeps: int
    """Physics steps in one step."""
    is_gpu: bool
    """Whether this is the GPU engine. Its CUDA graphs then run the sensors (:class:`GpuWorld`); on the CPU the scene
    runs them after each call."""
    can_retrace: bool
    """Whether :meth:`retrace` reproduces a recorded step, and :attr:`before` is available for recording."""
    before: np.ndarray | None
    """States (B, n_state) before the last substep of the last step; None unless :meth:`keep_before` asked for them."""
    changes: Changes
    """Record of the envs that changed."""
    step_count: int
    """Steps since the world was created."""
    lights: tuple[Light, ...]
    """The lights that ``scene.add_light`` added. The model has them too."""
    environments: tuple[EnvironmentMap, ...]
    """The environment maps of the scene. The model has them as skyboxes."""
    expanded: dict[str, torch.Tensor]
    """Model field -> what :meth:`expand` gave for it."""
    on_reset: Callable[[torch.Tensor], None] | None
    """Called by :meth:`reset` with the mask (B,) bool of the envs, to write their initial state: after the state was
    set to that of the model, before what depends on it is computed. On a GPU it is captured: it must have run once
    before, and reads no value from the device."""

    @property
    def diverged(self) -> torch.Tensor:
        """Nonzero for envs whose physics failed and that wait for a reset, (B,), live."""
        ...

    @property
    def time(self) -> torch.Tensor:
        """Simulated seconds since the last reset of each env, (B,)."""
        ...

    def bind(self, field: str) -> torch.Tensor:
        """Return a live (B, ...) tensor of an MjData field.

        Bind forces and accelerations, such as "actuator_force" and "qacc", before the step whose values you need: on
        the CPU those of several envs are 0 until the next step.
        """
        ...

    def expand(self, field: str) -> torch.Tensor:
        """Return a live (B, ...) tensor of an MjModel field with its own values per env, for randomisation."""
        ...

    def update_constants(self, envs: Envs = None) -> None:
        """Recompute the constants that the engine derives from expanded fields, such as inverse weights."""
        ...

    def step(self) -> dict[int, str]:
        """Advance every env that has not failed by ``substeps`` physics steps."""
        ...

    def forward(self, envs: Envs = None) -> dict[int, str]:
        """Recompute everything that is derived from the state."""
        ...

    def settle(self) -> None:
        """Update the poses of envs whose positions were written since the last step. The physics state is unchanged."""
        ...

    def reset(self, envs: Envs = None) -> dict[int, str]:
        """Set envs to the initial state of the model and recompute what is derived from it."""
        ...

    def hold(self, envs: Envs) -> None:
        """Stop stepping envs until ``reset``, ``forward`` or ``set_state`` names them.

        Raises:
            OptionError: the engine steps all envs together.
        """
        ...

    def get_state(self) -> torch.Tensor:
        """Return a copy of the full physics state, (B, n_state)."""
        ...

    def set_state(self, state: torch.Tensor, envs: Envs = None) -> dict[int, str]:
        """Set the full physics state of envs, (n envs, n_state), and recompute what is derived from it."""
        ...

    def check_state(self, state: torch.Tensor, envs: Envs = None) -> None:
        """Raise OptionError if :meth:`set_state` would."""
        ...

    def checked_states(self, name: str, states: np.ndarray) -> np.ndarray:
        """Return states of all envs as (B, n_state) numbers, which may be NaN; ``name`` is for the message.

        Raises:
            OptionError: they have another shape, or are not real numbers.
        """
        ...

    def keep_before(self, keep: bool) -> None:
        """Start or stop keeping :attr:`before`. Does nothing unless :attr:`can_retrace`."""
        ...

    def retrace(self, before: np.ndarray | None, after: np.ndarray) -> None:
        """Reproduce a recorded step. Only if :attr:`can_retrace`.

        Args:
            before: the recorded :attr:`before` of that step. Without it, everything follows from ``after`` alone, as
                after :meth:`set_state`, and sensors that are captured at substeps sense ``after`` at each.
            after: the states after the step, (B, n_state).

        Raises:
            OptionError: the engine cannot retrace.
        """
        ...

    def rays(self, origins: ArrayLike, directions: ArrayLike, **options: object) -> tuple[torch.Tensor, ...]:
        """Cast rays in every env.

        Args:
            origins: (n, 3) or (B, n, 3) m, world frame.
            directions: (n, 3) or (B, n, 3), world frame.
            **options: ``bodyexclude``, ``geomgroup`` and ``flg_static``, as in ``mujoco.mj_ray``; ``normal=True`` to
                return normals too; on the CPU also ``ids``, the envs to cast in.

        Returns:
            Distances (B, n) in lengths of ``directions``, -1 without a hit; geom ids (B, n), -1 without a hit; and with
            ``normal=True``, the surface normals (B, n, 3).
        """
        ...

    def check(self) -> dict[int, str]:
        """Wait for the device and return the failures that were not reported yet."""
        ...

    def close(self) -> None:
        """Free the memory and threads of the engine."""
        ...


class CpuWorld(World, Protocol):
    """Attributes of the CPU engine beyond :class:`World`, for sensors on the CPU."""

    threads: int
    """Threads of the physics pool."""
    on_substep: Callable[[], None] | None
    """Called after every substep but the last of a step."""
    free_links: FreeLinkSensors
    """Sensors that are computed without the engine."""


class GpuWorld(World, Protocol):
    """Attributes and methods of the GPU engine beyond :class:`World`, for sensors that run in its CUDA graphs."""

    m: mjw.Model
    """MuJoCo Warp's model."""
    d: mjw.Data
    """MuJoCo Warp's data."""
    steps: torch.Tensor
    """Steps since the last reset of each env, (B,) int32."""
    sensed: torch.Tensor
    """Data of the engine's sensors by columns, (max(nsensordata, 1), B) float32."""
    mask: torch.Tensor
    """The envs of the current restart, (B,) bool."""

    @property
    def substep_sensed(self) -> torch.Tensor:
        """Data of the engine's sensors at the substep that is sensed, (max(nsensordata, 1), B) float32."""
        ...

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
        """Capture callbacks in the graphs: two after the physics of each step, three that take :attr:`mask`, and one
        after every substep but the last."""
        ...

    def run(self, body: Callable[[], None]) -> None:
        """Run ``body`` outside any graph, on the stream that torch currently uses."""
        ...

    def record(self, body: Callable[[], None], if_any: torch.Tensor | None = None) -> Callable[[], None]:
        """Capture ``body``, which has run once before, and return a function that replays it.

        Args:
            body: launches work on the device.
            if_any: a mask; ``body`` runs only if some of it is True. Default: always.
        """
        ...

    def record_loop(
        self, before: Callable[[], None], end: Callable[[], None], ended: torch.Tensor, after: Callable[[], None]
    ) -> Callable[[], dict[int, str]]:
        """Capture ``before``, a step, ``end``, the reset of the envs of ``ended`` (B,) and ``after`` as one graph.

        All have run once before. The function that is returned replays the graph, and returns what ``step()`` does.

        Raises:
            OptionError: a function cannot be captured.
        """
        ...

    def capture(self) -> None:
        """Capture all graphs now rather than at first use."""
        ...

    def cast(self, rays: RayBatch, envs: torch.Tensor) -> None:
        """Cast rays in the envs of a mask (B,) against the current geometry. Only launches kernels; never waits."""
        ...


def env_ids(envs: Envs, n_envs: int, name: str = "envs") -> np.ndarray | None:
    """Return ``envs`` as sorted unique int32 ids, or None for all.

    Args:
        envs: the choice.
        n_envs: B, the number of envs.
        name: name of the argument, for messages.

    Raises:
        OptionError: ``envs`` is neither integer ids in [0, n_envs) nor a boolean mask of shape (n_envs,).
    """
    if envs is None:
        return None
    try:
        ids = np.atleast_1d(envs.numpy(force=True) if isinstance(envs, torch.Tensor) else np.asarray(envs))
        if is_masked(envs):
            raise ValueError("it has masked elements")
    except (TypeError, ValueError, RuntimeError) as error:  # of tensors: types and devices that NumPy cannot read
        raise OptionError(f"{name} must be integer ids or a boolean mask, got {envs!r}") from error
    if ids.dtype == bool:
        if ids.shape != (n_envs,):
            raise OptionError(f"{name}: a boolean mask must have shape ({n_envs},), got {ids.shape}")
        return np.flatnonzero(ids).astype(np.int32)
    if ids.shape == (0,):
        return np.zeros(0, np.int32)
    if ids.ndim != 1 or ids.dtype.kind not in "iu":
        raise OptionError(f"{name} must be integer ids or a boolean mask, got {envs!r}")
    bad = ids[(ids < 0) | (ids >= n_envs)]
    if bad.size:
        raise OptionError(f"{name} must be in [0, {n_envs}), got {int(bad[0])}")
    return np.unique(ids).astype(np.int32)


def env_index(envs: Envs, n_envs: int, device: torch.device, name: str = "envs") -> torch.Tensor | None:
    """Return ``envs`` as an int64 index tensor in the given order, or None for all.

    Ids in a GPU tensor are not validated, since that would synchronise with the GPU. A mask in a GPU tensor is
    converted to ids, which does synchronise.

    Raises:
        OptionError: ``envs`` is neither integer ids in [0, n_envs) nor a boolean mask of shape (n_envs,).
    """
    if envs is None:
        return None
    if isinstance(envs, torch.Tensor) and envs.device.type != "cpu" and (envs.is_cuda or envs.device == device):
        if envs.dtype == torch.bool:
            return check_mask(envs, n_envs, name).nonzero().flatten()
        if envs.is_floating_point() or envs.is_complex() or envs.ndim > 1:
            raise OptionError(
                f"{name} must be integer ids or a boolean mask, got {envs.dtype} of shape {tuple(envs.shape)}"
            )
        return envs.flatten().to(torch.int64)
    checked = env_ids(envs, n_envs, name)
    given = np.atleast_1d(envs.numpy() if isinstance(envs, torch.Tensor) else np.asarray(envs))
    index = checked if given.dtype == bool else given
    return upload(torch.from_numpy(np.array(index, dtype=np.int64)), device)


def check_mask(mask: torch.Tensor, n_envs: int, name: str = "envs") -> torch.Tensor:
    """Return a boolean mask of envs; raise OptionError unless its shape is (n_envs,)."""
    if mask.shape != (n_envs,):
        raise OptionError(f"{name}: a boolean mask must have shape ({n_envs},), got {tuple(mask.shape)}")
    return mask


def kept(envs: Envs) -> Envs:
    """Return envs that stay the same while a reset uses them: a copy of arrays and tensors.

    A mask can be a view of readings or of a buffer, which the reset changes.
    """
    if isinstance(envs, torch.Tensor):
        return envs.clone()
    return envs.copy() if isinstance(envs, np.ndarray) else envs


def env_mask(envs: Envs, n_envs: int, device: torch.device, name: str = "envs") -> torch.Tensor:
    """Return ``envs`` as a boolean mask, (n_envs,). A mask in a tensor on the device is returned as it is.

    Raises:
        OptionError: ``envs`` is neither integer ids in [0, n_envs) nor a boolean mask of shape (n_envs,).
    """
    if isinstance(envs, torch.Tensor) and envs.dtype == torch.bool and envs.device == device:
        return check_mask(envs, n_envs, name)
    if device.type == "cpu":  # ids in a tensor on a GPU are read and validated too
        ids = env_ids(envs, n_envs, name)
        chosen = np.full(n_envs, ids is None)
        if ids is not None:
            chosen[ids] = True
        return torch.from_numpy(chosen)
    index = env_index(envs, n_envs, device, name)
    mask = torch.full((n_envs,), index is None, device=device)
    return mask if index is None else mask.index_fill_(0, index.to(device), True)


def real_states(name: str, states: object, shape: tuple[int, ...] | None) -> np.ndarray:
    """Return states as float64.

    Args:
        name: name of the argument, for messages.
        states: an array, a tensor, or nested sequences of numbers.
        shape: the shape that they must have; None for any.

    Raises:
        OptionError: they are not real numbers, or have another shape.
    """
    try:
        values = host_array(name, states) if isinstance(states, torch.Tensor) else as_array(states)
    except OptionError:
        raise
    except (ValueError, TypeError, RuntimeError):  # ragged, or a dtype that NumPy does not have
        values = np.asarray(None)
    if values.dtype.kind not in "iuf":
        raise OptionError(f"{name} must be an array of real numbers, as get_state() returns it, got {states!r:.80}")
    if shape is not None and values.shape != tuple(shape):
        raise OptionError(f"{name} must have shape {tuple(shape)} for these envs, got {values.shape}")
    return np.asarray(values, np.float64)
