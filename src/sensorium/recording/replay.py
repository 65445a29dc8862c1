"""Replay: a recording brought back to life and sensed again, with the same sensors or with others."""

from __future__ import annotations

import json
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from sensorium.errors import DatasetError, OptionError
from sensorium.files import named, writing
from sensorium.recording.folder import STATE, read_config
from sensorium.recording.output_folder import OutputFolder, has_step
from sensorium.recording.recording import Recording
from sensorium.recording.replay_job import Progress, ReplayJob
from sensorium.recording.replay_options import ReplayOptions
from sensorium.recording.runs import ReplayLayout, missing_runs, recover_runs, share, whole_runs
from sensorium.recording.workers import run_in_processes
from sensorium.worlds.contents import encode

__all__ = ["ReplayOptions", "replay"]


def replay(
    source: str | Path,
    out: str | Path,
    options: ReplayOptions | None = None,
    *,
    resume: bool = False,
    overwrite: bool = False,
    workers: int = 1,
    progress: Progress | None = None,
) -> Recording:
    """Sense a recording again, and write what is sensed as another one.

    Steps that lie between frames are sensed too, so that sensors that remember read what they would have read. With the
    sensors of the recording, on the CPU, the readings are the recorded ones, bit by bit; a warning says where they
    cannot be.

    Args:
        source: folder of the recording.
        out: folder to write: a new or an empty one.
        options: what to sense.
        resume: go on with a replay that was interrupted. Frames that are whole are kept; those of files that are
            missing or damaged are rendered again.
        overwrite: whether a recording in ``out`` may be replaced.
        workers: processes that share the frames.
        progress: called when further frames are whole on the disk.
    """
    options = options or ReplayOptions()
    if workers < 1:
        raise OptionError(f"workers must be at least 1, got {workers}")
    episode = Recording(source)
    folder = Path(out)
    if folder.resolve() == Path(source).resolve():
        raise DatasetError(f"a replay cannot be written into {folder}, which it is read from; give another folder")
    form = encode(options)
    resumed = resume and (folder / "config.json").exists()
    if resumed:
        _check_resumed(folder, form, episode)
    job = ReplayJob(episode, options)  # before anything is written: names and options are checked by it
    try:
        _warn_of_limits(episode, job.device)
        with _held(folder, overwrite, resumed, progress) as (lock, progress):
            if not resumed:
                with named(folder):
                    (folder / STATE).mkdir(parents=True)
                job.write_config(folder, form)
            layout = ReplayLayout.of(folder, read_config(folder))
            recover_runs(layout)
            whole, broken = whole_runs(layout)
            for first, count in broken:
                frames = f"frames {first} to {first + count - 1}" if count else f"frames from {first} on"
                warnings.warn(
                    f"{folder}: files of the {frames} are missing or damaged; they are made again", stacklevel=2
                )
            if progress is not None:
                progress(sum(count for _, count in whole))
            missing = missing_runs(whole, job.n_frames)
            shares = share(missing, workers, options.segment_frames, job.unit) if missing else []
            if len(shares) == 1:
                job.run(folder, shares[0], progress)
            elif shares:
                job.close()
                run_in_processes(episode, folder, form, shares, lock, progress)
    finally:
        job.close()
    return Recording(folder)


@contextmanager
def _held(
    folder: Path, overwrite: bool, resumed: bool, progress: Progress | None
) -> Iterator[tuple[int, Progress | None]]:
    """Hold a folder for writing. What is replaced is kept until there is a frame, and comes back if there is none."""
    if resumed:
        with writing(folder) as lock:
            yield lock, progress
        return
    place = OutputFolder(folder, overwrite)

    def count(frames: int) -> None:
        if frames and place.replaces:
            place.keep()
        if progress is not None:
            progress(frames)

    try:
        yield place.lock, count
    except BaseException:
        if has_step(folder):
            place.release()
        else:
            place.abandon()
        raise
    place.keep()
    place.release()


def _check_resumed(folder: Path, form: dict[str, Any], episode: Recording) -> None:
    config = read_config(folder).get("replay")
    if config is None:
        raise DatasetError(f"{folder} is a recording, not a replay that could be resumed; give another folder")
    if config["options"] != json.loads(json.dumps(form)):
        changed = sorted(
            name
            for name in {*config["options"]["options"], *form["options"]}
            if config["options"]["options"].get(name) != json.loads(json.dumps(form["options"].get(name)))
        )
        raise DatasetError(f"{folder} was begun with another {', '.join(changed)}; resume it with the same options")
    if config["source_created"] != episode.config.get("created") or config["source_steps"] != len(episode):
        raise DatasetError(f"{folder} is a replay of another recording, {config['source']}; give another folder")


def _warn_of_limits(episode: Recording, device: str) -> None:
    """Say where readings will not be the recorded ones, to the bit."""
    made = episode.config.get("replay")
    if made is not None and made["interval"] > 1:
        warnings.warn(
            f"{episode.folder} has one step in {made['interval']} of {made['source']}: sensors that remember (drift, "
            "filters, delays) will not read the same from it; replay that recording instead for exact readings",
            stacklevel=3,
        )
    recorded, now = str(episode.config["scene"]["device"]), device.split(":")[0]
    if recorded != now:
        warnings.warn(
            f"{episode.folder} was recorded on {recorded} and is replayed on {now}: readings agree to single precision "
            "at best, and not to the bit",
            stacklevel=3,
        )
    if now != "cpu":
        warnings.warn(
            f"{episode.folder} is replayed on {now}, where sensors start afresh at every step: those that remember "
            "(drift, filters, delays) will not read the same",
            stacklevel=3,
        )
