"""Verification of a dataset while it is exported."""

from __future__ import annotations

from sensorium.datasets.dataset import Dataset, Episode
from sensorium.datasets.header import episode_name
from sensorium.datasets.manifest import MANIFEST, Manifest, damage, read_manifest
from sensorium.errors import DatasetError


def check_complete(dataset: Dataset) -> Manifest:
    """Return the checksums of a dataset.

    Raises:
        DatasetError: it has no episodes or no checksums, or episodes are missing.
    """
    folder = dataset.folder
    advice = f"run `sensorium validate {folder}`, which reports the problems"
    manifest = read_manifest(folder)
    if not len(dataset):
        raise DatasetError(f"{folder} has no episodes; generate some first")
    wanted = dataset.header["options"]["episodes"]
    if len(dataset) != wanted:
        raise DatasetError(f"{folder} has {len(dataset)} of {wanted} episodes; {advice}")
    if not manifest:
        raise DatasetError(f"{folder} has no {MANIFEST}, so it cannot be verified; {advice}")
    if sorted(map(episode_name, dataset.numbers)) != sorted(manifest):
        raise DatasetError(f"{folder} has other episodes than {MANIFEST} lists; {advice}")
    return manifest


def verified_episode(dataset: Dataset, index: int, manifest: Manifest, videos: bool = False) -> Episode:
    """Return an episode after comparing its HDF5 file, and its videos if they are read, with their checksums.

    Raises:
        DatasetError: a file is missing or damaged.
    """
    name = episode_name(dataset.numbers[index])
    files = {file: entry for file, entry in manifest[name].items() if videos or file == f"{name}.h5"}
    for problem in damage(dataset.folder, files):
        raise DatasetError(f"{problem}; run `sensorium validate {dataset.folder}`")
    return dataset[index]
