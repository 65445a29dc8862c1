"""ROS 2: which messages sensors are, their definitions and encoding, and MCAP files of them.

========================= =====================================================================================
:mod:`~.topics`           sensor -> topics, messages, fields, units and frames
:mod:`~.definitions`      text of the message definitions
:mod:`~.cdr`              messages to and from CDR, many at once
:class:`McapRecorder`     writes what the sensors of a scene read to an MCAP file, with capture and arrival times
========================= =====================================================================================
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sensorium.ros.recorder import McapRecorder as McapRecorder

_LAZY = {"McapRecorder": "recorder"}
__all__ = ["McapRecorder"]


def __getattr__(name: str) -> object:
    if name in _LAZY:
        return getattr(importlib.import_module(f"sensorium.ros.{_LAZY[name]}"), name)
    raise AttributeError(f"module 'sensorium.ros' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
