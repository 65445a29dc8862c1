"""Trainable entities: what a robot remembers, and how many of them share it."""

from sensorium.entities.cluster_buffer import ClusterOptions, VectorizedClusterBuffer
from sensorium.entities.clusters import Clusters
from sensorium.entities.layout import Field, Layout, Transitions
from sensorium.entities.memory import Memory

__all__ = ["ClusterOptions", "Clusters", "Field", "Layout", "Memory", "Transitions", "VectorizedClusterBuffer"]
