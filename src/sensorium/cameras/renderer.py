"""What a renderer is: the small protocol behind which every way of making images lies, and how one is chosen.

A renderer serves all cameras of one scene that use it. It is started once, at the end of ``scene.build()``, with one
:class:`CameraView` a camera, and fills the views' caches whenever it is asked to::

    renderer.build(world, views, look)     once: contexts, meshes, textures, launch buffers
    renderer.render(views, envs)           often: these views, in these envs, from the world's state as it is now
    renderer.close()                       free everything; twice is harmless

The camera has done all else before ``render``: poses of links are up to date in the engine's arrays, and
``view.position`` and ``view.rotation`` are those of the attached camera in each env. After it, the camera makes
``points``, ``instance`` (and ``normals``, where the renderer has none) from what was rendered.

A new renderer registers where it lives by :func:`register`; nothing of it is imported before a scene uses it.
"""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Protocol

import numpy as np
import torch

from sensorium.errors import DeviceError, OptionError, did_you_mean
from sensorium.worlds import World

if TYPE_CHECKING:
    from sensorium.cameras.options import Camera
    from sensorium.worlds.lights import Light

Output = Literal["rgb", "depth", "segmentation", "instance", "normals", "points"]
"""What a camera can give."""
Quality = Literal["fast", "balanced", "high"]
"""How much work goes into the look of an image."""

BASE_OUTPUTS: dict[str, tuple[tuple[int, ...], torch.dtype]] = {
    "rgb": ((3,), torch.uint8),
    "depth": ((), torch.float32),
    "segmentation": ((2,), torch.int32),
    "normals": ((3,), torch.float32),
}
"""What renderers fill: output -> shape after (B, H, W), and dtype.

======================== ==============================================================================================
``rgb``                  sRGB
``depth``                metres along the optical axis; inf where nothing lies between near and far plane
``segmentation``         (body id, geom id), both -1 where nothing was hit; geom -1 for what is no geom (flex, skin)
``normals``              unit normals of surfaces, facing the camera, in OpenCV camera axes; 0 where nothing was hit
======================== ==============================================================================================
"""


@dataclass
class CameraView:
    """One camera, as a renderer sees it. Tensors lie on the world's device; their content changes, they do not."""

    uuid: str
    """Name of the camera."""
    width: int
    """Pixels in a row."""
    height: int
    """Rows."""
    near: float
    """Distance of the near plane, m."""
    far: float
    """Distance of the far plane, m."""
    position: torch.Tensor
    """Where the camera is in the world, (B, 3) float32."""
    rotation: torch.Tensor
    """World from camera, (B, 3, 3) float32, in OpenGL axes: columns are right, up and backward."""
    fx: torch.Tensor
    """Focal length along x in pixels, (B,) float32."""
    fy: torch.Tensor
    """Focal length along y in pixels, (B,)."""
    cx: torch.Tensor
    """Principal point, pixels from the left edge of the image, (B,); the centre of pixel i lies at i + 0.5."""
    cy: torch.Tensor
    """Principal point, pixels from the top edge, (B,)."""
    options: Camera
    """The options of the camera, for what only some renderers know."""
    caches: dict[str, torch.Tensor] = field(default_factory=dict)
    """Base output -> (B, H, W, ...) to fill, see ``BASE_OUTPUTS``. The keys are what is wanted now: outputs can be
    switched on and off while running, so look at them in every ``render``. Rows from the top."""
    lens: int = 0
    """Goes up whenever ``fx``, ``fy``, ``cx`` or ``cy`` change: on a GPU, looking at them would wait."""


@dataclass(frozen=True)
class RenderSettings:
    """What all views of a renderer share."""

    quality: Quality | None = None
    """None: the renderer chooses by what it finds, and says so in what ``build`` returns."""
    lights: tuple[Light, ...] = ()
    """What ``scene.add_light`` added, in order. All of them are lights of the compiled model too (``name`` is the
    same), which knows no area lights: there they are points."""
    samples: int | None = None
    """Anti-aliasing samples a pixel; None: by quality."""
    seed: int = 0
    """The scene's seed."""


class Renderer(Protocol):
    """A way of making images. Its class is made without arguments."""

    name: ClassVar[str]
    outputs: ClassVar[frozenset[str]]
    """The base outputs that it can fill."""
    max_resolution: ClassVar[int]
    """The most pixels along a side."""

    @classmethod
    def missing(cls, device: torch.device) -> str | None:
        """Why it cannot run here for a world on ``device``, with what to install; None if it can. Leaves nothing."""
        ...

    def build(self, world: World, views: Sequence[CameraView], look: RenderSettings) -> str:
        """Start for these views; returns in a few words what it runs on ("EGL, llvmpipe, fast"). Leaves nothing if it
        fails."""
        ...

    def render(self, views: Sequence[CameraView], envs: np.ndarray | None) -> None:
        """Fill ``view.caches`` of these views (all of ``build``'s, or some) for the envs with these sorted ids (None:
        all). It may fill more: caches always show the world as it is now."""
        ...

    def close(self) -> None:
        """Free everything."""
        ...


@dataclass(frozen=True)
class RendererChoice:
    """Which renderer was taken, and why."""

    name: str
    why: str

    def __str__(self) -> str:
        return f"{self.name} ({self.why})"


@dataclass(frozen=True)
class _Entry:
    module: str
    cls: str
    install: str


_REGISTRY: dict[str, _Entry] = {}


def register(name: str, module: str, cls: str, install: str) -> None:
    """Make a renderer known under ``name``: class ``cls`` of ``module``, which needs what ``install`` says."""
    _REGISTRY[name] = _Entry(module, cls, install)


register("raster", "sensorium.cameras.raster.renderer", "RasterRenderer", "apt install libegl1 libgl1 (or libosmesa6)")
register("batch", "sensorium.cameras.batch.renderer", "BatchRenderer", "pip install mujoco-warp")
register("pathtrace", "sensorium.cameras.pathtrace.renderer", "PathtraceRenderer", "pip install 'sensorium[photoreal]'")


def renderer_names() -> list[str]:
    """The renderers that are registered."""
    return list(_REGISTRY)


def choose(name: str, device: torch.device) -> tuple[type[Renderer], RendererChoice]:
    """The renderer of that name, or for "auto" the first that runs here: on a GPU ``batch``, else ``raster``.

    Raises:
        OptionError: there is no renderer of that name.
        DeviceError: none runs here; lists what was tried and what to install.
    """
    if name != "auto":
        if name not in _REGISTRY:
            names = ["auto", *_REGISTRY]
            raise OptionError(f"there is no renderer {name!r}{did_you_mean(name, names)}; there are {', '.join(names)}")
        cls, why = _load(name, device)
        if cls is None:
            raise DeviceError(f"renderer {name!r} does not run here: {why}; {_REGISTRY[name].install}")
        return cls, RendererChoice(name, "asked for")
    order = ("batch", "raster") if device.type == "cuda" else ("raster", "batch")
    tried: list[str] = []
    for candidate in order:
        cls, why = _load(candidate, device)
        if cls is not None:
            reason = f"first choice on {device.type}" if not tried else f"since {'; '.join(tried)}"
            return cls, RendererChoice(candidate, reason)
        tried.append(f"{candidate} does not run: {why}")
    installs = "; or ".join(_REGISTRY[candidate].install for candidate in order)
    raise DeviceError(f"no renderer for cameras runs here: {'; '.join(tried)}. Mend one: {installs}")


def _load(name: str, device: torch.device) -> tuple[type[Renderer] | None, str]:
    entry = _REGISTRY[name]
    try:
        cls: Any = getattr(importlib.import_module(entry.module), entry.cls)
        why = cls.missing(device)
    except ImportError as error:
        return None, str(error)
    return (cls, "") if why is None else (None, why)
