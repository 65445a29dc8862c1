"""Every error that Sensorium raises on purpose, and the hints that go with them.

All of them derive from :class:`SensoriumError`, so ``except sn.SensoriumError`` catches what a user can mend. Each also
derives from the built-in type that fits (``ValueError``, ``LookupError``, ...), so ordinary handlers work too.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping


class SensoriumError(Exception):
    """Base of every error raised by Sensorium."""


class OptionError(SensoriumError, ValueError):
    """An option has a value that cannot be used. Names the option, the value, and what to do."""


class NameNotFoundError(SensoriumError, LookupError):
    """A link, joint, site, entity or sensor of that name does not exist (or is ambiguous)."""


class DuplicateNameError(SensoriumError, ValueError):
    """Two things were given the same name."""


class NotBuiltError(SensoriumError, RuntimeError):
    """Something was asked of a scene that has not been built yet."""


class AlreadyBuiltError(SensoriumError, RuntimeError):
    """Something was added to a scene after ``build()``."""


class ModelError(SensoriumError, ValueError):
    """A model (MJCF, URDF, MjSpec) could not be read, composed or compiled."""


class TreeError(SensoriumError, ValueError):
    """The component tree is malformed: a cycle, or two slots of one name."""


class StateDictError(SensoriumError, ValueError):
    """Values do not fit the tree they are loaded into.

    Attributes:
        missing: paths of the tree that the values lack.
        unexpected: paths of the values that the tree lacks.
        mismatched: path -> what is wrong with its shape or dtype.
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


class DivergenceError(SensoriumError, RuntimeError):
    """The physics of some envs diverged or failed during ``step()``.

    It is raised at the end of the step, when every other env has been stepped and sensed. The envs it names hold still
    until they are reset: ``scene.reset(envs=error.envs)``.

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
            f"physics failed in {len(self.envs)} env(s) ({shown}{more}). The other envs went on; "
            f"these hold still until scene.reset(envs={self.envs[:8]}{'...' if len(self.envs) > 8 else ''})"
        )


class EpisodeOverError(SensoriumError, RuntimeError):
    """A task was stepped while no episode runs: before the first reset, or after every env is done."""


class GenerationError(SensoriumError, RuntimeError):
    """A dataset could not be generated: too few episodes succeeded, or a worker failed."""


class DatasetError(SensoriumError, RuntimeError):
    """A recording or a dataset cannot be read or written. Names the file, and what to do."""


class DeviceError(SensoriumError, RuntimeError):
    """The device that was asked for is missing, too old, or has too little memory. Says what to install or lower."""


class CapacityError(SensoriumError, RuntimeError):
    """The GPU engine ran out of the room that was allocated for contacts or constraints, and lost some.

    Attributes:
        envs: ids of the envs concerned.
        failed: env id -> message of those whose physics failed besides, which often comes of it.
    """

    def __init__(self, message: str, envs: Iterable[int], failed: Mapping[int, str] | None = None) -> None:
        self.envs = sorted(envs)
        self.failed = dict(failed or {})
        super().__init__(message)


def did_you_mean(name: str, names: Iterable[str]) -> str:
    """`` (did you mean 'a' or 'b'?)`` for the names closest to ``name``, or an empty string."""
    candidates = list(dict.fromkeys(names))
    close = difflib.get_close_matches(name, candidates, n=3, cutoff=0.5)
    if not close:
        lowered = {candidate.lower(): candidate for candidate in candidates}
        close = [lowered[match] for match in difflib.get_close_matches(name.lower(), list(lowered), n=3, cutoff=0.5)]
    return f" (did you mean {' or '.join(map(repr, close))}?)" if close else ""


def shorten(values: Iterable[object], limit: int = 12) -> str:
    """The first ``limit`` values as text, for error messages that list what there is."""
    listed = [repr(value) for value in values]
    return ", ".join(listed[:limit]) + (f", ... ({len(listed)} in all)" if len(listed) > limit else "") or "none"
