"""Tasks whose episodes run as torch code on the device of the physics, on a CPU or a GPU."""

from sensorium.tasks.tensor.balance import TensorBalance, TensorBalanceConfig
from sensorium.tasks.tensor.config import TensorTaskConfig
from sensorium.tasks.tensor.episode_draws import EpisodeDraws
from sensorium.tasks.tensor.episode_log import EpisodeLog
from sensorium.tasks.tensor.hooks import InputDescription
from sensorium.tasks.tensor.lift import Lift, LiftConfig, LiftRewards
from sensorium.tasks.tensor.model_randomization import ModelRandomization
from sensorium.tasks.tensor.reach import TensorReach, TensorReachConfig
from sensorium.tasks.tensor.shared import SharedTensorTask
from sensorium.tasks.tensor.task import TensorTask
from sensorium.tasks.tensor.walk import Walk, WalkConfig, WalkRewards
from sensorium.tasks.tensor.walk_ground import RoughGround
from sensorium.tasks.tensor.walk_randomization import WalkRandomization

__all__ = [
    "EpisodeDraws",
    "EpisodeLog",
    "InputDescription",
    "Lift",
    "LiftConfig",
    "LiftRewards",
    "ModelRandomization",
    "RoughGround",
    "SharedTensorTask",
    "TensorBalance",
    "TensorBalanceConfig",
    "TensorReach",
    "TensorReachConfig",
    "TensorTask",
    "TensorTaskConfig",
    "Walk",
    "WalkConfig",
    "WalkRandomization",
    "WalkRewards",
]
