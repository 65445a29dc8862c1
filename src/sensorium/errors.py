"""The exceptions of Sensorium, and helpers for their messages.

All of them derive from :class:`SensoriumError`, so ``except sn.SensoriumError`` catches every error that a user can
fix. Each also derives from the matching built-in type (``ValueError``, ``LookupError``, ...), so handlers of those work
too. A message says what was wrong, what is allowed, and what to do.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping

__all__ = [
    "AlreadyBuiltError",
    "CapacityError",
    "DatasetError",
    "DeviceError",
    "DivergenceError",
    "DuplicateNameError",
    "EpisodeOverError",
    "GenerationError",
    "IndexRangeError",
    "ModelError",
    "NameNotFoundError",
    "NotBuiltError",
    "OptionError",
    "SensoriumError",
    "StaleInputError",
    "StateDictError",
    "TreeError",
]


class SensoriumError(Exception):
    """Base class of every error that Sensorium raises on purpose."""


class OptionError(SensoriumError, ValueError):
    """An option or argument has a value that cannot be used."""


class IndexRangeError(OptionError, IndexError):
    """A sequence has no item of that number: no step, episode or message."""


class NameNotFoundError(SensoriumError, LookupError):
    """No link, joint, site, entity or sensor has that name, or several do."""


class DuplicateNameError(SensoriumError, ValueError):
    """A name is already in use."""


class NotBuiltError(SensoriumError, RuntimeError):
    """A call needs a scene that has been built."""


class AlreadyBuiltError(SensoriumError, RuntimeError):
    """A call that must come before ``build()`` came after it."""


class ModelError(SensoriumError, ValueError):
    """A model (MJCF, URDF, MjSpec) could not be read, composed or compiled."""


class TreeError(SensoriumError, ValueError):
    """The component tree has a cycle, two components with one path, or a buffer that cannot be replaced."""


class StateDictError(SensoriumError, ValueError):
    """Values do not fit the tree that they are loaded into.

    Attributes:
        missing: paths of the tree for which there is no value.
        unexpected: paths of values that the tree does not have.
        mismatched: path -> why the shape, dtype or type of its value does not fit.
    """

    def __init__(self, missing: Iterable[str], unexpected: Iterable[str], mismatched: Mapping[str, str]) -> None:
        self.missing = list(missing)
        self.unexpected = list(unexpected)
        self.mismatched = dict(mismatched)
        lines = ["values do not fit the tree; nothing was loaded:"]
        lines += [f"  missing: {name}" for name in self.missing]
        lines += [f"  unexpected: {name}{did_you_mean(name, self.missing)}" for name in self.unexpected]
        lines += [f"  mis-shaped: {name}: {text}" for name, text in self.mismatched.items()]
        super().__init__("\n".join(lines))

    def __reduce__(self) -> tuple[type, tuple[object, ...]]:
        return type(self), (self.missing, self.unexpected, self.mismatched)


class DivergenceError(SensoriumError, RuntimeError):
    """The physics of some envs diverged or failed during ``step()``.

    It is raised at the end of the step, after every other env was stepped and sensed. The envs in ``envs`` are not
    stepped until they are reset: ``scene.reset(envs=error.envs)``.

    Attributes:
        envs: ids of the envs that failed.
        messages: env id -> the engine's message.
    """

    def __init__(self, messages: Mapping[int, str]) -> None:
        self.messages = dict(messages)
        self.envs = sorted(self.messages)
        shown = "; ".join(f"env {env}: {self.messages[env]}" for env in self.envs[:3])
        more = f"; and {len(self.envs) - 3} more" if len(self.envs) > 3 else ""
        super().__init__(
            f"physics failed in {len(self.envs)} env(s) ({shown}{more}). The other envs were stepped; "
            f"these are not stepped until scene.reset(envs={self.envs[:8]}{'...' if len(self.envs) > 8 else ''})"
        )

    def __reduce__(self) -> tuple[type, tuple[object, ...]]:
        return type(self), (self.messages,)


class EpisodeOverError(SensoriumError, RuntimeError):
    """A task was stepped without a running episode: before the first reset, or after every env was done."""


class GenerationError(SensoriumError, RuntimeError):
    """A dataset could not be generated: too few episodes succeeded, or workers failed."""


class DatasetError(SensoriumError, RuntimeError):
    """A recording or dataset cannot be read or written."""


class StaleInputError(SensoriumError, RuntimeError):
    """An input of a deployed policy is missing or too old.

    Attributes:
        term: name of the term in the contract.
        topic: topic of its messages.
        age: age of its newest sample in s, or None if no message has arrived.
        limit: age at which it is stale, s.
    """

    def __init__(
        self, message: str, term: str = "", topic: str = "", age: float | None = None, limit: float = 0.0
    ) -> None:
        self.term, self.topic, self.age, self.limit = term, topic, age, limit
        super().__init__(message)

    def __reduce__(self) -> tuple[type, tuple[object, ...]]:
        return type(self), (str(self), self.term, self.topic, self.age, self.limit)


class DeviceError(SensoriumError, RuntimeError):
    """The requested device is missing, too old, or has too little memory."""


class CapacityError(SensoriumError, RuntimeError):
    """The GPU engine had more contacts or constraints than were allocated, and lost some.

    Attributes:
        envs: ids of the envs that lost contacts or constraints.
        failed: env id -> message of the envs whose physics failed as well, often as a consequence.
    """

    def __init__(self, message: str, envs: Iterable[int], failed: Mapping[int, str] | None = None) -> None:
        self.envs = sorted(envs)
        self.failed = dict(failed or {})
        super().__init__(message)

    def __reduce__(self) -> tuple[type, tuple[object, ...]]:
        return type(self), (str(self), self.envs, self.failed)


def did_you_mean(name: object, names: Iterable[str]) -> str:
    """Return a hint for a misspelt name, for the end of an error message.

    Args:
        name: the name that was not found; for anything but text there is no hint.
        names: the names that exist.

    Returns:
        `` (did you mean 'a' or 'b'?)`` with the closest names, or an empty string if none is close.
    """
    if not isinstance(name, str):
        return ""
    candidates = [each for each in dict.fromkeys(names) if isinstance(each, str)]
    close = _closest(name, candidates)
    if not close:
        lowered = {candidate.lower(): candidate for candidate in candidates}
        close = [lowered[match] for match in _closest(name.lower(), list(lowered))]
    return f" (did you mean {' or '.join(map(repr, close))}?)" if close else ""


def _closest(name: str, candidates: list[str]) -> list[str]:
    """Return up to three names that are close to ``name`` and about as close as the closest one."""
    close = difflib.get_close_matches(name, candidates, n=3, cutoff=0.5)
    scores = [difflib.SequenceMatcher(None, each, name).ratio() for each in close]
    return [each for each, score in zip(close, scores, strict=True) if score > scores[0] - 0.2]


def shorten(values: Iterable[object], limit: int = 12) -> str:
    """Return the first ``limit`` values as text, for error messages that list what exists."""
    listed = [repr(value) for value in values]
    return ", ".join(listed[:limit]) + (f", ... ({len(listed)} in all)" if len(listed) > limit else "") or "none"
