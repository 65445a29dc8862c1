"""What a camera with a shutter has captured: the images that are on their way to whoever reads.

Snapshots are kept as they are taken, not once a step: a camera of 30 Hz in steps of 5 ms writes every sixth or seventh
step. For a delay of up to K - 1 steps there are K places for images per env, and a table of which place was the newest
at each of the last K steps. At most one snapshot is taken in a step, so a place is written again only when no step that
can still be asked for points to it::

    step       0    1    2    3    4    5    6         K = 4, a snapshot in every third step
    taken      a              b              c
    place      0              1              2
    newest     0    0    0    1    1    1    2         of which the table holds the last 4
    delay 2    a    a    a    a    a    b    b         what a read at this step shows
"""

from __future__ import annotations

import torch


class Snapshots:
    """Captured images of one camera.

    Args:
        shown: output -> (B, ...): what a read shows; filled by :meth:`serve`.
        slots: steps that a snapshot may have to wait, plus one.
        history: steps of history to keep; 0 for none.
        n_envs: B.
        device: where the images are.
    """

    def __init__(
        self, shown: dict[str, torch.Tensor], slots: int, history: int, n_envs: int, device: torch.device
    ) -> None:
        self.shown = shown
        self.slots, self.history_length = slots, history

        def several(count: int) -> dict[str, torch.Tensor]:
            return {
                name: torch.zeros(count, *image.shape, dtype=image.dtype, device=device)
                for name, image in shown.items()
            }

        self._ring = several(slots) if slots > 1 else {}
        self._newest = torch.zeros(n_envs, dtype=torch.long, device=device)
        self._place = torch.zeros(slots, n_envs, dtype=torch.long, device=device)
        self._envs = torch.arange(n_envs, device=device)
        # newest first, each written twice, so that neighbouring places always hold the last ones: see pipeline.storage
        self._past, self._true_past = (several(2 * history) if history else {} for _ in range(2))

    @property
    def n_bytes(self) -> int:
        """Memory that it takes beyond ``shown``."""
        kept = (*self._ring.values(), *self._past.values(), *self._true_past.values())
        return sum(image.numel() * image.element_size() for image in kept)

    def take(self, images: dict[str, torch.Tensor], envs: torch.Tensor | None) -> None:
        """Capture ``images`` of the envs with these ids (None: all), which may be ``shown`` itself."""
        index = self._envs if envs is None else envs
        if not self._ring:
            for name, image in self.shown.items():
                if image is not images[name]:
                    _put(image, images[name], envs)
            return
        place = (self._newest[index] + 1) % self.slots
        self._newest[index] = place
        for name, ring in self._ring.items():
            ring[place, index] = images[name] if envs is None else images[name][index]

    def advance(self, step: int) -> None:
        """Note what is newest in this step; after it was captured."""
        if self._ring:
            self._place[step % self.slots] = self._newest

    def serve(self, step: int, lag: torch.Tensor) -> None:
        """Fill ``shown`` with what was newest ``lag`` (B,) steps ago."""
        if not self._ring:
            return
        age = lag.long().clamp(max=self.slots - 1)
        place = self._place[(step - age) % self.slots, self._envs]
        for name, image in self.shown.items():
            image.copy_(self._ring[name][place, self._envs])

    def restart(self, images: dict[str, torch.Tensor], truth: dict[str, torch.Tensor], envs: torch.Tensor) -> None:
        """Begin anew for these envs: the past is what is there now."""
        for name, image in self.shown.items():
            if image is not images[name]:
                _put(image, images[name], envs)
        self._newest[envs] = 0
        self._place[:, envs] = 0
        for name, ring in self._ring.items():
            ring[0, envs] = images[name][envs]
        for past, source in ((self._past, images), (self._true_past, truth)):
            for name, kept in past.items():
                kept[:, envs] = source[name][envs]

    def remember(self, step: int, truth: dict[str, torch.Tensor]) -> None:
        """Add what is shown, and ground truth, to the histories."""
        newest = self.newest(step)
        for past, source in ((self._past, self.shown), (self._true_past, truth)):
            for name, kept in past.items():
                kept[newest] = source[name]
                kept[newest + self.history_length] = source[name]

    def amend(self, step: int, truth: dict[str, torch.Tensor]) -> None:
        """Let ground truth of this step be what was drawn since."""
        newest = self.newest(step)
        for name, kept in self._true_past.items():
            kept[newest] = truth[name]
            kept[newest + self.history_length] = truth[name]

    def newest(self, step: int) -> int:
        """Where the window of this step begins."""
        return self.history_length - 1 - step % self.history_length

    def window(self, step: int, length: int, truth: bool) -> dict[str, torch.Tensor]:
        """The last ``length`` readings, (B, length, ...), newest first, as views."""
        start = self.newest(step)
        past = self._true_past if truth else self._past
        return {name: kept[start : start + length].movedim(0, 1) for name, kept in past.items()}


def _put(target: torch.Tensor, source: torch.Tensor, envs: torch.Tensor | None) -> None:
    if envs is None:
        target.copy_(source)
    else:
        target[envs] = source[envs]
