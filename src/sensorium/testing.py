"""``SensorContract``: tests that every sensor class must pass, for pytest.

Inherit it in a test class and define how to create a scene and the sensor's options::

    from sensorium.testing import SensorContract

    class TestThermometer(SensorContract):
        imperfections = {"noise": 0.1, "random_walk": 0.05}

        def make_scene(self):
            scene = sn.Scene(dt=0.01, substeps=2)
            scene.add_object(sn.Box(), name="box", pos=(0, 0, 0.5), free=True)
            return scene

        def make_options(self, **options):
            return Thermometer(link="box", **options)

Each test checks one guarantee of the pipeline, which its docstring states. ``docs/pipeline.md`` explains them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, ClassVar

import numpy as np
import torch

from sensorium.pipeline.layout import n_columns
from sensorium.sensors import Sensor
from sensorium.sensors.options import SensorOptions
from sensorium.worlds import Scene

__all__ = ["SensorContract"]


class SensorContract:
    """Mixin of pytest tests for one sensor class.

    Override :meth:`make_scene`, :meth:`make_options` and ``imperfections``, and :meth:`drive` if the scene needs
    controls. ``start`` and ``run`` are helpers for further tests of your own.

    Example::

        class TestThermometer(SensorContract):
            imperfections = {"noise": 0.1}

            def make_scene(self):
                scene = sn.Scene(dt=0.01)
                scene.add_object(sn.Box(), name="box", pos=(0, 0, 0.5), free=True)
                return scene

            def make_options(self, **options):
                return Thermometer(link="box", **options)
    """

    imperfections: ClassVar[Mapping[str, Any]] = {"noise": 0.1}
    """Options that make the measured branch differ from ground truth. ``sensor.set`` must be able to change them."""
    seed: ClassVar[int] = 5
    """Seed of every scene."""
    device: ClassVar[str] = "cpu"
    """Device of every scene. On "cuda", use a scene without contacts: the physics of MuJoCo Warp with contacts is not
    bit-identical from run to run."""
    steps: ClassVar[int] = 40
    """Steps of every run."""

    def make_scene(self) -> Scene:
        """Return a new, unbuilt scene without sensors, in which the signal changes within ``steps`` steps."""
        raise NotImplementedError

    def make_options(self, **options: Any) -> SensorOptions:
        """Return the sensor's options.

        Args:
            **options: options to set, such as ``uuid``, ``delay`` or those of ``imperfections``.
        """
        raise NotImplementedError

    def drive(self, scene: Scene, step: int) -> None:
        """Apply controls before a step. They must not depend on the batch size.

        Args:
            scene: the scene.
            step: number of the step, from 0.
        """

    # -- helpers ------------------------------------------------------------------------------------------------------

    def start(self, n_envs: int = 3, extra: bool = False, **options: Any) -> tuple[Scene, Sensor[Any]]:
        """Build a scene with the sensor under the uuid "probe".

        Args:
            n_envs: B.
            extra: whether to add another sensor of the class before it.
            **options: options of the sensor.

        Returns:
            The scene and the sensor.
        """
        scene = self.make_scene()
        if extra:
            scene.add_sensor(self.make_options(uuid="other"))
        sensor = scene.add_sensor(self.make_options(uuid="probe", **options))
        scene.build(n_envs=n_envs, seed=self.seed, device=self.device)
        return scene, sensor

    def run(self, scene: Scene, sensor: Sensor[Any], read: str = "read") -> list[torch.Tensor]:
        """Make ``steps`` steps and collect the readings.

        Args:
            scene: a built scene.
            sensor: the sensor to read.
            read: "read" or "read_ground_truth".

        Returns:
            One (B, columns) tensor per step.
        """
        out = []
        for step in range(self.steps):
            self.drive(scene, step)
            scene.step()
            out.append(flat(getattr(sensor, read)()))
        return out

    # -- guarantees ---------------------------------------------------------------------------------------------------

    def test_shapes_and_dtypes_are_as_declared(self) -> None:
        """Readings and ground truth have the declared shape after B, and the dtype of the class."""
        for n_envs in (1, 3):
            scene, sensor = self.start(n_envs=n_envs)
            scene.step()
            layout = sensor._get_return_format()
            for reading in (sensor.read(), sensor.read_ground_truth()):
                if isinstance(layout, dict):
                    assert {name: tuple(value.shape) for name, value in reading._asdict().items()} == {
                        name: (n_envs, *shape) for name, shape in layout.items()
                    }
                else:
                    assert tuple(reading.shape) == (n_envs, *layout)
                assert all(tensor.dtype == sensor._get_cache_dtype() for tensor in tensors(reading))
                assert flat(reading).shape == (n_envs, n_columns(layout))

    def test_reads_are_views_without_side_effects(self) -> None:
        """Two reads in a step return the same values in the same memory, and reads do not change later readings."""
        scene, sensor = self.start(delay=0.02, jitter=0.01, **self.imperfections)
        unread_scene, unread = self.start(delay=0.02, jitter=0.01, **self.imperfections)
        addresses = [tensor.data_ptr() for tensor in tensors(sensor.read())]
        for step in range(self.steps):
            self.drive(scene, step)
            self.drive(unread_scene, step)
            scene.step()
            unread_scene.step()
            assert same(flat(sensor.read()), flat(sensor.read()))
            assert [tensor.data_ptr() for tensor in tensors(sensor.read())] == addresses
        assert same(flat(sensor.read()), flat(unread.read()))

    def test_ground_truth_has_no_delay_and_no_imperfections(self) -> None:
        """Ground truth does not depend on delay, rate or imperfections."""
        clean = self.run(*self.start(), read="read_ground_truth")
        imperfect = self.start(delay=0.03, jitter=0.02, rate=20.0, dropout=0.3, **self.imperfections)
        for expected, got in zip(clean, self.run(*imperfect, read="read_ground_truth"), strict=True):
            assert same(expected, got)

    def test_delayed_readings_are_frozen_snapshots(self) -> None:
        """A read at time t returns the snapshot of t - delay, with the noise of its capture."""
        lag = 3
        undelayed = self.run(*self.start(**self.imperfections))
        delayed = self.run(*self.start(delay=lag * self.make_scene().dt, **self.imperfections))
        for step in range(lag, self.steps):
            assert same(delayed[step], undelayed[step - lag])

    def test_jittered_readings_are_snapshots_of_the_allowed_ages(self) -> None:
        """With jitter, each env reads one whole snapshot, whose age is between delay and delay + jitter."""
        dt = self.make_scene().dt
        undelayed = self.run(*self.start(**self.imperfections))
        delayed = self.run(*self.start(delay=2 * dt, jitter=2 * dt, **self.imperfections))
        for step in range(4, self.steps):
            for env in range(3):
                ages = [age for age in range(2, 5) if same(delayed[step][env], undelayed[step - age][env])]
                assert ages, f"step {step}, env {env}: the reading is no snapshot of an allowed age"

    def test_hardware_imperfections_do_not_enter_the_timeline(self) -> None:
        """The timelines of the response model, and ground truth, do not contain hardware imperfections."""
        clean_scene, clean = self.start()
        imperfect_scene, imperfect = self.start(**self.imperfections)
        self.run(clean_scene, clean)
        self.run(imperfect_scene, imperfect)
        for name in ("truth_timeline", "measured_timeline"):
            expected, got = getattr(clean.group, name), getattr(imperfect.group, name)
            assert (expected is None) == (got is None)
            if expected is not None:
                assert same(expected.ring, got.ring)
        assert same(clean.group.truth, imperfect.group.truth)

    def test_reset_changes_only_the_reset_envs(self) -> None:
        """A reset of one env changes no bit of the readings of the others, now or later."""
        options = dict(delay=0.02, jitter=0.01, **self.imperfections)
        scene, sensor = self.start(**options)
        twin, undisturbed = self.start(**options)
        self.run(scene, sensor)
        self.run(twin, undisturbed)
        scene.reset(envs=[1])
        others = [0, 2]
        assert same(flat(sensor.read())[others], flat(undisturbed.read())[others])
        for got, expected in zip(self.run(scene, sensor), self.run(twin, undisturbed), strict=True):
            assert same(got[others], expected[others])

    def test_first_reading_after_reset_is_the_state_at_reset(self) -> None:
        """Rings, response and drift start afresh: after a reset, an env reads the same as after build."""
        scene, sensor = self.start(delay=0.02, rate=30.0, history_length=3)
        at_build = flat(sensor.read()).clone(), flat(sensor.read_ground_truth()).clone()
        self.run(scene, sensor)
        scene.reset(envs=[2])
        assert same(flat(sensor.read())[2], at_build[0][2])
        assert same(flat(sensor.read_ground_truth())[2], at_build[1][2])
        drifted, sensor = self.start(**self.imperfections)
        self.run(drifted, sensor)
        drifted.reset()
        layout = sensor.group._manager.layout
        walk = layout.block(sensor.group).store.walk[sensor.group.columns]
        assert not walk.any(), "drift must start from 0"

    def test_readings_do_not_depend_on_batch_size(self) -> None:
        """With the same seed, env k reads the same bits at every batch size."""
        options = dict(delay=0.02, jitter=0.02, dropout=0.2, **self.imperfections)
        one = self.run(*self.start(n_envs=1, **options))
        many = self.run(*self.start(n_envs=17, **options))
        for alone, together in zip(one, many, strict=True):
            assert same(alone[0], together[0])

    def test_readings_do_not_depend_on_other_sensors(self) -> None:
        """Adding another sensor of the class does not change the readings of this one."""
        options = dict(delay=0.02, jitter=0.02, **self.imperfections)
        alone = self.run(*self.start(**options))
        together = self.run(*self.start(extra=True, **options))
        for expected, got in zip(alone, together, strict=True):
            assert same(expected, got)

    def test_history_holds_past_readings_newest_first(self) -> None:
        """Index k of the history is what ``read()`` returned k steps ago, with its delay and jitter; likewise for
        ground truth."""
        length = 5
        options = dict(delay=0.02, jitter=0.02, **self.imperfections)
        for read in ("read", "read_ground_truth"):
            plain = self.run(*self.start(**options), read=read)
            scene, sensor = self.start(history_length=length, **options)
            for step in range(self.steps):
                self.drive(scene, step)
                scene.step()
                history = flat(getattr(sensor, read)(), lead=2)
                shorter = flat(getattr(sensor, read)(history_length=3), lead=2)
                assert history.shape[1] == length
                assert same(history[:, :3], shorter)
                for age in range(min(length, step + 1)):
                    assert same(history[:, age], plain[step - age])

    def test_readings_are_held_between_sampling_instants(self) -> None:
        """A reading changes only in steps that contain a sampling instant k / rate, to the sample of that step."""
        dt = self.make_scene().dt
        rate = 0.3 / dt
        every_step = self.run(*self.start(**self.imperfections))
        held = self.run(*self.start(rate=rate, **self.imperfections))
        current = None
        for step in range(self.steps):
            time = step + 1
            if np.floor(time * 0.3 + 1e-6) > np.floor((time - 1) * 0.3 + 1e-6):
                current = every_step[step]
            if current is not None:
                assert same(held[step], current)

    def test_lost_samples_leave_the_reading_unchanged(self) -> None:
        """In each env the reading is either the new sample or the previous reading, never a mixture. With a dropout of
        1 it never changes."""
        every_step = self.run(*self.start(**self.imperfections))
        scene, sensor = self.start(dropout=0.5, **self.imperfections)
        before = flat(sensor.read()).clone()
        for step, got in enumerate(self.run(scene, sensor)):
            for env in range(3):
                assert same(got[env], every_step[step][env]) or same(got[env], before[env])
            before = got
        scene, sensor = self.start(dropout=1.0, **self.imperfections)
        first = flat(sensor.read()).clone()
        assert all(same(got, first) for got in self.run(scene, sensor))

    def test_set_changes_only_the_given_envs(self) -> None:
        """Parameters that are set in one env change no bit of the readings of the others."""
        scene, sensor = self.start()
        sensor.set(envs=[1], **self.imperfections)
        clean = self.run(*self.start())
        changed = self.run(scene, sensor)
        for got, expected in zip(changed, clean, strict=True):
            assert same(got[[0, 2]], expected[[0, 2]])
        imperfect = self.run(*self.start(**self.imperfections))
        for got, expected in zip(changed, imperfect, strict=True):
            assert same(got[1], expected[1])

    def test_post_process_runs_once_per_branch_and_step(self) -> None:
        """``_post_process`` runs exactly once per branch in every step, independently of reads."""
        if self.device != "cpu":
            return  # in Python, hooks run only while the graph is captured
        _, sensor = self.start()
        if not sensor.group.post_processed:
            return
        calls: list[bool] = []
        with _CallObserver(type(sensor), "_post_process", lambda *args: calls.append(args[-1])):
            scene, sensor = self.start()
            calls.clear()  # removes those of the reset
            for step in range(5):
                self.drive(scene, step)
                scene.step()
                sensor.read()
                sensor.read()
        assert calls == [False, True] * 5

    def test_buffers_hold_the_readings(self) -> None:
        """The component tree has the measured values and ground truth, tagged with the kind of the sensor."""
        scene, sensor = self.start(**self.imperfections)
        self.run(scene, sensor)
        state = scene.state_dict(include_tags=[sensor.kind])
        assert set(state) == {"probe.measured", "probe.ground_truth"}
        assert same(state["probe.measured"].reshape(3, -1), flat(sensor.read()))
        assert same(state["probe.ground_truth"].reshape(3, -1), flat(sensor.read_ground_truth()))


class _CallObserver:
    """Context in which every call of a class method also calls ``on_call`` with the same arguments."""

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

    def __exit__(self, *_: object) -> None:
        if self._own is None:
            delattr(self._cls, self._name)
        else:
            setattr(self._cls, self._name, self._own)


def tensors(reading: torch.Tensor | Iterable[torch.Tensor]) -> list[torch.Tensor]:
    """Return the tensors of a reading: one, or one per field of a named tuple."""
    return [reading] if isinstance(reading, torch.Tensor) else list(reading)


def flat(reading: torch.Tensor | Iterable[torch.Tensor], lead: int = 1) -> torch.Tensor:
    """Return a reading as one new tensor: (B, columns), or (B, N, columns) with ``lead=2``."""
    return torch.cat([tensor.flatten(lead) for tensor in tensors(reading)], dim=lead)


def same(a: torch.Tensor, b: torch.Tensor) -> bool:
    """Return whether two tensors have the same shape, dtype and values. Zeros of either sign count as the same."""
    return a.dtype == b.dtype and a.shape == b.shape and torch.equal(a, b)
