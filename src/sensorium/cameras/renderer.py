"""The renderer protocol, and the registry from which a renderer is chosen.

A renderer serves all cameras of one scene that use it. It is started once, at the end of ``scene.build()``, with one
:class:`CameraView` per camera, and fills the caches of the views on request::

    renderer.build(world, views, settings) once: contexts, meshes, textures, launch buffers
    renderer.render(views, envs)           often: these views, in these envs, from the current state of the world
    renderer.close()                       frees everything; calling it twice is harmless

Before it calls ``render``, the camera brings everything else up to date: link poses in the engine's arrays, and
``view.position`` and ``view.rotation`` of the camera in each env. Afterwards, the camera computes ``points``,
``instance`` (and ``normals``, if the renderer does not provide them) from the rendered images.

:func:`register_renderer` adds a renderer by the name of its module. The module is imported when a scene first uses it.
"""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar, Literal, Protocol

import numpy as np
import torch

from sensorium.errors import DeviceError, OptionError, did_you_mean
from sensorium.worlds import World

if TYPE_CHECKING:
    from sensorium.cameras.options import Camera
    from sensorium.worlds.lights import Light

Output = Literal["rgb", "depth", "segmentation", "instance", "normals", "points"]
"""Name of an output of a camera."""
Quality = Literal["fast", "balanced", "high"]
"""How much rendering time is spent on the appearance of an image."""

BASE_OUTPUTS: dict[str, tuple[tuple[int, ...], torch.dtype]] = {
    "rgb": ((3,), torch.uint8),
    "depth": ((), torch.float32),
    "segmentation": ((2,), torch.int32),
    "normals": ((3,), torch.float32),
}
"""Outputs that a renderer can fill: name -> shape after (B, H, W), and dtype.

======================== ==============================================================================================
``rgb``                  sRGB
``depth``                metres along the optical axis; inf if there is no surface between the near and the far plane
``segmentation``         (body id, geom id), both -1 if nothing was hit; geom -1 for surfaces that are not geoms (flex,
                         skin)
``normals``              unit surface normals that face the camera, in CV camera axes; 0 if nothing was hit
======================== ==============================================================================================
"""


@dataclass
class CameraView:
    """One camera, as a renderer sees it.

    The tensors are on the world's device. Their content changes; the tensors themselves stay the same.
    """

    uuid: str
    """Name of the camera."""
    width: int
    """Pixels per row."""
    height: int
    """Number of rows."""
    near: float
    """Distance of the near plane, m."""
    far: float
    """Distance of the far plane, m."""
    position: torch.Tensor
    """Position in the world, m, (B, 3) float32."""
    rotation: torch.Tensor
    """World from camera, (B, 3, 3) float32, in GL axes: the columns are right, up and backward."""
    fx: torch.Tensor
    """Focal length along x in pixels, (B,) float32."""
    fy: torch.Tensor
    """Focal length along y in pixels, (B,) float32."""
    cx: torch.Tensor
    """Principal point, pixels from the left edge of the image, (B,); the centre of pixel i is i + 0.5."""
    cy: torch.Tensor
    """Principal point, pixels from the top edge of the image, (B,)."""
    options: Camera
    """Options of the camera, for those that only some renderers use."""
    caches: dict[str, torch.Tensor] = field(default_factory=dict)
    """Base output -> (B, H, W, ...) image to fill, top row first; see ``BASE_OUTPUTS``. The keys are the outputs that
    are enabled now. Outputs can be switched on and off at run time, so read the keys in every ``render``."""
    lens_version: int = 0
    """Counter that is incremented whenever ``fx``, ``fy``, ``cx`` or ``cy`` change. Comparing it avoids reading them
    from a GPU, which would wait for the device."""


@dataclass(frozen=True)
class RenderSettings:
    """Settings that all views of a renderer share."""

    quality: Quality | None = None
    """None: the renderer chooses, and names its choice in the text that ``build`` returns."""
    lights: tuple[Light, ...] = ()
    """Lights that ``scene.add_light`` added, in order. The compiled model has a light of the same ``name`` for each of
    them. It has no area lights: there they are point lights."""
    samples: int | None = None
    """Anti-aliasing samples per pixel; None: set by the quality."""
    seed: int = 0
    """Seed of the scene."""


class Renderer(Protocol):
    """Protocol of a renderer. The class is instantiated without arguments."""

    name: ClassVar[str]
    outputs: ClassVar[frozenset[str]]
    """Base outputs that it can fill."""
    max_resolution: ClassVar[int]
    """Maximum number of pixels along a side."""

    @classmethod
    def missing(cls, device: torch.device) -> str | None:
        """Return why it cannot run here for a world on ``device``, and what to install; None if it can run.

        Must free everything that it allocates for the check.
        """
        ...

    def build(self, world: World, views: Sequence[CameraView], settings: RenderSettings) -> str:
        """Start rendering for these views, and free everything if that fails.

        Returns:
            A few words about what it runs on, such as "EGL, llvmpipe, fast".
        """
        ...

    def render(self, views: Sequence[CameraView], envs: np.ndarray | None) -> None:
        """Fill ``view.caches`` from the current state of the world.

        Args:
            views: some or all of the views that were passed to ``build``.
            envs: sorted ids of the envs to render; None for all. The renderer may fill further envs too, since caches
                always show the current state.
        """
        ...

    def close(self) -> None:
        """Free everything."""
        ...


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


def renderer_names() -> list[str]:
    """Return the names of the registered renderers."""
    return list(_REGISTRY)


def choose_renderer(name: str, device: torch.device) -> tuple[type[Renderer], RendererChoice]:
    """Return a renderer by name; for "auto" the first that runs here.

    Args:
        name: name of a registered renderer, or "auto", which tries ``batch`` before ``raster`` on a GPU, and ``raster``
            before ``batch`` on a CPU.
        device: device of the world.

    Raises:
        OptionError: no renderer is registered under that name.
        DeviceError: no renderer runs here; the message lists what was tried and what to install.
    """
    if name != "auto":
        if name not in _REGISTRY:
            names = ["auto", *_REGISTRY]
            allowed = ", ".join(map(repr, names))
            raise OptionError(f"renderer must be one of {allowed}, got {name!r}{did_you_mean(name, names)}")
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
        cls: type[Renderer] = getattr(importlib.import_module(entry.module), entry.cls)
        why = cls.missing(device)
    except ImportError as error:
        return None, str(error)
    return (cls, "") if why is None else (None, why)
