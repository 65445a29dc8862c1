"""Replay: sense a recording again, with the recorded sensors or with others."""

from __future__ import annotations

import json
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from sensorium._arguments import checked
from sensorium._system import MAX_WORKERS
from sensorium.errors import DatasetError, shorten
from sensorium.files import explain_errors, lock_folder
from sensorium.links import refuse_foreign_links
from sensorium.options import checked_integer
from sensorium.recording.folder import CONFIG, STATE, missing_in, read_config
from sensorium.recording.output_folder import OutputFolder, has_step
from sensorium.recording.recording import Recording
from sensorium.recording.replay_job import Progress, ReplayJob
from sensorium.recording.replay_options import ReplayOptions
from sensorium.recording.runs import ReplayLayout, missing_runs, recover_runs, share, whole_runs
from sensorium.recording.workers import run_in_processes
from sensorium.worlds.contents import encode

__all__ = ["ReplayOptions", "replay"]


@checked
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
    """Sense a recording again, and write the result as another recording.

    Steps between frames are sensed too, so that sensors with memory read the same values as in a full replay. With the
    recorded sensors, on the CPU backend, all readings are identical to the recorded ones, to the bit. A warning is
    issued where they cannot be.

    Args:
        source: folder of the recording.
        out: output folder, new or empty.
        options: what to sense. Default: the recorded sensors, without images.
        resume: continue an interrupted replay. Complete frames are kept; frames with missing or damaged files are
            rendered again.
        overwrite: whether a recording in ``out`` may be replaced.
        workers: number of processes that share the frames.
        progress: called with the number of frames that were completed since the last call.

    Returns:
        The replay, opened for reading.

    Raises:
        OptionError: an option has an invalid value.
        NameNotFoundError: a camera does not exist.
        DatasetError: the recording is damaged, or the output folder cannot be written or resumed.

    Example:
        >>> options = sn.recording.ReplayOptions(images=("rgb",), interval=5)
        >>> sn.recording.replay("runs/a", "runs/a-seen", options).read_rgb("robot.rig.front_left", 0)
    """
    options = options or ReplayOptions()
    workers = checked_integer("workers", workers, 1, MAX_WORKERS)
    recording = Recording(source)
    folder = Path(out)
    if folder.resolve() == Path(source).resolve():
        raise DatasetError(f"cannot write a replay into {folder}, which holds its source; choose another folder")
    options_form = encode(options)
    resumed = resume and (folder / CONFIG).exists()
    if resumed:
        _check_resumed(folder, options_form, recording)
    job = ReplayJob(recording, options)  # before anything is written: it checks names and options
    try:
        _warn_of_limits(recording, job.device)
        with _locked(folder, overwrite, resumed, progress) as (lock, progress):
            if not resumed:
                with explain_errors(folder):
                    (folder / STATE).mkdir(parents=True)
                job.write_config(folder, options_form)
            layout = ReplayLayout.of(folder, read_config(folder))
            recover_runs(layout)
            whole, broken = whole_runs(layout)
            for first, count in broken:
                frames = f"frames {first} to {first + count - 1}" if count else f"the frames from {first} on"
                warnings.warn(
                    f"{folder}: files of {frames} are missing or damaged; they are rendered again", stacklevel=3
                )
            if progress is not None:
                progress(sum(count for _, count in whole))
            missing = missing_runs(whole, job.n_frames)
            shares = share(missing, workers, options.segment_frames, job.key_interval) if missing else []
            if len(shares) == 1:
                job.run(folder, shares[0], progress)
            elif shares:
                job.close()
                run_in_processes(recording, folder, options_form, shares, lock, progress)
    finally:
        job.close()
    return Recording(folder)


@contextmanager
def _locked(
    folder: Path, overwrite: bool, resumed: bool, progress: Progress | None
) -> Iterator[tuple[int, Progress | None]]:
    """Lock the output folder. A replaced recording is kept until there is a frame, and restored if there is none."""
    if resumed:
        with lock_folder(folder) as lock:
            refuse_foreign_links(folder)
            yield lock, progress
        return
    output = OutputFolder(folder, overwrite)

    def count(frames: int) -> None:
        if frames and output.replaces:
            output.commit()
        if progress is not None:
            progress(frames)

    try:
        yield output.lock, count
    except BaseException:
        if has_step(folder):
            output.release()
        else:
            output.abandon()
        raise
    output.commit()
    output.release()


def _check_resumed(folder: Path, options_form: dict[str, Any], recording: Recording) -> None:
    config = read_config(folder)
    missing = missing_in(config)
    if missing:
        raise DatasetError(
            f"{folder / CONFIG} is damaged: it lacks {shorten(missing)}, or has wrong values; use --overwrite"
        )
    header = config.get("replay")
    if header is None:
        raise DatasetError(f"{folder} is a recording, not a replay that can be resumed; choose another folder")
    defaults = encode(ReplayOptions(**{name: each.default for name, each in ReplayOptions.model_fields.items()}))
    then, now = ({**defaults["options"], **form["options"]} for form in (header["options"], options_form))
    now = json.loads(json.dumps(now))
    then = json.loads(json.dumps(then))
    if then != now:
        changed = sorted(name for name in now if then.get(name) != now[name])
        raise DatasetError(f"{folder} was begun with another {', '.join(changed)}; resume it with the same options")
    if header.get("source_created") != recording.config.get("created") or header["source_steps"] != len(recording):
        raise DatasetError(f"{folder} is a replay of another recording, {header['source']}; choose another folder")


def _warn_of_limits(recording: Recording, device: str) -> None:
    """Warn where readings will differ from the recorded ones."""
    header = recording.config.get("replay")
    if header is not None and header["interval"] > 1:
        warnings.warn(
            f"{recording.folder} has only one step in {header['interval']} of {header['source']}: sensors with memory "
            "(drift, filters, delays) will read other values; replay the original recording for exact readings",
            stacklevel=4,
        )
    recorded, now = str(recording.config["scene"]["device"]), device.split(":")[0]
    if recorded != now:
        warnings.warn(
            f"{recording.folder} was recorded on {recorded} and is replayed on {now}: readings agree to single "
            "precision at best, not to the bit",
            stacklevel=4,
        )
    if now != "cpu":
        warnings.warn(
            f"{recording.folder} is replayed on {now}, where sensors restart at every step: sensors with memory "
            "(drift, filters, delays) will read other values",
            stacklevel=4,
        )
