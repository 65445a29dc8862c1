"""Public callables raise errors of Sensorium for wrong values, never those of other libraries: a seeded sample."""

import os

import fuzz_calls
import pytest

import sensorium as sn
from sensorium.options import Options

DAY_SEED = int(os.environ.get("SENSORIUM_FUZZ_SEED", "0"))
"""Seed of the sample; ``script/fuzz`` makes all calls."""


@pytest.mark.parametrize("part", range(4))
def test_wrong_calls_raise_our_errors(part):
    calls = fuzz_calls.sample(150, seed=4 * DAY_SEED + part)
    faults = {str(call): fault for call in calls if (fault := fuzz_calls.make(call))}
    assert not faults


def test_every_public_package_is_walked():
    found = {name.split(".")[0] for name in fuzz_calls.callables()}
    assert set(fuzz_calls.packages()) - {"presets"} <= found
    assert {"Scene", "IMU", "Camera", "TrainableEntity"} <= found


def test_every_option_is_given_wrong_values():
    found = {name: set() for name in fuzz_calls.callables()}
    for call in fuzz_calls.wrong_calls():
        found[call.target].add(call.parameter)
    for name, function in fuzz_calls.callables().items():
        if isinstance(function, type) and issubclass(function, Options):
            optional = {each for each, field in function.model_fields.items() if not field.is_required()}
            assert optional.intersection(function.option_names()) <= found[name], name


def test_good_arguments_are_good():
    problems = {}
    for name, arguments in fuzz_calls.good().items():
        try:
            with fuzz_calls.quiet():
                fuzz_calls.callables()[name](**arguments)
        except (Exception, SystemExit) as error:
            problems[name] = repr(error)
    assert not problems


def test_a_raw_error_is_a_fault(monkeypatch):
    def raw(name: str = "") -> None:
        raise ValueError(name.foo)

    def ours(name: str = "") -> None:
        raise sn.OptionError("name")

    monkeypatch.setattr(fuzz_calls, "callables", lambda: {"raw": raw, "ours": ours})
    assert "AttributeError" in fuzz_calls.make(fuzz_calls.WrongCall("raw", "name", "None"))
    assert fuzz_calls.make(fuzz_calls.WrongCall("ours", "name", "None")) is None
    assert len(fuzz_calls.wrong_calls()) == 2 * len(fuzz_calls.BAD)


def test_arguments_of_any_number_are_made_wrong(monkeypatch):
    seen = []
    monkeypatch.setattr(fuzz_calls, "callables", lambda: {"call": lambda first, *rest, **named: seen.append(rest)})
    for parameter, value in (("*rest", "None"), ("**nonesuch", "-1")):
        assert fuzz_calls.make(fuzz_calls.WrongCall("call", parameter, value)) is None
    assert seen == [(None,), ()]
    assert {call.parameter for call in fuzz_calls.wrong_calls()} == {"*", "*rest", "**nonesuch"}
