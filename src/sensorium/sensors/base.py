"""``Sensor`` and ``SimpleSensor``: the hooks that a class of sensors fills in, and what users call.

A sensor is two classes in one module: its options (what users write, ``sn.IMU(link="torso")``) and the sensor
(``IMUSensor``), tied by ``class IMUSensor(SimpleSensor[IMUData], options=IMU)``. Hooks that run each step are class
methods: they run once for all sensors of the class (a :class:`~sensorium.pipeline.SensorGroup`) and all envs, on
tensors laid out (columns, B).

==================================== ========== ======================================================================
hook                                 of         says or does
==================================== ========== ======================================================================
``_get_return_format``               sensor     shape, or field -> shape, of what ``read()`` returns (without B)
``_get_intermediate_format``         sensor     the same before ``_post_process``; default: the return format
``_get_cache_dtype``                 class      dtype of what ``read()`` returns; default float32
``_get_intermediate_dtype``          class      float32 (default) or float64
``_update_shared_cache``             class      fill both branches; ``SimpleSensor`` does it by the next six
``_update_raw_data``                 class      the raw signal; default: from the engine's sensors (``_sources``)
``_apply_physics_imperfections``     class      what happens before the response, on the measured branch
``_update_current_timestep_data``    class      the two above in one
``_apply_transform``                 class      the response model, once per branch
``_apply_hardware_imperfections``    class      default: the generic imperfections of the options
``_post_process``                    class      intermediate to return space, once per branch and step
``_apply_delay``                     class      default: zero-order hold (or linear) at the sensor's delay
``_custom_parameters``               sensor     further options that ``set`` can change, per env
``_build_group``, ``_reset_group``   class      once at build; whenever envs are reset
==================================== ========== ======================================================================
"""

from __future__ import annotations

from numbers import Integral
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar

import mujoco
import numpy as np
import torch

from sensorium.errors import NotBuiltError, OptionError, did_you_mean
from sensorium.options import snake_case
from sensorium.pipeline import SensorGroup, SensorManager, SignalSource, Slots
from sensorium.pipeline.launch import replayable
from sensorium.pipeline.layout import n_columns
from sensorium.pipeline.parameters import EXTRA_OPTIONS, Write, broadcast, check
from sensorium.sensors.noise_density import NoiseDensities
from sensorium.sensors.options import SensorOptions
from sensorium.tree import Buffer, Module
from sensorium.worlds import Envs, Names, Painter, env_index
from sensorium.worlds.compose import pose

if TYPE_CHECKING:
    from matplotlib.figure import Figure

DataT = TypeVar("DataT")
Format = tuple[int, ...] | dict[str, tuple[int, ...]]

_CLASSES: dict[type[SensorOptions], type[Sensor[Any]]] = {}
_TIMING = ("rate", "delay", "jitter", "dropout", "stuck")
_GENERIC = ("noise", "bias", "random_walk", "resolution", "saturation", "deadband", *EXTRA_OPTIONS)


def sensor_class(options: type[SensorOptions]) -> type[Sensor[Any]]:
    """The sensor class that was declared for an options class."""
    for base in options.__mro__:
        if base in _CLASSES:
            return _CLASSES[base]
    raise OptionError(
        f"no sensor class was declared for {options.__name__}: write "
        f"class {options.__name__}Sensor(SimpleSensor, options={options.__name__})"
    )


class Sensor(Module, Generic[DataT]):
    """One sensor of a scene. Made by ``scene.add_sensor(options)``; can be read after ``scene.build()``.

    Buffers: ``measured`` and ``ground_truth``, tagged with the sensor's kind.
    """

    kind: ClassVar[str] = "sensor"
    """Tag of its buffers, and stem of default uuids."""
    Data: ClassVar[Any] = None
    """The named tuple that ``read()`` returns, with the fields of ``_get_return_format``; None for one tensor."""
    options_type: ClassVar[type[SensorOptions]] = SensorOptions
    uses_ring_pipeline: ClassVar[bool] = True
    """Whether snapshots go through rings, delay and history; False for sensors with a path of their own."""
    capturable: ClassVar[bool] = True
    """Whether the hooks can be captured in a CUDA graph: on a GPU, False runs them after it. Set it to False when they
    look at values on the device, or depend on anything that changes in Python from step to step."""

    vector_fields: ClassVar[tuple[str, ...]] = ()
    """Fields of a reading ("value" for a plain tensor) whose last axis is a vector: drawn by its length."""
    cpu_only: ClassVar[bool] = False
    """Whether the raw signal needs the CPU engine: building on a GPU is then an error."""

    def __init_subclass__(cls, options: type[SensorOptions] | None = None, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if options is not None:
            cls.options_type = options
            _CLASSES[options] = cls
            if "kind" not in cls.__dict__:
                cls.kind = snake_case(options.__name__)

    _densities: NoiseDensities

    def __init__(self, options: Any, uuid: str) -> None:
        self.options = options
        self.uuid = uuid
        self.measured = Buffer(get=lambda: self._flat(False), tags={self.kind, "measured"})
        self.ground_truth = Buffer(get=lambda: self._flat(True), tags={self.kind, "ground_truth"})
        self._detach()

    # -- what users call ----------------------------------------------------------------------------------------------

    def read(self, envs: Envs = None, history_length: int | None = None) -> DataT:
        """What the robot's software reads now: late, noisy, held between samples, as the options say.

        A look-up: it triggers nothing, and returns the same memory at every step (with ``history_length``, one of as
        many windows in turn). Copy what must outlast the step.

        Args:
            envs: which envs, as a fresh copy in that order; None for a view of all.
            history_length: the last N readings, (B, N, ...), newest first: index k is what ``read()`` returned k steps
                ago. At most what the option ``history_length`` allocated; with that option set, plain ``read()``
                returns them too, as a view.
        """
        if envs is None and history_length is None and not self._windows:
            return self._readings if self._readings is not None else self._unbuilt("read")
        return self._select(self._readings, self._windows, envs, history_length, "read")

    def read_ground_truth(self, envs: Envs = None, history_length: int | None = None) -> DataT:
        """The signal as the simulator has it, through the sensor's response where that is physics; never late."""
        if envs is None and history_length is None and not self._truth_windows:
            return self._truths if self._truths is not None else self._unbuilt("read_ground_truth")
        return self._select(self._truths, self._truth_windows, envs, history_length, "read_ground_truth")

    def set(self, envs: Envs = None, **parameters: Any) -> None:
        """Change parameters while running, e.g. ``imu.set(acc_noise=0.1, envs=[0, 1])``.

        Args:
            envs: which envs; None for all.
            **parameters: options by name. Values are a number, one per axis (n,), or one row per env (envs, n).

        Raises:
            OptionError: an unknown name or a bad value; nothing was changed.
        """
        manager = self._manager or self._unbuilt("set")
        targets = [(kind, part.start, part.stop) for kind, part in map(self._parameter, parameters) if kind != "custom"]
        generic = [target for target in targets if target[0] not in _TIMING]
        if len(set(generic)) < len(generic):
            raise OptionError(
                f"{self.options_type.__name__}: {', '.join(parameters)} name one parameter twice; give one"
            )
        index = env_index(envs, manager.world.n_envs, manager.world.device)
        noise, densities = self._densities.changed(parameters, index, self._n_columns, self._noise_now)
        values = dict(self._translate(name, value) for name, value in {**parameters, **noise}.items())
        manager.set(self, values, envs)
        self._densities = densities
        manager.on_change(self.uuid, "set", {"envs": envs, **parameters})

    def plot(self, env: int = 0, path: str | Path | None = None) -> Figure:
        """Draw what it reads now in one env beside ground truth: its history if it keeps one, else values or images.

        Args:
            env: which env.
            path: where to save the picture, e.g. "out/imu.png". Default: it is returned only.

        Over time, use :class:`sensorium.Trace`.
        """
        from sensorium.sensors.plotting import plot_reading

        return plot_reading(self, env, path)

    @property
    def parameter_names(self) -> list[str]:
        """What :meth:`set` can change."""
        return [name for name in self.options_type.model_fields if name in self._settable()]

    @property
    def max_delay(self) -> float:
        """Seconds of delay and jitter that memory is allocated for."""
        options = self.options
        return options.max_delay if options.max_delay is not None else options.delay + options.jitter

    # -- hooks of the sensor ------------------------------------------------------------------------------------------

    def _declare(self, spec: mujoco.MjSpec, names: Names) -> None:
        """Add the engine's elements (sites, sensors) that the raw signal needs to the scene."""

    def _draw(self, painter: Painter, env: int) -> None:
        """Paint what it looks at and feels in one env, in world coordinates. Default: the frame of its site."""
        pose = self._site_pose(env)
        if pose is not None:
            painter.frame(*pose)

    def _describe(self) -> dict[str, str]:
        """What ``scene.describe()`` says of it instead of what it knows: column -> text."""
        return {}

    def _site_name(self) -> str:
        return f"{self.uuid}:site"

    def _site_pose(self, env: int) -> tuple[np.ndarray, np.ndarray] | None:
        """Position (3,) and rotation (3, 3) in the world of the site that :func:`add_site` added, in one env."""
        world = self.group.world
        site = mujoco.mj_name2id(world.model, mujoco.mjtObj.mjOBJ_SITE, self._site_name())
        if site < 0:
            return None
        position, rotation = (world.bind(name)[env, site].numpy(force=True) for name in ("site_xpos", "site_xmat"))
        return position, rotation.reshape(3, 3)

    def _draw_vector(self, painter: Painter, env: int, vector: torch.Tensor, metres_per_unit: float) -> None:
        """Paint a vector that is given in the frame of the sensor's site, at the site; at most half a metre long."""
        pose = self._site_pose(env)
        if pose is not None:
            arrow = pose[1] @ vector.double().numpy(force=True).reshape(3) * metres_per_unit
            painter.arrow(pose[0], arrow * min(1.0, 0.5 / max(float(np.linalg.norm(arrow)), 1e-9)))

    def _sources(self) -> list[SignalSource] | None:
        """Where each intermediate column comes from; None when the class computes its raw signal itself."""
        return None

    def _get_return_format(self) -> Format:
        raise TypeError(f"{type(self).__name__} must define _get_return_format")

    def _get_intermediate_format(self) -> Format:
        return self._get_return_format()

    def _parts(self) -> dict[str, slice]:
        """Prefix of option names -> the intermediate columns that they are about."""
        if not self.uses_ring_pipeline:
            return {}
        return {"": slice(0, n_columns(self._get_intermediate_format()))}

    def _mixed_parts(self) -> list[slice]:
        """Groups of three columns that have an axis matrix."""
        return []

    def _extra_parts(self) -> list[slice]:
        """Columns that have memory for further imperfections: those of which the options name one."""
        given = self.options.model_fields_set
        shared = any(name in given for name in ("correlation_time", "temperature", "outlier_size"))
        parts = self._parts()
        asked = {prefix: shared or any(f"{prefix}{name}" in given for name in EXTRA_OPTIONS) for prefix in parts}
        return [parts[prefix] for prefix in parts if asked[prefix]]

    def _filter_order(self) -> int:
        return int(getattr(self.options, "filter_order", 2))

    def _custom_parameters(self) -> dict[str, tuple[str, slice]]:
        """Further parameters: name -> (kind, columns); kind "custom" keeps it in ``group.parameters``."""
        return {}

    def _translate(self, name: str, value: Any) -> tuple[str, Any]:
        """An option as the generic parameter that carries it."""
        return name, value

    # -- hooks of the class -------------------------------------------------------------------------------------------

    @classmethod
    def _get_cache_dtype(cls) -> torch.dtype:
        return torch.float32

    @classmethod
    def _get_intermediate_dtype(cls) -> torch.dtype:
        return torch.float32

    @classmethod
    def _build_group(cls, group: SensorGroup) -> Any:
        """Build what the hooks of the class need, once, at the end of build. What it returns is ``group.backend``."""
        return None

    @classmethod
    def _reset_group(cls, group: SensorGroup, mask: torch.Tensor) -> None:
        """Called when the envs in ``mask`` (B,) are reset; their ``group.state`` tensors are already cleared."""

    @classmethod
    def _update_shared_cache(cls, group: SensorGroup, ground_truth: torch.Tensor, measured: torch.Tensor) -> None:
        """Fill both branches of all sensors of the class, each (columns, B), for this step."""
        raise TypeError(f"{cls.__name__} must define _update_shared_cache, or derive from SimpleSensor")

    @classmethod
    def _post_process(cls, group: SensorGroup, data: torch.Tensor, out: torch.Tensor, is_measured: bool) -> None:
        """Fill ``out`` (return columns, B) from ``data`` (columns, B). Must be a function of ``data`` alone."""
        out.copy_(data)

    @classmethod
    def _apply_delay(cls, group: SensorGroup, ring: Slots, out: torch.Tensor) -> None:
        """Fill ``out`` (return columns, B) with what is read now; ``ring[k]`` is the snapshot of k steps ago."""
        raise TypeError("the default delay runs in the fused kernel; override _apply_delay to replace it")

    @classmethod
    def _overrides(cls, *hooks: str) -> bool:
        """Whether this class replaces any of these hooks."""
        for hook in hooks:
            own = getattr(cls, hook, None)
            defaults = [
                base.__dict__[hook] for base in cls.__mro__ if base.__dict__.get("_base") and hook in base.__dict__
            ]
            if own is not None and not any(own.__func__ is default.__func__ for default in defaults[:1]):
                return True
        return False

    _base: ClassVar[bool] = True

    # -- called by the manager ----------------------------------------------------------------------------------------

    def _detach(self) -> None:
        """Be a sensor that has not been built."""
        self._manager: SensorManager | None = None
        self._readings: Any = None
        self._truths: Any = None
        self._windows: list[Any] = []
        self._truth_windows: list[Any] = []

    def _attach(self, manager: SensorManager, group: SensorGroup) -> None:
        """Build the views that reads return."""
        position = next(i for i, sensor in enumerate(group.sensors) if sensor is self)
        self.group = group
        self._manager = manager
        if not group.in_pipeline:
            return
        self._columns = group.slices[position]
        self._position = position
        rows = group.return_slices[position]
        self._cache_rows, self._truth_rows = group.cache[rows], group.return_truth[rows]
        self._readings, self._truths = self._view(self._cache_rows), self._view(self._truth_rows)
        length = group.history_length
        self._all_windows = [group.history[i : i + length, rows] for i in range(length)]
        self._all_truth_windows = [group.truth_history[i : i + length, rows] for i in range(length)]
        own = self.options.history_length
        if own:
            self._windows = [self._view(window[:own]) for window in self._all_windows]
            self._truth_windows = [self._view(window[:own]) for window in self._all_truth_windows]

    def _view(self, rows: torch.Tensor) -> Any:
        """(..., R, B) storage as the reading's tensor, or named tuple of tensors, (B, ..., *shape)."""
        layout = self._get_return_format()
        if not isinstance(layout, dict):
            return rows.unflatten(-2, layout).movedim(-1, 0)
        fields, start = {}, 0
        for name, shape in layout.items():
            count = n_columns(shape)
            part = rows.narrow(-2, start, count)
            fields[name] = part.unflatten(-2, shape).movedim(-1, 0)
            start += count
        return self.Data(**fields)

    def _initial(self) -> list[tuple[str, Any]]:
        """Parameters and their values at build."""
        assert self._manager is not None
        given = {name: getattr(self.options, name) for name in self.parameter_names}
        given = {name: value for name, value in given.items() if value is not None}
        world, owner = self._manager.world, self.options_type.__name__
        densities = NoiseDensities.at_build(owner, world.n_envs, self._manager.dt, self.options.rate)
        noise, self._densities = densities.changed(given, None, self._n_columns, self._noise_now)
        return [self._translate(name, value) for name, value in {**given, **noise}.items()]

    def _n_columns(self, name: str) -> int:
        part = self._parameter(name)[1]
        return part.stop - part.start

    def _noise_now(self, name: str) -> torch.Tensor:
        """The noise per sample of the part that an option is of, (B, axes)."""
        assert self._manager is not None
        return self._manager.noise(self, self._parameter(name)[1])

    def _settable(self) -> dict[str, tuple[str, slice]]:
        parts = self._parts().items()
        extra = {(part.start, part.stop) for part in self._extra_parts()}
        names = {
            f"{prefix}{name}": (name, part)
            for prefix, part in parts
            for name in _GENERIC
            if name not in EXTRA_OPTIONS or (part.start, part.stop) in extra
        }
        names |= {f"{prefix}noise_density": ("noise", part) for prefix, part in parts}
        if extra and "temperature" not in names:  # one for all parts
            names["temperature"] = ("temperature", slice(0, max(part.stop for _, part in parts)))
        every = {**names, **{name: (name, slice(0, 0)) for name in _TIMING}, **self._custom_parameters()}
        return {name: target for name, target in every.items() if name in self.options_type.model_fields}

    def _parameter(self, name: str) -> tuple[str, slice]:
        settable = self._settable()
        if name not in settable:
            names = self.parameter_names
            hint = did_you_mean(name, names) or f"; it has {', '.join(names)}"
            fixed = name in self.options_type.model_fields
            if fixed and name.endswith(EXTRA_OPTIONS):
                raise OptionError(
                    f"{self.options_type.__name__}.{name} was not given at construction, so no memory was allocated "
                    f"for it; construct the sensor with {name}=..., be it the default"
                )
            what = "cannot be changed after build" if fixed else "is not a parameter"
            raise OptionError(f"{self.options_type.__name__}.{name} {what}{'' if fixed else hint}")
        return settable[name]

    def _custom_writes(self, name: str, option: str, value: Any, index: torch.Tensor | None) -> list[Write]:
        """The write of a parameter of the class's own, kept in ``group.parameters[name]`` (sensors, B)."""
        target = self.group.parameters.setdefault(
            name, torch.zeros(len(self.group.sensors), self.group.n_envs, device=self.group.device)
        )
        n_envs = self.group.n_envs if index is None else len(index)
        values = check(option, broadcast(option, value, 1, n_envs))
        if values.device.type == "cpu":  # the option's own constraints hold for every value
            for bound in (values.min().item(), values.max().item()):
                self.options_type(**(dict(self.options) | {name: bound}))
        return [Write(target, slice(self._position, self._position + 1), index, values, lambda: None)]

    # -- helpers ------------------------------------------------------------------------------------------------------

    def _flat(self, truth: bool) -> torch.Tensor | None:
        if self._manager is None or not self.group.in_pipeline:
            return None
        rows = self._truth_rows if truth else self._cache_rows
        layout = self._get_return_format()
        return rows.movedim(-1, 0) if isinstance(layout, dict) else rows.unflatten(0, layout).movedim(-1, 0)

    def _select(self, now: Any, windows: list[Any], envs: Envs, history_length: int | None, call: str) -> Any:
        if self._manager is None:
            self._unbuilt(call)
        fresh = history_length is not None or envs is not None
        if history_length is not None:
            length = self.group.history_length
            if not isinstance(history_length, Integral):
                raise OptionError(f"{call}: history_length must be a whole number, got {history_length!r}")
            if not 1 <= history_length <= length:
                few = history_length < 1
                fix = (
                    "ask for 1 or more" if few else f"construct the sensor with history_length={history_length} or more"
                )
                raise OptionError(
                    f"{call}(history_length={history_length}) on {self.uuid!r}: "
                    + (f"at most {length} were allocated; " if length else "no history was allocated; ")
                    + fix
                )
            stored = self._all_truth_windows if call == "read_ground_truth" else self._all_windows
            now = self._view(stored[self._newest(length)][:history_length])
        elif windows:
            now = windows[self._newest(self.group.history_length)]
        if not fresh:
            return now
        index = env_index(envs, self.group.n_envs, self.group.device)

        def pick(tensor: torch.Tensor) -> torch.Tensor:
            return tensor.clone(memory_format=torch.contiguous_format) if index is None else tensor[index]

        return pick(now) if isinstance(now, torch.Tensor) else type(now)(*(pick(tensor) for tensor in now))

    def _newest(self, length: int) -> int:
        assert self._manager is not None
        return length - 1 - self._manager.step_count % length

    def _unbuilt(self, call: str) -> Any:
        raise NotBuiltError(
            f"{call}() on {self.uuid!r}: the sensor has no values before scene.build(), or after scene.close()"
        )

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.uuid!r}>"


class SimpleSensor(Sensor[DataT]):
    """A sensor whose step is raw signal, physics imperfections, response, hardware imperfections.

    With nothing but ``_sources`` (or ``_update_raw_data``) it is a working sensor with all generic imperfections.
    """

    _base: ClassVar[bool] = True

    @classmethod
    @replayable
    def _update_shared_cache(cls, group: SensorGroup, ground_truth: torch.Tensor, measured: torch.Tensor) -> None:
        truth_line, measured_line = group.truth_timeline, group.measured_timeline
        if truth_line is None or measured_line is None:
            cls._update_raw_data(group, ground_truth)
            group.copy(ground_truth, measured)
            cls._apply_hardware_imperfections(group, measured)
        else:
            cls._update_current_timestep_data(group, truth_line[0], measured_line[0])
            cls._respond(group, ground_truth, measured)

    @classmethod
    def _respond(cls, group: SensorGroup, ground_truth: torch.Tensor, measured: torch.Tensor) -> None:
        """From the timelines, which hold this step's signal, through response and hardware to both branches."""
        truth_line, measured_line = group.truth_timeline, group.measured_timeline
        assert truth_line is not None
        assert measured_line is not None
        cls._apply_transform(group, truth_line[0], truth_line, False)
        cls._apply_transform(group, measured_line[0], measured_line, True)
        ground_truth.copy_(truth_line[0])
        measured.copy_(measured_line[0])
        cls._apply_hardware_imperfections(group, measured)

    @classmethod
    @replayable
    def _update_raw_data(cls, group: SensorGroup, out: torch.Tensor) -> None:
        """Fill ``out`` (columns, B) with the raw signal as the world is now."""
        group.gather(out)

    @classmethod
    def _update_current_timestep_data(
        cls, group: SensorGroup, ground_truth: torch.Tensor, measured: torch.Tensor
    ) -> None:
        """Fill both branches with the raw signal, the measured one with its physics imperfections."""
        cls._update_raw_data(group, ground_truth)
        measured.copy_(ground_truth)
        cls._apply_physics_imperfections(group, measured)

    @classmethod
    def _apply_physics_imperfections(cls, group: SensorGroup, data: torch.Tensor) -> None:
        """Change ``data`` (columns, B) in place: what goes wrong before the response, and feeds its recurrence."""

    @classmethod
    def _apply_transform(cls, group: SensorGroup, data: torch.Tensor, timeline: Slots, is_measured: bool) -> None:
        """The response model, in place on ``data`` (columns, B); ``timeline[k]`` is its result of k steps ago."""

    @classmethod
    @replayable
    def _apply_hardware_imperfections(cls, group: SensorGroup, data: torch.Tensor) -> None:
        """Change the working buffer ``data`` (columns, B) in place: electronics. Never enters the timeline."""
        group.imperfect(data)


def add_site(spec: mujoco.MjSpec, names: Names, options: Any, uuid: str) -> str:
    """Add a site at the pose of :class:`~sensorium.sensors.options.Mounted` options; returns its name."""
    body = names.body(options.link, f"{type(options).__name__}(uuid={uuid!r}).link")
    position, orientation = pose(options.pos, options.quat, options.euler)
    name = f"{uuid}:site"
    body.add_site(name=name, pos=position, quat=orientation)
    return name
