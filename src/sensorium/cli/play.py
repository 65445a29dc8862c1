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
    """Show a trained policy as a video or in the browser.

    It acts on the CPU, without exploration; its training was by PPO or by SAC.

    The images of a video have the robot, and beside it plots of what it senses (lines) and of the truth (dashed).
    --view simulates in real time and serves a page until Ctrl-C.

    Examples:
        sensorium play runs/walk --out walk.mp4
        sensorium play runs/walk --seconds 20 --which last --out walk.mp4
        sensorium play runs/walk --view
        sensorium play runs/balance --out balance.mp4
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

        if self.seconds is not None:
            check_min("seconds", self.seconds, 0.0)
        if (self.out is None) != self.view:
            raise OptionError("give one of --out FILE.mp4, for a video, and --view, for a page in the browser")
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
        from sensorium.training.play import draw_images, steps_per_image
        from sensorium.training.players import open_player

        if out.suffix != ".mp4":
            raise OptionError(f"--out must be a file that ends with .mp4, got {out}")
        stream: VideoStream | None = None
        try:
            with open_player(self.folder, self.which, self.seed) as player:
                dt = player.task.config.dt
                between = steps_per_image(dt) * dt
                count = max(1, round(seconds / between))
                with made_folder(out.parent, out), progress("images", count, "images") as advance:
                    for image in draw_images(player, seconds):
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
