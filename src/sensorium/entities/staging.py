"""How batches reach the learner: filled in host memory, and on a GPU sent by a stream of their own."""

from __future__ import annotations

import torch

from sensorium.entities.layout import ExperienceLayout, Transitions


class Staging:
    """Room for batches of ``n`` transitions on the way to a device.

    On the CPU there is one, which is filled and handed out. For a GPU there are two, each with page-locked memory on
    the host: while the learner works on one batch, the next is filled and copied by another stream. A batch that was
    handed out stays as it is until the next one is asked for.
    """

    def __init__(self, layout: ExperienceLayout, n: int, device: torch.device) -> None:
        self.n = n
        self.device = device
        on_gpu = device.type == "cuda"
        self._hosts = [layout.batch(n, pinned=on_gpu) for _ in range(2 if on_gpu else 1)]
        self._turn = 0
        if on_gpu:
            self._devices = [layout.batch(n, device) for _ in range(2)]
            self._stream = torch.cuda.Stream(device)
            self._copied = [torch.cuda.Event() for _ in range(2)]
            self._asked = [torch.cuda.Event() for _ in range(2)]

    def host(self) -> Transitions:
        """The batch to fill next."""
        if self.device.type == "cuda":
            self._turn = 1 - self._turn
            # All work on the batch before the last was queued before this call; work on the last may go on.
            self._asked[self._turn].record(torch.cuda.current_stream(self.device))
            self._copied[self._turn].synchronize()  # its copy of two calls ago must be out of the host's memory
        return self._hosts[self._turn]

    def hand_over(self) -> Transitions:
        """What was filled, on the device; the current stream waits for it, the host does not."""
        if self.device.type != "cuda":
            return self._hosts[0]
        turn = self._turn
        # The room was last used by the batch before the last: its work was queued when the last was asked for.
        self._stream.wait_event(self._asked[1 - turn])
        with torch.cuda.stream(self._stream):
            for source, target in zip(self._hosts[turn].tensors, self._devices[turn].tensors, strict=True):
                target.copy_(source, non_blocking=True)
            self._copied[turn].record(self._stream)
        torch.cuda.current_stream(self.device).wait_event(self._copied[turn])
        return self._devices[turn]
