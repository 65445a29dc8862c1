"""``BatchStaging``: the transfer of batches to the learner's device."""

from __future__ import annotations

import torch

from sensorium.entities.experience_layout import ExperienceLayout, Transitions


class BatchStaging:
    """Buffers for batches of n transitions on their way to a device.

    On the CPU there is one buffer, which is filled and returned. For a GPU there are two, each with page-locked host
    memory: while the learner works on one batch, the next is filled and copied by a separate stream. A returned batch
    is valid until the next one is requested.

    Args:
        layout: layout of the transitions.
        n: transitions per batch.
        device: device of the batches.
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
            self._stream.wait_stream(torch.cuda.current_stream(device))  # which fills the new memory with zeros
            self._copied = [torch.cuda.Event() for _ in range(2)]
            self._requested = [torch.cuda.Event() for _ in range(2)]

    def host(self) -> Transitions:
        """Return the host batch to fill next."""
        if self.device.type == "cuda":
            self._turn = 1 - self._turn
            # All work on the second-to-last batch was queued before this call; work on the last one may still follow.
            self._requested[self._turn].record(torch.cuda.current_stream(self.device))
            self._copied[self._turn].synchronize()  # the copy of two calls ago must have left the host memory
        return self._hosts[self._turn]

    def to_device(self) -> Transitions:
        """Return the filled batch on the device. The current stream waits for the copy; the host does not."""
        if self.device.type != "cuda":
            return self._hosts[0]
        turn = self._turn
        # The second-to-last batch used this buffer. Its work was queued when the last batch was requested.
        self._stream.wait_event(self._requested[1 - turn])
        with torch.cuda.stream(self._stream):
            for source, target in zip(self._hosts[turn].tensors, self._devices[turn].tensors, strict=True):
                target.copy_(source, non_blocking=True)
            self._copied[turn].record(self._stream)
        torch.cuda.current_stream(self.device).wait_event(self._copied[turn])
        return self._devices[turn]
