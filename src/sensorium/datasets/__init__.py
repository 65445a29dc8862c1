"""Datasets: episodes of tasks on disk, and their validation and export."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from sensorium._arguments import checked
from sensorium._viewing import data_viewer
from sensorium.datasets.dataset import Dataset, Episode, is_dataset
from sensorium.datasets.episode_writer import EpisodeWriter
from sensorium.datasets.export import export
from sensorium.datasets.from_log import from_log
from sensorium.datasets.torch_dataset import ShuffledSampler, TorchDataset
from sensorium.datasets.validate import Validation, validate
from sensorium.recording import Recording

if TYPE_CHECKING:
    from sensorium._viewing import DataWindow
    from sensorium.logs import Log

__all__ = [
    "Dataset",
    "Episode",
    "EpisodeWriter",
    "ShuffledSampler",
    "TorchDataset",
    "Validation",
    "export",
    "from_log",
    "is_dataset",
    "open",
    "validate",
    "view",
]


@checked
def open(folder: str | Path) -> Dataset | Recording | Log:
    """Open a dataset or a recording for reading, whichever the folder holds, or the MCAP file of a robot.

    ``sn.datasets.Dataset(folder)`` and ``sn.recording.Recording(folder)`` do the same for a folder whose content is
    known, with a precise type.

    Args:
        folder: folder of a dataset (``sensorium generate``), a recording (``sensorium record``) or a replay; or an
            MCAP file (see :func:`sensorium.logs.read`).

    Returns:
        A :class:`Dataset` if the folder has a ``dataset.json``, a :class:`~sensorium.logs.Log` for an MCAP file, else a
        :class:`Recording`.

    Raises:
        DatasetError: the folder is neither, or is damaged.

    Example:
        >>> sn.datasets.open("data/pick")[0]["obs/agent/qpos"]
        >>> sn.datasets.open("runs/a")[20]["physics"]
        >>> sn.datasets.open("real.mcap")["/imu"]["angular_velocity"]
    """
    if Path(folder).suffix == ".mcap":
        from sensorium.logs import read

        return read(folder)
    return Dataset(folder) if is_dataset(folder) else Recording(folder)


@checked
def view(
    folder: str | Path, port: int | None = None, host: str = "127.0.0.1", open_browser: bool = False
) -> DataWindow:
    """Show a dataset or a recording in the browser: any step in 3D, with images and plots.

    Prints the address of the page and returns. A separate thread serves it.

    Args:
        folder: folder of a dataset, a recording or a replay.
        port: port of the page. Default: 8080, or the next free one.
        host: address to serve the page at. The default is reachable only from this machine (and through
            ``ssh -L 8080:localhost:8080``).
        open_browser: whether to open the page in the browser of this machine.

    Returns:
        The page, with ``show(episode, step)`` and ``close()``.

    Raises:
        DatasetError: the folder is neither, or is damaged.
        DeviceError: viser is not installed.

    Example:
        >>> page = sn.datasets.view("data/pick")
        >>> page.show(episode=3, step=-1)  # the last step of episode 3
        >>> page.close()
    """
    return data_viewer()(folder, port, host, open_browser)
