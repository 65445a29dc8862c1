"""Generate episodes of a task, validate them, and export them to LeRobot. Needs pip install 'sensorium[export]'.

python examples/dataset_to_lerobot.py --out out/pick_dataset --episodes 4
"""

import json
from dataclasses import dataclass
from pathlib import Path

import tyro

import sensorium as sn
from sensorium.generation import GenerateOptions, generate


@dataclass
class Options:
    """Options of the example."""

    out: Path = Path("out/pick_dataset")
    """Folder of the dataset. The export goes to the same name with "-lerobot"; it must not exist."""
    episodes: int = 4
    """Episodes to generate."""
    envs: int = 2
    """Envs that are simulated together."""


def main(options: Options) -> None:
    """Generate, validate, read and export."""
    generate(
        GenerateOptions(
            task="pick",
            robot="franka",
            policy="planner",
            episodes=options.episodes,
            envs=options.envs,
            options={"cameras": sn.tasks.camera_views(("front", "wrist"), (160, 120))},
        ),
        options.out,
    )
    print(sn.datasets.validate(options.out))

    dataset = sn.datasets.Dataset(options.out)
    for episode in dataset:
        print(f"{episode.scene['instruction']}: {len(episode)} steps, {'success' if episode.success else 'failure'}")
    print(f"joint positions {dataset[0]['obs/agent/qpos'].shape}, front camera {dataset[0].video('front').shape}")

    exported = sn.datasets.export(options.out, "lerobot", options.out.with_name(f"{options.out.name}-lerobot"))
    info = json.loads((exported / "meta" / "info.json").read_text())
    counts = f"{info['total_episodes']} episodes, {info['total_frames']} frames"
    print(f"LeRobot {info['codebase_version']}: {counts} in {exported}")


if __name__ == "__main__":
    main(tyro.cli(Options))
