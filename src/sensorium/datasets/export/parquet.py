"""Parquet files that grow by episodes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np


def column_type(dtype: str, shape: tuple[int, ...] = (1,), of_any_length: bool = False) -> Any:
    """The Arrow type of a feature: one number has no list around it, unless lists may be of any length."""
    import pyarrow as pa

    kind = {"string": pa.string(), "bool": pa.bool_()}.get(dtype) or pa.from_numpy_dtype(np.dtype(dtype))
    if shape == (1,) and not of_any_length:
        return kind
    for position, size in enumerate(reversed(shape)):
        fixed = position == len(shape) - 1 and len(shape) == 1 and not of_any_length
        kind = pa.list_(kind, size) if fixed else pa.list_(kind)
    return kind


def column(values: Any) -> Any:
    """Rows (n, *shape) of a feature, as an Arrow array or as what becomes one."""
    import pyarrow as pa

    if isinstance(values, list):
        return values
    array: Any = pa.array(np.ascontiguousarray(values).reshape(-1))
    if values.shape[1:] == (1,):
        return array
    if values.ndim == 2:
        return pa.FixedSizeListArray.from_arrays(array, values.shape[1])
    for size in reversed(values.shape[1:]):
        array = pa.ListArray.from_arrays(np.arange(0, len(array) + 1, size, dtype=np.int32), array)
    return array


class ParquetFiles:
    """``chunk-000/file-000.parquet``, ...: tables one behind the other, a new file when one is full.

    Args:
        folder: where to.
        types: column -> Arrow type.
        most_bytes: at which size a file is full.
        most_files: in a chunk.
        together: how many tables are written at once.
    """

    def __init__(
        self, folder: Path, types: dict[str, Any], most_bytes: int, most_files: int, together: int = 1
    ) -> None:
        import pyarrow as pa

        self._folder, self._schema = folder, pa.schema(types)
        self._most_bytes, self._most_files = most_bytes, most_files
        self._together, self._waiting = together, list[Any]()
        self._number = 0
        self._path = folder
        self._writer: Any = None

    @property
    def place(self) -> tuple[int, int]:
        """Chunk and file that the next table goes to."""
        if self._writer is not None and not self._waiting and self._path.stat().st_size >= self._most_bytes:
            self.close()
            self._number += 1
        return divmod(self._number, self._most_files)

    def add(self, columns: dict[str, Any]) -> tuple[int, int]:
        """Write a table; the chunk and file where it is."""
        import pyarrow as pa
        import pyarrow.parquet as pq

        chunk, file = self.place
        if self._writer is None:
            self._path = self._folder / f"chunk-{chunk:03d}" / f"file-{file:03d}.parquet"
            self._path.parent.mkdir(parents=True, exist_ok=True)
            self._writer = pq.ParquetWriter(self._path, self._schema, compression="snappy")
        self._waiting.append(pa.table(columns, schema=self._schema))
        if len(self._waiting) >= self._together:
            self._flush()
        return chunk, file

    def _flush(self) -> None:
        import pyarrow as pa

        if self._waiting:
            self._writer.write_table(pa.concat_tables(self._waiting))
            self._waiting = []

    def close(self) -> None:
        """Complete the file."""
        if self._writer is not None:
            self._flush()
            self._writer.close()
            self._writer = None


def write_tasks(path: Path, tasks: dict[str, int]) -> None:
    """Instructions and their numbers. Readers with pandas find the instructions as the index of the table."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    table = pa.table({"task_index": pa.array(tasks.values(), pa.int64()), "task": pa.array(tasks.keys(), pa.string())})
    about = [
        {"name": name, "field_name": name, "pandas_type": kind, "numpy_type": stored, "metadata": None}
        for name, kind, stored in (("task_index", "int64", "int64"), ("task", "unicode", "object"))
    ]
    nameless = {"name": None, "field_name": None, "pandas_type": "unicode", "numpy_type": "object", "metadata": None}
    pandas = {"index_columns": ["task"], "column_indexes": [nameless], "columns": about, "pandas_version": "2.2.0"}
    pq.write_table(table.replace_schema_metadata({"pandas": json.dumps(pandas)}), path)
