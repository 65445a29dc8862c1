"""Parquet files that are written episode by episode."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    import pyarrow


def column_type(dtype: str, shape: tuple[int, ...] = (1,), variable: bool = False) -> pyarrow.DataType:
    """Return the Arrow type of a feature.

    Args:
        dtype: NumPy type, or "string".
        shape: shape of a row. A row of one number is a scalar, others are lists.
        variable: whether lists can have any length; then a row of one number is a list too.
    """
    import pyarrow as pa

    kind = {"string": pa.string(), "bool": pa.bool_()}.get(dtype) or pa.from_numpy_dtype(np.dtype(dtype))
    if shape == (1,) and not variable:
        return kind
    for position, size in enumerate(reversed(shape)):
        fixed = position == len(shape) - 1 and len(shape) == 1 and not variable
        kind = pa.list_(kind, size) if fixed else pa.list_(kind)
    return kind


def column(values: np.ndarray | list[str]) -> pyarrow.Array | list[str]:
    """Return the rows (n, *shape) of a feature as an Arrow array. Lists of text are returned unchanged."""
    import pyarrow as pa

    if isinstance(values, list):
        return values
    array: pyarrow.Array = pa.array(np.ascontiguousarray(values).reshape(-1))
    if values.shape[1:] == (1,):
        return array
    if values.ndim == 2:
        return pa.FixedSizeListArray.from_arrays(array, values.shape[1])
    for size in reversed(values.shape[1:]):
        array = pa.ListArray.from_arrays(np.arange(0, len(array) + 1, size, dtype=np.int32), array)
    return array


class ParquetFiles:
    """Files ``chunk-000/file-000.parquet``, ... with tables appended one after the other.

    Args:
        folder: output folder.
        types: column -> Arrow type.
        max_bytes: size at which a new file begins.
        max_files: files per chunk folder.
        batch: number of tables that are written together.
    """

    def __init__(
        self, folder: Path, types: dict[str, pyarrow.DataType], max_bytes: int, max_files: int, batch: int = 1
    ) -> None:
        import pyarrow as pa

        self._folder, self._schema = folder, pa.schema(types)
        self._max_bytes, self._max_files = max_bytes, max_files
        self._batch, self._waiting = batch, list["pyarrow.Table"]()
        self._number = 0
        self._path = folder
        self._writer: pyarrow.parquet.ParquetWriter | None = None

    @property
    def place(self) -> tuple[int, int]:
        """Chunk and file number of the next table."""
        if self._writer is not None and not self._waiting and self._path.stat().st_size >= self._max_bytes:
            self.close()
            self._number += 1
        return divmod(self._number, self._max_files)

    def add(self, columns: dict[str, Any]) -> tuple[int, int]:
        """Append a table; return its chunk and file number."""
        import pyarrow as pa
        import pyarrow.parquet as pq

        chunk, file = self.place
        if self._writer is None:
            self._path = self._folder / f"chunk-{chunk:03d}" / f"file-{file:03d}.parquet"
            self._path.parent.mkdir(parents=True, exist_ok=True)
            self._writer = pq.ParquetWriter(self._path, self._schema, compression="snappy")
        self._waiting.append(pa.table(columns, schema=self._schema))
        if len(self._waiting) >= self._batch:
            self._flush()
        return chunk, file

    def _flush(self) -> None:
        import pyarrow as pa

        if self._waiting and self._writer is not None:
            self._writer.write_table(pa.concat_tables(self._waiting))
            self._waiting = []

    def close(self) -> None:
        """Complete the current file."""
        if self._writer is not None:
            self._flush()
            self._writer.close()
            self._writer = None


def write_tasks(path: Path, tasks: dict[str, int]) -> None:
    """Write the table of instructions and their numbers. For pandas, the instructions are the index of the table."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    table = pa.table({"task_index": pa.array(tasks.values(), pa.int64()), "task": pa.array(tasks.keys(), pa.string())})
    columns = [
        {"name": name, "field_name": name, "pandas_type": kind, "numpy_type": stored, "metadata": None}
        for name, kind, stored in (("task_index", "int64", "int64"), ("task", "unicode", "object"))
    ]
    nameless = {"name": None, "field_name": None, "pandas_type": "unicode", "numpy_type": "object", "metadata": None}
    pandas = {"index_columns": ["task"], "column_indexes": [nameless], "columns": columns, "pandas_version": "2.2.0"}
    pq.write_table(table.replace_schema_metadata({"pandas": json.dumps(pandas)}), path)
