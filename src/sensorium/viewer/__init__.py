"""Viewers of a running scene: in the browser (viser), or MuJoCo's own window on a machine with a display."""

from sensorium.viewer.base import Viewer
from sensorium.viewer.control import Control
from sensorium.viewer.opening import open_viewer

__all__ = ["Control", "Viewer", "open_viewer"]
