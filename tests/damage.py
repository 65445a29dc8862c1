"""Changes to files that keep their own checksums right, so that tests reach what lies behind."""

import json
from contextlib import contextmanager

import h5py

from sensorium.datasets.manifest import entry_of, write_manifest
from sensorium.json_files import json_with_checksum
from sensorium.recording.chunk_metadata import reserve_seal, seal_metadata


@contextmanager
def edited_json(path):
    """Yield the content of a JSON file, and write it again with its checksum."""
    content = json.loads(path.read_bytes())
    yield content
    path.write_bytes(json_with_checksum(content))


def edited_config(folder):
    """Yield the content of ``config.json`` of a recording, and write it again with its checksum."""
    return edited_json(folder / "config.json")


@contextmanager
def edited_chunk(path):
    """Yield an open chunk; the checksum of its metadata is made again, those of its steps are not."""
    with h5py.File(path, "r+") as file:
        yield file
    reserve_seal(path)
    seal_metadata(path)


def list_files(folder):
    """Write the manifest of a dataset from its files as they are."""
    write_manifest(folder, {path.stem: entry_of(folder, path.stem) for path in folder.glob("episode_*.h5")})
