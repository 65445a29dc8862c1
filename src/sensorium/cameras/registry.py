"""The registry from which a renderer is chosen by name.

A renderer is added by :func:`register_renderer`, or by an installed package with an entry point of the group
:data:`ENTRY_POINTS`, whose name is that of the renderer and whose value is "module:Class"::

    [project.entry-points."sensorium.renderers"]
    silhouette = "silhouette:SilhouetteRenderer"

Installed packages are searched when a name is not registered. The module of a renderer is imported when a scene first
uses it.
"""

from __future__ import annotations

import importlib
import operator
from dataclasses import dataclass

import torch

from sensorium._arguments import checked
from sensorium.cameras.renderer import Renderer
from sensorium.errors import DeviceError, OptionError, did_you_mean

ENTRY_POINTS = "sensorium.renderers"
"""Group of entry points that renderers of other packages have."""

_MEMBERS = ("name", "outputs", "max_resolution", "missing", "build", "render", "close")
"""What the class of a renderer must have; see :class:`~sensorium.cameras.renderer.Renderer`."""


@dataclass(frozen=True)
class RendererChoice:
    """The renderer that was chosen, and why."""

    name: str
    why: str

    def __str__(self) -> str:
        return f"{self.name} ({self.why})"


@dataclass(frozen=True)
class _RendererEntry:
    module: str
    cls: str
    install: str


_REGISTRY: dict[str, _RendererEntry] = {}


@checked
def register_renderer(name: str, module: str, cls: str, install: str) -> None:
    """Register a renderer, so that ``sn.Camera(renderer=name)`` uses it.

    Args:
        name: name of the renderer.
        module: module that defines the renderer; it is imported when a scene first uses it.
        cls: name of the class in ``module`` that implements :class:`Renderer`.
        install: command or hint that installs what the renderer needs; error messages show it.
    """
    _REGISTRY[name] = _RendererEntry(module, cls, install)


register_renderer("raster", "sensorium.cameras.raster", "RasterRenderer", "apt install libegl1 libgl1 (or libosmesa6)")
register_renderer("batch", "sensorium.cameras.batch", "BatchRenderer", "pip install mujoco-warp")
register_renderer("pathtrace", "sensorium.cameras.pathtrace", "PathtraceRenderer", "pip install 'sensorium[photoreal]'")


def check_renderer(name: str) -> None:
    """Check that a renderer of this name is registered or installed, or that it is "auto".

    Raises:
        OptionError: there is none, or several packages have one.
    """
    if name == "auto" or name in _REGISTRY:
        return
    installed = _installed_renderers()
    found = installed.get(name, {})
    if len(found) > 1:
        packages = ", ".join(map(repr, sorted(found)))
        raise OptionError(f"renderer {name!r} exists in several packages: {packages}; uninstall all but one of them")
    if not found:
        names = ["auto", *_REGISTRY, *installed]
        allowed = ", ".join(map(repr, names))
        raise OptionError(f"renderer must be one of {allowed}, got {name!r}{did_you_mean(name, names)}")
    ((package, (module, cls)),) = found.items()
    register_renderer(name, module, cls, f"reinstall the package {package!r}")


def _installed_renderers() -> dict[str, dict[str, tuple[str, str]]]:
    """Return the renderers of installed packages: name -> package -> module and class."""
    from importlib.metadata import entry_points  # takes some milliseconds, which most programs do not need

    found: dict[str, dict[str, tuple[str, str]]] = {}
    for point in entry_points(group=ENTRY_POINTS):
        package = point.value if point.dist is None else point.dist.name
        found.setdefault(point.name, {})[package] = (point.module, point.attr)
    return found


def choose_renderer(name: str, device: torch.device) -> tuple[type[Renderer], RendererChoice]:
    """Return a renderer by name; for "auto" the first that runs here.

    Args:
        name: name of a renderer, or "auto", which tries ``batch`` before ``raster`` on a GPU, and ``raster`` before
            ``batch`` on a CPU.
        device: device of the world.

    Raises:
        OptionError: there is no renderer of that name, or its class lacks a member of the protocol.
        DeviceError: no renderer runs here; the message lists what was tried and what to install.
    """
    check_renderer(name)
    if name != "auto":
        cls, why = _load(name, device)
        if cls is None:
            raise DeviceError(f"renderer {name!r} does not run here: {why}; to fix it: {_REGISTRY[name].install}")
        return cls, RendererChoice(name, "set by the camera's options")
    order = ("batch", "raster") if device.type == "cuda" else ("raster", "batch")
    tried: list[str] = []
    for candidate in order:
        cls, why = _load(candidate, device)
        if cls is not None:
            reason = f"since {'; '.join(tried)}" if tried else f"first choice on {device.type}"
            return cls, RendererChoice(candidate, reason)
        tried.append(f"{candidate} does not run: {why}")
    installs = "; or ".join(_REGISTRY[candidate].install for candidate in order)
    raise DeviceError(f"no renderer for cameras runs here: {'; '.join(tried)}. To fix it: {installs}")


def _load(name: str, device: torch.device) -> tuple[type[Renderer] | None, str]:
    entry = _REGISTRY[name]
    try:
        module = importlib.import_module(entry.module)
    except ImportError as error:
        return None, str(error)
    try:
        cls: type[Renderer] = operator.attrgetter(entry.cls)(module)
    except AttributeError as error:
        return None, str(error)
    if absent := [member for member in _MEMBERS if not hasattr(cls, member)]:
        raise OptionError(
            f"renderer {name!r}: {entry.module}.{entry.cls} lacks {', '.join(absent)}; define what "
            "sensorium.cameras.Renderer has"
        )
    why = cls.missing(device)
    return (cls, "") if why is None else (None, why)
