"""``Sensor`` and ``SimpleSensor``: the base classes of all sensors.

A sensor is two classes in one module: its options (what users write, ``sn.IMU(link="torso")``) and the sensor
(``IMUSensor``), tied by ``class IMUSensor(SimpleSensor[IMUData], options=IMU)``. Hooks that run in every step are class
methods of :class:`~sensorium.sensors.hooks.SensorHooks`: each runs once per step, for all sensors of the class (a
:class:`~sensorium.pipeline.SensorGroup`) and all envs, on tensors of shape (columns, B).
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Generic, NoReturn, TypeVar, cast

import mujoco
import numpy as np
import torch

from sensorium._arguments import checked_flag
from sensorium.errors import NotBuiltError, OptionError
from sensorium.options import snake_case
from sensorium.pipeline import SensorGroup, SensorManager, Slots
from sensorium.pipeline.launch import replayable
from sensorium.pipeline.parameters import Write
from sensorium.pipeline.run_hook import run_hook
from sensorium.sensors.class_checks import check_class, check_format, check_options
from sensorium.sensors.hooks import SensorHooks
from sensorium.sensors.notebook import NotebookView
from sensorium.sensors.options import SensorOptions
from sensorium.sensors.parameters import SensorParameters
from sensorium.sensors.readings import Branch, Format
from sensorium.sensors.samples import SampleQueue, Samples
from sensorium.sensors.sites import add_site as add_site
from sensorium.tree import Buffer, Module
from sensorium.worlds import Envs, Painter

if TYPE_CHECKING:
    from matplotlib.figure import Figure

DataT = TypeVar("DataT")

_CLASSES: dict[type[SensorOptions], type[Sensor[Any]]] = {}

__all__ = ["Format", "Sensor", "SimpleSensor", "add_site", "sensor_class"]


def sensor_class(options: type[SensorOptions]) -> type[Sensor[Any]]:
    """Return the sensor class that was declared for an options class.

    Raises:
        OptionError: none was declared.
    """
    for base in options.__mro__:
        if base in _CLASSES:
            return _CLASSES[base]
    raise OptionError(
        f"no sensor class was declared for {options.__name__}: write "
        f"class {options.__name__}Sensor(SimpleSensor, options={options.__name__})"
    )


class Sensor(SensorHooks, NotebookView, Module, Generic[DataT]):
    """One sensor of a scene, made by ``scene.add_sensor(options)`` and readable after ``scene.build()``.

    Buffers: ``measured`` and ``ground_truth``, tagged with the sensor's kind.
    """

    kind: ClassVar[str] = "sensor"
    """Tag of its buffers, and stem of default uuids. Default: the name of the options class in snake_case."""
    Data: ClassVar[Any] = None
    """Named tuple that ``read()`` returns, with the fields of ``_get_return_format``; None for one tensor."""
    options_type: ClassVar[type[SensorOptions]] = SensorOptions
    """Its options class."""
    vector_fields: ClassVar[tuple[str, ...]] = ()
    """Fields of a reading ("value" for a plain tensor) whose last axis is a vector: plotted by its length."""

    def __init_subclass__(cls, options: type[SensorOptions] | None = None, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        check_class(cls)
        if options is not None:
            cls.options_type = options
            _CLASSES[options] = cls
            if "kind" not in cls.__dict__:
                cls.kind = snake_case(options.__name__)

    def __init__(self, options: Any, uuid: str) -> None:
        self.options = options
        self.uuid = uuid
        check_options(self)
        self._parameters = SensorParameters(self)
        self.measured = Buffer(get=lambda: self._flat(self._measured_branch), tags={self.kind, "measured"})
        self.ground_truth = Buffer(get=lambda: self._flat(self._true_branch), tags={self.kind, "ground_truth"})
        self._detach()

    # -- public methods -----------------------------------------------------------------------------------------------

    def read(self, envs: Envs = None, history_length: int | None = None) -> DataT:
        """Return what the robot's software reads now, with the delay, noise and sample rate of the options.

        Reading has no side effects: it returns the stored sample. Without arguments it returns the same memory in every
        step (with the option ``history_length``, one of that many windows in turn), so copy what must outlast the step.

        Args:
            envs: which envs, as a fresh copy in that order; None for a view of all.
            history_length: return the last N readings, (B, N, ...), newest first: index k is what ``read()`` returned k
                steps ago (k substeps, for a sensor that is captured at substeps). At most the option
                ``history_length``. If that option is set, plain ``read()`` returns them too, as a view. 0 means none.

        Returns:
            A tensor (B, ...), or a named tuple of tensors.

        Raises:
            NotBuiltError: the scene is not built, or is closed.
            OptionError: ``envs`` or ``history_length`` is out of range.
        """
        if envs is None and history_length is None and self._readings is not None and not self._has_windows:
            return self._readings  # type: ignore[no-any-return]
        return self._select(self._measured_branch, envs, history_length, "read")

    def read_ground_truth(self, envs: Envs = None, history_length: int | None = None) -> DataT:
        """Return the true simulated value, through the sensor's response where that is physics; never delayed.

        Arguments and errors are those of :meth:`read`.
        """
        if envs is None and history_length is None and self._truths is not None and not self._has_windows:
            return self._truths  # type: ignore[no-any-return]
        return self._select(self._true_branch, envs, history_length, "read_ground_truth")

    def read_final(self, envs: Envs = None, ground_truth: bool = False) -> DataT:
        """Return the last reading of the episode that ended, of each env that ``scene.step(reset=...)`` has reset.

        The reading of an env is kept until such a step resets it again; ``scene.reset()`` does not change it. It is 0
        (False) before the first such step. ``read()`` already returns the first reading of the next episode.

        Args:
            envs: which envs, as a fresh copy in that order; None for a view of all.
            ground_truth: return true values instead of measured ones.

        Raises:
            NotBuiltError: the scene is not built, or is closed.
            OptionError: ``envs`` is out of range, or the sensor is a camera.
        """
        is_true = checked_flag("read_final: ground_truth", ground_truth)
        branch = self._true_branch if is_true else self._measured_branch
        if branch is None or self._manager is None:
            self._no_samples("read_final")
        return cast(DataT, branch.pick(self._manager.final_rows(branch.rows), envs))

    def read_samples(self, envs: Envs = None) -> Samples[DataT]:
        """Return the samples that arrived during the last step, as the queue of a driver delivers them.

        A sensor with ``rate=200`` in a loop of 50 Hz returns 4 samples per step. Samples are in the order of their
        arrival; with jitter, a sample may arrive after one that was captured later. After a reset there is one sample.
        After ``scene.step(count=10)``, the samples are those of the last of the 10 steps.

        Args:
            envs: which envs, in that order; None for all.

        Returns:
            A fresh :class:`~sensorium.sensors.Samples`. The number of places is fixed at build: the most samples that
            the options let arrive in one step. If ``set`` makes more arrive (a higher rate or jitter, or a lower
            delay), ``count`` exceeds it, those with the oldest capture are missing, and on the CPU a warning says so.
            With the option ``max_delay`` there are places for every change of delay and jitter.

        Raises:
            NotBuiltError: the scene is not built, or is closed.
            OptionError: ``envs`` is out of range, or the sensor is a camera.

        Example:
            >>> samples = imu.read_samples()
            >>> for i in range(int(samples.count[0])):
            ...     filter.update(samples.values.lin_acc[0, i], time=samples.capture[0, i])
        """
        return (self._queue or self._no_samples("read_samples")).read(envs)

    def age(self, envs: Envs = None) -> torch.Tensor:
        """Return the time since the capture of what ``read()`` returns, (B,) s.

        With ``interpolate``, the capture times of the two snapshots are interpolated as their values are.

        Args:
            envs: which envs, in that order; None for all.

        Raises:
            NotBuiltError: the scene is not built, or is closed.
            OptionError: ``envs`` is out of range, or the sensor is a camera.
        """
        return (self._queue or self._no_samples("age")).age(envs)

    def _no_samples(self, call: str) -> NoReturn:
        if self._manager is None:
            self._unbuilt(call)
        raise OptionError(
            f"{call}() on {self.uuid!r}: a {type(self).options_type.__name__} keeps no samples; use read()"
        )

    def set(self, envs: Envs = None, **parameters: Any) -> None:
        """Change parameters at run time, e.g. ``imu.set(acc_noise=0.1, envs=[0, 1])``.

        Args:
            envs: which envs; None for all.
            **parameters: options by name (:attr:`parameter_names`), or a channel as ``sn.Imperfections`` or a mapping,
                whose set fields are changed. A value is a number, one per axis (n,), or one row per env
                (envs, n). Values in device tensors are not validated, since that would synchronise with the GPU.

        Raises:
            OptionError: a name is unknown or a value is not allowed; nothing was changed.
        """
        manager = self._manager or self._unbuilt("set")
        changed = self._parameters.set(manager, envs, parameters)
        manager.on_change(self.uuid, "set", {"envs": envs, **changed})

    def bind(self, parameter: str) -> torch.Tensor:
        """Return live values of a parameter per env, which may be written in place on the device, without checks.

        For randomisation at resets, also in CUDA graphs: ``imu.bind("gyro_noise")[:] = 0.1``. Recordings do not contain
        such writes, and :meth:`set` of the same parameter ends the binding.

        Args:
            parameter: noise, bias, resolution or deadband of a channel; or delay, jitter, rate or dropout.

        Returns:
            (B, columns) float32; (B, 1) float64 for delay, jitter, rate and dropout.
        """
        return self._parameters.bind(self._manager or self._unbuilt("bind"), parameter)

    def plot(self, env: int = 0, path: str | Path | None = None) -> Figure:
        """Plot the current reading of one env beside ground truth: its history if it keeps one, else values or images.

        To plot over time, use :class:`sensorium.Trace`.

        Args:
            env: which env.
            path: file to save the figure to, e.g. "out/imu.png". Default: not saved.
        """
        from sensorium.sensors.plotting import plot_reading

        return plot_reading(self, env, path)

    @property
    def parameter_names(self) -> list[str]:
        """Options that :meth:`set` can change."""
        return self._parameters.names

    @property
    def max_delay(self) -> float:
        """Delay plus jitter that memory is allocated for, s."""
        options = self.options
        return options.max_delay if options.max_delay is not None else options.delay + options.jitter

    def _draw(self, painter: Painter, env: int) -> None:
        """Draw what it observes in one env, in world coordinates. Default: the frame of its site."""
        pose = self._site_pose(env)
        if pose is not None:
            painter.frame(*pose)

    # -- called by the manager ----------------------------------------------------------------------------------------

    def _detach(self) -> None:
        """Return to the state before build."""
        self._manager: SensorManager | None = None
        self._measured_branch: Branch | None = None
        self._true_branch: Branch | None = None
        self._readings: Any = None
        self._truths: Any = None
        self._has_windows = False
        self._queue: SampleQueue | None = None

    def _attach(self, manager: SensorManager, group: SensorGroup[Any]) -> None:
        """Build the views that reads return."""
        position = next(i for i, sensor in enumerate(group.sensors) if sensor is self)
        self.group = group
        self._manager = manager
        if not group.in_pipeline:
            return
        self._columns = group.slices[position]
        self._position = position
        common = (group.return_slices[position], self._get_return_format(), self.Data, self.options.history_length)
        self._measured_branch = Branch(group, group.cache, group.history, *common)
        self._true_branch = Branch(group, group.return_truth, group.truth_history, *common)
        self._readings, self._truths = self._measured_branch.now, self._true_branch.now
        self._has_windows = self._measured_branch.has_windows
        self._queue = SampleQueue(self, group, group.return_slices[position], self._measured_branch)

    def _check_format(self) -> None:
        """Check formats and dtypes of the class, once the model is known."""
        check_format(self)

    def _initial(self) -> list[tuple[str, Any]]:
        """Return parameters and their values at build."""
        assert self._manager is not None
        return self._parameters.initial(self._manager)

    def _parameter(self, name: str) -> tuple[str, slice]:
        """Return the parameter of the pipeline that an option sets, and its columns."""
        return self._parameters.target(name)

    def _custom_writes(self, name: str, option: str, value: Any, index: torch.Tensor | None) -> list[Write]:
        """Return the write of a parameter of the class's own, stored in ``group.parameters[name]`` (values, B)."""
        return self._parameters.custom_writes(self.group, self._position, name, option, value, index)

    def _bulk_rows(self, history_length: int | None, ground_truth: bool) -> torch.Tensor:
        """Return storage of the readings, (columns, B), or (history_length, columns, B) newest first."""
        branch = self._true_branch if ground_truth else self._measured_branch
        assert branch is not None
        call = f"read_sensors on {self.uuid!r}"
        return branch.rows if history_length is None else branch.window(history_length, call)

    # -- helpers ------------------------------------------------------------------------------------------------------

    def _site_name(self) -> str:
        return f"{self.uuid}:site"

    def _site_pose(self, env: int) -> tuple[np.ndarray, np.ndarray] | None:
        """Return the world position (3,) and rotation (3, 3) of the site that :func:`add_site` added, in one env."""
        world = self.group.world
        site = mujoco.mj_name2id(world.model, mujoco.mjtObj.mjOBJ_SITE, self._site_name())
        if site < 0:
            return None
        position, rotation = (world.bind(name)[env, site].numpy(force=True) for name in ("site_xpos", "site_xmat"))
        return position, rotation.reshape(3, 3)

    def _draw_vector(self, painter: Painter, env: int, vector: torch.Tensor, metres_per_unit: float) -> None:
        """Draw a vector, given in the frame of the sensor's site, at the site; at most 0.5 m long."""
        pose = self._site_pose(env)
        if pose is not None:
            arrow = pose[1] @ vector.double().numpy(force=True).reshape(3) * metres_per_unit
            painter.arrow(pose[0], arrow * min(1.0, 0.5 / max(float(np.linalg.norm(arrow)), 1e-9)))

    def _flat(self, branch: Branch | None) -> torch.Tensor | None:
        return None if branch is None else branch.flat()

    def _select(self, branch: Branch | None, envs: Envs, history_length: int | None, call: str) -> Any:
        if branch is None:
            self._unbuilt(call)
        return branch.select(envs, history_length, f"{call} on {self.uuid!r}")

    def _unbuilt(self, call: str) -> NoReturn:
        raise NotBuiltError(
            f"{call}() on {self.uuid!r} needs a running scene: call scene.build() first; "
            "after scene.close() there are no readings"
        )

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.uuid!r}>"


class SimpleSensor(Sensor[DataT]):
    """Sensor whose step is raw signal, physics imperfections, response, hardware imperfections.

    A class that defines only ``_sources`` (or ``_update_raw_data``) is a working sensor with all generic imperfections.
    """

    _base: ClassVar[bool] = True

    @classmethod
    @replayable
    def _update_shared_cache(cls, group: SensorGroup[Any], ground_truth: torch.Tensor, measured: torch.Tensor) -> None:
        if not group.has_response:
            run_hook(cls._update_raw_data, group, ground_truth)
            group.average(ground_truth)
            group.copy(ground_truth, measured)
        else:
            true_line, measured_line = group.truth_timeline, group.measured_timeline
            run_hook(cls._update_current_timestep_data, group, true_line.at(0), measured_line.at(0))
            group.rest_timelines()
            run_hook(cls._apply_transform, group, true_line.at(0), true_line, False)
            run_hook(cls._apply_transform, group, measured_line.at(0), measured_line, True)
            ground_truth.copy_(true_line.at(0))
            measured.copy_(measured_line.at(0))
        run_hook(cls._apply_hardware_imperfections, group, measured)

    @classmethod
    @replayable
    def _update_raw_data(cls, group: SensorGroup[Any], out: torch.Tensor) -> None:
        """Fill ``out`` (columns, B) with the raw signal of the current state."""
        group.gather(out)

    @classmethod
    def _update_current_timestep_data(
        cls, group: SensorGroup[Any], ground_truth: torch.Tensor, measured: torch.Tensor
    ) -> None:
        """Fill both branches with the raw signal, the measured one with its physics imperfections."""
        run_hook(cls._update_raw_data, group, ground_truth)
        group.average(ground_truth)
        measured.copy_(ground_truth)
        run_hook(cls._apply_physics_imperfections, group, measured)

    @classmethod
    def _apply_physics_imperfections(cls, group: SensorGroup[Any], data: torch.Tensor) -> None:
        """Change ``data`` (columns, B) in place by imperfections that precede the response and feed its recurrence."""

    @classmethod
    def _apply_transform(cls, group: SensorGroup[Any], data: torch.Tensor, timeline: Slots, is_measured: bool) -> None:
        """Apply the response in place to ``data`` (columns, B); ``timeline.at(k)`` is its result of k ticks ago."""

    @classmethod
    @replayable
    def _apply_hardware_imperfections(cls, group: SensorGroup[Any], data: torch.Tensor) -> None:
        """Change the working buffer ``data`` (columns, B) by imperfections of the electronics, not the timeline."""
        group.imperfect(data)
