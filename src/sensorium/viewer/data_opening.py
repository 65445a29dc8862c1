"""Opening a page on a folder of recorded data."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from sensorium.datasets import Dataset, is_dataset
from sensorium.datasets.header import HEADER
from sensorium.errors import DatasetError, DeviceError, shorten
from sensorium.recording import Recording
from sensorium.recording.folder import CONFIG
from sensorium.viewer.opening import find_port

if TYPE_CHECKING:
    from sensorium.viewer.data import DataViewer
    from sensorium.viewer.data_source import PageSource


def open_data(path: str | Path, port: int | None, host: str, open_browser: bool) -> DataViewer:
    """Open a page on a dataset or a recording; see :func:`sensorium.datasets.view`."""
    try:
        import viser  # noqa: F401
    except ImportError as error:
        raise DeviceError("the browser viewer needs viser: pip install 'sensorium[view]'") from error
    from sensorium.viewer.data import DataViewer

    free = find_port(host, port)
    return DataViewer(open_source(Path(path)), host, free, open_browser)


def open_source(folder: Path) -> PageSource:
    """Return the dataset or the recording in a folder, for a page.

    Raises:
        DatasetError: the folder is neither, or is damaged.
    """
    if not folder.is_dir():
        raise DatasetError(f"the folder {folder} does not exist; give the folder of a dataset or a recording")
    if is_dataset(folder):
        from sensorium.viewer.data_episodes import EpisodeSource

        return EpisodeSource(Dataset(folder))
    if (folder / CONFIG).is_file():
        from sensorium.viewer.data_recordings import RecordingSource

        return RecordingSource(Recording(folder))
    inside = [str(each) for each in sorted(folder.iterdir()) if is_dataset(each) or (each / CONFIG).is_file()]
    hint = f"; it contains {shorten(inside)}" if inside else ""
    raise DatasetError(f"{folder} is neither a dataset (no {HEADER}) nor a recording (no {CONFIG}){hint}")
