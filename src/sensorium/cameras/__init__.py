"""Cameras and the renderers behind them."""

from sensorium.cameras.camera import CameraSensor
from sensorium.cameras.geometry import look_at, project
from sensorium.cameras.imager.profile import CameraProfile
from sensorium.cameras.images import CameraData
from sensorium.cameras.options import BatchRendererCamera, Camera, RasterizerCamera, RaytracerCamera
from sensorium.cameras.picking import Picked
from sensorium.cameras.randomize import randomize_look
from sensorium.cameras.renderer import CameraView, Renderer, RendererChoice, RenderSettings, register

__all__ = [
    "BatchRendererCamera",
    "Camera",
    "CameraData",
    "CameraProfile",
    "CameraSensor",
    "CameraView",
    "Picked",
    "RasterizerCamera",
    "RaytracerCamera",
    "RenderSettings",
    "Renderer",
    "RendererChoice",
    "look_at",
    "project",
    "randomize_look",
    "register",
]
