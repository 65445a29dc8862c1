"""Training of entities: ``train(recipe("balance"), "runs/balance")``, and evaluation of what came out."""

from sensorium.training.evaluation import Evaluation, Evaluator, evaluate
from sensorium.training.options import EntityOptions, TrainOptions
from sensorium.training.recipes import RECIPES, recipe
from sensorium.training.trainer import Progress, Trained, Trainer, train

__all__ = [
    "RECIPES",
    "EntityOptions",
    "Evaluation",
    "Evaluator",
    "Progress",
    "TrainOptions",
    "Trained",
    "Trainer",
    "evaluate",
    "recipe",
    "train",
]
