"""OpenGL contexts without a window, through the first library that works: EGL, OSMesa or GLFW."""

from __future__ import annotations

import importlib
import os
import sys
import warnings
from typing import Protocol, cast

from sensorium.errors import DeviceError

INSTALL = (
    "install libegl1 and libgl1 (apt install libegl1 libgl1), or libosmesa6"
    if sys.platform == "linux"
    else "run in a session with a display, or use a machine with Linux"
)
_PLATFORM = "PYOPENGL_PLATFORM"


class GLContext(Protocol):
    """An OpenGL context of MuJoCo."""

    def make_current(self) -> None:
        """Make the context current in this thread."""
        ...

    def free(self) -> None:
        """Free the context."""
        ...


def make_context(width: int, height: int) -> tuple[GLContext, str]:
    """Create an OpenGL context and make it current in this thread.

    Returns:
        The context, and the library that provides it: "egl", "osmesa" or "glfw".

    Raises:
        DeviceError: no library works; the message lists what was tried.
    """
    tried = []
    for library in ("egl", "osmesa", "glfw"):
        platform, loaded = os.environ.get(_PLATFORM), set(sys.modules)
        try:
            return _try(library, width, height), library
        except Exception as error:  # a missing library raises different exceptions for each of them
            missing = isinstance(error, AttributeError | ImportError | OSError)
            tried.append(f"{library}: {'its library does not load' if missing else error}")
            _forget(platform, loaded)
    raise DeviceError(f"no OpenGL library works ({'; '.join(tried)}); {INSTALL}")


def _try(library: str, width: int, height: int) -> GLContext:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        context = importlib.import_module(f"mujoco.{library}").GLContext(width, height)
        # Without a display GLFW creates no window and raises no error. MuJoCo's class has no public attribute to check
        # that. Checked with MuJoCo 4.0.0.
        if getattr(context, "_context", True) is None:
            raise DeviceError("no display")
        context.make_current()
        from OpenGL import GL  # type: ignore[import-untyped]

        if not GL.glGetString(GL.GL_VERSION):
            raise DeviceError("its context reports no OpenGL version")
    return cast("GLContext", context)


def _forget(platform: str | None, loaded: set[str]) -> None:
    """Undo the process-wide choices of a library that failed, so that the next one can be tried."""
    if platform is None:
        os.environ.pop(_PLATFORM, None)
    else:
        os.environ[_PLATFORM] = platform
    ours = ("OpenGL", "OpenGL_accelerate", "mujoco.egl", "mujoco.osmesa", "mujoco.glfw")
    for name in set(sys.modules) - loaded:
        if name in ours or name.startswith(tuple(f"{module}." for module in ours)):
            del sys.modules[name]
