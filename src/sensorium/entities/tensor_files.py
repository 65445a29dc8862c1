"""Files of named tensors with a checksum, so that a changed byte cannot become another policy."""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from pathlib import Path

import torch

from sensorium.errors import DatasetError
from sensorium.files import write_whole

_CHECKSUM = "crc32"
"""Key of the checksum in the metadata of the file."""


def save_tensors(path: Path, tensors: Mapping[str, torch.Tensor]) -> None:
    """Write a safetensors file whose metadata has the checksum of its names and values."""
    from safetensors.torch import save

    values = {name: value.detach().cpu().contiguous() for name, value in tensors.items()}
    write_whole(path, save(values, {_CHECKSUM: _checksum(values)}))


def load_tensors(path: Path, device: str = "cpu") -> dict[str, torch.Tensor]:
    """Return the tensors of a safetensors file. One without a checksum, of an earlier version, is read as it is.

    Raises:
        DatasetError: the file cannot be read, or has changed since it was written.
    """
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(path, "pt") as file:
            checksum = (file.metadata() or {}).get(_CHECKSUM)
            values = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118  # it is no mapping
    except (OSError, SafetensorError) as error:
        raise DatasetError(f"cannot read {path.name} in {path.parent}: {error}") from None
    if checksum not in (None, _checksum(values)):
        raise DatasetError(f"{path} is damaged: it has changed since it was written")
    return {name: value.to(device) for name, value in values.items()}


def _checksum(tensors: Mapping[str, torch.Tensor]) -> str:
    checksum = 0
    for name in sorted(tensors):
        checksum = zlib.crc32(name.encode(), checksum)
        checksum = zlib.crc32(tensors[name].reshape(-1).view(torch.uint8).numpy().tobytes(), checksum)
    return f"{checksum:08x}"
