"""Readers of log files: HDF5, NPZ, CSV and MCAP, each to a mapping of field names to arrays and scalars."""

from __future__ import annotations

import csv
import itertools
import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from sensorium.errors import DatasetError, OptionError

if TYPE_CHECKING:
    import h5py

Fields = dict[str, np.ndarray]
"""Name of a field -> array of any shape; attributes are arrays of no dimension."""


def read(path: Path) -> Fields:
    """Return the fields of a log file, by the end of its name.

    Raises:
        OptionError: there is no such file, or its format is not known.
        DatasetError: the file cannot be read.
    """
    if path.is_dir():
        raise OptionError(f"{str(path)!r} is a folder; name a log file in it")
    if not path.is_file():
        raise OptionError(f"there is no log file {str(path)!r}; check the path")
    readers = {".h5": _hdf5, ".hdf5": _hdf5, ".npz": _npz, ".csv": _csv, ".txt": _csv, ".mcap": _mcap}
    reader = readers.get(path.suffix.lower())
    if reader is None:
        raise OptionError(f"a log file must end in {', '.join(readers)}, got {str(path)!r}")
    try:
        fields = reader(path)
    except (OptionError, DatasetError):
        raise
    except Exception as error:  # h5py, NumPy and zipfile raise nearly anything for damaged files
        raise DatasetError(f"cannot read {path}: {error}") from error
    if not fields:
        raise DatasetError(f"{path} has no numeric fields")
    return fields


def _hdf5(path: Path) -> Fields:
    import h5py

    fields: Fields = {}

    def add(name: str, item: h5py.Dataset | h5py.Group) -> None:
        if isinstance(item, h5py.Dataset) and item.dtype.kind in "fiub":
            fields[name] = item[()]
            unit = item.attrs.get("units", item.attrs.get("unit"))
            if unit is not None:
                text = unit.decode() if isinstance(unit, bytes) else str(unit)
                fields[f"{name} [{text}]"] = fields.pop(name)

    with h5py.File(path) as file:
        file.visititems(add)
        for name, value in file.attrs.items():
            if np.ndim(value) == 0 and np.asarray(value).dtype.kind in "fiu":
                fields.setdefault(name, np.asarray(value))
    return fields


def _npz(path: Path) -> Fields:
    with np.load(path, allow_pickle=False) as file:
        return {name: file[name] for name in file.files if file[name].dtype.kind in "fiub"}


def _csv(path: Path) -> Fields:
    with open(path, newline="", encoding="utf-8-sig") as file:
        rows = _rows(file, path)
        header = next(rows)
        if all(_is_number(cell) for cell in header):
            raise OptionError(f"{path} has no header; its first line must name the columns: time,gyro_x,gyro_y,gyro_z")
        header = [name.strip() or f"column_{k}" for k, name in enumerate(header)]
        table = [[_number(cell) for cell in row] for row in rows]
    wrong = next((k for k, row in enumerate(table) if len(row) != len(header)), None)
    if wrong is not None:
        found = len(table[wrong])
        raise DatasetError(f"{path}: row {wrong + 2} has {found} columns, the header has {len(header)}")
    values = np.array(table, dtype=np.float64).reshape(-1, len(header))
    twice = next((name for name in header if header.count(name) > 1), None)
    if twice is not None:
        raise DatasetError(f"{path}: two columns are named {twice!r}; rename one")
    return {name: values[:, k] for k, name in enumerate(header)}


def _rows(file: Iterator[str], path: Path) -> Iterator[list[str]]:
    """Yield the rows of a CSV file; the delimiter is a comma, a semicolon, a tab or spaces, as in the header.

    Comments before the header are skipped. The header itself may begin with "#": it is then the last such line. With
    another delimiter than a comma, numbers may have a decimal comma.
    """
    first = next((line for line in file if line.strip()), None)
    if first is None:
        raise DatasetError(f"{path} is empty")
    after = ""
    while first.startswith("#"):
        after = next((line for line in file if line.strip()), "")
        if not after or _is_number(re.split(r"[,;\s]", after.strip())[0]):
            break
        first, after = after, ""
    delimiter = max(",;\t", key=first.count)
    if first.count(delimiter) == 0:
        delimiter = " "
    yield next(csv.reader([first], delimiter=delimiter, skipinitialspace=True))
    for row in csv.reader(itertools.chain([after], file), delimiter=delimiter, skipinitialspace=True):
        if row and not row[0].startswith("#"):
            yield row if delimiter == "," else [cell.replace(",", ".") for cell in row]


def _is_number(cell: str) -> bool:
    return not np.isnan(_number(cell)) or cell.strip().lower() == "nan"


def _number(cell: str) -> float:
    """Return the number of a cell; NaN for an empty cell and for text, which is a missing sample."""
    try:
        return float(cell)
    except ValueError:
        return float("nan")


_MESSAGES: dict[str, dict[str, str]] = {
    "Imu": {"gyro": "angular_velocity", "acc": "linear_acceleration"},
    "MagneticField": {"mag": "magnetic_field"},
    "PoseStamped": {"quat": "pose.orientation", "pos": "pose.position"},
    "JointState": {"joint_pos": "position", "joint_vel": "velocity", "joint_torque": "effort"},
    "WrenchStamped": {"force": "wrench.force", "torque": "wrench.torque"},
    "FluidPressure": {"pressure": "fluid_pressure"},
    "Range": {"distance": "range"},
}
"""ROS 2 message -> channel -> path of its values. MCAP files hold these, encoded as CDR or JSON."""


def _mcap(path: Path) -> Fields:
    """Return the fields of the ROS 2 messages in an MCAP file, named TOPIC/CHANNEL; TOPIC/time is the stamp."""
    from sensorium.logs import read as read_log

    fields: Fields = {}
    for topic in (part for each in read_log(path).values() for part in each.split_joints()):
        name = topic.name.lstrip("/")
        for channel, where in _MESSAGES.get(topic.message.rsplit("/", 1)[-1].rsplit(".", 1)[-1], {}).items():
            values = topic[where] if where in topic else np.zeros(0)
            if not isinstance(values, np.ndarray):
                raise DatasetError(f"{path}, topic {topic.name}: the number of values of {where} changes")
            if values.size:
                fields[f"{name}/{channel}"] = values.astype(np.float64)
                fields[f"{name}/time"] = topic.capture
    return fields
