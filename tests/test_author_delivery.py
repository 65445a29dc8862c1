"""What authors of sensor classes rely on in delivery: the delay hook, and readings after a hook failed."""

from copy import copy
from dataclasses import replace

import pytest
import torch
from probe import Probe, ProbeSensor
from test_author_contract import DT, DelayMixin, build


class Relayed(Probe):
    pass


class RelayedSensor(DelayMixin, ProbeSensor, options=Relayed):
    """A delay hook that does what the default does."""


class Negated(Probe):
    pass


class NegatedSensor(ProbeSensor, options=Negated):
    @classmethod
    def _apply_delay(cls, group, ring, out):
        served = torch.zeros_like(out)
        before = group.cache.clone()
        super()._apply_delay(group, ring, served)
        assert torch.equal(group.cache, before)  # another target leaves the cache as it is
        out.copy_(-served)


@pytest.mark.parametrize("timing", [{"delay": 0.02}, {"delay": 0.03, "jitter": 0.03}, {"delay": 0.03, "rate": 40.0}])
def test_super_apply_delay_is_the_default(timing):
    options = dict(noise=0.1, **timing)
    scene, plain = build(Probe(uuid="a", **options))
    twin, relayed = build(Relayed(uuid="a", **options))
    third, negated = build(Negated(uuid="a", **options))
    for step in range(30):
        assert torch.equal(plain.read(), relayed.read())
        assert torch.equal(plain.read(), -negated.read())
        if step == 12:
            for one in (scene, twin, third):
                one.reset(envs=[1])
        for one in (scene, twin, third):
            one.step()


# -- errors in hooks ---------------------------------------------------------------------------------------------------


class Fragile(Probe):
    pass


class FragileSensor(ProbeSensor, options=Fragile):
    fails = False

    @classmethod
    def _apply_hardware_imperfections(cls, group, data):
        if cls.fails:
            raise ArithmeticError("hook failed")
        super()._apply_hardware_imperfections(group, data)


class Flaky(Probe):
    """A probe whose raw hook fails, after it wrote a part of its signal."""


class FlakySensor(ProbeSensor, options=Flaky):
    fails = False

    @classmethod
    def _update_raw_data(cls, group, out):
        super()._update_raw_data(group, out)
        if cls.fails:
            out[0] = 1e6
            raise ArithmeticError("hook failed")


@pytest.mark.parametrize("timing", [{}, {"delay": 0.03}, {"delay": 0.03, "history_length": 2}, {"history_length": 2}])
@pytest.mark.parametrize(("options", "cls"), [(Fragile, FragileSensor), (Flaky, FlakySensor)])
@pytest.mark.parametrize("substeps", [1, 2])
def test_reads_stay_delayed_samples_after_a_hook_raised(options, cls, timing, substeps, monkeypatch):
    """The samples of the class in the step of the error are lost, and other sensors sense as usual."""
    fast = {"substeps": True} if substeps > 1 else {}
    scene, sensor, other = build(options(uuid="a", **timing, **fast), Probe(uuid="b", delay=0.02), substeps=substeps)
    twin, plain, other_plain = build(Probe(uuid="a", **fast), Probe(uuid="b", delay=0.02), substeps=substeps)
    lag = round(timing.get("delay", 0.0) / DT)
    values = [plain.read().clone()]
    for step in range(1, 20):
        twin.step()
        values.append(plain.read().clone())
        monkeypatch.setattr(cls, "fails", step == 8)
        if step == 8:
            with pytest.raises(ArithmeticError):
                scene.step()
            values[-1] = values[-2]  # nothing was measured in this step: the reading before stays
        else:
            scene.step()
        reading = sensor.read(history_length=2)[:, 0] if "history_length" in timing else sensor.read()
        assert torch.allclose(reading, values[max(step - lag, 0)], atol=1e-6), step
        age = lag + 1 if step == 8 + lag else min(step, lag)
        assert torch.allclose(sensor.age(), torch.full((3,), age * DT, dtype=torch.float64))
        lost = substeps if step == 8 + lag else 0
        assert sensor.read_samples().count.tolist() == [(substeps if step > lag else lag == 0) - lost] * 3, step
        assert torch.equal(other.read(), other_plain.read())
    assert torch.equal(scene.time, twin.time)


@pytest.mark.parametrize("timing", [{}, {"delay": 0.03, "history_length": 2}, {"rate": 50.0}])
@pytest.mark.parametrize(("options", "cls"), [(Fragile, FragileSensor), (Flaky, FlakySensor)])
def test_envs_read_zero_after_a_hook_raised_in_their_reset(options, cls, timing, monkeypatch):
    """No reading of the episode before stays in them; other envs and other sensors keep what they have."""
    scene, sensor, other = build(options(uuid="a", **timing), Probe(uuid="b"))
    for _ in range(8):
        scene.step()
    before, truth, others = sensor.read().clone(), sensor.read_ground_truth().clone(), other.read().clone()
    assert (before != 0).all()
    monkeypatch.setattr(cls, "fails", True)
    with pytest.raises(ArithmeticError):
        scene.reset(envs=[1])
    zero = torch.tensor([1.0, 0.0, 1.0]).reshape(3, *[1] * (before.dim() - 1))
    assert torch.equal(sensor.read(), before * zero)
    assert torch.equal(sensor.read_ground_truth(), truth * zero)
    assert torch.equal(other.read()[[0, 2]], others[[0, 2]])
    assert not torch.equal(other.read()[1], others[1])
    monkeypatch.setattr(cls, "fails", False)
    scene.reset(envs=[1])
    assert torch.equal(newest(sensor)[1], other.read()[1])


def newest(sensor):
    """Return the newest reading of a sensor with or without a history, (B, columns)."""
    return sensor.read()[:, 0] if sensor.options.history_length else sensor.read()


class HalfDone(Probe):
    """A probe whose post-process fails, after it wrote a part of its output."""


class HalfDoneSensor(ProbeSensor, options=HalfDone):
    fails = False

    @classmethod
    def _post_process(cls, group, data, out, is_measured):
        out.copy_(data)
        if cls.fails and is_measured:
            out[0] = 1e6
            raise ArithmeticError("hook failed")


@pytest.mark.parametrize("timing", [{}, {"history_length": 2}, {"delay": 0.01}])
def test_a_post_process_that_raised_leaves_no_partial_output(timing, monkeypatch):
    scene, sensor, _ = build(HalfDone(uuid="a", **timing), Probe(uuid="b"))
    for _ in range(5):
        scene.step()
    before = newest(sensor).clone()
    monkeypatch.setattr(HalfDoneSensor, "fails", True)
    with pytest.raises(ArithmeticError):
        scene.step()
    assert float(sensor.read().abs().max()) < 1e5
    if "delay" not in timing:
        assert torch.equal(newest(sensor), before)


# -- 16-bit floats on a GPU -----------------------------------------------------------------------------------------


class Half(Probe):
    pass


class HalfSensor(ProbeSensor, options=Half):
    @classmethod
    def _get_intermediate_dtype(cls):
        return torch.float16

    @classmethod
    def _get_cache_dtype(cls):
        return torch.float16


class BrainHalf(Probe):
    pass


class BrainHalfSensor(ProbeSensor, options=BrainHalf):
    @classmethod
    def _get_intermediate_dtype(cls):
        return torch.bfloat16

    @classmethod
    def _get_cache_dtype(cls):
        return torch.bfloat16


def clone(store):
    new = copy(store)
    for name, tensor in vars(store).items():
        setattr(new, name, tensor.clone())
    return new


def test_warp_kernels_deliver_16_bit_floats_as_numba_does():
    """On Warp's CPU device, from the same snapshots."""
    pytest.importorskip("warp")
    from sensorium.pipeline.gpu import GpuKernels
    from sensorium.pipeline.protocols import ResetEnvs

    timing = {"delay": 0.03, "jitter": 0.03, "history_length": 2, "noise": 0.1}
    scene, *sensors = build(Half(uuid="a", **timing), BrainHalf(uuid="b", **timing), n_envs=4)
    pipeline = sensors[0].group._pipeline
    expected = pipeline.layout
    posts = {dtype: replace(post, delivery=clone(post.delivery)) for dtype, post in expected.posts.items()}
    layout = replace(expected, posts=posts)  # shares timing and snapshots with the scene
    warp = GpuKernels(torch.zeros(1, 4), torch.zeros(4, dtype=torch.int32), layout, pipeline.ticks)
    for step in range(1, 20):
        scene.step()
        warp.counter[:] = torch.tensor([step - 1, step])
        for sensor in sensors:
            warp.deliver(layout.snapshots(sensor.group), sensor.group.delivery_rows)
        if step == 11:
            mask = torch.tensor([False, True, False, True])
            scene.reset(envs=mask.nonzero().flatten().tolist())
            for sensor in sensors:
                group = sensor.group
                warp.reset_delivery(layout.snapshots(group), group.delivery_rows, ResetEnvs(mask, None))
        for dtype, post in expected.posts.items():
            for name in ("ring", "cache", "history", "truth_history"):
                got, want = getattr(posts[dtype].delivery, name), getattr(post.delivery, name)
                assert got.dtype == dtype
                assert torch.equal(got, want), (step, name)
