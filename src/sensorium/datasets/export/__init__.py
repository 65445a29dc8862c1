"""Export of datasets to the formats of other projects."""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from sensorium._arguments import checked
from sensorium.datasets.dataset import Dataset
from sensorium.datasets.export.folder import check_free, whole_folder
from sensorium.datasets.export.source import ExportSource
from sensorium.errors import DatasetError, OptionError, SensoriumError, did_you_mean
from sensorium.files import DiskFullError, disk_full_message


class _Format(NamedTuple):
    module: str
    """Module with a function ``write(source, folder, progress)``."""
    package: str | None
    """Package that the module needs."""
    extra: str | None
    """Extra of Sensorium that installs the package."""


FORMATS = {
    "lerobot": _Format("sensorium.datasets.export.lerobot", "pyarrow", "export"),
    "robomimic": _Format("sensorium.datasets.export.robomimic", None, None),
    "minari": _Format("sensorium.datasets.export.minari", "minari", "export"),
    "rerun": _Format("sensorium.datasets.export.rerun", "rerun", "rerun"),
    "mcap": _Format("sensorium.datasets.export.mcap", "mcap", "ros"),
}
"""Name -> format."""
_NO_SPACE = "free some disk space and export again. Nothing was left there."


@checked
def export(
    dataset: Dataset | str | Path,
    format: str,
    out: str | Path,
    *,
    images: bool = True,
    include: Sequence[str] = (),
    exclude: Sequence[str] = (),
    progress: Callable[[int], None] = lambda count: None,
) -> Path:
    """Write a dataset in the format of another project.

    Only sensors of the purpose "observation" are observations of the export. Those of the true state are "privileged",
    and annotations are "info"; see the formats.

    Observation i is paired with action i. Formats that have no place for the observation after the last action skip it.
    Episodes are read one at a time. The output folder gets its name when it is complete. It contains
    ``sensorium.json``, which lists what every sensor became, and what was skipped and why.

    Args:
        dataset: a valid dataset (see :func:`sensorium.datasets.validate`), or its folder.
        format: "lerobot" (version 3.0), "robomimic" (HDF5), "minari", "rerun" (one .rrd file per episode) or "mcap"
            (one file of ROS 2 messages per episode).
        out: output folder. It must not exist, or be empty.
        images: whether to export camera images.
        include: patterns (``*``, ``?``) of what to export, e.g. "qpos", "robot_*" or "observation.*". A name consists
            of the place of a sensor in the export ("observation", "privileged", "info" or "text"), its uuid and the
            keys below it, with dots; the place and the keys can be omitted. Default: everything.
        exclude: patterns of what not to export, e.g. "privileged.*".
        progress: called with 1 after each episode.

    Returns:
        The output folder.

    Raises:
        OptionError: the format does not exist, a package that it needs is not installed, or a pattern matches nothing.
        DatasetError: the dataset is not valid or not complete, or the output folder is not empty.

    Example:
        >>> sn.datasets.export("data/pick", "lerobot", "data/pick-lerobot")
    """
    if format not in FORMATS:
        hint = did_you_mean(format, FORMATS) or f"; the formats are {', '.join(FORMATS)}"
        raise OptionError(f"there is no export format {format!r}{hint}")
    module, package, extra = FORMATS[format]
    if package is not None and importlib.util.find_spec(package) is None:
        raise OptionError(f"the format {format!r} needs {package}: pip install 'sensorium[{extra}]'")
    out = Path(out)
    check_free(out)
    dataset = dataset if isinstance(dataset, Dataset) else Dataset(dataset)
    with _explain_errors(dataset.folder, out):
        source = ExportSource.of(dataset, images, include, exclude)
        with whole_folder(out) as folder:
            importlib.import_module(module).write(source, folder, progress)
    return out


@contextmanager
def _explain_errors(folder: Path, out: Path) -> Iterator[None]:
    """Turn errors of the system or of a library into a ``DatasetError`` that says what to do."""
    import av

    try:
        yield
    except DiskFullError as error:
        raise DiskFullError(f"cannot export {folder} to {out}: {disk_full_message(error)}; {_NO_SPACE}") from error
    except SensoriumError:
        raise
    except (OSError, EOFError, ValueError, RuntimeError, av.FFmpegError) as error:
        if disk_full_message(error) is not None:
            raise DiskFullError(f"cannot export {folder} to {out}: {disk_full_message(error)}; {_NO_SPACE}") from error
        raise DatasetError(
            f"cannot export {folder} to {out}: {error}. If the disk is not full, a file of the dataset is damaged: "
            f"run `sensorium validate {folder}`"
        ) from error
