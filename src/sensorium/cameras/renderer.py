"""The renderer protocol.

A renderer serves all cameras of one scene that use it. It is started once, at the end of ``scene.build()``, with one
:class:`CameraView` per camera, and fills the caches of the views on request::

    renderer.build(world, views, settings) once: contexts, meshes, textures, launch buffers
    renderer.render(views, envs)           often: these views, in these envs, from the current state of the world
    renderer.close()                       frees everything; calling it twice is harmless

Before it calls ``render``, the camera brings everything else up to date: link poses in the engine's arrays, and
``view.position`` and ``view.rotation`` of the camera in each env. Afterwards, the camera computes ``points``,
``instance`` (and ``normals``, if the renderer does not provide them) from the rendered images.

``registry.py`` finds renderers by name.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar, Literal, Protocol

import numpy as np
import torch

from sensorium.worlds import World

if TYPE_CHECKING:
    from sensorium.cameras.options import Camera
    from sensorium.worlds.environments import EnvironmentMap
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
    environments: tuple[EnvironmentMap, ...] = ()
    """Environment maps of the scene, in order. The compiled model has a skybox for each of them; which of them an env
    shows is in ``mat_texid``, see :mod:`sensorium.worlds.environments`."""
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
