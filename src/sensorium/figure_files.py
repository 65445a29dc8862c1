"""Figures of Matplotlib as files."""

from __future__ import annotations

from io import BytesIO
from pathlib import Path
from typing import Protocol

from sensorium.errors import OptionError, did_you_mean
from sensorium.files import made_folder, write_whole

SUFFIXES = (".png", ".jpg", ".jpeg", ".pdf", ".svg", ".tif", ".tiff", ".webp")
"""Suffixes of the files that a figure can be written to."""


class SavesFigure(Protocol):
    """A figure of Matplotlib."""

    def savefig(self, fname: BytesIO, *, dpi: float, format: str) -> object:
        """Write the figure."""
        ...


def write_figure(figure: SavesFigure, path: Path, dpi: float) -> None:
    """Write a figure atomically, in the format that the suffix of the path names; PNG if it has none.

    Missing folders are created, and removed again if the file cannot be written.

    Raises:
        OptionError: there is no such format.
        DatasetError: the file cannot be written.
    """
    suffix = path.suffix.lower() or ".png"
    if suffix not in SUFFIXES:
        hint = did_you_mean(suffix, SUFFIXES)
        raise OptionError(f"a figure must end in {', '.join(SUFFIXES)}, got {str(path)!r}{hint}")
    data = BytesIO()
    figure.savefig(data, dpi=dpi, format=suffix.removeprefix("."))
    with made_folder(path.parent, path):
        write_whole(path, data.getvalue())
