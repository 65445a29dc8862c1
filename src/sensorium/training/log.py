"""The TensorBoard log of a training."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from sensorium.errors import OptionError

if TYPE_CHECKING:
    from torch.utils.tensorboard import SummaryWriter


class TrainingLog:
    """Scalars over steps, in the folder ``tensorboard/`` of the training.

    Args:
        folder: folder of the training.
        steps: step from which the training continues. Older entries of later steps are not shown.
        enabled: whether anything is written.

    Raises:
        OptionError: TensorBoard is not installed.
    """

    def __init__(self, folder: Path, steps: int, enabled: bool) -> None:
        self._writer: SummaryWriter | None = None
        self._open: Callable[[], SummaryWriter] | None = None
        if enabled:
            try:
                from torch.utils.tensorboard import SummaryWriter
            except ImportError:
                raise OptionError(
                    "TensorBoard is not installed: pip install 'sensorium[train]', or train with --no-tensorboard"
                ) from None
            # at the first scalar: a training that is killed before it has a config.json leaves nothing else
            self._open = partial(SummaryWriter, str(folder / "tensorboard"), purge_step=steps if steps else None)

    def add(self, steps: int, scalars: Mapping[str, float | None]) -> None:
        """Write scalars of a step. None is skipped."""
        if self._writer is None and self._open is not None:
            self._writer = self._open()
        if self._writer is not None:
            for name, value in scalars.items():
                if value is not None:
                    self._writer.add_scalar(name, value, steps)

    def close(self) -> None:
        """Write everything to disk."""
        if self._writer is not None:
            self._writer.close()
