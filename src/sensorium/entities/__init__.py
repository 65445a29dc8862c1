"""Trainable entities: robots with their own sensors, brain and memory."""

from sensorium.entities.brain import Brain, LearningBrain, TransitionSource
from sensorium.entities.cluster_buffer import VectorizedClusterBuffer
from sensorium.entities.cluster_options import ClusterOptions
from sensorium.entities.clusters import Clusters
from sensorium.entities.entity import TrainableEntity
from sensorium.entities.experience_layout import ExperienceField, ExperienceLayout, Transitions
from sensorium.entities.memory import Memory
from sensorium.entities.sac import SACMLPBrain
from sensorium.entities.transition_builder import TransitionBuilder

__all__ = [
    "Brain",
    "ClusterOptions",
    "Clusters",
    "ExperienceField",
    "ExperienceLayout",
    "LearningBrain",
    "Memory",
    "SACMLPBrain",
    "TrainableEntity",
    "TransitionBuilder",
    "TransitionSource",
    "Transitions",
    "VectorizedClusterBuffer",
]
