"""ONNX files as bytes: the network and the contract in its metadata, without the package onnx.

An ONNX file is a protobuf message ``ModelProto``. Field 14 (``metadata_props``) repeats messages with the fields 1
(key) and 2 (value). All other fields are the network. Checked with onnx 1.23.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from sensorium._arguments import checked
from sensorium.deploy.contract import METADATA, Contract
from sensorium.errors import DatasetError

_METADATA_PROPS = 14
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
"""Wire types of protobuf."""


def split(model: bytes) -> tuple[bytes, dict[str, str]]:
    """Return the network of an ONNX file, which is the file without its metadata, and the metadata.

    Raises:
        ValueError: the bytes are no protobuf message.
    """
    network, metadata = [], {}
    for number, start, value_start, end in _fields(model):
        if number == _METADATA_PROPS:
            entry = model[value_start:end]
            pair = {each: entry[begin:stop] for each, _, begin, stop in _fields(entry)}
            metadata[pair.get(1, b"").decode()] = pair.get(2, b"").decode()
        else:
            network.append(model[start:end])
    return b"".join(network), metadata


def join(network: bytes, metadata: dict[str, str]) -> bytes:
    """Return the ONNX file of a network with metadata; the inverse of :func:`split`."""
    parts = [network]
    for key, value in metadata.items():
        entry = b"".join(_entry(number, text.encode()) for number, text in ((1, key), (2, value)))
        parts.append(_entry(_METADATA_PROPS, entry))
    return b"".join(parts)


@checked
def read_contract(path: str | Path) -> Contract:
    """Return the contract of a policy file, and check its hash.

    Args:
        path: an ONNX file of ``sensorium export-policy``. It needs neither onnx nor onnxruntime.

    Raises:
        DatasetError: the file has no contract, one that this version cannot read, or was changed after its export.

    Example:
        >>> [term.topic for term in read_contract("policy.onnx").observations]
    """
    path = Path(path)
    if path.exists() and not (path.is_file() or path.is_dir()):  # reading a FIFO would wait forever
        raise DatasetError(f"cannot read {path}: it is a device, a FIFO or a socket, not a file")
    try:
        network, metadata = split(path.read_bytes())
    except OSError as error:
        raise DatasetError(f"cannot read {path}: {error.strerror}") from None
    except (ValueError, UnicodeDecodeError) as error:
        raise DatasetError(f"{path} is not an ONNX file: {error}") from None
    if METADATA not in metadata:
        raise DatasetError(f"{path} has no contract: make the file with sensorium export-policy RUN --out {path.name}")
    contract = Contract.from_json(metadata[METADATA], f"the contract in {path}")
    if contract.compute_hash(network) != contract.hash:
        raise DatasetError(
            f"{path}: the hash of network and contract is not {contract.hash[:16]}…: the file was changed or damaged "
            "after its export; export it again"
        )
    return contract


def _fields(message: bytes) -> Iterator[tuple[int, int, int, int]]:
    """Yield the number of each field of a message, and where the field, its value and the next field begin."""
    place = 0
    while place < len(message):
        start = place
        tag, place = _varint(message, place)
        kind = tag & 7
        if kind == _BYTES:
            size, place = _varint(message, place)
        elif kind == _VARINT:
            size = _varint(message, place)[1] - place
        elif kind in (_FIXED64, _FIXED32):
            size = 8 if kind == _FIXED64 else 4
        else:
            raise ValueError(f"byte {start} begins no field")
        if place + size > len(message):
            raise ValueError(f"the file ends after {len(message)} bytes, within a field")
        yield tag >> 3, start, place, place + size
        place += size


def _varint(message: bytes, place: int) -> tuple[int, int]:
    """Return a number of 7 bits per byte, lowest first, and the place after it."""
    value = shift = 0
    while True:
        if place >= len(message) or shift > 63:
            raise ValueError(f"the file ends within a number at byte {place}")
        value |= (message[place] & 0x7F) << shift
        shift += 7
        place += 1
        if not message[place - 1] & 0x80:
            return value, place


def _entry(number: int, value: bytes) -> bytes:
    """Return a field of bytes."""
    return _as_varint(number << 3 | _BYTES) + _as_varint(len(value)) + value


def _as_varint(value: int) -> bytes:
    found = bytearray()
    while value > 0x7F:
        found.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*found, value])
