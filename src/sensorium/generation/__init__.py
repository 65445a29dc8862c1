"""Generation of datasets: many episodes of a task, on one machine or a cluster."""

from sensorium.generation.generate import Generated, generate
from sensorium.generation.options import GenerateOptions

__all__ = ["GenerateOptions", "Generated", "generate"]
