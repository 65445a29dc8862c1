"""Datasets: episodes of tasks on disk, their validation and export."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from sensorium.datasets.dataset import ABOUT, Dataset, Episode
from sensorium.datasets.episode_writer import EpisodeWriter
from sensorium.datasets.export import export
from sensorium.datasets.validate import Validation, validate
from sensorium.recording import Recording

if TYPE_CHECKING:
    from sensorium.viewer.data import DataViewer

__all__ = ["Dataset", "Episode", "EpisodeWriter", "Validation", "export", "open", "validate", "view"]


def open(folder: str | Path) -> Dataset | Recording:
    """Open a recording (:class:`Recording`), or a data set of a task's episodes (:class:`Dataset`), for reading.

    Raises:
        DatasetError: the folder is neither, or is damaged; says what to do.
    """
    return Dataset(folder) if (Path(folder) / ABOUT).is_file() else Recording(folder)


def view(
    folder: str | Path, port: int | None = None, host: str = "127.0.0.1", open_browser: bool = False
) -> DataViewer:
    """Show a recording or a data set in the browser, at the address that is printed: any step in 3D, images, plots.

    Args:
        folder: of a recording, a replay or a data set.
        port: where to serve the page. Default: 8080, or the next that is free.
        host: address to serve it at. The default is reached from this machine alone (and through
            ``ssh -L 8080:localhost:8080``).
        open_browser: whether to open it in this machine's browser too.

    Returns:
        The page, with ``show(episode, step)`` and ``close()``.

    Example:
        >>> page = sn.datasets.view("data/pick")
        >>> page.show(episode=3, step=-1)  # how it ended
        >>> page.close()

    Raises:
        DatasetError: the folder is neither, or is damaged; says what to do.
        DeviceError: viser is not installed.
    """
    from sensorium.viewer.data_opening import open_data  # what it needs is imported when it is used, not before

    return open_data(folder, port, host, open_browser)
