"""Wrong calls of the public API: every public callable with wrong types, None, NaN, empty, huge and negative values,
tensors of unusual kinds, masked arrays, names that are too long, and paths that cannot be used. A call that raises must
leave the files of its folder as they were.

``script/fuzz`` makes all of them, tests/test_fuzz.py a seeded sample.
"""

import contextlib
import functools
import importlib
import inspect
import io
import os
import random
import signal
import tempfile
import traceback
import warnings
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from fuzz_good import OPTIONS, good_arguments
from fuzz_objects import new_object, objects
from fuzz_paths import listing, make_files, path_arguments, paths_for, suffixes_of

import sensorium as sn
from sensorium.options import Options


def _without_warnings(function: Callable[..., torch.Tensor], *arguments: object) -> torch.Tensor:
    """Return a tensor of a kind whose functions warn: quantised ones are deprecated, nested ones a prototype."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return function(*arguments)


BAD = {
    "None": None,
    "True": True,
    "-1": -1,
    "10**18": 10**18,
    "0.5": 0.5,
    "nan": float("nan"),
    "-inf": -float("inf"),
    "1j": 1j,
    "empty": "",
    "NUL": "no\0name",
    "text": "nonesuch",
    "[]": [],
    "{}": {},
    "[nan]": [float("nan")],
    "[None]": [None],
    "ragged": [1, [2, 3]],
    "object": object(),
    "bytes": b"x",
    "array": np.full((2, 3), np.nan),
    "tensor": torch.zeros(3, 1, dtype=torch.complex64),
    "sparse": torch.eye(3).to_sparse(),
    "quantised": _without_warnings(torch.quantize_per_tensor, torch.zeros(3), 0.1, 0, torch.qint8),
    "nested": _without_warnings(torch.nested.nested_tensor, [torch.zeros(1), torch.zeros(2)]),
    "bfloat16": torch.zeros(3, dtype=torch.bfloat16),
    "meta": torch.zeros(3, device="meta"),
    "gradient": torch.zeros(3, requires_grad=True),
    "masked": np.ma.masked_array([0, 1, 2], mask=[False, True, False]),
    "long": "x" * 300,
    "long path": Path("x" * 300),
    "deep": "x/" * 3000,
    "surrogate": "\ud800",
}
"""Name -> wrong value. Some callables accept some of them, which is no fault."""
_ANY_NUMBER = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
SECONDS = 20
"""A call that takes longer fails."""
SKIPPED = {
    "view": "opens a window",
    "serve": "opens a port",
    "run": "runs until it is stopped",
    "main": "ends the process",
    "build": "the scene is used for further calls; tests/test_bad_input.py and tests/test_sizes.py call it",
    "close": "the object is used for further calls",
    "attach_world": "called by the scene only",
    "detach_world": "called by the scene only",
    "note_written": "called by the scene only",
    "attach": "called by the scene only",
    "start": "called by the scene only",
    "add_to": "called by the scene only",
    "learn": "takes as many steps as it is told; tests/test_bad_entity_input.py calls it",
    "rollout": "takes as many steps as it is told; tests/test_tensor_shared.py calls it",
    "add_scene": "hook of a task, called by the task only",
    "add_sensors": "hook of a task, called by the task only",
    "begin_episodes": "hook of a task, called by the task only",
    "place_robot": "hook of a task, called by the task only",
    "add_child": "changes the tree that further calls use",
    "add_stand_in": "changes the tree that further calls use",
    "replace_child": "changes the tree that further calls use",
}
"""Name of a callable -> why it is not called."""


@dataclass(frozen=True)
class WrongCall:
    """One call: a public callable, and the arguments that are wrong in it."""

    target: str
    """Name of the callable: "Scene.build", "robots.make"."""
    parameter: str
    """The argument; "*" if all required ones get the value, "*NAME" for an argument of any number, "**NAME" for a name
    that the signature does not have."""
    value: str
    """Key of :data:`BAD` or of ``fuzz_paths.paths_for(target)``."""

    def __str__(self) -> str:
        return f"{self.target}({self.parameter}={self.value})"


class Timeout(BaseException):
    """A call took too long."""


class LeftoverError(Exception):
    """A call raised, and changed files."""


def packages() -> list[str]:
    """Return the names of the public packages and modules."""
    return [name for name in sn.__all__ if inspect.ismodule(getattr(sn, name)) and name != "errors"]


@functools.cache
def callables() -> dict[str, Callable[..., object]]:
    """Return name -> public function, class or bound method of the objects of ``fuzz_objects.objects()``."""
    found: dict[str, Callable[..., object]] = {}
    for place in ("", *packages()):
        module = importlib.import_module(f"sensorium.{place}".rstrip("."))
        for name in module.__all__:
            value = getattr(module, name)
            if not callable(value) or (isinstance(value, type) and _is_exempt(value)) or name in SKIPPED:
                continue
            found.setdefault(f"{place}.{name}".lstrip("."), value)
            if isinstance(value, type):
                if issubclass(value, Options):
                    value.model_rebuild()  # until it is first used, its signature names no options
                for method, function in _class_methods(value):
                    found[f"{place}.{name}.{method}".lstrip(".")] = function
    for name, value in objects().items():
        for method in dir(type(value)):
            function = getattr(type(value), method)
            if (
                method.startswith("_")
                or method in SKIPPED
                or not inspect.isfunction(function)
                or not _is_ours(function)
            ):
                continue
            is_changed = name in ("buffer", "unbuilt")
            found[f"<{name}>.{method}"] = _of_new_object(name, method) if is_changed else getattr(value, method)
    return found


def _of_new_object(name: str, method: str) -> Callable[..., object]:
    """Return a method of an object that is made for each call, since a call may change it."""

    @functools.wraps(getattr(objects()[name], method))
    def call(*values: object, **named: object) -> object:
        return getattr(new_object(name), method)(*values, **named)

    return call


@functools.cache
def good() -> dict[str, dict[str, object]]:
    """Return name of a callable -> good values of its required arguments."""
    return good_arguments(objects())


def _is_exempt(kind: type) -> bool:
    """Return whether a class is not constructed by users: errors, protocols, and types of data that only we make."""
    return issubclass(kind, BaseException) or getattr(kind, "_is_protocol", False) or inspect.isabstract(kind)


def _class_methods(kind: type) -> Iterator[tuple[str, Callable[..., object]]]:
    for name in dir(kind):
        method = inspect.getattr_static(kind, name)
        if isinstance(method, classmethod | staticmethod) and not name.startswith("_") and _is_ours(method.__func__):
            yield name, getattr(kind, name)


def _is_options(function: object) -> bool:
    """Return whether a callable is a class of options, whose fields are given by name."""
    return isinstance(function, type) and issubclass(function, Options)


def _is_ours(function: object) -> bool:
    return str(getattr(function, "__module__", "")).startswith("sensorium")


def wrong_calls() -> list[WrongCall]:
    """Return all wrong calls: each value for every argument, and for all required ones at once."""
    calls = []
    for name, function in callables().items():
        try:
            parameters = inspect.signature(function).parameters.values()
        except (TypeError, ValueError):  # a class without a signature takes no arguments
            continue
        named = [one for one in parameters if one.kind not in _ANY_NUMBER]
        optional = [one.name for one in named if one.default is not inspect.Parameter.empty]
        places = dict.fromkeys([*(["*"] if len(optional) < len(named) else []), *optional, *good().get(name, {})])
        for one in parameters:
            if one.kind is inspect.Parameter.VAR_POSITIONAL:
                places[f"*{one.name}"] = None
            elif one.kind is inspect.Parameter.VAR_KEYWORD and not _is_options(function):
                places |= dict.fromkeys(f"**{key}" for key in ("nonesuch", *OPTIONS.get(name, ())))
        calls += [WrongCall(name, place, value) for place in places for value in BAD]
        calls += [WrongCall(name, place, path) for place in path_arguments(function) for path in paths_for(name)]
    return calls


def sample(count: int, seed: int) -> list[WrongCall]:
    """Return a seeded sample of the wrong calls, with every callable as often as every other one."""
    rng = random.Random(seed)
    by_target: dict[str, list[WrongCall]] = {}
    for call in wrong_calls():
        by_target.setdefault(call.target, []).append(call)
    targets = sorted(by_target)
    rng.shuffle(targets)
    return [rng.choice(by_target[targets[number % len(targets)]]) for number in range(count)]


def make(call: WrongCall) -> str | None:
    """Make a wrong call in an empty folder; return why its outcome is not allowed, or None if it is."""
    function = callables()[call.target]
    parameters = inspect.signature(function).parameters
    positional: list[object] = []
    named: dict[str, object] = {}
    others = {} if call.parameter == "*" else good().get(call.target, {})
    paths = paths_for(call.target)
    wrong = BAD[call.value] if call.value in BAD else paths[call.value]
    is_any_number = call.parameter.removeprefix("*") in parameters and call.parameter.startswith("*")
    for parameter in parameters.values():
        required = parameter.default is inspect.Parameter.empty and parameter.kind not in _ANY_NUMBER
        if parameter.kind is inspect.Parameter.VAR_POSITIONAL and call.parameter == f"*{parameter.name}":
            positional.append(wrong)
        elif parameter.name == call.parameter or required:
            value = wrong if parameter.name == call.parameter else others.get(parameter.name, wrong)
            before = parameter.kind is inspect.Parameter.POSITIONAL_OR_KEYWORD and is_any_number
            if parameter.kind is inspect.Parameter.POSITIONAL_ONLY or before:  # those before "*NAME" have no names
                positional.append(value)
            else:
                named[parameter.name] = value
    if call.parameter.startswith("**"):
        named[call.parameter.removeprefix("**")] = wrong
    files = suffixes_of(call.target) if call.value in paths else ()
    return outcome(lambda: function(*positional, **named), parameters, files)


def outcome(call: Callable[[], object], parameters: Iterable[str] = (), suffixes: Collection[str] = ()) -> str | None:
    """Make a call in an empty folder; return why its outcome is not allowed, or None if it is.

    Args:
        call: the call.
        parameters: names of the arguments, one of which a TypeError must name to be allowed. Default: it is not.
        suffixes: those of the files that are in the folder. Default: it is empty.
    """
    try:
        with quiet(), _limit(SECONDS), _unchanged(suffixes):
            call()
    except sn.SensoriumError:
        return None
    except LeftoverError as error:
        return str(error)
    except Timeout:
        return f"took more than {SECONDS} s"
    except (Exception, SystemExit) as error:
        if parameters and isinstance(error, TypeError) and _names_argument(error, parameters):
            return None
        frame = traceback.extract_tb(error.__traceback__)[-1]
        return f"{type(error).__name__}: {str(error)[:100]!r} ({Path(frame.filename).name}:{frame.lineno})"
    return None


def _names_argument(error: TypeError, parameters: Iterable[str]) -> bool:
    """Return whether a TypeError says which argument is wrong: Python's own of a call, or that of an abstract class."""
    text = str(error)
    own = ("argument", "abstract", "must define", "cannot be instantiated", *(f"{name} must be" for name in parameters))
    frames = traceback.extract_tb(error.__traceback__)
    outside = len(frames) <= 1 or "sensorium" not in Path(frames[-1].filename).parts
    return any(word in text for word in own) and (not outside or len(frames) <= 1)


@contextlib.contextmanager
def _unchanged(suffixes: Collection[str]) -> Iterator[None]:
    """Make files, and raise LeftoverError if an error of the block leaves others or changes them."""
    if suffixes:
        make_files(suffixes)
    before = listing()
    try:
        yield
    except sn.SensoriumError as error:
        after = listing()
        changed = [path for path in sorted({*before, *after}) if before.get(path, 0) != after.get(path, 0)]
        if changed:
            raise LeftoverError(f"changed files: {changed[:3]!r:.80}, and raised {str(error)[:100]!r}") from None
        raise


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Run in an empty folder, without output and warnings."""
    before = os.getcwd()
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        os.chdir(folder)
        try:
            with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
                yield
        finally:
            os.chdir(before)


@contextlib.contextmanager
def _limit(seconds: int) -> Iterator[None]:
    def stop(*_: object) -> None:
        raise Timeout

    before = signal.signal(signal.SIGALRM, stop)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)
