"""What authors of sensor classes rely on: states, timelines, random numbers, resets and errors of hooks."""

from typing import ClassVar

import mujoco
import pytest
import torch
from probe import DoubleProbe, Probe, ProbeSensor

import sensorium as sn
from sensorium.sensors import Sensor, SensorOptions, SimpleSensor, SimpleSensorOptions
from sensorium.sensors.base import add_site

DT = 0.01


def build(*options, n_envs=3, substeps=1, seed=0):
    """Return a built scene with a falling ball and these sensors, followed by the sensors."""
    scene = sn.Scene(dt=DT, substeps=substeps)
    scene.add_object(sn.Sphere(), name="ball", pos=(0, 0, 50), free=True)
    sensors = [scene.add_sensor(each) for each in options]
    scene.build(n_envs=n_envs, seed=seed)
    return scene, *sensors


class Speed(SimpleSensorOptions):
    """Speed of the ball downwards, from the engine's sensors."""


class SpeedSensor(SimpleSensor[torch.Tensor], options=Speed):
    resets: ClassVar[list] = []

    def _declare(self, spec, names):
        site = add_site(spec, names, Place(link="ball"), self.uuid)
        spec.add_sensor(
            name=f"{self.uuid}:v",
            type=mujoco.mjtSensor.mjSENS_VELOCIMETER,
            objtype=mujoco.mjtObj.mjOBJ_SITE,
            objname=site,
        )

    def _sources(self):
        return [sn.sensors.SignalSource((f"{self.uuid}:v",), 2)]

    def _get_return_format(self):
        return (1,)

    @classmethod
    def _reset_group(cls, group, mask):
        cls.resets.append(mask.tolist())


class Place(sn.sensors.options.Mounted):
    pass


class Peak(Speed):
    """The largest speed downwards since the reset."""


class PeakSensor(SpeedSensor, options=Peak):
    @classmethod
    def _post_process(cls, group, data, out, is_measured):
        peak = group.state(f"peak {is_measured}")
        torch.maximum(peak, -data, out=peak)
        out.copy_(peak)


# -- resets ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("options", [Speed(), Speed(delay=0.02), Speed(history_length=2), Peak(), Peak(delay=0.02)])
def test_reset_group_runs_once_per_reset_in_classes_fed_by_the_engine(options):
    SpeedSensor.resets.clear()
    scene, _ = build(options)
    scene.step(count=2)
    scene.reset(envs=[1])
    scene.step()
    assert SpeedSensor.resets == [[True] * 3, [False, True, False]]


def test_states_are_cleared_in_classes_fed_by_the_engine():
    scene, peak = build(Peak(delay=0.02))
    scene.step(count=30)
    before = peak.read_ground_truth().clone()
    assert before.min() > 2.5  # after 0.3 s
    scene.reset(envs=[1])
    assert peak.read_ground_truth()[1] == peak.read()[1] == 0
    assert torch.equal(peak.read_ground_truth()[[0, 2]], before[[0, 2]])
    scene.step(count=5)
    assert 0.3 < peak.read_ground_truth()[1] < 0.6 < 2.5 < peak.read_ground_truth()[0]


class Smooth(Probe):
    pass


class SmoothSensor(ProbeSensor, options=Smooth):
    """Low-pass of its output by means of the previous output."""

    @classmethod
    def _post_process(cls, group, data, out, is_measured):
        out += 0.25 * (data - out)


@pytest.mark.parametrize("noise", [0.0, 0.3])
def test_post_process_gets_the_previous_output_of_its_branch(noise):
    scene, smooth, plain = build(Smooth(uuid="a", noise=noise), Probe(uuid="b"))
    expected = {True: plain.read().clone(), False: plain.read().clone()}
    assert noise or torch.equal(smooth.read(), expected[True])  # at rest
    first = smooth.read().clone()
    expected[True] = first
    for _ in range(20):
        scene.step()
        truth = plain.read()
        expected[False] = expected[False] + 0.25 * (truth - expected[False])
        assert torch.allclose(smooth.read_ground_truth(), expected[False], atol=1e-6)
        if not noise:
            assert torch.allclose(smooth.read(), expected[False], atol=1e-6)
    assert not noise or not torch.allclose(smooth.read(), smooth.read_ground_truth(), atol=1e-3)


@pytest.mark.parametrize("delay", [0.0, 0.03])
def test_reset_of_one_env_keeps_the_previous_outputs_of_the_others(delay):
    scene, smooth = build(Smooth(uuid="a", noise=0.1, delay=delay))
    twin, untouched = build(Smooth(uuid="a", noise=0.1, delay=delay))
    for one in (scene, twin):
        one.step(count=30)
    scene.reset(envs=[1])
    raw = torch.tensor([1.0, 2.0, 3.0]) * torch.sin(torch.tensor(1.0))
    assert torch.allclose(smooth.read_ground_truth()[1], raw)  # at rest, at the signal of t = 0
    for _ in range(10):
        for got, want in (
            (smooth.read(), untouched.read()),
            (smooth.read_ground_truth(), untouched.read_ground_truth()),
        ):
            assert torch.equal(got[[0, 2]], want[[0, 2]])
        scene.step()
        twin.step()


class Calls(Probe):
    pass


class CallsSensor(ProbeSensor, options=Calls):
    """Previous output of another format than its input: one more in every call."""

    def _get_intermediate_format(self):
        return (1,)

    @classmethod
    def _post_process(cls, group, data, out, is_measured):
        out += 1


def test_previous_output_starts_at_0_if_the_formats_differ():
    scene, calls = build(Calls())
    assert calls.read().eq(1).all()
    assert calls.read_ground_truth().eq(1).all()
    scene.step(count=4)
    scene.reset(envs=[2])
    assert calls.read()[:, 0].tolist() == calls.read_ground_truth()[:, 0].tolist() == [5, 5, 1]


class Ticks(SimpleSensorOptions):
    """Counts the calls of its raw hook."""


class TicksSensor(SimpleSensor[torch.Tensor], options=Ticks):
    def _get_return_format(self):
        return (1,)

    @classmethod
    def _update_raw_data(cls, group, out):
        count = group.state("count")
        count += 1
        out.copy_(count)


class PostMixin:
    @classmethod
    def _post_process(cls, group, data, out, is_measured):
        out.copy_(data)


class TransformMixin:
    @classmethod
    def _apply_transform(cls, group, data, timeline, is_measured):
        pass


class HardwareMixin:
    @classmethod
    def _apply_hardware_imperfections(cls, group, data):
        pass


class DelayMixin:
    @classmethod
    def _apply_delay(cls, group, ring, out):
        super()._apply_delay(group, ring, out)


@pytest.mark.parametrize(
    "mixins",
    [
        (),
        (PostMixin,),
        (TransformMixin,),
        (PostMixin, TransformMixin),
        (HardwareMixin, PostMixin),
        (DelayMixin, PostMixin),
    ],
)
@pytest.mark.parametrize("history", [None, 2])
def test_raw_hooks_run_once_per_step_and_reset(mixins, history):
    class Own(Ticks):
        pass

    type("OwnSensor", (*mixins, TicksSensor), {}, options=Own)
    scene, ticks = build(Own(history_length=history))

    def now(read):
        return read(history_length=1)[:, 0, 0].tolist() if history else read()[:, 0].tolist()

    for read in (ticks.read, ticks.read_ground_truth):
        assert now(read) == [1, 1, 1]
    scene.step(count=3)
    scene.reset(envs=[1])
    for read in (ticks.read, ticks.read_ground_truth):
        assert now(read) == [4, 1, 4]
    scene.step()
    assert now(ticks.read) == [5, 2, 5]


# -- random numbers ----------------------------------------------------------------------------------------------------


class Dice(SimpleSensorOptions):
    pass


class DiceSensor(SimpleSensor[torch.Tensor], options=Dice):
    """A normal and a uniform number per tick."""

    def _get_return_format(self):
        return (2,)

    @classmethod
    def _update_raw_data(cls, group, out):
        assert torch.equal(group.normal("x"), group.normal("x"))
        out.copy_(group.normal("x"))
        for part in group.slices:
            out[part.start + 1] = group.uniform("y", 1)[part.start // 2]


def roll(n_envs, steps, resets=(), uuids=("a",), seed=0, episode=None):
    """Return the numbers of sensor "a", (steps + 1, B, 2), with resets of all envs before some steps."""
    scene, *dice = build(*(Dice(uuid=uuid) for uuid in uuids), n_envs=n_envs, seed=seed)
    if episode is not None:
        scene.set_episodes(torch.tensor(episode[0]), env_ids=torch.tensor(episode[1]))
        scene.reset()
    rows = [dice[uuids.index("a")].read().clone()]
    for step in range(steps):
        scene.reset() if step in resets else scene.step()
        rows.append(dice[uuids.index("a")].read().clone())
    return torch.stack(rows)


def test_draws_of_an_env_do_not_depend_on_batch_size_or_other_sensors():
    many = roll(5, 6)
    assert torch.equal(roll(2, 6), many[:, :2])
    assert torch.equal(roll(5, 6, uuids=("b", "a")), many)
    assert not torch.equal(roll(5, 6, seed=1), many)
    assert many[..., 0].unique().numel() == many[..., 0].numel()  # new ones per env and tick


def test_a_reset_draws_new_numbers_and_an_episode_can_be_made_again():
    both = roll(3, 9, resets=(4,))
    assert both[:, :, 0].unique().numel() == 30  # the first draw after the reset is new too
    again = roll(2, 4, episode=([1, 1], [2, 0]))
    assert torch.equal(again[:, 0], both[5:, 2])
    assert torch.equal(again[:, 1], both[5:, 0])


class Coin(SimpleSensorOptions):
    pass


class CoinSensor(SimpleSensor[torch.Tensor], options=Coin):
    """Two normals per sample."""

    def _get_return_format(self):
        return (2,)

    @classmethod
    def _update_raw_data(cls, group, out):
        out.copy_(group.normal("x", per_sample=True))


def test_draws_per_sample_stay_until_the_next_sample_for_each_sensor_and_env():
    rates = {"slow": 10.0, "each": None, "varied": 50.0}
    scene, *coins = build(*(Coin(uuid=uuid, rate=rate) for uuid, rate in rates.items()), n_envs=3)
    coins[2].set(rate=[100.0, 50.0, 25.0])
    scene.reset()
    numbers = {uuid: [] for uuid in rates}
    for _ in range(12):
        scene.step()  # of 10 ms
        for seen, coin in zip(numbers.values(), coins, strict=True):
            seen.append(coin.read_ground_truth().clone())  # the hook runs in every tick
    changes = {
        uuid: (torch.stack(seen).diff(dim=0) != 0).all(2).int().sum(0).tolist() for uuid, seen in numbers.items()
    }
    assert changes == {"slow": [1, 1, 1], "each": [11, 11, 11], "varied": [11, 6, 3]}


def test_draws_per_sample_on_warp_are_those_of_the_cpu():
    from sensorium.pipeline.draws import Draws, SampleDraws
    from sensorium.pipeline.flags import DELAYED, RATE

    torch.manual_seed(0)
    words = torch.randint(-(2**31), 2**31 - 1, (4, 2, 30), dtype=torch.int32)
    draw, of_samples = words[0].view(torch.uint32), words[1:].view(torch.uint32)
    flags = torch.tensor([RATE, DELAYED, RATE | DELAYED], dtype=torch.int32)
    for name in ("normal", "uniform"):
        both = []
        for is_warp in (False, True):
            samples = SampleDraws([2, 1], flags, of_samples)
            both.append(getattr(Draws(3, "n", ["a", "b"], [2, 1], draw, is_warp, samples), name)().clone())
        assert torch.equal(*both)
        of_tick = getattr(Draws(3, "n", ["a", "b"], [2, 1], draw, False), name)()
        assert torch.equal(both[0][2], of_tick[2])  # without a rate
        assert not torch.isclose(both[0][:2], of_tick[:2]).any()


def test_draws_have_the_distributions_that_their_names_say():
    numbers = roll(2000, 20).flatten(0, 1).double()
    normal, uniform = numbers.T
    assert abs(normal.mean()) < 5 / len(normal) ** 0.5
    assert abs(normal.var() - 1) < 5 * (2 / len(normal)) ** 0.5
    assert abs((normal**4).mean() - 3) < 5 * (96 / len(normal)) ** 0.5
    assert uniform.min() >= 0
    assert uniform.max() < 1
    assert abs(uniform.mean() - 0.5) < 5 / (12 * len(uniform)) ** 0.5
    assert abs(torch.corrcoef(numbers.T)[0, 1]) < 5 / len(normal) ** 0.5


def test_partial_reset_does_not_change_the_draws_of_other_envs():
    scene, dice = build(Dice(uuid="a"))
    twin, untouched = build(Dice(uuid="a"))
    for one in (scene, twin):
        one.step(count=3)
    scene.reset(envs=[0])
    for _ in range(3):
        assert torch.equal(dice.read()[1:], untouched.read()[1:])
        assert not torch.equal(dice.read()[0], untouched.read()[0])
        scene.step()
        twin.step()


# -- timelines ---------------------------------------------------------------------------------------------------------


class Difference(SensorOptions):
    """Raw signal of a ramp: the env's tick count times (env + 1)."""


class DifferenceSensor(Sensor[torch.Tensor], options=Difference):
    """A direct sensor: how much the signal grew over one tick, and over three."""

    timeline_depth = 4

    def _get_return_format(self):
        return (2,)

    @classmethod
    def _update_shared_cache(cls, group, ground_truth, measured):
        line = group.truth_timeline
        line.at(0)[:] = group.ticks * (torch.arange(group.n_envs) + 1)
        group.rest_timelines()
        ground_truth[0] = line.at(0)[0] - line.at(1)[0]
        ground_truth[1] = line.at(0)[0] - line.at(3)[0]
        measured.copy_(2 * ground_truth)


def test_direct_sensor_uses_a_timeline():
    scene, sensor = build(Difference())
    assert not sensor.read().any()
    scene.step()
    assert sensor.read_ground_truth().tolist() == [[1, 1], [2, 2], [3, 3]]
    scene.step(count=4)
    assert sensor.read_ground_truth().tolist() == [[1, 3], [2, 6], [3, 9]]
    scene.reset(envs=[1])
    assert sensor.read().tolist() == [[2, 6], [0, 0], [6, 18]]
    scene.step(count=2)
    assert sensor.read_ground_truth().tolist() == [[1, 3], [2, 4], [3, 9]]
    with pytest.raises(IndexError, match=r"age must lie in \[0, 4\)"):
        sensor.group.truth_timeline.at(4)


def test_classes_that_use_no_timeline_have_none():
    _, plain, difference = build(Probe(), Difference())
    assert plain.group.timelines == ()
    assert len(difference.group.timelines) == 2


def test_states_have_the_dtype_of_the_class():
    _, exact, plain = build(DoubleProbe(), Probe())
    assert exact.group.state("x").dtype == torch.float64
    assert plain.group.state("x", n_columns=2, fill=3.0).dtype == torch.float32
    assert plain.group.state("x").tolist() == [[3.0] * 3] * 2
