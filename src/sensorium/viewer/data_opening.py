"""What is in a folder, and opening a page on it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from sensorium.datasets.dataset import ABOUT, Dataset
from sensorium.errors import DatasetError, DeviceError, shorten
from sensorium.recording.recording import Recording
from sensorium.viewer.opening import find_port

if TYPE_CHECKING:
    from sensorium.viewer.data import DataViewer
    from sensorium.viewer.data_source import PageSource

_CONFIG = "config.json"


def open_data(path: str | Path, port: int | None, host: str, open_browser: bool) -> DataViewer:
    """See :func:`sensorium.datasets.view`."""
    try:
        import viser  # noqa: F401
    except ImportError as error:
        raise DeviceError("the page in the browser needs viser: pip install 'sensorium[view]'") from error
    from sensorium.viewer.data import DataViewer

    free = find_port(host, port)
    return DataViewer(open_source(Path(path)), host, free, open_browser)


def open_source(folder: Path) -> PageSource:
    """What is in a folder, to be looked at.

    Raises:
        DatasetError: it is neither a data set nor a recording, or is damaged.
    """
    if not folder.is_dir():
        raise DatasetError(f"there is no folder {folder}; give that of a data set or of a recording")
    if (folder / ABOUT).is_file():
        from sensorium.viewer.data_episodes import EpisodeSource

        return EpisodeSource(Dataset(folder))
    if (folder / _CONFIG).is_file():
        from sensorium.viewer.data_runs import RunSource

        return RunSource(Recording(folder))
    held = [str(each) for each in sorted(folder.iterdir()) if (each / ABOUT).is_file() or (each / _CONFIG).is_file()]
    hint = f"; in it are {shorten(held)}" if held else ""
    raise DatasetError(
        f"{folder} is neither a data set (it has no {ABOUT}) nor a recording (it has no {_CONFIG}){hint}"
    )
