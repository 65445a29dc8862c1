"""Cameras, and the renderers that draw them.

========================================= =============================================================================
:class:`Camera`                           options of a camera; add one with ``scene.add_sensor(sn.Camera(...))``
:class:`RasterizerCamera`                 options of a camera that the renderer ``raster`` draws
:class:`BatchRendererCamera`              options of a camera that the renderer ``batch`` draws
:class:`RaytracerCamera`                  options of a camera that the renderer ``pathtrace`` draws
:class:`CameraSensor`                     the camera in a scene: ``read()``, ``set_pose()``, ``set_intrinsics()``, ...
:class:`CameraData`                       the images that ``read()`` returns
:class:`CameraProfile`                    lens, image sensor, shutter and compression of a real camera
:class:`PickedSurface`                    the surface that ``pick_pixel()`` returns
:func:`look_at`, :func:`project`          camera geometry
:func:`randomize_look`                    lights, colours and materials that differ per env
:func:`register_renderer`                 add a renderer of your own, which implements :class:`Renderer` with
                                          :class:`CameraView` and :class:`RenderSettings`
:class:`RendererChoice`                   which renderer draws a camera, and why
========================================= =============================================================================

Each renderer is a sub-package: ``raster``, ``batch`` and ``pathtrace``. ``imager`` applies profiles. This package holds
what they share: options, poses, the render pass, and the images of each camera.
"""

from sensorium.cameras.camera import CameraSensor
from sensorium.cameras.data import CameraData
from sensorium.cameras.geometry import look_at, project
from sensorium.cameras.imager import CameraProfile
from sensorium.cameras.options import BatchRendererCamera, Camera, RasterizerCamera, RaytracerCamera
from sensorium.cameras.picking import PickedSurface
from sensorium.cameras.randomize import randomize_look
from sensorium.cameras.registry import RendererChoice, register_renderer
from sensorium.cameras.renderer import CameraView, Renderer, RenderSettings

__all__ = [
    "BatchRendererCamera",
    "Camera",
    "CameraData",
    "CameraProfile",
    "CameraSensor",
    "CameraView",
    "PickedSurface",
    "RasterizerCamera",
    "RaytracerCamera",
    "RenderSettings",
    "Renderer",
    "RendererChoice",
    "look_at",
    "project",
    "randomize_look",
    "register_renderer",
]
