"""OpenGL without a window, by the first way that works on this machine."""

from __future__ import annotations

import importlib
import warnings
from typing import Any

from sensorium.errors import DeviceError

INSTALL = "install libegl1 and libgl1 (apt install libegl1 libgl1), or libosmesa6"


def make_context(width: int, height: int) -> tuple[Any, str]:
    """An OpenGL context that is current in this thread, and the way by which it was made ("egl", "osmesa", "glfw").

    Raises:
        DeviceError: none can be made; lists what was tried.
    """
    tried = []
    for way in ("egl", "osmesa", "glfw"):
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                context = importlib.import_module(f"mujoco.{way}").GLContext(width, height)
                context.make_current()
            return context, way
        except Exception as error:  # each fails in its own way where its library is missing
            tried.append(f"{way}: {error}")
    raise DeviceError(f"no OpenGL for pictures ({'; '.join(tried)}); {INSTALL}")
