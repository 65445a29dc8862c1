"""Clone the behaviour of the planner of "pick" from generated episodes, and evaluate the clone in the task.

python examples/imitate.py --out out/imitate
"""

from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np
import torch
import tyro
from torch import nn

import sensorium as sn

INPUTS = ("tcp_pose", "qpos", "object_poses.pickup_obj")
"""What the clone sees: its tool, its joints, and the true pose of the object, all in the frame of its base."""

CHUNK = 32
"""Number of actions that the clone predicts at once."""


@dataclass
class Options:
    """Options of the example."""

    out: Path = Path("out/imitate")
    """Folder of the dataset; an existing one is completed."""
    episodes: int = 160
    """Episodes to learn from."""
    epochs: int = 40
    """Passes over all steps."""
    trials: int = 64
    """Episodes to evaluate, of another seed."""


def clone(folder: Path, epochs: int) -> nn.Module:
    """Return a network from observations to the next actions, trained on the steps of a dataset."""
    data = sn.datasets.TorchDataset(folder, INPUTS, delta_timestamps={"action": [0.02 * step for step in range(CHUNK)]})
    steps = next(iter(torch.utils.data.DataLoader(data, batch_size=len(data))))  # numbers alone fit into memory
    inputs, actions = torch.cat([steps[name].flatten(1) for name in INPUTS], 1), steps["action"].flatten(1)
    torch.manual_seed(0)
    sizes = (inputs.shape[1], 256, 256, 256)
    layers = [layer for pair in pairwise(sizes) for layer in (nn.Linear(*pair), nn.ReLU())]
    output = nn.Linear(actions.shape[1], actions.shape[1])  # from normalised actions to actions
    output.weight.data, output.bias.data = torch.diag(actions.std(0) + 1e-3), actions.mean(0)
    scale = output.requires_grad_(False).weight.diag()
    network = nn.Sequential(nn.BatchNorm1d(sizes[0]), *layers, nn.Linear(sizes[-1], actions.shape[1]), output)
    order, optimizer = sn.datasets.ShuffledSampler(data, seed=0), torch.optim.AdamW(network[:-1].parameters())
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 2e-3, total_steps=epochs * -(-len(data) // 256))
    for _ in range(epochs):
        for rows in torch.tensor(list(order)).split(256):
            loss = ((network(inputs[rows]) - actions[rows]) / scale).abs().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            schedule.step()
    return network.eval()


def main(options: Options) -> None:
    """Generate, clone and evaluate."""
    robot = sn.robots.make("franka", controllers={"arm": "ee_pose"})  # actions in the frame of the object's pose
    wanted = sn.generation.GenerateOptions(task="pick", robot=robot, episodes=options.episodes, envs=32)
    sn.generation.generate(wanted, options.out)
    network = clone(options.out, options.epochs)
    task = sn.tasks.make("pick", robot=robot, n_envs=options.trials, seed=1, keep_history=False)
    observation, _ = task.reset()
    while not task.is_done().all():
        parts = [observation["tcp_pose"], *observation["qpos"].values(), observation["object_poses"]["pickup_obj"]]
        chunk = network(torch.from_numpy(np.concatenate(parts, axis=1))).detach().unflatten(1, (CHUNK, -1))
        for step in range(CHUNK // 2):  # acts for half of the predicted time, then looks again
            if not task.is_done().all():
                observation, *_ = task.step(chunk[:, step])
    print(f"the clone picks up the object in {task.judge_success().mean():.0%} of {options.trials} new episodes")


if __name__ == "__main__":
    main(tyro.cli(Options))
