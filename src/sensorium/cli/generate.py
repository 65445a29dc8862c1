"""``sensorium generate``: generate a dataset of a task's episodes."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import tyro

from sensorium.cli.arguments import default, parse_options, parse_pair
from sensorium.cli.progress import NOTHING_KEPT, status_progress
from sensorium.errors import OptionError, did_you_mean, shorten

if TYPE_CHECKING:
    from sensorium.generation.ledger import Ledger


_CAMERA_FILES = (".yaml", ".yml", ".json")


@dataclass
class Generate:
    """Generate a dataset of episodes of a task.

    Writes one HDF5 file per episode, and one video per camera.

    Run the same command again to resume an interrupted generation, or to add episodes.

    Examples:
        sensorium generate pick --episodes 8 --envs 4 --workers 2 --out data/pick
        sensorium generate pick --cameras front wrist --depth --out data/pick-images
        sensorium generate pick --cameras front --camera-option profile=rgbd rate=30 --out data/pick-real
        sensorium generate pick --option max_steps=300 --out data/pick-short
        sensorium generate nav_to_obj --rig my_rig.yaml --out data/nav
        sensorium generate balance --policy runs/balance --out data/balance
        sensorium generate walk --policy runs/walk --out data/walk
        sensorium generate my_task --module my_tasks.py --policy my_tasks:act --out data/own
    """

    task: Annotated[str, tyro.conf.Positional]
    """Name of the task: pick, pick_and_place, ..."""
    out: Path
    """Output folder. A dataset of the same options in it is completed."""
    robot: Annotated[str | None, default("that of the policy, or the task's own robot")] = None
    """Name of the robot."""
    rig: Annotated[Path | None, default("the robot's own sensors")] = None
    """YAML file of the robot's sensors."""
    policy: str = "planner"
    """Policy: planner or random, the folder of a training, an ONNX file, or module:name of your own policy."""
    modules: Annotated[tuple[str, ...], default("none", aliases=("--module",))] = ()
    """Python files to import first, with tasks, robots and policies of your own, or names of installed modules. The
    working folder is not searched."""
    episodes: int = 10
    """Number of episodes to keep: the first ones that succeed."""
    envs: int = 4
    """Number of envs that each process simulates in parallel."""
    workers: int = 1
    """Number of processes."""
    seed: int = 0
    """Seed of all randomness."""
    cameras: Annotated[tuple[str, ...], default("no cameras")] = ()
    """Cameras to record: names of the task's views (front, side, wrist), and YAML or JSON files of cameras."""
    resolution: tuple[int, int] = (640, 368)
    """Width and height of the images of the views in pixels."""
    rig_cameras: Annotated[bool | None, default("only those of a --rig file")] = None
    """Record the cameras of the robot's own rig."""
    depth: bool = False
    """Record depth images of the views too."""
    camera_option: Annotated[tuple[str, ...], default("ideal cameras")] = ()
    """Options of all cameras as name=value, e.g. profile=rgbd rate=30, or of one camera as camera.name=value, e.g.
    wrist.delay=0.05. Values are JSON or text."""
    option: Annotated[tuple[str, ...], default("the task's defaults")] = ()
    """Options of the task as name=value, e.g. max_steps=300, or randomize.lights=0.3 for one key of an option. Values
    are JSON or text."""
    successes_only: Annotated[bool | None, default("yes, but not for --policy random")] = None
    """Count only episodes that succeed; otherwise the dataset holds every episode."""
    keep_failed: bool = False
    """Keep failed episodes in the subfolder "failed"."""
    max_attempts: Annotated[int | None, default("10 times --episodes, plus --envs")] = None
    """Maximum number of episodes to try."""
    cluster: Annotated[str | None, default("run on this machine")] = None
    """Address of a Ray cluster, e.g. ray://head:10001 or auto; "local" starts one on this machine."""

    def run(self) -> int:
        """Generate with a progress bar."""
        from sensorium.generation import GenerateOptions, generate
        from sensorium.robots import SensorRig
        from sensorium.tasks import names
        from sensorium.tasks.checks import check_names
        from sensorium.user_modules import import_modules

        import_modules(self.modules)
        check_names("task", [self.task], names())  # before anything is written
        task_options = parse_options("--option", self.option)
        if self.rig_cameras is not None:
            task_options["rig_cameras"] = self.rig_cameras
        if self.cameras:
            pairs = [parse_pair("--camera-option", text) for text in self.camera_option]
            task_options["cameras"] = _add_options(self._cameras(), pairs)
        elif self.camera_option:
            raise OptionError("--camera-option needs --cameras")
        chosen: dict[str, Any] = {} if self.successes_only is None else {"successes_only": self.successes_only}
        options = GenerateOptions(
            task=self.task,
            robot=self.robot or "",
            policy=self.policy,
            modules=self.modules,
            rig=None if self.rig is None else SensorRig.load(self.rig),
            episodes=self.episodes,
            envs=self.envs,
            seed=self.seed,
            options=task_options,
            keep_failed=self.keep_failed,
            max_attempts=self.max_attempts,
            **chosen,
        )
        start = time.monotonic()
        with status_progress("episodes", self.episodes) as show:
            result = generate(
                options,
                self.out,
                workers=self.workers,
                cluster=self.cluster,
                progress=lambda ledger, steps: show(ledger.successes, _status(ledger, steps, time.monotonic() - start)),
            )
        kept = "succeeded" if options.successes_only else "are kept"
        print(
            f"{result.folder}: {result.episodes} episodes; tried {result.made} in this run, {result.success_rate:.0%} "
            f"of all attempts {kept}; {result.env_steps / max(result.seconds, 1e-9):,.0f} env-steps/s"
        )
        return 0

    @property
    def interrupted(self) -> str:
        """What an interrupted generation keeps."""
        if not self.out.exists():
            return NOTHING_KEPT
        return f"the finished episodes in {self.out} are kept; run the same command again to go on"

    def _cameras(self) -> list[dict[str, Any]]:
        """Return the options of the cameras, of views and files."""
        from sensorium import tasks

        cameras: list[dict[str, Any]] = []
        for name in self.cameras:
            if name.endswith(_CAMERA_FILES):
                cameras += tasks.load_cameras(name)
            else:
                cameras += tasks.camera_views([name], self.resolution, self.depth)
        return cameras


def _add_options(cameras: list[dict[str, Any]], pairs: list[tuple[str, Any]]) -> list[dict[str, Any]]:
    """Return the options of cameras with further ones: those of one camera are named CAMERA.OPTION."""
    names = [str(camera.get("name")) for camera in cameras]
    for option, _ in pairs:
        camera, dot, _ = option.rpartition(".")
        if dot and camera not in names:
            hint = did_you_mean(camera, names) or f"; there are {shorten(names)}"
            raise OptionError(f"--camera-option {option}: there is no camera {camera!r}{hint}")
    general = {option: value for option, value in pairs if "." not in option}
    return [
        {
            **camera,
            **general,
            **{option.rpartition(".")[2]: value for option, value in pairs if option.rpartition(".")[0] == name},
        }
        for name, camera in zip(names, cameras, strict=True)
    ]


def _status(ledger: Ledger, env_steps: int, seconds: float) -> str:
    """Return the text beside the bar: success rate and speed."""
    tried = len(ledger.done)
    rate = f"{ledger.successes / tried:.0%} succeed" if tried else ""
    return f"{rate}  {env_steps / max(seconds, 1e-9):,.0f} env-steps/s"
