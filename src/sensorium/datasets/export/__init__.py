"""Data sets in the formats of other projects."""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from sensorium.datasets.dataset import Dataset
from sensorium.datasets.export.folder import check_free, whole_folder
from sensorium.datasets.export.source import ExportSource
from sensorium.errors import DatasetError, OptionError, SensoriumError, did_you_mean


class _Format(NamedTuple):
    module: str
    package: str | None
    extra: str | None


FORMATS = {
    "lerobot": _Format("sensorium.datasets.export.lerobot", "pyarrow", "export"),
    "robomimic": _Format("sensorium.datasets.export.robomimic", None, None),
    "minari": _Format("sensorium.datasets.export.minari", "minari", "export"),
    "rerun": _Format("sensorium.datasets.export.rerun", "rerun", "rerun"),
}
"""Name -> what writes it, the package that this needs, and the extra that brings it."""


def export(
    dataset: Dataset | str | Path,
    format: str,
    out: str | Path,
    *,
    images: bool = True,
    progress: Callable[[int], None] = lambda count: None,
) -> Path:
    """Write a data set in the format of another project.

    Observation i goes with action i; formats with no place for the observation after the last action leave it out.
    Episodes are read one after the other. The folder appears when it is complete, with ``sensorium.json``, which says
    what every sensor became and what was left out, and why.

    Args:
        dataset: a data set that ``validate`` found fine, or its folder.
        format: "lerobot" (v3.0), "robomimic" (HDF5), "minari" or "rerun" (one .rrd an episode).
        out: folder to write; it does not exist, or is empty.
        images: whether to export what cameras saw.
        progress: called with 1 when an episode is done.

    Returns:
        The folder.

    Raises:
        OptionError: there is no such format, or a package that it needs is missing.
        DatasetError: the data set was not found valid, is not complete, or the folder is not empty.

    Example:
        >>> sn.datasets.export("data/pick", "lerobot", "data/pick-lerobot")
    """
    if format not in FORMATS:
        hint = did_you_mean(format, FORMATS) or f"; there are {', '.join(FORMATS)}"
        raise OptionError(f"there is no format {format!r} to export to{hint}")
    module, package, extra = FORMATS[format]
    if package is not None and importlib.util.find_spec(package) is None:
        raise OptionError(f"the format {format!r} needs {package}: pip install 'sensorium[{extra}]'")
    out = Path(out)
    check_free(out)
    dataset = dataset if isinstance(dataset, Dataset) else Dataset(dataset)
    with _explained(dataset.folder, out):
        source = ExportSource.of(dataset, images)
        with whole_folder(out) as folder:
            importlib.import_module(module).write(source, folder, progress)
    return out


@contextmanager
def _explained(folder: Path, out: Path) -> Iterator[None]:
    """Turn what the system or a library says into an error that says what to do."""
    import av

    try:
        yield
    except SensoriumError:
        raise
    except (OSError, RuntimeError, av.FFmpegError) as error:
        raise DatasetError(
            f"cannot export {folder} to {out}: {error}. If the disk is not full, a file of the data set is broken: "
            f"run `sensorium validate {folder}`"
        ) from error
