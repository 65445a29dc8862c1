"""Cameras and the renderers behind them."""

from sensorium.cameras.camera import CameraSensor
from sensorium.cameras.geometry import look_at, project
from sensorium.cameras.images import CameraData
from sensorium.cameras.options import BatchRendererCamera, Camera, RasterizerCamera, RaytracerCamera
from sensorium.cameras.picking import Picked
from sensorium.cameras.profile import CameraProfile
from sensorium.cameras.randomize import randomize_look
from sensorium.cameras.renderer import Choice, Look, Renderer, View, register

__all__ = [
    "BatchRendererCamera",
    "Camera",
    "CameraData",
    "CameraProfile",
    "CameraSensor",
    "Choice",
    "Look",
    "Picked",
    "RasterizerCamera",
    "RaytracerCamera",
    "Renderer",
    "View",
    "look_at",
    "project",
    "randomize_look",
    "register",
]
