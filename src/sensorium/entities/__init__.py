"""Trainable entities: what a robot remembers, and how many of them share it."""

from sensorium.entities.layout import Field, Layout, Transitions
from sensorium.entities.memory import Memory

__all__ = ["Field", "Layout", "Memory", "Transitions"]
