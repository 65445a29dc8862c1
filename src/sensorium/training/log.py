"""Figures of a training, for TensorBoard."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from sensorium.errors import OptionError


class Log:
    """Scalars over steps, in ``tensorboard/`` of the training's folder.

    Args:
        folder: of the training.
        steps: from which it goes on; what was written of later ones is not shown.
        wanted: whether anything is written.

    Raises:
        OptionError: TensorBoard is not installed.
    """

    def __init__(self, folder: Path, steps: int, wanted: bool) -> None:
        self._writer: Any = None
        if wanted:
            try:
                from torch.utils.tensorboard import SummaryWriter
            except ImportError:
                raise OptionError(
                    "TensorBoard is not installed: pip install 'sensorium[train]', or train with --no-tensorboard"
                ) from None
            self._writer = SummaryWriter(str(folder / "tensorboard"), purge_step=steps if steps else None)

    def add(self, steps: int, figures: Mapping[str, float | None]) -> None:
        """Write figures of a step; those that are None are left out."""
        if self._writer is not None:
            for name, value in figures.items():
                if value is not None:
                    self._writer.add_scalar(name, value, steps)

    def close(self) -> None:
        """Have all on the disk."""
        if self._writer is not None:
            self._writer.close()
