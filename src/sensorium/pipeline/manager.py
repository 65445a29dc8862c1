"""The sensor manager: owns all storage, and runs every sensor's step.

Order per step: raw -> physics imperfections -> transform (response) -> hardware imperfections -> post-process -> return
ring -> delay sampling -> return cache. Classes that override none of the first four go through one fused kernel per
dtype; the hooks of the others run once each, for all sensors of the class and all envs at once.
"""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Callable
from functools import partial
from typing import Any

import mujoco
import numpy as np
import torch

from sensorium.errors import OptionError
from sensorium.pipeline.describe import describe_group
from sensorium.pipeline.flags import HELD
from sensorium.pipeline.group import SensorGroup
from sensorium.pipeline.launch import StepCounter, capture, is_replayable
from sensorium.pipeline.layout import ColumnBlock, PostBlock, assign_columns, build_block, build_delivery, build_timing
from sensorium.pipeline.parameters import EXTRA_OPTIONS, Write
from sensorium.pipeline.storage import TIMING_PARAMETERS, TimingStore
from sensorium.pipeline.timing import TimingParameters
from sensorium.worlds import Envs, Names, Painter, World, env_ids, env_index
from sensorium.worlds.device import is_out_of_memory

_MOST_PLANS = 32
"""Plans that are kept. Each takes about a megabyte, and a tenth of a second to lay out."""

_NOT_ON_GPU = (torch.uint16, torch.uint32, torch.uint64)


class SensorManager:
    """All sensors of one scene. Users meet it through the scene and the sensors."""

    def __init__(self) -> None:
        self.clock = StepCounter(np.zeros(1, np.int64))
        self.step_count = 0
        self.on_change: Callable[[str, str, dict[str, Any]], None] = lambda uuid, method, arguments: None
        self.world: World
        self.dt = 0.0
        self.seed = 0
        self.groups: list[SensorGroup] = []
        self._sensors: list[Any] = []
        self._blocks: dict[torch.dtype, ColumnBlock] = {}
        self._posts: list[PostBlock] = []
        self._post_of: dict[int, PostBlock] = {}
        self._timing: TimingStore
        self._times: TimingParameters
        self._rows: dict[str, int] = {}
        self._unfused: list[SensorGroup] = []
        self._raw: list[SensorGroup] = []
        self._rows_of: dict[int, list[int]] = {}
        self._held: set[int] = set()
        self._plans: dict[Any, list[Callable[[], None]]] = {}
        self._steps: list[Callable[[], None]] = []
        self._resetting: Any = None
        self._captured: list[SensorGroup] = []
        self._eager: list[SensorGroup] = []

    @property
    def step_count(self) -> int:
        """Steps since build."""
        return self.world.step_count if self.world.is_gpu else self._step_count  # a graph keeps a clock of its own

    @step_count.setter
    def step_count(self, count: int) -> None:
        self._step_count = self.clock.cell[0] = count

    @property
    def on_host(self) -> bool:
        """Whether ``step()`` has work to do: not where the world's own graph does it all."""
        return not self.world.is_gpu or bool(self._eager)

    # -- build --------------------------------------------------------------------------------------------------------

    def add(self, sensor: Any) -> None:
        """Take one more sensor, before build."""
        self._sensors.append(sensor)

    def forget(self, sensors: list[Any]) -> None:
        """Give back sensors that were added, before build."""
        self._sensors = [sensor for sensor in self._sensors if all(sensor is not one for one in sensors)]

    def declare(self, spec: mujoco.MjSpec, names: Names) -> None:
        """Let every sensor add the engine's elements that it needs."""
        for sensor in self._sensors:
            sensor._declare(spec, names)

    def build(self, world: World, seed: int, dt: float) -> None:
        """Lay out storage for all sensors, compile the kernels, and take the first readings."""
        try:
            self._build(world, seed, dt)
        except BaseException:
            for sensor in self._sensors:
                sensor._detach()
            raise

    def _build(self, world: World, seed: int, dt: float) -> None:
        self.world, self.dt, self.seed, self.step_count = world, dt, seed, 0
        device, n_envs = world.device, world.n_envs
        by_class: dict[type, list[Any]] = {}
        for sensor in self._sensors:
            by_class.setdefault(type(sensor), []).append(sensor)
        self.groups = [SensorGroup(cls, sensors, self) for cls, sensors in by_class.items()]
        self._rows = {sensor.uuid: row for row, sensor in enumerate(self._sensors)}
        self._timing = build_timing(self._sensors, seed, n_envs, device)
        self._times = TimingParameters(
            self._timing,
            [sensor.max_delay for sensor in self._sensors],
            [sensor.options.interpolate for sensor in self._sensors],
            dt,
        )
        piped = [group for group in self.groups if group.in_pipeline]
        for group in self.groups:
            if group.cls.cpu_only and world.is_gpu:
                raise OptionError(
                    f"{group.cls.options_type.__name__} needs the CPU engine, and cannot run on {world.device}. Build "
                    f"with device='cpu', or leave the sensor {group.sensors[0].uuid!r} out"
                )
        for group in piped:
            late = [sensor for sensor in group.sensors if sensor.options.interpolate]
            if late and not group.return_dtype.is_floating_point:
                raise OptionError(
                    f"{group.cls.options_type.__name__}.interpolate: readings are {group.return_dtype}, which cannot "
                    "be interpolated; leave it out"
                )
            if world.is_gpu and group.return_dtype in _NOT_ON_GPU:
                raise OptionError(
                    f"{group.cls.__name__}: readings are {group.return_dtype}, which kernels on a GPU do not have; let "
                    "_get_cache_dtype be a signed integer there, or build with device='cpu'"
                )
            if group.dtype not in (torch.float32, torch.float64):
                raise OptionError(
                    f"{group.cls.__name__}: _get_intermediate_dtype must be float32 or float64, got {group.dtype}; "
                    "give other dtypes by _get_cache_dtype and _post_process"
                )
        assign_columns(piped)
        self._blocks = {}
        for dtype in dict.fromkeys(group.dtype for group in piped):
            members = [group for group in piped if group.dtype == dtype]
            block = build_block(members, self._rows, world.model, n_envs, dt, seed, device)
            self._blocks[dtype] = block
            stored = [group for group in block.groups if group.stored and not group.post_processed]
            first = [group.columns.start for group in stored]
            block.direct = build_delivery(stored, first, self._rows, n_envs, dtype, dt, device)
            block.fused_rows = sum(group.n_returns for group in stored if not group.hooked)
        self._build_posts([group for group in piped if group.post_processed])
        for group in piped:
            self._alias(group)
            if device.type == "cpu":
                own = (group.truth, group.reading, group.scratch, group.before, group.snapshot, group.return_truth)
                group._array_of = {id(tensor): tensor.numpy() for tensor in own}
        self._kernels = self._make_kernels()
        self._unfused = [group for group in self.groups if group.hooked or group.post_processed]
        self._raw = [group for group in self.groups if group.raw and not group.hooked]
        hooked = [group for group in self._unfused if group.hooked]  # the others are held by the fused kernel
        self._rows_of = {id(group): [self._rows[sensor.uuid] for sensor in group.sensors] for group in hooked}
        for group in self.groups:
            for sensor in group.sensors:
                sensor._attach(self, group)
            group.backend = group.cls._build_group(group)
        for sensor in self._sensors:
            writes = [write for name, value in sensor._initial() for write in self._writes(sensor, name, value, None)]
            for write in writes:
                write.apply()
        for sensor in self._sensors:
            self._times.note(
                self._rows[sensor.uuid], {name: getattr(sensor.options, name) for name in TIMING_PARAMETERS}
            )
        self._plans = {}
        self._note_timing()
        everyone = torch.ones(n_envs, dtype=torch.bool, device=device)
        if world.is_gpu:
            engine: Any = world
            engine.run(lambda: self._restart(everyone, self._unfused))
            self._capture()
        else:
            world.forward()  # fields that hooks have bound since the world began are not yet filled
            self._compile()
            self.reset(None)
            self._planned()

    def _note_timing(self) -> None:
        """Know what has a rate, a delay, drop-outs or sticks now."""
        self._kernels.timed = self._times.timed
        # a graph is captured once, and rate or drop-outs may be set later
        flags, is_gpu = self._times.flags, self.world.is_gpu
        self._held = {key for key, rows in self._rows_of.items() if is_gpu or any(flags[row] & HELD for row in rows)}
        self._steps = []  # laid out by the next step, for many a parameter may be set before it

    def _planned(self) -> list[Callable[[], None]]:
        """The calls of a step on the CPU, as things are set now; those of settings that come back are kept."""
        # all that the stages of a step decide by: a plan holds until one of them changes
        idle = tuple(self.is_idle(group) for group in self._unfused if group.hooked and group.in_pipeline)
        key = (self._times.timed, frozenset(self._held), idle)
        if key not in self._plans:
            if len(self._plans) == _MOST_PLANS:
                del self._plans[next(iter(self._plans))]
            self._plans[key] = self._plan()
        self._steps = self._plans[key]
        return self._steps

    def _compile(self) -> None:
        """Compile the kernels of steps and resets together, on all cores, instead of each at its first call."""
        from sensorium.pipeline.chain import prepare

        launches = self._kernels.launches(list(self._blocks.values()))
        if not self._kernels.threaded:
            launches += [one for replays, call in self._stages() if replays for one in capture(call)]
        prepare(launches)

    def _stages(self) -> list[tuple[bool, Callable[[], None]]]:
        """The calls of a step on the CPU, in order, each with whether it can be captured and replayed."""
        stages: list[tuple[bool, Callable[[], None]]] = []
        for group in self._raw:
            raw = group.cls._update_raw_data
            stages.append((is_replayable(raw), partial(raw, group, group.truth)))
        stages.append((True, lambda: self._kernels.step(self.clock)))
        for group in self._unfused:
            if group.hooked:
                stages.append((self._replays(group), partial(self._run_hooks, group)))
            if group.post_processed:
                process = group.cls._post_process
                stages.append((is_replayable(process), partial(process, group, group.truth, group.return_truth, False)))
                stages.append((is_replayable(process), partial(process, group, group.reading, group.snapshot, True)))
            if group.stored:
                stages.append((not group.delayed, partial(self._deliver, group)))
        return stages

    def _plan(self) -> list[Callable[[], None]]:
        """Lay the calls of a step out, for looking up takes time, too; those in a row that are nothing but compiled
        kernels become one."""
        stages = self._stages()
        if self._kernels.threaded:  # work so large that calls cost nothing beside it
            return [call for _, call in stages]
        from sensorium.pipeline.chain import chain

        plan: list[Callable[[], None]] = []
        for replays, members in itertools.groupby(stages, key=lambda stage: stage[0]):
            calls = [call for _, call in members]
            plan += [chain([one for call in calls for one in capture(call)])] if replays else calls
        return plan

    def _replays(self, group: SensorGroup) -> bool:
        """Whether the hooks of a group before its post-processing are replayable in every part."""
        if not group.in_pipeline or group.responds or id(group) in self._held:
            return False
        names = ("_update_shared_cache", "_update_raw_data", "_apply_hardware_imperfections")
        return all(is_replayable(getattr(group.cls, name, None)) for name in names)

    def _make_kernels(self) -> Any:
        """The kernels for the world's device; Numba and Warp are imported here, and not before they are needed."""
        blocks = list(self._blocks.values())
        if self.world.is_gpu:
            from sensorium.pipeline.gpu import GpuKernels

            world: Any = self.world
            return GpuKernels(world.sensed, world.steps, blocks, self._posts, self._timing, self.dt)
        from sensorium.pipeline.cpu import CpuKernels

        return CpuKernels(self.world, blocks, self._posts, self._timing, self.dt)

    def _capture(self) -> None:
        """Put sensing into the world's graphs: all of it, or all but the hooks if those cannot be captured."""
        world: Any = self.world
        for captured in ([group for group in self._unfused if group.capturable], []):
            self._captured = captured
            self._eager = [group for group in self._unfused if group not in captured]
            world.attach(
                lambda: self._kernels.step(0),
                lambda: self._run(self._captured),
                lambda mask: self._restart(mask, self._captured),
            )
            try:
                world.capture()
                return
            except RuntimeError as error:
                if not captured or is_out_of_memory(error):
                    raise
                names = ", ".join(group.cls.__name__ for group in captured)
                warnings.warn(
                    f"the hooks of {names} cannot be captured in a CUDA graph ({error}); they run after it. Set "
                    "capturable = False in the class that is to blame, and the others are captured again",
                    stacklevel=5,
                )

    def _build_posts(self, groups: list[SensorGroup]) -> None:
        device, n_envs = self.world.device, self.world.n_envs
        self._posts, self._post_of = [], {}
        for dtype in dict.fromkeys(group.return_dtype for group in groups):
            members = [group for group in groups if group.return_dtype == dtype]
            firsts = np.cumsum([0, *(group.n_returns for group in members)]).tolist()
            shape = (firsts[-1], n_envs)
            snapshot, truth = (torch.zeros(shape, dtype=dtype, device=device) for _ in range(2))
            stored = [(group, first) for group, first in zip(members, firsts, strict=False) if group.stored]
            delivery = build_delivery(
                [group for group, _ in stored],
                [first for _, first in stored],
                self._rows,
                n_envs,
                dtype,
                self.dt,
                device,
            )
            post = PostBlock(delivery, snapshot, truth, members)
            for group, first in zip(members, firsts, strict=False):
                rows = slice(first, first + group.n_returns)
                group.snapshot, group.return_truth = snapshot[rows], truth[rows]
                self._post_of[id(group)] = post
            self._posts.append(post)

    @staticmethod
    def _alias(group: SensorGroup) -> None:
        """Without storage of its own, a group's cache is its part of the working buffer or of the snapshots."""
        if not group.post_processed:
            if group.return_dtype != group.dtype:
                raise OptionError(
                    f"{group.cls.__name__}: _get_cache_dtype is {group.return_dtype} but _get_intermediate_dtype is "
                    f"{group.dtype}, so the class must override _post_process"
                )
            group.snapshot, group.return_truth = group.reading, group.truth
        if not group.stored:
            group.cache = group.snapshot

    # -- run ----------------------------------------------------------------------------------------------------------

    def step(self) -> None:
        """Sense the world as it is now: one more step."""
        if not self.world.is_gpu:
            self.step_count += 1
            for call in self._steps or self._planned():
                call()
            return
        if self._eager:
            world: Any = self.world
            world.run(lambda: self._run(self._eager))

    def _run(self, groups: list[SensorGroup]) -> None:
        """The stages of groups with hooks of their own."""
        for group in groups:
            if group.hooked:
                self._run_hooks(group)
            if group.post_processed:
                self._post_process(group)
            if group.stored:
                self._deliver(group)

    def _run_hooks(self, group: SensorGroup) -> None:
        cls = group.cls
        if not group.in_pipeline:
            cls._update_shared_cache(group, group.truth, group.reading)
            return
        held = self._resetting is None and id(group) in self._held
        measured = group.scratch if held else group.reading
        if self._resetting is None:
            for line in (group.truth_timeline, group.measured_timeline):
                if line is not None:
                    line.advance()
        cls._update_shared_cache(group, group.truth, measured)
        if held:
            for row, part in zip(self._rows_of[id(group)], group.slices, strict=True):
                torch.where(self._timing.due[row], measured[part], group.reading[part], out=group.reading[part])

    def _post_process(self, group: SensorGroup) -> None:
        group.cls._post_process(group, group.truth, group.return_truth, False)
        group.cls._post_process(group, group.reading, group.snapshot, True)

    def _deliver(self, group: SensorGroup) -> None:
        delivery, measured, truth = self._delivery_of(group)
        rows, step = group.delivery_rows, self.clock if not self.world.is_gpu else self.step_count
        if group.delayed:
            self._kernels.deliver(delivery, rows, measured, truth, step, serve=False, remember=False)
            group.cls._apply_delay(group, group.ring, group.cache)
            self._kernels.deliver(delivery, rows, measured, truth, step, serve=False, remember=True)
        else:
            self._kernels.deliver(delivery, rows, measured, truth, step)

    def _delivery_of(self, group: SensorGroup) -> tuple[Any, torch.Tensor, torch.Tensor]:
        if group.post_processed:
            post = self._post_of[id(group)]
            return post.delivery, post.snapshot, post.truth
        block = self._blocks[group.dtype]
        return block.direct, block.store.reading, block.store.truth

    # -- what group.timing(), group.gather() and group.imperfect() do ------------------------------------------------

    def timing(self, sensor: Any) -> tuple[torch.Tensor, torch.Tensor]:
        """Whether a sensor is due in this step, and how late it is in steps, (B,) each."""
        row = self._rows[sensor.uuid]
        return self._timing.due[row], self._timing.lag[row]

    def gather(self, group: SensorGroup, out: torch.Tensor) -> None:
        """Raw signals of one group into ``out``."""
        self._kernels.gather(self._blocks[group.dtype], group)
        if out.data_ptr() != group.truth.data_ptr():
            self._kernels.copy(group.truth, out)

    def copy(self, source: torch.Tensor, target: torch.Tensor) -> None:
        """Copy one of the groups' own tensors to another."""
        self._kernels.copy(source, target)

    def is_idle(self, group: SensorGroup) -> bool:
        """Whether the hardware stage of a group has nothing to do now. Never in a graph, which outlives settings."""
        if self.world.is_gpu or self._resetting is not None:
            return False
        return self._blocks[group.dtype].parameters.is_idle(group.columns)

    def imperfect(self, group: SensorGroup, data: torch.Tensor) -> None:
        """The generic hardware stage of one group, in place."""
        if self.is_idle(group):
            return
        block = self._blocks[group.dtype]
        before = group.before
        self._kernels.copy(data, before)
        if self._resetting is None:
            step = self.step_count if self.world.is_gpu else self.clock
            self._kernels.hardware(block, group, before, data, step)
        else:
            self._kernels.reset_hardware(block, group, before, data, self.step_count, self._resetting)

    # -- reset --------------------------------------------------------------------------------------------------------

    def reset(self, envs: Envs) -> None:
        """Clear rings, drift and response of some envs, and take their first reading at the state as it is."""
        world: Any = self.world
        if world.is_gpu:  # the world's own graph has done all but the hooks that are not in it
            if self._eager:
                world.run(lambda: self._restart(world.mask, self._eager, fused=False))
            return
        ids = env_ids(envs, world.n_envs)
        if ids is None:
            ids = np.arange(world.n_envs, dtype=np.int32)
        if len(ids):
            mask = torch.zeros(world.n_envs, dtype=torch.bool)
            mask[torch.from_numpy(ids.astype(np.int64))] = True
            self._restart(mask, self._unfused, ids)

    def _restart(
        self, mask: torch.Tensor, groups: list[SensorGroup], ids: np.ndarray | None = None, fused: bool = True
    ) -> None:
        """Restart the envs in ``mask`` (on the CPU also given as ids) in fused columns and in ``groups``."""
        envs = mask if ids is None else ids
        self._resetting = envs
        try:
            if fused:
                for group in self._raw:
                    self._reset_raw(group, mask)
                for block in self._blocks.values():
                    self._kernels.reset_fused(block, self.step_count, envs)
                self._kernels.reset_timing(envs)
            for group in groups:
                if group.hooked:
                    self._reset_hooks(group, mask)
                if group.in_pipeline:
                    self._reset_returns(group, mask, envs)
        finally:
            self._resetting = None

    def _reset_raw(self, group: SensorGroup, mask: torch.Tensor) -> None:
        """Take the raw signal for all envs, as a step would, and keep it for the reset envs alone."""
        kept = [group.truth, *(state for state, _ in group.states())]
        saved = [tensor.clone() for tensor in kept]
        for state, fill in group.states():
            state.masked_fill_(mask, fill)
        group.cls._reset_group(group, mask)
        group.cls._update_raw_data(group, group.truth)
        for tensor, old in zip(kept, saved, strict=True):
            tensor.copy_(torch.where(mask, tensor, old))

    def _reset_hooks(self, group: SensorGroup, mask: torch.Tensor) -> None:
        """Run the hooks for all envs, as a step would, and keep what they did for the reset envs alone."""
        if not group.in_pipeline:
            group.cls._reset_group(group, mask)
            return
        lines = [line for line in (group.truth_timeline, group.measured_timeline) if line is not None]
        kept = [*(line.ring for line in lines), group.truth, group.reading]
        states = group.states()
        saved = [tensor.clone() for tensor in (*kept, *(state for state, _ in states))]
        for state, fill in states:
            state.masked_fill_(mask, fill)
        group.cls._reset_group(group, mask)
        if lines:
            # the response starts at rest: the past is filled with the signal as it is
            group.cls._update_current_timestep_data(group, group.truth, group.scratch)
            for line, now in zip(lines, (group.truth, group.scratch), strict=True):
                line.ring.copy_(torch.where(mask, now, line.ring))
            if not group.cls._overrides("_update_shared_cache"):
                group.cls._respond(group, group.truth, group.scratch)
                group.reading.copy_(group.scratch)
        if not lines or group.cls._overrides("_update_shared_cache"):
            self._run_hooks(group)
        for line in lines:
            line.ring.copy_(torch.where(mask, line[0].clone(), line.ring))
        for tensor, old in zip((*kept, *(state for state, _ in states)), saved, strict=True):
            tensor.copy_(torch.where(mask, tensor, old))

    def _reset_returns(self, group: SensorGroup, mask: torch.Tensor, envs: Any) -> None:
        if group.post_processed:
            kept = [(tensor, tensor.clone()) for tensor in (group.return_truth, group.snapshot)]
            self._post_process(group)
            for tensor, old in kept:
                tensor.copy_(torch.where(mask, tensor, old))
        if group.stored:
            delivery, measured, truth = self._delivery_of(group)
            self._kernels.reset_delivery(delivery, group.delivery_rows, measured, truth, envs)
        if group.delayed:
            before = group.cache.clone()
            group.cls._apply_delay(group, group.ring, group.cache)
            group.cache.copy_(torch.where(mask, group.cache, before))
            group.history.copy_(torch.where(mask, group.cache, group.history))

    # -- parameters ---------------------------------------------------------------------------------------------------

    def set(self, sensor: Any, values: dict[str, Any], envs: Envs) -> None:
        """Change parameters of one sensor for some envs; all are checked before any is changed."""
        index = env_index(envs, self.world.n_envs, self.world.device)
        writes = [write for name, value in values.items() for write in self._writes(sensor, name, value, index)]
        row = self._rows[sensor.uuid]
        self._times.check(row, type(sensor).options_type.__name__, values, index)
        for write in writes:
            write.apply()
        self._times.note(row, values, index)
        self._note_timing()

    def noise(self, sensor: Any, part: slice) -> torch.Tensor:
        """The noise per sample of some columns of a sensor, (B, columns)."""
        start = sensor.group.columns.start + sensor._columns.start
        rows = self._blocks[sensor.group.dtype].store.parameter("noise")
        return rows[start + part.start : start + part.stop].T

    def _writes(self, sensor: Any, name: str, value: Any, index: torch.Tensor | None) -> list[Write]:
        option = f"{type(sensor).options_type.__name__}.{name}"
        if name in TIMING_PARAMETERS:
            return [self._times.write(self._rows[sensor.uuid], name, option, value, index)]
        kind, part = sensor._parameter(name)
        if kind == "custom":
            return sensor._custom_writes(name, option, value, index)
        block = self._blocks[sensor.group.dtype]
        start = sensor.group.columns.start + sensor._columns.start
        rows = slice(start + part.start, start + part.stop)
        if kind == "mix":
            return block.parameters.mix_write(option, value, rows, index)
        if kind in EXTRA_OPTIONS:
            return block.parameters.extra_writes(kind, option, value, rows, index, sensor._filter_order())
        return block.parameters.writes(kind, option, value, rows, index)

    # -- reading ------------------------------------------------------------------------------------------------------

    def read(self, envs: Envs) -> dict[str, torch.Tensor]:
        """Class name -> fresh (B, columns) tensor of its readings."""
        index = env_index(envs, self.world.n_envs, self.world.device)
        out = {}
        for group in self.groups:
            if group.in_pipeline:
                cache = group.cache if index is None else group.cache[:, index]
                out[group.cls.options_type.__name__] = cache.T.clone(memory_format=torch.contiguous_format)
        return out

    def describe(self) -> list[dict[str, str]]:
        """One row a sensor: what it is, what it returns, when, what it takes, and how it runs."""
        return [row for group in self.groups for row in describe_group(group, self._where(group))]

    def draw(self, painter: Painter, env: int) -> None:
        """Let the sensors with ``draw_debug`` paint what they look at and feel in one env."""
        for sensor in self._sensors:
            if sensor.options.draw_debug:
                sensor._draw(painter, env)

    def _where(self, group: SensorGroup) -> str:
        if group in self._raw:
            return "hook, fused, post-process" if group.post_processed else "hook, fused"
        if group not in self._unfused:
            return "fused"
        how = "hooks" if group.hooked else "fused, post-process"
        if not self.world.is_gpu:
            return how
        return f"{how}, {'in the graph' if group in self._captured else 'after the graph'}"

    def close(self) -> None:
        """Stop threads, and leave the sensors as if they had not been built."""
        if hasattr(self, "_kernels"):
            self._kernels.close()
        for sensor in self._sensors:
            sensor._detach()
