"""``sensorium play``: show a trained policy, as a video or in the browser."""

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
    """Show a policy of PPO as a video or in the browser.

    The images of a video have the robot, and beside it plots of what it senses (lines) and of the truth (dashed).
    --view simulates in real time and serves a page until Ctrl-C.

    Examples:
        sensorium play runs/walk --out walk.mp4
        sensorium play runs/walk --seconds 20 --which last --out walk.mp4
        sensorium play runs/walk --view
    """

    folder: Annotated[Path, tyro.conf.Positional]
    """Folder of the training."""
    out: Annotated[Path | None, default("no video")] = None
    """MP4 file to write."""
    view: bool = False
    """Show the policy in the browser instead."""
    seconds: Annotated[float | None, default("10; with --view until the page is closed")] = None
    """Simulated time in seconds."""
    seed: Annotated[int | None, default("one that the training did not use")] = None
    """Seed of the episode."""
    which: Literal["best", "last"] = "best"
    """Policy to show: best, the one of the best evaluation during training, or last."""
    port: Annotated[int | None, default("8080, or the next free one")] = None
    """Port of the page of --view."""
    open_browser: bool = False
    """Open the page of --view in the browser of this machine."""
    modules: Annotated[tuple[str, ...], default("none", aliases=("--module",))] = ()
    """Python files to import first, with tasks and robots of your own, or names of installed modules. The
    working folder is not searched."""

    def run(self) -> int:
        """Run the policy, and write the video or serve the page."""
        from sensorium.user_modules import import_modules

        import_modules(self.modules)
        from sensorium.errors import OptionError
        from sensorium.training import watch
        from sensorium.training.ppo_options import is_ppo

        if self.seconds is not None:
            check_min("seconds", self.seconds, 0.0)
        if (self.out is None) != self.view:
            raise OptionError("give one of --out FILE.mp4, for a video, and --view, for a page in the browser")
        if not is_ppo(self.folder):
            raise OptionError(f"{self.folder} holds no training by PPO; train one with `sensorium train walk`")
        if self.out is not None:
            self._write(self.out, 10.0 if self.seconds is None else self.seconds)
            return 0
        watch(self.folder, self.seconds, self.which, self.seed, port=self.port, open_browser=self.open_browser)
        return 0

    @property
    def interrupted(self) -> str:
        """What the end of the command closes."""
        return "the page is closed" if self.view else "no video was written; run the same command again"

    def _write(self, out: Path, seconds: float) -> None:
        """Write the video."""
        from sensorium.datasets.image_formats import ImageEncoding
        from sensorium.datasets.video_streams import VideoStream
        from sensorium.errors import OptionError
        from sensorium.files import made_folder, remove_leftovers
        from sensorium.training import PPOOptions, play
        from sensorium.training.play import steps_per_image

        if out.suffix != ".mp4":
            raise OptionError(f"--out must be a file that ends with .mp4, got {out}")
        dt = float(PPOOptions.load(self.folder).make_config().dt)
        between = steps_per_image(dt) * dt
        stream: VideoStream | None = None
        try:
            count = max(1, round(seconds / between))
            with made_folder(out.parent, out), progress("images", count, "images") as advance:
                for image in play(self.folder, seconds, self.which, self.seed):
                    if stream is None:
                        form = ImageEncoding.of_kind("rgb", *image.shape[:2])
                        remove_leftovers(out)
                        stream = VideoStream(out, form, Fraction(round(1000 / between), 1000))
                    stream.write(image)
                    advance(1)
            assert stream is not None
            stream.close(out.parent)
        except BaseException:
            if stream is not None:
                stream.drop()
            raise
        print(f"{out}: {stream.count} images, {stream.count * between:.1f} s")
