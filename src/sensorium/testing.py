"""``SensorContract``: the tests that every sensor class passes, ours or yours.

Inherit it in a pytest test class and say how to make a world and the sensor's options::

    from sensorium.testing import SensorContract

    class TestThermometer(SensorContract):
        imperfections = {"noise": 0.1, "random_walk": 0.05}

        def make_scene(self):
            scene = sn.Scene(dt=0.01, substeps=2)
            scene.add_object(sn.Box(), name="box", pos=(0, 0, 0.5), free=True)
            return scene

        def make_options(self, **options):
            return Thermometer(link="box", **options)

Each test is one promise of the pipeline; its docstring says which.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np
import torch

from sensorium.pipeline.layout import n_columns
from sensorium.sensors import Sensor
from sensorium.sensors.options import SensorOptions
from sensorium.worlds import Scene

__all__ = ["SensorContract"]


class SensorContract:
    """A pytest mixin; see the module's docstring. Override the two ``make_`` methods and ``imperfections``."""

    imperfections: ClassVar[dict[str, Any]] = {"noise": 0.1}
    """Options that make the measured branch differ from ground truth; all of them can be changed by ``set``."""
    seed: ClassVar[int] = 5
    device: ClassVar[str] = "cpu"
    """Where to run; on "cuda" choose a world without contacts, for MuJoCo Warp's physics is not the same to the bit
    from run to run."""
    steps: ClassVar[int] = 40

    def make_scene(self) -> Scene:
        """A new, unbuilt scene without sensors, in which something happens within ``steps`` steps."""
        raise NotImplementedError

    def make_options(self, **options: Any) -> SensorOptions:
        """The sensor's options, with these on top."""
        raise NotImplementedError

    def drive(self, scene: Scene, step: int) -> None:
        """Called before every step, to apply controls. Must be the same for every batch size."""

    # -- helpers ------------------------------------------------------------------------------------------------------

    def start(self, n_envs: int = 3, extra: bool = False, **options: Any) -> tuple[Scene, Sensor[Any]]:
        """A built scene with the sensor under the uuid "probe"."""
        scene = self.make_scene()
        if extra:
            scene.add_sensor(self.make_options(uuid="other"))
        sensor = scene.add_sensor(self.make_options(uuid="probe", **options))
        scene.build(n_envs=n_envs, seed=self.seed, device=self.device)
        return scene, sensor

    def run(self, scene: Scene, sensor: Sensor[Any], read: str = "read", **kwargs: Any) -> list[torch.Tensor]:
        """Step the scene, and collect what ``read`` gives after each step, flat (B, ...)."""
        out = []
        for step in range(self.steps):
            self.drive(scene, step)
            scene.step()
            out.append(flat(getattr(sensor, read)(**kwargs)))
        return out

    # -- promises -----------------------------------------------------------------------------------------------------

    def test_shapes_and_dtypes_are_as_declared(self) -> None:
        """Readings have the declared shape behind B, and the class's dtype; ground truth likewise."""
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

    def test_reads_are_views_that_trigger_nothing(self) -> None:
        """Reading twice gives the same; the address never changes; reading or not does not change what comes later."""
        scene, sensor = self.start(delay=0.02, jitter=0.01, **self.imperfections)
        unread, silent = self.start(delay=0.02, jitter=0.01, **self.imperfections)
        addresses = [tensor.data_ptr() for tensor in tensors(sensor.read())]
        for step in range(self.steps):
            self.drive(scene, step)
            self.drive(unread, step)
            scene.step()
            unread.step()
            assert same(flat(sensor.read()), flat(sensor.read()))
            assert [tensor.data_ptr() for tensor in tensors(sensor.read())] == addresses
        assert same(flat(sensor.read()), flat(silent.read()))

    def test_ground_truth_is_never_late_or_noisy(self) -> None:
        """Ground truth does not depend on delay, rate or imperfections."""
        clean = self.run(*self.start(), read="read_ground_truth")
        dirty = self.start(delay=0.03, jitter=0.02, rate=20.0, dropout=0.3, **self.imperfections)
        for expected, got in zip(clean, self.run(*dirty, read="read_ground_truth"), strict=True):
            assert same(expected, got)

    def test_late_readings_are_frozen_snapshots(self) -> None:
        """A read at t is the snapshot of t - delay, with the noise of its capture."""
        lag = 3
        prompt = self.run(*self.start(**self.imperfections))
        readings = self.run(*self.start(delay=lag * self.make_scene().dt, **self.imperfections))
        for step in range(lag, self.steps):
            assert same(readings[step], prompt[step - lag])

    def test_jittered_readings_are_snapshots_of_the_allowed_ages(self) -> None:
        """With jitter, each env reads a whole snapshot of between delay and delay + jitter ago."""
        dt = self.make_scene().dt
        prompt = self.run(*self.start(**self.imperfections))
        late = self.run(*self.start(delay=2 * dt, jitter=2 * dt, **self.imperfections))
        for step in range(4, self.steps):
            for env in range(3):
                ages = [age for age in range(2, 5) if same(late[step][env], prompt[step - age][env])]
                assert ages, f"step {step}, env {env}: no snapshot of the allowed ages"

    def test_imperfections_stay_out_of_the_timeline(self) -> None:
        """What the response model remembers (or the ground truth, without one) is clean of hardware noise."""
        clean_scene, clean = self.start()
        dirty_scene, dirty = self.start(**self.imperfections)
        self.run(clean_scene, clean)
        self.run(dirty_scene, dirty)
        for name in ("truth_timeline", "measured_timeline"):
            expected, got = getattr(clean.group, name), getattr(dirty.group, name)
            assert (expected is None) == (got is None)
            if expected is not None:
                assert same(expected.ring, got.ring)
        assert same(clean.group.truth, dirty.group.truth)

    def test_reset_touches_those_envs_only(self) -> None:
        """Resetting an env leaves every bit of the others' readings alone, now and later."""
        options = dict(delay=0.02, jitter=0.01, **self.imperfections)
        scene, sensor = self.start(**options)
        twin, undisturbed = self.start(**options)
        self.run(scene, sensor)
        self.run(twin, undisturbed)
        scene.reset(envs=[1])
        kept = [0, 2]
        assert same(flat(sensor.read())[kept], flat(undisturbed.read())[kept])
        for got, expected in zip(self.run(scene, sensor), self.run(twin, undisturbed), strict=True):
            assert same(got[kept], expected[kept])

    def test_first_reading_after_reset_is_the_state_at_reset(self) -> None:
        """Rings, response and drift start afresh: a reset env reads as it did when the scene was built."""
        scene, sensor = self.start(delay=0.02, rate=30.0, history_length=3)
        at_build = flat(sensor.read()).clone(), flat(sensor.read_ground_truth()).clone()
        self.run(scene, sensor)
        scene.reset(envs=[2])
        assert same(flat(sensor.read())[2], at_build[0][2])
        assert same(flat(sensor.read_ground_truth())[2], at_build[1][2])
        drifted, sensor = self.start(**self.imperfections)
        self.run(drifted, sensor)
        drifted.reset()
        manager = sensor.group._manager
        walk = manager.layout.block(sensor.group).store.walk[sensor.group.columns]
        assert not walk.any(), "drift must start from 0"

    def test_readings_do_not_depend_on_batch_size(self) -> None:
        """Env k reads the same bits at every B, with the same seed."""
        options = dict(delay=0.02, jitter=0.02, dropout=0.2, **self.imperfections)
        one = self.run(*self.start(n_envs=1, **options))
        many = self.run(*self.start(n_envs=17, **options))
        for alone, together in zip(one, many, strict=True):
            assert same(alone[0], together[0])

    def test_readings_do_not_depend_on_other_sensors(self) -> None:
        """Adding another sensor of the class before this one changes nothing."""
        options = dict(delay=0.02, jitter=0.02, **self.imperfections)
        alone = self.run(*self.start(**options))
        accompanied = self.run(*self.start(extra=True, **options))
        for expected, got in zip(alone, accompanied, strict=True):
            assert same(expected, got)

    def test_history_is_what_was_read_newest_first(self) -> None:
        """history[k] is what ``read()`` returned k steps ago, delay and jitter included; also for ground truth."""
        length = 5
        options = dict(delay=0.02, jitter=0.02, **self.imperfections)
        for read in ("read", "read_ground_truth"):
            plain = self.run(*self.start(**options), read=read)
            scene, sensor = self.start(history_length=length, **options)
            for step in range(self.steps):
                self.drive(scene, step)
                scene.step()
                kept = flat(getattr(sensor, read)(), lead=2)
                asked = flat(getattr(sensor, read)(history_length=3), lead=2)
                assert kept.shape[1] == length
                assert same(kept[:, :3], asked)
                for age in range(min(length, step + 1)):
                    assert same(kept[:, age], plain[step - age])

    def test_rate_holds_between_instants(self) -> None:
        """A reading changes only in steps that contain an instant k / rate, and then is the sample of that step."""
        dt = self.make_scene().dt
        rate = 0.3 / dt
        prompt = self.run(*self.start(**self.imperfections))
        held = self.run(*self.start(rate=rate, **self.imperfections))
        current = None
        for step in range(self.steps):
            time = step + 1
            if np.floor(time * 0.3 + 1e-6) > np.floor((time - 1) * 0.3 + 1e-6):
                current = prompt[step]
            if current is not None:
                assert same(held[step], current)

    def test_dropout_holds_the_sample_before(self) -> None:
        """A lost sample leaves the reading as it was; with probability 1, for ever; never a mixture."""
        prompt = self.run(*self.start(**self.imperfections))
        scene, sensor = self.start(dropout=0.5, **self.imperfections)
        before = flat(sensor.read()).clone()
        for step, got in enumerate(self.run(scene, sensor)):
            for env in range(3):
                assert same(got[env], prompt[step][env]) or same(got[env], before[env])
            before = got
        scene, sensor = self.start(dropout=1.0, **self.imperfections)
        first = flat(sensor.read()).clone()
        assert all(same(got, first) for got in self.run(scene, sensor))

    def test_set_changes_those_envs_only(self) -> None:
        """Parameters set for one env at run time leave the others' bits alone."""
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
        """``_post_process`` is eager: called exactly once per branch in every step, whoever reads."""
        if self.device != "cpu":
            return  # hooks run when the graph is captured, and never again in Python
        _, sensor = self.start()
        if not sensor.group.post_processed:
            return
        calls: list[bool] = []
        with _Watched(type(sensor), "_post_process", lambda *args: calls.append(args[-1])):
            scene, sensor = self.start()
            calls.clear()  # those of the reset
            for step in range(5):
                self.drive(scene, step)
                scene.step()
                sensor.read()
                sensor.read()
        assert calls == [False, True] * 5

    def test_buffers_hold_the_readings(self) -> None:
        """The component tree has the measured and ground-truth values, under tags."""
        scene, sensor = self.start(**self.imperfections)
        self.run(scene, sensor)
        state = scene.state_dict(include_tags=[sensor.kind])
        assert set(state) == {"probe.measured", "probe.ground_truth"}
        assert same(state["probe.measured"].reshape(3, -1), flat(sensor.read()))
        assert same(state["probe.ground_truth"].reshape(3, -1), flat(sensor.read_ground_truth()))


class _Watched:
    """Watches the calls of a class method while it is open."""

    def __init__(self, cls: type, name: str, on_call: Callable[..., Any]) -> None:
        self._cls, self._name, self._on_call = cls, name, on_call

    def __enter__(self) -> None:
        original = getattr(self._cls, self._name).__func__
        self._own = self._cls.__dict__.get(self._name)
        on_call = self._on_call

        def watched(cls: type, *args: Any) -> Any:
            on_call(*args)
            return original(cls, *args)

        setattr(self._cls, self._name, classmethod(watched))

    def __exit__(self, *_: object) -> None:
        if self._own is None:
            delattr(self._cls, self._name)
        else:
            setattr(self._cls, self._name, self._own)


def tensors(reading: Any) -> list[torch.Tensor]:
    """The tensors of a reading."""
    return [reading] if isinstance(reading, torch.Tensor) else list(reading)


def flat(reading: Any, lead: int = 1) -> torch.Tensor:
    """A reading as one fresh tensor: (B, columns), or (B, N, columns) with ``lead=2``."""
    return torch.cat([tensor.flatten(lead) for tensor in tensors(reading)], dim=lead)


def same(a: torch.Tensor, b: torch.Tensor) -> bool:
    """Equal to the bit (a zero's sign aside), in shape and dtype too."""
    return a.dtype == b.dtype and a.shape == b.shape and torch.equal(a, b)
