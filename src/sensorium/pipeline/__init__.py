"""The sensor pipeline: storage, the stages of a step, and the manager that runs them."""

from sensorium.pipeline.blocks import SignalSource
from sensorium.pipeline.group import SensorGroup
from sensorium.pipeline.imperfections import AxisImperfections, Imperfections
from sensorium.pipeline.manager import SensorManager
from sensorium.pipeline.slots import Slots

__all__ = ["AxisImperfections", "Imperfections", "SensorGroup", "SensorManager", "SignalSource", "Slots"]
