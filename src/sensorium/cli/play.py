"""``sensorium play``: show a trained policy as a video."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Annotated, Literal

import tyro

from sensorium.cli.arguments import check_min, default
from sensorium.cli.progress import progress


@dataclass
class Play:
    """Show a policy that PPO trained as a video.

    The images have the robot, and beside it plots of what it senses (lines) and of the truth (dashed).

    Examples:
        sensorium play runs/walk --out walk.mp4
        sensorium play runs/walk --seconds 20 --which last --out walk.mp4
    """

    folder: Annotated[Path, tyro.conf.Positional]
    """Folder of the training."""
    out: Path
    """MP4 file to write."""
    seconds: float = 10.0
    """Simulated time in seconds."""
    seed: Annotated[int | None, default("one that the training did not use")] = None
    """Seed of the episode."""
    which: Literal["best", "last"] = "best"
    """Policy to show: best, the one of the best evaluation during training, or last."""

    def run(self) -> int:
        """Run the policy and write the video."""
        from sensorium.datasets.image_formats import ImageEncoding
        from sensorium.datasets.video_streams import VideoStream
        from sensorium.errors import OptionError
        from sensorium.training import PPOOptions, play
        from sensorium.training.play import steps_per_image
        from sensorium.training.ppo_options import is_ppo

        check_min("seconds", self.seconds, 0.0)
        if self.out.suffix != ".mp4":
            raise OptionError(f"--out must be a file that ends with .mp4, got {self.out}")
        if not is_ppo(self.folder):
            raise OptionError(f"{self.folder} holds no training by PPO; train one with `sensorium train walk`")
        dt = float(PPOOptions.load(self.folder).make_config().dt)
        between = steps_per_image(dt) * dt
        self.out.parent.mkdir(parents=True, exist_ok=True)
        stream: VideoStream | None = None
        try:
            with progress("images", max(1, round(self.seconds / between)), "images") as advance:
                for image in play(self.folder, self.seconds, self.which, self.seed):
                    if stream is None:
                        form = ImageEncoding.of_kind("rgb", *image.shape[:2])
                        stream = VideoStream(self.out, form, Fraction(round(1000 / between), 1000))
                    stream.write(image)
                    advance(1)
            assert stream is not None
            stream.close(self.out.parent)
        except BaseException:
            if stream is not None:
                stream.drop()
            raise
        print(f"{self.out}: {stream.count} images, {stream.count * between:.1f} s")
        return 0
