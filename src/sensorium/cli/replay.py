"""``sensorium replay``: sense a recording again."""

from __future__ import annotations

import importlib
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

import tyro

import sensorium as sn
from sensorium.cli.progress import gentle_end, progress

_FILES = (".yaml", ".yml", ".json")


@dataclass
class Replay:
    """Bring a recording back to life, and sense it again: with its own cameras and sensors, or with others.

    Example: sensorium replay runs/a --out runs/a-seen --rgb --depth --interval 5

    An interrupted replay (Ctrl-C too) goes on with --resume, with the same options.
    """

    source: Annotated[Path, tyro.conf.Positional]
    """The recording."""
    out: Path
    """Folder to write: a new or an empty one."""
    rgb: bool = False
    """Render colour."""
    depth: bool = False
    """Render depth."""
    segmentation: bool = False
    """Render body and geom ids."""
    instance_segmentation: bool = False
    """Render entity numbers."""
    normals: bool = False
    """Render normals."""
    renderer: str | None = None
    """Renderer of all cameras: raster, batch or pathtrace. Default: as recorded."""
    resolution: tuple[int, int] | None = None
    """Width and height of all images. Default: as recorded."""
    cameras: list[str] = field(default_factory=list)
    """Names of the cameras to render, and files (YAML or JSON) of cameras that were not there. Default: all."""
    sensors: list[Path] = field(default_factory=list)
    """Files (YAML or JSON) of further sensors; one with the uuid of a recorded one, or its name in a rig, takes its
    place."""
    only_sensors: bool = False
    """Leave out the recorded sensors and cameras, but for those that files replace."""
    device: str | None = None
    """Where to sense: cpu or cuda. Default: where it was recorded."""
    interval: int = 1
    """Every how many steps a frame is taken."""
    max_frames: int | None = None
    """How many frames at most. Default: all."""
    resume: bool = False
    """Go on with a replay that was interrupted."""
    overwrite: bool = False
    """Replace a recording in OUT."""
    workers: int = 1
    """Processes that share the frames."""
    modules: list[str] = field(default_factory=list)
    """Python modules of sensors of your own, which the recording uses."""

    def run(self) -> int:
        """Replay."""
        sys.path.insert(0, "")
        for name in self.modules:
            try:
                importlib.import_module(name)
            except ImportError as error:
                raise sn.OptionError(f"--modules {name}: {error}") from error
        kinds: dict[Any, bool] = {
            "rgb": self.rgb,
            "depth": self.depth,
            "segmentation": self.segmentation,
            "instance": self.instance_segmentation,
            "normals": self.normals,
        }
        files = [Path(name) for name in self.cameras if name.endswith(_FILES)]
        added = [one for file in (*files, *self.sensors) for one in sn.recording.load_sensors(file)]
        names = [name for name in self.cameras if not name.endswith(_FILES)]
        if names:  # those of the files are wanted as well
            names += [one.uuid or "camera" for one in added if isinstance(one, sn.Camera)]
        given: dict[str, Any] = {"cameras": tuple(names)} if names else {}
        options = sn.recording.ReplayOptions(
            images=tuple(kind for kind, on in kinds.items() if on),
            sensors=tuple(added),
            only_sensors=self.only_sensors,
            device=self.device,
            renderer=self.renderer,
            resolution=self.resolution,
            interval=self.interval,
            max_frames=self.max_frames,
            **given,
        )
        total = len(sn.recording.Recording(self.source).source_steps[:: self.interval][: self.max_frames])
        try:
            with gentle_end(), progress("replaying", total, "frames") as advance:
                episode = sn.recording.replay(
                    self.source,
                    self.out,
                    options,
                    resume=self.resume,
                    overwrite=self.overwrite,
                    workers=self.workers,
                    progress=advance,
                )
        except KeyboardInterrupt:
            print(f"{self.out}: interrupted; go on with --resume", file=sys.stderr)
            return 130
        images = f", images of {', '.join(episode.images)}" if episode.images else ""
        print(f"{self.out}: {len(episode)} frames of {episode.n_envs} envs{images}")
        return 0
