"""The sensor pipeline: storage, the fused step, and the manager that runs it."""

from sensorium.pipeline.group import SensorGroup, Slots
from sensorium.pipeline.imperfections import AxisImperfections, Imperfections
from sensorium.pipeline.layout import SignalSource
from sensorium.pipeline.manager import SensorManager

__all__ = ["AxisImperfections", "Imperfections", "SensorGroup", "SensorManager", "SignalSource", "Slots"]
