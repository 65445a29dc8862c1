"""``Failures``: the envs of a scene whose physics failed, and the errors that report them."""

from __future__ import annotations

from collections.abc import Collection

from sensorium.errors import CapacityError, DivergenceError


class Failures:
    """The envs whose physics failed and that wait for a reset.

    Attributes:
        messages: env -> message.
    """

    def __init__(self) -> None:
        self.messages: dict[int, str] = {}

    def forget(self, envs: Collection[int]) -> None:
        """Remove envs that were reset."""
        self.messages = {env: text for env, text in self.messages.items() if env not in envs}

    def report(self, failed: dict[int, str], crowded: CapacityError | None = None) -> None:
        """Add envs that failed, and raise.

        Args:
            failed: env -> message.
            crowded: raised instead of DivergenceError if contacts were lost; it then names the failed envs too.

        Raises:
            DivergenceError: some envs failed.
            CapacityError: contacts were lost.
        """
        if crowded is not None:
            crowded.failed = failed = failed | crowded.failed
        self.messages |= failed
        if crowded is not None:
            raise crowded
        if failed:
            raise DivergenceError(failed)


def merge_errors(first: CapacityError | None, second: CapacityError) -> CapacityError:
    """Return one error for the losses of several steps."""
    if first is None:
        return second
    return CapacityError(str(second), {*first.envs, *second.envs}, first.failed | second.failed)
