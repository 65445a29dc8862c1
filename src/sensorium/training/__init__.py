"""Training of entities: ``train(recipe("balance"), "runs/balance")``, and evaluation of the result."""

from sensorium.training.evaluation import Evaluation, Evaluator, evaluate
from sensorium.training.options import EntityOptions, TrainOptions
from sensorium.training.recipes import RECIPES, recipe
from sensorium.training.trainer import Progress, Trainer, TrainResult, train

__all__ = [
    "RECIPES",
    "EntityOptions",
    "Evaluation",
    "Evaluator",
    "Progress",
    "TrainOptions",
    "TrainResult",
    "Trainer",
    "evaluate",
    "recipe",
    "train",
]
