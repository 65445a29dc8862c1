"""``run_folder``: the folder of a training while it runs: checked, made and locked."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Set
from contextlib import contextmanager
from pathlib import Path

from sensorium.errors import DatasetError, OptionError, did_you_mean
from sensorium.files import PART, lock_folder, made_folder, written_name
from sensorium.links import refuse_foreign_links
from sensorium.options import Options
from sensorium.training.options import CONFIG

_WHICH = ("best", "last")


@contextmanager
def run_folder(
    folder: Path, resume: bool, options: Options, load: Callable[[Path], Options], free: Set[str]
) -> Iterator[None]:
    """Lock the folder of a training during a block. A new folder is made, and removed if it stays empty.

    A training that was killed before it had written its options begins again, also with ``resume``.

    Args:
        folder: a new folder, or with ``resume`` one that holds a training.
        resume: whether the training continues.
        options: options of the training.
        load: returns the options that a folder holds.
        free: names of options that may change on resume.

    Raises:
        OptionError: the folder is not empty, or its training has other options.
        DatasetError: the folder holds no training to resume.
    """
    begun = folder.is_dir() and {written_name(entry.name) for entry in folder.iterdir()} == {CONFIG}  # and killed there
    if resume and not begun:
        try:
            before = load(folder)
        except DatasetError as error:
            if (folder / CONFIG).is_file():
                raise
            raise DatasetError(f"{error}; to begin one, train without --resume") from None
        _check_same(options, before, free)
        # "last" is written after a checkpoint
        if (folder / "last").is_dir() and not any((folder / "checkpoints").glob("[0-9]*")):
            raise DatasetError(
                f"{folder} cannot be resumed: it has no checkpoints, without which the training would begin again and "
                "replace its evaluations and policies; restore the folder, or train in a new one"
            )
    elif folder.exists() and (not folder.is_dir() or any(folder.iterdir())) and not begun:
        if (folder / CONFIG).is_file():
            raise OptionError(f"{folder} holds a training already: resume it (--resume), or train in a new folder")
        raise OptionError(f"{folder} is not empty and holds no training; train in a new folder")
    with made_folder(folder), lock_folder(folder):
        refuse_foreign_links(folder)
        for part in folder.glob(f"*{PART}"):  # left by a process that was killed while it wrote
            part.unlink()
        yield


def brain_folder(folder: Path, which: str) -> Path:
    """Return the folder of a training's "best" or "last" brain.

    Raises:
        OptionError: ``which`` is neither "best" nor "last".
        DatasetError: the training has no such brain yet.
    """
    if which not in _WHICH:
        raise OptionError(f"which must be 'best' or 'last', got {which!r}{did_you_mean(which, _WHICH)}")
    path = folder / which
    other = ", or use the newest brain with --which last" if which == "best" and (folder / "last").is_dir() else ""
    if not path.is_dir() or not any(path.iterdir()):
        raise DatasetError(f"{folder} has no {which} brain yet: continue the training with --resume{other}")
    return path


def _check_same(new: Options, old: Options, free: Set[str]) -> None:
    one, other = (each.model_dump(mode="json", exclude=set(free)) for each in (new, old))
    for name, value in one.items():
        if value != other[name]:
            raise OptionError(f"{name} is {other[name]!r} in this training and cannot change on resume, got {value!r}")
