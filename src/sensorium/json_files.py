"""JSON files: a checksum at their end, and reading of those that may be damaged or come from others."""

from __future__ import annotations

import json
import re
import zlib
from collections.abc import Mapping
from typing import Any

CHECKSUM = "checksum"
"""Key of the checksum at the end of JSON files."""
_NO_CHECKSUM = "00000000"
_CHECKSUM_AT_END = re.compile(rb'"checksum": "([0-9a-f]{8})"\s*}\s*\Z')


def json_with_checksum(content: Mapping[str, Any]) -> bytes:
    """Return the JSON text of a file that ends with its own checksum, the key "checksum".

    The checksum is the CRC-32 of the whole text with eight zeros in its place.
    """
    own = {name: value for name, value in content.items() if name != CHECKSUM}
    text = json.dumps({**own, CHECKSUM: _NO_CHECKSUM}, indent=1, allow_nan=False).encode()
    before, after = text.rsplit(_NO_CHECKSUM.encode(), 1)
    return before + f"{zlib.crc32(text):08x}".encode() + after


def load_json(data: str | bytes) -> Any:
    """Return the data of a JSON text.

    Raises:
        ValueError: it is not JSON, or is nested deeper than Python reads.
    """
    try:
        return json.loads(data)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


def parse_json(data: bytes) -> tuple[dict[str, Any], bool]:
    """Return the content of a JSON file without its checksum, and whether it had one.

    Raises:
        ValueError: the text is not a JSON object, or does not match its checksum.
    """
    content = load_json(data)
    if not isinstance(content, dict):
        raise ValueError("it is not a JSON object")
    found = _CHECKSUM_AT_END.search(data)
    if found is None:
        return content, False
    plain = data[: found.start(1)] + _NO_CHECKSUM.encode() + data[found.end(1) :]
    if f"{zlib.crc32(plain):08x}".encode() != found[1]:
        raise ValueError("it was changed: its checksum differs")
    return {name: value for name, value in content.items() if name != CHECKSUM}, True
