"""``sensorium replay``: sense a recording again."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import tyro

import sensorium as sn
from sensorium.cli.arguments import default
from sensorium.cli.progress import NOTHING_KEPT, progress
from sensorium.user_modules import import_modules

if TYPE_CHECKING:
    from sensorium.recording.camera_changes import ImageKind

_SENSOR_FILES = (".yaml", ".yml", ".json")


@dataclass
class Replay:
    """Sense a recording again, with the same or other sensors.

    Takes the recorded scene through all steps, and writes the readings and images as another recording.

    An interrupted replay, e.g. by Ctrl-C, continues with --resume and the same options.

    Examples:
        sensorium replay runs/a --out runs/a-seen --rgb --depth --interval 5
        sensorium replay runs/a --out runs/a-seen --rgb --depth --interval 5 --resume
        sensorium replay runs/a --out runs/a-top --rgb --cameras top_camera.yaml
        sensorium replay runs/a --out runs/a-lidar --sensors lidar.yaml --only-sensors
    """

    source: Annotated[Path, tyro.conf.Positional]
    """Folder of the recording."""
    out: Path
    """Output folder. It must be new or empty."""
    rgb: bool = False
    """Render colour images."""
    depth: bool = False
    """Render depth images, in metres."""
    segmentation: bool = False
    """Render body and geom ids."""
    instance_segmentation: bool = False
    """Render entity numbers."""
    normals: bool = False
    """Render surface normals."""
    renderer: Annotated[str | None, default("as recorded")] = None
    """Renderer of all cameras: raster, batch or pathtrace."""
    resolution: Annotated[tuple[int, int] | None, default("as recorded", metavar="W H")] = None
    """Width and height of all images in pixels."""
    cameras: Annotated[list[str], default("all")] = field(default_factory=list)
    """Names of the cameras to render, and YAML or JSON files of additional cameras."""
    sensors: Annotated[list[Path], default("none")] = field(default_factory=list)
    """YAML or JSON files of additional sensors, or rig files as for `record --rig`. One with the uuid or the rig name
    of a recorded sensor replaces it."""
    only_sensors: bool = False
    """Remove the recorded sensors and cameras that no file replaces."""
    device: Annotated[str | None, default("as recorded")] = None
    """Device on which to sense: cpu or cuda."""
    interval: int = 1
    """Number of steps from one frame to the next."""
    max_frames: Annotated[int | None, default("no limit")] = None
    """Maximum number of frames."""
    resume: bool = False
    """Continue an interrupted replay."""
    overwrite: bool = False
    """Replace a recording in the output folder."""
    workers: int = 1
    """Number of processes that share the frames."""
    modules: Annotated[list[str], default("none", aliases=("--module",))] = field(default_factory=list)
    """Python files to import first, with your own sensors that the recording uses, or names of installed modules. The
    working folder is not searched."""

    def run(self) -> int:
        """Replay with a progress bar."""
        import_modules(self.modules)
        options = self._options()
        total = len(sn.recording.Recording(self.source).source_steps[:: self.interval][: self.max_frames])
        with progress("replaying", total, "frames") as advance:
            replayed = sn.recording.replay(
                self.source,
                self.out,
                options,
                resume=self.resume,
                overwrite=self.overwrite,
                workers=self.workers,
                progress=advance,
            )
        images = f", images of {', '.join(replayed.images)}" if replayed.images else ""
        print(f"{self.out}: {len(replayed)} frames of {replayed.n_envs} envs{images}")
        return 0

    @property
    def interrupted(self) -> str:
        """What an interrupted replay keeps."""
        if not self.out.exists():
            return NOTHING_KEPT
        return f"the complete frames in {self.out} are kept; continue with --resume"

    def _options(self) -> sn.recording.ReplayOptions:
        kinds: dict[ImageKind, bool] = {
            "rgb": self.rgb,
            "depth": self.depth,
            "segmentation": self.segmentation,
            "instance": self.instance_segmentation,
            "normals": self.normals,
        }
        files = [Path(name) for name in self.cameras if name.endswith(_SENSOR_FILES)]
        added = [sensor for file in (*files, *self.sensors) for sensor in sn.recording.load_sensors(file, self.source)]
        names = [name for name in self.cameras if not name.endswith(_SENSOR_FILES)]
        if names:  # render the cameras of the files as well
            names += [sensor.uuid or "camera" for sensor in added if isinstance(sensor, sn.Camera)]
        chosen: dict[str, Any] = {"cameras": tuple(names)} if names else {}
        return sn.recording.ReplayOptions(
            images=tuple(kind for kind, on in kinds.items() if on),
            sensors=tuple(added),
            only_sensors=self.only_sensors,
            device=self.device,
            renderer=self.renderer,
            resolution=self.resolution,
            interval=self.interval,
            max_frames=self.max_frames,
            **chosen,
        )
