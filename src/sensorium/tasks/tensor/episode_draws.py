"""``EpisodeDraws``: random numbers of episodes, on the device of the physics."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from sensorium.errors import OptionError
from sensorium.pipeline.draws import Draws
from sensorium.tasks.checks import sorted_numbers

_NUMBERS = (int, float)
_OWNER = "task"
"""What the keys of a task's draws have where those of a sensor have its uuid."""


class EpisodeDraws:
    """Random numbers that depend only on the seed, the env, the number of its episode and a name.

    They are the same on every device and for every number of envs. Every call with the same name, in the same episode
    and with the same counter returns the same numbers.

    Args:
        seed: seed of the task.
        episode: number of each env's episode, (B,) int64, live.

    Example:
        >>> draws = EpisodeDraws(seed=0, episode=task.episode)
        >>> heading = draws.uniform("heading", 1, -3.14, 3.14)      # (B, 1), another one in each episode
        >>> command = draws.uniform("command", 3, -1, 1, counter=task.step_count // 250)  # every 250 steps
    """

    def __init__(self, seed: int, episode: torch.Tensor) -> None:
        self._seed, self._episode = seed, episode
        self._envs = torch.arange(len(episode), device=episode.device)
        self._made: dict[str, tuple[int, torch.Tensor, Draws]] = {}

    def set_envs(self, envs: torch.Tensor) -> None:
        """Set the env whose numbers each env draws, (B,) integers. Default: the env itself."""
        self._envs.copy_(envs)

    def set_seed(self, seed: int) -> None:
        """Set the seed of all later numbers."""
        self._seed = seed
        for _, _, draws in self._made.values():
            draws.set_seed(seed)

    def uniform(
        self, name: str, n: int, low: float = 0.0, high: float = 1.0, counter: torch.Tensor | None = None
    ) -> torch.Tensor:
        """Return numbers in [low, high), (B, n) float32.

        Args:
            name: name of the draw. Different names have independent numbers.
            n: numbers per env.
            low, high: bounds, low <= high.
            counter: (B,) integers from 0 to 65535. Numbers of different counters are independent. Default: 0.

        Raises:
            OptionError: the name has been used with another ``n``, or ``low`` > ``high``. Tensors are not validated.
        """
        if isinstance(low, _NUMBERS) and isinstance(high, _NUMBERS) and not low <= high:
            raise OptionError(f"the draw {name!r} must have low <= high, got low={low!r} and high={high!r}")
        return low + (high - low) * self._draw(name, n, counter).uniform().T

    def normal(self, name: str, n: int, counter: torch.Tensor | None = None) -> torch.Tensor:
        """Return standard normal numbers, (B, n) float32; see :meth:`uniform`."""
        return self._draw(name, n, counter).normal().T.clone()

    def _draw(self, name: str, n: int, counter: torch.Tensor | None) -> Draws:
        if name not in self._made:
            with torch.inference_mode(False):
                words = torch.zeros(2, len(self._envs), dtype=torch.int32, device=self._envs.device)
                is_gpu = words.device.type != "cpu"
                draws = Draws(self._seed, name, [_OWNER], [n], words.view(torch.uint32), is_gpu)
            self._made[name] = n, words, draws
        known, words, draws = self._made[name]
        if known != n:
            raise OptionError(f"the draw {name!r} has {known} numbers per env and cannot have {n}; use another name")
        # 20 bits for the env, 28 for the episode, 16 for the counter
        words[0] = self._envs + (self._episode >> 16 << 20)
        words[1] = (self._episode << 16) + (0 if counter is None else counter)
        return draws


def checked_numbers(numbers: Sequence[int], n_envs: int) -> list[int]:
    """Return the numbers of the episodes that begin in all envs.

    Raises:
        OptionError: they are not one number for each env.
    """
    try:
        return sorted_numbers(numbers, None, n_envs)
    except OptionError as error:
        raise OptionError(
            f"{error}. reset() of a tensor task begins an episode in every env: numbers are those of the episodes, not "
            "envs; remove them for the next episodes"
        ) from None
