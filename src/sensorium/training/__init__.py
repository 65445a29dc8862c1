"""Training of entities: ``train(recipe("balance"), "runs/balance")``, and evaluation of the result."""

from sensorium.training.evaluation import Evaluation, Evaluator, evaluate, load_brain
from sensorium.training.options import EntityOptions, TrainOptions
from sensorium.training.play import play, watch
from sensorium.training.policy_file import export_policy
from sensorium.training.ppo import PPOTrainer, train_ppo
from sensorium.training.ppo_brain import PPOBrain
from sensorium.training.ppo_evaluation import evaluate_ppo, load_policy
from sensorium.training.ppo_options import PPOOptions
from sensorium.training.ppo_recipes import PPO_RECIPES, ppo_recipe
from sensorium.training.progress_lines import progress_lines
from sensorium.training.recipes import RECIPES, recipe
from sensorium.training.trainer import Progress, Trainer, TrainResult, train

__all__ = [
    "PPO_RECIPES",
    "RECIPES",
    "EntityOptions",
    "Evaluation",
    "Evaluator",
    "PPOBrain",
    "PPOOptions",
    "PPOTrainer",
    "Progress",
    "TrainOptions",
    "TrainResult",
    "Trainer",
    "evaluate",
    "evaluate_ppo",
    "export_policy",
    "load_brain",
    "load_policy",
    "play",
    "ppo_recipe",
    "progress_lines",
    "recipe",
    "train",
    "train_ppo",
    "watch",
]
