"""``Randomizers``: everything that the options of a tensor task draw at the start of episodes, besides its state."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from sensorium.errors import OptionError
from sensorium.tasks.tensor.hooks import TensorHooks
from sensorium.tasks.tensor.model_randomization import ModelRandomizer
from sensorium.tasks.tensor.sensor_randomization import SensorRandomizer


class Randomizers:
    """The options ``randomize`` and ``randomize_sensors`` of a task.

    Args:
        task: the task, in a built scene.

    Raises:
        OptionError: a range cannot be used; see :class:`ModelRandomizer` and :class:`SensorRandomizer`.
    """

    def __init__(self, task: TensorHooks[Any]) -> None:
        self._all = ModelRandomizer(task), SensorRandomizer(task)

    def begin_episodes(self, mask: torch.Tensor) -> None:
        """Draw and write the values of new episodes, in the envs of a mask (B,) bool."""
        for randomizer in self._all:
            randomizer.begin_episodes(mask)

    def with_values(self, own: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
        """Return what a task's ``observe_privileged`` returned, and the drawn values.

        Raises:
            OptionError: both have the same name.
        """
        found = dict(own)
        for randomizer in self._all:
            for name, values in randomizer.observe().items():
                if name in found:
                    raise OptionError(
                        f"observe_privileged: {name!r} is the name of what {randomizer.option} draws; use another name"
                    )
                found[name] = values
        return found
