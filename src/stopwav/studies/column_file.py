"""Columns of a run that would fill the memory: they are in a temporary file, and read when they are asked for."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass
from tempfile import TemporaryFile
from typing import Any, Generic, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from stopwav.speech.events import Floats

Number = TypeVar("Number", bound=np.generic)


@dataclass(frozen=True, slots=True)
class StoredColumn(Generic[Number]):
    """Where a column is in a file."""

    file: ColumnFile
    start_bytes: int
    size: int
    dtype: np.dtype[Number]

    def read(self) -> NDArray[Number]:
        """Return the column."""
        return self.file.read(self.start_bytes, self.size, self.dtype)


class ColumnFile:
    """A temporary file without a name, which is gone with the process."""

    def __init__(self) -> None:
        self._file = TemporaryFile(buffering=0)  # noqa: SIM115 (open as long as its columns are needed)

    def put(self, column: NDArray[Number]) -> StoredColumn[Number] | NDArray[Number]:
        """Write a column, and return where it is; the column itself where the disk has no room for it."""
        start_bytes = self._file.tell()
        try:
            written_bytes = self._file.write(column.tobytes())
        except OSError:
            return column
        return StoredColumn(self, start_bytes, column.size, column.dtype) if written_bytes == column.nbytes else column

    def read(self, start_bytes: int, size: int, dtype: np.dtype[Any]) -> NDArray[Any]:
        """Return the column at a place of the file."""
        return np.frombuffer(os.pread(self._file.fileno(), size * dtype.itemsize, start_bytes), dtype=dtype)


# A column, wherever it is.
FloatColumn: TypeAlias = Floats | StoredColumn[np.float64]


def read_column(column: NDArray[Number] | StoredColumn[Number]) -> NDArray[Number]:
    """Return a column, wherever it is."""
    return column.read() if isinstance(column, StoredColumn) else column


def joined_columns(columns: Iterable[FloatColumn]) -> Floats:
    """Return columns as one."""
    return np.concatenate([np.zeros(0), *map(read_column, columns)])
