"""``ReadingTests``: guarantees of what reads return, in all envs, after resets and changes of parameters."""

from __future__ import annotations

import math

from sensorium.testing.runs import ContractRuns, flat, remembers_samples, same, tensors


class ReadingTests(ContractRuns):
    """Contract tests of readings."""

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
                shapes = layout.values() if isinstance(layout, dict) else [layout]
                assert flat(reading).shape == (n_envs, sum(map(math.prod, shapes)))

    def test_reads_are_views_without_side_effects(self) -> None:
        """Two reads in a step return the same values in the same memory, and reads do not change later readings."""
        options = dict(rate=0.6 / self.dt, **self.latency, **self.imperfections)
        scene, sensor = self.start(**options)
        unread_scene, unread = self.start(**options)
        addresses = [tensor.data_ptr() for tensor in tensors(sensor.read())]
        for step in range(self.steps):
            self.step(scene, step)
            self.step(unread_scene, step)
            assert same(flat(sensor.read()), flat(sensor.read()))
            assert [tensor.data_ptr() for tensor in tensors(sensor.read())] == addresses
            sensor.read_samples()
            sensor.age()
        assert same(flat(sensor.read()), flat(unread.read()))

    def test_ground_truth_has_no_delay_and_no_imperfections(self) -> None:
        """Ground truth does not depend on delay, rate or imperfections."""
        clean = self.run(*self.start(), read="read_ground_truth")
        dt = self.dt
        imperfect = self.start(delay=3 * dt, jitter=2 * dt, rate=0.2 / dt, dropout=0.3, **self.imperfections)
        for expected, got in zip(clean, self.run(*imperfect, read="read_ground_truth"), strict=True):
            assert same(expected, got)

    def test_reset_changes_only_the_reset_envs(self) -> None:
        """A reset of one env changes no bit of the readings of the others, now or later, in both branches."""
        options = self.latency | dict(self.imperfections)
        scene, sensor = self.start(**options)
        twin, undisturbed = self.start(**options)
        self.run(scene, sensor)
        self.run(twin, undisturbed)
        scene.reset(envs=[1])
        others = [0, 2]
        for step in range(self.steps):
            for read in ("read", "read_ground_truth"):
                got, expected = flat(getattr(sensor, read)()), flat(getattr(undisturbed, read)())
                assert same(got[others], expected[others])
            self.step(scene, step)
            self.step(twin, step)

    def test_first_reading_after_reset_is_the_state_at_reset(self) -> None:
        """Response and ground truth start afresh: an env reads the same after a reset as after build, if the episode is
        made again with the same random numbers."""
        scene, sensor = self.start(rate=0.3 / self.dt)
        at_build = flat(sensor.read()), flat(sensor.read_ground_truth())
        self.run(scene, sensor)
        scene.set_episodes(0, envs=[2])
        scene.reset(envs=[2])
        assert same(flat(sensor.read())[2], at_build[0][2])
        assert same(flat(sensor.read_ground_truth())[2], at_build[1][2])

    def test_episodes_can_be_made_again(self) -> None:
        """An episode of an env reads the same bits when it is made again, in another env of a scene of another size:
        nothing is left of what came before, and random numbers depend on seed, env, episode and time alone."""
        options = self.latency | dict(self.imperfections)
        scene, sensor = self.start(**options)
        first = [flat(sensor.read()), *self.run(scene, sensor)]
        scene.reset()
        second = [flat(sensor.read()), *self.run(scene, sensor)]
        for n_envs in (1, 5):
            scene, sensor = self.start(n_envs=n_envs, **options)
            for number, episode in ((1, second), (0, first)):
                scene.set_episodes(number, envs=[0], env_ids=2)
                scene.reset(envs=[0])
                for got, expected in zip([flat(sensor.read()), *self.run(scene, sensor)], episode, strict=True):
                    assert same(got[0], expected[2])

    def test_readings_do_not_depend_on_batch_size(self) -> None:
        """With the same seed, env k reads the same bits at every batch size."""
        options = dict(dropout=0.2, **self.latency, **self.imperfections)
        one = self.run(*self.start(n_envs=1, **options))
        many = self.run(*self.start(n_envs=17, **options))
        for alone, together in zip(one, many, strict=True):
            assert same(alone[0], together[0])

    def test_readings_do_not_depend_on_other_sensors(self) -> None:
        """Adding another sensor of the class does not change the readings of this one."""
        options = dict(dropout=0.2, **self.latency, **self.imperfections)
        alone = self.run(*self.start(**options))
        together = self.run(*self.start(extra=True, **options))
        for expected, got in zip(alone, together, strict=True):
            assert same(expected, got)

    def test_set_changes_only_the_given_envs(self) -> None:
        """Parameters that are set in one env change no bit of the readings of the others. There, they read as if they
        had been set at construction."""
        scene, sensor = self.start()
        sensor.set(envs=[1], **self.imperfections)
        clean_scene, clean = self.start()
        imperfect_scene, imperfect = self.start(**self.imperfections)
        if remembers_samples(sensor):  # also the first sample, before set()
            for one in (scene, clean_scene, imperfect_scene):
                one.reset()
        changed = self.run(scene, sensor)
        for got, expected in zip(changed, self.run(clean_scene, clean), strict=True):
            assert same(got[[0, 2]], expected[[0, 2]])
        for got, expected in zip(changed, self.run(imperfect_scene, imperfect), strict=True):
            assert same(got[1], expected[1])

    def test_buffers_hold_the_readings(self) -> None:
        """The component tree has the measured values and ground truth, tagged with the kind of the sensor."""
        scene, sensor = self.start(**self.imperfections)
        self.run(scene, sensor)
        state = scene.state_dict(include_tags=[sensor.kind])
        assert set(state) == {"probe.measured", "probe.ground_truth"}
        assert same(state["probe.measured"].reshape(3, -1), flat(sensor.read()))
        assert same(state["probe.ground_truth"].reshape(3, -1), flat(sensor.read_ground_truth()))
