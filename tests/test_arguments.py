"""``checked``: arguments of wrong types raise OptionError that names them, all others reach the function unchanged."""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeVar

import numpy as np
import pytest
import torch

import sensorium as sn
from sensorium._arguments import checked, checked_flag, checked_numbers

if TYPE_CHECKING:
    from sensorium.worlds import Scene

OptionsT = TypeVar("OptionsT", bound=sn.sensors.SensorOptions)


class HasName(Protocol):
    """An example of a protocol."""

    rate: float

    @property
    def name(self) -> str:
        """A name."""
        ...


class Named:
    """It fits the protocol; reading its property raises, which the check must not do."""

    def __init__(self) -> None:
        self.rate = 1.0

    @property
    def name(self) -> str:
        raise AssertionError


@checked
def call(
    number: float = 0.0,
    count: int = 0,
    path: str | Path | None = None,
    place: str | os.PathLike[str] = "x",
    names: Sequence[str] = (),
    tags: frozenset[str] = frozenset(),
    table: Mapping[str, int] | None = None,
    function: Callable[[], int] = int,
    mode: Literal["a", "b"] = "a",
    flag: bool = False,
    kind: type[sn.sensors.SensorOptions] = sn.IMU,
    numbers: Iterable[float] = (),
    named: HasName | None = None,
    scene: Scene | None = None,
    options: OptionsT | None = None,
    anything: Any = None,
    unknown: NoSuchName = None,  # type: ignore[name-defined]  # noqa: F821
) -> tuple[object, ...]:
    return number, path, scene


NAN = float("nan")
WRONG = {
    "number": ["1", None, NAN, 1j, True, [1.0], np.zeros(2)],
    "count": [1.0, True, "1", None],
    "path": ["", "a\0b", 3, b"x", ["a"], Path("a\0b"), "x" * 256, Path("a", "x" * 256), "a/" * 3000, "\ud800"],
    "place": ["", "a\0b", None, 3, "x" * 256],
    "names": ["text", 3, [1], [None], np.zeros(3), torch.zeros(3), {"a": 1}],
    "tags": [[], ["a"], "a", None, {1}],
    "table": [[], "a", 3, [("a", 1)]],
    "function": [3, "int"],
    "mode": ["c", 1, None, np.zeros(3)],
    "flag": [0, 1, None, "yes", np.zeros(2, bool)],
    "kind": [3, sn.IMU(link="a"), int],
    "numbers": [3, "text", ["a"], [NAN]],
    "named": [3, "text", object()],
    "scene": [3, "text", object()],
    "options": [3, "text", {}],
}
RIGHT = {
    "number": [1, np.float32(2), -float("inf")],
    "count": [3, np.int64(3)],
    "path": ["a", Path("a"), None, "x" * 255, Path("x" * 255), "a/" * 2000, "<mujoco/>" + "x" * 5000],
    "place": ["a", Path("a")],
    "names": [["a"], ("a", "b"), np.array(["a"]), {"a"}],
    "tags": [frozenset("a"), {"a"}],
    "table": [{}, {"a": 1}, None],
    "function": [len, int],
    "mode": ["b"],
    "flag": [True, np.True_],
    "kind": [sn.IMU],
    "numbers": [[1, 2.0], np.zeros(3), torch.zeros(3), (x for x in ())],
    "named": [Named(), None],
    "scene": [sn.Scene(), None],
    "options": [sn.IMU(link="a"), None],
    "anything": [3, "text"],
    "unknown": [3, "text"],
}


@pytest.mark.parametrize("name", WRONG)
def test_wrong_types_raise(name):
    for value in WRONG[name]:
        with pytest.raises(sn.OptionError, match=rf"call: {name} must be .*, got "):
            call(**{name: value})


@pytest.mark.parametrize("name", RIGHT)
def test_right_types_pass(name):
    for value in RIGHT[name]:
        call(**{name: value})


def test_errors_of_python_are_unchanged():
    with pytest.raises(TypeError, match="unexpected keyword argument 'nonesuch'"):
        call(nonesuch=3)


@pytest.mark.parametrize("value", ["text", [1, [2, 3]], None, 1j, [None], torch.eye(2).to_sparse(), object()])
def test_numbers_of_wrong_types_raise(value):
    with pytest.raises(sn.OptionError, match="value must be numbers, got"):
        checked_numbers("value", value)


def test_numbers_of_tensors_with_a_gradient_and_of_bfloat16():
    for tensor in (torch.ones(2, requires_grad=True), torch.ones(2, dtype=torch.bfloat16)):
        assert checked_numbers("value", tensor).tolist() == [1.0, 1.0]


def test_numbers_and_flags():
    assert checked_numbers("value", [[1, 2], [3, NAN]]).shape == (2, 2)
    assert checked_numbers("value", torch.ones(2)).dtype == np.float64
    assert checked_numbers("value", []).shape == (0,)
    assert checked_flag("value", np.True_) is True
    for wrong in (1, None, "yes", np.zeros(2)):
        with pytest.raises(sn.OptionError, match="value must be True or False"):
            checked_flag("value", wrong)


def test_steps_have_a_limit():
    scene = sn.Scene()
    scene.build()
    for count in (10**9 + 1, 10**18, -1, np.int64(10**12)):
        with pytest.raises(sn.OptionError, match=r"count must be an integer in \[0, 1000000000\]"):
            scene.step(count=count)
    assert scene.step_count == 0


def test_options_keep_their_signatures():
    class Lamp(sn.Options):
        watts: float = 5.0

        def __init__(self, watts: float) -> None:
            super().__init__(watts=watts)

    sn.Options()
    assert [*inspect.signature(Lamp).parameters] == ["watts"]
