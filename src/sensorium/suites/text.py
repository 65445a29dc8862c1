"""Nested dicts as JSON: the space that holds them, and their form on disk."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from gymnasium import Space
from pydantic_core import from_json, to_json

from sensorium.errors import OptionError


class JsonSpace(Space[dict[str, Any]]):
    """All dicts that JSON can hold: strings as keys, and strings, finite numbers, booleans, None, lists and dicts."""

    def __init__(self, seed: int | np.random.Generator | None = None) -> None:
        super().__init__(None, None, seed)

    @property
    def is_np_flattenable(self) -> bool:
        """Text has no fixed number of numbers."""
        return False

    def sample(self, mask: Any = None, probability: Any = None) -> dict[str, Any]:
        """A small dict with a number that is drawn."""
        return {"value": float(self.np_random.standard_normal())}

    def contains(self, x: Any) -> bool:
        """Whether ``x`` is a dict that survives JSON."""
        return isinstance(x, dict) and _is_json(x)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, JsonSpace)

    def __hash__(self) -> int:
        return hash(JsonSpace)

    def __repr__(self) -> str:
        return "JsonSpace()"


def encode(uuid: str, values: Sequence[dict[str, Any]], length: int | None) -> np.ndarray | list[str]:
    """Dicts as they go to disk: (n, length) uint8, UTF-8 and zeros behind it; or n strings where ``length`` is None.

    Raises:
        OptionError: some text does not fit; nothing is ever cut off.
    """
    texts = to_texts(uuid, values)
    if length is None:
        return [text.decode() for text in texts]
    check_lengths(uuid, texts, length)
    return np.array(texts, f"S{length}").view(np.uint8).reshape(len(texts), length)


def to_texts(
    uuid: str, values: Sequence[dict[str, Any]], envs: Sequence[int] | None = None, of_numbers: bool = False
) -> list[bytes]:
    """Dicts as JSON, in UTF-8.

    Args:
        uuid: of the sensor that reads them, for messages.
        values: one of each env.
        envs: of which envs; None for all.
        of_numbers: whether they hold nothing but lists of floats by text. This is not checked, so it is faster; that
            the floats are finite is.

    Raises:
        OptionError: some are no JSON; names the first.
    """
    values = list(values)
    # all at once is many times faster; a text has no line breaks, and there are as many as dicts unless some string or
    # list within them looks like the end of one
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
                f"{uuid!r}: what env {env} says is no JSON: keys must be strings, and values "
                f"strings, finite numbers, booleans, None, lists or dicts; got {value!r}"
            )
        texts.append(text)
    return texts


def _json(values: list[Any]) -> bytes | None:
    """What JSON holds of some values, between the brackets of their list; None if they do not come back as they are."""
    try:
        text = to_json(values)
        return text[1:-1] if from_json(text, allow_inf_nan=False) == values else None
    except ValueError:
        return None


def _json_of_numbers(values: list[Any]) -> bytes | None:
    """The same of lists of floats by text, of which only those can fail that are not finite."""
    try:
        text: bytes = to_json(values)
    except ValueError:
        return None
    return _json(values) if b"NaN" in text or b"Infinity" in text else text[1:-1]


def check_lengths(uuid: str, texts: Sequence[bytes], length: int, env: int | None = None) -> None:
    """See that texts have room in ``length`` bytes; arguments as above.

    Raises:
        OptionError: one has not.
    """
    sizes = list(map(len, texts))
    longest = max(sizes, default=0)
    if longest > length:
        raise OptionError(
            f"{uuid!r}: the text of env {sizes.index(longest) if env is None else env} needs {longest} bytes and "
            f"str_max_len is {length}; raise it to {longest} or more, or set it to None for strings of any length"
        )


def decode(stored: np.ndarray | Sequence[str]) -> list[dict[str, Any]]:
    """The dicts that :func:`encode` was given."""
    if isinstance(stored, np.ndarray) and stored.dtype == np.uint8:
        return [json.loads(row.tobytes().rstrip(b"\0").decode("utf-8")) for row in stored]
    return [json.loads(text) for text in stored]


def _is_json(x: Any) -> bool:
    if isinstance(x, dict):
        return all(isinstance(key, str) and _is_json(value) for key, value in x.items())
    if isinstance(x, list):
        return all(map(_is_json, x))
    if isinstance(x, str):
        return not any("\ud800" <= letter <= "\udfff" for letter in x)  # which have no UTF-8
    return x is None or isinstance(x, bool | int) or (isinstance(x, float) and math.isfinite(x))
