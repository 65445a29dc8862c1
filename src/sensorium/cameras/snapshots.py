"""``Snapshots``: the captured frames of a timed camera, from capture until they are delivered.

A frame is stored when it is captured, not in every step: a 30 Hz camera with steps of 5 ms stores one every sixth or
seventh step. For a delay of up to K - 1 steps there are K slots for frames per env, and a table of the newest slot at
each of the last K steps. At most one frame is captured per step, so a slot is overwritten only when no step that can
still be read refers to it::

    step       0    1    2    3    4    5    6         K = 4, a frame in every third step
    captured   a              b              c
    slot       0              1              2
    newest     0    0    0    1    1    1    2         the table holds the last 4 of these
    delay 2    a    a    a    a    a    b    b         the frame that a read at this step returns
"""

from __future__ import annotations

import torch


class Snapshots:
    """Captured frames of one camera.

    Args:
        delivered: output -> (B, ...) image that a read returns; filled by :meth:`deliver`.
        slots: maximum delay in steps, plus one.
        history: steps of history to keep; 0 for no history.
        n_envs: number of envs, B.
        device: device of the images.
    """

    def __init__(
        self, delivered: dict[str, torch.Tensor], slots: int, history: int, n_envs: int, device: torch.device
    ) -> None:
        self.delivered = delivered
        self.slots, self.history_length = slots, history

        def allocate(count: int) -> dict[str, torch.Tensor]:
            return {
                name: torch.zeros(count, *image.shape, dtype=image.dtype, device=device)
                for name, image in delivered.items()
            }

        self._ring = allocate(slots) if slots > 1 else {}
        self._newest = torch.zeros(n_envs, dtype=torch.long, device=device)
        self._newest_at_step = torch.zeros(slots, n_envs, dtype=torch.long, device=device)
        self._envs = torch.arange(n_envs, device=device)
        # Newest first, and every frame is written twice, so that each window is contiguous: see pipeline.storage.
        self._history, self._true_history = (allocate(2 * history) if history else {} for _ in range(2))

    @property
    def n_bytes(self) -> int:
        """Memory in addition to ``delivered``, bytes."""
        kept = (*self._ring.values(), *self._history.values(), *self._true_history.values())
        return sum(image.numel() * image.element_size() for image in kept)

    def capture(self, images: dict[str, torch.Tensor], envs: torch.Tensor | None) -> None:
        """Store ``images`` of the envs with these ids (None: all); they may be ``delivered`` itself."""
        index = self._envs if envs is None else envs
        if not self._ring:
            for name, image in self.delivered.items():
                if image is not images[name]:
                    _copy_rows(image, images[name], envs)
            return
        slot = (self._newest[index] + 1) % self.slots
        self._newest[index] = slot
        for name, ring in self._ring.items():
            ring[slot, index] = images[name] if envs is None else images[name][index]

    def advance(self, step: int) -> None:
        """Record the newest slot of this step; call it after :meth:`capture`."""
        if self._ring:
            self._newest_at_step[step % self.slots] = self._newest

    def deliver(self, step: int, lag: torch.Tensor) -> None:
        """Fill ``delivered`` with the frames that were newest ``lag`` (B,) steps ago."""
        if not self._ring:
            return
        age = lag.long().clamp(max=self.slots - 1)
        slot = self._newest_at_step[(step - age) % self.slots, self._envs]
        for name, image in self.delivered.items():
            image.copy_(self._ring[name][slot, self._envs])

    def restart(self, images: dict[str, torch.Tensor], truth: dict[str, torch.Tensor], envs: torch.Tensor) -> None:
        """Fill all slots and the history of these envs with the current images."""
        for name, image in self.delivered.items():
            if image is not images[name]:
                _copy_rows(image, images[name], envs)
        self._newest[envs] = 0
        self._newest_at_step[:, envs] = 0
        for name, ring in self._ring.items():
            ring[0, envs] = images[name][envs]
        for history, source in ((self._history, images), (self._true_history, truth)):
            for name, kept in history.items():
                kept[:, envs] = source[name][envs]

    def append_history(self, step: int, truth: dict[str, torch.Tensor]) -> None:
        """Append ``delivered`` and the ground truth of this step to the histories."""
        newest = self._newest_index(step)
        for history, source in ((self._history, self.delivered), (self._true_history, truth)):
            for name, kept in history.items():
                kept[newest] = source[name]
                kept[newest + self.history_length] = source[name]

    def amend_history(self, step: int, truth: dict[str, torch.Tensor]) -> None:
        """Replace the ground truth of this step, which was rendered again since it was appended."""
        newest = self._newest_index(step)
        for name, kept in self._true_history.items():
            kept[newest] = truth[name]
            kept[newest + self.history_length] = truth[name]

    def window(self, step: int, length: int, truth: bool) -> dict[str, torch.Tensor]:
        """Return the last ``length`` frames, (B, length, ...), newest first, as views."""
        start = self._newest_index(step)
        history = self._true_history if truth else self._history
        return {name: kept[start : start + length].movedim(0, 1) for name, kept in history.items()}

    def _newest_index(self, step: int) -> int:
        """Return where the window of this step begins."""
        return self.history_length - 1 - step % self.history_length


def _copy_rows(target: torch.Tensor, source: torch.Tensor, envs: torch.Tensor | None) -> None:
    if envs is None:
        target.copy_(source)
    else:
        target[envs] = source[envs]
