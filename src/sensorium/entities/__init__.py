"""Trainable entities: robots that own their senses, brain and memory."""

from sensorium.entities.brain import Brain, LearningBrain
from sensorium.entities.cluster_buffer import ClusterOptions, VectorizedClusterBuffer
from sensorium.entities.clusters import Clusters
from sensorium.entities.entity import TrainableEntity
from sensorium.entities.experience import Experience
from sensorium.entities.layout import ExperienceField, ExperienceLayout, Transitions
from sensorium.entities.memory import Memory
from sensorium.entities.sac import SACMLPBrain

__all__ = [
    "Brain",
    "ClusterOptions",
    "Clusters",
    "Experience",
    "ExperienceField",
    "ExperienceLayout",
    "LearningBrain",
    "Memory",
    "SACMLPBrain",
    "TrainableEntity",
    "Transitions",
    "VectorizedClusterBuffer",
]
