"""Nested dicts as JSON: their Gymnasium space, and their form on disk."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from gymnasium import Space
from pydantic_core import from_json, to_json

from sensorium._arguments import checked
from sensorium.errors import OptionError
from sensorium.json_files import load_json
from sensorium.options import checked_integer


class JsonSpace(Space[dict[str, Any]]):
    """The space of all dicts that JSON can represent.

    Keys are strings. Values are strings, finite numbers, booleans, None, lists and dicts.
    """

    @checked
    def __init__(self, seed: int | np.random.Generator | None = None) -> None:
        if isinstance(seed, int) and seed < 0:
            raise OptionError(f"JsonSpace: seed must be >= 0, got {seed}")
        super().__init__(None, None, seed)

    @property
    def is_np_flattenable(self) -> bool:
        """False: text has no fixed length."""
        return False

    def sample(self, mask: object = None, probability: object = None) -> dict[str, Any]:
        """Return a small dict with a random number. ``mask`` and ``probability`` are ignored."""
        return {"value": float(self.np_random.standard_normal())}

    def contains(self, x: object) -> bool:
        """Return whether ``x`` is a dict that JSON represents without loss."""
        try:
            return isinstance(x, dict) and _is_json(x)
        except RecursionError:  # it contains itself
            return False

    def __eq__(self, other: object) -> bool:
        return isinstance(other, JsonSpace)

    def __hash__(self) -> int:
        return hash(JsonSpace)

    def __repr__(self) -> str:
        return "JsonSpace()"


def encode(uuid: str, values: Sequence[dict[str, Any]], length: int | None) -> np.ndarray | list[str]:
    """Return dicts in the form that is written to files.

    Args:
        uuid: the sensor that read them, for messages.
        values: n dicts, one per env.
        length: bytes per dict, or None for strings of any length.

    Returns:
        (n, length) uint8: UTF-8 padded with zeros. If ``length`` is None, n strings.

    Raises:
        OptionError: a dict is not JSON, or its text does not fit. Text is never truncated.
    """
    if not isinstance(values, Iterable) or getattr(values, "is_nested", False):
        raise OptionError(f"{uuid!r}: values must be a sequence of dicts, got {values!r:.80}")
    if length is not None:
        length = checked_integer(f"{uuid!r}: length", length, 1, 2**31 - 1)
    texts = to_texts(uuid, values)
    if length is None:
        return [text.decode() for text in texts]
    sizes = list(map(len, texts))
    longest = max(sizes, default=0)
    if longest > length:
        raise OptionError(length_message(uuid, sizes.index(longest), longest, length))
    return np.array(texts, f"S{length}").view(np.uint8).reshape(len(texts), length)


def to_texts(
    uuid: str, values: Sequence[dict[str, Any]], envs: Sequence[int] | None = None, of_numbers: bool = False
) -> list[bytes]:
    """Return dicts as JSON in UTF-8.

    Args:
        uuid: the sensor that read them, for messages.
        values: one dict per env.
        envs: the env of each dict; None for all envs.
        of_numbers: whether every value is a list of floats. Only the finiteness of the floats is then validated, which
            is faster.

    Raises:
        OptionError: a dict is not JSON. The message names the first such env.
    """
    values = list(values)
    # Serialising all dicts at once is many times faster. A text has no line breaks, so the split gives one text per
    # dict, unless a string or a list within a dict contains "},{".
    joined = _json_of_numbers(values) if of_numbers else _json(values)
    if joined is not None and set(map(type, values)) == {dict}:
        texts = joined.replace(b"},{", b"}\n{").split(b"\n")
        if len(texts) == len(values):
            return texts
    texts = []
    for env, value in zip(range(len(values)) if envs is None else envs, values, strict=True):
        text = _json([value])
        if text is None or not isinstance(value, dict):
            raise OptionError(
                f"{uuid!r}: the value of env {env} is not JSON: it must be a dict with string keys, whose values are "
                f"strings, finite numbers, booleans, None, lists or dicts; got {value!r}"
            )
        texts.append(text)
    return texts


def _json(values: list[Any]) -> bytes | None:
    """Return the JSON of a list without its brackets, or None if JSON does not represent the values without loss."""
    try:
        text = to_json(values)
        return text[1:-1] if from_json(text, allow_inf_nan=False) == values else None
    except ValueError:
        return None


def _json_of_numbers(values: list[Any]) -> bytes | None:
    """Return the same for dicts of lists of floats, which only fail if a float is not finite."""
    try:
        text: bytes = to_json(values)
    except ValueError:
        return None
    return _json(values) if b"NaN" in text or b"Infinity" in text else text[1:-1]


def length_message(uuid: str, env: int, length: int, limit: int) -> str:
    """Return the message about a text that is longer than its sensor allows.

    Args:
        uuid: the sensor.
        env: the env.
        length: bytes of the text.
        limit: ``str_max_len`` of the sensor.
    """
    return (
        f"{uuid!r}: the text of env {env} needs {length} bytes and str_max_len is {limit}; raise it to {length} or "
        "more, or set it to None for strings of any length"
    )


def decode(stored: np.ndarray | Sequence[str]) -> list[dict[str, Any]]:
    """Return the dicts that were given to :func:`encode`.

    Raises:
        OptionError: ``stored`` is not a result of :func:`encode`.
    """
    try:
        if isinstance(stored, np.ndarray) and stored.dtype == np.uint8:
            return [load_json(row.tobytes().rstrip(b"\0").decode("utf-8")) for row in stored]
        return [load_json(text) for text in stored]
    except (TypeError, ValueError) as error:
        raise OptionError(f"decode: stored must be a result of encode(), got {stored!r:.80}: {error}") from error


def _is_json(x: object) -> bool:
    if isinstance(x, dict):
        return all(isinstance(key, str) and _is_json(value) for key, value in x.items())
    if isinstance(x, list):
        return all(map(_is_json, x))
    if isinstance(x, str):
        return not any("\ud800" <= letter <= "\udfff" for letter in x)  # surrogates have no UTF-8 encoding
    return x is None or isinstance(x, bool | int) or (isinstance(x, float) and math.isfinite(x))
