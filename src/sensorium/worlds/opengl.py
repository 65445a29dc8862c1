"""OpenGL without a window, by the first way that works on this machine."""

from __future__ import annotations

import importlib
import os
import sys
import warnings
from typing import Any

from sensorium.errors import DeviceError

INSTALL = (
    "install libegl1 and libgl1 (apt install libegl1 libgl1), or libosmesa6"
    if sys.platform == "linux"
    else "run in a session with a display, or use a machine with Linux"
)
_PLATFORM = "PYOPENGL_PLATFORM"


def make_context(width: int, height: int) -> tuple[Any, str]:
    """An OpenGL context that is current in this thread, and the way by which it was made ("egl", "osmesa", "glfw").

    Raises:
        DeviceError: none can be made; lists what was tried.
    """
    tried = []
    for way in ("egl", "osmesa", "glfw"):
        platform, loaded = os.environ.get(_PLATFORM), set(sys.modules)
        try:
            return _try(way, width, height), way
        except Exception as error:  # each fails in its own way where its library is missing
            missing = isinstance(error, AttributeError | ImportError | OSError)
            tried.append(f"{way}: {'its library does not load' if missing else error}")
            _forget(platform, loaded)
    raise DeviceError(f"no OpenGL for pictures ({'; '.join(tried)}); {INSTALL}")


def _try(way: str, width: int, height: int) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        context = importlib.import_module(f"mujoco.{way}").GLContext(width, height)
        # GLFW gives no window, and no error, where there is no display; MuJoCo's class has no public way to ask (4.0.0)
        if getattr(context, "_context", True) is None:
            raise DeviceError("no display")
        context.make_current()
        from OpenGL import GL  # type: ignore[import-untyped]

        if not GL.glGetString(GL.GL_VERSION):
            raise DeviceError("its context does not answer")
    return context


def _forget(platform: str | None, loaded: set[str]) -> None:
    """Undo what a way that failed has chosen for the whole process, so that the next one can choose."""
    if platform is None:
        os.environ.pop(_PLATFORM, None)
    else:
        os.environ[_PLATFORM] = platform
    ours = ("OpenGL", "OpenGL_accelerate", "mujoco.egl", "mujoco.osmesa", "mujoco.glfw")
    for name in set(sys.modules) - loaded:
        if name in ours or name.startswith(tuple(f"{module}." for module in ours)):
            del sys.modules[name]
