"""``Slot``: the memory of one recorded step, which values on a GPU reach while the simulation continues."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import groupby

import numpy as np
import torch

from sensorium.errors import DatasetError
from sensorium.recording.rows import SCALARS, Row, RowField
from sensorium.tree import Buffer


class Slot:
    """Memory of one step.

    Values on a GPU are copied twice. A copy on the device belongs to the stream of the simulation, so the next step may
    change the buffers. Another stream brings it to page-locked memory of the host, beside the next step.

    Args:
        row: the layout of a step.
        on_device: whether the value of each field is on the device, a GPU.
        device: device of the scene.

    Attributes:
        block: the step as bytes. Values of a GPU are in it after :meth:`wait`.
        arrays: views of the fields in the block, where values on the host are copied.
        staged: views of the fields in the copy on the device, where values on a GPU are copied, by number of the field.
        others: name -> value of the buffers outside the row. Copies on the device are sent, too; see :meth:`send`.
    """

    def __init__(self, row: Row, on_device: Sequence[bool], device: torch.device) -> None:
        self.others: dict[str, object] = {}
        self._on_gpu = device.type == "cuda"
        if not self._on_gpu:
            self.block, self.staged = np.zeros(row.n_bytes, np.uint8), dict[int, torch.Tensor]()
            self.arrays = row.arrays(self.block)
            return
        self._host = torch.zeros(row.n_bytes, dtype=torch.uint8, pin_memory=True)
        self._staged = torch.zeros(row.n_bytes, dtype=torch.uint8, device=device)
        self._stream = torch.cuda.Stream(device)
        self._staging = torch.cuda.Event()
        self._arrival = torch.cuda.Event(blocking=True)  # the thread that waits must not keep a core busy
        self.block = self._host.numpy()
        self.arrays = row.arrays(self.block)
        self.staged = {
            number: self._view(field, start)
            for number, (field, start) in enumerate(zip(row.fields, row.starts, strict=True))
            if on_device[number]
        }
        self._others: dict[str, torch.Tensor] = {}
        self._spans: list[slice] = []
        ends = [*row.starts[1:], row.n_bytes]
        for there, fields in groupby(zip(row.starts, ends, on_device, strict=True), key=lambda field: field[2]):
            if there:  # neighbouring fields are sent together
                bounds = list(fields)
                self._spans.append(slice(bounds[0][0], bounds[-1][1]))

    def _view(self, field: RowField, start: int) -> torch.Tensor:
        """Return the view of a field in the copy on the device."""
        own = self._staged[start : start + field.n_bytes]
        return own.view(getattr(torch, field.dtype)).view(field.shape)

    def send(self) -> None:
        """Bring the values that were copied on the device, and those of ``others``, to the host. Does not wait."""
        if not self._on_gpu:
            return
        self._staging.record(torch.cuda.current_stream(self._staged.device))
        self._stream.wait_event(self._staging)
        # kept until the next call, since their memory belongs to the stream of the simulation
        self._others = {name: each for name, each in self.others.items() if isinstance(each, torch.Tensor)}
        with torch.cuda.stream(self._stream):
            for span in self._spans:
                self._host[span].copy_(self._staged[span], non_blocking=True)
            for name, value in self._others.items():
                self.others[name] = value.to("cpu", non_blocking=True)  # in page-locked memory
            self._arrival.record(self._stream)

    def wait(self) -> None:
        """Wait until the values of the last :meth:`send` are on the host."""
        if self._on_gpu:
            self._arrival.synchronize()


def host_copier(field: RowField, buffer: Buffer) -> Callable[[np.ndarray], None]:
    """Return a function that copies the current value of a buffer into an array of a slot.

    It copies with NumPy, in the calling thread. torch would split the copy over threads that the physics keeps busy.
    """

    last: torch.Tensor | None = None
    view = np.zeros(0)

    def copy(target: np.ndarray) -> None:
        nonlocal last, view
        value = buffer.value
        if value is last and last is not None and last.data_ptr() == view.ctypes.data and last.shape == field.shape:
            target[...] = view  # most buffers keep their tensor
            return
        _check(field, value)
        if isinstance(value, torch.Tensor):
            last, value = value, value.numpy(force=True)
            view = value
        target[...] = value

    return copy


def device_copier(field: RowField, buffer: Buffer) -> Callable[[torch.Tensor], None]:
    """Return a function that copies the current value of a buffer into a tensor of a slot, without waiting for it."""

    def copy(target: torch.Tensor) -> None:
        value = buffer.value
        _check(field, value)
        target.copy_(torch.as_tensor(value), non_blocking=True)

    return copy


def _check(field: RowField, value: object) -> None:
    """Raise DatasetError if a value no longer fits its field."""
    if isinstance(value, torch.Tensor | np.ndarray):
        if tuple(value.shape) != field.shape:
            raise DatasetError(
                f"the shape of the buffer {field.name!r} changed from {field.shape} to {tuple(value.shape)} during "
                "recording; keep the shape, or start another recording"
            )
        dtype = str(value.dtype).removeprefix("torch.")
    else:
        dtype = SCALARS.get(type(value)) or str(getattr(value, "dtype", type(value).__name__))
    if dtype == field.dtype:
        return
    try:
        fits = np.can_cast(np.dtype(dtype), np.dtype(field.dtype))
    except TypeError:
        fits = False
    if not fits:
        now = repr(value) if value is None or isinstance(value, str) else dtype
        raise DatasetError(f"the buffer {field.name!r} held {field.dtype} when recording began, now {now}")
