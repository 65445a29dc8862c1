"""``TimeTests``: guarantees of when samples are taken, when they arrive, and which of them a read returns."""

from __future__ import annotations

import numpy as np
import torch

from sensorium.testing.runs import ContractRuns, flat, same, skip

_TOLERANCE = 1e-6
"""Tolerance of times, s."""


class TimeTests(ContractRuns):
    """Contract tests of rate, delay, jitter, history and samples."""

    def test_delayed_readings_are_frozen_samples(self) -> None:
        """A read at time t returns the sample of t - delay, with the noise of its capture. The first samples after a
        reset are those of the reset."""
        lag, dt = 3, self.dt
        scene, sensor = self.start(**self.imperfections)
        undelayed = [flat(sensor.read()), *self.run(scene, sensor)]
        scene, sensor = self.start(delay=lag * dt, **self.imperfections)
        for step in range(self.steps):
            self.step(scene, step)
            assert same(flat(sensor.read()), undelayed[max(step + 1 - lag, 0)])
            assert torch.allclose(sensor.age(), torch.full_like(sensor.age(), min(step + 1, lag) * dt), atol=_TOLERANCE)

    def test_jittered_readings_are_samples_of_the_allowed_ages(self) -> None:
        """With jitter, each env reads one whole sample. Its age, which ``age`` returns, lies between delay and
        delay + jitter, or is that of the reset."""
        dt = self.dt
        scene, sensor = self.start(**self.imperfections)
        undelayed = [flat(sensor.read()), *self.run(scene, sensor)]
        scene, sensor = self.start(delay=2 * dt, jitter=2 * dt, **self.imperfections)
        seen = set()
        for step in range(self.steps):
            self.step(scene, step)
            ages = (sensor.age() / dt).round().int().tolist()
            for env, age in enumerate(ages):
                assert min(2, step + 1) <= age <= min(4, step + 1), f"step {step}, env {env}: the age is {age} steps"
                assert same(flat(sensor.read())[env], undelayed[step + 1 - age][env])
            seen |= set(ages)
        assert {3, 4} <= seen

    def test_readings_never_go_back_in_time(self) -> None:
        """A reading is never older than the reading before it: its age grows by at most one step per step."""
        dt = self.dt
        scene, sensor = self.start(delay=3 * dt, jitter=3 * dt, dropout=0.2, **self.imperfections)
        before, late = sensor.age(), 0
        for step in range(self.steps):
            if step == self.steps // 2:
                scene.reset(envs=[1])
                before[1] = 0.0
            self.step(scene, step)
            now = sensor.age()
            assert bool((now >= -_TOLERANCE).all())
            assert bool((now - before <= dt + _TOLERANCE).all())
            late += int((now - before > _TOLERANCE).sum())
            before = now
        assert late > 0  # some samples came later than those before

    def test_samples_agree_with_the_reading(self) -> None:
        """Of all samples that ``read_samples`` returned since the reset, the one with the newest capture is what
        ``read`` returns, and its age is that of the reading. Captures are never repeated."""
        dt = self.dt
        scene, sensor = self.start(delay=3 * dt, jitter=3 * dt, rate=0.7 / dt, dropout=0.1, **self.imperfections)
        seen: list[dict[float, torch.Tensor]] = [{} for _ in range(3)]
        for step in range(-1, self.steps):
            if step >= 0:
                self.step(scene, step)
            samples, reading, age = sensor.read_samples(), flat(sensor.read()), sensor.age()
            values = flat(samples.values, lead=2)
            assert bool((samples.count <= values.shape[1]).all())
            for env in range(3):
                for place in range(int(samples.count[env])):
                    capture, arrival = float(samples.capture[env, place]), float(samples.arrival[env, place])
                    assert round(capture, 6) not in seen[env]
                    assert step < 0 or arrival - capture >= 3 * dt - _TOLERANCE
                    seen[env][round(capture, 6)] = values[env, place]
                newest = max(seen[env])
                assert same(reading[env], seen[env][newest])
                assert abs(float(scene.time[env]) - newest - float(age[env])) < 1e-5

    def test_samples_are_captured_at_substeps(self) -> None:
        """With ``substeps=True`` there is a sample per physics substep, and the last of them is the reading."""
        scene = self.make_scene()
        substeps = int(scene.options.substeps)
        if substeps == 1:
            skip("the scene of make_scene has one substep")
        _, sensor = self.start()
        if self.device != "cpu" and not sensor.group.capturable:
            skip(f"the hooks of {type(sensor).__name__} cannot be captured, so they cannot run at substeps on a GPU")
        scene, sensor = self.start(substeps=True, **self.imperfections)
        for step in range(10):
            self.step(scene, step)
            samples = sensor.read_samples()
            assert samples.count.tolist() == [substeps] * 3
            want = scene.time[:, None] + torch.arange(1 - substeps, 1, device=scene.time.device) * (scene.dt / substeps)
            assert torch.allclose(samples.capture, want.double(), atol=1e-5)
            assert same(flat(samples.values, lead=2)[:, -1], flat(sensor.read()))
            assert not sensor.age().any()

    def test_history_holds_past_readings_newest_first(self) -> None:
        """Index k of the history is what ``read()`` returned k steps ago, with its delay and jitter; likewise for
        ground truth."""
        length, dt = 5, self.dt
        options = dict(delay=2 * dt, jitter=2 * dt, **self.imperfections)
        for read in ("read", "read_ground_truth"):
            plain = self.run(*self.start(**options), read=read)
            scene, sensor = self.start(history_length=length, **options)
            for step in range(self.steps):
                self.step(scene, step)
                history = flat(getattr(sensor, read)(), lead=2)
                shorter = flat(getattr(sensor, read)(history_length=3), lead=2)
                assert history.shape[1] == length
                assert same(history[:, :3], shorter)
                for age in range(min(length, step + 1)):
                    assert same(history[:, age], plain[step - age])

    def test_rings_start_afresh_at_a_reset(self) -> None:
        """After a reset, nothing of the time before is read: the delayed reading and the history are those of the
        reset, and other envs keep theirs."""
        dt = self.dt
        scene, sensor = self.start(delay=2 * dt, history_length=3)
        at_build = flat(sensor.read(), lead=2)
        self.run(scene, sensor)
        before = flat(sensor.read(), lead=2)
        scene.set_episodes(0, envs=[2])  # with the random numbers of the build
        scene.reset(envs=[2])
        after = flat(sensor.read(), lead=2)
        assert same(after[2], at_build[2])
        assert same(after[:2], before[:2])
        assert not sensor.age()[2]

    def test_readings_are_held_between_sampling_instants(self) -> None:
        """A reading changes only in steps that contain a sampling instant k / rate, to the sample of that step.

        Noise depends on the number of the sample, so the values are compared without imperfections, and for classes
        without noise of their own.
        """
        cls, seed = type(self), self.seed
        exact = self.run_samples(*self.start())
        try:
            cls.seed = seed + 1
            is_exact = all(map(same, self.run_samples(*self.start()), exact))
        finally:
            cls.seed = seed
        exact_held = self.run_samples(*self.start(rate=0.3 / self.dt))
        held = self.run_samples(*self.start(rate=0.3 / self.dt, **self.imperfections))
        readings = self.run(*self.start(rate=0.3 / self.dt, **self.imperfections))
        for step in range(self.steps):
            time = step + 1
            if np.floor(time * 0.3 + 1e-6) > np.floor((time - 1) * 0.3 + 1e-6):
                assert not is_exact or same(exact_held[step], exact[step])
            elif step:
                assert same(exact_held[step], exact_held[step - 1])
                assert same(held[step], held[step - 1])
                assert same(readings[step], readings[step - 1])

    def test_lost_samples_leave_the_reading_unchanged(self) -> None:
        """In each env the reading is either the new sample or the previous reading, never a mixture. With a dropout of
        1 it never changes."""
        every_step = self.run_samples(*self.start(**self.imperfections))
        samples = self.run_samples(*self.start(dropout=0.5, **self.imperfections))
        scene, sensor = self.start(dropout=0.5, **self.imperfections)
        before = flat(sensor.read())
        for step in range(self.steps):
            self.step(scene, step)
            got, lost = flat(sensor.read()), sensor.age() > 0
            for env in range(3):
                if lost[env]:
                    assert same(got[env], before[env])
                    assert step == 0 or same(samples[step][env], samples[step - 1][env])
                else:
                    assert same(samples[step][env], every_step[step][env])
            before = got
        scene, sensor = self.start(dropout=1.0, **self.imperfections)
        first = flat(sensor.read())
        assert all(same(got, first) for got in self.run(scene, sensor))
