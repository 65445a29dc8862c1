"""Declaring sensor classes: mistakes are errors that name class, hook and fix; flags, dtypes and options of classes."""

import importlib
import pkgutil
from typing import NamedTuple

import pytest
import torch
from probe import HookedProbe, Probe, ProbeSensor
from test_author_contract import DT, build

import sensorium as sn
from sensorium.sensors import Sensor, SensorOptions, SimpleSensor, SimpleSensorOptions
from sensorium.sensors.class_checks import check_class


def declare(base=ProbeSensor, **members):
    """Declare a sensor class with these members; return its options class."""

    class Own(Probe):
        pass

    type("OwnSensor", (base,), members, options=Own)
    return Own


def refused(text, base=ProbeSensor, **members):
    with pytest.raises(sn.OptionError, match=text):
        build(declare(base, **members)())


@pytest.mark.parametrize(
    ("found", "text"),
    [
        ({"columns": "custom"}, "_custom_parameters must return a dict of option"),
        ([("columns", "custom")], "_custom_parameters must return a dict of option"),
        ({"column": ("custom", slice(0, 1))}, "Own has no option 'column'.*did you mean 'columns'"),
    ],
)
def test_custom_parameters_must_name_options_and_columns(found, text):
    refused(text, _custom_parameters=lambda self: found)


@pytest.mark.parametrize(
    ("hook", "body"),
    [
        ("_update_raw_data", lambda cls, group, out: out + 1),
        ("_apply_hardware_imperfections", lambda cls, group, data: data * 2),
        ("_apply_physics_imperfections", lambda cls, group, data: data * 2),
        ("_apply_transform", lambda cls, group, data, timeline, is_measured: data * 2),
        ("_post_process", lambda cls, group, data, out, is_measured: data * 2),
        ("_apply_delay", lambda cls, group, ring, out: ring.at(0)),
        ("_update_shared_cache", lambda cls, group, ground_truth, measured: (ground_truth, measured)),
    ],
)
def test_hooks_that_return_their_result_are_refused(hook, body):
    body.__name__ = hook
    refused(rf"OwnSensor.{hook} returned a (Tensor|tuple), which is not used: write", **{hook: classmethod(body)})


@pytest.mark.parametrize("depth", [0, 1, 2.0, True])
def test_a_timeline_has_at_least_two_ticks(depth):
    with pytest.raises(sn.OptionError, match=r"OwnSensor.timeline_depth must be an integer >= 2"):
        declare(timeline_depth=depth)


def test_hooks_without_their_verb_are_refused():
    with pytest.raises(sn.OptionError, match=r"OwnSensor._raw_data is not a hook.*did you mean '_update_raw_data'"):
        declare(_raw_data=classmethod(lambda cls, group, out: None))


# -- mistakes ----------------------------------------------------------------------------------------------------------


def test_no_class_of_the_package_is_refused():
    for module in pkgutil.walk_packages(sn.sensors.__path__, "sensorium.sensors."):
        importlib.import_module(module.name)
    importlib.import_module("sensorium.cameras")
    found, pending = set(), [Sensor]
    while pending:
        found |= set(own := pending.pop().__subclasses__())
        pending += own
    assert len(found) > 25
    for cls in found:
        if cls.__module__.startswith("sensorium."):
            check_class(cls)


@pytest.mark.parametrize(
    ("name", "hook"),
    [
        ("_update_raw_dat", "_update_raw_data"),
        ("_postprocess", "_post_process"),
        ("_apply_transforms", "_apply_transform"),
        ("_get_return_formats", "_get_return_format"),
        ("_reset_groups", "_reset_group"),
        ("_source", "_sources"),
        ("post_process", "_post_process"),
        ("update_raw_data", "_update_raw_data"),
    ],
)
def test_misspelt_hook(name, hook):
    text = rf"OwnSensor\.{name} is not a hook.* did you mean '{hook}'"
    for member in (classmethod(lambda cls, *args: None), lambda self, *args: None):
        with pytest.raises(sn.OptionError, match=text):
            declare(**{name: member})
    with pytest.raises(sn.OptionError, match=text):  # in a mixin
        type("OwnSensor", (type("Mixin", (), {name: lambda self: None}), ProbeSensor), {}, options=Probe)


def test_helpers_of_a_class_are_not_misspelt_hooks():
    declare(_update_wind=lambda self: None, _gain=1.0, _raw=lambda self: None, _reset=classmethod(lambda cls: None))


def test_hook_must_be_a_class_method():
    def _update_raw_data(cls, group, out):
        pass

    for member in (_update_raw_data, staticmethod(_update_raw_data), property(_update_raw_data)):
        with pytest.raises(sn.OptionError, match=r"OwnSensor\._update_raw_data must be a class method.*@classmethod"):
            declare(_update_raw_data=member)


def test_hook_must_be_a_method():
    for member in (classmethod(lambda cls: (1,)), staticmethod(lambda: (1,)), property(lambda self: (1,))):
        with pytest.raises(sn.OptionError, match=r"OwnSensor\._get_return_format must be a method.* write self"):
            declare(_get_return_format=member)


@pytest.mark.parametrize(
    ("name", "member"),
    [
        ("_update_raw_data", classmethod(lambda cls, out: None)),
        ("_apply_transform", classmethod(lambda cls, group, data, timeline: None)),
        ("_post_process", classmethod(lambda cls, group, data, out, is_measured, more: None)),
        ("_get_return_format", lambda self, group: (1,)),
        ("_get_cache_dtype", classmethod(lambda cls, group: torch.float32)),
    ],
)
def test_wrong_parameters_of_a_hook(name, member):
    with pytest.raises(sn.OptionError, match=rf"OwnSensor\.{name} has the parameters .*declare it as def {name}\("):
        declare(**{name: member})


def test_other_names_and_further_parameters_with_defaults_are_allowed():
    def raw(cls, everyone, target, gain=2.0):
        target.fill_(gain)

    def transform(cls, *arguments):
        arguments[1].add_(1.0)

    options = declare(_update_raw_data=classmethod(raw), _apply_transform=classmethod(transform))
    assert build(options())[1].read().eq(3.0).all()


@pytest.mark.parametrize(
    "shape", [(), ((3,), (2,)), [3], 3, (3.0,), (True,), (0,), (-1, 2), None, {}, {"a": ()}, {"a": 3}]
)
def test_invalid_format(shape):
    refused(
        r"OwnSensor\._get_return_format.*(must be a tuple of integers|empty dict)",
        _get_return_format=lambda self: shape,
    )


class Pair(NamedTuple):
    a: torch.Tensor
    b: torch.Tensor


def test_fields_need_matching_data():
    fields = {"_get_return_format": lambda self: {"a": (1,), "b": (2,)}}
    refused(r"fields \(a, b\), but OwnSensor\.Data is not set", **fields)
    refused(r"OwnSensor\.Data is no NamedTuple", Data=dict, **fields)
    refused(r"Data has the fields \(a, b\), but _get_return_format returns \(b, a\)", Data=Pair,
            _get_return_format=lambda self: {"b": (2,), "a": (1,)})  # fmt: skip
    reading = build(declare(Data=Pair, **fields)())[1].read()
    assert (reading.a.shape, reading.b.shape) == ((3, 1), (3, 2))


def test_class_without_a_signal_or_a_format():
    class Empty(SimpleSensorOptions):
        pass

    shape = {"_get_return_format": lambda self: (1,)}
    for base, members, text in (
        (SimpleSensor, {}, "must define _get_return_format"),
        (SimpleSensor, shape, "EmptySensor has no signal.*define _update_raw_data"),
        (Sensor, shape, "EmptySensor has no signal.*_update_shared_cache"),
    ):
        type("EmptySensor", (base,), members, options=Empty)
        with pytest.raises(sn.OptionError, match=text):
            build(Empty())


@pytest.mark.parametrize("dtype", [torch.complex64, torch.uint16, torch.float8_e4m3fn])
def test_unsupported_dtypes(dtype):
    own = classmethod(lambda cls: dtype)
    refused(r"OwnSensor\._get_intermediate_dtype must be one of float32,", _get_intermediate_dtype=own)
    if dtype != torch.uint16:  # a cache can be unsigned on the CPU
        process = classmethod(lambda cls, group, data, out, is_measured: out.copy_(data))
        refused(r"OwnSensor\._get_cache_dtype must be", _get_cache_dtype=own, _post_process=process)


def test_cache_of_another_dtype_needs_a_post_process():
    refused("must override _post_process", _get_cache_dtype=classmethod(lambda cls: torch.float16))


# -- without rings -----------------------------------------------------------------------------------------------------


class Direct(SensorOptions):
    pass


class DirectSensor(Sensor[torch.Tensor], options=Direct):
    uses_ring_pipeline = False

    def _get_return_format(self):
        return (2,)

    @classmethod
    def _update_shared_cache(cls, group, ground_truth, measured):
        ground_truth.copy_(group.ticks.expand(group.n_columns, -1))
        torch.mul(ground_truth, 10, out=measured)


def test_class_without_rings_has_caches():
    ringless = declare(uses_ring_pipeline=False)
    scene, direct, held, probe, plain = build(
        Direct(), Direct(uuid="slow", rate=25.0), ringless(uuid="p", noise=0.1), Probe(uuid="p2", noise=0.1)
    )
    for step in range(1, 13):
        scene.step()
        if step == 5:
            scene.reset(envs=[1])
        now = torch.tensor([step, step if step < 5 else step - 5, step])
        assert torch.equal(direct.read(), 10.0 * now[:, None].expand(3, 2))
        assert torch.equal(direct.read_ground_truth(envs=[2, 1])[:, 0], now[[2, 1]].float())
        assert not direct.age().any()
        samples = direct.read_samples()
        assert samples.count.tolist() == [1, 1, 1]
        assert torch.equal(samples.values[:, 0], direct.read())
        assert torch.allclose(samples.capture[:, 0], now.double() * DT)
        assert torch.equal(held.read()[:, 0], (now // 4 * 40).float())  # samples every 40 ms
        assert torch.allclose(held.age(), (now % 4).double() * DT)
        assert torch.equal(held.read_samples().count, (now % 4 == 0).long())
    assert probe.read().shape == plain.read().shape
    assert not torch.equal(probe.read(), probe.read_ground_truth())
    assert direct.group.ring is None
    assert not direct.group.has_return_storage


@pytest.mark.parametrize(
    "options",
    [{"delay": 0.02}, {"delay": 0.02, "jitter": 0.02}, {"max_delay": 0.1}, {"history_length": 3}, {"substeps": True},
     {"interpolate": True}],
)  # fmt: skip
def test_options_that_need_rings_are_refused_without_them(options):
    name = next(iter(options))
    with pytest.raises(sn.OptionError, match=rf"Direct\.{name}=.*DirectSensor\.uses_ring_pipeline is False"):
        build(Direct(**options))
    build(Direct(**dict.fromkeys(options, 0)))


def test_rate_and_window_without_rings():
    with pytest.raises(sn.OptionError, match=r"Direct\.rate=150 is too high for steps of 10 ms.*100 Hz"):
        build(Direct(rate=150.0), substeps=2)
    ringless = declare(uses_ring_pipeline=False)
    with pytest.raises(sn.OptionError, match=r'Own\.window="mean".*uses_ring_pipeline'):
        build(ringless(window="mean"), substeps=2)
    delay = classmethod(lambda cls, group, ring, out: None)
    refused("overrides _apply_delay", uses_ring_pipeline=False, _apply_delay=delay)
    scene, direct = build(Direct())
    with pytest.raises(sn.OptionError, match="delay"):
        direct.set(delay=0.02)
    scene.step()


# -- options with several values ---------------------------------------------------------------------------------------


class Gains(SimpleSensorOptions):
    gain: tuple[float, ...] = (1.0, 2.0)
    """Gain of each column."""
    offset: float | tuple[float, ...] = 0.0
    """Offset, of all columns or of each."""
    scale: float = 1.0
    """Scale of the sensor."""


class GainsSensor(SimpleSensor[torch.Tensor], options=Gains):
    def _get_return_format(self):
        return (len(self.options.gain),)

    def _custom_parameters(self):
        return {"gain": ("custom", slice(0, len(self.options.gain))), "scale": ("custom", slice(0, 1))}

    @classmethod
    def _build_group(cls, group):
        return group.per_column("offset")

    @classmethod
    def _update_raw_data(cls, group, out):
        torch.add(group.parameters["gain"], group.backend, out=out)
        for row, part in enumerate(group.slices):
            out[part] *= group.parameters["scale"][row]


def test_parameters_and_options_with_several_values():
    scene, one, two = build(Gains(uuid="one"), Gains(uuid="two", gain=(3.0, 4.0, 5.0), offset=(0.1, 0.2, 0.3)))
    assert one.group.parameters["gain"].shape == (5, 3)
    assert one.group.parameter_slices("gain") == [slice(0, 2), slice(2, 5)]
    two.set(gain=(6.0, 7.0, 8.0), envs=[1])
    two.set(scale=2.0, envs=[2])
    one.set(gain=torch.tensor([[1.0, 2.0], [3.0, 4.0]]), envs=[0, 2])
    scene.step()
    assert one.read().tolist() == [[1, 2], [1, 2], [3, 4]]
    want = torch.tensor([[3.1, 4.2, 5.3], [6.1, 7.2, 8.3], [6.2, 8.4, 10.6]])
    assert torch.allclose(two.read(), want)
    with pytest.raises(sn.OptionError, match=r"Gains\.gain must be a number, one value per axis \(3,\)"):
        two.set(gain=(1.0, 2.0))
    with pytest.raises(sn.OptionError, match=r"Gains\.offset must have 1 value or one per column \(2\), got 3"):
        build(Gains(offset=(1.0, 2.0, 3.0)))


# -- dtypes ------------------------------------------------------------------------------------------------------------

HALVES = [torch.float16, torch.bfloat16]
EXACT = [torch.int8, torch.int16, torch.int32, torch.int64, torch.uint8, torch.bool]
TIMINGS = [
    {},
    {"delay": 0.02, "history_length": 3},
    {"delay": 0.03, "jitter": 0.03, "rate": 30.0, "dropout": 0.2},
    {"substeps": True, "delay": 0.02},
]


def typed(dtype, **members):
    own = classmethod(lambda cls: dtype)
    return declare(_get_intermediate_dtype=own, _get_cache_dtype=own, **members)


def rounded(dtype, base=ProbeSensor):
    """Declare a float32 probe whose raw signal is rounded as ``dtype`` does."""

    def raw(cls, group, out):
        ProbeSensor._update_raw_data.__func__(cls, group, out)
        out.copy_(out.to(dtype))

    return declare(base, _update_raw_data=classmethod(raw))


def run(options, substeps):
    """Return all readings, ground truths and arrived samples of 30 steps with a partial reset."""
    scene, sensor = build(options, substeps=substeps)
    out = []
    for step in range(30):
        if step == 13:
            scene.reset(envs=[1])
        scene.step()
        out.append([sensor.read().clone(), sensor.read_ground_truth().clone(), sensor.read_samples().values])
    return out


@pytest.mark.parametrize("timing", TIMINGS)
@pytest.mark.parametrize("dtype", [*HALVES, *EXACT])
def test_intermediates_of_other_dtypes_read_what_float32_reads(dtype, timing):
    """They are delayed, held, kept and reset as float32 signals are. Half-precision floats have all imperfections."""
    noise = {"noise": 0.1, "random_walk": 0.2, "bias": 0.5} if dtype in HALVES else {}
    own, reference = typed(dtype)(uuid="a", **timing, **noise), rounded(dtype)(uuid="a", **timing, **noise)
    for got, want in zip(run(own, 2), run(reference, 2), strict=True):
        for a, b in zip(got, want, strict=True):
            assert a.dtype == dtype
            assert torch.equal(a, b.to(dtype))


@pytest.mark.parametrize("dtype", HALVES)
def test_halves_have_responses_averages_and_signals_of_the_engine(dtype):
    def response(cls, group, data, timeline, is_measured):
        assert data.dtype == dtype
        data.copy_((data + timeline.at(1)) / 2)

    first = run(typed(dtype, _apply_transform=classmethod(response))(uuid="a", window="mean"), 2)
    assert all(torch.isfinite(one).all() for reads in first for one in reads)
    assert first[-1][0].dtype == dtype
    from test_author_contract import Speed, SpeedSensor

    members = {
        "_get_intermediate_dtype": classmethod(lambda cls: dtype),
        "_get_cache_dtype": classmethod(lambda cls: dtype),
    }

    class HalfSpeed(Speed):
        pass

    type("HalfSpeedSensor", (SpeedSensor,), members, options=HalfSpeed)
    scene, half, full = build(HalfSpeed(), Speed())
    scene.step(count=20)
    assert full.read().min() < -1
    assert torch.equal(half.read(), full.read().to(dtype))


@pytest.mark.parametrize("dtype", EXACT)
def test_imperfections_do_not_act_on_integers_and_booleans(dtype):
    options = typed(dtype)
    for wrong in ({"noise": 0.1}, {"bandwidth": 5.0}, {"saturation": (0.0, 1.0)}):
        with pytest.raises(sn.OptionError, match=rf"Own\.{next(iter(wrong))}: imperfections .*{dtype}.*OwnSensor"):
            build(options(**wrong))
    with pytest.raises(sn.OptionError, match=r"Own\.window: signals of dtype .* cannot be averaged"):
        build(options(window="mean"))
    _, sensor = build(options(noise=0.0))
    with pytest.raises(sn.OptionError, match=r"Own\.noise: imperfections do not act on"):
        sensor.set(noise=0.1)
    sensor.set(dropout=0.5)
    assert "noise" not in sensor.parameter_names
    assert "dropout" in sensor.parameter_names


@pytest.mark.parametrize("dtype", [*HALVES, torch.int32])
def test_only_full_floats_are_interpolated(dtype):
    with pytest.raises(sn.OptionError, match=r"Own\.interpolate: readings of dtype .* cannot be interpolated"):
        build(typed(dtype)(delay=0.02, interpolate=True))


def test_post_process_from_and_to_halves():
    process = classmethod(lambda cls, group, data, out, is_measured: out.copy_(data * 4))
    half = classmethod(lambda cls: torch.float16)
    to = declare(_get_cache_dtype=half, _post_process=process)
    from_half = declare(_get_intermediate_dtype=half, _post_process=process)
    options = {"delay": 0.02, "history_length": 2, "noise": 0.1}
    scene, a, b, c = build(to(uuid="a", **options), from_half(uuid="b", **options), HookedProbe(uuid="a2", **options))
    scene.step(count=5)
    assert (a.read().dtype, b.read().dtype) == (torch.float16, torch.float32)
    for sensor in (a, b):
        truth = 4 * c.read_ground_truth()
        assert torch.allclose(sensor.read_ground_truth().float(), truth, atol=0.02)
        assert torch.allclose(sensor.read().float(), truth, atol=4.0)
