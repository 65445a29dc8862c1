"""``HookTests``: guarantees about the hooks of a class. Those that count calls need the CPU: on a GPU, hooks run in
Python only while a graph is captured."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import TracebackType

import torch

from sensorium.sensors import Sensor
from sensorium.testing.runs import ContractRuns, flat, same, skip

_HOOKS = (
    "_update_shared_cache",
    "_update_current_timestep_data",
    "_update_raw_data",
    "_apply_transform",
    "_post_process",
)
"""Hooks that run in every tick."""


class HookTests(ContractRuns):
    """Contract tests of hooks, states and timelines."""

    def test_hardware_imperfections_do_not_enter_the_timeline(self) -> None:
        """The timelines of the response model, and ground truth, do not contain hardware imperfections."""
        clean_scene, clean = self.start()
        imperfect_scene, imperfect = self.start(**self.imperfections)
        self.run(clean_scene, clean)
        self.run(imperfect_scene, imperfect)
        for expected, got in zip(clean.group.timelines, imperfect.group.timelines, strict=True):
            for age in range(len(expected)):
                assert same(expected.at(age), got.at(age))
        assert same(clean.group.truth, imperfect.group.truth)

    def test_post_process_runs_once_per_branch_and_step(self) -> None:
        """``_post_process`` runs exactly once per branch in every step and in every reset, independently of reads."""
        cls = self._observed_class(("_post_process",))
        calls: list[object] = []
        with CallObserver(cls, "_post_process", lambda *args: calls.append(args[-1])):
            scene, sensor = self.start()
            assert calls == [False, True]  # the reset at build
            for step in range(5):
                self.step(scene, step)
                sensor.read()
                sensor.read()
            scene.reset(envs=[1])
        assert calls == [False, True] * 7

    def test_raw_hook_runs_once_per_step_and_reset(self) -> None:
        """The raw signal is computed once per step, and once per reset: one that has a state does not advance twice."""
        cls = self._observed_class(("_update_raw_data",))
        calls: list[object] = []
        with CallObserver(cls, "_update_raw_data", lambda *args: calls.append(None)):
            scene, _ = self.start()
            counts = [len(calls)]
            for step in range(3):
                self.step(scene, step)
                counts.append(len(calls))
            scene.reset(envs=[1])
            counts.append(len(calls))
        if not counts[0]:
            skip(f"{cls.__name__} does not use _update_raw_data")
        assert counts == [1, 2, 3, 4, 5]

    def test_reset_group_runs_once_per_reset(self) -> None:
        """``_reset_group`` is called once per reset, with the mask of the envs, after the states were set to their fill
        value in these envs only."""
        _, sensor = self.start()
        self._needs_cpu()
        masks: list[list[bool]] = []
        states: list[list[float]] = []

        def observe(*args: object) -> None:
            mask = args[1]
            assert isinstance(mask, torch.Tensor)
            masks.append(mask.tolist())
            if len(masks) > 1:
                states.append(sensor.group.state("contract", n_columns=1, fill=2.0)[0].tolist())

        with CallObserver(type(sensor), "_reset_group", observe):
            scene, sensor = self.start()
            assert masks == [[True] * 3]
            sensor.group.state("contract", n_columns=1, fill=2.0)[:] = 1
            self.step(scene, 0)
            scene.reset(envs=[1])
        assert masks == [[True] * 3, [False, True, False]]
        fill = float(torch.tensor(2.0).to(sensor.group.dtype))
        assert states == [[1, fill, 1]]
        assert sensor.group.state("contract").tolist() == states

    def test_draws_depend_on_seed_env_episode_and_time(self) -> None:
        """``group.normal`` and ``group.uniform`` return the same numbers at every batch size, new ones in every tick
        and episode, and the same ones when an episode is made again."""
        self._needs_cpu()
        scene, sensor = self.start(n_envs=4)
        rows = self._draw(sensor)
        self.step(scene, 0)
        rows += self._draw(sensor)
        scene.reset(envs=[2])
        rows += self._draw(sensor)
        assert same(rows[2][[0, 1, 3]], rows[4][[0, 1, 3]])
        assert not same(rows[0][2], rows[4][2])
        assert not same(rows[0], rows[2])
        other, again = self.start(n_envs=1)
        other.set_episodes(1, env_ids=2)
        other.reset()
        for number, row in enumerate(self._draw(again)):
            assert same(row[0], rows[4 + number][2])

    @staticmethod
    def _draw(sensor: Sensor[object]) -> list[torch.Tensor]:
        """Return normals and uniforms of this tick, (B, columns) each."""
        group = sensor.group
        normal, uniform = group.normal("contract").T.clone(), group.uniform("contract").T.clone()
        assert bool(((uniform >= 0) & (uniform < 1)).all())
        assert same(group.normal("contract").T, normal)
        return [normal, uniform]

    def test_reads_obey_the_contract_after_a_hook_raised(self) -> None:
        """If a hook raises in a step, the error reaches the caller of ``scene.step()``, and the sample of that step is
        lost: the reading before is held and ages."""
        scene, sensor = self.start()
        if sensor.group.is_gpu:
            skip("hooks run in Python only on the CPU; on a GPU they are captured in a graph")
        cls, failing, dt = self._observed_class(_HOOKS), [False], self.dt
        hook = next(name for name in _HOOKS if cls._overrides(name))

        def fail(*args: object) -> None:
            if failing[0]:
                raise ArithmeticError("raised by the contract test")

        with CallObserver(cls, hook, fail):
            scene, sensor = self.start(delay=2 * dt, **self.imperfections)
            readings = [flat(sensor.read())]
            raised = 0
            for step in range(10):
                failing[0] = step == 4
                try:
                    self.step(scene, step)
                except ArithmeticError:
                    raised += 1
                readings.append(flat(sensor.read()))
                # the sample of step 4 would be read in step 6
                want = torch.full_like(sensor.age(), (3 if step == 6 and raised else min(step + 1, 2)) * dt)
                assert torch.allclose(sensor.age(), want, atol=1e-6)
        if not raised:
            skip(f"{cls.__name__} does not use {hook}")
        assert raised == 1
        assert same(readings[7], readings[6])  # what was read before the lost sample is held

    # -- helpers ------------------------------------------------------------------------------------------------------

    def _needs_cpu(self) -> None:
        if self.device != "cpu":
            skip("hooks run in Python only on the CPU; on a GPU they are captured in a graph")

    def _observed_class(self, hooks: Sequence[str]) -> type[Sensor[object]]:
        """Return the class of the sensor; skip if it overrides none of these hooks."""
        self._needs_cpu()
        _, sensor = self.start()
        cls = type(sensor)
        if not cls._overrides(*(hook for hook in hooks if hasattr(cls, hook))):
            skip(f"{cls.__name__} overrides none of {', '.join(hooks)}")
        return cls


class CallObserver:
    """Context in which every call of a class method first calls ``on_call`` with the same arguments."""

    def __init__(self, cls: type, name: str, on_call: Callable[..., object]) -> None:
        self._cls, self._name, self._on_call = cls, name, on_call

    def __enter__(self) -> None:
        original = getattr(self._cls, self._name).__func__
        self._own = self._cls.__dict__.get(self._name)
        on_call = self._on_call

        def observed(cls: type, *args: object) -> object:
            on_call(*args)
            return original(cls, *args)

        setattr(self._cls, self._name, classmethod(observed))

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._own is None:
            delattr(self._cls, self._name)
        else:
            setattr(self._cls, self._name, self._own)
